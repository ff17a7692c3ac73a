"""From a scenario and its profile to checkpoint hosts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from profiled import GROUPS, scenario, small_profile

from models.errors import InputError
from models.planning.solution import Status
from optimizer.verify.checkpoints import verify_checkpoints
from scenarios.planning.checkpoints import METHODS, allocation_problem, checkpoint_hosts_of, compare_allocations
from scenarios.planning.plan_files import plan_to_dict

PROFILES = {"trips": small_profile()}


def test_the_cost_is_load_times_mean_correlation_with_the_groups_of_the_host() -> None:
    loads, planned = compare_allocations(scenario(), PROFILES, ("exact",))
    training = loads.load[:, : loads.training]
    problem = planned[0].problem
    for j, home in enumerate(loads.host):
        for n in range(len(loads.hosts)):
            there = [h for h in range(len(loads.host)) if loads.host[h] == n]
            correlations = [_correlation(training[j], training[h]) for h in there]
            assert problem.cost[j, n] == pytest.approx(training[j].mean() * np.mean(correlations), abs=1e-12)
        assert not problem.allowed[j, home]


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def test_every_method_gives_a_plan_that_the_checker_accepts() -> None:
    _, planned = compare_allocations(scenario(), PROFILES)
    assert [one.method for one in planned] == list(METHODS)
    for one in planned:
        assert verify_checkpoints(one.problem, one.plan).ok
        assert len(one.checkpoint_hosts) == 2 * GROUPS + 3
    exact = planned[METHODS.index("exact")]
    assert exact.plan.status is Status.OPTIMAL
    assert all(exact.plan.objective <= one.plan.objective + 1e-12 for one in planned)


def test_no_checkpoint_is_on_the_host_of_its_key_group() -> None:
    loads, planned = compare_allocations(scenario(), PROFILES)
    home = {name: loads.hosts[host] for name, host in zip(loads.names, loads.host, strict=True)}
    for one in planned:
        assert all(one.checkpoint_hosts[name] != home[name] for name in loads.names)


def test_even_without_a_profile_spreads_over_all_hosts_but_the_owner() -> None:
    given = scenario(fault_tolerance={"method": "checkpoint", "allocation": "even"})
    checkpoint_hosts = checkpoint_hosts_of(given, Path(), {})
    assert set(checkpoint_hosts) == {(o, g) for o, n in (("clean", 4), ("late", 4), ("share", 3)) for g in range(n)}
    for (operator, group), host in checkpoint_hosts.items():
        home = "spare-0" if operator == "share" else f"worker-{group % 2}"
        assert host != home
    for operator in ("clean", "late"):
        held = [host for (name, _), host in checkpoint_hosts.items() if name == operator]
        assert max(held.count(host) for host in held) <= 2


def test_exact_without_a_profile_is_an_input_error() -> None:
    with pytest.raises(InputError, match="needs load statistics"):
        checkpoint_hosts_of(scenario(), Path(), {})


def test_a_plan_file_gives_the_same_checkpoint_hosts_as_the_plan(tmp_path: Path) -> None:
    _, (planned,) = compare_allocations(scenario(), PROFILES, ("exact",))
    (tmp_path / "plan.json").write_text(json.dumps(plan_to_dict(planned.plan, planned.problem)))
    given = scenario(fault_tolerance={"method": "checkpoint", "allocation": "plan.json"})
    assert checkpoint_hosts_of(given, tmp_path, PROFILES) == planned.checkpoint_hosts


@pytest.mark.parametrize(
    ("assignment", "rule"),
    [
        ([1, 0], "assigns 2 checkpoints"),
        ([0] * 11, "own host"),
        ([9] * 11, "names host 9"),
    ],
)
def test_a_plan_file_that_does_not_fit_is_an_input_error(tmp_path: Path, assignment: list[int], rule: str) -> None:
    document = {"status": "feasible", "objective": 1.0, "bound": None, "gap": None, "wall_s": 0.0}
    (tmp_path / "plan.json").write_text(json.dumps({**document, "assignment": assignment}))
    given = scenario(fault_tolerance={"method": "checkpoint", "allocation": "plan.json"})
    with pytest.raises(InputError, match=rule):
        checkpoint_hosts_of(given, tmp_path, PROFILES)


def test_nobody_holds_checkpoints_where_none_are_taken_or_a_remote_store_has_them() -> None:
    assert checkpoint_hosts_of(scenario(fault_tolerance={"method": "none"}), Path(), PROFILES) == {}
    remote = scenario(fault_tolerance={"method": "checkpoint", "store": "remote"})
    assert checkpoint_hosts_of(remote, Path(), PROFILES) == {}


def test_usable_is_judged_on_the_windows_after_those_of_the_statistics() -> None:
    loads, planned = compare_allocations(scenario(), PROFILES)
    for one in planned:
        assert len(one.usable.at_risk) == loads.load.shape[1] - loads.training


def test_the_problem_needs_no_look_at_later_windows() -> None:
    loads, _ = compare_allocations(scenario(), PROFILES, ("exact",))
    changed = loads.load.copy()
    changed[:, loads.training :] = 0.0
    same = allocation_problem(
        type(loads)(loads.names, loads.hosts, loads.host, changed, loads.window_s, loads.training)
    )
    assert np.array_equal(same.cost, allocation_problem(loads).cost)
