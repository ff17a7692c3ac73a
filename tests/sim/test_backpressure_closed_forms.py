"""A tandem with a bounded queue between its stations against the closed forms of blocking after service.

On the compiled plane; `closed_forms` says how long, and when they agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from closed_forms import LENGTHS, MILLION, REPLICATIONS, inside
from queueing_formulas import blocking_capacity_per_s, blocking_tandem
from small_jobs import NS, scenario

from models.records.tables import RunRecords
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane

FIRST_S, SECOND_S = 0.008, 0.01


def exponential(mean_s: float) -> dict[str, Any]:
    return {"distribution": "exponential", "mean": f"{mean_s * 1000} ms"}


def tandem(rate: float, between: int, seconds: int, **first: Any) -> dict[str, Any]:
    """The two stations as operators on cores of their own; a sink that costs nothing."""
    return {
        "duration": f"{seconds} s",
        "warmup": "20 s",
        "recording": {"detail": "histograms"},
        "workload": {"src": {"rate": f"{rate} /s"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {"kind": "map", "inputs": {"src": "shuffle"}, "service": exponential(FIRST_S), **first},
            "q": {"kind": "map", "inputs": {"p": "shuffle"}, "service": exponential(SECOND_S), "buffer": between},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }


def mean_s(records: RunRecords, operator: str, what: str) -> float:
    """The mean of a time of an operator after warm-up."""
    times = records.tables["times"]
    row = np.flatnonzero((times["operator"] == records.operators.index(operator)) & (times["what"] == what))[0]
    return float(times["sum_high"][row] * 2**32 + times["sum_low"][row]) / float(times["count"][row]) / NS


def blocked(records: RunRecords, task: int) -> float:
    """The share of time after warm-up in which the task waited for room."""
    rows = records.tables["buffers"]
    own = (rows["task"] == task) & (rows["at_ns"] >= records.warmup_ns)
    at, total = rows["at_ns"][own], rows["blocked_ns"][own]
    return float(total[-1] - total[0]) / float(at[-1] - at[0])


@pytest.mark.parametrize("millions", [pytest.param(0.5, id="half-million"), *LENGTHS[1:]])
@pytest.mark.parametrize(("rate", "between"), [(50.0, 1), (65.0, 4)])
def test_a_blocking_tandem(rate: float, between: int, millions: float) -> None:
    made = scenario(tandem(rate, between, round(millions * MILLION / REPLICATIONS / rate)))
    runs = [simulate(made, None, k, None, CompiledPlane) for k in range(REPLICATIONS)]
    state, width = blocking_tandem(rate, FIRST_S, SECOND_S, between), 0.1 / max(1, millions) ** 0.5
    inside([mean_s(run, "p", "wait") for run in runs], state.first_wait_s, width)
    inside([mean_s(run, "q", "wait") for run in runs], state.second_wait_s, width)
    inside([mean_s(run, "out", "latency") for run in runs], state.sojourn_s, width)
    inside([blocked(run, 1) for run in runs], state.blocked, width)


@pytest.mark.parametrize("between", [1, 3])
def test_a_source_is_held_back_to_the_capacity_of_a_saturated_tandem(between: int) -> None:
    made = scenario(tandem(200.0, between, 500, buffer=2))
    runs = [simulate(made, None, k, None, CompiledPlane) for k in range(REPLICATIONS)]
    capacity = blocking_capacity_per_s(FIRST_S, SECOND_S, between)
    counts = []
    for run in runs:
        delivered = run.tables["delivered"]
        late = delivered["at_ns"] >= run.warmup_ns
        counts.append(float(delivered["count"][late].sum()) / (run.duration_ns - run.warmup_ns) * NS)
        lag = run.tables["lag"]["lag"]
        assert lag[-1] > 0.9 * (200 - capacity) * 500
        assert run.tables["samples"]["queue"].max() <= between + 2
    inside(counts, capacity, width=0.02)


def test_a_bound_at_the_first_station_moves_the_wait_to_the_source_and_changes_nothing_else() -> None:
    raw = tandem(65.0, 2, 200) | {"recording": {"detail": "tuples"}}
    bound = tandem(65.0, 2, 200, buffer=1) | {"recording": {"detail": "tuples"}}
    one, other = (simulate(scenario(keys), None, 0, None, CompiledPlane) for keys in (raw, bound))
    for column in ("created_ns", "delivered_ns"):
        assert np.array_equal(one.tables["deliveries"][column], other.tables["deliveries"][column])
    assert other.tables["lag"]["lag"].max() > 5 > one.tables["lag"]["lag"].max()
