"""The outputs of a batch on their way, where each tuple has one for one receiver: short loops without branches.

A batch is in `done`, `ids`, `keys` and `drawn`, at the same place in each. One short loop after the other goes over it:
ids, keys, receivers, boxes. So no loop waits for a division or a random number of another tuple, and the branch for the
kind of edge or law is outside the loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import BROADCAST, GROUPED, KEYED, SHUFFLE
from sim.kernel.scan.placing import task_for
from sim.kernel.tools.cache import Intrinsic, kernel
from sim.kernel.tools.draws import SAME_KEY, UNIFORM_KEYS, child_id, mix, output_key, source_id, uniform
from sim.kernel.tools.pointer import State

_upper = Intrinsic("upper_half")  # of the product of two numbers without sign
SHUFFLING = np.dtype([("factor", "u8"), ("shift", "i8")])  # of an edge: how to divide by its partitions


@kernel
def is_straight(state: State, operator: int) -> bool:
    """Return whether each tuple of the operator has one output, which goes over one edge to one partition."""
    draws = state.draws[operator]
    return draws.whole == 1 and draws.rest == 0 and leads_one_way(state, operator)


@kernel
def leads_one_way(state: State, operator: int) -> bool:
    """Return whether each output of the operator goes over one edge to one partition."""
    stage = state.stages[operator]
    if state.saves or stage.limited or stage.edges != 1:
        return False
    edge = state.edges[stage.first_edge]
    return edge.kind != BROADCAST and edge.takes >= 1.0


@kernel
def send_straight(state: State, operator: int, n: int) -> None:
    """Send `ids` with `keys` when the first n of `done` end, all in one second and over links without a bandwidth."""
    number = state.stages[operator].first_edge
    _find_receivers(state, number, n)
    if state.options.placed:
        _send_to_next_tasks(state, number, n)
        return
    b = state.boxes[state.edges[number].down]
    place, latency = b.first + b.n, state.options.latency
    local = 0
    total = np.uint64(0)
    # The loop has no branch and no call, so that the processor does several tuples at once: whether sender and receiver
    # are on one host is added as a number, and sums stay in registers until the end.
    for k in range(n):
        made, tuple_id, partition, e = state.done[k], state.ids[k], state.drawn[k], state.box[place + k]
        same = state.partition_host[partition] == state.task_host[made.origin]
        local += same
        e.at = made.end + (0 if same else latency)
        e.id = tuple_id
        e.created = made.created
        e.key = state.keys[k]
        e.partition = partition
        e.origin = made.origin
        total += tuple_id
    b.n += n
    b.sent += n
    b.sum += total
    state.sent.local += local
    state.sent.data += n - local


@kernel
def _send_to_next_tasks(state: State, number: int, n: int) -> None:
    """The same where key groups have next tasks, which may be on other hosts."""
    b = state.boxes[state.edges[number].down]
    for k in range(n):
        made, e = state.done[k], state.box[b.first + b.n + k]
        same = state.task_host[task_for(state, state.drawn[k], made.created)] == state.task_host[made.origin]
        state.sent.local += same
        state.sent.data += 1 - same
        e.at = made.end + (0 if same else state.options.latency)
        e.id = state.ids[k]
        e.created = made.created
        e.key = state.keys[k]
        e.partition = state.drawn[k]
        e.origin = made.origin
        b.sum += state.ids[k]
    b.n += n
    b.sent += n


@kernel
def _find_receivers(state: State, number: int, n: int) -> None:
    """Make `drawn` the partitions that get the outputs of a batch over an edge."""
    edge = state.edges[number]
    kind, first, partitions, code, table = edge.kind, edge.first_partition, edge.partitions, edge.code, edge.table
    if kind == KEYED:
        for k in range(n):
            state.drawn[k] = first + state.key_tables[table + state.keys[k]]
    elif kind == SHUFFLE:
        factor, shift = state.shuffles[number].factor, state.shuffles[number].shift
        for k in range(n):
            state.drawn[k] = first + np.int64(remainder(mix(state.ids[k] ^ code), partitions, factor, shift))
    elif kind == GROUPED:
        for k in range(n):
            state.drawn[k] = first + state.keys[k]
    else:
        for k in range(n):
            state.drawn[k] = first + state.partition_index[state.done[k].partition] % partitions


@kernel
def take_arrivals(state: State, source: int, upto: int) -> None:
    """Make `done`, `ids` and `keys` the arrivals at a source up to this sequence number."""
    b = state.sources[source]
    place, emitted, code, partition = b.offset - b.base, b.emitted, b.code, b.partition
    task = state.partition_task[partition]
    for k in range(upto - emitted):
        arrival, made = state.arrivals[place + emitted + k], state.done[k]
        made.end = arrival.time
        made.created = arrival.time
        made.partition = partition
        made.origin = task
        state.ids[k] = source_id(code, emitted + k)
        state.keys[k] = arrival.key


@kernel
def make_outputs(state: State, operator: int, n: int) -> None:
    """Make `ids` and `keys` those of the outputs of the first n of `done`."""
    code, draws = state.operators[operator].code, state.draws[operator]
    for k in range(n):
        state.ids[k] = child_id(state.done[k].id, code, 0)
    if draws.key_law == SAME_KEY:
        for k in range(n):
            state.keys[k] = state.done[k].key
    elif draws.key_law == UNIFORM_KEYS:
        keys, stream = draws.keys, draws.key_stream
        for k in range(n):
            state.keys[k] = min(keys - 1, np.int64(uniform(state.ids[k], stream) * keys))
    else:
        for k in range(n):
            state.keys[k] = output_key(draws, state.cumulative, state.ids[k], 0)


@kernel
def remainder(x: Any, divisor: Any, factor: Any, shift: Any) -> Any:
    """x modulo the divisor by a multiplication (Granlund and Montgomery 1994, figure 4.1), all unsigned.

    `factor` and `shift` are those of `reciprocal`.
    """
    upper = _upper(x, factor)
    more = np.uint64(min(1, shift))
    quotient = (upper + ((x - upper) >> more)) >> (np.uint64(shift) - more)
    return x - quotient * np.uint64(divisor)


def reciprocal(divisor: int) -> tuple[int, int]:
    """(factor, shift) of a divisor from 1 to 2^63."""
    shift = (divisor - 1).bit_length()
    return (2**64 * (2**shift - divisor)) // divisor + 1, shift
