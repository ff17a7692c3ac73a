"""The page of `holdfast fleet`: what is drawn follows from the rows, and nothing in a name is markup."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pages import HOSTILE

from analysis.fleet.summary import use_of_hosts, used_hosts
from analysis.report import fleet_figures, page
from analysis.report.gantt import counted, gathered
from analysis.report.text import number
from models.fleet.records import TABLES, FleetRecords
from models.fleet.rules import fleet_from
from models.fleet.system import System, system_of
from scenarios.fleet.runs import FleetResult, run_fleet
from scenarios.pages.fleet import fleet_page

HOUR = 3600 * 10**9
DAY = 24 * HOUR


def system(**more: object) -> System:
    given = {
        "hosts": {"a": {}, "b": {"price": "2 USD/h"}, "c": {"spare": True}},
        "duration": "10 d",
        "price": "1 USD/h",
        "times": {"mttf": "9 d", "mttr": "1 d"},
        "operators": {"x": ["a", "b"]},
        "queries": {"q": {"operators": ["x"], "slo": 0.9}, "r": {"operators": ["x"]}},
        "manager": {},
        **more,
    }
    return system_of(fleet_from(given))


def records(**rows: object) -> FleetRecords:
    return FleetRecords(0, 10 * DAY, "events", {name: [] for name in TABLES} | rows)  # type: ignore[arg-type]


def decided(at: int, action: str, host: str, verdict: str = "done") -> tuple[object, ...]:
    return (at, action, host, "", "", verdict, "")


def test_a_host_is_in_use_from_being_acquired_until_it_is_empty() -> None:
    rows = [
        decided(1 * DAY, "acquire", "c"),
        decided(2 * DAY, "release", "b", "begun"),
        decided(3 * DAY, "release", "b"),
        decided(4 * DAY, "release", "c", "begun"),
        decided(5 * DAY, "release", "c", "aborted"),
        decided(6 * DAY, "acquire", "b"),
    ]
    found = used_hosts(system(), records(decisions=rows))
    assert found == {"a": [(0, 10 * DAY)], "b": [(0, 3 * DAY), (6 * DAY, 10 * DAY)], "c": [(DAY, 10 * DAY)]}
    used = use_of_hosts(system(), [records(decisions=rows)])
    assert used.mean == pytest.approx((10 + 7 + 9) / 10)
    assert [row.cost_usd for row in used.by_host] == pytest.approx([240.0, 2 * 7 * 24, 9 * 24])
    assert used.cost_usd == pytest.approx(240 + 336 + 216)


def test_use_counts_after_the_warm_up_and_hosts_without_a_price_have_no_cost() -> None:
    late = system(warmup="5 d", price="0 USD/h", hosts=["a", "b"])
    used = use_of_hosts(late, [records(decisions=[decided(7 * DAY, "release", "b")])])
    assert [row.used_s for row in used.by_host] == [5 * 86_400.0, 2 * 86_400.0]
    bare = system_of(late.fleet.model_copy(update={"price_per_s": None}))
    assert use_of_hosts(bare, [records()]).cost_usd is None


def test_many_stretches_are_drawn_together_and_none_is_lost() -> None:
    stretches = [(k * 10, k * 10 + 4) for k in range(5000)]
    few = gathered(stretches, 50_000)
    assert len(few) <= 401
    assert sum(count for _, _, count in few) == 5000
    assert (few[0][0], few[-1][1]) == (0, 49_994)
    assert gathered(stretches[:3], 50_000) == [(0, 4, 1), (10, 14, 1), (20, 24, 1)]


def test_what_is_counted_equals_a_look_at_every_instant() -> None:
    draws = np.random.default_rng(4)
    begins = draws.integers(0, 900, 300)
    stretches = [(int(b), int(b + length)) for b, length in zip(begins, draws.integers(0, 100, 300), strict=True)]
    at, count = counted(stretches, 1000, most=10_000)
    plain = [sum(b <= when < e for b, e in stretches) for when in at.tolist()]
    assert count.tolist() == plain
    edges, highest = counted(stretches, 1000, most=7)
    every = np.array([sum(b <= when < e for b, e in stretches) for when in range(1000)])
    ends = [*edges[1:].tolist(), 1000]
    assert highest.tolist() == [int(every[b:e].max()) for b, e in zip(edges.tolist(), ends, strict=True)]


def test_of_many_steps_the_worst_is_drawn_and_gaps_stay() -> None:
    draws = np.random.default_rng(5)
    rows = [(k * 7, k * 7 + 7, float(value)) for k, value in enumerate(draws.random(2000)) if not 600 <= k < 900]
    found = fleet_figures.worst_steps(rows, 14_000)
    assert len(found) <= 400
    assert max(broken for _, _, broken in found) == max(row[2] for row in rows)
    for begin, end, broken in found:
        assert broken == max(row[2] for row in rows if row[0] < end and row[1] > begin)
    assert not any(begin >= 4235 and end <= 6265 for begin, end, _ in found)  # nobody was there
    assert fleet_figures.worst_steps(rows[:5], 14_000) == rows[:5]


def test_the_figure_of_slos_has_both_and_leaves_out_what_is_impossible_on_a_log_scale() -> None:
    rows = [("q", 0, DAY, 0.01), ("q", DAY, 2 * DAY, 0.0), ("q", 3 * DAY, 10 * DAY, 0.05), ("r", 0, DAY, 0.2)]
    drawn = fleet_figures.slo_figure(system(), records(standing=rows), ["q", "r"])
    assert drawn is not None
    has, allowed, without = drawn.data
    assert has["x"] == [0, 1, 1, 2, None, 3, 10]
    assert has["y"] == [0.01, 0.01, None, None, None, 0.05, 0.05]
    assert set(allowed["y"]) == {0.1}
    assert without["name"] == "r (no SLO)"
    assert "q comes closest, with 50\u00a0% of it" in drawn.caption
    assert fleet_figures.slo_figure(system(), records(), ["q", "r"]) is None


def test_numbers_behind_figures_have_units() -> None:
    half_minute = 30 * 10**9
    drawn = fleet_figures.slo_figure(system(), records(standing=[("q", half_minute, DAY, 6.85e-5)]), ["q"])
    assert drawn is not None
    assert (drawn.heads, drawn.rows) == (
        ("query", "from", "to", "P(broken)"),
        (("q", "30\u00a0s", "1\u00a0d", "0.00685\u00a0%"),),
    )
    counted_ = fleet_figures.numbers(system(), records(instances=[("x", "a", "primary", 1.0, half_minute, DAY)]))
    assert ("primaries", "30\u00a0s", "1") in counted_.rows
    assert [line["hovertemplate"] for line in counted_.data] == [
        "%{y:,}\u00a0hosts",
        "%{y:,}\u00a0primaries",
        "%{y:,}\u00a0replicas",
    ]


def test_an_outage_names_the_hosts_of_the_query_that_were_down() -> None:
    rows = {
        "instances": [("x", "a", "primary", 0.5, 0, DAY), ("x/2", "b", "primary", 0.5, DAY, 3 * DAY)],
        "host_downtimes": [("a", HOUR, 4 * DAY), ("b", 2 * DAY, 3 * DAY), ("c", 0, 9 * DAY)],
        "outages": [("q", HOUR, 5 * HOUR), ("q", 2 * DAY, 3 * DAY)],
    }
    found = fleet_figures.outages(system(), [replace(records(**rows), split={"x/2": "x"})])
    assert found is not None
    assert [row[2:] for row in found.rows] == [("2 d 00:00:00", "1 d", "b"), ("0 d 01:00:00", "4 h", "a")]


def test_names_are_text_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    for name in (one for one in HOSTILE if one.isprintable()):
        result = ran(hosts=[name, "b"], operators={name: [name, "b"]}, queries={name: [name]}, name=name, manager=None)
        text = page.render_page(fleet_page(result))
        assert "<img" not in text
        assert "<b>bold" not in text
        assert text.count("</script>") == text.count("<script")


def ran(**more: object) -> FleetResult:
    described = {key: value for key, value in {
        "hosts": ["a", "b"], "duration": "200 d", "times": {"mttf": "9 d", "mttr": "1 d"},
        "operators": {"x": ["a", "b"]}, "queries": {"q": ["x"]}, **more,
    }.items() if value is not None}  # fmt: skip
    return run_fleet(fleet_from(described))


def test_a_page_is_the_same_each_time_and_has_every_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    result = ran(manager={"budget": 1.0}, price="1 USD/h", queries={"q": {"operators": ["x"], "slo": 0.9}})
    text = page.render_page(fleet_page(result, command="holdfast fleet asked.json"))
    assert text == page.render_page(fleet_page(result, command="holdfast fleet asked.json"))
    for name in ("slo", "broken", "hosts", "cost"):
        assert f'<section id="{name}"' in text
    cost = sum(one["cost_usd"] for one in result.summary["hosts_in_use"]["by_host"])
    assert f"on average, {number(cost, 4)} USD" in text
