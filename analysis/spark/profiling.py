"""Count the rows of a trace on Spark, and make its profile of the counts in numpy.

`analysis.spark.ingest` checks the question first, and loads this module, and with it PySpark, only then.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from analysis.spark import rows
from analysis.spark.conditions import condition
from analysis.spark.counts import (
    BAD,
    BIN,
    GROUP,
    IN_AIR,
    KEPT,
    KEY,
    MINUTES,
    NO_KEY,
    STATUS,
    UNWANTED,
    WEIGHT,
    Counts,
    counts_of,
    stream_columns,
)
from analysis.spark.files import linked, session_for, spark_errors, watched
from analysis.spark.question import MOST_CELLS, Question
from analysis.spark.rows import read_all
from analysis.spark.schema import INTEGERS, Columns, type_faults
from analysis.spark.session import Setup
from analysis.spark.sources import Source
from models import display
from models.correlation import pearson
from models.errors import NO_VALUE, InputError, raise_if_any
from models.records.profile import ALL, Profile, instant_text, selectivities
from models.scenario.key_groups import PLAIN, SALTED

AIR_TIME = "air_time"  # minutes, where flights have it
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = "_hf_us"


def profile_of(
    question: Question,
    sources: Sequence[Source],
    columns: Columns | None,
    chosen: Setup,
    spark: SparkSession | None,
    on_progress: Callable[[str, float | None], None],
) -> tuple[Profile, pa.Table]:
    """Return the profile of checked sources, and their bad rows: a table of raw, why, file.

    `columns` is the schema that was given, `chosen` how Spark is set up, and `spark` a session that runs already.
    Raises InputError for rows that Spark refuses, and above the share of bad rows.
    """
    on_progress("starting Spark", None)
    with session_for(spark, chosen) as session, tempfile.TemporaryDirectory(prefix="holdfast-ingest-") as folder:
        links = linked(sources, Path(folder))
        with spark_errors("ingest", sources):
            on_progress("reading", None)
            frame, fields = read_all(session, Path(folder), links, columns, question.weight)
            kinds = {field.name: field.dataType.simpleString() for field in fields}
            raise_if_any(type_faults(kinds, question.columns))
            # The weight comes last: a row without a time is bad, whatever it weighs.
            timed = frame.transform(rows.instant(fields, question.time, _US)).transform(
                rows.weighed(question.weight, WEIGHT)
            )
            with counts_of(timed.transform(_marked(question, fields)), question, at_once=chosen.at_once) as counts:
                with watched(session, lambda share: on_progress("reading", share)):
                    cells = counts.cells()
                on_progress("grouping", None)
                seen = _seen(question, cells, counts, links)
                top, keys = counts.keys()
                quarantine = _quarantine(counts.bad(), links)
        versions = _versions(session)
    on_progress("correlating", None)
    profile = _profile(question, sources, cells, seen, top_keys=top, keys=keys, versions=versions)
    return profile, quarantine


# ------------------------------------------------------------------------------------------------ on Spark


def _marked(question: Question, fields: StructType) -> rows.Step:
    """Return a step: what becomes of each row, its key, key group and bin, and the streams it is part of."""

    def step(frame: DataFrame) -> DataFrame:
        # Conditions of users see the columns of the files alone, not those that ingest adds.
        visible = frame.select(*[rows.quoted(name) for name in fields.names])
        wanted = F.lit(True) if question.where is None else condition(visible, question.where, "ingest.where")
        flags = [condition(visible, sql, f"ingest.streams.{name}") for name, sql in question.streams.items()]
        key = F.col(rows.quoted(question.key)).cast("string")
        status = (
            # In this order: a bad row is bad even if `where` would drop it, for its fields cannot be trusted.
            F.when(F.col(rows.WHY).isNotNull(), BAD)
            .when(~wanted, UNWANTED)
            .when(key.isNull() | (key == ""), NO_KEY)
            .otherwise(KEPT)
        )
        kept = F.col(STATUS) == KEPT
        hashed = F.crc32(key.cast("binary"))
        group = F.pmod(hashed, F.lit(question.key_groups)).cast("int") if question.copies == 1 else hashed
        minutes = F.col(AIR_TIME) if _has_minutes(fields) else F.lit(None)
        return frame.withColumn(STATUS, status).select(
            STATUS,
            F.when(kept, key.cast("binary")).alias(KEY),  # what is no UTF-8 is a key as well
            F.when(kept, group).alias(GROUP),
            # `div` rounds towards zero: subtracting the remainder first makes it right before 1970.
            F.when(kept, F.expr(f"({_US} - pmod({_US}, {question.bin_us}L)) div {question.bin_us}L")).alias(BIN),
            F.when(kept, minutes).cast("bigint").alias(MINUTES),
            *[F.when(kept, flag).otherwise(False).alias(f"_hf_s{k}") for k, flag in enumerate(flags)],
            WEIGHT,
            rows.WHY,
            F.when(F.col(rows.WHY).isNotNull(), F.col(rows.RAW)).alias(rows.RAW),
            rows.FILE,
        )

    return step


def _has_minutes(fields: StructType) -> bool:
    return AIR_TIME in fields.names and fields[AIR_TIME].dataType.simpleString() in INTEGERS


def _seen(question: Question, counted: pa.Table, counts: Counts, links: Mapping[str, Source]) -> dict[int, int]:
    """Return rows by status. Raises InputError above the share of bad rows, and where no row is left."""
    seen = dict.fromkeys((BAD, UNWANTED, NO_KEY, KEPT), 0)
    # Before anything else is computed: a trace with the wrong schema is told by its share of bad rows.
    status, count = counted[STATUS].to_numpy(), counted["rows"].to_numpy()
    seen.update({which: int(count[status == which].sum()) for which in seen})
    # Kept rows are counted once per copy, all others once.
    seen[KEPT] //= question.copies
    read = sum(seen.values())
    if not read:
        rule = "no rows: the files hold a header or a schema alone"
        raise InputError.at("ingest.files", NO_VALUE, rule + (", or no weight above 0" if question.weight else ""))
    limit = question.max_bad_share
    if seen[BAD] / read > limit:
        bad = _quarantine(counts.bad(most=3), links).to_pylist()
        shown = "; ".join(dict.fromkeys(f"{row['file']}: {row['why']}" for row in bad))
        rule = f"{seen[BAD]} of {read} rows ({display.share(seen[BAD] / read)}) cannot be used, such as {shown}"
        hint = "with --max-bad-share 1 the bad rows are kept in quarantine.parquet of the profile"
        raise InputError.at("ingest.max_bad_share", limit, rule, hint)
    if not seen[KEPT]:
        rule = (
            f"no row is left of {read}: {seen[BAD]} are bad, {seen[UNWANTED]} not wanted by where, "
            f"{seen[NO_KEY]} without a key"
        )
        raise InputError.at("ingest", NO_VALUE, rule)
    return seen


def _quarantine(found: pa.Table, links: Mapping[str, Source]) -> pa.Table:
    """Return the bad rows as a table of raw, why, file (its name as the user gave it), in the order of the files."""
    return pa.table(
        {
            "raw": found[rows.RAW].cast(pa.string()),
            "why": found[rows.WHY].cast(pa.string()),
            "file": pa.array([links[link].name for link in found[rows.FILE].to_pylist()], pa.string()),
        }
    )


def _versions(session: SparkSession) -> dict[str, str]:
    """Return the versions that made the profile; Java's comes from the running JVM."""
    try:
        own = importlib.metadata.version("holdfast")
    except importlib.metadata.PackageNotFoundError:
        own = "unknown"
    java = session._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    return {"holdfast": own, "spark": session.version, "java": str(java)}


# --------------------------------------------------------------------------------------------- after Spark


def _profile(
    question: Question,
    sources: Sequence[Source],
    counted: pa.Table,
    seen: Mapping[int, int],
    **known: Any,
) -> Profile:
    """Return the profile of the counts: bins from the first row to the last, correlation over all of them."""
    streams = (ALL, *question.streams)
    first, counts = _series(question, counted)
    minutes, flights = (
        sum(n for n in counted[name].to_pylist() if n is not None) // question.copies for name in IN_AIR
    )
    start = _EPOCH + datetime.timedelta(microseconds=first * question.bin_us)
    return Profile(
        sources=tuple(source.name for source in sources),
        key=question.key,
        time=question.time,
        where=question.where,
        hash=PLAIN if question.copies == 1 else SALTED,
        copies=question.copies,
        weight=question.weight,
        key_groups=question.key_groups,
        bin_s=float(question.bin_s),
        start=instant_text(start),
        streams=streams,
        counts=counts,
        selectivity=selectivities(streams, counts),
        correlation=pearson(counts.reshape(-1, counts.shape[2])),
        totals={
            "rows_read": sum(seen.values()),
            "rows_kept": seen[KEPT],
            "rows_dropped": seen[UNWANTED] + seen[NO_KEY],
            "rows_quarantined": seen[BAD],
        },
        filters=question.streams,
        minutes_in_air={"total": minutes, "mean": minutes / flights} if flights else None,
        **known,
    )


def _series(question: Question, counted: pa.Table) -> tuple[int, np.ndarray]:
    """Return the number of the first bin since 1970, and the counts (streams, key groups, bins).

    Bin k begins at (first + k) bins after 1970-01-01T00:00Z. Raises InputError where a wrong date would make an array
    of too many cells.
    """
    kept = counted.filter(counted[STATUS].to_numpy() == KEPT)
    group, bin_ = kept[GROUP].to_numpy(), kept[BIN].to_numpy()
    columns = [kept[name].to_numpy() for name in stream_columns(question)]
    # Bins count from 1970, so that the same row is in the same bin whatever else the files hold.
    first = int(bin_.min())
    bins = int(bin_.max()) - first + 1
    # One wrong date stretches the span to centuries: told before the array is made.
    if len(columns) * question.key_groups * bins > MOST_CELLS:
        rule = f"makes {bins} bins, too many with {len(columns)} streams of {question.key_groups} key groups"
        hint = "take longer bins, or leave out times by where"
        raise InputError.at("ingest.bin", question.bin_s, rule, hint)
    counts = np.zeros((len(columns), question.key_groups, bins), dtype=np.int64)
    for stream, values in enumerate(columns):
        counts[stream, group, bin_ - first] = values
    return first, counts
