"""Systems with four hosts and more, simulated tuple by tuple, are there as often as the bounds of a size say.

Key groups stay where recoveries put them. Sources and sinks are on a host that does not fail, with so many units that
nothing is recovered there. Of the bound from below states are left out in which all is on too few hosts: they last
long, and are so rare that most of these short runs meet none, which their standard errors know nothing of. (Plays
without tuples, in `test_sizing_placements.py`, are long enough for them.)
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan, Verdict
from models.planning.sizing.sticky_placement import StickyPlacement, at_most
from models.scenario.key_groups import group_shares
from models.scenario.reading import scenario_from
from models.scenario.workload import UniformKeys, ZipfKeys
from optimizer.sizing import solve
from scenarios.runs.run import run

MTTF_S, MTTR_S, LENGTH_S, INTERVAL_S, SERVICE_S = 300.0, 20.0, 3000.0, 5.0, 0.02
START_S = LENGTH_S / 4  # from then on it counts: the bounds are for the long run, not for the even start
KEYS = 2000


def simulated(hosts: int, load: float, exponent: float, groups: int, steps: int, times: int, seed: int) -> np.ndarray:
    """The share of the time in which the job had not caught up after some failure, by replication."""
    operators: dict[str, Any] = {"orders": {"kind": "source"}}
    before = "orders"
    for step in range(steps):
        operators[f"count{step}"] = {
            "kind": "aggregate", "inputs": {before: "key"}, "parallelism": hosts, "key_groups": groups,
            "service": {"distribution": "exponential", "mean": f"{SERVICE_S / steps * 1e3} ms"},
        }  # fmt: skip
        before = f"count{step}"
    operators["out"] = {"kind": "sink", "inputs": {before: "key"}, "key_groups": 128}
    keys = {"distribution": "zipf", "exponent": exponent} if exponent else {"distribution": "uniform"}
    found = run(
        scenario_from(
            {
                "seed": seed, "duration": f"{LENGTH_S} s", "replications": times,
                "workload": {"orders": {"rate": f"{load / SERVICE_S} /s", "keys": {**keys, "count": KEYS}}},
                "operators": operators,
                "hosts": {
                    "front": {"slots": 2},
                    "worker": {
                        "count": hosts, "cpu": "shared",
                        "failures": {"model": "exponential", "mtbf": f"{MTTF_S} s", "repair": f"{MTTR_S} s"},
                    },
                },
                "placement": {
                    "operators": {name: "front" if name in ("orders", "out") else "worker" for name in operators}
                },
                "fault_tolerance": {"method": "checkpoint", "interval": f"{INTERVAL_S} s", "store": "remote"},
                "detector": {"heartbeat": "100 ms", "timeout": "2 s"},
                "recording": {"detail": "histograms"},
            }
        )
    )  # fmt: skip
    return np.array([_absent(one.tables["failures"], hosts) for one in found.records])


def _end(rows: Any, hosts: int) -> float:
    """When all workers are down for the first time: then units go to the host that does not fail, and stay there."""
    begins, ends = (np.asarray(rows[name]) / 1e9 for name in ("failed_ns", "repaired_ns"))
    ends = np.where(ends < 0, LENGTH_S, ends)
    down = ((begins <= begins[:, None]) & (ends > begins[:, None])).sum(axis=1)
    return float(begins[down == hosts].min(initial=LENGTH_S))


def _absent(rows: Any, hosts: int) -> float:
    last = max(_end(rows, hosts), START_S + 1.0)
    hit = np.asarray(rows["lost_partitions"]) > 0
    begins, ends = (np.asarray(rows[name])[hit] / 1e9 for name in ("failed_ns", "caught_up_ns"))
    total, until = 0.0, START_S
    for begin, end in sorted(zip(begins.tolist(), np.where(ends < 0, last, ends).tolist(), strict=True)):
        total += max(0.0, min(end, last) - max(begin, until))
        until = max(until, end)
    return total / (last - START_S)


def problem(load: float, exponent: float, groups: int, steps: int, **target: float) -> SizingProblem:
    keys = ZipfKeys(distribution="zipf", exponent=exponent, count=KEYS) if exponent else None
    own = group_shares(keys or UniformKeys(distribution="uniform", count=KEYS), groups)
    raw = {
        "target": {"availability": 0.9, **target},
        "work": {"rate_per_s": load / SERVICE_S, "service_s": SERVICE_S},
        "hosts": {"most": 7},
        "failures": {"mttf_s": MTTF_S, "mttr_s": MTTR_S},
        "checkpoints": {"pause_s": 0.001, "detection_s": 2.0},
        "units": {"shares": tuple(float(one) for one in np.tile(own, steps)), "steps": steps},
    }
    return SizingProblem(sizing_from(raw, from_file=False), MTTF_S, MTTR_S)


def check(hosts: int, load: float, exponent: float, groups: int, steps: int, times: int, seed: int) -> float:
    instance = problem(load, exponent, groups, steps)
    sticky = StickyPlacement.of(instance, SystemPlan(hosts, 1))
    assert sticky is not None
    high, by_state = at_most(sticky, INTERVAL_S).total, sticky.at_least_by_state(INTERVAL_S, INTERVAL_S)
    low = sum(p for state, p in enumerate(by_state.tolist()) if sticky.used_hosts(state) > load)
    found = simulated(hosts, load, exponent, groups, steps, times, seed)
    error = 4 * found.std(ddof=1) / math.sqrt(times)
    assert found.mean() - error <= high
    assert found.mean() + error >= low
    return float(found.mean())


def test_four_hosts_that_keep_their_key_groups_are_there_as_often_as_the_bounds_say() -> None:
    share = check(hosts=4, load=1.2, exponent=1.0, groups=16, steps=1, times=4, seed=5)
    assert share > 0.02


@pytest.mark.slow
def test_seven_hosts_with_two_operators_are_there_as_often_as_the_bounds_say() -> None:
    check(hosts=7, load=1.6, exponent=0.0, groups=14, steps=2, times=3, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(32))
def test_many_small_jobs_are_there_as_often_as_the_bounds_say(seed: int) -> None:
    draw = random.Random(seed)
    hosts = draw.randint(3, 7)
    load = draw.uniform(0.15, 0.6) * hosts
    check(hosts, load, draw.choice([0.0, 0.6, 1.0]), draw.randint(hosts, 24), draw.choice([1, 1, 2, 3]), 6, seed)


@pytest.mark.slow
def test_a_size_that_counts_on_even_work_is_not_there_as_often_and_one_with_units_is() -> None:
    """Three hosts at a third: after a failure the one that comes back stays empty, and the next one fills one host."""
    even = solve(SizingProblem(problem(1.0, 0.0, 12, 1).description.model_copy(update={"units": None}), MTTF_S, MTTR_S))
    assert even.chosen is not None
    assert even.chosen.plan == SystemPlan(3, 1)
    found = solve(problem(1.0, 0.0, 12, 1), curve=False)
    assert found.chosen is not None
    verdicts = {one.plan.hosts: one.verdict for one in found.evaluated}
    assert verdicts[3] is Verdict.FAILS
    assert found.chosen.plan.hosts > 3
    assert found.figures is not None
    hosts = found.chosen.plan.hosts
    three, chosen = (simulated(n, 1.0, 0.0, 12, 1, 4, seed=9) for n in (3, hosts))
    assert three.mean() > 0.1 > chosen.mean()
