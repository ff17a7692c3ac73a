"""Large neighbourhood search: most operators stay as the best set has them, branching decides about the others.

Source: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems" (1998). Which
operators are free is drawn: any; those met on a walk from one to another by queries that use both; or all but those of
some of the queries. How many, of each kind, follows what branching gets done: more where it ends before its work is
used up, fewer where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from models.checked_arrays import BoolArray
from models.planning.selection import QuerySelection
from optimizer.selection.query_tree import Tree

_ANY, _WALK, _WITHOUT = 100, 100, 8  # operators, steps, queries at first
_LEAST = 4
_MORE, _FEWER = 1.15, 0.7
_JUMP = 0.1  # chance that a walk goes on from any other operator
_SHARE, _MOST_WORK = 12, 1_000_000  # of all work for one neighbourhood, and how much at most
_CALL = 1_000  # what drawing one takes beside its pairs, in the unit of work


class Neighbourhoods:
    """Sets of free operators (n,), drawn around a set of queries (m,)."""

    def __init__(self, problem: QuerySelection, draw: np.random.Generator) -> None:
        self._problem, self._draw = problem, draw
        self._queries = problem.uses[np.argsort(problem.uses[:, 1], kind="stable"), 0]
        counts = np.bincount(problem.uses[:, 1], minlength=problem.n_operators)
        self._first = np.concatenate([[0], np.cumsum(counts)])

    def any_operators(self, queries: BoolArray, size: int) -> BoolArray:
        """Return `size` operators, each as likely as any other."""
        free = np.zeros(self._problem.n_operators, dtype=np.bool_)
        free[self._draw.permutation(len(free))[:size]] = True
        return free

    def on_a_walk(self, queries: BoolArray, size: int) -> BoolArray:
        """Return the operators of so many queries met on a walk, each of which uses an operator of the one before."""
        n = self._problem.n_operators
        free, at = np.zeros(n, dtype=np.bool_), int(self._draw.integers(n))
        for jump, next_query, next_operator in self._draw.random((size, 3)).tolist():
            free[at] = True
            met = self._queries[self._first[at] : self._first[at + 1]]
            if jump < _JUMP or not len(met):
                at = int(next_query * n)
                continue
            operators = self._problem.operators_of(int(met[int(next_query * len(met))]))
            free[operators] = True
            at = int(operators[int(next_operator * len(operators))])
        return free

    def without_some_queries(self, queries: BoolArray, size: int) -> BoolArray:
        """Return all operators but those that the set needs when so many of its queries are left out."""
        kept = queries.copy()
        inside = np.flatnonzero(queries)
        kept[self._draw.permutation(inside)[:size]] = False
        return ~self._problem.union(kept)


def improved(
    problem: QuerySelection,
    queries: BoolArray,
    tree: Callable[[BoolArray, BoolArray], Tree],
    work: float,
    draw: np.random.Generator,
    deadline: float,
) -> tuple[BoolArray, bool]:
    """Return the best queries (m,) after so much work on neighbourhoods of them, and whether the clock ended it.

    `tree` makes a search of the sets that take operators (n,) and leave out others (n,).
    """
    drawn = Neighbourhoods(problem, draw)
    kinds = (drawn.any_operators, drawn.on_a_walk, drawn.without_some_queries)
    sizes = [float(_ANY), float(_WALK), float(_WITHOUT)]
    overhead = (len(problem.uses) + problem.n_queries + problem.n_operators) // 8 + _CALL
    most = max(_LEAST, problem.n_operators, problem.n_queries)
    kind, each = 0, min(_MOST_WORK, work / _SHARE)
    while work > 0:
        size = sizes[kind]
        free, taken = kinds[kind](queries, math.ceil(size)), problem.union(queries)
        part = tree(taken & ~free, ~taken & ~free)
        part.start_from(queries)
        found = part.search(min(work, each), deadline)
        if found.timed_out:
            return found.queries, True
        work -= part.work + overhead
        sizes[kind] = max(_LEAST, size * _FEWER) if part.is_open else min(most, size * _MORE)
        if found.queries is queries:  # where something was gained the same kind comes again
            kind = (kind + 1) % len(kinds)
        queries = found.queries
    return queries, False
