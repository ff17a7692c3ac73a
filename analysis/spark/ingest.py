"""Make the profile of a trace: check all that needs no Spark, then count its rows there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.spark.question import Question
from analysis.spark.schema import parse_schema
from analysis.spark.session import Setup, require_pyspark, setup, text_bytes
from analysis.spark.sources import check_columns, check_types, open_sources
from models.records.profile import Profile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def ingest(
    files: Iterable[str | Path],
    *,
    key: str,
    time: str,
    where: str | None = None,
    streams: Mapping[str, str] | None = None,
    key_groups: int,
    bin_s: float,
    copies: int = 1,
    weight: str | None = None,
    schema: str | None = None,
    max_bad_share: float = 0.05,
    spark: SparkSession | None = None,
    sizing: Setup | None = None,
    on_progress: Callable[[str, float | None], None] = lambda text, share: None,
) -> tuple[Profile, pa.Table]:
    """Return the profile of the files' rows, and the rows that could not be used: a table of raw, why, file.

    files: CSV, JSON lines, both also as .gz, and Parquet, all with the columns used. key, time: columns; a time
    without a zone is UTC. where: SQL that keeps rows. streams: name -> SQL; None means delayed and airborne
    where flights are read without a schema of their own and have the columns. bin_s [s]. copies: of the volume,
    each with key groups of its own, are summed. weight: column that says how many rows a row stands for.
    schema: columns and types as in "ts TIMESTAMP, id STRING"; None means flight records. A row is bad when its
    line is
    malformed, a field does not fit its type, or it has no time or weight; above `max_bad_share` of all rows
    ingest stops. Rows without a key are dropped and counted. Spark is set up for the size of the files unless
    `sizing` says how; that changes no result. `on_progress` hears what is going on, and of what share of it is done,
    or None. Raises InputError with every fault found, MissingTool without Java.

    >>> from pathlib import Path
    >>> from holdfast import ingest
    >>> rows = ["at,user", "2026-01-01T00:00:00Z,ann", "2026-01-01T00:01:00Z,bob", "2026-01-01T00:02:00Z,ann"]
    >>> _ = Path("requests.csv").write_text("\\n".join(rows))
    >>> profile, bad_rows = ingest(
    ...     ["requests.csv"], key="user", time="at", key_groups=2, bin_s=60.0, schema="at TIMESTAMP, user STRING")
    >>> profile.top_keys, bad_rows.num_rows
    ((('ann', 2), ('bob', 1)), 0)
    """
    question = Question(key, time, where, dict(streams or {}), key_groups, bin_s, max_bad_share, copies, weight)
    columns = None if schema is None else parse_schema(schema)
    # All that can be checked without Spark is checked first: starting it takes seconds.
    sources = open_sources(files)
    check_columns(sources, None if columns is None else [name for name, _ in columns], question.columns)
    check_types(sources, columns, question.columns)
    if columns is None and streams is None:
        question = question.with_flight_streams(sources)
    chosen = sizing or setup(text_bytes(sources), os.cpu_count() or 1)
    require_pyspark()
    # PySpark is optional and slow to load: only a trace that passed all checks needs it.
    from analysis.spark.profiling import profile_of  # noqa: PLC0415

    return profile_of(question, sources, columns, chosen, spark, on_progress)
