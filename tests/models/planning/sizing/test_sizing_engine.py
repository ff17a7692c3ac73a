"""A sizing file that names an engine: times of recovery by its rules, slots in place of shares, and what is refused.

Oracles: figures by hand, and recoveries that are played phase by phase.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from models.engines.flink_restart import Heartbeats, TaskManagerDeath
from models.engines.restart_strategies import UNLIMITED, FixedDelay
from models.errors import InputError
from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from optimizer.sizing import solve

MTTF_S, MTTR_S = 40_000.0, 1200.0
ALWAYS = {"kind": "fixed-delay", "delay": "1 s", "attempts": UNLIMITED}


def raw(**tables: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "engine": "flink",
        "target": {"availability": 0.99},
        "work": {"load": 2.2, "parallelism": 12},
        "hosts": {"most": 12, "slots": 3},
        "failures": {"mttf": f"{MTTF_S} s", "mttr": f"{MTTR_S} s"},
        "checkpoints": {"pause": "0.1 s", "complete": "4 s"},
    }
    for name, table in tables.items():
        found[name] = found.get(name, {}) | table if isinstance(table, dict) and name != "engine" else table
    return {name: table for name, table in found.items() if table is not None}


def problem(**tables: Any) -> SizingProblem:
    return SizingProblem(sizing_from(raw(**tables)), MTTF_S, MTTR_S)


def test_work_goes_on_after_the_restarts_the_deployment_and_the_restore_of_the_fullest_host() -> None:
    found = problem(
        detector={"heartbeat": "2 s", "timeout": "8 s", "connection": "125 ms"},
        recovery={"strategy": ALWAYS, "attempt": "0 s", "restart": "0.5 s"},
        state={"size": "12 GB", "restore": "500 MB/s"},
    )
    # RUNNING at 2.125, 3.125 or 4.125 s for 1/16, 1/2 and 7/16 of the phases: removal is in (2, 4] s.
    mean_s = (2.125 + 3.125 * 8 + 4.125 * 7) / 16
    # 12 tasks on 5 hosts: the fullest has three of them, and 3 GB; on 4 hosts, too.
    assert found.down_s(5) == pytest.approx(mean_s + 0.5 + 6)
    assert found.latest_down_s(5) == pytest.approx(4.125 + 0.5 + 6)
    assert found.down_s(6) == pytest.approx(mean_s + 0.5 + 4)


def test_the_slower_of_hosts_and_store_decides_how_long_a_restore_takes() -> None:
    state = {"size": "12 GB", "restore": "500 MB/s", "remote": "1 GB/s"}
    found = problem(state=state).restarts
    assert found is not None
    assert [found.restore_s(hosts) for hosts in (4, 6, 12)] == [12.0, 12.0, 12.0]
    found = problem(state={**state, "remote": "4 GB/s"}).restarts
    assert found is not None
    assert [found.restore_s(hosts) for hosts in (4, 6, 12)] == [6.0, 4.0, 3.0]
    found = problem(state={"per_host": "1 GB", "restore": "500 MB/s"}).restarts
    assert found is not None
    assert [found.restore_s(hosts) for hosts in (4, 6, 12)] == [2.0, 2.0, 2.0]


def test_a_silent_host_is_noticed_by_the_time_out() -> None:
    # RUNNING one second after the removal, which is 40 to 50 s after the death.
    found = problem(failures={"silent": True})
    assert (found.down_s(4), found.latest_down_s(4)) == (pytest.approx(46.0), pytest.approx(51.0))


def test_versions_bring_their_values_and_the_file_goes_before_them() -> None:
    old = problem(engine={"name": "flink", "version": "1.18"}).description
    assert old.recovery is not None
    assert isinstance(old.recovery.strategy, FixedDelay)
    new = problem(detector={"heartbeat": "3 s"}, hosts={"slots": None, "most": 12}).description
    assert new.detector is not None
    assert new.recovery is not None
    assert new.recovery.strategy is not None
    assert (new.detector.heartbeat_s, new.detector.timeout_s, new.detector.failed_calls) == (3.0, 50.0, 2)
    assert (new.recovery.strategy.kind, new.hosts.slots) == ("exponential-delay", 1)


@pytest.mark.parametrize(
    ("slots", "utilisation", "hosts"),
    [
        (3, 1.0, 4),  # twelve tasks need four hosts of three slots, which are busy for 0.55 of the time
        (12, 1.0, 3),  # three have four tasks each, busy for 0.73; two would be too few for the work
        (12, 0.7, 4),
        (1, 1.0, 12),
    ],
)
def test_a_job_needs_a_slot_for_each_task_and_time_for_the_tasks_of_the_fullest_host(
    slots: int, utilisation: float, hosts: int
) -> None:
    assert problem(hosts={"slots": slots}, work={"utilisation": utilisation}).fewest_hosts(1) == hosts


def test_the_fullest_host_says_how_busy_a_job_is_and_hosts_without_a_task_change_nothing() -> None:
    found = problem()
    busy = [round(found.busy(SystemPlan(hosts, 1), 0) / 2.2 * 12) for hosts in (4, 5, 6, 11, 12, 20)]
    assert busy == [3, 3, 2, 2, 1, 1]  # tasks of the fullest host


def test_recoveries_are_those_of_each_phase_of_heartbeats_and_checkpoints() -> None:
    found, plan, interval_s = problem(recovery={"restart": "2 s"}), SystemPlan(6, 1), 60.0
    death = TaskManagerDeath(heartbeats=Heartbeats(), noticed_s=0.088, overhead_s=0.046)
    busy, left = 2.2 / 12 * 3, 1 - 0.1 / interval_s  # five hosts are left: the fullest has three tasks
    recoveries = []
    for beat in (np.arange(400) + 0.5) / 400 * 10:
        down_s = death.at_phase(float(beat)).running_s + 2
        back_s = 4 + (np.arange(100) + 0.5) / 100 * interval_s
        recoveries.append(down_s + busy * (back_s + down_s) / (left - busy))
    played = np.array(recoveries)
    assert found.mean_recovery_s(plan, interval_s) == pytest.approx(played.mean(), rel=2e-3)
    # At the latest phase: longer than that share of all recoveries.
    assert found.recovery_s(plan, interval_s, 1.0) == pytest.approx(played.max(), rel=1e-2)
    assert np.mean(played <= found.recovery_s(plan, interval_s, 0.9)) >= 0.9
    assert played[-1][:90].max() <= found.recovery_s(plan, interval_s, 0.9)


def test_the_cheapest_plan_recovers_in_time_and_one_task_manager_less_does_not() -> None:
    found = problem(
        target={"recovery": "60 s"}, recovery={"restart": "2 s"}, state={"size": "24 GB", "restore": "500 MB/s"}
    )
    plan = solve(found, curve=False)
    assert plan.chosen is not None
    assert plan.figures is not None

    def best_s(hosts: int) -> float:
        """Return the shortest of the longest recoveries on a fine grid of intervals."""
        left = hosts - 1
        tasks = math.ceil(12 / left)
        if left * 3 < 12:
            return math.inf
        down_s = found.latest_down_s(left)
        busy, every = 2.2 / 12 * tasks, np.geomspace(4, 400, 4000)
        free = 1 - 0.1 / every - busy
        return float(np.where(free > 0, down_s + busy * (every + 4 + down_s) / free, np.inf).min())

    in_time = [hosts for hosts in range(2, 13) if best_s(hosts) <= 60]
    assert plan.chosen.plan.hosts == in_time[0]
    assert plan.figures.worst_recovery_s <= 60 * (1 + 1e-9)
    assert plan.status == "optimal"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no parallelism": ({"work": {"parallelism": None}}, "work.parallelism"),
    "fewer tasks than the work needs": ({"work": {"parallelism": 2}}, "work.parallelism = 2: must be at least 3"),
    "fewer slots than tasks": ({"hosts": {"most": 3}}, "must be at most the slots of all, 9"),
    "copies": ({"copies": {"levels": [1, 2]}}, "copies.levels"),
    "units": ({"units": {"count": 24}}, "units"),
    "times that the engine says": ({"checkpoints": {"detection": "2 s"}}, "checkpoints.detection"),
    "a restart that the engine says": ({"checkpoints": {"restart": "2 s"}}, "checkpoints.restart"),
    "a state without a rate": ({"state": {"size": "1 GB"}}, "must have restore or remote"),
    "a state without a size": ({"state": {"restore": "1 GB/s"}}, "must have size or per_host"),
    "two sizes": ({"state": {"size": "1 GB", "per_host": "1 GB", "restore": "1 GB/s"}}, "and not both"),
    "a shared rate for no known size": ({"state": {"per_host": "1 GB", "remote": "1 GB/s"}}, "state.size"),
    "a state that is saved at once": (
        {"state": {"size": "1 GB", "restore": "1 GB/s"}, "checkpoints": {"complete": None}},
        "checkpoints.complete",
    ),
    "a time-out before a heartbeat": ({"detector": {"timeout": "5 s"}}, "detector.timeout = 5 s: must be at least"),
    "looks at who is silent": ({"detector": {"check": "1 s"}}, "detector.check = 1 s: is of Spark"),
    "restarts that run out": ({"recovery": {"strategy": {"kind": "fixed-delay"}}}, "recovery.strategy.attempts = 1"),
    "an engine that is not simulated": (
        {"engine": "storm"},
        "engine.name = storm: must be one of flink, kafka-streams, spark: lost tuples come again one to two message",
    ),
    "a version that is none": ({"engine": {"name": "flink", "version": "3.0"}}, "engine.version"),
    "slots without an engine": ({"engine": None}, "needs an engine"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_the_engine_is_refused(name: str) -> None:
    tables, said = REFUSED[name]
    given = raw(**tables)
    for table in given.values():
        if isinstance(table, dict):
            for key in [key for key, value in table.items() if value is None]:
                del table[key]
    with pytest.raises(InputError) as refused:
        sizing_from(given)
    assert said in str(refused.value)


def test_a_strategy_that_gives_up_while_the_dead_host_counts_is_refused() -> None:
    with pytest.raises(InputError, match=r"recovery\.strategy = failure-rate: gives up before"):
        problem(recovery={"strategy": {"kind": "failure-rate"}}).down_s(4)
    with pytest.raises(InputError, match="more than 100000 restarts"):
        problem(recovery={"strategy": {**ALWAYS, "delay": "1 us"}, "attempt": "0 s"}).down_s(4)
