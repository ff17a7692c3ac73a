"""One run of a sweep, and one chunk of them, whoever asks for it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from analysis.metrics import metrics_of
from analysis.summary import summarise
from models.errors import InputError, raise_if_any
from models.estimate import check_limits, estimate
from models.inputs import RunInputs
from models.rules import faults, not_simulated
from models.scenario import Scenario
from scenarios.guard import Answer, Guard, Note, limit_memory, serve
from scenarios.runs import inputs_of
from scenarios.sweep_plan import SweepPlan
from scenarios.sweep_store import OK, Row, SweepStore
from sim.engine import simulate

_CODE_BYTES = 6 * 2**30  # address space that libraries and compiled code take, most of it never used
_NOTES_S = 0.2


class Runs:
    """Runs of one sweep, in this process; what the last design point needed is kept for the next replication."""

    def __init__(self, directory: Path) -> None:
        plan = SweepStore(directory).plan()
        self._plan, self._folder = plan, directory / plan.folder
        self._prepared = lru_cache(maxsize=1)(self._prepare)
        self._stage = ""

    def run(self, point: int, replication: int, note: Note) -> Answer:
        """{"status", "stage", "message", "metrics"} of one run."""
        try:
            self._stage = "scenario"
            scenario, inputs = self._prepared(point)
            self._stage = "simulation"
            records = simulate(scenario, inputs, replication, _notes(note, "done"), on_compile=_notes(note, "compiled"))
            self._stage = "summary"
            metrics = metrics_of(summarise(scenario, [records]))
        except InputError as error:
            return {"status": "error", "stage": self._stage, "message": str(error), "metrics": {}}
        except MemoryError:
            return {"status": "memory", "stage": self._stage, "message": "memory ran out", "metrics": {}}
        except Exception as error:  # a run that fails must not end the sweep; its row says what it was
            text = f"{type(error).__name__}: {error}"[:500]
            return {"status": "error", "stage": self._stage, "message": text, "metrics": {}}
        return {"status": OK, "stage": "done", "message": "", "metrics": metrics}

    def _prepare(self, point: int) -> tuple[Scenario, RunInputs]:
        scenario = self._plan.points[point].of(self._plan.scenario)
        raise_if_any(faults(scenario))
        raise_if_any(not_simulated(scenario))
        self._stage = "inputs"
        inputs = inputs_of(scenario, self._folder)
        one = scenario.model_copy(update={"replications": 1})
        check_limits(one, estimate(one, inputs.rates, inputs.shares))
        return scenario, inputs


def _notes(note: Note, what: str) -> Callable[[float], None]:
    """Tell a share now and then."""
    last = 0.0

    def tell(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _NOTES_S:
            last = now
            note({what: share})

    return tell


class Chunks:
    """Executes chunks of a sweep, with a process of its own beside for what may go wrong."""

    def __init__(self, directory: Path, plan: SweepPlan, cpu_s: float | None) -> None:
        limits = plan.scenario.limits
        self._store, self._plan, self._cpu_s = SweepStore(directory), plan, cpu_s or limits.time_s
        memory = int(limits.memory_bytes) + _CODE_BYTES
        self._guard = Guard("scenarios.sweep_run", [str(directory.resolve()), str(memory)])

    def run(self, chunk: int, note: Note = lambda _: None, stop: Callable[[], bool] = lambda: False) -> bool | None:
        """Make all runs of a chunk and store them: whether this attempt was the first; None when it was stopped."""
        rows = []
        for number, (point, replication) in enumerate(self._plan.chunks[chunk]):
            began = time.perf_counter()

            def tell(what: Answer, number: int = number) -> None:
                note({**what, "runs": number})

            answer = self._guard.ask({"point": point, "replication": replication}, self._cpu_s, tell, stop)
            ended = answer.get("ended")
            if ended == "stopped":
                return None
            if ended:
                status, _, message = str(ended).partition(": ")
                answer = {"status": status, "stage": "simulation", "message": message, "metrics": {}}
                if status == "timeout":
                    answer["message"] = f"more than {self._cpu_s:g} s of CPU time"
            rows.append(Row(point, replication, **answer, run_s=time.perf_counter() - began))
            note({"runs": number + 1, "done": 0.0})
        return self._store.commit(chunk, rows)

    def close(self) -> None:
        """End the process beside."""
        self._guard.close()


def main() -> None:
    """Serve the runs of the sweep in a directory: the process behind `Chunks`."""
    directory, memory = sys.argv[1:]
    limit_memory(int(memory))
    runs = Runs(Path(directory))
    serve(lambda request, note: json.loads(json.dumps(runs.run(request["point"], request["replication"], note))))


if __name__ == "__main__":
    main()
