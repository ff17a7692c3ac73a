"""A plan on the terminal: each value in words and with its unit. `--json` has the keys of the plan's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import typer

from holdfast import terminal
from models import display
from models.planning.solution import OPTIMAL_GAP, Solution, Status

_EXIT_CODES = {Status.INFEASIBLE: 3, Status.UNKNOWN: 4}
_MOST = 12  # of a list, on its line
_Said = Callable[[Any], str]


def leave_without_plan(plan: Solution) -> None:
    """Say why there is no plan and leave with the exit code of its status; do nothing where there is one."""
    code = _EXIT_CODES.get(plan.status)
    if code is not None:
        typer.echo(f"{plan.status}: {plan.note}", err=True)
        raise typer.Exit(code)


def plan_lines(kind: str, document: Mapping[str, Any], capacity: float | None = None) -> list[str]:
    """Return a line for each thing that a plan of this kind says, the values below each other; nothing for null."""
    found = [("status", document["status"]), *_objective(kind, document)]
    if kind == "interval":
        found += _interval(document)
    for key, (name, said) in _OF[kind].items():
        if document.get(key) is not None:
            found.append((name, said(document[key])))
            if key == "used" and capacity is not None:
                found[-1] = (name, f"{said(document[key])} of {said(capacity)}")
            if key == "single_value":
                most = display.number(document["single_bound"], 6, rounding="up")
                found[-1] = (name, f"{said(document[key])}, and no choice has more than {most}")
    return terminal.facts(found, max(len(name) for name, _ in found) + 2)


def _objective(kind: str, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the objective, its proven bound, and the gap between them."""
    objective, bound, gap = document["objective"], document["bound"], document["gap"]
    name, form, greatest = _GOALS[kind]
    if kind == "steps" and document.get("start_s") is not None:
        name, form = "last move ends after", partial(display.duration, digits=6)
    found = [] if objective is None else [(name, form(objective))]
    if bound is not None:
        # Rounded like the objective where they are the same: 1.01711 beside 1.01712 would tell of a gap.
        way = "nearest" if gap is not None and gap <= OPTIMAL_GAP else "up" if greatest else "down"
        found.append(("proven bound", f"{'≤' if greatest else '≥'} {form(bound, rounding=way)}"))
    if gap is not None:
        rounding_only = 0 < gap <= OPTIMAL_GAP
        found.append(("gap to the bound", "0 % but for rounding" if rounding_only else display.share(gap)))
    return found


def _interval(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the interval and its limits: rounded so that who sets what is shown stays within them."""
    least, most = document["least_interval_s"], document["most_interval_s"]
    found = []
    if document["interval_s"] is not None:
        way: display.Rounding = "up" if document["interval_s"] == least != most else "down"
        found.append(("interval", display.duration(document["interval_s"], 6, rounding=way)))
        found.append(("work between checkpoints", display.duration(document["useful_s"], 6, rounding=way)))
    if least is not None:
        found.append(("shortest interval allowed", display.duration(least, 6, rounding="up")))
    if most is not None:
        found.append(("longest interval allowed", display.duration(most, 6, rounding="down")))
    return found


def listed(items: Sequence[Any], said: _Said = str) -> str:
    """Return the first of the items, and how many more there are.

    >>> listed([0, 2, 3])
    '0, 2, 3'
    """
    shown = ", ".join(map(said, items[:_MOST]))
    return shown if len(items) <= _MOST else f"{shown} and {display.count(len(items) - _MOST)} more"


def _chosen(flags: Sequence[bool]) -> str:
    return listed([k for k, chosen in enumerate(flags) if chosen]) or "none"


_figure = partial(display.number, digits=6)
_TOOK: dict[str, tuple[str, _Said]] = {"wall_s": ("took", display.duration), "note": ("note", str)}
_GOALS: dict[str, tuple[str, Callable[..., str], bool]] = {  # its name, its form, whether the greatest is wanted
    "selection": ("value", _figure, True),
    "queries": ("value of whole queries", _figure, True),
    "steps": ("steps", _figure, False),
    "interval": ("slowdown", _figure, False),
    "checkpoints": ("cost", _figure, False),
}
_OF: dict[str, dict[str, tuple[str, _Said]]] = {
    "selection": {
        "level": ("level of each operator", listed),
        "used": ("capacity used", _figure),
        "price": ("price of a unit of capacity", _figure),
        **_TOOK,
    },
    "queries": {
        "queries": ("whole queries", _chosen),
        "operators": ("operators with a replica", _chosen),
        "used": ("capacity used", _figure),
        "price": ("price of a unit of capacity", _figure),
        "single_value": ("value of single operators", _figure),
        **_TOOK,
    },
    "steps": {
        "step": ("step of each move", listed),
        "start_s": ("begin of each move", partial(listed, said=display.instant)),
        "reason": ("why not sooner", str),
        **_TOOK,
    },
    "interval": {
        "worst_recovery_s": ("longest recovery", display.duration),
        "mean_recovery_s": ("mean recovery", display.duration),
        "mean_replay_records": ("records replayed, mean", display.number),
        "young_s": ("work by Young's formula", display.duration),
        "daly_first_s": ("work by Daly, first order", display.duration),
        "daly_higher_s": ("work by Daly, higher order", display.duration),
        **_TOOK,
    },
    "checkpoints": {"method": ("method", str), **_TOOK},
}
