"""A running plan improved with few moves, as after a change of one host.

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
    """The knowledge of a former plan: prices (N,), and its gap, infinite when none is known.

    Prices are in the units of the problem that is solved; a plan carries them in `prices`.
    """

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
    """Return the improved plan, with at most `max_moves` away from `current`; the former plan only helps.

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
    # Tolls fall: moves that save most are made first, before others use up the limit.
    for share in own.tolls if "chains" in pieces else ():
        chains.toll = share * toll
        chains.follow()
        apply_chains(chains, own.chains)
    unit = scale * float(problem.load.mean())
    # Margins widen as in the heuristic: near swaps first.
    for attempt in range(own.swaps if "swaps" in pieces else 0):
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    if start.few and "few pairs" in pieces:
        # A budget without limits: branch-and-bound nodes are counted, and the clock decides nothing here.
        pack_all(state, Budget(), size=own.program_size, branches=1, target=0.0, toll=toll)
    if "forced moves" in pieces:
        # A gap no larger than that of the former plan is good enough: forced moves stop there.
        target = _target(state, (0.0 if former is None else former.gap) + own.same, bound)
        last = EjectionChains(state, own.chain_pairs, own.tolls[-1] * toll)
        forced_moves(last, own.forced, Budget(), target=target)
    return HeuristicAnswer(state.assignment, prices, bound)


def _target(state: Exchange, gap: float, bound: float) -> float:
    """Return the losses against the bound of the prices alone that leave a gap to the bound that counts moves."""
    lost = float(state.losses().sum())
    return lost - (state.cost() - bound) + gap * abs(bound)


def _start(problem: CheckpointAllocation, former: FloatArray | None, scale: float, parameters: Parameters) -> _Start:
    """Return candidates, moves and prices to begin with, and the bound that the prices prove."""
    assert problem.current is not None and problem.max_moves is not None
    own = parameters.reoptimise
    # Former prices are nearly right after a small change; only without them a sample gives the first ones.
    prices = first_prices(problem, scale, parameters.lagrangian) if former is None else former
    found = candidates(problem, prices, own.kept)
    # With many moves allowed, counting them says little: prices of the whole problem are the better ones.
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
    # The bound over all pairs is below that of the candidates: some moves are missing, so others are chosen once.
    if bound < cost + evaluated.value - own.missed * abs(bound):
        again = candidates(problem, evaluated.prices, own.kept)
        others = moves_of(problem, again)
        better = best_prices(others, evaluated.prices, abs(cost), own)
        value = move_bound(problem, better.prices)
        if value > bound:
            return _Start(again, others, better, value, few=True)
    return _Start(found, moves, evaluated, bound, few=True)


def _feasible(state: Exchange, start: _Start, toll: float, parameters: ReoptimiseParameters) -> EjectionChains | None:
    """Return chains of a state within all capacities, from the first start that leads to one; else None.

    The first start makes the moves of the linear program away from overloaded hosts. Where these are too many moves,
    the running plan is tried, with chains and without.
    """
    problem, running = state.problem, state.problem.current
    assert running is not None
    # The running plan first, so that its nodes are among the candidates of all later starts.
    state.start_from(running)
    chains = EjectionChains(state, parameters.chain_pairs, parameters.tolls[0] * toll)
    for assignment, by_chains in ((_left(problem, start), True), (running, True), (running, False)):
        state.start_from(assignment)
        # Too many moves already: no repair could bring them back.
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
    """Return the running plan (J,) after the moves that the linear program mostly makes away from overloaded hosts."""
    assert problem.current is not None
    left, shares = problem.current.copy(), start.evaluated.shares
    if shares is not None:
        # Shares above one half: at most one node for each checkpoint.
        gone = np.flatnonzero((shares > 0.5) & (start.moves.room < 0)[start.moves.source])
        left[start.moves.row[gone]] = start.moves.node[gone]
    return left


def _relieved(state: Exchange, chains: EjectionChains, most: int) -> None:
    """Make chains from the fullest overloaded node, as long as there are any, and at most `most`."""
    for _ in range(most):
        over = state.loads - state.problem.upper
        node = int(over.argmax())
        # No chain from the fullest node: the repair that follows may still find single moves.
        if over[node] <= 0 or not chains.leave(node):
            return
