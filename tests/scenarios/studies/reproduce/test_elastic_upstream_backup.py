"""The pieces of the study of elastic upstream backup: what is counted, and what a recovery takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import analysis.report.page as page_module
from analysis.report import render_page
from analysis.report.parts import ClaimRow
from scenarios.pages.claims import claims_page
from scenarios.pages.elastic_claims import elastic_charts, methods_table, skew_table
from scenarios.studies.reproduce.elastic_runs import (
    EVENT,
    METHODS,
    MIB,
    Delayed,
    Paused,
    Piece,
    Recovered,
    Shipped,
    Skewed,
    Traffic,
)
from scenarios.studies.reproduce.elastic_scale_up import PRINTED as SCALED_PRINTED
from scenarios.studies.reproduce.elastic_scale_up import Scaled, scaled_pieces, spikes
from scenarios.studies.reproduce.elastic_upstream_backup import (
    PRINTED,
    Results,
    _counted,
    _recovered,
    _timed,
    findings_of,
)
from scenarios.studies.reproduce.words import even_series, groups_of_words, text_series, words


@pytest.mark.parametrize(("hops", "tasks", "every_s"), [(3, 1, 5), (3, 3, 5), (2, 2, 3)])
def test_each_pair_of_tasks_has_an_ack_in_each_round_of_five_minutes(hops: int, tasks: int, every_s: int) -> None:
    rate = 20 * tasks**2
    found = Traffic(tasks, rate, every_s, hops).run()
    assert found["acks"] == 300 // every_s * hops * tasks**2
    # Evenly spaced arrivals: the first comes after one interval, the last of each task may be on its way.
    assert 300 * rate * hops - 2 * hops * tasks <= found["records"] <= 300 * rate * hops


def test_a_source_keeps_the_outputs_of_an_interval() -> None:
    each = [Traffic(1, 200, every_s).run()["kept"] / (200 * 172) for every_s in (1, 2, 5)]
    assert each == pytest.approx([1, 2, 5], abs=0.02)


def test_a_recovery_takes_the_restart_and_what_came_since_the_checkpoint() -> None:
    for method, interval_s, slope in (("SPATE", 5.0, 0.5), ("R+SM", 5.0, 1.0), ("SPATE", 10.0, 0.5)):
        run = Recovered(method, 3, 500, interval_s)  # type: ignore[arg-type]
        since_s = slope * interval_s + (run.crash_s % (slope * interval_s) + 0.5) % (slope * interval_s) - 0.5
        restart_s = run.run()["recovery_s"] - 0.378e-3 * 500 * since_s
        assert restart_s == pytest.approx(1.146, abs=0.25), (method, interval_s)


def test_hosts_die_around_the_end_of_an_interval() -> None:
    ends = [Recovered("R+SM", seed, interval_s=interval_s).crash_s for seed in range(9) for interval_s in (5, 15)]
    assert all(min(at % 5, 5 - at % 5) <= 0.5 for at in ends)
    assert len(set(ends)) == len(ends)
    assert min(Recovered("UB", seed).crash_s for seed in range(9)) > 30  # there is a whole window


def test_a_replica_answers_at_once_and_gets_nothing_again() -> None:
    found = Recovered("AR", 3).run()
    assert found["replayed"] == 0
    assert 0 < found["recovery_s"] < 0.02  # two heartbeats


def test_a_source_replays_the_window_at_the_pace_of_the_splitter() -> None:
    for method, slowest_s in (("UB", 0.378e-3), ("SB", 0.462e-3)):
        run = Recovered(method, 3, 500)  # type: ignore[arg-type]
        assert run.run()["recovery_s"] == pytest.approx(1.146 + 30 * 500 * slowest_s, abs=0.6), method


def test_each_task_keeps_the_window_or_the_source_alone() -> None:
    kept = {method: Recovered(method, 3, 500).run()["kept"] for method in METHODS}
    assert kept["SB"] == pytest.approx(30 * 500, rel=0.01)
    assert kept["UB"] == pytest.approx(3 * 30 * 500, rel=0.01)  # source, splitter and counter
    assert kept["AR"] < 10 < kept["SPATE"] < kept["R+SM"]


def test_replicas_double_what_three_hops_carry_and_backups_send_nothing() -> None:
    assert Shipped("AR").run()["bytes"] / MIB == pytest.approx(3 * 300_000 * EVENT / MIB, abs=0.01)
    assert Shipped("UB").run()["bytes"] == Shipped("SB").run()["bytes"] == 0


@pytest.mark.parametrize(("method", "share"), [("SC", 0.45), ("R+SM", 0.375)])
def test_checkpoints_write_a_share_of_the_input_of_a_task(method: Any, share: float) -> None:
    assert Shipped(method).run()["bytes"] == pytest.approx(share * 300_000 * EVENT, rel=1e-4)


@pytest.mark.parametrize(
    ("run", "later_ms"),
    [
        (Delayed("UB"), 0),
        (Delayed("AR"), 0),
        (Delayed("SC"), 157),
        (Delayed("R+SM"), 136),
        (Delayed("SPATE"), 24 + 27),
        (Delayed("SPATE", 1), 24 + 5.4),
        (Delayed("SPATE", 5, 4), 4 * 24),  # acks of four pairs take longer than the pause
    ],
)
def test_a_slice_is_later_by_acks_and_pauses(run: Delayed, later_ms: float) -> None:
    assert 1e3 * run.run()["later_s"] == pytest.approx(later_ms, abs=1)


def test_words_of_the_text_come_in_order_and_again() -> None:
    assert words()[:5] == ("first", "citizen", "before", "we", "proceed")
    assert 18_000 < len(words()) < 19_000
    groups, series = groups_of_words(4), text_series(10_000, 2, 4)
    assert series.key_weights is not None
    first, second = series.key_weights.T
    assert first.tolist() == [int((groups[:10_000] == k).sum()) for k in range(4)]
    rest = 20_000 - len(groups)
    assert second.tolist() == [int((groups[10_000:] == k).sum() + (groups[:rest] == k).sum()) for k in range(4)]
    assert series.rate_per_s.tolist() == [10_000.0, 10_000.0]
    even = even_series(10_000, 2, 4)
    assert even.key_weights is not None and set(even.key_weights.ravel().tolist()) == {2500.0}


def test_a_counter_of_words_takes_longer_to_come_back() -> None:
    words_of, even = (Skewed("R+SM", skewed, 1).run() for skewed in (True, False))
    assert even["share"] == 0.5
    assert 0.5 < words_of["share"] < 0.6
    assert words_of["recovery_s"] > 1.05 * even["recovery_s"]


def test_pauses_are_those_of_ten_checkpoints() -> None:
    found = Paused("synchronous").run()
    assert found["checkpoints"] == 10
    assert found["paused_s"] == pytest.approx(10 * (0.157 + 2 / 46.5))


def test_pieces_have_names_of_their_own() -> None:
    runs = [Recovered(method, 1, rate) for method in METHODS for rate in (500, 1000)]  # type: ignore[arg-type]
    traffic = [Traffic(tasks, 10, every_s, hops) for tasks in (1, 2) for every_s in (1, 2) for hops in (1, 3)]
    others = [make(method) for make in (Shipped, Delayed) for method in METHODS]
    others += [Delayed("SPATE", 5, 2), Delayed("SPATE", 4), Paused("synchronous", 1.5), Paused("synchronous")]
    others += [Skewed("SC", skewed, seed) for skewed in (True, False) for seed in (1, 2)]
    labels = [one.label for one in (*runs, *traffic, *others)]
    assert len(set(labels)) == len(labels)


# -- verdicts and the page, from numbers that are made up


def results(changes: Mapping[Piece, Mapping[str, float]] | None = None) -> Results:
    """Results of a quick study in which each run found about what the paper has."""
    pieces = [*_counted(quick=True), *_timed(quick=True), *_recovered(4, 2)]
    found: dict[Piece, Mapping[str, float]] = {}
    for one in pieces:
        if isinstance(one, Traffic):
            acks = 3 * one.parallelism**2 * 300 // one.every_s
            records = 3 * one.rate * 300
            found[one] = {"acks": acks, "records": records, "kept": one.rate * one.every_s * EVENT}
        elif isinstance(one, Shipped):
            found[one] = {"bytes": PRINTED[one.method][0] * MIB}
        elif isinstance(one, Delayed):
            found[one] = {"later_s": PRINTED[one.method][1] if one.method != "SPATE" else 0.04}
        elif isinstance(one, Recovered):
            at = one.rate / 1000 * one.interval_s / 5
            found[one] = {
                "recovery_s": PRINTED[one.method][2] * at * (1 + one.seed / 20 - 0.075),
                "replayed": 0,
                "kept": 9,
            }
        elif isinstance(one, Skewed):
            found[one] = {"recovery_s": 3.0 if one.words else 2.0, "share": 0.55}
        else:
            found[one] = {"paused_s": 2.0 if one.mode == "synchronous" else 0.5, "checkpoints": 10}
    scaled = {run: SCALED_PRINTED[run.method][1] * run.interval_s / 20 for run in scaled_pieces(4, 2)}
    rescaled = {"at_s": [70, 130], "tasks": [20, 5], "delays_s": [0.16, 0.08], "else_s": 0.05}
    return Results(found | (changes or {}), 4, 2, scaled, [rescaled, rescaled])


def test_numbers_of_the_paper_hold() -> None:
    verdicts = findings_of(results())
    assert [claim for claim, one in verdicts.items() if not one.holds] == []
    assert len(verdicts) == 24  # the ratio of acks to the data of a large job is not in a quick study


@pytest.mark.parametrize(
    ("claim", "method", "factor"),
    [
        ("scaled-sc", "SC", 1.11),
        ("scaled-rsm", "R+SM", 0.89),
        ("scaled-spate", "SPATE", 1.11),
        ("scaled-ratios", "SPATE", 1.1),
        ("saving-50", "SC", 0.7),
        ("recovery-rate", "R+SM", 0.7),
    ],
)
def test_a_claim_on_recoveries_after_a_scale_up_does_not_hold_beyond_its_tolerance(
    claim: str, method: str, factor: float
) -> None:
    found = results()
    changed = {run: time * (factor if run.method == method else 1) for run, time in found.scaled.items()}
    assert findings_of(found)[claim].holds
    assert not findings_of(replace(found, scaled=changed))[claim].holds


@pytest.mark.parametrize(
    "change",
    [
        {"delays_s": [1.1, 0.08]},
        {"delays_s": [0.16, 0.04]},
        {"at_s": [70], "tasks": [20], "delays_s": [0.16]},
        {"tasks": [5, 20]},
    ],
)
def test_two_short_spikes_are_those_of_a_scale_up_and_of_a_scale_down(change: dict[str, Any]) -> None:
    good = results().rescaled[0]
    assert spikes(good, good).holds
    assert not spikes({**good, **change}, good).holds


@pytest.mark.parametrize(("method", "since_s", "tasks"), [("R+SM", 15, 2), ("SPATE", 10, 2), ("SC", 15, 1)])
def test_a_recovery_after_a_scale_up_replays_what_came_since_the_checkpoint(
    method: Any, since_s: int, tasks: int
) -> None:
    run = Scaled(method, 2, 10.0)  # dies a quarter of a second before the end of the interval
    restart_s = 1.146 * (1 if method != "SC" else 2) + (0.277 if method == "SC" else 0)
    assert run.run()["recovery_s"] == pytest.approx(restart_s + 0.378 * since_s / tasks, rel=0.3)


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("traffic-order", {Shipped("R+SM"): {"bytes": 23 * MIB}}),
        ("traffic-order", {Shipped("SB"): {"bytes": 0.2 * MIB}}),
        ("ar-recovery", {Recovered("AR", 2): {"recovery_s": 0.01, "replayed": 1}}),
        ("latency-order", {Delayed("UB"): {"later_s": 0.061}}),
        ("latency-order", {Delayed("SPATE"): {"later_s": 0.08}}),
        ("table-8", {Delayed("SPATE", 2): {"later_s": 0.045}}),
        ("recovery-sb", {Recovered("SB", seed): {"recovery_s": 13.4} for seed in range(4)}),
        ("recovery-order", {Recovered("UB", seed): {"recovery_s": 15.2} for seed in range(4)}),
    ],
)
def test_a_claim_does_not_hold_beyond_its_tolerance(claim: str, changes: dict[Piece, dict[str, float]]) -> None:
    assert findings_of(results())[claim].holds
    assert not findings_of(results(changes))[claim].holds


def test_the_page_has_the_curves_with_the_papers_numbers_and_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "_plotly", lambda: "/* the figures' script */")
    found = results()
    by_name = {chart.name: chart for chart in elastic_charts(found)}
    assert [*by_name] == [
        "figure-9a",
        "figure-9b",
        "table-8",
        "figure-10a",
        "figure-10b",
        "figure-11",
        "figure-13a",
        "figure-13b",
        "figure-14",
    ]
    tasks, table_8, rates = (by_name[name] for name in ("figure-9b", "table-8", "figure-13a"))
    assert tasks.marks is not None and table_8.marks is not None and rates.marks is not None
    assert tasks.marks[0, tasks.x.tolist().index(30.0)] == 4.94
    assert table_8.marks.tolist() == [[28.0, 24.0, 59.0, 46.0, 51.0]]
    assert rates.marks[:, 1].tolist() == [3.312, 3.127, 2.054]
    assert np.isnan(rates.marks[:, [0, 2]]).all()
    assert methods_table(found).cells[0][2:4] == ("147.60", "147.6")
    assert methods_table(found).cells[1][2:6] == ("0.00", "~0", "24", "24")
    assert skew_table(found).cells == (("R+SM", "2.00", "3.00", "50.0 %"), ("SPATE", "2.00", "3.00", "50.0 %"))
    rows = [
        ClaimRow("elastic-upstream-backup", claim, "t", "predicted", "p", one.ours, "1", one.holds, one.cause)
        for claim, one in findings_of(found).items()
    ]
    page = render_page(claims_page(rows, None, "holdfast reproduce", found))
    for words_of in (
        "figure-figure-13b",
        "trimming interval [s]",
        "Methods side by side",
        "Words of a text",
        "source-backup",
    ):
        assert words_of in page
    assert "tasks of each operator [" not in page  # a count has no unit
