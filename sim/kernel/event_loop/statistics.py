"""Statistics of each partition so far, for the control plane."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.tools.compiling import kernel
from sim.kernel.tools.pointer import State


@kernel
def counted(state: State, partitions: int, rows: np.ndarray) -> int:
    """Write rows (partition, tuples, served, cpu, received, sent, state), sources left out, and return how many."""
    n = 0
    for partition in range(partitions):
        u = state.partitions[partition]
        if not u.is_source:
            rows[n, 0] = partition
            rows[n, 1] = u.came
            rows[n, 2] = u.served
            rows[n, 3] = u.cpu
            rows[n, 4] = u.received
            rows[n, 5] = u.sent
            rows[n, 6] = state_bytes(state, partition) if u.live else 0
            n += 1
    return n
