"""A run on disk: one directory with the scenario, the summary and the records as Parquet with units.

Instants stay in ns; instants that never came, and an interval without a value, are null. Operators, tasks
and hosts stand with their names. Nothing in the directory depends on when or where it was written, so two runs can be
compared by their bytes. `write_run` and `read_run` are the two ends; `StoredRun` is what is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from analysis.runs.metrics import Metrics
from analysis.runs.timelines import BinCounts, fitting_interval, latency_bin_parts, latency_timeline, throughput
from analysis.statistics import NS_PER_S
from models.errors import NO_VALUE, InputError
from models.records.histogram import bounds
from models.records.tables import HISTOGRAM_TABLES, TABLES, Column, RunRecords
from scenarios.files.documents import read_json, read_text
from scenarios.files.parquet import Field, read_parquet, write_parquet
from scenarios.files.write_once import check_place, new_directory

# Raised when a reader of the former format would misread a file; `read_run` refuses all others.
FORMAT = 1
SCENARIO, SUMMARY = "scenario.toml", "summary.json"
STORED = (
    "samples",
    "memory",
    "lag",
    "replays",
    "buffers",
    "cpu",
    "links",
    "checkpoints",
    "job_checkpoints",
    "pre_commits",
    "failures",
    "recoveries",
    "first_outputs",
    "outages",
    "migrations",
    "rebalances",
    "reconfigurations",
    "replicas",
    "rescales",
    "statistics",
    "adaptations",
    "maintenance",
    "hosts_in_use",
    "messages",
    "decisions",
    "ledger",
)
RAW = ("visits", "waiting", "deliveries", "dropped")
OF_TUPLES = ("visits", "deliveries")  # of the raw tables: not there where histograms were recorded
OF_HISTOGRAMS = ("times", "time_bins")  # only there; the other tables of histograms are those of DERIVED
DERIVED = ("latency", "timeline", "throughput", "metrics")
# Columns of the records that hold host numbers: files have names, which outlive the order of a scenario file.
_HOSTS = ("host", "owner", "checkpoint_host", "origin", "target")
_REPLICATION = Field("replication", "int32", "", "number of the replication")
_AT = Field("at_ns", "int64", "ns", "begin of the interval")

_Columns = dict[str, "np.ndarray | list[str | None]"]


@dataclass(frozen=True)
class StoredRun:
    """A run that was read: the text of the scenario, the summary, and table name -> column -> values."""

    scenario: str
    summary: dict[str, Any]
    tables: Mapping[str, Mapping[str, list[object]]]


def write_run(
    directory: Path | str,
    scenario: str,
    summary: Mapping[str, object],
    records: Sequence[RunRecords],
    *,
    force: bool = False,
    raw: bool = False,
    pages: Mapping[str, str] = MappingProxyType({}),
    interval_ns: int = NS_PER_S,
    metrics: Mapping[int, Metrics] = MappingProxyType({}),
) -> Path:
    """Write the directory, whole or not at all; `scenario` is the text of its file, `metrics` are by replication.

    `raw` adds a row for each visit, delivery, drop and tuple left in a queue (visits and deliveries only where tuples
    were recorded); where histograms were recorded, those of each operator are added, and an interval that the records
    do not have is lengthened to one that they have. `pages` are HTML files by name
    (they end in .html) that stand beside the tables. A run that is there already is
    replaced only with `force`, once the new one is complete; other directories never: raises InputError.
    """
    target = Path(directory)
    # A programming error, not one of the input: told before the directory is touched.
    _check_pages(pages)
    with new_directory(target, force=force, ours=is_run) as folder:
        (folder / SCENARIO).write_text(scenario, encoding="utf-8")
        # JSON has no NaN: a summary that holds one is a defect, which must not reach a file that others cannot read.
        text = json.dumps({"format": FORMAT, **summary}, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
        _write_derived(folder, records, interval_ns)
        _write_metrics(folder, metrics)
        for name in _tables_of(records, raw=raw):
            # A generator: one replication at a time is in memory with its names.
            parts = ({"replication": _repeat(one, name), **_named(one, name)} for one in records)
            columns = TABLES[name] if name in TABLES else HISTOGRAM_TABLES[name]
            write_parquet(folder / f"{name}.parquet", [_REPLICATION, *map(_field, columns)], parts)
        for page, html in pages.items():
            (folder / page).write_text(html, encoding="utf-8")
    return target


def read_run(directory: Path | str) -> StoredRun:
    """Return the run in the directory; raises InputError when there is none or a file of it is missing or broken."""
    folder = Path(directory)
    if not folder.is_dir():
        raise InputError.at(str(folder), NO_VALUE, "must be the directory of a run", "made with --out")
    for path in (folder / SCENARIO, folder / SUMMARY):
        if not path.exists():
            raise InputError.at(str(path), NO_VALUE, "is missing: this is not the directory of a run")
    scenario, content = read_text(folder / SCENARIO), read_json(folder / SUMMARY)
    if content.pop("format", None) != FORMAT:
        raise InputError.at(str(folder / SUMMARY), NO_VALUE, f"must be a summary of format {FORMAT}")
    # Which of these were written depends on options of the run; all others must be there.
    more = [name for name in (*RAW, *OF_HISTOGRAMS) if (folder / f"{name}.parquet").exists()]
    names = [*DERIVED, *STORED, *more]
    return StoredRun(scenario, content, {name: read_parquet(folder / f"{name}.parquet") for name in names})


def is_run(directory: Path) -> bool:
    """Return whether everything in the directory is a file that `write_run` writes, the summary among them."""
    known = {SCENARIO, SUMMARY, *(f"{name}.parquet" for name in (*DERIVED, *STORED, *RAW, *OF_HISTOGRAMS))}
    found = {entry.name for entry in directory.iterdir() if not _is_page(entry)}
    return SUMMARY in found and found <= known


def check_target(directory: Path | str, *, force: bool = False) -> None:
    """Raise the InputError that `write_run` would raise for this place, before any work is done."""
    check_place(Path(directory), force=force, ours=is_run)


def _tables_of(records: Sequence[RunRecords], *, raw: bool) -> list[str]:
    """Return the tables of records that are stored as they are."""
    binned = any(one.detail == "histograms" for one in records)
    names = [*STORED, *(RAW if raw else ()), *(OF_HISTOGRAMS if binned else ())]
    return [name for name in names if not (binned and name in OF_TUPLES)]


def _is_page(entry: Path) -> bool:
    return entry.suffix == ".html" and entry.is_file()


def _check_pages(pages: Mapping[str, str]) -> None:
    for page in pages:
        if Path(page).name != page or not page.endswith(".html"):
            raise ValueError(f"a page is a file name that ends in .html, not {page!r}")


def _write_derived(folder: Path, records: Sequence[RunRecords], interval_ns: int) -> None:
    """Write the tables over time: histograms and quantiles of latency, and throughput, by interval."""
    if records:
        # One interval for all replications, or their rows could not be set side by side.
        interval_ns = max(fitting_interval(one, interval_ns) for one in records)
    write_parquet(
        folder / "latency.parquet",
        [
            _REPLICATION,
            _AT,
            Field("low_ns", "float64", "ns", "least latency of the bin"),
            Field("high_ns", "float64", "ns", "end of the bin, not in it"),
            Field("count", "int64", "tuples", "deliveries in the interval with a latency in the bin"),
        ],
        (_latency_part(one, cells) for one in records for cells in latency_bin_parts(one, interval_ns)),
    )
    quantiles = {"mean_ns": "mean", "p50_ns": "median", "p99_ns": "99 % quantile", "max_ns": "greatest"}
    write_parquet(
        folder / "timeline.parquet",
        [
            _REPLICATION,
            _AT,
            Field("count", "int64", "tuples", "deliveries in the interval"),
            *(Field(name, "int64", "ns", f"{what} latency of them", never=True) for name, what in quantiles.items()),
        ],
        (_timeline_part(one, interval_ns) for one in records),
    )
    write_parquet(
        folder / "throughput.parquet",
        [
            _REPLICATION,
            _AT,
            Field("operator", "str", "", "name of the operator"),
            Field("processed", "int64", "tuples", "services that ended in the interval"),
        ],
        (_throughput_part(one, interval_ns) for one in records),
    )


def _write_metrics(folder: Path, metrics: Mapping[int, Metrics]) -> None:
    rows = [(one, *pair) for one, found in metrics.items() for pair in found.items() if pair[1] is not None]
    columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) or [[], [], []]
    write_parquet(
        folder / "metrics.parquet",
        [
            _REPLICATION,
            Field("metric", "str", "", "path in the summary"),
            Field("value", "float64", "", "of this replication; seconds where the path says _s"),
        ],
        [dict(zip(("replication", "metric", "value"), columns, strict=True))],
    )


def _latency_part(one: RunRecords, cells: BinCounts) -> _Columns:
    low, high = bounds(cells.bin)
    replication = np.full(cells.bin.size, one.replication, np.int32)
    return {
        "replication": replication,
        "at_ns": cells.at_ns,
        "low_ns": low,
        "high_ns": high,
        "count": cells.count,
    }


def _timeline_part(one: RunRecords, interval_ns: int) -> _Columns:
    line = latency_timeline(one, interval_ns)
    return {"replication": np.full(line.at_ns.size, one.replication, np.int32), **vars(line)}


def _throughput_part(one: RunRecords, interval_ns: int) -> _Columns:
    line = throughput(one, interval_ns)
    return {
        "replication": np.full(line.values.size, one.replication, np.int32),
        "at_ns": np.tile(line.at_ns, len(line.names)),
        "operator": [name for name in line.names for _ in range(line.at_ns.size)],
        "processed": line.values.ravel(),
    }


def _field(column: Column) -> Field:
    """Return the Parquet field of a column of the records: names in place of indices."""
    if column.name in ("operator", "task", *_HOSTS):
        meaning = column.meaning.replace("index into ", "name out of ").replace("host index of", "name of")
        return Field(column.name, "str", "", meaning.replace(", -1 for", ", null for"))
    return Field(
        column.name,
        column.dtype,
        column.unit,
        column.meaning.replace(", -1 if", ", null if"),
        never=column.unit == "ns" or ", -1 if" in column.meaning,
    )


def _named(one: RunRecords, table: str) -> _Columns:
    """Return the columns of a table with names in place of indices; -1 (no host) becomes None."""
    names = {"operator": one.operators, "task": one.tasks, **dict.fromkeys(_HOSTS, one.hosts)}

    def named(name: str, values: np.ndarray) -> list[str | None] | np.ndarray:
        if name not in names or values.dtype.kind != "i":  # decisions name their hosts themselves
            return values
        return [names[name][index] if index >= 0 else None for index in values.tolist()]

    return {name: named(name, values) for name, values in one.tables[table].items()}


def _repeat(one: RunRecords, table: str) -> np.ndarray:
    rows = len(next(iter(one.tables[table].values())))
    return np.full(rows, one.replication, np.int32)
