"""One replication: hosts that fail, queries that come and go, rates that change, and a manager that checks the loads.

A static system can do without events (`sim.fleet.outages`); the rows are the same.

Draws are functions of seed, replication and the name of what is drawn. So systems that differ only in manager or
placement see the same failures, arrivals and rates (common random numbers).
"""

from __future__ import annotations

from typing import Literal

from models.distributions import Exponential, LogNormal
from models.errors import InputError
from models.fleet.description import ManagerSettings
from models.fleet.records import FleetRecords
from models.fleet.system import System
from models.units import to_ns
from sim.clock import Clock, Process
from sim.fleet.failures import HostFailures
from sim.fleet.manager import Manager
from sim.fleet.outages import in_order, merged
from sim.fleet.placement import FleetPlacement
from sim.fleet.reconfiguration import Admission, Deployment, Reconfiguration
from sim.fleet.service import RenewalTimes, Service

Method = Literal["auto", "events", "merged"]
METHODS: tuple[Method, ...] = ("auto", "events", "merged")


def simulate_fleet(
    system: System,
    replication: int = 0,
    *,
    method: Method = "auto",
    manager: type[Manager] = Manager,
    enforce_slos: bool = True,
) -> FleetRecords:
    """Return the rows of one replication; a pure function of its arguments.

    `replication`: its number, which decides its draws together with the seed of the file. `method`: "merged" merges
    down times and is for static systems, "events" simulates, and "auto" takes the first of them that can do it.
    `manager` decides if the file asks for one; without `enforce_slos` no request is refused because of an objective
    (for tests).

    Raises InputError for an unknown method, and for "merged" if the system is not static.
    """
    if method not in METHODS:
        raise InputError.at("--method", method, "must be auto, events or merged")
    static = system.fleet.is_static
    if method == "merged" and not static:
        raise InputError.at("--method", method, "is for systems without a manager, in which no query comes or goes")
    if static and method != "events":
        return merged(system, replication)
    return _Run(system, replication, manager, enforce_slos).records()


class _Run:
    """All processes of a replication, on one clock.

    `_rates` [1/s] are products of two parts that change by themselves: the steps of the file, and a drawn factor.
    """

    def __init__(self, system: System, replication: int, manager: type[Manager], enforce_slos: bool) -> None:
        self.system, self.replication = system, replication
        self.clock = Clock()
        standby, rules = system.fleet.standby, system.fleet.manager
        self.placement = FleetPlacement(system, 1.0 if standby is None else standby.load)
        self.service = Service(self.clock, self.placement, replication)
        move_s = rules.move_s if rules is not None else 0.0
        self.changes = Reconfiguration(self.clock, self.service, move_s, enforce_slos=enforce_slos)
        self.admission = Admission(self.changes)
        self.manager = None if rules is None else manager(rules, self.changes, self.admission, replication)
        self._rates = [0.0] * len(system.fleet.sources)
        self._steps = [(1.0, 1.0)] * len(self._rates)  # (rate by the file, factor)

    def records(self) -> FleetRecords:
        """Return the rows of the run."""
        for index, source in enumerate(self.system.fleet.sources.values()):
            self._steps[index] = (source.rate_per_s, 1.0)
        self._set_loads()
        # The order of the starts is the order within an instant: failures, rates, queries, then the manager sees all.
        HostFailures(self.clock, self.system, self.service, self.replication).start()
        self._start_sources()
        self._start_queries()
        if self.manager is not None:
            self.clock.process(self._checks(self.manager.rules))
        self.clock.run(until=self.system.end_ns)
        self.service.close(self.system.end_ns)
        self.placement.close(self.system.end_ns)
        self.service.rows["instances"] = self.placement.rows
        rows = in_order(self.service.rows)
        return FleetRecords(self.replication, self.system.end_ns, "events", rows, self.placement.split)

    def _renewal_times(self, mean_s: float, *name: object) -> RenewalTimes:
        """Return exponential times of this mean for a named element."""
        return RenewalTimes(Exponential(mean_s=mean_s), self.system.fleet.seed, self.replication, *name)

    # -- sources

    def _start_sources(self) -> None:
        """Start a process for each step of a rate, and one for each rate that varies."""
        for index, (name, source) in enumerate(self.system.fleet.sources.items()):
            for step in source.steps:
                self.clock.process(self._step(index, to_ns(step.at_s), step.rate_per_s))
            if source.varies is not None:
                law = LogNormal(mean_s=1.0, cv=source.varies.cv)
                factors = RenewalTimes(law, self.system.fleet.seed, self.replication, "source", name)
                self.clock.process(self._varies(index, max(1, to_ns(source.varies.every_s)), factors))

    def _step(self, index: int, at_ns: int, rate: float) -> Process:
        """Change the rate of a source at an instant of the file."""
        yield self.clock.sleep(at_ns)
        self._steps[index] = (rate, self._steps[index][1])
        self._set_loads()

    def _varies(self, index: int, every_ns: int, factors: RenewalTimes) -> Process:
        """Change the factor of a source's rate at regular instants."""
        number = 0
        while True:
            self._steps[index] = (self._steps[index][0], factors[number] / 1e9)
            self._set_loads()
            number += 1
            yield self.clock.sleep(number * every_ns)

    def _set_loads(self) -> None:
        """Set the loads, which are linear combinations of the rates of sources."""
        for index, (rate, factor) in enumerate(self._steps):
            self._rates[index] = rate * factor
        self.placement.load = self.system.base + self.system.costs @ self._rates
        self.changes.touched = True
        self.service.loads_changed()

    # -- queries

    def _start_queries(self) -> None:
        """Start a process for each query that comes or goes; those of the beginning arrive now."""
        churn = self.system.fleet.churn
        for query, name in enumerate(self.system.queries):
            spec = self.system.fleet.query(name)
            always = spec.arrives_s == 0 and spec.leaves_s is None
            arrived = spec.arrives_s == 0 and self._arrives(query)
            if always and churn is not None:
                stay = self._renewal_times(churn.stay_s, "query", name, "stay")
                away = self._renewal_times(churn.away_s, "query", name, "away")
                self.clock.process(self._comes_and_goes(query, arrived, stay, away))
            elif not always:
                leaves_ns = None if spec.leaves_s is None else to_ns(spec.leaves_s)
                self.clock.process(self._once(query, arrived, to_ns(spec.arrives_s), leaves_ns))

    def _once(self, query: int, arrived: bool, arrives_ns: int, leaves_ns: int | None) -> Process:
        """Let a query arrive and leave at the times of the file."""
        yield self.clock.sleep(arrives_ns)
        if not arrived and arrives_ns > 0:
            arrived = self._arrives(query)
        if arrived and leaves_ns is not None:
            yield self.clock.sleep(leaves_ns)
            self.admission.leave(query)

    def _comes_and_goes(self, query: int, arrived: bool, stay: RenewalTimes, away: RenewalTimes) -> Process:
        """Let the query come and go in turn; one that is refused tries again when it would be back."""
        number = 0
        while True:
            yield self.clock.sleep(self.clock.now_ns() + stay[number])
            if arrived:
                self.admission.leave(query)
            yield self.clock.sleep(self.clock.now_ns() + away[number])
            arrived = self._arrives(query)
            number += 1

    def _arrives(self, query: int) -> bool:
        """Ask the manager, or without one the admission, for a query; return True if it is admitted."""
        missing = self.admission.missing(query)
        if self.manager is not None:
            return self.manager.admit(query, missing)
        return self.admission.arrive(query, Deployment({op: list(self.system.placed[op]) for op in missing}))

    # -- the manager

    def _checks(self, rules: ManagerSettings) -> Process:
        """Let the manager check the loads at regular instants."""
        period_ns = max(1, to_ns(rules.period_s))
        assert self.manager is not None
        while True:
            # Without a change since the last check the manager would decide the same: skip it.
            if self.changes.touched:
                self.changes.touched = False
                self.manager.check()
            yield self.clock.sleep(self.clock.now_ns() + period_ns)
