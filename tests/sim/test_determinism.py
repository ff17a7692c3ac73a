"""The same question has the same answer: twice, in another process, under another hash seed, next to another job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import pytest
from small_jobs import applied, digest, drain, random_job, rows_of, scenario, simulate

from models.scenario.scenario import Scenario
from sim import engine
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

ROOT = Path(__file__).parents[2]


def job(seed: int) -> dict[str, Any]:
    """A random job with a failure law besides its crashes."""
    raw = random_job(Random(seed))
    raw["duration"] = "9 s"
    raw["hosts"]["h"]["failures"] = {"model": "exponential", "mtbf": "5 s", "repair": "400 ms"}
    raw["events"] = {name: event for name, event in raw["events"].items() if int(event["at"].split()[0]) < 9000}
    return raw


def run_digest(seed: int) -> str:
    return digest(simulate(Scenario.model_validate(job(seed), context={"units": True}, by_alias=True, by_name=False)))


def test_a_test_of_behaviour_runs_on_the_plane_that_its_name_says(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(engine, "simulate", lambda *arguments: asked.append(arguments[-1]))
    simulate(scenario(job(0)))
    name = request.node.name  # not `each_plane`: it must be there without being asked for
    assert asked == [{"plain": PlainPlane, "compiled": CompiledPlane}[name[name.index("[") + 1 : -1]]]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_scenario_gives_the_same_rows(seed: int) -> None:
    assert run_digest(seed) == run_digest(seed)


def test_progress_reports_change_nothing() -> None:
    made = scenario(job(3))
    told: list[float] = []
    assert digest(simulate(made, on_progress=told.append)) == digest(simulate(made))
    assert told == [percent / 100 for percent in range(1, 100)]


def test_replications_and_seeds_differ() -> None:
    raw = job(4)
    made = scenario(raw)
    other = scenario(raw | {"seed": raw["seed"] + 1})
    assert len({digest(simulate(made)), digest(simulate(made, replication=1)), digest(simulate(other))}) == 3


ALL_DIGESTS = """
import json
from small_jobs import running_on
from test_determinism import run_digest
from test_unchanged import PLANES
found = {}
for name, plane in PLANES.items():
    with running_on(plane):
        found[name] = [run_digest(seed) for seed in range(3)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def digests_by_hash_seed() -> list[dict[str, list[str]]]:
    """Plane -> digests, of two processes with a hash seed each."""
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", here, here / "kernel")))
    return [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", ALL_DIGESTS],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
                cwd=ROOT,
            ).stdout
        )
        for hash_seed in ("0", "4711")
    ]


def test_the_hash_seed_of_python_does_not_matter(
    each_plane: str, digests_by_hash_seed: list[dict[str, list[str]]]
) -> None:
    here = [run_digest(seed) for seed in range(3)]
    assert [found[each_plane] for found in digests_by_hash_seed] == [here, here]


def test_worker_processes_give_the_same_rows() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        assert list(pool.map(run_digest, range(4))) == [run_digest(seed) for seed in range(4)]


def test_another_operator_does_not_change_the_draws_of_the_first() -> None:
    law = {"distribution": "exponential", "mean": "10 ms"}
    raw = {
        "duration": "20 s",
        "workload": {"src": {"rate": "50 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "q": {"kind": "map", "inputs": {"src": "shuffle"}, "parallelism": 2, "service": law, "selectivity": 1.5},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }
    alone = simulate(scenario(raw))
    raw["workload"] = {"before": {"rate": "30 /s"}, **raw["workload"]}  # type: ignore[dict-item]
    raw["operators"] = {
        "before": {"kind": "source"},
        "extra": {"kind": "map", "inputs": {"before": "shuffle", "src": "shuffle"}, "service": law},
        **raw["operators"],  # type: ignore[dict-item]
        "end": {"kind": "sink", "inputs": {"extra": "shuffle"}},
    }
    together = simulate(scenario(raw))
    assert rows_of(alone, "q") == rows_of(together, "q")
    assert len(rows_of(alone, "q")) > 900


def test_placement_changes_times_but_not_what_is_computed() -> None:
    raw = job(7) | {"events": {}, "fault_tolerance": {"method": "none"}}
    runs = [drain(raw | {"hosts": {"h": {"count": count}}}) for count in (3, 1)]
    assert all(run.drained for run in runs)
    assert applied(runs[0].plane) == applied(runs[1].plane)
