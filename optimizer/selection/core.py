"""The exact search of what prices left open: dynamic programming over the core, with a bound for each state.

A state is a set of deviations from the base among the operators looked at so far: how much heavier and more valuable
than the base it is, and its loss (see `relaxation`). Operators are looked at in the order of loss per weight, so that
those near the price, about which most is undecided, come first. A state goes when

- another one is no heavier and worth no less (dominance: whatever completes it completes the other), or
- its bound is less than a better selection must be worth. With `room` left and operators to come that lose at least
  `rate` per unit of weight they add, what is left costs `room * min(price, rate)`; a state over the capacity must
  get rid of the excess by operators that lose at least `rate` per unit they take away.

Source: the balanced core of Pisinger, "A minimal algorithm for the 0-1 knapsack problem" (1997), and for levels "A
minimal algorithm for the multiple-choice knapsack problem" (1995).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.selection.relaxation import Options, Relaxation

_MARGIN = 2.0**-46  # relative to the numbers in a bound: more than their rounding

_MOST_CHECKS = 50  # states near the capacity of which every weight is added up
_MOST_AT_ONCE = 1_500_000  # states, at some 100 bytes


@dataclass(frozen=True)
class Searched:
    """Levels of the best selection found, its value, and a bound: less than a step above when the search ended."""

    level: IntArray
    value: int
    bound: int
    states: int
    timed_out: bool = False


@dataclass(frozen=True)
class _Operator:
    """An operator of the core and its deviations."""

    row: int
    level: IntArray
    more: IntArray
    heavier: IntArray
    loss: FloatArray


@dataclass(frozen=True)
class _Core:
    """The operators with an open deviation, those that lose least per weight first.

    Operator i deviates by `deviations[starts[i] : ends[i]]` of the relaxation, and loses at least up[i] for each unit
    of weight it adds, and down[i] for each that it takes away.
    """

    relaxation: Relaxation
    deviations: IntArray
    starts: IntArray
    ends: IntArray
    up: FloatArray
    down: FloatArray

    @classmethod
    def of(cls, relaxation: Relaxation, which: BoolArray) -> _Core:
        """Return the core of the deviations that are open."""
        chosen = np.flatnonzero(which)
        heavier, loss = relaxation.heavier[chosen], relaxation.loss[chosen]
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(heavier > 0, loss / heavier, math.inf)
            down = np.where(heavier < 0, loss / -heavier, math.inf)
        starts = np.unique(relaxation.row[chosen], return_index=True)[1]
        if not len(starts):
            return cls(relaxation, chosen, starts, starts, up, down)
        up, down = np.minimum.reduceat(up, starts), np.minimum.reduceat(down, starts)
        order = np.argsort(np.minimum(up, down), kind="stable")
        ends = np.append(starts[1:], len(chosen))
        return cls(relaxation, chosen, starts[order], ends[order], up[order], down[order])

    def operator(self, index: int) -> _Operator:
        """Return one operator with all its open deviations."""
        which = self.deviations[self.starts[index] : self.ends[index]]
        of = self.relaxation
        return _Operator(int(of.row[which[0]]), of.level[which], of.more[which], of.heavier[which], of.loss[which])


@dataclass(frozen=True)
class _States:
    """Pareto-optimal states by weight, and for each the state before and the deviation that made it."""

    heavier: IntArray
    more: IntArray
    loss: FloatArray


def open_deviations(options: Options, relaxation: Relaxation, known: int) -> BoolArray:
    """Return which deviations a selection of more value than `known` may have (fixing by reduced value)."""
    left = relaxation.bound - relaxation.value - relaxation.loss
    return left >= known + options.step - relaxation.value - _margin(options, relaxation, known)


def search_core(
    options: Options, relaxation: Relaxation, level: IntArray, *, most_states: int, deadline: float
) -> Searched:
    """Return the best selection, from the known one `level` (n,), within a number of states and until an instant.

    The instant is of `time.monotonic` [s]. When either strikes, `bound` is the highest bound of a state that is open;
    otherwise it is less than one step above the value, which proves the selection.
    """
    known = options.total(level)[0]
    if relaxation.bound < known + options.step:
        return Searched(level, known, _closed(options, known), 0)
    return _Search(options, relaxation, level, known).run(most_states, deadline)


class _Search:
    """One run over the operators of the core; holds the states and how they came about."""

    def __init__(self, options: Options, relaxation: Relaxation, level: IntArray, known: int) -> None:
        self._options, self._relaxation = options, relaxation
        self._known, self._level = known, level
        self._top = relaxation.bound - relaxation.value
        self._room = options.capacity - relaxation.weight
        self._safe = options.safe - relaxation.weight
        self._margin = _margin(options, relaxation, known)
        self._core = _Core.of(relaxation, open_deviations(options, relaxation, known))
        self._checks = 0
        self._history: list[tuple[_Operator, IntArray, IntArray]] = []

    def run(self, most_states: int, deadline: float) -> Searched:
        states = _States(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))
        self._better(states)
        rates_up, rates_down = _least_after(self._core.up), _least_after(self._core.down)
        seen = 0
        for index in range(len(self._core.up)):
            operator = self._core.operator(index)
            # A better selection found meanwhile may have closed all deviations of this operator.
            if self._top - operator.loss.min() < self._goal():
                continue
            states = self._expanded(states, operator, rates_up[index + 1], rates_down[index + 1])
            seen += len(states.heavier)
            late = time.monotonic() > deadline
            if not len(states.heavier):
                break
            if seen > most_states or len(states.heavier) > _MOST_AT_ONCE or late:
                # Ended early: the highest bound of an open state, rounded up, holds for all that was not searched.
                bound = self._bounds(states, rates_up[index + 1], rates_down[index + 1]).max()
                highest = self._relaxation.value + math.ceil(bound + self._margin)
                bound_now = max(_closed(self._options, self._known), min(self._relaxation.bound, highest))
                return Searched(self._level, self._known, bound_now, seen, late)
        return Searched(self._level, self._known, max(_closed(self._options, self._known), self._unfit(states)), seen)

    def _unfit(self, states: _States) -> int:
        """Return the highest value of a final state: those within the capacity are too heavy by rounding only."""
        within = states.more[states.heavier <= self._room]
        return self._relaxation.value + int(within.max()) if len(within) else 0

    def _goal(self) -> float:
        return float(self._known + self._options.step - self._relaxation.value) - self._margin

    def _expanded(self, states: _States, operator: _Operator, up: float, down: float) -> _States:
        """Return the states with this operator decided: merged, without dominated and hopeless ones."""
        n = len(states.heavier)
        heavier = np.concatenate([states.heavier, *(states.heavier + by for by in operator.heavier.tolist())])
        more = np.concatenate([states.more, *(states.more + by for by in operator.more.tolist())])
        loss = np.concatenate([states.loss, *(states.loss + by for by in operator.loss.tolist())])
        made = _States(heavier, more, loss)
        hope = np.flatnonzero(self._bounds(made, up, down) >= self._goal())
        # Hopeless states go before sorting: that is the dear step.
        hope = hope[np.argsort(heavier[hope], kind="stable")]
        keep = hope[_undominated(heavier[hope], more[hope])]
        # int32 and int16: the history of millions of states has to fit into memory.
        self._history.append((operator, (keep % n).astype(np.int32), (keep // n - 1).astype(np.int16)))
        kept = _States(heavier[keep], more[keep], loss[keep])
        self._better(kept)
        return kept

    def _bounds(self, states: _States, up: float, down: float) -> FloatArray:
        """Return the bound of each state, relative to the value of the base."""
        room = (self._room - states.heavier).astype(np.float64)
        # Room that is left is filled at the price by parts, or by operators to come at their least rate: the cheaper
        # counts.
        rate = min(self._relaxation.price, up)
        with np.errstate(invalid="ignore"):
            cost = np.where(room >= 0, room * rate, -room * down)
        return np.asarray(self._top - states.loss - cost * (1 - 1e-15))

    def _better(self, states: _States) -> None:
        """Remember the most valuable state that fits, when it is better than what is known."""
        # Up to `safe` whole numbers decide; between it and the capacity the true weights are added up, for a few
        # states.
        inside = int(np.searchsorted(states.heavier, self._safe, side="right"))
        if inside:
            self._try(states, int(np.argmax(states.more[:inside])))
        within = int(np.searchsorted(states.heavier, self._room, side="right"))
        for state in range(within - 1, inside - 1, -1):  # heavier states are worth more: the best come first
            if self._checks >= _MOST_CHECKS or self._relaxation.value + int(states.more[state]) <= self._known:
                break
            self._checks += 1
            if self._options.fits(self._traced(state)):
                self._try(states, state)
                break

    def _try(self, states: _States, state: int) -> None:
        value = self._relaxation.value + int(states.more[state])
        if value > self._known:
            self._known, self._level = value, self._traced(state)

    def _traced(self, state: int) -> IntArray:
        """Return the levels of a state of the last step."""
        level = self._relaxation.base.copy()
        for operator, before, taken in reversed(self._history):
            if taken[state] >= 0:
                level[operator.row] = operator.level[taken[state]]
            state = int(before[state])
        return level


def _closed(options: Options, known: int) -> int:
    """Return the bound when nothing is better by a step."""
    return known + options.step - options.grain


def _margin(options: Options, relaxation: Relaxation, known: int) -> float:
    top = relaxation.bound - relaxation.value
    return _MARGIN * float(top + abs(known + options.step - relaxation.value))


def _least_after(rates: FloatArray) -> FloatArray:
    """Return the least rate among those from each place on, and infinity at the end."""
    return np.minimum.accumulate(np.append(rates, math.inf)[::-1])[::-1]


def _undominated(heavier: IntArray, more: IntArray) -> IntArray:
    """Return the places, by weight, of states that no lighter or equally heavy one is worth as much as."""
    if not len(heavier):
        return np.zeros(0, dtype=np.int64)
    # By weight: a state stays only if it is worth more than all lighter ones.
    top = np.maximum.accumulate(more)
    better = np.flatnonzero(np.concatenate([[True], more[1:] > top[:-1]]))
    last = np.concatenate([heavier[better][1:] != heavier[better][:-1], [True]])
    return np.asarray(better[last], dtype=np.int64)
