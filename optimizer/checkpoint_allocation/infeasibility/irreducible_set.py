"""The smallest part of a problem that cannot hold, where more than sums is in the way.

The parts are: a checkpoint is stored; a node keeps its capacity; a node reaches its minimum; copies are on different
nodes; few move. A set of parts is irreducible when it cannot hold and each part less can. It is found by taking parts
out (`deletion_filter`) and asking again: first the linear program, which may divide checkpoints and whose multipliers
are a proof (`farkas`). Where that program holds, the mixed-integer one is asked: only that checkpoints are whole is in
the way then. Of small problems whole checkpoints may need fewer parts than divided ones.

`deletion_filter` is that of Chinneck and Dravnieks (1991), with many parts at a time and then one by one. A proof may
need fewer parts than it was asked about: what it does not name leaves as well. Who was needed among more is needed
among fewer; and when a checkpoint is needed, so is another that is at least as hard to store: it asks for as much on
every node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.checked_arrays import LARGEST, BoolArray, FloatArray, IntArray
from models.planning.checkpoint_allocation import CheckpointAllocation
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.infeasibility.farkas import Farkas, Some
from optimizer.checkpoint_allocation.mixed_integer import Known, branch_and_bound
from optimizer.checkpoint_allocation.params import DEFAULT, Parameters
from optimizer.verify.better_assignment import better_assignment
from optimizer.verify.checkpoint_bounds import cliques, fitting, is_clique
from optimizer.verify.infeasibility import Part

PartTuple = tuple[Part, ...]


def deletion_filter(
    parts: PartTuple,
    refuted: Callable[[PartTuple], PartTuple | None],
    budget: Budget,
    implied: Callable[[Part, set[Part], PartTuple], bool] = lambda part, needed, kept: False,
) -> PartTuple:
    """Return the parts that are left when those not needed are out; the budget says whether it ended before.

    `refuted` gives those that cannot hold among some, or None. `implied` says whether a part is needed for sure where
    others are.
    """
    kept, needed = parts, set[Part]()
    # Halves first: most parts are not needed, and one question about many of them takes all out at once.
    step = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(kept):
            some = kept[at : at + step]
            # A part that was needed among more parts is needed among fewer: no second question.
            if step == 1 and (some[0] in needed or implied(some[0], needed, kept)):
                needed.add(some[0])
                at += 1
                continue
            # What is kept so far still cannot hold: ending early costs irreducibility, not truth.
            if budget.over:
                return kept
            rest = kept[:at] + kept[at + step :]
            less = refuted(rest) if len(rest) < len(kept) else None
            # The proof may need even fewer parts than were asked about.
            if less is not None:
                before = set(kept[:at])
                kept = tuple(part for part in rest if part in set(less))
                # The parts before `at` may have shrunk, too: the position follows them.
                at = sum(part in before for part in kept)
                continue
            if step == 1:
                needed.add(some[0])
            at += step
        # Only a pass of single parts shows that each one is needed.
        if step == 1:
            return kept
        step = max(1, min(step // 2, len(kept) // 2))


@dataclass(frozen=True)
class InfeasibleSet:
    """Parts that cannot hold together; `whole` when parts of checkpoints could; `irreducible` when each is needed.

    `struck`: it was the clock that ended the search for fewer.
    """

    parts: tuple[Part, ...]
    whole: bool
    irreducible: bool
    struck: bool = False

    def of(self, kind: str) -> IntArray:
        """Return the indices of the parts of a kind, in ascending order."""
        return np.array(sorted(index for name, index in self.parts if name == kind), dtype=np.int64)


class Parts:
    """The parts of a problem, and programs of some of them.

    A part is (kind, index): ("store", j), ("capacity", n), ("minimum", n), ("anti_affinity", number of the set), or
    ("moves", 0). `refuted` asks about divided checkpoints, `refuted_whole` about whole ones.
    """

    def __init__(self, problem: CheckpointAllocation, parameters: Parameters = DEFAULT) -> None:
        self.problem, self.parameters = problem, parameters
        self.fits: BoolArray = fitting(problem)
        self.anti_affinity = [
            np.array(members)
            for found in cliques(problem)
            for members in ([found.tolist()] if is_clique(problem, found) else _pairs(problem, found))
        ]
        self._asked_rules: tuple[Part, ...] | None = None
        self._asked: _Needs

    @cached_property
    def every(self) -> tuple[Part, ...]:
        """Return all parts: those that are seldom needed come first, and go first."""
        # The filter asks from the front: parts that are seldom needed go first, in large steps.
        p = self.problem
        found: list[Part] = [("moves", 0)] if p.max_moves is not None else []
        found += [("minimum", int(n)) for n in np.flatnonzero(p.lower > 0)]
        found += [("anti_affinity", k) for k in range(len(self.anti_affinity))]
        if p.capacity is not None:
            # Large capacities first: a node with much room is seldom the reason.
            found += [("capacity", int(n)) for n in np.argsort(-p.upper, kind="stable")]
        # Light checkpoints first, for the same reason.
        found += [("store", int(j)) for j in np.argsort(p.weights.max(axis=1), kind="stable")]
        return tuple(found)

    @cached_property
    def farkas(self) -> Farkas:
        """Return the search for multipliers, made once for the problem."""
        return Farkas(self.problem, self.fits, self.anti_affinity)

    def refuted(self, parts: tuple[Part, ...], budget: Budget, *, each: bool) -> tuple[Part, ...] | None:
        """Return those of the parts that not even divided checkpoints can keep; None where no proof was found."""
        some = self._some(parts)
        # A checkpoint that fits nowhere is a proof by itself, and the smallest one.
        stuck = np.flatnonzero(some.stored & ~self.fits.any(axis=1))
        if len(stuck):
            return (("store", int(stuck[0])),)
        paid, work, limited = self.farkas.program(some, each=each, most_work=budget.left, time_limit_s=budget.left_s)
        budget.spend(work, limited=limited)
        less = None if paid is None else self.farkas.proven(some, paid)
        # What the multipliers do not name leaves the set without another question.
        return None if less is None else tuple(part for part in parts if _has(less, part))

    def _some(self, parts: tuple[Part, ...]) -> Some:
        """Return the parts as arrays."""
        p = self.problem
        named: dict[str, list[int]] = {"store": [], "capacity": [], "minimum": [], "anti_affinity": [], "moves": []}
        for kind, index in parts:
            named[kind].append(index)
        stored, capacity, minimum = (
            np.zeros(p.n_checkpoints, bool),
            np.zeros(p.n_nodes, bool),
            np.zeros(p.n_nodes, bool),
        )
        stored[named["store"]] = capacity[named["capacity"]] = minimum[named["minimum"]] = True
        return Some(stored, capacity, minimum, tuple(sorted(named["anti_affinity"])), bool(named["moves"]))

    def implied(self, part: Part, needed: set[Part], kept: tuple[Part, ...]) -> bool:
        """Return whether a checkpoint is needed since one is that is nowhere harder to store: it could replace it."""
        if part[0] != "store":
            return False
        others = [index for kind, index in needed if kind == "store"]
        # Needs depend on the rules that are kept: computed again only when those change.
        rules = tuple(one for one in kept if one[0] != "store")
        if rules != self._asked_rules:
            self._asked_rules, self._asked = rules, self._needs(self._some(rules))
        return bool(others) and self._asked.is_implied(part[1], np.array(others))

    def _needs(self, some: Some) -> _Needs:
        """Return the needs of each checkpoint under these rules."""
        p = self.problem
        shown = np.ones(p.n_nodes, bool) if some.anti_affinity else some.capacity | some.minimum
        load = np.where(some.capacity | some.minimum, p.weights, 0.0)
        away = self.farkas.away & some.moves
        elsewhere = np.where(self.fits & ~shown, away * 1.0, np.inf).min(axis=1, initial=np.inf)
        sets: list[tuple[int, ...]] = [()] * p.n_checkpoints
        for k in some.anti_affinity:
            for j in self.anti_affinity[k].tolist():
                sets[j] = (*sets[j], k)
        label = {one: at for at, one in enumerate(dict.fromkeys(sets))}
        return _Needs(
            np.where(self.fits, load, np.inf)[:, shown],
            np.column_stack([np.where(self.fits, away, np.inf)[:, shown], elsewhere]),
            np.where(self.fits, load, np.inf)[:, some.minimum],
            np.array([label[one] for one in sets]),
        )

    def refuted_whole(self, parts: tuple[Part, ...], budget: Budget) -> tuple[Part, ...] | None:
        """Return the parts if whole checkpoints cannot keep them, by enumeration or branch and bound; else None."""
        # Capacities may be out of range in the reduced problem: then nothing is known.
        problem = self._reduced(parts)
        if problem is None:
            return None
        own = self.parameters.infeasibility
        budget.spend(problem.cost.size + own.program_asking)
        if problem.cost.size <= self.parameters.sizes.tiny:
            # Enumeration decides most small problems; where it ends undecided, branch and bound follows.
            tried = better_assignment(problem, math.inf, own.enumerated)
            if tried.decided:
                return parts if tried.best is None else None
        # No known answer and no prices: nothing may be left out of a question about feasibility.
        nothing = Known(None, math.inf, np.zeros(problem.n_nodes), -math.inf)
        found = branch_and_bound(problem, nothing, budget, most_nodes=own.program_nodes, most_programs=own.programs)
        if found.infeasible:
            return parts
        # Neither an answer nor a proof: a limit ended it, and the part has to stay.
        budget.spend(0, limited=found.assignment is None)
        return None

    def _reduced(self, parts: tuple[Part, ...]) -> CheckpointAllocation | None:
        """Return a problem of these parts alone; checkpoints that need not be stored may go to further nodes.

        Those hold all, and there are as many of them as anti-affinity needs. Without anti-affinity, and where any may
        move, one stands for all nodes without a rule. That few move beside minima says that all others are stored.
        """
        p, some = self.problem, self._some(parts)
        # A rule that was taken out must not act: its minimum is 0, its capacity more than all.
        least = np.where(some.minimum, 0.0 if p.capacity_min is None else p.capacity_min, 0.0)
        stored = some.stored | bool(some.moves and some.minimum.any())
        rows = np.flatnonzero(stored | bool(least.any()))
        if not len(rows):
            return None
        place = {j: k for k, j in enumerate(rows.tolist())}
        together = [
            (place[a], place[b])
            for k in some.anti_affinity
            for a in self.anti_affinity[k].tolist()
            for b in self.anti_affinity[k].tolist()
            if a < b and a in place and b in place
        ]
        # Copies that are not stored still need pairwise different nodes to go to.
        further = 1 + int(np.bincount(np.array(together, dtype=np.int64).ravel(), minlength=1).max())
        nodes, elsewhere = np.arange(p.n_nodes), ~stored[rows]
        if not some.anti_affinity and not some.moves:
            nodes = np.flatnonzero(some.capacity | some.minimum)
            elsewhere = elsewhere | self.fits[rows][:, ~(some.capacity | some.minimum)].any(axis=1)
        further = further if elsewhere.any() or not len(nodes) else 0
        more_than_all = math.fsum(p.weights.max(axis=1).tolist()) * 2 + 1
        if more_than_all > LARGEST:
            return None  # no capacity may be as large
        free = np.full(len(nodes) + further, more_than_all)
        held = np.flatnonzero(some.capacity[nodes])
        if p.capacity is not None:
            free[held] = p.capacity[nodes[held]]
        allowed = np.column_stack([self.fits[np.ix_(rows, nodes)], np.repeat(elsewhere[:, None], further, axis=1)])
        moves: dict[str, Any] = {}
        if some.moves and p.current is not None and p.max_moves is not None:
            moves = {"current": p.current[rows], "max_moves": p.max_moves}
        return CheckpointAllocation(
            cost=np.zeros(allowed.shape),
            load=np.column_stack([p.weights[np.ix_(rows, nodes)], np.zeros((len(rows), further))]),
            capacity=free,
            capacity_min=np.minimum(np.append(least[nodes], np.zeros(further)), free),
            forbidden=np.argwhere(~allowed),
            anti_affinity=np.array(together, dtype=np.int64).reshape(-1, 2),
            **moves,
        )


@dataclass(frozen=True)
class _Needs:
    """Needs of checkpoints: loads (J, K) and moves (J, K + 1) on nodes, loads for minima, anti-affinity labels."""

    load: FloatArray
    moves: FloatArray
    minimum: FloatArray
    sets: IntArray

    def is_implied(self, j: int, others: IntArray) -> bool:
        """Return whether one of the others asks for no more than j."""
        return bool(
            (
                (self.load[j] >= self.load[others]).all(axis=1)
                & (self.moves[j] >= self.moves[others]).all(axis=1)
                & (self.minimum[j] == self.minimum[others]).all(axis=1)
                & (self.sets[j] == self.sets[others])
            ).any()
        )


def lp_infeasible_set(
    problem: CheckpointAllocation,
    parameters: Parameters = DEFAULT,
    *,
    time_limit_s: float,
    start: tuple[Part, ...] | None = None,
) -> InfeasibleSet | None:
    """Return the parts that not even divided checkpoints can keep; None where these can, or the problem is too large.

    `start`: parts to begin with, in place of all. They are asked about in any case; for fewer there is time until the
    limit.
    """
    if problem.cost.size > parameters.infeasibility.relaxation_pairs:
        return None
    parts, own = Parts(problem, parameters), parameters.infeasibility
    found = _proof(parts, parts.every if start is None else start, max(time_limit_s, own.proof_s))
    if found is None:
        return None
    kept, each = found
    work_s = parameters.work_per_s * time_limit_s
    budget = Budget.of_seconds(time_limit_s, own.relaxation_work_per_s * work_s)
    before = len(kept) + 1
    # A proof names fewer parts each time it is asked: repeated as long as that helps, then one by one.
    while len(kept) < before and not budget.over:
        before = len(kept)
        kept = parts.refuted(kept, budget, each=each) or kept
    kept = deletion_filter(kept, lambda some: parts.refuted(some, budget, each=each), budget, parts.implied)
    return InfeasibleSet(kept, False, not budget.cut, budget.struck)


def lp_is_feasible(
    problem: CheckpointAllocation, parameters: Parameters = DEFAULT, *, time_limit_s: float
) -> bool | None:
    """Return False when not even divided checkpoints can keep all parts; None where one quick look does not show it.

    It never returns True: that a linear program has a solution is not proven here. One question, within a share of the
    time limit [s].
    """
    if problem.cost.size > parameters.infeasibility.relaxation_pairs:
        return None
    parts = Parts(problem, parameters)
    found = _proof(parts, parts.every, parameters.infeasibility.look_share * time_limit_s, ways=(False,))
    return None if found is None else False


def _proof(
    parts: Parts, start: tuple[Part, ...], time_limit_s: float, ways: tuple[bool, ...] = (False, True)
) -> tuple[tuple[Part, ...], bool] | None:
    """Return parts of the start that are refuted, and whether each row has a shortage of its own; None without."""
    budget = Budget.of_seconds(time_limit_s)
    for each in ways:
        found = parts.refuted(start, budget, each=each)
        if found is not None:
            return found, each
    return None


def mip_infeasible_set(
    problem: CheckpointAllocation,
    parameters: Parameters = DEFAULT,
    *,
    time_limit_s: float,
    start: tuple[Part, ...] | None = None,
) -> InfeasibleSet | None:
    """Return the parts that whole checkpoints cannot keep; None for a problem that is too large, or not decided.

    `start`: parts to begin with that are known not to hold.
    """
    if problem.cost.size > parameters.sizes.program:
        return None
    work = parameters.infeasibility.program_pairs_per_s * parameters.work_per_s * time_limit_s
    parts, budget = Parts(problem, parameters), Budget.of_seconds(time_limit_s, work)
    # Infeasible only as a claim so far: the filter needs a set that really cannot hold.
    if start is None and parts.refuted_whole(parts.every, budget) is None:
        return None
    start = parts.every if start is None else start
    kept = deletion_filter(start, lambda some: parts.refuted_whole(some, budget), budget, parts.implied)
    return InfeasibleSet(kept, True, not budget.cut, budget.struck)


def smaller_infeasible_set(
    problem: CheckpointAllocation, start: tuple[Part, ...], parameters: Parameters = DEFAULT, *, time_limit_s: float
) -> InfeasibleSet | None:
    """Return the fewest parts found that whole checkpoints cannot keep, of parts that cannot hold.

    None where the problem is too large, or none were found.
    """
    if problem.cost.size > parameters.sizes.tiny:
        return None
    first = lp_infeasible_set(problem, parameters, time_limit_s=time_limit_s, start=start)
    parts = start if first is None else first.parts
    found = mip_infeasible_set(problem, parameters, time_limit_s=time_limit_s, start=parts)
    # Whole checkpoints need no fewer parts: the proof by division is the simpler one.
    if found is None or (first is not None and len(found.parts) == len(parts)):
        return first
    return found


def _has(some: Some, part: Part) -> bool:
    """Return whether the parts as arrays hold one part."""
    kind, index = part
    if kind == "moves":
        return some.moves
    if kind == "anti_affinity":
        return index in some.anti_affinity
    kept: BoolArray = {"store": some.stored, "capacity": some.capacity, "minimum": some.minimum}[kind]
    return bool(kept[index])


def _pairs(problem: CheckpointAllocation, members: IntArray) -> list[list[int]]:
    return [[a, b] for a in members.tolist() for b in problem.neighbours[a] if a < b]
