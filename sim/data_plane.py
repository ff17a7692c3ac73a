"""The data plane: all that happens to single tuples, behind interfaces by purpose.

The control plane (failures, detection, recovery, the laws of checkpoints) sees operators, hosts, tasks and partitions
as numbers: task t and partition p as in `sim.control.cluster.Cluster`, host h and operator o in file order. It acts on
tuples only by the verbs below, each at the current instant of the clock.

Verbs of control never undo anything. Events that they schedule for the current instant (a tuple inside a host, a
message without latency) follow the usual order within an instant.

`Plane` is what every plane does. Each further interface adds the verbs for one purpose, and `DataPlane` is all of them
together; `sim.kernel.needs` says which run needs which. The event loop (`sim.kernel.event_loop`) and the plain plane
(`sim.plain`), its specification, do everything; the scan (`sim.kernel.scan`) is a `Plane`. All give equal rows
(docs/reference/simulator.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sim.plane_values import Failed, Key, Mail, Parcel, Rows, Timed


class Listener(Protocol):
    """Calls from the data plane to control, each at its instant and after the event or verb that caused it.

    A call is made after the call before it and all that the listener did in it; verbs inside a call make none. The
    plane is never asked for its next event: `advance` runs up to it, calls, and returns.
    """

    def work_done(self, token: int) -> None:
        """Note that the work with this token is done; its core is free, but nothing has started on it."""

    def idle(self, task: int) -> None:
        """Note that a watched task has just become idle: a service or work ended, or the last replayed tuple.

        `work_done` is called before it.
        """

    def message(self, token: int, task: int) -> None:
        """Note that a message has come to the task, or its turn has. The task starts nothing before this returns.

        Also called for the first barrier that overtakes what waits at the task (`UnalignedPlane`).
        """

    def aligned(self, token: int, task: int) -> None:
        """Note the same for a barrier that has come over all its channels."""

    def stored(self, partition: int, slot: int) -> None:
        """Note that the announced checkpoint of this partition, or with barriers or batches any, is stored.

        `slot` as in `CheckpointPlane.checkpoint_each`.
        """

    def passed(self, token: int) -> None:
        """Note that a frontier that was asked for has passed its time: with the event that ended the last older tuple.

        Called after all others for the same event, and for several frontiers in the order in which they were asked for.
        """

    def checkpoint_host(self, partition: int) -> int:
        """Return a checkpoint host, or NO_HOST, for this partition, whose planned one cannot take the checkpoint."""


@runtime_checkable
class Plane(Protocol):
    """Time, periodic checkpoints and records: all that a run needs if nothing fails and nothing moves.

    Every plane does this. `sim.kernel.needs` says which runs need more.
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
        """Return a row of `samples` without its instant for each live task: (task, host, queue, busy_ns, buffered)."""

    def buffers(self) -> Rows:
        """Return a row of `buffers` without its instant for each live task.

        A row is (task, taken, unsent, blocked_ns, kept_bytes, unconfirmed, slices).
        """

    def links(self) -> Rows:
        """Return a row of `links` without its instant for each host whose checkpoints have delayed a tuple so far.

        A row is (host, carried, delayed, delay_ns, longest_ns).
        """

    def lag(self) -> Rows:
        """Return (operator, tuples that arrived before now and are not emitted) for each source partition."""

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes) of all that the plane sent."""

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return the rows (operator, expected, lost, duplicated), one for each operator but the sources."""

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables visits, waiting, deliveries, dropped, checkpoints, cpu, as they are at the end of the run.

        `cpu` may be left out where no host shares its cores evenly and no pace ever changed.
        """


@runtime_checkable
class SharedCpuPlane(Plane, Protocol):
    """A plane whose hosts can lose a share of their CPU to others."""

    def speed(self, host: int, share: float) -> None:
        """Let others take this share of the host's CPU from now on, 0 <= share < 1, whether it is alive or not.

        A service in progress goes on at the new pace. A call with the current share has no effect.
        """


@runtime_checkable
class CountingPlane(Plane, Protocol):
    """A plane that counts what each key group does."""

    def statistics(self) -> Rows:
        """Return the counts of all partitions but those of sources, ended ones included, in order of their numbers.

        Each is a row with the columns of `Statistic`. They are counted only where `Scenario.counts_load`; else it
        raises ValueError.
        """


@runtime_checkable
class IdlePlane(Plane, Protocol):
    """A plane that says when tasks are idle, and when the tuples on their way to them have arrived."""

    def empty(self, task: int) -> bool:
        """Return whether nothing waits at the task and nothing is served."""

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """Return when the last tuple that is under way to the task from tasks of these operators arrives.

        With `before`, only tuples that were sent when `sendings` was less count. Where links are shared evenly the
        instant is a lower bound: later messages can delay a tuple.
        """

    def sendings(self) -> int:
        """Return a number that grows with every tuple and message that is sent."""

    def watch(self, tasks: Collection[int]) -> None:
        """Tell the listener from now on when one of exactly these tasks is idle."""


@runtime_checkable
class CheckpointPlane(Plane, Protocol):
    """A plane that says where checkpoints are, and takes and places them as control asks.

    A plane without it takes periodic checkpoints only (`Plane.start_checkpoints`).
    """

    def checkpoint_host(self, partition: int) -> int | None:
        """Return the host that holds the stored checkpoint, REMOTE, or None without one."""

    def checkpoint_bytes(self, partition: int) -> int:
        """Return the size of all that a restore reads: state and kept outputs; 0 without a checkpoint."""

    def fetch_ns(self, size_bytes: int) -> int:
        """Return when so many bytes that are asked of the remote store now have arrived; holds its link."""

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """Take a checkpoint of the partition now, for a live host that is not its own, or REMOTE; whether it was taken.

        Not of a partition that is not live or whose last one is not stored yet, of a source or a sink. With barriers
        or batches (`FaultTolerance.completes_checkpoints`) it is not stored before it is complete
        (`complete_checkpoints`), holds no outputs, and a sink notes what it has delivered.
        """

    def checkpoint_each(
        self, partitions: Sequence[int], checkpoint_host: int, slot: int = 0, more_bytes: int = 0
    ) -> int:
        """Take checkpoints of these partitions in order, as `checkpoint` does one; return how many were taken.

        In a run with barriers or batches. They are a batch: `Listener.stored` is called once, with the first of those
        that were taken, when all of these are stored; never if one of them is lost. Else raises ValueError.

        A partition may have one in each of several slots, as many as checkpoints may be under way
        (`Barriers.concurrent`). An increment has what changed since the last one that is complete, and so many bytes
        more of the state, up to all of it; with these its files are merged (`FaultTolerance.compaction`).
        """

    def complete_checkpoints(self, partitions: Collection[int], slot: int = 0) -> None:
        """Let the checkpoints of these partitions count that have come to the store; upstream forgets what they cover.

        In a run with barriers or batches. `Listener.stored` is called for each of them when it has come, or for all of
        `checkpoint_each`. Those in other slots stay; they must be newer.
        """

    def deliveries(self) -> int:
        """Return how many rows of `deliveries` there are by now; 0 where single tuples are not recorded."""

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """Plan this host, or NO_HOST, for the checkpoints of the partition from now on, as the cluster says already."""

    def announce(self, partition: int) -> None:
        """Have `Listener.stored` called when the next checkpoint of the partition is stored."""

    def freeze(self, partition: int, frozen: bool) -> None:
        """Stop taking and storing checkpoints of the partition, also one that is under way; False: allow them again."""

    def abort_checkpoints(self, partitions: Collection[int], slot: int | None = None) -> None:
        """Forget the checkpoints of these partitions that are under way or not complete; a new incarnation begins.

        With a slot only those in it are forgotten, and the incarnation stays.

        If no other one is under way the link of the remote store is free now. What arrives there later is not written,
        in a run whose method aborts checkpoints (`FaultTolerance.aborts_checkpoints`).
        """

    def trim(self, partition: int, count: int) -> None:
        """Have all senders forget the outputs that are kept for the first `count` tuples that the partition applied."""


@runtime_checkable
class RecoverablePlane(CheckpointPlane, IdlePlane, Protocol):
    """A plane on which hosts die, and their state is restored elsewhere and replayed to.

    `assign`, `install`, `open` and `release` raise ValueError in a run that keeps no ids (`RunPlan.keeps_ids`).
    """

    def crash(self, host: int) -> None:
        """Kill the host: its tasks with queues and services, its unsent outputs, and the checkpoints it holds.

        The cluster still says which tasks and partitions are there, and the host counts as dead already. The tuples
        that end here are among the rows of `dropped`: task by task (in service, front, queue), then what partitions
        held, then its link in the order of sending.
        """

    def add_task(self, task: int) -> None:
        """Start a new, empty task, which the cluster knows already."""

    def assign(self, partition: int, task: int) -> None:
        """Send tuples for the partition to this task from now on, which holds them; a new incarnation begins.

        Replayed tuples are counted from zero.
        """

    def install(self, partition: int) -> int:
        """Make the state of the stored checkpoint, or an empty one, that of the partition.

        Returns how many tuples are missing from it that upstream may have forgotten.
        """

    def open(self, partition: int) -> None:
        """Make the partition live: tuples for it are processed at their turn."""

    def release(self, partition: int) -> None:
        """Put the tuples that the partition held in front of the queue of its task, in order."""

    def resume(self, partition: int) -> None:
        """Emit waiting tuples: a source's arrivals before now, a timer's instants before now, outputs that are due."""

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task, which has a service, for a time, ahead of its queue; then `Listener.work_done`."""

    def replay(self, sender: int, receiver: int, turn: bool = False, missing: bool = False) -> tuple[int, int]:
        """Send all that `sender` keeps for `receiver` again, as one message; return (tuples, bytes).

        The tuples come in front of the queue when it arrives, or with `turn` when its turn in the queue has come. With
        `missing` only those are sent that the receiver, which is live, has not applied.
        """

    def senders(self, partition: int) -> list[int]:
        """Return the partitions that keep outputs for this one, rising."""

    def receivers(self, partition: int) -> list[int]:
        """Return the partitions that this one keeps outputs for, rising."""

    def watch_outputs(self, born_ns: int) -> None:
        """Record the first delivery, from now on, of a tuple that was born at `born_ns` or later.

        It is a row of `first_outputs`. A plane that records each delivery has nothing to do.
        """

    def replayed(self, partition: int) -> tuple[int, int]:
        """Return (replayed tuples that are not processed yet, when the last was processed or NEVER), since `assign`."""

    def stop_counting_replays(self, partition: int) -> tuple[int, int]:
        """Return `replayed` of the partition, and stop counting its replayed tuples."""


@runtime_checkable
class InstancePlane(RecoverablePlane, Protocol):
    """A plane on which a key group may be at two tasks for a time: while it moves, or has a replica.

    A further *instance* is a partition with a number, task and state of its own. All verbs take it for a partition; the
    one that is the owner stands for the group. These verbs raise ValueError in a run that keeps no ids.
    """

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """Add an instance of the partition's group, which the cluster knows already: not live, without a state.

        It holds arriving tuples until `open` and `release`. Raises ValueError for a source.
        """

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Send outputs of this task for the partition's group to these instances (two at most) from now on.

        Without targets the owner gets them. Tuples under way keep their receiver; each output is kept, under one id,
        for those to which it is sent. Raises ValueError for more targets.
        """

    def own(self, instance: int) -> None:
        """Make the instance the owner: it gets all that no route sends elsewhere, the checkpoints and the ledger."""

    def mute(self, partition: int, muted: bool) -> None:
        """Let the partition keep its outputs and send none, for services that end from now on; False: end that."""

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Have `sender` keep for `other` all that it keeps for `receiver`, behind what `other` has already."""

    def adopt(self, instance: int, partition: int) -> None:
        """Give a new instance the stored checkpoint of the partition, if there is one, as checkpoint and state.

        Raises ValueError if the instance is live or has a state.
        """

    def hand_down(self, instance: int, successor: int) -> bool:
        """Make the state of an instance the stored checkpoint of another, held by its host; return whether it did.

        It does not if the successor has taken a checkpoint of its own in the meantime.
        """

    def retire(self, partition: int) -> None:
        """End the instance: it keeps nothing, tuples on their way to it are dropped, its stored checkpoint stays.

        Only senders that are down still keep outputs for it, which they have to send to the successor.
        """


@runtime_checkable
class ActionPlane(Plane, Protocol):
    """A plane on which protocols act: they pause tasks, hold tuples, send messages, and measure waits."""

    def pause(self, task: int, until_ns: int | None) -> None:
        """Let the task start nothing, and its sources emit nothing, before that instant, or (None) before `unpause`.

        The pause ends after the services that end at that instant, and never shortens another pause. Unsent outputs of
        bounded queues are sent during it.
        """

    def unpause(self, task: int) -> None:
        """End the pause now; sources emit what arrived during it."""

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Put tuples for the partition from that task (None: all) on a side list, at their turn and at no cost."""

    def unhold(self, task: int, partition: int | None) -> None:
        """End the rules for this partition (None: all rules); tuples that no rule holds now go in front, in order."""

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
        """Send a message from task to task, or from CONTROL, behind all that left the sender for the receiver before.

        It goes behind the unsent outputs of the sender, and needs no room itself.

        It holds the link for its bytes and arrives as a tuple does; CONTROL sends with the latency alone, and its
        channel comes last. With `turn` it goes through the queue, and at its turn occupies the task for `work_ns`
        (nothing, where tasks have no service); then, or else as it arrives, the listener is told. With `channels` it is
        a barrier: later items on its channel are held back until barriers of the same token have come over so many
        channels; then one of them enters the queue, and behind it the items held back, in order of arrival.
        A message is lost with its receiver, and if its sender dies before it has left. One with which a task occupies
        itself is in no table of messages.
        """

    def send_each(self, messages: Sequence[Mail]) -> None:
        """Send these messages in order, as `send` does one: what goes over many channels is one call."""

    def line_up(self, task: int, token: int, while_shorter: bool = False) -> None:
        """Tell the listener when all that has come to the task was served: all before its first instant without queue.

        A message of no bytes goes through the queue of the task. If its turn comes later than it was sent, something
        may have come behind it: then it is sent again, and counts once more. The listener is told of the last one.
        With `while_shorter` it is sent again as long as it waits for a shorter time than before, and once at least.
        """

    def unalign(self, task: int) -> None:
        """Forget the oldest barriers that wait at the task; items that they held back arrive now."""

    def start_actions(self, actions: Sequence[Timed]) -> None:
        """Do these, given in order of time and after now, at their instants.

        Control actions, each set when the one before has been done; several at an instant follow each other.
        """

    def measure(self, partition: int, from_ns: int) -> None:
        """Measure, from arrival to end of service, each tuple that arrives at the partition from an instant on.

        Replayed tuples, which were answered before, and those of a muted partition do not count. The longest is kept.
        """

    def measure_until_calm(self, partition: int) -> None:
        """End the measuring with the first tuple from now on that is served as it arrives."""

    def longest_ns(self, partition: int) -> int:
        """Return the longest time that was measured for the partition since `measure`, or NEVER."""


@runtime_checkable
class MovingPlane(ActionPlane, Protocol):
    """A plane on which key groups move without a second instance: on its way a group is live nowhere.

    Control *places* groups: what senders emit from then on goes to the next tasks of the groups, and waits there. When
    all that was sent before has been served, which barriers tell, it *takes* their states out of a task, has a message
    of that size sent, and *puts* them into their next task. No checkpoint and no ids are needed. All verbs raise
    ValueError in a run that keeps ids, unless states that a crash takes are lost for good or all go back to one
    checkpoint, or that has bounded queues or an acker, and TypeError for numbers that are not whole; what is refused
    changes nothing.
    """

    def place(
        self, operator: int, senders: Collection[int], owners: Sequence[int] | np.ndarray, from_ns: int = 0
    ) -> None:
        """Send what these tasks emit from now on for key group k of the operator to the task `owners[k]`.

        With `from_ns` only what was born from that time on: what is older goes to the task where the group is.
        `owners` (n_groups,) are tasks of the operator: live, or lost with a host whose failure is not detected. A group
        has one next task, from one time on, until it is taken there: until then senders may send to that task or to the
        one where it is. Without senders the next tasks are named all the same: who starts to send later is told then.
        Nothing changes for groups that are down. Raises ValueError if a task is another, or is dead.
        """

    def withhold(self, task: int, operator: int, from_ns: int) -> None:
        """Have a task withhold what it emits for an operator, if born from that time on, until `let_out`.

        What is older leaves as ever, and the task goes on. What is withheld has no place at a receiver, holds frontiers
        of that operator and below it back, and is lost with the task. It stays there if its key group moves. Watermarks
        wait behind what is older than they say, and behind watermarks that wait. Raises ValueError if the task
        does so for the operator already.
        """

    def let_out(self, task: int, operator: int) -> None:
        """Have a task send what it has withheld for an operator, in order and at once, to where that goes by now."""

    def take(self, partitions: Sequence[int]) -> Parcel:
        """Take the states of live partitions out of their task, which is one, into a parcel; no time passes.

        From now on they are at their next task, to which all senders send, but not live: nothing of them is processed,
        and no checkpoint is taken. A checkpoint that was begun goes on. Raises ValueError unless all tasks upstream
        send their tuples to one next task, and nothing for them is on its way to, waits at or is served by the task
        where they are; and, if they have their next task from a time on, unless that time is `passed`. If the next task
        dies they are down. `assign` forgets all that was placed.
        """

    def put(self, parcel: int, task: int) -> None:
        """Make the key groups that were taken live at this task, where they are now.

        What waits there for them goes in front of the queue, group after group in the order of the parcel, each in
        order of arrival; what a rule holds of it goes in front of all that rules hold. The cluster says already that
        they are there. Other parcels: see `ParcelPlane`.
        """

    def stay(self, partitions: Sequence[int]) -> None:
        """Send what is for these key groups to the task where they are, from all tasks and at once.

        Their next tasks are dead: what was sent there is lost. They hear the last watermark of each channel again.
        Raises ValueError if one of the next tasks lives.
        """

    def state_bytes(self, partition: int) -> int:
        """Return the size of the state of a partition that is live, with outputs of a later time."""

    def passed(self, operator: int, time_ns: int, token: int) -> None:
        """Call `Listener.passed` once the frontier of an operator has passed a time, which is not after now.

        Then nothing born before it is at the operator or above it any more: not under way, not in a queue or in
        service, not held, and not to be emitted by a source. A tuple is born when it comes to its source; what follows
        from it is as old. Called at once if that is so already; never while a partition at the operator or above it is
        down, as its tuples may come again.
        """


@runtime_checkable
class ParcelPlane(InstancePlane, ActionPlane, Protocol):
    """A plane on which single tasks are killed, and on which state and tuples travel in parcels.

    A parcel belongs to control: it outlives the task that it came from, may be put any number of times, and lasts until
    `discard`. To the ledger its tuples are in flight, and its newest state of a partition that is down is the final
    one. All verbs raise ValueError where no host may fail: then the ids that they need are not kept.
    """

    def kill(self, task: int) -> None:
        """Kill a live task as a crash of its host would; the host goes on, and the number is never used again.

        The cluster still says that the task is there, and what is. Its queue, services, unsent outputs and rules are
        gone, and so is what its partitions had in memory; checkpoints, also those of its own partitions, stay where
        they are stored. What it had sent leaves the host and arrives as ever, a checkpoint on its way included; only
        watermarks of a dead task are ignored. Its core goes on with the other tasks on it.
        The tuples that end here, and from now on those that arrive at the task, are rows of `dropped` with the reason
        `kill`, in the order of `crash`: in service, front, queue, behind barriers, held by rules, unsent, then what
        partitions held.
        """

    def snapshot(self, partitions: Sequence[int]) -> Parcel:
        """Return the states of live partitions of one task now, in one parcel; no time passes.

        It changes nothing at the partitions: the next checkpoint has the same size as without it. Raises ValueError for
        a source, a sink, or a partition that is not live.
        """

    def capture(self, task: int) -> Parcel:
        """Take the tuples that rules hold on the side list of a live task out of it, in order; the rules stay.

        A captured tuple is an ordinary one from now on: a replayed one counts as processed (`replayed`).
        """

    def put(self, parcel: int, task: int) -> None:
        """Bring the content of a parcel to a live task: states first, then tuples in front of the queue, in order.

        Each state becomes that of its partition as by `install`, which has to be at the task and not live; tuples are
        new ones, of the same ids, which arrive now and have to be for partitions at the task. The parcel stays as it
        is. Raises ValueError for a dead task, if a partition is elsewhere, or live although the parcel has a state for
        it, or if its stored checkpoint is newer than that state: upstream may have forgotten what lies between.
        """

    def discard(self, parcel: int) -> None:
        """Forget the parcel, if it was not forgotten before; the tuples of one that was never put are dropped.

        Their rows in `dropped` have the reason `parcel` and the task from which they were captured. Key groups that
        were taken and not put are down from then on; what waits for them at a task that lives stays there. Raises
        ValueError for these where no host may fail: nothing else has their states.
        """

    def emit_again(self, partition: int, sequences: Sequence[int]) -> None:
        """Have a source emit the tuples with these numbers (0, 1, ... in order of emission) again, with their ids.

        They go before what waits to be emitted, in the given order, as soon as the source can emit: at once, or after a
        pause or when the outbox of its task is empty. They are not kept again, they are no `visits`, and they count as
        data. Those that still wait are gone with the task. Raises ValueError for a number that was not emitted yet, for
        a partition that is not a live source.
        """


@runtime_checkable
class UnalignedPlane(ActionPlane, Protocol):
    """A plane on which barriers overtake records, which then belong to the checkpoint as in-flight data.

    In a run with unaligned barriers (`FaultTolerance.unaligned`). The first barrier that comes to a task passes all
    that waits there, once the service in progress has ended: `Listener.message` is called. Control sends it on, which
    passes what its task has not sent, has snapshots taken, and then has the task `record`. `Listener.aligned` is called
    when barriers have come over all channels; then the in-flight data of the task is known. It counts with
    `complete_checkpoints`, which also lets sources forget what came before their barriers; `abort_checkpoints` forgets
    it, and `release` puts what is there for a partition in front of the queue, before what it held.
    """

    def overtake(self, token: int) -> None:
        """Let the barriers with this token overtake from now on, those too that wait somewhere.

        Barriers with earlier tokens are ignored from now on, and hold nothing back any more. Unsent outputs that one
        passes are in-flight data of the task that sends it.
        """

    def record(self, task: int) -> None:
        """Record what waits at the task and came before the barrier of its channel, and what comes before one later.

        Of a source at the task its position is noted.
        """

    def store_in_flight(self, partition: int) -> int:
        """Send to the store what was recorded at the partition's task since the last time; return its size [bytes].

        `Listener.stored` is called for the partition when it has come, unless there is nothing.
        """


@runtime_checkable
class ReadingPlane(Plane, Protocol):
    """A plane on which control says what sources read of their logs, and when (`OperatorPlan.is_read`).

    Such a source emits nothing by itself. Its arrivals are numbered from 0.
    """

    def arrived(self, partition: int, before_ns: int) -> int:
        """Return how many tuples arrive at a source before an instant, which may be to come."""

    def arrival_ns(self, partition: int, number: int) -> int | None:
        """Return when a tuple arrives at a source; None if there are not so many."""

    def read(self, partition: int, first: int, end: int) -> None:
        """Have a live source emit the arrivals `first` to `end - 1`, all now, also if its outbox is not empty."""

    def read_again(self, partition: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget what a source keeps, and that it has emitted these (first, end): it reads them once more."""


@runtime_checkable
class EventTimePlane(Plane, Protocol):
    """A plane on which control may say what event time it is."""

    def raise_event_time(self, task: int, event_ns: int) -> None:
        """Have the live partitions of a task know that event time is no earlier, and end the windows that it passes.

        Their results leave now, also if the task is paused. Nothing is said to tasks downstream. Raises event time
        only: an earlier one is no news.
        """


@runtime_checkable
class TrimmingPlane(RecoverablePlane, Protocol):
    """A plane that trims outputs by rounds of acks, as `fault_tolerance.trimming` says, instead of with checkpoints."""

    def start_slices(self, every_ns: int) -> None:
        """End a slice of each live partition at each multiple of this time, from the first on.

        A control action at its instant, set at the one before it, as are the rounds. The mark says how many tuples the
        partition had applied, and how many outputs it had kept for each receiver.
        """

    def start_trimming(self, every_ns: int) -> None:
        """Begin a round of acks at each multiple of this time, from the first on.

        With `fault_tolerance.history` there are no acks: upstream looks for what is old.

        Each task sends a message to each task that keeps outputs for it, by number of receivers, then of senders:
        operators at the end of the dataflow at once, those n hops before it n steps of `trimming.step` later. It
        travels as a message does, and upstream trims when it arrives; void if either end is dead then, or restored.
        """


@runtime_checkable
class AckerPlane(InstancePlane, Protocol):
    """A plane with an acker: the tuples that sources emit are roots, which are done or fail and are emitted again.

    A root that fails goes to its source, which emits it before the arrivals that wait, under the same id, as soon as it
    can. From then on acks of its earlier tuples count for nothing. All verbs raise ValueError in a run without an
    acker. `expire` and `oldest_root_ns` are for processes of control, which come first in an instant: an ack that
    arrives at that instant is not there yet.
    """

    def expire(self, before_ns: int) -> Failed:
        """Let all roots fail that were emitted last before that instant, and are not done before now."""

    def oldest_root_ns(self) -> int | None:
        """Return when the root was emitted last that waits longest of those that are not done before now, or None."""

    def prepare_acks(self, task: int) -> None:
        """Mark the acks that wait at the task: what they acknowledge is in a snapshot."""

    def commit_acks(self, task: int) -> None:
        """Send the marked acks of the task: the snapshot is stored."""

    def fail_acks(self, task: int) -> Failed:
        """Let the roots fail at once whose acks wait at the task, marked or not: it goes back to an older snapshot."""


@runtime_checkable
class DataPlane(
    ParcelPlane,
    MovingPlane,
    UnalignedPlane,
    AckerPlane,
    ReadingPlane,
    EventTimePlane,
    TrimmingPlane,
    CountingPlane,
    SharedCpuPlane,
    Protocol,
):
    """A plane with all verbs, as the managers of a run need together."""
