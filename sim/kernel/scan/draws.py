"""Draws for a batch of tuples at once: short loops without calls, several tuples at a time."""

from __future__ import annotations

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import EXPONENTIAL, UNSURE, exponential_ns, time_ns, uniform
from sim.kernel.tools.pointer import State

_NS = 1e9


@kernel
def draw_times(state: State, operator: int, n: int) -> None:
    """Make the first n of `drawn` the service times of the first `ids` on a host of speed 1."""
    draws = state.draws[operator]
    law, a, b, stream = draws.law, draws.a, draws.b, draws.stream
    fixed_ns, inverse = draws.fixed_ns, draws.inverse
    unsure = n
    if law == EXPONENTIAL:
        unsure = 0
        for k in range(n):
            ns = exponential_ns(a * _NS, uniform(state.ids[k], stream))
            state.drawn[k] = ns
            unsure += ns == UNSURE
    else:
        for k in range(n):
            state.drawn[k] = UNSURE
    if unsure > 0:
        for k in range(n):
            if state.drawn[k] == UNSURE:
                state.drawn[k] = time_ns(law, a, b, stream, fixed_ns, inverse, state.ids[k])
