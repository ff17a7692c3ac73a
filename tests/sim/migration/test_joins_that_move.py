"""Key groups of joins that move, by events and by themselves, beside windows upstream.

Oracles: the same job in which nothing moves and nobody dies; the plain plane by equality of all rows; what a join keeps
of its two inputs, lost or mixed up on purpose.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from elastic_jobs import elastic_windows
from moves_beside import moving_beside
from moving_jobs import Crash, crashes, run
from test_migrations_beside import check
from test_planes import differences
from test_windows_that_move import delivered, ran, wrong

from models.scenario.events import Elasticity
from models.scenario.scenario import Scenario
from sim.control.assembly import Control
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocols import PROTOCOLS
from sim.plain.partition import EventTime
from sim.plain.plane import PlainPlane

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def pairs_of(control: Control) -> int:
    """The number of the join."""
    return next(operator.index for operator in control.plan.operators if operator.name == "pairs")


@every_protocol
def test_planes_agree_and_nothing_is_lost(protocol: str) -> None:
    check("joins", protocol, range(1), 1)


@pytest.mark.parametrize(
    "protocol",
    [name if name in ("cpal", "direct") else pytest.param(name, marks=pytest.mark.slow) for name in PROTOCOLS],
)
def test_a_join_has_the_same_pairs_wherever_its_groups_are(protocol: str) -> None:
    seed = list(PROTOCOLS).index(protocol)
    assert wrong(protocol, seed, 1, uneven=seed % 2 == 1, what="joins") == []


def test_key_groups_of_joins_do_move() -> None:
    moved = 0
    for seed in range(6):
        outcome = run(moving_beside("joins", seed, "cpal"), CompiledPlane)
        moves = outcome.records.tables["migrations"]
        own = moves["operator"] == pairs_of(outcome.control)
        moved += int((own & (moves["completed_ns"] > 0)).sum())
    assert moved >= 6


@pytest.mark.slow
@every_protocol
def test_joins_that_move_in_many_jobs(protocol: str) -> None:
    check("joins", protocol, range(1000, 1030), 2)
    for seed in range(100, 130):
        assert wrong(protocol, seed, 3, uneven=seed % 2 == 1, what="joins") == []


# -- elasticity


def elastic_crash(seed: int) -> Crash | None:
    """A crash at an instant of a move, half of the time."""
    moments = run(elastic_windows(seed), CompiledPlane, assists=False).moments
    return (crashes(seed, moments, 1) or [None])[0] if seed % 2 else None


def elastic_differs(seed: int) -> list[str]:
    made, crash = elastic_windows(seed), elastic_crash(seed)
    plain, fast = (run(made, plane, crash, assists=False) for plane in (PlainPlane, CompiledPlane))
    return differences(plain.records, fast.records) + fast.faults


def at_rest(made: Scenario) -> Scenario:
    """The same job in which nothing moves."""
    return made.model_copy(update={"events": {}, "elasticity": Elasticity()})


def elastic_contents(seed: int) -> int:
    """How many moves there were; what is delivered is what it is without them, and nothing is late."""
    made = elastic_windows(seed)
    outcome, still = ran(made, elastic_crash(seed), None), ran(at_rest(made), None, None)
    assert outcome.faults == []
    assert isinstance(outcome.control.plane, PlainPlane)
    assert outcome.control.plane.watermarks.late == []
    assert delivered(outcome, made) == delivered(still, made)
    return len(outcome.records.tables["migrations"]["operator"])


@pytest.mark.parametrize("seed", range(3))
def test_planes_agree_where_windows_and_joins_move_by_themselves(seed: int) -> None:
    assert elastic_differs(seed) == []


def test_windows_and_joins_have_the_same_contents_where_they_move_by_themselves() -> None:
    assert sum(elastic_contents(seed) for seed in range(2)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_windows_and_joins_that_move_by_themselves_in_many_jobs(part: int) -> None:
    for seed in range(100 + 30 * part, 130 + 30 * part):
        assert elastic_differs(seed) == [], seed
        elastic_contents(seed)


# -- broken on purpose


def forget_the_sides(patch: pytest.MonkeyPatch) -> None:
    """What a join keeps of both inputs is no part of a checkpoint."""
    right = EventTime.copy

    def copied(self: EventTime) -> EventTime:
        made = right(self)
        made.sides = {}
        return made

    patch.setattr(EventTime, "copy", copied)


def mix_the_sides_up(patch: pytest.MonkeyPatch) -> None:
    """Restored tuples are of the other input than they came over."""
    right = EventTime.restored

    def restored(self: EventTime, saved: EventTime | None, ticks: int, replays: bool) -> EventTime:
        made = right(self, saved, ticks, replays)
        made.sides = {(window, key, 1 - side): rows for (window, key, side), rows in made.sides.items()}
        return made

    patch.setattr(EventTime, "restored", restored)


ERRORS = [forget_the_sides, mix_the_sides_up]


@pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])
def test_a_broken_join_is_noticed(error: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    error(monkeypatch)
    assert any(wrong("cpa", seed, 1, uneven=False, what="joins") for seed in range(7, 15))  # the first notices both
