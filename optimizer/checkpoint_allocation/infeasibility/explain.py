"""Why no allocation can keep all constraints: the smallest reason that is found, in words.

The search goes from cheap to dear: reasons that sums alone prove (`optimizer.verify.infeasibility`); nodes that cannot
hold so many heavy checkpoints; parts that not even divided checkpoints can keep, then parts that whole ones cannot
(`irreducible_set`).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from models import display
from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.infeasibility.irreducible_set import (
    InfeasibleSet,
    Parts,
    lp_infeasible_set,
    mip_infeasible_set,
    smaller_infeasible_set,
)
from optimizer.checkpoint_allocation.params import DEFAULT, InfeasibilityParameters, Parameters
from optimizer.verify.checkpoint_bounds import fits_in
from optimizer.verify.infeasibility import (
    MOST_NAMED,
    HallViolator,
    Reason,
    amounts,
    hall_reason,
    hall_violator,
    named,
    parts_of,
)


def explained(
    problem: CheckpointAllocation,
    parameters: Parameters = DEFAULT,
    *,
    proven: bool,
    time_limit_s: float,
    known: Reason | None = None,
) -> str:
    """Return the smallest reason found for a problem without an answer; "" where none was found.

    A reason is a proof. Only where it is `proven` that there is no allocation at all, whole checkpoints are looked at,
    by mixed-integer programs. For a reason that is smaller there is time until `time_limit_s`. `known`: a cheap reason.
    """
    began = time.perf_counter()
    # Cheap proofs first: programs are asked only where counting finds nothing.
    found = known or hall_reason(problem) or _heavy_reason(problem, parameters.infeasibility)
    if found is not None:
        several = len(found.parts) > 1
        # One part alone is as small as a reason can be.
        less = smaller_infeasible_set(problem, found.parts, parameters, time_limit_s=time_limit_s) if several else None
        same = less is None or len(less.parts) == len(found.parts)
        return found.text if same or less is None else _infeasible_set_text(problem, less)
    iis = lp_infeasible_set(problem, parameters, time_limit_s=time_limit_s)
    left = max(time_limit_s - (time.perf_counter() - began), 0.0)
    if iis is not None:
        less = smaller_infeasible_set(problem, iis.parts, parameters, time_limit_s=left) if iis.irreducible else None
        return _infeasible_set_text(problem, iis if less is None or len(less.parts) == len(iis.parts) else less)
    # Whole checkpoints need a search that may not end: only where infeasibility is known already.
    whole = mip_infeasible_set(problem, parameters, time_limit_s=left) if proven else None
    return "" if whole is None else _infeasible_set_text(problem, whole)


def _heavy_reason(problem: CheckpointAllocation, parameters: InfeasibilityParameters) -> Reason | None:
    """Return nodes that cannot hold their heavy checkpoints, counted: of load t and more, floor(capacity / t) each."""
    if problem.load.ndim != 1 or problem.capacity is None:
        return None
    loads = np.unique(problem.load)
    best: tuple[HallViolator, float] | None = None
    # Thresholds: more than 1/k of the largest capacity, so that a node holds less than k of them.
    for share in range(2, parameters.heavy_shares + 1):
        at = int(np.searchsorted(loads, float(problem.upper.max()) / share, side="right"))
        if at == len(loads):
            continue
        least = float(loads[at])
        heavy = np.flatnonzero(problem.load >= least)
        # The threshold falls with `share`, so the sets only grow: once too large, they stay too large.
        if len(heavy) * problem.n_nodes > parameters.heavy_pairs:
            break
        # floor(capacity / least): no node holds more checkpoints that weigh at least `least`.
        found = hall_violator(_counted(problem, heavy, np.floor(problem.upper / least)))
        if found is not None and (best is None or found.size < best[0].size):
            best = replace(found, checkpoints=heavy[found.checkpoints]), least
    if best is None:
        return None
    few, least = best
    who, nodes = named("checkpoint", few.checkpoints), named("node", few.nodes)
    those = f"{who} of load {display.number(least, 6)} or more"
    text = f"{those} may only go to {nodes}, with room for {round(few.room)} of them"
    return Reason(text, parts_of(few))


def _counted(problem: CheckpointAllocation, rows: IntArray, most: FloatArray) -> CheckpointAllocation:
    """Return a problem of some checkpoints with load 1 each and capacities (N,) in numbers, without other rules."""
    allowed = fits_in(problem, rows)
    return CheckpointAllocation(
        cost=np.zeros(allowed.shape), load=np.ones(len(rows)), capacity=most, forbidden=np.argwhere(~allowed)
    )


def _infeasible_set_text(problem: CheckpointAllocation, iis: InfeasibleSet) -> str:
    """Return the infeasible set as a sentence."""
    parts = Parts(problem)
    stored, capacity, minimum = iis.of("store"), iis.of("capacity"), iis.of("minimum")
    said = []
    if len(stored):
        where = np.flatnonzero(parts.fits[stored].any(axis=0))
        load = f" with load {amounts(problem.load[stored])}" if problem.load.ndim == 1 and len(capacity) else ""
        only = f" (only on {named('node', where)})" if len(where) < problem.n_nodes or len(where) == 1 else ""
        said.append(f"{named('checkpoint', stored)}{load} must be stored{only}")
    if len(capacity):
        said.append(f"{named('node', capacity)} can hold {amounts(problem.upper[capacity])}")
    if len(minimum):
        verb = "asks" if len(minimum) == 1 else "ask"
        said.append(f"{named('node', minimum)} {verb} for at least {amounts(problem.lower[minimum])}")
    said += [
        f"{named('checkpoint', parts.anti_affinity[k])} must be on different nodes"
        for k in iis.of("anti_affinity").tolist()[:MOST_NAMED]
    ]
    if len(iis.of("moves")):
        said.append(f"only {problem.max_moves} may move")
    text = "these cannot all hold: " + "; ".join(said)
    if iis.whole:
        text += ". Parts of checkpoints could be stored so, whole ones cannot"
    if iis.irreducible:
        return text
    return f"{text} (may be more than needed: {'time limit struck' if iis.struck else 'the search was cut short'})"
