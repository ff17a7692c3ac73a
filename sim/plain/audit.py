"""The audit at the end of a run: was every tuple that the sources emitted applied and delivered once?

The expected inputs of every partition follow from the sources' tuples by the same pure functions that the run uses
(ids, selectivity, routing). Tuples in flight (queued, held, in service, on a wire to a live task) or awaiting replay,
and everything derived from them, count neither as expected nor as lost. Where the job goes back to one checkpoint of
all, and something is down, that is all that sources and timers have emitted since then, and its in-flight data. Of a
root that an acker knows to be done, everything was processed: what is derived from a tuple that comes once more is
expected all the same. Operators downstream of a window are not audited: their inputs depend on watermarks as well. A
timer is a source: its outputs are known by their numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sim.draws import source_id
from sim.operator_plan import OperatorPlan
from sim.plain.acker import Acker
from sim.plain.channels import PlaneState
from sim.plain.partition import Checkpoint, Partition, Visit
from sim.plain.views import TrimmingView


@dataclass
class Account:
    """The account of one operator; a tuple is (index of the partition, tuple id)."""

    expected: int = 0
    lost: set[tuple[int, int]] = field(default_factory=set)
    duplicated: int = 0


def ledger(plane: PlaneState) -> list[tuple[int, int, int, int]]:
    """Return rows (operator, expected, lost, duplicated), one for each operator that is audited."""
    return [
        (index, account.expected, len(account.lost), account.duplicated) for index, account in accounts(plane).items()
    ]


def accounts(plane: PlaneState) -> dict[int, Account]:
    """Return the account of each operator but the sources, by its index."""
    coming = _coming(plane)
    saved = _saved(plane)
    applied = {partition: _final_ids(partition, saved, plane.trimming) for partition in _owners(plane)}
    final = {partition: set(ids) for partition, ids in applied.items()}
    found = {plan.index: Account() for plan in plane.plan.operators if not plan.is_source and plan.reckoned}
    unfinished, since_checkpoint = _unfinished(plane), _since_checkpoint(plane)
    for begin in _begun(plane):
        sent, sender = _receivers(plane, *begin), begin[0].operator.index
        comes_again = begin[:2] in unfinished or any(one[:2] in since_checkpoint for one in sent)
        done = isinstance(plane.acker, Acker) and begin[0].operator.is_source and not comes_again
        todo = [(*one, sender, comes_again) for one in sent]
        while todo:
            partition, tuple_id, key, sender, again = todo.pop()
            if not partition.operator.reckoned:
                continue
            there = tuple_id in final[partition]
            # It may come back itself, as in-flight data of a partition that is live.
            again = again or (partition, tuple_id) in since_checkpoint
            in_flight = not there and (again or tuple_id in coming[partition])
            # Not expected yet, and neither are its descendants: the walk ends here.
            if in_flight and not done:
                continue
            if not in_flight:
                account = found[partition.operator.index]
                account.expected += 1
                # A lost tuple is walked on from all the same: the outputs that it would have had are lost, too.
                if not there:
                    account.lost.add((partition.index, tuple_id))
            for child, child_key in _made(partition.operator, tuple_id, key, sender):
                if child in partition.post_dated:
                    continue  # its time has not come, or it waits for its partition
                received = _receivers(plane, partition, child, child_key)
                todo += [(*one, partition.operator.index, again) for one in received]
    for partition, ids in applied.items():
        if partition.operator.index in found:
            found[partition.operator.index].duplicated += len(ids) - len(final[partition])
    return found


def _made(operator: OperatorPlan, tuple_id: int, key: int, upstream: int) -> list[tuple[int, int]]:
    """Return (id, key) of the outputs that follow directly from a tuple of the upstream operator."""
    return operator.outputs(tuple_id, key, upstream) if operator.edges and operator.windows is None else []


def _begun(plane: PlaneState) -> Iterator[tuple[Partition, int, int]]:
    """Yield (partition, id, key) of all that sources and timers emitted."""
    for source in plane.sources:
        for sequence in source.emitted_numbers():
            yield source.partition, source_id(source.code, sequence), source.keys[sequence]
    for partition in plane.all_partitions():
        for number in range(1, partition.time.ticks + 1):
            yield partition, *partition.operator.tick(partition.index, number)


def _unfinished(plane: PlaneState) -> set[tuple[Partition, int]]:
    """Return (partition, id) of the roots that are not done: what of them is not there will come again."""
    if not isinstance(plane.acker, Acker):
        return set()
    pending = plane.acker.pending
    return {
        (source.partition, source_id(source.code, sequence))
        for source in plane.sources
        for sequence in (*pending.get(source.partition, ()), *source.again)
    }


def _since_checkpoint(plane: PlaneState) -> set[tuple[Partition, int]]:
    """Return (receiver, id) of what comes again if the job goes back, and it will: a part is down.

    Sources and timers send it, or it is in-flight data, or was post-dated at the checkpoint. In between nobody keeps
    outputs. What a live operator has sent to the dead is made anew once all have gone back.
    """
    rules = plane.plan.scenario.fault_tolerance
    if rules.job_checkpoints is None or all(one.live or one.taken for one in _owners(plane)):
        return set()
    found = {
        (receiver, row.id)
        for source in plane.sources
        for receiver, rows in source.partition.kept.items()
        for row in rows
    }
    for partition in _owners(plane):
        found.update((partition, one.row.id) for one in partition.in_flight)
        for output in partition.checkpoint.post_dated if partition.checkpoint else ():
            found.update(one[:2] for one in _receivers(plane, partition, output.tuple_id, output.key))
    for partition in plane.all_partitions():
        for number in range(partition.ticks_let_go, partition.time.ticks):
            tick = partition.operator.tick(partition.index, number + 1)
            found.update(one[:2] for one in _receivers(plane, partition, *tick))
    return found


def _receivers(plane: PlaneState, partition: Partition, tuple_id: int, key: int) -> list[tuple[Partition, int, int]]:
    """Return (partition, id, key) of all that an output is sent to."""
    return [
        (plane.partitions[edge.down.index][target].owner, edge.id_for(tuple_id, target), key)
        for edge in partition.operator.edges
        for target in edge.targets(tuple_id, key, partition.index)
    ]


def _owners(plane: PlaneState) -> list[Partition]:
    """Return the instance that owns each group."""
    return [partition.owner for partition in plane.all_partitions()]


def _saved(plane: PlaneState) -> dict[Partition, Checkpoint]:
    """Return the newest state of each partition in a parcel."""
    found: dict[Partition, Checkpoint] = {}
    for parcel in plane.parcels.values():
        for partition, state in parcel.states:
            if partition not in found or _age(found[partition]) < _age(state):
                found[partition] = state
    return found


def _age(state: Checkpoint) -> tuple[int, int]:
    return state.incarnation, state.count


def _final_ids(
    partition: Partition, saved: Mapping[Partition, Checkpoint], trimming: TrimmingView | None
) -> Sequence[int]:
    """Return the ids in the state, or in the newest one from which a partition that is down can come back."""
    if partition.live or partition.taken or partition.operator.is_sink:
        return partition.applied
    restored = trimming.state_to_restore(partition) if trimming else partition.checkpoint
    states = [state for state in (restored, saved.get(partition)) if state]
    newest = max(states, key=_age, default=None)
    return newest.applied[: newest.count] if newest else ()


def _coming(plane: PlaneState) -> defaultdict[Partition, set[int]]:
    """Return, by partition, the ids that are on their way to it or will be sent to it again."""
    coming: defaultdict[Partition, set[int]] = defaultdict(set)
    for visit, task in plane.wire.items():
        if task.alive:
            coming[visit.partition].add(visit.row.id)
    for task in plane.tasks:
        for item in (*task.front, *task.queue, *task.serving, *task.back, *task.side):
            if isinstance(item, Visit):
                coming[item.partition].add(item.row.id)
        for output in task.outbox.unsent:
            coming[output.receiver].add(output.row.id)
    for partition in _owners(plane):
        coming[partition].update(visit.row.id for visit in partition.held)
        if not (partition.live or partition.taken):
            _will_be_replayed(plane, partition, coming)
    _in_parcels(plane, coming)
    for partition in plane.instances():
        if partition.group.owner is not partition and not partition.retired:  # under way to its next place
            coming[partition.group.owner].update(coming[partition], (visit.row.id for visit in partition.held))
            coming[partition.group.owner].update(
                partition.applied if partition.live or partition.operator.is_sink else ()
            )
    return coming


def _in_parcels(plane: PlaneState, coming: defaultdict[Partition, set[int]]) -> None:
    """Add the tuples in parcels."""
    for parcel in plane.parcels.values():
        for one in parcel.tuples:
            coming[one.partition.group.owner].add(one.row.id)


def _will_be_replayed(plane: PlaneState, partition: Partition, coming: defaultdict[Partition, set[int]]) -> None:
    """Add the tuples that a partition that is down will be sent again, and those that it will send again."""
    if not plane.plan.replays:
        return
    coming[partition].update(one.row.id for one in partition.in_flight)
    for sender in partition.senders:
        coming[partition].update(row.id for row in sender.kept.get(partition, ()))
    kept = (
        partition.kept.items()
        if partition.operator.is_source
        else partition.checkpoint.kept
        if partition.checkpoint
        else ()
    )
    for receiver, rows in kept:
        successor = receiver.group.owner if receiver.retired else receiver
        coming[successor].update(row.id for row in rows)
    for number in range(partition.ticks_let_go, partition.time.ticks):
        for receiver, tuple_id, _ in _receivers(
            plane, partition, *partition.operator.tick(partition.index, number + 1)
        ):
            coming[receiver].add(tuple_id)
