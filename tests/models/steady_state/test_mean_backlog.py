"""What waits at the end of an overloaded run, against small sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

from models.scenario.scenario import Scenario
from models.steady_state.estimate import backlog


def scenario(first: float, second: float, **changes: Any) -> Scenario:
    """100 tuples a second for 10 s through two operators whose services take so long [s]."""
    operators: dict[str, Any] = {
        "in": {"kind": "source"},
        "one": {"kind": "map", "inputs": {"in": "shuffle"}, "service": fixed(first)},
        "two": {"kind": "map", "inputs": {"one": "shuffle"}, "service": fixed(second)},
        "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
    }
    for name in ("one", "two"):
        operators[name] |= changes.pop(name, {})
    raw = {"duration_s": 10.0, "warmup_s": 0.0, "workload": {"in": {"rate": "100 /s"}}, "operators": operators}
    return Scenario.model_validate(raw | {"hosts": {"worker": {"count": 1}}} | changes)


def fixed(seconds: float) -> dict[str, object]:
    return {"distribution": "deterministic", "value_s": seconds}


@pytest.mark.parametrize(
    ("first", "second", "changes", "waiting"),
    [
        (0.005, 0.005, {}, (0, 0)),
        (0.02, 0.005, {}, (500, 0)),
        (0.02, 0.04, {}, (500, 250)),  # 50 a second come to the second, which serves 25
        (0.005, 0.04, {}, (0, 750)),
        (0.04, 0.005, {"one": {"parallelism": 2}}, (500, 0)),
        (0.04, 0.005, {"one": {"threads": 2}}, (500, 0)),
        (0.005, 0.04, {"two": {"buffer": 10}}, (750, 10)),  # held up at the sender
        (0.005, 0.04, {"one": {"buffer": 7}, "two": {"buffer": 10}}, (7, 10, 750)),  # and up to the source
        (0.01, 0.005, {"hosts": {"worker": {"count": 1, "speed": 0.5}}}, (500, 0)),
        (0.005, 0.001, {"hosts": {"worker": {"load": {"steps": [{"at_s": 0.0, "share": 0.75}]}}}}, (500, 0)),
    ],
)
def test_what_waits_is_what_came_and_was_not_served(
    first: float, second: float, changes: dict[str, Any], waiting: tuple[float, ...]
) -> None:
    found = backlog(scenario(first, second, **changes))
    assert (found["one"], found["two"]) == pytest.approx(waiting[:2])
    assert (found["in"], found["out"]) == (pytest.approx(sum(waiting[2:])), 0)


@pytest.mark.parametrize("cpu", ["shared", "processor-sharing"])
def test_shared_cores_are_all_busy_where_together_too_much_is_asked(cpu: str) -> None:
    found = backlog(scenario(0.008, 0.008, hosts={"worker": {"count": 1, "cpu": cpu}}))
    served = 1000 - found["one"], 1000 - found["one"] - found["two"]
    assert sum(served) * 0.008 == pytest.approx(10.0, rel=1e-6)
    assert backlog(scenario(0.004, 0.004, hosts={"worker": {"count": 1, "cpu": cpu}}))["one"] == 0
