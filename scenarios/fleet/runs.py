"""Reads files of `holdfast fleet`, runs their replications, and writes what came of them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.documents import to_document
from analysis.fleet.fleet_summary import FleetSummary
from analysis.fleet.summary import fleet_summary
from models.errors import InputError, header_hint, named, raise_if_any
from models.fleet.description import Fleet, with_query_set
from models.fleet.records import TABLES, FleetRecords
from models.fleet.rules import faults, log_faults, shaped_from
from models.fleet.system import Downtimes, System, keeps, system_of
from models.schema_types import seed_faults
from scenarios.files.documents import read_document, read_text
from scenarios.files.parquet import Field, write_csv, write_parquet
from scenarios.files.write_once import check_place, new_directory
from scenarios.queries.files import read_queries
from scenarios.runs.task_runner import Share, run_tasks

METHODS = ("auto", "events", "merged")
FORMATS = ("parquet", "csv")
SUMMARY = "summary.json"
PAGE = "report.html"
_MOST_REPLICATIONS = 100_000
_LARGEST_LOG = 64_000_000

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Unkept:
    """An SLO that cannot be met at the start: what the query has, and the best that any placement could give."""

    query: str
    slo: float
    broken: float
    least_broken: float

    def document(self) -> dict[str, Any]:
        """Return the entry as JSON has it: availabilities, and their distance to one."""
        return {
            "query": self.query,
            "slo": self.slo,
            "broken": self.broken,
            "allowed": 1 - self.slo,
            "least_broken": self.least_broken,
        }


@dataclass(frozen=True, eq=False)
class FleetResult:
    """The result of a file: rows of each replication and their summary; nothing but `unkept` if that has entries."""

    system: System
    records: tuple[FleetRecords, ...]
    typed_summary: FleetSummary | None
    unkept: tuple[Unkept, ...] = ()

    @property
    def found(self) -> FleetSummary:
        """The summary of a file whose availability objectives can be met; raises ValueError for another."""
        if self.typed_summary is None:
            raise ValueError("nothing was run: an availability objective cannot be met at the start")
        return self.typed_summary

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary as the document that `fleet --json` prints; empty where nothing was run."""
        document: dict[str, Any] = {} if self.typed_summary is None else to_document(self.typed_summary)
        return document


def read_fleet(path: Path | str) -> tuple[Fleet, Downtimes | None]:
    """Return the description in a file with its query set, and the downtimes of its log; raises InputError."""
    file = Path(path)
    fleet = shaped_from(read_document(file, (".toml", ".json"), "fleet"))
    folder = file.resolve().parent
    # Shapes first, then what the query set adds: rules about names need both.
    if fleet.query_set is not None:
        with named(f"query_set = {fleet.query_set}"):
            loaded = read_queries(folder / fleet.query_set)
        fleet = with_query_set(fleet, loaded.table, loaded.rates)
    raise_if_any(faults(fleet))
    return fleet, None if fleet.log is None else read_downtimes(folder / fleet.log, fleet.host_names)


def read_downtimes(path: Path, hosts: Sequence[str]) -> Downtimes:
    """Return the rows of a CSV file with the columns host, down and up [s]; raises InputError with all its faults."""
    table = csv.DictReader(io.StringIO(read_text(path, _LARGEST_LOG), newline=""))
    try:
        columns = table.fieldnames or ()
        missing = [one for one in ("host", "down", "up") if one not in columns]
        if missing:
            raise InputError.at("log", str(path), f"must have a column {missing[0]}", header_hint(columns))
        numbered = [(table.line_num, _row(str(path), table.line_num, row)) for row in table]
    except csv.Error as error:
        raise InputError.at("log", str(path), f"cannot be read: {error}") from None
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    raise_if_any(log_faults(rows, lines, hosts, str(path)))
    return rows


def _row(path: str, line: int, row: dict[str, str]) -> tuple[str, float, float]:
    """Return host, down and up [s] of a line; raises InputError with its number for anything else."""
    values = []
    for column in ("down", "up"):
        try:
            value = float(row[column])
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value < 1e10:
            raise InputError.at("log", path, f"line {line}: {column} must be a number of seconds")
        values.append(value)
    return row["host"], values[0], values[1]


def run_fleet(
    fleet: Fleet,
    log: Downtimes | None = None,
    *,
    replications: int | None = None,
    seed: int | None = None,
    method: str = "auto",
    workers: int = 1,
    on_progress: Progress | None = None,
) -> FleetResult:
    """Return the replications of a description, the same rows for any number of workers.

    `replications` and `seed` go before those of the file. Raises InputError. Where a query cannot have at the start
    its objective nothing is run, and the result says which.
    """
    if method not in METHODS:
        raise InputError.at("--method", method, "must be auto, events or merged")
    if replications is not None and not 1 <= replications <= _MOST_REPLICATIONS:
        raise InputError.at("--replications", replications, f"must be between 1 and {_MOST_REPLICATIONS}")
    raise_if_any(seed_faults("--seed", 0 if seed is None else seed))
    given = {"replications": replications, "seed": seed}
    fleet = fleet.model_copy(update={key: value for key, value in given.items() if value is not None})
    raise_if_any(faults(fleet))  # more replications may be too many
    simulation = _Replications(fleet, log, method)
    system = simulation.system
    if fleet.is_static:
        # Known without a run where nothing changes the placement.
        unkept = tuple(_not_kept(system))
        if unkept:
            return FleetResult(system, (), None, unkept)
    share = Share([1.0] * fleet.replications, on_progress or (lambda _: None))
    records = run_tasks(simulation, range(fleet.replications), workers, on_result=share.ended)
    # The first placement is the same in every replication: one tells for all.
    unkept = tuple(_refused_at_start(system, records[0]))
    if unkept:
        return FleetResult(system, (), None, unkept)
    return FleetResult(system, tuple(records), fleet_summary(system, records))


@dataclass(frozen=True)
class _Replications:
    """Simulates one replication after the other; a process of its own makes the system once, and from little text."""

    fleet: Fleet
    log: Downtimes | None
    method: str

    def __call__(self, replication: int, _: Progress) -> FleetRecords:
        from sim.fleet.engine import simulate_fleet  # noqa: PLC0415 - SimPy is only loaded where it runs

        return simulate_fleet(self.system, replication, method=self.method)  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, object]:
        # Without the cached system, which is large: each process makes it from the description.
        return {name: getattr(self, name) for name in ("fleet", "log", "method")}

    @cached_property
    def system(self) -> System:
        """The system that is simulated."""
        return system_of(self.fleet, self.log)


# -- objectives at the start


def _not_kept(system: System) -> Iterator[Unkept]:
    """Yield the queries whose SLO the first placement does not keep."""
    for query, (name, slo) in enumerate(zip(system.queries, system.slos, strict=True)):
        broken = system.broken(query)
        if slo is not None and broken is not None and not keeps(slo, broken):
            yield Unkept(name, slo, broken, _least(system, query))


def _refused_at_start(system: System, records: FleetRecords) -> Iterator[Unkept]:
    """Yield the queries that were to be there from the beginning and were not let in."""
    for at_ns, action, name, _, _, broken, _ in records.rows["refusals"]:
        if at_ns == 0 and action == "admit":
            query = system.queries.index(name)
            slo = system.slos[query]
            assert slo is not None
            yield Unkept(name, slo, broken, _least(system, query))


def _least(system: System, query: int) -> float:
    """Return P(broken) of the query at best, whatever room there is, with as many instances as the file allows."""
    assert system.unavailability is not None
    most = max(len(system.placed[op]) for op in system.needs[query])
    if system.fleet.manager is not None:
        most = max(most, 1 + system.fleet.manager.replicas)
    return system.unavailability.least_broken(most)


# -- files


def write_fleet(
    result: FleetResult, out: Path | str, *, table_format: str = "parquet", force: bool = False, page: str = ""
) -> Path:
    """Return the directory with the summary, a table of each kind of row, and the page if there is one.

    Whole or not at all. Raises InputError.
    """
    check_format(table_format)
    target = Path(out)
    with new_directory(target, force=force, ours=is_fleet) as folder:
        text = json.dumps(result.summary, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
        for name in TABLES:
            _write_table(folder / f"{name}.{table_format}", name, result.records)
        if page:
            (folder / PAGE).write_text(page, encoding="utf-8")
    return target


def check_format(table_format: str) -> None:
    """Raise InputError for a kind of table that there is not."""
    if table_format not in FORMATS:
        raise InputError.at("--tables", table_format, "must be parquet or csv")


def check_out(out: Path, *, force: bool = False) -> None:
    """Raise the InputError that `write_fleet` would raise for this place, before any work is done."""
    check_place(out, force=force, ours=is_fleet)


def is_fleet(directory: Path) -> bool:
    """Return whether everything in the directory is a file that `write_fleet` writes, the summary among them."""
    known = {SUMMARY, PAGE, *(f"{name}.{kind}" for name in TABLES for kind in FORMATS)}
    found = {entry.name for entry in directory.iterdir()}
    return SUMMARY in found and found <= known


def _write_table(path: Path, name: str, records: Sequence[FleetRecords]) -> None:
    """Write the rows of one kind of all replications, as CSV or Parquet by the suffix."""
    columns = TABLES[name]
    if path.suffix == ".csv":
        rows = ((one.replication, *row) for one in records for row in one.rows[name])
        write_csv(path, ["replication", *(column.name for column in columns)], rows)
        return
    fields = [Field("replication", "int32", "", "number of the replication")]
    fields += [Field(one.name, one.dtype, one.unit, one.meaning) for one in columns]
    parts = []
    for one in records:
        part: dict[str, Any] = {"replication": [one.replication] * len(one.rows[name])}
        part |= {column.name: [row[k] for row in one.rows[name]] for k, column in enumerate(columns)}
        parts.append(part)
    write_parquet(path, fields, parts)
