"""Checkpoints that expire: how many in a row the job survives, and how all of it is restarted.

Oracles: instants by hand, both planes, the guarantees of random jobs, and mutants that these tests must catch.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from decided import said
from pydantic import ValidationError
from scripts import unchecked
from test_barriers import job, outcomes, run, with_barriers
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check
from test_region_restart import job as pipelines

from analysis.runs.checkpoints import checkpoints as summed
from analysis.runs.recoveries import recoveries
from analysis.runs.tables import job_checkpoints_said
from models.records.tables import NEVER, THE_JOB, RunRecords
from models.scenario.rules import faults
from sim.control.barriers import BarrierCheckpoints, JobCheckpoint
from sim.control.failover_regions import FailoverRegions
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

# A checkpoint of `job` takes 233 ms, or 223 ms, and begins each 1010 ms.
SHORT, LONG = "200 ms", "240 ms"
SLOW = {"strategy": {"kind": "fixed-delay", "delay": "300 ms", "attempts": 3}, "attempt": "5 ms"}


def failures(found: RunRecords) -> list[tuple[float, ...]]:
    """Return (host, failed, detected) of each failure [ms]."""
    return column(found, "failures", "host", "failed_ns", "detected_ns")


def test_one_more_than_is_tolerated_fails_the_job() -> None:
    found = run(job({"timeout": SHORT, "tolerated_failures": 1}))
    # They begin at 1010 and 2020. The restart goes back to the begin, and the next one follows it at once.
    assert column(found, "job_checkpoints", "triggered_ns") == [(1010,), (2020,), (2220,), (3230,), (3430,)]
    assert failures(found) == [(THE_JOB, at, at) for at in (2220, 3430)]
    assert found.tables["failures"]["cause"].tolist() == ["checkpoints"] * 2
    assert found.tables["failures"]["lost_partitions"].tolist() == [7] * 2
    assert {*column(found, "recoveries", "host", "failed_ns", "started_ns")} == {
        (THE_JOB, at, at) for at in (2220, 3430)
    }
    assert ("the job fails", "2 checkpoints have expired in a row, and 1 is tolerated") in {
        (what, why) for _, what, why in said(found)
    }
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()


def test_without_a_limit_the_job_goes_on_whatever_expires() -> None:
    found = run(job({"timeout": SHORT}))
    assert outcomes(found) == ["expired"] * 3
    assert failures(found) == []
    enough = run(job({"timeout": SHORT, "tolerated_failures": 3}))
    assert failures(enough) == []


def test_a_complete_checkpoint_in_between_begins_the_count_anew() -> None:
    # The second one finds the store's link busy: its snapshots wait for what somebody reads there.
    raw = job({"timeout": LONG, "tolerated_failures": 0})
    assert outcomes(run(raw)) == ["completed"] * 3
    slow = job({"timeout": "230 ms", "tolerated_failures": 1})
    slow["fault_tolerance"]["interval"] = "1010 ms"
    found = run(slow)  # the first takes 233 ms, the others less
    assert outcomes(found) == ["expired", "completed", "completed"]
    assert failures(found) == []


def test_it_starts_again_in_its_slots_when_the_strategy_says_so_and_goes_back_to_the_last_complete_one() -> None:
    raw = job({"timeout": LONG, "tolerated_failures": 0}, recovery=SLOW)
    raw["fault_tolerance"]["remote"] = "1 MB/s"
    # From the second one on the late reader is too slow for the time-out.
    raw["workload"]["slow"] = {
        "arrivals": "deterministic",
        "keys": {"distribution": "uniform", "count": 40},
        "rate": {"steps": [{"at": "0 s", "rate": "20 /s"}, {"at": "1300 ms", "rate": "60 /s"}]},
    }
    found = run(raw)
    assert outcomes(found)[:2] == ["completed", "expired"]
    ((_, failed, _), *_) = failures(found)
    assert failed == 2020 + 240
    starts = column(found, "recoveries", "failed_ns", "allocated_ns", "started_ns", "target")
    assert {one[1:] for one in starts if one[0] == failed} == {(failed + 300, failed + 300, 0)}
    replayed = column(found, "recoveries", "operator", "replayed")
    # Of the fast source all that came after its first barrier, at 1050, 1100, ... 2250; the store had the rest.
    assert (2, 25) in replayed
    assert found.tables["ledger"]["lost"].tolist() == found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0, 0]


def several_regions(attempts: int) -> dict[str, Any]:
    """Four pipelines, each a region of its own, whose checkpoints never complete: a state takes 2 s to be stored."""
    raw = pipelines("forward", events={})
    raw["operators"]["sum"]["state"] = {"model": "fixed", "bytes": "200 kB"}
    raw["fault_tolerance"] |= {
        "remote": "100 kB/s",
        "interval": "1 s",
        "barriers": {"timeout": "500 ms", "tolerated_failures": 0},
    }
    raw["recovery"] = {"strategy": {"kind": "fixed-delay", "delay": "300 ms", "attempts": attempts}}
    return raw


def test_all_regions_fail_as_one() -> None:
    found = run(several_regions(2))
    # At 1 s, then after each restart at once, until the strategy gives up.
    assert [failed for _, failed, _ in failures(found)] == [1500, 2300, 3100]
    assert found.tables["failures"]["lost_partitions"].tolist() == [12] * 3
    assert found.tables["failures"]["caught_up_ns"].tolist()[-1] == NEVER
    assert int(found.tables["visits"]["arrival_ns"].max()) < 3100 * MS


def test_what_died_and_is_not_detected_joins_when_it_is() -> None:
    # The host is silent: nothing tells of it before its time-out. The checkpoint expires first.
    raw = job({"timeout": "300 ms", "tolerated_failures": 0}, detector={"heartbeat": "500 ms", "timeout": "3 s"})
    raw |= {"events": {"dies": dies(1, 900) | {"silent": True}}, "duration": "3700 ms"}
    raw["placement"]["tasks"]["sum-0"] = "h-1"
    found = run(raw)
    assert failures(found) == [(1, 900, 500 + 3000), (THE_JOB, 1310, 1310)]
    assert {at for (at,) in column(found, "recoveries", "started_ns")} == {3500}
    assert sorted(column(found, "recoveries", "host", "operator")) == sorted(
        [(1, 4), (1, 4), *((THE_JOB, operator) for operator in (0, 1, 2, 3, 5))]
    )
    assert not found.tables["ledger"]["lost"].any()


def test_one_that_a_dead_host_aborts_does_not_count() -> None:
    raw = job({"timeout": "400 ms", "tolerated_failures": 0}, events={"dies": dies(0, 1100)}, duration="1400 ms")
    raw["detector"] = {"heartbeat": "100 ms", "timeout": "150 ms"}
    found = run(raw)
    assert outcomes(found)[0] == "aborted"
    assert [host for host, *_ in failures(found)] == [0]


def test_the_summary_says_that_checkpoints_were_the_cause() -> None:
    raw = job({"timeout": SHORT, "tolerated_failures": 1})
    made, found = unchecked(raw), run(raw)
    (first, *_) = recoveries([found])
    assert (first.host, first.cause, first.failed_s, first.detect_s) == ("the job", "checkpoints", 2.22, 0.0)
    counted = summed(made, [found])
    assert counted is not None
    assert counted.job is not None
    assert counted.job.failed_job == 2
    assert "5 expired, which failed the job 2 times" in job_checkpoints_said(counted.job, 1.01)


# -- random jobs


def strict(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job in which checkpoints expire, and some of them fail it."""
    raw = with_barriers(draw, **more)
    raw["fault_tolerance"] |= {"remote": "1 MB/s", "interval": draw.choice(["700 ms", "2 s"])}
    raw["fault_tolerance"]["barriers"] |= {
        "restarted": "random",
        "timeout": draw.choice(["20 ms", "100 ms", "200 ms"]),
        "tolerated_failures": draw.choice([0, 1, 2]),
    }
    return raw


ENDING = (2, 3, 5, 6, 8, 9, 11, 13)  # seeds of jobs whose checkpoints do not expire for ever


def test_guarantees_hold_whatever_expires_and_crashes() -> None:
    assert sum(check(Random(f"expired {seed}"), "exactly-once", strict) for seed in ENDING) >= 8


def test_both_planes_give_equal_rows() -> None:
    failed = 0
    for seed in range(20):
        made = unchecked(strict(Random(f"expired {seed}")))
        rows = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
        assert differences(*rows) == [], seed
        failed += int((rows[0].tables["failures"]["host"] == THE_JOB).sum())
    assert failed >= 10


# -- mutants


def never_counts_anew(patch: pytest.MonkeyPatch) -> None:
    acknowledged = BarrierCheckpoints._acknowledged

    def broken(self: BarrierCheckpoints, checkpoint: Any) -> Any:
        before = self._expired
        yield from acknowledged(self, checkpoint)
        self._expired = before

    patch.setattr(BarrierCheckpoints, "_acknowledged", broken)


def test_a_count_that_never_begins_anew_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = job({"timeout": "230 ms", "tolerated_failures": 2}, duration="9 s")
    ends = outcomes(run(raw))
    assert ends.count("expired") >= 3
    assert ["expired"] * 3 not in [ends[k : k + 3] for k in range(len(ends))]
    assert failures(run(raw)) == []
    never_counts_anew(monkeypatch)
    assert failures(run(raw)) != []


def test_an_expired_checkpoint_that_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of an expired checkpoint that have come to the store count, although not all have."""
    end = BarrierCheckpoints._end

    def broken(self: BarrierCheckpoints, checkpoint: JobCheckpoint, outcome: str) -> None:
        end(self, checkpoint, outcome)
        if outcome == "expired":
            self.state.plane.complete_checkpoints(self._saved)

    monkeypatch.setattr(BarrierCheckpoints, "_end", broken)
    with pytest.raises(AssertionError):
        for seed in ENDING:
            check(Random(f"expired {seed}"), "exactly-once", strict)


def test_a_strategy_that_is_asked_for_each_region_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    add = FailoverRegions.add
    monkeypatch.setattr(FailoverRegions, "add", lambda self, losses, together=False: add(self, losses))
    assert [failed for _, failed, _ in failures(run(several_regions(2)))] != [1500, 2300, 3100]


# -- bad input


@pytest.mark.parametrize("value", [-1, 1.5, "two"])
def test_a_limit_is_a_whole_number_that_is_not_negative(value: object) -> None:
    with pytest.raises(ValidationError, match="tolerated_failures"):
        unchecked(job({"tolerated_failures": value}))


def test_no_id_is_kept_where_nothing_can_expire() -> None:
    assert not unchecked(job({"timeout": "10 s", "tolerated_failures": 0})).keeps_ids
    assert not unchecked(job({"timeout": "1 s", "tolerated_failures": 3})).keeps_ids
    assert unchecked(job({"timeout": "1 s", "tolerated_failures": 2})).keeps_ids
    assert faults(unchecked(job({"timeout": "1 s", "tolerated_failures": 2}))) == []
