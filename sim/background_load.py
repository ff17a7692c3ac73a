"""What others take of the hosts' CPUs over time, as the scenario says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.scenario.cluster import LoadStep
from models.units import to_ns
from sim.clock import Process

if TYPE_CHECKING:
    from sim.control.assembly import Control


def start_outside_load(control: Control) -> None:
    """Start a process for each host that others use, in file order."""
    for host, group in enumerate(control.plan.host_groups):
        if group.load is not None:
            control.clock.process(_steps(control, host, group.load.steps))


def _steps(control: Control, host: int, steps: tuple[LoadStep, ...]) -> Process:
    """Change the share of one host; a host that is down keeps the time of its changes."""
    for step in steps:
        if to_ns(step.at_s) > control.clock.now_ns():
            yield control.clock.sleep(to_ns(step.at_s))
        control.plane.speed(host, step.share)
