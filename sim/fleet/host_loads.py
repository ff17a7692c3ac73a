"""Loads of hosts as shares of their capacity, changes under way included, and which hosts are up."""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray
from sim.fleet.reconfiguration import Reconfiguration


class HostLoads:
    """Loads of the hosts of a system whose placement changes."""

    def __init__(self, changes: Reconfiguration) -> None:
        self.changes, self.placement = changes, changes.placement
        self.capacity = changes.placement.system.capacity

    def is_up(self, host: int) -> bool:
        """Return True if instances can come to the host now."""
        return self.changes.service.up[host] and self.placement.in_use[host] and host not in self.placement.draining

    def will_be(self) -> FloatArray:
        """Return shares of capacity once everything under way is over, (n_hosts,)."""
        found: FloatArray = (self.placement.expected() - self.placement.leaving()) / self.capacity
        return found

    def at_most(self) -> FloatArray:
        """Return shares of capacity at the worst moment of the changes under way, (n_hosts,)."""
        # A move counts at both hosts: until it is live its load is still at the old one, and room is reserved.
        found: FloatArray = self.placement.expected() / self.capacity
        return found

    def by_share(self, shares: FloatArray) -> list[int]:
        """Return the hosts that are up, least loaded first, of equal ones by number."""
        up = np.array(self.changes.service.up) & np.array(self.placement.in_use)
        up[list(self.placement.draining)] = False
        # Rounded: sums of the same loads in another order must not decide a tie.
        order = np.argsort(np.round(shares, 9), kind="stable")
        found: list[int] = order[up[order]].tolist()
        return found
