"""Checkpoints that are taken as a batch: what the listener hears of them, and when it hears nothing.

Oracles: instants by hand on both planes, pools that are whole again, and a mutant that the guarantees must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from test_barriers import job, run, with_barriers
from test_cluster_view import MS
from test_recovery import check

from sim import engine
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.checkpoint import Batch, CheckpointCoordinator
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plane_values import REMOTE

SUMS, OUT = (4, 5), 6
PLANES = pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane])


def scripted(
    plane: PlaneFactory, script: Callable[[Control], Process], **barriers: str
) -> tuple[Control, list[tuple[int, int]]]:
    """Return a run with this script up to 1 s, before its first checkpoint, and what it heard: (partition, ms)."""
    control = engine.build(unchecked(job(dict(barriers))), plane=plane)
    heard: list[tuple[int, int]] = []
    control.stored = lambda partition, slot: heard.append((partition, control.clock.now_ns() // MS))  # type: ignore[method-assign]
    control.clock.process(script(control))
    control.run(1000 * MS)
    return control, heard


@PLANES
def test_the_listener_hears_of_a_batch_once_all_are_stored(plane: PlaneFactory) -> None:
    def script(control: Control) -> Process:
        yield control.clock.sleep(500 * MS)
        assert [control.cluster.partition_operator[one] for one in (*SUMS, OUT)] == [4, 4, 5]
        assert control.state.plane.checkpoint_each([*SUMS, OUT, 0], REMOTE) == 3  # a source has nothing to save

    # Both are at the store at 501, and written one after the other, in 100 ms each.
    assert scripted(plane, script)[1] == [(SUMS[0], 701)]


@PLANES
def test_the_first_that_was_taken_stands_for_a_batch(plane: PlaneFactory) -> None:
    def script(control: Control) -> Process:
        yield control.clock.sleep(500 * MS)
        assert control.state.plane.checkpoint(SUMS[0], REMOTE)
        assert control.state.plane.checkpoint_each(SUMS, REMOTE) == 1
        assert control.state.plane.checkpoint_each(SUMS, REMOTE) == 0
        assert control.state.plane.checkpoint_each([], REMOTE) == 0

    assert scripted(plane, script)[1] == [(SUMS[0], 601), (SUMS[1], 701)]


@PLANES
@pytest.mark.parametrize("lost", [SUMS, SUMS[:1], SUMS[1:]])
def test_the_listener_hears_nothing_of_a_batch_that_is_not_whole(plane: PlaneFactory, lost: tuple[int, ...]) -> None:
    def script(control: Control) -> Process:
        yield control.clock.sleep(500 * MS)
        assert control.state.plane.checkpoint_each(SUMS, REMOTE) == 2
        yield control.clock.sleep(650 * MS)  # the first is stored
        control.state.plane.abort_checkpoints(lost)
        yield control.clock.sleep(800 * MS)  # the second has come
        control.state.plane.abort_checkpoints(SUMS)
        assert control.state.plane.checkpoint_each(SUMS[:1], REMOTE) == 1  # in the places of those before

    # That the first one of a batch is given up once it is stored does not change that all have been stored.
    whole = [(SUMS[0], 701)] if lost == SUMS[:1] else []
    control, heard = scripted(plane, script)
    assert heard == [*whole, (SUMS[0], 901)]
    if isinstance(control.plane, CompiledPlane):
        control.plane.abort_checkpoints(SUMS)
        state = control.plane.state
        assert state.transfer_pool["left"] == state.transfers.shape[0]


@PLANES
def test_batches_are_for_checkpoints_that_are_completed(plane: PlaneFactory) -> None:
    raw = job()
    raw["fault_tolerance"] = {"method": "checkpoint", "interval": "1010 ms"}
    control = engine.build(unchecked(raw), plane=plane)
    with pytest.raises(ValueError, match="for runs with barriers or batches"):
        control.state.plane.checkpoint_each(SUMS, 1)


def test_the_guarantee_catches_a_batch_that_is_stored_with_its_first_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: CheckpointCoordinator, partition: Partition, batch: Batch | None, slot: int) -> None:
        assert batch is not None
        self.plane.note_stored(batch.first)

    monkeypatch.setattr(CheckpointCoordinator, "note_stored", at_once)
    with pytest.raises(AssertionError):
        for seed in range(60):
            check(Random(f"barriers {seed}"), "exactly-once", with_barriers)


def test_a_barrier_at_a_task_is_one_call_and_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Counted(CompiledPlane):
        def checkpoint_each(self, partitions: Any, *where: int) -> int:
            calls.append(tuple(partitions))
            return super().checkpoint_each(partitions, *where)

    control = engine.build(unchecked(job()), plane=Counted)
    stored, heard = control.stored, []
    monkeypatch.setattr(control, "stored", lambda partition, slot: (heard.append(partition), stored(partition, slot)))
    control.run(2000 * MS)
    assert sorted(calls) == [(2,), (3,), SUMS, (OUT,)]
    assert sorted(heard) == [2, 3, SUMS[0], OUT]


def test_a_batch_has_room_however_many_key_groups_a_task_has() -> None:
    raw = job()
    raw["operators"]["sum"] |= {"key_groups": 700, "state": {"model": "fixed", "bytes": "100 B"}}
    assert run(raw).tables["job_checkpoints"]["outcome"].tolist() == ["completed"] * 3
    control = engine.build(unchecked(raw), plane=CompiledPlane)
    assert isinstance(control.plane, CompiledPlane)
    state = control.plane.state
    control.run(1000 * MS)
    before = state.transfers.shape[0]
    assert control.plane.checkpoint_each(range(SUMS[0], SUMS[0] + 700), REMOTE) == 700
    assert state.transfers.shape[0] > before  # there was no room for so many
    assert state.transfer_pool["left"] >= 0
    assert state.checkpointing["rows"] <= state.checkpoint_rows.shape[0]
