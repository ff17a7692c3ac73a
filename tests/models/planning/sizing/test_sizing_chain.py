"""The chain behind a size: closed forms, the chain of failures and repairs alone, and a system played by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from models.planning.checkpoint_interval import CheckpointInterval, allowed_intervals, mean_recovery_s
from models.planning.sizing.chain import not_there
from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from models.reliability.repair import down_law


def problem(mttf_s: float = 1000.0, mttr_s: float = 50.0, load: float = 2.5, **tables: dict[str, Any]) -> SizingProblem:
    raw: dict[str, Any] = {
        "target": {"availability": 0.9},
        "work": {"load": load},
        "failures": {"mttf_s": mttf_s, "mttr_s": mttr_s},
        "checkpoints": {"pause_s": 0.1, "complete_s": 1.0, "restart_s": 2.0},
    }
    for name, table in tables.items():
        raw[name] = raw.get(name, {}) | table
    return SizingProblem(sizing_from(raw, from_file=False), mttf_s, mttr_s)


def recoveries(plan: SystemPlan, instance: SizingProblem, value: float) -> np.ndarray:
    return np.full((instance.spare(plan) + 1, 1), value)


@pytest.mark.parametrize("crews", [0, 1, 2])
def test_without_recoveries_only_too_few_hosts_are_left_of_it(crews: int) -> None:
    instance, plan = problem(), SystemPlan(6, 1, crews)
    found = not_there(instance, plan, recoveries(plan, instance, 1e-12), recoveries(plan, instance, 1e-12))
    law = down_law(6, 1000.0, 50.0, crews or 6)
    assert instance.spare(plan) == 3
    assert found.total[0] == pytest.approx(law[4:].sum(), rel=1e-9)


def test_one_host_alone_in_closed_form() -> None:
    mttf, mttr, resume = 1000.0, 50.0, 30.0
    instance, plan = problem(mttf, mttr, load=0.5), SystemPlan(1, 1)
    found = not_there(instance, plan, recoveries(plan, instance, 7.0), recoveries(plan, instance, resume))
    resuming = resume / mttf  # beside 1 of serving
    down = mttr / mttf * (1 + resuming)
    assert found.total[0] == pytest.approx((resuming + down) / (1 + resuming + down), rel=1e-12)


def test_the_take_over_of_a_pair_to_first_order() -> None:
    copies = {"levels": (2,), "take_over_s": 2.0, "rebuild_s": 1.0}
    instance, plan = problem(1e7, 1.0, load=0.1, copies=copies), SystemPlan(3, 2)
    found = not_there(instance, plan, recoveries(plan, instance, 50.0), recoveries(plan, instance, 50.0))
    assert found.switching[0] == pytest.approx(3 * 2.0 / 1e7, rel=1e-4)
    assert found.recoveries_per_s[0] == pytest.approx(3 / 1e7 * 2 / 1e7 * (1.0 + 2.0), rel=1e-3)  # rebuild, take-over


def test_a_take_over_in_no_time_is_the_limit_of_short_ones() -> None:
    plan, found = SystemPlan(5, 2), []
    for take_over_s in (0.0, 1e-9):
        instance = problem(load=1.0, copies={"levels": (2,), "take_over_s": take_over_s, "coverage": 0.9})
        found.append(
            not_there(instance, plan, recoveries(plan, instance, 20.0), recoveries(plan, instance, 30.0)).total[0]
        )
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_slower_recoveries_never_help() -> None:
    rng = np.random.default_rng(2)
    copies = {"levels": (3,), "take_over_s": 1.0, "coverage": 0.9, "rebuild_s": 20.0}
    for _ in range(40):
        instance = problem(float(rng.uniform(50, 500)), float(rng.uniform(5, 80)), load=0.7, copies=copies)
        plan = SystemPlan(int(rng.integers(4, 9)), int(rng.integers(1, 4)), int(rng.integers(0, 3)))
        fast = np.sort(rng.uniform(1.0, 40.0, (instance.spare(plan) + 1, 1)), axis=0)
        slow = fast.copy()
        slow[rng.integers(0, len(slow))] *= rng.uniform(1.0, 3.0)
        least, most = (not_there(instance, plan, one, one + 5.0).total[0] for one in (fast, slow))
        assert least <= most * (1 + 1e-12)


def test_many_cases_at_once_are_those_one_by_one() -> None:
    instance, plan = problem(copies={"levels": (2,), "take_over_s": 1.0, "coverage": 0.9}, load=1.0), SystemPlan(5, 2)
    intervals = np.array([1.5, 4.0, 20.0])
    together = not_there(
        instance, plan, instance.recoveries(plan, intervals), instance.recoveries(plan, intervals, 9.0)
    )
    for k in range(3):
        one = intervals[k : k + 1]
        alone = not_there(instance, plan, instance.recoveries(plan, one), instance.recoveries(plan, one, 9.0))
        assert together.total[k] == pytest.approx(alone.total[0], rel=1e-13)
        assert together.recoveries_per_s[k] == pytest.approx(alone.recoveries_per_s[0], rel=1e-13)


SERVE, SWITCH, RECOVER, RESUME, STAND = range(5)


def played(
    instance: SizingProblem, plan: SystemPlan, length_s: float, recovery_s: float, rng: np.random.Generator
) -> float:
    """Share of the time not served by a system played event by event, with switches and recoveries of fixed length."""
    copies, spare, crews = instance.description.copies, instance.spare(plan), plan.crews or plan.hosts
    down = missing = 0
    doing, ends, now, lost = SERVE, math.inf, 0.0, 0.0

    def wait(rate: float) -> float:
        return now + rng.exponential(1 / rate) if rate else math.inf

    while now < length_s:
        fails, repaired = wait((plan.hosts - down) / instance.mttf_s), wait(min(down, crews) / instance.mttr_s)
        rebuilt = wait(1 / copies.rebuild_s if doing == SERVE and missing else 0.0)
        then = min(fails, repaired, rebuilt, ends)
        lost += (min(then, length_s) - now) * (doing != SERVE)
        now = then
        if then == ends:
            missing = plan.copies - 1 if doing == RESUME else missing
            doing, ends = SERVE, math.inf
        elif then == rebuilt:
            missing = 0
        elif then == repaired:
            down -= 1
            if doing == STAND and down == spare:
                doing, ends = RESUME, now + recovery_s
        else:
            down += 1
            if down > spare:
                doing, ends = STAND, math.inf
            elif doing == RESUME:
                ends = now + recovery_s
            elif doing == RECOVER or missing + 1 >= plan.copies or rng.random() >= copies.coverage:
                doing, ends, missing = RECOVER, now + recovery_s, min(missing + 1, plan.copies - 1)
            else:
                doing, ends, missing = SWITCH, now + copies.take_over_s, missing + 1
    return lost / length_s


@pytest.mark.parametrize(
    "plan, copies",
    [
        (SystemPlan(5, 1, 1), {}),
        (SystemPlan(6, 2), {"levels": (2,), "take_over_s": 3.0, "coverage": 0.9, "rebuild_s": 20.0}),
        (SystemPlan(8, 3, 2), {"levels": (3,), "take_over_s": 3.0, "coverage": 0.8, "rebuild_s": 60.0}),
    ],
)
def test_a_system_played_event_by_event_agrees(plan: SystemPlan, copies: dict[str, Any]) -> None:
    instance = problem(2000.0, 60.0, load=1.7, copies=copies)
    found = not_there(instance, plan, recoveries(plan, instance, 12.0), recoveries(plan, instance, 12.0)).total[0]
    rng = np.random.default_rng(7)
    parts = np.array([played(instance, plan, 40_000.0, 12.0, rng) for _ in range(60)])
    error = parts.std(ddof=1) / math.sqrt(len(parts))
    # Fixed lengths against exponential ones: a failure meets one that goes on with a chance of one in a hundred.
    assert abs(parts.mean() - found) < 3 * error + 0.01 * found


def test_intervals_are_those_of_the_checkpoint_formulas() -> None:
    target = {"availability": 0.9, "recovery_s": 20.0}
    instance, plan = problem(target=target), SystemPlan(6, 1)
    question = CheckpointInterval(
        checkpoint_s=0.1, complete_s=1.0, restart_s=2.0, mtbf_s=1000.0, utilisation=2.5 / 5, recovery_target_s=20.0
    )
    assert instance.intervals(plan) == pytest.approx(allowed_intervals(question))
    at = np.array([1.5, 6.0, 15.0])
    assert instance.recoveries(plan, at)[1] == pytest.approx([mean_recovery_s(question, one) for one in at])


def test_a_share_of_failures_is_a_quantile_of_what_is_rolled_back() -> None:
    target = {"availability": 0.9, "recovery_s": 20.0, "recovery_share": 0.9}
    instance, plan = problem(target=target), SystemPlan(6, 1)
    shortest, longest = instance.intervals(plan) or (0.0, 0.0)
    assert instance.recovery_s(plan, longest, 0.9) == pytest.approx(20.0)
    assert shortest == 1.0
    failed = np.random.default_rng(1).uniform(0, longest, 100_000) + 1.0 + 2.0  # rolled back, and the time down
    times = 2.0 + 0.5 * failed / (1 - 0.1 / longest - 0.5)
    assert np.mean(times <= 20.0) == pytest.approx(0.9, abs=0.005)


def caught_up_after(instance: SizingProblem, plan: SystemPlan, interval_s: float, rng: np.random.Generator) -> float:
    """The recovery [s] of one loss of all copies of a task, played with single checkpoints and their pauses."""
    points, load = instance.description.checkpoints, instance.load(plan)
    hosts, down_s, complete_s = (
        plan.hosts - plan.copies,
        points.detection_s + points.restart_s,
        points.complete_s or 0.0,
    )
    lost_at = rng.uniform(10 * interval_s, 20 * interval_s)
    begun_at = math.floor((lost_at - complete_s) / interval_s) * interval_s  # the last one that is complete
    behind = load * (lost_at - begun_at + down_s)  # [hosts x s]
    passed, next_pause_s = down_s, rng.uniform(0, interval_s)
    while True:
        if behind <= next_pause_s * (hosts - load):
            return passed + behind / (hosts - load)
        behind += load * points.pause_s - next_pause_s * (hosts - load)
        passed, next_pause_s = passed + next_pause_s + points.pause_s, interval_s - points.pause_s


@pytest.mark.parametrize("plan", [SystemPlan(6, 1), SystemPlan(6, 2), SystemPlan(8, 3)])
def test_played_losses_of_all_copies_recover_in_the_time_and_share_of_the_target(plan: SystemPlan) -> None:
    target = {"availability": 0.9, "recovery_s": 40.0, "recovery_share": 0.9}
    copies = {"levels": (1, 2, 3), "take_over_s": 1.0, "load": 0.2}
    instance = problem(load=2.0, target=target, copies=copies, checkpoints={"complete_s": 2.0, "restart_s": 4.0})
    longest = (instance.intervals(plan) or (0.0, 0.0))[1]
    pause_s = 0.1 * plan.hosts / (plan.hosts - plan.copies - instance.load(plan))  # one more or less of them
    rng = np.random.default_rng(3)
    times = np.array([caught_up_after(instance, plan, longest, rng) for _ in range(4000)])
    error = 4 * math.sqrt(0.9 * 0.1 / len(times))
    assert np.mean(times <= 40.0 + pause_s) >= 0.9 - error
    assert np.mean(times <= 40.0 - pause_s) <= 0.9 + error
    assert times.max() <= instance.recovery_s(plan, longest, 1.0) + pause_s
    mean_error = 4 * times.std() / math.sqrt(len(times))
    assert times.mean() == pytest.approx(instance.mean_recovery_s(plan, longest), abs=mean_error + pause_s)
    late = np.array([caught_up_after(instance, plan, 1.2 * longest, rng) for _ in range(4000)])
    assert np.mean(late <= 40.0) < 0.9 - error


@pytest.mark.parametrize("more_s", [0.0, 300.0])
def test_the_quickest_interval_has_the_shortest_mean_recovery(more_s: float) -> None:
    instance, plan = problem(), SystemPlan(6, 1)
    quickest = instance.quickest(plan, more_s)
    at = instance.recoveries(plan, quickest, more_s)
    grid = instance.recoveries(plan, np.geomspace(0.25, 100, 4000), more_s)
    for down in range(4):
        assert at[down, down] <= grid[down].min()
        assert at[down, down] == pytest.approx(grid[down].min(), rel=1e-5)


def test_the_time_of_standing_is_a_passage_of_the_chain() -> None:
    instance = problem(load=2.5)
    plan = SystemPlan(4, 1, 1)  # 3 are needed: stands with 2, 3, 4 down
    # h4 = 50; h3 = (1 + h4 / 1000) 50; h2 = (1 + 2 h3 / 1000) 50
    third = (1 + 50 / 1000) * 50
    assert instance.standing_s(plan) == pytest.approx((1 + 2 * third / 1000) * 50)


@pytest.mark.parametrize("load, utilisation, needed", [(2.5, 1.0, 3), (3.0, 1.0, 4), (3.0, 0.75, 4), (2.4, 0.8, 3)])
def test_so_many_hosts_are_needed(load: float, utilisation: float, needed: int) -> None:
    instance = problem(load=load, work={"utilisation": utilisation})
    assert instance.fewest_hosts(1) == needed
    assert instance.spare(SystemPlan(needed + 2, 1)) == 2
    assert instance.spare(SystemPlan(needed - 1, 1)) == -1


def test_take_overs_that_take_no_time_are_the_limit_of_short_ones() -> None:
    spans = []
    for seconds in (0.0, 1e-9):
        instance = problem(copies={"levels": 2, "take_over_s": seconds, "coverage": 0.9, "load": 0.5})
        plan = SystemPlan(8, 2, 1)
        spans.append(not_there(instance, plan, recoveries(plan, instance, 9.0), recoveries(plan, instance, 9.0)))
    assert spans[0].switching[0] == 0.0
    assert spans[0].total[0] == pytest.approx(spans[1].total[0], rel=1e-9)
    assert spans[0].recoveries_per_s[0] == pytest.approx(spans[1].recoveries_per_s[0], rel=1e-9)
