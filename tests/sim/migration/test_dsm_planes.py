"""DSM and periodic waves on random jobs: both planes give equal rows, and nothing is lost that should not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from test_acker_planes import job
from test_planes import differences

from models.records.tables import RunRecords
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def stormy(seed: int) -> dict[str, Any]:
    """A random job with an acker, periodic waves, and one or two rebalances by DSM; perhaps hosts die as well."""
    draw, raw = Random(f"dsm {seed}"), job(seed)
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    times = ["1 ms", "3 ms", "20 ms"]
    raw["waves"] = {
        "interval": draw.choice(["300 ms", "500 ms", "1 s"]),
        "phase": draw.choice(["0 s", "7 ms", "100 ms"]),
        **{kind: draw.choice(times) for kind in ("prepare", "commit", "init") if draw.random() < 0.5},
    }
    if draw.random() < 0.5:
        raw["waves"]["step"] = {"distribution": "uniform", "low": "1 ms", "high": draw.choice(["3 ms", "100 ms"])}
    # A store that is slower than waves are frequent reads what has been replaced meanwhile.
    times = ["0 s", "1 ms", "1 ms", "300 ms"]
    raw["state_store"] = {"request": draw.choice(times), "concurrency": draw.choice([1, 2])}
    raw["workers"] = {"start_per_rank": draw.choice(["0 s", "10 ms", "300 ms"])}
    if draw.random() < 0.7:
        raw["workers"]["gate"] = draw.choice(["10 ms", "100 ms"])
    if draw.random() < 0.5:
        raw["events"] = {}
    for number in range(draw.choice([1, 1, 2])):
        command = draw.choice(["0 s", "50 ms", "300 ms"])
        at = f"{draw.choice([draw.randint(1, 2000), draw.randint(1, 20) * 100])} ms"
        made = {"kind": "rebalance", "at": at, "hosts": ["h"], "protocol": "dsm", "command": command}
        raw["events"] = {**raw.get("events", {}), f"goes-{number}": made}
    return raw


def ends_without_workers(seed: int) -> dict[str, Any]:
    """The same job, longer, whose workers are down at the end; their states are in parcels, if anywhere."""
    draw, raw = Random(f"ends {seed}"), stormy(seed)
    seconds = draw.choice([3, 6, 12])
    raw["duration"] = f"{seconds} s"
    raw["workers"]["start_per_rank"] = draw.choice(["200 ms", "1 s", "3 s"])
    at = f"{1000 * seconds - draw.choice([50, 300, 1000, 2000])} ms"
    raw["events"]["last"] = {"kind": "rebalance", "at": at, "hosts": ["h"], "protocol": "dsm"}
    return raw


def on_both(seed: int, seen: Counter[str] | None = None, made: Callable[[int], dict[str, Any]] = stormy) -> list[str]:
    """Differences between the planes for the job of that seed."""
    plain, compiled = (simulate(unchecked(made(seed)), plane=plane) for plane in (PlainPlane, CompiledPlane))
    if seen is not None:
        seen.update(plain.tables["dropped"]["reason"].tolist())
        seen.update(plain.tables["replays"]["cause"].tolist())
        seen["failures"] += plain.tables["failures"]["host"].size
        seen["open"] += int((plain.tables["rebalances"]["outcome"] == "open").sum())
        seen["lost"] += int(plain.tables["ledger"]["lost"].sum() > 0)
    return differences(plain, compiled)


def test_both_planes_give_equal_rows_under_dsm() -> None:
    seen: Counter[str] = Counter()
    assert {seed: found for seed in range(8) if (found := on_both(seed, seen))} == {}
    assert min(seen[what] for what in ("kill", "timeout", "failures")) > 1, seen


def test_both_planes_give_equal_rows_where_workers_are_down_at_the_end() -> None:
    # Ids are forgotten that no state has any more, so the audit of the compiled plane has to go by numbers.
    seen: Counter[str] = Counter()
    seeds = [3, 60, 69, 105, *range(4)]
    assert {seed: found for seed in seeds if (found := on_both(seed, seen, ends_without_workers))} == {}
    assert min(seen["open"], seen["lost"]) > 1, seen


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("made", [stormy, ends_without_workers])
def test_both_planes_give_equal_rows_under_dsm_in_a_long_campaign(
    made: Callable[[int], dict[str, Any]], part: int
) -> None:
    seeds = range(500 * part, 500 * part + 500)
    assert {seed: found for seed in seeds if (found := on_both(seed, made=made))} == {}


def lost(raw: dict[str, Any], found: RunRecords) -> list[str]:
    """Operators that lack tuples: sinks, and with covered acks those with a state."""
    names, table, operators = [*raw["operators"]], found.tables["ledger"], raw["operators"]
    covered = raw["fault_tolerance"]["acker"]["acks"] == "covered"
    lacking = [names[one] for one, count in zip(table["operator"], table["lost"], strict=True) if count]
    return [one for one in lacking if operators[one]["kind"] == "sink" or (covered and "state" in operators[one])]


def mixed(seed: int) -> dict[str, Any]:
    """The job of that seed without crashes; its rebalances follow any protocol, DCR or CCR at least once."""
    draw, raw = Random(f"mixed {seed}"), stormy(seed)
    raw["fault_tolerance"]["acker"]["acks"] = "literal"
    raw["workers"]["gate"] = "10 ms"  # without it a task sends what was captured to one that is not up
    raw["events"] = {name: one for name, one in raw["events"].items() if one["kind"] == "rebalance"}
    for number, event in enumerate(raw["events"].values()):
        event["protocol"] = draw.choice(["dcr", "ccr"] if number == 0 else ["dcr", "ccr", "dsm"])
    return raw


def test_dcr_and_ccr_take_turns_with_periodic_waves() -> None:
    seen: Counter[str] = Counter()
    assert {seed: found for seed in range(8) if (found := on_both(seed, seen, mixed))} == {}
    for seed in range(25):
        raw = mixed(seed)
        found = simulate(unchecked(raw), plane=CompiledPlane)
        table, decisions = found.tables["rebalances"], found.tables["decisions"]
        seen["held up"] += decisions["reason"].tolist().count("a periodic wave is under way")
        seen.update(table["outcome"].tolist())
        if not np.any(table["protocol"] == "dsm"):
            assert found.tables["ledger"]["lost"].tolist() == [0] * found.tables["ledger"]["lost"].size, seed
    assert min(seen["held up"], seen["done"]) > 2, seen
    assert seen["called off"] == 0


def rooted(seed: int) -> bool:
    """Whether all tuples of the job belong to roots: outputs of windows, joins and timers do not."""
    operators = stormy(seed)["operators"].values()
    return not any({"window", "timer"} & one.keys() or one["kind"] == "join" for one in operators)


@pytest.mark.parametrize("seeds", parts(30, 60))
def test_dsm_loses_no_message_and_no_covered_state_of_random_jobs(seeds: range) -> None:
    with_roots = [seed for seed in seeds if rooted(seed)]
    assert len(with_roots) > len(seeds) / 3
    found = {}
    for seed in with_roots:
        raw = stormy(seed)
        found[seed] = lost(raw, simulate(unchecked(raw), plane=CompiledPlane))
    assert {seed: lacking for seed, lacking in found.items() if lacking} == {}
