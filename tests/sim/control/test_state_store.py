"""The state store: when it answers. Oracle: instants worked out by hand, and a queue request by request."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from small_jobs import build, scenario

from sim.control.state_store import StateStore
from sim.plane_values import Parcel

MS = 1_000_000


def store(**keys: Any) -> tuple[StateStore, Any]:
    """A store in a run with a latency of 1 ms, and that run."""
    raw = {
        "duration": "100 s",
        "workload": {"in": {"rate": "1 /s"}},
        "operators": {"in": {"kind": "source"}, "out": {"kind": "sink", "inputs": {"in": "shuffle"}}},
        "hosts": {"h": {}},
        "network": {"latency": "1 ms"},
        "state_store": keys,
    }
    control = build(scenario(raw))
    return StateStore(control.state), control


def parcel(tuples: int = 0, size: int = 0) -> Parcel:
    """A parcel that no plane knows: none of these tests lets it go."""
    return Parcel(1, tuples, size)


def answers(made: StateStore, control: Any, requests: list[tuple[int, Parcel]]) -> list[float]:
    """When the answers to requests to write come [ms]; a request is (instant [ms], parcel)."""
    came: list[float] = []

    def asks(number: int, one: Parcel) -> Any:
        note = lambda: came.append(control.clock.now_ns() / MS)  # noqa: E731
        return lambda _: made.persist(number, (one,), 0, lambda: True, note)

    for number, (at, one) in enumerate(requests):
        control.clock.at(at * MS, number, asks(number, one))
    control.run(100_000 * MS)
    return came


def test_a_request_takes_both_ways_its_time_and_its_tuples_and_bytes() -> None:
    made, control = store(request="3 ms", per_tuple="0.05 ms", bandwidth="1 MB/s")
    # 1 ms there, 3 ms, 2,000 tuples in 100 ms, 5 kB in 5 ms, 1 ms back.
    assert answers(made, control, [(10, parcel(2000, 5000))]) == [10 + 1 + 3 + 100 + 5 + 1]


def test_its_latency_may_be_another_than_that_of_the_network() -> None:
    made, control = store(latency="7 ms")
    assert answers(made, control, [(10, parcel())]) == [24]


def test_without_a_bandwidth_it_has_that_of_the_remote_store() -> None:
    made, control = store()
    assert answers(made, control, [(10, parcel(size=10_000_000))]) == [10 + 1 + 100 + 1]


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_requests_wait_for_each_other(concurrency: int) -> None:
    draw = Random(concurrency)
    requests = sorted((draw.randrange(60), parcel(draw.randrange(1, 9))) for _ in range(30))
    made, control = store(per_tuple="1 ms", concurrency=concurrency)
    free, expected = [0] * concurrency, []
    for at, one in requests:
        free.sort()
        free[0] = max(free[0], at + 1) + one.tuples
        expected.append(free[0] + 1)
    assert answers(made, control, requests) == sorted(expected)


def test_a_request_that_reads_is_as_long_as_what_it_reads() -> None:
    made, control = store(per_tuple="1 ms")
    came: list[tuple[float, int]] = []
    control.clock.at(0, 0, lambda _: made.persist("a", (parcel(40),), 0, lambda: True, lambda: None))
    heard = lambda found: came.append((control.clock.now_ns() / MS, len(found)))  # noqa: E731
    for name in ("b", "a"):
        control.clock.at(100 * MS, 0, lambda _, name=name: made.fetch(name, 0, heard))
    control.run(1000 * MS)
    assert came == [(102, 0), (142, 1)]


def test_a_read_has_what_is_there_when_its_turn_comes() -> None:
    made, control = store(request="10 ms")
    old, new, came = parcel(), Parcel(2, 0, 0), list[tuple[float, tuple[Parcel, ...]]]()
    quietly: list[int] = []
    control.state.plane.discard = quietly.append
    heard = lambda found: came.append((control.clock.now_ns() / MS, found))  # noqa: E731
    asks = {
        0: lambda _: made.persist("a", (old,), 0, lambda: True, lambda: None),
        100: lambda _: made.persist("a", (new,), 0, lambda: True, lambda: None),  # served from 101 to 111 ms
        101: lambda _: made.fetch("a", 0, heard),  # asked before the write was served, and served after it
    }
    for at, ask in asks.items():
        control.clock.at(at * MS, 0, ask)
    control.run(1000 * MS)
    assert came == [(122, (new,))]
    assert quietly == [old.number]


def test_what_is_being_read_is_discarded_when_the_answer_has_come() -> None:
    made, control = store(request="10 ms", concurrency=2)
    discarded: list[float] = []
    control.state.plane.discard = lambda _: discarded.append(control.clock.now_ns() / MS)
    came: list[float] = []
    heard = lambda _: came.append(control.clock.now_ns() / MS)  # noqa: E731
    control.clock.at(0, 0, lambda _: made.persist("a", (parcel(),), 0, lambda: True, lambda: None))
    control.clock.at(100 * MS, 0, lambda _: made.fetch("a", 0, heard))
    control.clock.at(100 * MS, 1, lambda _: made.fetch("a", 0, heard))
    control.clock.at(105 * MS, 0, lambda _: made.forget("a"))
    control.run(1000 * MS)
    assert came == discarded * 2 == [112, 112]
