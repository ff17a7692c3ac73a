"""Micro-batches and changelogs that are broken on purpose: each has to be noticed in some case of its kind."""

from __future__ import annotations

from typing import Any

from lab.broken_recoveries import HARMLESS, MUTANTS, Patch, broken
from sim.control.micro_batches import MicroBatches
from sim.control.read_committed import ReadCommitted
from sim.control.recovery import Recovery
from sim.control.standbys import Standbys
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.partition import Partition
from sim.recovery.changelog import RestoreFromChangelog

__all__ = ["HARMLESS", "MUTANTS", "Patch", "broken"]

# -- micro-batches


@broken("batches", "what a dead executor has not sent is not missed")
def what_is_on_its_way_is_not_missed(patch: Patch) -> None:
    patch.setattr(MicroBatches, "lost_on_the_way", lambda self, host: None)


@broken("batches", "versions count before the commit")
def versions_count_before_the_commit(patch: Patch) -> None:
    stored = MicroBatches.stored

    def counts(self: MicroBatches, partition: int) -> None:
        self.plane.complete_checkpoints([partition])
        stored(self, partition)

    patch.setattr(MicroBatches, "stored", counts)


@broken("batches", "a batch is committed before its versions are stored")
def commits_before_all_is_stored(patch: Patch) -> None:
    stored = MicroBatches._is_stored

    def is_stored(self: MicroBatches, partitions: Any, life: int) -> Any:
        process = stored(self, partitions, life)
        next(process, None)
        return not self._disturbed and life == self._life
        yield  # it is a process

    patch.setattr(MicroBatches, "_is_stored", is_stored)


@broken("batches", "the interrupted batch has what has arrived since, too")
def the_range_is_another_one(patch: Patch) -> None:
    patch.setattr(MicroBatches, "_keeps_a_range", lambda self: False)


@broken("batches", "a batch goes on without what an executor had")
def batches_go_on_without_an_executor(patch: Patch) -> None:
    recover = MicroBatches.recover

    def recovers(self: MicroBatches, losses: Any) -> None:
        before = self._disturbed
        recover(self, losses)
        self._disturbed = before

    patch.setattr(MicroBatches, "recover", recovers)


@broken("batches", "a stage begins before the one before it has ended")
def stages_overlap(patch: Patch) -> None:
    is_done = MicroBatches._is_done
    patch.setattr(MicroBatches, "_is_done", lambda self, stage: stage < self._last or is_done(self, stage))


@broken("batches", "sources go on emitting while a batch runs")
def sources_go_on(patch: Patch) -> None:
    def emits(self: MicroBatches) -> None:
        for partition in self._sources:
            self.plane.unpause(self.cluster.partition_task[partition])

    patch.setattr(MicroBatches, "_emit", emits)


@broken("batches", "a driver that is dead goes on")
def the_dead_go_on(patch: Patch) -> None:
    dies = MicroBatches.dies

    def ends(self: MicroBatches) -> None:
        dies(self)
        self._life -= 1

    patch.setattr(MicroBatches, "dies", ends)


@broken("batches", "versions of a batch that was not committed are kept")
def versions_are_not_undone(patch: Patch) -> None:
    patch.setattr(MicroBatches, "undo", lambda self: None)


# -- changelogs and standbys


@broken("changelogs", "standbys of a host that is dead are not forgotten")
def standbys_outlive_their_host(patch: Patch) -> None:
    patch.setattr(Standbys, "host_lost", lambda self, host: None)


@broken("changelogs", "standbys that are gone are not made again")
def standbys_are_not_made_again(patch: Patch) -> None:
    patch.setattr(Standbys, "renew", lambda self: None)


@broken("changelogs", "a standby may be where the state is")
def standbys_beside_their_state(patch: Patch) -> None:
    missing = Standbys._missing

    def found(self: Standbys) -> Any:
        cluster: Any = self.cluster
        host_of, cluster.host_of = cluster.host_of, lambda partition: -1
        try:
            return missing(self)
        finally:
            cluster.host_of = host_of

    patch.setattr(Standbys, "_missing", found)


@broken("changelogs", "lost states go where topics are")
def states_go_where_topics_are(patch: Patch) -> None:
    start = RestoreFromChangelog.start

    def starts(self: RestoreFromChangelog) -> None:
        start(self)
        self.workers = [*range(len(self.state.plan.host_names))]

    patch.setattr(RestoreFromChangelog, "start", starts)


@broken("changelogs", "upstream does not send again what is not committed")
def upstream_does_not_send_again(patch: Patch) -> None:
    patch.setattr(RestoreFromChangelog, "replayers", lambda self, partition: [])


@broken("changelogs", "a state is taken as it was")
def states_are_taken_as_they_were(patch: Patch) -> None:
    patch.setattr(Recovery, "install", lambda self, partition: None)


@broken("changelogs", "upstream forgets what a commit has before it is stored")
def upstream_forgets_too_early(patch: Patch) -> None:
    take = CheckpointCoordinator.take_for

    def takes(self: CheckpointCoordinator, partition: Partition, *its: Any) -> None:
        self._trim_later(partition, len(partition.applied))
        take(self, partition, *its)

    patch.setattr(CheckpointCoordinator, "take_for", takes)


@broken("changelogs", "a commit has no outputs")
def commits_have_no_outputs(patch: Patch) -> None:
    snapshot = Partition.snapshot
    patch.setattr(Partition, "snapshot", lambda self, host, life, outputs=True: snapshot(self, host, life, False))


@broken("changelogs", "sinks take what is not committed")
def sinks_are_open(patch: Patch) -> None:
    patch.setattr(ReadCommitted, "_close", lambda self, task: None)


@broken("changelogs", "sinks do not wait for all that has to commit")
def sinks_open_too_early(patch: Patch) -> None:
    open_if_all = ReadCommitted._open_if_all

    def opens(self: ReadCommitted) -> None:
        due, self._due = self._due, set()
        open_if_all(self)
        self._due = due

    patch.setattr(ReadCommitted, "_open_if_all", opens)


@broken("changelogs", "a sink that is started again is open")
def new_sinks_are_open(patch: Patch) -> None:
    close = ReadCommitted._close

    def closes(self: ReadCommitted, task: int) -> None:
        if task < sum(operator.description.parallelism for operator in self.state.plan.operators):
            close(self, task)

    patch.setattr(ReadCommitted, "_close", closes)


@broken("changelogs", "a standby counts as complete when it is begun", HARMLESS)
def standbys_are_complete_at_once(patch: Patch) -> None:
    patch.setattr(Standbys, "_fetch", lambda self, one: self._complete(one))
