"""One failure changes nothing at the sinks, whatever the method of recovery that claims so, also beside windows.

Oracle: the same job without that failure; all ids at the sinks are compared, as the ledger does not reach behind
windows. Each task has a host of its own, so that a failure takes one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from seeds import sample
from small_jobs import NS, applied, drain, random_job, random_joins, random_windows

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


def at_sinks(raw: dict[str, Any], hosts: Sequence[str], at_ms: int) -> list[Any]:
    """Return how often each id was delivered at each sink, for each of the hosts that may die at an instant.

    The last host is one whose death changes nothing.
    Timers go on for as long as a run does: all runs are equally long, and idle at their end.
    """
    ends_s = {0}
    while True:
        runs = [drain(raw | {"events": dies(host, at_ms)}, most_s=100, least_s=max(ends_s)) for host in hosts]
        if not runs[-1].drained:
            pytest.skip("its timers leave it no idle instant at which a run could end")
        assert all(run.drained for run in runs)
        ends_s = {run.control.clock.now_ns() // NS for run in runs}
        if len(ends_s) == 1:
            break
    found = []
    for run in runs:
        operators = run.plane.plan.operators
        found.append({place: ids for place, ids in applied(run.plane).items() if operators[place[0]].is_sink})
    return found


def dies(host: str, at_ms: int) -> dict[str, Any]:
    """Events: the host dies at an instant."""
    return {"dies": {"at": f"{at_ms} ms", "kind": "host-failure", "host": host}}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", sample(3, 400))
def test_the_sinks_get_what_they_would_have_got(method: str, seed: int) -> None:
    raw, host, idle = job(method, seed)
    at_ms = Random(seed).randint(1500, 4500)
    with_it, without = at_sinks(raw, (host, idle), at_ms)
    assert with_it == without


def test_a_task_that_nobody_replays_to_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestoreFromCheckpoint, "replayers", lambda self, partition: [])
    found = []
    for seed in range(6):
        raw, host, idle = job("elastic-upstream-backup", seed)
        with_it, without = at_sinks(raw, (host, idle), 3000)
        found.append(with_it != without)
    assert any(found)
