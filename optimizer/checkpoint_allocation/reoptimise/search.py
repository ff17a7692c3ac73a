"""A plan that is running, improved with few moves: what is done after one host has changed.

A linear program of the moves corrects the former prices (`move_prices`): its duals prove most of what prices can prove
where moves are counted, and say what a move must save to be worth one. The running assignment is repaired by ejection
chains (`ejection_chains`): a node can only take what another one takes from it. More chains, then shifts and swaps,
spend what is left of the moves, each as long as a move saves enough; then small programs choose the moves again
(`moves_again`) and pack all nodes (`all_nodes`). Where the gap is larger than that of the former plan, a larger program
chooses the moves once more, and forced moves follow (`forced_moves`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.all_nodes import pack_all
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian.heuristic import HeuristicAnswer
from optimizer.checkpoint_allocation.lagrangian.smoothed_dual import first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.linear_core import relaxed
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, apply_chains
from optimizer.checkpoint_allocation.local_search.exchange import Exchange
from optimizer.checkpoint_allocation.local_search.forced_moves import forced_moves
from optimizer.checkpoint_allocation.local_search.neighbourhoods import Effort, search
from optimizer.checkpoint_allocation.reoptimise.greedy_moves import greedy_moves
from optimizer.checkpoint_allocation.reoptimise.move_prices import EvaluatedPrices, Moves, best_prices, moves_of
from optimizer.checkpoint_allocation.reoptimise.moves_again import MANY, chosen_again
from optimizer.verify.checkpoint_bounds import fits_somewhere, lagrangian_bound, move_bound

_KEPT = 12
_TEMPERATURE, _STEPS = 1e-3, 20  # of the scale of costs
_ROUNDS = 4
_MANY = 0.1  # share of the checkpoints that may move from which on the count of moves says little
_MISSED = 1e-7  # relative: what moves outside the candidates may take off the bound before others are chosen
_CHAIN_PAIRS = 3_000
_CHAINS = 20  # of each kind that are made at most
_TOLLS = (1.5, 0.8, 0.3)  # what a move must save, as a share of what the linear program says it is worth
_FEW = 4  # moves left below which no nodes are packed again
_ALL_AGAIN = (1.0,)  # pairs for each node of the last program
_SAME = 5e-7  # a gap that is larger by less is the same
_FORCED = 15  # forced moves, where the gap is larger than that of the former plan
_EFFORT = Effort(8, 100, 0.05, 0.05)


@dataclass(frozen=True)
class Former:
    """What a former plan knew: prices (N,), and its gap, infinite when none is known."""

    prices: FloatArray
    gap: float = math.inf


@dataclass(frozen=True)
class _Start:
    """Candidates, their moves, the prices that prove much for so few moves, that bound; whether there are few."""

    found: Candidates
    moves: Moves
    evaluated: EvaluatedPrices
    bound: float
    few: bool


def few_moves(problem: CheckpointAllocation, former: Former | None) -> HeuristicAnswer:
    """The improved plan, with at most `max_moves` away from `current`; the former plan only helps.

    The bound counts the moves.
    """
    assert problem.current is not None
    if not fits_somewhere(problem):
        return HeuristicAnswer(None, np.zeros(problem.n_nodes), -math.inf)
    scale = scale_of(problem)
    start = _start(problem, None if former is None else former.prices, scale)
    prices, toll, bound = start.evaluated.prices, start.evaluated.toll, start.bound
    state = Exchange(problem, start.found, prices)
    chains = _feasible(state, start, toll)
    saving = greedy_moves(problem)
    if chains is None or (state.loads < problem.lower).any():
        return HeuristicAnswer(saving, prices, bound)
    for share in _TOLLS:
        chains.toll = share * toll
        chains.follow()
        apply_chains(chains, _CHAINS)
    unit = scale * float(problem.load.mean())
    for attempt in range(_ROUNDS):
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    if not start.few and (problem.max_moves or 0) - problem.moves(state.assignment) >= _FEW:
        search(state, _EFFORT, until=math.inf, target=0.0)
    answer = state.assignment
    if saving is not None and problem.objective(saving) < problem.objective(answer):
        answer = saving
    if start.few:
        answer = chosen_again(problem, start.moves, start.evaluated, answer)
        state.start_from(answer)
        pack_all(state, branches=1, target=0.0, until=math.inf, sizes=_ALL_AGAIN, toll=toll)
        last = EjectionChains(state, _CHAIN_PAIRS, _TOLLS[-1] * toll)
        _look_again(last, start, 0.0 if former is None else former.gap, bound)
        answer = state.assignment
    return HeuristicAnswer(answer, prices, bound)


def _look_again(chains: EjectionChains, start: _Start, gap: float, bound: float) -> None:
    """Look on while the answer is farther from a bound that counts moves than a former plan was, by its gap."""
    state = chains.state
    lost = float(state.losses().sum())  # against the bound of the prices alone
    target = lost - (state.cost() - bound) + (gap + _SAME) * abs(bound)
    if lost > target:
        state.start_from(chosen_again(state.problem, start.moves, start.evaluated, state.assignment, MANY))
        chains.follow()
    forced_moves(chains, _FORCED, until=math.inf, target=target)


def _start(problem: CheckpointAllocation, former: FloatArray | None, scale: float) -> _Start:
    assert problem.current is not None and problem.max_moves is not None
    prices = first_prices(problem, scale) if former is None else former
    found = candidates(problem, prices, _KEPT)
    many = problem.max_moves > _MANY * problem.n_checkpoints
    if many or former is None:
        prices = smoothed_dual_prices(problem, found, prices, _TEMPERATURE * scale, steps=_STEPS)
    moves = moves_of(problem, found)
    if many:
        linear = relaxed(problem, found, prices)
        if linear is not None and lagrangian_bound(problem, linear[0]) > lagrangian_bound(problem, prices):
            prices = linear[0]
        return _Start(found, moves, moves.evaluated(prices), move_bound(problem, prices), few=False)
    cost = problem.objective(problem.current)
    evaluated = best_prices(moves, prices, abs(cost))
    bound = move_bound(problem, evaluated.prices)
    if bound < cost + evaluated.value - _MISSED * abs(bound):
        again = candidates(problem, evaluated.prices, _KEPT)
        others = moves_of(problem, again)
        better = best_prices(others, evaluated.prices, abs(cost))
        value = move_bound(problem, better.prices)
        if value > bound:
            return _Start(again, others, better, value, few=True)
    return _Start(found, moves, evaluated, bound, few=True)


def _feasible(state: Exchange, start: _Start, toll: float) -> EjectionChains | None:
    """Chains of a state in which nothing has too much, from the first start from which that is reached; else None.

    What the linear program takes from hosts that have too much leaves them first. Where that takes too many moves, the
    running plan is tried, with chains and without.
    """
    problem, running = state.problem, state.problem.current
    assert running is not None
    state.start_from(running)
    chains = EjectionChains(state, _CHAIN_PAIRS, _TOLLS[0] * toll)
    for assignment, by_chains in ((_left(problem, start), True), (running, True), (running, False)):
        state.start_from(assignment)
        if problem.moves(state.assignment) > (problem.max_moves or 0):
            continue
        chains.follow()
        if by_chains:
            _relieved(state, chains)
        if state.repair():
            chains.follow()
            return chains
    return None


def _left(problem: CheckpointAllocation, start: _Start) -> IntArray:
    """The running plan (J,) without what the linear program mostly takes from hosts that have too much."""
    assert problem.current is not None
    left, shares = problem.current.copy(), start.evaluated.shares
    if shares is not None:
        gone = np.flatnonzero((shares > 0.5) & (start.moves.room < 0)[start.moves.source])
        left[start.moves.row[gone]] = start.moves.node[gone]
    return left


def _relieved(state: Exchange, chains: EjectionChains) -> None:
    """Chains from what has too much, as long as there are any."""
    for _ in range(_CHAINS):
        over = state.loads - state.problem.upper
        node = int(over.argmax())
        if over[node] <= 0 or not chains.leave(node):
            return
