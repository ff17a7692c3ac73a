"""Failures that come before an earlier one is recovered: which outage they belong to, and how that is said.

Oracle: rows by hand, and a run of a job that is restarted as a whole.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from small_runs import S, small_records

from analysis.report.content import Latency
from analysis.report.lines import latency
from analysis.report.sections import recovery_section
from analysis.runs.metrics import metrics_of
from analysis.runs.recoveries import recoveries
from analysis.runs.recovery_summary import Recovery
from analysis.runs.summary import summarise
from analysis.runs.tables import recoveries_table
from models.records.tables import NEVER
from models.scenario.reading import scenario_from
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane

COUNT = 1  # the operator that fails


def failure(host: int, at: float, detected: float, lost: int, caught_up: float | None) -> tuple[object, ...]:
    return (host, int(at * S), int(detected * S), NEVER, lost, _ns(caught_up), "crash")


def recovery(host: int, at: float, group: int, *ends: float | None) -> tuple[object, ...]:
    """A recovered key group; `ends`: detected, allocated, started, restored, replayed, caught up."""
    return (host, COUNT, group, 0, int(at * S), *map(_ns, ends), 5, 100)


def outage(group: int, begin: float, end: float | None) -> tuple[object, ...]:
    return (COUNT, group, int(begin * S), _ns(end))


def _ns(at_s: float | None) -> int:
    return NEVER if at_s is None else int(at_s * S)


ENDS = (2.0, 4.0, 5.0, 6.0, 7.0, 9.0)  # of the first failure, at 1 s
FIRST: dict[str, list[tuple[object, ...]]] = {
    "failures": [failure(0, 1.0, 2.0, 2, 9.0)],
    "recoveries": [recovery(0, 1.0, k, *ENDS) for k in range(4)],
    "outages": [outage(k, 1.0, 6.0) for k in range(4)],
}


def found(*more: tuple[object, ...], ends_others: bool = True, **tables: list[tuple[object, ...]]) -> list[Recovery]:
    """The recoveries of the first failure and more of them."""
    rows = {name: FIRST[name] + tables.get(name, []) for name in FIRST}
    rows["failures"] = rows["failures"] + [*more]
    return [*recoveries([small_records(**rows)], ends_others=ends_others)]


def lengths(one: Recovery) -> list[float | None]:
    return [one.detect_s, one.allocate_s, one.restart_s, one.restore_s, one.replay_s, one.catch_up_s, one.total_s]


def test_a_host_that_dies_while_the_job_is_down_is_recovered_with_it() -> None:
    first, second = found(failure(1, 1.5, 3.0, 0, 3.0))
    assert lengths(first) == [1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 8.0]
    assert first.within_s is None
    assert second.within_s == 1.0
    assert lengths(second) == [1.5, 1.0, 1.0, 1.0, 1.0, 2.0, 7.5]


def test_the_same_host_may_die_again() -> None:
    _, second = found(failure(0, 1.5, 3.0, 0, 3.0))
    assert (second.host, second.within_s, second.total_s) == ("worker-0", 1.0, 7.5)


def test_one_that_is_noticed_when_all_is_over_ends_then() -> None:
    _, second = found(failure(1, 1.5, 9.5, 0, 9.5))
    assert lengths(second) == [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0]


@pytest.mark.parametrize("at", [4.0, 5.5, 8.0, 9.5])
def test_one_that_dies_when_the_tasks_have_hosts_again_was_empty(at: float) -> None:
    _, second = found(failure(1, at, at + 0.25, 0, at + 0.25))
    assert second.within_s is None
    assert lengths(second) == [0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25]


def test_one_that_dies_before_was_empty() -> None:
    early, _ = found(failure(1, 0.5, 0.75, 0, 0.75))
    assert early.within_s is None


def test_where_hosts_fail_by_themselves_it_was_empty() -> None:
    _, second = found(failure(1, 1.5, 3.0, 0, 3.0), ends_others=False)
    assert second.within_s is None
    assert second.total_s == 1.5


def test_nothing_ends_while_the_job_has_no_slots() -> None:
    rows = {
        "failures": [failure(0, 1.0, 2.0, 2, None), failure(1, 1.5, 3.0, 0, 3.0)],
        "outages": [outage(k, 1.0, None) for k in range(4)],
    }
    first, second = recoveries([small_records(**rows)], ends_others=True)
    assert lengths(first) == [1.0, None, None, None, None, None, None]
    assert lengths(second) == [1.5, None, None, None, None, None, None]
    assert second.within_s == 1.0


def test_a_failure_that_takes_something_again_cuts_the_first_off() -> None:
    again = [recovery(1, 6.5, k, 7.0, 7.5, 8.0, 8.5, 8.75, 9.0) for k in range(2)]
    first, second = found(failure(1, 6.5, 7.0, 2, 9.0), recoveries=again)
    assert (first.cut_off, second.cut_off) == (True, False)
    # What had caught up before is not lost again.
    later = [recovery(1, 9.25, k, 9.5, 9.5, 9.5, 9.5, 9.5, 9.75) for k in range(2)]
    assert not any(one.cut_off for one in found(failure(1, 9.25, 9.5, 2, 9.75), recoveries=later))
    # Nor is what another host has had.
    other = [recovery(1, 6.5, k, 7.0, 7.5, 8.0, 8.5, 8.75, 9.0) for k in (4, 5)]
    assert not any(one.cut_off for one in found(failure(1, 6.5, 7.0, 2, 9.0), recoveries=other))


def marked() -> list[Recovery]:
    again = [recovery(1, 6.5, k, 7.0, 7.5, 8.0, 8.5, 8.75, 9.0) for k in range(2)]
    return found(failure(1, 1.5, 3.0, 0, 3.0), failure(1, 6.5, 7.0, 2, 9.0), recoveries=again)


def test_tables_and_pages_say_what_is_part_of_what() -> None:
    given = marked()
    table = recoveries_table(given)
    assert [row[0] for row in table.cells] == ["worker-0 (cut off)", "worker-1 (while down)", "worker-1"]
    title = table.brief.title
    assert title == "Recoveries (while down: with the failure before) (cut off: by a later failure)"
    assert len(title) <= 80
    section = recovery_section(given)
    assert section is not None
    assert "died while the job was down is recovered with the failure before" in section.words
    assert "cut off where a later failure takes something again" in section.words
    assert recovery_section(given[2:]) is not None and recovery_section(given[2:]).words == ""  # type: ignore[union-attr]


def test_a_time_is_shaded_once() -> None:
    given = marked()
    values = [0.1] * 10
    figure = latency(Latency([*range(10)], values, values, values, 1.0, 0), given)  # type: ignore[arg-type]
    shapes = figure.layout["shapes"]
    assert [one["x0"] for one in shapes if one["type"] == "line"] == [1.0, 1.5, 6.5]
    shaded = sorted((one["x0"], one["x1"]) for one in shapes if one["type"] == "rect")
    assert shaded[0][0] == 1.0
    assert shaded[-1][1] == 9.0
    assert all(end == begin for (_, end), (begin, _) in pairwise(shaded))
    assert [one["text"] for one in figure.layout["annotations"]] == ["worker-0 fails, then 1 more", "worker-1 fails"]


SERVICE = {"distribution": "deterministic", "value": "1 ms"}
JOB: dict[str, Any] = {
    "duration": "90 s",
    "engine": "flink",
    "workload": {"in": {"rate": "50 /s"}},
    "operators": {
        "in": {"kind": "source"},
        "count": {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 3, "key_groups": 6, "service": SERVICE},
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"tm": {"count": 6, "slots": 1}},
    "fault_tolerance": {"interval": "5 s"},
    "events": {
        "one": {"kind": "host-failure", "host": "tm-1", "at": "20 s"},
        "other": {"kind": "host-failure", "host": "tm-2", "at": "25 s"},
    },
}


def test_two_hosts_of_a_flink_job_that_die_in_turn_have_one_outage() -> None:
    made = scenario_from(JOB)
    summary = summarise(made, [simulate(made, plane=CompiledPlane)])
    first, second = summary.recoveries
    assert (first.within_s, second.within_s) == (None, 20.0)
    assert first.total_s is not None and second.total_s is not None
    assert first.failed_s + first.total_s == pytest.approx(second.failed_s + second.total_s, abs=1e-9)
    assert second.key_groups == 0
    # One recovery, in means and metrics.
    assert [one.recoveries for one in summary.recovery_means if one.phase == "total"] == [1]
    found = metrics_of(summary)
    assert found["recoveries.total_s.mean"] == pytest.approx(first.total_s)
    assert summary.broken is not None and summary.broken.times == 1
