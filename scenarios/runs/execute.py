"""Executing replications, one after the other or on several processes, with the same bytes either way."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from models.engine import Engine
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.runs.workers import submitted
from sim.engine import prepare, simulate

Progress = Callable[[float], None]
COMPILING = "compiling for this machine, once"  # what is going on, in words

_shared: Any = None  # in a worker: how far each job has come


@dataclass(frozen=True)
class Job:
    """One replication of a scenario, and the engine that simulates it."""

    scenario: Scenario
    inputs: RunInputs
    replication: int = 0
    engine: Engine = "auto"


def execute(
    jobs: Sequence[Job],
    *,
    workers: int = 1,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
) -> list[RunRecords]:
    """The records of all jobs, in their order; `on_progress` gets the share of simulated time that is done.

    Where code for this machine is not kept yet `on_compile` gets the share of it that is compiled. Raises WorkerLost
    if a process was killed.
    """
    report = on_progress or (lambda _: None)
    if workers <= 1 or len(jobs) <= 1:
        return [
            simulate(
                job.scenario,
                job.inputs,
                job.replication,
                _part(report, k, len(jobs)),
                on_compile=on_compile,
                engine=job.engine,
            )
            for k, job in enumerate(jobs)
        ]
    compiled = next((job for job in jobs if job.engine == "auto"), None)
    if compiled is not None:
        prepare(compiled.scenario, compiled.inputs, on_compile)  # or each worker would compile the same
    progress = multiprocessing.RawArray("d", len(jobs))
    work = [(job, k) for k, job in enumerate(jobs)]
    records: dict[int, RunRecords] = {}
    with submitted(_one, work, min(workers, len(jobs)), _begin, (progress,)) as arrived:
        for done in arrived:
            records.update(done)
            report(sum(progress) / len(jobs))
    return [records[k] for k in range(len(jobs))]


def _part(report: Progress, index: int, jobs: int) -> Progress:
    """What one of several jobs, one after the other, has done as a share of all."""
    return lambda done: report((index + done) / jobs)


def _begin(progress: Any) -> None:
    global _shared  # noqa: PLW0603 - the only way to hand shared memory to a pool's workers
    _shared = progress


def _one(job: Job, index: int) -> RunRecords:
    def report(done: float) -> None:
        _shared[index] = done

    records = simulate(job.scenario, job.inputs, job.replication, report, engine=job.engine)
    _shared[index] = 1.0
    return records
