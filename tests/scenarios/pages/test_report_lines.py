"""Lines of a report: none that is empty, and no intervals so short that a line becomes dots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.report.content import ReportContent
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.pages import lines
from scenarios.pages.content import run_content
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


def page(scenario: Scenario) -> tuple[ReportContent, RunResult]:
    result = run(scenario)
    return run_content(result, RunInputs()), result


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
    shown, _ = page(made(q={"buffer": 5}, hosts={"h": {"load": load}}, recording={"detail": detail}))
    assert shown.lag is not None
    assert shown.filled is not None
    assert shown.blocked is not None
    assert (shown.lag.names, shown.filled.names, shown.blocked.names) == (("src",), ("q",), ("src",))
    slow = (shown.filled.at_s > 6) & (shown.filled.at_s < 10)
    assert (shown.filled.values[0][slow] == 100).all()
    assert 550 < shown.lag.values.max() < 1300  # 5 s x (300 - 0.2 x 500) tuples/s, less the random walk
    assert shown.blocked.values.max() <= 100
    assert any(fact.value == "q 5" for fact in shown.facts)
    assert any("finds no place" in said for said in shown.assumptions)


def test_without_bounds_and_lag_there_is_no_such_figure_and_no_word_of_what_the_scenario_does_not_have() -> None:
    shown, _ = page(made())
    assert shown.lag is shown.filled is shown.blocked is None
    assert shown.targets == ()
    assert not any(word in said for said in shown.assumptions for word in ("snapshot", "dead", "place", "watermark"))
    assert "detector" not in {fact.label for fact in shown.facts}


def test_targets_stand_on_the_page_with_their_units() -> None:
    shown, result = page(made(targets={"latency_p99": "1 ms", "lost": 0, "utilisation": 0.9}))
    found = {one.name: (one.limit, one.met) for one in shown.targets}
    assert found == {"latency p99": ("1\u00a0ms", False), "lost": ("0", True), "utilisation": ("90 %", True)}
    assert set(result.missed) == {"latency_p99_s"}
