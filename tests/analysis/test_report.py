"""The page: what stands on it, inert for hostile names, without network, the same each time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from analysis.report import ReportContent, page, render_report, text
from analysis.report.content import (
    AllocationRow,
    Correlation,
    Edge,
    Fact,
    Guarantee,
    KeyGroupLoad,
    Latency,
    Lines,
    OperatorBox,
    OperatorRow,
    Reason,
    Recovery,
    TargetRow,
    Topology,
)
from analysis.report.figure import fit, plain_list
from analysis.report.lines import lines as line_figure
from models.errors import MissingTool

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</title><img src=x onerror=alert(3)>",
    "<b>bold</b><a href='https://example.org'>x</a>",
    '" onmouseover="alert(4)',
    "{{ 7 * 7 }} {% raw %}",
    "]]><!-- <![CDATA[",
    "&lt;i&gt; &amp;",
    "var:--bad",
    "a\x00b\x1b[31m\u202ereversed\u2028line",
    "%{x} %{customdata}",
    "\ud800",
]


@pytest.fixture(autouse=True)
def _small_script(monkeypatch):
    """The plotting library is 5 MB of constant text: a stand-in of its place keeps the tests quick."""
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")


def full(name: str = "count") -> ReportContent:
    at = np.arange(60.0)
    p99 = np.where((at >= 30) & (at < 35), 4.0, 0.01)
    line = Latency(at, p99 / 2, p99, p99 * 2)
    return ReportContent(
        title=name,
        question=f"What happens to {name}?",
        facts=(Fact(name, name),),
        headline=(Fact(name, "1 s", True), Fact("lost", "3", False, name)),
        topology=Topology(
            (OperatorBox("in", "source", 1), OperatorBox(name, name, 2, 8)),
            (Edge("in", name, name, 12.0),),
            {name: (name,), "empty": ()},
        ),
        loads=(KeyGroupLoad(name, np.arange(12).reshape(3, 4), 60.0, name),),
        correlation=Correlation(np.eye(3), ((name, 2), ("other", 1))),
        allocation=(
            AllocationRow(name, "optimal", 1.0, 1.0, 0.0, 0.8, 0.7, 1.1, True),
            AllocationRow("even", "feasible", 2.0, 1.0, 1.0, 0.4, None, None),
        ),
        reasons=(Reason(name, name, name),),
        latency=line,
        throughput=Lines(at, (name, "out"), np.ones((2, 60))),
        queue=Lines(at, (name,), np.zeros((1, 60))),
        lag=Lines(at, (name,), np.ones((1, 60))),
        filled=Lines(at, (name,), np.full((1, 60), 40.0)),
        blocked=Lines(at, (name,), np.full((1, 60), 10.0)),
        recoveries=(
            Recovery(name, 30.0, 1.0, 0.5, 0.25, 2.25, 4.0),
            Recovery(name, 50.0, 1.0, None, None, None, None),
        ),
        guarantee=Guarantee(name, 0, 1, 2, None),
        targets=(TargetRow(name, name, name, False), TargetRow("lost", "0", name, None)),
        operators=(OperatorRow(name, 5, 0.1, 0.2, 0.3, None, 0.5, 0.25),),
        assumptions=(name,),
        versions={name: name},
        seed=7,
        command=name,
    )


class Page(HTMLParser):
    """Elements by tag with their attributes, texts, and the data of script elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        else:
            self.words.append(data)

    def count(self, tag: str) -> int:
        return sum(one == tag for one, _ in self.tags)

    def specs(self) -> dict[str, dict]:
        return {
            attributes["id"]: json.loads(data)
            for attributes, data in self.scripts
            if attributes.get("type") == "application/json"
        }


def test_every_section_is_there():
    read = Page(render_report(full()))
    sections = [attributes["id"] for tag, attributes in read.tags if tag == "section" and "id" in attributes]
    assert sections == [
        "topology",
        "load",
        "allocation",
        "latency",
        "flow",
        "recovery",
        "guarantee",
        "targets",
        "operators",
        "assumptions",
    ]
    assert set(read.specs()) == {
        f"spec-{name}"
        for name in (
            "load-0",
            "correlation",
            "allocation",
            "latency",
            "latency-around",
            "throughput",
            "queue",
            "lag",
            "filled",
            "blocked",
            "phases",
        )
    }


def test_a_page_of_nothing_but_a_question_has_no_script_and_no_section():
    read = Page(render_report(ReportContent("t", "q")))
    assert read.count("script") == 0
    assert read.count("section") == 0
    assert "q" in read.words


@pytest.mark.parametrize(
    "left_out",
    ["topology", "latency", "throughput", "queue", "lag", "filled", "blocked", "guarantee", "correlation"],
)
def test_a_section_that_is_none_is_left_out(left_out):
    render_report(replace(full(), **{left_out: None}))
    assert len(render_report(replace(full(), **{left_out: None}))) < len(render_report(full()))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_no_element_and_no_attribute(name):
    tame, read = Page(render_report(full())), Page(render_report(full(name)))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in tame.tags]
    assert [list(attributes) for _, attributes in read.tags] == [list(attributes) for _, attributes in tame.tags]
    assert not any(key.startswith("on") for _, attributes in read.tags for key in attributes)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_no_markup_for_plotly(name):
    def strings(value):
        if isinstance(value, dict):
            return [one for item in value.values() for one in strings(item)]
        if isinstance(value, list):
            return [one for item in value for one in strings(item)]
        return [value] if isinstance(value, str) else []

    for spec in Page(render_report(full(name))).specs().values():
        for one in strings(spec):
            own = one.replace("<br>", "").replace("<extra>", "").replace("</extra>", "")
            assert "<" not in own
            assert "\x1b" not in own


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name):
    shown = text.plain(name)
    assert shown in " ".join(Page(render_report(full(name))).words)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_stands_in_a_template_of_plotly(name):
    for spec in Page(render_report(full(name))).specs().values():
        for trace in spec["data"]:
            for key in ("hovertemplate", "texttemplate"):
                assert text.plain(name)[:8] not in trace.get(key, "")


def test_scripts_are_allowed_by_digest_and_nothing_may_be_requested():
    html = render_report(full())
    read = Page(html)
    policy = next(attributes["content"] for tag, attributes in read.tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none';")
    run = [data for attributes, data in read.scripts if "type" not in attributes]
    assert len(run) == 2
    for script in run:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_nothing_on_the_page_points_elsewhere():
    read = Page(render_report(full()))
    links = [value for _, attributes in read.tags for key, value in attributes.items() if key in ("src", "href")]
    assert links
    assert all(link.startswith("#") for link in links)
    targets = {attributes.get("id") for _, attributes in read.tags}
    assert {link[1:] for link in links} <= targets


def test_the_real_plotting_library_is_put_in_once(monkeypatch):
    monkeypatch.undo()
    html = render_report(full())
    assert html.count("plotly.js v") == 1
    assert Page(html).count("script") == 11 + 2


def test_a_missing_plotting_library_is_one_sentence(monkeypatch):
    monkeypatch.undo()
    page._plotly.cache_clear()
    monkeypatch.setattr(page.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingTool, match="pip install plotly"):
        render_report(full())


def test_the_same_content_gives_the_same_bytes():
    assert render_report(full()) == render_report(full())


def test_figures_have_axis_titles_and_colours_by_role():
    for spec in Page(render_report(full())).specs().values():
        assert spec["layout"]["xaxis"]["title"]["text"]
        assert spec["layout"]["yaxis"].get("title", {}).get("text") or spec["layout"]["yaxis"]["type"] == "category"
        colours = re.findall(r'"(?:color|fillcolor)": "([^"]*)"', json.dumps(spec))
        assert all(colour.startswith("var:--") for colour in colours)


def test_every_colour_role_is_in_the_style_sheet():
    html = render_report(full())
    roles = set(re.findall(r"var:(--[\w-]+)", html)) | set(re.findall(r'role\("(--[\w-]+)"\)', html))
    assert roles
    assert all(f"{role}:" in html for role in roles)


def test_phases_are_shaded_in_order_and_for_the_replication_of_the_line():
    content = full()
    other = replace(content.recoveries[0], replication=3, failed_s=10.0)
    spec = Page(render_report(replace(content, recoveries=(*content.recoveries, other)))).specs()["spec-latency"]
    rectangles = [(one["x0"], one["x1"]) for one in spec["layout"]["shapes"] if one["type"] == "rect"]
    assert rectangles == [(30.0, 31.0), (31.0, 31.5), (31.5, 31.75), (31.75, 34.0), (50.0, 51.0)]


def latency_caption(p99, recoveries, at=None):
    """The caption of the figure over all time, in words."""
    values = np.asarray(p99, dtype=float)
    line = Latency(np.arange(float(values.size)) if at is None else at, values, values, values)
    read = Page(render_report(ReportContent("t", "q", latency=line, recoveries=recoveries)))
    return next(word for word in read.words if word.startswith(("Quantiles", "Nothing")))


def test_the_caption_of_latency_compares_the_recovery_with_the_time_before_it():
    p99 = np.full(60, 0.01)
    p99[[32, 40]] = 4.0, 9.0  # within the recovery of 30 .. 34 s, and after it
    ended = Recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0)
    never = "During the recovery the p99 reaches 4\u00a0s; before the failure it was never above that."
    assert latency_caption(p99, (ended,)).endswith(f"in replication 0. {never}")
    p99[[3, 7, 11]] = 5.0
    assert "before the failure it was in 10\u00a0% of the intervals above that" in latency_caption(p99, (ended,))


def test_a_recovery_that_did_not_end_lasts_to_the_end_of_the_run():
    p99 = np.full(60, 0.01)
    p99[[32, 59]] = 4.0, 9.0
    ended, open_ = Recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0), Recovery("a", 50.0, 1.0, None, None, None, None)
    both = latency_caption(p99, (ended, open_))
    assert "During the 2 recoveries the p99 reaches 9\u00a0s; before the first failure it was never above that" in both


def test_the_caption_of_latency_says_when_nothing_came_during_the_recovery_or_before_it():
    p99 = np.full(60, 0.01)
    p99[30:34] = np.nan
    ended = Recovery("a", 30.0, 1.0, 0.5, 0.25, 2.25, 4.0)
    assert latency_caption(p99, (ended,)).endswith("Nothing was delivered during the recovery.")
    early = replace(ended, failed_s=0.5)
    assert latency_caption(p99, (early,)).endswith("During the recovery the p99 reaches 10\u00a0ms.")


def test_backticks_become_code_and_nothing_in_them_becomes_markup():
    items = ("where `serialise` is given", "`<b>x</b>`", "a ` b", "``")
    html = render_report(ReportContent("t", "q", assumptions=items))
    listed = re.findall(r"<li>(.*)</li>", html)
    assert listed == ["where <code>serialise</code> is given", "<code>&lt;b&gt;x&lt;/b&gt;</code>", "a ` b", "``"]


def test_loads_have_their_unit():
    assert "highest node load [cores]" in Page(render_report(full())).words


def test_only_sentences_are_broken_into_lines():
    html = render_report(replace(full(), reasons=(Reason("air[18]", "host-0", "host-1: dear; host-2: full"),)))
    row = re.search(r"<tr>\n<th scope=.row.>air.*?</tr>", html, re.DOTALL)[0]
    assert '<td class="name">host-0</td>' in row
    assert '<td class="prose">host-1: dear;\nhost-2: full</td>' in row
    assert re.search(r"tbody th, td\.name \{ white-space: nowrap; \}", html)


def test_the_upright_drawing_is_never_scaled_down_and_its_letters_are_legible():
    html = render_report(full())
    assert re.search(r"\.topology\.upright \{ display: block; max-width: none; \}", html)
    rules = re.findall(r"\.(?:box|edge)[^{}]*\{[^}]*font-size: ([\d.]+)px", html)
    assert len(rules) == 3
    assert min(map(float, rules)) >= 11


def test_gaps_stay_gaps():
    content = full()
    p99 = np.full(60, np.nan)
    read = Page(render_report(replace(content, latency=Latency(np.arange(60.0), p99, p99, p99))))
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
    given = Lines(np.arange(3.0), tuple(f"o{k}" for k in range(20)), np.ones((20, 3)))
    figure = line_figure(given, (), name="n", title="t", axis="a", caption="", steps=False)
    assert len({(one["line"]["color"], one["line"]["dash"]) for one in figure.data}) == 20


def test_a_line_has_its_name_even_alone_and_the_same_colour_in_all_figures():
    at = np.arange(60.0)
    content = replace(
        full(),
        throughput=Lines(at, ("a", "b", "c"), np.ones((3, 60))),
        filled=Lines(at, ("b",), np.ones((1, 60))),
        blocked=Lines(at, ("a", "c"), np.ones((2, 60))),
    )
    specs = Page(render_report(content)).specs()
    colours = {
        (one["name"], one["line"]["color"])
        for name in ("throughput", "filled", "blocked")
        for one in specs[f"spec-{name}"]["data"]
    }
    assert len(colours) == 3
    assert all(specs[f"spec-{name}"]["layout"]["showlegend"] for name in ("filled", "lag"))


def test_bounded_queues_that_held_nobody_back_say_so_and_have_no_empty_figure():
    content = replace(full(), blocked=Lines(np.arange(60.0), (), np.empty((0, 60))))
    html = render_report(content)
    assert "spec-blocked" not in Page(html).specs()
    assert "No task ever had to wait for a place." in html
    assert "No task ever had to wait for a place." not in render_report(full())


def test_a_target_is_met_missed_or_unknown():
    shown = render_report(full())
    assert "missed" in shown
    assert "nothing seen" in shown


def test_nothing_is_said_of_sinks_without_a_ledger():
    shown = render_report(replace(full(), guarantee=Guarantee("none", None, None, 0, 0)))
    assert "Nothing is said of the sinks" in shown


@pytest.mark.parametrize(
    ("low", "high", "shown", "not_shown"),
    [(4.0, 60.0, ["2 s", "5 s", "50 s"], []), (0.001, 60.0, ["1 ms", "10 s"], ["2 s", "50 s"])],
)
def test_a_log_scale_of_few_decades_has_ticks_between_them(low, high, shown, not_shown):
    at = np.arange(10.0)
    line = Latency(at, np.full(10, low), np.full(10, high), np.full(10, high))
    axis = Page(render_report(replace(full(), latency=line))).specs()["spec-latency"]["layout"]["yaxis"]
    ticks = dict(zip(axis["ticktext"], axis["tickvals"], strict=True))
    assert set(shown) <= set(ticks)
    assert not set(not_shown) & set(ticks)
    size = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
    for said, value in ticks.items():
        number, unit = said.replace("\u202f", "").split()
        assert float(number) * size[unit] == pytest.approx(value)


def test_long_tables_are_cut_and_say_so():
    rows = tuple(OperatorRow(f"o{k}", k, None, None, None, None, None, None) for k in range(70))
    words = " ".join(Page(render_report(replace(full(), operators=rows))).words)
    assert "The first 60 of 70 rows." in words
    assert "o69" not in words


def test_a_cycle_in_the_dataflow_is_drawn():
    loop = Topology(
        (OperatorBox("a", "map", 1), OperatorBox("b", "map", 1)),
        (Edge("a", "b", "key"), Edge("b", "a", "key")),
    )
    read = Page(render_report(ReportContent("t", "q", topology=loop)))
    assert sum(attributes.get("class") == "edge" for _, attributes in read.tags) == 4  # level and upright


def test_tables_scroll_by_keyboard_and_heads_have_a_scope():
    read = Page(render_report(full()))
    for tag, attributes in read.tags:
        if tag == "div" and "scroll" in (attributes.get("class") or ""):
            assert (attributes["tabindex"], attributes["role"]) == ("0", "region")
            assert attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("col", "row")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0 s"),
        (5e-9, "5\u00a0ns"),
        (0.0123, "12.3\u00a0ms"),
        (90.0, "90\u00a0s"),
        (150.0, "2.5\u00a0min"),
        (3600.0, "1\u00a0h"),
    ],
)
def test_times_are_shown_in_the_unit_that_suits_them(value, shown):
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (1234567, "1\u202f234\u202f567"), (0.00123456, "0.00123"), (99.96, "100")],
)
def test_numbers_have_three_digits(value, shown):
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "50\u00a0%"), (0.1234, "12.3\u00a0%"), (0.0, "0\u00a0%"), (1e-5, "0.001\u00a0%")],
)
def test_shares_are_shown_in_per_cent(value, shown):
    assert text.share(value) == shown


def test_rates_have_prefixes():
    assert (text.rate(12.0), text.rate(12345.0), text.rate(None)) == ("12\u00a0/s", "12.3\u00a0k/s", "–")


def test_what_is_no_number_becomes_null_in_figures():
    assert plain_list(np.array([1.0, np.nan, np.inf])) == [1.0, None, None]
    with pytest.raises(ValueError, match="JSON"):
        text.for_script(float("nan"))
