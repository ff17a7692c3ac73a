"""When the threads of a task are free."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State

SERVER = np.dtype(
    [
        ("free", "i8"),  # when the one thread is free
        ("busy", "i8"),
        ("speed", "f8"),
        ("operator", "i4"),
        ("host", "i4"),
        ("threads", "i4"),
        ("serving", "i4"),
        ("first_thread", "i4"),  # in `slots` and `frees`
        ("limited", "u1"),  # the link of the host has a bandwidth
    ],
    align=True,
)


@kernel
def earliest(state: State, task: Any) -> Any:
    """Return when a thread of the task is free."""
    t = state.servers[task]
    return t.free if t.threads == 1 else state.frees[t.first_thread]


@kernel
def occupy(state: State, task: Any, end: int) -> None:
    """The thread that is free first is free from `end` on."""
    t = state.servers[task]
    if t.threads == 1:
        t.free = end
        return
    first, n, place = t.first_thread, t.threads, 0
    below = 1
    while below < n:
        if below + 1 < n and state.frees[first + below + 1] < state.frees[first + below]:
            below += 1
        if state.frees[first + below] >= end:
            break
        state.frees[first + place] = state.frees[first + below]
        place = below
        below = 2 * place + 1
    state.frees[first + place] = end
