"""Local recovery: who reads a copy on its own disk after a failure, and who reads the store.

Oracles: instants by hand, both planes, guarantees in random jobs, and mutants that these tests must catch.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from scripts import unchecked
from test_barriers import run, with_barriers
from test_cluster_view import column, dies
from test_planes import differences
from test_recovery import check

from models.records.tables import RunRecords
from models.scenario.rules import faults
from sim.control.local_copies import LocalCopies
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def job(disk: str | None = "10 MB/s", **changes: Any) -> dict[str, Any]:
    """Three tasks of a sum, one on each host, whose state is 100 kB: 100 ms from the store, 10 ms from a disk.

    h-1 dies at 2.7 s, which is noticed 10 ms later; its task starts on h-3, a spare host.
    """
    service = {"distribution": "deterministic", "value": "1 ms"}
    raw = {
        "duration": "5 s",
        "workload": {
            "in": {"rate": "30 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 40}}
        },
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 3,
                "service": service,
                "state": {"model": "fixed", "bytes": "100 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"h": {"count": 4, "slots": 1}},
        "placement": {
            "slot_sharing": True,
            "tasks": {"in-0": "h-0", "out-0": "h-0", **{f"sum-{k}": f"h-{k}" for k in range(3)}},
        },
        "network": {"latency": "1 ms"},
        "fault_tolerance": {
            "method": "region-restart",
            "interval": "1 s",
            "store": "remote",
            "remote": "1 MB/s",
            "kind": "full",
            "barriers": {},
            "local_recovery": {} if disk is None else {"disk": disk},
        },
        "detector": {"heartbeat": "200 ms", "timeout": "1 s", "failed_calls": 2, "connection": "10 ms"},
        "events": {"dies": dies(1, 2700)},
    }
    return raw | changes


def read(found: RunRecords) -> dict[int, float]:
    """Key group -> time from the start of its task until its state was there [ms]."""
    rows = column(found, "recoveries", "operator", "key_group", "started_ns", "restored_ns")
    return {int(group): restored - started for operator, group, started, restored in rows if operator == 1}


def test_who_stays_reads_its_disk_and_who_was_lost_reads_the_store() -> None:
    found = run(job())
    assert read(found) == {0: 10, 1: 101, 2: 10}
    assert dict(column(found, "recoveries", "key_group", "target"))[1] == 3
    restored = found.tables["messages"]["kind"] == "restore"
    assert found.tables["messages"]["bytes"][restored].sum() == 100_000
    assert not found.tables["ledger"]["lost"].any()


def test_without_it_all_read_the_store_one_after_the_other() -> None:
    raw = job()
    del raw["fault_tolerance"]["local_recovery"]
    assert sorted(read(run(raw)).values()) == [101, 201, 301]


def test_a_disk_without_a_speed_takes_no_time() -> None:
    assert read(run(job(disk=None))) == {0: 0, 1: 101, 2: 0}


def test_a_disk_reads_one_after_the_other() -> None:
    raw = job()
    raw["operators"]["sum"]["key_groups"] = 6
    assert read(run(raw)) == {0: 10, 3: 20, 2: 10, 5: 20, 1: 101, 4: 201}


def test_a_host_that_comes_back_has_lost_its_copies() -> None:
    raw = job(events={"dies": dies(1, 2700, repair=100)})
    raw["hosts"]["h"]["count"] = 3  # its task waits until it is back
    found = run(raw)
    assert dict(column(found, "recoveries", "key_group", "target"))[1] == 1
    assert read(found) == {0: 10, 1: 101, 2: 10}


def test_a_task_whose_host_has_no_copy_reads_the_store_until_the_next_checkpoint() -> None:
    # The second failure comes before the task on h-3 has taken part in a complete checkpoint: after it, all do.
    again = {"first": dies(1, 2700), "second": dies(2, 3050, repair=50)}
    raw = job(events=again, duration="7 s")
    raw["fault_tolerance"]["barriers"] = {"min_pause": "1 s"}
    found = run(raw)
    times = column(found, "recoveries", "failed_ns", "key_group", "operator", "started_ns", "restored_ns")
    second = {int(k): back - up for failed, k, operator, up, back in times if failed == 3050 and operator == 1}
    assert second[0] == 10
    assert second[1] > 100  # on h-3, which has no copy of it
    assert second[2] > 100


def without_complete_one(raw: dict[str, Any]) -> dict[str, Any]:
    return raw | {"events": {"dies": dies(1, 500)}}


def test_before_the_first_complete_checkpoint_nothing_is_read() -> None:
    assert {*read(run(without_complete_one(job()))).values()} <= {0, 1}


# -- random jobs


def local(draw: Random, **more: Any) -> dict[str, Any]:
    raw = with_barriers(draw, **more)
    raw["fault_tolerance"]["local_recovery"] = draw.choice([{}, {"disk": "200 kB/s"}, {"disk": "5 MB/s"}])
    return raw


def test_guarantees_hold_whatever_crashes() -> None:
    assert sum(check(Random(f"local {seed}"), "exactly-once", local) for seed in range(8)) >= 4


def test_both_planes_give_equal_rows() -> None:
    for seed in range(10):
        made = unchecked(local(Random(f"local {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- mutants


def test_copies_that_survive_their_host_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCopies, "lost", lambda self, host: None)
    with pytest.raises(AssertionError):
        test_a_host_that_comes_back_has_lost_its_copies()


def test_copies_that_are_read_from_anywhere_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    has = LocalCopies.has
    broken = lambda self, one, host: has(self, one, self._host.get(one, host))  # noqa: E731
    monkeypatch.setattr(LocalCopies, "lost", lambda self, host: None)
    monkeypatch.setattr(LocalCopies, "has", broken)
    with pytest.raises(AssertionError):
        test_who_stays_reads_its_disk_and_who_was_lost_reads_the_store()


# -- bad input


def test_it_needs_checkpoints_of_the_job() -> None:
    raw = job()
    del raw["fault_tolerance"]["barriers"]
    assert "fault_tolerance.local_recovery" in {fault.path for fault in faults(unchecked(raw))}
    assert faults(unchecked(job())) == []
