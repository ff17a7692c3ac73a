"""Outputs of later times and open keys of each partition, as they follow from all that has happened to it.

It is said without the rules that it checks. A partition has a history: tuples that it has applied, outputs that began
to wait, outputs that have left. A checkpoint is a length of it; a state that comes back has no more of it than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sim.plain.partition import Checkpoint, Partition, PostDated, Row


class Applied(NamedTuple):
    """Note that a tuple was applied, and makes an output or none."""

    key: int
    makes: bool


class Waits(NamedTuple):
    """Note that an output began to wait."""

    output: int
    key: int


class Leaves(NamedTuple):
    """Note that an output has left."""

    output: int


Event = Applied | Waits | Leaves


class State:
    """Hold what a partition has after a history: keys of outputs that wait, tuples by key, keys that closed."""

    def __init__(self, history: Iterable[Event]) -> None:
        self.waiting: dict[int, int] = {}
        self.tuples, self.closed = Counter[int](), set[int]()
        last: Applied | None = None
        for event in history:
            if last is not None and not isinstance(event, Waits):
                self._count(last)
                last = None
            if isinstance(event, Applied):
                last = event
            elif isinstance(event, Waits):
                self.waiting[event.output] = event.key
            else:
                self._close_if_last(self.waiting.pop(event.output))
        if last is not None:
            self._count(last)

    def _count(self, one: Applied) -> None:
        """Count a tuple, whose outputs wait by now or have left."""
        if one.key in self.waiting.values() or one.key not in self.closed:
            self.tuples[one.key] += 1
        if one.makes:
            self._close_if_last(one.key)

    def _close_if_last(self, key: int) -> None:
        if key not in self.waiting.values():
            self.closed.add(key)
            del self.tuples[key]


class Histories:
    """Begin the histories of these partitions."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._partitions = [one for one in partitions if one.operator.postpone_ns is not None]
        self._of: dict[Partition, list[Event]] = {one: [] for one in self._partitions}
        self._lengths: dict[Checkpoint, int] = {}
        self.restored, self.came_back = 0, 0
        for partition in self._partitions:
            self._watch(partition)

    def _watch(self, partition: Partition) -> None:
        apply, postpone, let_go = partition.apply, partition.postpone, partition.let_go
        content, restore, history = partition.content, partition.restore_post_dated, self._of[partition]

        def applies(row: Row, upstream: int) -> None:
            history.append(Applied(row.key, bool(partition.operator.outputs(row.id, row.key, upstream))))
            apply(row, upstream)

        def postpones(output: PostDated) -> None:
            history.append(Waits(output.tuple_id, output.made_of))
            postpone(output)

        def lets_go(output: PostDated) -> None:
            history.append(Leaves(output.tuple_id))
            let_go(output)

        def saves(host: int, host_life: int, outputs: bool = True) -> Checkpoint:
            made = content(host, host_life, outputs)
            self._lengths[made] = len(history)
            return made

        def restores(checkpoint: Checkpoint | None) -> None:
            del history[self._lengths[checkpoint] if checkpoint else 0 :]
            restore(checkpoint)
            self.restored += 1
            self.came_back += len(partition.post_dated)

        partition.apply, partition.postpone, partition.let_go = applies, postpones, lets_go  # type: ignore[method-assign]
        partition.content, partition.restore_post_dated = saves, restores  # type: ignore[method-assign]

    def faults(self) -> Iterator[str]:
        """Yield what is not as it has to be now, in words; what is down has nothing."""
        for partition, history in self._of.items():
            if not (partition.live or partition.taken):
                continue
            right = State(history)
            if {one.tuple_id: one.made_of for one in partition.post_dated.values()} != right.waiting:
                yield f"other outputs wait at {partition.name} than have to"
            if partition.operator.closes_keys:
                keys = partition.open_keys
                if {key: one.tuples for key, one in keys.keys.items() if one.tuples} != +right.tuples:
                    yield f"other keys hold tuples at {partition.name} than are open"
                if keys.closed != right.closed:
                    yield f"other keys have closed at {partition.name} than should have"
