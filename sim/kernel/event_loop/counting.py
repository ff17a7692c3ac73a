"""Counters of each partition's tuples, work and bytes, for the statistics of the control plane."""

from __future__ import annotations

from typing import Any

from sim.kernel.event_loop.codes import SNAPSHOT, TUPLE
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def count_arrival(state: State, visit: int) -> None:
    """A tuple has come to its task over its channel."""
    e = state.visits[visit]
    u, origin = state.partitions[e.partition], state.tasks[e.origin]
    u.came += 1
    if origin.host != state.tasks[e.task].host:
        u.received += state.operators[origin.operator].bytes


@kernel
def count_work(state: State, visit: Any, ns: Any) -> None:
    """So much work was done on a tuple, or on writing a snapshot; other work is nobody's."""
    e = state.visits[visit]
    if e.kind == TUPLE:
        state.partitions[e.partition].cpu += ns
    elif e.kind == SNAPSHOT:
        state.partitions[state.transfers[e.id].partition].cpu += ns
