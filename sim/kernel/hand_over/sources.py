"""What sources keep where barriers take checkpoints: all that they have sent since the last complete one.

Nobody else keeps outputs. Those of a source follow from its arrivals, so that the scan need not count or log them. The
event loop gets one node for all that a source keeps for a partition, or two: one for what came before the barrier of a
checkpoint that is under way, which is forgotten when that is complete, and one for the rest, which stays until the
next. Nothing else is asked of them: before anything is sent again a later checkpoint is complete (`barriers`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sim.kernel.event_loop import pools
from sim.kernel.event_loop.channels import sent_to
from sim.kernel.event_loop.codes import FIXED, NEVER, NONE, PER_KEY, PER_TUPLE
from sim.kernel.event_loop.entities import SOURCE_ARRIVAL, VISIT
from sim.kernel.hand_over.kept import with_nodes
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import source_id
from sim.kernel.tools.pointer import State

BEFORE, SINCE = range(2)  # the barrier of the checkpoint that is under way


@kernel
def count_outputs(state: State, source: int, first: int, arrivals: np.ndarray, counts: np.ndarray) -> int:
    """Count the outputs of a source's tuples `first` .. (n,) by receiver (n_partitions,); return how many there are."""
    b = state.sources[source]
    u = state.partitions[b.partition]
    op = state.operators[u.operator]
    n = 0
    for k in range(arrivals.shape[0]):
        tuple_id, key = source_id(b.code, first + k), arrivals[k].key
        for edge in range(op.first_edge, op.first_edge + op.edges):
            copy, target = 0, sent_to(state, edge, tuple_id, key, u.index, 0)
            while target != NONE:
                counts[target] += 1
                n += 1
                copy += 1
                target = sent_to(state, edge, tuple_id, key, u.index, copy)
    return n


class Arrivals(Protocol):
    """What a plane reads of `sim.arrival_stream.ArrivalStream`."""

    @property
    def block(self) -> int:
        """Return the largest number of arrivals in a block."""

    def fill(self, arrivals: np.ndarray) -> int:
        """Write the next arrivals, and return how many."""


class Remembered:
    """The arrivals at a source, of which those are remembered that come while the scan has the run."""

    def __init__(self, stream: Arrivals) -> None:
        self._stream, self._first = stream, 0
        self._blocks: list[np.ndarray] | None = None

    @property
    def block(self) -> int:
        """Return the largest number of arrivals in a block."""
        return self._stream.block

    def fill(self, arrivals: np.ndarray) -> int:
        """Write the next arrivals, and return how many."""
        n = self._stream.fill(arrivals)
        if n and self._blocks is not None:
            self._blocks.append(arrivals[:n].copy())
        return n

    def begin(self, first: int, arrivals: np.ndarray) -> None:
        """Remember these arrivals (n,), which begin with number `first`, and all that are written from now on."""
        self._first, self._blocks = first, [arrivals.copy()]

    def end(self) -> None:
        """Remember none any more."""
        self._blocks = None

    def take(self, first: int, end: int) -> np.ndarray:
        """Return those from number `first` to before `end`, and forget all blocks before that."""
        found, begin, left = [np.zeros(0, SOURCE_ARRIVAL)], self._first, list[np.ndarray]()
        for block in self._blocks or ():
            found.append(block[max(0, first - begin) : max(0, end - begin)])
            begin += block.size
            if begin > end or left:
                left.append(block)
            else:
                self._first = begin
        self._blocks = left
        return np.concatenate(found)


class Kept:
    """How many outputs each source keeps for each partition, before and since a barrier: (2, n_sources, n_partitions).

    While the event loop has the run its nodes say so, of which some stand for many.
    """

    def __init__(self, loop: State, streams: list[Remembered]) -> None:
        self._loop, self._streams = loop, streams
        self.under_way = False  # a checkpoint
        self._counts = np.zeros((2, len(streams), loop.partitions.shape[0]), np.int64)
        self._totals = np.zeros(len(streams), np.int64)
        self._upto = [0] * len(streams)
        self._cuts = np.zeros(0, np.int64)  # by pair: nodes before the barrier
        self._stand_for = np.zeros((0, 2), np.int64)  # by pair: outputs of its first two nodes
        self._saved = np.zeros(loop.partitions.shape[0], np.int64)  # by partition: applied at the last snapshot
        self._counted = _counted(loop)
        self._remember()

    # -- while the event loop has the run

    def barrier_at(self, task: int) -> None:
        """Note that a source at the task sends barriers."""
        loop = self._loop
        pairs = loop.pairs[: int(loop.tables["pairs"])]
        self._cuts = np.concatenate([self._cuts, np.zeros(pairs.size - self._cuts.size, np.int64)])
        own = loop.partitions["task"][pairs["sender"]] == task
        self._cuts[own] = pairs["end_seq"][own]

    def snapshot_of(self, partitions: np.ndarray) -> None:
        """Note that snapshots of these partitions (n,) are taken."""
        self._saved[partitions] = self._loop.partitions["applied"][partitions]

    def ends(self, completed: bool) -> None:
        """Note that the checkpoint which was under way has ended; if it is not complete nothing is forgotten."""
        self.under_way = False
        if not completed:
            self._cuts[:] = 0

    def beyond_nodes(self) -> np.ndarray:
        """Return how many more outputs than nodes each partition keeps (n_partitions,)."""
        loop = self._loop
        made = np.zeros(loop.partitions.shape[0], np.int64)
        pairs = loop.pairs[: self._stand_for.shape[0]]
        np.add.at(made, pairs["sender"], _beyond(pairs, self._stand_for, pairs["live_seq"], pairs["end_seq"]))
        return made

    # -- hand-overs

    def read(self) -> None:
        """Count what the nodes of the event loop stand for: the scan takes the run over."""
        loop = self._loop
        pairs = loop.pairs[: int(loop.tables["pairs"])]
        cuts, stand_for = np.zeros(pairs.size, np.int64), np.zeros((pairs.size, 2), np.int64)
        cuts[: self._cuts.size], stand_for[: self._stand_for.shape[0]] = self._cuts, self._stand_for
        first, end = pairs["live_seq"], pairs["end_seq"]
        cut = np.clip(cuts, first, end) if self.under_way else first
        live = pairs["live"] != NONE
        number = np.full(loop.partitions.shape[0], NONE)
        number[loop.sources["partition"]] = np.arange(len(self._streams))
        where = number[pairs["sender"]][live], pairs["receiver"][live]
        self._counts[:] = 0
        for part, begin, until in ((BEFORE, first, cut), (SINCE, cut, end)):
            self._counts[part][where] = (until - begin + _beyond(pairs, stand_for, begin, until))[live]
        self._totals = self._counts.sum(axis=(0, 2))
        self._upto = loop.sources["emitted"].tolist()
        self._remember()

    def _remember(self) -> None:
        """Remember what sources emit from now on."""
        for stream, b in zip(self._streams, self._loop.sources, strict=True):
            begin, emitted = int(b["offset"]) - int(b["base"]), int(b["emitted"])
            stream.begin(emitted, self._loop.arrivals[begin + emitted : begin + int(b["have"])])

    def totals(self, emitted: np.ndarray) -> np.ndarray:
        """Return how many outputs each source keeps (n_sources,) where it has emitted so many tuples."""
        for source, end in enumerate(emitted.tolist()):
            if end > self._upto[source]:
                arrivals = self._streams[source].take(self._upto[source], end)
                counts = self._counts[SINCE][source]
                self._totals[source] += count_outputs(self._loop, source, self._upto[source], arrivals, counts)
                self._upto[source] = end
        return self._totals

    def write(self, emitted: np.ndarray) -> None:
        """Make the nodes of the event loop, which takes the run over."""
        loop = self._loop
        self.totals(emitted)
        for stream in self._streams:
            stream.end()
        counts = self._counts if self.under_way else self._counts.sum(axis=0, keepdims=True)
        sources, receivers = np.nonzero(counts.sum(axis=0))
        parts = counts[:, sources, receivers].T  # (n_pairs, 1 or 2)
        pair, part = np.nonzero(parts)
        u = loop.partitions
        # Of what came since the barrier the snapshot that is under way has nothing, and the one before neither.
        applied = np.where(part > 0, self._saved[receivers[pair]], u["stored_count"][receivers[pair]])
        if self.under_way and parts.size:
            assert (self._saved[receivers] >= u["stored_count"][receivers]).all(), "a snapshot is older than another"
        behind = np.zeros(u.shape[0], np.int64)
        np.maximum.at(behind, receivers[pair], applied + 1)
        # Where the scan does not count what it applies, it has applied something all the same.
        more = np.flatnonzero((u["applied"] < behind) & ~self._counted[u["operator"]])
        u["applied"][more] = u["base"][more] = behind[more]
        entries = np.zeros(pair.size, [("sender", "i8"), ("receiver", "i8"), ("n", "i8"), ("visit", "i8")])
        entries["sender"], entries["receiver"] = loop.sources["partition"][sources[pair]], receivers[pair]
        entries["n"], entries["visit"] = applied, NONE
        order = np.lexsort((part, entries["receiver"], entries["sender"]))
        with_nodes(loop, np.zeros(0, VISIT), entries[order])
        u["kept_rows"] = np.bincount(entries["sender"], minlength=u.shape[0])
        self._number(entries[order], part[order], parts[pair, part][order])

    def _number(self, entries: np.ndarray, part: np.ndarray, sizes: np.ndarray) -> None:
        """Note what the nodes of each pair stand for, and which come before the barrier."""
        used = int(self._loop.tables["pairs"])
        new = np.ones(entries.size, np.bool_)
        new[1:] = (np.diff(entries["sender"]) != 0) | (np.diff(entries["receiver"]) != 0)
        pair, place = np.cumsum(new) - 1, np.where(new, 0, 1)
        self._stand_for = np.ones((used, 2), np.int64)
        self._stand_for[pair, place] = sizes
        self._cuts = np.zeros(used, np.int64)
        if self.under_way:
            self._cuts[pair[part == BEFORE]] = 1
        self._loop.pairs["mark"][:used] = self._cuts  # where barriers overtake sources forget up to there


def _beyond(pairs: np.ndarray, stand_for: np.ndarray, first: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how many more outputs than nodes there are among those with these numbers, by pair (n_pairs,)."""
    made = np.zeros(pairs.size, np.int64)
    for k in range(stand_for.shape[1]):
        there = (pairs["live"] != NONE) & (first <= k) & (k < end)
        made += np.where(there, np.maximum(0, stand_for[:, k] - 1), 0)
    return made


def _counted(loop: State) -> np.ndarray:
    """Return of which operators the scan counts what each partition has applied (n_operators,)."""
    model, change = loop.operators["state_model"], loop.operators["state_change"]
    return np.isin(model, (PER_KEY, PER_TUPLE)) | ((model == FIXED) & (change >= 0.0))


def stores(events: np.ndarray, kinds: tuple[int, ...]) -> np.ndarray:
    """Return the events of snapshots on their way to the store, in a heap (n,)."""
    found = events[np.isin(events["kind"], kinds)]
    return found[np.lexsort((found["seq"], found["rank"], found["time"]))]


def leave_alone(loop: State, events: np.ndarray) -> None:
    """Leave nothing to the event loop but these events (n,), which are in order."""
    empty = pools.empty()
    loop.heap = pools.longer(empty["heap"], 2 * events.size + 2)
    loop.heap[: events.size] = events
    for name in ("near", "far"):
        setattr(loop, name, empty[name])
    for name in ("near_first", "near_count", "far_first", "far_count"):
        loop.queue[name] = 0
    loop.queue["in_heap"], loop.queue["vacant"] = events.size, NONE
    loop.tournament[:] = NEVER
