"""Several copies of a trace, each with key groups of its own: counts by CRC-32 in, counts by key group out.

Mixing bits takes multiplications that wrap, which Spark does not do where an overflow is an error. So the groups of
each CRC-32 are numbered beside it, once for all its rows, and joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.spark.question import MOST_CELLS
from analysis.spark.rows import Step
from models.errors import InputError
from models.scenario.key_groups import salted_groups

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TIMES, _TO = "_hf_times", "_hf_to"


def in_copies(copies: int, groups: int, column: str, by: Sequence[str], counts: Sequence[str]) -> Step:
    """A step: `column`, a CRC-32 or null, becomes the key group in each of the copies, and `counts` are summed.

    by: columns that rows are told apart by besides it. A row without a CRC-32 counts once.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    def step(frame: DataFrame) -> DataFrame:
        found = frame.select(column).where(F.col(column).isNotNull()).distinct().toArrow()[column]
        numbered = frame.sparkSession.createDataFrame(_numbered(found.to_numpy(), copies, groups, column))
        spread = frame.join(F.broadcast(numbered), column, "left")
        times = F.coalesce(F.col(_TIMES), F.lit(1))
        return spread.groupBy(*by, F.col(_TO).alias(column)).agg(*[F.sum(F.col(n) * times).alias(n) for n in counts])

    return step


def in_copies_here(counted: pa.Table, copies: int, groups: int, column: str, counts: Sequence[str]) -> pa.Table:
    """Return what the step does to a table in this process, before rows of the same cell are summed."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute as pc  # noqa: PLC0415

    found = pc.unique(counted[column].drop_null())
    numbered = _numbered(found.to_numpy(zero_copy_only=False), copies, groups, column)
    spread = counted.join(numbered, column, join_type="left outer")
    times = pc.fill_null(spread[_TIMES], 1)
    others = {name: spread[name] for name in counted.column_names if name not in (column, *counts)}
    return pa.table({**others, column: spread[_TO], **{n: pc.multiply_checked(spread[n], times) for n in counts}})


def _numbered(crc32: np.ndarray, copies: int, groups: int, column: str) -> pa.Table:
    """Return how often each CRC-32 is in each key group, over all copies; the k-th has salt k."""
    import pyarrow as pa  # noqa: PLC0415

    if len(crc32) * min(copies, groups) > MOST_CELLS:
        rule = f"must be at most {MOST_CELLS // len(crc32)} with {len(crc32)} keys"
        raise InputError.at("ingest.copies", copies, rule)
    cells = [np.arange(len(crc32)) * groups + salted_groups(crc32, salt, groups) for salt in range(copies)]
    cell, times = np.unique(np.concatenate(cells), return_counts=True)
    return pa.table({column: crc32[cell // groups], _TO: (cell % groups).astype(np.int32), _TIMES: times})
