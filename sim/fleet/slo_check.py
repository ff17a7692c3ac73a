"""Refuses what would take a query below the availability that it was promised.

Promises are about placements: P(broken) is exact for every placement that can come about. A change is checked when
it is asked for, alone and together with all that is under way, and once more when it is about to come about, since
what was under way then may have ended otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.fleet.promises import keeps
from sim.fleet.actions import Change, Remove
from sim.fleet.placement import FleetPlacement


@dataclass(frozen=True)
class Refusal:
    """The query that would be worse off than promised, with P(broken) as it is, after the change, and as allowed."""

    query: int
    before: float
    after: float
    allowed: float


class Guard:
    """Judges changes by the exact availability of the queries that they touch."""

    def __init__(self, placement: FleetPlacement) -> None:
        self.placement, self.system = placement, placement.system

    def refusal(self, changes: Sequence[Change]) -> Refusal | None:
        """The first query that would not have what it was promised, of those that asked for anything."""
        promises = self.system.promises
        if promises is None:
            return None  # then nothing is promised: a system with promises has exact methods
        for query in self._touched(changes):
            promise = self.system.promised[query]
            if promise is None:
                continue
            after = promises.broken(self.placement.changed(query, changes))
            if not keeps(promise, after):
                return Refusal(query, promises.broken(self.placement.instances(query)), after, 1 - promise)
        return None

    def asked(self, changes: Sequence[Change]) -> Refusal | None:
        """The refusal of changes that are asked for: all, each alone, what is done now, and with what is under way."""
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
