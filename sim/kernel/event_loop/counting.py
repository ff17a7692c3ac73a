"""What each partition does, counted for the statistics of the control plane."""

from __future__ import annotations

from typing import Any

from sim.kernel.event_loop.codes import SNAPSHOT, TUPLE
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def count_arrival(s: State, v: int) -> None:
    """A tuple has come to its task over its channel."""
    e = s.visits[v]
    u, origin = s.partitions[e.partition], s.tasks[e.origin]
    u.came += 1
    if origin.host != s.tasks[e.task].host:
        u.received += s.operators[origin.operator].bytes


@kernel
def count_work(s: State, v: Any, ns: Any) -> None:
    """So much work was done on a tuple, or on writing a snapshot; other work is nobody's."""
    e = s.visits[v]
    if e.kind == TUPLE:
        s.partitions[e.partition].cpu += ns
    elif e.kind == SNAPSHOT:
        s.partitions[s.transfers[e.id].partition].cpu += ns
