"""Rebalances in the summary, in metrics and in tables, from rows by hand and beside a plain reading of them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from small_runs import S, binned_records, small_records, small_scenario
from summaries import document_of

from analysis.documents import from_document, to_document
from analysis.runs.metrics import metrics_of, possible_metrics
from analysis.runs.rebalances import rebalances
from analysis.runs.run_summary import REBALANCE_PHASES, Rebalance, RunSummary
from analysis.runs.summary import summarise
from analysis.runs.tables import rebalances_table
from analysis.runs.undone_moves import UndoneMoves, undone_moves
from models.records.tables import NEVER, TABLES, RunRecords
from models.scenario.scenario import Scenario

NAMES = [column.name for column in TABLES["rebalances"]]
DONE = {
    "number": 0,
    "protocol": "ccr",
    "requested_ns": 100 * S,
    "begun_ns": 101 * S,
    "paused_ns": 101 * S + 1,
    "prepared_ns": 102 * S,
    "committed_ns": 103 * S,
    "killed_ns": 110 * S,
    "up_ns": 118 * S,
    "first_init_ns": 114 * S,
    "last_init_ns": 119 * S,
    "resumed_ns": 120 * S,
    "over_ns": 121 * S,
    "subtasks": 3,
    "captured": 7,
    "outcome": "done",
}
CALLED_OFF = DONE | dict.fromkeys([name for name in NAMES[6:12] if name != "committed_ns"], NEVER)
CALLED_OFF |= {"committed_ns": NEVER, "outcome": "called off", "over_ns": 160 * S, "captured": 0}


EIGHT = small_scenario(workload={"in": {"rate": "8 /s", "keys": {"distribution": "uniform", "count": 4}}})


def found_in(records: list[RunRecords]) -> tuple[Rebalance, ...]:
    """What the summary of a job with 8 tuples/s says."""
    return rebalances(EIGHT, records)


def row(made: dict[str, object] = DONE, **changes: object) -> tuple[object, ...]:
    return tuple((made | changes)[name] for name in NAMES)


def deliveries(*parts: tuple[int, int, float]) -> list[tuple[object, ...]]:
    """Deliveries of (begin, end, rate) [s, s, 1/s], each a second after it was born."""
    at = [begin * S + int(k * S / rate) for begin, end, rate in parts for k in range(int((end - begin) * rate))]
    return [(2, max(0, when - S), when) for when in at]


def run(rows: list[tuple[object, ...]], **tables: list[tuple[object, ...]]) -> RunRecords:
    return replace(small_records(rebalances=rows, **tables), duration_ns=600 * S)


# 8/s, but nothing in [103, 115), then at 10/s until the backlog of 12 s is worked off.
OUTAGE = deliveries((0, 103, 8.0), (115, 163, 10.0), (163, 600, 8.0))


def test_phases_count_from_the_request_but_for_lengths_of_drain_and_command() -> None:
    (found,) = found_in([run([row()], deliveries=OUTAGE)])
    assert (found.requested_s, found.begun_s, found.prepared_s) == (100.0, 1.0, 2.0)
    assert (found.drain_s, found.command_s, found.killed_s) == (2.0, 7.0, 10.0)
    assert (found.up_s, found.first_init_s, found.last_init_s) == (18.0, 14.0, 19.0)
    assert (found.unpause_s, found.over_s, found.restore_s) == (20.0, 21.0, 15.0)
    assert (found.subtasks, found.captured, found.outcome) == (3, 7, "done")
    assert [phase for phase, _, _ in found.ends()] == list(REBALANCE_PHASES)


def test_what_it_did_not_come_to_is_none() -> None:
    (found,) = found_in([run([row(CALLED_OFF)], deliveries=OUTAGE)])
    assert (found.outcome, found.begun_s, found.over_s) == ("called off", 1.0, 60.0)
    ends = (
        "drain_s",
        "command_s",
        "killed_s",
        "first_init_s",
        "restore_s",
        "caught_up_s",
        "stable_mean_s",
        "unpause_s",
    )
    assert {getattr(found, name) for name in ends} == {None}
    assert [phase for phase, _, _ in found.ends()] == ["wait"]


def test_the_command_begins_with_the_run_where_nothing_is_saved() -> None:
    (found,) = found_in([run([row(DONE, protocol="dsm", prepared_ns=NEVER, committed_ns=NEVER)])])
    assert (found.drain_s, found.command_s) == (None, 9.0)
    assert found.ends()[:3] == (("wait", 0.0, 1.0), ("drain", 1.0, 1.0), ("command", 1.0, 10.0))


def test_a_delivery_that_left_its_task_before_the_kill_is_no_restore() -> None:
    late = [*deliveries((0, 103, 8.0)), (2, 102 * S, 110 * S + 5)]
    (found,) = found_in([run([row()], deliveries=[*late, (2, 104 * S, 116 * S)])])
    assert found.restore_s == 16.0
    assert found_in([run([row()], deliveries=late)])[0].restore_s is None


def test_caught_up_is_the_last_delivery_of_an_old_tuple() -> None:
    old = [(2, 99 * S, 117 * S), (2, 100 * S, 118 * S)]
    assert found_in([run([row()], deliveries=[*OUTAGE, *old])])[0].caught_up_s == 17.0


def stable_by_hand(at_s: np.ndarray, from_s: int, bin_s: int, rate: float) -> float | None:
    """The first window of 60 s, second by second, with all its bins within 20 % of the rate."""
    for begin in range(from_s, 600 - 60 + 1):
        edges = range(begin, begin + 60, bin_s)
        counts = [((at_s >= edge) & (at_s < edge + bin_s)).sum() for edge in edges]
        if all(0.8 * rate <= count / bin_s <= 1.2 * rate for count in counts):
            return begin - 100.0
    return None


@pytest.mark.parametrize("rate", [9.0, 10.0, 14.0, 40.0])
@pytest.mark.parametrize("until", [120, 163, 400])
def test_the_output_is_stable_from_the_first_minute_with_the_rate_of_before(rate: float, until: int) -> None:
    rows = deliveries((0, 103, 8.0), (115, until, rate), (until, 600, 8.0))
    (found,) = found_in([run([row()], deliveries=rows)])
    at_s = np.array([delivered for _, _, delivered in rows]) / S  # type: ignore[operator]
    assert found.stable_mean_s == stable_by_hand(at_s, 119, 60, 8.0)
    assert found.stable_bins_s == stable_by_hand(at_s, 119, 10, 8.0)
    if rate == 9.0:
        assert found.stable_bins_s == found.stable_mean_s == 19.0


def test_a_minute_that_has_the_rate_by_accident_does_not_count_alone() -> None:
    # Two seconds without output before 130 s, then 25 % above the rate until 250 s: the mean of [119, 179) is within
    # 20 % only thanks to the gap, and that of later minutes is not.
    rows = deliveries((0, 103, 8.0), (115, 128, 8.0), (130, 250, 10.0), (250, 600, 8.0))
    at_s = np.array([delivered for _, _, delivered in rows]) / S  # type: ignore[operator]
    assert stable_by_hand(at_s, 119, 60, 8.0) == 19.0
    (found,) = found_in([run([row()], deliveries=rows)])
    # The first minute from which on 9.6 /s are not exceeded has 48 s at 10 /s and 12 s at 8 /s.
    assert found.stable_mean_s == 102.0


def test_a_window_over_the_outage_is_not_stable_though_its_mean_is() -> None:
    rows = deliveries((0, 103, 8.0), (115, 150, 10.0), (150, 600, 8.0))
    at_s = np.array([delivered for _, _, delivered in rows]) / S  # type: ignore[operator]
    assert stable_by_hand(at_s, 101, 60, 8.0) == 1.0
    assert found_in([run([row()], deliveries=rows)])[0].stable_mean_s == 19.0


def test_nothing_is_stable_without_a_whole_window() -> None:
    short = replace(run([row()], deliveries=OUTAGE), duration_ns=170 * S)
    assert found_in([short])[0].stable_mean_s is None


def test_an_output_is_stable_before_the_next_rebalance_or_not_at_all() -> None:
    rows = deliveries((0, 103, 8.0), (115, 600, 8.0))

    def stable(begun_s: int) -> float | None:
        second = row(DONE, number=1, requested_ns=100 * S, begun_ns=begun_s * S)
        return found_in([run([row(), second], deliveries=rows)])[0].stable_bins_s

    assert (stable(179), stable(178)) == (19.0, None)


def test_histograms_know_the_same_to_the_interval() -> None:
    one = run([row()], deliveries=[*OUTAGE, (2, 99 * S, 104 * S + 5)])
    (exact,), (found,) = found_in([one]), found_in([binned_records(one)])
    assert exact.restore_s is not None and found.restore_s is not None
    assert exact.restore_s - 1 < found.restore_s <= exact.restore_s
    assert (exact.caught_up_s, found.caught_up_s) == (pytest.approx(4.0), None)
    assert replace(found, restore_s=exact.restore_s, caught_up_s=exact.caught_up_s) == exact


def test_tuples_are_lost_by_the_rebalance_that_has_begun_last() -> None:
    second = row(DONE, number=1, requested_ns=150 * S, begun_ns=200 * S)
    dropped = [
        (1, 1, 50 * S, -1, at * S, reason)
        for at, reason in [
            (90, "kill"),
            (110, "kill"),
            (199, "parcel"),
            (150, "duplicate"),
            (150, "crash"),
            (201, "kill"),
        ]
    ]
    assert [one.lost for one in found_in([run([row(), second], dropped=dropped)])] == [2, 1]


REPLAYS: list[tuple[object, ...]] = [
    (60 * S, 0, 4, "timeout"),
    (150 * S, 0, 5, "timeout"),
    (155 * S, 0, 2, "rollback"),
]


def acked(expiry: str) -> Scenario:
    tolerance = {"method": "acker", "guarantee": "at-least-once", "acker": {"timeout_s": 30.0, "expiry": expiry}}
    return small_scenario(fault_tolerance=tolerance)


@pytest.mark.parametrize(("expiry", "recovered"), [("rotating", 90.0), ("exact", 95.0)])
def test_it_has_recovered_with_the_last_tuple_that_was_emitted_again(expiry: str, recovered: float) -> None:
    # The second one is slow, but not so slow that its root fails at a tick; the last one only with exact time-outs.
    rows: list[tuple[object, ...]] = [(2, 119 * S, 190 * S), (2, 170 * S, 180 * S), (2, 160 * S, 195 * S)]
    (found,) = rebalances(acked(expiry), [run([row()], deliveries=rows, replays=REPLAYS)])
    assert (found.replayed, found.failed, found.recovered_s) == (7, 2, recovered)


def test_what_fails_after_the_last_such_delivery_is_not_recovered() -> None:
    rows: list[tuple[object, ...]] = [(2, 119 * S, 190 * S)]
    again: list[tuple[object, ...]] = [(560 * S, 0, 1, "timeout")]
    late: list[tuple[object, ...]] = [(2, 500 * S, 570 * S)]
    assert rebalances(acked("exact"), [run([row()], deliveries=late, replays=again)])[0].recovered_s == 470.0
    # The tuples that were emitted at 560 s would fail at 620 s, after the end.
    assert rebalances(acked("rotating"), [run([row()], deliveries=late, replays=again)])[0].recovered_s is None
    later = [*REPLAYS, (200 * S, 0, 1, "timeout")]
    assert rebalances(acked("exact"), [run([row()], deliveries=rows, replays=later)])[0].recovered_s is None
    (found,) = rebalances(acked("exact"), [run([row()], deliveries=rows)])
    assert (found.replayed, found.recovered_s) == (0, None)
    (found,) = found_in([run([row()], deliveries=rows)])
    assert (found.replayed, found.failed) == (None, None)


def test_the_document_and_the_metrics_have_rebalances() -> None:
    scenario, records = EIGHT, run([row(), row(CALLED_OFF, number=1)], deliveries=OUTAGE)
    document = document_of(scenario, [records])["rebalances"]
    assert [one["outcome"] for one in document] == ["done", "called off"]
    assert document[0]["restore_s"] == 15.0
    summary = summarise(scenario, [records])
    assert from_document(RunSummary, to_document(summary)) == summary
    found = metrics_of(summarise(scenario, [records]))
    assert (found["rebalances.count"], found["rebalances.unfinished"]) == (2.0, 0.0)
    assert (found["rebalances.restore_s.mean"], found["rebalances.over_s.max"]) == (15.0, 60.0)
    assert (found["rebalances.captured"], found["rebalances.lost"]) == (7.0, 0.0)
    # One that is called off is not complete: its times are not those of a move.
    assert (found["moves.cancelled"], found["moves.completion_s"]) == (1.0, None)
    assert undone_moves([found]) == UndoneMoves(unfinished=0, cancelled=1)
    done = metrics_of(summarise(scenario, [run([row()], deliveries=OUTAGE)]))
    assert (done["moves.cancelled"], done["moves.completion_s"]) == (0.0, 21.0)
    assert {name for name in found if name.startswith("rebalances")} <= set(possible_metrics(scenario))
    none = metrics_of(summarise(scenario, [small_records()]))
    assert not any(name.startswith("rebalances") for name in none)


def test_the_terminal_has_the_times_that_matter_and_who_was_called_off() -> None:
    both = found_in([run([row(), row(CALLED_OFF, number=1)], deliveries=OUTAGE)])
    heads = ("protocol", "at", "drain", "restore", "last INIT", "caught up", "stable", "lost")
    brief = rebalances_table(both[:1]).brief
    assert brief.heads == heads
    assert brief.cells[0][:5] == ("ccr", "100 s", "2 s", "15 s", "19 s")
    assert rebalances_table(both).brief.heads[:2] == ("protocol", "outcome")
    followed = replace(both[0], replayed=5, failed=0)
    assert rebalances_table([followed]).brief.heads[-1] == "replayed"


def test_a_bar_of_phases_never_runs_backwards() -> None:
    early = Rebalance(**{one.name: 1.0 for one in fields(Rebalance)} | {"begun_s": 3.0, "drain_s": 2.0})  # type: ignore[arg-type]
    ends = [end for _, _, end in early.ends()]
    assert ends == sorted(ends) == [3.0, 5.0, 5.0, 5.0, 5.0, 5.0]
