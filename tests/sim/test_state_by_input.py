"""A state per key with a size for each input: equal planes, sizes by hand, and planes that are broken on purpose.

Oracles: `sim.plain`, by equality of all columns; sizes of states by hand. No tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from full_jobs import KINDS
from test_full_jobs import ran
from test_planes import differences, noticed

from models.records.tables import EVENT_LOOP
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from, scenario_with
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.operator_plan import OperatorPlan
from sim.plain.plane import PlainPlane

PAIRS = [(100, 300), (1, 1000), (200, 200)]
Patch = pytest.MonkeyPatch


def job_with_crashes(kind: str, seed: int) -> Scenario:
    """A job with all features in which an aggregate and a join have entries of another size for each input."""
    draw = Random(f"entries {kind} {seed}")
    raw = KINDS[kind](Random(f"{kind} {seed}"), seed)
    for name in ("one", "pairs"):
        if name in raw["operators"]:
            operator = raw["operators"][name]
            sizes = zip(operator["inputs"], draw.choice(PAIRS), strict=True)
            operator["state"] = {"model": "per-key", "bytes": {upstream: f"{size} B" for upstream, size in sizes}}
    return scenario_from(raw)


def local_items(**changes: Any) -> Scenario:
    """Query 3 of NEXMark for 5 s, in which a host dies between two checkpoints."""
    loaded = read_scenario(resolve("nexmark-q3")).scenario
    short = {"duration": "5 s", "fault_tolerance.interval": "600 ms", "events.kill.at": "2 s"}
    return scenario_with(loaded, short | changes)


def on_both(made: Scenario) -> list[str]:
    return differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane))


@pytest.mark.parametrize("kind", ["moving", "replicated"])
def test_both_planes_give_equal_rows_beside_crashes(kind: str) -> None:
    failures = checkpoints = 0
    for seed in range(4):
        made = job_with_crashes(kind, seed)
        plain, compiled = ran(made, PlainPlane), ran(made, CompiledPlane)
        assert differences(plain.records, compiled.records) == [], seed
        failures += len(plain.records.tables["failures"]["host"])
        checkpoints += int((plain.records.tables["checkpoints"]["bytes"] > 0).sum())
    assert failures > 2
    assert checkpoints > 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moving", "replicated"])
def test_a_long_campaign_of_equal_rows(kind: str) -> None:
    for seed in range(100, 300):
        made = job_with_crashes(kind, seed)
        assert differences(ran(made, PlainPlane).records, ran(made, CompiledPlane).records) == [], seed


@pytest.mark.parametrize("kind", ["full", "incremental"])
def test_barriers_save_the_same_sizes_on_both_planes(kind: str) -> None:
    made = local_items(**{"fault_tolerance.kind": kind})
    assert not_simulated(made) == []
    assert kernel_for(RunPlan.of(made, RunInputs(), 0)).name == EVENT_LOOP
    assert on_both(made) == []


def small(**state: Any) -> Scenario:
    """A join of two sources with one key each, from which ten tuples come in a second."""
    source = {"rate": "10 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 1}}
    return scenario_from(
        {
            "duration": "2 s",
            "workload": {"left": source, "right": source},
            "operators": {
                "left": {"kind": "source"},
                "right": {"kind": "source"},
                "match": {
                    "kind": "join",
                    "inputs": {"left": "key", "right": "key"},
                    "window": {"length": "10 s"},
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                    "state": {"model": "per-key", **state},
                },
                "out": {"kind": "sink", "inputs": {"match": "shuffle"}},
            },
            "hosts": {"h": {"count": 2}},
            "fault_tolerance": {"interval": "600 ms"},
        }
    )


def test_each_input_has_an_entry_for_each_of_its_keys() -> None:
    """One size counts the key that both inputs bring once; sizes by input count it for each of them."""
    assert _size(small(bytes="70 B")) == 70
    assert _size(small(bytes={"left": "70 B", "right": "5 B"})) == 75


def _size(made: Scenario) -> int:
    found = simulate(scenario_with(made, {"recording.memory": True}))
    rows = found.tables["memory"]
    return int(rows["state_bytes"][rows["at_ns"] == rows["at_ns"].max()].sum())


# -- broken on purpose


def only_the_first(plan: OperatorPlan, key: int, upstream: int) -> int:
    return key if plan.entries is None else key * len(plan.entries) + plan.entries.index(max(plan.entries))


def of_the_next(plan: OperatorPlan, entry: int) -> int:
    assert plan.entries is not None
    return next(size for size in plan.entries[entry % len(plan.entries) + 1 :] + plan.entries if size)


@pytest.mark.parametrize(("name", "wrong"), [("entry_of", only_the_first), ("bytes_of_entry", of_the_next)])
def test_a_plane_that_mixes_inputs_up_is_noticed(monkeypatch: Patch, name: str, wrong: Callable[..., Any]) -> None:
    assert on_both(local_items()) == []
    monkeypatch.setattr(OperatorPlan, name, wrong)
    assert noticed(lambda _: on_both(local_items()), [0])
