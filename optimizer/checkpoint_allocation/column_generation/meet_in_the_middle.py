"""A few nodes packed again, by all sets that can be in a better packing: meet in the middle.

With multipliers u of the group and its bound L(u), a packing costs L(u) plus, for each node, what its set S is below
the best one: K_n(u) - sum_{j in S} (u[j] - c[j,n]). So in a packing below `target` no set loses as much as
target - L(u): those that lose less are listed, for each node. Half of the nodes are joined to all their disjoint unions
that lose less, the other half as well, and a union meets its complement. All that is listed is looked at: without an
answer at the full margin the group has no better packing. Where there would be too many sets or unions, the margin is
reduced, and the answer is the best of what is left. Sources: Baldacci, Christofides and Mingozzi 2008 (all columns
within the gap); Horowitz and Sahni 1974 (two halves).

`pack` does the same for more nodes, by a small program. First the multipliers are corrected for the group. When its
bound reaches the cost of the present packing, there is no better one, and that was cheap to see. Else every pair gets a
bound of its own (`pair_bounds`),

    L(u) + (K_n - K_n with j in) + sum_{m != n} (K_m - K_m without j),

for the allocations that use it; pairs whose bound reaches the present cost are in no better packing. HiGHS packs the
checkpoints on the pairs that remain. The caller checks its answer, so its tolerances decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import BoolArray, FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.column_generation.knapsack import penalties
from optimizer.checkpoint_allocation.column_generation.multipliers import Part, Sets, evaluated, raised
from optimizer.checkpoint_allocation.mixed_integer import rules_of_pairs
from optimizer.common.solvers import mixed_integer_program

_WORD = 64  # bits


@dataclass(frozen=True)
class MeetInTheMiddle:
    """The node (position) of each checkpoint, or None; the margin, and whether it was the full one.

    With `whole` and without a node, no better packing exists; else nothing is known of packings that lose more than
    `margin` (in the units of the part).
    """

    node: IntArray | None
    margin: float
    whole: bool


@dataclass(frozen=True)
class _Unions:
    """Disjoint unions of one set for each node: bits (m, words), what they lose (m,), and which sets (m, nodes)."""

    bits: np.ndarray
    lost: FloatArray
    parts: IntArray


@dataclass(frozen=True)
class _Half:
    """Some of the nodes (positions), the bits of their sets, and the unions of these."""

    nodes: list[int]
    sets: list[np.ndarray]
    unions: _Unions

    def place(self, row: int, node: IntArray) -> None:
        """Write the nodes of the checkpoints of a union into (j,)."""
        for at, sets, part in zip(self.nodes, self.sets, self.unions.parts[row].tolist(), strict=True):
            node[unpacked(sets[part : part + 1], len(node))[0]] = at


def meet_in_the_middle(
    part: Part,
    u: FloatArray,
    bound: float,
    target: float,
    *,
    fits: Callable[[int, BoolArray], BoolArray],
    margin: float,
    most: int,
    work: Budget,
) -> MeetInTheMiddle:
    """Return the cheapest packing below `target` that loses at most `margin`, with at most `most` unions at a time.

    `fits` says which of some sets (m, j) keep the true capacity of a node (position).
    """
    # All sets of a better packing lose less than this together, and each of them alone.
    full = target - bound
    margin = min(margin, full)
    for _ in range(part.parameters.margin_attempts):
        halves = _halves(part, u, margin, fits, most, work)
        if halves is not None:
            # Only at the full margin "no answer" proves that there is no better packing.
            return MeetInTheMiddle(_met(*halves, len(u), full), margin, margin >= full)
        margin *= part.parameters.margin_factors[0]
    return MeetInTheMiddle(None, margin, False)


def sets_within(
    value: FloatArray, load: IntArray, room: int, margin: float, most: int, work: Budget
) -> tuple[np.ndarray, FloatArray] | None:
    """Return all sets that lose at most `margin` against the best one, or None for too many.

    Bits (m, words) of uint64, and losses (m,).
    """
    # An item below -margin would cost more than the margin by itself.
    can = np.flatnonzero(np.isfinite(value) & (load <= room) & (value >= -margin))
    # By value per load: the bound `rest` then prunes early.
    order = can[np.argsort(-value[can] / np.maximum(load[can], 0.5), kind="stable")]
    rest = np.zeros((len(order) + 1, room + 1))  # the most that items from k on can bring
    for k in range(len(order) - 1, -1, -1):
        item = order[k]
        rest[k] = rest[k + 1]
        if value[item] > 0:
            upto = room + 1 - int(load[item])
            np.maximum(rest[k, load[item] :], rest[k + 1, :upto] + value[item], out=rest[k, load[item] :])
    work.knapsack(len(value), rest.size)
    # Below it a set loses more than the margin, however it is completed.
    least = rest[0, room] - margin
    left, got = np.full(1, room), np.zeros(1)
    bits = np.zeros((1, -(-len(value) // _WORD)), dtype=np.uint64)
    for k, item in enumerate(order.tolist()):
        # A state stays only if the items to come can still lift it to `least`: all sets within the margin, and no
        # others.
        without = got + rest[k + 1, left] >= least
        left_in, got_in = left - load[item], got + value[item]
        within = (left_in >= 0) & (got_in + rest[k + 1, np.maximum(left_in, 0)] >= least)
        more = bits[within]
        more[:, item // _WORD] |= np.uint64(1 << (item % _WORD))
        left, got = np.concatenate([left[without], left_in[within]]), np.concatenate([got[without], got_in[within]])
        bits = np.concatenate([bits[without], more])
        work.states(len(left))
        # Given up before the memory is: the caller tries a smaller margin.
        if len(left) > most:
            return None
    return bits, rest[0, room] - got


def unpacked(bits: np.ndarray, count: int) -> BoolArray:
    """Return bits (m, words) as truth values (m, count)."""
    flat = np.unpackbits(np.ascontiguousarray(bits).astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return flat[:, :count].astype(np.bool_)


def _halves(
    part: Part, u: FloatArray, margin: float, fits: Callable[[int, BoolArray], BoolArray], most: int, work: Budget
) -> tuple[_Half, _Half] | None:
    """Return both halves of the nodes; None for too many sets or unions."""
    listed, most_sets = [], int(part.parameters.sets_share * most)
    for node in range(len(part.nodes)):
        value = u - part.cost[node]
        found = sets_within(value, part.load[node], int(part.room[node]), margin, most_sets, work)
        if found is None:
            return None
        bits, lost = found
        # True capacities are tested once for each set, so that unions need no test.
        fine = np.flatnonzero(fits(node, unpacked(bits, len(u))))
        order = fine[np.argsort(lost[fine], kind="stable")]
        listed.append(_Unions(bits[order], lost[order], np.arange(len(order))[:, None]))
    few = sorted(range(len(listed)), key=lambda node: len(listed[node].lost))
    # Dealt out alternately by length: both halves get about as many unions.
    first, second = (_half(few[k::2], listed, margin, most, work) for k in (0, 1))
    return None if first is None or second is None else (first, second)


def _half(nodes: list[int], listed: list[_Unions], margin: float, most: int, work: Budget) -> _Half | None:
    """Return some nodes with all disjoint unions of their sets within the margin; None for too many."""
    unions = listed[nodes[0]]
    for node in nodes[1:]:
        longer = _longer(unions, listed[node], margin, most, work)
        if longer is None:
            return None
        unions = longer
    return _Half(nodes, [listed[node].bits for node in nodes], unions)


def _longer(unions: _Unions, sets: _Unions, margin: float, most: int, work: Budget) -> _Unions | None:
    """Return each union with each disjoint set of another node, where they lose at most the margin together."""
    # Sets are sorted by loss, so those within the margin are a prefix: nothing is joined that would be thrown away.
    count = np.searchsorted(sets.lost, margin - unions.lost, side="right")
    total = int(count.sum())
    if total > most:
        return None
    work.states(total)
    first = np.repeat(np.arange(len(count)), count)
    # Positions within each run of `second`: 0, 1, ... for each union.
    second = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    # Word by word: arrays over all pairs exist for one word at a time.
    disjoint = np.ones(total, dtype=np.bool_)
    for word in range(unions.bits.shape[1]):
        disjoint &= (unions.bits[first, word] & sets.bits[second, word]) == 0
    first, second = first[disjoint], second[disjoint]
    parts = np.column_stack([unions.parts[first], second])
    return _Unions(unions.bits[first] | sets.bits[second], unions.lost[first] + sets.lost[second], parts)


def _met(one: _Half, other: _Half, count: int, most: float) -> IntArray | None:
    """Return the cheapest union of all checkpoints that loses at most `most`: the node (position) of each, or None."""
    if not len(one.unions.lost) or not len(other.unions.lost):
        return None
    every = np.zeros((1, one.unions.bits.shape[1]), dtype=np.uint64)
    for item in range(count):
        every[0, item // _WORD] |= np.uint64(1 << (item % _WORD))
    keys, wanted = _keys(one.unions.bits), _keys(every & ~other.unions.bits)
    # Equal unions by loss: `searchsorted` then finds the cheapest one first.
    order = np.lexsort((one.unions.lost, keys))
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)]
    meets = np.flatnonzero(keys[at] == wanted)
    lost = one.unions.lost[at[meets]] + other.unions.lost[meets]
    # `not <=` also refuses a loss that is no number.
    if not len(lost) or not float(lost.min()) <= most:
        return None
    best = int(meets[lost.argmin()])
    node = np.full(count, -1, dtype=np.int64)
    one.place(int(at[best]), node)
    other.place(best, node)
    whole = (one.unions.bits[at[best]] ^ other.unions.bits[best] == every[0]).all()  # different bits may share a key
    return node if whole else None


def _keys(bits: np.ndarray) -> np.ndarray:
    """Return one number (m,) for the bits (m, words): themselves where they are one word, else a hash."""
    if bits.shape[1] == 1:
        return bits[:, 0]
    odd = np.random.default_rng(0).integers(0, 2**62, bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    # Odd factors modulo 2**64: a hash; `_met` tests the bits of the best pair, so a collision costs an answer at most.
    keys: np.ndarray = (bits * odd).sum(axis=1, dtype=np.uint64)
    return keys


@dataclass(frozen=True)
class TrueLoads:
    """Loads (N, J) as shares of `room` (N,): whole numbers with half a unit to spare, or true loads and capacities."""

    load: FloatArray
    room: FloatArray


def pair_bounds(part: Part, u: FloatArray, target: float, work: Budget) -> tuple[float, FloatArray]:
    """Return L(u), and a lower bound (n, j) of every allocation that uses the pair, correct up to `target`.

    With pair (n, j) used, node n loses at least the penalty of taking j, and every other node that of doing without it.
    Infinite where the pair is not allowed. Costs are in the units of the part.
    """
    total = evaluated(part, u, work)[0]
    # Penalties beyond the target are cut off: how far a hopeless pair is above it does not matter.
    margin = max(target - total, 0.0)
    found = [
        penalties(u - cost, load, int(room), margin, work, part.parameters)
        for cost, load, room in zip(part.cost, part.load, part.room, strict=True)
    ]
    within, without = np.array([one[1] for one in found]), np.array([one[2] for one in found])
    # Every other node does without j at once: the losses of all nodes add up, since each K_n is a sum of its own.
    return total, total + within + (without.sum(axis=0) - without)


def pack(
    part: Part, u: FloatArray, true: TrueLoads, work: Budget, *, target: float, delta: float, pairs: int, nodes: int
) -> IntArray | None:
    """Return the node (position) of each checkpoint, below `target`, that HiGHS finds among `pairs` pairs, or None.

    `delta` is the level of the first subgradient steps, `nodes` the limit on nodes of branch and bound. None means that
    nothing was found: a proof only where the bound of the multipliers reaches `target`.
    """
    better = raised(
        part, u, steps=part.parameters.proof_steps, delta=delta, patience=6, sets=Sets(), enough=target, work=work
    )
    if better.bound >= target:
        return None
    # Without a target pairs far above the bound are left out: they prove nothing, and the program must stay small.
    limit = min(target, better.bound + 200 * max(delta, 1.0))
    _, least = pair_bounds(part, better.u, limit, work)
    kept = least < limit if np.isfinite(target) else np.isfinite(least)
    # Cut to size: the program loses the proof, not its answers.
    if kept.sum() > pairs:
        kept &= least <= np.partition(least[kept], pairs - 1)[pairs - 1]
    # A checkpoint without any pair: no packing below the target.
    if not kept.any(axis=0).all():
        return None
    return _program(part, kept, true, nodes, work)


def _program(part: Part, kept: BoolArray, true: TrueLoads, nodes: int, work: Budget) -> IntArray | None:
    """Return the node (position) of each checkpoint by HiGHS on the kept pairs (n, j); None without a solution."""
    j, n = np.nonzero(kept.T)
    share = true.load[part.nodes[n], part.items[j]] / true.room[part.nodes[n]]
    cost = part.cost[n, j] - part.cost[n, j].min()
    largest = max(float(cost.max()), 1.0)
    rules = rules_of_pairs(j, n, share, np.ones(len(part.nodes)))
    # Costs of the sizes that tolerances of HiGHS are made for.
    answer = mixed_integer_program(cost * (min(2.0**20, largest) / largest), rules, nodes=nodes, limit_s=work.left_s)
    work.program(len(j), answer.nodes + 1)
    if answer.x is None:
        return None
    chosen = answer.x > 0.5
    at = np.full(len(part.items), -1, dtype=np.int64)
    at[j[chosen]] = n[chosen]
    return at if (at >= 0).all() else None
