"""Small records by hand, shared by the tests of what is made from records."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from models.records.tables import NEVER, TABLES, RunRecords, table
from models.scenario.scenario import Scenario

S = 10**9


def small_scenario(**changes: object) -> Scenario:
    """A source, a keyed count on two tasks, a sink; 10 s of which 2 s are warm-up."""
    raw = {
        "name": "by hand",
        "seed": 3,
        "duration_s": 10.0,
        "warmup_s": 2.0,
        "workload": {"in": {"rate": "1 /s", "keys": {"distribution": "uniform", "count": 4}}},
        "operators": {
            "in": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": {"distribution": "deterministic", "value_s": 1.0},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"worker": {"count": 2}},
    }
    return Scenario.model_validate(raw | changes)


def small_records(replication: int = 0, **tables: list[tuple[object, ...]]) -> RunRecords:
    """One replication of `small_scenario` with these rows; tables that are not given are empty."""
    return RunRecords(
        replication=replication,
        warmup_ns=2 * S,
        duration_ns=10 * S,
        operators=("in", "count", "out"),
        tasks=("in-0", "count-0", "count-1", "out-0"),
        task_operator=(0, 1, 1, 2),
        hosts=("worker-0", "worker-1"),
        servers=(1, 2, 1),
        tables={name: table(name, tables.get(name, [])) for name in TABLES},
    )


def random_records(seed: int, replication: int = 0) -> RunRecords:
    """Rows of every table with times around the edges of the window, for checks against plain loops."""
    draw = np.random.default_rng(seed)

    def times(n: int, high: int = 12) -> np.ndarray:
        # Half on a lattice of whole seconds, so that edges coincide on purpose.
        return np.where(draw.random(n) < 0.5, draw.integers(0, high, n) * S, draw.integers(0, high * S, n))

    n = 60
    arrival = np.minimum(times(n), 10 * S - 1)
    start = np.minimum(arrival + times(n, 3), 10 * S - 1)
    operator = draw.integers(0, 3, n)
    created = np.minimum(times(n), 10 * S - 1)
    rows = {
        "visits": list(zip(operator, operator, arrival, start, start + times(n, 2), strict=True)),
        "waiting": [(1, 1, at) for at in np.minimum(times(9), 10 * S - 1)],
        "deliveries": [(2, at, min(at + late, 10 * S)) for at, late in zip(created, times(n, 3), strict=True)],
        "samples": [
            (at * S, task, task % 2, int(draw.integers(0, 9)), at * 10**8 * (task + 1), 0)
            for at in range(1, 10)
            for task in range(4)
        ],
        "messages": [(at * S, kind, int(draw.integers(1, 9)), 100) for at in range(10) for kind in ("data", "trim")],
        "lag": [(at * S, 0, int(draw.integers(0, 9))) for at in range(10)],
        "checkpoints": [(1, 0, 0, 1, 4 * S, 5 * S, 100, True, -1), (1, 1, 1, -1, 9 * S, -1, 50, False, -1)],
        "failures": [(1, 5 * S, 6 * S, -1, 1, 9 * S, "crash")],
        "recoveries": [(1, 1, 1, 0, 5 * S, 6 * S, 6 * S, 6 * S, 7 * S, 8 * S, 9 * S, 12, 345)],
        "cpu": [(0, 3 * S, 3 * S), (1, 4 * S, 1 * S)],
        "decisions": [(6 * S, "restore", "count[1]", "", "worker-0", "done", "it holds the checkpoint <b>")],
        "ledger": [(1, 60, 1, 2), (2, 60, 3, 4)],
        "dropped": [
            (1, 1, 4 * S, -1, 5 * S, "crash"),
            (1, 0, 3 * S, 4 * S, 5 * S, "crash"),
            (1, 1, -1, -1, 5 * S, "crash"),
        ],
    }
    return small_records(replication, **rows)


def binned_records(one: RunRecords) -> RunRecords:
    """The same replication recorded as histograms; every operator may deliver."""
    from sim.recording import HistogramRecording  # noqa: PLC0415 - loads a compiler, which few tests need

    count = len(one.operators)
    recording = HistogramRecording(count, range(count), one.warmup_ns, one.duration_ns)
    for name, add in (("visits", recording.add_visits), ("deliveries", recording.add_deliveries)):
        add(np.stack([column.astype(np.int64) for column in one.tables[name].values()], axis=1))
    failed, restored = (one.tables["recoveries"][name].tolist() for name in ("failed_ns", "restored_ns"))
    deliveries = one.tables["deliveries"]
    watched = []
    for born, since in sorted({pair for pair in itertools.product(failed, restored) if pair[1] != NEVER}):
        new = (deliveries["created_ns"] >= born) & (deliveries["delivered_ns"] >= since)
        watched += [(born, since, int(deliveries["delivered_ns"][new].min()))] if new.any() else []
    return replace(one, tables={**one.tables, **recording.tables(), "first_outputs": table("first_outputs", watched)})


@pytest.fixture
def make():
    """The makers of small records as one object: `make.scenario`, `make.records`, `make.random`, `make.binned`."""

    class Makers:
        scenario = staticmethod(small_scenario)
        records = staticmethod(small_records)
        random = staticmethod(random_records)
        binned = staticmethod(binned_records)

    return Makers
