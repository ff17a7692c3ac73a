"""Effects of a completed service: rows, counts for checkpoints, and outputs on their way to the next operators.

There are three ways for outputs, from the narrowest to the widest: `straight` (one output of each tuple, over one edge,
to one partition), a batch edge by edge (no link with a bandwidth, one second), and one by one in the order of the event
loop. All three make the same tuples with the same ids and instants, and in a box those of one sender stand in the
order of sending, which is all that `order.gather` asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import (
    BROADCAST,
    FIXED,
    FORWARD,
    GROUPED,
    KEYED,
    NONE,
    PER_KEY,
    PER_TUPLE,
    RECENT,
    SHUFFLE,
)
from sim.kernel.scan.entities import SIDE
from sim.kernel.scan.histograms import bin_arrivals, bin_delivered, bin_passed, bin_served
from sim.kernel.scan.kept import count_applied, count_sent
from sim.kernel.scan.placing import task_for
from sim.kernel.scan.recent import recents_fit, remember
from sim.kernel.scan.rows import add_arrivals, add_done
from sim.kernel.scan.straight import is_straight, leads_one_way, make_outputs, send_straight, take_arrivals
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import child_id, output_count, output_key, shuffle_target, source_id, takes
from sim.kernel.tools.histograms import PAGE
from sim.kernel.tools.pointer import State

# Messages of the current operator and second, and rows of messages.
SENT = np.dtype([("local", "i8"), ("data", "i8"), ("second", "i8"), ("rows", "i8")], align=True)


MESSAGES = np.dtype([("second", "i8"), ("local", "i8"), ("data", "i8"), ("local_bytes", "i8"), ("data_bytes", "i8")])


_SECOND = 1_000_000_000


@kernel
def room(state: State, operator: int) -> int:
    """Return how many more services of the operator there is room for: rows and outputs."""
    stage = state.stages[operator]
    found = (
        state.pages.shape[0] // PAGE - state.used[0]
        if state.options.keeps_histograms
        else state.visit_rows.shape[0] - state.rows.visits
    )
    together = 0
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        b = state.boxes[state.edges[k].down]
        together += state.fan[k]
        if state.fan[k] > 0:
            found = min(found, (b.room - b.n) // state.fan[k])
    if stage.limited and together > 0:
        b = state.boxes[state.options.operators]
        found = min(found, (b.room - b.n) // together)
    return found


@kernel
def link_room(state: State, operator: int) -> int:
    """Return how many tuples the links may bring on their way, whatever operator they are for."""
    stage = state.stages[operator]
    found = 1 << 62
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        b = state.boxes[state.edges[k].down]
        found = min(found, b.room - b.n)
    return found


@kernel
def post(state: State, place: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int) -> None:
    """Put a tuple among those on their way to an operator."""
    b = state.boxes[place]
    e = state.box[b.first + b.n]
    b.n += 1
    e.at = at
    e.id = tuple_id
    e.created = created
    e.key = key
    e.partition = partition
    e.origin = origin


@kernel
def send(
    state: State, down: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int, sender: int
) -> None:
    """Send a tuple to a partition: at once inside a host, over the link of the sender's host otherwise."""
    b = state.boxes[down]
    b.sent += 1  # number and sum of ids are compared with what was applied, in the audit at the end
    b.sum += tuple_id
    if state.saves:
        count_sent(state, sender, at)
    by = sender if state.saves else origin
    if state.task_host[task_for(state, partition, created)] == state.task_host[origin]:
        state.sent.local += 1
        post(state, down, at, tuple_id, created, key, partition, by)
    else:
        state.sent.data += 1
        if state.servers[origin].limited:  # the link says later when it leaves: the last box is in front of the links
            post(state, state.options.operators, at, tuple_id, created, key, partition, origin)
        else:
            post(state, down, at + state.options.latency, tuple_id, created, key, partition, by)


@kernel
def emit(
    state: State, operator: int, origin: Any, partition: int, at: int, tuple_id: int, created: int, key: int
) -> None:
    """An output of a partition, over every edge of its operator."""
    stage = state.stages[operator]
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        edge = state.edges[k]
        if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
            continue
        first, down = edge.first_partition, edge.down
        if edge.kind == KEYED:
            send(state, down, at, tuple_id, created, key, first + state.key_tables[edge.table + key], origin, partition)
        elif edge.kind == SHUFFLE:
            target = first + shuffle_target(tuple_id, edge.code, edge.partitions)
            send(state, down, at, tuple_id, created, key, target, origin, partition)
        elif edge.kind == GROUPED:
            send(state, down, at, tuple_id, created, key, first + key, origin, partition)
        elif edge.kind == FORWARD:
            send(
                state,
                down,
                at,
                tuple_id,
                created,
                key,
                first + state.partition_index[partition] % edge.partitions,
                origin,
                partition,
            )
        elif edge.kind == BROADCAST:
            for target in range(edge.partitions):
                copy = child_id(tuple_id, edge.copy_code, target)
                send(state, down, at, copy, created, key, first + target, origin, partition)


@kernel
def count_second(state: State, operator: int, at: int) -> None:
    """Messages are counted for the second of this instant from now on."""
    if state.sent.local > 0 or state.sent.data > 0:
        row = state.messages[state.sent.second // _SECOND - state.span.begin // _SECOND]
        size = state.operators[operator].bytes
        row.second = state.sent.second
        row.local += state.sent.local
        row.data += state.sent.data
        row.local_bytes += state.sent.local * size
        row.data_bytes += state.sent.data * size
        state.sent.local = 0
        state.sent.data = 0
    state.sent.second = at // _SECOND * _SECOND


@kernel
def sum_up_messages(state: State) -> None:
    """Add the messages of the span to the rows of the seconds in which they were sent."""
    for k in range((state.span.end - 1) // _SECOND - state.span.begin // _SECOND + 1):
        one = state.messages[k]
        if one.local > 0 or one.data > 0:
            if state.sent.rows == 0 or state.message_rows[state.sent.rows - 1].second != one.second:
                state.message_rows[state.sent.rows] = one
                state.sent.rows += 1
            else:
                row = state.message_rows[state.sent.rows - 1]
                row.local += one.local
                row.data += one.data
                row.local_bytes += one.local_bytes
                row.data_bytes += one.data_bytes
            one.local = 0
            one.data = 0
            one.local_bytes = 0
            one.data_bytes = 0


@kernel
def complete(state: State, operator: int) -> bool:
    """Effects and outputs of all services that are done; False if there is no room for them yet."""
    op = state.operators[operator]
    n = state.progress.done
    if n == 0:
        return True
    if room(state, operator) < n:  # before anything is written: then the batch is done as a whole, or not at all
        state.requests.need = n
        return False
    if state.watermarks and state.options.counts_states:
        if not states_fit(state, operator, n):
            return False
        _count_timed(state, operator, n)
    total = np.uint64(0)
    for k in range(n):
        total += state.done[k].id
    if state.saves or (
        state.options.counts_states and not state.watermarks and _grows(op.state_model, op.state_change)
    ):
        for k in range(n):
            e = state.done[k]
            count_applied(state, e.partition, e.key, e.end)
    _keep(state, operator, n)
    op.applied += n
    op.sum += total
    if op.edges > 0 and not (state.watermarks and op.windowed):
        whole = state.draws[operator].whole + (state.draws[operator].rest > 0)
        if within_a_second(state) and is_straight(state, operator):
            _count_second_of_span(state, operator)
            make_outputs(state, operator, n)
            send_straight(state, operator, n)
        elif within_a_second(state) and not state.stages[operator].limited and whole * n <= state.outputs.shape[0]:
            _send_outputs(state, operator, _make_outputs(state, operator, n))
        else:
            _emit_one_by_one(state, operator, n)
    state.progress.done = 0
    return True


@kernel
def states_fit(state: State, operator: int, n: int) -> bool:
    """Return whether so many more tuples find room in the states of the operator; asks for it where not."""
    if state.options.counts_states and state.operators[operator].state_model == RECENT:
        return recents_fit(state, n)
    return True


@kernel
def _count_timed(state: State, operator: int, n: int) -> None:
    """Count what is done for the states of the partitions, where there are watermarks."""
    op = state.operators[operator]
    recent, joins = op.state_model == RECENT, op.joins != NONE
    if op.windowed or recent or _grows(op.state_model, op.state_change):
        for k in range(n):
            e = state.done[k]
            if recent:
                remember(state, e.partition, e.created, state.saved[e.partition].applied, op.state_length)
            key = e.key & ((1 << SIDE) - 1) if joins else e.key
            count_applied(state, e.partition, key, e.end)


@kernel
def _grows(state_model: int, change: float) -> bool:
    """Return whether the size of a state of this model, or of its changes, depends on what was applied."""
    return state_model in (PER_KEY, PER_TUPLE) or (state_model == FIXED and change >= 0.0)


@kernel
def _keep(state: State, operator: int, n: int) -> None:
    """Record all that is done."""
    op = state.operators[operator]
    if not state.options.keeps_histograms:
        add_done(state, operator, n)
        return
    if op.is_sink or not op.has_service:
        for k in range(n):
            state.times[k] = state.done[k].end
            state.spare[k] = state.done[k].created
    if op.has_service:
        bin_served(state, operator, n)
    else:
        bin_passed(state, operator, n)
    if op.is_sink:
        bin_delivered(state, operator, n)


@kernel
def has_room_in_histograms(state: State, n: int) -> bool:
    """Return whether so many deliveries find pages."""
    if state.pages.shape[0] // PAGE - state.used[0] < n:
        state.requests.need = n
        return False
    return True


@kernel
def absorb(state: State, operator: int) -> bool:
    """Deliver what comes to a sink in the span and takes no time, in no order; False if there is no room.

    Histograms and sums do not depend on the order: nothing is sorted.
    """
    b, op = state.boxes[operator], state.operators[operator]
    if state.times.shape[0] < b.n or not has_room_in_histograms(state, b.n):
        return False
    due, kept = 0, 0
    total = np.uint64(0)
    for k in range(b.n):
        e = state.box[b.first + k]
        if e.at < state.span.end:
            state.times[due] = e.at
            state.spare[due] = e.created
            due += 1
            total += e.id
        else:
            if kept < k:
                state.box[b.first + kept] = e
            kept += 1
    b.n = kept
    if due > 0:
        bin_passed(state, operator, due)
        bin_delivered(state, operator, due)
    op.applied += due
    op.sum += total
    state.span.most = max(state.span.most, due)
    return True


@kernel
def within_a_second(state: State) -> bool:
    """Return whether all messages of the span are sent in one second."""
    return state.span.begin // _SECOND == (state.span.end - 1) // _SECOND


@kernel
def _emit_one_by_one(state: State, operator: int, n: int) -> None:
    """Send the outputs in the order in which the event loop does."""
    op, draws = state.operators[operator], state.draws[operator]
    for k in range(n):
        e = state.done[k]
        if e.end < state.sent.second or e.end >= state.sent.second + _SECOND:
            count_second(state, operator, e.end)
        for index in range(output_count(draws, e.id)):
            child = child_id(e.id, op.code, index)
            emit(
                state,
                operator,
                e.origin,
                e.partition,
                e.end,
                child,
                e.created,
                output_key(draws, state.cumulative, child, e.key),
            )


@kernel
def _make_outputs(state: State, operator: int, n: int) -> int:
    """Return the outputs of a batch before they have a receiver; how many."""
    op, draws = state.operators[operator], state.draws[operator]
    code = op.code
    made = 0
    for k in range(n):
        e = state.done[k]
        for index in range(output_count(draws, e.id)):
            child = child_id(e.id, code, index)
            out = state.outputs[made]
            made += 1
            out.at = e.end
            out.id = child
            out.created = e.created
            out.key = output_key(draws, state.cumulative, child, e.key)
            out.partition = e.partition
            out.origin = e.origin
    return made


@kernel
def _send_outputs(state: State, operator: int, n: int) -> None:
    """Send the first `outputs` over each edge, all in one second and over links without a bandwidth."""
    stage = state.stages[operator]
    _count_second_of_span(state, operator)
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        send_over(state, k, n)


@kernel
def _count_second_of_span(state: State, operator: int) -> None:
    if state.span.begin < state.sent.second or state.span.begin >= state.sent.second + _SECOND:
        count_second(state, operator, state.span.begin)


@kernel
def send_over(state: State, number: int, n: int) -> None:
    """Send the first `outputs` over an edge."""
    edge = state.edges[number]
    b = state.boxes[edge.down]
    place = b.first + b.n
    began = place
    total = np.uint64(0)
    kind, first, partitions, code = edge.kind, edge.first_partition, edge.partitions, edge.code
    table, share, takes_code, copy_code = edge.table, edge.takes, edge.takes_code, edge.copy_code
    latency = state.options.latency
    local = 0
    for k in range(n):
        out = state.outputs[k]
        if share < 1.0 and not takes(out.id, takes_code, share):
            continue
        if kind == KEYED:
            partition = first + state.key_tables[table + out.key]
        elif kind == SHUFFLE:
            partition = first + shuffle_target(out.id, code, partitions)
        elif kind == GROUPED:
            partition = first + out.key
        else:
            partition = first + state.partition_index[out.partition] % partitions
        host = state.task_host[out.origin]
        for target in range(partitions if kind == BROADCAST else 1):
            tuple_id = out.id
            if kind == BROADCAST:
                partition = first + target
                tuple_id = child_id(out.id, copy_code, target)
            same = state.task_host[task_for(state, partition, out.created)] == host
            local += same
            e = state.box[place]
            place += 1
            e.at = out.at if same else out.at + latency
            e.id = tuple_id
            e.created = out.created
            e.key = out.key
            e.partition = partition
            e.origin = out.partition if state.saves else out.origin
            if state.saves:
                count_sent(state, out.partition, out.at)
            total += tuple_id
    sent = place - began
    b.n += sent
    b.sent += sent
    b.sum += total
    state.sent.local += local
    state.sent.data += sent - local


@kernel
def send_arrivals(state: State, operator: int, source: int, upto: int) -> None:
    """Emit arrivals at a source up to this sequence number, which there is room for."""
    b = state.sources[source]
    partition = b.partition
    task = np.int64(state.partition_task[partition])
    place = b.offset - b.base
    fast = within_a_second(state) and not state.stages[operator].limited
    made = 0
    if state.options.keeps_histograms:
        bin_arrivals(state, operator, place + b.emitted, upto - b.emitted)
    else:
        add_arrivals(state, operator, task, place + b.emitted, upto - b.emitted)
    if fast and leads_one_way(state, operator):
        _count_second_of_span(state, operator)
        take_arrivals(state, source, upto)
        send_straight(state, operator, upto - b.emitted)
        b.emitted = b.arrived = upto
        return
    for k in range(b.emitted, upto):
        arrival = state.arrivals[place + k]
        if fast:
            out = state.outputs[made]
            made += 1
            out.at = arrival.time
            out.id = source_id(b.code, k)
            out.created = arrival.time
            out.key = arrival.key
            out.partition = partition
            out.origin = task
        else:
            if arrival.time < state.sent.second or arrival.time >= state.sent.second + _SECOND:
                count_second(state, operator, arrival.time)
            emit(state, operator, task, partition, arrival.time, source_id(b.code, k), arrival.time, arrival.key)
    if fast:
        _send_outputs(state, operator, made)
    b.emitted = b.arrived = upto
