"""Trimming by acks under every order of marks, acks, checkpoints and crashes that a scheduler finds.

Within the assumption of `lab.wholeness` nothing is lost where checkpoints hold the outputs that are not trimmed. Beyond
it, or where they do not, the ledger says what is lost.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lab.broken_trimming import HARMLESS, MUTANTS
from lab.exploring import Explored, ExploringAcks, explored
from lab.job import Job
from lab.scheduler import Listed
from lab.slices import BEGIN, END, PAGE, recorded, table
from lab.slicing import BEYOND, BOLD, OTHERS, WITHIN, Slicing

ACKS = (
    "ack that is heard",
    "ack of the dead that is heard",
    "ack of a dead incarnation",
    "ack that comes to the dead",
    "ack that dies on the link",
)
CRASHES = tuple(f"crash of {kind}" for kind in ("source", "sink", "stateless", "stateful"))

every_other_job = pytest.mark.parametrize("jobs", OTHERS)


def campaign(seeds: range, assumption: str = WITHIN, reading: str = "safe", jobs: str = "") -> Counter[str]:
    """Run the schedules of these seeds; return what they have met."""
    met = Counter[str]()
    for seed in seeds:
        one = Slicing.drawn(seed, reading, assumption, jobs=jobs)
        faults = one.run()
        options = f"--assumption {assumption} --reading {reading}{' --jobs ' + jobs if jobs else ''}"
        assert faults == [], f"PYTHONPATH=tests python -m lab.slices --seed {seed} {options}: {faults}"
        met.update(one.met)
        met.update(one.rules.met)
        met["schedules that lose"] += bool(one.met["lost"])
    met["ack that dies on the link"] = 2 * met["ack that is sent"] - sum(
        count for what, count in met.items() if what.startswith("ack ") and what != "ack that dies on the link"
    )
    return met


# -- within the assumption


def test_nothing_is_lost_within_the_assumption() -> None:
    met = campaign(range(100))
    assert not met["lost"]
    assert [what for what in (*ACKS, *CRASHES) if not met[what]] == [], met
    assert met["1 in a row failed"] > 45
    assert met["2 in a row failed"] > 0


@pytest.mark.slow
def test_nothing_is_lost_within_the_assumption_in_many_schedules() -> None:
    assert not campaign(range(100, 20_600))["lost"]


def test_states_whose_checkpoints_hold_outputs_may_fail_together() -> None:
    assert not campaign(range(50), BOLD)["lost"]


@pytest.mark.slow
def test_states_whose_checkpoints_hold_outputs_may_fail_together_in_many_schedules() -> None:
    assert not campaign(range(50, 10_400), BOLD)["lost"]


@every_other_job
def test_nothing_is_lost_at_joins_and_bounded_queues(jobs: str) -> None:
    assert not campaign(range(20), jobs=jobs)["lost"]
    assert not campaign(range(15), BOLD, jobs=jobs)["lost"]


@pytest.mark.slow
@every_other_job
def test_nothing_is_lost_at_joins_and_bounded_queues_in_many_schedules(jobs: str) -> None:
    assert not campaign(range(20, 5_150), jobs=jobs)["lost"]
    assert not campaign(range(15, 2_600), BOLD, jobs=jobs)["lost"]


# -- the literal reading, and beyond the assumption


@pytest.mark.parametrize("seed", [7, 1815])
def test_a_checkpoint_without_outputs_loses_what_one_with_them_does_not(seed: int) -> None:
    literal, safe = Slicing.drawn(seed, "literal"), Slicing.drawn(seed, "safe")
    assert literal.run() == safe.run() == []
    assert literal.met["lost"]
    assert not safe.met["lost"]


def test_one_crash_of_a_state_loses_an_output_if_checkpoints_hold_none() -> None:
    one = Slicing.drawn(1815, "literal")
    one.run()
    assert [(what, count) for what, count in one.met.items() if what.startswith("crash of")] == [
        ("crash of stateful", 1)
    ]
    assert one.met["lost"] == 1


@pytest.mark.parametrize("reading", ["safe", "literal"])
def test_the_ledger_says_what_is_lost_beyond_the_assumption(reading: str) -> None:
    assert campaign(range(25), BEYOND, reading)["schedules that lose"] > 0
    for jobs in OTHERS:
        assert campaign(range(25), BEYOND, reading, jobs)["schedules that lose"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("reading", ["safe", "literal"])
def test_the_ledger_says_what_is_lost_beyond_the_assumption_in_many_schedules(reading: str) -> None:
    assert campaign(range(25, 5_300), BEYOND, reading)["schedules that lose"] > 100
    for jobs in OTHERS:
        campaign(range(25, 100), BEYOND, reading, jobs)


# -- mutants


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed_under_the_seed_of_the_table(name: str) -> None:
    seed = recorded()[name]["first"]
    assert Slicing.drawn(seed, tamper=MUTANTS[name]).run() != []
    assert Slicing.drawn(seed).run() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_slower_or_the_same_is_not_blamed_in_more_schedules(name: str) -> None:
    assert [seed for seed in range(25, 200) if Slicing.drawn(seed, tamper=HARMLESS[name]).run()] == []


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_slower_or_the_same_is_not_blamed(name: str) -> None:
    assert [seed for seed in range(25) if Slicing.drawn(seed, tamper=HARMLESS[name]).run()] == []


def test_the_page_has_the_table_of_the_mutants() -> None:
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0].strip() == table(recorded())
    assert recorded().keys() == MUTANTS.keys()


# -- all schedules near the order of age


def explored_near(stateless: str, victim: str, crash_after: int, deviations: int, most: int = 10**6) -> Explored:
    """Run the orders of a tiny job with so many deviations from the order of age."""
    chooser = ExploringAcks(prune=False, deviations=deviations)
    return explored(chooser, lambda: Slicing.tiny(chooser, (stateless,), crash_after, victim), most)


def near(crash_after: tuple[int, ...]) -> pytest.MarkDecorator:
    cases = [(one, other, after) for one in OPERATORS for other in OPERATORS for after in crash_after]
    return pytest.mark.parametrize(("stateless", "victim", "crash_after"), cases)


OPERATORS = ("stage0", "stage1")


@near((2,))
def test_one_deviation_from_the_order_of_age_loses_nothing(stateless: str, victim: str, crash_after: int) -> None:
    found = explored_near(stateless, victim, crash_after, deviations=1)
    assert found.complete
    assert found.faults == []
    assert found.schedules > 100


@pytest.mark.slow
@near((0, 1, 2, 3, 4, 5, 6, 7, 8))
def test_two_deviations_from_the_order_of_age_lose_nothing(stateless: str, victim: str, crash_after: int) -> None:
    assert explored_near(stateless, victim, crash_after, deviations=2, most=4_000).faults == []


# -- who counts as failed

STAGES = ("stage0", "stage1", "stage2")


def laboratory(levels: int, *stateless: str) -> Slicing:
    """Return one with three operators in a row, after the first tuples have gone through without acks."""
    job = Job(seed=1, stages=3, tuples=2, hosts=7, levels=levels, stateless=stateless, store="remote")
    one = Slicing(job, Listed(()), Random(0))
    one._steps()
    return one


def host_of(one: Slicing, operator: str) -> int:
    """Return the host of its only task."""
    host: int = next(each.task.host.index for each in one.lab.plane.all_partitions() if each.operator.name == operator)
    return host


def may_die(one: Slicing, bold: bool = False) -> list[str]:
    """Return the operators whose task may die now."""
    return [name for name in STAGES if one.whole.allows(host_of(one, name), bold)]


@pytest.mark.parametrize(("levels", "left"), [(1, []), (2, ["stage0", "stage2"]), (3, ["stage0", "stage2"])])
def test_neighbours_of_a_failed_task_may_die_only_with_three_levels(levels: int, left: list[str]) -> None:
    one = laboratory(levels, *STAGES)
    assert may_die(one) == ([] if levels == 1 else [*STAGES])
    if levels == 1:
        return
    one.crash(host_of(one, "stage0"), None)
    # With two levels the task next to it has to live; the one behind that may die, too.
    assert may_die(one) == (["stage0", "stage2"] if levels == 2 else [*STAGES])
    one.crash(host_of(one, "stage2"), None)
    assert may_die(one) == left


def test_a_task_is_whole_when_it_has_all_again_that_nobody_has_confirmed() -> None:
    one = laboratory(2, *STAGES)
    one.crash(host_of(one, "stage1"), None)
    assert len(one.whole.failed()) == 1
    one.lab.clock.settle()
    one._steps()  # it is restored, and upstream replays
    assert one.whole.failed() == set()


def test_a_state_ends_a_row_of_failed_tasks_for_the_bold() -> None:
    one = laboratory(2, "stage0", "stage2")
    one.crash(host_of(one, "stage1"), None)
    assert may_die(one) == ["stage1"]
    assert may_die(one, bold=True) == ["stage1", "stage2"]
