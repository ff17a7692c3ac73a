"""Changelogs and standbys: when what is lost goes on, where, from what, and who goes on meanwhile.

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
from small_jobs import random_job
from test_planes import differences
from test_recovery import check

from models.records.tables import RunRecords
from models.scenario.key_groups import group_shares
from models.scenario.workload import UniformKeys
from sim.clock import Clock
from sim.control.read_committed import ReadCommitted
from sim.control.restores import Restores
from sim.control.standbys import Standbys
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.recovery.changelog import RestoreFromChangelog
from sim.recovery.method import RecoveryMethod

S = 10**9
KEYS = 900


def fixed(value: str) -> dict[str, str]:
    return {"distribution": "deterministic", "value": value}


def job(**changes: Any) -> dict[str, Any]:
    """Topics on a broker, six partitions counted on three instances of one thread, one of which is killed at 65 s."""
    tolerance = changes.pop("fault_tolerance", {})
    return {
        "duration": "240 s",
        "workload": {
            "in": {"rate": "10 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": KEYS}}
        },
        "operators": {
            "in": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 3,
                "key_groups": 6,
                "service": fixed("100 ms"),
                "deserialise": "1 MB/s",
                "state": {"model": "fixed", "bytes": "10 MB", "change": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"broker": {}, "app": {"count": 3}},
        "placement": {"operators": {"in": "broker", "out": "broker", "count": "app"}},
        "network": {"latency": "0 s"},
        "detector": {"heartbeat": "3 s", "timeout": "45 s", "returns": "unnoticed"},
        "recovery": {"allocate": fixed("2 s"), "restart": fixed("100 ms")},
        "fault_tolerance": {
            "method": "changelog",
            "interval": "30 s",
            "store": "remote",
            "remote": "100 MB/s",
            "guarantee": "exactly-once",
        }
        | tolerance,
        "events": {"kill": {"kind": "host-failure", "host": "app-0", "at": "65 s"}},
    } | changes


def ran(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    made = unchecked(raw)
    found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
    assert differences(*found) == []
    return found[1]


def with_standbys(count: int, **more: Any) -> dict[str, Any]:
    return {"changelog": {"standbys": count}} | more


def recovered(found: RunRecords, column: str) -> list[float]:
    """A column of the recoveries, by key group; instants in seconds."""
    table = found.tables["recoveries"]
    values = table[column][np.argsort(table["key_group"], kind="stable")]
    return [one / S if column.endswith("_ns") else one for one in values.tolist()]


def served(found: RunRecords, task: str, since_s: float, until_s: float) -> np.ndarray:
    """When services of a task of the start began [s], between two instants."""
    visits = found.tables["visits"]
    at = visits["start_ns"][visits["task"] == found.tasks.index(task)] / S
    return np.sort(at[(at > since_s) & (at < until_s)])


# -- the worked timeline


def check_timeline() -> None:
    """Detection, rebalance, restore and catch-up of the key groups 0 and 3, by hand."""
    found = ran(job())
    # The last heartbeat was at 63 s. The members hear of the rebalance after 2 s, and join 0.1 s later.
    assert recovered(found, "detected_ns") == [63.0 + 45.0] * 2
    assert recovered(found, "allocated_ns") == [110.0] * 2
    assert recovered(found, "started_ns") == [110.1] * 2
    # 10 MB each: fetched one after the other at 100 MB/s, then read at 1 MB/s by a thread on each instance.
    sizes = [one / 1e6 for one in recovered(found, "bytes")]
    assert sizes == pytest.approx([10.0, 10.0], rel=1e-3)
    assert recovered(found, "restored_ns") == pytest.approx([110.1 + 0.1 + 10.0, 110.1 + 0.2 + 10.0], abs=0.01)
    # Both instances have three key groups now: one with what came since the commit at 60 s, two that go on.
    shares = group_shares(UniformKeys(distribution="uniform", count=KEYS), 6)
    for lost, kept, restored, over in zip(
        (0, 3), ((1, 4), (2, 5)), recovered(found, "restored_ns"), recovered(found, "caught_up_ns"), strict=True
    ):
        rate = 10.0 * shares[[lost, *kept]].sum()
        backlog = 10.0 * shares[lost] * (restored - 60.0)
        assert over - restored == pytest.approx(backlog / (10.0 - rate), rel=0.2)
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0]


def test_an_outage_is_detection_and_rebalance_and_restore_and_catch_up() -> None:
    check_timeline()


# -- where it goes on, and who goes on meanwhile


def check_others_go_on() -> None:
    """Tasks of other instances are served without a gap, also while their host restores."""
    found = ran(job())
    for task in ("count-1", "count-2"):
        assert np.diff(served(found, task, 62, 130)).max() < 2.5
    assert recovered(found, "target") == [2, 3]


def test_tasks_of_other_instances_go_on_during_the_outage_and_the_restore() -> None:
    check_others_go_on()


def check_brokers_take_nothing() -> None:
    """A host with topics alone gets no task, although it has the fewest, and no instance is left."""
    raw = job()
    raw["events"] = {f"k{k}": {"kind": "host-failure", "host": f"app-{k}", "at": "65 s"} for k in range(3)}
    raw["events"]["k2"]["repair"] = "70 s"
    found = ran(raw)
    assert set(recovered(found, "target")) == {3}
    assert min(recovered(found, "started_ns")) >= 135.0
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]


def test_topics_are_no_place_for_tasks() -> None:
    check_brokers_take_nothing()


def check_all_threads_restore_and_work() -> None:
    """Two threads for each instance: lost key groups are spread over them, and over new ones of a host that is back."""
    raw = job()
    raw["hosts"]["app"]["cores"] = 2
    raw["operators"]["count"] |= {"parallelism": 6, "key_groups": 12}
    found = ran(raw)
    # Two key groups on each instance, read side by side.
    assert recovered(found, "restored_ns") == pytest.approx([120.1 + k / 10 for k in (1, 2, 3, 4)], abs=0.03)
    raw["events"]["rest"] = {"kind": "host-failure", "host": "app-1", "at": "66 s", "repair": "1 s"}
    raw["events"]["last"] = {"kind": "host-failure", "host": "app-2", "at": "67 s"}
    found = ran(raw)
    visits = found.tables["visits"]
    late = (visits["operator"] == 1) & (visits["start_ns"] > 150 * S)
    table = found.tables["recoveries"]
    where = dict(zip(table["key_group"].tolist(), table["target"].tolist(), strict=True))  # at last
    assert set(where.values()) == {2}
    assert np.unique(visits["task"][late]).size == 2


def test_lost_key_groups_use_all_threads_of_an_instance() -> None:
    check_all_threads_restore_and_work()


def test_a_changelog_is_longer_than_the_state() -> None:
    found = ran(job(fault_tolerance={"changelog": {"uncompacted": 0.5}}))
    assert recovered(found, "restored_ns") == pytest.approx([110.1 + 0.15 + 15.0, 110.1 + 0.3 + 15.0], abs=0.02)


# -- standbys


def check_standby_takes_over() -> None:
    """A standby has all that is committed, so that only what came since then is to be done."""
    found = ran(job(fault_tolerance=with_standbys(1)))
    assert recovered(found, "restored_ns") == [110.1] * 2
    reasons = found.tables["decisions"]["reason"].tolist()
    assert reasons.count("it has a standby") == 2
    # Each state has one on another instance, which is not its own: so two instances have all of them afterwards.
    made = [one == "a standby has read its changelog" for one in reasons]
    assert sum(made) == 2 + 2  # of what was taken over, and of what had its standby on the dead host
    assert found.tables["ledger"]["duplicated"].tolist() == [0, 0]


def test_a_standby_goes_on_without_a_restore_and_another_one_is_made() -> None:
    check_standby_takes_over()


def check_half_a_standby() -> None:
    """A standby that has read a part is completed: what is missing of it is read, and no more."""
    raw = job(fault_tolerance=with_standbys(1))
    raw["hosts"]["app"]["count"] = 2
    raw["operators"]["count"] |= {"parallelism": 1, "key_groups": 1}
    raw["events"]["kill"]["repair"] = "1 s"
    raw["events"]["again"] = {"kind": "host-failure", "host": "app-1", "at": "70 s"}
    # app-0 is back at 108 s, when it counts as dead, and begins to read 10 MB once app-1 has taken over, at 110.1 s.
    # That was dead by then, which is detected at 114 s: what is lost starts at 116.1 s, after 0.1 s and 5.9 s of 10 s.
    found = ran(raw)
    assert recovered(found, "started_ns")[-1] == pytest.approx(116.1)
    assert recovered(found, "target")[-1] == 1
    assert recovered(found, "restored_ns")[-1] == pytest.approx(110.1 + 0.1 + 10.0 + 0.041, abs=0.02)


def test_a_standby_that_is_not_complete_reads_the_rest() -> None:
    check_half_a_standby()


def test_more_standbys_than_hosts_are_as_many_as_there_are() -> None:
    raw = job(fault_tolerance=with_standbys(5))
    raw["events"]["again"] = {"kind": "host-failure", "host": "app-1", "at": "66 s"}
    found = ran(raw)
    assert recovered(found, "restored_ns") == recovered(found, "started_ns")
    assert set(recovered(found, "target")) == {3}


def test_a_standby_is_made_again_where_a_host_is_back() -> None:
    raw = job(fault_tolerance=with_standbys(2), duration="200 s")
    raw["events"]["kill"]["repair"] = "60 s"
    found = ran(raw).tables["decisions"]
    made = found["reason"] == "a standby has read its changelog"
    assert set(found["target"][made].tolist()) == {"app-0"}
    assert sorted(found["subject"][made].tolist()) == [f"count[{k}]" for k in range(6)]


# -- detection


def test_a_host_that_is_back_may_not_be_noticed() -> None:
    raw = job()
    raw["events"]["kill"]["repair"] = "5 s"
    assert recovered(ran(raw), "detected_ns") == [108.0] * 2
    raw["detector"]["returns"] = "noticed"
    assert recovered(ran(raw), "detected_ns") == [70.0] * 2


# -- guarantees


def check_duplicates() -> None:
    """At least once repeats what the lost tasks sent since their commit, and as good as nothing more."""
    found = ran(job(fault_tolerance={"guarantee": "at-least-once"}))
    visits = found.tables["visits"]
    lost = visits["task"] == found.tasks.index("count-0")
    repeated = int((lost & (visits["end_ns"] > 60 * S)).sum())
    flushed = int((lost & (visits["end_ns"] > 59.7 * S)).sum())
    assert 5 < repeated <= found.tables["ledger"]["duplicated"][1] <= flushed


def test_at_least_once_repeats_what_came_since_the_commit() -> None:
    check_duplicates()


def check_visible() -> None:
    """Outputs are visible with the commit after them: each once, and no sooner than all have committed."""
    tolerance = {"interval": "2 s", "changelog": {"visible": "committed"}}
    raw = job(fault_tolerance=tolerance, network={"latency": "1 ms"})
    found = ran(raw)
    visits, seen = found.tables["visits"], found.tables["deliveries"]
    at = seen["delivered_ns"][seen["delivered_ns"] > 4 * S]  # the first commit writes all of the states
    assert at.size > 2000
    # Six states of some kB each, at 100 MB/s, and a latency.
    assert (at % (2 * S)).max() < 0.01 * S
    assert {int(one) for one in np.unique(at // (2 * S))} == set(range(2, 120))
    ended = np.sort(visits["end_ns"][(visits["operator"] == 1)])
    # What has ended before a commit is visible with it, but for what is on its way.
    assert np.searchsorted(np.sort(seen["delivered_ns"]), 60.5 * S) >= np.searchsorted(ended, 59.9 * S)
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0]
    caught_up = recovered(found, "caught_up_ns")
    at_once = recovered(ran(raw | {"fault_tolerance": raw["fault_tolerance"] | {"changelog": {}}}), "caught_up_ns")
    assert caught_up == pytest.approx(at_once, abs=0.5)  # of the tasks, which do not wait for readers


def test_readers_of_committed_outputs_see_them_with_the_commit() -> None:
    check_visible()


def with_changelogs(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job with changelogs, whose hosts die."""
    raw = random_job(draw, **more)
    raw["fault_tolerance"] |= {"method": "changelog", "store": "remote"}
    if draw.random() < 0.8:
        raw["fault_tolerance"]["changelog"] = {"standbys": draw.randint(0, 3), "uncompacted": draw.choice([0.0, 0.7])}
    if draw.random() < 0.4:
        raw["fault_tolerance"] |= {"interval": draw.choice(["50 ms", "300 ms"])}
        raw["fault_tolerance"].setdefault("changelog", {})["visible"] = "committed"
    if draw.random() < 0.6:
        raw["recovery"] = {"allocate": {"distribution": "exponential", "mean": draw.choice(["3 ms", "400 ms"])}}
    if draw.random() < 0.5:
        raw["detector"] |= {"returns": "unnoticed"}
    elif draw.random() < 0.3:  # live hosts are fenced, too
        raw["detector"] = {"heartbeat": "200 ms", "timeout": "600 ms", "loss": 0.2}
    return raw


@pytest.mark.parametrize("seeds", parts(3, 6))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_dies(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"changelogs {seed}"), guarantee, with_changelogs) for seed in seeds) >= len(seeds) / 2


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_in_many_random_jobs(guarantee: str) -> None:
    assert sum(check(Random(f"changelogs {seed}"), guarantee, with_changelogs) for seed in range(6, 100)) >= 47


def test_both_planes_give_equal_rows() -> None:
    standing = 0
    for seed in range(25):
        made = unchecked(with_changelogs(Random(f"changelogs {seed}")))
        found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
        assert differences(*found) == [], seed
        standing += found[0].tables["decisions"]["reason"].tolist().count("it has a standby")
    assert standing > 12


# -- threads that restore


def test_restores_share_threads_evenly_and_copies_wait() -> None:
    clock, ended = Clock(), dict[str, float]()
    restores = Restores(clock, [2])

    def begin(name: str, work_s: float, copy: bool = False) -> Any:
        return restores.begin(0, round(work_s * S), lambda: ended.update({name: clock.now_ns() / S}), copy)

    begin("copy", 1, copy=True)
    clock.run(S // 2)
    for name, work in (("a", 2), ("b", 2), ("c", 3)):
        begin(name, work)
    clock.run(20 * S)
    # a and b get 2/3 of a thread each until 3.5 s, then c has one of its own for what is left; then the copy goes on.
    assert ended == pytest.approx({"a": 3.5, "b": 3.5, "c": 4.5, "copy": 5.0})
    # One that is called off has counted what is left, and the rest goes on at once.
    one = begin("d", 4)
    begin("e", 4)
    begin("f", 4)
    clock.run(23 * S)
    restores.call_off(one)
    assert one.left_ns == 2 * S
    clock.run(24 * S)
    restores.host_died(0)
    clock.run(40 * S)
    assert not {"d", "e", "f"} & {*ended}


# -- rules that are patched away


def _least_used(method: RestoreFromChangelog, partition: int) -> Any:
    return method.hosts.for_partition(partition)


def _open_always(readers: ReadCommitted) -> Any:
    while True:
        yield readers.state.clock.timeout(S // 2)
        readers._open_if_all()


_BEGIN = Restores.begin

MUTANTS: dict[str, tuple[Callable[[], None], Any, str, Any]] = {
    "brokers take tasks": (check_brokers_take_nothing, RestoreFromChangelog, "host_for", _least_used),
    "nobody goes on with a standby": (check_standby_takes_over, Standbys, "of", lambda *_: []),
    "a standby is read from its begin": (check_half_a_standby, Standbys, "take", lambda *_: 1.0),
    "a standby that has begun has all": (check_half_a_standby, Standbys, "take", lambda *_: 0.0),
    "no standby is made anew": (check_standby_takes_over, Standbys, "renew", lambda _: None),
    "standbys of a dead host stay": (
        check_standby_takes_over,
        RestoreFromChangelog,
        "host_lost",
        RecoveryMethod.host_lost,
    ),
    "one task gets all": (
        check_all_threads_restore_and_work,
        RestoreFromChangelog,
        "task_for",
        RecoveryMethod.task_for,
    ),
    "the changelog is not read": (
        check_timeline,
        Restores,
        "begin",
        lambda self, host, work_ns, ended, copy=False: _BEGIN(self, host, 1, ended, copy),
    ),
    "a commit holds what was delivered": (check_duplicates, None, "", None),
    "sinks do not wait": (check_visible, ReadCommitted, "_close", lambda *_: None),
    "sinks wait for nobody": (check_visible, ReadCommitted, "_rounds", _open_always),
    "tasks restore": (check_others_go_on, None, "", None),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_rule_that_is_patched_away_is_missed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, owner, name, instead = MUTANTS[what]
    if owner is not None:
        monkeypatch.setattr(owner, name, instead)
    elif what == "tasks restore":
        init = RestoreFromChangelog.__init__

        def without(self: RestoreFromChangelog, *given: Any) -> None:
            init(self, *given)
            self.restores = None

        monkeypatch.setattr(RestoreFromChangelog, "__init__", without)
        monkeypatch.setattr(RestoreFromChangelog, "host_died", RecoveryMethod.host_died)
    else:
        monkeypatch.setattr("sim.control.assembly.flush_ns", lambda scenario: 29 * S)
    with pytest.raises(AssertionError):
        checks()
