"""Key groups and the items on their way to them: the nouns of the plain engine.

A *partition* is the unit of state and recovery: a key group, or a whole task where the operator is not keyed. Its
life: it is *live* at a task; its host dies, and the partition waits; when the failure is detected it is *assigned* to
a task elsewhere and holds what arrives; once its state is installed it is live again.

The other classes are items, which travel over channels, wait in queues, or are served. `TaskView`, `HostView`,
`PlacesView` and `OutboxView` are the interfaces of the task at which these are (`task.py`, `host.py`, `outbox.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from models.records.tables import NEVER
from models.scenario.job import FixedState, PerKeyState, PerTupleState, WindowState
from models.units import to_ns
from sim.operator_plan import OperatorPlan
from sim.plain.link import FairLink, Link
from sim.plain.open_keys import OpenKeys
from sim.plane_values import REMOTE

# -- the task, as a partition knows it


class PlacesView(Protocol):
    """The places in the bounded queue of a task: `outbox.Places`."""

    waiting: deque[Any]  # outboxes whose head finds no room

    def has_room(self) -> bool:
        """Return whether somebody new can send."""

    def take(self) -> None:
        """Count a tuple that was sent here."""

    def leave(self) -> None:
        """Give a place back."""

    def give(self) -> None:
        """Let the first that waits go on, if there is room for it."""


class OutboxView(Protocol):
    """The unsent outputs of a task: `outbox.Outbox`."""

    def __bool__(self) -> bool:
        """Return whether something is left to send."""

    def offer(self, output: Output) -> None:
        """Send an output, now or when there is room."""

    def pass_on(self, passing: Passing) -> None:
        """Send a watermark behind all outputs that are left to send."""

    def post(self, letter: Letter) -> None:
        """Send a message behind all outputs that are left to send."""

    def forget(self, sender: Partition, receiver: Partition) -> None:
        """Drop the outputs of one partition for another that wait here."""

    def take_letters(self, token: int) -> list[tuple[Letter, list[Output]]]:
        """Take out the barriers with this token, with the outputs before each."""

    @property
    def unsent(self) -> list[Output]:
        """Return the outputs that are left to send."""

    @property
    def withheld(self) -> dict[int, Any]:
        """Return what is withheld, by operator: `outbox.Withheld`."""


class ProcessorView(Protocol):
    """The processor of a host: `host.Processor`."""

    def begin(self, task: Any, item: Visit | Work | Message, ns: int) -> None:
        """Begin a service of so much work."""

    def forget(self, task: Any) -> None:
        """End the services of a task that is killed."""


class HostView(Protocol):
    """The host of a task: `host.Host`."""

    index: int
    life: int
    link: Link | FairLink

    @property
    def processor(self) -> ProcessorView | None:
        """Return the processor, where cores are shared evenly or the pace has changed."""

    def ticket(self) -> int:
        """Return the next place in the order of arrivals at this host."""

    def scaled(self, service_ns: int) -> int:
        """Return a service time on this host's speed."""


class CoresView(Protocol):
    """The cores that serve a task: `task.Cores`."""

    def hold(self) -> None:
        """Take the thread of a chain, for one more reason."""

    def let_go(self) -> None:
        """Give it back."""

    def dispatch(self) -> None:
        """Start services until no core is free or no task can go on."""


class TaskView(Protocol):
    """The task at which a partition is, or from which an item comes: `task.Task`."""

    operator: OperatorPlan
    index: int
    since: int
    alive: bool
    paused_until_ns: int
    overtaken_bytes: int
    rules: list[tuple[int | None, int | None]]
    in_hand: list[Message]

    @property
    def host(self) -> HostView:
        """Return the host."""

    @property
    def cores(self) -> CoresView:
        """Return the cores that serve it."""

    @property
    def places(self) -> PlacesView:
        """Return the places in its queue."""

    @property
    def outbox(self) -> OutboxView:
        """Return its unsent outputs."""

    @property
    def empty(self) -> bool:
        """Return whether it has nothing to do."""

    @property
    def death(self) -> str:
        """Return why tuples are dropped at it, if it is dead."""

    def shares_thread(self, other: TaskView) -> bool:
        """Return whether it is in the chain of another task."""

    def died_by(self, departed_ns: int) -> bool:
        """Return whether the host was dead before a transmission had left the link."""

    def stops(self, partition: Partition) -> bool:
        """Return whether outputs of the partition that are due wait."""

    def line_up(self, token: int, while_shorter: bool, before_ns: int | None = None) -> None:
        """Send itself a message that is sent again as long as it has to wait for its turn."""

    def heard(self, message: Message) -> None:
        """Go on: what the listener was told of a message is done."""

    def arrive(self, *items: Visit | Message | Watermark | Bundle) -> None:
        """Take in items that have come over its channels."""

    def put_in_front(self, items: Sequence[Visit | Work | Watermark]) -> None:
        """Put items ahead of the queue."""

    def put_before(self, visits: list[Visit], partition: Partition) -> None:
        """Put tuples for a partition ahead of the queue, and of those for it that are in front already."""

    def record(self, visit: Visit) -> None:
        """Record a tuple that has just come, if barriers overtake here and that of its channel is still to come."""

    def go_on(self) -> None:
        """Start items that wait."""


# -- items


class Tree:
    """An attempt to have a root processed: all tuples that follow from it, once it was emitted at `emitted_ns`.

    `left` of them are not acknowledged yet.
    """

    __slots__ = ("emitted_ns", "left", "sequence", "source")

    def __init__(self, source: Partition, sequence: int, emitted_ns: int) -> None:
        self.source, self.sequence, self.emitted_ns, self.left = source, sequence, emitted_ns, 0


class Row(NamedTuple):
    """One tuple on its way to a partition. `bytes` is its size on the wire, `tree` that of its root, if it has one.

    It is not born before `since_ns`: when the last window ended from which it follows.
    """

    id: int
    created_ns: int
    key: int
    bytes: int
    tree: Tree | None = None
    since_ns: int = 0

    @property
    def born_ns(self) -> int:
        """Return when it was born."""
        return max(self.created_ns, self.since_ns)


class Visit:
    """A tuple on its way from the task `origin` to a partition, then in the queue there.

    `arrival_ns` is known when it has left, `arrived` says that it is there; `number` is its place among all sendings,
    `ticket` that among all that arrived at the host; `replayed` says that it was sent again.
    """

    __slots__ = (
        "arrival_ns",
        "arrived",
        "number",
        "origin",
        "partition",
        "refused",
        "replayed",
        "row",
        "start_ns",
        "ticket",
    )

    def __init__(self, row: Row, partition: Partition, origin: TaskView, number: int, replayed: bool) -> None:
        self.row, self.partition, self.origin, self.number, self.arrival_ns = row, partition, origin, number, NEVER
        self.arrived, self.start_ns, self.ticket, self.replayed = False, NEVER, 0, replayed
        self.refused = False  # it is a duplicate, which costs the time of its service


class LinedUp(NamedTuple):
    """When a message that lines up was sent, how long the one before it has waited, and what counts."""

    sent_ns: int
    before_ns: int | None
    while_shorter: bool


class Message:
    """A message from a task (None: from control) on its way to another, then in the queue there.

    With `turn` it waits its turn, and then occupies the task for `ns`; with `channels` it is a barrier that is to come
    over so many channels.
    """

    __slots__ = ("channels", "departure_ns", "lined_up", "ns", "origin", "ticket", "token", "turn")

    def __init__(self, token: int, origin: TaskView | None, turn: bool, ns: int, channels: int) -> None:
        self.token, self.origin, self.turn, self.ns = token, origin, turn, ns
        self.channels, self.ticket = channels, 0
        self.departure_ns = NEVER  # when it has left its host
        self.lined_up: LinedUp | None = None


class Watermark:
    """A watermark on its way from the task `origin`, then in the queue of another; `number` as of a sending.

    `begun` is such a number, too: of its turn. With `again` all that came before are heard again. It is the `last` over
    its channel where the host of the origin has died.
    """

    __slots__ = ("again", "begun", "event_ns", "last", "number", "origin", "served", "ticket")

    def __init__(self, event_ns: int, origin: TaskView, number: int, again: bool = False, last: bool = False) -> None:
        self.event_ns, self.origin, self.number, self.again, self.last = event_ns, origin, number, again, last
        self.ticket, self.served, self.begun = 0, False, 0


class Bundle:
    """Tuples that are sent again as one message which waits its turn; then they are put in front."""

    __slots__ = ("origin", "ticket", "visits")

    def __init__(self, visits: list[Visit], origin: TaskView) -> None:
        self.visits, self.origin, self.ticket = visits, origin, 0


class Work:
    """Time that a task spends on something else than a tuple: writing a snapshot, installing a state."""

    __slots__ = ("done", "ns", "partition", "ticket")

    def __init__(self, ns: int, ticket: int, done: Callable[[], None], partition: Partition | None = None) -> None:
        self.ns, self.ticket, self.done = ns, ticket, done
        self.partition = partition  # whose snapshot is written


class Output(NamedTuple):
    """An output on its way out of its task. It counts as kept since the end of the service that made it."""

    sender: Partition
    receiver: Partition
    row: Row


class PostDated(NamedTuple):
    """An output that leaves at the time at which it is born; until then it is in the state of its partition.

    It is made of a tuple with the key `made_of`, which was the one at `place` among the applied tuples.
    """

    tuple_id: int
    born_ns: int
    key: int
    made_of: int
    place: int


class Letter(NamedTuple):
    """A message on its way out of its task, behind the outputs that were there before. It needs no place."""

    message: Message
    receiver: TaskView
    size_bytes: int


class Passing(NamedTuple):
    """A watermark on its way out of its task, behind the outputs that were made before. It needs no place."""

    watermark: Watermark
    task: TaskView


# -- state


@dataclass
class EventTime:
    """Event time as a partition knows it; a part of its checkpoints."""

    ticks: int = 0  # instants of its timer whose outputs were made
    of_sender: dict[Partition, int] = field(default_factory=dict)  # all that it sent before was applied
    event_ns: int = 0  # the least of these
    windows: dict[int, dict[int, int]] = field(default_factory=dict)  # not ended -> key -> newest event time
    sides: dict[tuple[int, int, int], list[Row]] = field(default_factory=dict)  # (window, key, input) -> to be joined

    def copy(self) -> EventTime:
        """Return a copy that later changes do not reach."""
        windows = {window: dict(newest) for window, newest in self.windows.items()}
        sides = {at: list(rows) for at, rows in self.sides.items()}
        return EventTime(self.ticks, dict(self.of_sender), self.event_ns, windows, sides)

    def restored(self, saved: EventTime | None, ticks: int, replays: bool) -> EventTime:
        """Return the event time after a crash, from the saved one, or from nothing but the number of instants.

        Without replay nothing is emitted again: event time does not go back, and windows that it had passed are over.
        """
        if saved is None:
            saved = EventTime(ticks, dict.fromkeys(self.of_sender, 0))
        made = saved.copy()
        if not replays:
            made.ticks, made.of_sender, made.event_ns = self.ticks, self.of_sender, self.event_ns
        return made


@dataclass(eq=False)
class Unfinished:
    """A snapshot of a checkpoint of the job that is not complete; `touched`: keys that changed after it."""

    checkpoint: Checkpoint
    stored: bool = False
    touched: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A stored snapshot: the first `count` applied tuples, and the outputs that downstream has not saved.

    `applied` is the list of the incarnation that was saved, which only grows: its first entries are the content.
    """

    applied: list[int]
    count: int
    kept: tuple[tuple[Partition, tuple[Row, ...]], ...]
    state_bytes: int
    host: int  # host index, or REMOTE
    host_life: int  # the life of the checkpoint host in which it was taken
    time: EventTime
    incarnation: int  # of the partition, when it was taken
    key_since: dict[int, int] | None = None  # where it is not of this life: of the partition that it was taken of
    applied_created_ns: list[int] | None = None  # of its applied tuples
    unmerged_bytes: int = 0  # of increments whose files are not merged with those of the state
    post_dated: tuple[PostDated, ...] = ()  # outputs of a later time, as they were made
    open_keys: OpenKeys | None = None  # where keys close

    def size_bytes(self) -> int:
        """Return the size of all that a restore reads: state, unmerged increments and kept outputs."""
        return self.state_bytes + self.unmerged_bytes + sum(row.bytes for _, rows in self.kept for row in rows)


class InFlight(NamedTuple):
    """A tuple that a barrier has overtaken, in the queue of its receiver or unsent at its sender."""

    row: Row
    origin: TaskView
    unsent: bool


class Captured(NamedTuple):
    """A tuple that was taken out of a task."""

    row: Row
    partition: Partition
    origin: TaskView
    task: TaskView
    arrival_ns: int


@dataclass
class Contents:
    """The content of a parcel: states and tuples of one task."""

    states: tuple[tuple[Partition, Checkpoint], ...] = ()
    tuples: tuple[Captured, ...] = ()
    was_put: bool = False
    taken: tuple[Partition, ...] = ()  # key groups that are live nowhere


class Partition:
    """The volatile state of one key group, with its ledger.

    `applied` lists the ids of the tuples in the state, in order; a checkpoint is a length of that list.
    `position` says where in it an id stands: an id that has a position was applied before, whatever its order
    of arrival.
    """

    def __init__(self, operator: OperatorPlan, index: int, number: int, task: TaskView) -> None:
        self.operator, self.index, self.number = operator, index, number
        self.task = task
        self.live, self.taken = True, False  # taken out of its task, with its state, it is live nowhere
        self.goal: TaskView | None = None  # its next task, where tuples wait for it
        self.placed: dict[int, TaskView] = {}  # task that sends -> task that it sends to, where that is not `task`
        self.placed_from_ns = 0  # what was born earlier goes to `task`
        self.left: dict[TaskView, int] = {}  # task that it was taken out of -> sendings before
        self.muted = False
        self.group = self  # the partition that stands for all instances of the group
        self.owner = self  # of the group: the instance that owns it
        self.routes: dict[int, tuple[Partition, ...]] = {}  # of the group: task that sends -> instances it sends to
        self.routed_at: dict[int, int] = {}  # sendings before it began to
        self.owned_at = 0  # sendings before it became the owner
        self.incarnation = 0
        self.applied: list[int] = []
        self.trimmed = 0  # upstream was told to forget the first so many applied tuples
        self.adopted: tuple[Partition, int] | None = None  # whose first so many applied tuples it began with
        self.position: dict[int, int] = {}
        self.key_since: dict[int, int] = {}  # entry of a key -> length of `applied` when it was first seen
        self.touched: set[int] = set()  # entries changed since the last snapshot; with barriers: the last complete one
        self.applied_at_snapshot = 0
        self.new_kept_bytes = 0  # outputs kept since the last snapshot
        self.kept: dict[Partition, deque[Row]] = {}  # outputs by receiver, until they are in a stored checkpoint
        self.senders: dict[Partition, None] = {}  # partitions that keep outputs for this one
        self.held: list[Visit] = []
        self.checkpoint: Checkpoint | None = None
        self.saving = False  # a checkpoint of this incarnation is being written or is under way
        self.retired = False  # the instance is over
        self.saved = False  # the partition has stored a checkpoint of its own
        self.unfinished: dict[int, Unfinished] = {}  # with barriers: snapshots of checkpoints under way, by their slots
        self.overtaken: list[InFlight] = []  # tuples for it in the checkpoint of the job that is under way
        self.in_flight: list[InFlight] = []  # and in the one that is complete
        self.marked: dict[Partition, int] = {}  # of a source: kept outputs by receiver, when its barrier left
        self.announced = False  # the listener is told when the next checkpoint is stored
        self.counts_replays = False  # replayed tuples are counted
        self.pending = 0  # replayed tuples that are on their way or in the queue
        self.processed_ns = NEVER  # when the last replayed tuple was
        self.applied_created_ns: list[int] = []  # of the applied tuples
        self.time = EventTime()
        self.post_dated: dict[int, PostDated] = {}  # outputs of a later time, by id
        self.overdue: list[PostDated] = []  # those of them whose time came while the partition could not emit
        self.open_keys = OpenKeys()
        self.due = 0  # instants of its timer that have come
        self.ticks_let_go = 0  # those of the last checkpoint: they do not come again, even if it is lost
        self.measured_from: int | None = None  # tuples that arrive from then on are timed
        self.until_calm = False  # up to the first that does not wait
        self.longest = NEVER
        self.assigned_at = self.live_at = 0  # sendings before it was assigned to its task, and live there
        self.freed_at = 0  # sendings before tuples that were held for it went in front
        self.came = self.served = self.cpu_ns = self.received_bytes = self.sent_bytes = 0  # for its statistic

    @property
    def name(self) -> str:
        """Return OPERATOR[index], the name in decisions."""
        return f"{self.operator.name}[{self.index}]"

    def assign(self, task: TaskView) -> None:
        """Put the partition at that task from now on, and count its replayed tuples."""
        self.task = task
        self.goal, self.placed_from_ns, self.taken = None, 0, False
        self.placed.clear()
        self.incarnation += 1
        self.counts_replays, self.pending, self.processed_ns = True, 0, NEVER

    def apply(self, row: Row, upstream: int) -> None:
        """Apply a tuple of an operator upstream to the state."""
        # The first position counts: a checkpoint that has the tuple once has it, also if a duplicate was applied later.
        if row.id not in self.position:
            self.position[row.id] = len(self.applied)
        self.applied.append(row.id)
        self.applied_created_ns.append(row.created_ns)
        entry = self.operator.entry_of(row.key, upstream)
        if entry not in self.key_since:
            self.key_since[entry] = len(self.applied) - 1
        self.touched.add(entry)
        for one in self.unfinished.values():
            one.touched.add(entry)

    def postpone(self, output: PostDated) -> None:
        """Put an output of a later time into the state."""
        self.post_dated[output.tuple_id] = output
        if self.operator.closes_keys:
            self.open_keys.begin_to_wait(output.made_of)

    def let_go(self, output: PostDated) -> None:
        """Take an output whose time has come out of the state."""
        del self.post_dated[output.tuple_id]
        if self.operator.closes_keys:
            self.open_keys.end_to_wait(output.made_of)

    def measure(self, visit: Visit, now_ns: int) -> None:
        """Note how long a tuple took from its arrival to its answer; replayed tuples were answered before."""
        if self.measured_from is None or self.muted or visit.replayed:
            return
        if visit.arrival_ns >= self.measured_from:
            self.longest = max(self.longest, now_ns - visit.arrival_ns)
        if self.until_calm and visit.start_ns == visit.arrival_ns:
            self.measured_from = None

    def keep(self, receiver: Partition, row: Row) -> None:
        """Keep an output until the receiver has it in a stored checkpoint."""
        queue = self.kept.get(receiver)
        if queue is None:
            queue = self.kept[receiver] = deque()
            receiver.senders[self] = None
        queue.append(row)
        self.new_kept_bytes += row.bytes

    def trim(self, receiver: Partition, count: int) -> int:
        """Forget the outputs that are among the receiver's first `count` applied tuples; return how many."""
        queue, position = self.kept.get(receiver), receiver.position
        receiver.trimmed = max(receiver.trimmed, count)
        forgotten = 0
        # From the front only: channels are first in first out, so outputs are applied in the order of the queue.
        while queue and position.get(queue[0].id, count) < count:
            queue.popleft()
            forgotten += 1
        return forgotten

    def mark(self) -> None:
        """Note how many outputs a source keeps: its position, as a checkpoint has it."""
        self.marked = {receiver: len(rows) for receiver, rows in self.kept.items()}

    def forget_marked(self) -> None:
        """Forget the outputs before the position that was noted."""
        for receiver, count in self.marked.items():
            for _ in range(count):
                self.kept[receiver].popleft()
        self.marked = {}

    def in_flight_bytes(self) -> int:
        """Return the size of the in-flight data for the partition in the complete checkpoint."""
        return sum(one.row.bytes for one in self.in_flight)

    def kept_rows(self) -> int:
        """Return the number of outputs in the buffers."""
        return sum(map(len, self.kept.values()))

    def kept_bytes(self) -> int:
        """Return the size of the outputs in the buffers."""
        return sum(row.bytes for rows in self.kept.values() for row in rows)

    def state_bytes(self) -> int:
        """Return the size of the whole state, with outputs of a later time."""
        later = len(self.post_dated) * self.operator.output_bytes
        tuples = self.open_keys.tuples if self.operator.closes_keys else len(self.applied)
        return self._size(self.key_since, tuples, 0) + later

    def changed_bytes(self) -> int:
        """Return the size of the changes since the last snapshot, with outputs of a later time that are made since."""
        state, tuples = self.operator.description.state, len(self.applied) - self.applied_at_snapshot
        if self.checkpoint and self.checkpoint.open_keys:
            tuples = self.open_keys.added(self.checkpoint.open_keys)
        made = sum(one.place >= self.applied_at_snapshot for one in self.post_dated.values())
        later = made * self.operator.output_bytes
        if isinstance(state, FixedState):
            whole = self._size(self.key_since, tuples, 0)
            return later + (whole if state.change_bytes is None else min(whole, round(tuples * state.change_bytes)))
        return later + self._size(self.touched, tuples, self.applied_at_snapshot)

    def _size(self, entries: Collection[int], tuples: int, first: int) -> int:
        """Return the size of these entries of keys, or of so many tuples beginning with applied tuple `first`."""
        state = self.operator.description.state
        if isinstance(state, WindowState):
            after = max(self.applied_created_ns, default=0) - to_ns(state.length_s)
            return round(sum(created > after for created in self.applied_created_ns[first:]) * state.entry_bytes)
        if isinstance(state, PerKeyState):
            if self.operator.entries is not None:
                return sum(self.operator.bytes_of_entry(entry) for entry in entries)
            return round(len(entries) * state.tuple_bytes)
        if isinstance(state, PerTupleState):
            return round(tuples * state.entry_bytes)
        return round(state.group_bytes) if isinstance(state, FixedState) else 0

    def snapshot(self, host: int, host_life: int, outputs: bool = True) -> Checkpoint:
        """Return the state now, as a checkpoint for a host; later changes count for the next one.

        Without `outputs` those that are kept are left out.
        """
        made = self.content(host, host_life, outputs)
        self.rebase(made.count, set())
        self.new_kept_bytes = 0
        return made

    def rebase(self, count: int, touched: set[int]) -> None:
        """Count as changed what came after the first `count` applied tuples, which are of these keys."""
        self.applied_at_snapshot, self.touched = count, touched

    def independent_snapshot(self) -> Checkpoint:
        """Return a copy of the state now, which stays valid in later lives, and does not count for the next one."""
        known, created_ns = dict(self.key_since), list(self.applied_created_ns)
        return replace(self.content(REMOTE, 0), key_since=known, applied_created_ns=created_ns)

    def content(self, host: int, host_life: int, outputs: bool = True) -> Checkpoint:
        """Return the state now, as a checkpoint for a host, with or without the kept `outputs`."""
        kept = tuple((partition, tuple(rows)) for partition, rows in self.kept.items() if rows and outputs)
        return Checkpoint(
            self.applied,
            len(self.applied),
            kept,
            self.state_bytes(),
            host,
            host_life,
            self.time.copy(),
            self.incarnation,
            post_dated=tuple(self.post_dated.values()),
            open_keys=self.open_keys.copy() if self.operator.closes_keys else None,
        )

    def install(self, checkpoint: Checkpoint | None) -> int:
        """Begin a new incarnation with the state of the checkpoint, or an empty one.

        Returns how many tuples are missing from it that upstream may have forgotten: then state is lost.
        """
        count = checkpoint.count if checkpoint else 0
        # Upstream has forgotten `trimmed` tuples. Those beyond the checkpoint cannot be replayed by anyone.
        missing, self.trimmed = max(0, self.trimmed - count), min(self.trimmed, count)
        self.applied = checkpoint.applied[:count] if checkpoint else []
        self.position = {}
        for place, tuple_id in enumerate(self.applied):
            self.position.setdefault(tuple_id, place)
        created_ns = (
            checkpoint.applied_created_ns
            if checkpoint and checkpoint.applied_created_ns is not None
            else self.applied_created_ns
        )
        self.applied_created_ns = created_ns[:count]  # the checkpoint is of this life or of an earlier one
        known = checkpoint.key_since if checkpoint and checkpoint.key_since is not None else self.key_since
        self.key_since = {key: since for key, since in known.items() if since < count}
        self.rebase(count, set())
        self.new_kept_bytes = 0
        self.kept = {partition: deque(rows) for partition, rows in checkpoint.kept} if checkpoint else {}
        for partition in self.kept:
            partition.senders[self] = None
        return missing

    def restore_post_dated(self, checkpoint: Checkpoint | None) -> None:
        """Have the outputs of a later time and the open keys of the checkpoint, or none."""
        # Copies: what the events of an earlier life find is another output.
        self.post_dated = {one.tuple_id: one._replace() for one in checkpoint.post_dated} if checkpoint else {}
        saved = checkpoint.open_keys if checkpoint else None
        self.open_keys = saved.copy() if saved else OpenKeys()

    def restore_event_time(self, checkpoint: Checkpoint | None, replays: bool) -> None:
        """Set event time to that of the checkpoint, or to the beginning."""
        windows = self.operator.windows
        time = self.time = self.time.restored(checkpoint.time if checkpoint else None, self.ticks_let_go, replays)
        # Without replay event time has stayed where it was: windows that it has passed are over.
        if windows is not None:
            passed = time.event_ns
            time.windows = {n: newest for n, newest in time.windows.items() if windows.end_ns(n) > passed}
            time.sides = {at: rows for at, rows in time.sides.items() if windows.end_ns(at[0]) > passed}

    def forget_volatile(self) -> list[Visit]:
        """Forget the memory of a host that died; return the tuples that were held.

        A source reads a durable log: its kept outputs are the part of the log that is not acknowledged yet. The list of
        applied tuples stays, for the audit. What waits at the next task of a key group is not there.
        """
        self.live = self.saving = self.counts_replays = self.taken = False
        self.post_dated.clear()
        self.overdue.clear()
        held = []
        if self.goal is None:
            held, self.held = self.held, []
        if not self.operator.is_source:
            self.kept.clear()
        return held
