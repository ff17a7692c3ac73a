"""What a source emits when it may."""

from __future__ import annotations

from sim.kernel.event_loop.channels import emit, send_output
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.rows import record_visit
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools.compiling import inlined, kernel, noinline
from sim.kernel.tools.draws import output_key, source_id
from sim.kernel.tools.pointer import State


@inlined
def emit_one(s: State, source: int, k: int) -> None:
    """Emit the tuple of this sequence number, which is created now, and all before it have been emitted."""
    b = s.sources[source]
    arrival = s.arrivals[b.offset + k - b.base]
    b.emitted = k + 1
    record_visit(
        s, s.partitions[b.partition].operator, s.partitions[b.partition].task, arrival.time, arrival.time, arrival.time
    )
    send_output(s, b.partition, source_id(b.code, k), arrival.time, arrival.key)


@noinline
def emit_arrivals(s: State, source: int, upto: int) -> None:
    """Emit what arrived up to this sequence number and waits, until the task is paused or an output finds no room."""
    b = s.sources[source]
    partition = b.partition
    task, operator = s.partitions[partition].task, s.partitions[partition].operator
    if s.extended and s.tasks[task].paused_until != 0:
        return
    for k in range(b.emitted, upto):
        if s.extended and s.tasks[task].unsent_head != NONE:
            return
        arrival = s.arrivals[b.offset + k - b.base]
        b.emitted = k + 1
        record_visit(s, operator, task, arrival.time, s.clock.now, s.clock.now)
        emit(s, partition, source_id(b.code, k), arrival.time, arrival.key)


@kernel
def emit_ticks(s: State, partition: int, upto: int) -> None:
    """Emit what a timer owes up to this instant, each created at its own instant, unless the task is paused."""
    u = s.partitions[partition]
    if s.tasks[u.task].paused_until != 0:
        return
    op, draws = s.operators[u.operator], s.draws[u.operator]
    while u.ticks < upto:
        u.ticks += 1
        made = window_id(op.timer_code, u.index, 0, u.ticks)
        emit(s, partition, made, u.ticks * op.timer, output_key(draws, s.cumulative, made, 0))
