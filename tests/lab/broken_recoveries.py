"""Recoveries of engines that are broken on purpose: each has to be noticed in some case of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.control.crash import CrashCoordinator
from sim.control.failover_regions import FailoverRegions
from sim.control.local_copies import LocalCopies
from sim.control.pre_commits import PreCommits
from sim.control.recovery import Recovery
from sim.control.restart_attempts import RestartAttempts
from sim.plain.checkpoint import CheckpointCoordinator, _Transfer
from sim.plain.outbox import Outbox
from sim.plain.overtaking import Overtaking
from sim.plain.partition import Partition, Visit
from sim.plain.task import Passage, Task
from sim.recovery.region_restart import RegionRestart

Patch = pytest.MonkeyPatch
Broken = Callable[[Patch], None]
MUTANTS: dict[str, tuple[str, Broken]] = {}  # by name: the kind of cases in which it is looked for, and how it is made
HARMLESS: dict[str, tuple[str, Broken]] = {}
"""Only slower, or only faster than it may be: what states and sinks have is the same."""


def broken(kind: str, title: str, among: dict[str, tuple[str, Broken]] = MUTANTS) -> Callable[[Broken], Broken]:
    """Put a function in a list."""

    def listed(made: Broken) -> Broken:
        among[title] = kind, made
        return made

    return listed


# -- aligned barriers


@broken("aligned", "a checkpoint is complete with its first snapshot")
def completes_with_the_first_snapshot(patch: Patch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@broken("aligned", "a checkpoint is complete when all have taken a snapshot")
def completes_before_all_is_stored(patch: Patch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        if not checkpoint.left:
            self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@broken("aligned", "a task takes its snapshot at the first barrier")
def takes_snapshots_with_the_first_barrier(patch: Patch) -> None:
    patch.setattr(BarrierCheckpoints, "_channels", lambda self, subtask: 1)


@broken("aligned", "a barrier does not wait its turn")
def barriers_do_not_wait_their_turn(patch: Patch) -> None:
    pass_on = BarrierCheckpoints._pass_on

    def passes_on(self: BarrierCheckpoints, checkpoint: JobCheckpoint, task: int, subtask: Any) -> None:
        plane: Any = self.state.plane
        send = plane.send_each
        plane.send_each = lambda mails: send([one._replace(turn=False, channels=0) for one in mails])
        try:
            pass_on(self, checkpoint, task, subtask)
        finally:
            plane.send_each = send

    patch.setattr(BarrierCheckpoints, "_pass_on", passes_on)


@broken("aligned", "a task passes the barrier on some time after its snapshot")
def barriers_follow_the_snapshot(patch: Patch) -> None:
    pass_on = BarrierCheckpoints._pass_on

    def later(self: BarrierCheckpoints, checkpoint: JobCheckpoint, task: int, subtask: Any) -> Any:
        yield self.clock.sleep(self.clock.now_ns() + 1)
        if self.cluster.task_alive[task]:
            pass_on(self, checkpoint, task, subtask)

    patch.setattr(BarrierCheckpoints, "_pass_on", lambda self, *its: self.clock.process(later(self, *its)))


@broken("aligned", "a snapshot counts when it is stored")
def counts_when_stored(patch: Patch) -> None:
    stored = CheckpointCoordinator._stored

    def counts(self: CheckpointCoordinator, transfer: Any) -> None:
        stored(self, transfer)
        if transfer.partition.arrived is not None:
            self.complete(transfer.partition)

    patch.setattr(CheckpointCoordinator, "_stored", counts)


@broken("aligned", "sources forget what they have emitted when a checkpoint begins")
def sources_forget_when_triggered(patch: Patch) -> None:
    trigger = BarrierCheckpoints._trigger

    def forgets(self: BarrierCheckpoints, *its: Any) -> None:
        trigger(self, *its)
        for partition in self._saved:
            numbered: list[Partition] = self.state.plane._numbered  # type: ignore[attr-defined]
            self.state.plane.trim(partition, len(numbered[partition].applied))

    patch.setattr(BarrierCheckpoints, "_trigger", forgets)


@broken("aligned", "a checkpoint that has expired is not aborted at tasks")
def expired_ones_go_on(patch: Patch) -> None:
    end = BarrierCheckpoints._end

    def ends(self: BarrierCheckpoints, outcome: str) -> None:
        end(self, outcome)
        if outcome == "expired":
            self.state.plane.abort_checkpoints = _once(self.state.plane.abort_checkpoints)  # type: ignore[method-assign]

    patch.setattr(BarrierCheckpoints, "_end", ends)


def _once(verb: Callable[[Any], None]) -> Callable[[Any], None]:
    """Leave out the next call."""
    calls: list[Any] = []
    return lambda its: verb(its) if calls else calls.append(its)


@broken("aligned", "a failure does not end the checkpoint that is under way")
def checkpoints_outlive_failures(patch: Patch) -> None:
    failed = BarrierCheckpoints.failed

    def fails(self: BarrierCheckpoints) -> None:
        end, self._end = self._end, lambda outcome: None  # type: ignore[method-assign]
        failed(self)
        self._end = end  # type: ignore[method-assign]

    patch.setattr(BarrierCheckpoints, "failed", fails)


@broken("aligned", "a checkpoint begins while tasks are down")
def checkpoints_begin_while_tasks_are_down(patch: Patch) -> None:
    failed = BarrierCheckpoints.failed

    def fails(self: BarrierCheckpoints) -> None:
        failed(self)
        self._plan(self.clock.now_ns() + 1)

    patch.setattr(BarrierCheckpoints, "failed", fails)


@broken("aligned", "no checkpoint follows a restart")
def none_follows_a_restart(patch: Patch) -> None:
    patch.setattr(BarrierCheckpoints, "opened", lambda self: None)


@broken("aligned", "a snapshot of a task that is over counts")
def snapshots_of_the_dead_count(patch: Patch) -> None:
    patch.setattr(_Transfer, "void", property(lambda self: False))


# -- restarts of regions


@broken("aligned", "what is connected to a lost task goes on")
def only_the_lost_are_restarted(patch: Patch) -> None:
    patch.setattr(RegionRestart, "rolled_back", lambda self, losses: [])
    patch.setattr(FailoverRegions, "_is_known", lambda self, region: True)


@broken("aligned", "a region waits for the detection of a failure that is detected")
def waits_for_what_has_been(patch: Patch) -> None:
    patch.setattr(FailoverRegions, "_is_to_be_detected", lambda self, dead: True)


@broken("aligned", "a restart in vain is the last one")
def a_restart_in_vain_is_the_last_one(patch: Patch) -> None:
    def fails(self: RestartAttempts) -> Any:
        yield self.state.clock.when(lambda: False)  # type: ignore[attr-defined]

    patch.setattr(RestartAttempts, "fail", fails)


@broken("aligned", "sources do not send again what they keep")
def sources_do_not_send_again(patch: Patch) -> None:
    patch.setattr(Recovery, "_replay", lambda self, sender, receiver: None)


@broken("aligned", "restarted tasks keep the state that they had")
def restarted_tasks_keep_their_state(patch: Patch) -> None:
    patch.setattr(Recovery, "install", lambda self, partition: None)


# -- barriers that overtake


@broken("unaligned", "nothing that waits is recorded")
def nothing_that_waits_is_recorded(patch: Patch) -> None:
    begin = Task.begin_recording

    def begins(self: Task) -> None:
        capture, self.capture = self.capture, lambda visit: None  # type: ignore[method-assign]
        begin(self)
        self.capture = capture  # type: ignore[method-assign]

    patch.setattr(Task, "begin_recording", begins)


@broken("unaligned", "nothing that still comes is recorded")
def nothing_that_still_comes_is_recorded(patch: Patch) -> None:
    patch.setattr(Task, "record", lambda self, visit: None)


@broken("unaligned", "nothing unsent is recorded")
def nothing_unsent_is_recorded(patch: Patch) -> None:
    patch.setattr(Overtaking, "send_ahead", lambda self, letter, origin, outputs: self.send_message(*letter))


@broken("unaligned", "what comes behind a barrier is recorded")
def what_comes_behind_a_barrier_is_recorded(patch: Patch) -> None:
    patch.setattr(Passage, "is_before", lambda self, visit: True)


@broken("unaligned", "a barrier does not wait for the tuple in service")
def a_barrier_does_not_wait_for_the_service(patch: Patch) -> None:
    hurry = Task._hurry

    def hurries(self: Task, token: int) -> None:
        serving, self.serving = self.serving, {}
        hurry(self, token)
        self.serving = serving

    patch.setattr(Task, "_hurry", hurries)


@broken("unaligned", "new tuples go before what is restored")
def new_tuples_go_before_what_is_restored(patch: Patch) -> None:
    def puts(self: Task, visits: list[Visit], partition: Partition) -> None:
        self.queue.extend(visits)
        self.go_on()

    patch.setattr(Task, "put_before", puts)


@broken("unaligned", "in-flight data does not come back")
def in_flight_data_does_not_come_back(patch: Patch) -> None:
    patch.setattr(Overtaking, "in_flight_again", lambda self, partition: [])


@broken("unaligned", "in-flight data comes back once")
def in_flight_data_comes_back_once(patch: Patch) -> None:
    again = Overtaking.in_flight_again

    def comes(self: Overtaking, partition: Partition) -> list[Visit]:
        found = again(self, partition)
        partition.in_flight = []
        return found

    patch.setattr(Overtaking, "in_flight_again", comes)


@broken("unaligned", "unsent outputs come back before what waited at their receiver")
def unsent_outputs_come_back_first(patch: Patch) -> None:
    complete = Overtaking.complete_in_flight

    def completes(self: Overtaking, partition: Partition) -> None:
        complete(self, partition)
        partition.in_flight.sort(key=lambda one: not one.unsent)

    patch.setattr(Overtaking, "complete_in_flight", completes)


@broken("unaligned", "in-flight data of a checkpoint that was given up counts")
def in_flight_data_counts_at_once(patch: Patch) -> None:
    forget = Overtaking.forget_overtaken

    def forgets(self: Overtaking) -> None:
        for partition in self.all_partitions():
            partition.in_flight = partition.overtaken or partition.in_flight
        forget(self)

    patch.setattr(Overtaking, "forget_overtaken", forgets)


@broken("unaligned", "in-flight data is forgotten with the next checkpoint that is given up")
def in_flight_data_is_forgotten(patch: Patch) -> None:
    forget = Overtaking.forget_overtaken

    def forgets(self: Overtaking) -> None:
        forget(self)
        for partition in self.all_partitions():
            partition.in_flight = []

    patch.setattr(Overtaking, "forget_overtaken", forgets)


@broken("unaligned", "sources have no position")
def sources_have_no_position(patch: Patch) -> None:
    patch.setattr(Partition, "mark", lambda self: None)


@broken("unaligned", "a source forgets what it has emitted when the checkpoint is complete")
def the_position_is_that_of_the_end(patch: Patch) -> None:
    forget = Partition.forget_marked

    def forgets(self: Partition) -> None:
        if self.operator.is_source:
            self.mark()
        forget(self)

    patch.setattr(Partition, "forget_marked", forgets)


@broken("unaligned", "a checkpoint is complete before barriers have come over all channels")
def completes_before_all_barriers_have_come(patch: Patch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        if not checkpoint.writing:
            self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@broken("unaligned", "in-flight data is not stored before the checkpoint is complete")
def completes_before_in_flight_data_is_stored(patch: Patch) -> None:
    def look(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> None:
        left = {checkpoint.subtasks[one].partitions[0] for one in checkpoint.recording}
        if not checkpoint.left - checkpoint.recording and not set(checkpoint.writing) - left:
            self.clock.process(self._acknowledged(checkpoint))

    patch.setattr(BarrierCheckpoints, "_look", look)


@broken("unaligned", "barriers that wait do not begin to overtake")
def those_that_wait_go_on_waiting(patch: Patch) -> None:
    patch.setattr(Task, "let_overtake", lambda self, token: None)


@broken("unaligned", "the end of a host without tasks ends what barriers have overtaken")
def idle_hosts_end_what_is_overtaken(patch: Patch) -> None:
    roll_back = CrashCoordinator._roll_back

    def rolls_back(self: CrashCoordinator, losses: Any) -> Any:
        self.state.plane.abort_checkpoints([])
        return roll_back(self, losses)

    patch.setattr(CrashCoordinator, "_roll_back", rolls_back)


# -- two-phase commits


@broken("aligned", "a sink ends its transaction when the checkpoint is complete")
def transactions_end_late(patch: Patch) -> None:
    complete, note = BarrierCheckpoints._end, PreCommits.note

    def ends(self: BarrierCheckpoints, checkpoint: JobCheckpoint, outcome: str) -> None:
        if outcome == "completed":
            for task in checkpoint.tasks:
                note(self.commits, checkpoint.number, task)
        complete(self, checkpoint, outcome)

    patch.setattr(PreCommits, "note", lambda self, checkpoint, task: None)
    patch.setattr(BarrierCheckpoints, "_end", ends)


@broken("aligned", "a sink ends its transaction when the checkpoint begins")
def transactions_end_early(patch: Patch) -> None:
    trigger, note = BarrierCheckpoints._trigger, PreCommits.note

    def triggers(self: BarrierCheckpoints, *its: Any) -> None:
        trigger(self, *its)
        for one in self._open:
            for task in one.tasks:
                note(self.commits, one.number, task)

    patch.setattr(PreCommits, "note", lambda self, checkpoint, task: None)
    patch.setattr(BarrierCheckpoints, "_trigger", triggers)


# -- not to be noticed


@broken("aligned", "a region starts before all of it is known to be lost", HARMLESS)
def starts_before_all_is_known(patch: Patch) -> None:
    patch.setattr(FailoverRegions, "_is_known", lambda self, region: True)


@broken("aligned", "slots of a restart in vain are not given back", HARMLESS)
def slots_are_not_given_back(patch: Patch) -> None:
    patch.setattr(RegionRestart, "release", lambda self, losses: None)


@broken("aligned", "a copy on a disk outlives its host", HARMLESS)
def copies_outlive_their_host(patch: Patch) -> None:
    patch.setattr(LocalCopies, "lost", lambda self, host: None)


@broken("unaligned", "barriers behind unsent outputs do not begin to overtake", HARMLESS)
def those_that_are_unsent_go_on_waiting(patch: Patch) -> None:
    patch.setattr(Outbox, "take_letters", lambda self, token: [])
