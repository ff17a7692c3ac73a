"""States of a fixed size of which tuples change a part: what incremental checkpoints of them have.

Oracles: sizes by hand; the planes against each other, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from scan_jobs import checkpointed_job
from scripts import unchecked
from small_jobs import random_job
from test_hand_over import cut, failing, random_spells, single
from test_planes import differences

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.steady_state.checkpoint_traffic import bottlenecks
from models.steady_state.load import expected_load
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.spells import spells
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import NotCovered

INCREMENTAL = {"method": "checkpoint", "interval": "300 ms", "kind": "incremental"}


def warm(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same job with states of which a part changes; some hardly ever, some all at once."""
    for operator in raw["operators"].values():
        if operator["kind"] in ("map", "filter", "aggregate") and "window" not in operator:
            change = draw.choice(["0 B", "33.3 B", "150 B", "5 kB"])
            operator["state"] = {"model": "fixed", "bytes": draw.choice(["2 kB", "123456 B"]), "change": change}
    return raw


def test_the_planes_agree_with_and_without_crashes() -> None:
    changed = 0
    for seed in range(25):
        draw = Random(f"warm {seed}")
        made = unchecked(warm(draw, random_job(draw, fault_tolerance=dict(INCREMENTAL))))
        plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        changed += int((~plain.tables["checkpoints"]["full"]).sum())
    assert changed > 100


def test_the_scan_takes_the_same_checkpoints() -> None:
    for seed in range(25):
        draw = Random(f"warm scan {seed}")
        made = unchecked(warm(draw, single(checkpointed_job(draw))))
        assert differences(simulate(made, plane=CompiledPlane), simulate(made, plane=ScanPlane)) == [], seed


def test_rows_do_not_depend_on_who_has_the_run() -> None:
    compared = 0
    for seed in range(20):
        draw = Random(f"warm turns {seed}")
        raw = warm(draw, failing(draw, seed % 2 == 0) if seed % 4 else single(checkpointed_job(draw)))
        made = unchecked(raw)
        found = spells(RunPlan.of(made, RunInputs(), 0)) if seed % 4 else random_spells(draw, made, 3)
        turns = cut([(begin, end) for begin, end in found], 10_000_000)
        try:
            both = simulate(made, plane=turns)
        except NotCovered:
            continue
        assert differences(simulate(made, plane=CompiledPlane), both) == [], seed
        compared += 1
    assert compared > 10


def job(change: str | None, kind: str = "incremental", rate: str = "100 /s") -> dict[str, Any]:
    state = {"model": "fixed", "bytes": "10 kB"} | ({} if change is None else {"change": change})
    return {
        "format": 1,
        "duration": "4 s",
        "workload": {"in": {"rate": rate, "arrivals": "deterministic", "tuple": "10 B"}},
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "map",
                "inputs": {"in": "forward"},
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": state,
            },
            "out": {"kind": "sink", "inputs": {"sum": "forward"}},
        },
        "hosts": {"h": {"count": 4, "network": "1 MB/s"}},
        "placement": {"tasks": {"in-0": "h-0", "sum-0": "h-1", "out-0": "h-2"}},
        "network": {"latency": "1 us"},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s", "kind": kind, "guarantee": "at-most-once"},
    }


def sizes(raw: dict[str, Any]) -> list[int]:
    """The checkpoints of the operator with the state [B]."""
    found: RunRecords = simulate(scenario_from(raw), plane=CompiledPlane)
    table = found.tables["checkpoints"]
    own = table["operator"] == 1
    order = np.argsort(table["taken_ns"][own], kind="stable")
    return [int(size) for size in table["bytes"][own][order]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, [10_000, 10_000, 10_000]),
        ("50 B", [10_000, 5_000, 5_000]),  # 100 tuples in each interval
        ("0.25 B", [10_000, 25, 25]),
        ("0 B", [10_000, 0, 0]),
        ("3 kB", [10_000, 10_000, 10_000]),  # never more than there is
    ],
)
def test_an_incremental_checkpoint_has_what_tuples_have_changed(change: str | None, expected: list[int]) -> None:
    assert sizes(job(change)) == expected


def test_a_full_checkpoint_has_all_of_it() -> None:
    assert sizes(job("50 B", kind="full")) == [10_000] * 3


def test_expected_uploads_count_what_changes() -> None:
    # 1 MB/s of changes, and as much again as nothing: a link of 1 MB/s keeps up with half of it.
    slow = job("20 kB", rate="100 /s") | {"hosts": {"h": {"count": 4, "network": "1 MB/s"}}}
    slow["operators"]["sum"]["state"]["bytes"] = "100 MB"
    made = scenario_from(slow)
    assert list(bottlenecks(made, expected_load(made))) != []
    fast = job("5 kB", rate="100 /s")
    fast["operators"]["sum"]["state"]["bytes"] = "100 MB"
    made = scenario_from(fast)
    assert list(bottlenecks(made, expected_load(made))) == []
