"""Ejection chains, and two searches made of them: forced moves, and iterated local search.

A chain: a checkpoint goes to another node, one from there goes on, until there is room.

A full node can only take a checkpoint when it gives one away. So what leaves a node goes a long way at little cost or a
short one at much: between nodes on which checkpoints are nearly indifferent there are cheap chains. They are shortest
paths: at each node the search keeps the chain of least cost plus priced load that is still too much there. A chain is
made only if all loads keep their capacities.

`forced_moves` sends the dearest checkpoints where they would be cheaper, and others make room. Where no chain saves
cost any more, one node may still have to give several checkpoints away before a heavy one has room there, which no
chain does. So a checkpoint that is dear where it is goes to its cheapest node whether it fits or not. Chains take away
what is then too much; others fill the room that it left. What ends cheaper is kept, else what was before comes back; a
few dozen checkpoints are tried, the dearest first. Nothing is drawn: the same problem gives the same answer.

`iterated_local_search` leaves a local optimum and looks for another one. Where no chain saves cost any more, several at
once may. In a round some checkpoints that are dear where they are begin chains that save by costs with noise: what they
end with may cost more, but keeps the capacities. Then chains that save by the true costs go through the nodes that were
touched. A round that ends cheaper than all before it is kept, else what was before it comes back. (Lourenco, Martin and
Stuetzle, Iterated local search, 2003; noise: Charon and Hudry 1993.) Rounds are counted and draws have a seed: the same
problem gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.exchange import Exchange

_ROOT = -1


@dataclass(frozen=True)
class _Ends:
    """The best chain that ends at each node: cost, load that it brings there, last pair; (N,) each."""

    cost: FloatArray
    load: FloatArray
    pair: IntArray


class EjectionChains:
    """The pairs of a state along which chains may go: those within `margin` of the least, and none that is taken.

    `toll` [cost] is added to every move away from the running plan. Arrays of pairs, (P,), are sorted by target node
    and read again by `follow` whenever a checkpoint has moved. Source: Glover (1996), "Ejection chains, reference
    structures and alternating path methods for traveling salesman problems".

    Invariant: between calls the arrays belong to the present assignment of the state. Who changes it by other means
    (`place`, `start_from`) must call `follow`.
    """

    def __init__(self, state: Exchange, most_pairs: int, toll: float) -> None:
        self.state, self.toll = state, toll
        extra = state.priced - state.least[:, None]
        flat = extra[np.isfinite(extra)]
        most = state.problem.n_checkpoints + most_pairs
        margin = np.inf if len(flat) <= most else float(np.partition(flat, most)[most])
        rows, to = np.nonzero((extra <= margin) & np.isfinite(extra))
        # A checkpoint with a single pair has nowhere to go, unless that pair is elsewhere.
        goes = (np.bincount(rows, minlength=len(extra))[rows] > 1) | (to != state.at[rows])  # the others stay
        rows, to = rows[goes], to[goes]
        order = np.argsort(state.found.nodes[rows, to], kind="stable")  # so that minima are of runs
        self._all = rows[order], to[order]
        self._targets = state.found.nodes[self._all]
        self._costs, self._loads = state.found.cost[self._all], state.found.load[self._all]
        self.margin = min(margin, float(extra[self._all].max(initial=0.0)))
        self.follow()

    def drawn(self, random: np.random.Generator) -> FloatArray:
        """Return noise for each pair, (P,): an exponential draw of mean 1, less one for where its checkpoint is."""
        # Noise of the own node is deducted: what counts is the difference between the two nodes.
        noise: FloatArray = random.exponential(size=len(self._targets))
        noise -= random.exponential(size=len(self.state.at))[self._all[0]]
        return noise

    def follow(self, noise: FloatArray | None = None) -> None:
        """Update everything that depends on where checkpoints are; `noise` is added to the costs of pairs.

        With it chains may be made that cost more.
        """
        state, here = self.state, self.state.assignment
        self.dearer = noise is not None
        # A pair where the checkpoint already is would be a move to itself.
        live = np.flatnonzero(self._targets != here[self._all[0]])
        self.rows, self.to = rows, _ = self._all[0][live], self._all[1][live]
        self.target, self.load, self.source, at = self._targets[live], self._loads[live], here[rows], state.at[rows]
        self.own = state.found.load[rows, at]
        self.change = self._costs[live] - state.found.cost[rows, at]
        if noise is not None:
            # Noise changes which chain is found, not whether its moves keep the capacities.
            self.change += noise[live]
        current = state.problem.current
        if current is not None:
            away, gone = self.target != current[rows], self.source != current[rows]
            # The toll is paid on leaving the running plan, and given back on return.
            self.change += self.toll * (away.astype(np.float64) - gone)
        self.room = state.problem.upper - state.loads
        self.freed = self.room[self.source] + self.own  # room on a node when one leaves it
        self.paid = state.prices[self.target] * self.load

    def leave(self, node: int) -> bool:
        """Return whether a chain from an overloaded node, the cheapest for the load it takes away, was made.

        It may cost more than it saves: the node has to lose load.
        """
        first = np.flatnonzero(self.source == node)
        return self._made(first, -self.state.prices[node] * self.own, node, np.inf)

    def improve(self, row: int) -> bool:
        """Return whether a chain that begins with a checkpoint, and may close at its node, saves cost and was made.

        `row` is the checkpoint. Closing at its own node makes a cycle: a rotation of checkpoints over several full
        nodes.
        """
        state, first = self.state, np.flatnonzero(self.rows == row)
        return self._made(first, np.zeros(len(self.rows)), int(state.found.nodes[row, state.at[row]]), 0.0)

    def fill(self) -> bool:
        """Return whether the chain that saves most of all was made."""
        return self._made(np.arange(len(self.rows)), np.zeros(len(self.rows)), _ROOT, 0.0)

    def _made(self, first: IntArray, bonus: FloatArray, origin: int, limit: float) -> bool:
        """Return whether a chain cheaper than `limit` was made, from one of the pairs `first`.

        `bonus` is added to the cost of the first pair; `origin` is the node where a chain may close again, or none.
        """
        # Long chains first; where one visits a checkpoint twice, shorter ones are tried instead.
        for length in self.state.parameters.chain_lengths:
            path = self._cheapest(first, bonus, origin, limit, length)
            if path is None:
                return False
            pairs = np.array(path)
            # One checkpoint cannot move twice in a chain: the shortest path does not know that, so it is tested here.
            if len(np.unique(self.rows[pairs])) == len(pairs) and self._apply(pairs, limit < np.inf):
                # Sources, loads and room have changed: all pairs are read again before the next chain.
                self.follow()
                return True
        return False

    def _apply(self, pairs: IntArray, cheaper: bool) -> bool:
        """Return whether the moves of a chain were made: no node has too much that had not, and they are allowed."""
        state = self.state
        rows, to = self.rows[pairs], self.to[pairs]
        if cheaper:
            return state.accept(rows, to, dearer=self.dearer)
        return state.accept_relief(rows, to)

    def _cheapest(self, first: IntArray, bonus: FloatArray, origin: int, limit: float, length: int) -> list[int] | None:
        """Return the pairs of the cheapest chain below `limit`, by cost and the bonus of its first pair, or None."""
        if not len(first):
            return None
        # A saving of zero is none: rounding must not make chains that gain nothing, or search would not end.
        best, found = limit - 1e-12 * (1.0 if limit == 0 else 0.0), None
        levels: list[_Ends] = []
        firsts: list[IntArray] = []
        reach = self._reach(origin, first) if limit == 0 else np.inf
        pairs, cost, began = first, self.change[first] + bonus[first], first
        # One level for each length: the best chain of that many moves to every node.
        for level in range(length):
            ends, began_at = self._ends(pairs, cost, began)
            levels.append(ends)
            firsts.append(began_at)
            room = self.room.copy()
            # A chain closes where the last one fits, or back at its origin, into the room that its first one left.
            total = ends.cost
            closes = np.isfinite(total) & (ends.load <= room)
            if origin >= 0 and np.isfinite(total[origin]):
                closes[origin] = ends.load[origin] <= room[origin] + self.own[began_at[origin]]
            node = int(np.where(closes, total, np.inf).argmin())
            # Strictly better: of equally cheap chains the shortest is kept.
            if closes[node] and total[node] < best:
                best, found = float(total[node]), (level, node)
            pairs, cost, began = self._extended(ends, began_at, origin, reach)
            if not len(pairs):
                break
        return None if found is None else self._path(levels, *found)

    def _reach(self, origin: int, first: IntArray) -> float:
        """Return the most a chain can gain at its end, in priced room; one that lost as much before is given up."""
        # Gains at the end are bounded by priced room: a chain that has lost more already can never close below 0.
        prices = self.state.prices
        gained = prices * np.maximum(self.room, 0.0)
        if origin >= 0:
            gained[origin] = prices[origin] * max(0.0, self.room[origin] + float(self.own[first].max()))
        return float(gained.max())

    def _ends(self, pairs: IntArray, cost: FloatArray, began: IntArray) -> tuple[_Ends, IntArray]:
        """Return the best of some chains at each node, by their cost and the priced load they bring."""
        n = self.state.problem.n_nodes
        target = self.target[pairs]
        key = cost + self.paid[pairs]
        # Pairs are sorted by target, so that each node's chains are a run, and `reduceat` needs no sorting.
        starts = np.concatenate([[0], (target[1:] != target[:-1]).nonzero()[0] + 1])  # np.diff takes ten times as long
        least = np.empty(n)
        least[target[starts]] = np.minimum.reduceat(key, starts)
        same = (key == least[target]).nonzero()[0][::-1]
        ends = _Ends(np.full(n, np.inf), np.zeros(n), np.full(n, _ROOT))
        begins = np.full(n, _ROOT)
        at = target[same]  # of equal ones the first is written last
        ends.cost[at], ends.load[at], ends.pair[at], begins[at] = (
            cost[same],
            self.load[pairs[same]],
            pairs[same],
            began[same],
        )
        return ends, begins

    def _extended(
        self, ends: _Ends, begins: IntArray, origin: int, reach: float
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Return all pairs by which chains go on, with cost and first pair: what leaves makes room for what came."""
        reached: BoolArray = ends.cost + self.state.prices * ends.load < reach
        # Through the origin the chain would only close: that is tested above.
        if origin >= 0:
            reached[origin] = False
        # The one that leaves must free at least the room that the one that came needs.
        at = (np.where(reached, ends.load, np.inf)[self.source] <= self.freed).nonzero()[0]
        node = self.source[at]
        return at, ends.cost[node] + self.change[at], begins[node]

    def _path(self, levels: list[_Ends], level: int, node: int) -> list[int]:
        """Return the pairs of the chain that ends at a node on a level, last pair first."""
        # Backwards from the end: each level knows its last pair, whose source is the end of the level before.
        path = []
        for ends in levels[level::-1]:
            pair = int(ends.pair[node])
            path.append(pair)
            node = int(self.source[pair])
        return path


def apply_chains(chains: EjectionChains, most: int) -> int:
    """Make chains that save cost, at most so many of each kind; returns how many.

    First those that fill room, then those from the checkpoints that are dearest where they are.
    """
    state, made = chains.state, 0
    # Filling room first: it is the cheapest gain, and may free what the others need.
    while made < most and chains.fill():
        made += 1
    return made + sum(chains.improve(row) for row in np.argsort(-state.dear(), kind="stable")[:most].tolist())


def descended(chains: EjectionChains, before: IntArray) -> None:
    """Make chains that save, through the nodes whose checkpoints are not in the columns `before` (J,)."""
    state = chains.state
    # A few chains that fill room: most kicks leave some, and each chain looks at all pairs.
    for _ in range(state.parameters.fills):
        if not chains.fill():
            break
    # Only nodes that changed can hold new gains: everything else was a local optimum before.
    changed = np.flatnonzero(state.at != before)
    nodes = state.found.nodes[changed]
    rows = np.arange(len(changed))
    touched = np.zeros(state.problem.n_nodes, dtype=np.bool_)
    touched[nodes[rows, before[changed]]] = touched[nodes[rows, state.at[changed]]] = True
    dear = np.where(touched[state.assignment], state.dear(), 0.0)
    first = np.argsort(-dear, kind="stable")[: state.parameters.descents]
    for row in first[dear[first] > 0].tolist():
        chains.improve(row)


_LEAST = 1e-12  # relative: less is not saved


class _Best:
    """The cheapest assignment of a state so far: what a trial starts from, and goes back to where it saves nothing."""

    def __init__(self, state: Exchange) -> None:
        self.state, self.at, self.cost = state, state.at.copy(), state.cost()

    def keep(self, *, fits: bool = True) -> None:
        """Take the state's assignment where it fits and is cheaper; else put the state back to the best one."""
        found = self.state.cost()
        if fits and found < self.cost - _LEAST * abs(self.cost):
            self.at, self.cost = self.state.at.copy(), found
        else:
            self.state.place(self.at)


def forced_moves(chains: EjectionChains, most: int, budget: Budget, *, target: float) -> bool:
    """Improve the state of some chains by forced moves of at most `most` checkpoints; False when the clock struck.

    Stops when the answer is within `target` of the bound that the state's prices prove.
    """
    state = chains.state
    best = _Best(state)
    tried: set[tuple[int, int]] = set()
    for _ in range(most):
        if budget.late:
            return False
        if state.losses().sum() <= target:
            break
        pair = _dearest(state, tried)
        if pair is None:
            break
        tried.add(pair)
        fits = _made_room(chains, *pair)
        if fits:
            descended(chains, best.at)
        best.keep(fits=fits)
    chains.follow()
    return True


def _dearest(state: Exchange, tried: set[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the dearest checkpoint where it is, and the column of its cheapest node; None when all were tried."""
    dear = state.dear()
    for row in np.argsort(-dear, kind="stable")[: len(tried) + 1].tolist():
        pair = (row, int(state.priced[row].argmin()))
        if dear[row] > 0 and pair not in tried:
            return pair
    return None


def _made_room(chains: EjectionChains, row: int, to: int) -> bool:
    """Return whether chains lead back within the capacities after a checkpoint went to the node of a column."""
    state, problem = chains.state, chains.state.problem
    at = state.at.copy()
    at[row] = to
    state.place(at)
    chains.follow()
    for _ in range(state.parameters.reliefs):
        over = state.loads - problem.upper
        node = int(over.argmax())
        if over[node] <= 0:
            few = problem.max_moves is None or problem.moves(state.assignment) <= problem.max_moves
            return few and bool((state.loads >= problem.lower).all())
        if not chains.leave(node):
            return False
    return False


def iterated_local_search(chains: EjectionChains, rounds: int, budget: Budget, *, target: float, seed: int = 0) -> bool:
    """Improve the state of some chains; False when the clock struck before the rounds were over.

    Stops when the answer is within `target` of the bound that the state's prices prove.
    """
    state, noise, kicks = chains.state, chains.state.parameters.noise, chains.state.parameters.kicks
    random = np.random.default_rng(seed)
    best = _Best(state)
    for turn in range(rounds):
        if budget.late:
            return False
        if state.losses().sum() <= target:
            return True
        size = noise[turn % len(noise)] * chains.margin
        dear = state.dear()
        if not dear.any():
            return True
        begin = random.choice(len(dear), kicks[turn // len(noise) % len(kicks)], p=dear / dear.sum())
        _kicked(chains, begin, size * chains.drawn(random))
        descended(chains, best.at)
        best.keep()
    chains.follow()
    return True


def _kicked(chains: EjectionChains, begin: IntArray, noise: FloatArray) -> None:
    """Make chains from some checkpoints that save by costs with noise."""
    chains.follow(noise)
    for row in begin.tolist():
        if chains.improve(row):
            chains.follow(noise)
    chains.follow()
