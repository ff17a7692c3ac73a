"""Simulated shares of time agree with the exact ones of `models/availability`.

Per query the mean over 12 replications with Student's t; 99.99 % intervals, so that one of some hundred figures is out
with about 1 %. Their widths are bounded too: an interval that holds everything would say nothing.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from fleet_systems import LONG_RUN, STATIC, static_system
from scipy.stats import t as student

from models.fleet.system import System
from models.units import to_ns
from sim.fleet.engine import simulate_fleet

_RUNS = 12
_T = float(student.ppf(1 - 0.0001 / 2, _RUNS - 1))


def shares(system: System) -> tuple[np.ndarray, np.ndarray]:
    """(mean share broken, half width of its interval) of each query, after the warm-up."""
    begin, place = to_ns(system.fleet.warmup_s), {name: k for k, name in enumerate(system.queries)}
    found = np.zeros((_RUNS, len(place)))
    for run in range(_RUNS):
        for name, a, b in simulate_fleet(system, run).rows["outages"]:
            found[run, place[name]] += max(0, b - max(a, begin))
    found /= system.end_ns - begin
    return found.mean(axis=0), _T * found.std(axis=0, ddof=1) / math.sqrt(_RUNS)


@pytest.mark.parametrize("name", STATIC)
def test_simulated_shares_agree_with_exact_ones(name: str) -> None:
    warmup = {} if name == "day" else {"warmup": "30 d"}
    system = static_system(n_queries=4, seed=5, duration="1030 d", **warmup, **STATIC[name])
    exact = np.array([system.broken(query) for query in range(len(system.queries))], dtype=float)
    mean, half = shares(system)
    assert (np.abs(mean - exact) <= half).all()
    assert half.mean() <= 0.25 * exact.mean()


def test_a_product_over_operators_is_noticed() -> None:
    """The classic error counts a host once for each operator that it carries."""
    system = static_system(n_queries=4, seed=5, duration="1030 d", warmup="30 d")
    unavailability = system.unavailability
    assert unavailability is not None
    wrong = [1 - math.prod(1 - unavailability.broken([system.placed[op]]) for op in needs) for needs in system.needs]
    mean, half = shares(system)
    assert (np.abs(mean - wrong) > half).any()


def test_the_end_of_a_day_is_its_worst_moment() -> None:
    from analysis.fleet.summary import fleet_summary  # noqa: PLC0415
    from models.reliability.exact import unavailability  # noqa: PLC0415
    from models.reliability.queries import Queries, equal_hosts  # noqa: PLC0415
    from models.reliability.times import end_of_day  # noqa: PLC0415

    system = static_system(n_queries=4, seed=5, duration="1000 d", times={"mttf": "9 d", "day": "1 d"})
    running = fleet_summary(system, [simulate_fleet(system, run) for run in range(_RUNS)]).running
    queries = Queries(len(system.hosts), system.placed, system.needs)
    exact = unavailability(queries, equal_hosts(end_of_day(9.0, 1.0), len(system.hosts))).low[0].mean()
    low, high = running.end_of_day.ci95
    wide = _T / float(student.ppf(0.975, _RUNS - 1)) * (high - low) / 2
    assert abs(1 - exact - running.end_of_day.mean) <= wide < 0.2 * exact
    assert running.end_of_day.mean < running.time_average.mean - wide


def test_crews_matter_in_the_simulation_as_in_the_chain() -> None:
    one, all_of_them = (static_system(seed=5, times={**LONG_RUN, **more}) for more in ({"crews": 1}, {}))
    few, many = one.broken(0), all_of_them.broken(0)
    assert few is not None and many is not None
    assert few > 1.5 * many
