"""Failure logs with Spark: what `analysis.failure_logs.reader` does row by row, for logs that do not fit one process.

Every step is a column expression, and what comes back to the driver are outages, not records. Outages that overlap
become one by sorting each host's records by time: a new one begins where a record starts after all earlier ends.

Both readers have to find the same in every log, down to the order of examples: a test compares them field by field. So
every rule stands here as a column expression and there in Python, in the same order.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.failure_logs import records
from analysis.failure_logs.records import CAUSES, LANL, LogQuestion, Records
from analysis.spark import rows
from analysis.spark.files import linked, session_for, spark_errors
from analysis.spark.schema import FRACTIONS, INTEGERS
from analysis.spark.session import setup, text_bytes
from analysis.spark.sources import Source
from models.reliability.failure_log import STILL_DOWN

_MOST_EXAMPLES = 20
# Stands for "no end" in columns, where the greatest of some ends is then "no end" as well.
_FAR = 2**63 - 1
_WANTED = ("host", "down", "up", "cause", "unwanted", "first", "last", "system", "nodes", "why", "raw", "file")


def read_with_spark(
    sources: Sequence[Source],
    kind: str,
    question: LogQuestion,
    *,
    spark: SparkSession | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Records:
    """Return the records of the files; all have the format `kind`. Raises InputError, and MissingTool without Java.

    `spark` is a session that runs already and is left running; without one, a local session is started for the size of
    the files. `on_progress` gets a line for each step. Parquet columns without a zone are times of `question.zone`.
    """
    chosen = setup(text_bytes(sources), os.cpu_count() or 1)
    on_progress("starting Spark")
    with (
        session_for(spark, chosen, question.zone) as session,
        tempfile.TemporaryDirectory(prefix="holdfast-failures-") as folder,
        spark_errors("FILE", sources, named="FILE"),
    ):
        links = linked(sources, Path(folder))
        parts = [_part(session, Path(folder), name, source, kind, question) for name, source in links.items()]
        marked = functools.reduce(lambda one, other: one.unionByName(other), parts)
        # Counts, examples and outages all read these rows: they are parsed once.
        marked = marked.transform(_again).persist()
        try:
            on_progress(f"reading {len(sources)} file{'s' if len(sources) > 1 else ''}")
            return _collected(marked, kind, {name: source.name for name, source in links.items()})
        finally:
            marked.unpersist()


def _part(
    session: SparkSession, folder: Path, name: str, source: Source, kind: str, question: LogQuestion
) -> DataFrame:
    """Return one file's records in the columns of _WANTED."""
    path = str(folder / name)
    if source.suffix == ".parquet":
        nanos = [column for column, kind_of in source.types if str(kind_of).startswith(rows.NANOS)]
        frame = rows.read_parquet(session, [path], source.columns, nanos).transform(_local(source, nanos, question))
    else:
        frame = rows.read_csv(session, [path], source.columns)
    return frame.transform(_lanl if kind == LANL else _table).transform(_judged(kind, question))


def _local(source: Source, nanos: Sequence[str], question: LogQuestion) -> rows.Step:
    """Return a step: nanoseconds without a zone, which were taken for UTC, are times of the zone that was asked for."""
    naive = [name for name, kind in source.types if name in nanos and "tz=" not in str(kind)]

    def step(frame: DataFrame) -> DataFrame:
        for name in naive:
            column = F.col(rows.quoted(name))
            frame = frame.withColumn(name, F.to_utc_timestamp(column, question.zone))
        return frame

    return step


def _text(frame: DataFrame, name: str) -> Column:
    """Return a column as text without blanks around it; nothing counts as empty."""
    column = F.col(rows.quoted(name))
    if frame.schema[name].dataType.simpleString() in FRACTIONS:
        column = F.when(~F.isnan(column), column)  # as a NaN stands for nothing
    return F.coalesce(F.trim(column.cast("string")), F.lit(""))


def _raw(frame: DataFrame) -> Column:
    """Return the record as the plain reader has it: the line of a CSV file, and joined fields of a Parquet row.

    Spark keeps the line of a malformed record only. Any other is written again: what differs are needless quotes.
    """
    names = [name for name in frame.columns if name not in (rows.CORRUPT, rows.FILE)]
    if rows.CORRUPT not in frame.columns:
        return F.concat_ws(",", *[_text(frame, name) for name in names])
    return F.coalesce(F.col(rows.CORRUPT), rows.line_of(names))


def _malformed(frame: DataFrame) -> Column:
    return F.col(rows.CORRUPT).isNotNull() if rows.CORRUPT in frame.columns else F.lit(False)


def _lanl(frame: DataFrame) -> DataFrame:
    """Return the fields of a log in the format of LANL by our names; `_judged` says which records are bad."""
    system, node, nodes = (_text(frame, name) for name in ("System", "nodenumz", "nodes"))
    counted = node.rlike(r"^\d+$") & nodes.rlike(r"^\d+$") & (system != "")
    number = F.when(counted, node).try_cast("bigint")
    times = {name: _text(frame, column) for name, column in (("down", "Prob Started"), ("up", "Prob Fixed"))}
    causes = [F.when(_text(frame, cause) != "", F.lit(cause)) for cause in CAUSES]
    return frame.select(
        F.when(counted, F.concat(system, F.lit("-"), number.cast("string"))).otherwise("").alias("host"),
        *[_lanl_us(column).alias(name) for name, column in times.items()],
        (times["up"] == "").alias("open"),
        F.coalesce(*causes, F.lit(records.NO_CAUSE)).alias("cause"),
        _text(frame, "node prod").alias("first"),
        _text(frame, "node decom").alias("last"),
        system.alias("system"),
        F.when(counted, nodes).try_cast("bigint").alias("nodes"),
        (number >= nodes.try_cast("bigint")).alias("beyond"),
        _malformed(frame).alias("malformed"),
        _raw(frame).alias("raw"),
        F.col(rows.FILE).alias("file"),
    )


def _table(frame: DataFrame) -> DataFrame:
    cause = F.when(_text(frame, "cause") != "", _text(frame, "cause")) if "cause" in frame.columns else F.lit(None)
    return frame.select(
        _text(frame, "host").alias("host"),
        *[_table_us(frame, name).alias(name) for name in ("down", "up")],
        (_text(frame, "up") == "").alias("open"),
        F.coalesce(cause, F.lit(records.NO_CAUSE)).alias("cause"),
        *[F.lit("").alias(name) for name in ("first", "last", "system")],
        F.lit(None).cast("bigint").alias("nodes"),
        F.lit(False).alias("beyond"),
        _malformed(frame).alias("malformed"),
        _raw(frame).alias("raw"),
        F.col(rows.FILE).alias("file"),
    )


def _lanl_us(text: Column) -> Column:
    return F.unix_micros(F.try_to_timestamp(F.when(text.rlike(records.LANL_TIME), text), F.lit("M/d/yyyy H:mm")))


def _table_us(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType.simpleString()
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return F.unix_micros(F.col(name).cast("timestamp"))
    if kind in (*FRACTIONS, *INTEGERS):
        return F.floor(F.col(name).try_cast("decimal(30,9)") * 1_000_000).cast("bigint")
    text = _text(frame, name)
    seconds = F.when(text.rlike(records.NUMBER), text).try_cast("decimal(30,9)")
    whole = F.regexp_replace(text, r"^(.{16})(Z|[+-].*)$", "$1:00$2")  # Spark wants seconds before a zone
    stamp = F.when(text.rlike(records.ISO), whole).try_cast("timestamp")
    return F.coalesce(F.floor(seconds * 1_000_000).cast("bigint"), F.unix_micros(stamp))


def _judged(kind: str, question: LogQuestion) -> rows.Step:
    """Return a step: why each record is bad, whether it is wanted, and an end for those that have none.

    The first reason that holds is given, in the order of `analysis.failure_logs.records`. Records of other systems are
    unwanted whatever else is wrong with them; those of other causes only if they are good.
    """

    def step(frame: DataFrame) -> DataFrame:
        down, up = F.col("down"), F.col("up")
        why = (
            F.when(F.col("malformed"), records.MALFORMED)
            .when(F.col("host") == "", records.NO_HOST)
            .when(F.col("beyond"), records.NO_NODE)
            .when(down.isNull() | (down < 0), records.NO_DOWN)
            .when(~F.col("open") & (up.isNull() | (up < 0)), records.NO_UP)
            .when(~F.col("open") & (up < down), records.BACKWARDS)
        )
        other = F.lit(False)
        if kind == LANL and question.systems:
            other = ~F.col("malformed") & ~F.col("system").isin(*question.systems)
        cause = F.col("cause").isin(*question.causes) if question.causes else F.lit(True)
        unwanted = F.when(other, "system").when(why.isNull() & ~cause, "cause")
        end = F.when(F.col("open"), F.lit(_FAR)).otherwise(up)
        return frame.select(
            "host", "down", end.alias("up"), "cause", unwanted.alias("unwanted"), "first", "last", "system", "nodes",
            F.when(~other, why).alias("why"), "raw", "file",
        )  # fmt: skip

    return step


def _again(frame: DataFrame) -> DataFrame:
    """Return a record without an end is bad where its host fails again later."""
    used = F.col("why").isNull() & F.col("unwanted").isNull()
    last = F.max(F.when(used, F.col("down"))).over(Window.partitionBy("host"))
    lost = used & (F.col("up") == _FAR) & (last > F.col("down"))
    return frame.select(
        *[
            (F.when(lost, records.FAILS_AGAIN).otherwise(F.col("why")) if name == "why" else F.col(name)).alias(name)
            for name in _WANTED
        ]
    )


def _outages(frame: DataFrame) -> DataFrame:
    """Return used records of a host that overlap or touch, as one."""
    in_time = Window.partitionBy("host").orderBy("down", "up")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    # The greatest end so far, not that of the record before: a long outage may contain several short ones.
    ended = F.max("up").over(before)
    begins = F.when(ended.isNull() | (F.col("down") > ended), 1).otherwise(0)
    numbered = frame.withColumn("begins", begins).withColumn("number", F.sum("begins").over(in_time))
    found = numbered.groupBy("host", "number").agg(F.min("down").alias("down"), F.max("up").alias("up"))
    return found.select("host", "down", "up").orderBy("host", "down")


def _collected(marked: DataFrame, kind: str, names: Mapping[str, str]) -> Records:
    """Return the records: counts, examples and outages, by four queries of the marked rows.

    Examples are the first 20 by file, reason and text. For LANL's format, the production time of each host comes from
    all of its records, also from those of causes that nobody asked for.
    """
    counts = marked.groupBy("why", "unwanted", "cause").agg(F.count(F.lit(1)).alias("n")).collect()
    bad = marked.where(F.col("why").isNotNull()).select("file", "why", "raw")
    examples = bad.orderBy("file", "why", "raw").limit(_MOST_EXAMPLES).collect()
    used = F.col("why").isNull() & F.col("unwanted").isNull()
    outages = marked.where(used).transform(_outages).toArrow()
    there = F.col("why").isNull() & F.col("unwanted").isNull() | (F.col("unwanted") == "cause")
    # A host whose outages all have another cause was in production too, so its time counts.
    hosts: Sequence[Any] = []
    if kind == LANL:
        grouped = marked.where(there).groupBy("host", "system")
        hosts = grouped.agg(F.max(F.struct("first", "last")).alias("watched"), F.max("nodes").alias("nodes")).collect()
    up = outages["up"].to_numpy().astype(np.int64)

    def total(wanted: Callable[[Any], bool], by: str = "") -> dict[str, int]:
        found: dict[str, int] = {}
        for row in counts:
            if wanted(row):
                key = row[by] if by else ""
                found[key] = found.get(key, 0) + int(row["n"])
        return dict(sorted(found.items()))

    causes = total(lambda row: row["why"] is None and row["unwanted"] is None, "cause")
    return Records(
        kind=kind,
        host=tuple(outages["host"].to_pylist()),
        down_us=outages["down"].to_numpy().astype(np.int64),
        up_us=np.where(up == _FAR, STILL_DOWN, up),
        read=sum(int(row["n"]) for row in counts),
        used=sum(causes.values()),
        unwanted=sum(total(lambda row: row["unwanted"] is not None).values()),
        bad=total(lambda row: row["why"] is not None, "why"),
        examples=[(names[row["file"]], row["why"], row["raw"]) for row in examples],
        causes=causes,
        watched={row["host"]: (row["watched"]["first"], row["watched"]["last"]) for row in sorted(hosts)},
        sizes={row["system"]: int(row["nodes"]) for row in sorted(hosts)},
    )
