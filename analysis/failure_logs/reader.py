"""Failure logs without Spark: row by row, for logs that fit the memory; what the reader with Spark has to equal.

It is the specification of the two readers: plain loops, one record after the other. Read `read_plain` first, then
`_record`, which decides about one record.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.failure_logs import records
from analysis.failure_logs.records import LANL, LogQuestion, Records
from analysis.spark.sources import Source, reason_of
from models.errors import InputError
from models.reliability.failure_log import STILL_DOWN, merged

_MOST_EXAMPLES = 20


@dataclass
class _Found:
    """One record that may be used."""

    file: str
    raw: str
    host: str
    down: int
    up: int
    line: int


@dataclass
class _Tally:
    """Counts of the records so far."""

    read: int = 0
    unwanted: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    watched: dict[str, tuple[str, str]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    first_bad: str = ""

    def refuse(self, file: str, line: int, why: str, raw: str) -> None:
        self.bad[why] += 1
        self.examples.append((file, why, raw))
        self.first_bad = self.first_bad or f"{file}, {'row' if file.endswith('.parquet') else 'line'} {line}"


def read_plain(sources: Sequence[Source], kind: str, question: LogQuestion) -> Records:
    """Return the records of the files; all have the format `kind`. Raises InputError for a file that breaks off.

    Counts are of records, before outages of a host that overlap or touch become one. `Records.first_bad` names file and
    line of the first bad record, which the reader with Spark cannot know.
    """
    tally, found, causes = _Tally(), [], []
    for source in sources:
        for line, values, raw in _rows(source):
            tally.read += 1
            cause = _cause(values, kind) if values else records.NO_CAUSE
            if values and kind == LANL and question.systems and _text(values["System"]) not in question.systems:
                tally.unwanted += 1
                continue
            one = _record(source.name, line, raw, values, kind, question.zone)
            if isinstance(one, str):
                tally.refuse(source.name, line, one, raw)
                continue
            if kind == LANL:  # whatever the cause: the host was there
                # Before the filter by cause: a host whose failures are not asked for was in production all the same.
                tally.watched[one.host] = (_text(values["node prod"]), _text(values["node decom"]))
                tally.sizes[_text(values["System"])] = int(_text(values["nodes"]))
            if question.causes and cause not in question.causes:
                tally.unwanted += 1
                continue
            found.append(one)
            causes.append(cause)
    return _records(kind, tally, found, causes)


def _records(kind: str, tally: _Tally, found: Sequence[_Found], causes: Sequence[str]) -> Records:
    """Return the records with open ones checked, hosts numbered by name, and overlaps merged."""
    last: dict[str, int] = {}
    for one in found:
        # An open record is only good as the last one of its host, whatever the order of the file.
        last[one.host] = max(last.get(one.host, 0), one.down)
    used = []
    for one, cause in zip(found, causes, strict=True):
        if one.up == STILL_DOWN and last[one.host] > one.down:
            tally.refuse(one.file, one.line, records.FAILS_AGAIN, one.raw)
        else:
            used.append(one)
            tally.causes[cause] += 1
    # Sorted names, so that numbers do not depend on the order of files, and equal those of Spark.
    names = sorted({one.host for one in used})
    number = {name: index for index, name in enumerate(names)}
    columns = [(number[one.host], one.down, one.up) for one in used]
    host, down, up = (
        merged(*(np.array(column, dtype=np.int64) for column in zip(*columns, strict=True)))
        if used
        else (np.zeros(0, dtype=np.int64),) * 3
    )
    return Records(
        kind, tuple(names[index] for index in host.tolist()), down, up, tally.read, len(used), tally.unwanted,
        dict(sorted(tally.bad.items())), sorted(tally.examples)[:_MOST_EXAMPLES], dict(sorted(tally.causes.items())),
        dict(sorted(tally.watched.items())), dict(sorted(tally.sizes.items())), tally.first_bad,
    )  # fmt: skip


def _rows(source: Source) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Yield number, values by column and text of each record; no values where the line lacks a column.

    Lines are decoded as UTF-8 with replacement characters, and numbered from 1, the header; empty lines are passed
    over.
    """
    if source.suffix == ".parquet":
        yield from _parquet_rows(source)
        return
    try:
        with gzip.open(source.path, "rb") if source.suffix == ".csv.gz" else source.path.open("rb") as file:
            next(file)
            for number, line in enumerate(file, start=2):
                text = line.decode("utf-8", errors="replace").rstrip("\r\n")
                if text.strip():
                    yield number, _fields(text, source.columns), text
    except (OSError, EOFError) as error:
        raise InputError.at("FILE", source.name, f"cannot be read to its end: {reason_of(error)}") from None


def _fields(text: str, columns: Sequence[str]) -> Mapping[str, Any]:
    """Return column -> text of a line; empty where it is no CSV or has another number of fields."""
    try:
        # Line by line, as Spark reads: a quote that is not closed must spoil one record, not the rest of the file.
        values = next(csv.reader([text], strict=True))
    except (csv.Error, StopIteration):
        return {}
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else {}


def _parquet_rows(source: Source) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """Yield the rows of a Parquet file; timestamps are cut to microseconds."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed for CSV
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(source.path)
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            # Nanoseconds would become pandas objects; times here are in microseconds, as everywhere.
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        columns[name] = column.to_pylist()
    for number, values in enumerate(zip(*columns.values(), strict=True), start=1):
        row = dict(zip(columns, values, strict=True))
        yield number, row, ",".join(_text(value) for value in values)


def _record(file: str, line: int, raw: str, values: Mapping[str, Any], kind: str, zone: str) -> _Found | str:
    """Return the record, or why it cannot be used.

    The reason is the first that holds, in the order of `analysis.failure_logs.records`. Times are microseconds since
    1970; an empty end means that the host is still down.
    """
    if not values:
        return records.MALFORMED
    if kind == LANL:
        system, node, nodes = (_text(values[name]) for name in ("System", "nodenumz", "nodes"))
        if not (system and node.isdecimal() and nodes.isdecimal()):
            return records.NO_HOST
        if int(node) >= int(nodes):
            return records.NO_NODE
        host, down, up = f"{system}-{int(node)}", values["Prob Started"], values["Prob Fixed"]
    else:
        host, down, up = _text(values["host"]), values["down"], values["up"]
        if not host:
            return records.NO_HOST
    begin = _instant(down, kind, zone)
    if begin is None:
        return records.NO_DOWN
    end = STILL_DOWN if _is_missing(up) else _instant(up, kind, zone)
    if end is None:
        return records.NO_UP
    return records.BACKWARDS if STILL_DOWN < end < begin else _Found(file, raw, host, begin, end, line)


def _instant(value: Any, kind: str, zone: str) -> int | None:
    """Return microseconds since 1970 of a value of any type that the format has; None where it is no time."""
    if isinstance(value, datetime.datetime):
        return records.datetime_us(value, zone)
    text = _text(value)
    if kind == LANL:
        return records.lanl_us(text, zone)
    found = records.number_us(text)
    return records.iso_us(text, zone) if found is None else found


def _is_missing(value: Any) -> bool:
    return _text(value) == ""


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value).strip(" ")


def _cause(values: Mapping[str, Any], kind: str) -> str:
    if kind == LANL:
        return next((cause for cause in records.CAUSES if _text(values[cause])), records.NO_CAUSE)
    return _text(values.get("cause")) or records.NO_CAUSE
