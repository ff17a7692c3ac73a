"""Units that stay where recoveries put them: a chain of single units and a plain play beside them."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from models.planning.sizing.sticky_placement import Shares, StickyPlacement, at_most, placements
from models.reliability.repair import down_law

DOWN = -1


def problem(load: float, shares: tuple[float, ...], mttf_s: float, mttr_s: float, **points: float) -> SizingProblem:
    raw: dict[str, Any] = {
        "target": {"availability": 0.9},
        "work": {"load": load},
        "failures": {"mttf_s": mttf_s, "mttr_s": mttr_s},
        "checkpoints": {"pause_s": 0.01, "detection_s": 2.0, **points},
        "units": {"shares": shares},
    }
    return SizingProblem(sizing_from(raw, from_file=False), mttf_s, mttr_s)


def recovered(where: tuple[int, ...], up: tuple[bool, ...]) -> tuple[int, ...]:
    """Each unit of a host that is down, one by one, on the host that is up and has the fewest, the first of equals."""
    found = list(where)
    for unit, host in enumerate(where):
        live = [other for other, there in enumerate(up) if there]
        if host == DOWN or not up[host]:
            found[unit] = min(live, key=lambda other: (found.count(other), other)) if live else DOWN
    return tuple(found)


def law_of_single_units(
    hosts: int, units: int, mttf_s: float, mttr_s: float
) -> dict[tuple[tuple[int, ...], int], float]:
    """P(units of the hosts that are up, hosts down), from a chain that knows each unit and each host by name."""
    first = (tuple(unit % hosts for unit in range(units)), (True,) * hosts)
    place, todo, rates = {first: 0}, [first], {}
    while todo:
        where, up = state = todo.pop()
        for host in range(hosts):
            after = tuple(there != (other == host) for other, there in enumerate(up))
            then = recovered(where, after), after
            if then not in place:
                place[then] = len(place)
                todo.append(then)
            rates[place[state], place[then]] = 1 / mttf_s if up[host] else 1 / mttr_s
    flow = np.zeros((len(place), len(place)))
    for (a, b), rate in rates.items():
        flow[b, a] += rate
        flow[a, a] -= rate
    law = np.linalg.lstsq(np.vstack([flow, np.ones(len(place))]), np.r_[np.zeros(len(place)), 1.0], rcond=None)[0]
    found: dict[tuple[tuple[int, ...], int], float] = {}
    for (where, up), index in place.items():
        counts = tuple(sorted((where.count(host) for host in range(hosts) if up[host]), reverse=True))
        found[counts, up.count(False)] = found.get((counts, up.count(False)), 0.0) + float(law[index])
    return found


@pytest.mark.parametrize("hosts, units", [(1, 3), (2, 3), (3, 2), (3, 4)])
def test_counts_have_the_law_that_a_chain_of_single_units_has(hosts: int, units: int) -> None:
    states = placements(hosts, units)
    assert states is not None
    law = states.law(10.0, 3.0, hosts)
    slow = law_of_single_units(hosts, units, 10.0, 3.0)
    found = {(counts, down): p for counts, down, p in zip(states.counts, states.down, law, strict=True)}
    for state in found.keys() | slow.keys():
        assert found.get(state, 0.0) == pytest.approx(slow.get(state, 0.0), abs=1e-9)


@pytest.mark.parametrize("crews", [1, 2, 5])
def test_hosts_that_are_down_have_the_law_of_failures_and_repairs_alone(crews: int) -> None:
    states = placements(5, 12)
    assert states is not None
    by_down = np.bincount(states.down, states.law(300.0, 20.0, crews))
    assert by_down == pytest.approx(down_law(5, 300.0, 20.0, crews), rel=1e-9)


def test_more_placements_than_may_be_looked_at_are_none() -> None:
    assert placements(6, 24, most=50) is None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.data())
@settings(max_examples=40, deadline=None)
def test_shares_of_any_units_lie_between_the_lightest_and_the_heaviest(weights: list[int], data: Any) -> None:
    shares = Shares.of(np.array(weights, float))
    for size in range(len(weights) + 1):
        sums = [sum(chosen) / sum(weights) for chosen in itertools.combinations(weights, size)]
        assert shares.most[size] == pytest.approx(max(sums))
        assert shares.least[size] == pytest.approx(min(sums))


def played(instance: SizingProblem, hosts: int, interval_s: float, seed: int, length_s: float) -> float:
    """Share of the last three quarters in which some host is behind, with every unit and host by name, without tuples.

    A host is behind for D, and while it has work that its units were behind with or that a recovery rolled back. Hosts
    work side by side. Later failures of hosts that are behind roll back what they worked, at full speed.
    """
    draw = random.Random(seed)
    units = instance.description.units
    assert units is not None
    weights = [instance.description.load * value / sum(units.values) for value in units.values]
    where, up = tuple(unit % hosts for unit in range(len(weights))), (True,) * hosts
    behind = [0.0] * len(weights)  # work of each unit that is behind [hosts x s]
    blocked = [0.0] * len(weights)  # time until a unit goes on
    left = 1 - instance.description.checkpoints.pause_s / interval_s
    now = absent = counted = 0.0
    while now < length_s:
        rate = sum(1 / instance.mttf_s if there else 1 / instance.mttr_s for there in up)
        wait = min(draw.expovariate(rate), length_s - now)
        late = _flow(wait, where, hosts, weights, behind, blocked, left)
        if now > length_s / 4:  # the long run begins some time after the start
            absent, counted = absent + late, counted + wait
        now += wait
        (host,) = draw.choices(range(hosts), [1 / instance.mttf_s if there else 1 / instance.mttr_s for there in up])
        was = where
        up = tuple(there != (other == host) for other, there in enumerate(up))
        where = recovered(where, up)
        for unit, before in enumerate(was):
            if before == host and not up[host]:
                back = draw.random() * interval_s + instance.complete_s
                behind[unit] += weights[unit] * back
                blocked[unit] = instance.down_s(hosts=1)  # the same for all
    return absent / counted


def _flow(
    wait: float, where: tuple[int, ...], hosts: int, weights: list[float], behind: list[float], blocked: list[float],
    left: float,
) -> float:  # fmt: skip
    """Let time pass; returns how long something was behind."""
    absent, rest = 0.0, wait
    while rest > 1e-9:
        step, rates = rest, []
        for host in [DOWN, *range(hosts)]:
            own = [unit for unit, at in enumerate(where) if at == host]
            ready = [unit for unit in own if blocked[unit] <= 0 and host != DOWN]
            load, late = sum(weights[unit] for unit in ready), [unit for unit in ready if behind[unit] > 1e-9]
            full = load > left  # then all of them fall behind together
            for unit in own:
                if unit not in ready:
                    rates.append((unit, weights[unit]))
                elif full:
                    rates.append((unit, (load - left) * weights[unit] / load))
                elif unit in late:
                    rates.append((unit, (load - left) * behind[unit] / sum(behind[other] for other in late)))
        for unit, rate in rates:
            if rate < 0:
                step = min(step, behind[unit] / -rate)
        step = min([step, *(one for one in blocked if one > 0)])
        if any(rate > 0 for _, rate in rates) or any(behind[unit] > 1e-9 for unit, _ in rates):
            absent += step
        for unit, rate in rates:
            behind[unit] = max(0.0, behind[unit] + rate * step)
        blocked[:] = [max(0.0, one - step) for one in blocked]
        rest -= step
    return absent


def check_play(hosts: int, load: float, shares: tuple[float, ...], seed: int, runs: int, length_s: float) -> None:
    instance = problem(load, shares, 400.0, 15.0)
    sticky = StickyPlacement.of(instance, SystemPlan(hosts, 1))
    assert sticky is not None
    high, low = at_most(sticky, 6.0).total, sticky.at_least(6.0, 6.0)
    found = np.array([played(instance, hosts, 6.0, 1000 * seed + run, length_s) for run in range(runs)])
    error = 4 * found.std(ddof=1) / math.sqrt(runs)
    assert low <= high
    assert found.mean() - error <= high
    assert found.mean() + error >= low


@pytest.mark.parametrize(
    "hosts, load, shares",
    [(2, 0.6, (1.0,) * 6), (3, 0.9, (1.0,) * 9), (4, 1.4, (3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5))],
)
def test_a_plain_play_of_single_units_lies_between_the_bounds(
    hosts: int, load: float, shares: tuple[float, ...]
) -> None:
    check_play(hosts, load, shares, seed=1, runs=8, length_s=20_000.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_plays_of_many_systems_lie_between_the_bounds(seed: int) -> None:
    draw = random.Random(seed)
    hosts = draw.randint(2, 7)
    shares = tuple((k + 1) ** -draw.choice([0.0, 0.5, 1.0]) for k in range(draw.randint(hosts, 20)))
    check_play(hosts, draw.uniform(0.15, 0.6) * hosts, shares, seed, runs=8, length_s=30_000.0)


def test_with_equal_units_on_two_hosts_the_bound_is_near_what_is_played() -> None:
    instance = problem(0.6, (1.0,) * 6, 4000.0, 100.0)
    sticky = StickyPlacement.of(instance, SystemPlan(2, 1))
    assert sticky is not None
    found = np.mean([played(instance, 2, 6.0, run, 400_000.0) for run in range(4)])
    assert at_most(sticky, 6.0).total == pytest.approx(found, rel=0.15)


def test_a_failure_that_nothing_can_work_off_is_never_over() -> None:
    sticky = StickyPlacement.of(problem(1.9, (1.0,) * 8, 1000.0, 50.0), SystemPlan(2, 1))
    assert sticky is not None
    assert at_most(sticky, 6.0).total == pytest.approx(1.0)
    assert sticky.at_least(6.0, 6.0) == pytest.approx(1.0)
    assert math.isinf(sticky.mean_recovery_s(6.0))
    assert sticky.in_time(6.0, 1e9) == 0.0


def test_a_bound_from_below_holds_for_all_intervals_of_its_cell() -> None:
    sticky = StickyPlacement.of(problem(1.0, (2.0, 1.0, 1.0, 1.0), 1000.0, 50.0), SystemPlan(3, 1))
    assert sticky is not None
    whole = sticky.at_least(2.0, 50.0)
    times = np.geomspace(2.0, 50.0, 9)
    assert all(whole <= sticky.at_least(float(one), float(one)) <= at_most(sticky, float(one)).total for one in times)
    share = sticky.at_best_in_time(2.0, 50.0, 8.0)
    assert all(sticky.in_time(float(one), 8.0) <= share for one in times)
