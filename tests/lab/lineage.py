"""Lineage of the tuples of a job, from the functions of ids and keys alone: the expected inputs of each partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import NamedTuple

from lab.job import Job
from sim.draws import source_id
from sim.plain.audit import _made, _receivers
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane

Path = tuple[int, ...]
Sent = tuple[int, int]  # (receiving planned partition, id)


@dataclass(frozen=True)
class Lineage:
    """The tuples that every partition receives, and what each of them makes."""

    made: dict[tuple[int, int], list[Sent]]  # (planned partition, input id) -> what is made of it, alone or in a pair
    from_sources: list[list[list[Sent]]]  # per source task and sequence
    inputs: dict[int, Counter[int]]  # planned partition -> ids that it has to have in the end
    path: dict[tuple[int, int], tuple[Path, int]]  # (partition, id) -> (partitions on its way, sequence)
    joins: frozenset[int]  # planned partitions that make outputs of pairs
    content: dict[tuple[int, int], tuple[int, int]]  # (partition, id) -> (creation time, key)
    of_windows: dict[tuple[int, int, int], list[Sent]]  # (partition, window, key) -> what is made of it

    @cached_property
    def first_of_sources(self) -> list[list[frozenset[Sent]]]:
        """Return what the first 0, 1, ... tuples of each source task are sent as."""
        return [
            [frozenset(chain.from_iterable(rows[:count])) for count in range(len(rows) + 1)]
            for rows in self.from_sources
        ]

    def emitted(self, partition: int, applied: Iterable[int]) -> set[Sent]:
        """Return the outputs of a partition that has applied these ids; of a join, those of pairs that are complete."""
        made = self.made
        rows = [made[partition, tuple_id] for tuple_id in applied]
        if partition in self.joins:
            return {sent for sent, parents in Counter(chain.from_iterable(rows)).items() if parents == 2}
        return set(chain.from_iterable(rows))


class _Input(NamedTuple):
    """A tuple that comes to a partition."""

    id: int
    key: int
    sender: int  # operator
    way: Path | None  # None behind a join or a window, whose outputs are in no order
    sequence: int
    created_ns: int


_KNOWN: dict[Job, Lineage] = {}
_MOST = 1024


def lineage_of(job: Job, plane: PlainPlane) -> Lineage:
    """Return the lineage, which is worked out once for each job."""
    if job not in _KNOWN:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[job] = worked_out(plane)
    return _KNOWN[job]


def worked_out(plane: PlainPlane) -> Lineage:
    partitions = [*plane.all_partitions()]
    joins = frozenset(one.number for one in partitions if one.operator.joins is not None)
    found = Lineage({}, [], {one.number: Counter() for one in partitions}, {}, joins, {}, {})
    coming: defaultdict[int, list[_Input]] = defaultdict(list)

    def send(
        sender: Partition, tuple_id: int, key: int, way: Path | None, sequence: int, created_ns: int
    ) -> list[Sent]:
        sent = _receivers(plane, sender, tuple_id, key)
        for receiver, its_id, its_key in sent:
            one = _Input(its_id, its_key, sender.operator.index, way, sequence, created_ns)
            coming[receiver.group.number].append(one)
        return [(receiver.group.number, its_id) for receiver, its_id, _ in sent]

    for source in plane.sources:
        way = (source.partition.number,)
        rows = [
            send(source.partition, source_id(source.code, sequence), key, way, sequence, source.arrivals_ns[sequence])
            for sequence, key in enumerate(source.keys)
        ]
        found.from_sources.append(rows)
    # By operator, and each operator stands behind those that send to it: all inputs of a partition are known.
    for partition in partitions:
        number, inputs = partition.number, coming[partition.number]
        for one in inputs:
            found.inputs[number][one.id] += 1
            found.made[number, one.id] = []
            found.content[number, one.id] = one.created_ns, one.key
            if one.way is not None:
                found.path[number, one.id] = one.way, one.sequence
        for window, parents, output, key in _outputs(partition, inputs):
            before = parents[0].way if len(parents) == 1 and partition.operator.windows is None else None
            way_on = None if before is None else (*before, number)
            newest_ns = max(parent.created_ns for parent in parents)
            sent = send(partition, output, key, way_on, parents[0].sequence, newest_ns)
            for parent in parents:
                found.made[number, parent.id] += sent
            if window is not None:
                found.of_windows.setdefault((number, window, parents[0].key), []).extend(sent)
    return found


_Made = tuple[int | None, tuple[_Input, ...], int, int]


def _outputs(partition: Partition, inputs: list[_Input]) -> Iterator[_Made]:
    """Yield (window of which it is the result, inputs that it follows from, id, key) of each output."""
    operator = partition.operator
    if operator.windows is not None and operator.joins is None:
        yield from _of_windows(partition, inputs)
        return
    if operator.joins is None:
        for one in inputs:
            for output, key in _made(operator, one.id, one.key, one.sender):
                yield None, (one,), output, key
        return
    first = [one for one in inputs if one.sender == operator.joins]
    second = [one for one in inputs if one.sender != operator.joins]
    windows = operator.windows
    assert windows is not None
    for pair in product(first, second):
        if pair[0].key == pair[1].key and len({windows.last(one.created_ns) for one in pair}) == 1:
            for output, key in operator.pairs(pair[0].id, pair[1].id, pair[0].key):
                yield None, pair, output, key


def _of_windows(partition: Partition, inputs: list[_Input]) -> Iterator[_Made]:
    """Yield the same for windows: an output follows from all tuples of a key in one, once all have come."""
    windows = partition.operator.windows
    assert windows is not None
    having: defaultdict[tuple[int, int], list[_Input]] = defaultdict(list)
    for one in inputs:
        for window in range(windows.first(one.created_ns), windows.last(one.created_ns) + 1):
            having[window, one.key].append(one)
    for (window, key), parents in having.items():
        for output, its_key in partition.operator.results(partition.index, key, window):
            yield window, tuple(parents), output, its_key
