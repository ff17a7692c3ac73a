"""Count marked rows, on Spark or, where they are few, in this process; both give the same counts.

`counts_of` chooses between the two. With several copies of a trace (`in_copies`) each row counts once in every copy,
under a key group of that copy.

A marked row has its status, key, key group (with copies the CRC-32 of the key), bin, minutes in the air, whether it is
of each stream, how many rows it stands for, and why it is bad.

The hash of a copy mixes bits by multiplications that wrap, which Spark does not do where an overflow is an error. So
the groups of each CRC-32 are computed here, once for all its rows, and joined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.spark import rows
from analysis.spark.question import MOST_CELLS, Question
from analysis.spark.rows import Step
from models.errors import InputError
from models.scenario.key_groups import salted_groups

_TIMES, _TO = "_hf_times", "_hf_to"


def in_copies(copies: int, groups: int, column: str, by: Sequence[str], counts: Sequence[str]) -> Step:
    """Return a step: `column`, a CRC-32 or null, becomes the key group in each of the copies, and `counts` are summed.

    by: columns that rows are told apart by besides it. A row without a CRC-32 counts once.
    """

    def step(frame: DataFrame) -> DataFrame:
        found = frame.select(column).where(F.col(column).isNotNull()).distinct().toArrow()[column]
        numbered = frame.sparkSession.createDataFrame(_numbered(found.to_numpy(), copies, groups, column))
        # A left join: bad rows have no CRC-32, and must still be counted once.
        spread = frame.join(F.broadcast(numbered), column, "left")
        times = F.coalesce(F.col(_TIMES), F.lit(1))
        return spread.groupBy(*by, F.col(_TO).alias(column)).agg(*[F.sum(F.col(n) * times).alias(n) for n in counts])

    return step


def in_copies_here(counted: pa.Table, copies: int, groups: int, column: str, counts: Sequence[str]) -> pa.Table:
    """Return what the step does to a table in this process, before rows of the same cell are summed."""
    found = pc.unique(counted[column].drop_null())
    numbered = _numbered(found.to_numpy(zero_copy_only=False), copies, groups, column)
    spread = counted.join(numbered, column, join_type="left outer")
    times = pc.fill_null(spread[_TIMES], 1)
    others = {name: spread[name] for name in counted.column_names if name not in (column, *counts)}
    return pa.table({**others, column: spread[_TO], **{n: pc.multiply_checked(spread[n], times) for n in counts}})


def _numbered(crc32: np.ndarray, copies: int, groups: int, column: str) -> pa.Table:
    """Return how often each CRC-32 is in each key group, over all copies; the k-th has salt k."""
    # The table goes to every executor, and is built in this process.
    if len(crc32) * min(copies, groups) > MOST_CELLS:
        rule = f"must be at most {MOST_CELLS // len(crc32)} with {len(crc32)} keys"
        raise InputError.at("ingest.copies", copies, rule)
    # Two copies may give a key the same group: counting pairs keeps one row for both, with its number of times.
    cells = [np.arange(len(crc32)) * groups + salted_groups(crc32, salt, groups) for salt in range(copies)]
    cell, times = np.unique(np.concatenate(cells), return_counts=True)
    return pa.table({column: crc32[cell // groups], _TO: (cell % groups).astype(np.int32), _TIMES: times})


TOP_KEYS = 20
STATUS, KEY, GROUP, BIN, MINUTES, WEIGHT = (
    f"_hf_{name}" for name in ("status", "key", "group", "bin", "minutes", "weight")
)
IN_AIR = ("minutes", "flights")
BAD, UNWANTED, NO_KEY, KEPT = range(4)
_CELL = (STATUS, GROUP, BIN)
_MOST = 2.0**62  # what 64 bits hold, with room for rounding

TopKeys = tuple[tuple[str, int], ...]


class Counts(Protocol):
    """The counts that can be asked of marked rows."""

    def cells(self) -> pa.Table:
        """Return rows per status, key group and bin, of them those of each stream, and minutes in the air.

        Kept rows count once for each copy.
        """

    def keys(self) -> tuple[TopKeys, int]:
        """Return the most frequent keys with their rows, ties by key, and how many keys there are."""

    def bad(self, most: int | None = None) -> pa.Table:
        """Return the bad rows in order: text of the row, reason, link of the file."""


@contextlib.contextmanager
def counts_of(marked: DataFrame, question: Question, *, at_once: bool) -> Iterator[Counts]:
    """Return the counts of the rows; inside they are computed once."""
    if at_once:
        yield _Here(marked, question)
        return
    # Three queries read the same marked rows: without this Spark would parse the files three times.
    marked.persist()
    try:
        yield _OnSpark(marked, question)
    finally:
        marked.unpersist()


def stream_columns(question: Question) -> list[str]:
    """Return names of the columns that count rows: all, then those of each stream."""
    return ["rows", *(f"s{k}" for k in range(len(question.streams)))]


class _OnSpark:
    """Counts of marked rows by queries of Spark."""

    def __init__(self, marked: DataFrame, question: Question) -> None:
        self._marked, self._question = marked, question

    def cells(self) -> pa.Table:
        weight, columns = F.col(WEIGHT), stream_columns(self._question)
        counted = self._marked.groupBy(*_CELL).agg(
            F.sum(weight).alias("rows"),
            *[F.sum(F.when(F.col(f"_hf_{name}"), weight).otherwise(0)).alias(name) for name in columns[1:]],
            F.sum(F.col(MINUTES) * weight).alias("minutes"),
            F.sum(F.when(F.col(MINUTES).isNotNull(), weight)).alias("flights"),
        )
        if self._question.copies > 1:
            copies, groups = self._question.copies, self._question.key_groups
            counted = counted.transform(in_copies(copies, groups, GROUP, (STATUS, BIN), (*columns, *IN_AIR)))
        return counted.toArrow()

    def keys(self) -> tuple[TopKeys, int]:
        counts = self._marked.where(F.col(STATUS) == KEPT).groupBy(KEY).agg(F.sum(WEIGHT).alias("rows"))
        # Ties by key, as bytes: the same on Spark and here, whatever the locale.
        top = counts.orderBy(F.desc("rows"), F.asc(KEY)).limit(TOP_KEYS).collect()
        return tuple((row[0].decode("utf-8", "replace"), row[1]) for row in top), counts.count()

    def bad(self, most: int | None = None) -> pa.Table:
        found = self._marked.where(F.col(STATUS) == BAD).select(rows.RAW, rows.WHY, rows.FILE)
        # A total order: Spark gives rows of parallel tasks in any order.
        found = found.orderBy(rows.FILE, rows.RAW, rows.WHY)
        return (found if most is None else found.limit(most)).toArrow()


class _Here:
    """Counts of marked rows that one job has brought to this process."""

    def __init__(self, marked: DataFrame, question: Question) -> None:
        self._rows, self._question = marked.toArrow(), question

    def cells(self) -> pa.Table:
        table, names = self._rows, stream_columns(self._question)
        weight, minutes = table[WEIGHT], table[MINUTES]
        self._check_sums(weight, minutes)
        summed = {
            "rows": weight,
            **{name: pc.if_else(table[f"_hf_{name}"], weight, 0) for name in names[1:]},
            "minutes": pc.multiply(minutes, weight),
            "flights": pc.if_else(pc.is_valid(minutes), weight, None),
        }
        counted = _sums(pa.table({**{name: table[name] for name in _CELL}, **summed}), _CELL, tuple(summed))
        if self._question.copies == 1:
            return counted
        copies, groups = self._question.copies, self._question.key_groups
        spread = in_copies_here(counted, copies, groups, GROUP, (*names, *IN_AIR))
        return _sums(spread, _CELL, tuple(summed))

    def keys(self) -> tuple[TopKeys, int]:
        kept = self._rows.filter(pc.equal(self._rows[STATUS], KEPT)).select([KEY, WEIGHT])
        counts = _sums(kept, (KEY,), (WEIGHT,))
        count = counts[WEIGHT].to_numpy()
        # All keys with as many rows as the last of the top ones, so that ties are broken by key and not by place.
        least = np.sort(count)[-TOP_KEYS:][0] if len(count) else 0
        most = counts.filter(pc.greater_equal(counts[WEIGHT], int(least))).to_pylist()
        top = sorted((-row[WEIGHT], row[KEY]) for row in most)[:TOP_KEYS]
        return tuple((key.decode("utf-8", "replace"), -n) for n, key in top), len(count)

    def bad(self, most: int | None = None) -> pa.Table:
        columns = [rows.RAW, rows.WHY, rows.FILE]
        found = self._rows.filter(pc.equal(self._rows[STATUS], BAD)).select(columns)
        order = [(name, "ascending") for name in (rows.FILE, rows.RAW, rows.WHY)]
        found = found.sort_by(order)
        return found if most is None else found.slice(0, most)

    def _check_sums(self, weight: Any, minutes: Any) -> None:
        """Raise InputError where a sum would not fit: this process would not notice."""
        rows_of, minutes_of = (pc.cast(values, "double", safe=False) for values in (weight, minutes))
        for values in (rows_of, pc.abs(pc.multiply(minutes_of, rows_of))):
            if (pc.sum(values).as_py() or 0.0) * self._question.copies > _MOST:
                raise InputError.at("ingest.weight", self._question.weight, "adds up to more than 64 bits hold")


def _sums(table: pa.Table, by: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Return the table with the sums of `names` for each combination of `by`."""
    found = table.group_by(list(by), use_threads=False).aggregate([(name, "sum") for name in names])
    return found.select([*by, *(f"{name}_sum" for name in names)]).rename_columns([*by, *names])
