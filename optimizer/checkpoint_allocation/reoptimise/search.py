"""A plan that is running, improved with few moves: what is done after one host has changed.

A linear program of the moves corrects the former prices (`move_prices`): its duals prove most of what prices can prove
where moves are counted, and say what a move must save to be worth one. The running assignment is repaired by ejection
chains (`ejection_chains`): a node can only take what another one takes from it. More chains, then shifts and swaps,
spend what is left of the moves, each as long as a move saves enough; a program on few pairs looks once more. Where
the gap is larger than that of the former plan, forced moves follow (`forced_moves`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian.bound import first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.lagrangian.heuristic import HeuristicAnswer
from optimizer.checkpoint_allocation.linear_core import relaxed
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, apply_chains, forced_moves
from optimizer.checkpoint_allocation.local_search.exchange import Exchange, pack_all
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters, ReoptimiseParameters
from optimizer.checkpoint_allocation.reoptimise.move_prices import EvaluatedPrices, Moves, best_prices, moves_of
from optimizer.verify.checkpoint_bounds import fits_somewhere, lagrangian_bound, move_bound


@dataclass(frozen=True)
class Former:
    """The knowledge of a former plan: prices (N,), and its gap, infinite when none is known."""

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


def few_moves(
    problem: CheckpointAllocation, former: Former | None, parameters: Parameters = DEFAULT
) -> HeuristicAnswer:
    """The improved plan, with at most `max_moves` away from `current`; the former plan only helps.

    The bound counts the moves.
    """
    assert problem.current is not None
    if not fits_somewhere(problem):
        return HeuristicAnswer(None, np.zeros(problem.n_nodes), -math.inf)
    scale, own, pieces = scale_of(problem), parameters.reoptimise, parameters.pieces
    start = _start(problem, None if former is None else former.prices, scale, parameters)
    prices, toll, bound = start.evaluated.prices, start.evaluated.toll, start.bound
    state = Exchange(problem, start.found, prices, parameters.local_search)
    chains = _feasible(state, start, toll, own)
    if chains is None or (state.loads < problem.lower).any():
        return HeuristicAnswer(None, prices, bound)
    for share in own.tolls if "chains" in pieces else ():
        chains.toll = share * toll
        chains.follow()
        apply_chains(chains, own.chains)
    unit = scale * float(problem.load.mean())
    for attempt in range(own.swaps if "swaps" in pieces else 0):
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    if start.few and "few pairs" in pieces:
        pack_all(state, Budget(), size=own.program_size, branches=1, target=0.0, toll=toll)
    if "forced moves" in pieces:
        target = _target(state, (0.0 if former is None else former.gap) + own.same, bound)
        last = EjectionChains(state, own.chain_pairs, own.tolls[-1] * toll)
        forced_moves(last, own.forced, Budget(), target=target)
    return HeuristicAnswer(state.assignment, prices, bound)


def _target(state: Exchange, gap: float, bound: float) -> float:
    """Return the losses against the bound of the prices alone that leave a gap to the bound that counts moves."""
    lost = float(state.losses().sum())
    return lost - (state.cost() - bound) + gap * abs(bound)


def _start(problem: CheckpointAllocation, former: FloatArray | None, scale: float, parameters: Parameters) -> _Start:
    assert problem.current is not None and problem.max_moves is not None
    own = parameters.reoptimise
    prices = first_prices(problem, scale, parameters.lagrangian) if former is None else former
    found = candidates(problem, prices, own.kept)
    many = problem.max_moves > own.many * problem.n_checkpoints
    if many or former is None:
        prices = smoothed_dual_prices(
            problem, found, prices, own.temperature * scale, steps=own.steps, parameters=parameters.lagrangian
        )
    moves = moves_of(problem, found)
    if many:
        linear = None
        if "linear core" in parameters.pieces:
            linear = relaxed(problem, found, prices, Budget(), parameters.lagrangian)
        if linear is not None and lagrangian_bound(problem, linear[0]) > lagrangian_bound(problem, prices):
            prices = linear[0]
        return _Start(found, moves, moves.evaluated(prices), move_bound(problem, prices), few=False)
    cost = problem.objective(problem.current)
    evaluated = (
        best_prices(moves, prices, abs(cost), own) if "move prices" in parameters.pieces else moves.evaluated(prices)
    )
    bound = move_bound(problem, evaluated.prices)
    if bound < cost + evaluated.value - own.missed * abs(bound):
        again = candidates(problem, evaluated.prices, own.kept)
        others = moves_of(problem, again)
        better = best_prices(others, evaluated.prices, abs(cost), own)
        value = move_bound(problem, better.prices)
        if value > bound:
            return _Start(again, others, better, value, few=True)
    return _Start(found, moves, evaluated, bound, few=True)


def _feasible(state: Exchange, start: _Start, toll: float, parameters: ReoptimiseParameters) -> EjectionChains | None:
    """Chains of a state in which nothing has too much, from the first start from which that is reached; else None.

    What the linear program takes from hosts that have too much leaves them first. Where that takes too many moves, the
    running plan is tried, with chains and without.
    """
    problem, running = state.problem, state.problem.current
    assert running is not None
    state.start_from(running)
    chains = EjectionChains(state, parameters.chain_pairs, parameters.tolls[0] * toll)
    for assignment, by_chains in ((_left(problem, start), True), (running, True), (running, False)):
        state.start_from(assignment)
        if problem.moves(state.assignment) > (problem.max_moves or 0):
            continue
        chains.follow()
        if by_chains:
            _relieved(state, chains, parameters.chains)
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


def _relieved(state: Exchange, chains: EjectionChains, most: int) -> None:
    """Chains from what has too much, as long as there are any."""
    for _ in range(most):
        over = state.loads - state.problem.upper
        node = int(over.argmax())
        if over[node] <= 0 or not chains.leave(node):
            return
