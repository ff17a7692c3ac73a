"""Pauses, holds, messages and barriers against instants that are worked out by hand, on both planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reference.world import World
from small_jobs import rows_of, scenario

from models.inputs import RunInputs
from models.records import RunRecords
from models.scenario import Scenario
from models.units import to_ns
from sim.cluster import RunPlan
from sim.compiled.plane import CompiledPlane
from sim.control import Control, PlaneFactory
from sim.data_plane import CONTROL, Timed
from sim.engine import records

MS = 1_000_000
SRC, Q, OUT = 0, 1, 2  # tasks of `line`; further sources come before
Told = list[tuple[Any, ...]]


def line(sources: int = 1, latency: str = "1 ms", **changes: Any) -> Scenario:
    """Each source emits every 10 ms over a link to one queue with a service of 4 ms, and that to a sink."""
    hosts = [*(f"s{k}" for k in range(sources)), "q"]
    raw = {
        "duration": "200 ms",
        "workload": {"src": {"rate": f"{100 * sources} /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source", "parallelism": sources},
            "q": {
                "kind": "map",
                "inputs": {"src": "shuffle"},
                "service": {"distribution": "deterministic", "value": "4 ms"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {name: {"count": 1} for name in hosts},
        "network": {"latency": latency},
    }
    if changes:
        raw |= changes
    return scenario(raw | {"placement": {f"src-{k}": f"s{k}" for k in range(sources)} | {"q-0": "q", "out-0": "q"}})


class Telling(Control):
    """Calls `answer` with what it is told."""

    answer: Callable[[Telling, str, int, int], None] | None = None

    def message(self, token: int, task: int) -> None:
        self.hear("message", token, task)

    def aligned(self, token: int, task: int) -> None:
        self.hear("aligned", token, task)

    def hear(self, what: str, token: int, task: int) -> None:
        self.told.append((self.clock.now_ns() // MS, what, token, task))
        if self.answer:
            self.answer(self, what, token, task)


def run(
    made: Scenario,
    plane: PlaneFactory,
    actions: list[tuple[int, str, tuple[Any, ...]]],
    answer: Callable[[Telling, str, int, int], None] | None = None,
) -> tuple[RunRecords, Told]:
    """The rows of a run with actions at (instant [ms], verb, arguments), and what was told at which [ms]."""
    control = Telling(RunPlan.of(made, RunInputs(), 0), plane)
    control.told, control.answer = [], answer  # type: ignore[attr-defined]
    control.start()
    for at_ms, verb, arguments in actions:
        control.clock.at(at_ms * MS, 0, lambda _, v=verb, a=arguments: getattr(control.plane, v)(*a))
    until = to_ns(made.duration_s)
    control.run(until)
    return records(control, until), control.told  # type: ignore[attr-defined]


@pytest.fixture(params=[World, CompiledPlane], ids=["plain", "compiled"])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def in_ms(made: RunRecords, operator: str) -> list[tuple[float, float, float]]:
    return [(arrival / MS, start / MS, end / MS) for arrival, start, end in rows_of(made, operator)]
