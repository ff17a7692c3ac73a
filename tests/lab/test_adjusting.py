"""Operators that are adjusted as a whole, under every order of messages, acks, checkpoints and crashes."""

from __future__ import annotations

from collections import Counter

import pytest
from seeds import parts

from lab.adjusting import AIMS, LAST, MESSAGES, OTHERS, Adjusting, campaign, with_tasks_that_stay
from lab.broken_adjustments import HARMLESS, MUTANTS
from lab.slicing import BEYOND, BOLD, Aim

LITERAL = (("last", "literal"), ("new", "literal"))
SEED = 32  # a schedule without a crash, in which as printed something is lost


@pytest.mark.parametrize("seeds", parts(40, 80))
def test_nothing_is_lost_while_operators_are_adjusted(seeds: range) -> None:
    met = campaign(seeds)
    assert not met["lost"]
    assert met["adjustments"] >= len(seeds)
    assert met["adjustments that were undone"] > 4
    assert met["adjustments that were finished after a crash"] > 0
    assert [what for what in MESSAGES if met[what] < 12] == [], met


MEETS = {
    "adjust": 12,
    "downstream_get_ready": 1,
    "downstream_init": 1,
    "let_go": 1,
    "loaded": 1,
    "partition_state": 12,
    "received": 12,
    "resent": 1,
    "scale_up_fin": 1,
    "slice_partition_state": 6,
    "stored": 3,
    "switch": 3,
    "switched": 3,
}
STAYS_MEETS = dict.fromkeys(MEETS, 4) | {
    "adjust": 11,
    "loaded": 5,
    "partition_state": 11,
    "received": 76,
    "scale_up_init": 7,
    "stored": 40,
    "switch": 5,
}
"""Seeds that meet a crash after the message: tried first."""


def crashed(role: str, message: str) -> bool:
    """Whether a crash of the role comes after the message in some schedule that is aimed at it; none loses anything."""
    jobs = with_tasks_that_stay if role == "stays" else lambda job: True
    aim = Aim((message,), (role,), (1,), (0.2, 0.4), (20, 40), jobs=jobs)
    meets = STAYS_MEETS if role == "stays" else MEETS
    for seed in (meets.get(message, 0), *range(400)):
        one = Adjusting.drawn(seed, aim=aim)
        assert one.run() == [], (seed, role, message)
        if one.met[f"crash of {role} after {message}"]:
            return True
    return False


@pytest.mark.parametrize("role", ["old", "new", "stays", "upstream", "downstream"])
def test_a_crash_of_each_role_after_each_message_loses_nothing(role: str) -> None:
    assert [message for message in MESSAGES if message not in LAST and not crashed(role, message)] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_in_many_schedules(part: int) -> None:
    assert not campaign(range(80 + part * 5_000, 5_080 + part * 5_000))["lost"]


@pytest.mark.parametrize("jobs", OTHERS)
def test_nothing_is_lost_at_joins_and_bounded_queues(jobs: str) -> None:
    assert not campaign(range(20), jobs=jobs)["lost"]


@pytest.mark.parametrize("assumption", [BOLD, BEYOND])
def test_more_failures_lose_nothing_or_the_ledger_says_what(assumption: str) -> None:
    met = campaign(range(25), assumption=assumption)
    assert assumption == BEYOND or not met["lost"]


@pytest.mark.slow
def test_what_the_small_samples_leave_out() -> None:
    for jobs in OTHERS:
        assert not campaign(range(20, 150), jobs=jobs)["lost"]
    assert not campaign(range(25, 200), assumption=BOLD)["lost"]
    campaign(range(25, 200), assumption=BEYOND)  # the ledger says what is lost
    for adjustment in LITERAL:
        assert campaign(range(50, 150), adjustment)["schedules that lose"] > 10
    for tamper in HARMLESS.values():
        assert [seed for seed in range(20, 150) if Adjusting.drawn(seed, tamper=tamper).run()] == []


@pytest.mark.parametrize("adjustment", LITERAL)
def test_as_printed_tuples_are_lost_and_the_ledger_says_which(adjustment: tuple[str, str]) -> None:
    assert campaign(range(25), adjustment)["schedules that lose"] > 2


@pytest.mark.parametrize("checkpoint", ["last", "new"])
def test_as_printed_one_scale_up_without_a_crash_loses_what_is_on_its_way(checkpoint: str) -> None:
    literal, safe = (Adjusting.drawn(SEED, (checkpoint, reading)) for reading in ("literal", "safe"))
    assert literal.run() == safe.run() == []
    assert not any(what.startswith("crash of") for what in (*literal.met, *safe.met))
    assert literal.met["lost"] > 0
    assert safe.met["lost"] == 0


FIRST: dict[str, int] = {
    "upstream resumes at T1, by the new mapping": 3,
    "upstream resumes with the first Scale_Up_FIN": 348,
    "nothing is sent again": 0,
    "buffers are split, and what is in them is not sent": 5,
    "what is sent again is not kept for the new instance": 0,
    "buffers are split by count, not by key": 3,
    "old and new do not both get what is sent meanwhile": 3,
    "what is kept is sent behind new outputs": 31,
    "an ack in the old numbering trims under the new one": 3,
    "slices do not wait for the new instance": 47,
    "slices wait for instances that are over": 3,
    "the checkpoint is not partitioned: new instances begin empty": 0,
    "the checkpoint does not freeze": 84,
    "a checkpoint that is gone counts as empty": 2725,
    "the last checkpoint is enough after a failure upstream": 5903,
    "it begins when the first new checkpoint is stored": 21,
    "a merge keeps what one task had": 91,
    "Scale_Up_FIN comes with the first part": 411,
    "new instances own their groups with Scale_Up_FIN": 3,
    "new instances own their groups when the first has got all": 5133,
    "a task has got all when the first task upstream has sent it": 3,
    "old instances end when the first task upstream has switched": 6,
    "old instances end before the new ones have got all": 0,
    "tasks of the operator do not go on": 3,
    "a run is undone after the switch": 7,
    "a run is finished before the switch": 1,
    "tasks stay paused after a crash": 12,
    "routes stay as they were when a run is undone": 3,
    "checkpoints stay frozen when a run is undone": 0,
    "checkpoints that were not frozen are": 5025,
    "a crash after a scale-up brings the old instances back": 3,
    "nobody sends again what the host of an old instance had not sent": 1105,
}
"""By mutant: the first seed under which it is noticed. If that does not any more, one with the same aim has to."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str) -> None:
    first = FIRST[name]
    seeds = (first, *range(first % len(AIMS), 1_500 * len(AIMS), len(AIMS)))
    found = next((seed for seed in seeds if Adjusting.drawn(seed, tamper=MUTANTS[name]).run()), None)
    assert found is not None
    assert Adjusting.drawn(found).run() == []


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_slower_or_the_same_is_not_blamed(name: str) -> None:
    assert [seed for seed in range(20) if Adjusting.drawn(seed, tamper=HARMLESS[name]).run()] == []


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    runs = [Adjusting.drawn(5) for _ in range(2)]
    assert [one.run() for one in runs] == [[], []]
    counts: list[Counter[str]] = [one.met for one in runs]
    assert counts[0] == counts[1]
