"""The summary of checkpoints of the whole job: counts, times and sizes. Oracle: the instants of a job, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from scripts import unchecked
from test_barriers import job
from test_cluster_view import dies
from test_region_restart import NOTICED

from analysis.runs.checkpoints import checkpoints
from analysis.runs.tables import job_checkpoints_said
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.plain.plane import PlainPlane


def summed(**changes: Any) -> Any:
    made: Scenario = unchecked(job(**changes))
    return checkpoints(made, [simulate(made, plane=PlainPlane)])


def test_counts_and_times_are_those_of_the_job() -> None:
    found = summed().job
    # They begin at 1010, 2020 and 3030 ms, are aligned at 1041, 2041 and 3041, and complete at 1243, 2243 and 3243.
    assert (found.begun, found.completed, found.aborted, found.expired) == (3, 3, 0, 0)
    assert found.duration_s.mean == pytest.approx((0.233 + 0.223 + 0.213) / 3)
    assert found.duration_s.max == pytest.approx(0.233)
    assert found.barriers_s.max == pytest.approx(0.031)
    assert (found.bytes.mean, found.bytes.max) == (200_000, 200_000)
    assert found.longest_between_s == pytest.approx(1.243)


def test_a_snapshot_counts_as_completed_with_the_checkpoint_of_the_job() -> None:
    found = summed(events={"dies": dies(0, 2180)}, detector=NOTICED)
    # One of two snapshots of the sum is stored when the second checkpoint is aborted: neither counts.
    assert (found.operators["sum"].completed, found.job.aborted) == (2 * found.job.completed, 1)
    assert (found.late, found.skipped) == (0, 0)
    # What the restart goes back to was taken at 1011 at the map `quick`, and at 1040 and 1041 at `late` and the sum.
    assert found.age_at_failure_s.max == pytest.approx(2.180 - 1.011)
    assert found.longest_between_s >= 1.243


def test_it_is_said_in_a_sentence() -> None:
    said = job_checkpoints_said(summed().job, 1.01)
    assert said == (
        "Checkpoints of the job every 1.01 s: 3 begun, 3 completed; at most 1.24 s without a completed one. A "
        "completed one took 223 ms on average, 233 ms at most, of that barriers 21 ms and 31 ms, and stored 200 kB."
    )
