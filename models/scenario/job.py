"""The job: operators, partitioning of their outputs, cost of a tuple, and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from models.distributions import TimeDistribution
from models.scenario.key_groups import KeyHash
from models.scenario.workload import OutputKeys
from models.schema_types import (
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    Name,
    PositiveBytes,
    PositiveSeconds,
    ReadOnlyMap,
    Share,
)

Factor = Annotated[float, Field(ge=0, le=1e6, strict=True)]
Kind = Literal["source", "map", "filter", "aggregate", "join", "sink"]
Partitioning = Literal["key", "shuffle", "forward", "broadcast"]


class PerKeyState(Description):
    """State of a fixed size for each key that was seen."""

    model: Literal["per-key"] = "per-key"
    entry_bytes: PositiveBytes | ReadOnlyMap[Bytes] = Field(alias="bytes")
    """State of one key: a size, or one for each input, by its name, as in `{ persons = "154 bytes", auctions = "112
    bytes" }`. Then each input has an entry for each key that it has brought, of whole bytes; an input of 0 bytes only
    reads."""

    def bytes_of(self, upstream: str) -> float:
        """Return the state of one key that has come from an upstream operator."""
        return self.entry_bytes[upstream] if isinstance(self.entry_bytes, Mapping) else self.entry_bytes

    @property
    def tuple_bytes(self) -> float:
        """Return the most that one tuple changes."""
        if isinstance(self.entry_bytes, Mapping):
            return max(self.entry_bytes.values(), default=0.0)
        return self.entry_bytes


class FixedState(Description):
    """State of the same size for each key group, whatever was processed."""

    model: Literal["fixed"] = "fixed"
    group_bytes: Bytes = Field(alias="bytes")
    """State of one key group."""
    change_bytes: Bytes | None = Field(default=None, alias="change")
    """State that one tuple changes: an incremental checkpoint has that of the tuples since the one before, and the
    whole state at most. Without it all of the state has changed each time."""

    @property
    def tuple_bytes(self) -> float | None:
        """Return the most that one tuple changes; None: all of it."""
        return self.change_bytes


class PerTupleState(Description):
    """State that grows by a fixed size with each tuple."""

    model: Literal["per-tuple"] = "per-tuple"
    entry_bytes: PositiveBytes = Field(alias="bytes")
    """State that one tuple adds."""
    until: Literal["end", "output"] = "end"
    """How long that stays: to the end of the run, or until the `output` of its key. In the latter case all tuples of a
    key go when no post-dated output of the key waits any more (`postpone`), as the bids of an auction do when it
    closes. Those that come later count only while another output of the key waits."""

    @property
    def closes(self) -> bool:
        """Return whether what a key holds goes with its last post-dated output."""
        return self.until == "output"

    @property
    def tuple_bytes(self) -> float:
        """Return the most that one tuple changes."""
        return self.entry_bytes


class WindowState(Description):
    """Tuples of the last `length` before the newest one are kept, by event time."""

    model: Literal["window"] = "window"
    entry_bytes: PositiveBytes = Field(alias="bytes")
    """State of one tuple."""
    length_s: PositiveSeconds = Field(alias="length")
    """How long a tuple is kept."""

    @property
    def tuple_bytes(self) -> float:
        """Return the most that one tuple changes."""
        return self.entry_bytes


State = Annotated[PerKeyState | FixedState | PerTupleState | WindowState, Field(discriminator="model")]


class Output(Description):
    """Tuples that leave the operator: their size, and new keys where the operator changes them."""

    tuple_bytes: PositiveBytes = Field(default=100.0, alias="tuple")
    """Size of a tuple that leaves."""
    keys: OutputKeys | None = None
    """New keys; without it a tuple keeps the key it came with."""


class Window(Description):
    """A window of event time; output at its end, when the watermark passes it.

    The event time of a tuple is its creation time. Windows begin at the multiples of `slide`, the first at 0.
    """

    length_s: PositiveSeconds = Field(alias="length")
    """Length of the window."""
    slide_s: PositiveSeconds | None = Field(default=None, alias="slide")
    """Time between the starts of two windows; without it windows do not overlap."""

    @property
    def step_s(self) -> float:
        """Return the time between the starts of two windows."""
        return self.length_s if self.slide_s is None else self.slide_s


class Timer(Description):
    """Output at regular instants, whatever comes in; its key is 0 unless `output.keys` says otherwise."""

    every_s: PositiveSeconds = Field(alias="every")
    """Time between two outputs of a task."""


class Reading(Description):
    """How a task of a source reads its log: a file, or what one poll returns, at a time; one of the two.

    Its records are there once it is read, all at one instant. Without it a source has each record as it is written.

    With the method `changelog` the tasks that read the source poll, and not the source, as stream threads do: a poll
    occupies the task, which polls again when it has begun the last record of the poll before.
    """

    file_s: PositiveSeconds | None = Field(default=None, alias="file")
    """Time of which a file has the records; it can be read from its end on."""
    poll: Count | None = None
    """Most records that a poll returns; it returns those that are there, and waits while there are none. In Kafka
    Streams `max.poll.records`."""
    cost: TimeDistribution | None = None
    """Time that a file or a poll takes, beside its records; without it none."""
    order: Literal["written", "newest-first", "shuffled"] = "written"
    """Order of the files that wait: as they were written, the newest one first, or at random."""


class Operator(Description):
    """One operator of the dataflow; `parallelism` tasks, each of `threads` threads.

    `takes` says which share of an upstream's tuples the operator reads, where it does not read all: a number, or the
    name of a stream of the profile, whose measured selectivity is the share.
    """

    kind: Kind
    """Kind of the operator."""
    inputs: ReadOnlyMap[Partitioning] = Field(default_factory=dict, validate_default=True)
    """Upstream operator = how its output is partitioned: `key`, `shuffle`, `forward` or `broadcast`."""
    takes: ReadOnlyMap[Share | Name] = Field(default_factory=dict, validate_default=True)
    """Upstream operator = share of its tuples that is read: a number, or a stream of the profile."""
    parallelism: Count = 1
    """Number of tasks."""
    threads: Count = 1
    """Threads of each task; more than one only where nothing is keyed and no state is kept."""
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, strict=True)
    """A free core that tasks share takes what has the highest priority, then what arrived first."""
    chain: bool | None = Field(default=None, strict=True)
    """Whether the operator is chained to the one that it reads, whose thread serves it; `false` begins a chain. Without
    it `placement.chaining` decides."""
    key_groups: Count | None = None
    """Number of key groups; without it one for each task."""
    key_hash: KeyHash = "crc32"
    """Hash by which a key finds its key group: of its decimal digits (`crc32`), or as Flink does for an `Integer` or
    `Long` (`flink-number`) or for a `String` of the digits (`flink-string`), or as Kafka's partitioner does for that
    string (`kafka-string`)."""
    key_group_assignment: Literal["round-robin", "ranges"] = "round-robin"
    """Which task has which key groups: key group j on task j mod n, or as many as fit behind each other on one task
    after the other, as in Flink."""
    service: TimeDistribution | None = None
    """Time one tuple takes on a host of speed 1."""
    selectivity: Factor | ReadOnlyMap[Factor] = 1.0
    """Mean number of tuples that leave for each that comes in: a number, or one for each input, by its name, as in
    `{ auctions = 1.0, bids = 0.0 }`; with a window for each key in each window, of a join for each pair of tuples with
    equal keys in one window."""
    output: Output | None = None
    """Size and keys of tuples that leave."""
    state: State | None = None
    """State that is kept."""
    window: Window | None = None
    """Window of an aggregate, which emits for each key at its end and nothing at a tuple, or of a join."""
    timer: Timer | None = None
    """Makes each task emit at regular instants as well."""
    postpone: TimeDistribution | None = None
    """Makes outputs post-dated: each is born and leaves so long after the birth of the tuple that it is made of, and at
    once if that time is over when the tuple is applied. Until then it is a part of the state of its key group."""
    scan_s: PositiveSeconds | None = Field(default=None, alias="scan")
    """Time for which a task looks at one key group in each of its rounds: at all of the operator, whichever it has. A
    task scans, serves what came before the end of the scan, and scans again. Without it a key group costs nothing as
    long as it stays."""
    buffer: Count | None = None
    """Places of a task for tuples in its queue and those under way to it; without it there is no bound. Where none is
    free the senders wait, up to the source.
    """
    reading: Reading | None = None
    """How the tasks of a source read what was written; without it each record at once, at no cost."""
    commit: Literal["at-once", "at-checkpoint"] = "at-once"
    """When what a sink delivers is visible to others: `at-once`, or `at-checkpoint`: it goes into a transaction, which
    is committed when the checkpoint of the job is complete that covers it (two-phase commit)."""
    serialise_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="serialise")
    """Speed at which state is turned into bytes."""
    deserialise_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="deserialise")
    """Speed at which bytes are turned into state."""

    @property
    def keyed(self) -> bool:
        """Return whether an input is partitioned by key: then state and recovery are by key group."""
        return "key" in self.inputs.values()

    @property
    def round_s(self) -> float:
        """Return the time that a task takes in each round to look at all key groups; 0 if that costs nothing."""
        return 0.0 if self.scan_s is None else self.scan_s * self.groups

    @property
    def movable(self) -> bool:
        """Return whether its key groups can move from host to host: of an aggregate or a join."""
        return self.keyed and self.kind in ("aggregate", "join")

    @property
    def stateful(self) -> bool:
        """Return whether a task has what outlasts a tuple: a state, a window, post-dated outputs, a timer, a join."""
        own = (self.state, self.window, self.timer, self.postpone)
        kept = any(one is not None for one in own)
        return self.kind not in ("source", "sink") and (kept or self.kind in ("aggregate", "join"))

    def selectivity_of(self, upstream: str) -> float:
        """Return the mean number of tuples that leave for each that comes from an upstream operator."""
        return self.selectivity[upstream] if isinstance(self.selectivity, Mapping) else self.selectivity

    @property
    def most_selective(self) -> float:
        """Return the largest selectivity of an input."""
        if isinstance(self.selectivity, Mapping):
            return max(self.selectivity.values(), default=0.0)
        return self.selectivity

    @property
    def groups(self) -> int:
        """Return the number of partitions of state and recovery: key groups, or tasks if nothing is keyed."""
        if not self.keyed:
            return self.parallelism
        return self.key_groups or self.parallelism

    def task_of(self, group: int, tasks: int | None = None) -> int:
        """Return the task that has a key group, 0 .. groups - 1, at the start, or with another number of tasks.

        Ranges: `KeyGroupRangeAssignment` of Flink.
        """
        tasks = self.parallelism if tasks is None else tasks
        return group * tasks // self.groups if self.key_group_assignment == "ranges" else group % tasks
