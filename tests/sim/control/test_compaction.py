"""Files of increments that are merged, and whole states in savepoints: what is stored, and what a restore reads.

Oracles: sizes by hand on both planes, and the sizes that recorded checkpoints of Flink with RocksDB have.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from test_barriers import job, outcomes, run, with_barriers
from test_cluster_view import MS, dies
from test_concurrent_checkpoints import concurrent_job
from test_planes import differences
from test_recovery import check
from test_region_restart import NOTICED

from models.records.tables import RunRecords
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flink_recoveries.json"
SUM, CHANGED = 4, 1000


def merging(compaction: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """A job with a checkpoint each 200 ms; 40 tuples/s change 1 kB each of the two key groups of 100 kB of its sum."""
    raw = job({}, **changes)
    raw["fault_tolerance"] |= {"kind": "incremental", "interval": "200 ms", "remote": "10 MB/s"}
    if compaction is not None:
        raw["fault_tolerance"]["compaction"] = compaction
    raw["operators"]["sum"]["state"]["change"] = f"{CHANGED} B"
    raw["operators"]["late"]["service"]["value"] = "1 ms"
    return raw


def sizes(found: RunRecords) -> list[int]:
    """Return the bytes of the sum in each checkpoint of the job."""
    table = found.tables["checkpoints"]
    return np.bincount(table["job"], weights=table["bytes"] * (table["operator"] == SUM)).astype(int).tolist()


def restored(found: RunRecords) -> int:
    """Return the bytes that the sum has read after a failure."""
    rows = found.tables["recoveries"]
    return int(rows["bytes"][rows["operator"] == SUM].sum())


# -- sizes


def test_the_increment_after_so_many_files_has_what_was_merged() -> None:
    without, found = sizes(run(merging(None))), sizes(run(merging({"files": 3})))
    assert without[0] == 200_000
    assert max(without[1:]) <= 10 * CHANGED
    # All of the state is in level 1, whose size is 256 MB.
    merged = [0, *range(3, len(found), 3)]
    assert [found[k] for k in merged] == [200_000] * len(merged)
    assert [one for k, one in enumerate(found) if k % 3] == [one for k, one in enumerate(without) if k % 3]


def test_no_more_than_level_1_of_a_task_is_written_anew() -> None:
    without, found = sizes(run(merging(None))), sizes(run(merging({"files": 3, "level": "30 kB"})))
    more = [one - other for one, other in zip(found, without, strict=True)]
    assert more[:8] == [0, 0, 0, 30_000, 0, 0, 30_000, 0]


@pytest.mark.parametrize(("dies_ms", "files"), [(890, 3), (1090, 0), (1290, 1)])
def test_a_restore_reads_the_files_that_are_not_merged(dies_ms: int, files: int) -> None:
    raw = merging({"files": 4}, events={"dies": dies(0, dies_ms)}, detector=NOTICED)
    found = run(raw)
    # Checkpoints begin at 200, 400, ...; the fifth has the merged files.
    stored = sizes(found)[: dies_ms // 200]
    assert outcomes(found)[: len(stored)] == ["completed"] * len(stored)
    assert restored(found) == 200_000 + sum(stored[len(stored) - files :] if files else [])
    raw["fault_tolerance"].pop("compaction")
    assert restored(run(raw)) == 200_000


def test_what_was_merged_for_an_expired_checkpoint_is_in_the_next_one() -> None:
    raw = merging({"files": 2})
    # The store needs 10 ms for the state at first, and for each of the merged files longer than there is time.
    raw["fault_tolerance"] |= {"remote": "1 MB/s"}
    raw["fault_tolerance"]["barriers"] |= {"timeout": "150 ms", "first": "interval"}
    raw["operators"]["sum"]["state"] = {"model": "per-tuple", "bytes": "5 kB"}
    found = run(raw)
    ends, table = outcomes(found), found.tables["checkpoints"]
    expired = ends.index("expired")
    assert expired % 2 == 0
    assert set(ends[expired:-1]) == {"expired"}
    later = (table["operator"] == SUM) & (table["job"] >= expired)
    assert table["full"][later].all()


def recorded_sizes() -> list[tuple[list[int], list[int]]]:
    """Return (stored, whole) of successive checkpoints with increments, oldest first, for each recorded kill."""
    kills = json.loads(RECORDED.read_text())["recoveries"]
    own = [kill for kill in kills if kill["backend"] == "rocksdb" and kill["incremental"]]
    return [(kill["cp_persisted_bytes"][::-1], kill["cp_state_bytes"][::-1]) for kill in own]


def test_recorded_increments_are_merged_as_here() -> None:
    large, grown = 0, 0
    for stored, whole in recorded_sizes():
        if min(whole) < 30e6:
            continue  # the job had just begun, and had not seen all keys
        for k in range(1, len(stored)):
            if stored[k] > 0.9 * whole[k]:
                large += 1
            elif stored[k] < 0.1 * whole[k]:
                # What a restore reads grows by the increment that was not merged.
                assert whole[k] - whole[k - 1] == pytest.approx(stored[k], rel=0.1)
                grown += 1
        at = [k for k in range(len(stored)) if stored[k] > 0.9 * whole[k]]
        assert len(at) <= 1  # of four in a row
    assert large >= 3
    assert grown >= 8


# -- savepoints


def rescaled(**more: Any) -> dict[str, Any]:
    """`merging` with an event that stops the job with a savepoint."""
    event = {"kind": "rescale", "at": "1050 ms", "operator": "sum", "parallelism": 2, "submit": "100 ms"}
    return merging({"files": 100}, events={"more": event}, **more)


def test_a_savepoint_has_whole_states_and_so_has_the_checkpoint_after_it() -> None:
    raw = rescaled()
    assert not_simulated(unchecked(raw)) == []
    found = run(raw)
    stored, ends = sizes(found), outcomes(found)
    begins = (found.tables["job_checkpoints"]["triggered_ns"] // MS).tolist()
    savepoint = begins.index(1050)
    assert ends[savepoint] == "completed"
    assert [one == 200_000 for one in stored[: savepoint + 4]] == [
        True,
        *[False] * (savepoint - 1),
        True,
        True,
        False,
        False,
    ]
    assert restored(found) == 200_000  # no file of its increments is read with a savepoint
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()


# -- random jobs


def compacting(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job whose increments are merged."""
    raw = draw.choice([with_barriers, concurrent_job])(draw, **more)
    raw["fault_tolerance"] |= {
        "kind": "incremental",
        "interval": "100 ms",
        "compaction": {"files": draw.choice([1, 2, 3]), "level": draw.choice(["100 B", "3 kB", "1 MB"])},
    }
    return raw


def test_both_planes_give_equal_rows() -> None:
    for seed in range(12):
        made = unchecked(compacting(Random(f"compaction {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


def test_guarantees_hold_whatever_crashes() -> None:
    assert sum(check(Random(f"compaction {seed}"), "exactly-once", compacting) for seed in range(6)) >= 3


# -- mutants


def test_a_merge_that_an_expired_checkpoint_took_away_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint, subtask: Any) -> int:
        return more(self, checkpoint, subtask) if checkpoint.merged == checkpoint.number else 0

    more = BarrierCheckpoints._more_bytes
    monkeypatch.setattr(BarrierCheckpoints, "_more_bytes", broken)
    with pytest.raises(AssertionError):
        test_what_was_merged_for_an_expired_checkpoint_is_in_the_next_one()


# -- bad input


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": "full"}, "execution.checkpointing.incremental"),
        ({"barriers": None}, "barriers"),
    ],
)
def test_only_increments_of_the_job_are_merged(changes: dict[str, Any], says: str) -> None:
    raw = merging({})
    assert faults(unchecked(raw)) == []
    raw["fault_tolerance"] |= changes
    (fault,) = faults(unchecked(raw))
    assert fault.path == "fault_tolerance.compaction"
    assert says in f"{fault.rule} {fault.hint}"
