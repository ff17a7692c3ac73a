"""Lines of a report: none that is empty, and no intervals so short that a line becomes dots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.report import lines_of_records as lines
from analysis.report.page import Page
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.pages.run import run_page
from scenarios.runs.run import RunResult, run

S = 10**9
SERVICE = {"distribution": "exponential", "mean": "2 ms"}


def made(**changes: Any) -> Scenario:
    raw = {
        "duration": "20 s",
        "workload": {"src": {"rate": "300 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": SERVICE, **changes.pop("q", {})},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }
    return Scenario.model_validate(raw | changes, context={"units": True}, by_alias=True, by_name=False)


def page(scenario: Scenario) -> tuple[Page, RunResult]:
    result = run(scenario)
    return run_page(result, RunInputs()), result


def deliveries(make: Any, seconds: list[int]) -> RunRecords:
    found: RunRecords = make.records(deliveries=[(2, at * S, at * S + 1) for at in seconds])
    return found


def test_an_interval_is_wide_enough_that_bursts_become_a_line(make: Any) -> None:
    assert lines.latency(deliveries(make, [0, 6])).interval_s == 5
    assert lines.latency(deliveries(make, [1, 3, 5, 7])).interval_s == 2


def test_an_outage_widens_no_interval(make: Any) -> None:
    assert lines.latency(deliveries(make, [0, 1, 2, 3, 7, 8, 9])).interval_s == 1


def test_a_run_without_deliveries_has_a_line_without_values(make: Any) -> None:
    assert np.isnan(lines.latency(deliveries(make, [])).p50_s).all()


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_bounded_queues_show_lag_places_and_who_was_held_back(detail: str) -> None:
    load = {"steps": [{"at": "5 s", "share": 0.8}, {"at": "10 s", "share": 0.0}]}
    shown, result = page(made(q={"buffer": 5}, hosts={"h": {"load": load}}, recording={"detail": detail}))
    first = result.records[0]
    lag, filled, blocked = lines.lag(first), lines.filled(result.scenario, first), lines.blocked(result.scenario, first)
    assert lag is not None
    assert filled is not None
    assert blocked is not None
    assert (lag.names, filled.names, blocked.names) == (("src",), ("q",), ("src",))
    slow = (filled.at_s > 6) & (filled.at_s < 10)
    assert (filled.values[0][slow] == 100).all()
    assert 550 < lag.values.max() < 1300  # 5 s x (300 - 0.2 x 500) tuples/s, less the random walk
    assert blocked.values.max() <= 100
    assert any(fact.value == "q 5" for fact in shown.facts)
    assert any("finds no place" in said for said in shown.assumptions)


def test_without_bounds_and_lag_there_is_no_such_figure_and_no_word_of_what_the_scenario_does_not_have() -> None:
    shown, _ = page(made())
    sections = {one.name: one for one in shown.sections if one is not None}
    assert {one.name for one in sections["flow"].figures}.isdisjoint({"lag", "filled", "blocked"})
    assert "targets" not in sections
    assert not any(word in said for said in shown.assumptions for word in ("snapshot", "dead", "place", "watermark"))
    assert "detector" not in {fact.label for fact in shown.facts}


def test_targets_stand_on_the_page_with_their_units() -> None:
    shown, result = page(made(targets={"latency_p99": "1 ms", "lost": 0, "utilisation": 0.9}))
    (found,) = (one.tables[0] for one in shown.sections if one is not None and one.name == "targets")
    told = {row[0]: (row[1], row[3]) for row in found.cells}
    assert told == {"latency p99": ("1 ms", "missed"), "lost": ("0", "met"), "utilisation": ("90 %", "met")}
    assert set(result.missed) == {"latency_p99_s"}
