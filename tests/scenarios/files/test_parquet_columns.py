"""Columns are those that Arrow would make of the same values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenarios.files.parquet import Field, write_parquet

CASES: list[tuple[str, Sequence[object] | np.ndarray]] = [
    ("int64", np.array([3, -1, 2**62])),
    ("int64", [5, -7]),
    ("int64", np.arange(6)[::2]),
    ("int32", np.array([1, -1, 4], np.int32)),
    ("int32", np.array([1, 2**31 - 1])),
    ("float64", np.array([0.5, np.nan, np.inf])),
    ("float64", (1, 2.5)),
    ("float64", np.array([1, 2])),
    ("float64", [None, 2.5]),
    ("bool", np.array([True, False] * 9)),
    ("bool", []),
    ("str", ["a", "", "zwölf", None]),
    ("str", np.array(["x", "yy"])),
    ("str", []),
]


@pytest.mark.parametrize(("dtype", "values"), CASES, ids=str)
@pytest.mark.parametrize("never", [False, True])
def test_a_column_is_what_arrow_makes_of_the_values(
    tmp_path: Path, dtype: str, values: Sequence[object] | np.ndarray, never: bool
) -> None:
    never = never and dtype.startswith("int")
    write_parquet(tmp_path / "one.parquet", [Field("a", dtype, never=never)], [{"a": values}])
    found = pq.read_table(tmp_path / "one.parquet").column("a").combine_chunks()
    kind = getattr(pa, {"bool": "bool_", "str": "string"}.get(dtype, dtype))()
    expected = pa.array(values, type=kind, mask=np.asarray(values) == -1 if never else None)
    assert found.type == kind
    assert str(found) == str(expected)  # by text, in which NaN equals NaN
    found.validate(full=True)


def test_a_number_that_the_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        write_parquet(tmp_path / "one.parquet", [Field("a", "int32")], [{"a": np.array([2**31])}])
