"""Trimming by acks: the compiled plane against its specification, on random jobs with all that may stand beside it.

Oracle: `sim.plain`, by equality of all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from lattices import lattice_job
from small_jobs import random_job, random_joins, random_windows, storm, with_buffers, with_fair_links, with_timers
from test_planes import differences

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

MAKES: tuple[Callable[..., dict[str, Any]], ...] = (random_job, lattice_job, random_windows, random_joins, storm)


def job(seed: int) -> dict[str, Any]:
    """A random job of any kind whose outputs are trimmed by acks."""
    draw = Random(f"trimming {seed}")
    trimming = {
        "slice": draw.choice(["50 ms", "100 ms", "130 ms", "500 ms"]),
        "every": draw.choice(["100 ms", "300 ms", "1 s"]),
        "levels": draw.choice([1, 2, 2, 2, 3, 4]),
        "ack": draw.choice(["32 B", "7 B", "500 B"]),
        "reading": draw.choice(["safe", "safe", "literal"]),
        "work": draw.choice(["0 s", "0 s", "100 us", "5 ms"]),
    }
    tolerance: dict[str, Any] = {"method": "elastic-upstream-backup", "trimming": trimming}
    if draw.random() < 0.5:
        tolerance["snapshots"] = {
            "mode": draw.choice(["synchronous", "asynchronous"]),
            "pause": draw.choice(["0 s", "1 ms", "20 ms"]),
            **({"copy": draw.choice(["100 kB/s", "1 MB/s"])} if draw.random() < 0.5 else {}),
        }
    raw = MAKES[seed % len(MAKES)](draw, fault_tolerance=tolerance)
    for change in (with_fair_links, with_timers, with_buffers):
        if draw.random() < 0.35 and (change is not with_timers or seed % len(MAKES) in (0, 1, 4)):
            raw = change(draw, raw)
    cores = {"cpu": draw.choice(["dedicated", "shared", "shared", "processor-sharing"]), "cores": draw.choice([1, 2])}
    raw["hosts"]["h"] = raw["hosts"]["h"] | (cores if draw.random() < 0.7 else {})
    if not raw["events"] and seed % len(MAKES) in (2, 3):  # windows, and hosts that die
        hosts = raw["hosts"]["h"]["count"]
        raw["events"] = {
            f"crash{k}": {
                "at": f"{draw.randint(0, 40) * 100} ms",
                "kind": "host-failure",
                "host": f"h-{draw.randrange(hosts)}",
                "repair": "300 ms",
            }
            for k in range(draw.choice([0, 1, 2, 4]))
        }
    return raw


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job of that seed."""
    made = Scenario.model_validate(job(seed), context={"units": True}, by_alias=True, by_name=False)
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    if seen is not None:
        note(plain, made, seen)
    return differences(plain, compiled)


def note(records: RunRecords, made: Scenario, seen: Counter[str]) -> None:
    """Count what happened in a run, so that a test sees that the jobs meet it."""
    tables, trimming = records.tables, made.fault_tolerance.acked_slices
    assert trimming is not None
    seen["acks"] += "ack" in tables["messages"]["kind"].tolist()
    seen["recovered"] += tables["recoveries"]["host"].size > 0
    seen["lost"] += int(tables["ledger"]["lost"].sum()) > 0
    seen[trimming.reading] += 1
    seen["slices"] += int(tables["buffers"]["slices"].max(initial=0)) > 1
    seen["more than 16 slices"] += int(tables["buffers"]["slices"].max(initial=0)) > 16


def test_both_planes_give_equal_rows() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        assert on_both(seed, seen) == [], seed
    assert min(seen[what] for what in ("acks", "recovered", "safe", "literal", "slices")) > 0, seen


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed, seen) == [], seed
    assert min(seen[what] for what in ("lost", "more than 16 slices")) > 0, seen
