"""A sweep on disk: `plan.json`, and one file for each chunk of runs that is done; no journal, no lock.

    DIR/plan.json                   every run there is; written once
    DIR/runs/chunk-00000012.parquet the rows of one chunk, all or none; written once
    DIR/tmp/                        what is being written
    DIR/replaced/                   chunks that were damaged, or are made again

Whoever gives a file its name first has committed the chunk (`scenarios.files.write_once`), and a second attempt (a
retry, a second driver on the same sweep) loses without harm. The names in `runs` say what is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.runs.metrics import Metrics
from models.errors import NO_VALUE, InputError
from scenarios.files.parquet import Field, read_parquet, write_parquet
from scenarios.files.write_once import (
    being_written,
    disk_errors,
    flush,
    is_new_name,
    name_once,
    remove_stale,
    write_once,
)
from scenarios.sweeps.plan import SweepPlan, read_plan, what_differs

PLAN, RUNS, TMP, REPLACED = "plan.json", "runs", "tmp", "replaced"
OK = "ok"
# Not "error": a fault of the input is the same every time.
RETRIED = ("timeout", "memory", "crashed", "failed")  # the machine's fault perhaps: another attempt may end otherwise
_CHUNK = re.compile(r"chunk-([0-9]{8})\.parquet")
_FIELDS = (
    Field("point", "int32", "", "number of the design point"),
    Field("replication", "int32", "", "number of the replication"),
    Field("status", "str", "", "ok, error (the input), timeout, memory, crashed or failed"),
    Field("stage", "str", "", "what it came to: scenario, inputs, compilation, simulation, summary, done"),
    Field("message", "str", "", "what went wrong"),
    Field("run_s", "float64", "s", "wall time of the computation; differs between attempts"),
    Field("attempt", "str", "", "which attempt made the row: a random name"),
)
OF_THE_ATTEMPT = ("run_s", "attempt")
"""The columns that differ between two attempts; all others are equal for any number of workers, byte for byte."""
_SUMMARY = Field("summary", "str", "", "the whole summary of the run as JSON, where it was asked for")


@dataclass(frozen=True)
class Row:
    """The result of one run, or how it failed."""

    point: int
    replication: int
    status: str
    stage: str
    message: str
    run_s: float
    metrics: Metrics
    summary: str = ""  # the whole summary as JSON, where it was asked for


class SweepStore:
    """The directory of a sweep."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # -- the plan

    def begin(self, plan: SweepPlan) -> SweepPlan:
        """Write the plan, or take the one that is there; raises InputError for a directory of something else."""
        stored = self.directory / PLAN
        # A second driver may be writing the same plan: what it has made so far is nobody's else.
        # Asked twice: between the first two another driver may have written the plan, and its files are no reason to
        # refuse.
        if not stored.exists() and not self._is_free() and not stored.exists():
            rule = "must be a new or empty directory, or that of this sweep"
            raise InputError.at(str(self.directory), "something else", rule, "choose another --out")
        with disk_errors(self.directory, "cannot be made"):
            for name in (RUNS, TMP, REPLACED):
                (self.directory / name).mkdir(parents=True, exist_ok=True)
            if not stored.exists():
                write_once(stored, plan.text().encode(), self.directory / TMP)
        # Read back even when just written: if two drivers begin together, both go on with the plan that won.
        there = read_plan(stored)
        differs = what_differs(there, plan)
        if differs:
            rule = f"holds a sweep {differs}"
            raise InputError.at(str(self.directory), NO_VALUE, rule, "choose another --out; nothing was changed")
        return there

    def plan(self) -> SweepPlan:
        """Return the plan of the sweep."""
        return read_plan(self.directory / PLAN)

    def check_writable(self) -> None:
        """Raise InputError where nothing can be stored."""
        with disk_errors(self.directory), being_written(self.directory / TMP) as written:
            written.write_bytes(b"")
            written.unlink()

    def _is_free(self) -> bool:
        """Return whether nothing is there but the beginning of a sweep without a plan."""
        if not self.directory.exists():
            return not self.directory.is_symlink()
        if not self.directory.is_dir():
            return False
        return all(
            one.name in (RUNS, TMP, REPLACED)
            and one.is_dir()
            and all(one.name == TMP and is_new_name(inner.name) for inner in one.iterdir())
            for one in self.directory.iterdir()
        )

    # -- chunks

    def commit(self, chunk: int, rows: Sequence[Row]) -> bool:
        """Store the rows of a chunk; False where somebody has done so already."""
        attempt = uuid.uuid4().hex[:8]
        # Sorted, so that the columns of a file do not depend on which run came first.
        names = sorted({name for row in rows for name in row.metrics})
        fields = [*_FIELDS, *(Field(name, "float64", _unit(name)) for name in names)]
        columns: dict[str, list[object]] = {
            field.name: [getattr(row, field.name) for row in rows] for field in _FIELDS if field.name != "attempt"
        }
        columns["attempt"] = [attempt] * len(rows)
        if any(row.summary for row in rows):
            fields.append(_SUMMARY)
            columns[_SUMMARY.name] = [row.summary for row in rows]
        columns |= {name: [row.metrics.get(name) for row in rows] for name in names}
        with being_written(self.directory / TMP) as written:
            write_parquet(written, fields, [columns])
            # On the disk before it has its name: the name alone says that the chunk is done.
            flush(written)
            return name_once(written, self._path(chunk))

    def committed(self) -> set[int]:
        """Return the chunks that are there, by their names alone."""
        found = (_CHUNK.fullmatch(path.name) for path in (self.directory / RUNS).glob("chunk-*.parquet"))
        return {int(one[1]) for one in found if one}

    def is_there(self, chunk: int) -> bool:
        """Return whether somebody has stored the chunk."""
        return self._path(chunk).exists()

    def to_do(self, plan: SweepPlan, *, retry: bool = False, summaries: bool = False) -> list[int]:
        """Return missing chunks; one that cannot be read, with `retry` holds rows of RETRIED, or with `summaries` has
        none, is put aside.
        """
        missing = []
        for chunk in range(len(plan.chunks)):
            path = self._path(chunk)
            # Put aside, never deleted: a damaged file may be all that is left of hours of work.
            if path.exists() and not self._is_good(path, plan.chunks[chunk], retry, summaries):
                with contextlib.suppress(FileNotFoundError):  # another driver was faster
                    path.replace(self.directory / REPLACED / f"{path.stem}.{uuid.uuid4().hex[:8]}.parquet")
            if not path.exists():
                missing.append(chunk)
        return missing

    def clean(self) -> None:
        """Remove what attempts that were killed had begun to write; others may be writing now."""
        remove_stale(self.directory / TMP)

    def rows(self, plan: SweepPlan) -> list[Row]:
        """Return all rows that are stored, by point and replication; raises InputError for a damaged chunk."""
        found: list[Row] = []
        for chunk in sorted(self.committed()):
            # A file of another numbering is not ours; `begin` has compared the plans already.
            if chunk >= len(plan.chunks):
                continue
            rows = self._rows(self._path(chunk), plan.chunks[chunk])
            if rows is None:
                hint = "give the command of the sweep again"
                raise InputError.at(str(self._path(chunk)), NO_VALUE, "is damaged: it will be made again", hint)
            found += rows
        return sorted(found, key=lambda row: (row.point, row.replication))

    def _is_good(self, path: Path, runs: Sequence[tuple[int, int]], retry: bool, summaries: bool) -> bool:
        """Return whether a chunk can stay: readable, with summaries if these are asked for, and nothing to retry."""
        rows = self._rows(path, runs)
        if rows is None or (summaries and any(row.status == OK and not row.summary for row in rows)):
            return False
        return not (retry and any(row.status in RETRIED for row in rows))

    def _rows(self, path: Path, runs: Sequence[tuple[int, int]]) -> list[Row] | None:
        """Return the rows of a chunk, None where they are not those of its runs."""
        try:
            rows = _rows_of(read_parquet(path))
        except (InputError, KeyError, TypeError):
            return None
        return rows if [(row.point, row.replication) for row in rows] == [tuple(run) for run in runs] else None

    # -- files

    def _path(self, chunk: int) -> Path:
        return self.directory / RUNS / f"chunk-{chunk:08d}.parquet"


def digest(rows: Sequence[Row]) -> str:
    """Return digest of the results, wall times and attempts aside: equal for any number of workers, or on Spark."""
    plain = [
        [row.point, row.replication, row.status, row.stage, row.message, sorted(row.metrics.items())]
        # In the order of runs, since chunks are stored in whatever order they end.
        for row in sorted(rows, key=lambda row: (row.point, row.replication))
    ]
    return hashlib.sha256(json.dumps(plain, allow_nan=False).encode()).hexdigest()


def _rows_of(columns: Mapping[str, list[object]]) -> list[Row]:
    """Return the rows of a chunk from its columns; metrics that are null were not seen, and are left out."""
    own = {field.name for field in (*_FIELDS, _SUMMARY)}
    names = [name for name in columns if name not in own]
    found = []
    for k in range(len(columns["point"])):
        values = {name: columns[name][k] for name in names}
        metrics = {name: value for name, value in values.items() if isinstance(value, float) and math.isfinite(value)}
        first = {name: columns[name][k] for name in ("point", "replication", "status", "stage", "message", "run_s")}
        summary = str(columns[_SUMMARY.name][k]) if _SUMMARY.name in columns else ""
        found.append(Row(**first, metrics=metrics, summary=summary))  # type: ignore[arg-type]
    return found


def _unit(metric: str) -> str:
    """Return the unit of a metric from its name: seconds, bytes, or none."""
    parts = metric.split(".")
    if any(part.endswith("_s") for part in parts) and parts[-1] != "count":
        return "s"
    return "B" if parts[-1] == "bytes" else ""
