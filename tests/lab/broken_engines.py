"""More that is broken on purpose: shared stores, several checkpoints, other numbers of tasks, sources that read."""

from __future__ import annotations

from collections import deque
from typing import Any

from lab.broken_batches import HARMLESS, MUTANTS, Patch, broken
from lab.broken_reconfigurations import MUTANTS as OF_MOVES
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.control.cluster import ClusterView
from sim.control.crash import CrashCoordinator
from sim.control.job_scaling import JobScaling
from sim.control.shared_reads import SharedReads
from sim.control.source_reading import SourceReading
from sim.migration.reconfiguration import ReconfigurationContext
from sim.migration.reconfigurations import Reconfigurations
from sim.plain.channels import Source
from sim.plain.instances import GroupInstances
from sim.plain.outbox import Outbox
from sim.plain.partition import EventTime, Partition, TaskView, Watermark
from sim.plain.watermarks import Watermarks
from sim.recovery.region_restart import RegionRestart
from sim.windowing import Windows

__all__ = ["HARMLESS", "MUTANTS"]

# -- stores that tasks share, and several checkpoints at a time


@broken("shared", "uploads of a checkpoint end with another one that is given up")
def uploads_end_with_another_checkpoint(patch: Patch) -> None:
    right = GroupInstances.abort_checkpoints

    def aborts(self: GroupInstances, partitions: Any, slot: int | None = None) -> None:
        right(self, partitions, slot)
        if self.uploads is not None:
            self.uploads.empty()

    patch.setattr(GroupInstances, "abort_checkpoints", aborts)


@broken("shared", "with one checkpoint all that are under way are given up at tasks")
def tasks_give_up_all_checkpoints(patch: Patch) -> None:
    right = GroupInstances.abort_checkpoints
    patch.setattr(GroupInstances, "abort_checkpoints", lambda self, partitions, slot=None: right(self, partitions))


@broken("shared", "two checkpoints have one slot")
def checkpoints_have_one_slot(patch: Patch) -> None:
    patch.setattr(BarrierCheckpoints, "_free_slot", lambda self: 0)


@broken("shared", "an earlier checkpoint goes on when a later one is complete")
def earlier_checkpoints_go_on(patch: Patch) -> None:
    right = BarrierCheckpoints._give_up

    def gives_up(self: BarrierCheckpoints, checkpoint: JobCheckpoint, outcome: str) -> None:
        if outcome != "subsumed":
            right(self, checkpoint, outcome)

    patch.setattr(BarrierCheckpoints, "_give_up", gives_up)


@broken("rescaled", "a state is there when its place has been read")
def states_are_there_place_by_place(patch: Patch) -> None:
    right = SharedReads._done

    def done(self: SharedReads, task: int, place: int) -> None:
        reads = self._reads[task]
        if len(reads.at) > 1:
            del reads.at[place]
            reads.ended.pop(0)()
        else:
            right(self, task, place)

    patch.setattr(SharedReads, "_done", done)


@broken("shared", "what is to be read besides is never there")
def what_is_read_besides_is_forgotten(patch: Patch) -> None:
    right = SharedReads.read

    def reads(self: SharedReads, task: int, place: int, size: int, ended: Any) -> None:
        if task not in self._reads:
            right(self, task, place, size, ended)

    patch.setattr(SharedReads, "read", reads)


# -- other numbers of tasks


@broken("rescaled", "sources go on behind a savepoint")
def sources_go_on_behind_a_savepoint(patch: Patch) -> None:
    comes = BarrierCheckpoints.comes

    def come(self: BarrierCheckpoints, token: int, task: int, aligned: bool = False) -> bool:
        plane: Any = self.state.plane
        pause, plane.pause = plane.pause, lambda *_: None
        try:
            return comes(self, token, task, aligned)
        finally:
            plane.pause = pause

    patch.setattr(BarrierCheckpoints, "comes", come)


@broken("rescaled", "barriers of a savepoint overtake")
def savepoints_overtake(patch: Patch) -> None:
    trigger = BarrierCheckpoints._trigger

    def triggers(self: BarrierCheckpoints, stops: Any = None) -> None:
        trigger(self, stops)
        if stops is not None and self._unaligned:
            self._begin_to_overtake(self._open[-1])

    patch.setattr(BarrierCheckpoints, "_trigger", triggers)


@broken("rescaled", "sources stay stopped where a savepoint has failed")
def sources_stay_stopped(patch: Patch) -> None:
    patch.setattr(BarrierCheckpoints, "_go_on", lambda self, checkpoint: None)


@broken("rescaled", "a savepoint ends no checkpoint that is under way")
def savepoints_end_no_checkpoint(patch: Patch) -> None:
    right = BarrierCheckpoints.stop_with_savepoint

    def stops(self: BarrierCheckpoints, ended: Any) -> None:
        self._abort = lambda: None  # type: ignore[method-assign]
        right(self, ended)
        del self._abort

    patch.setattr(BarrierCheckpoints, "stop_with_savepoint", stops)


@broken("rescaled", "a failure while tasks hear of the savepoint does not count")
def failures_before_the_stop_do_not_count(patch: Patch) -> None:
    failed = BarrierCheckpoints.failed

    def fails(self: BarrierCheckpoints) -> None:
        failed(self)
        self._failures -= 1

    patch.setattr(BarrierCheckpoints, "failed", fails)


@broken("rescaled", "the job is submitted with as many tasks as it had")
def jobs_are_not_rescaled(patch: Patch) -> None:
    right = RegionRestart.run_with

    def runs(self: RegionRestart, parallelism: Any) -> None:
        if self.state.plan.scenario.recovery.adapts:
            right(self, parallelism)

    patch.setattr(RegionRestart, "run_with", runs)


@broken("rescaled", "key groups go to the tasks that had them")
def key_groups_go_where_they_were(patch: Patch) -> None:
    def seat(self: RegionRestart, partition: int) -> tuple[int, int]:
        operator, index = self.cluster.partition_operator[partition], self.cluster.partition_index[partition]
        return operator, self.state.plan.operators[operator].description.task_of(index)

    patch.setattr(RegionRestart, "_seat", seat)


@broken("rescaled", "no checkpoint is planned for the new job")
def new_jobs_have_no_checkpoint(patch: Patch) -> None:
    right = BarrierCheckpoints._plan_first

    def plans(self: BarrierCheckpoints) -> None:
        if not self._of_token:
            right(self)

    patch.setattr(BarrierCheckpoints, "_plan_first", plans)


@broken("rescaled", "a stop ends no checkpoint")
def stops_end_no_checkpoint(patch: Patch) -> None:
    def loses(self: CrashCoordinator) -> list[int]:
        return self._kill_all()

    patch.setattr(CrashCoordinator, "lose_job", loses)


@broken("rescaled", "slots that are back change nothing")
def slots_that_are_back_change_nothing(patch: Patch) -> None:
    patch.setattr(JobScaling, "slots_changed", lambda self: None)


@broken("rescaled", "a job with too few slots waits for as many as it had")
def jobs_wait_for_all_slots(patch: Patch) -> None:
    right = JobScaling._has_slots
    patch.setattr(
        JobScaling,
        "_has_slots",
        lambda self: self._slots() >= max(self.method.parallelism) and right(self),
    )


@broken("rescaled", "a job that is down looks for slots once")
def jobs_look_for_slots_once(patch: Patch) -> None:
    right = JobScaling._has_slots
    looked: dict[JobScaling, int] = {}  # in which turn it has

    def has(self: JobScaling) -> bool:
        first, looked[self] = looked.get(self) != self._turn, self._turn
        return first and right(self)

    patch.setattr(JobScaling, "_has_slots", has)


# -- sources that read


@broken("read", "a source does not read again what it was reading")
def what_was_being_read_is_forgotten(patch: Patch) -> None:
    right = SourceReading.begin_again

    def begins(self: SourceReading, partition: int) -> None:
        reader = self._readers.get(partition)
        if reader is not None:
            reader.current = None
        right(self, partition)

    patch.setattr(SourceReading, "begin_again", begins)


@broken("read", "a source reads on where it was")
def sources_read_on(patch: Patch) -> None:
    right = SourceReading.begin_again

    def begins(self: SourceReading, partition: int) -> None:
        reader = self._readers.get(partition)
        if reader is not None:
            reader.emitted = []
        right(self, partition)

    patch.setattr(SourceReading, "begin_again", begins)


@broken("read", "a source goes back to the start")
def sources_go_back_to_the_start(patch: Patch) -> None:
    patch.setattr(SourceReading, "completed", lambda self, token: None)


@broken("read", "a checkpoint has what a source emits until it is complete")
def checkpoints_have_what_came_behind_the_barrier(patch: Patch) -> None:
    right = SourceReading.completed

    def completes(self: SourceReading, token: int) -> None:
        for reader in self._readers.values():
            if token in reader.passed:
                reader.passed[token] = len(reader.emitted)
        right(self, token)

    patch.setattr(SourceReading, "completed", completes)


@broken("read", "a checkpoint that is complete leaves the positions of those under way")
def positions_are_not_moved(patch: Patch) -> None:
    def completes(self: SourceReading, token: int) -> None:
        for reader in self._readers.values():
            del reader.emitted[: reader.passed.get(token, 0)]

    patch.setattr(SourceReading, "completed", completes)


@broken("read", "a source sends what it keeps, and reads it again")
def sources_send_and_read_again(patch: Patch) -> None:
    right = Source.read_again

    def reads(self: Source, ranges: Any) -> None:
        kept = {receiver: deque(rows) for receiver, rows in self.partition.kept.items()}
        right(self, ranges)
        self.partition.kept.update(kept)

    patch.setattr(Source, "read_again", reads)


@broken("read", "a piece that a dead task was reading is emitted by its successor")
def pieces_of_the_dead_are_emitted(patch: Patch) -> None:
    def reads(self: SourceReading, reader: Any, task: int, piece: Any, until_ns: int) -> Any:
        yield self.clock.sleep(until_ns)
        if self.cluster.partition_live[reader.partition]:
            self._emit(reader, piece)
            self._go(reader)

    patch.setattr(SourceReading, "_read", reads)


@broken("read", "a source reads while it has something left to send", HARMLESS)
def sources_read_ahead(patch: Patch) -> None:
    def go(self: SourceReading, reader: Any) -> None:
        plane: Any = self.state.plane
        empty, plane.empty = plane.empty, lambda task: True
        try:
            right(self, reader)
        finally:
            plane.empty = empty

    right = SourceReading._go
    patch.setattr(SourceReading, "_go", go)


# -- windows


@broken("windows", "open windows are not in a snapshot")
def open_windows_are_not_saved(patch: Patch) -> None:
    right = EventTime.copy

    def copy(self: EventTime) -> EventTime:
        made = right(self)
        made.windows = {}
        return made

    patch.setattr(EventTime, "copy", copy)


@broken("windows", "a state that comes back has the windows that were open when it was lost")
def windows_outlive_their_task(patch: Patch) -> None:
    right = EventTime.restored

    def restored(self: EventTime, *its: Any) -> EventTime:
        made = right(self, *its)
        made.windows = self.windows
        return made

    patch.setattr(EventTime, "restored", restored)


@broken("windows", "event time does not go back")
def event_time_does_not_go_back(patch: Patch) -> None:
    right = EventTime.restored

    def restored(self: EventTime, *its: Any) -> EventTime:
        made = right(self, *its)
        made.event_ns, made.of_sender = self.event_ns, self.of_sender
        return made

    patch.setattr(EventTime, "restored", restored)


@broken("windows", "one sender speaks for all")
def one_sender_speaks_for_all(patch: Patch) -> None:
    def hear(self: Watermarks, partition: Partition, watermark: Watermark, begun: int) -> None:
        partition.time.event_ns = max(partition.time.event_ns, watermark.event_ns)

    patch.setattr(Watermarks, "_hear", hear)


@broken("windows", "a watermark overtakes unsent outputs")
def watermarks_overtake(patch: Patch) -> None:
    def pass_on(self: Outbox, passing: Any) -> None:
        self.plane.watermarks.send(passing.watermark, passing.task)

    patch.setattr(Outbox, "pass_on", pass_on)


@broken("windows", "a watermark goes on before the windows that it ends")
def watermarks_go_before_results(patch: Patch) -> None:
    right = Watermarks._end_windows

    def ends(self: Watermarks, task: Any, partitions: list[Partition]) -> None:
        windows = task.operator.windows
        self._rise(task, min((windows.held_ns(one.time.event_ns) for one in partitions), default=0))
        right(self, task, partitions)

    patch.setattr(Watermarks, "_end_windows", ends)


@broken("windows", "the results of windows are as late as the watermark")
def watermarks_behind_windows_are_too_late(patch: Patch) -> None:
    patch.setattr(Windows, "held_ns", lambda self, watermark_ns: watermark_ns)


@broken("windows", "a watermark from before a restore counts", HARMLESS)
def watermarks_from_before_count(patch: Patch) -> None:
    right = Watermarks._hear

    def hear(self: Watermarks, partition: Partition, watermark: Watermark, begun: int) -> None:
        assigned, freed, partition.assigned_at, partition.freed_at = partition.assigned_at, partition.freed_at, 0, -1
        right(self, partition, watermark, begun)
        partition.assigned_at, partition.freed_at = assigned, freed

    patch.setattr(Watermarks, "_hear", hear)


@broken("windows", "a source speaks before it has sent again what it keeps", HARMLESS)
def sources_speak_too_early(patch: Patch) -> None:
    def speaks(self: Watermarks, sender: Partition, watermark: Watermark, task: TaskView) -> bool:
        return sender.task is watermark.origin

    patch.setattr(Watermarks, "_speaks", speaks)


# -- key groups that move in steps


@broken("moving", "a crash does not cancel a move")
def moves_are_not_cancelled(patch: Patch) -> None:
    patch.setattr(Reconfigurations, "can_be_cancelled", lambda *_: False)


@broken("moving", "a state on its way survives a restart")
def states_on_their_way_survive(patch: Patch) -> None:
    right = Partition.assign

    def assign(self: Partition, task: Any) -> None:
        goal, from_ns, taken = self.goal, self.placed_from_ns, self.taken
        right(self, task)
        self.goal, self.placed_from_ns, self.taken = goal, from_ns, taken

    patch.setattr(Partition, "assign", assign)


@broken("moving", "a step counts before it is over")
def steps_count_before_they_are_over(patch: Patch) -> None:
    right = ReconfigurationContext.install

    def install(self: ReconfigurationContext, parcel: Any, step: int) -> None:
        right(self, parcel, step)
        self._cluster.moved |= dict.fromkeys(parcel.partitions, self._cluster.task_place[self.me] or 0)

    patch.setattr(ReconfigurationContext, "install", install)


@broken("moving", "checkpoints do not wait for key groups")
def checkpoints_do_not_wait(patch: Patch) -> None:
    patch.setattr(Reconfigurations, "_are_wanted", lambda _: False)


@broken("moving", "key groups do not wait for checkpoints")
def key_groups_do_not_wait(patch: Patch) -> None:
    patch.setattr(Reconfigurations, "waits", lambda self, _: self._is_down())


@broken("moving", "a checkpoint waits for a move that is not made")
def checkpoints_wait_for_nothing(patch: Patch) -> None:
    def nothing(_: Reconfigurations) -> Any:
        return
        yield

    patch.setattr(Reconfigurations, "_let_go", nothing)


@broken("moving", "barriers of a checkpoint that has expired go where key groups are now")
def expired_barriers_follow(patch: Patch) -> None:
    right = BarrierCheckpoints.key_groups_stay

    def stay(self: BarrierCheckpoints) -> None:
        right(self)
        for one in self._of_token.values():
            one.subtasks = self._subtasks

    patch.setattr(BarrierCheckpoints, "key_groups_stay", stay)


@broken("moving", "tasks without key groups start behind the others")
def empty_tasks_start_last(patch: Patch) -> None:
    start, started = RegionRestart.start_others, RegionRestart.started

    def ends(self: RegionRestart, losses: Any) -> None:
        start(self, losses)
        started(self, losses)

    patch.setattr(RegionRestart, "start_others", lambda *_: None)
    patch.setattr(RegionRestart, "started", ends)


@broken("moving", "the first queue that is empty lets the next step begin")
def one_queue_is_enough(patch: Patch) -> None:
    OF_MOVES["the first queue that is empty lets the next step begin"](patch)


@broken("moving", "what has left the dead is lost with them")
def all_is_lost_with_the_dead(patch: Patch) -> None:
    patch.setattr(ClusterView, "has_left", lambda *_: None)
