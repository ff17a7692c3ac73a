"""Tables of `holdfast plan replicas`: the terminal shows their brief form, pages the whole.

All figures are of unavailability, as in the JSON document: the share of time that a query is broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models import display
from models.planning.replicas import ReplicaPlan, ReplicaProblem
from models.reliability.times import downtime_s
from models.table import Column, Table, rows_of
from optimizer.replicas.optimise import FrontPoint
from scenarios.queries.replicas import best_of, by_worth, count_of, worth_of

GOALS = {"mean": "broken, mean query", "worst": "broken, worst query"}
"""Column of the objective, by goal."""


def plans_table(found: Mapping[str, ReplicaPlan], problem: ReplicaProblem) -> Table | None:
    """Return all plans that have an answer beside each other, the best one marked; None if none has."""
    chances = chances_of(problem)
    last = Column("moves") if problem.running else Column("left out")
    columns = (
        Column("plan", number=False, whole=True),
        *(Column(f"broken, p = {display.exact(p)}", share_text) for p in chances),
        Column(f"worst query, p = {display.exact(chances[0])}", share_text),
        Column("operators", display.count),
        Column("CPUs", lambda cost: display.number(cost, 4)),
        last,
    )
    rows = []
    for name, plan in found.items():
        if plan.broken is None or plan.levels is None:
            continue
        means, worst = (plan.broken @ problem.shares).tolist(), float(plan.broken[0].max())
        moved = plan.moves if problem.running else plan.left_out
        rows.append((name, *means, worst, int((plan.levels > 0).sum()), plan.cost or 0.0, moved))
    if not rows:
        return None
    best = [name for name, *_ in rows].index(best_of(found))
    title = f"Plans for {problem.n_queries} queries on {problem.n_operators} operators"
    return Table(title, columns, tuple(rows), "plans", marked=best)


def chances_of(problem: ReplicaProblem) -> list[float]:
    """Return the probabilities that a host is down, one for each setting.

    All hosts of a problem from a file have the same one: the greatest of a row is that of the row.
    """
    chances: list[float] = problem.down.max(axis=1).tolist()
    return chances


def front_table(found: Sequence[FrontPoint], problem: ReplicaProblem) -> Table:
    """Return the plan of each budget of a front, with the proven bound that no plan of the budget is below."""
    columns = (
        Column("CPUs", lambda cost: display.number(cost or 0, 6), "plan.cost"),
        Column("replicas", lambda plan: display.count(count_of(plan)), "plan"),
        Column(GOALS[problem.goal], share_text, "plan.objective"),
        Column("no plan is below", share_text, "plan.bound"),
        Column("gap", display.share, "plan.gap", wide=True),
        Column("a month", month_text, "plan.objective", wide=True),
        Column("operators", _replicated, "plan", wide=True),
        Column("status", of="plan.status", number=False, wide=True),
    )
    return Table("What replicas cost, and buy", columns, rows_of(found, columns), "front")


def _replicated(plan: ReplicaPlan) -> str:
    """Return the number of operators with replicas."""
    return display.NONE if plan.levels is None else display.count(int((plan.levels > 0).sum()))


def operators_table(plan: ReplicaPlan, problem: ReplicaProblem, names: Sequence[str]) -> Table:
    """Return the hosts of all operators; those with replicas first, what is worth most before all others.

    What a replica is worth: how much more the mean query would be broken without those of its operator. `plan` has an
    answer.
    """
    assert plan.instances is not None
    worth = worth_of(plan, problem)
    columns = (
        Column("operator", number=False),
        Column("primary on host"),
        Column("replicas on hosts", lambda hosts: ", ".join(map(str, hosts)) or display.NONE, number=False),
        Column("CPUs each", lambda load: display.number(load, 4)),
        Column("queries", display.count),
        Column("broken more without", share_text),
    )
    order = by_worth(plan, worth)
    rows = tuple(
        (names[op], hosts[0], hosts[1:], float(problem.load[op]), int(problem.degree[op]), worth.get(op))
        for op in order
        for hosts in [plan.instances[op]]
    )
    facets = tuple("has replicas" if row[2] else "has none" for row in rows)
    title = "Operators, those whose replicas are worth most first"
    return Table(title, columns, rows, "operators", facet="operators", facets=facets)


def share_text(value: float | None) -> str:
    """Return a small share in percent, with four digits."""
    return display.share(value, 4)


def month_text(broken: float | None) -> str:
    """Return the time broken in a month."""
    return display.NONE if broken is None else display.duration(downtime_s(broken))
