"""How fast this machine is beside the one on which the costs of pieces were measured."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

_MEASURED_S = 0.019  # CPU time of the same work on that machine, when it had nothing else to do
_TRIES = 3
_SLOWEST, _FASTEST = 8.0, 0.125  # what is beyond is an accident


@lru_cache(maxsize=1)
def machine_pace() -> float:
    """Return how many times as long a piece takes here as there: by the CPU time of some work, the least of tries."""
    return min(_SLOWEST, max(_FASTEST, min(_work_s() for _ in range(_TRIES)) / _MEASURED_S))


def _work_s() -> float:
    """Return the CPU time [s] of work of the kind that pieces do: short arrays, and Python between them."""
    began = time.process_time()
    rng, total = np.random.default_rng(1), 0.0
    for _ in range(300):
        drawn = rng.random(500)
        order = np.argsort(drawn, kind="stable")
        total += float(drawn[order].cumsum()[-1])
        total += sum(k * k for k in order.tolist() if k % 3)
    return time.process_time() - began
