"""One run on two kernels: wherever they hand it over, its rows are those of each of them alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_jobs import checkpointed_job, scan_job, writing_job
from test_planes import differences
from test_scan import made
from test_scan_checkpoints import LARGE

from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import PlaneFactory
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane

PLANES: list[TwoKernels] = []


def cut(spells: list[tuple[int, int]], patience_ns: int = 10_000_000) -> PlaneFactory:
    def factory(*given: Any) -> TwoKernels:
        PLANES[:] = [TwoKernels(*given, spells=spells, patience_ns=patience_ns)]
        return PLANES[0]

    return factory


def random_spells(draw: Random, job: Scenario, most: int) -> list[tuple[int, int]]:
    """Instants in the run, some of them on a lattice, some very close."""
    end = to_ns(job.duration_s)
    lattice = lambda: draw.randrange(1 + end // 5_000_000) * 5_000_000  # noqa: E731
    instants = sorted(
        {draw.randrange(end) if draw.random() < 0.5 else lattice() for _ in range(2 * draw.randint(1, most))}
    )
    return list(zip(instants[::2], instants[1::2], strict=False))


def single(raw: dict[str, Any]) -> dict[str, Any]:
    """The same job without pools of threads, of which kept outputs are not handed over."""
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    return raw


def equal_rows(raw: dict[str, Any], draw: Random, most: int, reference: PlaneFactory = CompiledPlane) -> TwoKernels:
    job = made(raw)
    found = simulate(job, plane=cut(random_spells(draw, job, most)))
    assert differences(simulate(job, plane=reference), found) == []
    return PLANES[0]


Make = Callable[[Random], dict[str, Any]]
JOBS: dict[str, Make] = {
    "without checkpoints": scan_job,
    "checkpoints": lambda draw: single(checkpointed_job(draw)),
    "snapshots that take time": lambda draw: single(writing_job(draw)),
}


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), most=st.sampled_from([1, 3, 20]))
def test_rows_do_not_depend_on_who_has_the_run(job: str, seed: int, most: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw), draw, most)


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_rows_are_those_of_the_plain_plane(job: str, seed: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw), draw, 3, PlainPlane)


@pytest.mark.parametrize("job", JOBS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_histograms_do_not_depend_on_it_either(job: str, seed: int) -> None:
    draw = Random(seed)
    equal_rows(JOBS[job](draw) | {"recording": {"detail": "histograms"}}, draw, 3)


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_many_tuples_are_handed_over(detail: str) -> None:
    raw = LARGE | {"recording": {"detail": detail}}
    plane = equal_rows(raw, Random(4), 12)
    assert len(plane.hand_overs) > 3


def test_the_scan_gets_the_run_back_nearly_always_where_nothing_fails() -> None:
    tried = given_up = 0
    for seed in range(20):
        draw = Random(seed)
        plane = equal_rows(single(checkpointed_job(draw)), draw, 3, ScanPlane)
        tried, given_up = tried + len(plane.hand_overs), given_up + len(plane.hindrances)
    assert tried > 60
    assert given_up < tried / 4


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_hand_overs(job: str, part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        draw = Random(seed)
        equal_rows(JOBS[job](draw), draw, draw.choice([1, 3, 20]))
