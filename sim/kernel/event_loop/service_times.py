"""Service times of tuples that are on their way: drawn together, several in a loop at once.

A draw is a long chain of operations, each of which waits for the one before; of several tuples they are done side by
side. The time is needed when a service begins. So arrivals over links wait in their ring without one, and when the
first of them comes the next few get theirs; what does not go through that ring is drawn when it is sent.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.events import RING
from sim.kernel.tools.cache import inlined, kernel, noinline
from sim.kernel.tools.draws import EXPONENTIAL, exponential_ns, uniform
from sim.kernel.tools.pointer import State
from sim.kernel.tools.quantiles import quantile_ns

AHEAD = np.dtype([("drawn", "i8")])  # of the arrivals in `far` so many, from the first on, have their service time


TOGETHER = 8  # draws: one vector of the processor
_NS = 1e9


@inlined
def take_drawn(state: State) -> None:
    """The first arrival in `far` comes now: its service time must be drawn, and with it those behind it."""
    if state.ahead.drawn == 0:
        draw_ahead(state)
    state.ahead.drawn -= 1


@noinline
def draw_ahead(state: State) -> None:
    """Draw the service times of the first arrivals in `far`, where they are soon drawn."""
    n = min(TOGETHER, state.queue.far_count)
    for k in range(n):
        e = state.visits[state.far[(state.queue.far_first + k) & (RING - 1)].ref]
        draws = state.draws[state.partitions[e.partition].operator]
        state.ahead_ids[k] = e.id + draws.stream
        state.ahead_mean[k] = draws.a * _NS if draws.law == EXPONENTIAL else 0.0
    _draw(state)
    for k in range(n):
        visit = state.far[(state.queue.far_first + k) & (RING - 1)].ref
        if state.ahead_mean[k] > 0.0:
            state.visits[visit].service = state.ahead_ns[k]
        else:
            draw_now(state, visit)
    state.ahead.drawn = n


@kernel
def _draw(state: State) -> None:
    """All places at once, also where nothing is to be drawn: what is left over would be done one by one."""
    for k in range(state.ahead_ids.shape[0]):
        state.ahead_ns[k] = exponential_ns(state.ahead_mean[k], uniform(state.ahead_ids[k], 0))


@noinline
def draw_now(state: State, visit: int) -> None:
    """Draw the service time of a tuple that is sent, where it is soon drawn."""
    e = state.visits[visit]
    draws = state.draws[state.partitions[e.partition].operator]
    if draws.law == EXPONENTIAL:
        e.service = exponential_ns(draws.a * _NS, uniform(e.id, draws.stream))
    elif draws.quantiles >= 0:
        e.service = quantile_ns(state, draws.quantiles, draws.scale_ns, uniform(e.id, draws.stream))
