"""Load of key groups over time, against plain loops over the profile's counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from profiled import BINS, GROUPS, raw_scenario, scenario, small_profile

from models.correlation import pearson
from models.errors import InputError
from models.scenario.key_groups import crc32_group
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.planning.checkpoints import METHODS, compare_allocations
from scenarios.planning.group_loads import group_loads


def test_names_follow_the_file_and_hosts_are_those_that_own_key_groups() -> None:
    loads = group_loads(scenario(), {"trips": small_profile()})
    assert loads.names == tuple(
        (operator, group) for operator, n in (("clean", GROUPS), ("late", GROUPS), ("share", 3)) for group in range(n)
    )
    assert loads.hosts == ("worker-0", "worker-1", "spare-0")
    assert loads.host.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 2, 2, 2]


def test_a_profiled_group_has_its_own_counts_in_every_window() -> None:
    profile = small_profile()
    loads = group_loads(scenario(), {"trips": profile})
    every, late = profile.counts
    scale = 20.0 / every.sum(axis=0).mean()  # tuples per row: 20 /s over bins of one second
    for group in range(GROUPS):
        for window in range(BINS // 2):
            rows = [every[group, b] for b in (2 * window, 2 * window + 1)]
            taken = [late[group, b] for b in (2 * window, 2 * window + 1)]
            assert loads.load[group, window] == pytest.approx(np.mean(rows) * scale * 0.010)
            assert loads.load[GROUPS + group, window] == pytest.approx(np.mean(taken) * scale * 0.020)


def test_synthetic_keys_give_whole_tuples_that_add_up_to_the_constant_rate() -> None:
    loads = group_loads(scenario(), {"trips": small_profile()})
    tuples = loads.load[2 * GROUPS :] / 0.005 * loads.window_s
    assert np.allclose(tuples, np.rint(tuples))
    assert np.allclose(tuples.sum(axis=0), 5 * loads.window_s)
    expected = np.bincount([crc32_group(str(key), 3) for key in range(50)], minlength=3) / 50
    shares = tuples.sum(axis=1) / tuples.sum()
    # 200 tuples: five standard deviations of a binomial share
    assert np.all(np.abs(shares - expected) < 5 * np.sqrt(expected * (1 - expected) / 200))


def test_the_same_seed_gives_the_same_loads_and_another_seed_other_samples() -> None:
    profiles = {"trips": small_profile()}
    first, again = group_loads(scenario(), profiles), group_loads(scenario(), profiles)
    other = group_loads(scenario(seed=5), profiles)
    assert np.array_equal(first.load, again.load)
    assert np.array_equal(first.load[: 2 * GROUPS], other.load[: 2 * GROUPS])
    assert not np.array_equal(first.load[2 * GROUPS :], other.load[2 * GROUPS :])


def test_the_first_fifteen_of_forty_eight_parts_are_for_statistics() -> None:
    assert group_loads(scenario(), {"trips": small_profile()}).training == int(20 * 15 / 48)


def later(begin: str, duration: str = "16 s") -> Scenario:
    raw = raw_scenario(duration=duration, events={})
    raw["workload"]["trips"]["rate"]["begin"] = begin  # type: ignore[index]
    return scenario_from(raw)


@pytest.mark.parametrize(("begin", "before", "since"), [("15 s", 15, 15), ("15.5 s", 15, 16), ("16 s", 16, 16)])
def test_a_run_that_begins_later_is_planned_from_what_came_before(begin: str, before: int, since: int) -> None:
    profile, made = small_profile(), later(begin)
    loads = group_loads(made, {"trips": profile})
    every = profile.counts[0] * 20.0 / profile.counts[0].sum(axis=0).mean() * 0.010  # bins of a second, windows of two
    windows = before // 2
    assert loads.training == windows
    for k in range(windows):
        first = before - 2 * (windows - k)
        assert np.allclose(loads.load[:GROUPS, k], every[:, first : first + 2].mean(axis=1))
    end = min(BINS, int(float(begin[:-2]) + 16))
    judged = [every[:, b : b + 2].mean(axis=1) for b in range(since, end - 1, 2)]
    assert np.allclose(loads.load[:GROUPS, windows:].T, judged)


def test_plans_of_a_run_that_begins_later_do_not_know_what_comes() -> None:
    profile = small_profile()
    counts = profile.counts.copy()
    counts[:, :, 16:] = counts[:, ::-1, 16:][:, :, ::-1]  # another future of the same size
    other = replace(profile, counts=counts, correlation=pearson(counts.reshape(-1, BINS)))
    one, two = (group_loads(later("16 s"), {"trips": found}) for found in (profile, other))
    assert np.array_equal(one.load[:, : one.training], two.load[:, : two.training])
    assert not np.array_equal(one.load, two.load)
    for method in (*METHODS, "expected-usable"):
        plans = [
            compare_allocations(later("16 s"), {"trips": found}, (method,))[1][0].checkpoint_hosts
            for found in (profile, other)
        ]
        assert plans[0] == plans[1], method


def test_a_run_without_a_past_to_plan_from_says_so() -> None:
    with pytest.raises(InputError, match=r"workload\.trips\.rate\.begin.*leaves 1 windows for statistics"):
        group_loads(later("3 s"), {"trips": small_profile()})
    with pytest.raises(InputError, match=r"elasticity\.period.*0 to judge by"):
        group_loads(later("39 s"), {"trips": small_profile()})


def test_a_plain_share_is_taken_of_every_group() -> None:
    raw = raw_scenario()
    raw["operators"]["late"]["takes"] = {"clean": 0.25}  # type: ignore[index]
    loads = group_loads(scenario_from(raw), {"trips": small_profile()})
    assert np.allclose(loads.load[GROUPS : 2 * GROUPS], loads.load[:GROUPS] * 2 * 0.25)


@pytest.mark.parametrize(
    ("changes", "profiles", "path"),
    [
        ({}, False, "fault_tolerance.allocation"),
        ({"elasticity": {"period": "30 s"}}, True, "elasticity.period"),
    ],
)
def test_what_cannot_be_planned_with_is_an_input_error(changes: dict[str, object], profiles: bool, path: str) -> None:
    given = {"trips": small_profile()} if profiles else {}
    with pytest.raises(InputError) as caught:
        group_loads(scenario(**changes), given)
    assert [fault.path for fault in caught.value.faults] == [path]


def test_a_rate_that_changes_beside_the_profile_is_refused() -> None:
    raw = raw_scenario()
    raw["workload"]["samples"]["rate"] = {"ramp": {"start": "1 /s", "end": "9 /s", "over": "9 s"}}  # type: ignore[index]
    with pytest.raises(InputError, match=r"workload\.samples\.rate"):
        group_loads(scenario_from(raw), {"trips": small_profile()})
