"""Recompute what a plan file states beside its answer: figures, reasons, words that follow from the problem.

Each figure is stated under its key, and expected as a value that is computed when it is stated. A key that is null or
left out states nothing; one that is none of these is not looked at (the time that a plan took, notes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from models.checked_arrays import LARGEST
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan
from models.planning.checkpoint_interval import (
    CheckpointInterval,
    IntervalPlan,
    allowed_intervals,
    daly_first,
    daly_higher,
    young,
)
from models.planning.migration_steps import MigrationSteps, StepsPlan
from models.planning.placement import Placement, PlacementPlan
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan
from models.planning.solution import Solution, Status
from optimizer.common.reasons import placement_reasons, query_reasons, reasons, selection_reasons
from optimizer.verify.claims import VALUE_TOLERANCE, Verdict
from optimizer.verify.constraints import MOST_LISTED, Violation
from optimizer.verify.plans import reason_of_bound

Figures = Mapping[str, Callable[[], Any]]


def with_stated(verdict: Verdict, stated: Mapping[str, Any], figures: Figures) -> Verdict:
    """Return the verdict, with a violation for every stated figure of a plan's document that is not the one expected.

    Figures are computed only if the document states them. Of an answer that breaks a rule none is: nothing may follow
    from it. Numbers agree within VALUE_TOLERANCE, relative to the larger one; booleans, texts and null must be equal.
    """
    if verdict.violations:
        return verdict
    looked = [name for name in figures if stated.get(name) is not None]
    texts = [text for name in looked for text in _unlike(name, stated[name], figures[name]())]
    found = tuple(Violation("stated", text) for text in texts[:MOST_LISTED])
    checked = verdict.checked
    if looked and checked:
        checked = (*checked, f"what else it states ({', '.join(looked)})")
    return replace(verdict, violations=verdict.violations + found, checked=checked)


def _unlike(path: str, said: Any, value: Any) -> Iterator[str]:
    """Yield in words where a stated figure is not the recomputed value; floats agree up to rounding."""
    if value is None or isinstance(value, (bool, str)) or isinstance(said, (bool, str)) or said is None:
        alike = type(said) is type(value) and said == value
    elif isinstance(value, (list, tuple)):
        if isinstance(said, list) and len(said) == len(value):
            for index, (one, other) in enumerate(zip(said, value, strict=True)):
                yield from _unlike(f"{path}[{index}]", one, other)
            return
        alike = False
    elif isinstance(value, Mapping):
        if isinstance(said, dict) and said.keys() == value.keys():
            for key in said:
                yield from _unlike(f"{path}.{key}", said[key], value[key])
            return
        alike = False
    else:
        alike = _near(said, value)
    if not alike:
        yield f"says {path} {_short(said)}, " + ("there is none" if value is None else f"recomputed {_short(value)}")


def _near(said: Any, value: float) -> bool:
    if not isinstance(said, (int, float)) or not abs(said) <= LARGEST:
        return False
    return said == value or abs(said - value) <= VALUE_TOLERANCE * max(abs(said), abs(value))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _none(*names: str) -> dict[str, Callable[[], Any]]:
    """Return figures that must be left out."""
    return dict.fromkeys(names, lambda: None)


def figures_of_checkpoints(problem: CheckpointAllocation, plan: CheckpointPlan) -> Figures:
    """Return the figures of a plan of checkpoints, by key of its document.

    A figure that must be left out is expected as None.
    """
    if plan.assignment is None:
        there_are_none = ("objective", "gap", "node_loads", *(("bound",) if plan.status is Status.INFEASIBLE else ()))
        return {"violations": list, "reasons": list} | _none(*there_are_none)
    return {"violations": list, "reasons": lambda: [asdict(row) for row in reasons(problem, plan)]}


def figures_of(problem: Any, plan: Solution) -> Figures:
    """Return the figures of a plan of a kind that has a problem file of its own (`optimizer.verify.plans.Problem`)."""
    figures: dict[str, Callable[[], Any]] = {}
    if plan.status is Status.INFEASIBLE:
        figures |= _none("objective", "bound", "gap")
    if isinstance(problem, OperatorSelection):
        assert isinstance(plan, SelectionPlan)
        return figures | {"reasons": partial(_rows, selection_reasons, problem, plan)}
    if isinstance(problem, QuerySelection):
        assert isinstance(plan, QueryPlan)
        return figures | {"reasons": partial(_rows, query_reasons, problem, plan)}
    if isinstance(problem, Placement):
        assert isinstance(plan, PlacementPlan)
        return figures | _of_placement(problem, plan) | {"reasons": partial(_rows, placement_reasons, problem, plan)}
    if isinstance(problem, CheckpointInterval):
        assert isinstance(plan, IntervalPlan)
        return figures | _of_interval(problem, plan)
    assert isinstance(plan, StepsPlan)
    return figures | _of_steps(problem, plan)


def _rows(explain: Callable[[Any, Any], list[Any]], problem: Any, plan: Solution) -> list[dict[str, Any]]:
    return [asdict(row) for row in explain(problem, plan)]


def _of_interval(problem: CheckpointInterval, plan: IntervalPlan) -> dict[str, Callable[[], Any]]:
    """Return the useful time by the formulas of Young and Daly; and what an interval has no figure of."""
    delta, mean = problem.checkpoint_s, problem.mtbf_s
    figures: dict[str, Callable[[], Any]] = {
        "young_s": lambda: young(delta, mean),
        "daly_first_s": lambda: daly_first(delta, mean, problem.restart_s),
        "daly_higher_s": lambda: daly_higher(delta, mean),
    }
    none = []
    if plan.interval_s is None:
        none += ["useful_s"]
    if plan.interval_s is None or problem.utilisation is None:
        none += ["worst_recovery_s", "mean_recovery_s"]
    if plan.interval_s is None or problem.rate_per_s is None:
        none += ["mean_replay_records"]
    if allowed_intervals(problem) is None:
        none += ["least_interval_s", "most_interval_s"]
    return figures | _none(*none)


def _of_steps(problem: MigrationSteps, plan: StepsPlan) -> dict[str, Callable[[], Any]]:
    bound = plan.bound
    other = _none("step" if problem.durations_s is not None else "start_s")
    return other if bound is None else other | {"reason": lambda: reason_of_bound(problem, bound)}


def _of_placement(problem: Placement, plan: PlacementPlan) -> dict[str, Callable[[], Any]]:
    host = plan.host
    if plan.status is Status.INFEASIBLE:
        return _none("colours", "hosts", "hosts_bound", "moves", "unplaced") if host is None else {}
    figures = _none("infeasible_set", *(("objective", "gap") if host is None else ()))
    if problem.goal == "value":
        figures |= _none("hosts_bound")
    elif problem.goal == "hosts":
        figures["hosts_bound"] = lambda: plan.bound
    if host is None:
        return figures
    return figures | {
        "colours": lambda: problem.most_colours(host),
        "hosts": lambda: problem.hosts_used(host),
        "moves": lambda: problem.moves(host),
        "unplaced": lambda: int((host < 0).sum()),
    }
