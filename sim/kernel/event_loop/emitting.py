"""Emission of the arrivals of a source, and of the outputs of a timer."""

from __future__ import annotations

from sim.kernel.event_loop.channels import emit, send_output
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.rows import record_visit
from sim.kernel.event_loop.windows import window_id
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.draws import output_key, source_id
from sim.kernel.tools.pointer import State


@inlined
def emit_one(state: State, source: int, sequence: int) -> None:
    """Emit the tuple of this sequence number, which is created now, and all before it have been emitted."""
    b = state.sources[source]
    arrival = state.arrivals[b.offset + sequence - b.base]
    b.emitted = sequence + 1
    record_visit(
        state,
        state.partitions[b.partition].operator,
        state.partitions[b.partition].task,
        arrival.time,
        arrival.time,
        arrival.time,
    )
    send_output(state, b.partition, source_id(b.code, sequence), arrival.time, arrival.key)


@noinline
def emit_arrivals(state: State, source: int, upto: int) -> None:
    """Emit what arrived up to this sequence number and waits, until the task is paused or an output finds no room."""
    b = state.sources[source]
    partition = b.partition
    task, operator = state.partitions[partition].task, state.partitions[partition].operator
    if state.extended and state.tasks[task].paused_until != 0:
        return
    for k in range(b.emitted, upto):
        if state.extended and state.tasks[task].unsent_head != NONE:
            return
        arrival = state.arrivals[b.offset + k - b.base]
        b.emitted = k + 1
        record_visit(state, operator, task, arrival.time, state.clock.now, state.clock.now)
        emit(state, partition, source_id(b.code, k), arrival.time, arrival.key)


@kernel
def emit_ticks(state: State, partition: int, upto: int) -> None:
    """Emit what a timer owes up to this instant, each created at its own instant, unless the task is paused."""
    u = state.partitions[partition]
    if state.tasks[u.task].paused_until != 0:
        return
    op, draws = state.operators[u.operator], state.draws[u.operator]
    while u.ticks < upto:
        u.ticks += 1
        made = window_id(op.timer_code, u.index, 0, u.ticks)
        emit(state, partition, made, u.ticks * op.timer, output_key(draws, state.cumulative, made, 0))
