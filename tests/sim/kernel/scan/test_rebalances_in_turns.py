"""Runs with rebalances that both kernels have in turns: rows are those of the event loop alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scan_jobs import checkpointed_job, scan_job
from scripts import unchecked
from seeds import parts
from test_hand_over import PLANES, before_all_is_over, cut, single
from test_planes import differences, noticed

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.hand_over.spells import horizon_ns
from sim.migration.protocols import REBALANCE_PROTOCOLS
from sim.migration.rebalance import Rebalances
from sim.plane_values import NotCovered

MS = 1_000_000
DRAIN_MS = 3000


def job(draw: Random, checkpoints: bool) -> dict[str, Any]:
    """A job that the scan can do, but for one host without tasks that dies when all is over."""
    raw = single(checkpointed_job(draw) if checkpoints else scan_job(draw))
    if checkpoints:
        often = {"interval": draw.choice(["20 ms", "50 ms", "100 ms"]), "guarantee": "exactly-once"}
        raw["fault_tolerance"] |= often
    raw["hosts"]["other"] = {"count": 1}
    if not raw.get("placement", {}).get("operators"):
        raw["placement"] = {"operators": dict.fromkeys(raw["operators"], "h")}
    return raw | {"events": {"late": {"at": "1000 s", "kind": "host-failure", "host": "other-0"}}}


def rebalanced(made: Scenario, plane: PlaneFactory, seed: int, at_ms: list[int]) -> RunRecords:
    """The rows of a run in which all tasks are killed and come back on hosts of their group."""
    control, draw = Control(RunPlan.of(made, RunInputs(), 0), plane), Random(seed)
    kind = Rebalances(control.state, control.coordinator, REBALANCE_PROTOCOLS)
    control.start()
    names, protocol = control.plan.host_group_names, draw.choice(["dcr", "ccr"])
    start_ms = draw.choice([[0], [1], [300], [0, 1, 300], [1000, 0]])

    def request(_: object) -> None:
        host_of = [control.cluster.task_host[task] for task in control.cluster.partition_task]
        others = [[host for host, name in enumerate(names) if name == names[own]] for own in host_of]
        goes = {one: draw.choice(found) for one, found in enumerate(others)}
        starts = {one: start_ms[one % len(start_ms)] * MS for one in goes}
        kind.request(protocol, goes, starts, command_ns=start_ms[0] * MS)

    for at in at_ms:
        control.clock.at(at * MS, 0, request)
    end = to_ns(made.duration_s) + DRAIN_MS * MS
    control.run(end)
    return records(control, end)


def differs(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """What differs between the event loop alone and both kernels in turns, for the job of that seed."""
    draw = Random(f"rebalances {seed}")
    made = unchecked(job(draw, seed % 2 == 1))
    at_ms = sorted(draw.choice([draw.randint(1, 2500), draw.randint(1, 25) * 100]) for _ in range(draw.choice([1, 2])))
    try:
        alone = rebalanced(made, CompiledPlane, seed, at_ms)
    except ValueError:  # a task has several services at a time
        return []
    horizon, turns = horizon_ns(RunPlan.of(made, RunInputs(), 0)), list[tuple[int, int]]()
    for at_ns in (at * MS for at in at_ms):
        begin = max(0, at_ns - horizon)
        meets = turns and begin <= turns[-1][1] + 1
        turns[-1:] = [(turns[-1][0], at_ns)] if meets else [*turns[-1:], (begin, at_ns)]
    try:
        both = rebalanced(made, cut(turns, draw.choice([1, 10, 77]) * MS), seed, at_ms)
    except NotCovered:
        return []
    if seen is not None:
        seen["given back"] += len(PLANES[0].hand_overs) > 1
        seen["most in the scan"] += PLANES[0].scan_share() > 0.5
    return differences(alone, both)


@pytest.mark.parametrize("seeds", parts(12, 48))
def test_the_event_loop_has_a_run_around_rebalances(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert differs(seed, seen) == [], seed
    assert seen["given back"] > 1
    assert seen["most in the scan"] > 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_rebalances(part: int) -> None:
    for seed in range(24 + part * 250, 274 + part * 250):
        assert differs(seed) == [], seed


# -- hand-overs that are broken on purpose


def unasked(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: None


BROKEN: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "the scan gets a run that is being rebalanced": (
        LoopAtRest,
        "_is_acted_upon",
        before_all_is_over,
    ),
    "ids that are missing in a parcel are not missed": (TwoKernels, "_check_ids_known", unasked),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_hand_over_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, breaks = BROKEN[what]
    monkeypatch.setattr(where, name, breaks(getattr(where, name)))
    assert noticed(differs, (43, 77, *range(150)))  # first those that show it
