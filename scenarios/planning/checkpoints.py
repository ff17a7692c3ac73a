"""From a scenario and its profile to a plan: who holds the checkpoint of each key group, and how good that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis.usable import EXPECTED, UsableShares, expected_allocation, usable_shares
from models.correlation import pearson
from models.errors import InputError, named
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan, allocation_from_correlation
from models.planning.solution import Status
from models.records.profile import Profile
from models.scenario.fault_tolerance import PlanFile
from models.scenario.scenario import Scenario
from models.topology import layout
from optimizer.checkpoint_allocation import solve
from scenarios.planning.group_loads import GroupLoads, group_loads

METHODS = ("baseline", "even", "sensitive-first", "exact")
CheckpointHosts = dict[tuple[str, int], str]


@dataclass(frozen=True)
class PlannedAllocation:
    """One method's plan for a scenario, and the share of checkpoints that would be usable in the windows after."""

    method: str
    problem: CheckpointAllocation
    plan: CheckpointPlan
    checkpoint_hosts: CheckpointHosts
    usable: UsableShares


def allocation_problem(loads: GroupLoads) -> CheckpointAllocation:
    """Return the paper's problem for kappa = infinity: correlation over the training windows, a copy per key group."""
    # Windows after the training are for judging (`_judged`): a plan must not see what it is judged by.
    training = loads.load[:, : loads.training]
    return allocation_from_correlation(
        pearson(training), training.mean(axis=1), loads.host, len(loads.hosts), group=loads.operators
    )


def expected_problem(scenario: Scenario, loads: GroupLoads) -> CheckpointAllocation:
    """Return the problem whose objective is the expected number of key groups in need without a usable checkpoint."""
    return expected_allocation(
        loads.load[:, : loads.training],
        loads.host,
        speed=_speeds(scenario, loads),
        outside=np.zeros(len(loads.hosts)),
        theta=scenario.elasticity.high,
        seed=scenario.seed,
        group=loads.operators,
    )


def solve_by(
    method: str,
    problem: CheckpointAllocation,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    hint: CheckpointPlan | None = None,
) -> CheckpointPlan:
    """Return the plan by a method of METHODS, or by EXPECTED, whose equally good answers spread the load.

    `hint`: a former plan to start from.
    """
    if method != EXPECTED:
        return solve(problem, method=method, time_limit_s=time_limit_s, seed=seed, workers=workers, hint=hint)
    from optimizer.checkpoint_allocation.ties import level_ties  # noqa: PLC0415 - no run with a simple rule needs it

    # The objective has many equally good answers: `level_ties` picks the one that also spreads the load.
    plan = solve(problem, method="exact", time_limit_s=time_limit_s, workers=workers, hint=hint)
    if plan.assignment is None:
        return replace(plan, method=method)
    return replace(plan, method=method, assignment=level_ties(problem, plan.assignment))


def _speeds(scenario: Scenario, loads: GroupLoads) -> np.ndarray:
    """Load that fills each of the hosts."""
    groups = layout.hosts(scenario)
    return np.array([groups[host].speed * groups[host].cores for host in loads.hosts])


def compare_allocations(
    scenario: Scenario,
    profiles: Mapping[str, Profile],
    methods: tuple[str, ...] = METHODS,
    *,
    time_limit_s: float = 60.0,
) -> tuple[GroupLoads, tuple[PlannedAllocation, ...]]:
    """Return the loads that the plans are made of, and a verified plan by each method."""
    loads = group_loads(scenario, profiles)
    paper = allocation_problem(loads)
    planned = []
    for method in methods:
        problem = expected_problem(scenario, loads) if method == EXPECTED else paper
        plan = solve_by(method, problem, time_limit_s=time_limit_s, seed=scenario.seed)
        planned.append(_judged(scenario, loads, method, problem, plan))
    return loads, tuple(planned)


def _judged(
    scenario: Scenario, loads: GroupLoads, method: str, problem: CheckpointAllocation, plan: CheckpointPlan
) -> PlannedAllocation:
    """Return the plan with its usable checkpoints in the windows after the training.

    Raises RuntimeError where the solver's plan breaks a rule of its problem.
    """
    from optimizer.verify.checkpoints import verify_checkpoints  # noqa: PLC0415 - no run with a simple rule needs it

    # A plan that the verifier refuses is a defect of a solver, hence no InputError.
    verdict = verify_checkpoints(problem, plan)
    if not verdict.ok or plan.assignment is None:
        raise RuntimeError(f"{method}: {plan.status}: {'; '.join(map(str, verdict.violations)) or plan.note}")
    checkpoint_hosts = {name: loads.hosts[node] for name, node in zip(loads.names, plan.assignment, strict=True)}
    judged = usable_shares(
        loads.load[:, loads.training :],
        loads.host,
        plan.assignment,
        speed=_speeds(scenario, loads),
        outside=np.zeros(len(loads.hosts)),
        theta=scenario.elasticity.high,
    )
    return PlannedAllocation(method, problem, plan, checkpoint_hosts, judged)


def checkpoint_hosts_of(scenario: Scenario, folder: Path, profiles: Mapping[str, Profile]) -> CheckpointHosts:
    """Return (operator, key group) -> host that holds its checkpoint, as `fault_tolerance.allocation` says.

    With the store `upstream` it is the host of an upstream task. `baseline` and `even` need no statistics; the others
    need a profile (InputError without one).
    """
    tolerance = scenario.fault_tolerance
    if not tolerance.takes_checkpoints or tolerance.store == "remote":
        return {}
    if tolerance.store == "upstream":
        return _upstream(scenario)
    allocation = tolerance.allocation
    if isinstance(allocation, PlanFile):
        from scenarios.planning.plan_files import read_checkpoint_plan  # noqa: PLC0415 - reads plans of every kind

        with named("fault_tolerance.allocation"):
            plan = read_checkpoint_plan(folder / allocation.plan)
        return _from_plan(scenario, plan, allocation.plan)
    if profiles:
        _, (planned,) = compare_allocations(scenario, profiles, (allocation,))
        return planned.checkpoint_hosts
    if allocation in ("baseline", "even"):
        return _without_statistics(scenario, allocation)
    rule = "needs load statistics, and no source has a profile"
    raise InputError.at("fault_tolerance.allocation", allocation, rule, "use even, or a profile as rate")


def _upstream(scenario: Scenario) -> CheckpointHosts:
    """Return for each key group or task the host of an upstream task, as they are placed at the start.

    Task k takes upstream task k of the first input, modulo their number, or the next one that is on another host; where
    all are on its own, nothing is planned.
    """
    placed, found = layout.placement(scenario), dict[tuple[str, int], str]()
    for name, operator in scenario.operators.items():
        if operator.kind in ("source", "sink"):
            continue
        above = next(iter(operator.inputs))
        many = scenario.operators[above].parallelism
        for group in range(operator.groups):
            task = operator.task_of(group)
            own = placed[layout.task_name(name, task)]
            hosts = [placed[layout.task_name(above, (task + k) % many)] for k in range(many)]
            other = next((host for host in hosts if host != own), None)
            if other is not None:
                found[name, group] = other
    return found


def _keyed_groups(scenario: Scenario) -> tuple[list[tuple[str, int]], list[str], np.ndarray]:
    """Return key groups of operators with state to save, the hosts they may go to, and the index of each one's host."""
    placed = layout.placement(scenario)
    spare = layout.spare_hosts(scenario)
    # Spare hosts are rented only when load asks for them: a checkpoint there would have no host at the start.
    hosts = [host for host in layout.hosts(scenario) if host not in spare]
    names = [
        (name, group)
        for name, operator in scenario.operators.items()
        # A sink keeps no state that a recovery would need.
        if operator.keyed and operator.kind != "sink"
        for group in range(operator.groups)
    ]
    tasks = [layout.task_name(name, scenario.operators[name].task_of(group)) for name, group in names]
    return names, hosts, np.array([hosts.index(placed[task]) for task in tasks], dtype=np.int64)


def _without_statistics(scenario: Scenario, method: str) -> CheckpointHosts:
    """Return the hosts by a method that looks at no load: every checkpoint counts 1, and nothing has a cost."""
    names, hosts, home = _keyed_groups(scenario)
    if not names or len(hosts) < 2:
        return {}  # nothing to hold, or nobody else to hold it
    # Its own host: the crash that loses the state would lose the checkpoint too.
    forbidden = np.column_stack((np.arange(len(names)), home))
    problem = CheckpointAllocation(
        cost=np.zeros((len(names), len(hosts))),
        load=np.ones(len(names)),
        forbidden=forbidden,
        group=tuple(operator for operator, _ in names),
    )
    plan = solve(problem, method=method, seed=scenario.seed)
    assert plan.assignment is not None
    return {name: hosts[node] for name, node in zip(names, plan.assignment, strict=True)}


def _from_plan(scenario: Scenario, plan: CheckpointPlan, path: str) -> CheckpointHosts:
    """Return the hosts of a plan, which numbers hosts that own key groups, and key groups, in the order of the file."""
    where = "fault_tolerance.allocation"
    if plan.assignment is None or plan.status in (Status.INFEASIBLE, Status.UNKNOWN):
        raise InputError.at(where, path, f"holds no assignment: its status is {plan.status}")
    names, hosts, home = _keyed_groups(scenario)
    # A plan numbers only hosts that own key groups, as `group_loads` does.
    owners = [host for k, host in enumerate(hosts) if k in set(home.tolist())]
    if len(plan.assignment) != len(names):
        rule = f"assigns {len(plan.assignment)} checkpoints; the scenario has {len(names)} key groups"
        raise InputError.at(where, path, rule)
    if max(plan.assignment) >= len(owners):
        raise InputError.at(where, path, f"names host {max(plan.assignment)}; {len(owners)} hosts own key groups")
    checkpoint_hosts = {name: owners[node] for name, node in zip(names, plan.assignment, strict=True)}
    own = [name for name, node, at in zip(names, plan.assignment, home, strict=True) if owners[node] == hosts[at]]
    if own:
        raise InputError.at(where, path, f"puts the checkpoint of {own[0][0]}[{own[0][1]}] on the group's own host")
    return checkpoint_hosts
