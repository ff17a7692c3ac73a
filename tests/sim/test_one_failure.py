"""One failure changes nothing at the sinks, whatever the method of recovery that claims so, also beside windows.

Oracle: the same job without that failure; all ids at the sinks are compared, as the ledger does not reach behind
windows. Each task has a host of its own, so that a failure takes one task.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from seeds import sample
from small_jobs import applied, drain, random_job, random_joins, random_windows

from sim.recovery.checkpoint import RestoreFromCheckpoint

METHODS = ("elastic-upstream-backup", "synchronous-checkpoints", "state-management")
MAKES = (random_windows, random_joins, random_job)


def job(method: str, seed: int) -> tuple[dict[str, Any], str, str]:
    """Return a random job, the host of one of its tasks, and one that has none."""
    draw = Random(f"one failure {seed}")
    trimming = {"slice": draw.choice(["50 ms", "100 ms"]), "every": draw.choice(["100 ms", "300 ms"]), "step": "20 ms"}
    tolerance = {"method": method, "interval": draw.choice(["200 ms", "500 ms"]), "guarantee": "exactly-once"}
    tolerance |= {"store": "remote", "remote": "100 MB/s"}
    if method == "elastic-upstream-backup":
        tolerance["trimming"] = trimming
    raw = MAKES[seed % len(MAKES)](draw, fault_tolerance=tolerance)
    tasks = [f"{name}-{k}" for name, one in raw["operators"].items() for k in range(one.get("parallelism", 1))]
    raw["hosts"]["h"]["count"] = len(tasks) + 2
    raw["hosts"]["h"].pop("network", None)
    raw["placement"] = {"tasks": {task: f"h-{place}" for place, task in enumerate(tasks)}}
    return raw | {"duration": "6 s"}, f"h-{draw.randrange(len(tasks))}", f"h-{len(tasks) + 1}"


def at_sinks(raw: dict[str, Any], host: str, at_ms: int) -> Any:
    """Return how often each id was delivered at each sink, when a host dies at an instant."""
    run = drain(raw | {"events": {"dies": {"at": f"{at_ms} ms", "kind": "host-failure", "host": host}}})
    assert run.drained
    operators = run.plane.plan.operators
    return {place: ids for place, ids in applied(run.plane).items() if operators[place[0]].is_sink}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", sample(12, 400))
def test_the_sinks_get_what_they_would_have_got(method: str, seed: int) -> None:
    raw, host, idle = job(method, seed)
    at_ms = Random(seed).randint(1500, 4500)
    assert at_sinks(raw, host, at_ms) == at_sinks(raw, idle, at_ms)


def test_a_task_that_nobody_replays_to_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestoreFromCheckpoint, "replayers", lambda self, partition: [])
    found = []
    for seed in range(6):
        raw, host, idle = job("elastic-upstream-backup", seed)
        found.append(at_sinks(raw, host, 3000) != at_sinks(raw, idle, 3000))
    assert any(found)
