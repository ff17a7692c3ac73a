"""The data plane: all that happens to single tuples, behind interfaces by purpose.

The control plane (failures, detection, recovery, the laws of checkpoints) sees operators, hosts, tasks and partitions
as numbers: task t and partition p as in `sim.control.cluster.Cluster`, host h and operator o in file order. It acts on
tuples only by the verbs below, each at the current instant of the clock.

Verbs of control never undo anything. Events that they schedule for the current instant (a tuple inside a host, a
message without latency) follow the usual order within an instant.

`Plane` is what every plane does. Each further interface adds the verbs for one purpose, and `DataPlane` is all of them
together; `sim.kernel.choice` says which run needs which. The event loop (`sim.kernel.event_loop`) and the plain plane
(`sim.plain`), its specification, do everything; the scan (`sim.kernel.scan`) is a `Plane`. All give equal rows
(docs/reference/simulator.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

REMOTE = -1  # in place of a host: the remote checkpoint store
NO_HOST = -2  # no host can hold a checkpoint now
CONTROL = -1  # in place of a task: the control plane as the sender of a message

Key = tuple[int, int, int]  # (instant [ns], rank, number of the event): what is done at `Key` comes after all below it
Row = tuple[object, ...]
Rows = Sequence[Row] | np.ndarray  # an array of whole numbers (n, columns) is kept as it is


class Timed(NamedTuple):
    """One action that the plane does by itself at its instant, as control: the name of a verb, and its arguments.

    `verb` is pause, unpause, mute, send or unalign with the arguments of `DataPlane`, all by position, or chore
    with (task, ns): work of which nobody is told (none, where the task has no service).
    """

    at_ns: int
    verb: str
    arguments: tuple[Any, ...]


class Statistic(NamedTuple):
    """What a partition has done at all its tasks since the start of the run, and its size now (0 if not live)."""

    partition: int
    tuples: int  # that came for it from upstream, without those that were sent again
    served: int  # services of tuples that ended
    cpu_ns: int  # work of these, and of writing snapshots
    received_bytes: int  # of tuples that came from other hosts
    sent_bytes: int  # to other hosts, also what was sent again
    state_bytes: int

    def since(self, before: Statistic) -> Statistic:
        """What it has done since then."""
        return Statistic(
            self.partition,
            self.tuples - before.tuples,
            self.served - before.served,
            self.cpu_ns - before.cpu_ns,
            self.received_bytes - before.received_bytes,
            self.sent_bytes - before.sent_bytes,
            self.state_bytes,
        )


class Listener(Protocol):
    """What the plane tells the control plane, at the instant at which it happens and after the event or verb.

    Each thing is told after the one before, with what the listener did about that; verbs inside do not tell more. The
    plane is never asked for its next event: `advance` runs up to it, tells, and returns.
    """

    def work_done(self, token: int) -> None:
        """The work that was given with this token is done; the core it held is free, but nothing has started on it."""

    def idle(self, task: int) -> None:
        """A watched task has nothing to do: a service or work ended, or a replayed tuple, the last, was recognised.

        All just now; that the work is done is told before.
        """

    def message(self, token: int, task: int) -> None:
        """A message has come to the task, or its turn has. The task starts nothing before this returns."""

    def aligned(self, token: int, task: int) -> None:
        """The same for a barrier, which has come over all its channels."""

    def stored(self, partition: int) -> None:
        """The checkpoint of this partition that was announced is stored."""

    def checkpoint_host(self, partition: int) -> int:
        """Who is to hold the checkpoint of this partition, whose planned checkpoint host cannot: a host, or NO_HOST."""


@runtime_checkable
class Plane(Protocol):
    """Time, periodic checkpoints and records: all that a run needs if nothing fails and nothing moves.

    Every plane does this. `sim.kernel.choice` says which runs need more.
    """

    def advance(self, limit: Key) -> bool:
        """Do all that comes before `limit`; True if it stopped earlier because the listener was told something.

        Then control may have set new timers: look for the limit again.
        """

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Take a checkpoint of partition k at `offsets_ns[k]` after each multiple of the interval, from the first on.

        A control action at its instant, set at the one before it. The whole life of a checkpoint is the plane's:
        the snapshot, writing it, its way to the checkpoint host, and that upstream forgets.
        """

    def samples(self) -> Rows:
        """A row of `samples` without its instant for each live task: (task, host, queue, busy_ns, buffered)."""

    def buffers(self) -> Rows:
        """A row of `buffers` without its instant for each live task: (task, taken, unsent, blocked_ns)."""

    def links(self) -> Rows:
        """A row of `links` without its instant for each host on whose link checkpoints have delayed a tuple so far:
        (host, carried, delayed, delay_ns, longest_ns).
        """

    def lag(self) -> Rows:
        """(operator, tuples that arrived before now and are not emitted) for each source partition."""

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """(begin of the second, kind) -> (messages, bytes) of all that the plane sent."""

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Rows (operator, expected, lost, duplicated), one for each operator but the sources."""

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """The tables visits, waiting, deliveries, dropped, checkpoints, cpu, as they are at the end of the run.

        `cpu` may be left out where no host shares its cores evenly and no pace ever changed.
        """


@runtime_checkable
class SharedCpuPlane(Plane, Protocol):
    """A plane whose hosts can lose a share of their CPU to others."""

    def speed(self, host: int, share: float) -> None:
        """Others take this share of the host's CPU from now on, 0 <= share < 1, whether it is alive or not.

        A service in progress goes on at the new pace. The share that it has already is no change.
        """


@runtime_checkable
class CountingPlane(Plane, Protocol):
    """A plane that counts what each key group does."""

    def statistics(self) -> list[Statistic]:
        """What each partition but those of sources has done so far, in order of their numbers, also where it is over.

        Counted only where `Scenario.counts_load`; else it raises ValueError.
        """


@runtime_checkable
class IdlePlane(Plane, Protocol):
    """A plane that says when tasks have nothing to do, and when what is on its way to them has arrived."""

    def empty(self, task: int) -> bool:
        """Whether nothing waits at the task and nothing is served."""

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """When the last tuple that is under way to the task from tasks of these operators arrives.

        With `before` only of those that were sent when `sendings` was less. Not before that instant where links are
        shared evenly: what is sent meanwhile can delay it.
        """

    def sendings(self) -> int:
        """A number that grows with whatever is sent."""

    def watch(self, tasks: Collection[int]) -> None:
        """Tell the listener from now on when one of exactly these tasks is idle."""


@runtime_checkable
class CheckpointPlane(Plane, Protocol):
    """A plane that says where checkpoints are, and takes and places them as control asks.

    A plane without it takes periodic checkpoints only (`Plane.start_checkpoints`).
    """

    def checkpoint_host(self, partition: int) -> int | None:
        """The host that holds the stored checkpoint, REMOTE, or None without one."""

    def checkpoint_bytes(self, partition: int) -> int:
        """Size of all that a restore reads: state and kept outputs; 0 without a checkpoint."""

    def fetch_ns(self, size_bytes: int) -> int:
        """When so many bytes that are asked of the remote store now have arrived; holds its link."""

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """Take a checkpoint of the partition now, for a live host that is not its own, or REMOTE; whether it was taken.

        Not of a partition that is not live or whose last one is not stored yet, of a source or a sink.
        """

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """Plan this host, or NO_HOST, for the checkpoints of the partition from now on, as the cluster says already."""

    def announce(self, partition: int) -> None:
        """`Listener.stored` is told when the next checkpoint of the partition is stored."""

    def freeze(self, partition: int, frozen: bool) -> None:
        """Whether no checkpoint of the partition is taken or stored any more, also none that is under way."""

    def trim(self, partition: int, count: int) -> None:
        """All that keep outputs for the partition forget, in order, those among its first `count` applied tuples."""


@runtime_checkable
class RecoverablePlane(CheckpointPlane, IdlePlane, Protocol):
    """A plane on which hosts die, and what they had is restored elsewhere and replayed."""

    def crash(self, host: int) -> None:
        """The host dies: its tasks with their queues and services, what it had not sent, the checkpoints it holds.

        The cluster still says which tasks and partitions are there, and the host counts as dead already. The tuples
        that end here are among the rows of `dropped`: task by task (in service, front, queue), then what partitions
        held, then its link in the order of sending.
        """

    def add_task(self, task: int) -> None:
        """A new, empty task, which the cluster knows already."""

    def assign(self, partition: int, task: int) -> None:
        """Tuples for the partition go to this task from now on, which holds them; a new incarnation begins.

        Replayed tuples are counted from zero.
        """

    def install(self, partition: int) -> int:
        """The state of the stored checkpoint, or none, becomes that of the partition.

        Returns how many tuples are missing from it that upstream may have forgotten.
        """

    def open(self, partition: int) -> None:
        """The partition is live: tuples for it are processed at their turn."""

    def release(self, partition: int) -> None:
        """What the partition held goes in front of the queue of its task, in order."""

    def resume(self, partition: int) -> None:
        """A source partition emits what arrived before now and waits, a timer for the instants before now."""

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task, which has a service, for a time, ahead of its queue; then `Listener.work_done`."""

    def replay(self, sender: int, receiver: int, turn: bool = False) -> tuple[int, int]:
        """Send all that `sender` keeps for `receiver` again, as one message: (tuples, bytes).

        The tuples come in front of the queue when it arrives, or with `turn` when its turn in the queue has come.
        """

    def senders(self, partition: int) -> list[int]:
        """Partitions that keep outputs for this one, rising."""

    def receivers(self, partition: int) -> list[int]:
        """Partitions that this one keeps outputs for, rising."""

    def replayed(self, partition: int) -> tuple[int, int]:
        """(replayed tuples that are not processed yet, when the last was processed or NEVER), since `assign`."""

    def stop_counting_replays(self, partition: int) -> tuple[int, int]:
        """`replayed` of the partition now; from here on its replayed tuples are not counted."""


@runtime_checkable
class InstancePlane(RecoverablePlane, Protocol):
    """A plane on which a key group may be at two tasks for a time: while it moves, or has a replica.

    A further *instance* is a partition with a number, task and state of its own. All verbs take it for a partition; the
    one that is the owner stands for the group.
    """

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """One more instance of the partition's group, which the cluster knows already: not live, without a state.

        It holds what arrives until `open` and `release`. Raises ValueError for a source, or where no host may fail.
        """

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Outputs of this task for the partition's group go to these instances (two at most) from now on.

        The owner gets them where none is named. What is under way goes where it was sent to; each output is kept for
        those that it is sent to, under one id. Raises ValueError for more targets.
        """

    def own(self, instance: int) -> None:
        """The instance is the owner: it is sent what no table sends elsewhere, and checkpoints and ledger are its."""

    def mute(self, partition: int, muted: bool) -> None:
        """Whether the partition, as services end from now on, applies what comes and keeps outputs, but sends none."""

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """What the partition `sender` keeps for one instance it keeps for another one, too, behind what that has."""

    def adopt(self, instance: int, partition: int) -> None:
        """The stored checkpoint of the partition, if there is one, is that of a new instance, too, and its state.

        Raises ValueError if the instance is live or has a state.
        """

    def hand_down(self, instance: int, successor: int) -> bool:
        """The state of an instance becomes the stored checkpoint of another, held by its host; whether it did.

        Not where the successor has taken a checkpoint of its own meanwhile.
        """

    def retire(self, partition: int) -> None:
        """The instance is over: it keeps nothing, and what is on its way to it is dropped; its stored checkpoint stays.

        Nothing is kept for it any more but by senders that are down, which have to send it to the successor.
        """


@runtime_checkable
class ActionPlane(Plane, Protocol):
    """A plane on which protocols act: they pause tasks, hold tuples, send messages, and time what waits."""

    def pause(self, task: int, until_ns: int | None) -> None:
        """The task starts nothing before that instant, or (None) before `unpause`; sources emit nothing.

        It ends after the services that end at that instant, and never shortens another pause. What is unsent where
        queues have bounds is sent meanwhile.
        """

    def unpause(self, task: int) -> None:
        """The pause is over now; sources emit what arrived meanwhile."""

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Tuples for the partition from that task (None: all) go to a side list; asked at their turn, at no cost."""

    def unhold(self, task: int, partition: int | None) -> None:
        """End the rules for just this partition (None: all rules); what none holds any more goes in front, in order."""

    def send(
        self,
        sender: int,
        receiver: int,
        token: int,
        turn: bool = False,
        size_bytes: int = 0,
        work_ns: int = 0,
        channels: int = 0,
    ) -> None:
        """A message from task to task, or from CONTROL, behind all that left the sender for the receiver before.

        It goes behind what the sender has not sent yet for want of room, and needs no room itself.

        It holds the link for its bytes and arrives as a tuple does; CONTROL sends with the latency alone, and its
        channel comes last. With `turn` it goes through the queue, and at its turn occupies the task for `work_ns`
        (nothing, where tasks have no service); then, or else as it arrives, the listener is told. With `channels` it is
        a barrier: what comes behind it on its channel is held back until barriers of the same token have come over so
        many channels; then one of them enters the queue, and behind it what was held back, in order of arrival.
        A message is gone with its receiver, or if its sender dies before it has left.
        """

    def unalign(self, task: int) -> None:
        """Forget the oldest barriers that wait at the task; what they held back arrives now."""

    def start_actions(self, actions: Sequence[Timed]) -> None:
        """Do these, given in order of time and after now, at their instants.

        Control actions, each set when the one before has been done; several at an instant follow each other.
        """

    def measure(self, partition: int, from_ns: int) -> None:
        """Time from now on what arrives at the partition from an instant on, from arrival to end of service.

        Not what is sent again, which was answered before, nor while the partition is muted. The longest is kept.
        """

    def measure_until_calm(self, partition: int) -> None:
        """The measuring ends with the first tuple from now on that is served as it arrives."""

    def longest_ns(self, partition: int) -> int:
        """The longest time that was measured for the partition since `measure`, or NEVER."""


@runtime_checkable
class DataPlane(InstancePlane, ActionPlane, CountingPlane, SharedCpuPlane, Protocol):
    """A plane that can do everything, which is what the managers of a run need together."""
