"""The page: what stands on it, inert for hostile names, without network, the same each time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages import HOSTILE, PageReader, Parts, full, operator_row, rendered

from analysis.report import page, text
from analysis.report.content import AllocationRow, Reason
from analysis.runs.run_summary import Guarantee

PLOTLY = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
TEMPLATES = Path(page.__file__).parent.parent / "templates"

pytestmark = pytest.mark.usefixtures("small_script")


def test_every_section_is_there():
    read = PageReader(rendered(full()))
    sections = [attributes["id"] for tag, attributes in read.tags if tag == "section" and "id" in attributes]
    assert sections == [
        "topology",
        "load",
        "allocation",
        "designs",
        "latency",
        "tail",
        "flow",
        "migrations",
        "checks",
        "placement",
        "uploads",
        "recovery",
        "guarantee",
        "targets",
        "operators",
        "decisions",
        "cost",
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
            "delays",
            "phases",
            "designs-latency",
            "designs-pause",
            "pareto-latency",
            "pareto-pause",
            "designs-tail",
            "tail",
            "pauses",
            "checks",
            "hosts-used",
        )
    }


def test_a_page_of_nothing_but_a_question_has_no_script_and_no_section():
    read = PageReader(rendered(Parts()))
    assert read.count("script") == 0
    assert read.count("section") == 0
    assert "q" in read.words


@pytest.mark.parametrize(
    "left_out",
    [
        "topology",
        "latency",
        "throughput",
        "queue",
        "lag",
        "filled",
        "blocked",
        "guarantee",
        "correlation",
        "load_checks",
        "moved",
        "cost",
        "hosts_used",
    ],
)
def test_a_section_that_is_none_is_left_out(left_out):
    rendered(replace(full(), **{left_out: None}))
    assert len(rendered(replace(full(), **{left_out: None}))) < len(rendered(full()))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_no_element_and_no_attribute(name):
    tame, read = PageReader(rendered(full())), PageReader(rendered(full(name)))
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

    for spec in PageReader(rendered(full(name))).specs().values():
        for one in strings(spec):
            own = one.replace("<br>", "").replace("<extra>", "").replace("</extra>", "")
            assert "<" not in own
            assert "\x1b" not in own


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name):
    shown = text.plain(name)
    assert shown in " ".join(PageReader(rendered(full(name))).words)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_stands_in_a_template_of_plotly(name):
    for spec in PageReader(rendered(full(name))).specs().values():
        for trace in spec["data"]:
            for key in ("hovertemplate", "texttemplate"):
                assert text.plain(name)[:8] not in trace.get(key, "")


def test_scripts_are_allowed_by_digest_and_nothing_may_be_requested():
    html = rendered(full())
    read = PageReader(html)
    policy = next(attributes["content"] for tag, attributes in read.tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none';")
    run = [data for attributes, data in read.scripts if "type" not in attributes]
    assert len(run) == 3
    for script in run:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_nothing_on_the_page_points_elsewhere():
    read = PageReader(rendered(full()))
    links = [value for _, attributes in read.tags for key, value in attributes.items() if key in ("src", "href")]
    assert links
    assert all(link.startswith("#") for link in links)
    targets = {attributes.get("id") for _, attributes in read.tags}
    assert {link[1:] for link in links} <= targets


def test_the_real_plotting_library_is_put_in_once(monkeypatch):
    monkeypatch.undo()
    html = rendered(full())
    assert html.count("* plotly.js (cartesian - minified) v4.1.1") == 1
    assert PageReader(html).count("script") == 21 + 3


def test_the_plotting_library_is_the_published_one_with_its_licence_and_the_traces_that_figures_use(monkeypatch):
    monkeypatch.undo()
    script = (TEMPLATES / "plotly-cartesian.min.js").read_bytes()
    # That of plotly.js-cartesian-dist-min 4.1.1 in the npm registry.
    assert hashlib.sha256(script).hexdigest() == PLOTLY
    assert "Permission is hereby granted" in (TEMPLATES / "plotly-LICENSE.txt").read_text()
    traces = {trace["type"] for spec in PageReader(rendered(full())).specs().values() for trace in spec["data"]}
    assert traces == {"scatter", "bar", "heatmap"}
    assert all(f'moduleType:"trace",name:"{trace}"'.encode() in script for trace in traces)


def test_the_same_content_gives_the_same_bytes():
    assert rendered(full()) == rendered(full())


def test_figures_have_axis_titles_and_colours_by_role():
    for spec in PageReader(rendered(full())).specs().values():
        assert spec["layout"]["xaxis"]["title"]["text"]
        assert spec["layout"]["yaxis"].get("title", {}).get("text") or spec["layout"]["yaxis"]["type"] == "category"
        colours = re.findall(r'"(?:color|fillcolor)": "([^"]*)"', json.dumps(spec))
        assert all(colour.startswith("var:--") for colour in colours)


def test_every_colour_role_is_in_the_style_sheet():
    html = rendered(full())
    roles = set(re.findall(r"var:(--[\w-]+)", html)) | set(re.findall(r'role\("(--[\w-]+)"\)', html))
    assert roles
    assert all(f"{role}:" in html for role in roles)


def test_backticks_become_code_and_nothing_in_them_becomes_markup():
    items = ("where `serialise` is given", "`<b>x</b>`", "a ` b", "``")
    html = rendered(Parts(assumptions=items))
    listed = re.findall(r"<li>(.*)</li>", html)
    assert listed == ["where <code>serialise</code> is given", "<code>&lt;b&gt;x&lt;/b&gt;</code>", "a ` b", "``"]


def test_loads_have_their_unit():
    assert "highest node load [cores]" in PageReader(rendered(full())).words


def test_only_sentences_are_broken_into_lines():
    html = rendered(replace(full(), reasons=(Reason("air[18]", "host-0", "host-1: dear; host-2: full"),)))
    row = re.search(r"<tr>\n<th scope=.row.>air.*?</tr>", html, re.DOTALL)[0]
    assert re.search(r'<td class="name"[^>]*>host-0</td>', row)
    assert re.search(r'<td class="prose"[^>]*>host-1: dear;\nhost-2: full</td>', row)
    assert re.search(r"tbody th, td\.name \{ white-space: nowrap; \}", html)


def test_a_target_is_met_missed_or_unknown():
    shown = rendered(full())
    assert "missed" in shown
    assert "nothing seen" in shown


def test_nothing_is_said_of_sinks_without_a_ledger():
    shown = rendered(replace(full(), promised="none", guarantee=Guarantee(None, None, 0, 0)))
    assert "Loss at sinks was not counted" in shown


def test_long_tables_are_cut_and_say_so():
    rows = {f"o{k}": operator_row(k) for k in range(70)}
    words = " ".join(PageReader(rendered(replace(full(), operators=rows))).words)
    assert "The first 60 of 70 rows." in words
    assert "o69" not in words


def test_tables_scroll_by_keyboard_and_heads_have_a_scope():
    read = PageReader(rendered(full()))
    for tag, attributes in read.tags:
        if tag == "div" and "scroll" in (attributes.get("class") or ""):
            assert (attributes["tabindex"], attributes["role"]) == ("0", "region")
            assert attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("col", "row")


def test_methods_that_are_equally_good_are_named_together():
    rows = (("even", 0.2), ("sensitive-first", 1.0), ("exact", 1.0))
    allocation = tuple(AllocationRow(name, "feasible", 1.0, 1.0, 0.0, share, share, 1.1, False) for name, share in rows)
    words = " ".join("".join(PageReader(rendered(replace(full(), allocation=allocation))).words).split())
    assert "100 % of the checkpoints are usable with sensitive-first and exact, 20 % with even." in words


@pytest.mark.parametrize("known", [True, False])
def test_shares_of_plans_are_told_apart_from_those_of_runs(known):
    share = 0.5 if known else None
    allocation = (AllocationRow("even", "feasible", 1.0, 1.0, 0.0, share, share, 1.1, False),)
    words = " ".join("".join(PageReader(rendered(replace(full(), allocation=allocation))).words).split())
    assert ("reckoned from the rates alone" in words) is known
