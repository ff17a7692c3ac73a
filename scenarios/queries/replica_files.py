"""Files of plans of replicas: the document of a plan, and a document as problem, plan, and figures to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from models.errors import InputError
from models.planning.replicas import KIND, Instances, ReplicaPlan, ReplicaProblem
from scenarios.planning.plan_files import StatedPlan
from scenarios.queries.files import LoadedQueries
from scenarios.queries.replicas import Options, budget_of, problem_of
from scenarios.queries.running_replicas import names_of, placed_by_file


def document(plan: ReplicaPlan, problem: ReplicaProblem, found: LoadedQueries, options: Options) -> dict[str, Any]:
    """Return a plan as JSON has it, with the settings that `verify` needs to pose the problem again."""
    names = found.table.names
    instances = None if plan.instances is None else [list(hosts) for hosts in plan.instances]
    broken = None if plan.broken is None else (plan.broken @ problem.shares).tolist()
    return {
        "kind": KIND,
        "status": plan.status.value,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "wall_s": plan.wall_s,
        "note": plan.note or None,
        "goal": problem.goal,
        "target": plan.target,
        "p": (options.p or found.query_set.chances),
        "budget": problem.budget,
        "max_replicas": problem.max_replicas,
        "max_level": problem.max_level,
        "cost": plan.cost,
        "capacity": problem.capacity,
        "colours": plan.colours,
        "replicated": None if plan.levels is None else int((plan.levels > 0).sum()),
        "certificate": _certificate(plan),
        "running": _running(problem),
        "max_moves": problem.max_moves,
        "moves": plan.moves,
        "operators": list(names),
        "names": names_of(found),
        "instances": instances,
        "mean_broken": broken,
        "queries": None
        if plan.broken is None
        else {q: plan.broken[:, k].tolist() for k, q in enumerate(found.table.queries)},
    }


def posed(stated: StatedPlan, found: LoadedQueries) -> ReplicaProblem:
    """Return the problem that a plan says it answers; raises InputError where the file of queries says otherwise."""
    said = stated.values
    options = Options(
        p=said["p"],
        budget=said.get("budget"),
        level=said.get("max_level"),
        goal=str(stated.document.get("goal", "mean")),
        moves=said.get("max_moves"),
        budget_replicas=said.get("max_replicas"),
    )
    return problem_of(found, _with_running(options, found, said.get("running")))


def figures_of_replicas(
    problem: ReplicaProblem, plan: ReplicaPlan, found: LoadedQueries
) -> dict[str, Callable[[], Any]]:
    """Return the figures that a plan states beside its answer, each as a function that computes it."""
    figures: dict[str, Callable[[], Any]] = {
        "capacity": lambda: problem.capacity,
        "operators": lambda: found.table.names,
        "names": lambda: names_of(found),
        "running": lambda: _running(problem),
        "moves": lambda: problem.moves(plan.instances or ()) if problem.running else None,
    }
    instances = plan.instances
    if instances is None:
        return figures
    # Several figures follow from it, and it is costly: computed once, and only if a figure is stated.
    broken = cache(partial(problem.broken, instances))
    return figures | {
        "replicated": lambda: sum(len(hosts) > 1 for hosts in instances),
        "colours": lambda: _colours(problem, instances),
        "mean_broken": lambda: list((broken() @ problem.shares).tolist()),
        "queries": lambda: {q: broken()[:, k].tolist() for k, q in enumerate(found.table.queries)},
    }


def unverified_of_replicas(stated: Mapping[str, Any], problem: ReplicaProblem, found: LoadedQueries) -> list[str]:
    """Return what a plan states and nothing recomputes, in words: a question other than that of the problem alone, and
    the plans that it was compared with."""
    hosts = found.query_set.hosts
    spare_cpus = 0.0 if hosts is None else (hosts.spare or 0) * hosts.cpu
    alone = {
        "p": list(found.query_set.chances),
        "goal": Options().goal,
        "target": None,
        "budget": budget_of(Options(), found, spare_cpus),
        "max_level": found.query_set.replicas.level,
        "max_moves": found.query_set.replicas.moves,
        "max_replicas": found.query_set.replicas.budget_replicas,
    }
    options = {"p": stated.get("p"), "goal": problem.goal, "target": stated.get("target"), "budget": problem.budget}
    options |= {"max_level": problem.max_level, "max_moves": problem.max_moves, "max_replicas": problem.max_replicas}
    questions = [
        f"that {name} {options[name]} was asked for, where the problem alone has {'none' if own is None else own}"
        for name, own in alone.items()
        if options[name] not in (own, None)
    ]
    return questions + (["what else it states (compared)"] if stated.get("compared") is not None else [])


def _colours(problem: ReplicaProblem, instances: Instances) -> int:
    """Return the most operators on a host that takes replicas."""
    assert problem.replica_hosts is not None
    here = np.array([h for hosts in instances for h in hosts], dtype=np.int64)
    counts = np.bincount(here[problem.replica_hosts[here]], minlength=1)
    return int(counts.max())


def _running(problem: ReplicaProblem) -> list[list[int]] | None:
    """Return the hosts of each running operator, the primary first, as a plan keeps them; None without replicas."""
    if not problem.running:
        return None
    firsts = [[host] if host >= 0 else [] for host in problem.primaries.tolist()]
    return [[*first, *hosts] for first, hosts in zip(firsts, problem.running, strict=True)]


def _with_running(options: Options, loaded: LoadedQueries, running: Instances | None) -> Options:
    """Add what ran before by the plan; raises InputError where that is not what the file says."""
    hosts = loaded.query_set.hosts
    by_file = placed_by_file(loaded, 0 if hosts is None else hosts.count)
    if running is None:
        return options
    if len(running) != len(by_file):
        raise InputError.at("running", len(running), f"must have {len(by_file)} operators")
    for name, own, said in zip(loaded.table.names, running, by_file, strict=True):
        if said and (own if len(said) > 1 else own[:1]) != said:
            raise InputError.at("running", list(own), f"is not where {name} runs by the problem: {list(said)}")
    return replace(options, running=running)


def _certificate(plan: ReplicaPlan) -> dict[str, Any] | None:
    """Return the multipliers that are not zero, by row."""
    if plan.certificate is None:
        return None
    # Most multipliers are zero: the file holds the others by row.
    there = np.flatnonzero(plan.certificate).tolist()
    return {"rows": len(plan.certificate), "multipliers": {str(row): float(plan.certificate[row]) for row in there}}
