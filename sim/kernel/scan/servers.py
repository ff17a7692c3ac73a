"""When the threads of a task are free."""

from __future__ import annotations

from typing import Any

from sim.kernel.scan.state import ScanState
from sim.kernel.tools.compiling import kernel


@kernel
def earliest(s: ScanState, task: Any) -> Any:
    """When a thread of the task is free."""
    t = s.servers[task]
    return t.free if t.threads == 1 else s.frees[t.first_thread]


@kernel
def occupy(s: ScanState, task: Any, end: int) -> None:
    """The thread that is free first is free from `end` on."""
    t = s.servers[task]
    if t.threads == 1:
        t.free = end
        return
    first, n, place = t.first_thread, t.threads, 0
    below = 1
    while below < n:
        if below + 1 < n and s.frees[first + below + 1] < s.frees[first + below]:
            below += 1
        if s.frees[first + below] >= end:
            break
        s.frees[first + place] = s.frees[first + below]
        place = below
        below = 2 * place + 1
    s.frees[first + place] = end
