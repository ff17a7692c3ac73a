"""The SLO check: it refuses changes that would take a query below its availability objective.

Objectives are about placements: P(broken) is exact for every placement that can come about. A change is checked when
it is asked for, alone and together with all that is under way, and once more when it is about to come about, since
what was under way then may have ended otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.fleet.system import keeps
from sim.fleet.actions import Change, Remove
from sim.fleet.placement import FleetPlacement


@dataclass(frozen=True)
class Refusal:
    """The query that would miss its objective, with P(broken) as it is, after the change, and as allowed."""

    query: int
    before: float
    after: float
    allowed: float


class SloCheck:
    """Checks changes by the exact availability of the queries that they touch."""

    def __init__(self, placement: FleetPlacement) -> None:
        self.placement, self.system = placement, placement.system

    def refusal(self, changes: Sequence[Change]) -> Refusal | None:
        """Return the first query with an objective that would miss it."""
        unavailability = self.system.unavailability
        if unavailability is None:
            return None  # then there is no objective: a system with objectives has exact methods
        for query in self._touched(changes):
            slo = self.system.slos[query]
            if slo is None:
                continue
            after = unavailability.broken(self.placement.changed(query, changes))
            if not keeps(slo, after):
                return Refusal(query, unavailability.broken(self.placement.instances(query)), after, 1 - slo)
        return None

    def check(self, changes: Sequence[Change]) -> Refusal | None:
        """Return the refusal of requested changes: all, each alone, what is done now, and with what is under way."""
        # Changes take time and end in any order, or not at all. So states on the way have to keep the objectives, too:
        # each change alone, and those that take effect at once (removals) without the others.
        under_way = [one.change for one in self.placement.pending]
        sets: list[Sequence[Change]] = [changes]
        if len(changes) > 1:
            at_once = [one for one in changes if isinstance(one, Remove)]
            sets += [at_once, *([one] for one in changes)]
        if under_way:
            sets.append([*under_way, *changes])
        return next((found for one in sets if (found := self.refusal(one)) is not None), None)

    def _touched(self, changes: Sequence[Change]) -> list[int]:
        placement = self.placement
        return sorted({query for change in changes for query in placement.users[placement.parts[change.part].op]})
