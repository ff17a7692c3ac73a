"""What each unit has done so far, for the control plane."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def counted(s: State, units: int, rows: np.ndarray) -> int:
    """Rows (unit, tuples, served, cpu, received, sent, state) of all units but those of sources; how many."""
    n = 0
    for unit in range(units):
        u = s.units[unit]
        if not u.is_source:
            rows[n, 0] = unit
            rows[n, 1] = u.came
            rows[n, 2] = u.served
            rows[n, 3] = u.cpu
            rows[n, 4] = u.received
            rows[n, 5] = u.sent
            rows[n, 6] = state_bytes(s, unit) if u.live else 0
            n += 1
    return n
