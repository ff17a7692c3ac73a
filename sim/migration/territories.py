"""Which runs of protocols may not go on at once: an index by operator and key group."""

from __future__ import annotations

from collections import Counter

import networkx as nx

from sim.migration.protocol import WHOLE, Territory


class Territories:
    """The territories of some runs or requests, to ask whether another one meets them.

    Two territories meet if they share a key group or a whole operator, or if an operator of one sends to an operator of
    the other: a protocol asks all that send to a group for something, so nobody may become one meanwhile.
    """

    def __init__(self, dataflow: nx.DiGraph[int]) -> None:
        self._beside = {one: {*dataflow.predecessors(one), *dataflow.successors(one)} for one in dataflow}
        self._at: Counter[int] = Counter()  # operator -> how many claim something of it
        self._whole: Counter[int] = Counter()  # operator -> how many claim all of it
        self._groups: Counter[int] = Counter()  # key group -> how many claim it

    def add(self, territory: Territory) -> None:
        """Add a territory."""
        self._count(territory, 1)

    def remove(self, territory: Territory) -> None:
        """Remove a territory that was added."""
        self._count(territory, -1)

    def _count(self, territory: Territory, by: int) -> None:
        for operator, group in territory:
            self._at[operator] += by
            if group is WHOLE:
                self._whole[operator] += by
            else:
                self._groups[group] += by

    def meet(self, territory: Territory) -> bool:
        """Return whether one of the territories meets this one."""
        return any(
            (self._at[operator] if group is WHOLE else self._whole[operator] or self._groups[group])
            or any(self._at[other] for other in self._beside[operator])
            for operator, group in territory
        )

    def frees(self, territory: Territory, waiting: Territories) -> bool:
        """Return whether something that waits may begin now that this territory was removed from these."""
        for operator, group in territory:
            if waiting._at[operator] if group is WHOLE else waiting._groups[group]:
                return True
            beside = any(waiting._at[other] for other in self._beside[operator])
            if not self._at[operator] and (waiting._whole[operator] or beside):
                return True
        return False
