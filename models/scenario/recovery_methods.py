"""Describe what a method of recovery asks for: an acker, acks that trim, barriers, batches, changelogs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.distributions import TimeDistribution
from models.schema_types import (
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    PositiveSeconds,
    Seconds,
)
from models.units import to_ns


class Acker(Description):
    """Every tuple that a source emits is the root of a tree of tuples; an acker knows when all of it is processed.

    A root that is not done in time has failed: its source emits it again, under the same id.
    """

    timeout_s: PositiveSeconds = Field(default=30.0, alias="timeout")
    """Time after which a root that is not done has failed."""
    expiry: Literal["rotating", "exact"] = "rotating"
    """When roots fail: `rotating`: at multiples of the time-out, one to two time-outs after they were emitted; `exact`:
    a time-out after that.
    """
    pending: Count | None = None
    """A source task emits nothing while it has so many roots that are not done; without it there is no limit. It holds
    for each task, as in Storm.
    """
    acks: Literal["literal", "covered"] = "literal"
    """When a task acknowledges what it has processed: `literal`: at once; `covered`: where it has state, once that is
    saved.
    """
    transport: Literal["latency", "links"] = "latency"
    """How acks travel: `latency`: each arrives one latency later, and occupies no link; `links`: over the links, among
    all other messages, to the host of the source task whose root it is for, beside which the acker runs.
    """
    ack_bytes: Bytes = Field(default=20.0, alias="ack")
    """Size of an ack."""

    @property
    def timeout_ns(self) -> int:
        """Return the time-out [ns], one at least."""
        return max(1, to_ns(self.timeout_s))

    def expires_ns(self, emitted_ns: int) -> int:
        """Return when a root that was emitted at an instant fails, if it is not done before."""
        at_ns = emitted_ns + self.timeout_ns
        return at_ns if self.expiry == "exact" else -(-at_ns // self.timeout_ns) * self.timeout_ns


class Trimming(Description):
    """Upstream trims its outputs by acks of several levels, slice by slice: the queue trimming protocol.

    A *slice* is all that a task processes between two marks. An L0-ACK confirms what the receiver has processed, an
    L1-ACK a slice whose outputs are L0-acknowledged, and so on. A task with state sends L1-ACKs and higher ones only
    for slices that a checkpoint covers. Outputs are trimmed at the highest level.
    """

    slice_s: PositiveSeconds = Field(default=1.0, alias="slice")
    """Time between two marks."""
    every_s: PositiveSeconds = Field(default=5.0, alias="every")
    """Time between two rounds of acks (the trimming interval)."""
    step_s: PositiveSeconds | None = Field(default=None, alias="step")
    """Time between the acks of an operator and those of the operators upstream of it in a round. Acks that arrive
    within it are passed on in this round, others in the next one. Without it 0.1 s, or a tenth of `every` if that is
    shorter."""
    levels: Count = 2
    """Levels of acks, L0 included; so many failures of adjacent tasks at a time, less one, lose nothing."""
    ack_bytes: Bytes = Field(default=32.0, alias="ack")
    """Size of an ack: one message for each pair of tasks and round, with all levels."""
    work_s: Seconds = Field(default=0.0, alias="work")
    """Time for which each ack occupies the task that sends it, and the one that gets it, where these have a service."""
    reading: Literal["safe", "literal"] = "safe"
    """Content of a checkpoint beside the state: `safe`: the outputs that are not trimmed, which recovery sends again;
    `literal`: nothing, as the paper prints it. Then outputs whose inputs are in the checkpoint may be lost."""

    @property
    def hop_s(self) -> float:
        """Return the time for which a round waits at each operator [s]."""
        return min(0.1, self.every_s / 10) if self.step_s is None else self.step_s


class Adjusting(Description):
    """How an operator gets other tasks by the online adjustment protocol, beside trimming by acks."""

    checkpoint: Literal["last", "new"] = "last"
    """Checkpoints that are split, or merged. `last`: the last stored checkpoints of its key groups; `new`: new ones,
    which are taken first. Until its next checkpoint the operator goes back to these after a failure."""
    reading: Literal["safe", "literal"] = "safe"
    """Fate of tuples that are in no checkpoint: `safe`: upstream sends them again by the new mapping;
    `literal`: they are lost, as upstream resumes with the next one, which is all that the paper prints."""


class History(Description):
    """Outputs are kept for a time, and no checkpoint is taken: the history that an operator needs is sent again.

    Upstream or, with the method `source-backup`, the sources keep them.
    """

    length_s: PositiveSeconds = Field(default=30.0, alias="length")
    """How long outputs are kept after the creation of their tuples, and until their receivers have processed them."""
    every_s: PositiveSeconds = Field(default=1.0, alias="every")
    """Time between two looks at what is older."""


UNTIL_PROCESSED = History(length_s=1e-9)  # what is on its way to an instance is all that is kept


class Snapshots(Description):
    """Costs of a checkpoint for its task."""

    mode: Literal["synchronous", "asynchronous"] = "synchronous"
    """Who writes a snapshot at the speed `serialise` of its operator: `synchronous`: the task, which does nothing else
    meanwhile; `asynchronous`: somebody beside it, at no cost for the task."""
    pause_s: Seconds = Field(default=0.0, alias="pause")
    """Time for which each checkpoint occupies its task, ahead of its queue and before anything is written. Each key
    group of the task has a checkpoint of its own."""
    copy_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="copy")
    """Speed at which the whole state is copied in that pause, which grows with the state; without it, it does not."""

    @property
    def cost(self) -> bool:
        """Return whether they cost more than writing by the task."""
        return self != Snapshots()


class Barriers(Description):
    """Checkpoints of the whole job, by barriers that travel from the sources among the tuples, as in Flink.

    A task takes its snapshot when barriers have come over all of its channels. The checkpoint is complete once every
    snapshot is stored: only then does it count. A failure ends those that are under way.
    """

    first: Literal["interval", "random"] = "interval"
    """When the first checkpoint begins: after an `interval`, or at a random time between `min_pause` and that."""
    restarted: Literal["at-once", "random"] = "at-once"
    """When the next one begins after tasks have been restarted and all run: after `min_pause`, or as `random` above."""
    min_pause_s: Seconds = Field(default=0.0, alias="min_pause")
    """Least time between the end of a checkpoint and the begin of the next."""
    timeout_s: PositiveSeconds = Field(default=600.0, alias="timeout")
    """Time after which a checkpoint that is not complete is given up: it has expired."""
    concurrent: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """How many checkpoints may be under way at a time, aligned ones without `min_pause`. A later one that is complete
    first ends those before it."""
    tolerated_failures: int | None = Field(default=None, strict=True, ge=0, le=10**9)
    """How many checkpoints may expire in a row; one more fails the job, all of which is restarted. Without it, the job
    goes on whatever expires."""
    unaligned: bool = False
    """Whether barriers overtake records: those that a barrier passes in queues and unsent outputs are in-flight data,
    which belongs to the checkpoint. Needs `exactly-once`.
    """
    alignment_timeout_s: Seconds = Field(default=0.0, alias="alignment_timeout")
    """Age of a checkpoint at which barriers that are not aligned begin to overtake, with `unaligned`; 0: at once."""


class Compaction(Description):
    """How a task merges the files of increments, as RocksDB does, level by level.

    Each increment is a file of level 0. When there are `files` of them they are merged with level 1, and the increment
    after that has what was merged as well.
    """

    files: Annotated[int, Field(strict=True, ge=1, le=10**6)] = 4
    """How many files of increments are merged at a time: level0-file-num-compaction-trigger of RocksDB."""
    level_bytes: Bytes = Field(default=256e6, alias="level")
    """Size of level 1 of a task, which is written anew with them, or the whole state of the task if that is smaller:
    state.backend.rocksdb.compaction.level.max-size-level-base of Flink."""


class LocalRecovery(Description):
    """Hosts keep copies of the snapshots of the last complete checkpoint on their disks, beside those in the store.

    What starts again on the host where it was reads its copy; what is lost with a host is read from the store.
    """

    disk_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="disk")
    """Speed at which the disk of a host reads copies, one after the other; without it that takes no time."""


class MicroBatches(Description):
    """How batches run: sources emit what has arrived at a trigger, and all of it is stored before the next one.

    The driver plans a batch and says when it is done. It runs on the host of the first task, and is started again by
    whoever supervises it. `fault_tolerance.interval` is the time between two triggers: a batch that takes longer is
    followed at once.
    """

    plan: TimeDistribution | None = None
    """Time from a trigger until tasks begin: offsets are asked for and logged, the query is planned; without it none.
    """
    commit: TimeDistribution | None = None
    """Time from the last output of a batch until it is in the commit log, and the next may begin; without it none."""
    cold: TimeDistribution | None = None
    """Time added to `plan` of the first batch after a restart of the driver, whose code is cold; without it none."""
    max_offsets: Count | None = None
    """Most records that a batch takes from each source; without it all that have arrived. The tasks of a source share
    it in proportion to what waits at them, rounded down, and one record at least for each at which something waits."""


class Changelog(Description):
    """How the changes of states are kept, and copies of the states, as in Kafka Streams.

    Each key group or task of an operator commits on its own every `fault_tolerance.interval`: what has changed goes to
    its changelog, in the remote store. It is restored by threads beside the tasks of its host, as many as the host has
    cores, which share what is to be read evenly, each at the speed `deserialise` of the operator.
    """

    standbys: Annotated[int, Field(strict=True, ge=0, le=100)] = 0
    """Other hosts that keep a copy of each state, up to its last commit: one of them takes what is lost, at once if its
    copy is complete. A copy that is gone is made anew elsewhere, from the changelog, while nothing is restored there.
    """
    uncompacted: float = Field(default=0.0, ge=0, le=1000, strict=True)
    """Part of a changelog that was overwritten and is still there, as a share of the state."""
    warmups: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 0
    """Copies that are made at a time where key groups are to go, when a host comes and has fewer than others. A group
    moves once its copy is complete, and stays where it is until then. 0: no key group moves to a host that comes."""
    probing_s: PositiveSeconds = Field(default=600.0, alias="probing")
    """Time after which it is looked whether such copies are complete."""
    acceptable_lag: Annotated[int, Field(strict=True, ge=0, le=10**12)] = 10_000
    """Changes that a copy may miss, to count as complete when key groups are to move: of the size of `change`, or of an
    entry, of the state of its operator."""
    visible: Literal["delivered", "committed"] = "delivered"
    """When sinks take outputs: `delivered`: as they arrive; `committed`: once the tasks that have sent them have
    committed, as readers of transactions do."""
