"""An audit by number and sum of the ids that each operator was to apply.

It is all that a run needs in which no host can fail. In another one it tells whether everything was applied once.

Whose key group a tuple belongs to does not matter for them: ids alone are followed, many at a time, from the sources
to the sinks.

Sums of ids are uint64 and wrap around. Ids are well mixed, so two different sets of equal size have equal sums with a
probability of about 2^-64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.kernel.event_loop.codes import BROADCAST, NONE, POST_DATED, TUPLE
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools import draws
from sim.kernel.tools.cache import allocating
from sim.kernel.tools.pointer import State

Ranges = Sequence[tuple[int, int]]  # (first, end), rising

_BLOCK = 2**13  # ids that are followed at a time: they stay in the processor's caches


def by_sum(state: State, read: Mapping[int, Ranges] | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected, lost and duplicated inputs, each (n_operators,); the last two are zeros.

    Raises RuntimeError if what was applied is not what follows from the sources: then the kernel has a fault.
    """
    sums = expected(state, coming(state), read=read)
    applied = Applied(state.operators["applied"], state.operators["sum"])
    if not sums.are(applied, state.operators["reckoned"] != 0):
        raise RuntimeError("the audit failed: tuples were lost or processed twice although no host failed")
    nothing = np.zeros(state.operators.shape[0], np.int64)
    return applied.number.copy(), nothing, nothing


class Coming(NamedTuple):
    """Tuples that are not applied yet: their ids (n,), and the operators (n,) that they are for, and from."""

    ids: np.ndarray
    operators: np.ndarray
    senders: np.ndarray


class Applied(NamedTuple):
    """Number and sum of the ids that were applied, each by operator (n_operators,)."""

    number: np.ndarray
    total: np.ndarray


def expected(
    state: State,
    left: Coming,
    before: Coming | None = None,
    emitted: np.ndarray | None = None,
    ticks: np.ndarray | None = None,
    read: Mapping[int, Ranges] | None = None,
) -> Sums:
    """Return what follows from all that sources and timers have emitted, but for what is `left` to be applied.

    With `before`, `emitted` (n_sources,) and `ticks` (n_partitions,) what follows from tuples that had not been applied
    before an instant, and from what sources and timers have emitted since. `read`: by source, the ranges of numbers
    that were emitted where that is not all up to the last one.
    """
    sums = Sums(state)
    for number, source in enumerate(state.sources):
        operator = int(state.partitions["operator"][source["partition"]])
        begin = 0 if emitted is None else int(emitted[number])
        for one, end in (read or {}).get(number, [(begin, int(source["emitted"]))]):
            for first in range(one, end, _BLOCK):
                sums.send(operator, source_ids(source["code"], first, min(_BLOCK, end - first)), 1)
    for partition in np.flatnonzero(state.partitions["ticks"]).tolist():
        operator, index = int(state.partitions["operator"][partition]), int(state.partitions["index"][partition])
        done = 0 if ticks is None else int(ticks[partition])
        count = int(state.partitions["ticks"][partition]) - done
        sums.send(operator, tick_ids(state.operators["timer_code"][operator], index, done, count), 1)
    if before is not None:
        sums.add(before, 1)
    sums.add(left, -1)
    if state.partitions["post_dated"].any():
        waiting = state.visits[post_dated(state)]
        operators = state.partitions["operator"][waiting["partition"]]
        for operator in np.unique(operators).tolist():
            sums.send(operator, waiting["id"][operators == operator], -1)
    return sums


def post_dated(state: State) -> np.ndarray:
    """Return which visits (n,) are post-dated outputs that wait; those that a crash has taken are still there, too."""
    visits = state.visits
    found = np.flatnonzero(visits["kind"] == POST_DATED)
    return found[visits["start"][found] == state.partitions["losses"][visits["partition"][found]]]


class Sums:
    """Number and sum of ids by operator, and how ids follow from each other."""

    def __init__(self, state: State) -> None:
        self._operators, self._edges, self._draws = state.operators, state.edges, state.draws
        self._input_draws = state.input_draws
        self.count = np.zeros(state.operators.shape[0], np.int64)
        self.total = np.zeros(state.operators.shape[0], np.uint64)

    def add(self, tuples: Coming, sign: int) -> None:
        """Count tuples and all that follows from them, or take them off."""
        for operator in range(self.count.size):
            here = tuples.operators == operator
            for sender in np.unique(tuples.senders[here]).tolist():
                self.apply(operator, tuples.ids[here & (tuples.senders == sender)], sign, sender)

    def are(self, applied: Applied, known: np.ndarray) -> bool:
        """Return whether just these were applied, as far as operators are `known` (n_operators,)."""
        same = np.array_equal(self.count[known], applied.number[known])
        return same and np.array_equal(self.total[known], applied.total[known])

    def apply(self, operator: int, ids: np.ndarray, sign: int, sender: int) -> None:
        """Count tuples of a sender as applied by an operator (sign 1), or not after all (-1), and send its outputs."""
        if not ids.size:
            return
        add_ids(ids, operator, sign, self.count, self.total)
        op = self._operators[operator]
        if op["edges"] and not op["windowed"]:
            records, law = self._draws, operator
            if op["counts"] != NONE:
                records, law = self._input_draws, int(op["counts"]) + sender
            made = np.empty(ids.size * (int(records["whole"][law]) + 1), np.uint64)
            self.send(operator, made[: outputs(records, law, op["code"], ids, made)], sign)

    def send(self, operator: int, ids: np.ndarray, sign: int) -> None:
        """Send the outputs of an operator over each of its edges."""
        for down, sent in self._sent(operator, ids):
            self.apply(down, sent, sign, operator)

    def _sent(self, operator: int, ids: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (operator downstream, ids that it gets) of each edge; a broadcast gives each target ids of its own."""
        first = int(self._operators["first_edge"][operator])
        for edge in self._edges[first : first + int(self._operators["edges"][operator])]:
            taken = ids if edge["takes"] >= 1.0 else ids[taken_by(ids, edge["takes_code"], edge["takes"])]
            if edge["kind"] == BROADCAST:
                for target in range(int(edge["partitions"])):
                    yield int(edge["down"]), copies(taken, edge["copy_code"], target)
            else:
                yield int(edge["down"]), taken


@allocating
def source_ids(code: Any, first: int, many: int) -> np.ndarray:
    """Return the ids of the tuples `first` .. of a source (many,)."""
    made = np.empty(many, np.uint64)
    for k in range(many):
        made[k] = draws.source_id(code, first + k)
    return made


@allocating
def tick_ids(code: Any, index: int, done: int, ticks: int) -> np.ndarray:
    """Return the ids of what a timer emitted at so many instants behind its first `done` (ticks,)."""
    made = np.empty(ticks, np.uint64)
    for k in range(ticks):
        made[k] = window_id(code, index, 0, done + k + 1)
    return made


@allocating
def outputs(records: np.ndarray, number: int, code: Any, ids: np.ndarray, made: np.ndarray) -> int:
    """Write the ids of all that a law makes of tuples into `made`, in any order; return how many there are."""
    law, n = records[number], 0
    if law.rest == 0.0:  # each makes as many: short loops, several tuples at a time
        for index in range(law.whole):
            for k in range(ids.shape[0]):
                made[n + k] = draws.child_id(ids[k], code, index)
            n += ids.shape[0]
        return n
    for k in range(ids.shape[0]):
        for index in range(draws.output_count(law, ids[k])):
            made[n] = draws.child_id(ids[k], code, index)
            n += 1
    return n


@allocating
def taken_by(ids: np.ndarray, code: Any, share: float) -> np.ndarray:
    """Return which tuples an edge takes that reads a share of them (n,)."""
    found = np.empty(ids.shape[0], np.bool_)
    for k in range(ids.shape[0]):
        found[k] = draws.takes(ids[k], code, share)
    return found


@allocating
def copies(ids: np.ndarray, code: Any, target: int) -> np.ndarray:
    """Return the ids of what a broadcast sends to a target (n,)."""
    made = np.empty(ids.shape[0], np.uint64)
    for k in range(ids.shape[0]):
        made[k] = draws.child_id(ids[k], code, target)
    return made


@allocating
def add_ids(ids: np.ndarray, operator: int, sign: int, count: np.ndarray, total: np.ndarray) -> None:
    """Add number and sum of ids to those of an operator, or subtract them."""
    found = np.uint64(0)
    for k in range(ids.shape[0]):
        found += ids[k]
    count[operator] += sign * ids.shape[0]
    total[operator] += found * np.uint64(sign)


def coming(state: State) -> Coming:
    """Return what is on its way, waits or is served.

    No host has failed: what a failure drops on its way keeps its place until it would have come.
    """
    ids, partitions, origins = _tuples(state)
    senders = np.full(origins.size, NONE)
    if (state.operators["counts"] != NONE).any():  # else all senders are alike
        senders = state.tasks["operator"][origins].astype(np.int64)
    return Coming(ids, state.partitions["operator"][partitions].astype(np.int64), senders)


@allocating
def _tuples(state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    waits = np.empty(state.visits.shape[0], np.bool_)
    for visit in range(state.visits.shape[0]):
        waits[visit] = state.visits[visit].kind == TUPLE
    free = np.int64(state.visit_pool.free)
    while free != NONE:
        waits[free] = False
        free = np.int64(state.visits[free].next)
    ids, n = np.empty(waits.shape[0], np.uint64), 0
    partitions, origins = np.empty(waits.shape[0], np.int64), np.empty(waits.shape[0], np.int64)
    for visit in range(state.visits.shape[0]):
        if waits[visit]:
            ids[n] = state.visits[visit].id
            partitions[n] = state.visits[visit].partition
            origins[n] = state.visits[visit].origin
            n += 1
    return ids[:n], partitions[:n], origins[:n]
