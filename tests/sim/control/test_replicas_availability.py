"""The share of the time in which a query is broken, tuple by tuple, against the exact availability of the same plan.

Oracle: `models.reliability.exact`, with each host down for the share of its time that its law says. From a failure
until it is detected, and until a state is restored, something is broken although a host for it is up; that is at most
the take-over times the failures of the hosts. Confidence: 99.9 %, of the mean of independent replications.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_jobs import scenario

from analysis.runs.recoveries import broken
from models.records.tables import RunRecords
from models.reliability.exact import unavailability
from models.reliability.queries import Queries, equal_hosts
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane

MTBF_S, REPAIR_S, DETECTED_S = 8.0, 1.0, 2e-3
HOSTS = 4
PLAN = {"one": (0,), "two": (1, 2), "three": (2, 3)}  # operator -> hosts of its instances, the primary first


def job(replicas: bool, duration_s: float) -> dict[str, Any]:
    """A chain of three operators on four hosts that fail; source and sink are where nothing fails."""

    def operator(upstream: str) -> dict[str, Any]:
        return {"kind": "aggregate", "inputs": {upstream: "key"}, "key_groups": 1} | {
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "state": {"model": "fixed", "bytes": "1 kB"},
        }

    second = {
        name: {"operator": name, "host": f"w-{hosts[1]}"} for name, hosts in PLAN.items() if len(hosts) > 1 and replicas
    }
    return {
        "duration": f"{duration_s:g} s",
        "workload": {"in": {"rate": "10 /s", "keys": {"distribution": "uniform", "count": 50}}},
        "operators": {"in": {"kind": "source"}}
        | {name: operator(above) for name, above in zip(PLAN, ("in", "one", "two"), strict=True)}
        | {"out": {"kind": "sink", "inputs": {"three": "shuffle"}}},
        "hosts": {
            "front": {},
            "w": {
                "count": HOSTS,
                "failures": {"model": "exponential", "mtbf": f"{MTBF_S:g} s", "repair": f"{REPAIR_S:g} s"},
            },
        },
        "placement": {
            "operators": {"in": "front", "out": "front"},
            "tasks": {f"{name}-0": f"w-{hosts[0]}" for name, hosts in PLAN.items()},
        },
        "network": {"latency": "100 us"},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": "500 ms",
            "store": "remote",
            "remote": "1 GB/s",
            "restart": "own-hosts",
            "replicas": second,
        },
        "detector": {"heartbeat": "1 ms", "timeout": f"{1e3 * DETECTED_S:g} ms"},
    }


def shares(replicas: bool, duration_s: float, replications: int) -> tuple[np.ndarray, list[RunRecords]]:
    """The share of the time in which something was broken, of each replication."""
    made = scenario(job(replicas, duration_s))
    records = [simulate(made, replication=k, plane=CompiledPlane) for k in range(replications)]
    found = []
    for one in records:
        said = broken([one])
        assert said is not None
        found.append(said.share)
    return np.array(found, dtype=float), records


def exact(replicas: bool) -> float:
    """P(broken) of the plan."""
    instances = tuple(hosts if replicas else hosts[:1] for hosts in PLAN.values())
    queries = Queries(HOSTS, instances=instances, operators=(tuple(range(len(PLAN))),))
    found = unavailability(queries, equal_hosts([REPAIR_S / (MTBF_S + REPAIR_S)], HOSTS))
    assert found.exact
    return float(found.low[0, 0])


def check(replicas: bool, duration_s: float, replications: int) -> None:
    """The exact share, and no more than take-overs on top of it, is within the interval of the simulated one."""
    found, records = shares(replicas, duration_s, replications)
    half = stats.t.ppf(0.9995, replications - 1) * found.std(ddof=1) / np.sqrt(replications)
    least = exact(replicas)
    most = least + HOSTS * 2 * DETECTED_S / (MTBF_S + REPAIR_S)
    assert found.mean() - half <= most
    assert least <= found.mean() + half
    assert half < 0.4 * least  # the interval says something
    for one in records:
        assert not one.tables["ledger"]["lost"].any()
        assert not one.tables["ledger"]["duplicated"].any()


def test_broken_time_agrees_with_exact_availability() -> None:
    check(True, 250.0, 10)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [True, False])
def test_broken_time_agrees_with_exact_availability_in_many_runs(replicas: bool) -> None:
    check(replicas, 300.0, 60)
