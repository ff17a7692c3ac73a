"""What the control plane knows of the load: what each key group did in a period, from counts of the data plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from sim.data_plane import Statistic

if TYPE_CHECKING:
    from sim.control.assembly import Control
    from sim.control.cluster import RunPlan

_NS = 1e9


def check_counts(plan: RunPlan) -> None:
    """Raises ValueError if the load of key groups is not counted in the run."""
    if not plan.counts:
        raise ValueError("the load of key groups is counted only with recording.statistics, or elasticity")


class Period(NamedTuple):
    """What one unit did since the last look, and where."""

    unit: int
    host: int
    did: Statistic  # differences, but for the size of the state


class Count(NamedTuple):
    """Tuples that came for each planned unit (n_units,) in a period."""

    since_ns: int
    until_ns: int
    tuples: IntArray


class Statistics:
    """Looks at the counts of the plane, writes the rows of `statistics`, and knows the load of each key group."""

    def __init__(self, control: Control) -> None:
        self.control, self.cluster, self.plan = control, control.cluster, control.plan
        self.looked_ns = 0
        self.since_ns = 0  # begin of the last period
        self.periods: list[Period] = []
        self.counts: list[Count] = []  # of all periods so far, where somebody plans from them
        self._before: dict[int, Statistic] = {}
        operators = len(self.plan.operators)
        self._work, self._served = [0.0] * operators, [0] * operators  # so far, work at speed 1

    def look(self) -> None:
        """The period since the last look is over."""
        now = self.control.clock.now_ns()
        self.since_ns, self.looked_ns = self.looked_ns, now
        self.periods = list(self._differences())
        rows, live = self.control.recorder.rows["statistics"], self.cluster.unit_live
        for unit, host, did in self.periods:
            operator = self.cluster.unit_operator[unit]
            self._work[operator] += did.cpu_ns * self.plan.host_groups[host].speed
            self._served[operator] += did.served
            if live[unit] or did.tuples or did.cpu_ns:
                sizes = (did.received_bytes, did.sent_bytes, did.state_bytes)
                rows.append((now, operator, self.cluster.unit_index[unit], host, did.tuples, did.cpu_ns, *sizes))
        if self.plan.scenario.fault_tolerance.maintenance:
            self.counts.append(self._count())

    def _count(self) -> Count:
        tuples = np.zeros(self.plan.first_unit[-1], np.int64)
        for unit, _, did in self.periods:
            tuples[self.cluster.group_of(unit)] += did.tuples
        return Count(self.since_ns, self.looked_ns, tuples)

    def _differences(self) -> Iterator[Period]:
        for one in self.control.plane.statistics():
            did = one.since(self._before[one.unit]) if one.unit in self._before else one
            self._before[one.unit] = one
            yield Period(one.unit, self.cluster.host_of(one.unit), did)

    def loads(self) -> dict[int, float]:
        """Planned unit of each group -> mean load in the last period, in cores of speed 1.

        The load is the work that came, not what was done: so a host that cannot keep up shows by how much. Work is
        tuples times the mean work for one tuple of the operator so far.
        """
        length_ns = max(1, self.looked_ns - self.since_ns)
        found: dict[int, float] = {}
        for unit, _, did in self.periods:
            each_ns, group = self._each_ns(self.cluster.unit_operator[unit]), self.cluster.group_of(unit)
            found[group] = found.get(group, 0.0) + did.tuples * each_ns / length_ns
        return found

    def _each_ns(self, operator: int) -> float:
        """Mean work for one tuple of the operator so far."""
        served = self._served[operator]
        return self._work[operator] / served if served else 0.0

    def work_s(self) -> FloatArray:
        """Mean work for one tuple of each planned unit (n_units,) so far, at speed 1."""
        each = [self._each_ns(operator) / _NS for operator in range(len(self.plan.operators))]
        return np.array(each)[self.cluster.unit_operator[: self.plan.first_unit[-1]]]

    def outside(self, host: int, since_ns: int | None = None) -> float:
        """Mean share of the host's CPU that others took in the last period, or from an instant to the last look."""
        load = self.plan.host_groups[host].load
        begin = self.since_ns if since_ns is None else since_ns
        return load.mean_between(begin / _NS, self.looked_ns / _NS) if load else 0.0
