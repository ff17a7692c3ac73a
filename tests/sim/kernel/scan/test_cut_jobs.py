"""Rows of random jobs do not depend on who has the run: the jobs of the comparisons of planes, cut at random instants.

Of most of them the scan cannot have a part: they share links or cores, or have pools of threads. The rest is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from elastic_jobs import elastic_keys
from full_jobs import scanned_keys
from moving_jobs import moving_keys
from replicated_jobs import replicated_keys
from scripts import unchecked
from sharing_jobs import share_cores
from small_jobs import random_job, random_joins, random_windows, storm, with_fair_links, with_timers
from test_hand_over import cut, random_spells, single
from test_planes import differences

from models.scenario.inputs import RunInputs
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.needs import needs_of

JOBS: dict[str, Callable[[int], dict[str, Any]]] = {
    "any": lambda seed: random_job(Random(seed)),
    "windows": lambda seed: random_windows(Random(seed)),
    "joins": lambda seed: random_joins(Random(seed)),
    "timers": lambda seed: with_timers(Random(seed), random_job(Random(seed))),
    "fair links": lambda seed: with_fair_links(Random(seed), random_job(Random(seed))),
    "crashes": lambda seed: storm(Random(seed)),
    "shared cores": lambda seed: share_cores(Random(seed), random_job(Random(seed))),
    "elastic": elastic_keys,
    "moves": lambda seed: moving_keys(seed, "direct"),
    "replicas": replicated_keys,
    "full": lambda seed: scanned_keys(Random(f"full {seed}"), seed),
}
CUT = {"any", "windows", "shared cores", "full"}  # of the others the scan has none among these seeds


def compared(name: str, seed: int, seen: Counter[str]) -> list[str]:
    """Return what differs between the event loop alone and random cuts, in the job of that seed."""
    draw, job = Random(f"cuts {name} {seed}"), unchecked(single(JOBS[name](seed)))
    plan = RunPlan.of(job, RunInputs(), 0)
    if next(needs_of(plan), None) is not None:
        return []
    found = simulate(job, plane=cut(random_spells(draw, job, draw.choice([1, 3, 20]))))
    seen["compared"] += 1
    return differences(simulate(job, plane=CompiledPlane), found)


@pytest.mark.parametrize("name", JOBS)
def test_rows_of_random_jobs_do_not_depend_on_cuts(name: str) -> None:
    seen = Counter[str]()
    for seed in range(60):
        assert compared(name, seed, seen) == [], seed
    assert (seen["compared"] > 0) == (name in CUT)
