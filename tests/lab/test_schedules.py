"""Protocols under every order of steps and crashes that a scheduler finds: invariants hold, and nothing is left out.

Oracles: `invariants.py`, with the inputs of each key group worked out from ids and keys alone; the ledger of the run.
To look at a schedule: `PYTHONPATH=tests python -m lab --protocol PROTOCOL --seed SEED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from lab.campaigns import CAMPAIGNS, drawn
from lab.coverage import Coverage
from lab.invariants import lineage_of
from lab.job import Job, random_job
from lab.laboratory import Laboratory
from lab.plans import ALL_PROTOCOLS
from lab.report import failure
from lab.schedule import Ask, Crash, Schedule, listed, run
from lab.scheduler import Listed
from sim.migration.protocols import PROTOCOLS

SEEDS = 60  # of each protocol, in all campaigns; with 1,000 every protocol meets all that it can
RARE = {
    "direct": (71, 72, 111),
    "cpa": (60, 68, 69, 94, 102, 110, 448),
    "cpal": (60, 62, 68, 71, 77, 84, 106, 122, 164, 195, 234, 276, 411, 473, 942),
    "cpal_caught_up": (60, 61, 69, 74, 76, 78, 90, 114, 120, 150, 164, 176, 216, 227, 335, 382, 898),
    "lazy_move": (61, 67, 74, 87, 105, 123, 245),
    "replication": (60, 61, 62, 79, 87, 93, 99, 112, 124, 133, 142, 147, 152, 185, 213, 696, 842),
    "pause_drain_resume": (63, 65, 79, 86, 279, 582),
}
"""Those of the first 1,000 that meet what the first of all do not."""
MORE = (*range(SEEDS, 2_070), *range(10_000, 30_700))
every_protocol = pytest.mark.parametrize("protocol", ALL_PROTOCOLS)


def campaign(protocol: str, seeds: Iterable[int]) -> Coverage:
    """Run these schedules; the first that is at fault fails the test, with the command that replays it."""
    coverage = Coverage()
    for seed in seeds:
        schedule = drawn(protocol, seed)
        result = run(schedule, coverage=coverage)
        if result.faults:
            pytest.fail(failure(schedule, result), pytrace=False)
    return coverage


@every_protocol
def test_nothing_is_lost_or_done_twice_whatever_comes_next(protocol: str) -> None:
    coverage = campaign(protocol, (*range(SEEDS), *RARE.get(protocol, ())))
    assert coverage.missing(ALL_PROTOCOLS[protocol], protocol) == []


DESTROYED = {
    # The checkpoint that a move asked for is stored at the target. Both owners die before upstream hears of the trim,
    # which comes before the failures are detected: what upstream still kept at the crash is not sent again.
    "what a trim under way of a move takes": Schedule(
        "direct",
        0,
        Job(seed=13, sources=2, stages=1, groups=1, tuples=10, hosts=5),
        (Ask(0, 1, to_checkpoint_host=False), Ask(0, 1, to_checkpoint_host=True)),
        (Crash("new owner", 3, 4, "never"), Crash("old owner", 3, 3, "later")),
        (0,),
        listed(
            "2254504405747388678805151613694669888678677826657656626625346526423434441533411545254342423443424334"
            "660003405"
        ),
    ),
    # The new owner upstream has made an output and forgotten it again when it was stored downstream; the old owner,
    # which is slow, makes it once more, and is over before the crash downstream is detected.
    "what only the old owner upstream keeps": Schedule(
        "direct",
        0,
        Job(seed=12, sources=1, stages=2, groups=2, tuples=10, hosts=5),
        (Ask(0, 1, to_checkpoint_host=True), Ask(0, 4, to_checkpoint_host=True)),
        (Crash("downstream", 1, 2, "before it is detected"), Crash("downstream", 2, 6, "before it is detected")),
        (0, 1),
        listed(
            "088801777154495053334a97a3046a764763337373278963572372246794a62ba55a63878578837747567688576666006615"
            "504244040000001000002333"
        ),
    ),
}
"""Schedules under which two crashes destroy five tuples, though upstream still keeps some of these at that instant."""


@pytest.mark.parametrize("title", DESTROYED)
def test_what_nobody_will_send_again_is_destroyed(title: str) -> None:
    result = run(DESTROYED[title])
    assert (result.faults, result.destroyed) == ([], 5)


@pytest.mark.slow
@every_protocol
def test_nothing_is_lost_or_done_twice_in_many_schedules(protocol: str) -> None:
    coverage = campaign(protocol, MORE)
    assert coverage.missing(ALL_PROTOCOLS[protocol], protocol) == []


def test_a_handler_that_no_schedule_reaches_is_missed() -> None:
    class WithMore(PROTOCOLS["cpa"]):  # type: ignore[misc]
        def on_never_sent(self) -> None: ...

    assert "delivered: never_sent" in campaign("cpa", range(20)).missing(WithMore, "cpa")


@pytest.mark.parametrize("seed", range(6))
def test_the_oracle_agrees_with_a_run_without_faults(seed: int) -> None:
    job = random_job(seed, sources=2, stages=2, groups=2)
    lab = Laboratory(job, Listed(()))
    lab.clock.settle()
    while lab.clock.take():
        pass
    goal = lineage_of(job, lab.plane).inputs
    has = {partition.number: Counter(partition.applied) for partition in lab.plane.all_partitions()}
    assert has == goal
    assert sum(goal[lab.plan.first_partition[-2]].values()) == 2 * job.tuples


@every_protocol
@pytest.mark.parametrize("aim", range(len(CAMPAIGNS)))
def test_a_schedule_is_replayed_by_its_choices(protocol: str, aim: int) -> None:
    schedule = drawn(protocol, aim)
    drawn_by_seed = run(schedule, note=True)
    listed = Schedule.read(schedule.text())
    again = run(replaced(listed, tuple(drawn_by_seed.choices)), note=True)
    assert again == drawn_by_seed
    assert len(again.choices) > 50


def replaced(schedule: Schedule, choices: tuple[int, ...]) -> Schedule:
    """The same with these choices."""
    return Schedule(**{**vars(schedule), "choices": choices})
