"""Key groups that move without a second instance: the compiled plane against its specification, and what is refused.

Oracle: `sim.plain`, by equality of all columns and of all that the listener is told; no tolerance.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from lattices import lattice_job
from scripts import MOVES_ALONE, VERBS, run_script
from small_jobs import random_job, with_fair_links, without_crashes
from test_planes import METHODS, differences

from sim.data_plane import Parcel
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def job(seed: int) -> dict[str, Any]:
    """A random job in which no host may fail."""
    draw = Random(f"moving {seed}")
    make = lattice_job if seed % 2 else random_job
    raw = without_crashes(make(draw, fault_tolerance=dict(METHODS[seed // 2 % 4])))
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    if draw.random() < 0.3:
        raw = with_fair_links(draw, raw)
    return raw


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    raw = job(seed)
    verbs = (*MOVES_ALONE, *([], ["pause", "hold"], VERBS)[seed % 3])
    (plain, told), (compiled, told_too) = (
        run_script(raw, plane, seed, 60, verbs) for plane in (PlainPlane, CompiledPlane)
    )
    if seen is not None:
        seen.update("a parcel" if isinstance(what, Parcel) else str(what) for _, what, *_ in told)
        seen["lost"] += int(plain.tables["ledger"]["lost"].sum()) + int(plain.tables["ledger"]["duplicated"].sum())
    return differences(plain, compiled) + ["told"] * (told != told_too)


def test_both_planes_give_equal_rows() -> None:
    seen = Counter[str]()
    for seed in range(30):
        assert on_both(seed, seen) == [], seed
    assert seen["put"] > 50
    assert seen["refused"] > 50
    assert seen["lost"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed) == [], seed
