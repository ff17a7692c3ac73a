"""Rebalances on the page: phases as bars, input, output and latency with the phases shaded."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from pages import PageReader

from analysis.report import lines, render_page
from analysis.report.content import _ABOUT, AroundRebalances, Decision, Latency, Lines
from analysis.report.event_marks import with_marks
from analysis.report.figure import Figure
from analysis.report.lines_of_records import around_rebalances
from analysis.report.page import Page
from analysis.report.rebalance_sections import phases, rebalances_section
from analysis.report.run_page import question, run_page, run_sections
from analysis.runs.rebalances import rebalances
from analysis.runs.run_summary import Rebalance
from analysis.runs.summary import summarise
from models.records.decisions import Action
from models.scenario.inputs import RunInputs
from scenarios.files.scenario import read_scenario, resolve
from sim.engine import simulate

pytestmark = pytest.mark.usefixtures("small_script")

NOTHING = Rebalance(**{one.name: None for one in fields(Rebalance)})  # type: ignore[arg-type]
DONE = replace(
    NOTHING,
    replication=0,
    number=0,
    protocol="ccr",
    outcome="done",
    requested_s=20.0,
    begun_s=0.0,
    prepared_s=0.5,
    drain_s=1.0,
    command_s=7.0,
    killed_s=8.0,
    up_s=15.0,
    first_init_s=10.0,
    restore_s=11.0,
    last_init_s=16.0,
    unpause_s=16.0,
    over_s=16.0,
    caught_up_s=17.0,
    stable_mean_s=30.0,
    stable_bins_s=40.0,
    subtasks=3,
    captured=2,
    lost=0,
)
NEVER_STABLE = replace(DONE, number=1, requested_s=90.0, begun_s=3.0, stable_mean_s=None)


def around(highest_input: float = 8.0, replays: tuple[float, ...] = ()) -> AroundRebalances:
    at = np.arange(0.0, 60.0)
    flow = np.stack([np.full(60, 8.0), np.full(60, 10.0)])
    flow[0, 40] = highest_input
    latency = Latency(at, *(np.full(60, value) for value in (0.01, 0.02, 0.03)))
    replayed = np.array([30.0, 60.0][: len(replays)]), np.array(replays)
    return AroundRebalances(Lines(at, ("input", "output"), flow), 8.0, latency, replayed)


def bars(figure: Figure) -> dict[str, list[float | None]]:
    return {one["name"]: one["x"] for one in figure.data if one["type"] == "bar"}


def test_phases_follow_each_other_in_one_bar_for_each_rebalance() -> None:
    figure = phases([DONE, NEVER_STABLE])
    assert figure is not None
    assert bars(figure) == {
        "waits for an earlier one": [0.0, 3.0],
        "drain or capture": [1.0, 1.0],
        "command": [7.0, 4.0],
        "until the first INIT": [2.0, 2.0],
        "first to last INIT": [6.0, 6.0],
        "until stable": [14.0, None],
    }
    marks = {one["name"]: one["x"] for one in figure.data if one["type"] == "scatter"}
    assert marks == {"first output": [11.0, 11.0], "caught up": [17.0, 17.0]}
    assert len(set(figure.data[0]["y"])) == 2
    assert figure.caption.endswith("as before after 30\xa0s at the latest. 1 of 2 were not stable within the run.")


def test_phases_that_no_rebalance_has_are_left_out() -> None:
    figure = phases([DONE])
    assert figure is not None and "waits for an earlier one" not in bars(figure)
    assert phases([NOTHING]) is None
    assert phases([replace(DONE, restore_s=None)]).caption == "No output came after tasks were killed."  # type: ignore[union-attr]


def test_lines_have_the_phases_of_their_replication_shaded() -> None:
    section = rebalances_section([DONE, replace(DONE, replication=1)], around())
    assert section is not None
    _, flow, latency = section.figures
    for figure in (flow, latency):
        boxes = [(one["x0"], one["x1"]) for one in figure.layout["shapes"] if one["type"] == "rect"]
        assert boxes == [(20.0, 21.0), (21.0, 28.0), (28.0, 30.0), (30.0, 36.0), (36.0, 50.0)]
        assert [said for said, _ in figure.shading] == [
            "drain or capture", "command", "until the first INIT", "first to last INIT", "until stable"
        ]  # fmt: skip
    assert [one["name"] for one in flow.data] == ["input", "output", "expected output"]
    assert len(rebalances_section([replace(DONE, replication=1)], around()).figures) == 1  # type: ignore[union-attr]


def test_an_input_that_would_hide_the_output_is_cut_off_and_the_caption_says_so() -> None:
    low, high = (rebalances_section([DONE], around(most)).figures[1] for most in (8.0, 300.0))  # type: ignore[union-attr]
    assert low.layout["yaxis"]["range"] == high.layout["yaxis"]["range"] == [0, 13.0]
    assert "cut off" not in low.caption
    assert "300 tuples/s, cut off here" in high.caption


def test_an_input_above_the_output_all_the_time_is_no_backlog() -> None:
    given = around()
    given.flow.values[0] *= 10
    figure = rebalances_section([DONE], given).figures[1]  # type: ignore[union-attr]
    assert figure.layout["yaxis"]["range"] == [0, 104.0]
    assert "cut off" not in figure.caption


def test_tuples_that_were_emitted_again_have_a_figure() -> None:
    section = rebalances_section([DONE], around(replays=(3.0, 40.0)))
    assert section is not None
    figure = section.figures[-1]
    assert (figure.data[0]["x"], figure.data[0]["y"]) == ([30.0, 60.0], [3.0, 40.0])
    assert figure.caption.startswith("43 tuples") and "60\xa0s after the start" in figure.caption
    assert len(figure.shading) == 5


def test_a_decision_of_any_kind_is_about_something() -> None:
    assert {*_ABOUT} == {*Action}


def test_a_rebalance_is_marked_below_the_latency_of_the_whole_run() -> None:
    decision = Decision(5.0, "the dataflow is rebalanced by ccr", "why", action=Action.REBALANCE)
    figure = with_marks(
        lines.latency(around().latency, ()), recoveries=(), migrations=(), decisions=(decision,), replication=0
    )
    assert figure.layout["yaxis2"]["ticktext"] == ["rebalances"]
    assert figure.caption.endswith("Marked below: 1 rebalance.")


def test_the_page_of_a_run_has_the_section_and_asks_for_it() -> None:
    settings = ["duration=100 s", "warmup=5 s", "events.move.at=15 s"]
    scenario = read_scenario(resolve("rebalance-linear"), settings).scenario
    records = [simulate(scenario)]
    summary = summarise(scenario, records)
    sections = {one.name: one for one in run_sections(scenario, RunInputs(), summary, records) if one}
    assert [one.name for one in sections["rebalances"].figures] == [
        "rebalance-phases", "rebalance-flow", "rebalance-latency"
    ]  # fmt: skip
    assert "moved as a whole by ccr" in question(scenario)
    shown = around_rebalances(scenario, records[0], summary.rebalances)
    assert shown is not None
    # What goes in comes out: all but what is under way at both ends of the range.
    given, taken = shown.flow.values.sum(axis=1).tolist()
    assert abs(given - taken) < 150 and given > 300
    assert around_rebalances(scenario, records[0], ()) is None
    assert rebalances(scenario, records) == summary.rebalances


def test_the_facts_say_what_is_rebalanced_and_how_roots_are_followed() -> None:
    tolerance = "fault_tolerance={ method = 'acker', guarantee = 'at-least-once', acker = { pending = 240 } }"
    scenario = read_scenario(
        resolve("rebalance-linear"), ["duration=40 s", "warmup=1 s", "events.move.at=20 s", tolerance]
    ).scenario
    records = [simulate(scenario)]
    page = run_page(scenario, RunInputs(), summarise(scenario, records), records)
    facts = {one.label: one.value for one in page.facts}
    assert facts["acker"] == "rotating time-out of 30 s, literal acks, at most 240 pending"
    assert facts["rebalance"] == "20 s, by ccr, to new"
    assert [said.split()[1] for said in page.assumptions if "root" in said or "rebalance" in said] == [
        "rebalance",
        "ack",
    ]
    (guarantee,) = [one for one in page.sections if one and one.name == "guarantee"]
    assert guarantee.words.startswith("Guarantee: at-least-once.")


def test_a_page_shows_the_shading_by_name() -> None:
    section = rebalances_section([replace(DONE, protocol="<b>ccr")], around())
    assert section is not None
    page = render_page(Page(title="t", question="q", sections=[section]))
    assert "<b>ccr" not in page and "&lt;b&gt;ccr" in page
    assert page.count('<ul class="phases" aria-label="Shading">') == 2
    assert '<span class="mark own c6"></span>command' in page
    assert {"spec-rebalance-phases", "spec-rebalance-flow"} <= PageReader(page).specs().keys()
