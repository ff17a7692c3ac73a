"""Key groups that move by plans, without ids, under every order of steps that a scheduler finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lab.broken_reconfigurations import MUTANTS, OF_FILES, OF_LATE
from lab.reconfiguring import MADE, Reconfiguring, campaign, explored, made_for, noticed

SEEDS = 60
MORE = range(SEEDS, 6_000)
ALL = range(600)  # in which a mutant has to be noticed
FIRST: Mapping[str, int] = {
    "a tuple is applied where it comes, also before its state": 62,
    "key groups go on at their new tasks before their states come": 62,
    "what has waited for a state is left behind": 5,
    "what has waited for a state is served in another order": 5,
    "what has waited for a state goes behind the queue": 123,
    "with the scope of the operator its tasks go on with other key groups": 2,
    "a task goes on when the first state of a step is there": 36,
    "tasks hear over the links that a state is there": 2,
    OF_FILES[1]: 5,
    **dict(zip(OF_LATE, (2, 2, 5, 5, 1), strict=True)),
    "the first queue that is empty lets the next step begin": 16,
    "a key that closes on its way keeps its tuples": 38,
    "a step is configured from where key groups are": 2,
    "plans that meet go on at once": 6,
    "a task that holds all sends what is due": 36,
    "one of those who send goes on sending to the old tasks": 3,
    "the word that no more comes does not wait its turn": 3,
    "tasks go on when all states are there, also before they have paused": 55,
    "tasks that pause never go on": 2,
    "sources go on while the job stops": 3,
    "sources go on before all states are loaded": 4,
    "the job restarts when the first task has saved its states": 3,
}
"""The seed with which a mutant is looked for first, where it is not 0; if that does not notice it all seeds have to."""
MEETS = {
    "taken": 100,
    "waited": 40,  # tuples, for the states of their key groups
    "post-dated": 15,
    "closed keys": 100,
    "drained": 4,
    "all-at-once": 5,
    "fluid": 5,
    "batched": 8,
    "optimised": 6,
    "pause-and-resume": 5,
    "stop-and-restart": 8,
}
FILES_MEET = {"file": 70, "taken": 300, "waited": 100, "post-dated": 40, "moves again": 30, "at a time": 30}
"""The same where plans come from migration files: steps with the time of their line, or that move a key group again."""
LATE_MEET = {"late": 80, "withheld": 180, "taken": 160, "waited": 120, "post-dated": 15}
"""The same where configurations are late; outputs that tasks withhold until they come."""
EVERY = 99  # deviations: more than there are
TINY: Mapping[str, tuple[dict[str, Any], bool]] = {
    "fluid": ({"strategy": "fluid", "scope": "bin"}, False),
    "the whole operator waits": ({"strategy": "fluid", "scope": "operator"}, True),
    "lag": ({"strategy": "fluid", "next": "lag"}, False),
    "drain": ({"strategy": "fluid", "gap": "drain"}, False),
    "pipelined": ({"strategy": "all-at-once", "overlap": "pipelined"}, True),
    "pause": ({"protocol": "pause-and-resume"}, True),
    "stop": ({"protocol": "stop-and-restart"}, False),
}
"""Plan of a tiny job -> its keys, and whether outputs are post-dated."""


def test_each_tuple_is_applied_once_at_the_configuration_of_its_time_whatever_comes_next() -> None:
    met = campaign(range(SEEDS))
    assert {what: met[what] for what, least in MEETS.items() if met[what] < least} == {}


def test_the_same_where_plans_come_from_migration_files() -> None:
    met = campaign(range(SEEDS), "files")
    assert {what: met[what] for what, least in FILES_MEET.items() if met[what] < least} == {}


def test_the_same_where_configurations_are_late() -> None:
    met = campaign(range(SEEDS), "late")
    assert {what: met[what] for what, least in LATE_MEET.items() if met[what] < least} == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("option", MADE)
def test_many_schedules(part: int, option: str) -> None:
    campaign(MORE[part::4], option)


def orders(name: str, deviations: int) -> int:
    """Run the orders of a tiny job with so many deviations from that of age; return how many."""
    plan, postponed = TINY[name]
    return explored(lambda chooser: Reconfiguring.tiny(chooser, plan, postponed), deviations)


@pytest.mark.parametrize(
    ("name", "deviations", "count"),
    [
        ("fluid", 3, 172),
        ("the whole operator waits", 3, 87),
        ("lag", 2, 63),
        ("drain", 2, 63),
        ("pipelined", 3, 87),
        ("pause", 1, 22),
        ("stop", 1, 57),
    ],
)
def test_orders_of_a_tiny_job_that_deviate_from_that_of_age(name: str, deviations: int, count: int) -> None:
    assert orders(name, deviations) == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "deviations", "count"),
    [
        ("fluid", EVERY, 630),
        ("the whole operator waits", EVERY, 140),
        ("lag", EVERY, 630),
        ("drain", EVERY, 630),
        ("pipelined", EVERY, 140),
        ("pause", 3, 1_261),
        ("stop", 2, 1_502),
    ],
)
def test_all_orders_of_a_tiny_job(name: str, deviations: int, count: int) -> None:
    assert orders(name, deviations) == count


@pytest.mark.parametrize("title", MUTANTS)
def test_what_is_broken_is_noticed(title: str) -> None:
    first = FIRST.get(title, 0)
    assert noticed(title, [first, *ALL]) is not None
    assert made_for(title)(first).run() == []
