"""What a completed service sets off in the scan: rows, checkpoints, and outputs on their way to the next operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.codes import BROADCAST, FORWARD, GROUPED, KEYED, SHUFFLE
from sim.kernel.scan.histograms import bin_arrivals, bin_delivered, bin_passed, bin_served
from sim.kernel.scan.kept import count_applied, count_sent
from sim.kernel.scan.rows import add_arrivals, add_done
from sim.kernel.scan.straight import is_straight, leads_one_way, make_outputs, send_straight, take_arrivals
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.draws import child_id, output_count, output_key, shuffle_target, source_id, takes
from sim.kernel.tools.histograms import PAGE
from sim.kernel.tools.pointer import State

# Messages of the current operator and second, and rows of messages.
SENT = np.dtype([("local", "i8"), ("data", "i8"), ("second", "i8"), ("rows", "i8")], align=True)


MESSAGES = np.dtype([("second", "i8"), ("local", "i8"), ("data", "i8"), ("local_bytes", "i8"), ("data_bytes", "i8")])


_SECOND = 1_000_000_000


@kernel
def room(s: State, operator: int) -> int:
    """How many more services of the operator there is room for: rows and outputs."""
    stage = s.stages[operator]
    found = (
        s.pages.shape[0] // PAGE - s.used[0] if s.options.keeps_histograms else s.visit_rows.shape[0] - s.rows.visits
    )
    together = 0
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        b = s.boxes[s.edges[k].down]
        together += s.fan[k]
        if s.fan[k] > 0:
            found = min(found, (b.room - b.n) // s.fan[k])
    if stage.limited and together > 0:
        b = s.boxes[s.options.operators]
        found = min(found, (b.room - b.n) // together)
    return found


@kernel
def link_room(s: State, operator: int) -> int:
    """How many tuples the links may bring on their way, whatever operator they are for."""
    stage = s.stages[operator]
    found = 1 << 62
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        b = s.boxes[s.edges[k].down]
        found = min(found, b.room - b.n)
    return found


@kernel
def post(s: State, place: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int) -> None:
    """Put a tuple among those on their way to an operator."""
    b = s.boxes[place]
    e = s.box[b.first + b.n]
    b.n += 1
    e.at = at
    e.id = tuple_id
    e.created = created
    e.key = key
    e.partition = partition
    e.origin = origin


@kernel
def send(
    s: State, down: int, at: int, tuple_id: int, created: int, key: int, partition: int, origin: int, sender: int
) -> None:
    """Send a tuple to a partition: at once inside a host, over the link of the sender's host otherwise."""
    b = s.boxes[down]
    b.sent += 1
    b.sum += tuple_id
    if s.saves:
        count_sent(s, sender, at)
    by = sender if s.saves else origin
    if s.task_host[s.partition_task[partition]] == s.task_host[origin]:
        s.sent.local += 1
        post(s, down, at, tuple_id, created, key, partition, by)
    else:
        s.sent.data += 1
        if s.servers[origin].limited:
            post(s, s.options.operators, at, tuple_id, created, key, partition, origin)
        else:
            post(s, down, at + s.options.latency, tuple_id, created, key, partition, by)


@kernel
def emit(s: State, operator: int, origin: Any, partition: int, at: int, tuple_id: int, created: int, key: int) -> None:
    """An output of a partition, over every edge of its operator."""
    stage = s.stages[operator]
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        edge = s.edges[k]
        if edge.takes < 1.0 and not takes(tuple_id, edge.takes_code, edge.takes):
            continue
        first, down = edge.first_partition, edge.down
        if edge.kind == KEYED:
            send(s, down, at, tuple_id, created, key, first + s.key_tables[edge.table + key], origin, partition)
        elif edge.kind == SHUFFLE:
            target = first + shuffle_target(tuple_id, edge.code, edge.partitions)
            send(s, down, at, tuple_id, created, key, target, origin, partition)
        elif edge.kind == GROUPED:
            send(s, down, at, tuple_id, created, key, first + key, origin, partition)
        elif edge.kind == FORWARD:
            send(
                s,
                down,
                at,
                tuple_id,
                created,
                key,
                first + s.partition_index[partition] % edge.partitions,
                origin,
                partition,
            )
        elif edge.kind == BROADCAST:
            for target in range(edge.partitions):
                copy = child_id(tuple_id, edge.copy_code, target)
                send(s, down, at, copy, created, key, first + target, origin, partition)


@kernel
def count_second(s: State, operator: int, at: int) -> None:
    """Messages are counted for the second of this instant from now on."""
    if s.sent.local > 0 or s.sent.data > 0:
        row = s.messages[s.sent.second // _SECOND - s.span.begin // _SECOND]
        size = s.operators[operator].bytes
        row.second = s.sent.second
        row.local += s.sent.local
        row.data += s.sent.data
        row.local_bytes += s.sent.local * size
        row.data_bytes += s.sent.data * size
        s.sent.local = 0
        s.sent.data = 0
    s.sent.second = at // _SECOND * _SECOND


@kernel
def sum_up_messages(s: State) -> None:
    """Add the messages of the span to the rows of the seconds in which they were sent."""
    for k in range((s.span.end - 1) // _SECOND - s.span.begin // _SECOND + 1):
        one = s.messages[k]
        if one.local > 0 or one.data > 0:
            if s.sent.rows == 0 or s.message_rows[s.sent.rows - 1].second != one.second:
                s.message_rows[s.sent.rows] = one
                s.sent.rows += 1
            else:
                row = s.message_rows[s.sent.rows - 1]
                row.local += one.local
                row.data += one.data
                row.local_bytes += one.local_bytes
                row.data_bytes += one.data_bytes
            one.local = 0
            one.data = 0
            one.local_bytes = 0
            one.data_bytes = 0


@kernel
def complete(s: State, operator: int) -> bool:
    """Effects and outputs of all services that are done; False if there is no room for them yet."""
    op = s.operators[operator]
    n = s.progress.done
    if n == 0:
        return True
    if room(s, operator) < n:
        s.requests.need = n
        return False
    total = np.uint64(0)
    for k in range(n):
        total += s.done[k].id
    if s.saves:
        for k in range(n):
            e = s.done[k]
            count_applied(s, e.partition, e.key, e.end)
    _keep(s, operator, n)
    op.applied += n
    op.sum += total
    if op.edges > 0:
        whole = s.draws[operator].whole + (s.draws[operator].rest > 0)
        if within_a_second(s) and is_straight(s, operator):
            _count_second_of_span(s, operator)
            make_outputs(s, operator, n)
            send_straight(s, operator, n)
        elif within_a_second(s) and not s.stages[operator].limited and whole * n <= s.outputs.shape[0]:
            _send_outputs(s, operator, _make_outputs(s, operator, n))
        else:
            _emit_one_by_one(s, operator, n)
    s.progress.done = 0
    return True


@kernel
def _keep(s: State, operator: int, n: int) -> None:
    """What the recording keeps of all that is done."""
    op = s.operators[operator]
    if not s.options.keeps_histograms:
        add_done(s, operator, n)
        return
    if op.is_sink or not op.has_service:
        for k in range(n):
            s.times[k] = s.done[k].end
            s.spare[k] = s.done[k].created
    if op.has_service:
        bin_served(s, operator, n)
    else:
        bin_passed(s, operator, n)
    if op.is_sink:
        bin_delivered(s, operator, n)


@kernel
def has_room_in_histograms(s: State, n: int) -> bool:
    """Whether so many deliveries find pages."""
    if s.pages.shape[0] // PAGE - s.used[0] < n:
        s.requests.need = n
        return False
    return True


@kernel
def absorb(s: State, operator: int) -> bool:
    """Deliver what comes to a sink in the span and takes no time, in no order; False if there is no room."""
    b, op = s.boxes[operator], s.operators[operator]
    if s.times.shape[0] < b.n or not has_room_in_histograms(s, b.n):
        return False
    due, kept = 0, 0
    total = np.uint64(0)
    for k in range(b.n):
        e = s.box[b.first + k]
        if e.at < s.span.end:
            s.times[due] = e.at
            s.spare[due] = e.created
            due += 1
            total += e.id
        else:
            if kept < k:
                s.box[b.first + kept] = e
            kept += 1
    b.n = kept
    if due > 0:
        bin_passed(s, operator, due)
        bin_delivered(s, operator, due)
    op.applied += due
    op.sum += total
    s.span.most = max(s.span.most, due)
    return True


@kernel
def within_a_second(s: State) -> bool:
    """Whether all messages of the span are sent in one second."""
    return s.span.begin // _SECOND == (s.span.end - 1) // _SECOND


@kernel
def _emit_one_by_one(s: State, operator: int, n: int) -> None:
    """Send the outputs in the order in which the event loop does."""
    op, draws = s.operators[operator], s.draws[operator]
    for k in range(n):
        e = s.done[k]
        if e.end < s.sent.second or e.end >= s.sent.second + _SECOND:
            count_second(s, operator, e.end)
        for index in range(output_count(draws, e.id)):
            child = child_id(e.id, op.code, index)
            emit(
                s,
                operator,
                e.origin,
                e.partition,
                e.end,
                child,
                e.created,
                output_key(draws, s.cumulative, child, e.key),
            )


@kernel
def _make_outputs(s: State, operator: int, n: int) -> int:
    """The outputs of a batch before they have a receiver; how many."""
    op, draws = s.operators[operator], s.draws[operator]
    code = op.code
    made = 0
    for k in range(n):
        e = s.done[k]
        for index in range(output_count(draws, e.id)):
            child = child_id(e.id, code, index)
            out = s.outputs[made]
            made += 1
            out.at = e.end
            out.id = child
            out.created = e.created
            out.key = output_key(draws, s.cumulative, child, e.key)
            out.partition = e.partition
            out.origin = e.origin
    return made


@kernel
def _send_outputs(s: State, operator: int, n: int) -> None:
    """Send the first `outputs` over each edge, all in one second and over links without a bandwidth."""
    stage = s.stages[operator]
    _count_second_of_span(s, operator)
    for k in range(stage.first_edge, stage.first_edge + stage.edges):
        _send_over(s, k, n)


@kernel
def _count_second_of_span(s: State, operator: int) -> None:
    if s.span.begin < s.sent.second or s.span.begin >= s.sent.second + _SECOND:
        count_second(s, operator, s.span.begin)


@kernel
def _send_over(s: State, number: int, n: int) -> None:
    """Send the first `outputs` over an edge."""
    edge = s.edges[number]
    b = s.boxes[edge.down]
    place = b.first + b.n
    began = place
    total = np.uint64(0)
    kind, first, partitions, code = edge.kind, edge.first_partition, edge.partitions, edge.code
    table, share, takes_code, copy_code = edge.table, edge.takes, edge.takes_code, edge.copy_code
    latency = s.options.latency
    local = 0
    for k in range(n):
        out = s.outputs[k]
        if share < 1.0 and not takes(out.id, takes_code, share):
            continue
        if kind == KEYED:
            partition = first + s.key_tables[table + out.key]
        elif kind == SHUFFLE:
            partition = first + shuffle_target(out.id, code, partitions)
        elif kind == GROUPED:
            partition = first + out.key
        else:
            partition = first + s.partition_index[out.partition] % partitions
        host = s.task_host[out.origin]
        for target in range(partitions if kind == BROADCAST else 1):
            tuple_id = out.id
            if kind == BROADCAST:
                partition = first + target
                tuple_id = child_id(out.id, copy_code, target)
            same = s.task_host[s.partition_task[partition]] == host
            local += same
            e = s.box[place]
            place += 1
            e.at = out.at if same else out.at + latency
            e.id = tuple_id
            e.created = out.created
            e.key = out.key
            e.partition = partition
            e.origin = out.partition if s.saves else out.origin
            if s.saves:
                count_sent(s, out.partition, out.at)
            total += tuple_id
    sent = place - began
    b.n += sent
    b.sent += sent
    b.sum += total
    s.sent.local += local
    s.sent.data += sent - local


@kernel
def send_arrivals(s: State, operator: int, source: int, upto: int) -> None:
    """Emit arrivals at a source up to this sequence number, which there is room for."""
    b = s.sources[source]
    partition = b.partition
    task = np.int64(s.partition_task[partition])
    place = b.offset - b.base
    fast = within_a_second(s) and not s.stages[operator].limited
    made = 0
    if s.options.keeps_histograms:
        bin_arrivals(s, operator, place + b.emitted, upto - b.emitted)
    else:
        add_arrivals(s, operator, task, place + b.emitted, upto - b.emitted)
    if fast and leads_one_way(s, operator):
        _count_second_of_span(s, operator)
        take_arrivals(s, source, upto)
        send_straight(s, operator, upto - b.emitted)
        b.emitted = b.arrived = upto
        return
    for k in range(b.emitted, upto):
        arrival = s.arrivals[place + k]
        if fast:
            out = s.outputs[made]
            made += 1
            out.at = arrival.time
            out.id = source_id(b.code, k)
            out.created = arrival.time
            out.key = arrival.key
            out.partition = partition
            out.origin = task
        else:
            if arrival.time < s.sent.second or arrival.time >= s.sent.second + _SECOND:
                count_second(s, operator, arrival.time)
            emit(s, operator, task, partition, arrival.time, source_id(b.code, k), arrival.time, arrival.key)
    if fast:
        _send_outputs(s, operator, made)
    b.emitted = b.arrived = upto
