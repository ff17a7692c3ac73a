"""Whole dataflows that are drained or captured, killed, and brought back: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from lab.rebalances import Rebalances
from small_jobs import random_job

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.plain.plane import PlainPlane

MS = 1_000_000
PLANES = [PlainPlane]
METHODS = (
    {"method": "none"},
    {"guarantee": "exactly-once"},
    {"guarantee": "at-least-once"},
    {"guarantee": "at-most-once"},
)


def calm(draw: Random, method: dict[str, Any]) -> Scenario:
    """A random job in which no host that has a task fails; tasks have one thread."""
    raw = random_job(draw, fault_tolerance=dict(method))
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    raw["hosts"]["other"] = {"count": 1}
    raw["events"] = {"late": {"at": "1000 s", "kind": "host-failure", "host": "other-0"}}
    raw["placement"] = {"operators": dict.fromkeys(raw["operators"], "h")}
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def rebalanced(
    made: Scenario, plane: PlaneFactory, protocol: str, at_ms: list[int], start_ms: int
) -> tuple[RunRecords, Rebalances]:
    """The rows of a run with rebalances, and what became of these; it goes on until all is drained."""
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    kind, hosts = Rebalances(control.state, control.coordinator), made.hosts["h"].count
    control.start()
    for at in at_ms:
        control.clock.at(at * MS, 0, lambda _: kind.request(protocol, hosts, start_ns=start_ms * MS))
    end = to_ns(made.duration_s) + 60_000 * MS
    control.run(end)
    return records(control, end), kind


@pytest.fixture(params=PLANES, ids=[one.__name__ for one in PLANES])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def check(seed: int, protocol: str, plane: PlaneFactory) -> int:
    """Check one random job; return how many tuples were captured or held."""
    draw = Random(f"{seed} {protocol}")
    made = calm(draw, METHODS[seed % len(METHODS)])
    at_ms = sorted(draw.choice([draw.randint(1, 2500), draw.randint(1, 25) * 100]) for _ in range(draw.choice([1, 2])))
    found, kind = rebalanced(made, plane, protocol, at_ms, draw.choice([0, 0, 1, 300]))
    assert [run.over for run in kind.runs] == [True] * len(at_ms), seed
    ledger = found.tables["ledger"]
    assert ledger["lost"].sum() == ledger["duplicated"].sum() == 0, (seed, ledger)
    assert set(found.tables["dropped"]["reason"].tolist()) <= {"duplicate"}, seed
    return int(ledger["expected"].sum())


@pytest.mark.parametrize("protocol", ["drain", "capture"])
def test_a_dataflow_that_is_killed_comes_back_whole(protocol: str, plane: PlaneFactory) -> None:
    assert sum(check(seed, protocol, plane) for seed in range(24)) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["drain", "capture"])
def test_many_dataflows_that_are_killed_come_back_whole(protocol: str, plane: PlaneFactory) -> None:
    for seed in range(24, 1000):
        check(seed, protocol, plane)
