"""Rows of files as typed columns, each row with the reason why it is bad: DataFrame in, DataFrame out.

Columns of our own begin with an underscore and `hf`: `_hf_why`, `_hf_raw` and `_hf_file` here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from analysis.spark.schema import FRACTIONS, INTEGERS, SIMPLE_TYPES, Columns, parse_schema
from analysis.spark.sources import FLIGHT_SCHEMA, JSON, Source, common_columns, structure

Step = Callable[[DataFrame], DataFrame]

WHY, RAW, FILE = "_hf_why", "_hf_raw", "_hf_file"
CORRUPT, LINE = "_hf_corrupt", "_hf_line"
MALFORMED = "malformed line"
MOST_WEIGHT = 10**9
NANOS = "timestamp[ns"
_ISO = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
_AS_WRITTEN = {
    "escape": '"',
    "emptyValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}  # blanks stay, and nothing stands for an empty field
_CSV = {"escape": '"', "header": "true"}  # a quote in a quoted field is doubled, as RFC 4180 has it


def quoted(name: str) -> str:
    """Return the column's name for Spark, whatever characters it has.

    >>> quoted("tail`number")
    '`tail``number`'
    """
    return "`" + name.replace("`", "``") + "`"


def read_all(
    spark: SparkSession, folder: Path, links: Mapping[str, Source], given: Columns | None, weight: str | None = None
) -> tuple[DataFrame, StructType]:
    """Return the rows of all files, typed, and their columns: those of `given`, else those that every file has.

    links: name in `folder` -> file. Without `given`, columns of flights have their types and those that only
    Parquet files have keep their own, where simple; but the weight is a whole number.
    """
    sources = tuple(links.values())
    alike: dict[tuple[Any, ...], list[str]] = {}
    for link, source in links.items():
        kind = ".csv" if source.suffix == ".csv.gz" else JSON[0] if source.is_json else source.suffix
        alike.setdefault((kind, source.columns, source.types), []).append(str(folder / link))
    names = common_columns(sources) if given is None else tuple(name for name, _ in given)
    known = {field.name: field for field in struct(parse_schema(FLIGHT_SCHEMA) if given is None else given)}
    if sources[0].is_json:
        known = {field.name: field for field in struct(sources[0].types)} | known
    frames = []
    for (kind, columns, types), paths in alike.items():
        if kind == ".parquet":
            # Files with equal columns are read together: one scan for thousands of files of a trace.
            frames.append(read_parquet(spark, paths, names, [n for n, kind in types if str(kind).startswith(NANOS)]))
        else:
            frames.append(read_json(spark, paths, names) if kind in JSON else read_csv(spark, paths, columns))
    own = frames[0].schema
    fields = [known[name] if name in known else StructField(name, own[name].dataType) for name in names]
    if given is None:  # one fraction makes a column of fractions, and whole numbers beside nulls are often written so
        fractions = [field.name == weight and field.dataType.simpleString() in FRACTIONS for field in fields]
        fields = [StructField(f.name, LongType()) if is_so else f for f, is_so in zip(fields, fractions, strict=True)]
    schema = StructType([field for field in fields if field.dataType.simpleString() in SIMPLE_TYPES])
    rows = [frame.transform(typed(schema)) for frame in frames]
    return functools.reduce(lambda one, other: one.unionByName(other), rows), schema


def read_csv(spark: SparkSession, paths: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Return all fields of the files as text, and the line in `_hf_corrupt` where it has not all of them.

    Empty fields are null. A line with too few or too many fields, or with a quote that is not closed, is a bad row, and
    spoils no other one.
    """
    # Everything as text first: with types Spark would put null for a bad field, and its reason and text were lost.
    schema = StructType([StructField(name, StringType()) for name in (*columns, CORRUPT)])
    # No pruning of columns: Spark then would not parse, and so not check, the fields that nobody uses.
    reader = spark.read.schema(schema).options(
        **_CSV, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, columnPruning="false",
        maxCharsPerColumn="-1",
    )  # fmt: skip
    return reader.csv(list(paths)).transform(_with_file)


def line_of(names: Sequence[str]) -> Column:
    """Return the line of a CSV file with these fields of text; only needless quotes of the original are lost."""
    return F.to_csv(F.struct(*[F.col(quoted(name)) for name in names]), _AS_WRITTEN)


def read_json(spark: SparkSession, paths: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Return the columns, dotted where they are within others, as text, and the line in `_hf_line`.

    It is in `_hf_corrupt` as well where it is not one object, or has a value where an object should be.
    """

    def fields(tree: Mapping[str, Any]) -> StructType:
        kinds = [(name, StringType() if inner is None else fields(inner)) for name, inner in tree.items()]
        return StructType([StructField(name, kind) for name, kind in kinds])

    def value(name: str) -> Column:
        return F.col(".".join(["row", *map(quoted, name.split("."))])).alias(name)

    schema = fields(structure(columns)).add(CORRUPT, StringType())
    strict = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false", "columnNameOfCorruptRecord": CORRUPT}
    lines = spark.read.text(list(paths)).transform(_with_file).where(F.trim("value") != "")
    # Broken bytes become U+FFFD, which `typed` finds; `from_json` would stop the job.
    lines = lines.withColumn("value", F.make_valid_utf8("value"))
    # What comes after the object would be passed over in silence.
    alone = F.json_array_length(F.concat(F.lit("["), "value", F.lit("]"))) == 1
    parsed = lines.select("value", F.from_json("value", schema, strict).alias("row"), alone.alias("alone"), FILE)
    corrupt = F.when(F.coalesce("alone", F.lit(False)), F.col(f"row.{CORRUPT}")).otherwise(F.col("value"))
    return parsed.select(*map(value, columns), corrupt.alias(CORRUPT), F.col("value").alias(LINE), FILE)


def read_parquet(spark: SparkSession, paths: Sequence[str], columns: Sequence[str], nanos: Sequence[str]
                 ) -> DataFrame:  # fmt: skip
    """Return the columns of the files; those of `nanos` are whole nanoseconds, made timestamps here."""

    def value(name: str) -> Column:
        if name not in nanos:
            return F.col(quoted(name))
        count = quoted(name)
        return F.expr(f"timestamp_micros(({count} - pmod({count}, 1000L)) div 1000L)").alias(name)

    frame = spark.read.parquet(*paths).transform(_with_file)
    return frame.select(*[value(name) for name in columns], FILE)


def typed(schema: StructType) -> Step:
    """Return a step: exactly the columns of `schema` in its types, `_hf_why`, `_hf_raw` and `_hf_file`.

    `schema` gives the columns and their order. A value that does not fit its type makes the whole row bad, with the
    first such column as the reason; the row keeps its text in `_hf_raw`. A missing value is null, and no fault.
    """

    def step(frame: DataFrame) -> DataFrame:
        is_text = CORRUPT in frame.columns
        source = {field.name: field.dataType for field in frame.schema}
        # Of Parquet only simple columns: not every type can be shown as text.
        names = [n for n in frame.columns if n not in (CORRUPT, LINE, FILE) and (is_text or n in schema.names)]
        values, reasons = [], []
        if is_text:
            reasons.append(F.when(F.col(CORRUPT).isNotNull(), MALFORMED))
        for field in schema:
            column = F.col(quoted(field.name))
            present, value = _converted(column, source[field.name], field.dataType)
            values.append(value.alias(field.name))
            kind = field.dataType.simpleString().upper()
            reasons.append(F.when(present & value.isNull(), F.lit(f"{field.name}: not {_article(kind)}")))
            if is_text and kind == "STRING":
                reasons.append(F.when(column.contains("\ufffd"), F.lit(f"{field.name}: not UTF-8")))
        whole = F.struct(*[F.col(quoted(name)) for name in names])
        if LINE in frame.columns:
            raw = F.col(LINE)
        else:
            raw = F.coalesce(F.col(CORRUPT), F.to_csv(whole, {"escape": '"'})) if is_text else F.to_json(whole)
        # The first reason of the columns in their order: the same row always has the same reason.
        why = F.coalesce(*reasons, F.lit(None).cast("string"))
        return frame.select(*values, why.alias(WHY), raw.alias(RAW), FILE)

    return step


def instant(schema: StructType, time: str, to: str) -> Step:
    """Return a step: column `to` = microseconds since 1970 of the time column; a row without one is bad.

    Text has to be ISO 8601, and is UTC where it names no zone.
    """
    is_text = schema[time].dataType.simpleString() == "string"
    column = F.col(quoted(time))
    stamp = _timestamp_of_text(column) if is_text else column.cast("timestamp")

    def step(frame: DataFrame) -> DataFrame:
        reason = F.coalesce(
            F.col(WHY),
            F.when(column.isNull(), F.lit(f"{time}: missing")),
            F.when(stamp.isNull(), F.lit(f"{time}: not a TIMESTAMP")),
            F.when(~F.year(stamp).between(1, 9999), F.lit(f"{time}: not in the years 1 to 9999")),
        )
        return frame.withColumn(to, F.unix_micros(stamp)).withColumn(WHY, reason)

    return step


def weighed(weight: str | None, to: str) -> Step:
    """Return a step: column `to` = how many rows a row stands for: 1 without `weight`, or where that cannot be told.

    A row without a weight, or with a negative or vast one, is bad; a row that stands for none is gone.
    """

    def step(frame: DataFrame) -> DataFrame:
        if weight is None:
            return frame.withColumn(to, F.lit(1).cast("bigint"))
        found, malformed = F.col(quoted(weight)), F.coalesce(F.col(WHY) == MALFORMED, F.lit(False))
        reason = F.coalesce(
            F.col(WHY),
            F.when(found.isNull(), F.lit(f"{weight}: missing")),
            F.when(found < 0, F.lit(f"{weight}: negative")),
            F.when(found > MOST_WEIGHT, F.lit(f"{weight}: more than {MOST_WEIGHT}")),
        )
        # A bad row counts once: its weight cannot be trusted.
        stands_for = F.when(~malformed & found.between(0, MOST_WEIGHT), found.cast("bigint")).otherwise(F.lit(1))
        counted = frame.withColumn(WHY, reason).withColumn(to, stands_for.cast("bigint"))
        return counted.where(F.col(to) > 0)

    return step


def _with_file(frame: DataFrame) -> DataFrame:
    return frame.withColumn(FILE, F.col("_metadata.file_name"))


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "AEIOU" else f"a {kind}"


def _converted(column: Any, source: DataType, target: DataType) -> tuple[Column, Column]:
    """Return whether the source has a value, and that value in the target type: null where it does not fit."""
    have, want = source.simpleString(), target.simpleString()
    present = column.isNotNull()
    if have == want:
        return present, column
    if have == "string" and want in INTEGERS:
        return present, F.regexp_replace(column, r"\.0*$", "").try_cast(want)  # files write 12.0 beside nulls
    if have == "string" and want in ("timestamp", "timestamp_ntz", "date"):
        return present, _timestamp_of_text(column).cast(want)
    if (have in FRACTIONS or have.startswith("decimal")) and want in INTEGERS:
        if have in FRACTIONS:
            present = present & ~F.isnan(column)  # some writers have no other null
        return present, F.when(present & (column == F.floor(column)), column).try_cast(want)
    return present, column.try_cast(want)


def _timestamp_of_text(column: Any) -> Column:
    # Spark alone would read "12:30" as a time of today.
    text = F.trim(column)
    return F.when(text.rlike(_ISO), text).try_cast("timestamp")


def struct(columns: Columns) -> StructType:
    """Return the columns as Spark has them."""
    kinds = {
        "string": T.StringType, "boolean": T.BooleanType, "date": T.DateType, "timestamp": T.TimestampType,
        "timestamp_ntz": T.TimestampNTZType, "float": T.FloatType, "double": T.DoubleType,
        "tinyint": T.ByteType, "smallint": T.ShortType, "int": T.IntegerType, "bigint": T.LongType,
    }  # fmt: skip
    return T.StructType([T.StructField(name, kinds[kind]()) for name, kind in columns])
