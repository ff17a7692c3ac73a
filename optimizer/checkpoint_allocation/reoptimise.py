"""Re-optimisation: a running plan is improved with few moves, as after a change of one host.

A linear program of the moves corrects the former prices: its duals prove most of what prices can prove
where moves are counted, and say what a move must save to be worth one. The running assignment is repaired by ejection
chains (`ejection_chains`): a node can only take what another one takes from it. More chains, then shifts and swaps,
spend what is left of the moves, each as long as a move saves enough; a program on few pairs looks once more. Where
the gap is larger than that of the former plan, forced moves follow (`forced_moves`).

The linear program of the moves. A pair (j, n) other than where j runs, on r, is a move: it changes the cost by d =
c[j,n] - c[j,r], brings l[j,n] to n and takes l[j,r] from r. With x in [0, 1] for each, k moves allowed and room what
the running plan leaves of a node (negative where it has too much), the program

    minimise   sum d x    subject to   load brought - load taken <= room for each node,  sum x <= k,
                                       sum_n x[j,n] <= 1, and = 1 where j may not stay

has as its duals the prices lambda of `checkpoint_bounds.move_bound` that prove most, and as that of the count the toll
mu that a move must save. It has a row for each node and not for each checkpoint: of those, only rows that were broken
are asked for.

Moves enter by their cost at the prices so far. What such a small program says of prices is only true near them, so they
may differ by at most a box from the best so far (Marsten, Hogan and Blankenship 1975); it widens when half of what was
predicted was gained, and narrows when something was lost. Nothing here proves anything: `move_bound` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.candidates import Candidates, candidates, scale_of
from optimizer.checkpoint_allocation.lagrangian.bound import first_prices, smoothed_dual_prices
from optimizer.checkpoint_allocation.lagrangian.heuristic import HeuristicAnswer
from optimizer.checkpoint_allocation.linear_core import relaxed
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, apply_chains, forced_moves
from optimizer.checkpoint_allocation.local_search.exchange import Exchange, pack_all
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters, ReoptimiseParameters
from optimizer.common.solvers import linear_program, sparse_matrix
from optimizer.verify.checkpoint_bounds import fits_somewhere, lagrangian_bound, move_bound

_LIGHT = 1e-9  # share of the largest load: what brings less says nothing of prices
_SURE = 1e-7  # what a share or a load may be off in a linear program
_LEAST = 1e-300


@dataclass(frozen=True)
class EvaluatedPrices:
    """Prices (N,), the toll of a move, what they prove above the running cost, the moves' changes and the toll (P,).

    `shares` (P,) are those of the moves in the linear program, None where there was none. All by the candidates alone.
    """

    prices: FloatArray
    toll: float
    value: float
    change: FloatArray
    shares: FloatArray | None = None


@dataclass(frozen=True)
class Moves:
    """All moves of the candidates, by checkpoint: rows, nodes they leave and go to, change of cost, loads; (P,) each.

    `room` (N,) is what the running plan leaves; `must` (J,) is True where a checkpoint may not stay.
    """

    row: IntArray
    source: IntArray
    node: IntArray
    change: FloatArray
    brought: FloatArray
    taken: FloatArray
    room: FloatArray
    must: BoolArray
    most: int

    @cached_property
    def begins(self) -> IntArray:
        """Return where the moves of each checkpoint begin that has some."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    @cached_property
    def of_must(self) -> IntArray:
        """Return all moves of checkpoints that may not stay."""
        return np.flatnonzero(self.must[self.row])

    @cached_property
    def size(self) -> FloatArray:
        """Return the load that the row of each node is divided by, (N,)."""
        # At least all loads that could come: no coefficient of the row exceeds 1.
        each = np.bincount(self.node, self.brought, len(self.room)) + np.abs(self.room)
        return np.maximum(each, _LEAST)

    def priced(self, prices: FloatArray) -> FloatArray:
        """Return the change of each move (P,) at prices (N,)."""
        change: FloatArray = self.change + prices[self.node] * self.brought - prices[self.source] * self.taken
        return change

    def evaluated(self, prices: FloatArray) -> EvaluatedPrices:
        """Return the bound of prices by these moves."""
        change = self.priced(prices)
        least = np.minimum.reduceat(change, self.begins) if len(change) else change
        must = self.must[self.row[self.begins]]
        # Those who must move use up moves before anybody saves one.
        saved = np.sort(np.minimum(least[~must], 0.0))
        left = max(self.most - int(must.sum()), 0)
        # The saving of the first move that is not allowed is what one more move would be worth.
        toll = -float(saved[left]) if left < len(saved) else 0.0
        value = least[must].sum() + saved[:left].sum() - float(prices @ self.room)
        return EvaluatedPrices(prices, toll, float(value), change + toll)


@dataclass(frozen=True)
class _Answer:
    """The best bound of prices in the box by some moves, such prices (N,), shares of the moves, if the box is felt."""

    predicted: float
    prices: FloatArray
    shares: FloatArray
    felt: bool


def moves_of(problem: CheckpointAllocation, found: Candidates) -> Moves:
    """Return the moves that candidates allow from `current`, at most `max_moves` of them.

    `room` may be negative: that is what has to leave a node. Loads are those of the checkpoint on the node that it
    leaves and on the one that it goes to.
    """
    current, rows = problem.current, np.arange(problem.n_checkpoints)
    assert current is not None and problem.max_moves is not None
    load = problem.weights[rows, current]
    row, at = np.nonzero(np.isfinite(found.cost) & (found.nodes != current[:, None]))
    return Moves(
        row=row,
        source=current[row],
        node=found.nodes[row, at],
        change=found.cost[row, at] - problem.cost[rows, current].astype(np.float64)[row],
        brought=found.load[row, at],
        taken=load[row],
        # Unlimited room is cut to twice all loads: the program needs finite numbers, and more is no limit.
        room=np.minimum(problem.upper, 2 * float(problem.weights.max(axis=1).sum())) - problem.node_loads(current),
        must=~problem.allowed[rows, current] | (load > problem.upper[current]),
        most=problem.max_moves,
    )


def best_prices(
    moves: Moves,
    start: FloatArray,
    unit: float,
    parameters: ReoptimiseParameters = DEFAULT.reoptimise,
    budget: Budget | None = None,
) -> EvaluatedPrices:
    """Return the prices that prove most, searched from `start` (N,); `unit` is the size of the running cost.

    The value is never below those of `start` and of zero prices. It is that of the candidates alone: `move_bound` has
    to evaluate the prices over all pairs.
    """
    best, nothing = moves.evaluated(start), moves.evaluated(np.zeros(len(start)))
    # Prices of zero are the fallback: a poor start must not narrow the search.
    if not best.value > nothing.value:
        best = nothing
    count = min(parameters.price_pairs + parameters.price_pairs_per_move * moves.most, len(moves.row))
    if not count:
        return best
    (wider, narrower), close_to = parameters.box_factors, parameters.price_close * unit
    box, once = _first_box(moves, start, parameters.box), np.flatnonzero(moves.must)
    inside = _next(moves, np.ones(len(moves.row), dtype=np.bool_), best.change, moves.of_must, count)
    # Ends by count; before that when the prediction is within `close_to`.
    for number in range(parameters.price_rounds):
        # The first round also says which moves leave overloaded nodes: a feasible plan needs it, late or not.
        if number and budget is not None and budget.late:
            break
        at = np.flatnonzero(inside)
        answer = _program(moves, at, best.prices, box, once)
        if answer is None:
            break
        # Rows of checkpoints are made when needed: few of them move by more than one in total.
        broken = np.bincount(moves.row[at], answer.shares, len(moves.must)) > 1 + _SURE
        more = np.union1d(once, np.flatnonzero(broken))
        tried = moves.evaluated(answer.prices)
        hoped, gained = answer.predicted - best.value, tried.value - best.value
        # Close when the program hopes for little, or got nearly what it hoped for without feeling the box.
        close = hoped <= close_to or (hoped - gained <= close_to and not answer.felt)
        if gained > 0 or best.shares is None:
            shares = np.zeros(len(moves.row))
            shares[at] = answer.shares
            best = replace(tried if gained > 0 else best, shares=shares)
        # A broken row makes the prediction too good: another round with the row follows.
        if close and len(more) == len(once):
            break
        # Half of the prediction gained: the program is right this far out, so the box may grow.
        box *= wider if gained > hoped / 2 else 1.0 if gained > 0 else narrower
        inside = _next(moves, inside, tried.change, at[answer.shares > _SURE], count)
        once = more
    return best


def _first_box(moves: Moves, start: FloatArray, share: float) -> float:
    """Return the first box: a share of the median price, or without prices of the median change of cost per load."""
    used = start[start > 0]
    if not len(used):
        heavy = moves.brought > _LIGHT * moves.brought.max()  # what brings no load has no cost per load
        # No price to measure by: changes of cost per load have the unit of one.
        used = np.abs(moves.change[heavy]) / moves.brought[heavy]
    return (share * float(np.median(used)) if len(used) else 0.0) or 1.0


def _next(moves: Moves, inside: BoolArray, change: FloatArray, used: IntArray, count: int) -> BoolArray:
    """Return the moves of the next program: those used, the cheapest of the present ones, some that would pay."""
    following = np.zeros(len(inside), dtype=np.bool_)
    # The moves in use stay, so that the next program is no worse where it stands.
    following[used] = following[moves.of_must] = True
    for some in (np.flatnonzero(inside), np.flatnonzero(~inside & (change < 0))):
        few = len(some) <= count
        following[some if few else some[np.argpartition(change[some], count - 1)[:count]]] = True
    return following


def _program(moves: Moves, at: IntArray, prices: FloatArray, box: float, once: IntArray) -> _Answer | None:
    """Return the answer of the linear program of the moves `at`; `once` are the checkpoints that have rows.

    Costs are relative to `prices`: load too much costs the box, and room left over gives its price back, or as much of
    it as the box has.
    """
    n, count, size = len(moves.room), len(at), moves.size
    change = moves.priced(prices)[at]
    unit = max(float(np.abs(change).max(initial=0.0)), _LEAST)
    stays = int((~moves.must[once]).sum())
    # Room left over gives its price back, but a price can fall by no more than the box.
    costs = np.concatenate([change, box * size, np.minimum(prices, box) * size, np.zeros(stays)]) / unit
    if not np.isfinite(costs).all():
        return None
    limits = np.column_stack([np.zeros(len(costs)), np.full(len(costs), np.inf)])
    limits[:count, 1] = 1.0
    counted = np.zeros((1, len(costs)))
    counted[0, :count] = 1.0
    answer = linear_program(
        costs,
        at_most=(counted, [moves.most]),
        equal=(_rows(moves, at, once), np.concatenate([moves.room / size, np.ones(len(once))])),
        bounds=limits,
        method="highs-ds",
        # Presolve takes longer than these small programs, and their duals are what is wanted.
        presolve=False,
    )
    if not answer.is_optimal or answer.x is None:
        return None
    added = -answer.dual_equal[:n] * unit / size
    found = np.maximum(prices + np.where(np.isfinite(added), added, 0.0), 0.0)
    x = answer.x
    sold = x[count + n : count + 2 * n][prices > box]  # where the box ends above 0
    felt = bool(x[count : count + n].sum() + sold.sum() > _SURE)
    return _Answer(answer.objective * unit - float(prices @ moves.room), found, x[:count], felt)


def _rows(moves: Moves, at: IntArray, once: IntArray) -> Any:
    """Return the equations: a row for each node in units of its size, one for each of `once`.

    Columns: the moves, load too much, room left over, staying.
    """
    n, count = len(moves.room), len(at)
    node, source, column, hosts = moves.node[at], moves.source[at], np.arange(count), np.arange(n)
    line = np.full(len(moves.must), -1)
    line[once] = n + np.arange(len(once))
    asked = np.flatnonzero(line[moves.row[at]] >= 0)
    stays = np.flatnonzero(~moves.must[once])
    parts = (  # entries, rows, columns
        (moves.brought[at] / moves.size[node], node, column),
        (-moves.taken[at] / moves.size[source], source, column),
        (-np.ones(n), hosts, count + hosts),
        (np.ones(n), hosts, count + n + hosts),
        (np.ones(len(asked)), line[moves.row[at[asked]]], asked),
        (np.ones(len(stays)), n + stays, count + 2 * n + np.arange(len(stays))),
    )
    entries, lines, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
    return sparse_matrix(entries, lines, columns, (n + len(once), count + 2 * n + len(stays)))


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
    problem: CheckpointAllocation,
    former: Former | None,
    parameters: Parameters = DEFAULT,
    budget: Budget | None = None,
) -> HeuristicAnswer:
    """Return the improved plan, with at most `max_moves` away from `current`; the former plan only helps.

    The bound counts the moves. Work is limited by `parameters`; of the budget only the clock counts, and once it has
    struck nothing is improved any more.
    """
    assert problem.current is not None
    budget = Budget() if budget is None else budget
    if not fits_somewhere(problem):
        return HeuristicAnswer(None, np.zeros(problem.n_nodes), -math.inf)
    scale, own, pieces = scale_of(problem), parameters.reoptimise, parameters.pieces
    start = _start(problem, None if former is None else former.prices, scale, parameters, budget)
    prices, toll, bound = start.evaluated.prices, start.evaluated.toll, start.bound
    state = Exchange(problem, start.found, prices, parameters.local_search)
    chains = _feasible(state, start, toll, own)
    if chains is None or (state.loads < problem.lower).any():
        return HeuristicAnswer(None, prices, bound, budget.late)
    # Tolls fall: moves that save most are made first, before others use up the limit.
    for share in own.tolls if "chains" in pieces else ():
        if budget.late:
            break
        chains.toll = share * toll
        chains.follow()
        apply_chains(chains, own.chains)
    unit = scale * float(problem.load.mean())
    # Margins widen as in the heuristic: near swaps first.
    for attempt in range(own.swaps if "swaps" in pieces else 0):
        if budget.late:
            break
        while state.shift():
            pass
        state.swap(0.05 * unit * (1 + attempt))
    if start.few and "few pairs" in pieces:
        pack_all(state, budget, size=own.program_size, branches=1, target=0.0, toll=toll)
    if "forced moves" in pieces and not budget.late:
        # A gap no larger than that of the former plan is good enough: forced moves stop there.
        target = _target(state, (0.0 if former is None else former.gap) + own.same, bound)
        last = EjectionChains(state, own.chain_pairs, own.tolls[-1] * toll)
        forced_moves(last, own.forced, budget, target=target)
    return HeuristicAnswer(state.assignment, prices, bound, budget.late)


def _target(state: Exchange, gap: float, bound: float) -> float:
    """Return the losses against the bound of the prices alone that leave a gap to the bound that counts moves."""
    lost = float(state.losses().sum())
    return lost - (state.cost() - bound) + gap * abs(bound)


def _start(
    problem: CheckpointAllocation, former: FloatArray | None, scale: float, parameters: Parameters, budget: Budget
) -> _Start:
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
            linear = relaxed(problem, found, prices, budget, parameters.lagrangian)
        if linear is not None and lagrangian_bound(problem, linear[0]) > lagrangian_bound(problem, prices):
            prices = linear[0]
        return _Start(found, moves, moves.evaluated(prices), move_bound(problem, prices), few=False)
    cost = problem.objective(problem.current)
    evaluated = (
        best_prices(moves, prices, abs(cost), own, budget)
        if "move prices" in parameters.pieces
        else moves.evaluated(prices)
    )
    bound = move_bound(problem, evaluated.prices)
    # The bound over all pairs is below that of the candidates: some moves are missing, so others are chosen once.
    if bound < cost + evaluated.value - own.missed * abs(bound) and not budget.late:
        again = candidates(problem, evaluated.prices, own.kept)
        others = moves_of(problem, again)
        better = best_prices(others, evaluated.prices, abs(cost), own, budget)
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
