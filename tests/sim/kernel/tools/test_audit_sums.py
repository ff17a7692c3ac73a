"""The audit of runs in which no host fails: number and sum of the ids that follow from the sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_jobs import scenario

from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

SPLIT: dict[str, Any] = {
    "duration": "10 s",
    "workload": {"in": {"rate": "300 /s", "keys": {"distribution": "uniform", "count": 40}}},
    "operators": {
        "in": {"kind": "source", "parallelism": 2},
        "many": {
            "kind": "map",
            "inputs": {"in": "broadcast"},
            "parallelism": 2,
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "selectivity": 1.6,
        },
        "few": {
            "kind": "map",
            "inputs": {"many": "key"},
            "takes": {"many": 0.3},
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "selectivity": 0.5,
        },
        "out": {"kind": "sink", "inputs": {"many": "shuffle", "few": "forward"}},
    },
    "hosts": {"h": {"count": 2}},
    "placement": {"operators": {"in": "h", "many": "h", "few": "h", "out": "h"}},
    "fault_tolerance": {"method": "none"},
}


@pytest.mark.parametrize("outputs", [1.6, 1.0, 3.0])
def test_the_audit_counts_what_the_specification_counts(outputs: float) -> None:
    many = SPLIT["operators"]["many"] | {"selectivity": outputs}
    made = scenario(SPLIT | {"operators": SPLIT["operators"] | {"many": many}})
    found = simulate(made, plane=CompiledPlane).tables["ledger"]
    expected = simulate(made, plane=PlainPlane).tables["ledger"]
    for column in expected:
        assert np.array_equal(found[column], expected[column])
    assert min(found["expected"]) > 900


@pytest.mark.parametrize("field", ["sum", "applied"])
def test_a_tuple_too_many_in_the_audit_is_noticed(field: str) -> None:
    class Wrong(CompiledPlane):
        def ledger(self) -> list[tuple[int, int, int, int]]:
            self.state.operators[field][2] += self.state.operators[field].dtype.type(1)
            return super().ledger()

    with pytest.raises(RuntimeError, match="the audit failed"):
        simulate(scenario(SPLIT), plane=Wrong)
