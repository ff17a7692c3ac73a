"""Which operators get replicas, and how many: the problems and their answers.

Operators o = 0 .. n-1 at replication levels 0 .. L; level l of operator o is worth v[o, l] and takes w[o, l] of the
capacity W, level 0 is worth nothing and takes nothing:

    maximise   sum v[o, level[o]]    subject to   sum w[o, level[o]] <= W

Queries q = 0 .. m-1, each worth v[q] if *all* operators of its set O[q] have a replica:

    maximise   sum v[q] z[q]    subject to   z[q] <= y[o] for o in O[q],   sum w[o] y[o] <= W

Source: Grüneberger, Heinze and Felber, VLDB PhD workshop 2013 (the step of selection). The first is the 0-1 knapsack
problem (L = 1) or the multiple-choice knapsack problem, the second the set-union knapsack problem.

Sums are exact: a selection fits when the exact sum of its float64 weights is at most `limit`, the capacity and the
rounding of decimal numbers to float64 (0.1 ten times fits 1.0; of whole numbers below 2^51 nothing more fits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.checked_arrays import BoolArray, CheckedArrays, FloatArray, IntArray, freeze_fields, frozen
from models.planning.solution import Solution

ROUNDING = 2.0**-51  # a decimal number is off by 2^-53 of itself, so a sum of weights by as much, and the capacity


def limit_of(capacity: float) -> float:
    """Return the largest sum of weights that counts as within the capacity: capacity (1 + 2^-51)."""
    return capacity * (1 + ROUNDING)


def fits(weights: FloatArray, limit: float) -> bool:
    """Return whether the exact sum of the weights is at most the limit: `math.fsum` rounds no positive sum to zero."""
    # One exact sum with the limit in it: comparing two rounded sums could decide the other way.
    return math.fsum([*weights.tolist(), -limit]) <= 0.0


def _checked_capacity(check: CheckedArrays, capacity: Any) -> float | None:
    """Return the capacity as a float; None with a fault."""
    if isinstance(capacity, bool) or not isinstance(capacity, (int, float, np.number, np.ndarray)):
        check.add("capacity", capacity, "must be a number")
        return None
    found = check.floats("capacity", capacity, (), low=0.0)
    return None if found is None else float(found)


@dataclass(frozen=True, eq=False)
class OperatorSelection:
    """One selection of operators, checked on construction; arrays are read-only.

    `value`, `weight` (n,), or (n, L) for the levels 1 .. L, each in all and not for the step from the level before; not
    negative. `capacity`: at least 0. `max_level` (n,): highest level of each operator, None for L. Raises InputError
    with every fault found.

    >>> problem = OperatorSelection(value=[3, 4], weight=[2, 3], capacity=4)
    >>> level = np.array([0, 1])
    >>> problem.objective(level), problem.used(level), problem.fits(np.array([1, 1]))
    (4.0, 3.0, False)
    """

    value: FloatArray
    weight: FloatArray
    capacity: float
    max_level: IntArray | None = None

    def __post_init__(self) -> None:
        check = CheckedArrays()
        value = check.floats("value", self.value, (None,), (None, None), low=0.0)
        if value is not None and 0 in value.shape:
            check.add("value", value.shape, "must have at least one operator and one level")
        shapes = ((None,), (None, None)) if value is None else (value.shape,)
        weight = check.floats("weight", self.weight, *shapes, low=0.0)
        checked: dict[str, Any] = {"value": value, "weight": weight}
        checked["capacity"] = _checked_capacity(check, self.capacity)
        if self.max_level is not None:
            shape = (None, None) if value is None else (value.shape[0], 1 if value.ndim == 1 else value.shape[1])
            limits = (None if shape[1] is None else shape[1] + 1,)
            checked["max_level"] = check.indices("max_level", self.max_level, (shape[0],), limits)
        check.store(self, checked)

    @property
    def n_operators(self) -> int:
        """Return n, the number of operators."""
        return int(self.value.shape[0])

    @property
    def n_levels(self) -> int:
        """Return L, the highest level of any operator."""
        return 1 if self.value.ndim == 1 else int(self.value.shape[1])

    @property
    def limit(self) -> float:
        """Return the largest sum of weights that counts as within the capacity."""
        return limit_of(self.capacity)

    @cached_property
    def level_values(self) -> FloatArray:
        """Return the value of each level 0 .. L, (n, L + 1)."""
        return _with_nothing(self.value)

    @cached_property
    def level_weights(self) -> FloatArray:
        """Return the weight of each level 0 .. L, (n, L + 1)."""
        return _with_nothing(self.weight)

    @cached_property
    def allowed(self) -> BoolArray:
        """Return whether an operator may have a level, (n, L + 1): at most its highest, alone within the capacity."""
        allowed = self.level_weights <= self.limit
        if self.max_level is not None:
            allowed &= np.arange(self.n_levels + 1) <= self.max_level[:, None]
        return allowed

    def objective(self, level: IntArray) -> float:
        """Return the total value of levels (n,), correctly rounded."""
        return math.fsum(self.level_values[np.arange(self.n_operators), level].tolist())

    def used(self, level: IntArray) -> float:
        """Return the total weight of levels (n,), correctly rounded."""
        return math.fsum(self.chosen_weights(level).tolist())

    def chosen_weights(self, level: IntArray) -> FloatArray:
        """Return the weight that each operator takes at its level, (n,)."""
        return self.level_weights[np.arange(self.n_operators), level]

    def fits(self, level: IntArray) -> bool:
        """Return whether levels (n,) are within the capacity."""
        return fits(self.chosen_weights(level), self.limit)


def _with_nothing(given: FloatArray) -> FloatArray:
    """Return the columns of levels 0 .. L, (n, L + 1), with zeros for level 0."""
    columns = given[:, None] if given.ndim == 1 else given
    # Level 0 is a column of its own, so that a level indexes directly.
    return frozen(np.concatenate([np.zeros((len(columns), 1)), columns], axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionPlan(Solution):
    """An answer: the level of each operator (n,), None when there is no answer; `used` is its weight.

    `bound` is an upper bound. `price` is the value of a unit of capacity: of what is chosen for more than it takes.
    """

    level: IntArray | None = None
    used: float | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, np.int64, "level")


@dataclass(frozen=True, eq=False)
class QuerySelection:
    """One selection of queries, checked on construction; arrays are read-only.

    `value` (m,): of each query if all its operators have a replica. `weight` (n,): of a replica of each operator.
    `uses` (E, 2): pairs [query, operator]; a pair that is given twice counts once. `capacity`: at least 0.
    `operator_value` (n,): what a replica is worth on its own, for what the queries leave of the capacity, or None.
    Raises InputError with every fault found.

    >>> problem = QuerySelection(value=[5, 4], weight=[1, 1, 1], uses=[[0, 0], [0, 1], [1, 1]], capacity=2)
    >>> problem.union(np.array([False, True])).tolist(), problem.whole(np.array([True, True, False])).tolist()
    ([False, True, False], [True, True])
    """

    value: FloatArray
    weight: FloatArray
    uses: IntArray
    capacity: float
    operator_value: FloatArray | None = None

    def __post_init__(self) -> None:
        check = CheckedArrays()
        value = check.floats("value", self.value, (None,), low=0.0)
        weight = check.floats("weight", self.weight, (None,), low=0.0)
        if value is not None and not len(value):
            check.add("value", value.shape, "must have at least one query")
        sizes = (None if value is None else len(value), None if weight is None else len(weight))
        checked: dict[str, Any] = {"value": value, "weight": weight}
        checked["uses"] = check.indices("uses", self.uses, (None, 2), sizes)
        checked["capacity"] = _checked_capacity(check, self.capacity)
        if self.operator_value is not None:
            checked["operator_value"] = check.floats("operator_value", self.operator_value, (sizes[1],), low=0.0)
        if checked["uses"] is not None and len(checked["uses"]):
            # Sorted by query, as `starts` needs, and without repeated pairs.
            checked["uses"] = frozen(np.unique(checked["uses"], axis=0))
        check.store(self, checked)

    @property
    def n_queries(self) -> int:
        """Return m, the number of queries."""
        return len(self.value)

    @property
    def n_operators(self) -> int:
        """Return n, the number of operators."""
        return len(self.weight)

    @property
    def limit(self) -> float:
        """Return the largest sum of weights that counts as within the capacity."""
        return limit_of(self.capacity)

    @cached_property
    def starts(self) -> IntArray:
        """Return where the operators of each query begin in `uses`, (m + 1,): its rows are sorted by query."""
        counts = np.bincount(self.uses[:, 0], minlength=self.n_queries)
        return frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def operators_of(self, query: int) -> IntArray:
        """Return the operators of a query, in ascending order."""
        return self.uses[self.starts[query] : self.starts[query + 1], 1]

    def union(self, queries: BoolArray) -> BoolArray:
        """Return which operators a selection of queries (m,) needs, (n,)."""
        needed = np.zeros(self.n_operators, dtype=np.bool_)
        # By the pairs: one pass, whatever the number of queries.
        needed[self.uses[queries[self.uses[:, 0]], 1]] = True
        return needed

    def whole(self, operators: BoolArray) -> BoolArray:
        """Return which queries have all their operators among those (n,), (m,)."""
        # A query is whole when none of its pairs has an operator that is missing.
        missing = np.bincount(self.uses[~operators[self.uses[:, 1]], 0], minlength=self.n_queries)
        return np.asarray(missing == 0, dtype=np.bool_)

    def objective(self, queries: BoolArray) -> float:
        """Return the total value of a selection of queries (m,), correctly rounded."""
        return math.fsum(self.value[queries].tolist())

    def fits(self, operators: BoolArray) -> bool:
        """Return whether operators (n,) are within the capacity."""
        return fits(self.weight[operators], self.limit)


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPlan(Solution):
    """An answer: which queries are whole (m,) and which operators have a replica (n,); None without an answer.

    `bound` is an upper bound of the value of queries. `operators` also has the single ones of the left-over, whose
    value, with its own bound, is `single_value` and `single_bound`: best for the queries that were chosen.
    `price` and `split` (E,), the share of a query's value that each of its operators carries, prove the bound unless
    the note names another proof.
    """

    queries: BoolArray | None = None
    operators: BoolArray | None = None
    used: float | None = None
    price: float | None = None
    single_value: float | None = None
    single_bound: float | None = None
    split: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, np.bool_, "queries", "operators")
