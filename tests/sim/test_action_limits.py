"""What actions of protocols are not simulated with yet: each verb says so, in both data planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reference.world import World
from small_jobs import queue

from models.inputs import RunInputs
from models.scenario import Scenario
from sim.cluster import RunPlan
from sim.compiled.plane import CompiledPlane
from sim.compiled.scan_plane import ScanPlane
from sim.control import Control, PlaneFactory
from sim.data_plane import CONTROL, DataPlane, Timed

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
LINK = {"hosts": {"h": {"count": 1, "network": "1 MB/s"}}}


def on(plane: PlaneFactory, made: Scenario) -> DataPlane:
    return Control(RunPlan.of(made, RunInputs(), 0), plane).plane


def beside() -> dict[str, Scenario]:
    window = {"kind": "aggregate", "inputs": {"src": "key"}, "window": {"length": "1 s"}}
    return {
        "bounded queues": queue(SERVICE, q={"buffer": 5}),
        "shared evenly": queue(SERVICE, network={"sharing": "fair"}, **LINK),
        "processor sharing": queue(SERVICE, hosts={"h": {"count": 1, "cpu": "processor-sharing"}}),
        "pace changes": queue(SERVICE, hosts={"h": {"count": 1, "load": {"steps": [{"at": "5 s", "share": 0.5}]}}}),
        "windows": queue(SERVICE, q=window),
    }


@pytest.mark.parametrize("plane", [World, CompiledPlane])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", beside())
def test_an_action_beside_what_it_was_not_tried_with_is_refused(plane: PlaneFactory, verb: str, what: str) -> None:
    with pytest.raises(ValueError, match=f"not simulated yet: .*{what}"):
        VERBS[verb](on(plane, beside()[what]))


@pytest.mark.parametrize("plane", [World, CompiledPlane])
def test_a_pace_that_changes_and_an_action_exclude_each_other(plane: PlaneFactory) -> None:
    slowed, paused = on(plane, queue(SERVICE)), on(plane, queue(SERVICE))
    slowed.speed(0, 0.0)
    slowed.pause(1, 5)
    with pytest.raises(ValueError, match=r"not simulated yet: .*pace changes"):
        slowed.speed(0, 0.5)
    paused.speed(0, 0.5)
    with pytest.raises(ValueError, match=r"not simulated yet: .*pace changes"):
        paused.pause(1, 5)


@pytest.mark.parametrize("verb", VERBS)
def test_the_scan_refuses_every_action(verb: str) -> None:
    with pytest.raises(ValueError, match=f"not simulated yet: .*{verb}"):
        VERBS[verb](on(ScanPlane, queue(SERVICE)))
