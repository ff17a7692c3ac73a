"""Choose Spark's settings by the size of the input: what helps with large data slows a small file down.

No setting changes a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.spark.session import QUICK_START
from analysis.spark.sources import Source

SMALL_BYTES = 32 * 2**20
"""Up to here one job brings all rows to this process, which has room for so many; more are counted on Spark."""
_GZIP = 8  # how many times longer text is than its gzip file
_PARQUET = 6  # and than the Parquet file of the same rows
# Spark's own classes have been verified where its jars were built; the JVM does it again, in a sixth of a short run.
_TRUSTED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_LONG_RUN = "-XX:+UseSerialGC -XX:MetaspaceSize=256m"
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Setup:
    """Options of the JVM, settings of Spark SQL, and whether one job brings all rows to this process."""

    java: str
    sql: Mapping[str, str]
    at_once: bool


def text_bytes(sources: Iterable[Source]) -> int:
    """About how long the rows of the files are as plain text."""
    return sum(source.path.stat().st_size * _longer(source.suffix) for source in sources)


def setup(size: int, cores: int) -> Setup:
    """The setup for `size` bytes of text on so many cores."""
    if size <= SMALL_BYTES:
        sql = {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # generating and compiling code takes longer than running it
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.files.maxPartitionBytes": str(SMALL_BYTES),
        }
        return Setup(f"{QUICK_START} {_TRUSTED}", sql, at_once=True)
    # Enough tasks to say how long it will take, none so short that starting it counts.
    part = min(max(size // 32, 8 * _MEBIBYTE), 128 * _MEBIBYTE)
    sql = {
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        "spark.sql.files.maxPartitionBytes": str(part),
    }
    return Setup(_LONG_RUN, sql, at_once=False)


def _longer(suffix: str) -> int:
    return _PARQUET if suffix == ".parquet" else _GZIP if suffix.endswith(".gz") else 1
