"""Threads of chains: the one core of all tasks of a chain.

It is also taken while something is on its way from one task of the chain to another, while a task has outputs that find
no room, and while the listener is being told of a message at one: `free` counts each of these like a service.
"""

from __future__ import annotations

from sim.kernel.event_loop.codes import NONE
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def hold_thread(state: State, task: int) -> None:
    """Take the thread of the task's chain for one more reason, if it is in one."""
    t = state.tasks[task]
    if t.chained:
        state.cores[t.cores].free -= 1


@kernel
def let_go_thread(state: State, task: int) -> None:
    """Give it back."""
    t = state.tasks[task]
    if t.chained:
        state.cores[t.cores].free += 1


@kernel
def shares_thread(state: State, origin: int, task: int) -> bool:
    """Return whether two tasks are in one chain; `origin` may be NONE."""
    if not state.options.chained or origin == NONE or not state.tasks[task].chained:
        return False
    return bool(state.tasks[origin].cores == state.tasks[task].cores)
