"""How Spark is set up for an input, by its size alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from analysis.spark.session import SMALL_BYTES, setup, text_bytes
from analysis.spark.sources import open_sources


def test_a_small_input_is_read_at_once_without_what_only_large_ones_repay() -> None:
    for size in (0, SMALL_BYTES):
        found = setup(size, cores=8)
        assert found.at_once
        assert found.sql["spark.sql.adaptive.enabled"] == found.sql["spark.sql.codegen.wholeStage"] == "false"
        assert found.sql["spark.sql.shuffle.partitions"] == "1"
        assert "-XX:TieredStopAtLevel=1" in found.java


def test_a_large_input_gets_the_whole_compiler_and_its_partitions() -> None:
    found = setup(SMALL_BYTES + 1, cores=8)
    assert not found.at_once
    assert "spark.sql.adaptive.enabled" not in found.sql
    assert found.sql["spark.sql.shuffle.partitions"] == "8"
    assert "TieredStopAtLevel" not in found.java
    assert "BytecodeVerification" not in found.java


@pytest.mark.parametrize(("size", "part_mib"), [(2**26, 8), (2**30, 32), (2**40, 128)])
def test_parts_are_many_enough_for_progress_and_neither_short_nor_vast(size: int, part_mib: int) -> None:
    assert setup(size, cores=1).sql["spark.sql.files.maxPartitionBytes"] == str(part_mib * 2**20)


def test_packed_files_count_for_what_they_hold(tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{k},{k % 7}\n" for k in range(20_000))
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "c.parquet")
    (plain,), (packed,), (parquet,) = (open_sources([tmp_path / name]) for name in ("a.csv", "b.csv.gz", "c.parquet"))
    assert text_bytes([plain]) == len(text)
    assert text_bytes([packed]) > packed.path.stat().st_size
    assert text_bytes([parquet]) > parquet.path.stat().st_size
    assert text_bytes([plain, packed]) == text_bytes([plain]) + text_bytes([packed])
