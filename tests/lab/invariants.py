"""What must hold of a schedule, as objects: some at every control point, the others at rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from reference.ledger import ledger
from reference.unit import Unit

from lab.lineage import Path, lineage_of


class Seen:
    """What the judges look at."""

    def __init__(self, lab: Any, crashes: int) -> None:
        self.lab, self.world, self.crashes = lab, lab.plane, crashes
        self.lineage = lineage_of(lab.job, lab.plane)
        self.destroyed: set[int] = set()  # groups that have lost a stored checkpoint with its holder
        self.told: list[str] = []  # what is wrong with single steps
        self._adopt = lab.plane.adopt
        lab.plane.adopt = self._adopts

    def _adopts(self, instance: int, unit: int) -> None:
        """A new instance starts from a checkpoint, which has to be on its host: nothing else brings it there."""
        numbered = self.world.instances()
        new, old = numbered[instance], numbered[unit]
        if new.checkpoint is None and old.checkpoint and old.checkpoint.holder != new.task.host.index:
            self.told.append(f"{new.name} starts from a checkpoint that is on another host")
        self._adopt(instance, unit)

    def dies(self, host: int) -> None:
        """The host is about to die."""
        for unit in self.world.instances():
            if unit.checkpoint and unit.checkpoint.holder == host:
                self.destroyed.add(unit.group.number)

    @property
    def lost_groups(self) -> list[str]:
        """Groups of which the run says that their state is lost."""
        rows = self.lab.recorder.rows["decisions"]
        return [
            what.removeprefix("state of ").removesuffix(" is lost") for _, what, _ in rows if what.endswith("is lost")
        ]

    @property
    def excused(self) -> bool:
        """Whether state was lost with its holder, and the run says so."""
        name = self.lab.cluster.unit_name
        return self.crashes > 1 and any(name(group) in self.lost_groups for group in self.destroyed)

    def owners(self) -> list[Unit]:
        """The instance of each key group that counts."""
        numbered, owner_of = self.world.instances(), self.lab.cluster.owner_of
        return [numbered[owner_of(group)] for group in self.lab.keyed_groups()]

    def sinks(self) -> list[Unit]:
        """The units of the sink."""
        return self.world.units[-1]


class Invariant(ABC):
    """A name, and what is wrong with a run."""

    name: str

    @abstractmethod
    def check(self, seen: Seen) -> list[str]:
        """What is wrong now, one line each."""


class AppliedOnce(Invariant):
    """Nothing is in a state twice, and nothing is accepted by the sink twice."""

    name = "applied once"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        return [
            f"{unit.name} has applied something twice"
            for unit in (*seen.owners(), *seen.sinks())
            if len(unit.applied) != len(unit.position)
        ]


class Covered(Invariant):
    """What was emitted for a group is in its stored checkpoint or kept upstream: its owner may die now.

    Not of what upstream has lost itself, which it will make again, and of groups whose checkpoint died with its holder.
    """

    name = "covered"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        lineage, found = seen.lineage, []
        has: dict[int, set[int]] = {}  # planned unit -> ids in the checkpoint or kept by somebody for an instance
        for owner in seen.owners():
            group = owner.group.number
            checkpoint = owner.checkpoint
            ids = set(checkpoint.applied[: checkpoint.count]) if checkpoint else set()
            has[group] = ids
        for unit in seen.world.instances():
            for receiver, rows in unit.kept.items():
                if receiver.group.number in has and not receiver.retired:
                    has[receiver.group.number].update([row.id for row in rows])
        excused = seen.destroyed
        emitted = [
            row for source, rows in zip(seen.world.sources, lineage.born, strict=True) for row in rows[: source.emitted]
        ]
        for owner in seen.owners():
            if owner.live and owner.operator.index < seen.lab.job.stages:
                number, made = owner.group.number, lineage.made
                emitted += [row for tuple_id in owner.applied for row in made[number, tuple_id]]
        missing = {group for group, tuple_id in emitted if group not in excused and tuple_id not in has[group]}
        for group in sorted(missing):
            found.append(f"{seen.lab.cluster.unit_name(group)} is not covered by checkpoint and kept outputs")
        return found


class OneOwner(Invariant):
    """A group has one owner, which is not over."""

    name = "one owner"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        cluster = seen.lab.cluster
        return [
            f"the owner of {cluster.unit_name(group)} is over"
            for group in seen.lab.keyed_groups()
            if cluster.retired(cluster.owner_of(group))
        ]


class OneLives(Invariant):
    """At rest just the owner is live, and it answers."""

    name = "one lives"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        cluster, found = seen.lab.cluster, []
        for group in seen.lab.keyed_groups():
            live = [unit for unit in cluster.instances_of(group) if cluster.unit_live[unit]]
            if live != [cluster.owner_of(group)]:
                found.append(f"{cluster.unit_name(group)}: {live} live, {cluster.owner_of(group)} is the owner")
            elif seen.world.instances()[live[0]].muted:
                found.append(f"{cluster.unit_name(group)} stays silent")
        return found


class MovesEnd(Invariant):
    """No move is open or waits."""

    name = "moves end"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        return ["a move does not end"] if seen.lab.moving else []


class NothingWaits(Invariant):
    """No tuple is left anywhere on its way."""

    name = "nothing waits"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        world = seen.world
        found = [
            f"{task.operator.name} at task {task.index} is stuck"
            for task in world.tasks
            if task.alive and not task.empty
        ]
        found += [f"{unit.name} holds tuples for ever" for unit in seen.owners() if unit.held]
        return found + (["tuples are under way for ever"] if world.wire else [])


class SameAsCalm(Invariant):
    """Each group and the sink have just what they have without crashes and moves."""

    name = "same as calm"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        found = []
        for unit in (*seen.owners(), *seen.sinks()):
            goal, has = seen.lineage.inputs[unit.group.number], Counter(unit.applied)
            lost, extra = goal - has, has - goal
            if lost and not seen.excused:
                found.append(f"{unit.name} lacks {lost.total()} of {goal.total()}")
            if extra:
                found.append(f"{unit.name} has {extra.total()} too many")
        return found


class Ledger(Invariant):
    """The books of the run say the same."""

    name = "ledger"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        rows = ledger(seen.world)
        lost = [] if seen.excused else [f"the ledger says lost: {rows}" for row in rows if row[2]]
        return lost[:1] + [f"the ledger says duplicated: {rows}" for row in rows if row[3]][:1]


class InOrder(Invariant):
    """Tuples that came the same way are applied in the order of their source.

    Not behind a group that has moved: what two instances send comes over two channels.
    """

    name = "in order"

    def check(self, seen: Seen) -> list[str]:
        """At rest; where state was lost what upstream still keeps may fill a gap, late."""
        found, path = [], seen.lineage.path
        moved = {run.move.group for run in seen.lab.migrations.runtime.runs}
        for unit in () if seen.excused else (*seen.owners(), *seen.sinks()):
            last: dict[Path, int] = {}
            for tuple_id in unit.applied:
                way, sequence = path.get((unit.group.number, tuple_id), ((), 0))
                if sequence < last.get(way, -1) and moved.isdisjoint(way):
                    found.append(f"{unit.name} applies tuples out of order")
                    break
                last[way] = sequence
        return found


class NoStray(Invariant):
    """Without a crash nothing comes to an instance that is over."""

    name = "no stray"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        strays = [row for row in seen.world.recorder.rows["dropped"] if row[5] == "moved"]
        return ["a tuple came to an instance that is over"] if strays and not seen.crashes else []


SILENT = ("cpal", "cpal_caught_up")


class AnsweredOnce(Invariant):
    """Without a crash, and with a protocol that goes on in silence, downstream gets nothing twice."""

    name = "answered once"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        runs = seen.lab.migrations.runtime.runs
        if seen.crashes or any(run.name not in SILENT for run in runs):
            return []
        moved = {seen.lab.cluster.unit_operator[run.move.group] for run in runs}
        rows = seen.world.recorder.rows["dropped"]
        twice = [row for row in rows if row[5] == "duplicate" and row[0] not in moved]
        return ["something was answered twice"] if twice else []


PREFIXES: tuple[Invariant, ...] = (AppliedOnce(), OneOwner(), Covered())
AT_REST: tuple[Invariant, ...] = (
    AppliedOnce(),
    OneOwner(),
    OneLives(),
    MovesEnd(),
    NothingWaits(),
    SameAsCalm(),
    Ledger(),
    InOrder(),
    NoStray(),
    AnsweredOnce(),
    Covered(),
)
