"""Tables in files: Parquet with units, and CSV.

No other module makes a field of a column and its unit, or writes CSV. Parquet files have the same bytes for the same
rows: no time of writing, one compression, one row group per part.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.errors import NO_VALUE, InputError
from models.records.tables import NEVER

_ARROW = {"int64": "int64", "int32": "int32", "float64": "float64", "bool": "bool_", "str": "string"}

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Field:
    """One column of a file: name, type ("int64", "int32", "float64", "bool", "str"), unit and meaning.

    Text columns hold their values in full. Integers of -1 become null where `never` is set.
    """

    name: str
    dtype: str
    unit: str = ""
    meaning: str = ""
    never: bool = False


def write_parquet(
    path: Path, fields: Sequence[Field], parts: Iterable[Mapping[str, np.ndarray | Sequence[object]]]
) -> None:
    """Write the parts, one after the other, as one file with the fields' units and meanings as metadata.

    Each part maps every field's name to values of one length; parts become row groups in their order. The same parts
    give the same bytes. Raises KeyError for a part without a field.
    """
    schema = _schema(fields)
    # Checksums let a reader tell a damaged chunk of a sweep from one with other values.
    with _to(path) as place, pq.ParquetWriter(place, schema, compression="zstd", write_page_checksum=True) as writer:
        for part in parts:
            writer.write_table(_table(schema, fields, part))


def read_parquet(path: Path) -> dict[str, list[object]]:
    """Return column name -> values (None for null); raises InputError when the file is not there or is not
    Parquet.
    """
    try:
        table = pq.read_table(_from(path), page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError.at(str(path), NO_VALUE, "must be a Parquet file", str(error).splitlines()[0]) from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a line of column names and one line for each row; no text in it is a formula to a spreadsheet."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(_Lines(file))
        writer.writerows([_not_formula(cell) for cell in row] for row in chain([columns], rows))


class _Lines:
    """A text file in which the lines of a CSV writer end in a line feed.

    A writer quotes a carriage return within a text only where its own lines end in one.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write one line that ends in a carriage return and a line feed."""
        return self._file.write(line.removesuffix("\r\n") + "\n")


def _not_formula(cell: object) -> object:
    """Return the cell, with an apostrophe before a text that spreadsheets would compute, or take for a command."""
    # Names come from files of others: a spreadsheet would execute "=cmd|..." in one.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def units_of(path: Path) -> dict[str, str]:
    """Return column name -> unit, as written into the file.

    The unit is "" for a column without one.
    """
    schema = pq.read_schema(_from(path))
    return {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in schema}


@contextmanager
def _to(path: Path) -> Iterator[Any]:
    """Yield the place to which Arrow writes: memory if the name is no text; its threads must not meet a Python file."""
    if _is_text(path):
        yield path
        return

    memory = pa.BufferOutputStream()
    yield memory
    path.write_bytes(memory.getvalue())


def _from(path: Path) -> Any:
    """Return the source from which Arrow reads."""
    if _is_text(path):
        return path

    return pa.BufferReader(path.read_bytes())


def _is_text(path: Path) -> bool:
    """Return whether the name is text in UTF-8; Arrow takes no other."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _schema(fields: Sequence[Field]) -> Any:
    return pa.schema(
        [
            pa.field(
                field.name,
                getattr(pa, _ARROW[field.dtype])(),
                metadata={"unit": field.unit, "meaning": field.meaning},
            )
            for field in fields
        ]
    )


def _table(schema: Any, fields: Sequence[Field], part: Mapping[str, np.ndarray | Sequence[object]]) -> Any:
    """Return one part as an Arrow table; -1 becomes null in columns with `never`."""
    columns = []
    for field, arrow in zip(fields, schema, strict=True):
        values = part[field.name]
        # -1 stands for an instant that never came: in a file a null, which no reader takes for a time.
        mask = np.asarray(values) == NEVER if field.never else None
        columns.append(_column(values, arrow.type, mask))
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: np.ndarray | Sequence[object], kind: Any, mask: np.ndarray | None) -> Any:
    """Return one column; nulls are where the mask is set, and where there is no value.

    Made of buffers: `pa.array` looks whether it gets an array of pandas. If pandas is installed it loads that, for as
    long as a short run takes.
    """
    if pa.types.is_string(kind):
        return _texts(list(values))
    found = np.asarray(values)
    if found.ndim != 1 or found.dtype.kind not in "bif":
        return pa.array(values, type=kind, mask=mask)  # a list with gaps, or a mistake that Arrow names
    stored = np.ascontiguousarray(found, bool if pa.types.is_boolean(kind) else kind.to_pandas_dtype())
    if stored.dtype != found.dtype and not np.array_equal(stored, found):
        return pa.array(values, type=kind, mask=mask)  # too large
    data = np.packbits(stored, bitorder="little") if stored.dtype == bool else stored
    return pa.Array.from_buffers(kind, stored.size, [_valid(mask), pa.py_buffer(data)])


def _texts(values: list[Any]) -> Any:
    """Return a column of text."""
    content = [b"" if one is None else str(one).encode() for one in values]
    ends = np.cumsum([0, *map(len, content)])
    if ends[-1] >= 2**31:
        raise ValueError("a column of text must be smaller than 2 GiB")
    missing = np.array([one is None for one in values], bool)
    buffers = [_valid(missing), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(content))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _valid(missing: np.ndarray | None) -> Any:
    """Return Arrow's bits of what is there; None if all is."""
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))
