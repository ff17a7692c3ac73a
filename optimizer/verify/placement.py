"""Checking a placement without any solver: every rule, every count and claim, and the bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from models.checked_arrays import IntArray, frozen
from models.planning.placement import Placement, PlacementPlan
from models.planning.solution import Status
from optimizer.common.enumeration import Tried
from optimizer.common.first_fit import best_fit, first_fit
from optimizer.verify.claims import GAP, VALUE_TOLERANCE, Outcome, Recomputed, Verdict, and_so, verdict_of
from optimizer.verify.constraints import MOST_LISTED, Violation
from optimizer.verify.placement_bounds import Bound, Possible, colour_bound, host_bound, impossible
from optimizer.verify.placement_enumeration import placement_within


def verify_placement(problem: Placement, plan: PlacementPlan, *, gap: float | None = None) -> Verdict:
    """Return the verdict on a plan; `gap` is what a file claims beside objective and bound.

    That nothing is better, or that there is no placement, is proven by counting, and for small problems by trying all.
    It is refuted by first fit, by best fit, or by what is found when all is tried.
    """
    host = plan.host
    shaped = host is not None and host.shape == (problem.n_instances,) and bool((host < problem.n_hosts).all())
    found = [] if host is None else list(broken_rules(problem, host, plan))
    objective = None
    if host is not None and shaped and bool((host >= -1).all()):
        objective = problem.objective(host) if problem.goal == "value" or bool((host >= 0).all()) else None
    known = Recomputed(
        found,
        objective,
        1 if problem.goal == "value" else -1,
        outcome=_bounds(problem, plan, None if found else objective),
        answered=host is not None,
        needs_objective=host is not None,
        compared=False,  # `_bounds` compares it, among the other placements
        after=[] if objective is None or host is None else list(_false_counts(problem, plan, host)),
        recomputed=("every rule", "the objective and what is counted", GAP),
        answer="a placement",
    )
    return verdict_of(plan, gap, known)


def broken_rules(problem: Placement, host: IntArray, plan: PlacementPlan | None = None) -> Iterator[Violation]:
    """Generate every rule that hosts (n,) break, -1 for an instance without a host.

    A wrong shape, or hosts that do not exist, hide all other rules. With a plan that says infeasible or unknown,
    instances without a host break nothing. Each rule lists at most MOST_LISTED.
    """
    if host.shape != (problem.n_instances,):
        yield Violation("shape", f"must have a host for each of {problem.n_instances} instances, has {host.shape}")
        return
    for i in np.flatnonzero((host < -1) | (host >= problem.n_hosts))[:MOST_LISTED].tolist():
        yield Violation("range", f"instance {i} is on host {host[i]}, hosts are 0 .. {problem.n_hosts - 1}")
    if ((host < -1) | (host >= problem.n_hosts)).any():
        return
    answered = plan is None or plan.status in (Status.OPTIMAL, Status.FEASIBLE)
    if problem.goal != "value" and answered:
        for i in np.flatnonzero(host < 0)[:MOST_LISTED].tolist():
            yield Violation("unplaced", f"instance {i} is on no host")
    yield from _capacities(problem, host)
    yield from _operators(problem, host)
    yield from _others(problem, host)


def _capacities(problem: Placement, host: IntArray) -> Iterator[Violation]:
    over = problem.used(host) > problem.rooms
    amounts = [(problem.cpu, problem.host_cpu)]
    if problem.network is not None and problem.host_network is not None:
        amounts.append((problem.network, problem.host_network))
    for h, r in list(zip(*np.nonzero(over), strict=True))[:MOST_LISTED]:
        load, has = amounts[int(r)]
        taken = math.fsum(load[host == h].tolist())
        yield Violation("capacity", f"host {h} has {problem.resources[r]} {float(has[h])!r}, {taken!r} is taken")


def _operators(problem: Placement, host: IntArray) -> Iterator[Violation]:
    first: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(host >= 0).tolist():
        key = (int(problem.operators[i]), int(problem.zones[host[i]]))
        if key in first:
            where = "host" if problem.anti_affinity == "host" else "failure domain"
            yield Violation("anti_affinity", f"instances {first[key]} and {i} of operator {key[0]} share a {where}")
        first.setdefault(key, i)


def _others(problem: Placement, host: IntArray) -> Iterator[Violation]:
    counts = problem.colours_of_hosts(host)
    most = problem.max_colours
    for h in np.flatnonzero(counts > most)[:MOST_LISTED].tolist() if most is not None else ():
        yield Violation("colours", f"host {h} has {counts[h]} colours, at most {most} may be")
    wrong = np.flatnonzero((problem.fixed_hosts >= 0) & (host != problem.fixed_hosts))
    for i in wrong[:MOST_LISTED].tolist():
        yield Violation("fixed", f"instance {i} is on host {host[i]}, it must stay on host {problem.fixed_hosts[i]}")
    if problem.max_moves is not None and problem.moves(host) > problem.max_moves:
        yield Violation("moves", f"{problem.moves(host)} instances move, at most {problem.max_moves} may")


def _false_counts(problem: Placement, plan: PlacementPlan, host: IntArray) -> Iterator[str]:
    counts = {
        "colours": problem.most_colours(host),
        "hosts": problem.hosts_used(host),
        "moves": problem.moves(host),
        "unplaced": int((host < 0).sum()),
    }
    for name, count in counts.items():
        if getattr(plan, name) is not None and getattr(plan, name) != count:
            yield f"says {name} {getattr(plan, name)}, recounted {count}"
    if plan.hosts_bound is not None and counts["hosts"] < plan.hosts_bound:
        yield f"says at least {plan.hosts_bound} hosts, uses {counts['hosts']}"
    if plan.status is Status.OPTIMAL and problem.goal == "colours" and plan.hosts_bound != counts["hosts"]:
        yield f"says optimal with {counts['hosts']} hosts and a bound of {plan.hosts_bound}"


def _refuted(text: str, host: IntArray | None = None) -> Outcome:
    """Return that a claim is false, and nothing else."""
    return Outcome(refuted=(Violation("claim", text),), example=None if host is None else tuple(host.tolist()))


def _with_tried(outcome: Outcome, what: str, tried: Tried) -> Outcome:
    """Add a claim that trying all placements proves, or leaves open."""
    if tried.decided:
        return outcome.proves(f"{what}, which all placements prove")
    return outcome.leaves(f"{what}, which takes a solver")


def _bounds(problem: Placement, plan: PlacementPlan, objective: float | None) -> Outcome:
    """Return what becomes of the bounds, or of the infeasibility."""
    outcome = Outcome()
    if plan.bound is None and plan.status is not Status.INFEASIBLE:
        return outcome
    examples = list(_examples(problem, plan))
    if plan.status is Status.INFEASIBLE:
        return _infeasible(problem, plan, examples)
    assert plan.bound is not None
    sign = 1.0 if problem.goal == "value" else -1.0
    slack = VALUE_TOLERANCE * abs(plan.bound)
    values = [problem.objective(each) for each in examples]
    for value, host in zip(values, examples, strict=True):
        if sign * (value - plan.bound) > slack:
            return _refuted(f"says bound {plan.bound!r}, a placement reaches {value!r}", host)
    if objective is not None and sign * (objective - plan.bound) > slack:
        return _refuted(f"says bound {plan.bound!r}, which its own objective {objective!r} passes")
    if sign * (plan.bound - counted_bound(problem)) >= -slack:
        outcome = outcome.proves("the bound, which counting proves")
    else:
        # Counting is not enough: try all placements that are better than the bound, as far as the steps reach.
        tried = _better_than(problem, plan.bound, slack)
        if tried.best is not None:
            value = problem.objective(tried.best)
            return _refuted(f"says bound {plan.bound!r}, a placement reaches {value!r}", tried.best)
        outcome = _with_tried(outcome, "the bound" if tried.decided else "the bound" + and_so(plan), tried)
    if problem.goal == "colours" and plan.hosts_bound is not None:
        return _bound_of_hosts(problem, plan, None if objective is None else plan.host, examples, outcome)
    return outcome


def _better_than(problem: Placement, bound: float, slack: float) -> Tried:
    """Return a placement that is better than a bound, where one is found."""
    if problem.goal == "value":
        return placement_within(problem, more_than=bound + slack)
    fewer = min(math.ceil(bound - slack) - 1, problem.n_instances)
    if problem.goal == "hosts":
        return placement_within(problem, most_hosts=fewer)
    return placement_within(problem, most_colours=fewer)


def _bound_of_hosts(
    problem: Placement, plan: PlacementPlan, host: IntArray | None, examples: list[IntArray], outcome: Outcome
) -> Outcome:
    """Return what becomes of the bound of hosts too: the fewest for as few colours as the plan has."""
    assert plan.hosts_bound is not None
    if host is None:
        return outcome.leaves("the bound of hosts, which is of no answer")
    colours = problem.most_colours(host)
    if plan.hosts_bound <= host_bound(problem, colours).value:
        return outcome.proves("the bound of hosts, which counting proves")
    used, example = _fewer_hosts(problem, plan, examples)
    tried = placement_within(problem, most_colours=colours, most_hosts=plan.hosts_bound - 1)
    if example is None and tried.best is not None:
        used, example = problem.hosts_used(tried.best), tried.best
    if example is not None:
        text = f"says at least {plan.hosts_bound} hosts, a placement of as few colours uses {used}"
        return _refuted(text, example)
    what = "the bound of hosts" if tried.decided else "the bound of hosts" + and_so(plan)
    return _with_tried(outcome, what, tried)


def _infeasible(problem: Placement, plan: PlacementPlan, examples: list[IntArray]) -> Outcome:
    """Return what becomes of an infeasibility, perhaps because of some instances (`infeasible_set`)."""
    outcome, counted = Outcome(), impossible(problem)
    tried = Tried(None, False) if examples or counted is not None else _any_placement(problem)
    examples = examples if tried.best is None else [tried.best]
    if examples:
        return _refuted("says infeasible, and there is a placement", examples[0])
    if counted is not None:
        outcome = outcome.proves(f"that there is no placement, which counting proves: {counted.reason}")
    else:
        outcome = _with_tried(outcome, "that there is no placement", tried)
    if counted is not None and plan.reason not in ("", counted.reason):
        outcome = replace(outcome, assumed=("the reason, which is in other words than counting has",))
    if plan.infeasible_set is None:
        return outcome
    return _with_infeasible_set(problem, plan, plan.infeasible_set.tolist(), outcome)


def _any_placement(problem: Placement) -> Tried:
    """Return a placement that keeps every rule, where one is found; for goal "value" it may leave instances out."""
    return placement_within(problem, more_than=-1.0 if problem.goal == "value" else None)


def _with_infeasible_set(problem: Placement, plan: PlacementPlan, who: list[int], outcome: Outcome) -> Outcome:
    """Return what becomes of the claim that some instances have no placement by themselves, too."""
    if not who or min(who) < 0 or max(who) >= problem.n_instances or len(set(who)) < len(who):
        rule = f"must be different instances, 0 .. {problem.n_instances - 1}"
        return _refuted(f"says that the infeasible set is instances {who[:MOST_LISTED]}, {rule}")
    alone = only(problem, np.array(who))
    said = f"instances {', '.join(map(str, who[:MOST_LISTED]))}{' ...' if len(who) > MOST_LISTED else ''}"
    beside = " beside what is fixed" if alone.n_instances > len(who) else ""
    if impossible(alone) is not None:
        return outcome.proves(f"that {said} have no placement{beside} by themselves, which counting proves")
    tried = _any_placement(alone)
    if tried.best is not None or next(_examples(alone, replace(plan, host=None)), None) is not None:
        return _refuted(f"says that the infeasible set is {said}, which can be placed{beside} by themselves")
    return _with_tried(outcome, f"that {said} have no placement{beside} by themselves", tried)


def only(problem: Placement, instances: IntArray) -> Placement:
    """Return the problem of some instances (k,) in the same whole units; if any is free, with all fixed ones.

    What is fixed takes room that the free ones lack; fixed ones must be infeasible with each other.
    """
    free = (problem.fixed_hosts[instances] < 0).any()
    kept = np.union1d(instances, np.flatnonzero(problem.fixed_hosts >= 0) if free else instances)
    values: dict[str, Any] = {"operator": problem.operators[kept], "colour": problem.colours[kept]}
    for name in ("cpu", "network", "value", "current", "fixed"):
        value = getattr(problem, name)
        values[name] = None if value is None else value[kept]
    made = replace(problem, **values)
    # The whole units of the full problem: rounded anew, a part could fit where it did not before.
    made.__dict__["_whole"] = (frozen(problem.loads[kept]), problem.rooms)
    return made


def _fewer_hosts(problem: Placement, plan: PlacementPlan, examples: list[IntArray]) -> tuple[int, IntArray | None]:
    """Return the fewest hosts of an example with no more colours than the plan, if its bound of hosts is higher."""
    if problem.goal != "colours" or plan.hosts_bound is None or plan.host is None:
        return 0, None
    most = problem.most_colours(plan.host)
    found = [(problem.hosts_used(each), k) for k, each in enumerate(examples) if problem.most_colours(each) <= most]
    used, at = min(found, default=(plan.hosts_bound, -1))
    return used, examples[at] if used < plan.hosts_bound else None


def counted_bound(problem: Placement) -> float:
    """Return the bound that counting proves, in the unit of the goal: colours, hosts, or value.

    A lower bound for colours and hosts (`placement_bounds`), an upper bound for value: one knapsack of all hosts, whose
    items may be divided (Dantzig 1957), for each resource.
    """
    if problem.goal == "value":
        return _value_bound(problem)
    bound: Bound = colour_bound(problem) if problem.goal == "colours" else host_bound(problem, problem.max_colours)
    return float(bound.value)


def _value_bound(problem: Placement) -> float:
    """Return all hosts as one knapsack that takes parts of instances, rounded up; the least of the resources."""
    possible = Possible(problem)
    fits = [i for i in range(problem.n_instances) if possible.hosts(i).any()]
    bounds = [sum((Fraction(float(problem.values[i])) for i in fits), Fraction(0))]
    for r in range(len(problem.resources)):
        room, total = int(problem.rooms[:, r].sum()), Fraction(0)
        items = [(Fraction(float(problem.values[i])), int(problem.loads[i, r])) for i in fits]
        total += sum((value for value, load in items if not load), Fraction(0))
        for value, load in sorted((one for one in items if one[1]), key=lambda one: -one[0] / one[1]):
            part = min(load, room)
            total += value * Fraction(part, load)
            room -= part
        bounds.append(total)
    return math.nextafter(float(min(bounds)), math.inf)


def _examples(problem: Placement, plan: PlacementPlan) -> Iterator[IntArray]:
    """Yield placements that keep every rule, made without a search: with fewer colours than the bound, or few hosts."""
    made = [first_fit(problem), best_fit(problem)]
    if problem.goal == "colours" and plan.bound is not None:
        fewer = min(math.ceil(plan.bound) - 1, problem.n_instances)
        shape_holds = plan.host is not None and plan.host.shape == (problem.n_instances,)
        as_few = problem.most_colours(plan.host) if shape_holds and plan.host is not None else fewer
        limits = sorted({most for most in (fewer, as_few) if 0 < most < problem.most_colours(made[1])})
        made += [best_fit(problem, max_colours=most) for most in limits]
    for host in made:
        if (problem.goal == "value" or (host >= 0).all()) and not list(broken_rules(problem, host)):
            yield host
