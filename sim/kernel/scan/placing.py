"""Key groups that are on their way to another task: who gets what is sent for them, and what waits until they come.

`held_from` says from which birth on a tuple is for the next task of its key group, `goals`; what is older goes to the
task where the group is. Nothing for a group is applied at its next task before the group is there: at its turn it goes
aside. While no group has a next task (`options.placed`) nothing of this is asked.
"""

from __future__ import annotations

from typing import Any

from sim.kernel.tools.cache import inlined
from sim.kernel.tools.pointer import State


@inlined
def task_for(state: State, partition: Any, created: Any) -> Any:
    """Return the task that gets a tuple of that birth for a partition."""
    if state.options.placed and created >= state.held_from[partition]:
        return state.goals[partition]
    return state.partition_task[partition]


@inlined
def is_held(state: State, item: Any) -> bool:
    """Return whether a tuple whose turn has come has to wait for its key group."""
    return bool(state.options.placed and item.created >= state.held_from[item.partition])
