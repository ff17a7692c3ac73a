"""Where actions of protocols are not simulated: each verb says so on the plane of the scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_jobs import queue

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.data_plane import CONTROL, DataPlane, Timed
from sim.kernel.scan.plane import ScanPlane

VERBS: dict[str, Callable[[DataPlane], Any]] = {
    "pause": lambda plane: plane.pause(1, None),
    "unpause": lambda plane: plane.unpause(1),
    "hold": lambda plane: plane.hold(1, None, None),
    "unhold": lambda plane: plane.unhold(1, None),
    "mute": lambda plane: plane.mute(1, True),
    "add_instance": lambda plane: plane.add_instance(3, 1, 1),
    "route": lambda plane: plane.route(0, 1, ()),
    "own": lambda plane: plane.own(1),
    "copy_kept": lambda plane: plane.copy_kept(0, 1, 1),
    "adopt": lambda plane: plane.adopt(1, 1),
    "checkpoint": lambda plane: plane.checkpoint(1, 0),
    "trim": lambda plane: plane.trim(1, 0),
    "retire": lambda plane: plane.retire(1),
    "send": lambda plane: plane.send(CONTROL, 1, 1),
    "unalign": lambda plane: plane.unalign(1),
    "start_actions": lambda plane: plane.start_actions([Timed(1, "pause", (1, None))]),
}
SERVICE = {"distribution": "exponential", "mean": "5 ms"}


def on(plane: PlaneFactory, made: Scenario) -> DataPlane:
    return Control(RunPlan.of(made, RunInputs(), 0), plane).plane


@pytest.mark.parametrize("verb", VERBS)
def test_the_scan_refuses_every_action(verb: str) -> None:
    with pytest.raises(ValueError, match=f"not simulated yet: .*{verb}"):
        VERBS[verb](on(ScanPlane, queue(SERVICE)))
