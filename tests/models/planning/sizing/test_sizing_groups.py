"""A sizing file that names Kafka Streams: the session, the rebalance, and what the lost instance had.

Oracles: figures by hand, the formula of a recovery at the ends of the intervals, and a simulated application.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.errors import InputError
from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from optimizer.sizing import solve

MTTF_S, MTTR_S = 40_000.0, 1200.0


def raw(**tables: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "engine": "kafka-streams",
        "target": {"availability": 0.99},
        "work": {"load": 2.4},
        "hosts": {"most": 12},
        "failures": {"mttf": f"{MTTF_S} s", "mttr": f"{MTTR_S} s"},
        "checkpoints": {"pause": "10 ms", "complete": "1 s"},
    }
    for name, table in tables.items():
        found[name] = found.get(name, {}) | table if isinstance(table, dict) else table
    return found


def problem(**tables: Any) -> SizingProblem:
    return SizingProblem(sizing_from(raw(**tables)), MTTF_S, MTTR_S)


def test_work_goes_on_after_session_rebalance_and_restore() -> None:
    found = problem(state={"size": "120 GB", "restore": "100 MB/s"}, recovery={"restart": "0.1 s"})
    # 42 to 45 s after the death, then up to 3 s until all have heard, and 20 GB read by five instances.
    assert found.down_s(5) == pytest.approx(43.5 + 1.5 + 0.1 + 20e9 / 500e6)
    assert found.latest_down_s(5) == pytest.approx(45 + 3 + 0.1 + 20e9 / 500e6)
    of_brokers = problem(state={"size": "120 GB", "restore": "100 MB/s", "remote": "200 MB/s"})
    assert of_brokers.down_s(5) == pytest.approx(45 + 20e9 / 200e6)
    assert problem(state={"size": "120 GB", "restore": "1 MB/s", "standbys": 1}).down_s(5) == pytest.approx(45)
    short = problem(detector={"timeout": "10 s", "heartbeat": "1 s"})
    assert (short.down_s(5), short.latest_down_s(5)) == (10.0, 11.0)


def test_only_what_the_lost_instance_had_is_caught_up_with_by_all_others() -> None:
    found, plan = problem(), SystemPlan(6, 1)
    # A sixth of 2.4 stood for D and half an interval and the commit; five instances have 2.6 hosts free for it.
    left_s = 5 * (1 - 0.01 / 30) - 2.4
    backlog_s = 2.4 / 6 * (30 / 2 + 1 + 45)
    assert found.mean_recovery_s(plan, 30.0) == pytest.approx(45 + backlog_s / left_s)


def test_the_intervals_are_those_that_meet_the_target() -> None:
    found, plan = problem(target={"recovery": "60 s", "recovery_share": 0.9}), SystemPlan(6, 1)
    limits = found.intervals(plan)
    assert limits is not None
    assert found.recovery_s(plan, limits[1], 0.9) == pytest.approx(60.0)
    assert found.recovery_s(plan, limits[1] * 1.01, 0.9) > 60.0
    assert found.quickest_recovery_s(plan) <= found.recovery_s(plan, float(np.mean(limits)), 0.9) <= 60.0


def test_the_interval_of_the_quickest_recovery_is_that_of_the_formula() -> None:
    found, plan = problem(), SystemPlan(6, 1)
    best = found.quickest(plan)
    at = found.recoveries(plan, best[:, None])[:, 0]
    for factor in (0.8, 1.25):
        assert (at <= found.recoveries(plan, factor * best[:, None])[:, 0]).all()


def test_a_recovery_is_about_as_long_as_a_simulated_one() -> None:
    # `kafka-streams-recovery`, whose recoveries take 88.5 s on average (docs/howto/outage.md): three instances of four
    # threads, 400 records/s of 12 ms, 1.2 GB of state and half as much again of older changes, and commits each 30 s.
    found = problem(
        work={"load": 1.2},
        hosts={"cores": 4, "most": 3},
        state={"size": "1.8 GB", "restore": "100 MB/s", "remote": "100 MB/s"},
        recovery={"restart": "50 ms"},
        checkpoints={"pause": "1 ms", "complete": "10 ms"},
    )
    assert found.mean_recovery_s(SystemPlan(3, 1), 30.0) == pytest.approx(88.5, rel=0.1)


def test_a_plan_is_in_instances_and_found() -> None:
    found = problem()
    answer = solve(found)
    assert answer.chosen is not None
    assert found.text(answer.chosen.plan) == f"{answer.chosen.plan.hosts} instances"
    assert [one.name for one in found.restarts.behaviours] == [  # type: ignore[union-attr]
        "Detection",
        "Rebalance",
        "Lost tasks",
        "Restore",
        "Commits",
        "Returns",
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "slots": ({"hosts": {"slots": 4}}, "hosts.slots = 4: is of Flink: an instance of Kafka Streams has threads"),
    "tasks": ({"work": {"parallelism": 4}}, "work.parallelism = 4: is of Flink"),
    "silent failures": ({"failures": {"silent": True}}, "a group removes a member after session.timeout.ms"),
    "connections": ({"detector": {"connection": "1 s"}}, "detector.connection = 1 s: is of Flink"),
    "failed calls": ({"detector": {"failed_calls": 2}}, "detector.failed_calls = 2: is of Flink"),
    "looks": ({"detector": {"check": "1 s"}}, "detector.check = 1 s: is of Spark: a session that has ended"),
    "strategies": ({"recovery": {"strategy": {"kind": "fixed-delay"}}}, "recovery.strategy = fixed-delay: is of Flink"),
    "attempts": ({"recovery": {"attempt": "1 s"}}, "recovery.attempt = 1 s: is of Flink"),
    "a short time-out": (
        {"detector": {"timeout": "1 s"}},
        "detector.timeout = 1 s: must be at least the heartbeat, 3 s",
    ),
    "copies": ({"copies": {"levels": 2}}, "must be 1: Kafka Streams 4.3 has no copies of tasks"),
    "units": ({"units": {"count": 12}}, "Kafka Streams 4.3 spreads tasks evenly over the instances"),
    "detection": ({"checkpoints": {"detection": "5 s"}}, "checkpoints.detection = 5 s: must not be given"),
    "a commit without its time": (
        {"state": {"size": "1 GB", "restore": "1 MB/s"}, "checkpoints": {"complete": None}},
        "commit-latency-avg",
    ),
    "standbys of Flink": (
        {
            "engine": "flink",
            "work": {"parallelism": 12},
            "state": {"size": "1 GB", "restore": "1 MB/s", "standbys": 1},
        },
        "state.standbys = 1: is of Kafka Streams",
    ),
    "a commit shorter than its pause": (
        {"checkpoints": {"complete": "1 ms"}},
        "checkpoints.complete = 1 ms: must be at least the pause",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_go_with_it_is_refused(what: str) -> None:
    tables, words = REFUSED[what]
    given = raw(**tables)
    given["checkpoints"] = {key: value for key, value in given["checkpoints"].items() if value is not None}
    with pytest.raises(InputError) as caught:
        sizing_from(given)
    found = [str(fault) for fault in caught.value.faults]
    assert any(words in one for one in found), found
