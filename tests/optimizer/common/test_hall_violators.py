"""Rows with too few choices; oracles: all sets of rows, and augmenting paths written out."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.checked_arrays import BoolArray
from optimizer.verify.infeasibility import violating_rows


def by_all_sets(may: BoolArray) -> list[int]:
    """The smallest set of rows with too few choices, among the first rows that have such a set."""
    for count in range(1, len(may) + 1):
        sets = itertools.chain.from_iterable(itertools.combinations(range(count), k) for k in range(1, count + 1))
        broken = [one for one in sets if may[list(one)].any(axis=0).sum() < len(one)]
        if broken:
            return list(min(broken, key=len))
    return []


def by_paths(may: BoolArray) -> list[int]:
    """The rows met by the first search for an augmenting path that fails, row after row, depth first."""
    owner: dict[int, int] = {}
    for row in range(len(may)):
        came: dict[int, tuple[int, int]] = {}  # choice -> (row that asks for it, choice that row has)
        asking, met, end = [(row, -1)], {row}, -1
        while asking and end < 0:
            asker, held = asking.pop()
            for choice in np.flatnonzero(may[asker]).tolist():
                if choice in came:
                    continue
                came[choice] = (asker, held)
                if choice not in owner:
                    end = choice
                    break
                met.add(owner[choice])
                asking.append((owner[choice], choice))
        if end < 0:
            return sorted(met)
        while end >= 0:
            owner[end], end = came[end]
    return []


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_violating_rows_are_the_fewest_of_the_first_that_break_halls_condition(data: st.DataObject) -> None:
    rows, choices = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 7))
    draw = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    may = draw.random((rows, choices)) < data.draw(st.sampled_from([0.2, 0.4, 0.6, 0.9]))
    assert violating_rows(may) == by_all_sets(may) == by_paths(may)


def test_violating_rows_of_large_tables_are_those_of_plain_augmenting_paths() -> None:
    draw, found = np.random.default_rng(3), 0
    for _ in range(30):
        may = np.zeros((60, 65), dtype=np.bool_)
        for row in may:
            row[draw.choice(65, int(draw.integers(1, 6)), replace=False)] = True
        assert violating_rows(may) == by_paths(may)
        found += bool(violating_rows(may))
    assert 0 < found < 30


def test_a_thousand_rows_in_a_line_are_matched() -> None:
    n = 1200
    may = np.zeros((n + 1, n + 1), dtype=np.bool_)
    may[np.arange(n), np.arange(n)] = may[np.arange(n), np.arange(n) + 1] = True
    may[n, 0] = True  # moves everyone by one
    assert violating_rows(may) == []
    may[n - 1, n] = False
    assert violating_rows(may) == list(range(n + 1))
