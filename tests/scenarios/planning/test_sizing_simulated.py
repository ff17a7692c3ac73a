"""A sized system, simulated tuple by tuple with hosts that fail, is there as often as its objective says.

All work is one task on one of two hosts. The model spreads work over both and counts the failures of both, while here a
failure of the idle host costs nothing, and the host in front takes the work where both are down; so the objective is
met with room. After a failure both run on one host, and recoveries are as long.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.planning.sizing.description import sizing_from
from models.planning.sizing.problem import SizingProblem, SystemPlan
from models.planning.solution import Status
from models.scenario.reading import scenario_from
from optimizer.sizing import solve
from scenarios.runs.run import run

MTTF_S, MTTR_S, LENGTH_S, TIMES = 300.0, 20.0, 3000.0, 4


def problem() -> SizingProblem:
    instance = sizing_from(
        {
            "target": {"availability": 0.97, "recovery": "15 s"},
            "work": {"rate": "50 /s", "service": "8 ms"},
            "hosts": {"most": 4},
            "failures": {"mttf": f"{MTTF_S} s", "mttr": f"{MTTR_S} s"},
            "checkpoints": {"pause": "10 ms", "detection": "2 s"},
        }
    )
    return SizingProblem(instance, MTTF_S, MTTR_S)


def failures_of(hosts: int, interval_s: float) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """When failures struck what was in use, when the job had caught up [s], and whether all hosts were down meanwhile.

    One entry for each replication.
    """
    found = run(
        scenario_from(
            {
                "seed": 5, "duration": f"{LENGTH_S} s", "replications": TIMES,
                "workload": {"orders": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 100}}},
                "operators": {
                    "orders": {"kind": "source"},
                    "count": {
                        "kind": "aggregate", "inputs": {"orders": "key"}, "parallelism": 1, "key_groups": 2,
                        "service": {"distribution": "deterministic", "value": "8 ms"},
                    },
                    "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
                },
                "hosts": {
                    "front": {"slots": 2},  # taken by source and sink: nothing is recovered there
                    "worker": {
                        "count": hosts,
                        "failures": {"model": "exponential", "mtbf": f"{MTTF_S} s", "repair": f"{MTTR_S} s"},
                    },
                },
                "placement": {"operators": {"orders": "front", "count": "worker", "out": "front"}},
                "fault_tolerance": {"method": "checkpoint", "interval": f"{interval_s} s", "store": "remote"},
                "detector": {"heartbeat": "100 ms", "timeout": "2 s"},
                "recording": {"detail": "histograms"},
            }
        )
    )  # fmt: skip
    spans = []
    for one in found.records:
        rows = one.tables["failures"]
        hit = np.asarray(rows["lost_partitions"]) > 0
        begins, ends = (np.asarray(rows[name])[hit] / 1e9 for name in ("failed_ns", "caught_up_ns"))
        ends = np.where(ends < 0, LENGTH_S, ends)
        stands = all_down(np.asarray(rows["failed_ns"]) / 1e9, np.asarray(rows["repaired_ns"]) / 1e9, hosts)
        standing = [bool(((stands >= begin) & (stands < end)).any()) for begin, end in zip(begins, ends, strict=True)]
        spans.append((begins, ends, np.array(standing, dtype=bool)))
    return spans


def all_down(failed: np.ndarray, repaired: np.ndarray, hosts: int) -> np.ndarray:
    """When the last live host failed."""
    ends = np.where(repaired < 0, LENGTH_S, repaired)
    down = ((failed <= failed[:, None]) & (ends > failed[:, None])).sum(axis=1)
    last: np.ndarray = failed[down == hosts]
    return last


def share(begins: np.ndarray, ends: np.ndarray) -> float:
    """The share of the time in some span."""
    total = until = 0.0
    for begin, end in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / LENGTH_S


def test_a_sized_system_meets_its_objective_and_recovers_as_fast_as_was_computed() -> None:
    instance = problem()
    found = solve(instance, curve=False)
    assert found.status is Status.OPTIMAL
    assert found.chosen is not None
    assert found.figures is not None
    assert found.chosen.plan == SystemPlan(2, 1)
    spans = failures_of(2, found.figures.interval_s)
    shares = np.array([share(begins, ends) for begins, ends, _ in spans])
    assert shares.min() > 0  # each replication has failures
    above = shares.mean() + 3 * shares.std(ddof=1) / math.sqrt(TIMES)
    assert above <= instance.allowed
    # The model counts the time without any host apart from recoveries: nothing goes on until one is back.
    lengths = np.concatenate([(ends - begins)[~standing] for begins, ends, standing in spans])
    error = 3 * lengths.std(ddof=1) / math.sqrt(lengths.size)
    # A failure is detected up to a heartbeat before the time-out, which is what the model counts.
    assert lengths.mean() == pytest.approx(found.figures.mean_recovery_s, abs=error + 0.1)
    assert lengths.max() <= found.figures.worst_recovery_s + 0.1


def flink_recoveries(interval_s: float, times: int) -> tuple[np.ndarray, np.ndarray]:
    """When work went on after the death of a TaskManager, and when all was caught up [s]: (times,) each."""
    found = run(
        scenario_from(
            {
                "engine": "flink", "seed": 3, "duration": "100 s", "replications": times,
                "workload": {"orders": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 1000}}},
                "operators": {
                    "orders": {"kind": "source"},
                    "count": {
                        "kind": "aggregate", "inputs": {"orders": "key"}, "parallelism": 4, "key_groups": 128,
                        "service": {"distribution": "deterministic", "value": "10 ms"},
                        "state": {"model": "fixed", "bytes": "1 MB"},
                    },
                    "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
                },
                "hosts": {"worker": {"count": 5}},
                "recovery": {
                    "strategy": {"jitter": 0.0}, "restart": {"distribution": "deterministic", "value": "1 s"}
                },
                "fault_tolerance": {"interval": f"{interval_s} s", "remote": "200 MB/s"},
                "detector": {"heartbeat": "4 s"},
                "events": {
                    "kill": {
                        "kind": "host-failure", "host": "worker-1", "at": "40 s",
                        "delay": {"distribution": "uniform", "low": "0 s", "high": "20 s"},
                    }
                },
                "recording": {"detail": "histograms"},
            }
        )
    )  # fmt: skip
    failures = found.summary["recoveries"]
    phases = ("detect_s", "allocate_s", "restart_s", "restore_s")
    return np.array([sum(one[name] for name in phases) for one in failures]), np.array(
        [one["total_s"] for one in failures]
    )


def test_recoveries_of_a_flink_job_take_as_long_as_its_sizing_says() -> None:
    interval_s, times = 5.0, 24
    instance = SizingProblem(
        sizing_from(
            {
                "engine": "flink",
                "target": {"availability": 0.9},
                "work": {"rate": "100 /s", "service": "10 ms", "parallelism": 4},
                "failures": {"mttf": "1 d", "mttr": "1 h"},
                "checkpoints": {"pause": "1 us", "complete": "0.64 s"},
                "detector": {"heartbeat": "4 s"},
                "recovery": {"restart": "1 s"},
                "state": {"size": "128 MB", "remote": "200 MB/s"},
            }
        ),
        86_400.0,
        3600.0,
    )
    works, caught_up = flink_recoveries(interval_s, times)
    error = 3 * works.std(ddof=1) / math.sqrt(times)
    # The spread is that of the phase: attempts in vain, or one more.
    assert error > 0
    assert works.mean() == pytest.approx(instance.down_s(4), abs=error)
    assert works.max() <= instance.latest_down_s(4) + 1e-3
    # The slowest of all tasks catches up later than the formula, in which all are equally behind.
    mean_s = instance.mean_recovery_s(SystemPlan(5, 1), interval_s)
    assert caught_up.mean() == pytest.approx(mean_s, rel=0.1)
