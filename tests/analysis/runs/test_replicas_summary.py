"""What the summary and the page say of active replicas and of broken time, on rows worked out by hand."""

from __future__ import annotations

import pytest
from small_runs import S, small_records

from analysis.report.sections import replicas_section, replicas_worth
from analysis.runs.recoveries import broken, replicas
from analysis.runs.recovery_summary import Outages, Replicas
from analysis.runs.tables import replicas_table

# operator, key group, host, why, requested, from, until, end, failed, replayed, bytes
REPLICAS: list[tuple[object, ...]] = [
    (1, 0, 1, "start", 0, 0, 5 * S, "took over", 4 * S, 0, 0),
    (1, 1, 0, "start", 0, 0, 5 * S, "lost", 4 * S, 0, 0),
    (1, 0, 0, "renewed", 6 * S, 8 * S, -1, "", -1, 7, 700),
    (1, 1, 0, "renewed", 6 * S, -1, 9 * S, "called off", -1, 0, 0),
]


def found_in(*rows: tuple[object, ...]) -> Replicas:
    died = [(0, 4 * S, 5 * S, -1, 1, -1, "crash")]
    found = replicas([small_records(replicas=list(rows), failures=died, outages=[(1, 0, 4 * S, 5 * S)])])
    assert found is not None
    return found


def test_counts_pauses_and_time_in_step() -> None:
    found = found_in(*REPLICAS)
    assert [getattr(found, key) for key in ("groups", "took_over", "lost", "renewed")] == [2, 1, 1, 1]
    assert (found.pause_mean_s, found.pause_max_s) == (1.0, 1.0)
    assert found.protected_share == pytest.approx((4 + 4 + 2) / (2 * 10))
    assert [one.pause_s for one in found.each] == [1.0, None, None, None]
    assert [one.end for one in found.each] == ["took over", "lost", None, "called off"]


def test_without_replicas_nothing_is_said() -> None:
    assert replicas([small_records()]) is None
    assert broken([small_records()]) is None
    assert replicas_section(None) is None


def test_the_page_says_what_replicas_were_good_for() -> None:
    found = found_in(*REPLICAS)
    assert [row[2] for row in replicas_table(found.each).cells] == [
        "took over",
        "lost",
        "in step at the end",
        "called off",
    ]
    assert replicas_worth(found).startswith("One replica took over; at most 1\N{NO-BREAK SPACE}s passed")


def test_the_page_says_what_was_broken() -> None:
    said = replicas_worth(found_in(*REPLICAS), broken_in((0, 1, 3)))
    assert said.endswith("Some key group or task had no live owner 20\N{NO-BREAK SPACE}% of it.")


def broken_in(*outages: tuple[int, int, int]) -> Outages:
    """With (key group, from, until) [s] in which it had nobody; -1 for the end of the run."""
    rows = [(1, group, begin * S, end * S if end >= 0 else -1) for group, begin, end in outages]
    found = broken([small_records(failures=[(0, 1 * S, 1 * S, -1, 2, -1, "crash")], outages=rows)])
    assert found is not None
    return found


def test_times_that_overlap_are_broken_once() -> None:
    found = broken_in((0, 1, 3), (1, 1, 2), (2, 2, 4), (3, 6, 7))
    assert found == Outages(2, 4.0, 3.0, pytest.approx(0.4))


def test_what_nobody_takes_is_broken_to_the_end() -> None:
    assert broken_in((0, 7, -1), (0, 2, 3)).total_s == 4.0


def test_a_failure_that_breaks_nothing_is_no_broken_time() -> None:
    assert broken_in() == Outages(0, 0.0, 0.0, 0.0)


def test_a_replica_protects_until_the_first_of_the_two_hosts_dies() -> None:
    standing = [(1, 0, 1, "start", 0, 0, -1, "", -1, 0, 0)]
    own = [(1, 9 * S, -1, -1, 0, -1, "crash")]
    for failures, outages, share in (
        ([], [], 1.0),
        (own, [], 0.9),  # nobody detected it before the end
        (own, [(1, 0, 6 * S, -1)], 0.6),
        (own, [(1, 1, 6 * S, -1), (2, 0, 5 * S, -1)], 0.9),  # others
    ):
        found = replicas([small_records(replicas=standing, failures=failures, outages=outages)])
        assert found is not None
        assert found.protected_share == pytest.approx(share)
