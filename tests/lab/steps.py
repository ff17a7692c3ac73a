"""What must hold of single steps of control, which nothing shows any more when they are over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from reference.unit import Checkpoint

from sim.migration.context import Move, Protocol, Run


class Steps:
    """Looks at the steps at which control starts a move, has a checkpoint read or installed, or chooses a holder."""

    def __init__(self, lab: Any) -> None:
        self._lab = lab
        self.told: list[str] = []  # what is wrong
        self.chosen: defaultdict[int, set[int | None]] = defaultdict(lambda: {None})  # group -> holders, or none yet
        self._read: dict[int, Checkpoint | None] = {}  # new instance -> the checkpoint that its host has read
        runtime, plane, holders = lab.migrations.runtime, lab.plane, lab._holders
        self._start, self._load, self._adopt = runtime.start, runtime.load, plane.adopt
        self._choose = holders.choose
        runtime.start, runtime.load, plane.adopt = self._starts, self._loads, self._adopts
        holders.choose = self._chooses

    def _starts(self, name: str, protocol: type[Protocol], move: Move, requested_ns: int) -> Run:
        """A move needs everyone upstream: all have a state, or control cannot know that they have not."""
        cluster, upstream = self._lab.cluster, self._lab.migrations.upstream(move.group)
        unnoticed = {host for host, up in enumerate(cluster.believed_alive) if up and not cluster.host_alive[host]}
        for group in self._lab.keyed_groups():
            owner = self._lab.plane.instances()[cluster.owner_of(group)]
            restored = not owner.live and owner.task.host.index not in unnoticed
            if restored and cluster.unit_operator[group] in upstream:
                self.told.append(f"a move begins while {owner.name}, which sends to the group, is being restored")
        for task, operator in enumerate(cluster.task_operator):
            asked = task in move.upstream or cluster.task_alive[task]
            if operator in upstream and not asked and self._died_unnoticed(task, unnoticed):
                self.told.append("control knows of a crash before that is noticed")
        return self._start(name, protocol, move, requested_ns)  # type: ignore[no-any-return]

    def _died_unnoticed(self, task: int, unnoticed: set[int]) -> bool:
        """Whether the task was on its host when that died, and control does not know."""
        gone = self._lab.beliefs._unnoticed
        return any(task in gone[host].tasks for host in unnoticed if host in gone)

    def _loads(self, run: Run, then: Callable[[], None]) -> None:
        def reads() -> None:
            self._read[run.move.new] = self._lab.plane.instances()[run.move.old].checkpoint
            then()

        self._load(run, reads)

    def _adopts(self, instance: int, unit: int) -> None:
        """A new instance starts from a checkpoint on its host, and where its host has read one, from that."""
        numbered = self._lab.plane.instances()
        new, old = numbered[instance], numbered[unit]
        if new.checkpoint is None and old.checkpoint and old.checkpoint.holder != new.task.host.index:
            self.told.append(f"{new.name} starts from a checkpoint that is on another host")
        if instance in self._read and self._read[instance] is not old.checkpoint:
            self.told.append(f"{new.name} starts from a checkpoint that its host has not read")
        self._adopt(instance, unit)

    def _chooses(self, unit: int, besides: int | None = None) -> int:
        chosen: int = self._choose(unit, besides)
        self.chosen[self._lab.cluster.group_of(unit)].add(chosen)
        return chosen
