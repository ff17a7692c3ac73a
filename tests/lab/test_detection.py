"""Each mutant is noticed within a stated number of schedules; those that cannot be are named with the reason."""

from __future__ import annotations

import json

import pytest

from lab.campaigns import drawn
from lab.detection import BEGIN, END, FILE, PAGE, SCHEDULES, measured, table
from lab.mutants import EQUIVALENT, MUTANTS, Mutant
from lab.schedule import run

RECORDED = json.loads(FILE.read_text())
NOTICED = [mutant for mutant in MUTANTS if mutant.name not in EQUIVALENT]
UNNOTICED = [mutant for mutant in MUTANTS if mutant.name in EQUIVALENT]


def name(mutant: Mutant) -> str:
    """For the test's id."""
    return mutant.name


@pytest.mark.parametrize("mutant", NOTICED, ids=name)
def test_a_mutant_is_noticed(mutant: Mutant) -> None:
    first = RECORDED[mutant.name]["first"]
    assert any(run(drawn(mutant.protocol, seed), mutant.tamper).faults for seed in (first, *range(SCHEDULES)))


@pytest.mark.parametrize("mutant", NOTICED, ids=name)
def test_it_is_the_mutant_that_is_noticed(mutant: Mutant) -> None:
    assert run(drawn(mutant.protocol, RECORDED[mutant.name]["first"])).faults == []


@pytest.mark.parametrize("mutant", UNNOTICED, ids=name)
def test_what_is_not_wrong_is_not_blamed(mutant: Mutant) -> None:
    assert not any(run(drawn(mutant.protocol, seed), mutant.tamper).faults for seed in range(200))
    assert RECORDED[mutant.name]["first"] is None


def test_the_page_has_what_was_measured() -> None:
    assert [*RECORDED] == [mutant.name for mutant in MUTANTS]
    written = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert written == table(RECORDED)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=name)
def test_the_shares_are_those_of_the_table(mutant: Mutant) -> None:
    assert measured(mutant) == RECORDED[mutant.name]
