"""Plans by first fit and best fit alone, with the bounds that counting proves."""

from __future__ import annotations

import math
import time
from typing import Any

from models.checked_arrays import IntArray
from models.planning.placement import Placement, PlacementPlan
from models.planning.solution import Status, is_proven
from optimizer.common.first_fit import best_fit, first_fit
from optimizer.verify.placement_bounds import colour_bound, host_bound, impossible

FITS = {"first-fit": first_fit, "best-fit": best_fit}


def fitted(problem: Placement, method: str) -> PlacementPlan:
    """Return the plan of a method of FITS with the bound that counting proves: optimal, feasible or unknown.

    No search follows: the status is unknown where the method leaves something out or moves too much, and infeasible
    where counting proves that nothing keeps the rules. Raises KeyError for a method that is none of FITS.
    """
    began = time.monotonic()
    host = FITS[method](problem)
    moves, unplaced = problem.moves(host), int((host < 0).sum())
    few = problem.max_moves is None or moves <= problem.max_moves
    counts: dict[str, Any] = {"colours": problem.most_colours(host), "hosts": problem.hosts_used(host), "moves": moves}
    # Counting may prove that nothing keeps the rules, whatever first fit did.
    infeasible_set = impossible(problem)
    if infeasible_set is not None:
        found: dict[str, Any] = {
            "reason": infeasible_set.reason,
            "note": infeasible_set.reason,
            "infeasible_set": infeasible_set.instances,
        }
        return PlacementPlan(status=Status.INFEASIBLE, wall_s=time.monotonic() - began, **found)
    # An answer that breaks the limit on moves, or leaves something out, is none.
    if not few or (unplaced and problem.goal != "value"):
        note = f"{method} leaves {unplaced} out" if unplaced else f"{method} moves {moves}"
        kept = host if few else None
        wall_s = time.monotonic() - began
        return PlacementPlan(status=Status.UNKNOWN, host=kept, note=note, unplaced=unplaced, wall_s=wall_s, **counts)
    return with_counted_bound(problem, host, method, time.monotonic() - began)


def with_counted_bound(problem: Placement, host: IntArray, method: str, wall_s: float) -> PlacementPlan:
    """Return a plan of hosts (n,) with the bounds that counting proves.

    For goal "value" the bound is the value of everything; for "colours" a plan is optimal only if its number of hosts
    is proven as well.
    """
    objective, colours, hosts = problem.objective(host), problem.most_colours(host), problem.hosts_used(host)
    limit = colours if problem.goal == "colours" else problem.max_colours
    of_hosts = host_bound(problem, limit)
    first = {"colours": colour_bound(problem), "hosts": of_hosts}.get(problem.goal)
    bound = math.fsum(problem.values.tolist()) if first is None else float(first.value)
    second = problem.goal != "colours" or hosts == of_hosts.value
    return PlacementPlan(
        status=Status.OPTIMAL if second and is_proven(objective, bound) else Status.FEASIBLE,
        objective=objective,
        bound=bound,
        host=host,
        colours=colours,
        hosts=hosts,
        hosts_bound=None if first is None else of_hosts.value,
        moves=problem.moves(host),
        unplaced=int((host < 0).sum()),
        reason="the value of everything" if first is None else first.reason,
        wall_s=wall_s,
        note=method,
    )
