"""The files that ingest reads: their kinds and columns, checked before Spark starts.

Columns come from the header of a CSV file, the schema of a Parquet file, or the first lines of a file of JSON lines;
fields of inner JSON objects have dotted paths. Faults are told with the name of the file, all at once.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.spark.schema import FRACTIONS, NESTED, Columns, parse_schema, type_faults
from models.errors import NO_VALUE, InputError, InputFault, header_hint, raise_if_any, shortened

LINES = 1000
"""Rows that are read to find the columns; a column that none of them has counts as null everywhere."""
MOST_COLUMNS = 1000
SHORT_GZIP = "the gzip file ends too early"
_LONGEST_LINE = 1_000_000
_NESTED = "nested"
_HINT = "one object per line: jq -c '.[]' makes lines of an array"


def columns_of(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the columns with their types, by Spark's names, in order of appearance.

    A column's type is that of most of its values, and double where whole numbers and others mix; lists are left out.
    Raises InputError for a file without an object in a line.
    """
    kinds: dict[str, Counter[str]] = {}
    found = 0
    for number, line in enumerate(_lines(path)):
        if number == 0 and line.lstrip().startswith("["):
            raise InputError.at("ingest.files", str(path), "begins with an array, not with an object", _HINT)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            # Not an error here: bad rows are counted by Spark, against the share that the user allows.
            continue  # one bad line is a bad row
        if isinstance(row, dict):
            found += 1
            _note(row, "", kinds)
    if not found:
        rule = f"has no JSON object in one of its first {LINES} lines"
        raise InputError.at("ingest.files", str(path), rule, _HINT)
    if len(kinds) > MOST_COLUMNS:
        rule = f"has more than {MOST_COLUMNS} different fields in its first {LINES} lines"
        raise InputError.at("ingest.files", str(path), rule, "its names must not be data")
    simple = {name: _kind(values) for name, values in kinds.items()}
    return tuple((name, kind) for name, kind in simple.items() if kind != _NESTED and _in_objects(name, simple))


def _lines(path: Path) -> Iterator[str]:
    """Yield the first lines of a file of JSON lines as text; raises InputError for an empty or broken file."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            empty = True
            for number in range(LINES):
                # With a limit: a file without line ends must not be read into memory as one line.
                line = file.readline(_LONGEST_LINE)
                if not line:
                    break
                empty = False
                yield line.decode("utf-8-sig" if number == 0 else "utf-8", "replace")
    except EOFError:
        raise InputError.at("ingest.files", str(path), f"cannot be read: {SHORT_GZIP}") from None
    if empty:
        raise InputError.at("ingest.files", str(path), "is empty")


def _note(row: Mapping[str, Any], before: str, kinds: dict[str, Counter[str]]) -> None:
    """Add what kinds of values the fields have; names that a dotted path cannot tell are left out."""
    for field, value in row.items():
        # A dot in a name would be taken for a path to an inner field.
        if not field or "." in field:
            continue
        name = before + field
        known = kinds.setdefault(name, Counter())
        if isinstance(value, dict):
            known[_NESTED] += 1
            _note(value, name + ".", kinds)
        elif value is not None:
            known[_KINDS.get(type(value), _NESTED)] += 1


_KINDS = {str: "string", bool: "boolean", int: "bigint", float: "double"}


def _kind(kinds: Counter[str]) -> str:
    """Return the type of a field: that of most values. Of a field that is always null, text."""
    most = max(kinds, key=lambda kind: kinds[kind], default="string")
    # Writers leave ".0" out: whole numbers among others are fractions as well.
    return "double" if most == "bigint" and kinds["double"] else most


def _in_objects(name: str, kinds: Mapping[str, str]) -> bool:
    """Return whether all that the field is part of are objects."""
    parts = name.split(".")
    return all(kinds[".".join(parts[:count])] == _NESTED for count in range(1, len(parts)))


def held_by_others(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of columns (whole, part): a row cannot have both.

    >>> held_by_others(("a", "a.b", "c"))
    [('a', 'a.b')]
    """
    known = set(names)
    paths = ((name, name[:place]) for name in names for place, letter in enumerate(name) if letter == ".")
    return [(whole, name) for name, whole in paths if whole in known]


def structure(names: Sequence[str]) -> dict[str, Any]:
    """Return names as fields within fields: those at the end are None.

    >>> structure(("a", "b.c", "b.d"))
    {'a': None, 'b': {'c': None, 'd': None}}
    """
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = name.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = None
    return tree


RESERVED = "_hf_"  # columns that ingest adds to those of the files
TABLES = (".csv", ".csv.gz", ".parquet")
JSON = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
SUFFIXES = (*TABLES, *JSON)
_LONGEST_HEADER = 1_000_000

# One row per scheduled flight, as the US Bureau of Transportation Statistics reports them.
FLIGHT_SCHEMA = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, "
    "dest STRING, air_time INT, distance INT, sched_dep_ts TIMESTAMP"
)
FLIGHT_STREAMS = {"delayed": "arr_delay > 0", "airborne": "air_time IS NOT NULL"}
FLIGHT_COLUMNS = tuple(part.split()[0] for part in FLIGHT_SCHEMA.split(", "))


@dataclass(frozen=True)
class Source:
    """One file: where it is, its suffix (of SUFFIXES) and its columns in order; types by name for Parquet and JSON.

    Those of JSON are what its first lines have, by Spark's names; later ones may have more.
    """

    path: Path
    suffix: str
    columns: tuple[str, ...]
    types: tuple[tuple[str, Any], ...] = ()

    @property
    def is_json(self) -> bool:
        """True if each line is a JSON object."""
        return self.suffix in JSON

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.name


def open_sources(files: Iterable[str | Path], suffixes: Sequence[str] = SUFFIXES) -> tuple[Source, ...]:
    """Return the kind of the files by their suffixes. Raises InputError with a fault for each that is no use."""
    paths = [Path(name) for name in files]
    if not paths:
        raise InputError.at("ingest.files", NO_VALUE, "must name at least one file")
    found: list[Source] = []
    faults: list[InputFault] = []
    for path in paths:
        try:
            found.append(_source(path, suffixes))
        except InputError as error:
            faults += error.faults
    raise_if_any(faults)
    # Unlike Path.resolve, this does not raise for a link that leads to itself.
    # The same file twice, perhaps by a link, would count its rows twice.
    for place, times in Counter(map(os.path.realpath, paths)).items():
        if times > 1:
            faults.append(InputFault("ingest.files", Path(place).name, "is named more than once"))
    raise_if_any(faults)
    return tuple(found)


def common_columns(sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the columns that every file has, in the order of the first file."""
    shared = set(sources[0].columns).intersection(*(source.columns for source in sources[1:]))
    return tuple(name for name in sources[0].columns if name in shared)


def check_columns(sources: Sequence[Source], schema: Sequence[str] | None, options: Mapping[str, str]) -> None:
    """Raise InputError where a file does not fit the schema (None: that of flights), or lacks a column of `options`.

    options: option -> column, such as key and time.

    A schema that the user gave names every column of a CSV file, and columns that all files have; what a line of
    JSON lacks is null, so of those files only the columns of `options` must be known.
    """
    known = FLIGHT_COLUMNS if schema is None else tuple(schema)
    faults = []
    for source in sources:
        unknown = [name for name in source.columns if name not in known]
        if unknown and source.suffix != ".parquet" and not source.is_json:
            faults.append(_unknown(source, unknown, known, schema is None))
        missing = [] if schema is None or source.is_json else [name for name in known if name not in source.columns]
        if missing:
            rule = f"lacks columns of the schema: {', '.join(missing)}"
            faults.append(InputFault("ingest.files", source.name, rule, header_hint(source.columns)))
    if schema is not None and any(source.is_json for source in sources):
        for whole, part in held_by_others(schema):
            faults.append(InputFault("ingest.schema", part, f"is part of {whole}, which the schema names as well"))
    raise_if_any(faults)
    shared = common_columns(sources)
    for option, name in options.items():
        path = f"ingest.{option}"
        if name not in shared:
            faults.append(InputFault(path, name, "is not a column of every file", nearest(name, shared)))
        elif schema is not None and name not in known:
            faults.append(InputFault(path, name, "is not a column of the schema", nearest(name, known)))
    raise_if_any(faults)


def check_types(sources: Sequence[Source], given: Columns | None, options: Mapping[str, str]) -> None:
    """Raise InputError where a column of `options` has a type that cannot be one.

    `given` is the schema of the user. Of types that only Spark can name nothing is said here. Without a schema a
    weight may be a column of other numbers: those that are not whole make bad rows.
    """
    kinds = dict(parse_schema(FLIGHT_SCHEMA) if given is None else given)
    if given is None:
        own = dict(sources[0].types)
        kinds = {name: kind if sources[0].is_json else _spark_type(kind) for name, kind in own.items()} | kinds
        if kinds.get(options.get("weight", "")) in FRACTIONS:
            kinds[options["weight"]] = "bigint"
    found = {name: kinds.get(name, _OPEN) for name in options.values()}
    raise_if_any(fault for fault in type_faults(found, options) if found[str(fault.value)] != _OPEN)


def _spark_type(kind: Any) -> str:
    """Return the name that Spark has for a type of Parquet; NESTED for what is no single value."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed for CSV

    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return NESTED
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz or kind.unit == "ns" else "timestamp_ntz"
    return _SPARK_TYPES.get(str(kind), _OPEN)


_OPEN = "known to Spark alone"
_SPARK_TYPES = {
    "string": "string", "large_string": "string", "bool": "boolean", "date32[day]": "date", "float": "float",
    "double": "double", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "uint64",
}  # fmt: skip


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint: the name that is most alike, or how many there are."""
    alike = [one for one in names if one.casefold() == name.casefold()] or difflib.get_close_matches(name, names, n=1)
    return f"did you mean {alike[0]}?" if alike else f"there are {len(names)} columns"


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, without the bytes that gzip quotes of it."""
    if isinstance(error, gzip.BadGzipFile):
        return "it is not a gzip file"
    return getattr(error, "strerror", None) or str(error)


def packed_faults(source: Source, named: str) -> list[InputFault]:
    """Return why the source cannot be unpacked to its end, a fault of the path `named`; nothing where it can."""
    if not source.suffix.endswith(".gz"):
        return []
    try:
        with gzip.open(source.path, "rb") as file:
            # To the end: Spark reports a broken archive only by a stack of Java, without the name of the file.
            while file.read(1 << 20):
                pass
    except EOFError:
        reason = SHORT_GZIP
    except (zlib.error, gzip.BadGzipFile):  # it began as one
        reason = "the gzip file is broken"
    except OSError as error:
        reason = reason_of(error)
    else:
        return []
    return [InputFault(named, str(source.path), f"cannot be read: {reason}")]


def _unknown(source: Source, unknown: list[str], known: Sequence[str], flights: bool) -> InputFault:
    """Return the fault of a CSV file with columns that the schema lacks, with the nearest name as a hint."""
    # A file without a header line shows its first row as names: those are data, and not for messages or logs.
    shown = _numbers(source, unknown)
    alike = difflib.get_close_matches(unknown[0], known, n=1)
    hint = 'give the schema of all its columns, as in "time TIMESTAMP, id STRING, ..."'
    if alike:
        hint = f"did you mean {alike[0]} in column {source.columns.index(unknown[0]) + 1}?"
    rule = f"has columns that {'flight records do not have' if flights else 'the schema lacks'}: {shown}"
    return InputFault("ingest.files", source.name, rule, hint)


def _numbers(source: Source, names: Sequence[str]) -> str:
    """Return the numbers of some columns, which messages show in place of what may be a line of a foreign file.

    Fields of JSON have no numbers: of those the names.
    """
    if source.is_json:
        return shortened(", ".join(map(repr, names)))
    return ", ".join(f"number {place}" for place, name in enumerate(source.columns, start=1) if name in names)


def _source(path: Path, suffixes: Sequence[str]) -> Source:
    """Return one file with its columns; raises InputError for a path that is no file of a known kind."""
    suffix = next((end for end in suffixes if path.name.lower().endswith(end)), None)
    if path.is_dir():
        raise InputError.at("ingest.files", str(path), "is a folder", "name the files in it")
    if suffix is None:
        raise InputError.at("ingest.files", str(path), f"must end in {', '.join(suffixes)}")
    if not path.is_file():
        raise InputError.at("ingest.files", str(path), "no such file")
    try:
        source = _opened(path, suffix)
    except OSError as error:  # a broken gzip file is one of them
        raise InputError.at("ingest.files", str(path), f"cannot be read: {reason_of(error)}") from None
    return _with_different_names(source)


def _opened(path: Path, suffix: str) -> Source:
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in JSON:
        types = columns_of(path)
        return Source(path, suffix, tuple(name for name, _ in types), types)
    return Source(path, suffix, _header(path, suffix))


def _with_different_names(source: Source) -> Source:
    """Return the source; raises InputError where names of columns are equal, empty or reserved."""
    # Spark compares names without case by default.
    times = Counter(name.casefold() for name in source.columns)
    twice = sorted({name for name in source.columns if times[name.casefold()] > 1})
    if twice:
        rule = f"has columns of the same name: {_numbers(source, twice)}"
        if source.is_json:
            same = [name for name in twice if name.casefold() == twice[0].casefold()]
            rule = f"has fields whose names differ in case alone: {_numbers(source, same)}"
        raise InputError.at("ingest.files", source.name, rule)
    ours = [name for name in source.columns if name.startswith(RESERVED)]
    if ours:
        raise InputError.at(
            "ingest.files", source.name, f"has columns that begin with {RESERVED}: {_numbers(source, ours)}"
        )
    if not all(source.columns):
        place = source.columns.index("") + 1
        raise InputError.at("ingest.files", source.name, f"column {place} has no name in the header line")
    return source


def _header(path: Path, suffix: str) -> tuple[str, ...]:
    """Return the names of the first line of a CSV file; raises InputError where it is none."""
    try:
        with gzip.open(path, "rb") if suffix == ".csv.gz" else path.open("rb") as file:
            start = file.readline(_LONGEST_HEADER).rstrip(b"\r\n")
        # Spark takes such a file for one line, and would report a single malformed row.
        if b"\r" in start:
            rule, hint = "has a line that ends in CR alone", "lines end in LF or CR LF: tr '\\r' '\\n' makes them so"
            raise InputError.at("ingest.files", str(path), rule, hint)
        line = start.decode("utf-8-sig")
    except EOFError:
        raise InputError.at("ingest.files", str(path), f"cannot be read: {SHORT_GZIP}") from None
    except UnicodeDecodeError:
        raise InputError.at("ingest.files", str(path), "the header line is not UTF-8 text") from None
    if not line.strip():
        raise InputError.at("ingest.files", str(path), "is empty or its first line is", "it needs a header line")
    try:
        return tuple(next(csv.reader([line])))
    except csv.Error as error:
        raise InputError.at("ingest.files", str(path), f"has a header line that is not CSV: {error}") from None


def _parquet(path: Path) -> Source:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed for CSV
    from pyarrow import parquet  # noqa: PLC0415

    try:
        schema = parquet.read_schema(path)
    except pa.ArrowException as error:
        rule = f"is not a Parquet file: {str(error).splitlines()[0]}"
        raise InputError.at("ingest.files", str(path), rule) from None
    types = tuple((field.name, field.type) for field in schema)
    return Source(path, ".parquet", tuple(schema.names), types)
