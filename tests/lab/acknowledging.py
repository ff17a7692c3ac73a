"""What must hold of acks at single steps, and of all tuples at any time: nothing that is trimmed is needed any more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from lab.lineage import Lineage, Sent
from sim.plain.partition import Partition, TaskView, Visit
from sim.plain.trimming import Confirmation

Link = tuple[int, int]  # (planned partition that keeps outputs, planned partition that acknowledges them)


def link_of(said: Confirmation) -> Link:
    """Return the ends of a confirmation, by key group."""
    return said.sender.group.number, said.receiver.group.number


class AckRules:
    """Compares what partitions confirm, and what is trimmed, with the acks that have come, tuple by tuple.

    A tuple may be confirmed at a level above L0 if the acks of all that follows from it have come at the level below,
    and if a task with state has it in a stored checkpoint. Acks that a receiver has sent before it was restored do not
    count, but for those of the highest level: what they confirm is trimmed. What has been confirmed once stays so.
    """

    def __init__(self, lab: Any, lineage: Lineage, faults: Counter[str]) -> None:
        self._lineage, self._faults, self._levels, self._safe = lineage, faults, lab.job.levels, lab.plane.trimming.safe
        self._said: dict[int, list[set[int]]] = {}  # the ids by level of an ack that is under way
        self._acked: defaultdict[Link, list[set[int]]] = defaultdict(self._nothing)
        self._trimmable: defaultdict[Link, set[int]] = defaultdict(set)
        self._confirmed: defaultdict[int, list[set[int]]] = defaultdict(self._nothing)
        self.met = Counter[str]()  # acks by what becomes of them
        self.trimmed: Callable[[], None] = lambda: None  # called when an ack has trimmed something
        self._watch(lab.plane.trimming)
        self._watch_owners(lab.plane)

    def _nothing(self) -> list[set[int]]:
        return [set() for _ in range(self._levels)]

    def _watch(self, protocol: Any) -> None:
        confirmed, send, comes = protocol.confirmed, protocol._send, protocol._comes
        acknowledge, forget = protocol._acknowledge, protocol.forget_acks_of

        def confirms(partition: Partition) -> list[int]:
            counts: list[int] = confirmed(partition)
            self._confirms(partition, counts)
            return counts

        def sends(task: TaskView, goal: TaskView, said: Sequence[Confirmation]) -> None:
            for one in said:
                self.met["ack that is sent"] += 1
                self._said[id(one)] = [{*one.receiver.applied[:count]} for count in one.counts]
            send(task, goal, said)

        def arrives(goal: TaskView, said: Sequence[Confirmation]) -> None:
            for one in said:
                self._comes(goal, one)
            comes(goal, said)

        def acknowledges(said: Confirmation) -> None:
            before = [row.id for row in said.sender.kept.get(said.receiver, ())]
            acknowledge(said)
            link = link_of(said)
            left = {row.id for row in said.sender.kept.get(said.receiver, ())}
            if len(left) < len(before):
                self.trimmed()
            if not {*before} - left <= self._trimmable[link]:
                self._faults[f"{said.sender.name} trims what {said.receiver.name} has not acknowledged"] += 1

        def forgets(receiver: Partition) -> None:
            self._forget(receiver.group.number)
            forget(receiver)

        protocol.confirmed, protocol._send, protocol._comes = confirms, sends, arrives
        protocol._acknowledge, protocol.forget_acks_of = acknowledges, forgets

    def _forget(self, group: int) -> None:
        for link in self._acked:
            if link[1] == group:
                self._acked[link] = self._nothing()

    def _watch_owners(self, plane: Any) -> None:
        """Forget what the instance has acknowledged that owned a group before: another one goes on from elsewhere."""
        own = plane.own

        def owns(instance: int) -> None:
            self._forget(plane.instances()[instance].group.number)
            own(instance)

        plane.own = owns

    def _comes(self, goal: TaskView, one: Confirmation) -> None:
        if not (goal.alive and one.sender.task is goal and one.sender.live):
            self.met["ack that comes to nobody" if goal.alive else "ack that comes to the dead"] += 1
            return
        if one.incarnation != one.receiver.incarnation:
            self.met["ack of a dead incarnation"] += 1
            return
        self.met["ack that is heard" if one.receiver.live else "ack of the dead that is heard"] += 1
        link = link_of(one)
        if one.receiver.group.owner is one.receiver:
            for level, ids in enumerate(self._said[id(one)]):
                self._acked[link][level] |= ids
        self._trimmable[link] |= self._said[id(one)][-1]

    def _confirms(self, partition: Partition, counts: Sequence[int]) -> None:
        if partition.operator.is_sink:
            return
        for level, count in enumerate(counts):
            first, before = {*partition.applied[:count]}, self._confirmed[partition.group.number][level]
            # Outputs that a literal checkpoint lacks are gone after a restore: nobody could acknowledge them.
            if level and self._safe and not self._may_confirm(partition, first, first & before, level):
                self._faults[f"{partition.name} sends an L{level}-ACK too early"] += 1
            before |= first

    def _may_confirm(self, partition: Partition, first: set[int], before: set[int], level: int) -> bool:
        """Return whether it may confirm the first tuples, when it has confirmed some of them before."""
        checkpoint = partition.checkpoint
        saved = {*checkpoint.applied[: checkpoint.count]} if checkpoint else set[int]()
        if partition.operator.description.stateful and not first - before <= saved:
            return False
        emitted = self._lineage.emitted
        group = partition.group.number
        outputs = emitted(group, first) - emitted(group, before)
        return all(self._is_acked((group, receiver), one, level - 1) for receiver, one in outputs)

    def _is_acked(self, link: Link, tuple_id: int, level: int) -> bool:
        return tuple_id in self._acked[link][level] or tuple_id in self._trimmable[link]


def lost_now(plane: Any, lineage: Lineage) -> set[Sent]:
    """Return (key group, id) of what states and sinks lack and nobody has any more, of those that own their groups.

    Not of tasks without state: what they lack is missed only further downstream, if at all.
    """
    partitions = [*plane.all_partitions()]
    there = {partition.number: _there(partition.owner, plane) for partition in partitions}
    coming = _coming(plane)
    lost, known, halves = set[Sent](), set[Sent](), set[Sent]()
    todo = [sent for source, of in zip(plane.sources, lineage.from_sources, strict=True) for sent in _first(source, of)]
    while todo:
        sent = todo.pop()
        if sent in known:
            continue
        known.add(sent)
        number, tuple_id = sent
        if tuple_id not in there[number]:
            if sent in coming:
                continue
            operator = partitions[number].operator
            if operator.is_sink or operator.description.stateful:
                lost.add(sent)
        made = lineage.made[sent]
        if number in lineage.joins:  # an output follows from the second of a pair that is met
            todo += [output for output in made if output in halves]
            halves.update(made)
        else:
            todo += made
    return lost


def _first(source: Any, rows: list[list[Sent]]) -> list[Sent]:
    return [sent for row in rows[: source.emitted] for sent in row]


def _there(partition: Partition, plane: Any) -> Any:
    """Return the ids in a state, or in that from which the partition is going to be restored."""
    if partition.live or partition.operator.is_sink:
        return partition.position
    if partition.operator.is_source:
        return ()
    if not partition.operator.description.stateful:
        return {*partition.applied[: partition.trimmed]}
    checkpoint = partition.checkpoint
    return {*checkpoint.applied[: checkpoint.count]} if checkpoint else ()


def _coming(plane: Any) -> set[Sent]:
    """Return (key group, id) of what is on its way to its owner, in its queue, or kept by an owner.

    Kept by one who is live, or will be restored; that one sends to whoever owns the group then.
    """
    found = set[Sent]()

    def add(partition: Partition, tuple_id: int) -> None:
        if partition.group.owner is partition:
            found.add((partition.group.number, tuple_id))

    for visit, task in plane.wire.items():
        if task.alive:
            add(visit.partition, visit.row.id)
    for task in plane.tasks:
        for item in (*task.front, *task.queue, *task.serving):
            if isinstance(item, Visit):
                add(item.partition, item.row.id)
        for output in task.outbox.unsent:
            add(output.receiver, output.row.id)
    for partition in (one.owner for one in plane.all_partitions()):
        for visit in partition.held:
            add(partition, visit.row.id)
        if partition.live:
            for receiver, rows in partition.kept.items():
                for row in rows:
                    add(receiver, row.id)
            continue
        kept = [*partition.kept.items()]
        if not partition.operator.is_source:
            checkpoint = partition.checkpoint
            kept = [*checkpoint.kept] if checkpoint and partition.operator.description.stateful else []
        found.update((receiver.group.number, row.id) for receiver, rows in kept for row in rows)
    return found
