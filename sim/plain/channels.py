"""The path of a tuple from task to task: emitted, sent over its channel, arrived, replayed, or dropped.

`Source` emits, `PlaneState` has the state of the run that all verbs share, `Channels` sends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import ARRIVAL, MESSAGE, SERVICE, TIMERS, Clock, channel
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import Listener
from sim.draws import code_of, source_id
from sim.plain.host import Host
from sim.plain.link import FairLink, Link
from sim.plain.partition import (
    Bundle,
    Contents,
    Message,
    Output,
    Partition,
    PostDated,
    Row,
    TaskView,
    Tree,
    Visit,
    Watermark,
)
from sim.plain.task import Task
from sim.plain.views import AckerView, PlaneView, Recorder, TrimmingView, WatermarksView


class Source:
    """Tuples drawn ahead of the run; the log they come from survives a crash of the task's host."""

    def __init__(self, plane: PlaneView, partition: Partition, arrivals_ns: list[int], keys: list[int]) -> None:
        self.plane, self.partition, self.arrivals_ns, self.keys = plane, partition, arrivals_ns, keys
        self.code = code_of("source", partition.operator.name, partition.index)
        self.arrived = 0  # arrivals whose instant has come
        self.emitted = 0
        self.again: deque[int] = deque()  # numbers of tuples that control wants emitted once more
        self.read_numbers: set[int] = set()  # that control had read, where nothing is emitted without it
        if not partition.operator.is_read:
            self._wait_for(0)

    def lag(self, now_ns: int) -> int:
        """Return how many tuples arrived before now and are not emitted."""
        return max(0, self.arrived_before(now_ns) - self.emitted)  # it may emit at this instant already

    def arrived_before(self, instant_ns: int) -> int:
        """Return how many tuples arrive before an instant."""
        return bisect_right(self.arrivals_ns, instant_ns - 1)

    def emitted_numbers(self) -> Iterable[int]:
        """Return the numbers of the tuples that were emitted, rising."""
        return sorted(self.read_numbers) if self.partition.operator.is_read else range(self.emitted)

    def _wait_for(self, index: int) -> None:
        if index < len(self.arrivals_ns):
            self.plane.clock.at(
                self.arrivals_ns[index], SERVICE + self.partition.task.index, lambda _: self._arrive(index)
            )

    def _arrive(self, index: int) -> None:
        """Let all tuples of one instant arrive."""
        # One event for all arrivals of an instant; those that find no room wait here, and count as lag.
        upto = bisect_right(self.arrivals_ns, self.arrivals_ns[index], lo=index)
        self.arrived = upto
        if self.partition.live:
            self._emit(upto)
        self._wait_for(upto)

    def read(self, first: int, end: int) -> None:
        """Emit these arrivals, which control has read."""
        now = self.plane.clock.now_ns()
        for number in range(first, end):
            created = self.arrivals_ns[number]
            self.read_numbers.add(number)
            self.plane.recorder.visit(self.partition.task, created, now, now)
            self.plane.emit(self.partition, source_id(self.code, number), created, self.keys[number])
        self.emitted = len(self.read_numbers)

    def read_again(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget what is kept, and that these were emitted."""
        self.partition.kept.clear()
        for first, end in ranges:
            self.read_numbers.difference_update(range(first, end))
        self.emitted = len(self.read_numbers)

    def resume(self) -> None:
        """Emit the arrivals of the time when the task was down."""
        if self.partition.operator.is_read:
            return
        # Only arrivals before now: those of this instant have an event of their own, which is still to come.
        self._emit(bisect_right(self.arrivals_ns, self.plane.clock.now_ns() - 1))

    def catch_up(self) -> None:
        """Emit the arrivals of the time when the task was paused."""
        self._emit(self.arrived)

    def promise_ns(self, now_ns: int) -> int:
        """Return its watermark: the creation time of the first tuple that waits, or now."""
        return self.arrivals_ns[self.emitted] if self.emitted < self.arrived else now_ns

    def waiting_since(self) -> int | None:
        """Return when the first tuple that could be emitted now was created, or None without one."""
        if not self.partition.live or self._is_full() or not (self.again or self.emitted < self.arrived):
            return None
        return self.arrivals_ns[self.again[0] if self.again else self.emitted]

    def emit_one(self) -> None:
        """Emit the first tuple that waits: those that are emitted again go first."""
        task, now, again = self.partition.task, self.plane.clock.now_ns(), bool(self.again)
        index = self.again.popleft() if again else self.emitted
        created = self.arrivals_ns[index]
        if not again:
            self.emitted += 1
            self.plane.recorder.visit(task, created, now, now)
        acker, tuple_id, key = self.plane.acker, source_id(self.code, index), self.keys[index]
        tree = acker.begin(self.partition, index) if acker else None
        self.plane.emit(self.partition, tuple_id, created, key, again, tree)
        if acker and tree:
            acker.emitted(tree)

    def _emit(self, upto: int) -> None:
        """Emit in order, as long as nothing is left to send, the task is not paused, and more roots are allowed."""
        task = self.partition.task
        while (self.again or self.emitted < upto) and not (task.outbox or task.paused_until_ns or self._is_full()):
            self.emit_one()

    def _is_full(self) -> bool:
        return self.plane.acker is not None and self.plane.acker.is_full(self.partition)


class _Stored(NamedTuple):
    """A checkpoint of a partition is stored, or the last one of a batch whose first is of it."""

    partition: int
    slot: int


class Frontier(NamedTuple):
    """A wish of control to be told when nothing born before an instant is at these operators any more."""

    operators: frozenset[int]  # one, and all above it
    time_ns: int
    token: int


class PlaneState:
    """Everything that lives in one replication: hosts, tasks, partitions, and tuples on their way between tasks.

    Hosts, tasks and partitions are found by their numbers, which are those of the cluster. `wire` holds every tuple
    that is under way, with the task it goes to, in the order of sending.
    """

    sources: list[Source]
    watermarks: WatermarksView
    acker: AckerView | None = None
    trimming: TrimmingView | None = None

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> None:
        self.plan, self.cluster, self.clock, self.listener = plan, cluster, clock, listener
        self.recorder = Recorder()
        self.drops_duplicates = plan.drops_duplicates
        self.warmup_ns = to_ns(plan.scenario.warmup_s)
        self.remote = Link(plan.scenario.fault_tolerance.remote_bytes_per_s, plan.latency_ns)
        tolerance, store = plan.scenario.fault_tolerance, len(plan.host_names)  # which counts as one more host
        self.uploads = FairLink(clock, store, tolerance.remote_bytes_per_s) if tolerance.shares_uploads else None
        self.hosts = [
            Host(clock, index, name, group, plan.latency_ns, plan.fair)
            for index, (name, group) in enumerate(zip(plan.host_names, plan.host_groups, strict=True))
        ]
        self.tasks: list[Task] = []
        self.partitions: list[list[Partition]] = [[] for _ in plan.operators]
        self.wire: dict[Visit, TaskView] = {}
        self.never_sent = 0  # outputs that were lost in the outbox of a dead task
        self._numbered: list[Partition] = []  # by number: those of the plan, then further instances
        self._planned = 0  # how many are of the plan
        self._sendings = 0
        self._watched: frozenset[int] = frozenset()
        self._told: list[tuple[TaskView, Message | None] | _Stored | Frontier] = []  # None: the task is idle
        self.moves_alone = False  # key groups move without a second instance
        self._frontiers: list[Frontier] = []  # that control waits for, as they were asked for
        self._telling = False
        self.overtaking = -1  # newest token of barriers that overtake
        self.passing = False  # they are on their way
        self.parcels: dict[int, Contents] = {}  # by number
        self._last_parcel = -1

    # -- look-ups

    def all_partitions(self) -> Iterator[Partition]:
        """Yield every partition of the plan, by operator and index."""
        for partitions in self.partitions:
            yield from partitions

    def instances(self) -> list[Partition]:
        """Return every partition, with the further instances of key groups."""
        return self._numbered

    def instances_of(self, group: Partition) -> list[Partition]:
        """Return the instances of a key group."""
        return [group, *(partition for partition in self._numbered[self._planned :] if partition.group is group)]

    def overtakes(self, token: int) -> bool:
        """Return whether barriers of the token overtake."""
        return self.passing and token == self.overtaking

    def next_number(self) -> int:
        """Return the next number in the order of sending."""
        self._sendings += 1
        return self._sendings - 1

    # -- telling

    def notice(self, task: TaskView) -> None:
        """Note that something ended at the task; the listener hears of it if the task is watched and now idle."""
        if task.index in self._watched and task.empty:
            self._told.append((task, None))

    def note_message(self, task: TaskView, message: Message) -> None:
        """Note a message that the task has in hand, for the listener."""
        self._told.append((task, message))

    def note_stored(self, partition: Partition, slot: int = 0) -> None:
        """Note that a checkpoint of the partition is stored, for the listener."""
        self._told.append(_Stored(partition.number, slot))

    def tell(self) -> None:
        """Make the calls to the listener that the event or verb has caused, one after the other.

        Calls that these cause in turn are made after them: the listener never runs inside itself.
        """
        self._note_passed()
        if self._telling:
            return
        self._telling = True
        while self._told:
            told = self._told.pop(0)
            if isinstance(told, _Stored):
                self.listener.stored(*told)
                continue
            if isinstance(told, Frontier):
                self.listener.passed(told.token)
                continue
            task, message = told
            if message is None:
                self.listener.idle(task.index)
            # A message that is in hand no longer was lost with its host while others were handled.
            elif message in task.in_hand:
                if message.lined_up and self.has_waited(message):
                    waited_ns = self.clock.now_ns() - message.lined_up.sent_ns
                    task.line_up(message.token, message.lined_up.while_shorter, waited_ns)
                elif message.channels:
                    self.listener.aligned(message.token, task.index)
                else:
                    self.listener.message(message.token, task.index)
                # The task starts nothing while the message is handled; the handler may have killed it.
                if task.alive:
                    task.heard(message)
                    self.notice(task)
                    self._note_passed()
        self._telling = False

    def has_waited(self, message: Message) -> bool:
        """Return whether something may have come behind a message that has lined up: its turn was not at once."""
        assert message.lined_up
        sent_ns, before_ns, while_shorter = message.lined_up
        waited_ns = self.clock.now_ns() - sent_ns
        if while_shorter:
            return before_ns is None or waited_ns < before_ns
        return waited_ns > 0

    def _note_passed(self) -> None:
        """Note the frontiers that have passed their times."""
        for one in [*self._frontiers]:
            if not self._has_lost(one.operators) and self.is_passed(one.operators, one.time_ns):
                self._frontiers.remove(one)
                self._told.append(one)

    def _has_lost(self, operators: Collection[int]) -> bool:
        """Return whether a partition of these operators is down: what was lost with it may come again."""
        return any(
            not (partition.live or partition.taken) and partition.operator.index in operators
            for partition in self._numbered
        )

    def is_passed(self, operators: Collection[int], time_ns: int) -> bool:
        """Return whether nothing born before that time is at one of these operators, or on its way to one.

        The operators are one of the dataflow with all above it, sources included.
        """
        for source in self.sources:
            since = source.waiting_since()
            if source.partition.operator.index in operators and since is not None and since < time_ns:
                return False
        # What is of a later time than now cannot be older than a frontier: only what is overdue can.
        overdue = (
            one for partition in self._numbered if partition.operator.index in operators for one in partition.overdue
        )
        if any(one.born_ns < time_ns for one in overdue) or self._owes_ticks(operators, time_ns):
            return False
        return all(row.born_ns >= time_ns for row in self._rows_at(operators))

    def _owes_ticks(self, operators: Collection[int], time_ns: int) -> bool:
        """Return whether an output of a timer is due that is older: its partition is on its way, or its task paused."""
        timed = (one for one in self._numbered if one.operator.timer_ns and one.operator.index in operators)
        return any(one.time.ticks < one.due and (one.time.ticks + 1) * one.operator.timer_ns < time_ns for one in timed)

    def _rows_at(self, operators: Collection[int]) -> Iterator[Row]:
        """Yield the tuples that are withheld for these operators, on their way to them, at them, and held there."""
        for visit, goal in self.wire.items():
            if goal.operator.index in operators:
                yield visit.row
        for task in self.tasks:
            if task.operator.index in operators:
                yield from (item.row for item in task.items() if isinstance(item, Visit))
            for operator, withheld in task.outbox.withheld.items():
                if operator in operators:
                    yield from (output.row for output in withheld.outputs)
        for partition in self._numbered:
            if partition.operator.index in operators:
                yield from (visit.row for visit in partition.held)


_LAST = (1 << 24) - 1  # as a sender, control comes after all tasks


class Channels(PlaneState):
    """Sends tuples and messages. One first-in-first-out channel joins each pair of tasks.

    Routing is by partition: `partition.task` is where its tuples are sent. Tuples between hosts hold the sender's link
    for their bytes, tuples inside a host arrive at once.
    """

    def emit_ticks(self, partition: Partition, upto: int) -> None:
        """Emit the outputs of the timer that are not made yet, each created at its instant."""
        while partition.time.ticks < upto and not partition.task.paused_until_ns:
            partition.time.ticks += 1
            made, key = partition.operator.tick(partition.index, partition.time.ticks)
            self.emit(partition, made, partition.time.ticks * partition.operator.timer_ns, key)

    def postpone(self, partition: Partition, output: PostDated) -> None:
        """Emit an output at the time of its birth, or now if that is over.

        It is not bound to a task: where its partition is by then, it leaves. Of equal times the lower partition comes
        first, then what was made first.
        """
        if output.born_ns <= self.clock.now_ns():
            self.emit(partition, output.tuple_id, output.born_ns, output.key)
            return
        partition.postpone(output)
        self._wait_for_birth(partition, output)

    def _wait_for_birth(self, partition: Partition, output: PostDated) -> None:
        self.clock.at(output.born_ns, TIMERS + partition.number, lambda _: self._is_due(partition, output))

    def post_date_again(self, partition: Partition) -> None:
        """Have the outputs of the stored checkpoint wait for their times; those that are over are due."""
        partition.restore_post_dated(partition.checkpoint)
        now, waiting = self.clock.now_ns(), [*partition.post_dated.values()]
        partition.overdue = sorted((one for one in waiting if one.born_ns <= now), key=lambda one: one.born_ns)
        for output in waiting:
            if output.born_ns > now:
                self._wait_for_birth(partition, output)

    def _is_due(self, partition: Partition, output: PostDated) -> None:
        """Emit an output at its time, unless its partition is on its way, or its task stops it."""
        if partition.post_dated.get(output.tuple_id) is not output:
            return  # a crash has taken it; if it was restored since it has another event
        partition.overdue.append(output)
        self.emit_overdue(partition)
        self.tell()

    def emit_overdue(self, partition: Partition) -> None:
        """Emit what is due, in order of time, if the partition is live and its task does not stop it."""
        while partition.overdue and partition.live and not partition.task.stops(partition):
            output = partition.overdue.pop(0)
            partition.let_go(output)
            self.emit(partition, output.tuple_id, output.born_ns, output.key)

    def emit(
        self,
        partition: Partition,
        tuple_id: int,
        created_ns: int,
        key: int,
        again: bool = False,
        tree: Tree | None = None,
        since_ns: int = 0,
    ) -> None:
        """Send an output of the partition to its receivers, and keep it until they have saved it.

        With `again` it was emitted before: it is kept already, or its receivers have saved it. It belongs to the `tree`
        of its root, if it has one, and is not born before `since_ns`.
        """
        size = partition.operator.output_bytes
        # With barriers all tasks of a region go back to one checkpoint, so that sources alone send something again.
        barriers = self.plan.scenario.fault_tolerance.job_checkpoints is not None
        keeps = self.plan.replays and not again and (partition.operator.is_source or not barriers)
        row = Row(tuple_id, created_ns, key, size, tree, since_ns)
        for edge in partition.operator.edges:
            receivers = self.partitions[edge.down.index]
            for index in edge.targets(tuple_id, key, partition.index):
                receiver = receivers[index]
                # Copies of a broadcast have ids of their own: further downstream two of them may meet at one partition.
                sent = row if edge.copy_code is None else row._replace(id=edge.id_for(tuple_id, index))
                for target in receiver.routes.get(partition.task.index, (receiver.owner,)):
                    # Keep it first, also if it is muted: a replica that takes over sends the outputs that it has kept.
                    if keeps:
                        partition.keep(target, sent)
                    if not partition.muted:
                        if tree:
                            tree.left += 1
                        partition.task.outbox.offer(Output(partition, target, sent))

    def emit_waiting(self, task: TaskView) -> None:
        """Let the sources of a task emit tuples that wait, the oldest first, as long as its outbox stays empty."""
        here = [source for source in self.sources if source.partition.task is task]
        while not task.outbox and not task.paused_until_ns:
            waiting = [source for source in here if source.waiting_since() is not None]
            if not waiting:
                return
            min(waiting, key=lambda source: (source.waiting_since(), source.partition.number)).emit_one()

    def send_tuple(self, origin: TaskView, sender: Partition, receiver: Partition, row: Row) -> None:
        """Send a tuple from the task at which it was made; it takes a place at that where the receiver is now."""
        task = receiver.task
        if row.born_ns >= receiver.placed_from_ns:
            task = receiver.placed.get(origin.index, task)
        self.recorder.message(self.clock.now_ns(), "local" if origin.host is task.host else "data", 1, row.bytes)
        sender.sent_bytes += row.bytes if origin.host is not task.host else 0
        visit = Visit(row, receiver, origin, self.next_number(), replayed=False)
        # The task is fixed here: a partition that moves while the tuple is under way does not redirect it.
        self.wire[visit] = task
        task.places.take()

        def comes(arrival_ns: int) -> None:
            visit.arrival_ns = arrival_ns
            self.clock.at(arrival_ns, channel(ARRIVAL, task.index, origin.index), lambda _: self._arrive(visit, task))

        self.transmit(origin, task, row.bytes, comes, tuples=1)

    def transmit(
        self, origin: TaskView, task: TaskView, size_bytes: int, comes: Callable[[int], None], tuples: int = 0
    ) -> None:
        """Send a message of so many tuples from task to task.

        `comes` is called with the instant of its arrival as soon as that is known: at once on a FIFO link, and when the
        message leaves on a link that is shared.
        """
        now = self.clock.now_ns()
        if origin.host is task.host:
            if task.shares_thread(origin):
                task.cores.hold()
            comes(now)
            return
        ends, latency_ns = (origin.index, task.index), self.plan.latency_ns
        leave = lambda departure_ns: comes(departure_ns + latency_ns)  # noqa: E731
        origin.host.link.send(now, size_bytes, ends, self.next_number(), leave, tuples)

    def _arrive(self, visit: Visit, task: TaskView) -> None:
        if self.wire.pop(visit, None) is None:
            return  # its sender died before it had left
        if not task.alive:
            self.drop(visit, task, task.death)
            self.tell()  # a frontier may have waited for it
            return
        visit.arrived = True
        visit.partition.came += 1
        visit.partition.received_bytes += visit.row.bytes if visit.origin.host is not task.host else 0
        self.hand_over(visit, task)
        self.tell()

    def hand_over(self, item: Visit | Message | Watermark, task: TaskView) -> None:
        """Give a task what has come over its channel; the thread of a chain goes on with what has come last."""
        called = item.origin is not None and task.shares_thread(item.origin)
        if called:
            task.cores.let_go()
        task.arrive(item)
        if called:
            task.cores.dispatch()

    def replay(self, sender: int, receiver: int, turn: bool = False, missing: bool = False) -> tuple[int, int]:
        """Send all that `sender` keeps for `receiver` again, or is `missing` there, as one message; (tuples, bytes)."""
        from_partition, to_partition = self._numbered[sender], self._numbered[receiver]
        rows = tuple(from_partition.kept.get(to_partition, ()))
        if missing:
            rows = tuple(row for row in rows if row.id not in to_partition.position)
        if not rows:
            return 0, 0
        origin, task = from_partition.task, to_partition.task
        now, size = self.clock.now_ns(), sum(row.bytes for row in rows)
        self.recorder.message(now, "replay", 1, size)
        from_partition.sent_bytes += size if origin.host is not task.host else 0
        # The rows are all that is kept, and an unsent output is kept, too: it must not go out twice.
        origin.outbox.forget(from_partition, to_partition)
        visits = [Visit(row, to_partition, origin, self.next_number(), replayed=True) for row in rows]
        self.wire.update(dict.fromkeys(visits, task))
        rank = channel(MESSAGE, task.index, origin.index)

        def comes(arrival_ns: int) -> None:
            for visit in visits:
                visit.arrival_ns = arrival_ns
            if turn:
                rank_of_tuples, bundle = channel(ARRIVAL, task.index, origin.index), Bundle(visits, origin)
                self.clock.at(arrival_ns, rank_of_tuples, lambda _: self._bundle_arrives(bundle, task))
            else:
                self.clock.at(arrival_ns, rank, lambda _: self._replay_arrives(visits, task))

        self.transmit(origin, task, size, comes, tuples=len(rows))
        if to_partition.counts_replays:
            to_partition.pending += len(rows)
        return len(rows), size

    def _replay_arrives(self, visits: list[Visit], task: TaskView) -> None:
        arrived = [visit for visit in visits if self.wire.pop(visit, None) is not None]
        if not task.alive:
            for visit in arrived:
                self.drop(visit, task, task.death)
            self.tell()
            return
        # In front of the queue: the receiver must apply replayed tuples before newer ones of the same channel.
        for visit in arrived:
            visit.ticket, visit.arrived = task.host.ticket(), True
            task.record(visit)
        task.put_in_front(arrived)
        self.tell()

    def _bundle_arrives(self, bundle: Bundle, task: TaskView) -> None:
        if not task.alive:
            for visit in self.lost(bundle):
                self.drop(visit, task, task.death)
            self.tell()
        elif any(visit in self.wire for visit in bundle.visits):
            task.arrive(bundle)
            self.tell()

    def open_bundle(self, bundle: Bundle, task: TaskView) -> None:
        """Put the tuples of a bundle in front of the queue: its turn has come."""
        arrived = self.lost(bundle)
        for visit in arrived:
            visit.ticket, visit.arrived = task.host.ticket(), True
        task.put_in_front(arrived)

    def lost(self, bundle: Bundle) -> list[Visit]:
        """Take the tuples of a bundle off the wire, and return them."""
        return [visit for visit in bundle.visits if self.wire.pop(visit, None) is not None]

    def one_replayed(self, partition: Partition, task: TaskView) -> None:
        """Count a replayed tuple as done: it was processed, recognised as a duplicate, or lost with its sender."""
        if partition.counts_replays and partition.task is task:
            partition.pending -= 1
            partition.processed_ns = self.clock.now_ns()
            if not partition.pending:
                self.notice(task)

    def drop(self, visit: Visit, task: TaskView, reason: str) -> None:
        """End a tuple here, without effect."""
        now = self.clock.now_ns()
        arrival = visit.arrival_ns if visit.arrived else NEVER
        self.recorder.rows["dropped"].append((task.operator.index, task.index, arrival, visit.start_ns, now, reason))
        if visit.replayed:
            self.one_replayed(visit.partition, task)

    def lose_items(self, task: Task, gone: list[Visit]) -> None:
        """Drop what a task that died had in its lanes, then what it had not sent."""
        for visit in gone:
            self.drop(visit, task, task.death)
        for output in task.outbox.lose():
            self.never_sent += 1
            unsent = Visit(output.row, output.receiver, task, self.next_number(), replayed=False)
            self.drop(unsent, output.receiver.task, task.death)
        if self.acker:
            self.acker.lose(task)

    def lose_memory(self, partition: Partition) -> None:
        """Lose what a partition had in the memory of a task that died, with outputs of a later time."""
        if not self.plan.replays:  # else the keys that a checkpoint has open take their place
            partition.open_keys.lose()
        for visit in partition.forget_volatile():
            self.drop(visit, partition.task, partition.task.death)
        for source in self.sources:
            # With an acker the log knows which tuples were to be emitted again.
            if source.partition is partition and not self.acker:
                source.again.clear()

    def lose_held(self, task: Task) -> None:
        """Lose what a task that died held for key groups that were to come there."""
        for partition in self._numbered:
            if partition.goal is task:
                held, partition.held = partition.held, []
                for visit in held:
                    self.drop(visit, task, task.death)

    def note_freed(self, visits: list[Visit]) -> None:
        """Note that these tuples go in front, even of watermarks that are in service and wait for other threads."""
        for visit in visits:
            visit.partition.freed_at = self.next_number()

    # -- messages

    def send_message(self, message: Message, task: TaskView, size_bytes: int) -> None:
        """Send a message; all outputs before it have been sent."""
        now, origin = self.clock.now_ns(), message.origin
        if origin is not task or not message.ns:  # a task that occupies itself tells nobody anything
            self.recorder.message(now, "protocol", 1, size_bytes)

        def comes(arrival_ns: int) -> None:
            message.departure_ns = arrival_ns - self.plan.latency_ns
            rank = channel(ARRIVAL, task.index, origin.index if origin else _LAST)
            self.clock.at(arrival_ns, rank, lambda _: self._message_arrives(message, task))

        if origin is None:
            comes(now + self.plan.latency_ns)
        else:
            self.transmit(origin, task, size_bytes, comes)

    def _message_arrives(self, message: Message, task: TaskView) -> None:
        # The event cannot be cancelled: a message is void if its sender died before the last byte had left.
        if not task.alive or (message.origin and message.origin.died_by(message.departure_ns)):
            return
        self.hand_over(message, task)
        self.tell()
