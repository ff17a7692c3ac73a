"""Refuse what `resolution` cannot divide, and what it cannot go together with, by path, value, rule and hint."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from models.errors import InputError
from models.scenario.reading import scenario_from, scenario_with
from models.scenario.rules import warnings
from scenarios.files.scenario import read_scenario, resolve

UNIFORM = {"distribution": "uniform", "count": 5}
TICKS = {"timer": {"every": "1 s"}, "service": {"distribution": "exponential", "mean": "1 ms"}}
REFUSED: dict[str, tuple[str, dict[str, object], str]] = {
    "a batch": (
        "two-hosts",
        {"workload.orders.batch": 25},
        "workload.orders.batch = 25: must be divisible by the resolution, 10 (20 or 30, or a resolution that divides",
    ),
    "a batch that is smaller": (
        "two-hosts",
        {"workload.orders.batch": 5},
        "workload.orders.batch = 5: must be divisible by the resolution, 10 (10, or a resolution that divides 5)",
    ),
    "batches of a random size": (
        "two-hosts",
        {"workload.orders.batch": {"distribution": "geometric", "mean": 4.0}},
        "workload.orders.batch.mean = 4.0: must be 1, or at least the resolution, 10",
    ),
    "a buffer": (
        "two-hosts",
        {"operators.count.buffer": 105},
        "operators.count.buffer = 105: must be divisible by the resolution, 10 (100 or 110",
    ),
    "a poll": (
        "two-hosts",
        {"operators.orders.reading": {"poll": 7}},
        "operators.orders.reading.poll = 7: must be divisible by the resolution, 10 (10, ",
    ),
    "pending roots": (
        "storm-recovery",
        {"fault_tolerance.acker.pending": 99},
        "fault_tolerance.acker.pending = 99: must be divisible by the resolution, 10 (90 or 100",
    ),
    "offsets of a batch": (
        "spark-recovery",
        {"fault_tolerance.micro_batches.max_offsets": 1001},
        "fault_tolerance.micro_batches.max_offsets = 1001: must be divisible by the resolution, 10",
    ),
    "a timer": (
        "two-hosts",
        {
            "operators.tick": {"kind": "map", "inputs": {"orders": "shuffle"}} | TICKS,
            "operators.end": {"kind": "sink", "inputs": {"tick": "shuffle"}},
        },
        "operators.tick.timer = 1 s: makes single records, with resolution = 10: one simulated record stands for 10",
    ),
    "a window": (
        "two-hosts",
        {"operators.count.window": {"length": "2 s"}},
        "operators.count.window = 2 s: makes outputs by key, of keys that are no ids of NEXMark",
    ),
    "a join": ("windowed-join", {}, "makes outputs by key, of keys that are no ids of NEXMark"),
    "a window over keys that were NEXMark's": (
        "nexmark-q5",
        {},
        "operators.hottest.window = 2 s: makes outputs by key",
    ),
    "sellers of auctions": (
        "nexmark-q6",
        {},
        "operators.close.output.keys.field = auction.seller: is of single auctions",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_go_together_is_refused(what: str) -> None:
    name, changes, said = REFUSED[what]
    file = f"examples/{name}.toml" if name == "two-hosts" else resolve(name)
    base = read_scenario(file).scenario
    with pytest.raises(InputError) as error:
        scenario_with(base, {**changes, "resolution": 10})
    assert said in " | ".join(map(str, error.value.faults))
    assert scenario_with(base, {**changes, "resolution": 1}).resolution == 1


@pytest.mark.parametrize(
    "name", ["nexmark-q1", "nexmark-q2", "nexmark-q3", "nexmark-q4", "nexmark-q8", "bin-migration"]
)
def test_queries_over_ids_of_nexmark_can_be_coarser(name: str) -> None:
    assert scenario_with(read_scenario(resolve(name)).scenario, {"resolution": 10}).resolution == 10


@pytest.mark.parametrize("value", [0, -1, 2.5, "10", 10**9 + 1, True])
def test_a_resolution_is_a_whole_number(value: object) -> None:
    raw: dict[str, Any] = {"duration": "1 s", "workload": {"a": {"rate": "1 /s", "keys": UNIFORM}}, "hosts": {"h": {}}}
    raw["operators"] = {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}}
    with pytest.raises(InputError, match=r"^resolution = "):
        scenario_from({**raw, "resolution": value})


def test_an_id_of_nexmark_in_ten_has_to_fit() -> None:
    base = read_scenario(resolve("nexmark-q4")).scenario
    changes: dict[str, object] = {"workload.auctions.rate": "300000 /s"}
    with pytest.raises(InputError, match="the resolution greater"):
        scenario_with(base, changes)
    assert scenario_with(base, {**changes, "resolution": 10}).resolution == 10


def test_a_resolution_that_leaves_hardly_a_record_is_warned_of() -> None:
    """2,000 records come at 200 /s in 10 s: with 20 in place of one just 100 are left, with 25 there are 80."""
    scenario = read_scenario("examples/two-hosts.toml").scenario
    said = {}
    for w in (1, 20, 25, 1000, 10**9):
        coarse = scenario_with(scenario, {"duration": "10 s", "events": {}, "resolution": w})
        said[w] = [one.text for one in warnings(coarse) if one.path == "resolution"]
    assert said[1] == said[20] == []
    assert said[25] == ["leaves 80 simulated records of orders in the run, too few to tell much"]
    assert [len(said[w]) for w in (1000, 10**9)] == [1, 2]
    assert said[10**9] == [
        "is above 1,000, up to which errors were measured: compare results with a lower one",
        "leaves less than one simulated record of orders in the run, too few to tell much",
    ]


KEYS = {
    "uniform": {"distribution": "uniform", "count": 1000},
    "zipf": {"distribution": "zipf", "count": 1000, "exponent": 0.8},
    "few": {"distribution": "uniform", "count": 20},
}


@pytest.mark.parametrize(("keys", "method"), [("uniform", "none"), ("zipf", "none"), ("zipf", "checkpoint")])
def test_a_state_per_key_that_comes_more_slowly_is_warned_of(keys: str, method: str) -> None:
    """Oracle: how many different keys are among drawn ones, 50 times over; between checkpoints those of 2 s count."""
    scenario = read_scenario("examples/two-hosts.toml").scenario
    changes = {"duration": "10 s", "events": {}, "workload.orders.keys": KEYS[keys], "resolution": 10}
    changes |= {"operators.count.state": {"model": "per-key", "bytes": "10 B"}}
    changes |= {"fault_tolerance": {"method": method, "interval": "2 s"}}

    def said(**others: object) -> list[str]:
        found = warnings(scenario_with(scenario, {**changes, **others}))
        return [one.text for one in found if one.path == "operators.count.state"]

    weights = np.arange(1, 1001) ** -(0.8 if keys == "zipf" else 0.0)
    records = 200 * (2 if method == "checkpoint" else 10)
    drawn = np.random.default_rng(5).choice(1000, (50, records), p=weights / weights.sum())
    different = [sum(np.unique(row[:n]).size for row in drawn) for n in (records // 10, records)]
    (text,) = said()
    when, share = re.fullmatch(r"in (.*) simulated records have about (.*) % of the keys of those .*", text).groups()  # type: ignore[union-attr]
    assert when == ("the 2 s between two checkpoints" if method == "checkpoint" else "the run")
    assert float(share) / 100 == pytest.approx(different[0] / different[1], rel=0.05)
    assert not said(resolution=1)
    assert not said(**{"workload.orders.keys": KEYS["few"], "fault_tolerance.interval": "10 s"})
    assert not said(**{"operators.count.state": {"model": "fixed", "bytes": "10 B"}})
