"""Designs on the page: intervals, the designs that no other beats, tails, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pages import Parts

from analysis.report.ccdf import ccdf_figure, reached
from analysis.report.designs import front, measured, pareto, recoveries
from analysis.report.figure import is_wide, rate_unit, share_ticks, time_unit
from analysis.report.parts import Change, Curve, Design
from analysis.report.tables import designs as table
from analysis.report.tables import efforts, with_interval
from analysis.statistics import Mean

UP, ACROSS = "latency_p99_s", "overhead_bytes_per_s"


def design(label: str, p99: Mean | float | None, sent: float | None = 1000.0, protocol: str = "cpal") -> Design:
    values = {}
    if p99 is not None:
        values[UP] = p99 if isinstance(p99, Mean) else Mean(p99)
    if sent is not None:
        values[ACROSS] = Mean(sent)
    return Design(label, "even", protocol, 3, values)


def beaten(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the other is as good in both, and better in one."""
    return other != one and all(theirs <= ours for ours, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(10))
def test_the_front_is_what_no_other_design_beats(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [(float(x), float(y)) for x, y in draw.integers(0, 6, (12, 2))]
    given = [design(str(k), y, x) for k, (x, y) in enumerate(points)]
    expected = [k for k, one in enumerate(points) if not any(beaten(one, other) for other in points)]
    assert front(given, ACROSS, UP) == expected
    assert expected


def test_designs_without_a_value_are_no_part_of_the_front() -> None:
    given = [design("a", None), design("b", 2.0), design("c", 3.0, None), design("d", 1.0, 2000.0)]
    assert front(given, ACROSS, UP) == [1, 3]
    assert pareto(given[:3], UP, name="n", title="t", axis="p99") is None


def test_what_is_not_beaten_is_filled_numbered_and_named() -> None:
    given = [design("a", 3.0, 1000.0), design("b", 1.0, 3000.0), design("c", 4.0, 4000.0)]
    figure = pareto(given, UP, name="n", title="t", axis="p99")
    assert figure is not None
    behind, best = figure.data
    assert (behind["text"], best["text"]) == (["2"], ["0", "1"])
    assert (best["x"], best["y"]) == ([1.0, 3.0], [3.0, 1.0])
    assert figure.layout["xaxis"]["title"]["text"] == "checkpoints and moves [kB/s]"
    assert "Of 3 designs, 0 (a) and 1 (b) are filled" in figure.caption


def test_designs_in_the_same_place_are_one_spot_that_says_so() -> None:
    given = [design(name, 1.0, 1000.0) for name in "abcdef"] + [design("z", 2.0, 500.0)]
    figure = pareto(given, UP, name="n", title="t", axis="p99")
    assert figure is not None
    (best,) = figure.data
    assert best["text"] == ["6", "0+5"]
    assert best["marker"]["color"] == ["var:--c7", "var:--c1"]  # as the designs have in the figure of tails
    assert best["customdata"][1].split("<br>")[0] == "0 a: 1\u00a0kB/s, 1\u00a0s"
    assert best["customdata"][1].split("<br>")[4] == "and 2 more"


def test_a_design_has_the_colour_of_its_number_also_where_another_has_no_tail() -> None:
    curve = Curve("c", np.array([0.1, 1.0]), np.array([0.5, 0.01]))
    given = (design("a", 1.0, 1000.0), replace(design("c", 2.0, 500.0), latency_ccdf=curve))
    (drawn,) = [one for one in Parts(designs=given).sections[0].figures if one.name == "designs-tail"]
    assert [(one["name"], one["line"]["color"]) for one in drawn.data] == [("1 c", "var:--c2")]


def test_of_very_many_designs_none_that_is_not_beaten_is_left_out() -> None:
    given = [design(str(k), 500.0 - k, 1000.0 + k) for k in range(200)]
    given += [design(str(k), 600.0 + k, 2000.0) for k in range(200, 400)]
    figure = pareto(given, UP, name="n", title="t", axis="p99")
    assert figure is not None
    behind, best = figure.data
    assert (len(behind["x"]), len(best["x"])) == (150, 200)
    assert figure.caption.endswith("50 designs behind are left out.")


def test_an_axis_begins_at_zero_unless_all_values_are_close() -> None:
    far = pareto([design("a", 1.0, 100.0), design("b", 2.0, 1000.0)], UP, name="n", title="t", axis="p99")
    near = pareto([design("a", 1.0, 990.0), design("b", 2.0, 1000.0)], UP, name="n", title="t", axis="p99")
    assert far is not None
    assert near is not None
    assert (far.layout["xaxis"]["rangemode"], near.layout["xaxis"]["rangemode"]) == ("tozero", "normal")


def compared(label: str, mean: float, low: float, high: float, shown: str, measure: str = UP) -> Design:
    """Return a design whose difference to design 0, of mean 0.010, has this interval."""
    change = Change(
        Mean(mean - 0.010, None if low is None or high is None else (low, high)),
        f"{10_000 * (mean - 0.010):+.1f}\u00a0%",
        shown,
    )
    return replace(design(label, None), values={measure: Mean(mean)}, changes={measure: change})


def test_a_design_is_marked_by_its_verdict_and_its_bar_is_the_interval_of_the_difference() -> None:
    figure = measured(
        [
            design("a", 0.010),
            compared("b", 0.020, 0.009, 0.011, "higher"),
            compared("c", 0.004, -0.018, 0.006, "unclear"),
            compared("d", 0.010, 0.0, 0.0, "equal"),
        ],
        UP,
        name="n",
        title="t",
        axis="p99",
    )
    assert figure is not None
    assert [one["name"] for one in figure.data] == ["design 0", "higher than design 0", "unclear", "equal"]
    assert len({one["marker"]["symbol"] for one in figure.data}) == 4
    _, higher, unclear, _ = figure.data
    assert (higher["x"], higher["error_x"]["array"], higher["error_x"]["arrayminus"]) == ([20.0], [1.0], [1.0])
    # The interval reaches 8 ms below zero, the bar ends at zero: a time is never below it.
    assert (unclear["x"], unclear["error_x"]["array"], unclear["error_x"]["arrayminus"]) == ([4.0], [12.0], [4.0])
    assert [(one["x0"], one["x1"]) for one in figure.layout["shapes"]] == [(10.0, 10.0)]
    assert figure.caption.endswith("Against design 0, the dotted line: 1 higher, 1 unclear, 1 equal.")


def test_without_an_interval_the_caption_says_what_is_missing() -> None:
    other = replace(design("b", 2.0), changes={UP: Change(Mean(1.0), "+100\u00a0%", "unclear")})
    figure = measured([design("a", 1.0), other], UP, name="n", title="t", axis="p99")
    assert figure is not None
    assert figure.caption.endswith("There is no interval: that takes two runs or more of each design.")


def recovering(label: str, *phases: float | None, unfinished: int = 0) -> Design:
    names = ("detect_s", "restore_s", "replay_s", "catch_up_s")
    values = {name: Mean(phase) for name, phase in zip(names, phases, strict=True) if phase is not None}
    if None not in phases:
        values["recovery_s"] = Mean(sum(phase or 0.0 for phase in phases))
    return Design(label, "", "", 3, values, unfinished_recoveries=unfinished)


def test_phases_of_recoveries_are_stacked_design_by_design() -> None:
    given = [recovering("a", 2.0, 0.5, 0.25, 1.25), design("none", 1.0), recovering("c", 1.0, 0.5, 0.25, 0.25)]
    figure = recoveries(given)
    assert figure is not None
    assert figure.layout["barmode"] == "stack"
    assert [one["name"] for one in figure.data] == ["detect", "restore", "replay", "catch up"]
    assert [one["x"] for one in figure.data] == [[2.0, 1.0], [0.5, 0.5], [0.25, 0.25], [1.25, 0.25]]
    assert [(row[0], row[-1]) for row in figure.rows] == [("0", "4\u00a0s"), ("2", "2\u00a0s")]
    assert 'Of the time shown 50\u00a0% goes into the phase "detect".' in figure.caption


def test_there_is_no_figure_of_recoveries_without_any() -> None:
    assert recoveries([design("a", 1.0), design("b", 2.0)]) is None


def test_recoveries_that_did_not_end_are_named() -> None:
    figure = recoveries([recovering("a", 2.0, None, None, None, unfinished=3), recovering("b", 1.0, 0.5, 0.25, 0.25)])
    assert figure is not None
    assert figure.caption.endswith(
        "Recoveries that did not end within the run (3 of design 0) count in the phases that ended."
    )


def test_one_design_is_no_comparison_and_forty_are_the_most() -> None:
    assert measured([design("a", 1.0)], UP, name="n", title="t", axis="p99") is None
    figure = measured([design(str(k), 1.0 + k / 100) for k in range(60)], UP, name="n", title="t", axis="p99")
    assert figure is not None
    assert sum(len(one["x"]) for one in figure.data) == 40
    assert figure.caption.endswith("The first 40 of 60 designs are drawn.")


def test_measures_that_no_design_has_are_no_column() -> None:
    made = table([design("a", 1.0), Design("b", "", "", 2, failed=1)])
    assert made.heads == ("design", "runs", "failed", "latency p99")
    assert made.rows == (("0 a", "3", "0", "1\u00a0s"), ("1 b", "2", "1", "–"))


def test_what_designs_send_and_cost_is_a_table_of_its_own() -> None:
    dear = Design("b", "", "", 3, {"cost_usd": Mean(0.25), "assisted_share": Mean(0.5)})
    made = efforts([design("a", 1.0, 2500.0), dear])
    assert made is not None
    assert made.heads == ("design", "assisted", "overhead", "cost [USD]")
    assert made.rows == (("0 a", "–", "2.5\u00a0kB/s", "–"), ("1 b", "50\u00a0%", "–", "0.25"))
    assert efforts([design("a", 1.0, None)]) is None


def test_the_difference_to_the_first_design_stands_below_each_mean() -> None:
    changes = {UP: Change(Mean(-0.5, (-0.6, -0.4)), "-25.0 ± 5.0\u00a0%", "lower")}
    made = table([design("a", 2.0), replace(design("b", 1.5), changes=changes), design("c", 2.0)])
    assert made.heads == ("design", "latency p99")
    assert [row[1] for row in made.rows] == ["2\u00a0s", "1.5\u00a0s\n-25.0 ± 5.0\u00a0% lower", "2\u00a0s"]


def test_a_mean_and_half_its_interval_have_one_unit() -> None:
    assert with_interval(Mean(0.0111, (0.0, 0.0222))) == "11\u00a0±\u00a011\u00a0ms"
    assert with_interval(Mean(0.0111)) == "11.1\u00a0ms"
    assert with_interval(Mean()) == "–"


def test_the_tail_of_several_designs_names_the_best_and_the_worst() -> None:
    def curve(name: str, slow: float) -> Curve:
        return Curve(name, np.array([0.01, 0.1, slow]), np.array([0.5, 0.01, 0.001]), points=True)

    figure = ccdf_figure([curve("a", 1.0), curve("b", 2.0)])
    assert figure is not None
    assert figure.caption.startswith(
        "One tuple in a thousand took 1\u00a0s or more with a, and 2\u00a0s or more with b."
    )
    assert "Only the marked points are known" in figure.caption
    assert figure.rows[-1] == ("0.1\u00a0%", "1\u00a0s", "2\u00a0s")
    assert {one["mode"] for one in figure.data} == {"lines+markers"}
    many = ccdf_figure([curve(str(k), 1.0) for k in range(15)])
    assert many is not None
    assert len(many.data) == 8
    assert "The first 8 of 15 are drawn." in many.caption


def test_a_level_is_reached_at_the_longest_time_that_so_many_took() -> None:
    given = Curve("a", np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5, 0.1]))
    assert [reached(given, level) for level in (1.0, 0.6, 0.5, 0.1)] == [1.0, 1.0, 2.0, 3.0]
    assert ccdf_figure([Curve("a", np.array([0.0]), np.array([1.0]))]) is None


@pytest.mark.parametrize(
    ("least", "last"), [(1.0, "100 %"), (0.5, "10 %"), (0.001, "0.1 %"), (1e-5, "0.001 %"), (3e-7, "0.00001 %")]
)
def test_shares_have_a_tick_for_each_decade(least: float, last: str) -> None:
    ticks = share_ticks(least)
    assert len(ticks["tickvals"]) == len(ticks["ticktext"])
    assert ticks["ticktext"][-1] == last
    for value, said in zip(ticks["tickvals"], ticks["ticktext"], strict=True):
        assert float(said.removesuffix(" %")) / 100 == pytest.approx(value)


@pytest.mark.parametrize(("least", "most"), [(0.004, 0.0092), (0.0025, 0.08), (0.011, 0.4), (0.3, 0.9)])
def test_shares_that_are_near_each_other_have_several_ticks_that_say_what_they_are(least: float, most: float) -> None:
    ticks = share_ticks(least, most)
    assert sum(least <= at <= most for at in ticks["tickvals"]) >= 3
    for at, said in zip(ticks["tickvals"], ticks["ticktext"], strict=True):
        assert float(said.removesuffix(" %")) / 100 == pytest.approx(at)


def test_units_suit_the_greatest_value() -> None:
    assert time_unit([0.002, 0.5, None]) == ("ms", 1e-3)
    assert rate_unit([10.0, 2e6]) == ("MB/s", 1e6)
    assert time_unit([]) == ("s", 1.0)
    assert (is_wide([1.0, 31.0]), is_wide([1.0, 30.0]), is_wide([0.0, 9.0]), is_wide([])) == (True, False, False, False)


def test_the_tail_of_a_whole_and_its_parts_speaks_of_the_whole() -> None:
    parts = [Curve(name, np.array([0.1, slow]), np.array([1.0, 0.001])) for name, slow in (("all", 2.0), ("one", 1.0))]
    figure = ccdf_figure(parts, whole=True)
    assert figure is not None
    assert figure.caption == "One tuple in a thousand took 2\u00a0s or more, the slowest 2\u00a0s."
    edge = ccdf_figure(
        [Curve("all", np.array([0.1, 3.141]), np.array([1.0, 0.001]))]
    )  # the quantile beside it reads 3.15 s
    assert edge is not None
    assert edge.caption.startswith("One tuple in a thousand took 3.1\u00a0s or more")
    assert len(figure.data) == 2
