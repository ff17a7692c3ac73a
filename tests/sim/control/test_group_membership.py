"""Members that stop, resume and join: who notices, what is repeated, and when key groups move to a new one.

Oracles: instants by hand, both planes, guarantees in random jobs, and rules that are patched away.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from test_changelogs import S, job, ran, recovered, with_changelogs
from test_planes import differences
from test_recovery import check

from models.records.tables import RunRecords
from sim.control.crash import CrashCoordinator
from sim.control.failures import Failures
from sim.control.group_membership import GroupMembership
from sim.control.recovery import Recovery
from sim.control.standbys import Standbys
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.recovery.changelog import RestoreFromChangelog


def restarted(event: dict[str, Any], returns: str = "unnoticed", **changes: Any) -> dict[str, Any]:
    """The job of the changelogs, in which app-0 stops at 65 s in place of dying."""
    raw = job(**changes)
    raw["detector"]["returns"] = returns
    raw["events"] = {"stop": {"kind": "host-restart", "at": "65 s", "hosts": ["app-0"]} | event}
    return raw


def nothing_lost_or_twice(found: RunRecords) -> None:
    """Nothing that a member had committed as it stopped is repeated, even at least once."""
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0]


def events(moves: dict[str, Any], **changelog: Any) -> dict[str, Any]:
    """Two instances with three key groups each; a third one comes at 30 s."""
    raw = job(fault_tolerance={"guarantee": "at-least-once", "changelog": {"warmups": 1} | changelog})
    raw["hosts"]["app"]["spare"] = 1
    raw["operators"]["count"]["parallelism"] = 2
    raw["workload"]["in"]["rate"] = "6 /s"
    raw["events"] = {"more": {"kind": "host-join", "at": "30 s", "host": "app-2"}} | moves
    return raw


# -- static members


def check_static_members() -> None:
    """A member that is back before the time-out goes on where it was, with what its disk has, and nobody rebalances."""
    found = ran(restarted({"down": "20 s"}, "resumed", fault_tolerance={"guarantee": "at-least-once"}))
    for column in ("detected_ns", "started_ns", "restored_ns"):
        assert recovered(found, column) == [85.0] * 2
    assert recovered(found, "target") == [1, 1]
    assert max(recovered(found, "bytes")) < 10_000  # of what is replayed
    # What came meanwhile is all that is replayed: 20 s of it, for two of six key groups.
    assert sum(recovered(found, "replayed")) == pytest.approx(20 * 10 / 3, rel=0.25)
    nothing_lost_or_twice(found)


def test_a_static_member_that_is_back_in_time_goes_on_as_before() -> None:
    check_static_members()


def test_a_static_member_without_its_disk_restores_where_it_was() -> None:
    found = ran(restarted({"down": "20 s", "disk": "lost"}, "resumed"))
    assert recovered(found, "target") == [1, 1]
    assert recovered(found, "restored_ns") == pytest.approx([105.1, 105.2], abs=0.2)  # both on one thread
    nothing_lost_or_twice(found)


def test_a_static_member_that_is_late_is_missed() -> None:
    found = ran(restarted({"down": "50 s"}, "resumed"))
    assert recovered(found, "detected_ns") == [108.0] * 2
    assert set(recovered(found, "target")) == {2, 3}


def test_a_static_member_that_dies_comes_back_empty() -> None:
    raw = restarted({}, "resumed")
    raw["events"] = {"kill": {"kind": "host-failure", "host": "app-0", "at": "65 s", "repair": "20 s"}}
    found = ran(raw)
    assert recovered(found, "detected_ns") == [85.0] * 2
    assert recovered(found, "target") == [1, 1]
    assert min(recovered(found, "restored_ns")) > 95.0
    nothing_lost_or_twice(found)


# -- members that stop


def check_silent_stop() -> None:
    """A member that does not say that it leaves is missed after the time-out; what it had is not repeated."""
    found = ran(restarted({"down": "20 s"}, fault_tolerance={"guarantee": "at-least-once"}))
    assert recovered(found, "detected_ns") == [108.0] * 2
    nothing_lost_or_twice(found)
    assert set(found.tables["failures"]["cause"].tolist()) == {"stop"}


def test_a_member_that_stops_without_a_word_is_missed_after_the_time_out() -> None:
    check_silent_stop()


def check_leave() -> None:
    """A member that says so is replaced in a rebalance: no time-out, nothing repeated, the state read elsewhere."""
    found = ran(restarted({"leaves": True}, fault_tolerance={"guarantee": "at-least-once"}))
    assert recovered(found, "detected_ns") == [65.0] * 2
    assert recovered(found, "started_ns") == pytest.approx([67.1] * 2)
    assert recovered(found, "restored_ns") == pytest.approx([67.1 + 0.1 + 10.0, 67.1 + 0.2 + 10.0], abs=0.01)
    nothing_lost_or_twice(found)


def test_a_member_that_leaves_is_replaced_at_once() -> None:
    check_leave()


def test_a_rolling_restart_stops_one_after_the_other() -> None:
    event = {"hosts": ["app-0", "app-1", "app-2"], "down": "5 s", "pause": "10 s"}
    found = ran(restarted(event, "resumed", fault_tolerance={"guarantee": "at-least-once"}))
    failures = found.tables["failures"]
    assert (failures["failed_ns"] / S).tolist() == [65.0, 80.0, 95.0]
    assert (failures["repaired_ns"] / S).tolist() == [70.0, 85.0, 100.0]
    assert sorted(recovered(found, "target")) == [1, 1, 2, 2, 3, 3]
    nothing_lost_or_twice(found)


def test_what_moves_while_it_catches_up_is_caught_up_with() -> None:
    event = {"hosts": ["app-0", "app-1", "app-2"], "down": "5 s", "pause": "10 s", "leaves": True}
    found = ran(restarted(event, fault_tolerance={"changelog": {"warmups": 2}}))
    rows = found.tables["failures"]
    assert (rows["cause"] == "rebalance").sum() >= 3
    assert (rows["caught_up_ns"] > rows["failed_ns"]).all()


def test_a_member_that_is_down_does_not_stop() -> None:
    raw = restarted({})
    raw["events"]["kill"] = {"kind": "host-failure", "host": "app-0", "at": "60 s"}
    assert "the host is already down" in ran(raw).tables["decisions"]["reason"].tolist()


def check_comes_back() -> None:
    """One that left and is back finds its states on its disk: what it had goes there again, without a warm-up."""
    tolerance = {"guarantee": "at-least-once", "changelog": {"warmups": 1}}
    found = ran(restarted({"leaves": True, "down": "30 s"}, fault_tolerance=tolerance))
    rows = found.tables["failures"]
    back = rows["cause"] == "rebalance"
    assert (rows["failed_ns"][back] / S).tolist() == pytest.approx([95.0 + 2.1] * 2)
    last = found.tables["recoveries"]
    there = last["target"] == 1
    assert sorted(last["key_group"][there].tolist()) == [0, 3]
    assert last["bytes"][there].max() < 10_000
    assert (last["restored_ns"][there] / S).tolist() == pytest.approx([97.1 + 2.1] * 2)
    nothing_lost_or_twice(found)


def test_a_member_that_is_back_gets_again_what_its_disk_has() -> None:
    check_comes_back()


# -- members that join


def check_warm_ups() -> None:
    """A key group stays where it is until the new member has a copy; then it moves, and is away for a rebalance."""
    found = ran(events({}, probing="20 s", acceptable_lag=9_000))  # 10 MB are 10,000 changes of 1 kB
    rows = found.tables["failures"]
    # The group rebalances at 32.1 s. One state at a time is copied, in 10.1 s: the next rebalance sees that, and so on.
    assert set(rows["cause"].tolist()) == {"rebalance"}
    assert (rows["failed_ns"] / S).tolist() == pytest.approx([32.1 + 22.1, 32.1 + 2 * 22.1])
    assert max(recovered(found, "bytes")) < 10_000
    assert recovered(found, "target") == [3, 3]
    away = found.tables["outages"]
    assert ((away["until_ns"] - away["from_ns"]) / S).tolist() == pytest.approx([2.1] * 2)
    nothing_lost_or_twice(found)
    # Those that stay on the instances that give one away go on without a gap.
    assert found.tables["deliveries"]["delivered_ns"].size == pytest.approx(240 * 6, abs=10)
    visits = found.tables["visits"]
    began = visits["start_ns"][visits["operator"] == 1] / S
    assert np.diff(np.sort(began)).max() < 1.0


def test_key_groups_move_to_a_new_member_once_it_has_warmed_up() -> None:
    check_warm_ups()


def check_little_lag() -> None:
    """What lacks no more than the acceptable lag moves at once, and is read there while it is away."""
    found = ran(events({}, acceptable_lag=10_100))
    rows = found.tables["failures"]
    assert (rows["failed_ns"] / S).tolist() == pytest.approx([32.1] * 2)
    # Both are read by one thread, which gets them 100 ms apart.
    assert recovered(found, "restored_ns") == pytest.approx([54.3, 54.2], abs=0.02)
    assert not recovered(ran(events({}, acceptable_lag=9_000)), "target")  # the probing rebalance is after the end


def test_a_small_lag_needs_no_warm_up() -> None:
    check_little_lag()


def test_without_warm_ups_nothing_moves_to_a_new_member() -> None:
    assert not recovered(ran(events({}, warmups=0)), "target")


def check_warm_up_takes_over() -> None:
    """What is lost goes to a host that has warmed up."""
    raw = events({"kill": {"kind": "host-failure", "host": "app-0", "at": "65 s"}}, acceptable_lag=9_000)
    found = ran(raw)
    reasons = found.tables["decisions"]["reason"].tolist()
    assert reasons.count("a warm-up has read its changelog") == 1
    moved = found.tables["recoveries"]
    at_once = moved["restored_ns"] == moved["started_ns"]
    assert moved["target"][at_once].tolist() == [3]


def test_a_warm_up_takes_what_is_lost() -> None:
    check_warm_up_takes_over()


def check_waits_for_all() -> None:
    """A group waits for a member that is dead until that is missed."""
    raw = events({"kill": {"kind": "host-failure", "host": "app-0", "at": "29 s"}}, acceptable_lag=10_100)
    found = ran(raw)
    moved = found.tables["failures"]["cause"] == "rebalance"
    assert (found.tables["failures"]["failed_ns"][moved] / S).min() >= 72.0


def test_a_group_waits_for_all_of_its_members() -> None:
    check_waits_for_all()


def test_a_join_of_a_host_that_is_there_is_refused() -> None:
    raw = events({"again": {"kind": "host-join", "at": "31 s", "host": "app-2"}})
    assert "the host is already in use" in ran(raw).tables["decisions"]["reason"].tolist()


def check_cut_outputs() -> None:
    """What a member has not sent when it stops, as its link is slow, comes once it goes on."""
    raw = restarted({"at": "65050 ms", "down": "20 s"}, "resumed", fault_tolerance={"guarantee": "at-least-once"})
    raw["hosts"]["app"]["network"] = "700 B/s"
    raw["operators"]["count"] |= {"state": {"model": "fixed", "bytes": "10 B"}}
    found = ran(raw)
    dropped = found.tables["dropped"]
    assert (dropped["operator"] == 2).sum() > 0
    nothing_lost_or_twice(found)


def test_outputs_that_had_not_left_are_sent_later() -> None:
    check_cut_outputs()


# -- random jobs


def with_members(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job with changelogs, whose hosts stop, come back and join, and die."""
    raw = with_changelogs(draw, **more)
    raw["detector"]["returns"] = draw.choice(["resumed", "resumed", "unnoticed", "noticed"])
    changelog = raw["fault_tolerance"].setdefault("changelog", {})
    changelog |= {
        "warmups": draw.choice([0, 1, 3]),
        "probing": draw.choice(["300 ms", "2 s"]),
        "acceptable_lag": draw.choice([0, 10, 10_000]),
    }
    hosts = raw["hosts"]["h"]["count"]
    if draw.random() < 0.6:
        raw["hosts"]["h"] |= {"count": hosts + 1, "spare": 1}
        at = f"{draw.randint(1, 80) * 100} ms"
        raw["events"]["join"] = {"kind": "host-join", "at": at, "host": f"h-{hosts}"}
    names = [f"h-{k}" for k in range(hosts)]
    for k in range(draw.randint(1, 2)):
        raw["events"][f"stop{k}"] = {
            "kind": "host-restart",
            "at": f"{draw.randint(1, 80) * 100} ms",
            "hosts": draw.sample(names, draw.randint(1, hosts)),
            "down": draw.choice(["50 ms", "150 ms", "900 ms", "3 s"]),
            "pause": draw.choice(["0 s", "200 ms"]),
            "leaves": draw.random() < 0.4,
            "disk": draw.choice(["kept", "kept", "lost"]),
        }
    return raw


@pytest.mark.parametrize("seeds", parts(6, 20))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whoever_comes_and_goes(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"members {seed}"), guarantee, with_members) for seed in seeds) >= len(seeds) / 2


def test_both_planes_give_equal_rows() -> None:
    causes = set[str]()
    for seed in range(30):
        made = unchecked(with_members(Random(f"members {seed}")))
        found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
        assert differences(*found) == [], seed
        causes |= {*found[0].tables["failures"]["cause"].tolist()}
    assert causes >= {"crash", "stop", "rebalance"}


# -- rules that are patched away

_STOP, _REPLAY, _STOPS = Failures.stop, Recovery._replay, RestoreFromChangelog.stops


def _waits_for_nobody(members: GroupMembership, after_ns: int = 0) -> Any:
    yield members.clock.sleep(members.clock.now_ns() + after_ns + members._draw_ns("allocate"))
    members._due = False
    members._assign()


MUTANTS: dict[str, tuple[Callable[[], None], Any, str, Any]] = {
    "a disk is empty": (
        check_static_members,
        RestoreFromChangelog,
        "stops",
        lambda method, host, on_disk: _STOPS(method, host, False),
    ),
    "a static member is missed": (
        check_static_members,
        CrashCoordinator,
        "resume",
        lambda crash, host, lost, failed_ns, row: crash.detected(host, lost, failed_ns, row, failed_ns),
    ),
    "nothing is committed at the stop": (check_silent_stop, RestoreFromChangelog, "prepare", lambda *_: False),
    "all is sent again": (
        check_silent_stop,
        Recovery,
        "_replay",
        lambda recovery, sender, receiver, missing=False: (
            recovery._prepared.clear(),
            _REPLAY(recovery, sender, receiver),
        ),
    ),
    "nobody hears that it leaves": (
        check_leave,
        Failures,
        "stop",
        lambda failures, host, down_ns, leaves: _STOP(failures, host, down_ns, False),
    ),
    "nothing is on a disk": (check_comes_back, Standbys, "came", lambda *_: None),
    "nothing has to warm up": (check_warm_ups, Standbys, "lag", lambda *_: 0.0),
    "all has to warm up": (check_little_lag, Standbys, "lag", lambda *_: 1e18),
    "nothing warms up": (check_warm_up_takes_over, Standbys, "warm_up", lambda *_: None),
    "others of a task end, too": (check_warm_ups, GroupMembership, "_stays", lambda *_: None),
    "a group waits for nobody": (check_waits_for_all, GroupMembership, "_rebalance", _waits_for_nobody),
    "what was not sent is not sent later": (check_cut_outputs, RestoreFromChangelog, "lacks", lambda *_: False),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_rule_that_is_patched_away_is_missed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, owner, name, instead = MUTANTS[what]
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises(AssertionError):
        checks()
