"""Service times of tuples that are on their way: drawn together, several in a loop at once.

A draw is a long chain of operations, each of which waits for the one before; of several tuples they are done side by
side. The time is needed when a service begins. So arrivals over links wait in their ring without one, and when the
first of them comes the next few get theirs; what does not go through that ring is drawn when it is sent.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.events import RING
from sim.kernel.tools.compiling import inlined, kernel, noinline
from sim.kernel.tools.draws import EXPONENTIAL, uniform
from sim.kernel.tools.exponential import exponential_ns
from sim.kernel.tools.pointer import State

AHEAD = np.dtype([("drawn", "i8")])  # of the arrivals in `far` so many, from the first on, have their service time


TOGETHER = 8  # draws: one vector of the processor
_NS = 1e9


@inlined
def take_drawn(s: State) -> None:
    """The first arrival in `far` comes now: its service time must be drawn, and with it those behind it."""
    if s.ahead.drawn == 0:
        draw_ahead(s)
    s.ahead.drawn -= 1


@noinline
def draw_ahead(s: State) -> None:
    """Draw the service times of the first arrivals in `far`, where they are soon drawn."""
    n = min(TOGETHER, s.queue.far_count)
    for k in range(n):
        e = s.visits[s.far[(s.queue.far_first + k) & (RING - 1)].ref]
        draws = s.draws[s.partitions[e.partition].operator]
        s.ahead_ids[k] = e.id + draws.stream
        s.ahead_mean[k] = draws.a * _NS if draws.law == EXPONENTIAL else 0.0
    _draw(s)
    for k in range(n):
        if s.ahead_mean[k] > 0.0:
            s.visits[s.far[(s.queue.far_first + k) & (RING - 1)].ref].service = s.ahead_ns[k]
    s.ahead.drawn = n


@kernel
def _draw(s: State) -> None:
    """All places at once, also where nothing is to be drawn: what is left over would be done one by one."""
    for k in range(s.ahead_ids.shape[0]):
        s.ahead_ns[k] = exponential_ns(s.ahead_mean[k], uniform(s.ahead_ids[k], 0))


@noinline
def draw_now(s: State, v: int) -> None:
    """Draw the service time of a tuple that is sent, where it is soon drawn."""
    e = s.visits[v]
    draws = s.draws[s.partitions[e.partition].operator]
    if draws.law == EXPONENTIAL:
        e.service = exponential_ns(draws.a * _NS, uniform(e.id, draws.stream))
