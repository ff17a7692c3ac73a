"""Better selections by exchange: up to four operators near the price change their level at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import IntArray
from optimizer.selection.relaxation import Options, Relaxation

_NEAR = 240  # changes in each direction and half: pairs of them are what is searched
_MOST_ROUNDS = 30


@dataclass(frozen=True)
class _Half:
    """None, one or two changes of different operators, by weight; best[i] is the most valuable of 0 .. i."""

    heavier: IntArray
    more: IntArray
    first: IntArray
    second: IntArray
    best: IntArray


def exchanged(options: Options, level: IntArray, relaxation: Relaxation) -> IntArray:
    """Return the levels (n,) after exchanges, each the best among four changes of operators that lose least.

    Operators near the price are dealt to two halves; two sorted lists of pairs are merged, so that each round looks at
    all combinations of a pair of one half with a pair of the other. Deterministic; never worse, always within capacity.
    """
    n_levels = options.value.shape[1]
    sides = _near(relaxation, max(1, _NEAR // (n_levels - 1)))
    level = level.copy()
    for turn in range(_MOST_ROUNDS):
        weight = options.total(level)[1]
        halves = [_half(options, level, rows) for rows in sides]
        gain, changes = _best(halves[0], halves[1], options.safe - weight)
        if gain <= 0:
            break
        changes = changes[changes >= 0]
        level[changes // n_levels] = changes % n_levels
        if turn % 2:
            sides = _dealt_again(sides)
    return level


def _near(relaxation: Relaxation, wanted: int) -> list[IntArray]:
    """Return the operators of the deviations, up and down, that lose least per weight, dealt to two halves."""
    rows = []
    for sign in (1, -1):
        which = np.flatnonzero(np.sign(relaxation.heavier) == sign)
        rate = relaxation.loss[which] / np.abs(relaxation.heavier[which])
        count = min(4 * wanted, len(which))
        part = which[np.argpartition(rate, count - 1)[:count]] if count < len(which) else which
        order = part[np.argsort(relaxation.loss[part] / np.abs(relaxation.heavier[part]), kind="stable")]
        rows.append(_distinct(relaxation.row[order])[: 2 * wanted])
    both = _distinct(np.concatenate(rows))
    inside = np.zeros(len(relaxation.base), dtype=np.bool_)
    inside[rows[0]] = True
    up, down = both[inside[both]], both[~inside[both]]
    return [np.concatenate([up[half::2], down[half::2]]) for half in (0, 1)]


def _dealt_again(sides: list[IntArray]) -> list[IntArray]:
    """Return two other halves of the same operators."""
    a, b = sides
    return [np.concatenate([a[::2], b[::2]]), np.concatenate([a[1::2], b[1::2]])]


def _distinct(rows: IntArray) -> IntArray:
    """Return the rows without repetitions, in the order of first appearance."""
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)]


def _half(options: Options, level: IntArray, rows: IntArray) -> _Half:
    """Return all sets of at most two changes within these operators; changes are numbered row * levels + level."""
    n_levels = options.value.shape[1]
    operator = np.repeat(rows, n_levels)
    to = np.tile(np.arange(n_levels), len(rows))
    change = options.allowed[operator, to] & (to != level[operator])
    operator, to = operator[change], to[change]
    heavier = options.weight[operator, to] - options.weight[operator, level[operator]]
    more = options.value[operator, to] - options.value[operator, level[operator]]
    code = operator * n_levels + to
    one, two = np.triu_indices(len(code), 1)
    differ = operator[one] != operator[two]
    one, two = one[differ], two[differ]
    none = np.full(len(code), -1)
    weights = np.concatenate([[0], heavier, heavier[one] + heavier[two]])
    values = np.concatenate([[0], more, more[one] + more[two]])
    first = np.concatenate([[-1], code, code[one]])
    second = np.concatenate([[-1], none, code[two]])
    order = np.argsort(weights, kind="stable")
    weights, values, first, second = weights[order], values[order], first[order], second[order]
    top = np.maximum.accumulate(values)
    best = np.maximum.accumulate(np.where(values == top, np.arange(len(values)), 0))
    return _Half(weights, values, first, second, best)


def _best(one: _Half, two: _Half, room: int) -> tuple[int, IntArray]:
    """Return the gain of the best combination that fits, and its changes (-1 for none)."""
    at = np.searchsorted(two.heavier, room - one.heavier, side="right") - 1
    possible = np.flatnonzero(at >= 0)
    if not len(possible):
        return 0, np.zeros(0, dtype=np.int64)
    partner = two.best[at[possible]]
    gains = one.more[possible] + two.more[partner]
    top = int(np.argmax(gains))
    i, j = possible[top], partner[top]
    return int(gains[top]), np.array([one.first[i], one.second[i], two.first[j], two.second[j]])
