"""Sweeps: every design point times every replication, on processes of this machine or on Spark, resumed by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from analysis.comparison import Replications
from analysis.runs.metrics import Metrics
from models import display
from models.errors import NO_VALUE, InputError, WorkerLost
from scenarios.files.scenario import LoadedScenario
from scenarios.runs.sandbox import Answer
from scenarios.runs.task_runner import Share, run_on_threads
from scenarios.sweeps.plan import SweepPlan, make_plan
from scenarios.sweeps.run import Chunks
from scenarios.sweeps.store import OK, Row, SweepStore, digest

Where = Literal["local", "spark"]
Progress = Callable[[float], None]
_LIMITS_S = (0.001, 1e9)  # what --time-limit may be


@dataclass(frozen=True)
class SweepResult:
    """All that is known of a sweep: its plan, and a row for each run.

    >>> from holdfast import LoadedScenario, read_scenario, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> result = sweep(LoadedScenario(varied, loaded.folder), "intervals-2")
    >>> result.failed, len(result.rows)
    ((), 2)
    """

    directory: Path
    plan: SweepPlan
    rows: tuple[Row, ...]

    @property
    def failed(self) -> tuple[Row, ...]:
        """The runs that did not come to their end."""
        return tuple(row for row in self.rows if row.status != OK)

    @property
    def digest(self) -> str:
        """Digest of the results, equal for any number of workers, or on Spark."""
        return digest(self.rows)

    def replications(self, point: int) -> Replications:
        """Return replication -> metrics of a design point, of the runs that came to their end."""
        return self._by_point.get(point, {})

    @cached_property
    def _by_point(self) -> dict[int, dict[int, Metrics]]:
        found: dict[int, dict[int, Metrics]] = {}
        for row in self.rows:
            if row.status == OK:
                found.setdefault(row.point, {})[row.replication] = row.metrics
        return found


def sweep(
    loaded: LoadedScenario,
    out: Path | str,
    *,
    on: Where = "local",
    workers: int = 1,
    master: str | None = None,
    time_limit_s: float | None = None,
    retry: bool = False,
    summaries: bool = False,
    on_plan: Progress = lambda share: None,
    on_progress: Progress | None = None,
    on_compile: Progress | None = None,
    check: Callable[[SweepResult], object] = lambda stored: None,
) -> SweepResult:
    """Make what is missing of a sweep in the directory `out`, and return all of it.

    The same scenario gives the same digest on processes of this machine (`on="local"`) and on Spark, for any number of
    workers and interruptions. `workers` are processes (local) or threads of Spark (without a `master`). A run that
    takes more CPU time than `time_limit_s` (without it `limits.time`) ends as a row with that status; `retry` makes
    again what ended by time, memory, a crash or an error that nobody expected. `summaries` keeps the whole summary of
    each run in its row. Files that the scenario names are read from where `loaded` found them. `check` sees what is
    stored before anything is made, and may raise. Raises InputError for a directory that holds something else or
    cannot be written, WorkerLost where Spark gave up or the machine could not go on.

    >>> from holdfast import LoadedScenario, read_scenario, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> result = sweep(LoadedScenario(varied, loaded.folder), "intervals")
    >>> [row.status for row in result.rows]
    ['ok', 'ok']
    """
    low, high = _LIMITS_S
    if time_limit_s is not None and not low <= time_limit_s <= high:
        raise InputError.at(
            "--time-limit", time_limit_s, f"must be between {display.duration(low, 6)} and {display.duration(high, 6)}"
        )
    directory = _resolved(out)
    store = SweepStore(directory)
    with _machine_faults(directory):
        # The stored plan wins: if the directory holds this sweep already, its chunks are gone on with.
        plan = store.begin(make_plan(loaded, on_plan))
        store.clean()
        todo = store.to_do(plan, summaries=summaries)
        # Before anything is put aside by `retry`: a caller that refuses must find the directory as it was.
        check(SweepResult(directory, plan, tuple(store.rows(plan))))
        if retry:
            todo = store.to_do(plan, retry=True, summaries=summaries)
        if todo:
            # Before any process or cluster starts: a full disk is told in a second.
            store.check_writable()
            # Chunks of an earlier attempt count as done from the start: the share is of the whole sweep.
            done = set(range(len(plan.chunks))) - set(todo)
            share = Share(plan.costs_s, on_progress or (lambda _: None), done)
            if on == "spark":
                from scenarios.sweeps.spark import on_spark  # noqa: PLC0415 - only where Spark is asked for

                def look() -> None:
                    for chunk in store.committed():
                        share.ended(chunk)
                    share.tell()

                on_spark(directory, loaded.folder, todo, time_limit_s, workers, master, look, summaries)
            else:
                make = partial(Chunks, directory, loaded.folder, plan, time_limit_s, summaries=summaries)
                run_on_threads(make, todo, workers, on_note=partial(_noted, plan, share, on_compile))
    # From disk, so that a fresh sweep and a resumed one give exactly the same rows.
    return read_sweep(directory)


@contextmanager
def _machine_faults(directory: Path) -> Iterator[None]:
    """Raise WorkerLost in place of an OSError of the disk, or of a limit of the system, in the block."""
    try:
        yield
    # The reader of stdout is gone (`| head`): that has nothing to do with the directory.
    except BrokenPipeError:
        raise
    except OSError as error:
        text = "what is done is stored: give the same command again"
        raise WorkerLost(f"{directory}: {(error.strerror or str(error)).lower()}; {text}") from error


def _resolved(out: Path | str) -> Path:
    """Return the absolute directory; raises InputError for a name that no directory can have."""
    try:
        directory = Path(out).resolve()
        directory.exists()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a symbolic link that leads to itself
        why = getattr(error, "strerror", None) or "no directory can have this name"
        raise InputError.at(str(out), NO_VALUE, "is no directory that can be made", why.lower()) from None
    return directory


def read_sweep(directory: Path | str) -> SweepResult:
    """Return the sweep in a directory, finished or not; raises InputError where there is none.

    >>> from holdfast import LoadedScenario, read_scenario, read_sweep, scenario_with, sweep
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> varied = scenario_with(loaded.scenario, {"sweep": {"fault_tolerance.interval": ["2 s", "10 s"]}})
    >>> made = sweep(LoadedScenario(varied, loaded.folder), "intervals-3")
    >>> read_sweep("intervals-3").rows == made.rows
    True
    """
    store = SweepStore(Path(directory))
    plan = store.plan()
    return SweepResult(Path(directory), plan, tuple(store.rows(plan)))


def _noted(plan: SweepPlan, share: Share, on_compile: Progress | None, chunk: int, said: Answer) -> None:
    """Pass on what a chunk says: so many of its runs are done and that part of the next, or of the compilation."""
    if "compiled" in said and on_compile:
        on_compile(said["compiled"])
    elif "done" in said:
        share.note(chunk, (said["runs"] + said["done"]) / len(plan.chunks[chunk]))
