"""What follows from the tuples of a job, by the functions of ids and keys alone: what each state is to be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lab.job import Job
from sim.draws import source_id
from sim.plain.audit import _made, _receivers
from sim.plain.plane import PlainPlane

Path = tuple[int, ...]


@dataclass(frozen=True)
class Lineage:
    """What follows from the tuples of a job, by the functions of ids and keys alone."""

    made: dict[tuple[int, int], list[tuple[int, int]]]  # (partition, input id) -> (receiver, id)
    from_sources: list[list[tuple[int, int]]]  # per source task and sequence: (receiving planned partition, id)
    inputs: dict[int, Counter[int]]  # planned partition -> ids that it has to have in the end
    path: dict[tuple[int, int], tuple[Path, int]]  # (partition, id) -> (partitions on its way, sequence)


_KNOWN: dict[Job, Lineage] = {}


def lineage_of(job: Job, plane: PlainPlane) -> Lineage:
    """Worked out once for each job."""
    if job not in _KNOWN:
        _KNOWN[job] = _worked_out(plane)
    return _KNOWN[job]


def _worked_out(plane: PlainPlane) -> Lineage:
    made: dict[tuple[int, int], list[tuple[int, int]]] = {}
    inputs: dict[int, Counter[int]] = {partition.number: Counter() for partition in plane.all_partitions()}
    path: dict[tuple[int, int], tuple[Path, int]] = {}
    from_sources = []
    for source in plane.sources:
        rows = []
        for sequence, key in enumerate(source.keys):
            first = _receivers(plane, source.partition, source_id(source.code, sequence), key)
            rows += [(partition.group.number, tuple_id) for partition, tuple_id, _ in first]
            todo = [(partition, tuple_id, key, (source.partition.number,)) for partition, tuple_id, key in first]
            while todo:
                partition, tuple_id, its_key, before = todo.pop()
                number = partition.group.number
                inputs[number][tuple_id] += 1
                path[number, tuple_id] = before, sequence
                after = [
                    (down, child, child_key)
                    for output, output_key in _made(partition.operator, tuple_id, its_key)
                    for down, child, child_key in _receivers(plane, partition, output, output_key)
                ]
                made[number, tuple_id] = [(down.group.number, child) for down, child, _ in after]
                todo += [(down, child, child_key, (*before, number)) for down, child, child_key in after]
        from_sources.append(rows)
    return Lineage(made, from_sources, inputs, path)
