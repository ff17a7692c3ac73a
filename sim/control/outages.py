"""Outages: key groups and tasks without a live owner because a host died, and for how long."""

from __future__ import annotations

from models.records.tables import NEVER
from sim.control.run_state import StateOn
from sim.data_plane import Plane


class Outages:
    """Keeps the times from the death of a group's host until the owner at that time is live.

    The view of control has no part in it: a group that is given to a host that is dead, too, has nobody still.
    """

    def __init__(self, state: StateOn[Plane]) -> None:
        self.clock, self.cluster = state.clock, state.cluster
        self._since: dict[int, int] = {}  # group -> when its host died
        self._over: list[tuple[int, int, int]] = []  # group, from, until

    def lost(self, host: int) -> None:
        """Begin outages of the live owners on a host that died; call it before the host loses its partitions."""
        for partition in self.cluster.partitions_on(host):
            if self.cluster.partition_live[partition] and self.cluster.is_owner(partition):
                self._since.setdefault(self.cluster.group_of(partition), self.clock.now_ns())

    def check(self) -> None:
        """End outages of groups whose owner is live; call it when an instance becomes live, or the owner."""
        for group in [group for group in self._since if self.cluster.partition_live[self.cluster.owner_of(group)]]:
            self._over.append((group, self._since.pop(group), self.clock.now_ns()))

    def rows(self) -> list[tuple[int, ...]]:
        """Return one row for each outage, in the order of their begin."""
        found = [*self._over, *((group, since, NEVER) for group, since in self._since.items())]
        operator, index = self.cluster.partition_operator, self.cluster.partition_index
        found.sort(key=lambda one: (one[1], one[0]))
        return [(operator[group], index[group], since, until) for group, since, until in found]
