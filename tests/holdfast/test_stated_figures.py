"""The terminal, the page and the JSON document of availability, replicas and fleets state the same figures."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pages import StatedFigures

from analysis.report import page
from holdfast.cli import main
from models import display
from models.reliability.times import MONTH_S

EXAMPLES = Path(__file__).parents[2] / "examples"
Views = tuple[dict[str, Any], str, StatedFigures]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")


def views(folder: Path, *arguments: str) -> Views:
    """The JSON document, the terminal with single spaces, and the page of a command."""

    def out(*more: str) -> str:
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
            main([*arguments, *more])
        return shown.getvalue()

    path = folder / "page.html"
    document = json.loads(out("--json", "--report", str(path)))
    return document, " ".join(out().split()), StatedFigures(path.read_text())


def percent(broken: float) -> str:
    return display.share(broken, 4)


def test_availability_states_one_figure_for_a_query_in_a_setting(tmp_path: Path) -> None:
    asked = ("availability", str(EXAMPLES / "availability.toml"), "--p", "0.05", "--p", "0.001", "--target", "0.999")
    document, terminal, read = views(tmp_path, *asked)
    settings, last = document["settings"], document["settings"][-1]
    for line, row in zip(settings, read.tables["table-settings"][1:], strict=True):
        mean = line["mean"]
        assert mean["down_s_per_month"] == mean["unavailability"] * MONTH_S
        share, month = display.share(mean["unavailability"]), display.duration(mean["down_s_per_month"])
        assert row[:3] == [line["label"], share, month]
        assert f"{line['label']} {row[1]} {row[2]} {display.share(line['some_broken']['unavailability'])}" in terminal
    for name, *cells in read.tables["table-queries"][1:]:
        figures = [line["queries"][name]["unavailability"] for line in settings]
        assert cells[:2] == [display.share(one) for one in figures]
        assert cells[2] == display.duration(last["queries"][name]["down_s_per_month"])
        assert f"{name} {cells[0]} {cells[1]}" in terminal


def test_a_verdict_of_all_settings_does_not_look_like_one_of_the_last(tmp_path: Path) -> None:
    asked = ("availability", str(EXAMPLES / "availability.toml"), "--p", "0.05", "--p", "0.001", "--target", "0.999")
    document, _, read = views(tmp_path, *asked)
    assert max(one["unavailability"] for one in document["settings"][-1]["queries"].values()) < 0.001
    assert read.headline["target"] == "0 of 2 have 99.9 % in every setting"
    for label in ("mean query is broken", "worst query", "at least one is broken"):
        assert read.headline[label].endswith(", p = 0.001")


@pytest.mark.parametrize("goal", ["worst", pytest.param("mean", marks=pytest.mark.slow)])
def test_replicas_state_the_figures_of_each_plan_and_whose_bound_there_is(tmp_path: Path, goal: str) -> None:
    asked = ("plan", "replicas", str(EXAMPLES / "queries.toml"), "--p", "0.0123", "--optimise", "--goal", goal)
    document, terminal, read = views(tmp_path, *asked)
    rows = {row[0]: row for row in read.tables["table-plans"][1:]}
    for name, one in document["compared"].items():
        mean, worst = one["mean_broken"][0], one["worst_broken"][0]
        assert rows[name][1:3] == [percent(mean), percent(worst)]
        assert f"{name} {percent(mean)} {percent(worst)}" in terminal
        assert document["bound"] <= (mean if goal == "mean" else worst) * (1 + 1e-9)
    best = document["compared"]["optimised"]
    assert read.headline["mean query is broken"].startswith(percent(best["mean_broken"][0]))
    assert read.headline["worst query"].startswith(percent(best["worst_broken"][0]))
    assert read.headline["no plan is below"].startswith(f"{percent(document['bound'])} broken, {goal} query;")
    subject = {"mean": "With no plan the mean query", "worst": "The worst query of no plan"}[goal]
    least = display.share(document["bound"], 4, rounding="down")
    assert f"{subject} is broken less than {least} of the time" in terminal


def test_fleet_states_the_figures_of_each_query_and_over_what_they_are_summed(tmp_path: Path) -> None:
    path = tmp_path / "asked.json"
    given = {
        "hosts": ["a", "b", "c"],
        "duration": "90 d",
        "times": {"mttf": "9 d", "mttr": "1 d"},
        "operators": {"x": ["a", "b"], "y": ["c"]},
        "queries": {"q": {"operators": ["x", "y"], "slo": 0.5}, "r": {"operators": ["x"]}},
    }
    path.write_text(json.dumps(given))
    document, terminal, read = views(tmp_path, "fleet", str(path), "--replications", "2")
    rows = {row[0]: row for row in read.tables["table-by-query"][1:]}
    for one in document["queries"]:
        row = rows[one["query"]]
        assert row[2] == display.share(one["broken_share"])
        assert row[6:9] == [display.duration(one["broken_s"]), str(one["breaks"]), display.duration(one["longest_s"])]
        assert f"{one['query']} {row[2]} {row[4]} {row[6]} {row[7]} {row[8]}" in terminal
    assert "down, breaks and longest of all 2 replications" in terminal
    assert "down, breaks and longest of all 2 replications" in (tmp_path / "page.html").read_text()
