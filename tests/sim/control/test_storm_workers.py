"""Workers that start together, as Storm's: when what is lost runs again, where, and when lost tuples come again.

Oracles: instants by hand, both planes, guarantees in random jobs, and rules that are patched away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from test_dsm_planes import lost, rooted, stormy
from test_planes import differences

from analysis.runs.recoveries import recoveries
from models.records.tables import RunRecords
from models.scenario.key_groups import group_shares
from models.scenario.reading import scenario_from
from models.scenario.recovery_methods import Acker
from models.scenario.workload import UniformKeys
from sim.control.crash import CrashCoordinator
from sim.control.restart_attempts import RestartAttempts
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocols.dsm import DSM
from sim.migration.rebalance import Rebalances
from sim.plain.plane import PlainPlane
from sim.recovery.method import RecoveryMethod
from sim.recovery.worker_restart import WorkerRestart

S = 10**9
KEYS = 900


def fixed(value: str) -> dict[str, str]:
    return {"distribution": "deterministic", "value": value}


def kill(host: str = "node-0", at: str = "65 s", kind: str = "host-failure", **more: str) -> dict[str, Any]:
    return {"kind": kind, "host": host, "at": at, **more}


def topology(**changes: Any) -> dict[str, Any]:
    """Four executors count on three supervisors beside those of spout and sink, and one of these dies at 65 s."""
    counts = changes.pop("counts", {})
    return {
        "duration": "240 s",
        "engine": "storm",
        "workload": {
            "in": {"rate": "10 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": KEYS}}
        },
        "operators": {
            "in": {"kind": "source"},
            "count": {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 4, "service": fixed("10 ms")}
            | counts,
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"node": {"count": 3}, "end": {}},
        "placement": {"operators": {"in": "end", "out": "end", "count": "node"}},
        "network": {"latency": "1 ms"},
        "recovery": {"restart": fixed("5 s")},
        "events": {"kill": kill()},
    } | changes


STATE = {"state": {"model": "fixed", "bytes": "1 MB"}}


def ran(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    made = scenario_from(raw)
    found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
    assert differences(*found) == []
    return found[1]


def simulated(raw: dict[str, Any]) -> RunRecords:
    return simulate(scenario_from(raw), plane=PlainPlane)


def column(found: RunRecords, name: str, table: str = "recoveries") -> list[Any]:
    """A column, by key group; instants in seconds. Hosts by name."""
    rows = found.tables[table]
    order = np.argsort(rows["key_group"], kind="stable") if table == "recoveries" else np.arange(len(rows[name]))
    values = rows[name][order].tolist()
    if name in ("target", "host"):
        return [found.hosts[one] for one in values]
    return [one / S for one in values] if name.endswith("_ns") else values


def replayed(found: RunRecords) -> list[tuple[float, int]]:
    """(instant [s], roots) of the time-outs."""
    rows = found.tables["replays"]
    return [(at / S, count) for at, count in zip(rows["at_ns"].tolist(), rows["count"].tolist(), strict=True)]


# -- worked timelines, with the defaults of Storm 2.8


def check_timeline() -> None:
    """A host dies: Nimbus, the start of the worker, and the time-outs of what was lost meanwhile."""
    found = ran(topology())
    # Reported for the last time at 64 s; silent for 30 s at 94 s; Nimbus looks at multiples of 10 s.
    assert column(found, "detected_ns") == column(found, "allocated_ns") == [100.0] * 2
    assert column(found, "started_ns") == column(found, "restored_ns") == [105.0] * 2
    # The executors 0 and 3 were on it. From 65 s to 105 s what is for them is lost: ticks at 90 s, 120 s and 150 s let
    # fail what was emitted before the tick that was before.
    shares = group_shares(UniformKeys(distribution="uniform", count=KEYS), 4)
    lost = shares[0] + shares[3]
    assert [at for at, _ in replayed(found)] == [120.0, 150.0]
    for (_, count), span_s in zip(replayed(found), (25.0, 15.0), strict=True):
        assert count == pytest.approx(10.0 * span_s * lost, rel=0.2)
    (one,) = recoveries([found], acker=scenario_from(topology()).fault_tolerance.acking)
    assert (one.last_replay_s, one.total_s) == (85.0, pytest.approx(40.0, abs=0.1))
    # What fails after the end of the run is not known.
    (short,) = recoveries([simulated(topology(duration="150 s"))], acker=Acker(timeout_s=30.0))
    assert (short.last_replay_s, short.restore_s) == (None, 0.0)
    # All of it comes in the end, and what was counted before is gone: the bolt had no state that is kept.
    table = found.tables["ledger"]
    assert table["lost"].tolist()[1] == 0
    assert table["lost"].tolist()[0] == pytest.approx(10.0 * 65.0 * lost, rel=0.2)


def test_an_outage_is_a_time_out_and_a_look_and_a_start() -> None:
    check_timeline()


def test_roots_fail_at_the_tick_after_the_next() -> None:
    acker = Acker(timeout_s=30.0)
    assert [acker.expires_ns(at * S) // S for at in (0, 1, 30, 65, 89, 90)] == [30, 60, 60, 120, 120, 120]
    assert Acker(timeout_s=30.0, expiry="exact").expires_ns(65 * S) == 95 * S


def check_worker_timeline() -> None:
    """Workers alone die: their supervisor looks at multiples of 3 s, and starts them where they were."""
    found = ran(topology(events={"kill": kill(kind="worker-failure")}))
    assert column(found, "cause", "failures") == ["worker"]
    assert column(found, "detected_ns") == [66.0] * 2
    assert column(found, "restored_ns") == [71.0] * 2
    assert column(found, "target") == ["node-0"] * 2
    assert [at for at, _ in replayed(found)] == [120.0]


def test_a_worker_that_dies_alone_starts_where_it_was() -> None:
    check_worker_timeline()


def check_state_timeline() -> None:
    """A stateful bolt gets its state at the INIT that follows when the checkpoint that met the dead task has failed."""
    found = ran(topology(counts=STATE, duration="152 s"))
    assert column(found, "started_ns") == [105.0] * 2
    # The PREPARE of 66 s is lost, and fails at the tick of 120 s, together with roots that are emitted again then.
    assert all(120.0 < at < 130.0 for at in column(found, "restored_ns"))
    table = found.tables["ledger"]
    assert table["lost"].tolist() == [0, 0]
    assert min(table["duplicated"].tolist()) > 0


def test_a_stateful_bolt_gets_its_state_once_the_checkpoint_has_failed() -> None:
    check_state_timeline()


# -- where a worker starts


def check_hosts() -> None:
    """Workers go as they are to the host with the fewest; each of two on one host goes on by itself."""
    events = {"one": kill("node-0", "5 s"), "two": kill("node-1", "65 s")}
    found = simulated(topology(events=events, hosts={"node": {"count": 4}, "end": {}}, counts={"parallelism": 8}))
    by_failure: dict[float, dict[int, str]] = {}
    for failed, group, target in zip(
        *(column(found, one) for one in ("failed_ns", "key_group", "target")), strict=True
    ):
        by_failure.setdefault(failed, {})[group] = target
    # Executors 0 and 4 were the worker of node-0, which became a second one on node-1; 1 and 5 are its own.
    assert by_failure[5.0] == {0: "node-1", 4: "node-1"}
    assert by_failure[65.0] == {0: "node-2", 4: "node-2", 1: "node-3", 5: "node-3"}
    # No executor has joined another one.
    assert sum(name.startswith("count") for name in found.tasks) == 8 + 2 + 4


def test_each_worker_goes_on_as_it_is() -> None:
    check_hosts()


def check_room() -> None:
    """A worker for which no host has a port waits until one is back."""
    events = {"kill": kill(repair="80 s")}
    found = simulated(topology(events=events, workers={"slots": 1}))
    assert column(found, "target") == ["node-0"] * 2
    assert column(found, "allocated_ns") == [145.0] * 2
    assert "no live host has room for one more worker" in found.tables["decisions"]["reason"].tolist()
    assert column(simulated(topology(events=events, workers={"slots": 2})), "target") == ["node-1"] * 2


def test_a_worker_waits_for_a_port() -> None:
    check_room()


def check_back_in_time() -> None:
    """A host that is back before Nimbus has missed it starts its worker, which nobody has to assign."""
    raw = topology(events={"kill": kill(repair="20 s")})
    raw["recovery"]["allocate"] = fixed("3 s")
    found = simulated(raw)
    assert column(found, "detected_ns") == column(found, "allocated_ns") == [85.0] * 2
    assert column(found, "restored_ns") == [90.0] * 2
    assert column(found, "target") == ["node-0"] * 2
    raw["events"] = {"kill": kill()}
    assert column(simulated(raw), "allocated_ns") == [103.0] * 2


def test_a_host_that_is_back_in_time_takes_its_worker_again() -> None:
    check_back_in_time()


def check_both_die() -> None:
    """Workers whose host dies before it has looked at them are missed with it."""
    events = {"worker": kill(at="64.5 s", kind="worker-failure"), "host": kill()}
    found = simulated(topology(events=events))
    assert column(found, "detected_ns", "failures")[0] == 102.0  # the first look after Nimbus has missed the host
    assert column(found, "target") == ["node-1"] * 2
    back = simulated(topology(events=events | {"host": kill(repair="10 s")}))
    assert column(back, "detected_ns", "failures")[0] == 75.0
    assert column(back, "target") == ["node-0"] * 2


def test_workers_whose_host_dies_too_are_missed_with_it() -> None:
    check_both_die()


def test_a_host_without_workers_loses_nothing() -> None:
    raw = topology(
        hosts={"node": {"count": 3}, "end": {}, "idle": {}}, events={"kill": kill("idle-0", kind="worker-failure")}
    )
    found = simulated(raw)
    assert column(found, "lost_partitions", "failures") == [0]
    assert column(found, "caught_up_ns", "failures") == [66.0]
    raw["events"] = {"kill": kill(), "late": kill(at="70 s", kind="worker-failure")}
    assert "the host is down" in simulated(raw).tables["decisions"]["reason"].tolist()


# -- rebalances


def rebalanced(wait: str, command: str = "1 s", **changes: Any) -> dict[str, Any]:
    event = {"kind": "rebalance", "at": "65 s", "hosts": ["node"], "protocol": "dsm", "wait": wait, "command": command}
    service = {"service": fixed("200 ms")}
    return topology(
        events={"move": event}, workers={"start": fixed("4 s")}, counts=service | changes.pop("counts", {}), **changes
    )


def check_wait() -> None:
    """Spouts are deactivated for the wait, so that nothing is lost; without it what is under way is."""
    found = ran(rebalanced("30 s"))
    row = [column(found, name, "rebalances")[0] for name in ("begun_ns", "killed_ns", "up_ns", "outcome")]
    assert row == [65.0, 96.0, 100.0, "done"]
    visits = found.tables["visits"]
    sent = visits["end_ns"][visits["operator"] == 0] / S
    assert not ((sent > 65.1) & (sent < 96.0)).any()
    # All that came meanwhile is emitted at the kill, and lost, as executors are not up: it fails at the second tick.
    assert [at for at, _ in replayed(found)] == [150.0]
    assert column(found, "resumed_ns", "rebalances")[0] > 96.0
    at_once = ran(rebalanced("0 s", "0 s"))
    # What was in a queue at the kill.
    killed = [int((one.tables["dropped"]["arrival_ns"] >= 0).sum()) for one in (found, at_once)]
    assert killed[0] == 0 < killed[1]
    assert column(at_once, "killed_ns", "rebalances") == [65.0]
    for one in (found, at_once):
        assert one.tables["ledger"]["lost"].tolist()[1] == 0


def test_a_rebalance_waits_with_spouts_that_emit_nothing() -> None:
    check_wait()


def test_a_rebalance_of_stateful_bolts_ends_with_the_init() -> None:
    found = ran(rebalanced("10 s", counts=STATE, duration="180 s"))
    assert column(found, "outcome", "rebalances") == ["done"]
    assert column(found, "killed_ns", "rebalances") == [76.0]
    assert column(found, "last_init_ns", "rebalances")[0] > 80.0
    assert found.tables["ledger"]["lost"].tolist() == [0, 0]


# -- random jobs


def with_workers(seed: int) -> dict[str, Any]:
    """A random job whose workers start together, with crashes of hosts, of workers, or rebalances."""
    draw, raw = Random(f"workers {seed}"), stormy(seed)
    raw["workers"] |= {"together": True, "check": draw.choice(["1 ms", "100 ms", "700 ms"])}
    if draw.random() < 0.5:
        raw["workers"]["slots"] = draw.choice([1, 2, 3])
    if draw.random() < 0.6:
        raw["detector"]["check"] = draw.choice(["100 ms", "700 ms"])
    raw["recovery"] = {
        name: {"distribution": "exponential", "mean": draw.choice(["3 ms", "300 ms"])}
        for name in ("allocate", "restart")
        if draw.random() < 0.7
    }
    hosts = raw["hosts"]["h"]["count"]
    moves = {name: one for name, one in raw["events"].items() if one["kind"] == "rebalance"}
    for one in moves.values():
        if draw.random() < 0.5:
            one["wait"] = draw.choice(["0 s", "100 ms", "500 ms"])
    if draw.random() < 0.3:  # alone
        raw["events"] = moves
    else:
        for number in range(draw.randint(0, 3)):
            at, host = (
                f"{draw.choice([draw.randint(1, 5000), 100 * draw.randint(1, 50)])} ms",
                f"h-{draw.randrange(hosts)}",
            )
            raw["events"][f"worker-{number}"] = kill(host, at, "worker-failure")
    fails = len(raw["events"]) > len(moves)
    if draw.random() < 0.4:  # nobody brings states back
        del raw["waves"]["interval"]
        raw["fault_tolerance"]["acker"]["acks"] = "literal"
        raw["events"] = {name: one for name, one in raw["events"].items() if one["kind"] != "rebalance" or not fails}
    return raw


@pytest.mark.parametrize("seeds", parts(8, 40))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        plain, compiled = (
            simulate(unchecked(with_workers(seed)), plane=plane) for plane in (PlainPlane, CompiledPlane)
        )
        assert differences(plain, compiled) == [], seed
        seen.update(plain.tables["failures"]["cause"].tolist())
        seen.update(plain.tables["decisions"]["reason"].tolist())
        seen.update(plain.tables["rebalances"]["outcome"].tolist())
    assert min(seen[what] for what in ("crash", "worker", "done", "its worker starts where it was")) > 1, seen


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(500 * part, 500 * part + 500):
        plain, compiled = (
            simulate(unchecked(with_workers(seed)), plane=plane) for plane in (PlainPlane, CompiledPlane)
        )
        assert differences(plain, compiled) == [], seed


@pytest.mark.parametrize("seeds", parts(20, 40))
def test_no_message_is_lost_and_no_covered_state_whatever_dies(seeds: range) -> None:
    with_roots = [seed for seed in seeds if rooted(seed)]
    assert len(with_roots) > 6
    found = {}
    for seed in with_roots:
        raw = with_workers(seed)
        found[seed] = lost(raw, simulate(unchecked(raw), plane=CompiledPlane))
    assert {seed: lacking for seed, lacking in found.items() if lacking} == {}


# -- rules that are patched away


def _at_once(self: CrashCoordinator, *given: Any) -> None:
    _INIT(self, *given)
    self.together = False


def _least_used(method: WorkerRestart, partition: int) -> Any:
    return method.hosts.for_partition(partition)


def _no_resume(self: DSM, ctx: Any, message: Any) -> None:
    """Do nothing."""


def _allocate(self: RestartAttempts, failure: int, *, at_once: bool = False) -> Any:
    yield self.state.clock.sleep(self.state.clock.now_ns() + self._draw_ns("allocate", failure))


_INIT = CrashCoordinator.__init__

MUTANTS: dict[str, tuple[Callable[[], None], Any, str, Any]] = {
    "Nimbus looks all the time": (check_timeline, "sim.control.failures", "_next_look_ns", lambda at, every: at),
    "supervisors look all the time": (check_worker_timeline, "sim.control.failures", "_next_look_ns", lambda at, _: at),
    "executors go on by themselves": (check_hosts, WorkerRestart, "host_for", _least_used),
    "executors join others": (check_hosts, WorkerRestart, "task_for", RecoveryMethod.task_for),
    "all on a host are one worker": (
        check_hosts,
        WorkerRestart,
        "_worker_of",
        lambda self, task: -1 - self.cluster.task_host[task],
    ),
    "ports have no bound": (check_room, WorkerRestart, "_limit", property(lambda _: None, lambda *_: None)),
    "a host that is back gets nothing": (check_back_in_time, WorkerRestart, "host_for", _least_used),
    "a host that is back has to be assigned": (check_back_in_time, RestartAttempts, "allocate", _allocate),
    "states come before the worker": (check_state_timeline, CrashCoordinator, "__init__", _at_once),
    "the bolts of a rebalance wait for waves": (check_wait, Rebalances, "began", lambda *_: None),
    "spouts are not deactivated": (check_wait, DSM, "_paused", lambda _: ()),
    "spouts are not activated again": (check_wait, DSM, "on_again", _no_resume),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_rule_that_is_patched_away_is_missed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, owner, name, instead = MUTANTS[what]
    if isinstance(owner, str):
        monkeypatch.setattr(f"{owner}.{name}", instead)
    else:
        monkeypatch.setattr(owner, name, instead, raising=False)
    with pytest.raises(AssertionError):
        checks()
