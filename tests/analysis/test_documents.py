"""Documents of dataclasses: what is written is read again, with the keys that JSON has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import pytest
from small_runs import S, small_records, small_scenario

from analysis.documents import from_document, to_document
from analysis.runs.run_summary import RunSummary
from analysis.runs.summary import summarise


@dataclass(frozen=True)
class Inner:
    origin: Annotated[str, "from"]
    ends: tuple[float, float] | None


@dataclass(frozen=True)
class Outer:
    name: str
    each: tuple[Inner, ...]
    by_name: Mapping[str, Inner]
    one: Inner | None


def test_a_value_is_read_as_it_was_written() -> None:
    inner = Inner("a", (0.0, 1.5))
    value = Outer("x", (inner, Inner("b", None)), {"k": inner}, None)
    document = to_document(value)
    assert list(document) == ["name", "each", "by_name", "one"]
    assert document["each"][0] == {"from": "a", "ends": [0.0, 1.5]}
    assert from_document(Outer, json.loads(json.dumps(document))) == value


def test_a_missing_key_is_named() -> None:
    with pytest.raises(KeyError, match="from"):
        from_document(Inner, {"ends": None})


def test_the_summary_of_a_run_is_read_as_it_was_written() -> None:
    records = small_records(
        visits=[(1, 1, 3 * S, 3 * S, 4 * S)],
        deliveries=[(2, 3 * S, 5 * S)],
        failures=[(0, 1 * S, 2 * S, -1, 0, -1, "crash")],
        migrations=[("cpa", 1, 3, 0, 1, 4 * S, 4 * S, 5 * S, 6 * S, 7, 700, 3 * S, "event", -1)],
        replicas=[(1, 0, 1, "start", 0, 0, 5 * S, "took over", 4 * S, 0, 0)],
    )
    summary = summarise(small_scenario(), [records])
    assert summary.migrations and summary.recoveries and summary.replicas
    assert from_document(RunSummary, json.loads(json.dumps(to_document(summary)))) == summary
