"""Which tasks count as failed under trimming by acks, and which crash is within the assumption of the protocol.

A task is *whole* again after a failure when it is live, has applied again all that it had applied, and keeps again all
that it had kept, in each case but for what is *settled*. A tuple is settled at a task that has confirmed it at the
highest level once, at a sink that has it, and at a task without state when all that follows from it is settled at those
who receive it: nobody needs the outputs upstream of there any more.

Tasks that are not whole count as failed, those of a host that dies count with them. With `n` levels nothing may be lost
as long as no `n` tasks in a row, each of which sends to the next one, count as failed. Sources read a durable log, and
what sinks have delivered is outside: neither counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lab.lineage import Lineage, Sent
from sim.plain.partition import Partition
from sim.plane_values import REMOTE


class Wholeness:
    """The partitions that have failed, with what each of them lacks until it is whole."""

    def __init__(self, lab: Any, lineage: Lineage) -> None:
        self._lab, self._plane, self._lineage = lab, lab.plane, lineage
        self._applied: dict[int, set[int]] = {}
        self._kept: dict[int, set[Sent]] = {}
        self._confirmed: set[Sent] = set()  # at the highest level
        self._watch(lab.plane.trimming)

    def _watch(self, protocol: Any) -> None:
        confirmed = protocol.confirmed

        def confirms(partition: Partition) -> list[int]:
            counts: list[int] = confirmed(partition)
            self._confirmed.update((partition.group.number, one) for one in partition.applied[: counts[-1]])
            return counts

        protocol.confirmed = confirms

    # -- who counts as failed

    def failed(self) -> set[int]:
        """Return the partitions that are not whole."""
        for number in [*self._applied]:
            partition = self._owner(number)
            if partition.live:
                self._note(partition)
                if not self._applied[number] and not self._kept[number]:
                    del self._applied[number], self._kept[number]
        return {*self._applied}

    def _owner(self, group: int) -> Partition:
        """Return the instance that owns the group: it stands for it."""
        owner: Partition = self._plane.instances()[group].owner
        return owner

    def _note(self, partition: Partition) -> None:
        """Take off what the partition has again, and what is settled."""
        number, kept = partition.group.number, _kept(partition)
        self._applied[number] = {
            one for one in self._applied[number] if one not in partition.position and not self.settled((number, one))
        }
        self._kept[number] = {sent for sent in self._kept[number] if sent not in kept and not self.settled(sent)}

    def settled(self, sent: Sent) -> bool:
        """Return whether nobody needs this tuple from those who send to its receiver any more."""
        partition = self._owner(sent[0])
        if partition.operator.is_sink:
            return sent[1] in partition.position
        if sent in self._confirmed:
            return True
        return not partition.operator.description.stateful and all(map(self.settled, self._lineage.made[sent]))

    def dies(self, host: int) -> None:
        """The host is about to die."""
        self.failed()
        for partition in self._at(host):
            number = partition.group.number
            applied, kept = self._applied.setdefault(number, set()), self._kept.setdefault(number, set())
            if partition.live:
                applied |= set(partition.applied)
                kept |= _kept(partition)
            self._applied[number] = {one for one in applied if not self.settled((number, one))}
            self._kept[number] = {sent for sent in kept if not self.settled(sent)}

    def _at(self, host: int) -> Iterator[Partition]:
        """Yield the partitions at a host, without those of sources and sinks."""
        for group in self._lab.groups:
            partition = self._owner(group)
            if partition.task.host.index == host and partition.task.alive:
                yield partition

    # -- the assumption

    def allows(self, host: int, bold: bool) -> bool:
        """Return whether the host may die now.

        A `bold` crash is within a weaker assumption: of tasks in a row all but the last have no state.
        """
        levels: int = self._lab.job.levels
        return self.row_with(host, bold) < levels and not self._takes_checkpoint(host)

    def row_with(self, host: int, bold: bool) -> int:
        """Return how many tasks in a row would count as failed if the host died now."""
        return self._row(self.failed() | {partition.group.number for partition in self._at(host)}, bold)

    def _row(self, failed: Iterable[int], bold: bool) -> int:
        """Return the greatest number of operators in a row that have such a partition."""
        operators, lab = self._lab.plan.operators, self._lab
        hit = {lab.cluster.partition_operator[number] for number in failed}
        longest: dict[int, int] = {}
        for operator in sorted(hit, reverse=True):  # each stands behind those that send to it
            below = [longest[edge.down.index] for edge in operators[operator].edges if edge.down.index in hit]
            ends = bold and operators[operator].description.stateful
            longest[operator] = 1 + (0 if ends else max(below, default=0))
        return max(longest.values(), default=0)

    def _takes_checkpoint(self, host: int) -> bool:
        """Return whether the crash takes a state and its checkpoint, or one of them while the other is gone."""
        for group in self._lab.groups:
            partition = self._owner(group)
            has_one = partition.saved or partition.adopted is not None
            if not has_one or (partition.live and partition.task.host.index != host):
                continue
            checkpoint = partition.checkpoint
            if checkpoint is None or checkpoint.host == host != REMOTE:
                return True
        return False


def _kept(partition: Partition) -> set[Sent]:
    return {(receiver.group.number, row.id) for receiver, rows in partition.kept.items() for row in rows}
