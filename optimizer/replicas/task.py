"""One search for plans of replicas: its problem, bounds, starts and clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.checked_arrays import FloatArray
from models.planning.replicas import Instances, ReplicaPlan, ReplicaProblem
from optimizer.replicas.bounds import Proof, chosen, mean_bound, primaries_of, proven, worst_bound
from optimizer.replicas.heuristic import evaluated, plan
from optimizer.replicas.placing import Placed, place_primaries, start_of, usable
from optimizer.replicas.search import State, exchange, fill, loosen, move, put_back, start_with
from optimizer.verify.replica_bounds import Bounds, Cover, bounds_of
from optimizer.verify.replica_program import cost_program_of, program_of

OPTIMISED = ("optimised",)
_PROOF_SHARE = 0.5  # of the time that is left, for the program
_SHORTEST_S = 0.01  # that a solver gets
STRUCK = "the time limit struck, so two runs may differ"
_STARTS = tuple(
    (by, selection) for by in ("product", "utilisation", "degree") for selection in ("stepwise", "knapsack")
)


def value_of(problem: ReplicaProblem, state: State) -> float:
    """Return the objective of a state, computed from its instances alone."""
    return float(problem.value(problem.broken(state.hosts))[0])


class Clock:
    """When a search has to end."""

    def __init__(self, limit_s: float) -> None:
        now = time.monotonic()
        self.deadline = now + limit_s

    def after(self, share: float) -> float:
        """Return when this share of the time that is left is over."""
        return time.monotonic() + share * self.left_s

    @property
    def struck(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() >= self.deadline

    @property
    def left_s(self) -> float:
        """Return what is left of the time [s]."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True)
class Task:
    """A problem with its bounds and the ways in which its primaries may be placed."""

    problem: ReplicaProblem
    bounds: Bounds
    start: Placed
    clock: Clock

    @classmethod
    def of(cls, problem: ReplicaProblem, clock: Clock) -> Task | None:
        """Return the task; None if primaries find no host, or more running replicas have to leave theirs than may."""
        start = start_of(problem)
        return cls(problem, bounds_of(problem), start, clock) if usable(problem, start) else None

    def starts(self, budget: float) -> list[Placed]:
        """Return the starts of a search within the budget: the running replicas and, where all may leave, none."""
        if not self.problem.running:
            return [self.start]
        # Two starts: near the running plan, and free of it. The limit on moves decides which of them may be used.
        found = [start_of(self.problem, budget=budget), place_primaries(self.problem)]
        return [one for one in found if usable(self.problem, one)]

    def bound(self, budget: float) -> tuple[float, list[Cover]]:
        """Return a lower bound of the objective within a budget, and covers to start from."""
        if self.problem.goal == "worst":
            return worst_bound(self.bounds, budget, self.clock.deadline)
        # Once the clock struck the cheap bound is still a bound.
        return (self.bounds.base, []) if self.clock.struck else mean_bound(self.bounds, budget)

    def proven(self, budget: float) -> tuple[Proof, list[Instances]]:
        """Return what the program of the problem proves within the budget, and plans that its solution makes.

        Nothing for the worst query, which has no program.
        """
        if self.problem.goal == "worst" or self.clock.struck:
            return Proof(), []
        # Half of the time that is left: the plan itself needs the rest.
        program = program_of(self.problem, budget, self.bounds)
        proof = proven(program, self.clock.after(_PROOF_SHARE))
        if proof.columns is None or self.clock.struck:
            return proof, []
        # The solution's own primaries first, then the usual ones: the program may have found a better packing.
        starts = [primaries_of(self.problem, program, proof.columns), *self.starts(budget)]
        return proof, [
            self._with_chosen(one, proof.columns, budget)
            for one in starts
            if one is not None and usable(self.problem, one)
        ]

    def _with_chosen(self, start: Placed, columns: FloatArray, budget: float) -> Instances:
        """Return the operators that the program chose, with replicas as far as these find room."""
        state = self._state(start.instances)
        start_with(state, [chosen(self.problem, columns)], budget)
        return state.instances

    def _state(self, instances: Sequence[Sequence[int]]) -> State:
        return State(self.problem, instances, self.clock.deadline)

    def proven_cost(self, allowed: float) -> Proof:
        """Return what its program proves of the cost for a mean share of broken queries."""
        if self.problem.goal == "worst" or self.clock.struck:
            return Proof()
        return proven(cost_program_of(self.problem, allowed, self.bounds), self.clock.deadline)

    def solved(self, budget: float, more: Sequence[Instances], began: float, *, back: bool = True) -> ReplicaPlan:
        """Return the best plan found within the budget, from these plans too, with the higher of both bounds.

        `back`: put replicas back to where they ran.
        """
        bound, covers = self.bound(budget)
        proof, instances = self.proven(budget)
        state = self.best(budget, covers, more)
        # Ties go to less cost, then to fewer moves: equal availability should not cost anything.
        state = min([state, *self.improved(budget, instances)], key=lambda one: (one.value, one.cost, one.moves))
        put_back(state, budget if back else None)
        # No bound may be above the value that was found: rounding of the two programs differs.
        least = min(max(bound, proof.bound), value_of(self.problem, state))
        found = evaluated(self.problem, state.placed, OPTIMISED, time.perf_counter() - began, least)
        return replace(found, certificate=proof.multipliers, note=self.noted(found.note))

    def noted(self, note: str) -> str:
        """Return the note, which says too where the time limit struck."""
        return "; ".join(text for text in (note, STRUCK if self.clock.struck else "") if text)

    def improved(self, budget: float, plans: Sequence[Instances]) -> list[State]:
        """Return what the search makes of plans."""
        return [self._improved(self._state(one), self._covers(self._state(one).placed), budget) for one in plans]

    def quick(self, budget: float, covers: Sequence[Cover]) -> State:
        """Return what comes of the covers of the bound, without exchanging anything."""
        found = []
        for start in self.starts(budget) or [self.start]:
            state = self._state(start.instances)
            start_with(state, covers, budget)
            fill(state, self._covers(start), budget)
            found.append(state)
        return min(found, key=lambda state: (state.value, state.cost))

    def best(self, budget: float, covers: Sequence[Cover], more: Sequence[Instances] = ()) -> State:
        """Return the best of what comes of the covers of the bound, of importance, and of `more`."""
        found: list[State] = []
        for start in self.starts(budget) or [self.start]:
            state = self._state(start.instances)
            start_with(state, covers, budget)
            found.append(self._improved(state, self._covers(start), budget))
            # Only where moves are left: loosening gives up running replicas.
            if state.moves != self.problem.max_moves and self.problem.running:
                state = self._state(start.instances)
                loosen(state)
                found.append(self._improved(state, self._covers(start), budget))
            for instances in [*self._by_importance(start, budget), *more]:
                found.append(self._improved(self._state(instances), self._covers(start), budget))
        best = min(found, key=lambda state: (state.value, state.cost, state.moves))
        put_back(best)
        return best

    def _improved(self, state: State, covers: Sequence[Cover], budget: float) -> State:
        """Return the state after filling, moving and exchanging, in this order."""
        fill(state, covers, budget)
        move(state)
        covers = self._covers(state.placed)  # primaries that do not run yet may have moved
        fill(state, covers, budget)
        exchange(state, covers, budget)
        return state

    def _covers(self, start: Placed) -> list[Cover]:
        """Return the operators of each query by the host of their primaries."""
        found: dict[Cover, None] = {}
        for needed in self.problem.operators:
            for host in dict.fromkeys(start.instances[o][0] for o in needed):
                found[frozenset(o for o in needed if start.instances[o][0] == host)] = None
        return list(found)

    def _by_importance(self, start: Placed, budget: float) -> list[Instances]:
        """Return what the heuristics would do."""
        own = replace(self.problem, budget=min(budget, self.problem.capacity))
        found: dict[Instances, None] = {}
        for by, selection in _STARTS:
            # After the clock struck the starts that are there must do.
            if self.clock.struck:
                break
            primaries = Placed([list(hosts) for hosts in start.instances], 0)
            left_s = max(_SHORTEST_S, self.clock.left_s)
            made = plan(own, by=by, selection=selection, primaries=primaries, time_limit_s=left_s)
            if made.instances is not None:
                found[made.instances] = None
        return list(found)
