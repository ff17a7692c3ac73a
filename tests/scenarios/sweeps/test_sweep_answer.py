"""The answer of a sweep in sentences, for runs that are made up so that the right answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from analysis.runs.metrics import Metrics
from models.scenario.reading import DesignPoint
from scenarios.pages.designs import DesignRuns
from scenarios.sweeps.summary import chosen_metrics, sweep_answer
from scenarios.sweeps.sweep import SweepResult

P99, RECOVERY = "latency_s.p99", "recoveries.total_s.mean"


def runs(label: str, values: Sequence[float], metric: str = P99, *, seed: int = 1, unfinished: int = 0) -> DesignRuns:
    metrics = tuple({metric: value, "recoveries.unfinished": float(unfinished)} for value in values)
    return DesignRuns(label, "", "", metrics, 10.0, 0, tuple((seed, k) for k in range(len(values))))


def test_the_best_design_is_named_with_its_difference_and_its_interval() -> None:
    # Differences -0.011 and -0.009: mean -0.010, half the interval 12.706 * 0.001 = 0.0127; with a third of -0.010
    # it is 4.303 * 0.001 / sqrt(3) = 0.00248, of 0.020 that is 12.4 %.
    answer = sweep_answer([runs("slow", [0.020] * 3), runs("fast", [0.009, 0.011, 0.010]), runs("dear", [0.030] * 3)])
    assert answer == (
        "Design 1 (fast) has the lowest p99 latency: 10\u00a0ms, 50\u00a0% below design 0, the baseline "
        "(95 % interval 37.6\u00a0% to 62.4\u00a0%).",
    )


def test_it_is_said_where_no_design_differs_significantly() -> None:
    answer = sweep_answer([runs("a", [1.0, 2.0, 3.0]), runs("b", [1.5, 1.0, 3.0]), runs("c", [0.5, 2.5, 3.0])])
    assert answer == ("No design differs significantly from design 0 (a) in p99 latency: 2\u00a0s.",)


def test_the_baseline_is_the_best_where_the_others_are_higher_or_equal() -> None:
    given = [runs("a", [1.0, 2.0]), runs("b", [1.5, 2.5]), runs("c", [1.0, 2.0])]
    assert sweep_answer(given) == (
        "Design 0 (a) has the lowest p99 latency: 1.5\u00a0s. Against it: 1 higher, 1 equal.",
    )


def test_a_lower_mean_that_may_be_chance_is_not_called_the_lowest() -> None:
    given = [runs("a", [1.0, 2.0, 3.0]), runs("b", [1.5, 2.5, 3.5]), runs("c", [1.5, 1.0, 2.0])]
    assert sweep_answer(given) == (
        "No design has a significantly lower p99 latency than design 0 (a), 2\u00a0s. Against it: 1 higher, 1 unclear.",
    )


def test_a_baseline_with_the_lowest_mean_is_not_the_lowest_where_that_may_be_chance() -> None:
    given = [runs("a", [1.0, 2.0, 3.0]), runs("b", [1.5, 2.5, 3.5]), runs("c", [1.5, 1.0, 4.0])]
    (said,) = sweep_answer(given)
    assert said.startswith("No design has a significantly lower p99 latency than design 0 (a)")
    assert said.endswith("Against it: 1 higher, 1 unclear.")


def test_of_designs_with_a_lower_mean_those_that_may_be_chance_do_not_win() -> None:
    given = [runs("a", [2.0, 2.0, 2.0]), runs("steady", [1.5, 1.5, 1.5]), runs("wild", [0.1, 0.1, 3.5])]
    (said,) = sweep_answer(given)
    assert said.startswith("Design 1 (steady) has of those that differ significantly from design 0 the lowest p99 ")
    assert said.endswith("Not significantly different from it: design 2.")


def test_a_winner_among_many_is_doubted_where_bonferroni_includes_zero() -> None:
    noise = [0.00, 0.10, -0.10, 0.05]
    base, others = [1.0] * 4, [[1.0 + one, 1.0 - one, 1.0 + one / 2, 1.0 - one] for one in (0.1, 0.2, 0.3, 0.4)]
    best = runs("best", [0.85 + one for one in noise])
    (alone,) = sweep_answer([runs("base", base), best])
    assert alone.startswith("Design 1 (best) has the lowest p99 latency: 862\u00a0ms")
    assert "Bonferroni" not in alone
    (among,) = sweep_answer([runs("base", base), best, *(runs(str(k), one) for k, one in enumerate(others))])
    assert "With 5 comparisons this may be chance: Bonferroni's correction includes zero." in among


def test_a_single_run_of_each_design_proves_nothing() -> None:
    assert sweep_answer([runs("a", [2.0]), runs("b", [1.0])]) == (
        "Design 1 (b) has the lowest p99 latency: 1\u00a0s. This may be chance: an interval takes two runs or more of "
        "each design.",
    )


def test_of_single_runs_all_designs_with_the_lowest_value_are_named() -> None:
    given = [runs("a", [2.0]), runs("b", [1.0]), runs("c", [1.0]), runs("d", [3.0]), runs("e", [1.0])]
    (said,) = sweep_answer(given)
    assert said.startswith("Design 1 (b) and designs 2, 4 have the lowest p99 latency: 1\u00a0s. This may be chance:")


def moved(label: str, values: Sequence[float], ends: float | None, cancelled: int = 0) -> DesignRuns:
    made = runs(label, values)
    moves = {"moves.bytes": 0.0, "moves.completion_s": ends}
    return replace(
        made,
        metrics=tuple({**one, **moves, "moves.cancelled": float(k < cancelled)} for k, one in enumerate(made.metrics)),
    )


def test_a_design_whose_moves_do_not_end_has_not_the_lowest_latency() -> None:
    given = [moved("slow", [0.02] * 3, 1.0), moved("stuck", [0.001] * 3, None), moved("fast", [0.01] * 3, 1.0)]
    best, left = sweep_answer(given)
    assert best.startswith("Design 2 (fast) has the lowest p99 latency: 10\u00a0ms, 50\u00a0% below design 0")
    assert left == "Moves of design 1 did not end within the run: their times do not count as lowest."


def test_nothing_is_compared_with_a_baseline_whose_moves_do_not_end() -> None:
    given = [moved("stuck", [0.001] * 3, None), moved("slow", [0.02] * 3, 1.0), moved("fast", [0.01] * 3, 1.0)]
    best, _ = sweep_answer(given)
    assert best == (
        "Design 2 (fast) has the lowest p99 latency: 10\u00a0ms. Nothing is compared: moves of design 0, the baseline, "
        "did not end."
    )


def test_moves_that_are_cancelled_are_told_apart_from_those_that_do_not_end() -> None:
    given = [moved("slow", [0.02] * 3, 1.0), moved("hit", [0.001] * 3, None, 3), moved("both", [0.002] * 3, None, 1)]
    assert sweep_answer(given)[-1] == (
        "Moves of design 2 did not end within the run and those of designs 1, 2 were cancelled: their times do not "
        "count as lowest."
    )
    assert sweep_answer(given[:2])[-1] == "Moves of design 1 were cancelled: their times do not count as lowest."
    against = [given[1], given[0], moved("fast", [0.01] * 3, 1.0)]
    assert "moves of design 0, the baseline, were cancelled." in sweep_answer(against)[0]
    against[0] = given[2]
    assert "moves of design 0, the baseline, did not end or were cancelled." in sweep_answer(against)[0]


def test_without_a_baseline_nothing_is_compared() -> None:
    assert sweep_answer([runs("failed", []), runs("b", [1.0, 2.0]), runs("c", [2.0, 3.0])]) == (
        "Design 1 (b) has the lowest p99 latency: 1.5\u00a0s. Nothing is compared: design 0, the baseline, has none.",
    )


def test_equal_designs_are_called_equal() -> None:
    assert sweep_answer([runs("a", [1.0, 2.0]), runs("b", [1.0, 2.0])]) == (
        "All designs have the same p99 latency: 1.5\u00a0s.",
    )


def test_recoveries_that_did_not_end_are_counted() -> None:
    given = [runs("a", [3.0, 4.0], RECOVERY), runs("b", [1.0, 2.0], RECOVERY, unfinished=1)]
    (said,) = sweep_answer(given)
    assert said.startswith("Design 1 (b) has the lowest mean recovery time: 1.5\u00a0s, 57.1\u00a0% below design 0")
    assert said.endswith("Recoveries that did not end within the run are left out: 2 of design 1.")


@pytest.mark.parametrize("given", [[], [runs("a", [1.0, 2.0])], [runs("a", []), runs("b", [])]])
def test_there_is_no_answer_without_two_designs_that_ran(given: list[DesignRuns]) -> None:
    assert sweep_answer(given) == ()


def moving(label: str, metrics: dict[str, float]) -> DesignRuns:
    """Three runs of a design with these metrics, each a little longer than the one before."""
    made = tuple({name: value + k / 1000 for name, value in metrics.items()} for k in range(3))
    return DesignRuns(label, "even", "direct", made, 10.0, draws=tuple((1, k) for k in range(3)))


def test_designs_that_move_state_in_different_ways_are_compared_by_what_all_have() -> None:
    groups = moving("groups", {"moves.pause_s": 0.2, "migrations.pause_s.mean": 0.1})
    steps, tasks = moving("steps", {"moves.pause_s": 0.4}), moving("all", {"moves.pause_s": 4.0})
    (said,) = sweep_answer([steps, groups, tasks])
    assert said.startswith("Design 1 (groups) has the lowest maximum pause: 201\u00a0ms, ")
    (said,) = sweep_answer([groups, moving("more", {"moves.pause_s": 0.4, "migrations.pause_s.mean": 0.2})])
    assert "mean pause of a move" in said


def test_a_sweep_of_such_designs_shows_what_all_have() -> None:
    points = [DesignPoint(0, {}), DesignPoint(1, {})]
    of_steps = {"latency_s.mean": 1.0, "moves.pause_s": 0.4, "moves.completion_s": 1.0, "migrations.pause_s.max": None}
    of_groups = of_steps | {"moves.pause_s": 0.1, "moves.completion_s": 2.0, "migrations.pause_s.max": 0.1}

    def shown(*metrics: Metrics) -> list[str]:
        rows = [SimpleNamespace(point=k, replication=0, metrics=one) for k, one in enumerate(metrics)]
        plan = SimpleNamespace(points=points, runs=len(rows))
        found = SimpleNamespace(rows=rows, plan=plan, replications=lambda number: {0: metrics[number]})
        return chosen_metrics(cast(SweepResult, found), None)

    assert shown(of_steps, of_groups) == ["latency_s.mean", "moves.pause_s", "moves.completion_s"]
    assert shown(of_groups, of_groups | {"migrations.pause_s.max": 0.2}) == ["latency_s.mean", "migrations.pause_s.max"]
