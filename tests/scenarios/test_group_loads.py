"""Load of key groups over time, against plain loops over the profile's counts."""

from __future__ import annotations

import numpy as np
import pytest
from profiled import BINS, GROUPS, raw_scenario, scenario, small_profile

from models.errors import InputError
from models.key_groups import crc32_group
from models.reading import scenario_from
from scenarios.group_loads import group_loads


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
