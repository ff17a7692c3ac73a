"""The order of pieces and what is said of when they end, with made-up costs."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from scenarios.studies.reproduce.tasks import Forecast, longest_first, makespan_s


def test_the_longest_come_first_and_equal_ones_as_they_were() -> None:
    assert longest_first([1.0, 3.0, 1.0, 2.0, 3.0]) == [1, 4, 3, 0, 2]


def test_one_worker_takes_the_sum_and_no_number_of_workers_less_than_the_longest() -> None:
    costs = [4.0, 3.0, 2.0, 1.0]
    assert makespan_s(costs, 1) == 10.0
    assert makespan_s(costs, 2) == 5.0
    assert makespan_s(costs, 9) == 4.0
    assert makespan_s([], 2) == 0.0


def test_workers_that_are_busy_take_the_next_piece_when_they_are_free() -> None:
    assert makespan_s([2.0, 2.0], 2, [5.0]) == 5.0
    assert makespan_s([2.0, 2.0], 2, [5.0, 1.0]) == 5.0
    assert makespan_s([2.0, 3.0], 2, [5.0, 1.0]) == 6.0


@pytest.mark.parametrize("seed", range(20))
def test_longest_first_is_within_a_third_of_what_no_order_can_beat(seed: int) -> None:
    """Graham 1969: at most 4/3 - 1/(3 w) times the best, which is no less than the mean and the longest."""
    draw = random.Random(seed)
    workers = draw.randint(1, 4)
    costs = [draw.expovariate(1.0) for _ in range(draw.randint(1, 30))]
    in_order = [costs[k] for k in longest_first(costs)]
    found = makespan_s(in_order, workers)
    assert max(sum(costs) / workers, *costs) <= found + 1e-9
    assert found <= sum(costs) / workers + (1 - 1 / workers) * max(costs) + 1e-9
    if len(costs) <= 2 * workers:
        return
    shuffled = costs[:]
    draw.shuffle(shuffled)
    assert found <= (4 / 3 - 1 / (3 * workers)) * makespan_s(shuffled, workers) + 1e-9


def done(costs: list[float], took: list[float], workers: int) -> list[tuple[float, float]]:
    """Return (now, left) as pieces that take so long are made in order, each time one ends."""
    forecast = Forecast(costs, workers)
    told, ends = [(0.0, forecast.left_s(0.0))], {k: took[k] for k in forecast.running}
    while ends:
        number = min(ends, key=lambda k: (ends[k], k))
        now = ends.pop(number)
        forecast.ended(number, took[number], now)
        ends |= {k: now + took[k] for k in forecast.running if k not in ends}
        told.append((now, forecast.left_s(now)))
    assert forecast.running == ()
    return told


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_where_costs_are_right_what_is_left_is_exact_and_falls(workers: int) -> None:
    costs = [1.0, 8.0, 2.0, 0.5, 4.0, 4.0, 0.25]
    told = done(costs, costs, workers)
    end = told[-1][0]
    assert end == makespan_s(sorted(costs, reverse=True), workers)
    assert [left for _, left in told] == pytest.approx([end - now for now, _ in told])
    assert all(before >= after for (_, before), (_, after) in pairwise(told))


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_on_a_machine_of_another_speed_what_is_left_is_right_soon(factor: float) -> None:
    costs = [1.0 + k % 3 for k in range(60)]
    told = done(costs, [factor * cost for cost in costs], 2)
    end = told[-1][0]
    assert told[0][1] == makespan_s(sorted(costs, reverse=True), 2)
    for now, left in told:
        if now >= 0.3 * end:
            assert left == pytest.approx(end - now, rel=0.25, abs=factor)
    lefts = [left for now, left in told if now >= 0.3 * end][::4]
    assert all(before > after for before, after in pairwise(lefts))


def test_a_long_piece_weighs_as_much_as_many_short_ones() -> None:
    forecast = Forecast([10.0, *[0.1] * 10, *[10.0] * 2], 1)
    forecast.ended(0, 10.0, 10.0)
    for number in range(1, 11):
        forecast.ended(number, 1.0, 20.0)  # ten times as long, and a tenth of what is known
    assert forecast.left_s(20.0) == pytest.approx(20.0 * (20.0 + 0.02 * 31) / (11.0 + 0.02 * 31) - 10.0)


def test_of_a_piece_that_takes_longer_than_expected_something_is_always_left() -> None:
    forecast = Forecast([1.0], 1)
    assert forecast.left_s(0.4) == pytest.approx(0.6)
    assert forecast.left_s(51.0) == pytest.approx(25.0)
    forecast.ended(0, 60.0, 60.0)
    assert forecast.left_s(60.0) == 0.0


def test_pieces_may_end_in_another_order_and_without_a_time() -> None:
    forecast = Forecast([3.0, 2.0, 1.0], 1)
    forecast.ended(2, None, 0.5)
    assert forecast.running == (0,)
    assert forecast.left_s(0.5) == pytest.approx(4.5)
    forecast.ended(0, 3.0, 3.0)
    assert (forecast.running, forecast.began_s(1)) == ((1,), 3.0)


def test_workers_that_have_not_begun_yet_count() -> None:
    assert Forecast([3.0, 1.0], 2).left_s(-2.0) == 5.0
