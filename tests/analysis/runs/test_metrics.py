"""One number per name out of a summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from small_runs import small_records, small_scenario

from analysis.runs.elasticity import elasticity, maintenance
from analysis.runs.metrics import FREE_SECTIONS, metrics_of, possible_metrics
from analysis.runs.recoveries import broken
from analysis.runs.run_summary import Migration, Verdict
from analysis.runs.summary import summarise
from analysis.runs.undone_moves import UndoneMoves, undone_moves
from holdfast.run_tables import migrations_said
from models.records.tables import RunRecords
from scenarios.files.scenario import read_scenario, resolve
from sim.engine import simulate

S = 10**9


def test_numbers_keep_their_path_and_what_was_not_seen_is_none() -> None:
    records = small_records(
        visits=[(1, 1, 3 * S, 3 * S, 4 * S)],
        deliveries=[(2, 3 * S, 5 * S), (2, 3 * S, 7 * S)],
    )
    summary = summarise(small_scenario(), [records])
    found = metrics_of(summary)
    assert found["latency_s.mean"] == 3.0
    assert found["latency_s.count"] == 2.0
    assert found["operators.count.processed"] == 1.0
    assert found["operators.count.sojourn_s.mean"] == 1.0
    assert found["operators.out.wait_s.mean"] is None
    assert found["recoveries.count"] == 0.0
    assert not any("ci95" in name or "replication" in name or name == "seed" for name in found)


def test_recoveries_and_moves_are_counted_and_those_without_end_apart() -> None:
    summary = summarise(small_scenario(), [small_records()])
    ended = Migration(0, "cpa", "count", 0, "a", "b", 1.0, 1.0, 2.0, None, 0, 0, "event")
    migrations = (ended, replace(ended, pause_s=3.0, completion_s=None))
    met = {"lost": False, "recovery_s": None, "latency_p99_s": True}
    targets = {name: Verdict(1.0, 1.0, one) for name, one in met.items()}
    found = metrics_of(replace(summary, migrations=migrations, targets=targets))
    assert found["migrations.count"] == 2.0
    assert (found["migrations.unfinished"], found["migrations.cancelled"]) == (1.0, 0.0)
    assert (found["migrations.pause_s.mean"], found["migrations.pause_s.max"]) == (2.0, 3.0)
    assert (found["migrations.completion_s.mean"], found["migrations.completion_s.max"]) == (2.0, 2.0)
    assert found["targets.missed"] == 2.0


def test_a_move_that_a_crash_cancelled_is_not_one_that_did_not_end() -> None:
    summary = summarise(small_scenario(), [small_records()])
    ended = Migration(0, "cpa", "count", 0, "a", "b", 1.0, 1.0, 2.0, None, 0, 0, "event")
    cancelled = replace(ended, pause_s=None, completion_s=None, cancelled_s=1.5)
    found = metrics_of(replace(summary, migrations=(ended, cancelled)))
    assert (found["migrations.unfinished"], found["migrations.cancelled"]) == (0.0, 1.0)
    assert (found["moves.cancelled"], found["moves.completion_s"]) == (1.0, None)
    assert undone_moves([found]) == UndoneMoves(cancelled=1)
    said = migrations_said([ended, cancelled, replace(cancelled, cancelled_s=None)])
    assert said[1:] == ["Of 3 migrations: 1 cancelled after a crash, 1 not over at the end of the run."]
    assert len(migrations_said([ended])) == 1


@pytest.mark.parametrize(
    "name",
    [
        "crash-recovery",
        "flink-recovery",
        "flink-rescale",
        "migration",
        "elasticity",
        "windowed-join",
        "rebalance-linear",
    ],
)
def test_metrics_of_a_run_are_among_those_that_were_possible_before(name: str) -> None:
    event = {"flink-recovery": "kill", "flink-rescale": "more"}.get(name)
    short = [] if event is None else ["duration=70 s", f"events.{event}.at=30 s", "workload.clicks.rate=50 /s"]
    scenario = read_scenario(resolve(name), short).scenario
    possible = set(possible_metrics(scenario))
    found = metrics_of(summarise(scenario, [simulate(scenario)]))
    assert {one for one in found if found[one] is not None and not one.startswith(FREE_SECTIONS)} <= possible


@pytest.mark.parametrize(
    ("section", "find", "table"),
    [
        ("broken", broken, "failures"),
        ("elasticity", elasticity, "adaptations"),
        ("maintenance", maintenance, "maintenance"),
    ],
)
def test_sections_without_records_say_nothing_and_still_have_possible_metrics(
    section: str, find: Callable[[list[RunRecords]], object], table: str
) -> None:
    records = small_records()
    assert not len(next(iter(records.tables[table].values())))
    assert find([records]) is None
    assert any(one.startswith(f"{section}.") for one in possible_metrics(small_scenario()))


def test_a_rescaling_is_no_recovery_and_has_metrics_of_its_own() -> None:
    settings = ["duration=90 s", "events.more.at=30 s", "workload.clicks.rate=50 /s"]
    scenario = read_scenario(resolve("flink-rescale"), settings).scenario
    summary = summarise(scenario, [simulate(scenario)])
    found, (one,) = metrics_of(summary), summary.recoveries
    assert (one.planned, one.failed, one.happened) == (True, "the job", "is rescaled")
    assert one.detect_s is not None
    assert found["recoveries.count"] == 0
    assert found["rescalings.count"] == 1
    assert found["rescalings.ended_s.mean"] == one.detect_s
    assert found["rescalings.caught_up_s.mean"] == pytest.approx(one.total_s)
    assert summary.recovery_means == ()
    assert {mean.phase for mean in summary.rescaling_means} >= {"detect", "restore", "first_output"}
    assert summary.checkpoints is not None
    assert summary.checkpoints.age_at_failure_s.mean is None


def test_a_scenario_with_an_engine_has_metrics_of_its_instants() -> None:
    scenario = read_scenario(
        resolve("flink-recovery"), ["duration=90 s", "events.kill.at=30 s", "workload.clicks.rate=50 /s"]
    ).scenario
    summary = summarise(scenario, [simulate(scenario)])
    found, (one,) = metrics_of(summary), summary.recoveries
    assert one.allocate_s is not None
    assert one.detect_s is not None
    assert found["recoveries.restarting_s.mean"] == one.detect_s
    assert found["recoveries.running_s.mean"] == pytest.approx(one.detect_s + one.allocate_s)
    assert found["recoveries.caught_up_s.mean"] == pytest.approx(one.total_s)
    assert found["recoveries.first_output_s.mean"] == one.first_output_s
    assert "recoveries.running_s.mean" not in metrics_of(summarise(small_scenario(), [small_records()]))
