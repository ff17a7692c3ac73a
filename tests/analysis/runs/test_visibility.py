"""When output of sinks is visible that commit it at checkpoints.

Oracles: instants by hand, a closed form, and a two-phase commit that follows each tuple of a run: a transaction of a
sink that is rolled back is aborted, and its tuples are in the next one when they are delivered again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from test_barriers import job, run, with_barriers
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_region_restart import NOTICED

from analysis.report.run_page import run_page
from analysis.runs.metrics import metrics_of
from analysis.runs.recoveries import recoveries, recovery_means
from analysis.runs.summary import summarise
from analysis.runs.visibility import visible_ns
from holdfast.run_tables import visible_said
from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from models.table import Table
from sim.control.assembly import Control
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.control.cluster import RunPlan
from sim.control.pre_commits import PreCommits
from sim.engine import records, simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane


def committing(raw: dict[str, Any]) -> dict[str, Any]:
    """The job, all of whose sinks commit at checkpoints."""
    for operator in raw["operators"].values():
        if operator["kind"] == "sink":
            operator["commit"] = "at-checkpoint"
    return raw


# -- instants


def test_output_is_visible_when_the_checkpoint_that_covers_it_is_complete() -> None:
    raw = committing(job())
    found = run(raw)
    # Barriers come to the sink at 1041, 2041 and 3041; the checkpoints are complete at 1243, 2243 and 3243.
    assert [at for (at,) in column(found, "pre_commits", "at_ns")] == [1041, 2041, 3041]
    rows, at = found.tables["deliveries"], visible_ns(unchecked(raw), found)
    for delivered, seen in zip(rows["delivered_ns"].tolist(), at.tolist(), strict=True):
        if delivered / MS in (1041, 2041, 3041):
            continue  # before or behind the barrier
        ends = [end for begin, end in ((1041, 1243), (2041, 2243), (3041, 3243)) if delivered < begin * MS]
        assert seen == (ends[0] * MS if ends else NEVER)


def test_where_a_checkpoint_expires_the_next_one_commits() -> None:
    raw = committing(job({"timeout": "230 ms"}))
    found = run(raw)  # the first takes 233 ms
    at = visible_ns(unchecked(raw), found)
    assert {*at.tolist()} == {2243 * MS, 3243 * MS, NEVER}


def test_other_sinks_are_visible_at_once() -> None:
    found = run(job())
    assert found.tables["pre_commits"]["number"].size == 0
    assert np.array_equal(visible_ns(unchecked(job()), found), found.tables["deliveries"]["delivered_ns"])
    assert summarise(unchecked(job()), [found]).visible is None


def test_the_first_visible_output_of_a_recovery_comes_with_the_next_checkpoint() -> None:
    raw = committing(job(events={"dies": dies(0, 2180)}, detector=NOTICED))
    found = run(raw)
    summary = summarise(unchecked(raw), [found])
    (recovery,) = summary.recoveries
    completed = [at for (at,) in column(found, "job_checkpoints", "completed_ns") if at > 2180]
    assert recovery.first_visible_s == pytest.approx((completed[0] - 2180) / 1000)
    assert recovery.first_output_s is not None
    assert recovery.first_output_s < recovery.first_visible_s
    assert recoveries([found])[0].first_visible_s is None
    assert metrics_of(summary)["recoveries.first_visible_s.max"] == recovery.first_visible_s
    known = replace(recovery, catch_up_s=1.0, total_s=2.0)
    (*_, last) = recovery_means(unchecked(raw), [known], [0])
    assert (last.phase, last.mean_s) == ("first_visible", recovery.first_visible_s)


# -- closed form


def quiet() -> dict[str, Any]:
    """A job at rest: a snapshot takes 2 s to be stored, and nothing else takes time worth speaking of."""
    raw = job(duration="500 s")
    raw["workload"] = {"fast": {"rate": "40 /s", "keys": {"distribution": "uniform", "count": 40}}}
    raw["operators"] = {
        "fast": {"kind": "source"},
        "sum": {
            "kind": "aggregate",
            "inputs": {"fast": "key"},
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "state": {"model": "fixed", "bytes": "2 MB"},
        },
        "out": {"kind": "sink", "inputs": {"sum": "forward"}, "commit": "at-checkpoint"},
    }
    raw["placement"] = {"tasks": {f"{name}-0": "h-0" for name in raw["operators"]}}
    raw["fault_tolerance"]["interval"] = "10 s"
    return raw


def test_the_median_delay_is_half_an_interval_and_the_duration_of_a_checkpoint() -> None:
    made = unchecked(quiet())
    found = simulate(made, plane=CompiledPlane)
    summary = summarise(made, [found])
    assert summary.visible is not None
    assert summary.checkpoints is not None
    assert summary.checkpoints.job is not None
    duration_s = summary.checkpoints.job.duration_s.mean
    assert duration_s == pytest.approx(2.003, abs=2e-3)
    delay = summary.visible.delay_s
    # Uniform between the duration and an interval more: of 20,000 tuples the median is known to 0.04 s, one sigma.
    assert delay.p50 == pytest.approx(5 + duration_s, abs=0.15)
    assert delay.p99 == pytest.approx(9.9 + duration_s, abs=0.05)
    assert delay.max == pytest.approx(10 + duration_s, abs=5e-3)
    assert summary.visible.latency_s.count + summary.visible.hidden == summary.latency_s.count
    assert 0 < summary.visible.hidden <= 40 * 14


# -- the same from a commit that follows each tuple


class TwoPhase:
    """Follows ids: open transactions by partition, those that are prepared by checkpoint, and what is committed."""

    def __init__(self, control: Control, patch: pytest.MonkeyPatch) -> None:
        self.control, self.cluster = control, control.cluster
        self.open: dict[int, set[int]] = defaultdict(set)
        self.prepared: dict[tuple[int, int], set[int]] = defaultdict(set)  # (checkpoint, partition) -> ids
        self.order: list[int] = []  # ids as they were delivered for the first time
        self.committed: dict[int, int] = {}
        sinks = {one.index for one in control.plan.operators if one.is_sink}
        follow, drop = self, control.plane.drop  # type: ignore[attr-defined]
        apply, note, end, failed = Partition.apply, PreCommits.note, BarrierCheckpoints._end, BarrierCheckpoints.failed

        def applied(self: Partition, row: Any, upstream: int) -> None:
            apply(self, row, upstream)
            if self.operator.is_sink:
                follow.order.append(row.id)
                follow.open[self.number].add(row.id)

        def dropped(visit: Any, task: Any, reason: str) -> None:
            if reason == "duplicate" and task.operator.index in sinks and visit.row.id not in follow.committed:
                prepared = [key for key, ids in follow.prepared.items() if visit.row.id in ids]
                if not prepared:
                    follow.open[visit.partition.number].add(visit.row.id)
            drop(visit, task, reason)

        def noted(self: PreCommits, checkpoint: int, task: int) -> None:
            note(self, checkpoint, task)
            for partition in follow.cluster.partitions_at(task):
                follow.prepared[checkpoint, partition] |= follow.open.pop(partition, set())

        def ended(self: BarrierCheckpoints, checkpoint: JobCheckpoint, outcome: str) -> None:
            end(self, checkpoint, outcome)
            if outcome == "completed":
                follow.commit(checkpoint.number)

        def fails(self: BarrierCheckpoints) -> None:
            failed(self)
            follow.abort()

        patch.setattr(Partition, "apply", applied)
        patch.setattr(PreCommits, "note", noted)
        patch.setattr(BarrierCheckpoints, "_end", ended)
        patch.setattr(BarrierCheckpoints, "failed", fails)
        control.plane.drop = dropped  # type: ignore[attr-defined]

    def commit(self, number: int) -> None:
        """Commit what is prepared for this checkpoint, and for earlier ones that were given up."""
        for checkpoint, partition in [*self.prepared]:
            if checkpoint <= number:
                for one in self.prepared.pop((checkpoint, partition)):
                    assert one not in self.committed
                    self.committed[one] = self.control.clock.now_ns()

    def abort(self) -> None:
        """Abort the transactions of partitions that are rolled back."""
        for partition in [*self.open]:
            if not self.cluster.partition_live[partition]:
                del self.open[partition]
        for checkpoint, partition in [*self.prepared]:
            if not self.cluster.partition_live[partition]:
                del self.prepared[checkpoint, partition]


def followed(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[RunRecords, list[int]]:
    """The rows of a job, and when each delivery was committed."""
    made = unchecked(raw)
    control = Control(RunPlan.of(made, RunInputs(), 0), PlainPlane)
    with patch.context() as own:
        two_phase = TwoPhase(control, own)
        control.start()
        duration = round(made.duration_s * 1e9)
        control.run(duration)
        found = records(control, duration)
    return found, [two_phase.committed.get(one, NEVER) for one in two_phase.order]


def random_committing(seed: int) -> dict[str, Any]:
    raw = committing(with_barriers(Random(f"visible {seed}")))
    raw["fault_tolerance"] |= {"guarantee": "exactly-once", "interval": "300 ms"}
    return raw


def test_it_is_as_if_each_tuple_was_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    late = failures = 0
    for seed in range(30):
        raw = random_committing(seed)
        raw["fault_tolerance"]["barriers"]["concurrent"] = 1 + seed % 3
        found, committed = followed(raw, monkeypatch)
        assert visible_ns(unchecked(raw), found).tolist() == committed, seed
        failures += len(found.tables["failures"]["host"])
        late += sum(at != NEVER for at in committed)
    assert failures >= 20
    assert late >= 1000


def test_both_planes_give_equal_rows() -> None:
    noted = 0
    for seed in range(15):
        made = unchecked(random_committing(seed))
        plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        noted += len(plain.tables["pre_commits"]["number"])
    assert noted >= 50


def test_a_pre_commit_that_comes_late_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: what is delivered until the checkpoint is complete counts as covered by it."""
    acknowledged = BarrierCheckpoints._acknowledged

    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint) -> Any:
        yield from acknowledged(self, checkpoint)
        rows, count = self.commits.rows, self.state.plane.deliveries()
        self.commits.rows = [(*row[:4], count) if row[0] == checkpoint.number else row for row in rows]

    monkeypatch.setattr(BarrierCheckpoints, "_acknowledged", broken)
    with pytest.raises(AssertionError):
        test_it_is_as_if_each_tuple_was_followed(monkeypatch)


# -- what people see


def test_the_terminal_and_the_page_say_when_output_is_visible() -> None:
    raw = committing(job())
    made, found = unchecked(raw), run(raw)
    summary = summarise(made, [found])
    assert summary.visible is not None
    (shown,) = visible_said(made, summary)
    assert isinstance(shown, Table)
    assert "source to committed output" in shown.title
    (said,) = visible_said(made, replace(summary, visible=None))
    assert "recording.detail" in str(said)
    assert visible_said(unchecked(job()), replace(summary, visible=None)) == []
    page = run_page(made, RunInputs(), summary, [found])
    assert "99 % of tuples visible within" in {fact.label for fact in page.headline}


# -- bad input


@pytest.mark.parametrize(
    ("name", "changes", "rule"),
    [
        ("sum", {}, "is possible for a sink, not for an aggregate"),
        ("out", {"barriers": None}, "needs fault_tolerance.barriers"),
        ("out", {"guarantee": "at-least-once"}, "needs the guarantee exactly-once"),
    ],
)
def test_transactions_that_nobody_commits_once_are_refused(name: str, changes: dict[str, Any], rule: str) -> None:
    raw = job()
    raw["operators"][name]["commit"] = "at-checkpoint"
    raw["fault_tolerance"] |= changes
    said = {fault.path: str(fault) for fault in faults(unchecked(raw))}
    assert rule in said[f"operators.{name}.commit"]
