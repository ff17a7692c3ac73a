"""A small profile and a scenario that follows it, for the tests of planning and of runs."""

from __future__ import annotations

import numpy as np

from models.correlation import pearson
from models.records.profile import Profile
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario

GROUPS, BINS = 4, 40


def small_profile(seed: int = 5) -> Profile:
    """Four key groups over forty bins of one hour; half of the rows are "late"."""
    rng = np.random.default_rng(seed)
    every = rng.integers(20, 60, (GROUPS, BINS))
    late = rng.binomial(every, 0.5)
    counts = np.stack((every, late))
    rows = int(every.sum())
    return Profile(
        sources=("trips.csv",),
        key="car",
        time="begin",
        where=None,
        key_groups=GROUPS,
        bin_s=3600.0,
        start="2020-01-01T00:00:00",
        streams=("all", "late"),
        counts=counts,
        selectivity={"all": 1.0, "late": int(late.sum()) / rows},
        correlation=pearson(counts.reshape(2 * GROUPS, BINS).astype(float)),
        totals={"rows_read": rows, "rows_kept": rows, "rows_dropped": 0, "rows_quarantined": 0},
        filters={"late": "delay > 0"},
    )


def raw_scenario(**changes: object) -> dict[str, object]:
    """The tables of a file: trips follow the profile, samples come at a constant rate, one host dies."""
    fixed = {"model": "fixed", "bytes": "1 kB"}
    raw: dict[str, object] = {
        "name": "trips",
        "seed": 4,
        "duration": "40 s",
        "workload": {
            "trips": {
                "rate": {"profile": "profile", "span": "40 s", "mean": "20 /s"},
                "keys": {"distribution": "profile"},
            },
            "samples": {"rate": "5 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 50}},
        },
        "operators": {
            "trips": {"kind": "source"},
            "samples": {"kind": "source"},
            "clean": {
                "kind": "map",
                "inputs": {"trips": "key"},
                "parallelism": 2,
                "key_groups": GROUPS,
                "service": {"distribution": "deterministic", "value": "10 ms"},
            },
            "late": {
                "kind": "aggregate",
                "inputs": {"clean": "key"},
                "takes": {"clean": "late"},
                "parallelism": 2,
                "key_groups": GROUPS,
                "service": {"distribution": "deterministic", "value": "20 ms"},
                "state": fixed,
            },
            "share": {
                "kind": "aggregate",
                "inputs": {"samples": "key"},
                "key_groups": 3,
                "service": {"distribution": "deterministic", "value": "5 ms"},
                "state": fixed,
            },
            "out": {"kind": "sink", "inputs": {"late": "shuffle", "share": "shuffle"}},
        },
        "hosts": {"front": {}, "worker": {"count": 2, "cpu": "shared"}, "spare": {}},
        "placement": {
            "operators": {
                "trips": "front",
                "samples": "front",
                "out": "front",
                "clean": "worker",
                "late": "worker",
                "share": "spare",
            }
        },
        "fault_tolerance": {"method": "checkpoint", "interval": "3 s", "allocation": "exact"},
        "elasticity": {"high": 0.5, "period": "2 s"},
        "events": {"crash": {"kind": "host-failure", "at": "20 s", "host": "worker-1"}},
    }
    return raw | changes


def scenario(**changes: object) -> Scenario:
    """The scenario of `raw_scenario`."""
    return scenario_from(raw_scenario(**changes))
