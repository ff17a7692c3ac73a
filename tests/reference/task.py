"""Tasks and the cores that serve them, first come first served and without interruption."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from reference.mark import Mark
from reference.outbox import Outbox, Places
from reference.partition import Bundle, Message, Partition, Visit
from sim.clock import SERVICE

if TYPE_CHECKING:
    from reference.host import Host
    from reference.world import World
    from sim.operator_plan import OperatorPlan


class Work:
    """Time that a task spends on something else than a tuple: writing a snapshot, installing a state."""

    __slots__ = ("done", "ns", "partition", "ticket")

    def __init__(self, ns: int, ticket: int, done: Callable[[], None], partition: Partition | None = None) -> None:
        self.ns, self.ticket, self.done = ns, ticket, done
        self.partition = partition  # whose snapshot is written


class Cores:
    """Servers shared by the tasks on them.

    A free one takes, of the tasks that can go on, one of the highest priority, of these the item that arrived first
    at the host.
    """

    def __init__(self, count: int) -> None:
        self.free = count
        self.tasks: list[Task] = []

    def dispatch(self) -> None:
        """Start services until no core is free or no task can go on."""
        while self.free:
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
                turn = (-task.operator.description.priority, ticket)
                if first_turn is None or turn < first_turn:
                    first, first_turn = task, turn
        return first


class Task:
    """One task: a front lane for replay and work, a queue behind it, and `threads` services at a time."""

    def __init__(self, world: World, operator: OperatorPlan, index: int, host: Host, cores: Cores) -> None:
        self.world, self.operator, self.index, self.host, self.cores = world, operator, index, host, cores
        self.front: deque[Visit | Work] = deque()
        self.queue: deque[Visit | Message | Mark | Bundle] = deque()
        # (work, end at full pace) [ns], in order of start
        self.serving: dict[Visit | Work | Message | Mark, tuple[int, int]] = {}
        self.paused_until_ns = 0  # 0: not paused, NEVER: without an end
        self.in_hand: list[Message] = []  # their turn has come, and the listener is being told
        self.rules: list[tuple[int | None, int | None]] = []  # (partition, task of origin) whose tuples are held
        self.side: list[Visit] = []  # what these rules hold
        self.barriers: list[Message] = []  # those that wait for their twins on other channels
        self.back: list[Visit | Message | Mark | Bundle] = []  # what has come behind them
        self.idle_threads = operator.description.threads
        self.busy_ns = 0
        self.alive = True
        self.died_ns: int | None = None
        self.places = Places(world, self, operator.description.buffer)
        self.outbox = Outbox(world, self)
        cores.tasks.append(self)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, nothing is served and nothing is left to send."""
        lanes = self.front or self.queue or self.serving or self.outbox
        return not (lanes or self.in_hand or self.side or self.back)

    @property
    def stopped(self) -> bool:
        """Whether it may start nothing now."""
        return bool(self.paused_until_ns or self.in_hand)

    @property
    def ready(self) -> bool:
        """Whether it can start a service."""
        return self.idle_threads > 0 and not self.stopped and not self.outbox

    def waiting(self) -> int:
        """Number of tuples in both lanes, and beside them."""
        return sum(isinstance(item, Visit) for lane in (self.front, self.queue, self.back, self.side) for item in lane)

    def died_by(self, departed_ns: int) -> bool:
        """Whether the host was dead before a transmission of this task had left the link at `departed_ns`."""
        return self.died_ns is not None and self.died_ns <= departed_ns

    def head_ticket(self) -> int | None:
        """The place in the order of arrivals of what the task can start now, or None."""
        lane = self.front or self.queue
        return lane[0].ticket if lane and self.ready else None

    def arrive(self, *items: Visit | Message | Mark | Bundle) -> None:
        """Tuples, messages or watermarks have come over their channels."""
        todo = deque(items)
        while todo:
            one = todo.popleft()
            if any(barrier.origin is one.origin for barrier in self.barriers):
                self.back.append(one)
                if isinstance(one, Visit):
                    self.places.leave()
                continue
            one.ticket = self.host.ticket()
            if isinstance(one, Message) and one.channels and not self._is_last(one):
                self.barriers.append(one)
                continue
            if isinstance(one, Message) and one.channels:
                todo.extendleft(reversed(self._let_through(one.token)))
            self._enter(one)

    def _is_last(self, barrier: Message) -> bool:
        """Whether this one completes the oldest barrier that waits; another has to wait in turn."""
        same = [other for other in self.barriers if other.token == barrier.token]
        return 1 + len(same) >= barrier.channels and (not self.barriers or self.barriers[0].token == barrier.token)

    def _let_through(self, token: int) -> list[Visit | Message | Mark | Bundle]:
        """What was held back, and the barriers of others, arrive once more."""
        again = [*(other for other in self.barriers if other.token != token), *self.back]
        for item in self.back:
            if isinstance(item, Visit):
                self.places.take()  # also where there is none left
        self.barriers, self.back = [], []
        return again

    def give_up_alignment(self) -> None:
        """The oldest barrier is forgotten."""
        if self.barriers:
            self.arrive(*self._let_through(self.barriers[0].token))

    def _enter(self, item: Visit | Message | Mark | Bundle) -> None:
        if isinstance(item, Message) and not item.turn:
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
        self.in_hand.append(message)
        self.world.note_message(self, message)

    def go_on(self) -> None:
        """It may start again what waits."""
        if self.operator.service_ns is not None:
            self.cores.dispatch()
            return
        while not self.stopped and (self.front or self.queue):
            self.take()

    def holds(self, visit: Visit) -> bool:
        """Whether a rule holds the tuple."""
        return any(
            partition in (None, visit.partition.number) and origin in (None, visit.origin.index)
            for partition, origin in self.rules
        )

    def put_in_front(self, items: list[Visit] | list[Work]) -> None:
        """Ahead of the queue, behind what is already in front."""
        if self.operator.service_ns is None and not self.stopped:
            for item in items:
                self._admit(item)
            return
        self.front.extend(items)
        self.cores.dispatch()

    def take(self) -> None:
        """The item whose turn has come: serve it, hold it or drop it."""
        if self.front:
            self._admit(self.front.popleft())
            return
        item = self.queue.popleft()
        if isinstance(item, Visit):
            self.places.leave()
        self._admit(item)

    def _admit(self, item: Visit | Work | Message | Mark | Bundle) -> None:  # noqa: PLR0912 - one switch
        now = self.world.clock.now_ns()
        if isinstance(item, Bundle):
            self.world.open_bundle(item, self)
        elif isinstance(item, Mark):
            item.begun = self.world.next_number()
            self._serve(item, 0, now)
        elif isinstance(item, Work):
            self._serve(item, item.ns, now)
        elif isinstance(item, Message):
            if item.ns and self.operator.service_ns is not None:
                self._serve(item, item.ns, now)
            else:
                self._take_in_hand(item)
        elif item.partition.retired:
            self.world.drop(item, self, "moved")
        elif self.holds(item):
            self.side.append(item)
        elif not item.partition.live:
            item.partition.held.append(item)
        elif self.world.drops_duplicates and item.row.id in item.partition.position:
            cost = self.world.plan.duplicate_ns
            if cost and self.operator.service_ns is not None:
                item.start_ns, item.refused = now, True
                self._serve(item, cost, now)
                return
            self.world.drop(item, self, "duplicate")
        elif self.operator.service_ns is None:
            item.start_ns = now
            self._complete(item, now)
        else:
            item.start_ns = now
            self._serve(item, self.host.scaled(self.operator.service_ns(item.row.id)), now)

    def _serve(self, item: Visit | Work | Message | Mark, ns: int, now: int) -> None:
        self.cores.free -= 1
        self.idle_threads -= 1
        self.serving[item] = (ns, now + ns)
        if self.host.processor and not isinstance(item, Mark):
            self.host.processor.begin(self, item, ns)
        else:
            self.world.clock.at(now + ns, SERVICE + self.index, lambda _: self._end_at_full_pace(item, ns))

    def _end_at_full_pace(self, item: Visit | Work | Message | Mark, ns: int) -> None:
        # A watermark takes no work, whatever the pace.
        if self.alive and (
            isinstance(item, Mark) or not self.host.processor
        ):  # else the host died, or its processor took the service over
            self.end(item, ns)

    def end(self, item: Visit | Work | Message | Mark, ns: int) -> None:
        """The service of so much work is over."""
        self.cores.free += 1
        self.idle_threads += 1
        self.busy_ns += ns
        self._count(item, ns)
        if isinstance(item, Mark):
            item.served = True
        else:
            del self.serving[item]
            if isinstance(item, Work):
                item.done()
            elif isinstance(item, Message):
                self._take_in_hand(item)
            else:
                self._complete(item, self.world.clock.now_ns())
        self._let_marks_pass()
        self.cores.dispatch()
        self.world.notice(self)
        self.world.tell()

    def _count(self, item: Visit | Work | Message | Mark, ns: int) -> None:
        """Whose work it was."""
        if isinstance(item, (Visit, Work)) and item.partition is not None:
            item.partition.cpu_ns += ns
            item.partition.served += isinstance(item, Visit)

    def _let_marks_pass(self) -> None:
        """A watermark passes when all services that began before it, on other threads too, have ended."""
        while isinstance(first := next(iter(self.serving), None), Mark) and first.served:
            del self.serving[first]
            self.world.watermarks.turn(first, self)

    def _complete(self, visit: Visit, now: int) -> None:
        """Effect and output of a tuple, at the end of its service."""
        partition, row = visit.partition, visit.row
        if partition.retired:
            self.world.drop(visit, self, "moved")
            return
        if visit.refused or (self.world.drops_duplicates and row.id in partition.position):
            self.world.drop(visit, self, "duplicate")  # or a twin on another thread was first
            return
        self.world.recorder.visit(self, visit.arrival_ns, visit.start_ns, now)
        partition.measure(visit, now)
        partition.apply(row)
        if self.operator.is_sink:
            self.world.recorder.delivery(self.operator.index, row.created_ns, now)
        if self.operator.joins is not None:
            self.world.watermarks.join(partition, row, visit.origin.operator)
        elif self.operator.windows is not None:
            self.world.watermarks.enter(partition, row)
        elif self.operator.edges:
            for child, key in self.operator.outputs(row.id, row.key):
                self.world.emit(partition, child, row.created_ns, key)
        if visit.replayed:
            self.world.one_replayed(partition, self)

    def crash(self, now_ns: int) -> list[Visit]:
        """The host died; returns the tuples that are gone with it."""
        self.alive, self.died_ns = False, now_ns
        self.cores.tasks.remove(self)
        lanes = (self.serving, self.front, self.queue, self.back, self.side)
        gone = [
            visit
            for lane in lanes
            for item in lane
            for visit in (self.world.lost(item) if isinstance(item, Bundle) else [item])
            if isinstance(visit, Visit)
        ]
        self.serving, self.front, self.queue = {}, deque(), deque()
        self.back, self.side, self.barriers, self.rules, self.in_hand = [], [], [], [], []
        return gone
