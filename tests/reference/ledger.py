"""The books at the end of a run: was every tuple that the sources emitted applied and delivered once?

The expected inputs of every unit follow from the sources' tuples by the same pure functions that the run uses
(ids, selectivity, routing). A tuple that is not in the final state but still queued, held, in service, on a
wire to a live task, or kept for a unit that is being recovered is neither lost nor expected yet; nor is
anything that would follow from it. Operators downstream of a window are not in the books: what these emit follows from
watermarks as well. A timer is a source: what it emitted is known by its number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reference.unit import Unit, Visit
from sim.draws import source_id

if TYPE_CHECKING:
    from reference.world import World
    from sim.operator_plan import OperatorPlan


@dataclass
class Account:
    """The books of one operator; a tuple is (index of the unit, tuple id)."""

    expected: int = 0
    lost: set[tuple[int, int]] = field(default_factory=set)
    duplicated: int = 0


def ledger(world: World) -> list[tuple[int, int, int, int]]:
    """Rows (operator, expected, lost, duplicated), one for each operator in the books."""
    return [
        (index, account.expected, len(account.lost), account.duplicated) for index, account in accounts(world).items()
    ]


def accounts(world: World) -> dict[int, Account]:
    """The account of each operator but the sources, by its index."""
    coming = _coming(world)
    final = {unit: _final_ids(unit) for unit in _owners(world)}
    books = {plan.index: Account() for plan in world.plan.operators if not plan.is_source and plan.reckoned}
    for begin in _begun(world):
        todo = _receivers(world, *begin)
        while todo:
            unit, tuple_id, key = todo.pop()
            if not unit.operator.reckoned:
                continue
            there = tuple_id in final[unit]
            if not there and tuple_id in coming[unit]:
                continue
            operator = unit.operator
            account = books[operator.index]
            account.expected += 1
            if not there:
                account.lost.add((unit.index, tuple_id))
            for child, child_key in _made(unit.operator, tuple_id, key):
                todo += _receivers(world, unit, child, child_key)
    for unit, ids in final.items():
        if unit.operator.index in books:
            books[unit.operator.index].duplicated += ids.total() - len(ids)
    return books


def _made(operator: OperatorPlan, tuple_id: int, key: int) -> list[tuple[int, int]]:
    """What follows from a tuple at once."""
    return operator.outputs(tuple_id, key) if operator.edges and operator.windows is None else []


def _begun(world: World) -> Iterator[tuple[Unit, int, int]]:
    """(unit, id, key) of all that sources and timers emitted."""
    for source in world.sources:
        for sequence in range(source.emitted):
            yield source.unit, source_id(source.code, sequence), source.keys[sequence]
    for unit in world.all_units():
        for number in range(1, unit.time.ticks + 1):
            yield unit, *unit.operator.tick(unit.index, number)


def _receivers(world: World, unit: Unit, tuple_id: int, key: int) -> list[tuple[Unit, int, int]]:
    """(unit, id, key) of all that an output is sent to."""
    return [
        (world.units[edge.down.index][target].owner, edge.id_for(tuple_id, target), key)
        for edge in unit.operator.edges
        for target in edge.targets(tuple_id, key, unit.index)
    ]


def _owners(world: World) -> list[Unit]:
    """Of each group the instance that counts."""
    return [unit.owner for unit in world.all_units()]


def _final_ids(unit: Unit) -> Counter[int]:
    """Ids in the state, or in the checkpoint from which a unit that is down will come back."""
    if unit.live or unit.operator.is_sink:
        return Counter(unit.applied)
    checkpoint = unit.checkpoint
    return Counter(checkpoint.applied[: checkpoint.count] if checkpoint else ())


def _coming(world: World) -> defaultdict[Unit, set[int]]:
    """Ids that are on their way to a unit, or will be sent to it again."""
    coming: defaultdict[Unit, set[int]] = defaultdict(set)
    for visit, task in world.wire.items():
        if task.alive:
            coming[visit.unit].add(visit.row.id)
    for task in world.tasks:
        for item in (*task.front, *task.queue, *task.serving, *task.back, *task.side):
            if isinstance(item, Visit):
                coming[item.unit].add(item.row.id)
        for output in task.outbox.unsent:
            coming[output.receiver].add(output.row.id)
    for unit in _owners(world):
        coming[unit].update(visit.row.id for visit in unit.held)
        if not unit.live:
            _will_be_replayed(world, unit, coming)
    for unit in world.instances():
        if unit.group.owner is not unit and not unit.retired:  # what a group has on its way to its next place
            coming[unit.group.owner].update(coming[unit], (visit.row.id for visit in unit.held))
            coming[unit.group.owner].update(unit.applied if unit.live or unit.operator.is_sink else ())
    return coming


def _will_be_replayed(world: World, unit: Unit, coming: defaultdict[Unit, set[int]]) -> None:
    """What a unit that is down will be sent once more, and what it will send once more itself."""
    if not world.plan.replays:
        return
    for sender in unit.senders:
        coming[unit].update(row.id for row in sender.kept.get(unit, ()))
    kept = unit.kept.items() if unit.operator.is_source else unit.checkpoint.kept if unit.checkpoint else ()
    for receiver, rows in kept:
        heir = receiver.group.owner if receiver.retired else receiver
        coming[heir].update(row.id for row in rows)
    for number in range(unit.checkpoint.time.ticks if unit.checkpoint else 0, unit.time.ticks):
        for receiver, tuple_id, _ in _receivers(world, unit, *unit.operator.tick(unit.index, number + 1)):
            coming[receiver].add(tuple_id)
