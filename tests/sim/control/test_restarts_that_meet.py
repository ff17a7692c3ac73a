"""Rules of restarted jobs that meet: rescalings, barriers that overtake, expired checkpoints, copies on disks, commits.

Each has tests of its own. Here random jobs have several of them. Oracles: the guarantee, and both planes.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from small_jobs import NS, with_buffers
from test_job_scaling import with_rescales
from test_planes import differences
from test_recovery import check_job

from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def with_many_rules(draw: Random) -> dict[str, Any]:
    """A random job that hosts and rescalings stop, with several rules about its checkpoints."""
    raw = with_rescales(draw)
    tolerance = raw["fault_tolerance"]
    tolerance["guarantee"] = "exactly-once"
    if draw.random() < 0.6:
        tolerance |= {"interval": draw.choice(["100 ms", "400 ms", "1 s"]), "remote": "1 MB/s"}
        tolerance["barriers"] |= {
            "unaligned": True,
            "alignment_timeout": draw.choice(["0 s", "0 s", "30 ms", "200 ms"]),
        }
    if draw.random() < 0.4:
        tolerance["local_recovery"] = draw.choice([{}, {"disk": "200 kB/s"}])
    if draw.random() < 0.5:
        tolerance["barriers"] |= {
            "timeout": draw.choice(["2 ms", "20 ms"]),
            "tolerated_failures": draw.choice([0, 0, 1]),
            "restarted": "random",
        }
    for operator in raw["operators"].values():
        if operator["kind"] == "sink" and draw.random() < 0.5:
            operator["commit"] = "at-checkpoint"
    if draw.random() < 0.4:
        raw = with_buffers(draw, raw)
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    if draw.random() < 0.5:
        for operator in raw["operators"].values():
            if operator["kind"] != "source":
                value = draw.choice(["1 ms", "10 ms", "30 ms"])
                operator["service"] = {"distribution": "deterministic", "value": value}
    return raw


def holds(seed: int) -> bool:
    draw = Random(f"meet {seed}")
    raw = with_many_rules(draw)
    # No ids are kept where too few checkpoints can expire before the end of the run, behind which tests drain it.
    raw["fault_tolerance"]["barriers"].pop("tolerated_failures", None)
    return check_job(raw, "exactly-once", tuple(draw.randint(1, 90) * NS // 10 for _ in range(2)))


def is_equal(seed: int, seen: Counter[str]) -> bool:
    made = unchecked(with_many_rules(Random(f"meet {seed}")))
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    tables = plain.tables
    seen.update(set(tables["failures"]["cause"].tolist()))
    seen["in flight"] += bool(tables["job_checkpoints"]["in_flight_bytes"].any())
    seen["commits"] += bool(tables["pre_commits"]["number"].size)
    return differences(plain, compiled) == []


def test_exactly_once_holds() -> None:
    assert sum(map(holds, range(12))) >= 11


def test_both_planes_give_equal_rows() -> None:
    seen = Counter[str]()
    assert [seed for seed in range(12) if not is_equal(seed, seen)] == []
    assert min(seen[what] for what in ("crash", "rescale", "checkpoints", "in flight", "commits")) >= 3, seen


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_both_hold_in_many_jobs(part: int) -> None:
    seeds = range(100 + 50 * part, 150 + 50 * part)
    assert sum(map(holds, seeds)) >= 45
    assert [seed for seed in seeds if not is_equal(seed, Counter())] == []
