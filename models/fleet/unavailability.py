"""The exact unavailability of placements: of a query whose instances are on given hosts.

It depends on the placement, not on the hosts that are down at the moment: P(broken) in the long run, or of the day if
hosts fail by the day. Of bounds the worse one counts, so that objectives are surely met.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from models.reliability.cuts import Cuts, instance_cuts, minimal
from models.reliability.exact import Engine
from models.reliability.factoring import TooManyNodes
from models.reliability.problem import Setting
from models.reliability.repair import broken_given_down

Instances = tuple[int, ...]
_MOST_SETS = 20_000
_ROUNDING = 1e-12  # of an unavailability, relative


class ExactUnavailability:
    """P(query is broken) for any placement, in one setting; results are cached."""

    def __init__(self, setting: Setting) -> None:
        self.failures, self._down, self._weights = setting.failures, setting.down, setting.weights
        self._engine = Engine(setting.failures)
        self._cuts: dict[Instances, Cuts] = {}
        self._found: dict[Cuts, float] = {}

    @property
    def n_hosts(self) -> int:
        """Return the number of hosts."""
        return self.failures.n_hosts

    def broken(self, instances: Iterable[Instances]) -> float:
        """Return P(some operator has no instance that serves), from the hosts of each operator, the primary first.

        An operator without any instance is always broken.
        """
        cuts = minimal(cut for hosts in instances for cut in self._of_operator(hosts))
        if cuts not in self._found:
            self._found[cuts] = self._computed(cuts)
        return self._found[cuts]

    def _of_operator(self, hosts: Instances) -> Cuts:
        # The order of hosts, the primary first, matters only if take-overs can be late.
        key = hosts if self.failures.late is not None else tuple(sorted(hosts))
        if key not in self._cuts:
            self._cuts[key] = instance_cuts(key, self.failures)
        return self._cuts[key]

    def _computed(self, cuts: Cuts) -> float:
        if self._down is None:
            return float(self._weights @ self._engine.broken(cuts)[1])
        try:
            return float(self._down @ broken_given_down(cuts, self.n_hosts))
        except TooManyNodes:
            return 1.0  # too many cuts to count: the worst case, which refuses rather than accepts

    def least_broken(self, n_instances: int, hosts: Sequence[int] | None = None) -> float:
        """Return the least P(broken) that any query can have with so many instances of each operator on these hosts.

        All operators on the same hosts: a query is broken at least as often as one operator of it is, and that one as
        often as all hosts of the best set of that size are down. A lower bound where there are too many sets to try.
        """
        among = tuple(range(self.n_hosts) if hosts is None else hosts)
        size = min(n_instances, len(among))
        if self.failures.equal is not None or self._down is not None:
            return self.broken([among[:size]])
        if math.perm(len(among), 1) * math.comb(len(among), size) <= _MOST_SETS:
            late = self.failures.late is not None
            sets = itertools.combinations(among, size)
            return min(self.broken([order]) for one in sets for order in (_firsts(one) if late else [one]))
        best = np.sort(self.failures.down[:, among], axis=1)[:, :size].prod(axis=1)
        return float(self._weights @ best)


def _firsts(hosts: Instances) -> list[Instances]:
    """Return the set with each of its hosts as the first, which serves."""
    return [(host, *(one for one in hosts if one != host)) for host in hosts]


def keeps(slo: float | None, broken: float) -> bool:
    """Return whether an unavailability meets an availability objective, but for rounding."""
    return slo is None or broken <= (1 - slo) * (1 + _ROUNDING) + 1e-15
