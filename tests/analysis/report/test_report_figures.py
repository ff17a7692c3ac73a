"""Figures of the page: what is drawn, shaded, said below, and left out."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from pages import PageReader, Parts, full, recovery, rendered

from analysis.report.content import Edge, Latency, Lines, OperatorBox, Topology
from analysis.report.figure import fit
from analysis.report.gantt import heat
from analysis.report.lines import highest
from analysis.report.lines import lines as line_figure
from analysis.report.parts import PlacedGroup, PlacedHost, PlacementChange
from analysis.report.text import style, styles
from analysis.report.topology import draw

pytestmark = pytest.mark.usefixtures("small_script")


def test_phases_are_shaded_in_order_and_for_the_replication_of_the_line():
    content = full()
    other = replace(content.recoveries[0], replication=3, failed_s=10.0)
    spec = PageReader(rendered(replace(content, recoveries=(*content.recoveries, other)))).specs()["spec-latency"]
    rectangles = [(one["x0"], one["x1"]) for one in spec["layout"]["shapes"] if one["type"] == "rect"]
    assert rectangles == [(30.0, 31.0), (31.0, 31.5), (31.5, 31.75), (31.75, 34.0), (50.0, 51.0)]


def latency_caption(p99, recoveries, at=None):
    """The caption of the figure over all time, in words."""
    values = np.asarray(p99, dtype=float)
    line = Latency(np.arange(float(values.size)) if at is None else at, values, values, values)
    read = PageReader(rendered(Parts(latency=line, recoveries=recoveries)))
    return next(word for word in read.words if word.startswith(("Quantiles", "Nothing")))


def test_the_caption_of_latency_compares_the_recovery_with_the_time_before_it():
    p99 = np.full(60, 0.01)
    p99[[32, 40]] = 4.0, 9.0  # within the recovery of 30 .. 34 s, and after it
    ended = recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0)
    never = "During the recovery the p99 reaches 4\u00a0s; before the failure it was at most 10\u00a0ms"
    later = "afterwards it was in 3.85\u00a0% of the intervals above that"  # one of 26
    assert latency_caption(p99, (ended,)).endswith(f"in replication 0. {never}; {later}.")
    p99[40] = 4.0
    assert latency_caption(p99, (ended,)).endswith(f"in replication 0. {never}.")
    p99[[3, 7, 11]] = 5.0
    assert "before the failure it was in 10\u00a0% of the intervals above that" in latency_caption(p99, (ended,))


def test_a_recovery_that_did_not_end_lasts_to_the_end_of_the_run():
    p99 = np.full(60, 0.01)
    p99[[32, 59]] = 4.0, 9.0
    ended, open_ = recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0), recovery("a", 50.0, 1.0, None, None, None, None)
    both = latency_caption(p99, (ended, open_))
    assert (
        "During the 2 recoveries the p99 reaches 9\u00a0s; before the first failure it was at most 10\u00a0ms" in both
    )


def test_a_host_that_dies_while_its_tasks_are_down_is_no_recovery_of_its_own():
    p99 = np.full(60, 0.01)
    p99[[32, 40]] = 4.0, 9.0
    first = recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0)
    within = replace(first, host="b", failed_s=31.0, total_s=3.0, within_s=30.0)
    apart = replace(first, failed_s=50.0)
    start = "During the recovery the p99 reaches 4\u00a0s; before the failure it was at most 10\u00a0ms; afterwards"
    assert start in latency_caption(p99, (first, within))
    assert "During the 2 recoveries the p99" in latency_caption(p99, (first, within, apart))


def test_the_caption_of_latency_says_when_nothing_came_during_the_recovery_or_before_it():
    p99 = np.full(60, 0.01)
    p99[30:34] = np.nan
    ended = recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0)
    assert latency_caption(p99, (ended,)).endswith("Nothing was delivered during the recovery.")
    early = replace(ended, failed_s=0.5)
    assert latency_caption(p99, (early,)).endswith("During the recovery the p99 reaches 10\u00a0ms.")


def test_the_upright_drawing_is_scaled_to_four_fifths_at_most_and_its_letters_are_legible():
    html = rendered(full())
    assert ".topology.upright { display: none; min-width: calc(.8 * var(--width)); }" in html
    rules = re.findall(r"\.(?:box|edge)[^{}]*\{[^}]*font-size: ([\d.]+)px", html)
    assert len(rules) == 3
    assert min(map(float, rules)) * 0.8 >= 9


def test_three_operators_beside_each_other_fit_on_a_phone():
    boxes = tuple(OperatorBox(name, "aggregate", 16, 32) for name in ("delays", "airtime", "sampled"))
    upright = str(draw(Topology(boxes, (), {}), upright=True))
    width = float(re.search(r'width="(\d+)"', upright)[1])
    assert 0.8 * width <= 390 - 2 * (16 + 12 + 1)  # paddings and borders around it


def test_gaps_stay_gaps():
    content = full()
    p99 = np.full(60, np.nan)
    read = PageReader(rendered(replace(content, latency=Latency(np.arange(60.0), p99, p99, p99))))
    assert "Nothing was delivered." in " ".join(read.words)
    assert set(read.specs()["spec-latency"]["data"][0]["y"]) == {None}


def test_long_series_are_drawn_as_means_of_blocks():
    shown, down, across = fit(np.arange(50.0).reshape(5, 10), 2, 4)
    assert (down, across) == (3, 3)
    assert shown.shape == (2, 4)
    whole = np.arange(50.0).reshape(5, 10)
    assert shown[0, 0] == whole[:3, :3].mean()
    assert shown[1, 3] == whole[3:, 9:].mean()


def test_more_operators_than_colours_differ_in_dashes():
    found = styles(f"o{k}" for k in range(48))
    assert len({(one.colour, one.dash) for one in found.values()}) == 48
    assert [found[f"o{k}"].colour for k in (0, 7, 8)] == ["var:--c1", "var:--c8", "var:--c1"]
    assert found["o0"].dash != found["o8"].dash
    assert found["o0"].symbol != found["o8"].symbol


def test_a_name_has_the_colour_of_its_place_in_the_file_whatever_else_is_drawn():
    order = ("a", "b", "c")
    assert styles(("c", "b"), order) == styles(order)
    assert styles(("new", "a"), order)["new"] == style(3)


def test_a_line_has_its_name_even_alone_and_the_same_colour_in_all_figures():
    at = np.arange(60.0)
    content = replace(
        full(),
        throughput=Lines(at, ("a", "b", "c"), np.ones((3, 60))),
        filled=Lines(at, ("b",), np.ones((1, 60))),
        blocked=Lines(at, ("a", "c"), np.ones((2, 60))),
    )
    specs = PageReader(rendered(content)).specs()
    colours = {
        (one["name"], one["line"]["color"])
        for name in ("throughput", "filled", "blocked")
        for one in specs[f"spec-{name}"]["data"]
    }
    assert len(colours) == 3
    assert all(specs[f"spec-{name}"]["layout"]["showlegend"] for name in ("filled", "lag"))


def test_an_operator_has_the_same_colour_in_figures_boxes_and_the_drawing():
    at = np.arange(60.0)
    boxes = tuple(OperatorBox(name, "map", 1) for name in ("in", "a", "b"))
    groups = (PlacedGroup("b", 0, "h2"), PlacedGroup("a", 1))
    content = replace(
        full(),
        topology=Topology(boxes, (), {}),
        throughput=Lines(at, ("b", "a"), np.ones((2, 60))),
        moved=PlacementChange((PlacedHost("h1", groups, ()),), ("b", "a"), 1),
    )
    read = PageReader(rendered(content))
    lines = {one["name"]: one["line"]["color"] for one in read.specs()["spec-throughput"]["data"]}
    assert lines == {"a": "var:--c2", "b": "var:--c3"}
    classes = [attributes.get("class", "") for _, attributes in read.tags]
    assert [one for one in classes if one.startswith("box ")] == ["box c1", "box c2", "box c3"] * 2
    assert [one for one in classes if one.startswith("chip ")] == [
        "chip c3 key",
        "chip c2 key",
        "chip c2",
        "chip c3 moved",
    ]


@pytest.mark.parametrize("hosts", [2, 20, 200, 1000])
def test_how_busy_hosts_are_is_a_heat_map_of_bounded_height(hosts):
    at = np.arange(500) * 0.5
    busy = np.tile(np.linspace(0, 100, hosts)[:, None], (1, 500))
    names = tuple(f"host-{k}" for k in range(hosts))
    content = replace(full(), hosts=Lines(at, names, busy), topology=Topology((), (), dict.fromkeys(names, ())))
    figure = next(
        one for section in content.sections for one in section.figures if one.title == "How busy each host is"
    )
    (trace, *marks) = figure.data
    rows = min(hosts, 200)
    assert trace["type"] == "heatmap"
    assert (len(trace["z"]), len(trace["y"]), len(set(trace["y"]))) == (rows, rows, rows)
    assert len(trace["z"][0]) == len(trace["meta"]["across"]) == len(trace["x"]) - 1 <= 240
    assert (trace["zmin"], trace["zmax"]) == (0, 100)
    assert trace["z"][-1][0] == 100.0  # of a block the busiest
    assert trace["meta"]["across"][0] == "0–1.5\u00a0s"
    assert trace["hovertemplate"] == "%{y}, %{text}: %{customdata:,.3~r}\u00a0%<extra></extra>"
    assert figure.height < 800
    assert {one["name"] for one in marks} == {"failures", "hosts come, go", "assisted moves", "direct moves"}
    assert len(figure.rows) == hosts
    assert figure.rows[-1] == (f"host-{hosts - 1}", "100", "100", "0")


def test_more_operators_than_lines_can_tell_apart_are_a_heat_map():
    at = np.arange(3.0)
    many = tuple(f"o{k}" for k in range(9))
    values = np.arange(27.0).reshape(9, 3)
    drawn = {"name": "n", "title": "t", "axis": "a", "unit": "tuples", "caption": "", "steps": False}
    figure = line_figure(Lines(at, many, values), [recovery("h", 1.0, 1.0, None, None, None, None)], **drawn)
    assert [one["type"] for one in figure.data] == ["heatmap"]
    assert [one["x0"] for one in figure.layout["shapes"]] == [1.0]  # where the host fails
    few = line_figure(Lines(at, many[:8], values[:8]), [], **drawn)
    assert [one["type"] for one in few.data] == ["scatter"] * 8


def test_a_heat_map_of_values_far_apart_has_a_log_scale_and_shows_the_values_themselves():
    values = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [0.0, 90_000.0, 7.0]])
    figure = heat(
        Lines(np.arange(3.0), ("a", "a", "c"), values), name="n", title="t", axis="a", unit="tuples", caption="Said."
    )
    (trace,) = figure.data
    assert trace["meta"]["log"]
    assert trace["z"] == values.tolist()
    assert (trace["zmin"], trace["zmax"]) == (0, 5)
    assert trace["colorbar"]["ticktext"] == ["1", "10", "100", "1,000", "10,000", "100,000"]
    assert trace["y"] == ["a", "a (1)", "c"]
    assert figure.caption == "Said. A cell without colour is 0."


def test_every_hover_text_is_written_and_says_a_unit_a_share_or_a_count():
    for name, spec in PageReader(rendered(full())).specs().items():
        for trace in spec["data"]:
            said = trace.get("hovertemplate", "")
            has_unit = re.search(
                r"\u00a0\S|%\}|of the time|tuples|key groups|correlation|%\{text\}|%\{customdata\}", said
            )
            assert has_unit, (name, trace["name"], said)


def test_bounded_queues_that_held_nobody_back_say_so_and_have_no_empty_figure():
    content = replace(full(), blocked=Lines(np.arange(60.0), (), np.empty((0, 60))))
    html = rendered(content)
    assert "spec-blocked" not in PageReader(html).specs()
    assert "No task ever had to wait for a place." in html
    assert "No task ever had to wait for a place." not in rendered(full())


@pytest.mark.parametrize(
    ("low", "high", "shown", "not_shown"),
    [(4.0, 60.0, ["2 s", "5 s", "50 s"], []), (0.001, 60.0, ["1 ms", "10 s"], ["2 s", "50 s"])],
)
def test_a_log_scale_of_few_decades_has_ticks_between_them(low, high, shown, not_shown):
    at = np.arange(10.0)
    line = Latency(at, np.full(10, low), np.full(10, high), np.full(10, high))
    axis = PageReader(rendered(replace(full(), latency=line))).specs()["spec-latency"]["layout"]["yaxis"]
    ticks = dict(zip(axis["ticktext"], axis["tickvals"], strict=True))
    assert set(shown) <= set(ticks)
    assert not set(not_shown) & set(ticks)
    size = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
    for said, value in ticks.items():
        number, unit = said.replace(",", "").split()
        assert float(number) * size[unit] == pytest.approx(value)


def test_a_cycle_in_the_dataflow_is_drawn():
    loop = Topology(
        (OperatorBox("a", "map", 1), OperatorBox("b", "map", 1)),
        (Edge("a", "b", "key"), Edge("b", "a", "key")),
    )
    read = PageReader(rendered(Parts(topology=loop)))
    assert sum(attributes.get("class") == "edge" for _, attributes in read.tags) == 4  # level and upright


def test_the_highest_of_one_tuple_is_in_the_singular():
    one = Lines(np.arange(2.0), ("count",), np.array([[0.2, 1.001]]))
    assert highest(one, "waiting tuples").startswith("Highest: 1 waiting tuple at count, ")
    assert highest(replace(one, values=np.array([[0.2, 1.01]])), "waiting tuples").startswith("Highest: 1.01 waiting t")
