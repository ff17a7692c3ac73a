"""The summary of a run: numbers by hand, clipping against plain loops, nothing where nothing was seen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from summaries import document_of as summarise

from analysis.runs.run_summary import Verdict
from analysis.runs.summary import operator_times, verdicts
from analysis.runs.summary import summarise as summarised
from analysis.statistics import student_t95
from models.scenario.job import FixedState

S = 10**9
# (operator, task, arrival, start, end); the window is [2 s, 10 s)
VISITS = [
    (1, 1, 1 * S, 1 * S, 3 * S),  # before the window: no wait counted; busy 1 s in the window
    (1, 1, 2 * S, 3 * S, 4 * S),  # waits 1 s
    (1, 2, 3 * S, 6 * S, 8 * S),  # waits 3 s
    (1, 1, 1 * S, 4 * S, 5 * S),  # before the window: waits 2 s of 3 s inside it, not counted as a wait
]


def by_hand(make, **more):
    return make.records(
        visits=VISITS,
        waiting=[(1, 2, 9 * S), (1, 2, 1 * S)],
        deliveries=[(2, 1 * S, 3 * S), (2, 2 * S, 4 * S), (2, 3 * S, 8 * S), (2, 9 * S, 10 * S)],
        messages=[(1 * S, "data", 7, 700), (2 * S, "data", 3, 300), (9 * S, "trim", 2, 32)],
        ledger=[(1, 4, 1, 2), (2, 4, 3, 0)],
        **more,
    )


def test_waits_and_sojourns_are_those_of_tuples_that_came_in_the_window(make):
    count = summarise(make.scenario(), [by_hand(make)])["operators"]["count"]
    assert count["processed"] == 2
    assert count["wait_s"] == {
        "mean": 2.0,
        "p50": 1.0,
        "p90": 3.0,
        "p95": 3.0,
        "p99": 3.0,
        "max": 3.0,
        "ci95": None,
    }
    assert count["sojourn_s"]["mean"] == 3.5  # (4 - 2) and (8 - 3)


def test_the_mean_queue_is_waiting_time_in_the_window_over_its_length(make):
    count = summarise(make.scenario(), [by_hand(make)])["operators"]["count"]
    # visits: 0 + 1 + 3 + 2; still waiting: 1 (from 9 s) and 8 (from before the window)
    assert count["queue_mean"] == (0 + 1 + 3 + 2 + 1 + 8) / 8


def test_utilisation_is_service_time_in_the_window_per_server(make):
    count = summarise(make.scenario(), [by_hand(make)])["operators"]["count"]
    assert count["utilisation"] == (1 + 1 + 2 + 1) / (2 * 8)


def test_time_in_service_without_a_core_does_not_count_as_utilisation(make):
    # Task 1 used 1 s of CPU in 3 s of service within the window, task 2 a half of its 2 s.
    records = by_hand(make, cpu=[(0, 7 * S, 1 * S), (1, 3 * S, 1 * S), (2, 2 * S, 1 * S)])
    assert summarise(make.scenario(), [records])["operators"]["count"]["utilisation"] == (1 + 1) / (2 * 8)
    binned = summarise(make.scenario(), [make.binned(records)])
    assert binned["operators"]["count"]["utilisation"] == (1 + 1) / (2 * 8)


def test_latency_is_source_to_sink_of_tuples_created_after_the_warm_up(make):
    latency = summarise(make.scenario(), [by_hand(make)])["latency_s"]
    assert (latency["count"], latency["p50"], latency["max"]) == (3, 2.0, 5.0)
    assert latency["mean"] == pytest.approx(8 / 3)


def test_messages_are_counted_from_the_warm_up_on(make):
    assert summarise(make.scenario(), [by_hand(make)])["messages"] == {
        "data": {"count": 3, "bytes": 300},
        "trim": {"count": 2, "bytes": 32},
    }


def test_the_guarantee_tells_sinks_from_state(make):
    one, scenario = by_hand(make), make.scenario()
    count = scenario.operators["count"].model_copy(update={"state": FixedState(group_bytes=1.0)})
    stateful = scenario.model_copy(update={"operators": {**scenario.operators, "count": count}})
    assert summarise(stateful, [one, one])["guarantee"] == {
        "lost": 6,
        "duplicated": 0,
        "state_lost": 2,
        "state_duplicated": 4,
    }


def test_what_an_operator_without_state_has_processed_is_not_lost_in_state(make):
    expected = {"lost": 3, "duplicated": 0, "state_lost": 0, "state_duplicated": 0}
    assert summarise(make.scenario(), [by_hand(make)])["guarantee"] == expected


def test_intervals_come_from_replications(make):
    def one(replication, wait_s):
        return make.records(replication, visits=[(1, 1, 2 * S, (2 + wait_s) * S, (3 + wait_s) * S)])

    count = summarise(make.scenario(), [one(0, 1), one(1, 3)])["operators"]["count"]
    assert count["wait_s"]["mean"] == 2.0
    assert count["wait_s"]["ci95"] == pytest.approx([2 - student_t95(1), 2 + student_t95(1)])
    assert count["queue_mean"] == 0.25
    assert count["queue_mean_ci95"] == pytest.approx([0.25 - student_t95(1) / 8, 0.25 + student_t95(1) / 8])


def test_the_phases_of_a_recovery_end_with_the_last_key_group(make):
    one = make.records(
        4,
        failures=[(1, 3 * S, 4 * S, -1, 2, 9 * S, "crash")],
        recoveries=[
            (1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 5 * S, 7 * S, 8 * S, 10, 100),
            (1, 1, 2, 0, 3 * S, 4 * S, 4 * S, 4 * S, 6 * S, 6 * S, 8 * S, 5, 50),
        ],
    )
    assert summarise(make.scenario(), [one])["recoveries"] == [
        {
            "replication": 4,
            "host": "worker-1",
            "failed_s": 3.0,
            "detect_s": 1.0,
            "allocate_s": 0.0,
            "restart_s": 0.0,
            "restore_s": 2.0,
            "replay_s": 1.0,
            "catch_up_s": 2.0,
            "total_s": 6.0,
            "cause": "crash",
            "key_groups": 2,
            "replayed": 15,
            "bytes": 150,
            "first_output_s": None,
            "first_visible_s": None,
            "last_replay_s": None,
            "within_s": None,
            "cut_off": False,
        }
    ]


def test_a_phase_that_one_key_group_did_not_end_is_none_and_so_is_what_follows(make):
    one = make.records(
        failures=[(1, 3 * S, 4 * S, -1, 2, -1, "crash")],
        recoveries=[
            (1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 5 * S, 7 * S, 8 * S, 10, 100),
            (1, 1, 2, 0, 3 * S, 4 * S, 4 * S, 4 * S, 6 * S, -1, -1, 5, 50),
        ],
    )
    (found,) = summarise(make.scenario(), [one])["recoveries"]
    assert [found[f"{phase}_s"] for phase in ("detect", "restore", "replay", "catch_up", "total")] == [
        1.0,
        2.0,
        None,
        None,
        None,
    ]


def test_a_host_with_nothing_on_it_is_recovered_when_its_failure_is_detected(make):
    one = make.records(failures=[(0, 3 * S, 4 * S, -1, 0, -1, "crash"), (1, 5 * S, -1, -1, 0, -1, "crash")])
    found = summarise(make.scenario(), [one])["recoveries"]
    assert [(entry["host"], entry["detect_s"], entry["total_s"]) for entry in found] == [
        ("worker-0", 1.0, 1.0),
        ("worker-1", None, None),
    ]


def test_a_failure_that_was_not_detected_or_not_wholly_taken_over_has_no_end(make):
    undetected = make.records(failures=[(1, 3 * S, -1, -1, 2, -1, "crash")])
    half = make.records(
        failures=[(1, 3 * S, 4 * S, -1, 2, -1, "crash")],
        recoveries=[(1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 5 * S, 5 * S, 6 * S, 1, 1)],
    )
    for one in (undetected, half):
        summary = summarise(make.scenario(targets={"recovery_s": 100.0}), [one])
        (found,) = summary["recoveries"]
        assert (found["restore_s"], found["total_s"], found["key_groups"]) == (None, None, 2)
        assert summary["targets"]["recovery_s"]["met"] is False


def test_a_host_that_was_fenced_is_told_from_one_that_crashed(make):
    one = make.records(
        failures=[(0, 3 * S, 3 * S, 4 * S, 0, 3 * S, "suspicion"), (1, 3 * S, 4 * S, -1, 0, 4 * S, "crash")]
    )
    found = summarise(make.scenario(), [one])["recoveries"]
    assert [(entry["host"], entry["cause"]) for entry in found] == [("worker-0", "suspicion"), ("worker-1", "crash")]


def test_two_failures_of_one_host_are_two_recoveries(make):
    one = make.records(
        failures=[(1, 3 * S, 4 * S, 5 * S, 1, 6 * S, "crash"), (1, 7 * S, 8 * S, -1, 1, 9 * S, "crash")],
        recoveries=[
            (1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 5 * S, 5 * S, 6 * S, 1, 1),
            (1, 1, 0, 0, 7 * S, 8 * S, 8 * S, 8 * S, 9 * S, 9 * S, 9 * S, 1, 1),
        ],
    )
    assert [entry["total_s"] for entry in summarise(make.scenario(), [one])["recoveries"]] == [3.0, 2.0]


def test_a_phase_is_never_negative(make):
    one = make.records(
        failures=[(1, 3 * S, 4 * S, -1, 1, 5 * S, "crash")],
        recoveries=[(1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 6 * S, 5 * S, 5 * S, 0, 0)],
    )
    (found,) = summarise(make.scenario(), [one])["recoveries"]
    assert (found["replay_s"], found["catch_up_s"], found["total_s"]) == (0.0, 0.0, 3.0)


@pytest.mark.parametrize("empty", ["no records", "empty records", "no window"])
def test_what_was_not_seen_is_none_and_never_nan(make, empty):
    records = {
        "no records": [],
        "empty records": [make.records()],
        "no window": [replace(make.random(1), warmup_ns=10 * S, tables=make.records().tables)],
    }[empty]
    summary = summarise(make.scenario(), records)
    json.dumps(summary, allow_nan=False)
    assert summary["latency_s"]["mean"] is None
    assert summary["guarantee"] == dict.fromkeys(["lost", "duplicated", "state_lost", "state_duplicated"])
    assert summary["operators"]["in"]["queue_mean"] is None
    assert summary["operators"]["count"]["wait_s"]["p99"] is None
    assert summary["recoveries"] == []


def test_an_operator_that_serves_but_saw_nothing_was_idle(make):
    count = summarise(make.scenario(), [make.records()])["operators"]["count"]
    assert (count["processed"], count["queue_mean"], count["utilisation"]) == (0, 0.0, 0.0)


@pytest.mark.parametrize("seed", range(8))
def test_clipped_totals_equal_plain_loops(make, seed):
    one = make.random(seed)
    low, high = one.warmup_ns, one.duration_ns
    for operator in range(3):
        waits, sojourns, waiting, busy = [], [], 0, 0
        visits = one.tables["visits"]
        for index, arrival, start, end in zip(
            *(visits[name].tolist() for name in ("operator", "arrival_ns", "start_ns", "end_ns")), strict=True
        ):
            if index != operator:
                continue
            if low <= arrival < high:
                waits.append(start - arrival)
                sojourns.append(end - arrival)
            waiting += max(0, min(start, high) - max(arrival, low))
            busy += max(0, min(end, high) - max(start, low))
        left = one.tables["waiting"]
        for index, arrival in zip(left["operator"].tolist(), left["arrival_ns"].tolist(), strict=True):
            waiting += (high - max(arrival, low)) if index == operator else 0
        for index, _, arrival, start, at, _ in zip(*(c.tolist() for c in one.tables["dropped"].values()), strict=True):
            if index == operator and arrival != -1:
                waiting += max(0, min(at if start == -1 else start, high) - max(arrival, low))
                busy += 0 if start == -1 else max(0, min(at, high) - max(start, low))
        for task, served, used in zip(*(c.tolist() for c in one.tables["cpu"].values()), strict=True):
            busy -= served - used if one.task_operator[task] == operator else 0
        found = operator_times(one, operator)
        assert found.waits.tolist() == waits
        assert found.sojourns.tolist() == sojourns
        assert (found.waiting_ns, found.busy_ns) == (waiting, busy)


def test_a_service_that_did_not_end_is_busy_until_the_end_and_has_no_sojourn(make):
    one = make.records(visits=[(1, 1, 8 * S, 9 * S, -1)])
    count = summarise(make.scenario(), [one])["operators"]["count"]
    assert (count["processed"], count["wait_s"]["mean"], count["sojourn_s"]["mean"]) == (0, 1.0, None)
    assert count["utilisation"] == 1 / 16


TARGETS = {"latency_p99_s": 5.0, "latency_mean_s": 1.0, "lost": 3, "utilisation": 0.5, "recovery_s": 1.0}


def test_targets_are_highest_values(make):
    summary = summarise(make.scenario(targets=TARGETS), [by_hand(make)])
    assert {name: verdict["met"] for name, verdict in summary["targets"].items()} == {
        "latency_p99_s": True,
        "latency_mean_s": False,
        "lost": True,
        "utilisation": True,
        "recovery_s": True,  # nothing failed
    }
    assert summary["targets"]["latency_p99_s"] == {"limit": 5.0, "value": 5.0, "met": True}


@pytest.mark.parametrize(
    ("sinks", "state", "value", "met"),
    [(0, 0, 0, True), (0, 149, 149, False), (5, 2, 5, False), (None, 7, 7, False), (None, 0, None, None)],
)
def test_tuples_lost_in_state_miss_the_target_of_none_lost(make, sinks, state, value, met):
    scenario = make.scenario(targets={"lost": 0})
    summary = summarised(scenario, [by_hand(make)])
    seen = replace(summary, guarantee=replace(summary.guarantee, lost=sinks, state_lost=state))
    assert verdicts(scenario, seen) == {"lost": Verdict(0, value, met)}


def test_a_recovery_that_did_not_end_misses_its_target(make):
    one = make.records(
        failures=[(1, 3 * S, 4 * S, -1, 1, -1, "crash")],
        recoveries=[(1, 1, 0, 0, 3 * S, 4 * S, 4 * S, 4 * S, 5 * S, -1, -1, 0, 0)],
    )
    verdict = summarise(make.scenario(targets={"recovery_s": 100.0}), [one])["targets"]["recovery_s"]
    assert verdict == {"limit": 100.0, "value": None, "met": False}


def test_the_summary_has_the_agreed_keys(make):
    summary = summarise(make.scenario(), [make.random(1)])
    agreed = {"scenario", "seed", "duration_s", "operators", "latency_s", "migrations", "recoveries"}
    assert agreed | {"messages", "guarantee"} <= set(summary)
    assert set(summary["latency_s"]) >= {"mean", "p50", "p90", "p95", "p99", "p999", "max", "count"}
    assert set(summary["operators"]["count"]) >= {
        "processed",
        "wait_s",
        "sojourn_s",
        "queue_mean",
        "utilisation",
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_replications_are_listed_apart(make):
    summary = summarise(make.scenario(), [make.random(1, 0), make.random(2, 1)])
    alone = summarise(make.scenario(), [make.random(2, 1)])
    second = summary["replications"][1]
    assert second["replication"] == 1
    assert second["latency_s"] == {name: alone["latency_s"][name] for name in second["latency_s"]}


def test_replications_with_other_operators_are_refused(make):
    one = make.records()
    other = type(one)(**{**one.__dict__, "operators": ("x", "y", "z")})
    with pytest.raises(ValueError, match="same operators"):
        summarise(make.scenario(), [one, other])


def test_numbers_are_plain_python(make):
    def leaves(value):
        if isinstance(value, dict):
            return [leaf for one in value.values() for leaf in leaves(one)]
        return [leaf for one in value for leaf in leaves(one)] if isinstance(value, list) else [value]

    kinds = {type(leaf) for leaf in leaves(summarise(make.scenario(), [make.random(3)]))}
    assert kinds <= {int, float, str, type(None), bool}
    assert not any(issubclass(kind, np.generic) for kind in kinds)
