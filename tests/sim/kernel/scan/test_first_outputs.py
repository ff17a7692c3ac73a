"""The first output after a failure, which a run with histograms watches for, is that of the rows of single tuples."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from full_jobs import KINDS
from scripts import unchecked
from test_barriers_in_turns import Eager, cut, random_job, random_turns
from test_hand_over import cut as hand_over_at
from test_hand_over import failing

from analysis.runs.recoveries import recoveries
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from scenarios.planning.maintenance import planner_of
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.control.recoveries import PartitionRecovery, Recoveries
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.hand_over.spells import spells
from sim.kernel.needs import needs_of
from sim.plane_values import NotCovered

Found = tuple[str, float, float | None]


def run(raw: dict[str, Any], detail: str, plane: PlaneFactory = CompiledPlane) -> RunRecords:
    made = unchecked(raw | {"recording": {"detail": detail}})
    return simulate(made, RunInputs(planner=planner_of(made)), plane=plane)


def first_outputs(records: RunRecords) -> list[Found]:
    return [(one.host, one.failed_s, one.first_output_s) for one in recoveries([records])]


def differences(rows: list[Found], watched: list[Found]) -> tuple[list[str], int]:
    """What differs, and how many first outputs there are."""
    wrong = [f"{one} is {other}" for one, other in zip(rows, watched, strict=True) if one != other]
    return wrong, sum(at is not None for *_, at in rows)


def compared(kind: str, seed: int) -> tuple[list[str], int]:
    """What differs in the job of that seed, and how many first outputs there are."""
    raw = KINDS[kind](Random(f"{kind} {seed}"), seed)
    return differences(first_outputs(run(raw, "tuples")), first_outputs(run(raw, "histograms")))


def compared_in_turns(seed: int) -> tuple[list[str], int]:
    """The same with both kernels in turns, in a job with barriers."""
    draw = Random(f"first outputs {seed}")
    raw = random_job(draw)
    plan = RunPlan.of(unchecked(raw), RunInputs(), 0)
    if not plan.keeps_ids or not all(need.at_times for need in needs_of(plan)):
        return [], 0
    try:
        watched = run(raw, "histograms", cut(draw.choice([1_000_000, 77_777_777]), random_turns(draw, raw), Eager))
    except NotCovered:
        return [], 0
    return differences(first_outputs(run(raw, "tuples")), first_outputs(watched))


def compared_after_quick_recoveries(seed: int) -> tuple[list[str], int]:
    """The same in a job with few tuples, of which none may come until the scan could have the run again."""
    draw = Random(f"quick {seed}")
    raw = failing(draw, law=False)
    for workload in raw["workload"].values():
        workload["rate"] = f"{draw.choice([2, 5, 20])} /s"
        workload.pop("batch", None)
    raw["detector"] = {"heartbeat": "5 ms", "timeout": "5 ms"}
    raw["fault_tolerance"]["interval"] = "20 ms"
    try:
        watched = run(raw, "histograms", hand_over_at(spells(RunPlan.of(unchecked(raw), RunInputs(), 0)), 1_000_000))
    except NotCovered:
        return [], 0
    return differences(first_outputs(run(raw, "tuples")), first_outputs(watched))


@pytest.mark.parametrize("kind", ["moving", "replicated"])
def test_what_is_watched_for_is_what_the_rows_say(kind: str) -> None:
    found = [compared(kind, seed) for seed in range(4)]
    assert [wrong for wrong, _ in found if wrong] == []
    assert sum(known for _, known in found) >= 4


def test_a_run_in_turns_watches_too() -> None:
    found = [compared_in_turns(seed) for seed in range(12)]
    found += [compared_after_quick_recoveries(seed) for seed in range(6)]
    assert [wrong for wrong, _ in found if wrong] == []
    assert sum(known for _, known in found) >= 5


@pytest.mark.slow
def test_more_jobs_are_watched() -> None:
    found = [compared(kind, seed) for kind in ("moving", "replicated") for seed in range(4, 30)]
    found += [compared_in_turns(seed) for seed in range(12, 150)]
    assert [wrong for wrong, _ in found if wrong] == []


def of_the_first_failure(self: Recoveries, recovery: PartitionRecovery) -> None:
    recovery.restored_ns = self.clock.now_ns()
    self.state.plane.watch_outputs(min(self._open_failures))


MUTANTS: dict[str, tuple[type, str, Any, Callable[[int], tuple[list[str], int]]]] = {
    "the scan gets the run too early": (
        TwoKernels,
        "_watches_outputs",
        lambda plane: False,
        compared_after_quick_recoveries,
    ),
    "only the first failure counts": (
        Recoveries,
        "restored",
        of_the_first_failure,
        lambda seed: compared("moving", seed),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken, compare = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, broken)
    assert any(compare(seed)[0] for seed in range(40))
