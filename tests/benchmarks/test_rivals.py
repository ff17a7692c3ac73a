"""The rivals of the benchmark simulate one job: what they find is compared with the closed form of a Jackson network.

Independent replications with fixed seeds; the exact mean must lie in Student's t interval at 99.9 %, which must be
narrow enough to say something.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from queueing_formulas import mm1
from scipy import stats

CONFIDENCE, REPLICATIONS = 0.999, 10
RIVALS = ("plain", "simpy_by_hand", "heap_loop")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script; it finds its neighbour as it does when it is run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("data_plane")


def latency_s(job: Any) -> float:
    """M/M/1 at each of two visits: to two operators, or twice to a core that both share; and links.

    The route to the second operator stays on the host with the chance of one in all tasks.
    """
    visits = 2 if job.shared else 1
    visit = mm1(visits * job.rate_per_s / job.tasks, job.service_s).wait_s + job.service_s
    return 2 * visit + (3 - 1 / job.tasks) * job.latency_s


@pytest.mark.parametrize("shared", [False, True], ids=["dedicated", "shared"])
@pytest.mark.parametrize("name", [*RIVALS, "rows", "histograms"])
def test_rivals_and_engine_agree_with_the_tandem_of_mm1(benchmark: ModuleType, name: str, shared: bool) -> None:
    job = benchmark.Job(shared=shared, utilisation=0.5, rate_per_s=500.0, tasks=5, groups=15, latency_s=0.002)
    runs = {rival: getattr(benchmark, rival) for rival in RIVALS} | {
        "rows": benchmark.engine,
        "histograms": lambda *what: benchmark.engine(*what, detail="histograms"),
    }
    found = [runs[name](job, 20.0, seed) for seed in range(REPLICATIONS)]
    assert min(one.steps for one in found) > 0.9 * 2 * 20 * 500
    means = np.array([one.latency_s for one in found])
    half = stats.t.ppf((1 + CONFIDENCE) / 2, REPLICATIONS - 1) / REPLICATIONS**0.5 * means.std(ddof=1)
    exact = latency_s(job)
    assert abs(means.mean() - exact) <= half, (means.mean(), exact, half)
    assert half <= 0.04 * exact, half


def test_the_engine_takes_the_scan_or_as_told_the_event_loop_to_the_same_mean(benchmark: ModuleType) -> None:
    job = benchmark.Job(rate_per_s=500.0, tasks=5, groups=15)
    assert benchmark.engine(job, 5.0, 1) == benchmark.engine(job, 5.0, 1, event_loop=True)


def test_a_section_prints_a_line_for_each_rival_and_both_ways_of_recording(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.scan(0.001, 1)
    printed = capsys.readouterr().out
    for what in (
        "plain SimPy / holdfast, a row per tuple",
        "SimPy by hand / holdfast, histograms",
        "heap loop / holdfast, a row per tuple",
    ):
        assert printed.count(what) == 2
