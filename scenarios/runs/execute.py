"""Replications, one after the other or on several processes, with the same bytes either way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from models.records.tables import RunRecords
from models.scenario.inputs import Engine, RunInputs
from models.scenario.scenario import Scenario
from scenarios.runs.task_runner import Share, run_tasks
from sim.engine import prepare, simulate

Progress = Callable[[float], None]
COMPILING = "compiling for this machine, once"


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
    """Return the records of all jobs, in their order; `on_progress` gets the share of simulated time that is done.

    Where code for this machine is not kept yet `on_compile` gets the share of it that is compiled. Raises WorkerLost
    if a process was killed.

    With one worker or one job all runs are in this process; otherwise each worker is a process that is started anew.
    """
    share = Share([1.0] * len(jobs), on_progress or (lambda _: None))
    if workers <= 1 or len(jobs) <= 1:
        perform = partial(_simulated, on_compile)
    else:
        perform = partial(_simulated, None)
        compiled = next((job for job in jobs if job.engine != "plain"), None)
        if compiled is not None:
            # In this process, which waits; workers then load the compiled code from the cache on disk.
            prepare(compiled.scenario, compiled.inputs, on_compile)  # or each worker would compile the same
    return run_tasks(perform, jobs, workers, on_part=share.note, on_result=share.ended)


def _simulated(on_compile: Progress | None, job: Job, tell: Progress) -> RunRecords:
    return simulate(job.scenario, job.inputs, job.replication, tell, on_compile=on_compile, engine=job.engine)
