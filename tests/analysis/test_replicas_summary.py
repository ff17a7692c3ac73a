"""What the summary and the page say of active replicas and of broken time, on rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import S, small_records

from analysis.replicas import broken, replicas
from scenarios.report_rows import replicas as replica_rows
from scenarios.report_rows import replicas_said

# operator, key group, host, why, requested, from, until, end, failed, replayed, bytes
REPLICAS: list[tuple[object, ...]] = [
    (1, 0, 1, "start", 0, 0, 5 * S, "took over", 4 * S, 0, 0),
    (1, 1, 0, "start", 0, 0, 5 * S, "lost", 4 * S, 0, 0),
    (1, 0, 0, "renewed", 6 * S, 8 * S, -1, "", -1, 7, 700),
    (1, 1, 0, "renewed", 6 * S, -1, 9 * S, "called off", -1, 0, 0),
]


def found_in(*rows: tuple[object, ...]) -> dict[str, Any]:
    found = replicas([small_records(replicas=list(rows))])
    assert found is not None
    return found


def test_counts_pauses_and_time_in_step() -> None:
    found = found_in(*REPLICAS)
    assert [found[key] for key in ("groups", "took_over", "lost", "renewed")] == [2, 1, 1, 1]
    assert (found["pause_mean_s"], found["pause_max_s"]) == (1.0, 1.0)
    assert found["protected_share"] == pytest.approx((4 + 4 + 2) / (2 * 10))
    assert [one["pause_s"] for one in found["each"]] == [1.0, None, None, None]
    assert [one["end"] for one in found["each"]] == ["took over", "lost", None, "called off"]


def test_without_replicas_nothing_is_said() -> None:
    assert replicas([small_records()]) is None
    assert broken([small_records()]) is None
    assert replica_rows({"replicas": None}) == ()
    assert replicas_said({"replicas": None}) == ""


def test_the_page_says_what_replicas_were_good_for() -> None:
    found = found_in(*REPLICAS)
    assert [one.end for one in replica_rows({"replicas": found})] == [
        "took over",
        "lost",
        "in step at the end",
        "called off",
    ]
    assert replicas_said({"replicas": found}).startswith("One replica took over; at most 1\N{NO-BREAK SPACE}s passed")


def failed(*rows: tuple[object, ...], **more: list[tuple[object, ...]]) -> dict[str, Any]:
    found = broken([small_records(failures=list(rows), **more)])
    assert found is not None
    return found


def recovery(host: int, group: int, failed_s: int, restored_s: int) -> tuple[object, ...]:
    restored = restored_s * S if restored_s >= 0 else -1
    return (host, 1, group, 0, failed_s * S, failed_s * S, restored, restored, restored, 0, 0)


def test_times_that_overlap_are_broken_once() -> None:
    rows = [recovery(0, 0, 1, 3), recovery(0, 1, 1, 2), recovery(1, 2, 2, 4), recovery(1, 3, 6, 7)]
    found = failed(
        (0, 1 * S, 1 * S, -1, 2, 3 * S, "crash"),
        (1, 2 * S, 2 * S, 3 * S, 1, 4 * S, "crash"),
        (1, 6 * S, 6 * S, -1, 1, 7 * S, "crash"),
        recoveries=rows,
    )
    assert found == {"times": 2, "total_s": 4.0, "longest_s": 3.0, "share": pytest.approx(0.4)}


def test_what_is_lost_again_is_broken_until_it_is_restored() -> None:
    rows = [recovery(0, 0, 1, -1), recovery(1, 0, 3, 5)]
    failures = [(0, 1 * S, 1 * S, -1, 1, -1, "crash"), (1, 3 * S, 3 * S, -1, 1, 5 * S, "crash")]
    assert failed(*failures, recoveries=rows)["total_s"] == 4.0


def test_what_nobody_takes_is_broken_to_the_end() -> None:
    assert failed((0, 7 * S, 7 * S, -1, 2, -1, "crash"), recoveries=[recovery(0, 0, 7, 8)])["total_s"] == 3.0
