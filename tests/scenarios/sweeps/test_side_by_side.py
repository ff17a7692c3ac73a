"""All designs of a sweep in one table, and the metrics that moves by any protocol have in common."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from scenarios.files.scenario import read_scenario, resolve
from scenarios.pages.sweep import sweep_page
from scenarios.runs.run import run
from scenarios.sweeps.side_by_side import document, guarantees, metrics_side_by_side, reasons, sentences, side_by_side
from scenarios.sweeps.sweep import SweepResult, sweep

NAMES = ["optimised", "stop-and-restart", "cpal", "oap", "dcr"]
SHORT = ["duration=32 s", "replications=2", "workload.events.rate=100 /s", f"sweep.design={json.dumps(NAMES)}"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    return sweep(read_scenario(resolve("migration-shootout"), SHORT), tmp_path_factory.mktemp("shootout") / "sweep")


def test_each_design_has_a_row_with_what_is_asked_of_moves(result: SweepResult) -> None:
    assert not result.failed
    table = side_by_side(result, metrics_side_by_side(result, None))
    assert table.heads == (
        "design",
        "pause",
        "largest latency",
        "p99 latency",
        "done",
        "sent",
        "sent again",
        "lost",
        "peak memory",
        "if a host fails",
    )
    assert [row[0] for row in table.rows][: len(NAMES)] == NAMES
    rows = {row[0]: dict(zip(table.heads, row, strict=True)) for row in table.rows}
    assert all(rows[name]["lost"] == 0 for name in NAMES)
    # A restart takes 3 s of which the job is away, and loads all states from the store.
    assert rows["stop-and-restart"]["pause"] > 3 > rows["optimised"]["pause"]
    assert 2e6 < rows["optimised"]["sent"] < 16e6  # of states: a quarter of the keys that were seen by then
    assert rows["cpal"]["sent again"] > 0 == rows["optimised"]["sent again"]
    assert 0 < rows["oap"]["pause"] < rows["oap"]["done"]
    assert min(rows[name]["peak memory"] for name in NAMES) > 1e6
    assert rows["oap"]["done"] > 0


def test_states_that_crashes_took_have_a_column_where_there_are_any(result: SweepResult) -> None:
    rows = [replace(row, metrics={**row.metrics, "reconfigurations.lost_bytes": 2e6}) for row in result.rows[:1]]
    lost = replace(result, rows=(*rows, *result.rows[1:]))
    table = side_by_side(lost, metrics_side_by_side(lost, None))
    assert table.cells[0][table.heads.index("taken by crashes")] == "1 MB"  # of two runs on average


def test_tuples_that_only_a_state_has_lost_are_shown(result: SweepResult) -> None:
    """`dsm` replays to the sink what the state of a checkpoint does not have: nothing is missing at the sink."""
    rows = [replace(row, metrics={**row.metrics, "guarantee.state_lost": 6038.0}) for row in result.rows]
    table = side_by_side(
        replace(result, rows=tuple(rows)), metrics_side_by_side(replace(result, rows=tuple(rows)), None)
    )
    assert [row[table.heads.index("lost in state")] for row in table.cells][: len(NAMES)] == ["6,038"] * len(NAMES)
    assert "lost in state" not in side_by_side(result, metrics_side_by_side(result, None)).heads


def test_means_are_those_of_runs(result: SweepResult) -> None:
    loaded = read_scenario(resolve("migration-shootout"), [*SHORT[:3], "design=optimised"])
    metrics = run(loaded.scenario, folder=loaded.folder).metrics
    (summary,) = (
        one for one in document(result, ["moves.pause_s"])["designs"] if one["settings"]["design"] == NAMES[0]
    )
    assert summary["metrics"]["moves.pause_s"]["mean"] == pytest.approx(
        sum(one["moves.pause_s"] or 0 for one in metrics.values()) / 2
    )
    for one in metrics.values():
        assert one["moves.pause_s"] == one["reconfigurations.longest_step_s.max"]
        assert (one["moves.completion_s"] or 0) > (one["reconfigurations.duration_s.max"] or 0) > 0


def test_a_design_that_cannot_run_says_why(result: SweepResult) -> None:
    why = reasons(result)
    assert why["with-checkpoints"].startswith("events.move.kind = reconfigure: not simulated yet")
    assert "fluid" not in why  # it could, and was not asked for
    assert any(one.startswith("with-checkpoints: events.move.kind") for one in sentences(result))
    table = side_by_side(result, ["latency_s.max"])
    assert ("with-checkpoints", None, "") in table.rows


def test_the_guarantee_is_what_holds_if_a_host_fails(result: SweepResult) -> None:
    held = dict(zip(NAMES, ["none", "none", "exactly-once", "exactly-once", "none"], strict=True))
    assert {NAMES[number]: guarantee for number, guarantee in guarantees(result).items()} == held
    rows = side_by_side(result, ["latency_s.max"]).rows
    assert {row[0]: row[-1] for row in rows if row[-1]} == held
    assert {one["settings"]["design"]: one["guarantee"] for one in document(result, [])["designs"]} == {
        **held,
        "with-checkpoints": None,
    }


def test_a_guarantee_that_all_designs_give_has_no_column(result: SweepResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.sweeps.side_by_side.guarantees", lambda _: {0: "none", 1: "none"})
    assert side_by_side(result, ["latency_s.max"]).heads == ("design", "largest latency")


def test_a_run_in_which_nothing_moves_has_no_metrics_of_moves() -> None:
    loaded = read_scenario(resolve("mm1"), ["duration=5 s", "warmup=1 s", "replications=1"])
    (metrics,) = run(loaded.scenario, folder=loaded.folder).metrics.values()
    assert not [name for name in metrics if name.startswith("moves.")]


def test_compare_shows_all_designs_of_a_sweep(result: SweepResult) -> None:
    said = CliRunner().invoke(app, ["compare", str(result.directory)])
    assert said.exit_code == 0
    assert all(name in said.output for name in (*NAMES, "with-checkpoints: events.move.kind"))
    assert max(map(len, said.output.splitlines()[:-1])) <= 80
    told = json.loads(CliRunner().invoke(app, ["compare", str(result.directory), "--json"]).output)
    assert [one["settings"]["design"] for one in told["designs"]][: len(NAMES)] == NAMES
    assert told["designs"][-1]["reason"]


def test_each_metric_that_is_asked_for_has_one_column(result: SweepResult) -> None:
    words = ["compare", str(result.directory)]
    for name in ("memory.peak_bytes", "latency_s.max", "memory.peak_bytes"):
        words += ["--metric", name]
    said = CliRunner().invoke(app, words).output
    assert said.count("peak memory") == 1 == said.count("largest latency")


def test_more_metrics_than_fit_a_terminal_come_in_several_tables_and_none_is_cut(result: SweepResult) -> None:
    words = ["compare", str(result.directory)]
    names = ["latency_s.max", "latency_s.p50", "latency_s.p95", "latency_s.p99", "latency_s.mean"]
    for name in (*names, "moves.completion_s", "moves.pause_s", "memory.peak_bytes", "moves.bytes"):
        words += ["--metric", name]
    said = CliRunner().invoke(app, words).output
    assert max(map(len, said.splitlines()[:-1])) <= 80
    rows = [line for line in said.splitlines() if line.startswith(" optimised ")]
    assert len(rows) > 1
    assert sum(len(re.findall(r"\d (?:s|ms|µs|B|kB|MB)(?= |$)", row)) for row in rows) == 9  # each with its unit


def test_a_sweep_that_is_not_finished_says_so(result: SweepResult) -> None:
    part = replace(result, rows=result.rows[:3])  # design 0, and one run of design 1
    assert sentences(part)[0] == "Not finished: 3 of 10 runs are there."
    assert side_by_side(part, ["latency_s.max"]).title == "Designs, means of 0 to 2 runs"
    assert not any("Not finished" in one for one in sentences(result))


def test_the_page_of_a_sweep_has_the_table(result: SweepResult) -> None:
    (section,) = (one for one in sweep_page(result).sections if one.name == "moves")
    assert section.tables[0].heads[-2:] == ("peak memory", "if a host fails")


def test_one_design_alone_cannot_be_compared(tmp_path: Path, result: SweepResult) -> None:
    for words in (
        ["mm1"],
        [str(tmp_path)],
        [str(result.directory), "--all"],
        [str(result.directory), "--replications", "9"],
    ):
        said = CliRunner().invoke(app, ["compare", *words])
        assert said.exit_code != 0
