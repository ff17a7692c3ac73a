"""Random jobs in which hosts die while key groups move in steps and nothing is kept, and what is wrong with runs."""

from __future__ import annotations

from random import Random
from typing import Any

from crashing_steps import job as with_checkpoints
from lab.following import Followed
from test_megaphone import made

from models.records.tables import RunRecords
from models.units import to_ns
from sim.control.assembly import Control
from sim.engine import records


def job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job whose operator `op` is reconfigured once or more, with hosts that die, most of them in a step."""
    raw = with_checkpoints(seed, crashes)
    draw = Random(f"losses in steps {seed}")
    raw["fault_tolerance"] = {"method": "none"}
    raw["duration"] = "4 s"
    if draw.random() < 0.3:
        raw["operators"]["op"]["postpone"] = {"distribution": "exponential", "mean": draw.choice(["20 ms", "200 ms"])}
    if draw.random() < 0.3:
        raw["detector"] = {"heartbeat": "40 ms", "timeout": "120 ms", "connection": "0 s"}
    if draw.random() < 0.2:
        raw["detector"] = {"heartbeat": "10 ms", "timeout": "50 ms", "loss": 0.2}
    for event in raw["events"].values():
        if event["kind"] == "reconfigure" and event.get("protocol") is None and "map" not in raw["operators"]:
            event["late"] = draw.choice(["0 s", "0 s", "15 ms"])
        if event["kind"] == "host-failure" and draw.random() < 0.2 and raw["hosts"]["h"]["count"] > 2:
            del event["repair"]
        if event.get("repair") == "1 s":  # what has waited in sources is processed before the end
            event["repair"] = "300 ms"
    return raw


def ran(raw: dict[str, Any]) -> tuple[Control, RunRecords, list[str]]:
    """The run of a job on the plain plane, its rows, and what is wrong with it."""
    control = made(raw)
    followed, until_ns = Followed(control), to_ns(control.plan.scenario.duration_s)
    control.start()
    control.run(until_ns)
    return control, records(control, until_ns), followed.faults()
