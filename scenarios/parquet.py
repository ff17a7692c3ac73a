"""Parquet with units: the only place that knows how a column and its unit become a field.

Files have the same bytes for the same rows: no time of writing, one compression, one row group per part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import InputError
from models.records import NEVER

_ARROW = {"int64": "int64", "int32": "int32", "float64": "float64", "bool": "bool_", "str": "string"}


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
    """Write the parts, one after the other, as one file with the fields' units and meanings as metadata."""
    import pyarrow.parquet as pq  # noqa: PLC0415  slow to load

    schema = _schema(fields)
    # Opened here: names of files need not be text.
    with (
        path.open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for part in parts:
            writer.write_table(_table(schema, fields, part))


def read_parquet(path: Path) -> dict[str, list[object]]:
    """Column name -> values (None for null); raises InputError when the file is not there or is not
    Parquet.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with path.open("rb") as file:
            table = pq.read_table(file, page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError.at(str(path), "", "must be a Parquet file", str(error).splitlines()[0]) from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


def units_of(path: Path) -> dict[str, str]:
    """Column name -> unit, as written into the file."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with path.open("rb") as file:
        schema = pq.read_schema(file)
    return {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in schema}


def _schema(fields: Sequence[Field]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

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
    import pyarrow as pa  # noqa: PLC0415

    columns = []
    for field, arrow in zip(fields, schema, strict=True):
        values = part[field.name]
        mask = np.asarray(values) == NEVER if field.never else None
        columns.append(pa.array(values, type=arrow.type, mask=mask))
    return pa.table(columns, schema=schema)
