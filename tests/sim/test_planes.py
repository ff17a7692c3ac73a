"""The compiled plane against its specification: equal rows, in every table, for the same scenario.

Oracle: `sim.plain`, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_jobs import random_job, storm

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

METHODS: list[dict[str, Any]] = [
    {},
    {"guarantee": "at-least-once"},
    {"guarantee": "at-most-once"},
    {"method": "none"},
]


def differences(one: RunRecords, other: RunRecords) -> list[str]:
    """Columns that are not equal, and other fields."""
    found = [
        f"{name}.{column}"
        for name, columns in one.tables.items()
        for column, values in columns.items()
        if not np.array_equal(values, other.tables[name][column])
    ]
    fields = ("operators", "tasks", "task_operator", "hosts", "servers", "detail")
    return found + [field for field in fields if getattr(one, field) != getattr(other, field)]


def noticed(differs: Callable[[int], list[str]], seeds: Iterable[int]) -> bool:
    """Whether a seed shows that something was broken on purpose: by other rows, or by an error."""
    for seed in seeds:
        try:
            if differs(seed):
                return True
        except (AssertionError, RuntimeError, ValueError, IndexError):
            return True
    return False


def on_both(raw: dict[str, Any]) -> list[str]:
    """Differences between the planes for the keys of a scenario."""
    # Crashes may come after the last arrival: the rule that events lie within the duration is about files.
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    return differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane))


def test_a_round_of_checkpoints_comes_before_a_timer_that_was_set_after_it() -> None:
    # At 1.0 s the round of 1.2 s is set, at 1.1 s the repair of h-1 for 1.2 s: p[0] must find it dead.
    raw = {
        "duration": "2 s",
        "workload": {"src": {"rate": "20 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {
                "kind": "map",
                "inputs": {"src": "key"},
                "key_groups": 2,
                "service": {"distribution": "exponential", "mean": "1 ms"},
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"p": "shuffle"}},
        },
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-0", "p-0": "h-0", "out-0": "h-0"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "600 ms", "staggered": True},
        "detector": {"heartbeat": "200 ms", "timeout": "300 ms"},
        "events": {"crash": {"at": "1 s", "kind": "host-failure", "host": "h-1", "repair": "200 ms"}},
    }
    assert on_both(raw) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), stormy=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows(seed: int, stormy: bool, method: dict[str, Any]) -> None:
    make = storm if stormy else random_job
    assert on_both(make(Random(seed), fault_tolerance=method)) == []


@pytest.mark.parametrize("most", [255, 256, 300])
def test_a_tuple_may_have_more_outputs_than_a_byte_counts(most: int) -> None:
    raw = {
        "duration": "1 s",
        "workload": {"src": {"rate": "5 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {
                "kind": "map",
                "inputs": {"src": "shuffle"},
                "service": {"distribution": "exponential", "mean": "1 ms"},
                "selectivity": most,
            },
            "out": {"kind": "sink", "inputs": {"p": "shuffle"}},
        },
        "hosts": {"h": {"count": 2}},
        "fault_tolerance": {"method": "acker"},
    }
    assert on_both(raw) == []
    assert on_both(raw | {"fault_tolerance": {"method": "none"}}) == []


def test_a_checkpoint_comes_before_a_repair_that_was_set_after_it() -> None:
    # The checkpoint host h-0 has no task. At 5.5 s the round at 6 s is set, and at 5.7 s, when the failure is detected,
    # the repair at 6 s: the first timer since, so it has the number that the round was given without taking one.
    raw = {
        "duration": "8 s",
        "workload": {"src": {"rate": "20 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "q": {
                "kind": "map",
                "inputs": {"src": "key"},
                "service": {"distribution": "deterministic", "value": "1 ms"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-1", "q-0": "h-2", "out-0": "h-1"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s", "staggered": True},
        "detector": {"heartbeat": "1 s", "timeout": "700 ms"},
        "events": {"crash": {"at": "5400 ms", "kind": "host-failure", "host": "h-0", "repair": "600 ms"}},
    }
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    plain, fast = simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)
    assert differences(plain, fast) == []
    assert fast.tables["checkpoints"]["checkpoint_host"].tolist() == [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        make = storm if seed % 3 == 0 else random_job
        assert on_both(make(Random(seed), fault_tolerance=METHODS[seed % 4])) == [], seed
