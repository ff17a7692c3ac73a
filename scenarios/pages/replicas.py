"""The page of `holdfast plan replicas`: which operators get replicas, where, and what that buys.

Unavailability is exact for each plan; bounds hold for every plan of the budget. The tables of plans, of operators and
of the front are those of `scenarios.queries.tables`, which the terminal draws as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.report import text
from analysis.report.figure import SHARE, Figure, Section, Spec, reading, share_ticks
from analysis.report.page import Fact, Page
from analysis.report.tables import cut, text_table
from analysis.report.text import style
from models import display
from models.planning.replicas import ReplicaPlan, ReplicaProblem
from models.reliability.times import downtime_s
from models.table import Table
from optimizer.replicas.optimise import FrontPoint
from scenarios.pages.run import versions
from scenarios.queries.replicas import OPTIMISED, OVER, best_of, count_of
from scenarios.queries.tables import (
    GOALS,
    chances_of,
    front_table,
    month_text,
    operators_table,
    plans_table,
    share_text,
)

_MOST_FOUND, _MOST_CHANCES = 1000, 4
_QUESTION = "Which operators get replicas, where, and what does it buy?"
_ASSUMPTIONS = (
    "A query runs when each of its operators has an instance on a host that is up.",
    "Hosts fail independently, each with the chance `p`; figures are exact, not sampled.",
    "Replicas take as much CPU as their primary.",
    "A bound holds for every plan of the budget, whoever makes it.",
)


def plans_page(
    found: Mapping[str, ReplicaPlan],
    problem: ReplicaProblem,
    names: Sequence[str],
    queries: Sequence[str],
    *,
    title: str = "",
    command: str = "",
) -> Page:
    """Return the page of plans by their importance, and in full of the best of them.

    `found` maps the name of a plan (an importance, or `optimised`) to it, `names` and `queries` are those of operators
    and queries by their number. Only the best plan is shown with its hosts. A page without any plan has the status in
    its headline.
    """
    chances, name = chances_of(problem), best_of(found)
    best = found[name]
    sections = [_compared(found, problem, chances)]
    if best.instances is not None and best.broken is not None:
        words = f"The plan in full is the best one: {name}."
        sections += [
            Section(
                "operators", "Which operators", "Operators", words, tables=(cut(operators_table(best, problem, names)),)
            ),
            Section("queries", "What queries have", "Queries", tables=(_queries(best, problem, queries, chances),)),
            Section("hosts", "Where instances go", "Hosts", tables=(_hosts(best, problem, names),)),
        ]
    return Page(
        title=title or "Replicas",
        question=_QUESTION,
        facts=_facts(problem, chances),
        headline=_headline(best, problem, name),
        assumptions=(*_ASSUMPTIONS, *((best.note,) if best.note else ())),
        versions=versions(),
        command=command,
        sections=[one for one in sections if one.figures or one.tables],
    )


def front_page(
    found: Sequence[FrontPoint],
    problem: ReplicaProblem,
    *,
    over: str = OVER[0],
    title: str = "",
    command: str = "",
) -> Page:
    """Return the page of a front: what each budget buys, and what no plan of it can be below.

    Points are sorted by cost, and none is dominated. The area between both lines is what neither the search nor the
    proof could decide.
    """
    chances = chances_of(problem)
    first, last = found[0].plan, found[-1].plan
    return Page(
        title=title or "Replicas",
        question="What do replicas cost, and what do they buy?",
        facts=_facts(problem, chances),
        headline=(
            Fact(
                f"without replicas, {GOALS[problem.goal]}", share_text(first.objective), note=_a_month(first.objective)
            ),
            Fact("with all there is room for", share_text(last.objective), note=_a_month(last.objective)),
            Fact("no plan is below", share_text(last.bound), note=_a_month(last.bound)),
            Fact("plans", f"{len(found)}", note="none of them beaten by a cheaper one"),
        ),
        assumptions=(*_ASSUMPTIONS, *((last.note,) if last.note else ())),
        versions=versions(),
        command=command,
        sections=[_front(found, problem, over)],
    )


def _facts(problem: ReplicaProblem, chances: Sequence[float]) -> tuple[Fact, ...]:
    return (
        Fact("queries", f"{problem.n_queries:,}"),
        Fact("operators", f"{problem.n_operators:,}"),
        Fact("hosts", f"{problem.n_hosts:,}"),
        Fact("replicas may take", f"{display.number(problem.capacity, 6)} CPUs"),
        *(() if problem.max_replicas is None else (Fact("replicas, at most", f"{problem.max_replicas:,}"),)),
        Fact("host is down with", ", ".join(display.number(p, 6) for p in chances)),
        Fact("goal", {"mean": "mean query", "worst": "worst query"}[problem.goal]),
    )


def _headline(best: ReplicaPlan, problem: ReplicaProblem, name: str) -> tuple[Fact, ...]:
    """Return the facts of the best plan: mean and worst query, operators, CPUs, moves, and its bound."""
    if best.broken is None or best.levels is None:
        return (Fact("plan", "there is none", good=False, note=best.status.value),)
    at = f", p = {display.number(problem.down[0].max(), 6)}" if len(problem.down) > 1 else ""
    mean, worst = float(best.broken[0] @ problem.shares), float(best.broken[0].max())
    bare = np.array([1 - math.prod(1 - p for p in _hosts_of(needed, best, problem)) for needed in problem.operators])
    without = float(bare @ problem.shares)
    facts = [
        Fact(
            f"mean query is broken{at}",
            share_text(mean),
            note=f"{_a_month(mean)}; without its replicas {share_text(without)}",
        ),
        Fact(f"worst query{at}", share_text(worst), note=_a_month(worst)),
        Fact("operators with replicas", f"{int((best.levels > 0).sum())}", note=f"of {problem.n_operators}"),
        Fact(
            "replicas take [CPUs]", display.number(best.cost or 0, 4), note=f"of {display.number(problem.capacity, 4)}"
        ),
    ]
    if best.moves is not None:
        total = sum(map(len, problem.running))
        limit = "" if problem.max_moves is None else f"; at most {problem.max_moves} may"
        facts.append(Fact("replicas that leave their hosts", f"{best.moves}", note=f"of {total} that run{limit}"))
    proof = f"{GOALS[problem.goal]}; {best.status}, gap {text.share(best.gap)}"
    if best.bound is not None and best.target is None:
        facts.append(Fact("no plan is below", share_text(best.bound), note=proof))
    elif best.bound is not None:
        facts.append(Fact("no plan takes less than [CPUs]", display.number(best.bound, 4), note=f"{best.status}"))
    else:
        facts.append(Fact("chosen by", name, note="a heuristic: no bound"))
    return tuple(facts)


def _hosts_of(needed: Sequence[int], plan: ReplicaPlan, problem: ReplicaProblem) -> list[float]:
    """Return the chances of the hosts of the primaries of a query."""
    assert plan.instances is not None
    return [float(problem.down[0, host]) for host in {plan.instances[op][0] for op in needed}]


# -- plans beside each other


def _compared(found: Mapping[str, ReplicaPlan], problem: ReplicaProblem, chances: Sequence[float]) -> Section:
    """Return the section of all plans beside each other, the best one marked; empty if none has an answer."""
    known = [(name, one) for name, one in found.items() if one.broken is not None and one.levels is not None]
    table = plans_table(found, problem)
    if table is None:
        return Section("plans", "Plans", "Plans")
    drawn = (_marks(known, problem, chances),) if len(known) > 1 else ()
    return Section("plans", "Ways to choose", "Plans", figures=drawn, tables=(table,))


def _marks(known: Sequence[tuple[str, ReplicaPlan]], problem: ReplicaProblem, chances: Sequence[float]) -> Figure:
    """Return a figure with a row for each plan and a mark for each chance, and the bound as a line."""
    data: list[Spec] = []
    values = []
    for k, p in enumerate(chances[:_MOST_CHANCES]):
        at = [float(one.broken[k] @ problem.shares) for _, one in known if one.broken is not None]
        values += at
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": f"p = {display.number(p, 6)}",
                "x": [float(f"{value:.6g}") for value in at], "y": list(range(len(at))),
                "marker": {"size": 11, "symbol": style(k).symbol, "color": style(k).colour},
                "text": [text.label(name, 20) for name, one in known if one.broken is not None],
                "hovertemplate": "%{text}: broken %{x:.3~p} of the time",
            }
        )  # fmt: skip
    bound = next((one.bound for name, one in known if name == OPTIMISED and one.target is None), None)
    if bound and problem.goal == "mean":
        values.append(bound)
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": f"no plan is below, p = {display.number(chances[0], 6)}",
                "x": [float(f"{bound:.6g}")] * 2, "y": [-0.6, len(known) - 0.4],
                "line": {"color": "var:--ink", "width": 1.5, "dash": "dash"}, "hovertemplate": "%{x:.3~p} of the time",
            }
        )  # fmt: skip
    over = [value for value in values if value > 0]
    ticks = share_ticks(min(over), max(over)) if over else {}
    layout: Spec = {
        "xaxis": {"title": {"text": "broken, mean query (log scale)"}, "type": "log", **ticks},
        "yaxis": {
            "tickvals": list(range(len(known))), "ticktext": [text.label(name, 20) for name, _ in known],
            "range": [len(known) - 0.4, -0.6],
        },
        "hovermode": "closest",
        "showlegend": True,
    }  # fmt: skip
    caption = "Each row is a way to say which operators matter; further left is better."
    return Figure("compared", "How often the mean query is broken", caption, data, layout, 140 + 30 * len(known))


# -- the best plan


def _queries(plan: ReplicaPlan, problem: ReplicaProblem, queries: Sequence[str], chances: Sequence[float]) -> Table:
    """Return the queries, worst first, with their unavailability at each chance."""
    assert plan.broken is not None
    assert plan.instances is not None
    order = sorted(range(problem.n_queries), key=lambda q: (-float(plan.broken[0, q]), q))  # type: ignore[index]
    rows = tuple(
        (
            text.plain(queries[q]),
            *(share_text(value) for value in plan.broken[:_MOST_CHANCES, q].tolist()),
            display.duration(downtime_s(float(plan.broken[0, q]))),
            f"{sum(len(plan.instances[op]) > 1 for op in problem.operators[q])} of {len(problem.operators[q])}",
            display.number(problem.weights[q], 6),
        )
        for q in order[:_MOST_FOUND]
    )
    heads = ("query", *(f"broken, p = {display.number(p, 6)}" for p in chances[:_MOST_CHANCES]))
    heads = (*heads, f"a month, p = {display.number(chances[0], 6)}", "operators with replicas", "weight")
    note = "" if len(order) <= _MOST_FOUND else f"The first {_MOST_FOUND:,} of {len(order):,} rows."
    numbers = (False, *(True,) * (len(heads) - 1))
    return text_table(
        "queries", "Queries, worst first", heads, rows, numbers, note=note, facet="query", facets=("",) * len(rows)
    )


def _hosts(plan: ReplicaPlan, problem: ReplicaProblem, names: Sequence[str]) -> Table:
    """Return the hosts that have instances, with their CPUs and operators."""
    assert plan.instances is not None
    primaries: dict[int, list[int]] = {}
    replicas: dict[int, list[int]] = {}
    for op, hosts in enumerate(plan.instances):
        for place, host in enumerate(hosts):
            (replicas if place else primaries).setdefault(host, []).append(op)
    used = sorted(primaries.keys() | replicas.keys())
    rows = tuple(
        (
            f"host {host}",
            display.number(
                math.fsum(problem.load[op] for op in (*primaries.get(host, ()), *replicas.get(host, ()))), 4
            ),
            display.number(problem.host_cpu[host], 4),
            _listed(primaries.get(host, ()), names),
            _listed(replicas.get(host, ()), names),
        )
        for host in used[:_MOST_FOUND]
    )
    heads = ("host", "CPUs used", "of", "primaries", "replicas")
    idle = problem.n_hosts - len(used)
    note = f"{idle} hosts have nothing." if idle else ""
    facets = tuple("takes replicas" if host in replicas else "primaries alone" for host in used[:_MOST_FOUND])
    return text_table(
        "hosts",
        "Hosts",
        heads,
        rows,
        (False, True, True, False, False),
        note=note,
        prose=(4,),
        facet="host",
        facets=facets,
    )


def _listed(operators: Sequence[int], names: Sequence[str]) -> str:
    shown = ", ".join(text.plain(names[op]) for op in operators[:6])
    more = f" and {len(operators) - 6} more" if len(operators) > 6 else ""
    return shown + more if operators else text.NONE


# -- the front


def _front(found: Sequence[FrontPoint], problem: ReplicaProblem, over: str = OVER[0]) -> Section:
    """Return the section of the front: cost against unavailability, with the line that no plan is below."""
    plans = [one.plan for one in found]
    by_cpus, unit = over == OVER[0], "CPUs" if over == OVER[0] else "replicas"
    at = [float(f"{plan.cost or 0:.6g}") if by_cpus else float(count_of(plan)) for plan in plans]
    data = [
        _steps("found", at, [plan.objective for plan in plans], style(0).colour, "solid", "hv", unit),
        _steps(
            "no plan is below",
            [float(f"{one.budget:.6g}") for one in found],
            [plan.bound for plan in plans],
            style(1).colour,
            "dash",
            "vh",  # what no plan of a budget is below, none of a smaller one is
            unit,
        ),
    ]
    above = [value for line in data for value in line["y"] if value]
    broken = GOALS[problem.goal]
    layout: Spec = {
        "xaxis": {"title": {"text": "CPUs that replicas take" if by_cpus else "replicas"}, "rangemode": "tozero"},
        "yaxis": {
            "title": {"text": f"{broken} (log scale)"}, "type": "log",
            **(share_ticks(min(above), max(above)) if above else {}),
        },
        "hovermode": "closest",
        "showlegend": True,
    }  # fmt: skip
    caption = "Each mark is a plan; what lies between the lines is neither found nor excluded."
    drawn = Figure("front", "What replicas cost, and buy", caption, data, layout, 420)
    tables = (front_table(found, problem),)
    return Section("front", "What replicas cost, and buy", "Front", figures=(drawn,), tables=tables)


def _steps(
    name: str, at: Sequence[float], values: Sequence[float | None], colour: str, dash: str, shape: str, unit: str
) -> Spec:
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "x": list(at),
        "y": [float(f"{value:.6g}") if value else None for value in values],
        "line": {"color": colour, "width": 2, "dash": dash, "shape": shape}, "marker": {"size": 7, "color": colour},
        "hovertemplate": f"{reading('x', unit, at)}: broken {SHARE} of the time",
    }  # fmt: skip


def _a_month(broken: float | None) -> str:
    return text.NONE if broken is None else f"{month_text(broken)} a month"
