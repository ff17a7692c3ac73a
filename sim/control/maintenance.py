"""Maintenance of the allocation of checkpoints in a run: comparisons with a fresh allocation, and the moves.

Control knows what its statistics have shown and which hosts it suspects; the fresh allocation comes from the planner
that the run was given. Nothing is copied: the key group's next checkpoints go to the new checkpoint host, the first one
whole and over the owner's link, and the old one stays until that is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from models import display
from models.checked_arrays import BoolArray, FloatArray, IntArray
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.inputs import Comparison, LoadHistory, Planner, Relocation, compare
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import NOWHERE
from sim.control.run_state import StateOn
from sim.control.statistics import Count, Statistics
from sim.data_plane import CheckpointPlane
from sim.migration.moves import Migrations

_NS = 1e9
_FEWEST = 2  # periods, and hosts


@dataclass(frozen=True)
class _Round:
    """A comparison: of how many key groups, and from how many periods."""

    at_ns: int
    groups: int
    windows: int
    found: Comparison


@dataclass(frozen=True)
class _Sent:
    """An order of a round that checkpoints of a planned partition go to a host from an instant on."""

    round: int
    partition: int
    host: int
    at_ns: int


class Maintenance:
    """Compares the allocation with a fresh one at regular times, and has checkpoints sent elsewhere."""

    def __init__(self, state: StateOn[CheckpointPlane], statistics: Statistics, migrations: Migrations) -> None:
        self.state, self.cluster, self.plan = state, state.cluster, state.plan
        self.statistics, self.migrations = statistics, migrations
        self.rules = state.plan.scenario.fault_tolerance.maintenance
        self._rounds: list[_Round] = []
        self._sent: list[_Sent] = []
        self._partitions = [
            partition
            for operator in self.plan.operators
            if operator.description.keyed and not operator.is_sink
            for partition in range(
                self.plan.first_partition[operator.index], self.plan.first_partition[operator.index + 1]
            )
        ]

    def start(self) -> None:
        """Start the process, where the scenario asks for it; raises ValueError if nobody can plan."""
        if self.rules is None:
            return
        if self.plan.inputs.planner is None:
            raise ValueError("maintenance of the allocation needs a planner among the inputs of the run")
        self.state.clock.process(self._acts(self.plan.inputs.planner))

    def _acts(self, planner: Planner) -> Process:
        assert self.rules is not None
        clock, at_ns = self.state.clock, max(1, to_ns(self.rules.begin_s))
        while True:
            yield clock.sleep(at_ns)
            yield clock.sleep(at_ns)  # go behind a check of the load at this instant, which counts
            self._maintain(planner, self.rules.theta)
            at_ns += max(1, to_ns(self.rules.every_s))

    # -- one round

    def _maintain(self, planner: Planner, theta: float) -> None:
        counts = self._counts()
        members = self._members()
        if len(counts) < _FEWEST or not members.any():
            why = f"{len(counts)} load checks are too few" if len(counts) < _FEWEST else "no key group is at rest"
            self.state.decide(Action.COMPARE, "", why, verdict=Verdict.REFUSED)
            return
        history = self._history(counts)
        fresh = planner(history)
        if fresh is None:
            why = "there is no other host for some of them"
            self.state.decide(Action.COMPARE, "", why, verdict=Verdict.REFUSED)
            return
        current = self._current()
        rows = np.flatnonzero(members)
        # Only groups at rest are compared: the planner sees all, so that they compete for the same capacity.
        found = compare(fresh.cost[rows], current[rows], fresh.assignment[rows], theta)
        self._rounds.append(_Round(self.state.clock.now_ns(), len(rows), len(counts), found))
        for move in found.moves:
            self._move(self._partitions[int(rows[move.checkpoint])], move, found)

    def _counts(self) -> list[Count]:
        """Return the periods of statistics that are used."""
        assert self.rules is not None
        counts = self.statistics.counts
        if self.rules.window_s is None:
            return counts
        begin_ns = self.state.clock.now_ns() - to_ns(self.rules.window_s)
        return [count for count in counts if count.since_ns >= begin_ns]

    def _members(self) -> BoolArray:
        """Return the key groups that take part: at rest, live as far as is known, with a checkpoint host that stays."""
        bound, view, owner_of = self.migrations.bound_for(), self.state.view, self.cluster.owner_of
        rest = [partition not in bound and view.partition_live(owner_of(partition)) for partition in self._partitions]
        found: BoolArray = np.array(rest, np.bool_) & (self._current() != NOWHERE)
        return found

    def _hosts(self) -> IntArray:
        """Return the host where each key group is, or goes to."""
        cluster, bound = self.cluster, self.migrations.bound_for()
        return np.array(
            [
                bound.get(partition, cluster.task_host[cluster.partition_task[cluster.owner_of(partition)]])
                for partition in self._partitions
            ],
            np.int64,
        )

    def _current(self) -> IntArray:
        """Return the host of each key group's checkpoints, or NOWHERE if that has to change anyhow."""
        cluster, hosts = self.cluster, self._hosts().tolist()
        planned = [cluster.planned_checkpoint_host[cluster.owner_of(partition)] for partition in self._partitions]
        return np.array(
            [
                checkpoint_host
                if checkpoint_host is not None and checkpoint_host != host and cluster.accepts_work(checkpoint_host)
                else NOWHERE
                for checkpoint_host, host in zip(planned, hosts, strict=True)
            ],
            np.int64,
        )

    def _takes(self, hosts: IntArray) -> BoolArray:
        """Return the hosts that may hold checkpoints: where key groups can move to, or else where some are."""
        groups = self.plan.scenario.elasticity.hosts
        found = np.zeros(len(self.plan.host_names), np.bool_)
        for host, group in enumerate(self.plan.host_group_names):
            named = group in groups if groups else bool((hosts == host).any())
            found[host] = named and self.cluster.accepts_work(host)
        return found

    def _history(self, counts: list[Count]) -> LoadHistory:
        statistics, hosts = self.statistics, self._hosts()
        tuples = np.column_stack([count.tuples for count in counts])
        window_s = (counts[0].until_ns - counts[0].since_ns) / _NS  # checks are periodic
        work_s = statistics.work_s()
        capacity = np.array([host.cores * host.speed for host in self.plan.host_groups])
        others = np.array([statistics.outside(host, counts[0].since_ns) for host in range(len(capacity))])
        operators, at = self.plan.operators, self._partitions
        return LoadHistory(
            names=tuple(
                (operators[self.cluster.partition_operator[u]].name, self.cluster.partition_index[u]) for u in at
            ),
            tuples=tuples[at],
            work_s=work_s[at],
            window_s=window_s,
            host=hosts,
            capacity=capacity,
            outside=others + self._fixed(tuples.mean(axis=1) * work_s / window_s) / capacity,
            takes=self._takes(hosts),
        )

    def _fixed(self, load: FloatArray) -> FloatArray:
        """Return the load on each host apart from key groups, (n_hosts,), given the load of all planned partitions."""
        found, keyed = np.zeros(len(self.plan.host_names)), set(self._partitions)
        for partition, own in enumerate(load.tolist()):
            task = self.cluster.partition_task[partition]
            if partition not in keyed and task != NOWHERE:
                found[self.cluster.task_host[task]] += own
        return found

    def _move(self, partition: int, move: Relocation, found: Comparison) -> None:
        """Send checkpoints to the new checkpoint host from now on."""
        cluster, names, now = self.cluster, self.plan.host_names, self.state.clock.now_ns()
        owner = cluster.owner_of(partition)
        self.state.plan_checkpoint_host(owner, move.target)
        self._sent.append(_Sent(len(self._rounds) - 1, partition, move.target, now))
        current, fresh = (display.number(one, 6) for one in (found.current, found.fresh))
        scores = f"the score is {current}, that of a fresh allocation {fresh}"
        origin, target = names[move.origin], names[move.target]
        why = f"{scores}; {display.number(move.gain, 6)} better than on {origin}"
        self.state.decide(Action.REALLOCATE, cluster.partition_name(partition), why, origin=origin, target=target)

    # -- records

    def rows(self, checkpoints: Mapping[str, np.ndarray]) -> Iterator[tuple[object, ...]]:
        """Yield one row for each comparison, with what moved checkpoints cost, from the rows of all checkpoints."""
        stored, sent = [0] * len(self._rounds), [0] * len(self._rounds)
        own = _by_group(checkpoints) if self._sent else {}
        until: dict[int, int] = {}  # partition -> when its checkpoints were sent elsewhere again
        # Backwards, so that `until` knows when a later order for the same partition replaced this one.
        for one in reversed(self._sent):
            name = (self.cluster.partition_operator[one.partition], self.cluster.partition_index[one.partition])
            for row in own.get(name, ()):
                taken = int(checkpoints["taken_ns"][row])
                if (
                    one.at_ns <= taken < until.get(one.partition, taken + 1)
                    and checkpoints["checkpoint_host"][row] == one.host
                ):
                    sent[one.round] += int(checkpoints["bytes"][row])
                    # The order is done with the first stored checkpoint; those that failed before cost bytes, too.
                    if checkpoints["stored_ns"][row] != NEVER:
                        stored[one.round] += 1
                        break
            until[one.partition] = one.at_ns
        for number, made in enumerate(self._rounds):
            found, moved = made.found, len(made.found.moves)
            scores = (found.current, found.fresh, found.difference, found.left)
            yield (made.at_ns, made.groups, made.windows, *scores, moved, stored[number], sent[number])


def _by_group(checkpoints: Mapping[str, np.ndarray]) -> dict[tuple[int, int], list[int]]:
    """Return (operator, key group) -> its rows, as they were taken."""
    found: dict[tuple[int, int], list[int]] = {}
    pairs = zip(checkpoints["operator"].tolist(), checkpoints["key_group"].tolist(), strict=True)
    for row, name in enumerate(pairs):
        found.setdefault(name, []).append(row)
    return found
