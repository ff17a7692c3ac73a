"""Channels and links: first in first out, bytes over rate, then latency; and what a crash does to them."""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import built, rows_of, scenario, simulate

from models.records.tables import RunRecords
from sim.plain.link import Link

MS = 10**6


def job(partitioning: str = "shuffle", tasks: int = 1, **changes: Any) -> dict[str, Any]:
    """A source on one host, every 50 ms 100 bytes at 1 kB/s (100 ms each), to tasks on another; latency 30 ms."""
    raw = {
        "duration": "300 ms",
        "workload": {"src": {"rate": "20 /s", "arrivals": "deterministic", "tuple": "100 B"}},
        "operators": {
            "src": {"kind": "source"},
            "q": {
                "kind": "map",
                "inputs": {"src": partitioning},
                "parallelism": tasks,
                "service": {"distribution": "deterministic", "value": "1 ms"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"near": {"network": "1 kB/s"}, "far": {}},
        "network": {"latency": "30 ms"},
        "placement": {"operators": {"src": "near", "q": "far", "out": "far"}},
    }
    return raw | changes


def arrivals(records: RunRecords) -> list[int]:
    return [arrival // MS for arrival, _, _ in rows_of(records, "q")]


def test_a_link_carries_one_transmission_after_the_other() -> None:
    link = Link(1000.0, 7)
    assert [link.arrival_ns(0, 2), link.arrival_ns(0, 3), link.arrival_ns(9 * MS, 1)] == [
        2 * MS + 7,
        5 * MS + 7,
        10 * MS + 7,
    ]


def test_a_link_without_a_rate_has_only_its_latency() -> None:
    link = Link(None, 7)
    assert [link.arrival_ns(5, 10**9), link.arrival_ns(5, 1)] == [12, 12]


def test_tuples_queue_for_the_link_of_their_sender() -> None:
    # Created at 50, 100, ...; the link is free at 150, 250, ...
    assert arrivals(simulate(scenario(job()))) == [180, 280]


def test_a_broadcast_sends_a_copy_for_each_receiver() -> None:
    records = simulate(scenario(job("broadcast", 2)))
    assert arrivals(records) == [180, 280]
    assert records.tables["visits"]["task"][records.tables["visits"]["operator"] == 1].tolist() == [1, 2]


def test_copies_of_a_broadcast_are_tuples_of_their_own() -> None:
    # Else the sink would take the outputs of the second and third task for duplicates of the first.
    raw = job("broadcast", 3, hosts={"near": {}, "far": {}}, fault_tolerance={"method": "checkpoint"})
    records = simulate(scenario(raw))
    assert records.tables["deliveries"]["created_ns"].size == 3 * 5 - 0
    assert records.tables["dropped"]["reason"].size == 0
    assert records.tables["ledger"]["expected"].tolist() == [15, 15]


def test_inside_a_host_tuples_arrive_at_once() -> None:
    raw = job(placement={"operators": {"src": "near", "q": "near", "out": "near"}})
    records = simulate(scenario(raw))
    assert arrivals(records) == [50, 100, 150, 200, 250]
    assert set(records.tables["messages"]["kind"].tolist()) == {"local"}


def test_bytes_and_messages_are_counted_when_they_are_sent() -> None:
    messages = simulate(scenario(job())).tables["messages"]
    counted = {
        kind: (count, size)
        for kind, count, size in zip(messages["kind"], messages["count"], messages["bytes"], strict=True)
    }
    assert counted == {"data": (5, 500), "local": (2, 200)}


def test_what_has_not_left_the_link_dies_with_its_host() -> None:
    # Transmissions 50-150, 150-250, 250-350, ...; the sender dies at 250: at that instant nothing more leaves.
    crash = {"crash": {"at": "250 ms", "kind": "host-failure", "host": "near-0"}}
    records = simulate(scenario(job(duration="2 s", events=crash, detector={"heartbeat": "1 s", "timeout": "9 s"})))
    assert arrivals(records) == [180]
    assert records.tables["dropped"]["reason"].tolist() == ["crash"] * 3


def test_what_has_left_the_link_arrives_though_its_sender_is_dead() -> None:
    crash = {"crash": {"at": "251 ms", "kind": "host-failure", "host": "near-0"}}
    records = simulate(scenario(job(duration="2 s", events=crash, detector={"heartbeat": "1 s", "timeout": "9 s"})))
    assert arrivals(records) == [180, 280]


def test_a_checkpoint_that_has_not_left_its_owner_is_never_stored() -> None:
    # State of 1 kB at 1 kB/s: taken at 500 ms, left at 1.5 s. The owner dies at 1.4 s.
    raw = job(duration="3 s", hosts={"near": {}, "far": {"network": "1 kB/s"}})
    raw["operators"]["q"] |= {"inputs": {"src": "key"}, "state": {"model": "fixed", "bytes": "1 kB"}}
    raw["workload"]["src"]["rate"] = "1 /s"
    raw["placement"]["operators"]["out"] = "near"
    raw["network"]["sharing"] = "fifo"
    raw["fault_tolerance"] = {"method": "checkpoint", "interval": "500 ms", "kind": "full"}
    raw["events"] = {"crash": {"at": "1400 ms", "kind": "host-failure", "host": "far-0"}}
    stored = simulate(scenario(raw)).tables["checkpoints"]["stored_ns"]
    assert stored[0] == -1
    raw["events"]["crash"]["at"] = "1501 ms"
    stored = simulate(scenario(raw)).tables["checkpoints"]["stored_ns"]
    assert stored[0] == 1530 * MS


@pytest.mark.parametrize("first", ["slow", "fast"])
def test_the_remote_store_writes_in_order_of_arrival(first: str) -> None:
    # Two owners with 1 kB of state each; the slow one needs 1 s to send it, and must not keep the other waiting.
    raw = job(
        "key", 2, duration="3 s", hosts={"slow": {"network": "1 kB/s"}, "fast": {"network": "1 MB/s"}, "near": {}}
    )
    raw["operators"]["q"]["state"] = {"model": "fixed", "bytes": "1 kB"}
    raw["workload"]["src"]["rate"] = "0 /s"
    other = {"slow": "fast", "fast": "slow"}[first]
    raw["placement"] = {"tasks": {"src-0": "near-0", "out-0": "near-0", "q-0": f"{first}-0", "q-1": f"{other}-0"}}
    raw["fault_tolerance"] = {"method": "checkpoint", "interval": "1 s", "store": "remote", "remote": "10 kB/s"}
    table = simulate(scenario(raw)).tables["checkpoints"]
    stored = dict(zip(table["key_group"].tolist()[:2], table["stored_ns"].tolist()[:2], strict=True))
    slow = 0 if first == "slow" else 1
    # Leave after 1 ms or 1 s, 30 ms of latency, 100 ms to write.
    assert stored == {slow: 2130 * MS, 1 - slow: 1131 * MS}


def test_channels_keep_their_order() -> None:
    raw = job(duration="20 s", hosts={"near": {"network": "10 kB/s"}, "far": {}})
    raw["workload"]["src"] = {"rate": "80 /s", "batch": 3}
    plane = built(scenario(raw), until_ns=20 * 10**9)
    sent = plane.sources[0].emitted
    places = {row: k for k, row in enumerate(_ids(plane))}
    got = [places[i] for i in plane.partitions[1][0].applied]
    assert got == list(range(len(got)))
    assert 0 < len(got) <= sent


def _ids(plane: Any) -> list[int]:
    from sim.draws import source_id  # noqa: PLC0415

    return [source_id(plane.sources[0].code, k) for k in range(plane.sources[0].emitted)]
