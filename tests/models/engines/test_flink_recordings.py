"""Recorded deaths of TaskManagers against the model: what holds, what does not, and how large the errors are.

Two constants are fitted: the time until the broken connection is noticed, and the overhead of a restart in vain. With
k restarts in vain the last RESTARTING is at noticed + k (delay + overhead), where k is the number of whole delays
before it. The fit is the line of least absolute deviations of RESTARTING - k delay over k, over all 32 kills; a few
slow restarts of the busy machine do not bend it. Only condition 10 (heartbeats of 10 s) has more than three restarts in
vain, so the overhead rests on its three kills. The constants are those of one machine; the rules are Flink's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import median
from typing import Any

import pytest
from engine_recordings import recorded

from models.engines.flink_restart import Heartbeats, PhaseLaw, TaskManagerDeath
from models.engines.restart_strategies import UNLIMITED, FixedDelay

Kill = dict[str, Any]
Constants = tuple[float, float]
KILLS = recorded("flink_recoveries")
CONDITIONS = sorted({kill["condition"] for kill in KILLS})
ROUNDING = 1e-9


def in_vain(kill: Kill) -> int:
    return int(kill["restarting_s"] / kill["restart_delay_s"])


def fitted(kills: Sequence[Kill]) -> Constants:
    """The time until the death is noticed and the overhead per attempt [s], both at least 0.

    The sum of absolute deviations is convex and piecewise linear, so some best line goes through two kills, or through
    one at the edge of what is allowed.
    """
    points = [(in_vain(kill), kill["restarting_s"] - in_vain(kill) * kill["restart_delay_s"]) for kill in kills]
    lines = [line for k, late_s in points for line in ((late_s, 0.0), (0.0, late_s / k))]
    for (k, late_s), (m, later_s) in combinations(points, 2):
        if k != m:
            overhead_s = (later_s - late_s) / (m - k)
            lines.append((late_s - k * overhead_s, overhead_s))
    return min(
        (line for line in lines if min(line) >= 0),
        key=lambda line: sum(abs(late_s - line[0] - k * line[1]) for k, late_s in points),
    )


def others(condition: int) -> list[Kill]:
    return [kill for kill in KILLS if kill["condition"] != condition]


CONSTANTS = fitted(KILLS)
LEFT_OUT = {condition: fitted(others(condition)) for condition in CONDITIONS}


def laws(kill: Kill, constants: Constants) -> tuple[PhaseLaw, PhaseLaw]:
    return TaskManagerDeath(
        heartbeats=Heartbeats(interval_s=kill["heartbeat_interval_s"], timeout_s=kill["heartbeat_timeout_s"]),
        strategy=FixedDelay(delay_s=kill["restart_delay_s"], attempts=UNLIMITED),
        noticed_s=constants[0],
        overhead_s=constants[1],
    ).laws()


def outside(constants_of: Callable[[Kill], Constants]) -> dict[tuple[int, int], int]:
    """The kills, by condition and number, whose RESTARTING is outside the bounds of the model, and by how much [ms]."""
    found = {}
    for kill in KILLS:
        law, _ = laws(kill, constants_of(kill))
        by_s = max(law.earliest_s - kill["restarting_s"], kill["restarting_s"] - law.latest_s)
        if by_s > ROUNDING:
            found[kill["condition"], kill["rep"]] = round(by_s * 1000)
    return found


def errors(recording: str, predicted_s: Callable[[Kill], float]) -> tuple[float, float]:
    """The median and the greatest error of the median RUNNING over the conditions of a recording [%]."""
    found = []
    for condition in CONDITIONS:
        kills = [kill for kill in KILLS if kill["condition"] == condition]
        if kills[0]["recording"] == recording:
            observed_s = median(kill["running_s"] for kill in kills)
            found.append(100 * abs(predicted_s(kills[0]) - observed_s) / observed_s)
    return round(median(found), 1), round(max(found), 1)


def test_the_constants_are_a_tenth_of_a_second_and_half_of_that_for_each_attempt() -> None:
    assert [round(constant, 3) for constant in CONSTANTS] == [0.088, 0.046]


def test_without_the_long_heartbeats_the_overhead_cannot_be_told_from_noise() -> None:
    assert [round(constant, 3) for constant in LEFT_OUT[10]] == [0.195, 0.0]


def test_running_comes_the_restart_delay_after_restarting() -> None:
    more_s = [kill["running_s"] - kill["restarting_s"] - kill["restart_delay_s"] for kill in KILLS]
    assert min(more_s) > 0
    assert max(more_s) < 0.02


def test_thirty_of_thirty_two_kills_are_within_the_bounds_and_two_of_the_busy_machine_are_late() -> None:
    # All of the quiet machine are inside; the fit goes through the earliest of them, which so is no proof by itself.
    assert outside(lambda kill: CONSTANTS) == {(5, 0): 207, (8, 2): 48}


SLOWDOWN = 1.7  # of the busy recording, as fitted to its other phases (`test_recorded_recoveries`)
BY_HAND = (0.065, 0.065)


def by_hand(kill: Kill) -> Constants:
    by = SLOWDOWN if kill["recording"] == "busy" else 1.0
    return BY_HAND[0] * by, BY_HAND[1] * by


def test_with_the_slowdown_of_the_busy_machine_and_constants_by_hand_all_kills_are_within_the_bounds() -> None:
    assert outside(by_hand) == {}
    assert outside(lambda kill: BY_HAND) == {(5, 0): 173, (8, 2): 14}
    found = [
        errors(recording, lambda kill: laws(kill, by_hand(kill))[1].quantile_s(0.5)) for recording in ("quiet", "busy")
    ]
    assert found == [(6.9, 22.4), (5.4, 20.7)]
    for kill in KILLS:
        if kill["recording"] == "quiet":
            for law in laws(kill, BY_HAND):
                assert law.latest_s - law.earliest_s <= kill["heartbeat_interval_s"] + kill["restart_delay_s"]


def test_with_its_condition_left_out_of_the_fit_one_quiet_kill_is_early_by_milliseconds() -> None:
    assert outside(lambda kill: LEFT_OUT[kill["condition"]]) == {(2, 2): 17, (5, 0): 216, (8, 2): 57}


def test_restarting_is_near_the_instant_of_an_attempt() -> None:
    noticed_s, overhead_s = CONSTANTS
    apart_s = [
        min(abs(kill["restarting_s"] - noticed_s - k * (kill["restart_delay_s"] + overhead_s)) for k in range(20))
        for kill in KILLS
    ]
    assert round(median(apart_s), 3) == 0.065  # 0.25 where restarts have nothing to do with a delay of 1 s
    assert round(max(apart_s), 3) == 0.207


def test_numbers_of_attempts_in_vain_on_the_quiet_machine_are_those_of_uniform_phases() -> None:
    quiet = [kill for kill in KILLS if kill["recording"] == "quiet"]
    seen = Counter(in_vain(kill) for kill in quiet)
    expected = [piece.share * len(quiet) for piece in laws(quiet[0], CONSTANTS)[0].pieces]
    assert (seen[1], seen[2], seen[3]) == (1, 10, 5)
    assert [round(number, 1) for number in expected] == [1.1, 8.4, 6.6]
    # Pearson's statistic is below its 95 % quantile with two degrees of freedom.
    assert sum((seen[k] - number) ** 2 / number for k, number in enumerate(expected, start=1)) < 5.99


def test_the_bounds_of_the_quiet_recording_are_no_further_apart_than_a_heartbeat_and_a_restart() -> None:
    for kill in KILLS:
        if kill["recording"] == "quiet":
            for law in laws(kill, CONSTANTS):
                assert law.latest_s - law.earliest_s <= kill["heartbeat_interval_s"] + kill["restart_delay_s"]


@pytest.mark.parametrize(
    ("recording", "of_model", "left_out", "of_constant"),
    [("quiet", (7.4, 22.7), (7.6, 22.4), (6.5, 21.0)), ("busy", (5.0, 24.3), (5.3, 24.0), (3.9, 76.2))],
)
def test_the_median_of_running_is_met_but_a_constant_does_as_well_where_heartbeats_are_equal(
    recording: str, of_model: tuple[float, float], left_out: tuple[float, float], of_constant: tuple[float, float]
) -> None:
    """Pairs are the median and the greatest error over conditions [%]; the constant is the median of all kills.

    Nine of ten conditions have the same heartbeats and delays, so one number fits them all. The model shows its worth
    in condition 10 only, where heartbeats are 10 s apart: 15 % in place of 76 %. Its greatest errors are those of
    conditions 4 and 9, of four kills and of one: most of them needed one more restart than the median phase does.
    """
    assert errors(recording, lambda kill: laws(kill, CONSTANTS)[1].quantile_s(0.5)) == of_model
    assert errors(recording, lambda kill: laws(kill, LEFT_OUT[kill["condition"]])[1].quantile_s(0.5)) == left_out
    assert errors(recording, lambda kill: median(kill["running_s"] for kill in KILLS)) == of_constant
    assert max(of_model[0], left_out[0]) <= 15
