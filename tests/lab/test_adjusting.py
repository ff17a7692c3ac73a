"""Operators that are adjusted as a whole, under every order of messages, acks, checkpoints and crashes."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.adjusting import LAST, MESSAGES, OTHERS, ROLES, Adjusting, campaign
from lab.broken_adjustments import HARMLESS, MUTANTS
from lab.slicing import BEYOND, BOLD

LITERAL = (("last", "literal"), ("new", "literal"))
SAFE = (("last", "safe"), ("new", "safe"))


def test_nothing_is_lost_while_operators_are_adjusted() -> None:
    met = campaign(range(1_500))
    assert not met["lost"]
    assert met["adjustments"] > 1_400
    assert met["adjustments that were undone"] > 200
    assert met["adjustments that were finished after a crash"] > 80
    assert [what for what in MESSAGES if met[what] < 200 and what != "stored"] == [], met


def test_a_crash_of_each_role_comes_in_each_phase() -> None:
    met = campaign(range(1_500, 4_500))
    roles = [role for role in ROLES if role not in ("former", "holder")]
    cases = [(role, message) for role in roles for message in MESSAGES if message not in LAST]
    assert [case for case in cases if not met["crash of {} after {}".format(*case)]] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_in_many_schedules(part: int) -> None:
    assert not campaign(range(5_000 + part * 5_000, 10_000 + part * 5_000))["lost"]


@pytest.mark.parametrize("jobs", OTHERS)
def test_nothing_is_lost_at_joins_and_bounded_queues(jobs: str) -> None:
    assert not campaign(range(300), jobs=jobs)["lost"]


@pytest.mark.parametrize("assumption", [BOLD, BEYOND])
def test_more_failures_lose_nothing_or_the_ledger_says_what(assumption: str) -> None:
    met = campaign(range(500), assumption=assumption)
    assert assumption == BEYOND or not met["lost"]


@pytest.mark.parametrize("adjustment", LITERAL)
def test_as_printed_tuples_are_lost_and_the_ledger_says_which(adjustment: tuple[str, str]) -> None:
    assert campaign(range(300), adjustment)["schedules that lose"] > 50


@pytest.mark.parametrize("checkpoint", ["last", "new"])
def test_as_printed_one_scale_up_without_a_crash_loses_what_is_on_its_way(checkpoint: str) -> None:
    literal, safe = (Adjusting.drawn(SEED, (checkpoint, reading)) for reading in ("literal", "safe"))
    assert literal.run() == safe.run() == []
    assert not any(what.startswith("crash of") for what in (*literal.met, *safe.met))
    assert literal.met["lost"] > 0
    assert safe.met["lost"] == 0


SEED = 17


FIRST: dict[str, int] = {}
"""By mutant: the first seed under which it is noticed."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str) -> None:
    assert Adjusting.drawn(FIRST[name], tamper=MUTANTS[name]).run() != []
    assert Adjusting.drawn(FIRST[name]).run() == []


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_slower_or_the_same_is_not_blamed(name: str) -> None:
    assert [seed for seed in range(150) if Adjusting.drawn(seed, tamper=HARMLESS[name]).run()] == []


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    runs = [Adjusting.drawn(5) for _ in range(2)]
    assert [one.run() for one in runs] == [[], []]
    counts: list[Counter[str]] = [one.met for one in runs]
    assert counts[0] == counts[1]
