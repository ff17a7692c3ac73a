"""Which checkpoints move so that an allocation is near a fresh one.

Oracle: the rule once more, one move after the other, in exact fractions. Costs are multiples of 1/1024, so that their
sums are exact in floating point, too.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from models.scenario.inputs import LoadHistory, compare


def plainly(
    cost: list[list[Fraction]], current: list[int], fresh: list[int], theta: Fraction
) -> tuple[Fraction, Fraction, list[tuple[int, int]]]:
    """(score before, score after, moves (checkpoint, target)): the score is added up again after each move."""

    def score(checkpoint_hosts: list[int]) -> Fraction:
        return sum((cost[j][node] for j, node in enumerate(checkpoint_hosts)), Fraction())

    now, goal = list(current), score(fresh)
    before, moves = score(now), []
    while score(now) - goal > theta * abs(goal):
        gains = [cost[j][now[j]] - cost[j][fresh[j]] for j in range(len(now))]
        best = max(range(len(now)), key=lambda j: (gains[j], -j))
        now[best] = fresh[best]
        moves.append((best, fresh[best]))
    return before, score(now), moves


@pytest.mark.parametrize("seed", range(300))
def test_the_rule_is_the_plain_rule(seed: int) -> None:
    draw = Random(seed)
    checkpoints, nodes = draw.randint(1, 12), draw.randint(2, 5)
    low = draw.choice([-1024, -1024, 0, 512])
    raw = [[draw.randint(low, 1024) if draw.random() < 0.8 else 0 for _ in range(nodes)] for _ in range(checkpoints)]
    current = [draw.randrange(nodes) for _ in range(checkpoints)]
    # Mostly the best plan, sometimes any: its score may be the worse one.
    best = [row.index(min(row)) for row in raw]
    fresh = [node if draw.random() < 0.8 else draw.randrange(nodes) for node in best]
    theta = draw.choice([0, 1 / 64, 1 / 8, 1 / 2, 4])
    cost = [[Fraction(value, 1024) for value in row] for row in raw]
    before, after, moves = plainly(cost, current, fresh, Fraction(theta))
    found = compare(np.array(raw) / 1024, np.array(current), np.array(fresh), theta)
    goal = sum((cost[j][node] for j, node in enumerate(fresh)), Fraction())
    assert [(move.checkpoint, move.target) for move in found.moves] == moves
    scores = (found.current, found.fresh, found.difference, found.left)
    assert tuple(map(Fraction, scores)) == (before, goal, before - goal, after - goal)
    assert all(move.origin == current[move.checkpoint] and move.gain > 0 for move in found.moves)


def test_of_equal_gains_the_first_checkpoint_moves() -> None:
    cost = np.array([[2.0, 1.0]] * 4)
    found = compare(cost, np.zeros(4, np.int64), np.ones(4, np.int64), 0.5)
    assert [move.checkpoint for move in found.moves] == [0, 1]  # 8 is above 6 = 1.5 * 4, and so is 7
    assert (found.current, found.fresh, found.left) == (8.0, 4.0, 2.0)


def test_a_negative_score_is_compared_by_its_magnitude() -> None:
    cost = np.array([[-1.0, -2.0], [-7.0, -8.0]])
    stays = compare(cost, np.array([0, 1]), np.array([1, 1]), 0.1)  # -9 against -10
    assert (stays.current, stays.fresh, stays.moves) == (-9.0, -10.0, ())
    assert len(compare(cost, np.array([0, 0]), np.array([1, 1]), 0.1).moves) == 1


def test_where_the_fresh_score_is_zero_all_that_is_better_moves() -> None:
    cost = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert len(compare(cost, np.array([1, 1]), np.array([0, 0]), 9.0).moves) == 2


def test_a_worse_fresh_allocation_moves_nothing() -> None:
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert compare(cost, np.array([0, 1]), np.array([1, 0]), 0.0).moves == ()


def test_a_load_is_work_by_time() -> None:
    history = LoadHistory(
        names=(("a", 0), ("b", 0)),
        tuples=np.array([[10, 20], [0, 40]]),
        work_s=np.array([0.01, 0.1]),
        window_s=2.0,
        host=np.array([0, 1]),
        capacity=np.ones(2),
        outside=np.zeros(2),
        takes=np.array([True, True]),
    )
    assert history.load == pytest.approx(np.array([[0.05, 0.1], [0.0, 2.0]]))
    with pytest.raises(ValueError, match="read-only"):
        history.tuples[0, 0] = 1
