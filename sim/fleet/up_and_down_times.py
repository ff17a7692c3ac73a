"""Up and down times of elements, each a function of its purpose, never of the order of events."""

from __future__ import annotations

import numpy as np

from models.distributions import TimeDistribution
from models.units import to_ns
from sim.draws import code_of, delays_ns, numbered, uniforms

_BLOCK = 64


class RenewalTimes:
    """The 0th, 1st, ... time [ns] of one kind that one element takes; drawn in blocks, asked for one by one."""

    def __init__(self, law: TimeDistribution, seed: int, replication: int, *name: object) -> None:
        self._law, self._code = law, code_of(seed, replication, "dynamics", *name)
        self._known: list[int] = []

    def __getitem__(self, number: int) -> int:
        # By number, not by order: the size of a block and the order of questions change no time.
        while number >= len(self._known):
            first = len(self._known)
            of = uniforms(numbered(self._code, np.arange(first, first + _BLOCK)), 0)
            self._known += delays_ns(self._law, of).tolist()
        return self._known[number]


class Coverage:
    """Draws whether the k-th failure of a host is detected."""

    def __init__(self, share: float, seed: int, replication: int, host: str) -> None:
        self._share, self._code = share, code_of(seed, replication, "dynamics", host, "coverage")
        self._known: list[bool] = []

    def __getitem__(self, number: int) -> bool:
        while number >= len(self._known):
            first = len(self._known)
            of = uniforms(numbered(self._code, np.arange(first, first + _BLOCK)), 0)
            self._known += (of < self._share).tolist()  # always below one
        return self._known[number]


def late_ns(take_over_s: float) -> int:
    """Return how long nobody serves after a failure that is detected [ns]."""
    return to_ns(take_over_s)
