"""From a trace to its profile: counts on Spark, everything after them in numpy."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.spark import rows
from analysis.spark.copies import in_copies
from analysis.spark.files import linked, session_for, spark_errors
from analysis.spark.question import MOST_CELLS, Question
from analysis.spark.rows import read_all
from analysis.spark.schema import INTEGERS, parse_schema, type_faults
from analysis.spark.sources import Source, check_columns, check_types, open_sources
from analysis.spark.sql import condition
from models import display
from models.correlation import pearson
from models.errors import NO_VALUE, InputError, raise_if_any
from models.key_groups import PLAIN, SALTED
from models.profile import ALL, Profile, instant_text, selectivities

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TOP_KEYS = 20
AIR_TIME = "air_time"  # minutes, where flights have it
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_STATUS, _KEY, _GROUP, _BIN, _US, _MINUTES = (
    f"_hf_{name}" for name in ("status", "key", "group", "bin", "us", "minutes")
)
_IN_AIR = ("minutes", "flights")
_BAD, _UNWANTED, _NO_KEY, _KEPT = range(4)


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
    schema: str | None = None,
    max_bad_share: float = 0.05,
    spark: SparkSession | None = None,
    talk: Callable[[str], None] = lambda text: None,
) -> tuple[Profile, pa.Table]:
    """The profile of the files' rows, and the rows that could not be used: a table of raw, why, file.

    files: CSV, CSV.gz and Parquet, all with the columns used. key, time: columns; a time without a zone is
    UTC. where: SQL that keeps rows. streams: name -> SQL; None means delayed and airborne where flights are
    read without a schema of their own and have the columns. bin_s [s]. copies: of the volume, each with key
    groups of its own, are summed. schema: columns and types as in "ts
    TIMESTAMP, id STRING"; None means flight records. A row is bad when its line is malformed, a field does
    not fit its type, or it has no time; above `max_bad_share` of all rows ingest stops. Rows without a key
    are dropped and counted. `talk` hears what is going on. Raises InputError with every fault found,
    MissingTool without Java.
    """
    question = Question(key, time, where, dict(streams or {}), key_groups, bin_s, max_bad_share, copies)
    columns = None if schema is None else parse_schema(schema)
    sources = open_sources(files)
    check_columns(sources, None if columns is None else [name for name, _ in columns], key, time)
    check_types(sources, columns, key, time)
    if columns is None and streams is None:
        question = question.with_flight_streams(sources)
    talk("starting Spark")
    with session_for(spark) as session, tempfile.TemporaryDirectory(prefix="holdfast-ingest-") as folder:
        links = linked(sources, Path(folder))
        with spark_errors("ingest"):
            frame, fields = read_all(session, Path(folder), links, columns)
            raise_if_any(type_faults({field.name: field.dataType.simpleString() for field in fields}, key, time))
            marked = frame.transform(rows.instant(fields, time, _US)).transform(_marked(question, fields))
            with _kept(marked):
                talk(f"reading {len(sources)} file{'s' if len(sources) > 1 else ''}")
                counted = marked.transform(_counted(question)).toArrow()
                seen = _seen(question, counted, marked, links)
                talk("collecting keys and bad rows")
                top, keys = _keys(marked)
                quarantine = _quarantine(marked, links)
        versions = _versions(session)
    talk("correlating")
    profile = _profile(question, sources, counted, seen, top_keys=top, keys=keys, versions=versions)
    return profile, quarantine


# ------------------------------------------------------------------------------------------------ on Spark


@contextlib.contextmanager
def _kept(frame: DataFrame) -> Iterator[None]:
    """The frame is computed once for all that is asked of it inside."""
    frame.persist()
    try:
        yield
    finally:
        frame.unpersist()


def _marked(question: Question, fields: StructType) -> rows.Step:
    """A step: what becomes of each row, its key, key group and bin, and the streams it is part of."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    def step(frame: DataFrame) -> DataFrame:
        visible = frame.select(*[rows.quoted(name) for name in fields.names])
        wanted = F.lit(True) if question.where is None else condition(visible, question.where, "ingest.where")
        flags = [condition(visible, sql, f"ingest.streams.{name}") for name, sql in question.streams.items()]
        key = F.col(rows.quoted(question.key)).cast("string")
        status = (
            F.when(F.col(rows.WHY).isNotNull(), _BAD)
            .when(~wanted, _UNWANTED)
            .when(key.isNull() | (key == ""), _NO_KEY)
            .otherwise(_KEPT)
        )
        kept = F.col(_STATUS) == _KEPT
        hashed = F.crc32(key.cast("binary"))
        group = F.pmod(hashed, F.lit(question.key_groups)).cast("int") if question.copies == 1 else hashed
        minutes = F.col(AIR_TIME) if _has_minutes(fields) else F.lit(None)
        return frame.withColumn(_STATUS, status).select(
            _STATUS,
            F.when(kept, key).alias(_KEY),
            F.when(kept, group).alias(_GROUP),
            F.when(kept, F.expr(f"({_US} - pmod({_US}, {question.bin_us}L)) div {question.bin_us}L")).alias(_BIN),
            F.when(kept, minutes).cast("bigint").alias(_MINUTES),
            *[F.when(kept, flag).otherwise(False).alias(f"_hf_s{k}") for k, flag in enumerate(flags)],
            rows.WHY,
            F.when(F.col(rows.WHY).isNotNull(), F.col(rows.RAW)).alias(rows.RAW),
            rows.FILE,
        )

    return step


def _has_minutes(fields: StructType) -> bool:
    return AIR_TIME in fields.names and fields[AIR_TIME].dataType.simpleString() in INTEGERS


def _counted(question: Question) -> rows.Step:
    """A step: rows per status, key group and bin, of them those of each stream, and minutes in the air.

    Kept rows count once for each copy.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    names = [f"s{k}" for k in range(len(question.streams))]
    sums = [F.sum(F.col(f"_hf_{name}").cast("bigint")).alias(name) for name in names]

    def step(frame: DataFrame) -> DataFrame:
        counted = frame.groupBy(_STATUS, _GROUP, _BIN).agg(
            F.count(F.lit(1)).alias("rows"),
            *sums,
            F.sum(_MINUTES).alias("minutes"),
            F.count(_MINUTES).alias("flights"),
        )
        if question.copies == 1:
            return counted
        copied = in_copies(question.copies, question.key_groups, _GROUP, (_STATUS, _BIN), ("rows", *names, *_IN_AIR))
        return counted.transform(copied)

    return step


def _seen(question: Question, counted: pa.Table, marked: DataFrame, links: Mapping[str, Source]) -> dict[int, int]:
    """Rows by status. Raises InputError above the share of bad rows, and where no row is left."""
    seen = dict.fromkeys((_BAD, _UNWANTED, _NO_KEY, _KEPT), 0)
    status, count = counted[_STATUS].to_numpy(), counted["rows"].to_numpy()
    seen.update({which: int(count[status == which].sum()) for which in seen})
    seen[_KEPT] //= question.copies
    read = sum(seen.values())
    if not read:
        raise InputError.at("ingest.files", NO_VALUE, "no rows: the files hold a header or a schema alone")
    limit = question.max_bad_share
    if seen[_BAD] / read > limit:
        bad = _quarantine(marked, links, most=3).to_pylist()
        shown = "; ".join(dict.fromkeys(f"{row['file']}: {row['why']}" for row in bad))
        rule = f"{seen[_BAD]} of {read} rows ({display.share(seen[_BAD] / read)}) cannot be used, such as {shown}"
        hint = "with --max-bad-share 1 the bad rows are kept in quarantine.parquet of the profile"
        raise InputError.at("ingest.max_bad_share", limit, rule, hint)
    if not seen[_KEPT]:
        rule = (
            f"no row is left of {read}: {seen[_BAD]} are bad, {seen[_UNWANTED]} not wanted by where, "
            f"{seen[_NO_KEY]} without a key"
        )
        raise InputError.at("ingest", NO_VALUE, rule)
    return seen


def _keys(marked: DataFrame) -> tuple[tuple[tuple[str, int], ...], int]:
    """The most frequent keys with their rows, ties by key, and how many keys there are."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    counts = marked.where(F.col(_STATUS) == _KEPT).groupBy(_KEY).agg(F.count(F.lit(1)).alias("rows"))
    top = counts.orderBy(F.desc("rows"), F.asc(_KEY)).limit(TOP_KEYS).collect()
    return tuple((row[0], row[1]) for row in top), counts.count()


def _quarantine(marked: DataFrame, links: Mapping[str, Source], most: int | None = None) -> pa.Table:
    """The bad rows as a table of raw, why, file (its name as the user gave it), in the order of the files."""
    import pyarrow as pa  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    bad = marked.where(F.col(_STATUS) == _BAD).select(rows.RAW, rows.WHY, rows.FILE)
    bad = bad.orderBy(rows.FILE, rows.RAW, rows.WHY)
    found = (bad if most is None else bad.limit(most)).toArrow()
    return pa.table(
        {
            "raw": found[rows.RAW].cast(pa.string()),
            "why": found[rows.WHY].cast(pa.string()),
            "file": pa.array([links[link].name for link in found[rows.FILE].to_pylist()], pa.string()),
        }
    )


def _versions(session: SparkSession) -> dict[str, str]:
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
    streams = (ALL, *question.streams)
    first, counts = _series(question, counted)
    minutes, flights = (
        sum(n for n in counted[name].to_pylist() if n is not None) // question.copies for name in _IN_AIR
    )
    start = _EPOCH + datetime.timedelta(microseconds=first * question.bin_us)
    return Profile(
        sources=tuple(source.name for source in sources),
        key=question.key,
        time=question.time,
        where=question.where,
        hash=PLAIN if question.copies == 1 else SALTED,
        copies=question.copies,
        key_groups=question.key_groups,
        bin_s=float(question.bin_s),
        start=instant_text(start),
        streams=streams,
        counts=counts,
        selectivity=selectivities(streams, counts),
        correlation=pearson(counts.reshape(-1, counts.shape[2])),
        totals={
            "rows_read": sum(seen.values()),
            "rows_kept": seen[_KEPT],
            "rows_dropped": seen[_UNWANTED] + seen[_NO_KEY],
            "rows_quarantined": seen[_BAD],
        },
        filters=question.streams,
        minutes_in_air={"total": minutes, "mean": minutes / flights} if flights else None,
        **known,
    )


def _series(question: Question, counted: pa.Table) -> tuple[int, np.ndarray]:
    """The number of the first bin since 1970, and the counts (streams, key groups, bins)."""
    kept = counted.filter(counted[_STATUS].to_numpy() == _KEPT)
    group, bin_ = kept[_GROUP].to_numpy(), kept[_BIN].to_numpy()
    columns = [kept[name].to_numpy() for name in ("rows", *(f"s{k}" for k in range(len(question.streams))))]
    first = int(bin_.min())
    bins = int(bin_.max()) - first + 1
    if len(columns) * question.key_groups * bins > MOST_CELLS:
        rule = f"makes {bins} bins, too many with {len(columns)} streams of {question.key_groups} key groups"
        hint = "take longer bins, or leave out times by where"
        raise InputError.at("ingest.bin", question.bin_s, rule, hint)
    counts = np.zeros((len(columns), question.key_groups, bins), dtype=np.int64)
    for stream, values in enumerate(columns):
        counts[stream, group, bin_ - first] = values
    return first, counts
