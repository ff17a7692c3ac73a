"""Where things go wrong first: crashes at ugly instants, nothing to do, nobody left, very short runs."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from decided import said as decided
from small_jobs import NS, applied, built, drain, idle, scenario, simulate, state_losses, without_crashes
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from sim import engine
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane


def job(hosts: int = 3, *crashes: tuple[str, str, str | None], **changes: Any) -> dict[str, Any]:
    """Source -> keyed count (4 groups on 2 tasks) -> sink; `crashes` are (instant, host, repair)."""
    events = {
        f"crash{k}": {"at": at, "kind": "host-failure", "host": host} | ({"repair": repair} if repair else {})
        for k, (at, host, repair) in enumerate(crashes)
    }
    return {
        "duration": "10 s",
        "workload": {"src": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 20}}},
        "operators": {
            "src": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": {"distribution": "exponential", "mean": "5 ms"},
                "state": {"model": "per-key", "bytes": "100 B"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"h": {"count": hosts}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
        "detector": {"heartbeat": "200 ms", "timeout": "600 ms"},
        "events": events,
        **changes,
    }


def ledger_of(records: RunRecords) -> list[tuple[int, int, int]]:
    table = records.tables["ledger"]
    return list(zip(*(table[name].tolist() for name in ("expected", "lost", "duplicated")), strict=True))


def clean(raw: dict[str, Any]) -> None:
    """Drained, nothing lost, nothing twice, and no loss of state was reported."""
    run = drain(raw)
    assert run.drained
    assert not state_losses(run)
    assert applied(run.plane) == _calmly(json.dumps(without_crashes(raw)))


@cache
def _calmly(text: str) -> Any:
    """What a job without crashes has applied."""
    return applied(drain(json.loads(text)).plane)


@pytest.mark.parametrize("crashes", [(), (("5 s", "h-1", None),)])
def test_planes_send_keys_by_the_hash_and_the_ranges_of_an_operator(crashes: tuple[tuple[str, str, None], ...]) -> None:
    def rows(key_hash: str, assignment: str, plane: PlaneFactory | None = None) -> RunRecords:
        raw = job(3, *crashes)
        raw["operators"]["count"] |= {"key_hash": key_hash, "key_group_assignment": assignment}
        return engine.simulate(scenario(raw), plane=plane)

    one = rows("flink-number", "ranges", PlainPlane)
    assert not differences(one, rows("flink-number", "ranges", CompiledPlane))
    assert not differences(one, rows("flink-number", "ranges"))  # the scan, where nothing fails
    assert differences(one, rows("crc32", "ranges"))
    assert differences(one, rows("flink-number", "round-robin"))


@pytest.mark.parametrize("host", ["h-0", "h-1", "h-2"])
@pytest.mark.parametrize("at", ["0 s", "1 ns", "500 ms", "999999999 ns", "1 s", "1000000001 ns", "9999999999 ns"])
def test_one_crash_at_any_instant_is_clean(at: str, host: str) -> None:
    clean(job(3, (at, host, None)))
    clean(job(3, (at, host, "300 ms")))


def test_the_last_host_of_one_comes_back_and_reads_the_log_again() -> None:
    raw = job(1, ("2500 ms", "h-0", "2 s"))
    clean(raw)
    # Nobody could hold a checkpoint, so nothing was trimmed and all is replayed from the source.
    assert drain(raw).rows["checkpoints"] == []


def test_all_hosts_dead_at_once_and_one_comes_back() -> None:
    # The checkpoint hosts died with the owners: state may be lost, and then it is said.
    raw = job(3, ("2500 ms", "h-0", None), ("2500 ms", "h-1", "1 s"), ("2500 ms", "h-2", None))
    run = drain(raw)
    assert run.drained
    assert {name for _, name in state_losses(run)} == {f"count[{group}]" for group in range(4)}
    assert all(partition.task.host.name == "h-1" for partition in run.plane.all_partitions())


def test_all_hosts_dead_for_good_stand_still_and_lose_nothing_that_was_not_checkpointed() -> None:
    raw = job(2, ("500 ms", "h-0", None), ("600 ms", "h-1", None))
    records = simulate(scenario(raw))
    assert (records.tables["recoveries"]["restored_ns"] < NS).all()
    assert records.tables["lag"]["lag"][-1] > 350
    # Before the first checkpoint the log of the source covers everything.
    assert [lost for _, lost, _ in ledger_of(records)] == [0, 0]
    assert not idle(built(scenario(raw)))


def test_a_host_that_is_back_before_the_time_out_says_so_itself() -> None:
    records = simulate(scenario(job(3, ("3300 ms", "h-1", "100 ms"))))
    failure = {name: column.tolist() for name, column in records.tables["failures"].items()}
    assert failure["detected_ns"] == failure["repaired_ns"] == [3400 * 10**6]


def test_the_time_out_counts_from_the_last_heartbeat() -> None:
    for at, detected_ms in (("3300 ms", 3800), ("3200 ms", 3600), ("3201 ms", 3800), ("0 s", 600)):
        records = simulate(scenario(job(3, (at, "h-1", None))))
        assert records.tables["failures"]["detected_ns"].tolist() == [detected_ms * 10**6], at


def test_a_failure_near_the_end_is_not_detected() -> None:
    records = simulate(scenario(job(3, ("9900 ms", "h-1", "1 s"))))
    assert records.tables["failures"]["detected_ns"].tolist() == [NEVER]
    assert records.tables["recoveries"]["host"].size == 0
    assert [(lost, twice) for _, lost, twice in ledger_of(records)] == [(0, 0), (0, 0)]


def test_a_failure_of_a_dead_host_is_ignored_and_said() -> None:
    records = simulate(scenario(job(3, ("3 s", "h-1", None), ("4 s", "h-1", None))))
    assert records.tables["failures"]["host"].tolist() == [1]
    assert (4 * 10**9, "failure of h-1 ignored", "the host is already down") in decided(records)


def test_scheduled_failures_happen_at_their_times() -> None:
    raw = job(3)
    raw["hosts"]["h"]["failures"] = {"model": "schedule", "at": ["4 s", "0 s", "4 s"], "repair": "500 ms"}
    records = simulate(scenario(raw))
    assert records.tables["failures"]["failed_ns"].tolist() == [0] * 3 + [4 * NS] * 3


def test_a_run_shorter_than_the_interval_has_no_checkpoint() -> None:
    records = simulate(scenario(job(3, ("100 ms", "h-1", None), duration="900 ms")))
    assert records.tables["checkpoints"]["bytes"].size == 0
    assert [(lost, twice) for _, lost, twice in ledger_of(records)] == [(0, 0), (0, 0)]


def test_a_source_without_tuples_runs_to_the_end() -> None:
    records = simulate(scenario(job(3, ("3 s", "h-0", "1 s"), workload={"src": {"rate": "0 /s"}})))
    assert records.tables["visits"]["task"].size == 0
    assert ledger_of(records) == [(0, 0, 0), (0, 0, 0)]


def test_warm_up_is_only_passed_on() -> None:
    with_it = simulate(scenario(job(3, warmup="5 s")))
    without = simulate(scenario(job(3)))
    assert (with_it.warmup_ns, without.warmup_ns) == (5 * NS, 0)
    assert with_it.tables["visits"]["end_ns"].tolist() == without.tables["visits"]["end_ns"].tolist()


def test_without_fault_tolerance_state_is_lost_and_the_audit_says_so() -> None:
    raw = job(3, ("5 s", "h-1", None), fault_tolerance={"method": "none"})
    run = drain(raw)
    final, whole = applied(run.plane), applied(drain(without_crashes(raw)).plane)
    (_, lost, _), _ = ledger_of(simulate(scenario(raw)))
    missing = sum(len(whole[partition].keys() - final[partition].keys()) for partition in whole if partition[0] == 1)
    assert run.drained
    assert 0 < lost <= missing


def test_a_later_crash_does_not_reopen_a_recovery_that_is_over() -> None:
    # The source's host dies long after a group recovered; what it replays to the group is the source's affair.
    raw = job(3, ("2100 ms", "h-1", None), ("7100 ms", "h-0", None))
    records = simulate(scenario(raw))
    table = records.tables["recoveries"]
    first = table["failed_ns"] == 2100 * 10**6
    assert first.sum() >= 2
    assert (table["caught_up_ns"][first] < 4 * NS).all()
    assert (table["caught_up_ns"][first] >= table["replayed_ns"][first]).all()


def test_phases_of_a_recovery_follow_each_other() -> None:
    raw = job(3, ("2100 ms", "h-1", None), ("2100 ms", "h-2", None))
    raw["operators"]["count"] |= {"serialise": "1 MB/s", "deserialise": "100 kB/s"}
    table = simulate(scenario(raw)).tables["recoveries"]
    order = [table[name] for name in ("failed_ns", "detected_ns", "restored_ns", "replayed_ns", "caught_up_ns")]
    assert order[0].size > 0
    for before, after in pairwise(order):
        assert (before <= after).all()


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-most-once"])
def test_what_arrived_while_nobody_was_alive_is_sent_to_live_tasks(guarantee: str) -> None:
    tolerance = {"method": "checkpoint", "store": "remote", "guarantee": guarantee}
    run = drain(job(1, ("2500 ms", "h-0", "3 s"), fault_tolerance=tolerance))
    back = [at for *_, at, why in run.rows["dropped"] if at >= 5500 * 10**6 and why == "crash"]
    assert back == []


def test_the_remote_store_outlives_every_host() -> None:
    tolerance = {"method": "checkpoint", "interval": "1 s", "store": "remote"}
    crashes = [("3500 ms", f"h-{k}", "1 s") for k in range(3)]
    clean(job(3, *crashes, fault_tolerance=tolerance))
