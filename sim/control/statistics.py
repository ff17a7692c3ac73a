"""The load in the view of control: counts of the data plane for each key group and period."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from sim.control.cluster import RunPlan
from sim.control.run_state import StateOn
from sim.data_plane import CountingPlane
from sim.plane_values import Statistic

_NS = 1e9


def check_counts(plan: RunPlan) -> None:
    """Raise ValueError if the load of key groups is not counted in the run."""
    if not plan.counts_load:
        raise ValueError("the load of key groups is counted only with recording.statistics, or elasticity")


class Period(NamedTuple):
    """Counts of one partition since the last sample, and its host."""

    partition: int
    host: int
    did: Statistic  # differences, but for the size of the state


class Count(NamedTuple):
    """Tuples that came for each planned partition (n_partitions,) in a period."""

    since_ns: int
    until_ns: int
    tuples: IntArray


class Statistics:
    """Samples the counts of the plane, writes the rows of `statistics`, and keeps the load of each key group."""

    def __init__(self, state: StateOn[CountingPlane]) -> None:
        self.state, self.cluster, self.plan = state, state.cluster, state.plan
        self.sampled_ns = 0
        self.since_ns = 0  # begin of the last period
        self.periods: list[Period] = []
        self.counts: list[Count] = []  # of all periods so far, where somebody plans from them
        self._before: dict[int, Statistic] = {}
        operators = len(self.plan.operators)
        self._work, self._served = [0.0] * operators, [0] * operators  # so far, work at speed 1

    def sample(self) -> None:
        """Sample what was done since the last sample: the period is over."""
        now = self.state.clock.now_ns()
        self.since_ns, self.sampled_ns = self.sampled_ns, now
        self.periods = list(self._differences())
        rows, live = self.state.recorder.rows["statistics"], self.cluster.partition_live
        for partition, host, did in self.periods:
            operator = self.cluster.partition_operator[partition]
            self._work[operator] += did.cpu_ns * self.plan.host_groups[host].speed
            self._served[operator] += did.served
            if live[partition] or did.tuples or did.cpu_ns:
                sizes = (did.received_bytes, did.sent_bytes, did.state_bytes)
                rows.append(
                    (now, operator, self.cluster.partition_index[partition], host, did.tuples, did.cpu_ns, *sizes)
                )
        if self.plan.scenario.fault_tolerance.maintenance:
            self.counts.append(self._count())

    def _count(self) -> Count:
        tuples = np.zeros(self.plan.first_partition[-1], np.int64)
        for partition, _, did in self.periods:
            tuples[self.cluster.group_of(partition)] += did.tuples
        return Count(self.since_ns, self.sampled_ns, tuples)

    def _differences(self) -> Iterator[Period]:
        for row in np.asarray(self.state.plane.statistics()).tolist():
            one = Statistic(*row)
            did = one.since(self._before[one.partition]) if one.partition in self._before else one
            self._before[one.partition] = one
            yield Period(one.partition, self.cluster.host_of(one.partition), did)

    def loads(self) -> dict[int, float]:
        """Return the mean load of each group in the last period, in cores of speed 1, by planned partition.

        The load is the work that arrived, not the work done: it shows by how much a host cannot keep up. Work is tuples
        times the mean work for one tuple of the operator so far.
        """
        length_ns = max(1, self.sampled_ns - self.since_ns)
        found: dict[int, float] = {}
        for partition, _, did in self.periods:
            each_ns, group = self._each_ns(self.cluster.partition_operator[partition]), self.cluster.group_of(partition)
            found[group] = found.get(group, 0.0) + did.tuples * each_ns / length_ns
        return found

    def _each_ns(self, operator: int) -> float:
        """Return the mean work for one tuple of the operator so far."""
        served = self._served[operator]
        return self._work[operator] / served if served else 0.0

    def work_s(self) -> FloatArray:
        """Return the mean work for one tuple of each planned partition (n_partitions,) so far, at speed 1."""
        each = [self._each_ns(operator) / _NS for operator in range(len(self.plan.operators))]
        return np.array(each)[self.cluster.partition_operator[: self.plan.first_partition[-1]]]

    def outside(self, host: int, since_ns: int | None = None) -> float:
        """Return the mean share of the host's CPU that others took in the last period, or since an instant."""
        load = self.plan.host_groups[host].load
        begin = self.since_ns if since_ns is None else since_ns
        return load.mean_between(begin / _NS, self.sampled_ns / _NS) if load else 0.0
