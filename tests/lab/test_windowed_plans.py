"""Key groups that move before, at and behind windows, under every order of steps that a scheduler finds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lab.broken_windows import MUTANTS
from lab.windowed_plans import WindowedPlans, campaign, noticed

SEEDS = 40
MORE = range(SEEDS, 6_000)
ALL = range(600)  # in which a mutant has to be noticed
FIRST: Mapping[str, int] = {
    "a task says no farewell for the key groups that leave it": 156,
    "a farewell tells who has come since what was said before": 75,
    "key groups do not hear again at their new task what was said": 2,
    "key groups hear again before what has waited for them is served": 5,
    "a task does not repeat its watermark for key groups that it has got": 19,
    "a task does not say what those have heard that are left when one leaves": 129,
    "outputs of windows are born with the newest tuple in them": 3,
    "windows stay behind": 2,
    "a join leaves behind what came of one of its inputs": 20,
    "a key group that is to leave hears all that its task hears": 5,
}
"""The seed with which a mutant is looked for first; if that does not notice it all seeds have to."""
MEETS = {
    "watermark": 400,
    "ends": 200,
    "ends elsewhere": 60,  # than where its key group was at the start
    "taken": 80,
    "waited": 40,  # tuples, for the states of their key groups
    "heard": 100,
    "before": 8,
    "at windows": 20,
    "behind": 4,
    "a join": 10,
    "all-at-once": 4,
    "fluid": 4,
    "batched": 4,
    "optimised": 4,
    "pause-and-resume": 4,
    "stop-and-restart": 4,
}


def test_each_window_ends_once_with_the_tuples_that_it_has_where_nothing_moves() -> None:
    met = campaign(range(SEEDS))
    assert {what: met[what] for what, least in MEETS.items() if met[what] < least} == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_schedules(part: int) -> None:
    campaign(MORE[part::4])


@pytest.mark.parametrize("title", MUTANTS)
def test_what_is_broken_is_noticed(title: str) -> None:
    assert noticed(title, [FIRST[title], *ALL]) is not None
    assert WindowedPlans.drawn(FIRST[title]).run() == []
