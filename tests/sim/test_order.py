"""What happens first where things coincide: lattice scenarios, computed by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from small_jobs import NS, built, queue, rows_of, scenario, simulate

from sim.clock import ARRIVAL, MESSAGE, SERVICE, Clock, Process, channel
from sim.draws import source_id

MS = 10**6


def fixed(ms: int) -> dict[str, Any]:
    return {"distribution": "deterministic", "value": f"{ms} ms"}


def lattice(operators: dict[str, Any], rates: dict[str, str], **changes: Any) -> dict[str, Any]:
    """A scenario with evenly spaced arrivals at one rate for each source."""
    return {
        "duration": "1 s",
        "workload": {name: {"rate": rate, "arrivals": "deterministic"} for name, rate in rates.items()},
        "operators": {name: {"kind": "source"} for name in rates} | operators,
        "hosts": {"h": {"count": 2}},
        "network": {"latency": "0 s"},
        **changes,
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_call_after_a_time_comes_where_a_process_that_sleeps_would(seed: int) -> None:
    """What is asked for at the same instants, by processes alone and by calls for a half of it."""

    def order(calls: bool) -> list[tuple[int, int]]:
        clock, seen, draw = Clock(), [], Random(seed)

        def sleeper(number: int, delay: int) -> Process:
            yield clock.sleep(clock.now_ns() + delay)
            comes(number)

        def comes(number: int) -> None:
            seen.append((clock.now_ns(), number))
            if number < 200:
                ask(2 * number), ask(2 * number + 1)

        def ask(number: int) -> None:
            delay = draw.choice([0, 0, 1, 2])
            if calls and number % 3:
                clock.after(delay, lambda: comes(number))
            else:
                clock.process(sleeper(number, delay))

        for number in range(1, 4):
            ask(number)
        clock.run()
        return seen

    assert order(calls=True) == order(calls=False)
    assert len(order(calls=True)) > 200


def test_the_order_within_an_instant_is_control_messages_services_arrivals() -> None:
    clock, seen = Clock(), []

    def note(what: str) -> Any:
        return lambda _: seen.append(what)

    def control() -> Process:
        yield clock.sleep(5)
        seen.append("control")

    clock.at(5, channel(ARRIVAL, 2, 1), note("arrival at 2 from 1"))
    clock.at(5, channel(ARRIVAL, 1, 9), note("arrival at 1 from 9"))
    clock.at(5, channel(ARRIVAL, 1, 3), note("arrival at 1 from 3"))
    clock.at(5, channel(ARRIVAL, 1, 3), note("the next at 1 from 3"))
    clock.at(5, SERVICE + 7, note("service at 7"))
    clock.at(5, SERVICE + 2, note("service at 2"))
    clock.at(5, channel(MESSAGE, 4, 4), note("message"))
    clock.at(4, channel(ARRIVAL, 9, 9), note("earlier instant"))
    clock.process(control())
    clock.run(until=6)
    assert seen == [
        "earlier instant",
        "control",
        "message",
        "service at 2",
        "service at 7",
        "arrival at 1 from 3",
        "the next at 1 from 3",
        "arrival at 1 from 9",
        "arrival at 2 from 1",
    ]


def test_the_clock_says_what_comes_next_and_never_goes_back() -> None:
    clock = Clock()
    assert clock.head() is None
    number = clock.next_number()
    assert clock.next_number() == number
    clock.at(7, SERVICE, lambda _: None)
    clock.at(5, ARRIVAL, lambda _: None)
    assert clock.head() == (5, ARRIVAL, number + 1)
    assert clock.next_number() == number + 2
    clock.step()
    clock.move_to(6)
    assert (clock.now_ns(), clock.head()) == (6, (7, SERVICE, number))
    with pytest.raises(ValueError, match="cannot go back from 6 to 5"):
        clock.move_to(5)


def test_a_deterministic_queue_by_hand() -> None:
    # Every 10 ms for 10 ms: each service ends as the next tuple arrives, and nobody waits.
    made = queue(fixed(10), workload={"src": {"rate": "100 /s", "arrivals": "deterministic"}}, duration="50 ms")
    assert rows_of(simulate(made), "q") == [
        (10 * MS, 10 * MS, 20 * MS),
        (20 * MS, 20 * MS, 30 * MS),
        (30 * MS, 30 * MS, 40 * MS),
        (40 * MS, 40 * MS, -1),  # still in service
    ]


def test_an_overloaded_deterministic_queue_by_hand() -> None:
    made = queue(fixed(25), workload={"src": {"rate": "100 /s", "arrivals": "deterministic"}}, duration="60 ms")
    records = simulate(made)
    assert rows_of(records, "q") == [(10 * MS, 10 * MS, 35 * MS), (20 * MS, 35 * MS, -1)]
    assert records.tables["waiting"]["arrival_ns"].tolist() == [30 * MS, 40 * MS, 50 * MS]


def test_a_crash_comes_before_the_service_that_ends_at_its_instant() -> None:
    raw = lattice(
        {
            "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": fixed(10)},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        {"src": "100 /s"},
        placement={"tasks": {"src-0": "h-0", "q-0": "h-1", "out-0": "h-0"}},
        events={"crash": {"at": "100 ms", "kind": "host-failure", "host": "h-1"}},
        detector={"heartbeat": "100 ms", "timeout": "10 s"},
    )
    records = simulate(scenario(raw))
    assert rows_of(records, "q")[-1] == (80 * MS, 80 * MS, 90 * MS)
    dropped = [
        (at, why)
        for at, why in zip(records.tables["dropped"]["at_ns"], records.tables["dropped"]["reason"], strict=True)
    ]
    # The one in service, then what arrives at the dead task from the instant of the crash on.
    assert dropped[:3] == [(100 * MS, "crash"), (100 * MS, "crash"), (110 * MS, "crash")]
    assert records.tables["deliveries"]["delivered_ns"].tolist() == [k * MS for k in range(20, 100, 10)]


def test_a_checkpoint_holds_what_ended_before_its_instant() -> None:
    raw = lattice(
        {
            "q": {"kind": "aggregate", "inputs": {"src": "key"}, "service": fixed(10)},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        {"src": "100 /s"},
        fault_tolerance={"method": "checkpoint", "interval": "100 ms"},
    )
    plane = built(scenario(raw), until_ns=101 * MS)
    partition = plane.partitions[1][0]
    assert partition.checkpoint is not None
    assert partition.checkpoint.count == 8  # services of the tuples of 10 .. 80 ms ended by 90 ms
    assert len(partition.applied) == 9


def test_tuples_of_one_instant_arrive_by_sender_then_as_sent() -> None:
    # Sources in file order a, b; batches of two at the same instants; the later source is the faster to be scheduled.
    raw = lattice(
        {
            "q": {"kind": "map", "inputs": {"b": "shuffle", "a": "shuffle"}, "service": fixed(1)},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        {"a": "20 /s", "b": "40 /s"},
    )
    for name in ("a", "b"):
        raw["workload"][name]["batch"] = 2
    plane = built(scenario(raw), until_ns=150 * MS)
    names = {
        source_id(source.code, sequence): f"{source.partition.operator.name}{sequence}"
        for source in plane.sources
        for sequence in range(6)
    }
    assert [names[i] for i in plane.partitions[2][0].applied] == ["b0", "b1", "a0", "a1", "b2", "b3"]


def test_shared_cores_serve_in_the_order_of_arrival_at_the_host() -> None:
    # At 100 ms p gets two tuples and q one; at 120 ms p gets one more. One core of 30 ms services.
    raw = lattice(
        {
            "p": {"kind": "map", "inputs": {"a": "shuffle"}, "service": fixed(30)},
            "q": {"kind": "map", "inputs": {"b": "shuffle"}, "service": fixed(30)},
            "out": {"kind": "sink", "inputs": {"p": "shuffle", "q": "shuffle"}},
        },
        {"a": "20 /s", "b": "10 /s"},
        hosts={"h": {"cpu": "shared"}},
        duration="290 ms",
    )
    raw["workload"]["a"]["batch"] = 2
    records = simulate(scenario(raw))
    assert rows_of(records, "p")[:4] == [
        (100 * MS, 100 * MS, 130 * MS),
        (100 * MS, 130 * MS, 160 * MS),
        (200 * MS, 200 * MS, 230 * MS),
        (200 * MS, 230 * MS, 260 * MS),
    ]
    assert rows_of(records, "q") == [(100 * MS, 160 * MS, 190 * MS), (200 * MS, 260 * MS, -1)]


def test_a_replay_arrives_before_the_tuple_of_the_same_instant() -> None:
    raw = lattice(
        {
            "q": {"kind": "aggregate", "inputs": {"src": "key"}, "service": fixed(1)},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        {"src": "100 /s"},
        placement={"tasks": {"src-0": "h-0", "q-0": "h-1", "out-0": "h-0"}},
        fault_tolerance={"method": "checkpoint", "interval": "900 ms"},
        detector={"heartbeat": "100 ms", "timeout": "100 ms"},
        events={"crash": {"at": "150 ms", "kind": "host-failure", "host": "h-1"}},
    )
    records = simulate(scenario(raw))
    after = [row for row in rows_of(records, "q") if row[0] >= 200 * MS]
    # Detected at 200 ms: tuples 1 .. 19 are replayed, number 20 is created at that instant and comes last.
    assert [start for _, start, _ in after[:20]] == [(200 + k) * MS for k in range(20)]
    assert records.tables["recoveries"]["replayed"].tolist() == [19]
    assert records.tables["ledger"]["lost"].tolist() == [0, 0]


@pytest.mark.parametrize("duration", ["100 ms", "101 ms"])
def test_the_end_of_the_run_comes_before_its_instant(duration: str) -> None:
    made = queue(fixed(10), workload={"src": {"rate": "100 /s", "arrivals": "deterministic"}}, duration=duration)
    ended = [row for row in rows_of(simulate(made), "q") if row[2] >= 0]
    assert len(ended) == (8 if duration == "100 ms" else 9)
    assert NS == 1000 * MS
