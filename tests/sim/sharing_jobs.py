"""Random jobs whose hosts share their cores: priorities, shares that others take, processor sharing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim import engine
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory

Change = tuple[int, int, float]  # (instant [ns], host, share that others take)
_CPU = ["shared", "dedicated", "processor-sharing", "processor-sharing"]
_SHARES = [0.0, 0.25, 0.5, 0.9, 1 / 3, 0.999]


def share_cores(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The job with priorities, warm-up, many threads, and hosts of two kinds whose CPU others use at times."""
    for operator in raw["operators"].values():
        if operator["kind"] != "source":
            operator["priority"] = draw.choice([-1, 0, 0, 1, 2])
        if "threads" in operator:
            operator["threads"] = draw.choice([2, 3, 50])
        if operator["kind"] == "sink" and draw.random() < 0.3:
            operator["service"] = {"distribution": "deterministic", "value": "2 ms"}
    raw["hosts"]["h"] |= _group(draw)
    if draw.random() < 0.5:
        raw["hosts"]["g"] = {"count": draw.randint(1, 2), **_group(draw)}
    duration_s = int(raw["duration"].split()[0])
    raw["warmup"] = draw.choice(["0 s", "500 ms", f"{draw.randint(1, 1000 * duration_s - 1)} ms"])
    return raw


def _group(draw: Random) -> dict[str, Any]:
    group: dict[str, Any] = {
        "cpu": draw.choice(_CPU),
        "cores": draw.randint(1, 3),
        "speed": draw.choice([1.0, 1.0, 0.7]),
    }
    if draw.random() < 0.6:
        times = sorted(draw.sample(range(71), draw.randint(1, 6)))
        step_ms = draw.choice([100, 37])
        group["load"] = {"steps": [{"at": f"{at * step_ms} ms", "share": draw.choice(_SHARES)} for at in times]}
    return group


def changes(draw: Random, made: Scenario) -> list[Change]:
    """Changes of pace by control at random and on the lattice of services and checkpoints."""
    hosts = sum(group.count for group in made.hosts.values())
    end_ms = int(1000 * made.duration_s)
    times = [
        draw.choice([draw.randint(0, end_ms), draw.randint(0, end_ms // 100) * 100]) for _ in range(draw.randint(1, 12))
    ]
    return [(at * 10**6, draw.randrange(hosts), draw.choice(_SHARES)) for at in sorted(times)]


def changed(control: Control, script: Sequence[Change]) -> Process:
    """A control process that carries the changes out."""
    for at_ns, host, share in script:
        if at_ns > control.clock.now_ns():
            yield control.clock.sleep(at_ns)
        control.plane.speed(host, share)


def with_changes(made: Scenario, script: Sequence[Change], plane: PlaneFactory) -> RunRecords:
    """The records of a run in which control changes paces."""
    control = engine.build(made, plane=plane)
    control.clock.process(changed(control, script))
    duration_ns = to_ns(made.duration_s)
    control.run(duration_ns)
    return engine.records(control, duration_ns)
