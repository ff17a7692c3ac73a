"""Short cuts of the scan for outputs and sinks.

Oracles: the modulo of Python; the event loop, by equality of all columns.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from numba import njit
from test_planes import differences
from test_scan import WIDE, cut_up, made

from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.scan.plane import ScanPlane
from sim.kernel.scan.straight import reciprocal, remainder

EDGES = [0, 1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


@njit
def remainders(numbers: np.ndarray, divisor: int, factor: Any, shift: int, found: np.ndarray) -> None:
    for k in range(numbers.size):
        found[k] = remainder(numbers[k], divisor, factor, shift)


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 16, 20, 64, 641, 1000, 2**20, 2**31 - 1, 2**31, 10**9 + 7])
def test_a_remainder_is_that_of_a_division(divisor: int) -> None:
    around = [q * divisor + d for q in (1, 2, 2**40 // divisor, (2**64 - 2) // divisor - 1) for d in (-1, 0, 1)]
    numbers = np.array(EDGES + [x for x in around if x >= 0], np.uint64)
    numbers = np.concatenate([numbers, np.random.default_rng(divisor).integers(0, 2**64, 20_000, dtype=np.uint64)])
    factor, shift = reciprocal(divisor)
    found = np.zeros(numbers.size, np.int64)
    remainders(numbers, divisor, np.uint64(factor), shift, found)
    assert found.tolist() == [x % divisor for x in numbers.tolist()]


KEYS = {"distribution": "zipf", "count": 30, "exponent": 0.9}
CHAIN: dict[str, Any] = WIDE | {
    "operators": WIDE["operators"]
    | {
        "a": WIDE["operators"]["a"] | {"selectivity": 1, "threads": 40, "output": {"keys": KEYS}},
        "b": WIDE["operators"]["b"] | {"inputs": {"a": "key"}, "takes": {}, "key_groups": 30, "selectivity": 1},
        "c": WIDE["operators"]["c"] | {"inputs": {"b": "key"}, "output": {"keys": KEYS | {"distribution": "uniform"}}},
        "d": WIDE["operators"]["d"] | {"inputs": {"c": "forward"}, "parallelism": 5},
        "out": {"kind": "sink", "parallelism": 3, "inputs": {"d": "shuffle"}},
        "idle": {
            "kind": "filter",
            "inputs": {"in": "shuffle"},
            "selectivity": 0,
            "service": WIDE["operators"]["d"]["service"],
        },
        "none": {"kind": "sink", "inputs": {"idle": "shuffle"}},
    },
    "workload": {"in": WIDE["workload"]["in"] | {"rate": "4000 /s"}},
    "hosts": {"near": {"count": 6}},
    "placement": {},
}
del CHAIN["operators"]["c"]["output"]["keys"]["exponent"]
del CHAIN["operators"]["b"]["takes"]


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_a_chain_of_one_output_for_one_receiver_and_a_sink_that_gets_nothing(detail: str) -> None:
    job = made(CHAIN | {"recording": {"detail": detail}})
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(2), 9), found) == []
    ledger = found.tables["ledger"]
    assert ledger["expected"].min() == 0
    assert ledger["expected"].max() > 2000
