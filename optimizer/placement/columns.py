"""A lower bound of hosts by columns, and placements from them: one column is what one host can have.

    minimise sum_s z[s]   subject to   sum_s a[t,s] z[s] >= n[t] for each size t, of which column s has a[t,s]

The linear relaxation (Gilmore and Gomory, 1961), with columns made when they are needed: for prices y of sizes, the
dearest column of all is found by dynamic programming in whole numbers. If no column is worth more than Z, every
placement takes at least sum_t n[t] y[t] / Z hosts (Farley, 1990), whatever the prices are: so they are rounded to whole
numbers, and the bound is proven by whole numbers alone. It counts one resource, with the room of the largest host, and
no other rule: leaving rules out makes the bound lower, never wrong.

`from_columns` takes as few columns as cover all sizes, by diving and by an exact model of limited size:

    minimise nothing   subject to   sum_s a[t,s] z[s] >= n[t] for each size t,   sum_s z[s] <= most,   z whole

The columns are those that the bound was made of; the rules decide whether a placement is used.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from models.checked_arrays import FloatArray, IntArray
from models.planning.placement import Placement
from optimizer.common.solvers import linear_program, solve_cp
from optimizer.verify.placement_bounds import Bound

_MOST_ROOM = 20_000  # units of a host up to which the dynamic program is exact; more are rounded in favour of the bound
_MOST_SIZES = 400
_ROUNDS = 400
_PRICE = 10**6  # whole units of price that a host of the linear relaxation is worth
_NEVER = 2**62  # hosts, where no number of them is enough
_STATES = 400_000_000  # sizes times units of a host, in all rounds


@dataclass(frozen=True)
class Columns:
    """The sizes of one resource, how many instances have each, and the columns that were made, (sizes, columns).

    Sizes are in whole units, divided by a common factor where a host has too many of these. The sum of a column's sizes
    is at most `room`.
    """

    sizes: IntArray
    counts: IntArray
    room: int
    size_of: IntArray  # (n,): which size an instance has
    columns: IntArray
    bound: Bound


def column_bound(problem: Placement, known: int, deadline: float) -> Columns | None:
    """Return the best bound over the resources, and its columns; `known` hosts are enough, more is not looked for.

    None where no resource can be bounded this way: too many sizes, or no room. `deadline` is of time.monotonic [s];
    what is proven until then holds, since any prices give a bound (Farley 1990).
    """
    found = [_of_resource(problem, r, known, deadline) for r in range(len(problem.resources))]
    made = [each for each in found if each is not None]
    return max(made, key=lambda each: each.bound.value) if made else None


def _of_resource(problem: Placement, r: int, known: int, deadline: float) -> Columns | None:
    """Return the columns of one resource with their bound; None where sizes are too many or do not fit."""
    loads, room = problem.loads[:, r], int(problem.rooms[:, r].max(initial=0))
    coarse = max(1, -(-room // _MOST_ROOM))
    loads, room = loads // coarse, room // coarse  # what fits still fits: floor of sums is at least the sum of floors
    sizes, size_of, counts = np.unique(loads, return_inverse=True, return_counts=True)
    if not room or len(sizes) > _MOST_SIZES or (sizes[-1:] > room).any() or not sizes.any():
        return None
    columns, best = _generated(_first_columns(sizes, counts, room), sizes, counts, room, known, deadline)
    name = problem.resources[r]
    text = f"{name} alone takes {best} hosts, by prices at which none holds more than its share"
    return Columns(sizes, counts, room, size_of, columns, Bound(best, text, np.arange(problem.n_instances)))


def _generated(
    columns: IntArray, sizes: IntArray, counts: IntArray, room: int, known: int, deadline: float
) -> tuple[IntArray, int]:
    """Return the columns with those that lower the linear relaxation, and the best bound on the way."""
    best, rounds = 0, min(_ROUNDS, max(1, _STATES // (8 * len(sizes) * room)))
    # Ends: each column is new and lowers the relaxation, or no column is worth more than a host.
    for _ in range(rounds):
        solved = _relaxed(columns, counts)
        if solved is None or time.monotonic() > deadline:
            break
        # Prices in whole units: the bound is proven for any prices, so rounding them costs nothing but strength.
        whole = np.floor(solved[1] * _PRICE).astype(np.int64)
        dearest, column = dearest_column(sizes, counts, whole, room)
        best = max(best, -(-int(counts @ whole) // max(dearest, 1)))
        # Enough hosts are known, or the relaxation is solved: further columns change no bound.
        if best >= known or dearest <= _PRICE:
            break
        columns = np.concatenate([columns, column[:, None]], axis=1)
    return columns, best


def dive(made: Columns, most: int, deadline: float) -> tuple[Columns, IntArray | None]:
    """Return at most `most` columns (sizes, .) that cover all sizes, or None; and all columns made on the way.

    What the linear relaxation takes whole is taken, else the one it takes most of; the rest is relaxed again.
    """
    left, columns = made.counts.copy(), made.columns
    taken: list[IntArray] = []
    while left.any() and len(taken) <= most and time.monotonic() < deadline:
        some = left > 0
        # Columns are cut to what is left: a size that is covered takes no place any more.
        own = np.unique(np.minimum(columns, left[:, None])[some], axis=1)
        own, _ = _generated(own[:, own.any(axis=0)], made.sizes[some], left[some], made.room, _NEVER, deadline)
        solved = _relaxed(own, left[some])
        if solved is None:
            break
        # A hair is added, since the solver's 2.0 may be 1.9999999.
        times = np.floor(solved[0] + 1e-6).astype(np.int64)
        # Nothing is taken whole: the largest share decides, so every round takes something.
        if not times.any():
            times[int(solved[0].argmax())] = 1
        new = np.zeros((len(left), own.shape[1]), dtype=np.int64)
        new[some] = own
        for s in np.flatnonzero(times).tolist():
            for _ in range(int(times[s])):
                taken.append(np.minimum(new[:, s], left))
                left = left - taken[-1]
        columns = np.unique(np.concatenate([columns, new], axis=1), axis=1)
    done = not left.any() and len(taken) <= most
    found = np.stack(taken, axis=1) if done and taken else None
    return replace(made, columns=columns), found


def _first_columns(sizes: IntArray, counts: IntArray, room: int) -> IntArray:
    """Return for each size the column of a host with as many of it as there are and fit."""
    fitting = np.where(sizes > 0, room // np.maximum(sizes, 1), counts)
    return np.diag(np.minimum(fitting, counts)).astype(np.int64)


def _relaxed(columns: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return how often the linear relaxation takes each of these columns, and its prices of sizes."""
    found = linear_program(np.ones(columns.shape[1]), at_most=(-columns, -counts))
    return None if found.x is None else (found.x, np.maximum(-found.dual_at_most, 0.0))


def dearest_column(sizes: IntArray, counts: IntArray, prices: IntArray, room: int) -> tuple[int, IntArray]:
    """Return the highest price of what fits a room, at most `counts` of each size, and such a column (sizes,).

    A bounded knapsack by dynamic programming over the room: `sizes`, `counts` and `prices` are (sizes,), and all
    numbers are whole, so the result is exact. Copies are taken in bundles of 1, 2, 4 ..., a number of which makes any.
    """
    bundles = []
    for t, (size, count, price) in enumerate(zip(sizes.tolist(), counts.tolist(), prices.tolist(), strict=True)):
        # Bundles of powers of two make any number of copies from few items.
        left = min(count, room // size) if size else count
        copies = 1
        while left > 0 and price > 0:
            taken = min(copies, left)
            bundles.append((t, taken, taken * size, taken * price))
            left, copies = left - taken, 2 * copies
    best = np.zeros(room + 1, dtype=np.int64)
    chosen = np.zeros((len(bundles), room + 1), dtype=np.bool_)
    for k, (_, _, size, price) in enumerate(bundles):
        taking = best[: room + 1 - size] + price
        better = taking > best[size:]
        chosen[k, size:] = better
        best[size:] = np.where(better, taking, best[size:])
    column, at = np.zeros(len(sizes), dtype=np.int64), room
    for k in range(len(bundles) - 1, -1, -1):
        if chosen[k, at]:
            t, taken, size, _ = bundles[k]
            column[t] += taken
            at -= size
    return int(best[room]), column


def from_columns(
    problem: Placement, made: Columns, most: int, *, most_s: float, deadline: float, seed: int
) -> IntArray | None:
    """Return hosts (n,) of at most `most` columns that have all sizes; None if none was found.

    Only what is counted in columns is kept: the rules are to be checked. Hosts are numbered from 0.
    """
    more, taken = dive(made, most, deadline)
    if taken is None:
        taken = _fewest(more, most, most_s, deadline, seed)
    if taken is None:
        return None
    waiting = [np.flatnonzero(made.size_of == t).tolist() for t in range(len(made.sizes))]
    host = np.full(problem.n_instances, -1, dtype=np.int64)
    for h, column in enumerate(taken.T.tolist()):
        for t, copies in enumerate(column):
            for _ in range(min(copies, len(waiting[t]))):
                host[waiting[t].pop()] = h
    return host


def _fewest(made: Columns, most: int, most_s: float, deadline: float, seed: int) -> IntArray | None:
    """Return at most `most` columns (sizes, .) that have all sizes, by CP-SAT."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    model = cp_model.CpModel()
    times = [model.new_int_var(0, most, "") for _ in range(made.columns.shape[1])]
    for row, count in zip(made.columns, made.counts.tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(times, row.tolist()) >= count)
    model.add(sum(times) <= most)
    answer = solve_cp(model, deterministic_s=most_s, limit_s=left, seed=seed)
    return np.repeat(made.columns, answer.values(times), axis=1) if answer.found else None
