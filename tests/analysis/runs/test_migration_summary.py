"""Moves of key groups in the summary, on the page and on the terminal, from rows by hand."""

from __future__ import annotations

import pytest
from small_runs import S, small_records, small_scenario
from summaries import document_of as summarise

from analysis.runs.migration_kinds import migrations

ROWS: list[tuple[object, ...]] = [
    ("cpa", 1, 3, 0, 1, 4 * S, 4 * S + 10, 5 * S, 6 * S, 7, 700, 3 * S, "event", -1),
    ("cpal", 1, 2, 1, 0, 5 * S, -1, -1, -1, 0, 0, -1, "balance", int(5.5 * S)),
]


def test_lengths_are_from_pause_to_going_on_and_from_request_to_end() -> None:
    one, other = migrations([small_records(migrations=ROWS)])
    assert (one.operator, one.key_group, one.origin, one.target) == ("count", 3, "worker-0", "worker-1")
    assert one.requested_s == 4.0
    assert one.pause_s == pytest.approx(1.0 - 10e-9)
    assert one.completion_s == 2.0
    assert (one.replayed, one.bytes, one.worst_s, other.worst_s) == (7, 700, 3.0, None)
    assert (other.protocol, other.pause_s, other.completion_s) == ("cpal", None, None)
    assert (one.cause, other.cause) == ("event", "balance")
    assert (one.cancelled_s, other.cancelled_s) == (None, 5.5)


def test_replications_follow_each_other() -> None:
    found = summarise(small_scenario(), [small_records(k, migrations=ROWS[:1]) for k in range(2)])["migrations"]
    assert [one["replication"] for one in found] == [0, 1]
