"""The order of a span's tuples: by instant, then by rank, and otherwise as they stand.

First the sorting, then arrivals at an operator, or at the links, in the order of the event loop: by instant, then by
the sending task, then in the order of sending, which for one sender is the order of the box.
"""

from __future__ import annotations

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

_FEW = 24  # what is so short is sorted by insertion alone
_LEAST_BITS, _MOST_BITS = 4, 11
_MOST_MOVES = 16  # per tuple
_MOST_CELL_BITS = 15
_WORD = 62  # bits of a key


@kernel
def bits_of(n: int) -> int:
    """Return how many bits the numbers below n have."""
    bits = 0
    while n - 1 >> bits > 0:
        bits += 1
    return bits


@kernel
def fits(span: int, ranks: int, n: int) -> bool:
    """Return whether an instant in the span, a rank and a number below n are one number: a key to sort by."""
    return bits_of(span) + bits_of(ranks) + bits_of(n) <= _WORD


@kernel
def cells_for(state: State, n: int, bits: int) -> int:
    """Bits of a cell, of which `counts` holds about as many as there are keys of so many bits; all are empty."""
    cells = min(_MOST_CELL_BITS, bits, max(_LEAST_BITS, bits_of(n)))
    for k in range((1 << cells) + 1):
        state.counts[k] = 0
    return cells


@kernel
def order_by_keys(state: State, n: int, shift: int, cells: int, number_bits: int) -> None:
    """Make `state.order` the last bits, their numbers, of the n keys `state.times` in order.

    One pass of a radix sort: `counts` holds how many keys are in each cell of `cells_for`, the key without `shift`
    bits. Insertion, or a merge sort where many are crowded into one cell, does the rest.
    """
    below = 0
    for k in range(1 << cells):
        there = state.counts[k]
        state.counts[k] = below
        below += there
    for k in range(n):
        key = state.times[k]
        place = state.counts[key >> shift]
        state.counts[key >> shift] = place + 1
        state.spare[place] = key
    if not _keys_by_insertion(state, n, _MOST_MOVES * n):
        _keys_by_merging(state, n)
    mask = (1 << number_bits) - 1
    for k in range(n):
        state.order[k] = state.spare[k] & mask


@kernel
def _keys_by_insertion(state: State, n: int, moves: int) -> bool:
    """Sort `state.spare`; False if that takes more moves, and is not done."""
    most = state.spare[0] if n > 0 else 0
    for k in range(1, n):
        key = state.spare[k]
        if key >= most:  # nearly all: nothing is written, and nothing that was
            most = key
            continue
        place = k - 1
        while place >= 0 and state.spare[place] > key:
            state.spare[place + 1] = state.spare[place]
            place -= 1
        state.spare[place + 1] = key
        moves -= k - 1 - place
        if moves < 0:
            return False
    return True


@kernel
def _keys_by_merging(state: State, n: int) -> None:
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            one, other = begin, middle
            for k in range(begin, end):
                if other >= end or (one < middle and state.spare[one] < state.spare[other]):
                    state.times[k] = state.spare[one]
                    one += 1
                else:
                    state.times[k] = state.spare[other]
                    other += 1
        for k in range(n):
            state.spare[k] = state.times[k]
        width *= 2


@kernel
def put_in_order(state: State, n: int, low: int, high: int) -> None:
    """Make `state.order` the numbers below n by (`state.times`, `state.ranks`, number); all times are in [low, high).

    Two passes of a radix sort over cells of the span, about as many as the square of n, leave hardly two tuples in
    one cell; insertion puts those in order. Where that would take long, because many are crowded into one cell of a
    long span, a merge sort goes on.
    """
    if n < _FEW:
        for k in range(n):
            state.order[k] = k
        _by_insertion(state, n, n * n)
        return
    bits = _LEAST_BITS
    while bits < _MOST_BITS and (1 << bits) < n:
        bits += 1
    shift = 0
    while (high - low - 1) >> shift >= 1 << (2 * bits):
        shift += 1
    size = 1 << bits
    mask = size - 1
    for k in range(2 * size):
        state.counts[k] = 0
    for k in range(n):
        cell = (state.times[k] - low) >> shift
        state.counts[cell & mask] += 1
        state.counts[size + (cell >> bits)] += 1
    below_one = 0
    below_two = 0
    for k in range(size):
        one, two = state.counts[k], state.counts[size + k]
        state.counts[k] = below_one
        state.counts[size + k] = below_two
        below_one += one
        below_two += two
    for k in range(n):
        cell = (state.times[k] - low) >> shift
        place = state.counts[cell & mask]
        state.counts[cell & mask] = place + 1
        state.spare[place] = ((cell >> bits) << 32) | k
    for k in range(n):
        both = state.spare[k]
        place = state.counts[size + (both >> 32)]
        state.counts[size + (both >> 32)] = place + 1
        state.order[place] = both & 0xFFFFFFFF
    if not _by_insertion(state, n, _MOST_MOVES * n):
        _by_merging(state, n)


@kernel
def _after(state: State, one: int, other: int) -> bool:
    """Return whether a tuple comes after another, numbers aside."""
    at, than = state.times[one], state.times[other]
    return at > than or (at == than and state.ranks[one] > state.ranks[other])


@kernel
def _by_insertion(state: State, n: int, moves: int) -> bool:
    """Sort; False if that takes more moves, and is not done."""
    for k in range(1, n):
        one = state.order[k]
        place = k - 1
        if not _after(state, state.order[place], one):
            continue
        while place >= 0 and _after(state, state.order[place], one):
            state.order[place + 1] = state.order[place]
            place -= 1
        state.order[place + 1] = one
        moves -= k - place
        if moves < 0:
            return False
    return True


@kernel
def _by_merging(state: State, n: int) -> None:
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            one, other = begin, middle
            for k in range(begin, end):
                if other >= end or (one < middle and not _after(state, state.order[one], state.order[other])):
                    state.spare[k] = state.order[one]
                    one += 1
                else:
                    state.spare[k] = state.order[other]
                    other += 1
        for k in range(n):
            state.order[k] = state.spare[k]
        width *= 2


@kernel
def gather(state: State, place: int) -> None:
    """Make `order` the places in the box of what arrives in the span, and `kept` those of the rest."""
    b = state.boxes[place]
    if fits(state.span.end - state.span.begin, state.options.ranks, b.n):
        _gather_by_keys(state, place, bits_of(state.options.ranks), bits_of(b.n))
        return
    due, kept = 0, 0
    for k in range(b.n):
        e = state.box[b.first + k]
        if e.at < state.span.end:
            state.times[due] = e.at
            state.ranks[due] = state.partition_task[e.origin] if state.saves else e.origin
            state.refs[due] = k
            due += 1
        else:
            state.kept[kept] = k
            kept += 1
    state.progress.due = due
    put_in_order(state, due, state.span.begin, state.span.end)
    for k in range(due):
        state.order[k] = state.refs[state.order[k]]


@kernel
def _gather_by_keys(state: State, place: int, ranks: int, numbers: int) -> None:
    """`gather` where instant, rank and place fit into one number."""
    b = state.boxes[place]
    first, n, begin, end = b.first, b.n, state.span.begin, state.span.end
    bits = bits_of(end - begin) + ranks + numbers
    cells = cells_for(state, n, bits)
    shift, all_cells = bits - cells, 1 << cells
    due, kept = 0, 0
    for k in range(n):
        e = state.box[first + k]
        rank = state.partition_task[e.origin] if state.saves else e.origin
        key = ((((e.at - begin) << ranks) | rank) << numbers) | k
        state.times[due] = key
        state.kept[kept] = k
        late = e.at >= end
        kept += late
        due += 1 - late
        state.counts[all_cells if late else key >> shift] += 1
    state.progress.due = due
    order_by_keys(state, due, shift, cells, numbers)
