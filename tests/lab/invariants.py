"""Invariants of a schedule, as objects: some must hold at every control point, the others at rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import cached_property
from typing import Any

from lab.lineage import Path, lineage_of
from lab.losses import Losses, in_parcels, stored
from lab.steps import Steps
from models.records.decisions import Action
from sim.plain.audit import ledger
from sim.plain.partition import Partition


class Seen:
    """A laboratory as the invariants see it, with the lineage of its tuples and the losses of its crashes."""

    def __init__(self, lab: Any, crashes: int) -> None:
        self.lab, self.plane, self.crashes = lab, lab.plane, crashes
        self.lineage = lineage_of(lab.job, lab.plane)
        self.losses = Losses(lab, self.lineage)
        self.steps = Steps(lab)

    def said_to_be_lost(self) -> set[str]:
        """Return the names of groups whose state is lost according to the decisions of the run."""
        rows = self.lab.recorder.rows["decisions"]
        return {str(subject) for _, action, subject, *_ in rows if action == Action.LOSE_STATE}

    def lacks(self, partition: Partition) -> Counter[int]:
        """Return the ids that the partition is to receive in the end and has not applied."""
        return self.lineage.inputs[partition.group.number] - Counter(partition.applied)

    def owners(self) -> list[Partition]:
        """Return the instance that owns each key group."""
        numbered, owner_of = self.plane.instances(), self.lab.cluster.owner_of
        return [numbered[owner_of(group)] for group in self.lab.groups]

    @cached_property
    def sinks(self) -> list[Partition]:
        """The partitions of the sinks."""
        return [partition for partition in self.plane.all_partitions() if partition.operator.is_sink]


class Invariant(ABC):
    """A condition of a run with a name."""

    name: str

    @abstractmethod
    def check(self, seen: Seen) -> list[str]:
        """Return the violations now, one line each."""


class AppliedOnce(Invariant):
    """Nothing is in a state twice, and nothing is accepted by the sink twice."""

    name = "applied once"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        return [
            f"{partition.name} has applied something twice"
            for partition in (*seen.owners(), *seen.sinks)
            if len(partition.applied) != len(partition.position)
        ]


def _reads_sources_alone(seen: Seen, partition: Partition) -> bool:
    plan = seen.lab.plan
    return all(plan.operators[above].is_source for above in plan.dataflow.predecessors(partition.operator.index))


class Covered(Invariant):
    """Tuples emitted for a group are in its stored checkpoint or kept upstream: its owner may die now.

    Except tuples that upstream has lost itself, which it will make again, and ids whose checkpoint died with its
    checkpoint host, until the group has stored another one.
    """

    name = "covered"

    def check(self, seen: Seen) -> list[str]:
        """At any time; where sources replay, operators that read others get it made anew, or else a replica has it."""
        sources_replay = seen.lab.plan.sources_replay
        if seen.lab.plan.scenario.fault_tolerance.replicates_all:
            return []  # `InStep` says that of replicas
        has = {
            owner.group.number: stored(owner)
            for owner in seen.owners()
            if not sources_replay or _reads_sources_alone(seen, owner)
        }
        for partition in seen.plane.instances():
            for receiver, rows in partition.kept.items():
                if receiver.group.number in has and not receiver.retired:
                    has[receiver.group.number].update([row.id for row in rows])
        for group, ids in in_parcels(seen.lab).items():
            if group in has:
                has[group] |= ids
        for group, ids in seen.losses.missing().items():
            if group in has:
                has[group] |= ids | seen.losses.exposed[group]
        missing = {group for group, tuple_id in self.emitted(seen) if group in has and tuple_id not in has[group]}
        name = seen.lab.cluster.partition_name
        return [f"{name(group)} is not covered by checkpoint and kept outputs" for group in sorted(missing)]

    @staticmethod
    def emitted(seen: Seen) -> set[tuple[int, int]]:
        """Return (receiving partition, id) of what the sources and the live groups have sent so far."""
        first, sources = seen.lineage.first_of_sources, seen.plane.sources
        found = set[tuple[int, int]]().union(*[sent[its.emitted] for its, sent in zip(sources, first, strict=True)])
        for owner in seen.owners():
            if owner.live:
                found |= seen.lineage.emitted(owner.group.number, owner.applied)
        return found


class InStep(Invariant):
    """A replica in step has all tuples emitted for its group, or upstream keeps them for it: the owner may die now."""

    name = "in step"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        numbered, found = seen.plane.instances(), []
        replicated = seen.lab.groups if seen.lab.plan.scenario.has_replicas else ()
        standing = {group: seen.lab.replica_of(group) for group in replicated}
        live = {group: numbered[one] for group, one in standing.items() if one is not None and numbered[one].live}
        if not live:
            return []
        lost, has = seen.losses.missing(), {group: set(one.applied) for group, one in live.items()}
        for partition in numbered:
            for receiver, rows in partition.kept.items():
                if live.get(receiver.group.number) is receiver:
                    has[receiver.group.number].update([row.id for row in rows])
        for group, tuple_id in sorted(Covered.emitted(seen)):
            if group in has and tuple_id not in has[group] | lost.get(group, set()):
                found.append(f"the replica of {seen.lab.cluster.partition_name(group)} is not in step")
        return [*dict.fromkeys(found)]


class Apart(Invariant):
    """No host owns a group and holds its checkpoint, but one to which a crash has brought the group."""

    name = "apart"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        return [f"{owner.name} is on the host that holds its checkpoint" for owner in seen.losses.together()]


class OneOwner(Invariant):
    """A group has one owner, which is not over."""

    name = "one owner"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        cluster = seen.lab.cluster
        return [
            f"the owner of {cluster.partition_name(group)} is over"
            for group in seen.lab.groups
            if cluster.retired(cluster.owner_of(group))
        ]


class PlannedCheckpointHost(Invariant):
    """While no move of a group is open its checkpoints go where somebody chose: a move leaves that as it was."""

    name = "planned checkpoint host"

    def check(self, seen: Seen) -> list[str]:
        """At any time."""
        cluster, found = seen.lab.cluster, []
        for owner in seen.owners():
            group, planned = owner.group.number, cluster.planned_checkpoint_host[owner.number]
            if group not in seen.lab.migrations.open and planned not in seen.steps.chosen[group]:
                found.append(f"checkpoints of {owner.name} go to a host that nobody chose")
        return found


class OneLives(Invariant):
    """At rest the owner is live and answers; its replica, if it has one, is live and silent."""

    name = "one lives"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        cluster, found = seen.lab.cluster, []
        for group in seen.lab.groups:
            live = [partition for partition in cluster.instances_of(group) if cluster.partition_live[partition]]
            owner, replica = cluster.owner_of(group), seen.lab.replica_of(group)
            if live != [owner] and set(live) != {owner, replica}:
                found.append(f"{cluster.partition_name(group)}: {live} live, {owner} is the owner")
            elif seen.plane.instances()[owner].muted:
                found.append(f"{cluster.partition_name(group)} stays silent")
            elif replica is not None and not seen.plane.instances()[replica].muted:
                found.append(f"{cluster.partition_name(group)} is answered by its replica, too")
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
        plane = seen.plane
        found = [
            f"{task.operator.name} at task {task.index} is stuck"
            for task in plane.tasks
            if task.alive and not task.empty
        ]
        found += [f"{partition.name} holds tuples for ever" for partition in seen.owners() if partition.held]
        return found + (["tuples are under way for ever"] if plane.wire else [])


class SameAsCalm(Invariant):
    """Each group and sink has the tuples of a run without crashes and moves, except those that crashes destroyed."""

    name = "same as calm"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        found, may_lack = [], seen.losses.missing()
        for partition in (*seen.owners(), *seen.sinks):
            goal, lost = seen.lineage.inputs[partition.group.number], seen.lacks(partition)
            unexcused = lost.keys() - may_lack.get(partition.group.number, set())
            extra = Counter(partition.applied) - goal
            if unexcused:
                found.append(f"{partition.name} lacks {len(unexcused)} of {goal.total()}")
            if extra:
                found.append(f"{partition.name} has {extra.total()} too many")
        return found


class LossIsSaid(Invariant):
    """A group that has lost state with owner and checkpoint is said to have, and no other group is."""

    name = "loss is said"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        said, losses, derived = seen.said_to_be_lost(), seen.losses, seen.losses.derived()
        found = []
        for owner in seen.owners():
            group = owner.group.number
            lost = (seen.lacks(owner).keys() & losses.destroyed[group]) - derived.get(group, set())
            if lost and owner.name not in said:
                found.append(f"{owner.name} has lost state and nothing says so")
            if owner.name in said and group not in losses.bereft:
                found.append(f"{owner.name} is said to have lost state and has not")
        return found


class Ledger(Invariant):
    """The audit of the run says the same."""

    name = "ledger"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        lacks: Counter[int] = Counter()
        for partition in (*seen.owners(), *seen.sinks):
            lacks[partition.operator.index] += len(seen.lacks(partition))
        rows = ledger(seen.plane)
        wrong = [f"the ledger says lost: {row}, not {lacks[row[0]]}" for row in rows if row[2] != lacks[row[0]]]
        return wrong[:1] + [f"the ledger says duplicated: {rows}" for row in rows if row[3]][:1]


class InOrder(Invariant):
    """Tuples that came the same way are applied in the order of their source.

    Not behind a group that has moved: what two instances send comes over two channels.
    """

    name = "in order"

    def check(self, seen: Seen) -> list[str]:
        """At rest; not in, or behind, a group that starts again from what upstream happens to keep."""
        found, path = [], seen.lineage.path
        anew = seen.losses.bereft
        changed = anew | {run.move.group for run in seen.lab.migrations.runs}
        for partition in (*seen.owners(), *seen.sinks):
            last: dict[Path, int] = {}
            for tuple_id in () if partition.group.number in anew else partition.applied:
                way, sequence = path.get((partition.group.number, tuple_id), ((), 0))
                if sequence < last.get(way, -1) and changed.isdisjoint(way):
                    found.append(f"{partition.name} applies tuples out of order")
                    break
                last[way] = sequence
        return found


class NoStray(Invariant):
    """Without a crash nothing comes to an instance that is over."""

    name = "no stray"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        strays = [row for row in seen.plane.recorder.rows["dropped"] if row[5] == "moved"]
        return ["a tuple came to an instance that is over"] if strays and not seen.crashes else []


SILENT = ("cpal", "cpal_caught_up", "replication")


class AnsweredOnce(Invariant):
    """Without a crash, and with a protocol that goes on in silence, downstream gets nothing twice."""

    name = "answered once"

    def check(self, seen: Seen) -> list[str]:
        """At rest."""
        runs = seen.lab.migrations.runs
        if seen.crashes or any(run.name not in SILENT or self._resends(seen, run) for run in runs):
            return []
        moved = {seen.lab.cluster.partition_operator[run.move.group] for run in runs}
        rows = seen.plane.recorder.rows["dropped"]
        twice = [row for row in rows if row[5] == "duplicate" and row[0] not in moved]
        return ["something was answered twice"] if twice else []

    @staticmethod
    def _resends(seen: Seen, run: Any) -> bool:
        """Return whether the new instance sends again by design: where event time matters."""
        resends: bool = seen.lab.instances.has_event_time(run.move.group)
        return resends


PREFIXES: tuple[Invariant, ...] = (AppliedOnce(), OneOwner(), Covered(), InStep(), Apart(), PlannedCheckpointHost())
AT_REST: tuple[Invariant, ...] = (
    AppliedOnce(),
    OneOwner(),
    OneLives(),
    MovesEnd(),
    NothingWaits(),
    SameAsCalm(),
    LossIsSaid(),
    Ledger(),
    InOrder(),
    NoStray(),
    AnsweredOnce(),
    Covered(),
    InStep(),
    Apart(),
    PlannedCheckpointHost(),
)
