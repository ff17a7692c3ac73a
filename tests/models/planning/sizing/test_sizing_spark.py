"""A sizing file that names Spark: its driver, what executors load, and the batch that runs again.

Oracles: figures by hand, the formula of a recovery, and a simulated query.
"""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import InputError
from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from optimizer.sizing import solve

MTTF_S, MTTR_S = 40_000.0, 1200.0


def raw(**tables: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "engine": "spark",
        "target": {"availability": 0.99},
        "work": {"load": 2.4},
        "hosts": {"most": 12},
        "failures": {"mttf": f"{MTTF_S} s", "mttr": f"{MTTR_S} s"},
        "recovery": {"restart": "9 s"},
        "checkpoints": {"pause": "0.2 s", "complete": "1 s"},
    }
    for name, table in tables.items():
        found[name] = found.get(name, {}) | table if isinstance(table, dict) else table
    return found


def problem(**tables: Any) -> SizingProblem:
    return SizingProblem(sizing_from(raw(**tables)), MTTF_S, MTTR_S)


def test_one_loss_in_so_many_is_that_of_the_driver_which_all_wait_for() -> None:
    found = problem(state={"size": "12 GB", "restore": "100 MB/s"})
    # Five of six hosts are left: together they load 2 GB of an executor in 4 s, or 12 GB with the driver in 24 s.
    assert found.down_s(5) == pytest.approx((1 * (9 + 24) + 5 * 4) / 6)
    assert found.latest_down_s(5) == pytest.approx(9 + 24)
    of_store = problem(state={"size": "12 GB", "restore": "100 MB/s", "remote": "200 MB/s"})
    assert of_store.down_s(5) == pytest.approx((1 * (9 + 60) + 5 * 10) / 6)
    of_each = problem(state={"per_host": "2 GB", "restore": "100 MB/s"})
    assert of_each.down_s(5) == pytest.approx(found.down_s(5))


def test_a_silent_host_is_noticed_by_its_time_out() -> None:
    # spark.network.timeout 2 min after the last heartbeat, which come each 10 s, and then a look each minute.
    found = problem(failures={"silent": True})
    assert found.down_s(5) == pytest.approx(115 + 30 + 9 / 6)
    assert found.latest_down_s(5) == pytest.approx(120 + 60 + 9)
    short = problem(failures={"silent": True}, detector={"timeout": "30 s", "heartbeat": "4 s", "check": "5 s"})
    assert short.latest_down_s(5) == pytest.approx(30 + 5 + 9)
    assert problem(detector={"connection": "2 s"}).latest_down_s(5) == pytest.approx(2 + 9)


def test_the_parts_are_the_whole() -> None:
    found = problem(state={"size": "12 GB", "restore": "100 MB/s"}).restarts
    assert found is not None
    *parts, whole = found.parts(5)
    assert [one.part for one in parts] == ["noticed", "query started", "states loaded"]
    assert (sum(one.mean_s for one in parts), sum(one.latest_s for one in parts)) == (whole.mean_s, whole.latest_s)
    assert (found.mean_s(5), found.latest_s(5)) == (whole.mean_s, whole.latest_s)


def test_the_batch_as_a_whole_stands_and_runs_again() -> None:
    found, plan = problem(), SystemPlan(6, 1)
    busy = 2.4 / 5
    backlog_s = busy * (10 / 2 + 1 + 9 / 6)
    assert found.mean_recovery_s(plan, 10.0) == pytest.approx(9 / 6 + backlog_s / (1 - 0.2 / 10 - busy))


def test_a_recovery_is_about_as_long_as_a_simulated_one() -> None:
    # `spark-recovery`, whose recoveries take 15.2 s on average (docs/howto/outage.md): the driver alone dies, three
    # executors of two cores go on, 400 records/s of 5 ms, 60 MB of state. The first batch takes 3 s longer, and each
    # 154 ms for itself.
    found = problem(
        work={"load": 1.0},
        hosts={"cores": 2, "most": 4},
        state={"size": "60 MB", "restore": "100 MB/s", "remote": "100 MB/s"},
        recovery={"restart": "9 s"},
        checkpoints={"pause": "154 ms", "complete": "0.5 s"},
    )
    driver = found.latest_down_s(3)
    assert driver == pytest.approx(9.6)
    busy = 1.0 / 3
    recovery_s = driver + busy * (0.5 + 0.5 + driver) / (1 - 0.154 - busy)
    assert found.recovery_s(SystemPlan(4, 1), 1.0, 0.5) == pytest.approx(recovery_s)
    assert recovery_s == pytest.approx(15.2, rel=0.15)


def test_a_plan_is_in_executors_and_found() -> None:
    found = problem()
    answer = solve(found)
    assert answer.chosen is not None
    assert found.text(answer.chosen.plan) == f"{answer.chosen.plan.hosts} executors"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "slots": ({"hosts": {"slots": 4}}, "hosts.slots = 4: is of Flink: an executor of Spark has cores"),
    "tasks": ({"work": {"parallelism": 4}}, "work.parallelism = 4: is of Flink"),
    "failed calls": ({"detector": {"failed_calls": 2}}, "detector.failed_calls = 2: is of Flink"),
    "strategies": ({"recovery": {"strategy": {"kind": "fixed-delay"}}}, "nothing in Spark starts a query again"),
    "attempts": ({"recovery": {"attempt": "1 s"}}, "recovery.attempt = 1 s: is of Flink"),
    "no start of a query": ({"recovery": {"restart": "0 s"}}, "recovery.restart: is missing"),
    "copies": ({"copies": {"levels": 2}}, "must be 1: Apache Spark 4.3 has no copies of tasks"),
    "units": ({"units": {"count": 12}}, "Apache Spark 4.3 repeats a batch as a whole"),
    "standbys": ({"state": {"size": "1 GB", "restore": "1 GB/s", "standbys": 1}}, "is of Kafka Streams"),
    "a batch without its time": (
        {"state": {"size": "1 GB", "restore": "1 MB/s"}, "checkpoints": {"complete": None}},
        "triggerExecution",
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
