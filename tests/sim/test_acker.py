"""The acker: roots that are done, fail, and are emitted again, in cases computed by hand.

Service times and links are constant: a source tuple that comes at an instant is at the sink at a known one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scripts import MS, unchecked

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.data_plane import DataPlane
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

PLANES: tuple[PlaneFactory, ...] = (PlainPlane, CompiledPlane)
S = 1000 * MS
SERVICE = {"distribution": "deterministic", "value": "10 ms"}


def chain(**acker: Any) -> dict[str, Any]:
    """A source with a tuple every 100 ms from 0.1 s on, a map of 10 ms, a sink; each on a host of its own, 1 ms away.

    A tuple that comes at t is in the map until t + 11 ms, at the sink at t + 12 ms, and done at t + 13 ms.
    """
    return {
        "duration": "1 s",
        "workload": {"src": {"rate": "10 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source"},
            "work": {"kind": "map", "inputs": {"src": "shuffle"}, "service": SERVICE},
            "out": {"kind": "sink", "inputs": {"work": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "acker", "guarantee": "at-least-once", "acker": {"timeout": "10 s"} | acker},
    }


Step = tuple[int, Callable[[DataPlane], object]]  # (instant [ms], what is done)


def run(raw: dict[str, Any], plane: PlaneFactory, *steps: Step, until_ms: int = 0) -> tuple[Control, list[object]]:
    """A run with these steps of control, up to an instant or its end; and what the steps returned."""
    control, found = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), plane), list[object]()

    def script() -> Process:
        for at_ms, step in steps:
            if at_ms * MS > control.clock.now_ns():
                yield control.clock.sleep(at_ms * MS)
            assert isinstance(control.plane, DataPlane)
            found.append(step(control.plane))

    control.start()
    control.clock.process(script())
    control.run(until_ms * MS or int(unchecked(raw).duration_s * S))
    return control, found


def rows(control: Control) -> RunRecords:
    """The rows of a run up to now."""
    return records(control, control.clock.now_ns())


def emitted_ms(found: RunRecords) -> list[float]:
    """When the tuples arrived at the map, without the latency: the instants at which they were emitted [ms]."""
    visits = found.tables["visits"]
    return [at / MS - 1 for at in visits["arrival_ns"][visits["operator"] == 1].tolist()]


def oldest(plane: DataPlane) -> int | None:
    return plane.oldest_root_ns()


def replays(found: RunRecords) -> list[tuple[float, int, str]]:
    """(instant [ms], roots, cause) of the rows of `replays`."""
    table = found.tables["replays"]
    times = [at / MS for at in table["at_ns"].tolist()]
    return list(zip(times, table["count"].tolist(), table["cause"].tolist(), strict=True))


def acks(found: RunRecords) -> tuple[int, int]:
    """(number, bytes) of acks."""
    table = found.tables["messages"]
    own = table["kind"] == "ack"
    return int(table["count"][own].sum()), int(table["bytes"][own].sum())


def ledger(found: RunRecords) -> list[tuple[int, int, int]]:
    """(expected, lost, duplicated) of each operator."""
    table = found.tables["ledger"]
    return list(zip(*(table[name].tolist() for name in ("expected", "lost", "duplicated")), strict=True))


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    made: PlaneFactory = request.param
    return made


def test_a_root_is_done_one_latency_after_its_last_tuple_was_processed(plane: PlaneFactory) -> None:
    steps = [(at, oldest) for at in (100, 101, 112, 113, 114, 200, 201)]
    control, found = run(chain(), plane, *steps)
    # Control comes first in an instant: an ack that arrives at 113 ms is not there yet.
    assert found == [None, 100 * MS, 100 * MS, 100 * MS, None, None, 200 * MS]
    # Nine tuples come before the end; each is emitted and processed twice.
    assert acks(rows(control)) == (27, 540)


def test_the_size_of_an_ack_is_counted_and_holds_no_link(plane: PlaneFactory) -> None:
    raw = chain(ack="3 B")
    control, _ = run(raw, plane)
    assert acks(rows(control)) == (27, 81)


def over_links(**acker: Any) -> dict[str, Any]:
    """The chain with links on which a tuple takes 1 ms, and acks of the same size that are sent over them.

    A tuple that comes at t is in the map from t + 2 ms to t + 12 ms, and at the sink at t + 14 ms. The ack of the map
    leaves behind it, at t + 14 ms; that of the sink at t + 15 ms, and comes at t + 16 ms.
    """
    raw = chain(**{"transport": "links", "ack": "100 B"} | acker)
    raw["hosts"]["h"]["network"] = "100 kB/s"
    return raw


def test_over_the_links_a_root_is_done_when_its_last_ack_comes(plane: PlaneFactory) -> None:
    control, found = run(over_links(), plane, *((at, oldest) for at in (100, 101, 116, 117)))
    assert found == [None, 100 * MS, 100 * MS, None]
    assert acks(rows(control)) == (27, 2700)


def test_acks_wait_for_the_link_with_all_else(plane: PlaneFactory) -> None:
    raw = over_links(ack="1 kB")
    raw["workload"]["src"]["rate"] = "50 /s"
    control, _ = run(raw | {"duration": "80 ms"}, plane)
    # A tuple of 20 is at the sink at 34; its ack holds the link of the map from 33 to 43.
    assert [at / MS for at in rows(control).tables["deliveries"]["delivered_ns"].tolist()] == [34.0, 54.0, 74.0]
    raw["workload"]["src"]["rate"] = "100 /s"
    control, _ = run(raw | {"duration": "80 ms"}, plane)
    # Those of 10, 20, ... leave the map at 22, 32, ..., each behind the ack of the one before.
    delivered = [at / MS for at in rows(control).tables["deliveries"]["delivered_ns"].tolist()]
    assert delivered == [24.0, 35.0, 46.0, 57.0, 68.0, 79.0]


def test_acks_of_one_host_take_no_time(plane: PlaneFactory) -> None:
    raw = over_links()
    raw["hosts"]["h"]["count"] = 1
    _, found = run(raw, plane, *((at, oldest) for at in (101, 110, 111)))
    assert found == [100 * MS, 100 * MS, None]


def test_an_ack_that_has_not_left_when_its_host_dies_is_lost(plane: PlaneFactory) -> None:
    raw = over_links(timeout="50 ms", expiry="exact") | {"duration": "190 ms"}
    raw["events"] = {"crash": {"at": "113500 us", "kind": "host-failure", "host": "h-1", "repair": "1 ms"}}
    raw["detector"] = {"heartbeat": "10 ms", "timeout": "20 ms"}
    control, _ = run(raw, plane)
    # The output has left at 113, so the sink has the tuple; the ack would leave at 114.
    assert rows(control).tables["deliveries"]["delivered_ns"].tolist()[0] == 114 * MS
    assert replays(rows(control)) == [(150.0, 1, "timeout")]


def test_an_ack_that_comes_when_the_task_of_the_source_is_dead_is_lost(plane: PlaneFactory) -> None:
    raw = over_links(timeout="50 ms", expiry="exact") | {"duration": "190 ms"}
    raw["events"] = {"crash": {"at": "115500 us", "kind": "host-failure", "host": "h-0", "repair": "1 ms"}}
    raw["detector"] = {"heartbeat": "10 ms", "timeout": "20 ms"}
    control, _ = run(raw, plane)
    # That of the map came at 115; that of the sink finds nobody at 116.
    assert replays(rows(control)) == [(150.0, 1, "timeout")]


def test_over_the_links_a_source_with_a_cap_waits_for_the_last_ack(plane: PlaneFactory) -> None:
    raw = over_links(pending=1)
    raw["workload"]["src"]["rate"] = "100 /s"
    control, _ = run(raw | {"duration": "60 ms"}, plane)
    # Emitted at 10, 26, and 42 ms; each is one more ms on the link.
    assert emitted_ms(rows(control)) == [11.0, 27.0, 43.0]


def test_over_the_links_a_root_that_nobody_takes_is_done_at_once(plane: PlaneFactory) -> None:
    raw = over_links()
    raw["operators"]["work"]["takes"] = {"src": 1e-9}
    _, found = run(raw, plane, (101, oldest), (201, oldest))
    assert found == [None, None]


def test_exact_roots_fail_one_timeout_after_they_were_emitted(plane: PlaneFactory) -> None:
    # The map is paused from 150 ms on, so the roots of 200, 300, ... are not done.
    raw = chain(timeout="250 ms", expiry="exact") | {"duration": "720 ms"}
    control, _ = run(raw, plane, (150, lambda plane: plane.pause(1, None)))
    # Those of 200 and 300 fail at 450 and 550; that of 200, emitted again at 450, fails again at 700.
    assert replays(rows(control)) == [
        (450.0, 1, "timeout"),
        (550.0, 1, "timeout"),
        (650.0, 1, "timeout"),
        (700.0, 1, "timeout"),
    ]


def test_rotating_roots_fail_at_the_second_tick_after_they_were_emitted(plane: PlaneFactory) -> None:
    raw = chain(timeout="250 ms") | {"duration": "1100 ms"}
    control, found = run(raw, plane, (150, lambda plane: plane.pause(1, None)), (1001, oldest))
    # At 500 ms those of before 250 fail: 200. At 750: 300 and 400; not those of 500 and later. At 1000: those of
    # 500 (again), 600 and 700, and of 500 itself, which arrived after control acted.
    assert replays(rows(control)) == [(500.0, 1, "timeout"), (750.0, 2, "timeout"), (1000.0, 4, "timeout")]
    assert found[1] == 750 * MS


def test_an_ack_under_way_at_a_tick_comes_too_late(plane: PlaneFactory) -> None:
    raw = chain(timeout="13 ms", expiry="exact") | {"duration": "190 ms"}
    late, _ = run(raw, plane)
    in_time, _ = run(chain(timeout="13001 us", expiry="exact") | {"duration": "190 ms"}, plane)
    assert replays(rows(in_time)) == []
    # Emitted again at 113 ms, and processed again: a duplicate of one and the same tuple.
    assert replays(rows(late))[0] == (113.0, 1, "timeout")
    assert ledger(rows(late))[0][2] > 0 == ledger(rows(in_time))[0][2]


def test_what_is_emitted_again_goes_before_arrivals_that_wait_and_keeps_its_birth(plane: PlaneFactory) -> None:
    raw = chain(timeout="250 ms", expiry="exact") | {"duration": "800 ms"}
    # Nothing is emitted from 310 ms to 710 ms; until 700 ms a rule at the map holds the tuples of 100 to 300.
    control, _ = run(
        raw,
        plane,
        (50, lambda plane: plane.hold(1, None, None)),
        (310, lambda plane: plane.pause(0, None)),
        (700, lambda plane: plane.unhold(1, None)),
        (710, lambda plane: plane.unpause(0)),
    )
    found = rows(control)
    # First emissions of 100 to 300, then those again, then 400 to 700.
    assert emitted_ms(found)[:3] == [100.0, 200.0, 300.0]
    assert emitted_ms(found)[3:] == [710.0] * 7
    deliveries = found.tables["deliveries"]
    again = deliveries["created_ns"][3:].tolist()
    assert again[:3] == [100 * MS, 200 * MS, 300 * MS]


def test_a_source_with_a_cap_waits_until_a_root_is_done(plane: PlaneFactory) -> None:
    raw = chain(pending=2) | {"workload": {"src": {"rate": "500 /s", "arrivals": "deterministic"}}, "duration": "50 ms"}
    control, _ = run(raw, plane)
    # Tuples come every 2 ms. Two are emitted, at 2 and 4; the map ends them at 13 and 23, and they are done at 15 and
    # 25: at these instants the next ones are emitted, and so on every 10 ms.
    assert emitted_ms(rows(control)) == [2.0, 4.0, 15.0, 25.0, 35.0]
    # 24 have come before the end, and one more was emitted, at 45 ms.
    assert [tuple(row) for row in control.plane.lag()] == [(0, 24 - 6)]


def test_the_tree_of_a_broadcast_is_done_when_all_copies_are(plane: PlaneFactory) -> None:
    raw = chain()
    raw["operators"]["work"] |= {"inputs": {"src": "broadcast"}, "parallelism": 2, "threads": 1}
    raw["operators"]["side"] = {"kind": "sink", "inputs": {"src": "shuffle"}}
    raw["hosts"] = {"h": {"count": 2}, "slow": {"count": 1, "speed": 0.5}}
    raw["placement"] = {"tasks": {"src-0": "h-0", "work-0": "h-1", "work-1": "slow-0", "out-0": "h-0", "side-0": "h-0"}}
    control, found = run(raw, plane, (122, oldest), (123, oldest), (124, oldest), until_ms=190)
    # The slow copy takes 20 ms: at the sink at 122, done at 123.
    assert found == [100 * MS, 100 * MS, None]
    # One root, three tuples of it, and two at the sink behind the map.
    assert acks(rows(control))[0] == 6


def test_a_root_that_nobody_takes_is_done(plane: PlaneFactory) -> None:
    raw = chain(timeout="100 ms", expiry="exact")
    raw["operators"]["work"]["takes"] = {"src": 1e-9}
    control, found = run(raw, plane, (101, oldest), (102, oldest))
    assert found == [100 * MS, None]
    assert acks(rows(control)) == (9, 180)


def test_what_a_crash_loses_is_emitted_again(plane: PlaneFactory) -> None:
    raw = chain(timeout="300 ms") | {"duration": "1500 ms"}
    raw["events"] = {"crash": {"at": "205 ms", "kind": "host-failure", "host": "h-1", "repair": "1 ms"}}
    raw["detector"] = {"heartbeat": "10 ms", "timeout": "20 ms"}
    control, _ = run(raw, plane)
    found = rows(control)
    # The tuple of 200 ms dies in service. It is emitted again at the second tick after it: 600 ms.
    assert found.tables["dropped"]["reason"].tolist() == ["crash"]
    assert replays(found) == [(600.0, 1, "timeout")]
    sink = ledger(found)[1]
    assert sink[1:] == (0, 0)
    assert sum(found.tables["deliveries"]["created_ns"] == 200 * MS) == 1


def test_what_was_emitted_twice_and_lives_is_processed_twice(plane: PlaneFactory) -> None:
    raw = chain(timeout="120 ms", expiry="exact") | {"duration": "280 ms"}
    control, found = run(
        raw,
        plane,
        (50, lambda plane: plane.pause(1, None)),
        (230, lambda plane: plane.unpause(1)),
        (279, oldest),
    )
    # 100 fails at 220; 200 would fail at 320. The map works off 100, 200, 100 until 241, 251, 261.
    assert replays(rows(control)) == [(220.0, 1, "timeout")]
    assert ledger(rows(control)) == [(2, 0, 1), (2, 0, 1)]
    # The first attempt of 100 ends first and counts for nothing: the second is done at 263.
    assert found[-1] is None


def test_acks_of_the_first_attempt_count_for_nothing(plane: PlaneFactory) -> None:
    raw = chain(timeout="120 ms", expiry="exact")
    _, found = run(
        raw,
        plane,
        (50, lambda plane: plane.pause(1, None)),
        (221, lambda plane: plane.pause(0, None)),
        (230, lambda plane: plane.unpause(1)),
        (254, oldest),
        (262, oldest),
        (264, oldest),
    )
    # At 254 both 100 (first attempt) and 200 are done, but 100 was emitted again at 220.
    assert found[3:] == [220 * MS, 220 * MS, None]


def with_state(**acker: Any) -> dict[str, Any]:
    raw = chain(acks="covered", **acker)
    raw["operators"]["work"] |= {
        "kind": "aggregate",
        "inputs": {"src": "key"},
        "state": {"model": "per-key", "bytes": "10 B"},
    }
    return raw


def test_covered_acks_wait_for_the_commit(plane: PlaneFactory) -> None:
    control, found = run(
        with_state(),
        plane,
        (150, oldest),
        (150, lambda plane: plane.commit_acks(1)),
        (160, lambda plane: plane.prepare_acks(1)),
        (250, lambda plane: plane.commit_acks(1)),
        (251, oldest),
        (252, oldest),
        until_ms=290,
    )
    assert found[0] == 100 * MS
    # The ack of 100 was prepared, and arrives one latency after the commit; that of 200 was not.
    assert found[-2:] == [100 * MS, 200 * MS]
    # Two roots, two tuples at the sink, one ack of the map.
    assert acks(rows(control))[0] == 5


def test_a_rollback_fails_roots_at_once(plane: PlaneFactory) -> None:
    control, found = run(
        with_state(),
        plane,
        (150, lambda plane: plane.prepare_acks(1)),
        (250, lambda plane: plane.fail_acks(1)),
        (250, oldest),
        (280, lambda plane: plane.fail_acks(2)),
        until_ms=290,
    )
    assert found[1] == [(0, 2)]
    assert found[2] == 250 * MS
    assert found[3] == []
    assert emitted_ms(rows(control))[2:] == [250.0, 250.0]


def test_a_rollback_is_a_row_of_replays(plane: PlaneFactory) -> None:
    control, _ = run(with_state(), plane, until_ms=250)
    control.timeouts.roll_back(1)
    control.run(400 * MS)
    assert replays(rows(control)) == [(250.0, 2, "rollback")]


def test_covered_acks_die_with_their_task(plane: PlaneFactory) -> None:
    raw = with_state(timeout="200 ms", expiry="exact")
    control, found = run(
        raw,
        plane,
        (150, lambda plane: plane.prepare_acks(1)),
        (160, lambda plane: plane.kill(1)),
        (161, lambda plane: plane.commit_acks(1)),
        (170, oldest),
        until_ms=310,
    )
    assert found[-1] == 100 * MS
    assert replays(rows(control)) == [(300.0, 1, "timeout")]


def test_a_captured_tuple_counts_for_its_root_when_it_comes_out_first(plane: PlaneFactory) -> None:
    # The tuple of 100 goes to the map, where it is captured, and to a sink whose task is paused.
    raw = chain()
    raw["operators"]["side"] = {"kind": "sink", "inputs": {"src": "shuffle"}}
    twice, found = run(
        raw,
        plane,
        (50, lambda plane: plane.hold(1, None, None)),
        (50, lambda plane: plane.pause(3, None)),
        (110, lambda plane: plane.capture(1)),
        (110, lambda plane: plane.unhold(1, None)),
        (111, lambda plane: plane.put(0, 1)),
        (121, oldest),
        (130, lambda plane: plane.put(0, 1)),
        (150, oldest),
        (160, lambda plane: plane.unpause(3)),
        (162, oldest),
        until_ms=190,
    )
    assert found[5] == found[7] == 100 * MS  # the second copy acknowledges nothing
    assert found[9] is None
    # Of the root, of the tuple at the map and of its output, and of that at the other sink; none of the second copy.
    assert acks(rows(twice))[0] == 4
    assert ledger(rows(twice))[0] == (1, 0, 1)


def test_tuples_in_windows_are_acknowledged_when_they_are_applied(plane: PlaneFactory) -> None:
    raw = chain(timeout="100 ms", expiry="exact")
    raw["workload"]["src"]["watermark"] = "50 ms"
    raw["operators"]["work"] |= {"kind": "aggregate", "inputs": {"src": "key"}, "window": {"length": "200 ms"}}
    control, found = run(raw, plane, (111, oldest), (112, oldest), (113, oldest))
    assert found == [100 * MS, 100 * MS, None]
    # Nine roots, nine tuples at the map; the outputs of the windows have no root.
    delivered = rows(control).tables["deliveries"]["created_ns"].size
    assert delivered > 0
    assert acks(rows(control)) == (18, 360)


def test_the_verbs_need_an_acker(plane: PlaneFactory) -> None:
    raw = chain() | {"fault_tolerance": {"method": "none"}}
    control, _ = run(raw, plane, until_ms=10)
    assert isinstance(control.plane, DataPlane)
    for verb in (lambda one: one.expire(0), oldest, lambda one: one.prepare_acks(0), lambda one: one.commit_acks(0)):
        with pytest.raises(ValueError, match="no acker"):
            verb(control.plane)
    with pytest.raises(ValueError, match="no acker"):
        control.plane.fail_acks(0)


def test_roots_of_two_sources_have_rows_of_their_own(plane: PlaneFactory) -> None:
    raw = chain(timeout="100 ms", expiry="exact") | {"duration": "350 ms"}
    raw["operators"]["more"] = {"kind": "source"}
    raw["workload"]["more"] = {"rate": "10 /s", "arrivals": "deterministic"}
    raw["operators"]["work"]["inputs"] = {"src": "shuffle", "more": "shuffle"}
    control, _ = run(raw, plane, (50, lambda plane: plane.pause(1, None)), until_ms=210)
    table = rows(control).tables["replays"]
    found = sorted(zip(table["at_ns"].tolist(), table["operator"].tolist(), strict=True))
    assert found == [(200 * MS, 0), (200 * MS, 3)]
