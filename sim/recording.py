"""Two ways of recording tuples: every row, or histograms and exact sums of them.

The engine hands over blocks of rows of 64-bit integers, in any order and of any size: visits (n, 5) operator, task,
arrival_ns, start_ns, end_ns (NEVER if the service had not ended at the end of the run), and deliveries (n, 3)
operator, created_ns, delivered_ns. A block is not kept: the engine may use its memory again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from models.records.histogram import BINS
from models.records.tables import HISTOGRAM_TABLES, NEVER, TABLES, bucket_ns, table
from models.scenario.events import Detail
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.estimate import detail_and_steps
from models.units import to_ns
from sim.kernel.tools import histograms
from sim.kernel.tools.histograms import PAGE, PAGES

Tables = dict[str, Mapping[str, np.ndarray]]

_FIRST_PAGES = 2**11  # the scan asks for one for each delivery of a span, nearly all of which find theirs
_PAGES_EACH = 10  # of a sink in an interval, at the most in nearly all runs
_MOST_PAGES_AHEAD = 2**13
_FIRST_ROWS = 2**12
_MOST_ROWS_AHEAD = 2**24  # memory that is not written yet is not taken yet, but of it may be too much to ask for
_NOTHING = 2**63 - 1  # the least of no values
_MOST_ADDED = 2**24  # rows between two carries; 2^31 would do
_LOW_BITS = 0xFFFFFFFF
_VISIT, _DELIVERY = len(TABLES["visits"]), len(TABLES["deliveries"])


class Recording(Protocol):
    """The recording as the engine sees it."""

    @property
    def detail(self) -> Detail:
        """Return the level of detail, which is noted in the records."""

    def check_end(self, until_ns: int) -> None:
        """Raise ValueError if there is no room for the events up to an instant."""

    def add_visits(self, block: np.ndarray) -> None:
        """Add services that began, each once; raise ValueError for a row that cannot be."""

    def add_deliveries(self, block: np.ndarray) -> None:
        """Add tuples that a sink accepted; raise ValueError for a row that cannot be."""

    def visits(self) -> int:
        """Return how many services have been added."""

    def tables(self) -> Tables:
        """Return the tables visits and deliveries, and those of HISTOGRAM_TABLES where histograms are kept."""


def recording_of(scenario: Scenario, inputs: RunInputs) -> TupleRecording | HistogramRecording:
    """Return an empty recording of one replication, of the kind that the scenario asks for."""
    detail, steps = detail_and_steps(scenario, inputs)
    if detail == "tuples":
        return TupleRecording(int(min(1.05 * steps, _MOST_ROWS_AHEAD)))
    return HistogramRecording(
        len(scenario.operators),
        [index for index, operator in enumerate(scenario.operators.values()) if operator.kind == "sink"],
        to_ns(scenario.warmup_s),
        max(1, to_ns(scenario.duration_s)),
    )


class TupleRecording:
    """Every row, in the order in which they came; room for more than `expected` of them is made when they come."""

    detail: Detail = "tuples"

    def __init__(self, expected: int = 0) -> None:
        self._visits, self._deliveries = _Columns("visits", expected), _Columns("deliveries", expected)

    def check_end(self, until_ns: int) -> None:
        """Do nothing: rows may be of any instant."""

    def add_visits(self, block: np.ndarray) -> None:
        """Keep a copy of the block."""
        self._visits.add(_rows(block, _VISIT))

    def add_deliveries(self, block: np.ndarray) -> None:
        """Keep a copy of the block."""
        self._deliveries.add(_rows(block, _DELIVERY))

    def shared(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the columns of both tables, to write rows in place; `make_room` replaces them."""
        return self._visits.arrays, self._deliveries.arrays

    def make_room(self, rows: int) -> None:
        """Make room for this many more rows."""
        self._visits.make_room(rows)
        self._deliveries.make_room(rows)

    def take(self, visits: int, deliveries: int) -> None:
        """Note that this many rows have been written into the columns, in all."""
        self._visits.count, self._deliveries.count = visits, deliveries

    def visits(self) -> int:
        """Return how many services have been added."""
        return self._visits.count

    def tables(self) -> Tables:
        """Return the tables visits and deliveries."""
        return {"visits": self._visits.table(), "deliveries": self._deliveries.table()}


class _Columns:
    """The columns of a table that grows by blocks of rows."""

    def __init__(self, name: str, expected: int) -> None:
        self._name, self.count = name, 0
        self._split = histograms.split_visits if name == "visits" else histograms.split_deliveries
        self.arrays = [np.empty(_FIRST_ROWS + expected, column.dtype) for column in TABLES[name]]

    def add(self, rows: np.ndarray) -> None:
        """Append rows (n, columns)."""
        self.make_room(len(rows))
        self._split(rows, self.count, tuple(self.arrays))
        self.count += len(rows)

    def make_room(self, rows: int) -> None:
        """Make room for this many more rows."""
        room = self.arrays[0].size
        if self.count + rows > room:
            self.arrays = [_longer(array, self.count, max(4 * room, self.count + rows)) for array in self.arrays]

    def table(self) -> dict[str, np.ndarray]:
        """Return the rows so far."""
        # Views of the rows that are there: the room behind them is not copied.
        columns = zip(TABLES[self._name], self.arrays, strict=True)
        return table(self._name, {column.name: array[: self.count] for column, array in columns})


class HistogramRecording:
    """Histograms, exact counts, sums and extremes, as `models.records.tables.HISTOGRAM_TABLES` has them, in memory that
    does not grow with the number of tuples.

    `operators`: how many there are; `sinks`: which of them deliver.
    """

    detail: Detail = "histograms"

    def __init__(self, operators: int, sinks: Collection[int], warmup_ns: int, duration_ns: int) -> None:
        length = bucket_ns(duration_ns)
        intervals = max(1, -(-duration_ns // length))
        self._window = (warmup_ns, duration_ns, length)
        self._sums = np.zeros((operators, histograms.SUMS), np.int64)
        self._extremes = np.tile(np.array([_NOTHING, NEVER], np.int64), (operators, 2))
        self._waits = np.zeros((operators, BINS), np.int64)
        self._sojourns = np.zeros((operators, BINS), np.int64)
        self._ended = np.zeros((operators, intervals), np.int64)
        self._sinks = np.array(sorted(sinks), np.int64)
        self._sink_of = np.full(operators, -1, np.int64)
        self._sink_of[self._sinks] = np.arange(self._sinks.size)
        self._latency_sums = np.zeros((self._sinks.size, 2), np.int64)
        self._latency_extremes = np.tile(np.array([_NOTHING, NEVER], np.int64), (self._sinks.size, 1))
        self._latencies = np.zeros((self._sinks.size, BINS), np.int64)
        self._intervals = np.zeros((self._sinks.size, intervals, 4), np.int64)
        self._directory = np.zeros((self._sinks.size, intervals, PAGES), np.int32)
        ahead = _FIRST_PAGES + min(_PAGES_EACH * self._sinks.size * intervals, _MOST_PAGES_AHEAD)
        self._pages = np.zeros((ahead, PAGE), np.int32)  # a run has less than 2^31 tuples (`limits.steps`)
        self._used = np.ones(1, np.int64)  # page 0 means none
        self._added = 0  # rows since the last carry
        self._watches: dict[int, dict[int, None]] = {}  # born -> since, rising, of first outputs that have not come
        self._first_outputs: dict[tuple[int, int], int] = {}
        self._last = np.zeros((0, _DELIVERY), np.int64)  # deliveries of the last instant so far

    def watch(self, born_ns: int, since_ns: int) -> None:
        """Record the first delivery from `since_ns`, which is now, of a tuple that was born at `born_ns` or later.

        All key groups of a job may be restored in one instant: it is watched for once.
        """
        watched = since_ns in self._watches.get(born_ns, {}) or (born_ns, since_ns) in self._first_outputs
        if self._sinks.size and not watched:
            self._watches.setdefault(born_ns, {})[since_ns] = None
            if self._last.size and self._last[0, 2] >= since_ns:
                self._look(self._last)

    @property
    def watches(self) -> bool:
        """Return whether a first output has not come yet."""
        return bool(self._watches)

    def _look(self, rows: np.ndarray) -> None:
        """Look for the first outputs among deliveries (n, 3), in the order of time."""
        for born_ns, waiting in [*self._watches.items()]:
            delivered = rows[rows[:, 1] >= born_ns, 2]
            if not delivered.size:
                continue
            since = np.array([*waiting])
            for since_ns, first in zip(waiting, np.searchsorted(delivered, since).tolist(), strict=True):
                if first < delivered.size:
                    self._first_outputs[born_ns, since_ns] = int(delivered[first])
            left = {one: None for one in waiting if (born_ns, one) not in self._first_outputs}
            if left:
                self._watches[born_ns] = left
            else:
                del self._watches[born_ns]

    def check_end(self, until_ns: int) -> None:
        """Raise ValueError for an instant behind the run: there are no intervals, and kernels do not check each."""
        if until_ns > self._window[1]:
            raise ValueError(f"histograms are of a run of {self._window[1]} ns, which cannot go on to {until_ns}")

    def add_visits(self, block: np.ndarray) -> None:
        """Add the rows to the sums and histograms of their operators."""
        rows = _rows(block, _VISIT)
        wrong = histograms.bin_visits(
            rows, self._window, self._sums, self._extremes, self._waits, self._sojourns, self._ended
        )
        if wrong >= 0:
            raise ValueError(f"a visit cannot be {rows[wrong].tolist()}: operator, task, arrival, start, end [ns]")
        self._count(len(rows))

    def add_passed(self, counts: np.ndarray) -> None:
        """Add visits that took no time (operators, intervals, 2), those of the warm-up first."""
        before, after = counts[:, :, 0].sum(axis=1), counts[:, :, 1].sum(axis=1)
        self._sums[:, histograms.OTHERS] += before
        self._waits[:, 0] += after
        self._sojourns[:, 0] += after
        self._ended += counts.sum(axis=2)
        some = after > 0
        self._extremes[some, ::2] = np.minimum(self._extremes[some, ::2], 0)
        self._extremes[some, 1::2] = np.maximum(self._extremes[some, 1::2], 0)

    def add_deliveries(self, block: np.ndarray) -> None:
        """Add the rows to the sums and histograms of their sinks."""
        rows = _rows(block, _DELIVERY)
        # The kernel stops where it needs another page, and goes on from there: it cannot allocate one.
        done = 0
        while done < len(rows):
            done, wrong = histograms.bin_deliveries(
                rows,
                done,
                self._window,
                self._sink_of,
                self._latency_sums,
                self._latency_extremes,
                self._latencies,
                self._intervals,
                self._directory,
                self._pages,
                self._used,
            )
            if wrong:
                raise ValueError(f"a delivery cannot be {rows[done].tolist()}: operator, created, delivered [ns]")
            self.make_room(1)
        self._count(len(rows))
        if len(rows):
            # Control comes before tuples in most instants, but not in all.
            last = rows[rows[:, 2] == rows[-1, 2]]
            same = self._last.size and self._last[0, 2] == last[0, 2]
            self._last = np.concatenate([self._last, last]) if same else last
            self._look(rows)

    def _count(self, rows: int) -> None:
        """Count rows that have been added; carry the upper bits of a sum before its low part can overflow."""
        self._added += rows
        if self._added >= _MOST_ADDED:
            self._carry_all()

    def _carry_all(self) -> None:
        _carry(self._sums[:, histograms.WAIT :])
        _carry(self._latency_sums)
        self._added = 0

    def make_room(self, pages: int) -> None:
        """Make room for this many pages of histograms."""
        if len(self._pages) - self._used[0] < pages:
            # New zeros take no memory before they are written.
            more = np.zeros((2 * len(self._pages) + pages, PAGE), self._pages.dtype)
            more[: len(self._pages)] = self._pages
            self._pages = more

    def shared(self) -> dict[str, np.ndarray]:
        """Return all arrays, flat, to add to them in place; `make_room` replaces `pages`."""
        return {
            "sums": self._sums.reshape(-1),
            "extremes": self._extremes.reshape(-1),
            "waits": self._waits.reshape(-1),
            "sojourns": self._sojourns.reshape(-1),
            "ended": self._ended.reshape(-1),
            "sink_of": self._sink_of,
            "latency_sums": self._latency_sums.reshape(-1),
            "latency_extremes": self._latency_extremes.reshape(-1),
            "latencies": self._latencies.reshape(-1),
            "intervals": self._intervals.reshape(-1),
            "directory": self._directory.reshape(-1),
            "pages": self._pages.reshape(-1),
            "used": self._used,
        }

    @property
    def window(self) -> tuple[int, int, int]:
        """Return warm-up, duration and length of an interval [ns]."""
        return self._window

    def visits(self) -> int:
        """Return how many services have been added: all but those that have not ended."""
        return int(self._ended.sum())

    def tables(self) -> Tables:
        """Return empty tables visits and deliveries, `first_outputs`, and all of HISTOGRAM_TABLES.

        Rows are sorted by their first columns.
        """
        self._carry_all()
        made: dict[str, Any] = {
            "times": self._times(),
            "time_bins": self._time_bins(),
            "ended": self._ended_rows(),
            "delivered": self._delivered(),
            "delivered_bins": self._delivered_bins(),
        }
        assert made.keys() == HISTOGRAM_TABLES.keys()
        made["first_outputs"] = [(*watched, at) for watched, at in sorted(self._first_outputs.items())]
        return {name: table(name, made.get(name, [])) for name in ("visits", "deliveries", *made)}

    def _times(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for index, sums in enumerate(self._sums.tolist()):

            def pair(column: int, sums: list[int] = sums) -> tuple[int, int]:
                return sums[column], sums[column + 1]

            least = [NEVER if value == _NOTHING else value for value in self._extremes[index].tolist()]
            waits = int(self._waits[index].sum())
            visits = waits + sums[histograms.OTHERS]
            rows.append((index, "wait", waits, *pair(histograms.WAIT), *least[:2]))
            rows.append((index, "sojourn", int(self._sojourns[index].sum()), *pair(histograms.SOJOURN), *least[2:]))
            rows.append((index, "waiting", visits, *pair(histograms.WAITING), NEVER, NEVER))
            rows.append((index, "busy", visits, *pair(histograms.BUSY), NEVER, NEVER))
            sink = int(self._sink_of[index])
            if sink >= 0:
                high, low = self._latency_sums[sink].tolist()
                ends = [NEVER if value == _NOTHING else value for value in self._latency_extremes[sink].tolist()]
                rows.append((index, "latency", int(self._latencies[sink].sum()), high, low, *ends))
        return rows

    def _time_bins(self) -> dict[str, object]:
        parts = []
        for operator in range(len(self._waits)):
            sink = int(self._sink_of[operator])
            latencies = [("latency", self._latencies[sink])] if sink >= 0 else []
            for what, counts in [("wait", self._waits[operator]), ("sojourn", self._sojourns[operator]), *latencies]:
                in_bin = np.flatnonzero(counts)
                name = np.full(in_bin.size, what, dtype="<U7")
                parts.append((np.full(in_bin.size, operator), name, in_bin, counts[in_bin]))
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return dict(zip(("operator", "what", "bin", "count"), columns, strict=True))

    def _ended_rows(self) -> dict[str, object]:
        interval, operator = np.nonzero(self._ended.T)
        return {
            "at_ns": interval * self._window[2],
            "operator": operator,
            "count": self._ended[operator, interval],
        }

    def _delivered(self) -> dict[str, object]:
        interval, sink = np.nonzero(self._intervals[:, :, histograms.COUNT].T)
        cells = self._intervals[sink, interval]
        low = cells[:, histograms.LOW]
        return {
            "at_ns": interval * self._window[2],
            "operator": self._sinks[sink],
            "count": cells[:, histograms.COUNT],
            "sum_high": cells[:, histograms.HIGH] + (low >> 32),
            "sum_low": low & _LOW_BITS,
            "max_ns": cells[:, histograms.GREATEST],
        }

    def _delivered_bins(self) -> dict[str, object]:
        interval, sink, in_bin, count = histograms.cells(self._directory, self._pages[: int(self._used[0])])
        return {"interval": interval, "operator": self._sinks[sink].astype(np.int16), "bin": in_bin, "count": count}


def _rows(block: np.ndarray, columns: int) -> np.ndarray:
    if block.ndim != 2 or block.shape[1] != columns or block.dtype != np.int64:
        raise ValueError(f"a block is int64 (n, {columns}), not {block.dtype} {block.shape}")
    # Kernels are compiled for contiguous rows; a block that is so already is not copied.
    return np.ascontiguousarray(block)


def _longer(array: np.ndarray, count: int, room: int) -> np.ndarray:
    """Return its first entries, with room for more."""
    made = np.empty(room, array.dtype)
    made[:count] = array[:count]
    return made


def _carry(sums: np.ndarray) -> None:
    """Bring the low part of each pair (high, low) below 2^32 again."""
    # A view: both lines below change `sums` itself.
    low = sums[:, 1::2]
    sums[:, ::2] += low >> 32
    low &= _LOW_BITS
