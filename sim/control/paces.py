"""Paces of hosts: what others take of the CPUs, and hosts on which tasks have just started again."""

from __future__ import annotations

from models.scenario.cluster import LoadStep
from models.units import to_ns
from sim.clock import Process
from sim.control.run_state import StateOn
from sim.data_plane import SharedCpuPlane


class Paces:
    """Tells the plane which share of a host's CPU is not there for its tasks.

    Others take theirs at known instants. A host is cold for a time after a task has got its state back there: then all
    that it does takes several times as long. Both go on while a host is down.
    """

    def __init__(self, state: StateOn[SharedCpuPlane]) -> None:
        self.state, self.rule = state, state.plan.scenario.recovery.warm_up
        self._taken = [0.0] * len(state.plan.host_groups)
        self._cold_until = [0] * len(state.plan.host_groups)

    def start(self) -> None:
        """Start a process for each host that others use, in file order."""
        for host, group in enumerate(self.state.plan.host_groups):
            if group.load is not None:
                self.state.clock.process(self._others(host, group.load.steps))

    def restarted(self, host: int) -> None:
        """Let a host be cold from now on, on which a task has its state back."""
        if self.rule is None:
            return
        now = self.state.clock.now_ns()
        until = now + max(1, to_ns(self.rule.duration_s))
        if self._cold_until[host] < until:  # once for all tasks of an instant
            self._cold_until[host] = until
            self._tell(host)
            self.state.clock.process(self._warm(host, until))

    def _others(self, host: int, steps: tuple[LoadStep, ...]) -> Process:
        for step in steps:
            if to_ns(step.at_s) > self.state.clock.now_ns():
                yield self.state.clock.sleep(to_ns(step.at_s))
            self._taken[host] = step.share
            self._tell(host)

    def _warm(self, host: int, until: int) -> Process:
        yield self.state.clock.sleep(until)
        if self._cold_until[host] == until:  # else another task has started there since
            self._tell(host)

    def _tell(self, host: int) -> None:
        share = self._taken[host]
        if self.rule is not None and self.state.clock.now_ns() < self._cold_until[host]:
            share = 1 - (1 - share) / self.rule.slowdown
        self.state.plane.speed(host, share)
