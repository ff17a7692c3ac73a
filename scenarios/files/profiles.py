"""A profile on disk: one directory with profile.json and the series, correlation and bad rows as Parquet.

Nothing in it depends on when or where it was written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from analysis.correlation import between_streams, between_totals, pearson
from models.errors import NO_VALUE, InputError, named
from models.records.profile import Profile
from scenarios.files.documents import read_json
from scenarios.files.parquet import Field, write_parquet
from scenarios.files.write_once import check_place, new_directory

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
# Of int64: 1.6 GB. A short file that names more bins must not fill the memory.
_MOST_CELLS = 200_000_000
PROFILE, SERIES, CORRELATION, QUARANTINE = (
    "profile.json", "series.parquet", "correlation.parquet", "quarantine.parquet",
)  # fmt: skip
FILES = frozenset((PROFILE, SERIES, CORRELATION, QUARANTINE))

_PLAIN = ("key", "time", "where", "hash", "copies", "key_groups", "bin_s", "start", "keys")
_MAPS = ("selectivity", "totals", "filters", "minutes_in_air", "versions")
_WEIGHT = "weight"  # only there where rows are weighed
_KEYS = frozenset((*_PLAIN, *_MAPS, "format", "sources", "streams", "top_keys", "bins"))
_SERIES_FIELDS = (
    Field("operator", "str", "", "name of the stream"),
    Field("key_group", "int32", "", "number of the key group"),
    Field("bin", "int32", "", "number of the bin; bins without rows are left out"),
    Field("count", "int64", "rows", "rows in the bin"),
)
_QUARANTINE_FIELDS = (
    Field("raw", "str", "", "the row as it was found"),
    Field("why", "str", "", "why it cannot be used"),
    Field("file", "str", "", "name of the file"),
)


def write_profile(
    profile: Profile, directory: Path | str, quarantine: pa.Table | None = None, *, force: bool = False
) -> Path:
    """Write the profile and the bad rows (raw, why, file); the directory appears whole or not at all.

    Raises InputError where something is there already; `force` replaces a profile, and nothing else.

    >>> import numpy as np
    >>> from holdfast import Profile, write_profile
    >>> counts = np.array([[[3, 1, 0, 2], [1, 1, 4, 2]]])  # one stream, two key groups, four minutes
    >>> profile = Profile(
    ...     sources=("requests.csv",), key="user", time="at", where=None, key_groups=2, bin_s=60.0,
    ...     start="2026-01-01T00:00:00Z", streams=("all",), counts=counts, selectivity={"all": 1.0},
    ...     correlation=np.corrcoef(counts[0]).round(12),
    ...     totals={"rows_read": 14, "rows_kept": 14, "rows_dropped": 0, "rows_quarantined": 0})
    >>> sorted(path.name for path in write_profile(profile, "my-profile", force=True).iterdir())
    ['correlation.parquet', 'profile.json', 'quarantine.parquet', 'series.parquet']
    """
    path = Path(directory)
    _refuse_link(path)
    with new_directory(path, force=force, ours=_is_profile) as new:
        write_json(new / PROFILE, _to_json(profile))
        write_parquet(new / SERIES, _SERIES_FIELDS, [_series(profile)])
        _write_correlation(new / CORRELATION, profile)
        bad = {f.name: [] if quarantine is None else quarantine[f.name].to_pylist() for f in _QUARANTINE_FIELDS}
        write_parquet(new / QUARANTINE, _QUARANTINE_FIELDS, [bad])
    return path


def check_target(directory: Path | str, *, force: bool = False) -> None:
    """Raise InputError where `write_profile` would, before the work is done."""
    path = Path(directory)
    _refuse_link(path)
    check_place(path, force=force, ours=_is_profile)


def read_profile(directory: Path | str) -> Profile:
    """Return the profile in the directory. Raises InputError where a file is missing or broken.

    >>> import numpy as np
    >>> from holdfast import Profile, read_profile, write_profile
    >>> counts = np.array([[[3, 1, 0, 2], [1, 1, 4, 2]]])  # one stream, two key groups, four minutes
    >>> profile = Profile(
    ...     sources=("requests.csv",), key="user", time="at", where=None, key_groups=2, bin_s=60.0,
    ...     start="2026-01-01T00:00:00Z", streams=("all",), counts=counts, selectivity={"all": 1.0},
    ...     correlation=np.corrcoef(counts[0]).round(12),
    ...     totals={"rows_read": 14, "rows_kept": 14, "rows_dropped": 0, "rows_quarantined": 0})
    >>> folder = write_profile(profile, "requests-profile", force=True)
    >>> read_profile(folder).load("all").round(3).tolist()  # rows/s, (key groups, bins)
    [[0.05, 0.017, 0.0, 0.033], [0.017, 0.017, 0.067, 0.033]]
    """
    path = Path(directory)
    if not path.is_dir():
        raise InputError.at("profile", str(path), "no such directory")
    for name in sorted(FILES):
        if not (path / name).is_file() or (path / name).is_symlink():
            raise InputError.at("profile", str(path / name), "is missing, or not a plain file")
    document = _document(path / PROFILE)
    counts = _read_counts(path / SERIES, document)
    correlation = _read_correlation(path / CORRELATION, counts)
    profile = Profile(
        sources=tuple(document["sources"]),
        streams=tuple(document["streams"]),
        top_keys=tuple((key, rows) for key, rows in document["top_keys"]),
        counts=counts,
        correlation=correlation,
        weight=document.get(_WEIGHT),
        **{name: document[name] for name in (*_PLAIN, *_MAPS)},
    )
    # Plans follow from the correlation: a file that was edited in one of the two places must not pass.
    if not np.allclose(correlation, pearson(counts.reshape(-1, counts.shape[2])), rtol=0, atol=1e-9):
        raise InputError.at(f"profile.{CORRELATION}", NO_VALUE, "is not the correlation of the series")
    return profile


def read_quarantine(directory: Path | str) -> list[dict[str, str]]:
    """Return the bad rows of a profile directory: raw, why and file of each."""
    table = _table(Path(directory) / QUARANTINE, tuple(field.name for field in _QUARANTINE_FIELDS))
    rows: list[dict[str, str]] = table.to_pylist()
    return rows


def profile_summary(profile: Profile) -> dict[str, Any]:
    """Return the profile as `holdfast ingest --json` prints it: all but the series."""
    names = profile.streams
    rates, groups = profile.rates, profile.counts.sum(axis=2)
    pairs, totals = between_streams(profile), between_totals(profile)
    document = _to_json(profile)
    document["top_keys"] = [{"key": key, "rows": rows} for key, rows in profile.top_keys]
    document["rates"] = {
        name: {**rates[name], "rows": int(groups[k].sum()), "rows_by_group": groups[k].tolist()}
        for k, name in enumerate(names)
    }
    document["correlation"] = {
        "between_groups": {a: {b: float(pairs[i, j]) for j, b in enumerate(names)} for i, a in enumerate(names)},
        "between_totals": {a: {b: float(totals[i, j]) for j, b in enumerate(names)} for i, a in enumerate(names)},
    }
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write one JSON document; numbers that are not finite are an error."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise InputError.at("out", str(path), "must not be a symbolic link")


def _is_profile(path: Path) -> bool:
    names = {entry.name for entry in path.iterdir()}
    return PROFILE in names and names <= FILES


def _to_json(profile: Profile) -> dict[str, Any]:
    maps = {name: getattr(profile, name) for name in _MAPS}
    return {
        "format": FORMAT,
        "sources": list(profile.sources),
        **{name: getattr(profile, name) for name in _PLAIN},
        "bins": profile.bins,
        "streams": list(profile.streams),
        **{name: None if value is None else dict(value) for name, value in maps.items()},
        "top_keys": [list(pair) for pair in profile.top_keys],
        **({} if profile.weight is None else {_WEIGHT: profile.weight}),
    }


def _series(profile: Profile) -> dict[str, Any]:
    """Return the columns of the series: one row for each bin of a key group that is not empty."""
    # Sparse: most bins of most key groups are empty.
    stream, group, bin_ = np.nonzero(profile.counts)
    names = np.asarray(profile.streams, dtype=object)
    counts = profile.counts[stream, group, bin_]
    return {"operator": names[stream], "key_group": group, "bin": bin_, "count": counts}


def _write_correlation(path: Path, profile: Profile) -> None:
    """Write the matrix, a row for each stream and key group with its list of correlations."""
    n, groups = len(profile.correlation), profile.key_groups
    rows = pa.FixedSizeListArray.from_arrays(pa.array(profile.correlation.ravel()), n)
    table = pa.table(
        {
            "operator": pa.array(np.repeat(np.asarray(profile.streams, dtype=object), groups), pa.string()),
            "key_group": pa.array(np.tile(np.arange(groups, dtype=np.int32), len(profile.streams))),
            "correlation": rows.cast(pa.list_(pa.float64())),
        }
    )
    parquet.write_table(table, path, compression="zstd")


def _document(path: Path) -> dict[str, Any]:
    """Return the JSON document of a profile; raises InputError for another format, and keys of the wrong type."""
    with named("profile"):
        document = read_json(path)
    if document.get("format") != FORMAT:
        raise InputError.at("profile.format", document.get("format"), f"must be {FORMAT}", "ingest the trace again")
    # The one optional key: profiles of rows that are not weighed do not have it.
    given = set(document) - {_WEIGHT}
    if given != _KEYS:
        lacking, unknown = sorted(_KEYS - given), len(given - _KEYS)
        rule = f"lacks {', '.join(lacking)}" if lacking else f"has {unknown} unknown key{'' if unknown == 1 else 's'}"
        raise InputError.at("profile", str(path), rule, "ingest the trace again")
    for name, kinds in _KINDS.items():
        if not isinstance(document[name], kinds) or isinstance(document[name], bool):
            rule = f"must be {' or '.join(kind.__name__ for kind in kinds)}"
            raise InputError.at(f"profile.{name}", document[name], rule.replace("NoneType", "null"))
    if _WEIGHT in document and not _is_text(document[_WEIGHT]):
        raise InputError.at(f"profile.{_WEIGHT}", document[_WEIGHT], "must be the name of a column")
    for name, fits in (("sources", _is_text), ("streams", _is_text), ("top_keys", _is_pair)):
        if not all(map(fits, document[name])):
            raise InputError.at(f"profile.{name}", document[name], "must hold text, or pairs of key and rows")
    for name in ("selectivity", "minutes_in_air"):
        if not all(isinstance(value, (int, float)) for value in (document[name] or {}).values()):
            raise InputError.at(f"profile.{name}", document[name], "must hold numbers")
    return document


_KINDS: dict[str, tuple[type, ...]] = {
    "sources": (list,), "key": (str,), "time": (str,), "where": (str, type(None)), "hash": (str,),
    "copies": (int,), "key_groups": (int,), "bin_s": (int, float), "start": (str,), "keys": (int, type(None)),
    "streams": (list,), "selectivity": (dict,),
    "totals": (dict,), "filters": (dict,), "minutes_in_air": (dict, type(None)),
    "versions": (dict,), "top_keys": (list,), "bins": (int,),
}  # fmt: skip


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and type(value[1]) is int


def _table(path: Path, columns: tuple[str, ...]) -> pa.Table:
    """Return a Parquet table with exactly these columns and no nulls; raises InputError for any other file."""
    try:
        table = parquet.ParquetFile(path).read()  # as `read_table` does, which loads pandas for it
    except (OSError, pa.ArrowException) as error:
        rule = f"is not a Parquet file: {str(error).splitlines()[0]}"
        raise InputError.at("profile", str(path), rule) from None
    if tuple(table.column_names) != columns:
        raise InputError.at("profile", str(path), f"must have the columns {', '.join(columns)}")
    if any(column.null_count for column in table.columns):
        raise InputError.at("profile", str(path), "must not hold nulls")
    return table


def _read_counts(path: Path, document: dict[str, Any]) -> np.ndarray:
    """Return the counts (streams, key groups, bins); every row must be in range, positive, and there once."""
    table = _table(path, ("operator", "key_group", "bin", "count"))
    streams, shape = document["streams"], (len(document["streams"]), document["key_groups"], document["bins"])
    if min(shape) < 1 or shape[0] * shape[1] * shape[2] > _MOST_CELLS:
        rule = f"streams, key groups and bins must be at least 1, their product at most {_MOST_CELLS}"
        raise InputError.at("profile.bins", list(shape), rule)
    try:
        number = _numbers(table["operator"], streams)
        group, bin_, count = (
            _to_numpy(table[name].combine_chunks()).astype(np.int64, casting="safe") for name in _INDEX
        )
    except (TypeError, ValueError, NotImplementedError):
        raise InputError.at("profile", str(path), "must hold names, and whole numbers") from None
    if (number < 0).any():
        raise InputError.at(f"profile.{SERIES}", NO_VALUE, f"operator must be one of {', '.join(streams)}")
    for name, values, limit in (("key_group", group, shape[1]), ("bin", bin_, shape[2])):
        wrong = (values < 0) | (values >= limit)
        if wrong.any():
            worst = int(values[wrong][0])
            raise InputError.at(f"profile.{SERIES}.{name}", worst, f"must be between 0 and {limit - 1}")
    if (count <= 0).any():
        raise InputError.at(f"profile.{SERIES}.count", int(count.min()), "must be at least 1")
    counts = np.zeros(shape, dtype=np.int64)
    # `add.at` adds rows of the same cell, so that fewer cells than rows show a row that is there twice.
    np.add.at(counts, (number, group, bin_), count)
    if np.count_nonzero(counts) != len(count):
        raise InputError.at(f"profile.{SERIES}", NO_VALUE, "holds a bin of a key group more than once")
    return counts


_INDEX = ("key_group", "bin", "count")


def _numbers(names: pa.ChunkedArray, streams: list[str]) -> np.ndarray:
    """Return the place of each name among the streams (n,), -1 for others; raises TypeError for what is no name."""
    encoded = compute.dictionary_encode(names.combine_chunks())
    there, numbers = encoded.dictionary.to_pylist(), {name: k for k, name in enumerate(streams)}
    if not all(isinstance(name, str) for name in there):
        raise TypeError("a name is text")
    places: np.ndarray = np.array([numbers.get(name, -1) for name in there], np.int64)[_to_numpy(encoded.indices)]
    return places


def _to_numpy(numbers: pa.Array) -> np.ndarray:
    """Return whole numbers without nulls (n,), raises TypeError for others. What Arrow has for that loads pandas."""
    if not pa.types.is_integer(numbers.type):
        raise TypeError("not whole numbers")
    return np.from_dlpack(numbers) if len(numbers) else np.zeros(0, np.int64)


def _read_correlation(path: Path, counts: np.ndarray) -> np.ndarray:
    """Return the matrix (n, n), n = streams * key groups; raises InputError for another shape."""
    table = _table(path, ("operator", "key_group", "correlation"))
    n = counts.shape[0] * counts.shape[1]
    try:
        values = np.array(table["correlation"].to_pylist(), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n, n):
        raise InputError.at(f"profile.{CORRELATION}", values.shape, f"must be {n} rows of {n} numbers")
    return values
