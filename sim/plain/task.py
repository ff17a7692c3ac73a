"""Tasks and the cores that serve them, first come first served and without interruption."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from sim.clock import SERVICE
from sim.operator_plan import OperatorPlan
from sim.plain.outbox import Outbox, Places
from sim.plain.partition import (
    Bundle,
    HostView,
    InFlight,
    Letter,
    LinedUp,
    Message,
    Partition,
    PostDated,
    TaskView,
    Visit,
    Watermark,
    Work,
)
from sim.plain.views import PlaneView


class Cores:
    """Servers shared by the tasks on them.

    A free core takes the item that arrived first at the host, among the tasks of highest priority that can go on.
    Nothing is interrupted: priority only decides what begins next. The one server of a `chain` is the thread of all its
    tasks: it is also not free while something is on its way from one to another, and while one of them is stopped.
    """

    def __init__(self, count: int, chain: bool = False) -> None:
        self.free, self.chain = count, chain
        self.tasks: list[Task] = []

    def hold(self) -> None:
        """Take the thread of a chain, for one more reason."""
        self.free -= self.chain

    def let_go(self) -> None:
        """Give it back."""
        self.free += self.chain

    def dispatch(self) -> None:
        """Start services until no core is free or no task can go on."""
        # Ask for the next task each time: taking an item may end at once (a duplicate, a held tuple, a message), stop
        # the task, or start another one.
        while self.free > 0:
            task = self._next()
            if task is None:
                return
            task.take()

    def _next(self) -> Task | None:
        if len(self.tasks) == 1:  # a core of its own: no need to compare tickets
            only = self.tasks[0]
            return only if only.head_ticket() is not None else None
        first, first_turn = None, None
        for task in self.tasks:
            ticket = task.head_ticket()
            if ticket is not None:
                turn = (-task.operator.urgency, ticket)
                if first_turn is None or turn < first_turn:
                    first, first_turn = task, turn
        return first


class Passage:
    """Barriers of a checkpoint at a task where they overtake: over which channels they have come.

    `cuts` has the channel (None: all of them) and the ticket of each; `left` are to come. `begun`: the first one was
    handled, and what comes over other channels belongs to the checkpoint.
    """

    def __init__(self, token: int, channels: int) -> None:
        self.token, self.left, self.begun = token, channels, False
        self.cuts: list[tuple[TaskView | None, int]] = []

    def is_before(self, visit: Visit) -> bool:
        """Return whether a tuple that is there came before the barrier of its channel."""
        return all(visit.ticket < ticket for origin, ticket in self.cuts if origin is None or origin is visit.origin)


class Task:
    """One task: a front lane for replay and work, a queue behind it, and `threads` services at a time.

    Invariants: an item is in one place (`front`, `queue`, `serving`, `side`, `back`, or held by its partition), and no
    service begins while the outbox is not empty. A task without a service (`operator.service_ns` is None) processes
    what arrives at once: its queue is empty unless it is stopped.
    """

    def __init__(self, plane: PlaneView, operator: OperatorPlan, index: int, host: HostView, cores: Cores) -> None:
        self.plane, self.operator, self.index, self.host, self.cores = plane, operator, index, host, cores
        self.front: deque[Visit | Work | Watermark] = deque()
        self.queue: deque[Visit | Message | Watermark | Bundle] = deque()
        # (work, end at full pace) [ns], in order of start
        self.serving: dict[Visit | Work | Message | Watermark, tuple[int, int]] = {}
        self.paused_until_ns = 0  # 0: not paused, NEVER: without an end
        self.in_hand: list[Message] = []  # messages whose turn has come, while the listener handles them
        self.rules: list[tuple[int | None, int | None]] = []  # (partition, task of origin) whose tuples are held
        self.side: list[Visit] = []  # tuples that these rules hold
        self.barriers: list[Message] = []  # those that wait for their twins on other channels
        self.back: list[Visit | Message | Watermark | Bundle] = []  # items that came behind them on their channels
        self.passage: Passage | None = None  # of barriers that overtake
        self.hurried: Message | None = None  # the first of them, while a service is in progress
        self.overtaken_bytes = 0  # of in-flight data at the task that was not sent to the store yet
        self.idle_threads = operator.description.threads
        self.polled = 0  # tuples of the last poll that are not begun yet
        self.busy_ns = 0
        self.since = 0  # sendings before it was there
        self.alive = True
        self.killed = False  # alone, without its host
        self.died_ns: int | None = None  # when its host did
        self.places = Places(plane, self, operator.description.buffer)
        self.outbox = Outbox(plane, self)
        cores.tasks.append(self)

    @property
    def empty(self) -> bool:
        """Return whether nothing waits, nothing is served and nothing is left to send or withheld."""
        lanes = self.front or self.queue or self.serving or self.outbox or self.outbox.is_withholding
        return not (lanes or self.in_hand or self.side or self.back)

    @property
    def stopped(self) -> bool:
        """Return whether it may start nothing now."""
        return bool(self.paused_until_ns or self.in_hand)

    @property
    def ready(self) -> bool:
        """Return whether it can start a service."""
        return self.idle_threads > 0 and not self.stopped and not self.outbox

    def items(self) -> Iterator[Visit | Work | Message | Watermark | Bundle]:
        """Yield all that is at it: in service, in both lanes, and beside them."""
        for lane in (self.serving, self.front, self.queue, self.back, self.side):
            yield from lane

    def waiting(self) -> int:
        """Return the number of tuples in both lanes, and beside them."""
        return sum(isinstance(item, Visit) for lane in (self.front, self.queue, self.back, self.side) for item in lane)

    @property
    def death(self) -> str:
        """Return why tuples are dropped at it, if it is dead."""
        return "kill" if self.killed else "crash"

    def died_by(self, departed_ns: int) -> bool:
        """Return whether the host was dead before a transmission had left the link at `departed_ns`."""
        return self.died_ns is not None and self.died_ns <= departed_ns

    def head_ticket(self) -> int | None:
        """Return the ticket of the item that the task can start now, or None."""
        lane = self.front or self.queue
        return lane[0].ticket if lane and self.ready else None

    def arrive(self, *items: Visit | Message | Watermark | Bundle) -> None:
        """Take in tuples, messages or watermarks that have come over their channels."""
        todo = deque(items)
        while todo:
            one = todo.popleft()
            # The channel of a barrier is blocked until the barrier is aligned: later items must not overtake it.
            if any(barrier.origin is one.origin for barrier in self.barriers):
                self.back.append(one)
                if isinstance(one, Visit):
                    self.places.leave()
                continue
            one.ticket = self.host.ticket()
            if isinstance(one, Message) and one.channels and one.token <= self.plane.overtaking:
                if self.plane.overtakes(one.token):  # else it is of a checkpoint that has ended
                    self._overtaken_by(one)
                continue
            if isinstance(one, Visit):
                self.record(one)
            if isinstance(one, Message) and one.channels and not self._is_last(one):
                self.barriers.append(one)
                continue
            if isinstance(one, Message) and one.channels:
                # Items that were held back arrive right behind the barrier, before anything that comes later.
                todo.extendleft(reversed(self._let_through(one.token)))
            self._enter(one)

    def _is_last(self, barrier: Message) -> bool:
        """Return whether this one completes the oldest barrier that waits; another has to wait in turn."""
        same = [other for other in self.barriers if other.token == barrier.token]
        return 1 + len(same) >= barrier.channels and (not self.barriers or self.barriers[0].token == barrier.token)

    def _let_through(self, token: int) -> list[Visit | Message | Watermark | Bundle]:
        """Return the items that were held back, and the barriers of other tokens, which all arrive once more."""
        again = [*(other for other in self.barriers if other.token != token), *self.back]
        for item in self.back:
            if isinstance(item, Visit):
                self.places.take()  # even if none is left: the tuple gave its place back while it was held
        self.barriers, self.back = [], []
        return again

    def give_up_alignment(self) -> None:
        """Forget the oldest barrier."""
        if self.barriers:
            self.arrive(*self._let_through(self.barriers[0].token))

    # -- barriers that overtake

    def _overtaken_by(self, barrier: Message) -> None:
        """Note that a barrier has come over its channel; the first is handled between two services."""
        passage = self.passage
        if passage is None:
            passage = self.passage = Passage(barrier.token, barrier.channels)
            self._hurry(barrier.token)
        passage.cuts.append((barrier.origin, barrier.ticket))
        passage.left -= 1
        self._look_passed()

    def _hurry(self, token: int) -> None:
        """Handle the first barrier ahead of both lanes, once the service in progress has ended."""
        first = Message(token, None, turn=False, ns=0, channels=0)
        if self.serving:
            self.hurried = first
        else:
            self._take_in_hand(first)

    def _look_passed(self) -> None:
        """Say so if barriers have come over all channels."""
        passage = self.passage
        if passage and passage.begun and not passage.left:
            self.passage = None
            self._take_in_hand(Message(passage.token, None, turn=False, ns=0, channels=1))

    def let_overtake(self, token: int) -> None:
        """Let the barriers of a checkpoint that are here overtake; those of earlier ones hold nothing back any more."""
        barriers, back, self.barriers, self.back = self.barriers, self.back, [], []
        for item in back:
            if isinstance(item, Visit):
                self.places.take()
        for barrier in barriers:
            if barrier.token == token:
                self._overtaken_by(barrier)
        # One that has come over all channels and waits its turn.
        for item in [*self.queue]:
            if isinstance(item, Message) and item.channels and item.token == token:
                self.queue.remove(item)
                self.passage = Passage(token, 0)
                self.passage.cuts.append((None, item.ticket))
                self._hurry(token)
        self.arrive(*back)

    def begin_recording(self) -> None:
        """Record what waits and came before the barrier of its channel, and from now on what comes before one."""
        if self.passage is None:
            return
        for item in (*self.front, *self.queue):
            if isinstance(item, Visit) and self.passage.is_before(item):
                self.capture(item)
        self.passage.begun = True
        self._look_passed()

    def record(self, visit: Visit) -> None:
        """Record a tuple that has just come, if the barrier of its channel is still to come."""
        if self.passage and self.passage.begun and self.passage.is_before(visit):
            self.capture(visit)

    def capture(self, visit: Visit) -> None:
        """Record a tuple as in-flight data of the checkpoint that is under way."""
        visit.partition.overtaken.append(InFlight(visit.row, visit.origin, unsent=False))
        self.overtaken_bytes += visit.row.bytes

    def forget_passage(self) -> None:
        """Forget the barriers that overtake here: their checkpoint has ended, or the task."""
        self.passage, self.hurried, self.overtaken_bytes = None, None, 0

    def _enter(self, item: Visit | Message | Watermark | Bundle) -> None:
        if isinstance(item, Message) and not item.turn:
            # Out of turn: handled on arrival, whatever waits in the queue.
            self._take_in_hand(item)
            return
        if self.operator.service_ns is None and not self.stopped:
            if isinstance(item, Visit):
                self.places.leave()
            self._admit(item)
            return
        self.queue.append(item)
        self.cores.dispatch()

    def _take_in_hand(self, message: Message) -> None:
        if not self.in_hand:
            self.cores.hold()
        self.in_hand.append(message)
        self.plane.note_message(self, message)

    def go_on(self) -> None:
        """Start items that wait, as far as that is possible again."""
        if self.operator.service_ns is not None:
            self.cores.dispatch()
            return
        while not self.stopped and (self.front or self.queue):
            self.take()

    def line_up(self, token: int, while_shorter: bool, before_ns: int | None = None) -> None:
        """Send itself a message that is sent again as long as it has to wait for its turn."""
        message = Message(token, self, turn=True, ns=0, channels=0)
        message.lined_up = LinedUp(self.plane.clock.now_ns(), before_ns, while_shorter)
        self.outbox.post(Letter(message, self, 0))

    def heard(self, message: Message) -> None:
        """Go on: what the listener was told of a message is done."""
        self.in_hand.remove(message)
        if not self.in_hand:
            self.cores.let_go()
        self.go_on()

    def shares_thread(self, other: TaskView) -> bool:
        """Return whether the task is in the chain of another one."""
        return self.cores.chain and self.cores is other.cores

    def holds(self, visit: Visit) -> bool:
        """Return whether a rule holds the tuple."""
        return any(
            partition in (None, visit.partition.number) and origin in (None, visit.origin.index)
            for partition, origin in self.rules
        )

    def stops(self, partition: Partition) -> bool:
        """Return whether outputs of the partition that are due wait: it is paused, or a rule holds all that comes."""
        return bool(self.paused_until_ns) or any(
            number in (None, partition.number) and origin is None for number, origin in self.rules
        )

    def put_in_front(self, items: Sequence[Visit | Work | Watermark]) -> None:
        """Put items ahead of the queue, behind those that are already in front."""
        if self.operator.service_ns is None and not self.stopped:
            for item in items:
                self._admit(item)
            return
        self.front.extend(items)
        self.cores.dispatch()

    def put_before(self, visits: list[Visit], partition: Partition) -> None:
        """Put tuples for a partition ahead of the queue, and of those for it that are in front already."""
        later = [item for item in self.front if isinstance(item, Visit) and item.partition is partition]
        place = self.front.index(later[0]) if later else len(self.front)
        lane = [*self.front]
        self.front = deque(lane[:place])
        self.put_in_front([*visits, *lane[place:]])

    def take(self) -> None:
        """Serve, hold or drop the item whose turn has come."""
        if self.front:
            self._admit(self.front.popleft())
            return
        item = self.queue.popleft()
        if isinstance(item, Visit):
            self.places.leave()
        self._admit(item)

    def _admit(self, item: Visit | Work | Message | Watermark | Bundle) -> None:  # noqa: PLR0912 - one switch
        """Process an item whose turn has come.

        Rules, liveness and duplicates are checked here and not on arrival: they may change while the item waits. The
        order of the checks matters: a tuple for an instance that has ended is dropped even if a rule would hold it, and
        whether it is a duplicate is known only where the state is.
        """
        now = self.plane.clock.now_ns()
        if isinstance(item, Bundle):
            self.plane.open_bundle(item, self)
        elif isinstance(item, Watermark):
            item.begun = self.plane.next_number()
            self._serve(item, 0, now)
        elif isinstance(item, Work):
            self._serve(item, item.ns, now)
        elif isinstance(item, Message):
            if item.ns and self.operator.service_ns is not None:
                self._serve(item, item.ns, now)
            else:
                self._take_in_hand(item)
        elif item.partition.retired:
            self.plane.drop(item, self, "moved")
        elif self.holds(item):
            self.side.append(item)
        elif not item.partition.live or item.partition.goal is self:
            item.partition.held.append(item)
            if self.plane.plan.scenario.fault_tolerance.unaligned and not item.replayed:
                self.places.take()  # it keeps its place: what a task has in front of a barrier is bounded
        elif self.plane.drops_duplicates and item.row.id in item.partition.position:
            # Recognising a duplicate may cost time; it then occupies the task as a service does.
            cost = self.plane.plan.duplicate_ns
            if cost and self.operator.service_ns is not None:
                item.start_ns, item.refused = now, True
                self._serve(item, cost, now)
                return
            self.plane.drop(item, self, "duplicate")
        elif self.operator.service_ns is None:
            item.start_ns = now
            self._complete(item, now)
        else:
            item.start_ns = now
            work_ns = self.operator.service_ns(item.row.id) + self._poll_ns(item.row.id)
            self._serve(item, self.host.scaled(work_ns), now)

    def _poll_ns(self, first: int) -> int:
        """Count the tuple with that id among those polled; return the time of a poll if it is the first of one.

        A poll returns this tuple and all that wait, up to its limit.
        """
        if self.operator.poll_ns is None:
            return 0
        begins = not self.polled
        if begins:
            self.polled = min(self.operator.poll, 1 + self._in_lanes())
        self.polled -= 1
        return self.operator.poll_ns(first) if begins else 0

    def _in_lanes(self) -> int:
        """Return the number of tuples in both lanes."""
        return sum(isinstance(item, Visit) for lane in (self.front, self.queue) for item in lane)

    def _serve(self, item: Visit | Work | Message | Watermark, ns: int, now: int) -> None:
        self.cores.free -= 1
        self.idle_threads -= 1
        self.serving[item] = (ns, now + ns)
        if self.host.processor and not isinstance(item, Watermark):
            self.host.processor.begin(self, item, ns)
        else:
            self.plane.clock.at(now + ns, SERVICE + self.index, lambda _: self._end_at_full_pace(item, ns))

    def _end_at_full_pace(self, item: Visit | Work | Message | Watermark, ns: int) -> None:
        # The event cannot be cancelled. It is void if the host died, or if a processor took the service over since; a
        # watermark takes no work, so a processor never has it.
        if self.alive and (isinstance(item, Watermark) or not self.host.processor):
            self.end(item, ns)

    def end(self, item: Visit | Work | Message | Watermark, ns: int) -> None:
        """End the service of so much work."""
        self.cores.free += 1
        self.idle_threads += 1
        self.busy_ns += ns
        self._count(item, ns)
        if isinstance(item, Watermark):
            item.served = True  # it stays in `serving` until the services that began before it have ended
        else:
            del self.serving[item]
            if isinstance(item, Work):
                item.done()
            elif isinstance(item, Message):
                self._take_in_hand(item)
            else:
                self._complete(item, self.plane.clock.now_ns())
        # Watermarks first: windows that they end may fill the outbox, and then no service may begin. Whether the task
        # is idle is known only after the next services have begun.
        self._let_watermarks_pass()
        if self.hurried and not self.serving:
            self._take_in_hand(self.hurried)
            self.hurried = None
        self.cores.dispatch()
        self.plane.notice(self)
        self.plane.tell()

    def _count(self, item: Visit | Work | Message | Watermark, ns: int) -> None:
        """Count whose work it was."""
        if isinstance(item, (Visit, Work)) and item.partition is not None:
            item.partition.cpu_ns += ns
            item.partition.served += isinstance(item, Visit)

    def _let_watermarks_pass(self) -> None:
        """Let a watermark pass when all services that began before it, on other threads too, have ended."""
        while isinstance(first := next(iter(self.serving), None), Watermark) and first.served:
            del self.serving[first]
            self.plane.watermarks.turn(first, self)

    def _complete(self, visit: Visit, now: int) -> None:
        """Apply a tuple and emit its outputs, at the end of its service."""
        partition, row = visit.partition, visit.row
        if partition.retired:
            self.plane.drop(visit, self, "moved")
            return
        if visit.refused or (self.plane.drops_duplicates and row.id in partition.position):
            # Not seen at the begin of the service: a copy that ran on another thread was applied first.
            self.plane.drop(visit, self, "duplicate")
            return
        self.plane.recorder.visit(self, visit.arrival_ns, visit.start_ns, now)
        partition.measure(visit, now)
        # State and outputs change together, at the end of the service and within one event: a snapshot has both or
        # neither, so that exactly-once holds.
        partition.apply(row, visit.origin.operator.index)
        if self.operator.is_sink:
            self.plane.recorder.delivery(self.operator.index, row.created_ns, now)
        if self.operator.joins is not None:
            self.plane.watermarks.join(partition, row, visit.origin.operator)
        elif self.operator.windows is not None:
            self.plane.watermarks.enter(partition, row)
        elif self.operator.edges:
            outputs = self.operator.outputs(row.id, row.key, visit.origin.operator.index)
            for child, key in outputs:
                if self.operator.postpone_ns is None:
                    self.plane.emit(partition, child, row.created_ns, key, tree=row.tree, since_ns=row.since_ns)
                else:
                    born_ns = row.created_ns + self.operator.postpone_ns(child)
                    self.plane.postpone(partition, PostDated(child, born_ns, key, row.key, len(partition.applied) - 1))
            if self.operator.closes_keys:
                partition.open_keys.count_in(row.key, made=bool(outputs))
        # The ack comes after the outputs: a tree with nothing left is done.
        if self.plane.acker and row.tree:
            self.plane.acker.processed(row.tree, self)
        if visit.replayed:
            self.plane.one_replayed(partition, self)

    def crash(self, now_ns: int) -> list[Visit]:
        """Empty the task, whose host died; return the tuples that are gone with it."""
        self.died_ns = now_ns
        return self._end()

    def kill(self) -> list[Visit]:
        """Empty the task, whose host goes on; return the tuples that are gone with it."""
        self.killed = True
        # A watermark that waits for the services before it has given its core back already.
        self.cores.free += sum(not (isinstance(item, Watermark) and item.served) for item in self.serving)
        if self.host.processor:
            self.host.processor.forget(self)
        return self._end()

    def _end(self) -> list[Visit]:
        self.alive = False
        self.cores.tasks.remove(self)
        # The order of the lanes is that of the rows of `dropped`, and so a part of the specification.
        lanes = (self.serving, self.front, self.queue, self.back, self.side)
        gone = [
            visit
            for lane in lanes
            for item in lane
            for visit in (self.plane.lost(item) if isinstance(item, Bundle) else [item])
            if isinstance(visit, Visit)
        ]
        self.serving, self.front, self.queue = {}, deque(), deque()
        self.forget_passage()
        self.back, self.side, self.barriers, self.rules, self.in_hand = [], [], [], [], []
        return gone
