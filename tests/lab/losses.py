"""Which tuples a run may lose: those whose only copy was in a checkpoint and in a state that crashes destroyed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lab.lineage import Lineage
from sim.migration.rebalance import Phase
from sim.plain.partition import Checkpoint, Contents, Partition, Row

Ids = set[int]


class Losses:
    """The ids that each key group may lack, id by id and from crash to crash.

    Upstream forgets what a stored checkpoint contains. When the host dies that holds the checkpoint, these ids are
    *exposed*: only the live state of the group still has them. They are safe again once the owner has stored another
    checkpoint. They are *destroyed* when no live instance of the group is left that has them, and nobody upstream is
    sure to send them again; then the group may lack them, and groups downstream may lack what derives from them, but
    nothing else.
    """

    def __init__(self, lab: Any, lineage: Lineage) -> None:
        self._lab, self._lineage = lab, lineage
        self.exposed: dict[int, Ids] = {group: set() for group in lab.groups}
        self.destroyed: dict[int, Ids] = {group: set() for group in lab.groups}
        self.bereft: set[int] = set()  # groups without checkpoint and state, even where upstream keeps everything
        self._moved_by_crash: set[int] = set()  # groups that a crash has sent to the host of their checkpoint
        self._trims: list[tuple[Partition, int, int]] = []  # (partition, count, incarnation) under way
        self._crashes = 0
        self._watch_trims(lab.plane.saver)

    def _watch_trims(self, saver: Any) -> None:
        trim_later, trim = saver._trim_later, saver._trim

        def later(partition: Partition, count: int) -> None:
            if any(sender.kept.get(partition) for sender in partition.senders):
                self._trims.append((partition, count, partition.incarnation))
            trim_later(partition, count)

        def arrives(partition: Partition, count: int, incarnation: int) -> None:
            self._trims.remove((partition, count, incarnation))
            trim(partition, count, incarnation)

        saver._trim_later, saver._trim = later, arrives

    def check(self) -> None:
        """Note the ids that owners have stored since the last control point: they are safe."""
        for group in self.exposed:
            owner = self._owner(group)
            if self.exposed[group]:
                self.exposed[group] -= stored(owner)
            if owner.live and not holds_its_own_checkpoint(owner):
                self._moved_by_crash.discard(group)

    def dies(self, host: int) -> None:
        """The host is about to die, with the checkpoints that it holds and the states that it has.

        A first crash destroys nothing: no host holds the checkpoint of a group that it owns.
        """
        self.check()
        self._crashes += 1
        for group in self.exposed:
            here = [partition for partition in self._instances(group) if partition.task.host.index == host]
            lost = [
                partition
                for partition in self._instances(group)
                if partition.checkpoint and partition.checkpoint.host == host
            ]
            for partition in lost:
                self.exposed[group] |= stored(partition)
            if not any(partition is self._owner(group) for partition in lost):
                self.exposed[group] -= stored(self._owner(group))
            if here:
                self._moved_by_crash.add(group)
            # A rebalance may bring a group to the host that holds its checkpoint, as a crash may.
            if self._crashes > 1 or self._rebalanced:
                self._destroy(group, host)

    def _destroy(self, group: int, host: int) -> None:
        """Destroy the exposed ids that no state has any more, except those that upstream can send again."""
        left: Ids = set()
        for partition in self._instances(group):
            if lives(partition, host):
                left.update(partition.applied)
        left |= in_parcels(self._lab, kept=False).get(group, set())
        gone = self.exposed[group] - left
        self.exposed[group] &= left
        if gone:
            self.bereft.add(group)
            self.destroyed[group] |= gone - self._sent_again(group, host)

    def _sent_again(self, group: int, host: int) -> Ids:
        """Return the ids that upstream keeps for the group or will make again, whichever instance of a sender goes on.

        Without those that a trim on its way tells it to forget.
        """
        found: Ids = set()
        for instances in self._senders(host):
            found |= set.intersection(*[self._has_for(sender, group, host) for sender in instances])
        for partition, count, incarnation in self._trims:
            if partition.group.number == group and incarnation == partition.incarnation:
                found.difference_update(partition.applied[:count])
        return found

    def _has_for(self, sender: Partition, group: int, host: int) -> Ids:
        """Return the ids that a sender keeps for the group or will make: as it is, or restored from what is saved."""
        applied: Ids = set()
        kept: Iterable[tuple[Partition, Iterable[Row]]] = ()
        if sender.operator.is_source or lives(sender, host):
            applied = set(sender.applied)
            kept = [(receiver, rows) for receiver, rows in sender.kept.items() if not receiver.retired]
        else:
            saved = saved_in_parcel(self._lab, sender)
            if saved is None and sender.checkpoint and sender.checkpoint.host != host:
                saved = sender.checkpoint
            if saved is not None:
                applied, kept = set(saved.applied[: saved.count]), saved.kept
        found = {row.id for receiver, rows in kept if receiver.group.number == group for row in rows}
        for tuple_id in self._lineage.inputs[sender.group.number].keys() - applied:
            made = self._lineage.made[sender.group.number, tuple_id]
            found.update([derived for receiver, derived in made if receiver == group])
        return found

    def missing(self) -> dict[int, Ids]:
        """Return, by partition, the ids that it may lack: those that were destroyed, and all that derive from them."""
        found = self.derived()
        for group, ids in self.destroyed.items():
            found.setdefault(group, set()).update(ids)
        return found

    def derived(self) -> dict[int, Ids]:
        """Return, by partition, the ids that nobody makes any more: they derive from ids that groups upstream lost."""
        found: dict[int, Ids] = {}
        todo = [(group, tuple_id) for group, ids in self.destroyed.items() for tuple_id in ids]
        while todo:
            for receiver, tuple_id in self._lineage.made[todo.pop()]:
                if tuple_id not in found.setdefault(receiver, set()):
                    found[receiver].add(tuple_id)
                    todo.append((receiver, tuple_id))
        return found

    def together(self) -> list[Partition]:
        """Return live owners on the host that holds their checkpoint, unless a crash or rebalance has brought them."""
        if self._rebalanced:
            return []
        owners = [self._owner(group) for group in self.exposed if group not in self._moved_by_crash]
        return [owner for owner in owners if owner.live and holds_its_own_checkpoint(owner)]

    @property
    def _rebalanced(self) -> bool:
        """Return whether a rebalance has killed tasks."""
        return any(Phase.KILLED in run.facts for run in self._lab.rebalances.runs)

    def _senders(self, host: int) -> list[list[Partition]]:
        """Return the sources, and of each group the instances that may go on: those that live, or else the owner.

        In a move the old and the new instance make the same outputs, one of them later. When the receiver stores these
        in between, only the first forgets them, and the other one may be over before anybody asks for them again.
        """
        found = [[source.partition] for source in self._lab.plane.sources]
        for group in self.exposed:
            live = [partition for partition in self._instances(group) if lives(partition, host)]
            found.append(live or [self._owner(group)])
        return found

    def _owner(self, group: int) -> Partition:
        owner: Partition = self._lab.plane.instances()[self._lab.cluster.owner_of(group)]
        return owner

    def _instances(self, group: int) -> list[Partition]:
        numbered = self._lab.plane.instances()
        return [numbered[one] for one in self._lab.cluster.instances_of(group) if not self._lab.cluster.retired(one)]


def stored(partition: Partition) -> Ids:
    """Return the ids in the stored checkpoint of the partition."""
    return set(partition.checkpoint.applied[: partition.checkpoint.count]) if partition.checkpoint else set()


def lives(partition: Partition, host: int) -> bool:
    """Return whether the partition has a state that survives the death of the host."""
    return partition.live and partition.task.host.index != host


def in_parcels(lab: Any, kept: bool = True) -> dict[int, Ids]:
    """Return, by group, the ids in parcels: in states, captured, and, with `kept`, what states keep for others."""
    found: defaultdict[int, Ids] = defaultdict(set)
    for contents, ready in _parcels(lab):
        for partition, saved in contents.states:
            if partition.number not in ready:
                found[partition.group.number].update(saved.applied[: saved.count])
                for receiver, rows in saved.kept if kept else ():
                    found[receiver.group.number].update(row.id for row in rows)
        for one in contents.tuples:
            if one.partition.number not in ready:
                found[one.partition.group.number].add(one.row.id)
    return found


def saved_in_parcel(lab: Any, partition: Partition) -> Checkpoint | None:
    """Return the state with which a parcel brings the partition back, if there is one."""
    for contents, ready in _parcels(lab):
        for saved_for, saved in contents.states:
            if saved_for is partition and partition.number not in ready:
                return saved
    return None


def _parcels(lab: Any) -> Iterator[tuple[Contents, set[int]]]:
    """Yield parcels with the partitions that are initialised: those are recovered without it.

    Only of runs that have killed tasks: until then parcels are discarded when a host dies.
    """
    for run in lab.rebalances.runs:
        if Phase.KILLED in run.facts and not run.over:
            ready = {one for subtask in run.initialised for one in run.plan.flow.partitions[subtask]}
            for number in run.parcels:
                yield lab.plane.parcels[number], ready


def holds_its_own_checkpoint(partition: Partition) -> bool:
    """Return whether one crash would take both the partition and its checkpoint."""
    return partition.checkpoint is not None and partition.checkpoint.host == partition.task.host.index
