"""Processes of the load that others put on the hosts' CPUs."""

from __future__ import annotations

from models.scenario.cluster import LoadStep
from models.units import to_ns
from sim.clock import Process
from sim.control.run_state import StateOn
from sim.data_plane import SharedCpuPlane


def start_outside_load(state: StateOn[SharedCpuPlane]) -> None:
    """Start a process for each host that others use, in file order."""
    for host, group in enumerate(state.plan.host_groups):
        if group.load is not None:
            state.clock.process(_steps(state, host, group.load.steps))


def _steps(state: StateOn[SharedCpuPlane], host: int, steps: tuple[LoadStep, ...]) -> Process:
    """Change the share of one host; a host that is down keeps the time of its changes."""
    for step in steps:
        if to_ns(step.at_s) > state.clock.now_ns():
            yield state.clock.sleep(to_ns(step.at_s))
        state.plane.speed(host, step.share)
