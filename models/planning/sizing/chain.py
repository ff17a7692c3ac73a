"""Unavailability of a system: a Markov chain on hosts down, copies missing, and the current activity.

    serving(f, x)     f hosts are down, and some task lacks x of its copies
    switching(f, x)   another copy is about to serve                        mean: take-over
    recovering(f, x)  restore from a checkpoint, and catch-up               mean: R(f)
    standing(f)       too few hosts are up for the work
    resuming(f)       enough are up again, and catch up                     mean: R(f), with the backlog

Hosts fail at (N - f) / MTTF in every state and are repaired at min(f, crews) / MTTR, so that f alone is the chain of
`models.reliability.repair.down_law`. Tasks are many and spread evenly: some task has all of its copies on any r hosts.
So each failure before copies are made again costs one more of some task, and the r-th loses it: it is recovered from
its checkpoint, and has one copy then. All copies are made again in a mean time of `rebuild` of serving.

All times are exponential with these means. The system is available while it serves. A switch never takes longer than a
recovery. Then P(not serving) rises with each R(f): two systems with the same failures and repairs, one of which
recovers faster, can be drawn together so that this one is never behind (serving before switching before recovering
before resuming before standing, and no more copies missing). Every failure, repair and rebuild keeps that order, and an
activity that ends in the slower one ends in the faster one, too, or has ended. So the least value of each R(f) by
itself gives a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray
from models.planning.sizing.problem import SizingProblem, SystemPlan
from models.reliability.repair import down_law, stationary

SERVING, SWITCHING, RECOVERING, RESUMING, STANDING = range(5)
_NEVER = 1e-17  # states with more hosts down than this probability allows are left out
State = tuple[int, int, int]  # hosts down, what is going on, copies missing
Rates = dict[tuple[State, State], FloatArray]


@dataclass(frozen=True, eq=False)
class NotThere:
    """Shares of the time in which the system does not serve, (n,) each, and how often checkpoints are used [1/s].

    `switching`: to another copy. `recovering`: from a checkpoint. `standing`: too few hosts, and the catch-up after
    that.
    """

    switching: FloatArray
    recovering: FloatArray
    standing: FloatArray
    recoveries_per_s: FloatArray

    @property
    def total(self) -> FloatArray:
        """Return P(not serving)."""
        found: FloatArray = self.switching + self.recovering + self.standing
        return found


def not_there(problem: SizingProblem, plan: SystemPlan, recovery_s: FloatArray, resume_s: FloatArray) -> NotThere:
    """Return how often the system is not there, by the stationary law of the chain, for n cases at once.

    `recovery_s`, `resume_s` (spare + 1, n): mean recoveries with 0 .. spare hosts down [s], without and with the
    backlog of standing; infinite where it never ends.
    """
    law = down_law(plan.hosts, problem.mttf_s, problem.mttr_s, plan.crews or plan.hosts)
    # Summed from the rare end: small probabilities keep their digits.
    beyond = np.cumsum(law[::-1])[::-1]  # P(at least k are down)
    likely = int(np.count_nonzero(beyond > _NEVER)) - 1
    # Hosts that are never down together in practice would only make the chain longer.
    spare = min(problem.spare(plan), max(likely, 1))
    deepest = min(plan.hosts, max(likely, spare + 1))
    # Standing begins at spare + 1: at least one such state, or the chain would have no way to stand.
    moves = _Moves(problem, plan, spare, deepest, recovery_s, resume_s)
    rates = moves.rates()
    # Sorted by hosts down: frequent states first, as `stationary` asks.
    states = sorted({state for pair in rates for state in pair})
    place = {state: index for index, state in enumerate(states)}
    chances = stationary(len(states), {(place[a], place[b]): rate for (a, b), rate in rates.items()})
    share = np.zeros((5, recovery_s.shape[1]))
    used = np.zeros(recovery_s.shape[1])
    for (down, doing, missing), chance in zip(states, chances, strict=True):
        share[doing] += chance
        # Only failures that the system survives use a checkpoint at once; the others stand first, and resume.
        if doing in (SERVING, SWITCHING) and down < spare:
            used += chance * (plan.hosts - down) / problem.mttf_s * moves.lost(missing)
    return NotThere(share[SWITCHING], share[RECOVERING], share[RESUMING] + share[STANDING], used)


@dataclass(frozen=True, eq=False)
class _Moves:
    """The rates of one plan's chain.

    `spare`: most hosts down with which it serves. `deepest`: most hosts down that the chain tells apart. Times as in
    `not_there`.
    """

    problem: SizingProblem
    plan: SystemPlan
    spare: int
    deepest: int
    recovery_s: FloatArray
    resume_s: FloatArray

    def lost(self, missing: int) -> float:
        """Return P(a failure makes a recovery from the checkpoint necessary)."""
        return 1.0 if missing + 1 >= self.plan.copies else 1 - self.problem.description.copies.coverage

    def rates(self) -> Rates:
        """Return (from, to) -> rate (n,), where there is one."""
        found: Rates = {}
        one = np.ones(self.recovery_s.shape[1])
        for start in self._states():
            for end, rate in (*self._failures(start), *self._repairs(start), *self._ends(start)):
                if np.any(rate):
                    # Two causes may lead to the same state: their rates add up.
                    found[start, end] = found.get((start, end), 0.0) + rate * one
        return found

    def _states(self) -> Iterator[State]:
        """Yield the states; those of one number of hosts down together."""
        for down in range(self.spare + 1):
            for missing in range(self.plan.copies):
                yield down, SERVING, missing
                if missing and self.problem.description.copies.take_over_s > 0:
                    yield down, SWITCHING, missing
                yield down, RECOVERING, missing
            yield down, RESUMING, 0
        for down in range(self.spare + 1, self.deepest + 1):
            yield down, STANDING, 0

    def _failures(self, state: State) -> Iterator[tuple[State, float]]:
        """Yield (next state, rate [1/s]) of failures of a host."""
        down, doing, missing = state
        if down == self.deepest:
            return
        rate, most = (self.plan.hosts - down) / self.problem.mttf_s, self.plan.copies - 1
        # Beyond the spare hosts the system stands, whatever it was doing.
        if down + 1 > self.spare:
            yield (down + 1, STANDING, 0), rate
        elif doing == RESUMING:
            yield (down + 1, RESUMING, 0), rate
        elif doing == RECOVERING:
            # A recovery leaves one copy: no more than all others can be missing.
            yield (down + 1, RECOVERING, min(missing + 1, most)), rate
        else:
            lost = self.lost(missing)
            yield (down + 1, RECOVERING, min(missing + 1, most)), rate * lost
            if lost < 1:
                switches = self.problem.description.copies.take_over_s > 0
                yield (down + 1, SWITCHING if switches else SERVING, missing + 1), rate * (1 - lost)

    def _repairs(self, state: State) -> Iterator[tuple[State, float]]:
        """Yield (next state, rate [1/s]) of the next repair; every crew is busy if enough hosts are down."""
        down, doing, missing = state
        if not down:
            return
        rate = min(down, self.plan.crews or self.plan.hosts) / self.problem.mttr_s
        if doing == STANDING:
            # Enough hosts again: standing ends with a catch-up, which has the whole backlog to work off.
            yield (down - 1, RESUMING if down - 1 <= self.spare else STANDING, 0), rate
        else:
            yield (down - 1, doing, missing), rate  # the host is back empty, which changes nothing else

    def _ends(self, state: State) -> Iterator[tuple[State, FloatArray | float]]:
        """Yield (next state, rate [1/s]) of the end of what goes on: rebuild, take-over, recovery or catch-up."""
        down, doing, missing = state
        copies = self.problem.description.copies
        if doing == SERVING and missing:
            yield (down, SERVING, 0), 1 / copies.rebuild_s
        elif doing == SWITCHING:
            # A switch never takes longer than a recovery: the order that the bound rests on.
            yield (down, SERVING, missing), np.maximum(1 / copies.take_over_s, 1 / self.recovery_s[down])
        elif doing == RECOVERING:
            yield (down, SERVING, missing), 1 / self.recovery_s[down]
        elif doing == RESUMING:
            yield (down, SERVING, self.plan.copies - 1), 1 / self.resume_s[down]
