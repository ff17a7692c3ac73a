"""Inputs of a run besides its scenario: recorded rates, and which host holds which checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from models.scenario.maintenance import Planner


@dataclass(frozen=True)
class RateSeries:
    """A rate that is constant within bins, and how likely each key is in each bin.

    `edges_s` (bins + 1,) rises from 0; `rate_per_s` (bins,); `key_weights` (keys, bins) or None where the workload
    draws its keys from a distribution. After the last edge the rate is zero.
    """

    edges_s: np.ndarray
    rate_per_s: np.ndarray
    key_weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.edges_s.size != self.rate_per_s.size + 1 or not np.all(np.diff(self.edges_s) > 0):
            raise ValueError("edges_s must rise and have one entry more than rate_per_s")
        for array in (self.edges_s, self.rate_per_s, self.key_weights):
            if array is not None:
                array.setflags(write=False)


@dataclass(frozen=True)
class RunInputs:
    """Recorded rates by source, measured shares of streams by name, and who holds which checkpoint.

    `checkpoint_hosts` maps (operator, key group) to the host that holds its checkpoint at the start; `planner` plans
    afresh in the run, where `fault_tolerance.maintenance` asks for it.
    """

    rates: Mapping[str, RateSeries] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    checkpoint_hosts: Mapping[tuple[str, int], str] = field(default_factory=dict)
    planner: Planner | None = None
