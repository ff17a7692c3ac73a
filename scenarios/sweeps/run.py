"""One run of a sweep, and one chunk of them, whoever asks for it.

`Runs` executes single runs; it lives in a process of its own (`main`), where a run may take all memory, hang or end the
process. `Chunks` drives that process, turns whatever happens there into rows, and stores them chunk by chunk.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from analysis.documents import to_document
from analysis.runs.metrics import metrics_of
from analysis.runs.summary import summarise
from models import display
from models.errors import InputError, raise_if_any
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap
from models.steady_state.estimate import check_limits, estimate
from scenarios.files.scenario import named_files
from scenarios.queries.replica_plan import filled
from scenarios.runs.inputs import inputs_of
from scenarios.runs.sandbox import Answer, Note, Sandbox, limit_memory, serve
from scenarios.sweeps.plan import SweepPlan, digest_of_file
from scenarios.sweeps.store import OK, PLAN, Row, SweepStore
from sim.engine import simulate

# The limit is on address space (RLIMIT_AS), as systems do not limit the memory that is in use.
_CODE_BYTES = 6 * 2**30  # address space that libraries and compiled code take, most of it never used
_MOST_BYTES = 2**60  # systems take no more
_NOTES_S = 0.2
_WARMING_S = 0.02  # expected time of a shorter run, by which all code of the run is compiled


class FileChanged(RuntimeError):
    """A file that the scenario names is not the one that the sweep began with."""


class Runs:
    """Runs of one sweep, in this process; what the last design point needed is kept for the next replication.

    Paths in the scenario start from `folder`.
    """

    def __init__(self, directory: Path, folder: Path) -> None:
        self._plan, self._folder = SweepStore(directory).plan(), folder
        self._file = directory / PLAN
        # One design point at a time: its replications follow each other in a chunk. A failure is not cached, and
        # repeats in `run`.
        self._prepared = lru_cache(maxsize=1)(self._prepare)
        self._stage = ""
        self._note: Note = _quiet

    def prepare(self, point: int, note: Note) -> None:
        """Read what a design point needs and compile its code; what goes wrong goes wrong again in `run`."""
        self._note = note
        with contextlib.suppress(Exception):
            self._prepared(point)

    def run(self, point: int, replication: int, note: Note, *, whole: bool = False) -> Answer:
        """Return {"status", "stage", "message", "metrics"} of one run; with `whole` also its "summary" as text."""
        self._note = note
        try:
            scenario, inputs = self._prepared(point)
            self._enter("simulation")
            records = simulate(scenario, inputs, replication, _notes(note, "done"))
            self._enter("summary")
            summary = summarise(scenario, [records])
            metrics = metrics_of(summary)
            text = json.dumps(to_document(summary), ensure_ascii=False, allow_nan=False) if whole else ""
        except InputError as error:
            message = "; ".join(map(str, error.faults))
            return {"status": "error", "stage": self._stage, "message": message, "metrics": {}}
        except MemoryError:
            return {"status": "memory", "stage": self._stage, "message": "memory ran out", "metrics": {}}
        except FileChanged as error:
            return {"status": "failed", "stage": self._stage, "message": str(error), "metrics": {}}
        except Exception as error:  # a run that fails must not end the sweep; its row says what it was
            # Cut, as a message can hold a whole array, and each row of the sweep keeps it.
            text = f"{type(error).__name__}: {error}"[:500]
            return {"status": "failed", "stage": self._stage, "message": text, "metrics": {}}
        return {"status": OK, "stage": "done", "message": "", "metrics": metrics, "summary": text}

    def _prepare(self, point: int) -> tuple[Scenario, RunInputs]:
        """Return the scenario of a design point and its inputs, with the code for it compiled.

        Raises InputError for a point that cannot be run, FileChanged where a file is not that of the plan.
        """
        self._enter("scenario")
        scenario = self._plan.points[point].of(self._plan.scenario)
        raise_if_any(faults(scenario))
        raise_if_any(not_simulated(scenario))
        self._enter("inputs")
        # Before the files are read: rows of other inputs must never join those of the plan.
        self._check_files(scenario)
        scenario = filled(scenario, self._folder)
        inputs = inputs_of(scenario, self._folder)
        # Limits hold for one run: how many replications there are is the business of the plan.
        one = scenario.model_copy(update={"replications": 1})
        expected = estimate(one, inputs.rates, inputs.shares)
        check_limits(one, expected)
        self._enter("compilation")
        with contextlib.suppress(Exception), _alone(self._file):  # the run itself says it
            # A short run of the same scenario takes the same branches of the kernel, so that all of its code is
            # compiled here, where the time does not count.
            part = min(1.0, _WARMING_S / max(expected.time_s, 1e-9))
            simulate(_shorter(scenario, part), inputs, on_compile=_notes(self._note, "compiled"))
        return scenario, inputs

    def _check_files(self, scenario: Scenario) -> None:
        """Raise FileChanged where the rows would not be those of the plan."""
        for _, name in named_files(scenario):
            if digest_of_file(self._folder / name) != self._plan.files[name]:
                raise FileChanged(f"{name} in {self._folder} is not what it was when the sweep began")

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._note({"stage": stage})


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Wait until no other process of this machine is in such a block for that file.

    Two that need the same code would each compile it; the second finds it when the first is done. Where a disk knows
    no locks nobody waits.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:
        yield
        return
    with file.open("rb") as locked:
        with contextlib.suppress(OSError):
            # The plan file is locked since it is there on every machine of the sweep and is never replaced.
            fcntl.flock(locked, fcntl.LOCK_EX)  # ends with the file, or with the process
        yield


def _shorter(scenario: Scenario, part: float) -> Scenario:
    """Return the scenario with that part of its duration, in which all of its events still happen."""
    events = {name: event.at(event.mean_s * part) for name, event in scenario.events.items()}
    return scenario.model_copy(update={"duration_s": scenario.duration_s * part, "events": FrozenMap(events)})


def _quiet(_: Answer) -> None:
    """Ignore what is told."""


def _notes(note: Note, what: str) -> Callable[[float], None]:
    """Tell a share now and then."""
    last = 0.0

    def tell(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        # The kernel tells far more often than a person can read; each note is a line through a pipe.
        if now - last > _NOTES_S:
            last = now
            note({what: share})

    return tell


class Chunks:
    """Executes chunks of a sweep, with a process of its own beside for what may go wrong.

    Paths in the scenario start from `folder`.
    """

    def __init__(
        self, directory: Path, folder: Path, plan: SweepPlan, cpu_s: float | None, *, summaries: bool = False
    ) -> None:
        limits = plan.scenario.limits
        self._store, self._plan, self._cpu_s = SweepStore(directory), plan, cpu_s or limits.time_s
        self._summaries = summaries
        # `resource` takes no number beyond a C long.
        memory = min(int(limits.memory_bytes), _MOST_BYTES) + _CODE_BYTES
        self._sandbox = Sandbox("scenarios.sweeps.run", [str(directory.resolve()), str(folder.resolve()), str(memory)])

    def run(self, chunk: int, note: Note = _quiet, stop: Callable[[], bool] = lambda: False) -> bool | None:
        """Make all runs of a chunk and store them: whether this attempt was the first; None when it was stopped."""
        if self._store.is_there(chunk):  # by another driver
            return False
        rows = []
        for number, (point, replication) in enumerate(self._plan.chunks[chunk]):
            began = time.perf_counter()
            stages = ["scenario"]

            # Defaults bind the values of this pass of the loop: the function outlives it.
            def tell(what: Answer, number: int = number, stages: list[str] = stages) -> None:
                if "stage" in what:
                    stages.append(what["stage"])
                else:
                    note({**what, "runs": number})

            request = {"point": point, "replication": replication, "whole": self._summaries}
            answer = self._sandbox.ask(request, self._cpu_s, tell, stop)
            ended = answer.get("ended")
            if ended == "stopped":
                return None
            if ended:
                status, _, message = str(ended).partition(": ")
                answer = {"status": status, "stage": stages[-1], "message": message, "metrics": {}}
                if status == "timeout":
                    late = stages[-1] in ("simulation", "summary")
                    answer["message"] = (
                        f"more than {display.duration(self._cpu_s, 6)} of CPU time" if late else "it never began"
                    )
            # A failed run is a row as well: a chunk without it would be made again for ever.
            rows.append(Row(point, replication, **answer, run_s=time.perf_counter() - began))
            note({"runs": number + 1, "done": 0.0})
        return self._store.commit(chunk, rows)

    def close(self) -> None:
        """End the process beside."""
        self._sandbox.close()


def main() -> None:
    """Serve the runs of the sweep in a directory: the process behind `Chunks`."""
    directory, folder, memory = sys.argv[1:]
    limit_memory(int(memory))
    runs = Runs(Path(directory), Path(folder))

    def answer(request: Answer, note: Note) -> Answer:
        made = runs.run(request["point"], request["replication"], note, whole=request["whole"])
        # Through JSON here, where an answer that cannot be written still belongs to this request.
        return dict(json.loads(json.dumps(made)))

    serve(
        answer,
        lambda request, note: runs.prepare(request["point"], note),
    )


if __name__ == "__main__":
    main()
