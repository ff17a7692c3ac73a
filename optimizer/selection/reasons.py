"""Why an operator or a query is chosen, or not: what it is worth against what its capacity is worth at the price."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models import display
from models.planning.selection import OperatorSelection, QueryPlan, QuerySelection, SelectionPlan


@dataclass(frozen=True)
class SelectionReason:
    """One operator or query: its level (queries: 0 or 1), value, weight (queries: what it adds), and why."""

    index: int
    level: int
    value: float
    weight: float
    why: str


def selection_reasons(problem: OperatorSelection, plan: SelectionPlan) -> list[SelectionReason]:
    """One row per operator, in order; empty without an answer. Of operators without a level, the best one by price."""
    if plan.level is None:
        return []
    price = plan.price or 0.0
    room = math.fsum([problem.capacity, *(-problem.chosen_weights(plan.level)).tolist()])
    gains = np.where(problem.allowed, problem.level_values - price * problem.level_weights, -math.inf)
    gains[:, 0] = -math.inf
    rows = []
    for o, level in enumerate(plan.level.tolist()):
        shown = level or int(np.argmax(gains[o])) or 1
        value, weight = float(problem.level_values[o, shown]), float(problem.level_weights[o, shown])
        if level:
            why = _worth(value, weight, price)
        elif not problem.allowed[o, 1:].any():
            why = "no level is allowed within the capacity"
        elif weight > room:
            why = f"{_worth(value, weight, price)}; {display.number(room, 6)} is left"
        else:
            why = (
                "worth nothing"
                if value == 0
                else f"fits alone, not found with all others: {_worth(value, weight, price)}"
            )
        rows.append(SelectionReason(o, level, value, weight, why))
    return rows


def query_reasons(problem: QuerySelection, plan: QueryPlan) -> list[SelectionReason]:
    """One row per query, in order; empty without an answer. The weight is that of operators of its own."""
    if plan.queries is None or plan.operators is None:
        return []
    price = plan.price or 0.0
    users = np.bincount(problem.uses[plan.queries[problem.uses[:, 0]], 1], minlength=problem.n_operators)
    room = math.fsum([problem.capacity, *(-problem.weight[plan.operators]).tolist()])
    rows = []
    for q, chosen in enumerate(plan.queries.tolist()):
        operators = problem.operators_of(q)
        own = operators[users[operators] == 1] if chosen else operators[~plan.operators[operators]]
        weight, value = math.fsum(problem.weight[own].tolist()), float(problem.value[q])
        why = _worth(value, weight, price) + ("" if chosen else f"; {display.number(room, 6)} is left")
        rows.append(SelectionReason(q, int(chosen), value, weight, why))
    return rows


def _worth(value: float, weight: float, price: float) -> str:
    paid = price * weight
    if paid == 0:
        return f"is worth {display.number(value, 6)} and its capacity nothing"
    return f"is worth {display.number(value, 6)}, its capacity {display.number(paid, 6)} at the price"
