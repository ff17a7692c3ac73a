"""Tuples and where they are on their way, which several modules of the scan write, and why the scan stops.

When the threads of a task are free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

CHUNK = 64  # tuples in one piece of a queue
LOG_CHUNK = 64  # arrivals in one piece of a log
# Tuples that are done together: one short loop after the other overlaps what waits for memory and logarithms.
BATCH = 1024
DONE, GROW, REFILL, FLUSH, CHECKPOINTS_FULL = range(5)  # why the scan stops
MARK = -1 << 62  # in place of a key: the item is a watermark (`event_time`)
SIDE = 61  # the bit of a key that says over which input a tuple came to a join

# A tuple for a partition; `at` is when it arrives, or when it was handed to the link. `origin` is the task that sent
# it, or where checkpoints are taken the partition.
_PARCEL = [("at", "i8"), ("id", "u8"), ("created", "i8"), ("key", "i8"), ("partition", "i4"), ("origin", "i4")]
PARCEL = np.dtype(_PARCEL, align=True)
# One that waits for a task, and how long its service takes. No kind of these records begins with the fields of another:
# Numba would pass one for the other, with a warning.
QUEUED = np.dtype([("ns", "i8"), *_PARCEL], align=True)

# A tuple in service, or done with it.
SLOT = np.dtype([("start", "i8"), ("end", "i8"), *_PARCEL], align=True)

# What is on its way to an operator; that behind the last operator is in front of the links.
BOX = np.dtype([("first", "i8"), ("room", "i8"), ("n", "i8"), ("sent", "i8"), ("sum", "u8")], align=True)

STAGE = np.dtype(
    [
        ("first_task", "i4"),  # in `stage_tasks`
        ("tasks", "i4"),
        ("first_source", "i4"),
        ("sources", "i4"),
        ("first_edge", "i4"),
        ("edges", "i4"),
        ("limited", "u1"),  # a task sends over a link with a bandwidth
        ("scaled", "u1"),  # a task is on a host of another speed than 1
    ],
    align=True,
)


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
