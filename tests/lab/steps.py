"""Conditions of single steps of control, which leave no trace when they are over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from sim.migration.move import MigrationRun, Move
from sim.migration.protocol import ProtocolRun
from sim.plain.partition import Checkpoint


class Steps:
    """A watch on control: it starts moves, has checkpoints read and installed, and chooses checkpoint hosts."""

    def __init__(self, lab: Any) -> None:
        self._lab = lab
        self.told: list[str] = []  # what is wrong
        # group -> checkpoint hosts, or none yet
        self.chosen: defaultdict[int, set[int | None]] = defaultdict(lambda: {None})
        self._read: dict[int, Checkpoint | None] = {}  # new instance -> the checkpoint that its host has read
        runtime, services, plane = lab.coordinator.runtime, lab.migrations.services, lab.plane
        checkpoint_hosts = lab.checkpoint_hosts
        self._start, self._load, self._adopt = runtime.start, services.load, plane.adopt
        self._choose = checkpoint_hosts.choose
        runtime.start, services.load, plane.adopt = self._starts, self._loads, self._adopts
        checkpoint_hosts.choose = self._chooses

    def _starts(self, run: ProtocolRun[Any]) -> None:
        """A move needs everyone upstream: all have a state, or control cannot know that they have not."""
        if isinstance(run, MigrationRun):
            self._check_upstream(run.move)
        self._start(run)

    def _check_upstream(self, move: Move) -> None:
        cluster, upstream = self._lab.cluster, self._lab.instances.upstream(move.group)
        undetected = {host for host, up in enumerate(cluster.trusted) if up and not cluster.host_alive[host]}
        for group in self._lab.groups:
            owner = self._lab.plane.instances()[cluster.owner_of(group)]
            restored = not owner.live and owner.task.host.index not in undetected
            if restored and cluster.partition_operator[group] in upstream:
                self.told.append(f"a move begins while {owner.name}, which sends to the group, is being restored")
        for task, operator in enumerate(cluster.task_operator):
            asked = task in move.upstream or cluster.task_alive[task]
            if operator in upstream and not asked and self._died_undetected(task, undetected):
                self.told.append("control knows of a crash before that is detected")

    def _died_undetected(self, task: int, undetected: set[int]) -> bool:
        """Return whether the task was on its host when that died, and control does not know."""
        gone = self._lab.state.view._undetected
        return any(task in gone[host].tasks for host in undetected if host in gone)

    def _loads(self, run: MigrationRun, then: Callable[[], None]) -> None:
        def reads() -> None:
            self._read[run.move.new] = self._lab.plane.instances()[run.move.old].checkpoint
            then()

        self._load(run, reads)

    def _adopts(self, instance: int, partition: int) -> None:
        """A new instance starts from a checkpoint on its host, and where its host has read one, from that."""
        numbered = self._lab.plane.instances()
        new, old = numbered[instance], numbered[partition]
        if new.checkpoint is None and old.checkpoint and old.checkpoint.host != new.task.host.index:
            self.told.append(f"{new.name} starts from a checkpoint that is on another host")
        if instance in self._read and self._read[instance] is not old.checkpoint:
            self.told.append(f"{new.name} starts from a checkpoint that its host has not read")
        self._adopt(instance, partition)

    def _chooses(self, partition: int, besides: int | None = None) -> int:
        chosen: int = self._choose(partition, besides)
        self.chosen[self._lab.cluster.group_of(partition)].add(chosen)
        return chosen
