"""Places where two features meet: each was wrong once, found by combining them."""

from __future__ import annotations

from typing import Any

import pytest
from elastic_jobs import elastic_job
from moving_jobs import run
from small_jobs import scenario
from test_planes import differences

from models.records.tables import NEVER
from models.scenario.inputs import RunInputs
from sim.control.assembly import PlaneFactory
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

PLANES: list[PlaneFactory] = [PlainPlane, CompiledPlane]


def chain(stages: int, **changes: Any) -> dict[str, Any]:
    """A source, keyed operators one after the other, and a sink, on hosts h-0, h-1 ..."""
    names = ["one", "two"][:stages]
    operators: dict[str, Any] = {"in": {"kind": "source"}}
    for upstream, name in zip(["in", *names], names, strict=False):
        operators[name] = {
            "kind": "aggregate",
            "inputs": {upstream: "key"},
            "key_groups": 4,
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        }
    operators["out"] = {"kind": "sink", "inputs": {names[-1]: "shuffle"}}
    raw: dict[str, Any] = {
        "format": 1,
        "duration": "13 s",
        "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 100}}},
        "operators": operators,
        "hosts": {"h": {"count": 3}},
        "placement": {
            "tasks": {"in-0": "h-0", "out-0": "h-0"} | {f"{name}-0": f"h-{k + 1}" for k, name in enumerate(names)}
        },
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "5 s"},
    }
    return raw | changes


def move(operator: str, group: int, host: str, at: str, protocol: str) -> dict[str, Any]:
    return {"kind": "migrate", "operator": operator, "key_group": group, "host": host, "at": at, "protocol": protocol}


@pytest.mark.parametrize(("interval", "latency"), [("100 ms", "150 ms"), ("130 ms", "75 ms"), ("250 ms", "240 ms")])
@pytest.mark.parametrize("staggered", [False, True])
def test_direct_ends_where_checkpoints_come_quicker_than_the_news_of_them(
    interval: str, latency: str, staggered: bool
) -> None:
    tolerance = {"method": "checkpoint", "interval": interval, "staggered": staggered}
    events = {"m": move("one", 1, "h-2", "6 s", "direct")}
    made = scenario(chain(1, network={"latency": latency}, fault_tolerance=tolerance, events=events))
    plain, compiled = (simulate(made, plane=plane) for plane in PLANES)
    assert differences(plain, compiled) == []
    assert compiled.tables["migrations"]["completed_ns"].min() > 0
    assert not compiled.tables["ledger"]["lost"].any()


@pytest.mark.parametrize("plane", PLANES, ids=["plain", "compiled"])
@pytest.mark.parametrize("duration", ["13 s", "16 s", "20 s"])
def test_what_will_be_sent_again_to_the_successor_of_a_moved_group_is_not_lost_yet(
    plane: PlaneFactory, duration: str
) -> None:
    events = {f"m{group}": move("two", group, "h-1", "12 s", "cpa") for group in range(4)}
    crash = {"crash": {"kind": "host-failure", "at": "12800 ms", "host": "h-1"}}
    tolerance = {"method": "checkpoint", "interval": "5 s", "staggered": True, "store": "remote"}
    made = scenario(chain(2, duration=duration, fault_tolerance=tolerance, events=crash | events))
    assert not simulate(made, plane=plane).tables["ledger"]["lost"].any()


def test_a_move_that_still_waits_at_the_end_has_a_row() -> None:
    events = {f"m{k}": move("one", 0, f"h-{k}", "12998 ms", "direct") for k in (2, 0)}
    records = simulate(scenario(chain(1, events=events)), RunInputs(), plane=PlainPlane)
    table = records.tables["migrations"]
    assert table["target"].tolist() == [2, 0]
    assert table["completed_ns"].tolist() == [NEVER, NEVER]
    assert table["requested_ns"].tolist() == [12_998_000_000] * 2


@pytest.mark.parametrize("seed", [5, 7, 8, 11, 12, 20, 21])
def test_key_groups_that_move_by_themselves_fetch_their_checkpoint_from_a_remote_store(seed: int) -> None:
    made = elastic_job(seed, high=0.4, low=0.1)
    tolerance = made.fault_tolerance.model_copy(update={"store": "remote"})
    made = made.model_copy(update={"fault_tolerance": tolerance})
    plain, compiled = (run(made, plane, assists=False) for plane in PLANES)
    assert differences(plain.records, compiled.records) == []
    assert compiled.faults == []
    moves = compiled.records.tables["migrations"]
    assert (moves["target"] >= 0).all()
