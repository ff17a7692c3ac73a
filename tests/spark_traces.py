"""Small traces, and ways to run Spark, for the tests of ingest."""

from __future__ import annotations

import gzip
from pathlib import Path

from analysis.spark.session import setup

SCHEMA = "ts TIMESTAMP, key STRING, size INT"
SETUPS = {"at once": setup(0, 1), "on Spark": setup(2**40, 3)}


def write(path: Path, lines: list[str], good: int = 60) -> Path:
    """Write these lines, then a number of good ones; return the path."""
    text = "\n".join(["ts,key,size", *lines, *["2020-01-01T00:00:01,k,1"] * good]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path
