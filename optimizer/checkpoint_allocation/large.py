"""Answers with a proven gap where a whole program is too large: prices, linear program on a core, repair, search.

1. Prices of a smoothed problem choose the pairs that matter (`candidates`).
2. Checkpoints whose second node is dearer by more than a margin stay on their best one; the linear program of the
   others has duals, the best prices there are when nothing that was left out is cheaper. It also says where checkpoints
   go: all but at most N of them to one node.
3. That is repaired and improved (`exchange`), from the smoothed prices as well, and the better one goes on.
4. All nodes are packed again with few pairs (`all_nodes`), and chains of moves go on from there, at the true costs and
   at disturbed ones (`chains`, `disturbed`). In small problems some nodes at a time are packed (`neighbourhoods`).

The bound is L of the best prices, over all pairs in float64 (`prices`): nothing before decides what is proven.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.all_nodes import pack_all
from optimizer.checkpoint_allocation.candidates import (
    Candidates,
    candidates,
    first_prices,
    scale_of,
    smoothed_prices,
)
from optimizer.checkpoint_allocation.chains import Chains, chained
from optimizer.checkpoint_allocation.disturbed import disturbed
from optimizer.checkpoint_allocation.exchange import Exchange
from optimizer.checkpoint_allocation.neighbourhoods import Effort, search
from optimizer.checkpoint_allocation.prices import fits_somewhere, price_bound
from optimizer.quiet import quiet_stdout

_KEPT = 16
_FALL = np.geomspace(0.03, 1e-3, 24)
_STEPS = 20
_AGAIN = (np.geomspace(1e-2, 1e-3, 8), np.geomspace(1e-3, 1e-4, 8))  # temperatures with other candidates
_STEPS_AGAIN = 6
_SMOOTHED_PAIRS = 400_000  # kept pairs up to which each temperature has _STEPS steps; fewer above
_CORE_PAIRS = 40_000  # pairs of the linear program
_SWAPS = 12
_CLOSE = 1e-6  # relative gap at which the search stops
_STAGES = ((3, 150, 0.1), (4, 300, 0.2), (6, 400, 0.3), (8, 500, 0.3))  # nodes, pairs, work of one program
_TURNS = (((1.0, 1.4, 1.6), 1.0, 24), ((1.6,), 0.2, 28))
"""Pairs for each node of programs on all nodes, and for each second of the limit: their branches, rounds of chains."""
_ROUND_ROWS = 8_000  # above so many checkpoints there are fewer rounds
_CHAIN_PAIRS = 4_000
_CHAINS, _CHAIN_WORK, _CHAIN_ROUNDS = 300, 3_000_000, 2  # chains of each kind, times pairs, and rounds, at the most
_SEARCH_PAIRS = 20_000_000  # J * N above which no nodes are packed again: looking costs more than it finds
_SLACKER = (1.0, 0.99, 0.97, 0.93)  # shares of the capacity that prices are made for, until repair succeeds


@dataclass(frozen=True)
class Priced:
    """An answer (None: not found), the prices whose bound is the best, that bound, and whether the clock struck."""

    assignment: IntArray | None
    prices: FloatArray
    bound: float
    struck: bool = False


def priced_search(
    problem: CheckpointAllocation, *, time_limit_s: float, start: IntArray | None = None, work: float | None = None
) -> Priced:
    """The best answer of the steps above; `start` (J,) is improved as well. No apart pairs, no limit on moves."""
    until = time.perf_counter() + time_limit_s
    if not fits_somewhere(problem):
        return Priced(None, np.zeros(problem.n_nodes), -math.inf)
    scale = scale_of(problem)
    rough = first_prices(problem, scale)
    found = candidates(problem, rough, _KEPT)
    steps = int(np.clip(_STEPS * _SMOOTHED_PAIRS / found.nodes.size, 4, _STEPS))
    prices = smoothed_prices(problem, found, rough, scale * _FALL, steps=steps)
    bound = price_bound(problem, prices)
    linear = relaxed(problem, found, prices)
    if linear is None and problem.capacity is not None and problem.cost.size > _SEARCH_PAIRS:
        found, prices, bound = _looked_again(problem, found, prices, bound, scale)
        linear = relaxed(problem, found, prices)
    states = [_improved(problem, found, prices, scale)]
    if linear is not None:
        better, at = linear
        value = price_bound(problem, better)
        if value > bound:
            prices, bound = better, value
        states.append(_improved(problem, found, better, scale, at=at))
    if start is not None:
        states.append(_improved(problem, found, prices, scale, start=start))
    if not any(states):
        states += [_squeezed(problem, found, prices, scale)]
    kept = [state for state in states if state is not None]
    if not kept:
        return Priced(None, prices, bound)
    state = min(kept, key=lambda one: problem.objective(one.assignment))
    state.at_prices(prices)
    struck = False
    if problem.cost.size <= _SEARCH_PAIRS:
        target = _CLOSE * abs(bound)
        if work is None:  # nobody else works on it
            struck = not _searched(state, target, time_limit_s, until)
        else:
            struck = not _packed(state, target, work, until)
    return Priced(state.assignment, prices, bound, struck)


def _looked_again(
    problem: CheckpointAllocation, found: Candidates, prices: FloatArray, bound: float, scale: float
) -> tuple[Candidates, FloatArray, float]:
    """Candidates at the prices that the first ones led to, and prices on those, as long as the bound rises.

    The first candidates follow from a sample. Where rows are alike, other pairs are the best at better prices, and the
    linear program cannot say so when it has no solution on them.
    """
    for temperatures in _AGAIN:
        again = candidates(problem, prices, _KEPT)
        better = smoothed_prices(problem, again, prices, scale * temperatures, steps=_STEPS_AGAIN)
        value = price_bound(problem, better)
        if value <= bound:
            break
        found, prices, bound = again, better, value
    return found, prices, bound


def _searched(state: Exchange, target: float, time_limit_s: float, until: float) -> bool:
    """Programs on all nodes and chains of moves in turn; False when the clock struck."""
    rows = min(1.0, _ROUND_ROWS / state.problem.n_checkpoints)
    for turn, (sizes, branches, rounds) in enumerate(_TURNS):
        most = math.ceil(branches * time_limit_s)
        if not pack_all(state, branches=most, target=target, until=until, sizes=sizes):
            return False
        chains = _chained(state, until, rounds=1)
        if not disturbed(chains, math.ceil(rounds * rows * time_limit_s), until=until, target=target, seed=turn):
            return False
    return True


def _packed(state: Exchange, target: float, work: float, until: float) -> bool:
    """Pack nodes again, small groups first, with so much work; False when the clock struck."""
    for stage, (nodes, pairs, each) in enumerate(_STAGES):
        effort = Effort(min(nodes, state.problem.n_nodes), pairs, each, work / len(_STAGES))
        if not search(state, effort, until=until, target=target, seed=stage):
            return False
        _chained(state, until)
    return True


def _chained(state: Exchange, until: float, rounds: int = _CHAIN_ROUNDS) -> Chains:
    """Chains of moves that save cost, as many as the size allows; none when the clock struck."""
    chains = Chains(state, _CHAIN_PAIRS, 0.0)
    most = min(_CHAINS, _CHAIN_WORK // max(1, len(chains.rows)))
    for _ in range(rounds):
        if time.perf_counter() > until or chained(chains, most) == 0:
            break
    return chains


def _improved(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    scale: float,
    *,
    at: IntArray | None = None,
    start: IntArray | None = None,
) -> Exchange | None:
    """A repaired and improved state, from the cheapest nodes at prices, given columns, or a given answer."""
    state = Exchange(problem, found, prices)
    if at is not None:
        state.place(at)
    if start is not None:
        state.start_from(start)
    if not state.repair() or (state.loads < problem.lower).any():
        return None
    unit = scale * float(problem.load.mean())
    for attempt in range(_SWAPS):
        while state.shift():
            pass
        if not state.swap(0.05 * unit * (1 + attempt)) and attempt > 3:
            break
    return state


def _squeezed(problem: CheckpointAllocation, found: Candidates, prices: FloatArray, scale: float) -> Exchange | None:
    """A state from prices for smaller capacities, which leave room for the repair."""
    for share in _SLACKER[1:]:
        dearer = smoothed_prices(problem, found, prices, scale * _FALL, steps=4, share=share)
        state = Exchange(problem, found, dearer)
        if state.repair() and not (state.loads < problem.lower).any():
            return state
    return None


def relaxed(
    problem: CheckpointAllocation, found: Candidates, prices: FloatArray, pairs: int = _CORE_PAIRS
) -> tuple[FloatArray, IntArray] | None:
    """Dual prices (N,) of the linear program on the core, and the column (J,) with the largest share."""
    priced = found.priced(prices)
    at = priced.argmin(axis=1)
    extra = priced - priced.min(axis=1, keepdims=True)
    flat = extra[np.isfinite(extra)]
    most = problem.n_checkpoints + pairs
    margin = math.inf if len(flat) <= most else float(np.partition(flat, most)[most])
    j, k = np.nonzero((extra <= margin) & np.isfinite(extra))
    only = np.bincount(j, minlength=len(extra))[j] == 1
    node, load = found.nodes[j, k], found.load[j, k]
    held = np.bincount(node[only], weights=load[only], minlength=problem.n_nodes)
    j, k, node, load = j[~only], k[~only], node[~only], load[~only]
    if not len(j) or (held > problem.upper).any() or problem.capacity is None:
        return None
    answer = _linear(extra[j, k], j, node, load, problem.upper - held, prices)
    if answer is None:
        return None
    shares, change = answer
    order = np.argsort(shares, kind="stable")
    at[j[order]] = k[order]
    return np.maximum(prices + change, 0.0), at


def _linear(
    extra: FloatArray, j: IntArray, node: IntArray, load: FloatArray, room: FloatArray, prices: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """The shares of the pairs, and what to add to the prices, when costs are relative to them.

    Room that is left over gives its price back: a column of it costs -price, and fills the row.
    """
    from scipy import sparse  # noqa: PLC0415
    from scipy.optimize import linprog  # noqa: PLC0415

    n = len(room)
    row = np.unique(j, return_inverse=True)[1]
    size = np.maximum(room, 1e-300)
    unit = max(float(extra.max()), 1e-300)
    columns = np.arange(len(j))
    slack = np.arange(n)
    places = (np.concatenate([node, slack]), np.concatenate([columns, len(j) + slack]))
    loads = sparse.csr_array((np.concatenate([load / size[node], np.ones(n)]), places), shape=(n, len(j) + n))
    once = sparse.csr_array((np.ones(len(j)), (row, columns)), shape=(int(row.max()) + 1, len(j) + n))
    costs = np.concatenate([extra, prices * size]) / unit
    both: Any = sparse.vstack([loads, once])
    with quiet_stdout():
        answer: Any = linprog(
            costs, A_eq=both, b_eq=np.ones(n + int(row.max()) + 1), bounds=(0, None), method="highs-ds"
        )
    if answer.status != 0:
        return None
    change = -np.asarray(answer.eqlin.marginals)[:n] * unit / size
    return np.asarray(answer.x)[: len(j)], np.where(np.isfinite(change), change, 0.0)
