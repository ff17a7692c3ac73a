"""Births of tuples where they are not their creation times: what a window makes is born when that ends.

Its creation time is that of the newest tuple in the window. Births stand beside `visits` and not in them: only a run
whose frontiers ask for them has them.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.cache import inlined, kernel
from sim.kernel.tools.pointer import State

BIRTH = np.dtype([("since", "i8")])  # what is emitted just now is not born earlier; 0: nothing is known of it


@kernel
def note_birth(state: State, visit: int) -> None:
    """Note when a tuple that is emitted just now is born."""
    state.births[visit] = max(state.visits[visit].created, state.birth.since)


@inlined
def birth_of(state: State, visit: int) -> int:
    """Return when a tuple was born."""
    return state.births[visit] if state.options.births else state.visits[visit].created


@kernel
def emits_from(state: State, since: int) -> None:
    """Let what is emitted from now on be born then, unless it is created later."""
    state.birth.since = since
