"""Summaries of rows made by hand."""

from __future__ import annotations

import pytest
from fleet_systems import static_system

from analysis.documents import to_document
from analysis.fleet.summary import fleet_summary
from models.fleet.records import TABLES, FleetRecords

DAY = 86_400 * 10**9


def test_shares_breaks_and_budgets_of_rows_by_hand() -> None:
    queries = {"q": {"operators": ["o0"], "weight": 3.0, "slo": 0.75}, "r": {"operators": ["o1"]}}
    system = static_system(duration="10 d", warmup="2 d", queries=queries)
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}
    rows["presence"] = [("q", 0, 10 * DAY), ("r", 4 * DAY, 8 * DAY)]
    rows["outages"] = [("q", DAY, 3 * DAY), ("q", 9 * DAY, 9 * DAY + DAY // 2), ("r", 5 * DAY, 7 * DAY)]
    rows["standing"] = [("q", 0, 6 * DAY, 0.1), ("q", 6 * DAY, 10 * DAY, 0.2), ("r", 4 * DAY, 8 * DAY, 0.5)]
    rows["refusals"] = [(DAY, "move", "o0", "q", 0.1, 0.3, 0.25)]
    found = to_document(fleet_summary(system, [FleetRecords(0, 10 * DAY, "events", rows)]))
    worst, other = found["queries"]
    assert (worst["query"], worst["broken_share"], worst["breaks"], worst["longest_s"]) == ("r", 0.5, 1, 2 * 86_400)
    assert (other["broken_s"], other["present_s"], other["breaks"]) == (1.5 * 86_400, 8 * 86_400, 2)
    assert other["budget_used"] == pytest.approx(1.5 / 2)
    assert (other["exact"], other["exact_worst"]) == (pytest.approx((4 * 0.1 + 4 * 0.2) / 8), 0.2)
    running = found["running"]
    assert running["time_average"]["mean"] == pytest.approx(1 - (3 * 1.5 + 2) / (3 * 8 + 4))
    assert running["exact"] == pytest.approx(1 - (3 * 1.2 + 2) / (3 * 8 + 4))
    # ends of days 3 .. 10: q broken at the end of 3 (until it), r there at 5 .. 8 and broken at 6 and 7
    assert running["end_of_day"]["mean"] == pytest.approx((0 + 1 + 1 + 0.75 + 0.75 + 1 + 1 + 1) / 8)
    assert found["refused_for"] == [{"query": "q", "action": "move", "count": 1}]
