"""Placements of every instance: fewest colours on a host and then fewest hosts in use, or fewest hosts alone.

x[i,h] = 1 when host h has instance i, y[h,k] = 1 when h has colour k, u[h] = 1 when h is in use:

    minimise   max_h sum_k y[h,k], then sum_h u[h]    (goal "colours");    sum_h u[h]    (goal "hosts")
    subject to sum_h x[i,h] = 1                       for each instance i
               sum_i load[i,r] x[i,h] <= room[h,r] u[h]   for each host h and resource r
               x[i,h] <= y[h, colour of i];  instances of an operator in different zones;  fixed and few moves

Counting gives a least number of colours (`optimizer.verify.placement_bounds`), a search upward from it the first number
that is reached. With that number, hosts are closed and their instances placed elsewhere. An exact model decides small
problems (`small`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, IntArray
from models.planning.placement import Placement, PlacementPlan
from models.planning.solution import Status
from optimizer.common.first_fit import best_fit
from optimizer.placement.budget import Budget, infeasible_plan
from optimizer.placement.columns import Columns, column_bound, from_columns
from optimizer.placement.one_colour import one_colour, splits_by_colour
from optimizer.placement.search import Search, sent_home, start
from optimizer.placement.small import decide, irreducible_infeasible_set, whole
from optimizer.verify.placement_bounds import Bound, colour_bound, host_bound, impossible

_SMALL = 3_000  # instances times hosts up to which an exact model is asked about the whole problem
_MODEL_FIRST = 300  # instances times hosts up to which it is asked before any search
_IIS_SIZE = 60  # instances up to which an irreducible infeasible set is looked for
_IIS_S = 0.05  # deterministic seconds for each question about it
_FIRST = 0.4  # of the work that is left, for the number of colours that counting proves to be least
_AGAIN = 3  # searches for one colour less than is known, at the end
_TRY = 0.1  # of the work that is left, for each try to reach a number of colours or hosts


@dataclass
class _Known:
    """The best so far and what is proven; `nothing` is set once there is proven to be no placement."""

    host: IntArray | None = None
    colours: Bound | None = None
    hosts: Bound | None = None
    nothing: bool = False


class AllPlaced:
    """One problem of placing everything, while it is solved.

    `known` holds the best placement and the bounds so far; `solve` goes from counting to searches to exact models, and
    ends as soon as the bounds are reached. Only placements that keep every rule become known, so an interrupted search
    still ends with a plan that is right, and with bounds that hold.
    """

    def __init__(self, problem: Placement, budget: Budget, seed: int) -> None:
        self.problem, self.budget, self.seed = problem, budget, seed
        self.known = _Known()
        self.tries = 0
        n_colours = len(np.unique(problem.colours[problem.colours >= 0]))
        self.top = n_colours if problem.max_colours is None else min(problem.max_colours, n_colours)
        self.by_colours = problem.goal == "colours"
        self.small = problem.n_instances * problem.n_hosts <= _SMALL
        self.tiny = problem.n_instances * problem.n_hosts <= _MODEL_FIRST
        self.open = np.ones(problem.n_hosts, dtype=np.bool_)

    def solve(self) -> PlacementPlan:
        """Return the plan, with what was proven of it."""
        infeasible_set = impossible(self.problem)
        if infeasible_set is not None:
            return infeasible_plan(infeasible_set, self.budget)
        known = self.known
        known.colours = colour_bound(self.problem)
        # Bounds first: everything below stops as soon as the bound is reached.
        by_colour = self._by_colour()
        if by_colour is not None:
            return by_colour
        self._find_any()
        if known.nothing:
            return infeasible_plan(self._infeasible_set(), self.budget)
        if known.host is None:
            return self._unknown()
        if self.by_colours:
            self._fewer_colours()
        self._fewer_hosts()
        if self.problem.current is not None:
            self._fewer_moves()
        return self._plan()

    def _by_colour(self) -> PlacementPlan | None:
        """Return the plan of one colour on each host, or why there is none; None if not asked for or not found."""
        problem, known = self.problem, self.known
        assert known.colours is not None
        asked = problem.max_colours == 1 or (self.by_colours and known.colours.value == 1)
        if not asked or not splits_by_colour(problem):
            return None
        host, least = one_colour(problem, self.budget, self.seed)
        if least.value > problem.n_hosts:
            reason = f"{least.reason}; there are {problem.n_hosts}"
            if problem.max_colours == 1:
                return infeasible_plan(Bound(least.value, reason, least.instances), self.budget)
            # One colour on a host is refuted, so the least number of colours is two.
            known.colours = Bound(2, reason, least.instances)
        if host is None or not self._right(host, 1):
            return None
        known.host, known.hosts = host, least
        return self._plan()

    def _try(self, most_colours: int, is_open: BoolArray, work: int) -> IntArray | None:
        """Return a placement of at most so many colours on open hosts, or None where the search found none."""
        problem = self.problem
        if self.known.host is not None and self.budget.struck:
            return None  # making a start takes long when there is much to place
        for running in (problem.current, None) if problem.current is not None else (None,):
            first = start(problem, most_colours, is_open, running, self.budget.deadline)
            if first is None:
                continue
            self.tries += 1  # so that trying again is another search
            search = Search(problem, first, most_colours, is_open, [self.seed, self.tries])
            reached = search.run(work, self.budget.deadline)
            self.budget.spend(search.work)
            if reached and self._right(search.host, most_colours):
                return search.host
        return None

    def _right(self, host: IntArray, most_colours: int) -> bool:
        """Return whether whole numbers say that no host has too much."""
        problem = self.problem
        return bool((problem.used(host) <= problem.rooms).all()) and problem.most_colours(host) <= most_colours

    def _model(self, goal: str, most_colours: int) -> Status:
        """Ask an exact model of the whole problem; takes over a better answer and says what it proved."""
        part = whole(self.problem, goal, most_colours, self.known.host)
        found = decide(
            self.problem, part, most_s=self.budget.model_s / 2, deadline=self.budget.deadline, seed=self.seed
        )
        self.budget.spend_model(found.spent_s)
        if found.host is not None:
            self.known.host = found.host
        return found.status

    def _find_any(self) -> None:
        """Find some placement of at most `top` colours."""
        known = self.known
        if not self.tiny:
            known.host = self._try(self.top, self.open, self.budget.share(0.3))
        if known.host is None and self.small:
            known.nothing = self._model("any", self.top) is Status.INFEASIBLE

    def _fewer_colours(self) -> None:
        """Find the fewest colours by bisection between bound and best placement; then try one less with more work."""
        problem, known = self.problem, self.known
        assert known.colours is not None and known.host is not None
        low, high = known.colours.value, problem.most_colours(known.host)
        # `missed` is the largest number that the search has failed at. A failed search proves nothing, so only the
        # lower bound may end the second loop. A tiny problem skips the first one: the model decides it faster.
        missed = high - 1 if self.tiny else low - 1
        while high > max(low, missed + 1):
            first = missed < low
            most = low if first else (missed + high) // 2
            found = self._try(most, self.open, self.budget.share(_FIRST if first else _TRY))
            if found is None:
                missed = most
            else:
                known.host, high = found, problem.most_colours(found)
        while high > low:
            if self.small and self._model("colours", high) is Status.OPTIMAL:
                high = problem.most_colours(known.host)
                if high > low:
                    known.colours = Bound(high, _MODEL, np.arange(problem.n_instances))
                return
            high = min(high, problem.most_colours(known.host))
            tries = (
                self._try(high - 1, self.open, self.budget.share(2 * _TRY)) for _ in range(_AGAIN if high > low else 0)
            )
            # A generator: the second try is only made if the first one fails.
            found = next((each for each in tries if each is not None), None)
            if found is None:
                return
            known.host, high = found, problem.most_colours(found)

    def _fewer_hosts(self) -> None:
        """Find the fewest hosts for the number of colours that was reached: the bound first, then by bisection."""
        problem, known = self.problem, self.known
        assert known.host is not None
        most = problem.most_colours(known.host) if self.by_colours else self.top
        limit = most if self.by_colours or problem.max_colours is not None else None
        known.hosts = host_bound(problem, limit)
        # Best fit ignores what runs, so it could break a limit on moves.
        again = problem.current is None and not self.budget.struck
        packed = best_fit(problem, max_colours=most, deadline=self.budget.deadline) if again else None
        if packed is not None and (packed >= 0).all() and problem.hosts_used(packed) < problem.hosts_used(known.host):
            known.host = packed
        plain = len(problem.resources) == 1 and limit is None and problem.operator is None
        if plain and not self.tiny:
            self._by_columns(most)
        low, high = known.hosts.value, problem.hosts_used(known.host)
        missed = high - 1 if self.tiny else low - 1
        while high > max(low, missed + 1):
            count = low if missed < low else (missed + high) // 2
            found = self._try(most, self._chosen(count), self.budget.share(_TRY))
            if found is None:
                missed = count
            else:
                known.host, high = found, problem.hosts_used(found)
        # Columns count one resource and no other rule: where there are others, the search mostly does better.
        if high > low and not plain:
            self._by_columns(most)
        if self.small and problem.hosts_used(known.host) > known.hosts.value:
            self._prove_hosts(most)

    def _by_columns(self, most: int) -> None:
        """Raise the bound by column generation, and make a placement of the columns."""
        problem, known = self.problem, self.known
        assert known.host is not None and known.hosts is not None
        if problem.hosts_used(known.host) == known.hosts.value:
            return
        columns = column_bound(problem, problem.hosts_used(known.host), self.budget.deadline)
        if columns is not None and columns.bound.value > known.hosts.value:
            known.hosts = columns.bound
        if columns is not None and problem.hosts_used(known.host) > known.hosts.value:
            self._round(columns, most)

    def _prove_hosts(self, most: int) -> None:
        """Ask an exact model for fewer hosts."""
        problem, known = self.problem, self.known
        assert known.host is not None and known.hosts is not None
        before = known.host
        status = self._model("hosts", most)
        # At its limit the model may return a feasible placement that is worse than the hint.
        if problem.hosts_used(known.host) > problem.hosts_used(before):
            known.host = before
        hosts = problem.hosts_used(known.host)
        if status is Status.OPTIMAL and hosts > known.hosts.value:
            known.hosts = Bound(hosts, _MODEL, np.arange(problem.n_instances))

    def _round(self, columns: Columns, most: int) -> None:
        """Try for fewer hosts with the columns that the bound was made of; the rules decide whether it is taken."""
        problem, known, budget = self.problem, self.known, self.budget
        assert known.host is not None and known.hosts is not None
        few = known.hosts.value
        host = from_columns(problem, columns, few, most_s=budget.model_s / 4, deadline=budget.deadline, seed=self.seed)
        few_moves = problem.max_moves is None or (host is not None and problem.moves(host) <= problem.max_moves)
        if host is None or not few_moves or host.max(initial=-1) >= problem.n_hosts:
            return
        kept = (problem.fixed_hosts < 0) | (host == problem.fixed_hosts)
        # Columns know nothing of fixed instances, anti-affinity, colours or other resources: check all rules here.
        pairs = np.stack([problem.operators, problem.zones[host]], axis=1)
        if kept.all() and len(np.unique(pairs, axis=0)) == len(pairs) and self._right(host, most):
            known.host = host

    def _fewer_moves(self) -> None:
        """Look for a placement of as few colours and hosts nearer to the running one: the nearest, if it is small."""
        problem, known = self.problem, self.known
        assert known.host is not None
        most = problem.most_colours(known.host) if self.by_colours else self.top
        hosts = problem.hosts_used(known.host)
        nearer = sent_home(problem, known.host, most, self.budget.deadline)
        if self.small and problem.moves(nearer):
            part = replace(whole(problem, "moves", most, nearer), most_hosts=hosts)
            found = decide(problem, part, most_s=self.budget.model_s / 2, deadline=self.budget.deadline, seed=self.seed)
            nearer = nearer if found.host is None else found.host
        if problem.moves(nearer) < problem.moves(known.host):
            known.host = nearer

    def _chosen(self, count: int) -> BoolArray:
        """Return the hosts that stay open: those with fixed instances, then the largest, then those with most load."""
        problem, host = self.problem, self.known.host
        assert host is not None
        fixed = np.isin(np.arange(problem.n_hosts), problem.fixed_hosts)
        scale = np.maximum(problem.rooms.mean(axis=0), 1.0)
        size = (problem.rooms / scale).min(axis=1)
        full = (problem.used(host) / scale).sum(axis=1)
        chosen = np.zeros(problem.n_hosts, dtype=np.bool_)
        chosen[np.lexsort((-full, -size, ~fixed))[:count]] = True
        return chosen

    def _infeasible_set(self) -> Bound:
        """Return why an exact model found nothing, and instances that cannot be placed together."""
        problem = self.problem
        who = np.arange(problem.n_instances)
        if problem.n_instances <= _IIS_SIZE:
            who = irreducible_infeasible_set(problem, most_s=_IIS_S, deadline=self.budget.deadline)
        return Bound(
            0, f"{len(who)} instances cannot be placed together, an exact model of the whole problem says", who
        )

    def _unknown(self) -> PlacementPlan:
        """Return what best fit could place; it keeps the rules, and nothing else is guaranteed."""
        problem = self.problem
        host = best_fit(problem, deadline=self.budget.grace)
        if problem.max_moves is not None and problem.moves(host) > problem.max_moves:
            return PlacementPlan(status=Status.UNKNOWN, wall_s=self.budget.wall_s, note=self.budget.noted(_NOTHING))
        left = int((host < 0).sum())
        note = self.budget.noted(f"{_NOTHING}; this one leaves {left} out")
        counts = self._counts(host)
        return PlacementPlan(status=Status.UNKNOWN, host=host, wall_s=self.budget.wall_s, note=note, **counts)

    def _counts(self, host: IntArray) -> dict[str, Any]:
        """Return the figures of a placement (n,) as the plan has them."""
        problem = self.problem
        return {
            "colours": problem.most_colours(host),
            "hosts": problem.hosts_used(host),
            "moves": problem.moves(host),
            "unplaced": int((host < 0).sum()),
        }

    def _plan(self) -> PlacementPlan:
        """Return the best plan known: optimal only where both its colours and its hosts reach their bounds."""
        problem, known = self.problem, self.known
        assert known.host is not None and known.colours is not None and known.hosts is not None
        counts = self._counts(known.host)
        first, reached = (known.colours, counts["colours"]) if self.by_colours else (known.hosts, counts["hosts"])
        proven = reached == first.value and counts["hosts"] == known.hosts.value
        open_ends = [] if reached == first.value else [f"fewer {problem.goal} than {reached} are not excluded"]
        if self.by_colours and counts["hosts"] > known.hosts.value:
            open_ends.append(f"between {known.hosts.value} and {counts['hosts']} hosts for {counts['colours']} colours")
        return PlacementPlan(
            status=Status.OPTIMAL if proven else Status.FEASIBLE,
            objective=float(reached),
            bound=float(first.value),
            host=known.host,
            hosts_bound=known.hosts.value,
            reason=first.reason if not self.by_colours else f"{first.reason}; {known.hosts.reason}",
            wall_s=self.budget.wall_s,
            note=self.budget.noted(*open_ends),
            **counts,
        )


_MODEL = "an exact model of the whole problem"
_NOTHING = "no placement of all instances was found, nor is it proven that there is none"
