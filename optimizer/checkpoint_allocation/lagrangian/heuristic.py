"""Answers with a proven gap where a whole program is too large: prices, linear program on a core, repair, search.

1. Prices of a smoothed problem choose the pairs that matter (`candidates`).
2. Checkpoints whose second node is dearer by more than a margin stay on their best one; the linear program of the
   others has duals, the best prices there are when nothing that was left out is cheaper. It also says where checkpoints
   go: all but at most N of them to one node.
3. That is repaired and improved (`exchange`), from the smoothed prices as well, and the better one goes on.
4. Where heavy checkpoints are, dives that decide these first (`linear_core`) begin anew from the best prices.
5. All nodes are packed again with few pairs (`all_nodes`), and ejection chains go on from there, then forced
   moves and iterated local search (`ejection_chains`, `forced_moves`, `iterated`). In small problems some nodes at a
   time are packed (`neighbourhoods`).

The bound is L of the best prices, over all pairs in float64 (`bound`): nothing before decides what is proven.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.all_nodes import pack_all
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian.smoothed_dual import first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.linear_core import dived, relaxed
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, apply_chains
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.checkpoint_allocation.local_search.forced_moves import forced_moves
from optimizer.checkpoint_allocation.local_search.iterated import iterated_local_search
from optimizer.checkpoint_allocation.local_search.neighbourhoods import Effort, search
from optimizer.verify.checkpoint_bounds import fits_somewhere, lagrangian_bound

_KEPT = 16
_FALL = ((1e-2, 20), (1e-3, 40), (1e-4, 60))  # temperatures (of the scale of costs), and steps
_SQUEEZED = (1e-3, 10)
_SWAPS = 12
_CLOSE = 1e-6  # relative gap at which the search stops
_STAGES = ((3, 150, 0.1), (4, 300, 0.2), (6, 400, 0.3), (8, 500, 0.3))  # nodes, pairs, work of one program
_TURNS = (((1.0,), 1.0, 12), ((1.2,), 0.2, 8))
"""Pairs for each node of programs on all nodes, and for each second of the limit: their branches, rounds of chains."""
_DIVES, _DIVES_PER_S = (0.05, 0.02), 0.4  # shares of the capacity that make a checkpoint heavy; one in 2.5 s
_FORCED = 40  # forced moves
_ROUND_ROWS = 8_000  # above so many checkpoints there are fewer rounds
_CHAIN_PAIRS, _NODE_PAIRS = 4_000, 20  # that chains go along: in all, or for each node where that is more
_CHAINS, _CHAIN_WORK, _CHAIN_ROUNDS = 300, 3_000_000, 2  # chains of each kind, times pairs, and rounds, at the most
_SEARCH_PAIRS = 20_000_000  # J * N above which no nodes are packed again: looking costs more than it finds
_SLACKER = (0.99, 0.97, 0.93)  # shares of the capacity that prices are made for, where repair failed, until it succeeds


@dataclass(frozen=True)
class HeuristicAnswer:
    """An answer (None: not found), the prices whose bound is the best, that bound, and whether the clock struck."""

    assignment: IntArray | None
    prices: FloatArray
    bound: float
    struck: bool = False


def lagrangian_heuristic(
    problem: CheckpointAllocation, *, time_limit_s: float, start: IntArray | None = None, work: float | None = None
) -> HeuristicAnswer:
    """The best answer of the steps above; `start` (J,) is improved as well. No anti-affinity, no limit on moves."""
    until = time.perf_counter() + time_limit_s
    if not fits_somewhere(problem):
        return HeuristicAnswer(None, np.zeros(problem.n_nodes), -math.inf)
    scale = scale_of(problem)
    found, prices = _settled(problem, scale)
    bound = lagrangian_bound(problem, prices)
    linear = relaxed(problem, found, prices, until=until)
    states = [_improved(problem, found, prices, scale, until)]
    if linear is not None:
        better, at = linear
        value = lagrangian_bound(problem, better)
        if value > bound:
            prices, bound = better, value
        states.append(_improved(problem, found, better, scale, until, at=at))
    if start is not None:
        states.append(_improved(problem, found, prices, scale, until, start=start))
    if not any(states):
        states += [_squeezed(problem, found, prices, scale, until)]
    kept = [state for state in states if state is not None]
    if not kept:
        return HeuristicAnswer(None, prices, bound, time.perf_counter() > until)
    state = min(kept, key=lambda one: problem.objective(one.assignment))
    state.at_prices(prices)
    struck = time.perf_counter() > until
    if problem.cost.size <= _SEARCH_PAIRS:
        target = _CLOSE * abs(bound)
        if work is None:  # nobody else works on it
            state = _dives(state, scale, bound, time_limit_s, until)
            struck = not _searched(state, target, time_limit_s, until)
        else:
            struck = not _packed(state, target, work, until)
    return HeuristicAnswer(state.assignment, prices, bound, struck)


def _settled(problem: CheckpointAllocation, scale: float) -> tuple[Candidates, FloatArray]:
    """Candidates, and prices that they lead to: at falling temperatures, each with other candidates.

    The first candidates follow from a sample. Where rows are alike, other pairs are the best at better prices.
    """
    prices = first_prices(problem, scale)
    for temperature, steps in _FALL:
        found = candidates(problem, prices, _KEPT)
        prices = smoothed_dual_prices(problem, found, prices, temperature * scale, steps=steps)
    return found, prices


def _dives(state: Exchange, scale: float, bound: float, time_limit_s: float, until: float) -> Exchange:
    """The best of a state and of what dives lead to; each is improved by ejection chains and forced moves."""
    problem, found, prices = state.problem, state.found, state.prices
    rows = min(1.0, _ROUND_ROWS / problem.n_checkpoints)
    for share in _DIVES[: int(_DIVES_PER_S * rows * time_limit_s)]:
        if time.perf_counter() > until:
            break
        at = dived(problem, found, prices, gain=state.cost() - bound, share=share, until=until)
        other = None if at is None else _improved(problem, found, prices, scale, until, at=at)
        if other is not None:
            forced_moves(_with_chains(other, until, rounds=1), _FORCED, until=until, target=0.0)
            state = min(state, other, key=lambda one: one.cost())
    return state


def _searched(state: Exchange, target: float, time_limit_s: float, until: float) -> bool:
    """Programs on all nodes and ejection chains in turn; False when the clock struck."""
    rows = min(1.0, _ROUND_ROWS / state.problem.n_checkpoints)
    for turn, (sizes, branches, rounds) in enumerate(_TURNS):
        most = math.ceil(branches * time_limit_s)
        if not pack_all(state, branches=most, target=target, until=until, sizes=sizes):
            return False
        chains = _with_chains(state, until, rounds=1)
        if not forced_moves(chains, _FORCED, until=until, target=target):
            return False
        if not iterated_local_search(
            chains, math.ceil(rounds * rows * time_limit_s), until=until, target=target, seed=turn
        ):
            return False
    return True


def _packed(state: Exchange, target: float, work: float, until: float) -> bool:
    """Pack nodes again, small groups first, with so much work; False when the clock struck."""
    for stage, (nodes, pairs, each) in enumerate(_STAGES):
        effort = Effort(min(nodes, state.problem.n_nodes), pairs, each, work / len(_STAGES))
        if not search(state, effort, until=until, target=target, seed=stage):
            return False
        _with_chains(state, until)
    return True


def _with_chains(state: Exchange, until: float, rounds: int = _CHAIN_ROUNDS) -> EjectionChains:
    """Ejection chains that save cost, as many as the size allows; none when the clock struck."""
    chains = EjectionChains(state, max(_CHAIN_PAIRS, _NODE_PAIRS * state.problem.n_nodes), 0.0)
    most = min(_CHAINS, _CHAIN_WORK // max(1, len(chains.rows)))
    for _ in range(rounds):
        if time.perf_counter() > until or apply_chains(chains, most) == 0:
            break
    return chains


def _improved(
    problem: CheckpointAllocation,
    found: Candidates,
    prices: FloatArray,
    scale: float,
    until: float,
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
        if time.perf_counter() > until:
            break
        while state.shift():
            pass
        if not state.swap(0.05 * unit * (1 + attempt)) and attempt > 3:
            break
    return state


def _squeezed(
    problem: CheckpointAllocation, found: Candidates, prices: FloatArray, scale: float, until: float
) -> Exchange | None:
    """A state from prices for smaller capacities, which leave room for the repair."""
    for share in _SLACKER:
        if time.perf_counter() > until:
            break
        dearer = smoothed_dual_prices(problem, found, prices, _SQUEEZED[0] * scale, steps=_SQUEEZED[1], share=share)
        state = Exchange(problem, found, dearer)
        if state.repair() and not (state.loads < problem.lower).any():
            return state
    return None
