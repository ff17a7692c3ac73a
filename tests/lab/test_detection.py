"""Each mutant is noticed within a stated number of schedules; those that cannot be are named with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.detection import BEGIN, CHAINS, END, OTHERS, PAGE, Measurement, table
from lab.mutants import EQUIVALENT, MUTANTS, Mutant
from lab.schedule import run

RECORDED = {one: one.recorded() for one in (CHAINS, OTHERS)}
UNNOTICED = [mutant for mutant in MUTANTS if mutant.name in EQUIVALENT]
everywhere = pytest.mark.parametrize("where", [CHAINS, OTHERS], ids=["chains", "other shapes"])


def first(where: Measurement, mutant: Mutant) -> int | None:
    """Return the recorded seed of the first schedule that is at fault."""
    seed: int | None = RECORDED[where][mutant.name]["first"]
    return seed


def noticed(where: Measurement) -> Callable[[Callable[..., None]], pytest.MarkDecorator]:
    """Parametrise a test by the mutants that are noticed there."""
    able = [mutant for mutant in MUTANTS if where.applies(mutant) and mutant.name not in EQUIVALENT]
    seen = [mutant for mutant in able if where is CHAINS or first(where, mutant) is not None]
    return pytest.mark.parametrize("mutant", seen, ids=name)


def name(mutant: Mutant) -> str:
    """Return the test's id."""
    return mutant.name


@noticed(CHAINS)
def test_a_mutant_is_noticed(mutant: Mutant) -> None:
    seeds = (first(CHAINS, mutant), *range(CHAINS.schedules))
    assert any(run(CHAINS.draw(mutant.protocol, seed), mutant.tamper).faults for seed in seeds if seed is not None)


@noticed(OTHERS)
def test_a_mutant_is_noticed_in_other_shapes(mutant: Mutant) -> None:
    seeds = (first(OTHERS, mutant), *range(OTHERS.schedules))
    assert any(run(OTHERS.draw(mutant.protocol, seed), mutant.tamper).faults for seed in seeds if seed is not None)


@everywhere
def test_it_is_the_mutant_that_is_noticed(where: Measurement) -> None:
    for mutant in filter(where.applies, MUTANTS):
        seed = first(where, mutant)
        if seed is not None:
            assert run(where.draw(mutant.protocol, seed)).faults == [], mutant.name


@everywhere
@pytest.mark.parametrize("mutant", UNNOTICED, ids=name)
def test_what_is_not_wrong_is_not_blamed(mutant: Mutant, where: Measurement) -> None:
    assert not any(run(where.draw(mutant.protocol, seed), mutant.tamper).faults for seed in range(25))
    assert first(where, mutant) is None


def test_the_page_has_what_was_measured() -> None:
    for where, found in RECORDED.items():
        assert [*found] == [mutant.name for mutant in MUTANTS if where.applies(mutant)]
    written = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert written == table(RECORDED[CHAINS], RECORDED[OTHERS])


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("mutant", MUTANTS, ids=name)
def test_the_shares_are_those_of_the_table(mutant: Mutant, where: Measurement) -> None:
    if where.applies(mutant):
        assert where.measured(mutant) == RECORDED[where][mutant.name]
