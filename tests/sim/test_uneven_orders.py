"""Protocols under orders of events that no timing of a job reaches easily: only channels keep theirs.

Oracle: the ledger. To look at one schedule: `moving_jobs.run(moving_job(SEED, PROTOCOL), World, CRASH,
clock=UnevenClock(SEED))`.
"""

from __future__ import annotations

import pytest
from moving_jobs import crashes, moving_job, run
from reference.world import World
from test_migrations import MUTANTS, FirstToCheckpointConverts, NotMuted
from uneven_clock import UnevenClock

from sim.context import Context, Protocol
from sim.protocols import PROTOCOLS
from sim.protocols.cpa import CPA

LOSING = [(name, mutant) for name, mutant in MUTANTS if mutant is not NotMuted]  # that one only answers twice


def faulty(protocol: str, seed: int, count: int, mutant: type[Protocol] | None = None) -> list[object]:
    """The schedules of one seed in which something is wrong: without a crash, and with some."""
    made, instead = moving_job(seed, protocol), {protocol: mutant} if mutant else None
    calm = run(made, World, instead=instead, clock=UnevenClock(seed))
    found: list[object] = [(seed, calm.faults)] if calm.faults else []
    for crash in crashes(seed, calm.moments, count):
        outcome = run(made, World, crash, instead=instead, clock=UnevenClock(seed))
        if outcome.faults:
            found.append((seed, crash, outcome.faults))
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_lost_or_done_twice_in_any_order(protocol: str) -> None:
    for seed in range(12):
        assert faulty(protocol, seed, 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_lost_or_done_twice_in_many_orders(protocol: str) -> None:
    for seed in range(100, 400):
        assert faulty(protocol, seed, 5) == []


class StillCheckpointed(CPA):
    """The old owner goes on storing checkpoints while the new one warms up from an older one."""

    def start(self, ctx: Context) -> None:
        for task in self.move.upstream:
            ctx.send(task, "move")


def test_a_checkpoint_that_is_stored_during_the_move_is_noticed() -> None:
    assert any(faulty("cpa", seed, 0, StillCheckpointed) for seed in range(40))


def test_a_conversion_at_the_first_request_is_noticed() -> None:
    assert any(faulty("cpa", seed, 1, FirstToCheckpointConverts) for seed in range(60))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), LOSING, ids=[mutant.__name__ for _, mutant in LOSING])
def test_broken_protocols_are_noticed_in_uneven_orders(name: str, mutant: type[Protocol]) -> None:
    assert any(faulty(name, seed, 3, mutant) for seed in range(60))
