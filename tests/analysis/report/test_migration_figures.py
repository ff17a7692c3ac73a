"""Moves on the page: the lane below latency, pauses, usable checkpoints, placement; tables that can be searched."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import numpy as np
import pytest
from pages import PageReader, Parts, full, migration, recovery, rendered

from analysis.report.content import Decision, Latency
from analysis.report.event_marks import with_marks
from analysis.report.lines import latency
from analysis.report.migration_sections import load_checks, pauses
from analysis.report.parts import LoadChecks, PlacedGroup, PlacedHost, PlacementChange
from analysis.report.placement import before_after
from analysis.runs.migration_kinds import ClassifiedMigration
from analysis.runs.recovery_summary import Recovery
from analysis.runs.run_summary import Reconfiguration

pytestmark = pytest.mark.usefixtures("small_script")

LINE = Latency(np.arange(60.0), *(np.full(60, value) for value in (0.01, 0.02, 0.03)))


def move(k: int, at_s: float = 1.0, kind: str = "assisted", **changes: object) -> ClassifiedMigration:
    made = migration("g", k, ("a", "b"), at_s, 0.001 * (k + 1), 0.1, 0.2, protocol="cpal", kind=kind)
    return replace(made, **changes)  # type: ignore[arg-type]


def marked(
    moves: list[ClassifiedMigration], recoveries: tuple[Recovery, ...] = (), decisions: tuple[Decision, ...] = ()
):
    figure = latency(LINE, recoveries)
    return with_marks(figure, recoveries=recoveries, migrations=moves, decisions=decisions, replication=0)


def test_each_kind_of_mark_has_a_row_and_the_caption_counts_them() -> None:
    failed = (recovery("h", 30.0, 1.0, 1.0, 1.0, 1.0, 4.0),)
    came = (
        Decision(5.0, "x is acquired", "why", action="acquire"),
        Decision(6.0, "x stays overloaded", "why", action="balance"),
    )
    figure = marked([move(0), move(1, 7.5), move(2, kind="direct")], failed, came)
    ticks = figure.layout["yaxis2"]["ticktext"]
    assert ticks == ["direct moves", "assisted moves", "hosts come, go", "failures"]
    rows = {one["name"]: one for one in figure.data if one.get("yaxis") == "y2"}
    assert rows["assisted moves"]["x"] == [1.0, 7.5]
    assert {name: set(one["y"]) for name, one in rows.items()} == {tick: {k} for k, tick in enumerate(ticks)}
    said = "Marked below: 1 failure, 1 host that comes or goes, 2 assisted moves, 1 direct move."
    assert figure.caption.endswith(said)
    assert [what for _, what in figure.events] == ["g[0]: a to b, cpal", "g[2]: a to b, cpal", "x is acquired",
                                                   "g[1]: a to b, cpal", "h fails"]  # fmt: skip
    low, high = figure.layout["yaxis"]["domain"][0], figure.layout["yaxis2"]["domain"][1]
    assert 0 < high < low < 1


def test_moves_in_steps_are_marked_where_they_begin() -> None:
    one = Reconfiguration(
        0, "count", "fluid", 4.0, 4.5, 64, 64, 10**6, 1.18, 0.02, 0.02, 0.02, None, None, None, 64, 0, 0, None
    )
    given = (
        one,
        replace(one, strategy="batched", begun_s=7.0, duration_s=None, cancelled_s=7.2),
        replace(one, begun_s=None, requested_s=9.0, duration_s=None),
        replace(one, replication=1),
    )
    figure = with_marks(
        latency(LINE, ()), recoveries=(), migrations=(), decisions=(), replication=0, reconfigurations=given
    )
    assert figure.layout["yaxis2"]["ticktext"] == ["moves in steps"]
    assert figure.data[-1]["x"] == [4.5, 7.0, 9.0]
    assert figure.data[-1]["text"] == [
        "count: fluid, 64 steps, 1.18 s",
        "count: batched, 64 steps, cancelled",
        "count: fluid, 64 steps, not over",
    ]
    assert figure.caption.endswith("Marked below: 3 moves in steps.")


def test_failures_alone_need_no_lane_but_are_listed() -> None:
    figure = marked([], (recovery("h", 30.0, 1.0, 1.0, 1.0, 1.0, 4.0, suspected=True),))
    assert "yaxis2" not in figure.layout
    assert [what for _, what in figure.events] == ["h is fenced"]


def test_marks_of_other_replications_are_left_out() -> None:
    figure = marked([move(0, replication=1)])
    assert figure.events == ()
    assert "yaxis2" not in figure.layout


def test_thousands_of_moves_are_gathered_and_none_is_forgotten() -> None:
    figure = marked([move(k, 60 * k / 5000) for k in range(5000)])
    marks = figure.data[-1]
    assert 200 < len(marks["x"]) <= 301
    more = [int(said.split(" and ")[1].split()[0]) if " and " in said else 0 for said in marks["text"]]
    assert sum(more) + len(more) == 5000
    assert "5,000 assisted moves" in figure.caption
    assert (len(figure.events), figure.events_left) == (200, 4800)


def test_a_pause_is_drawn_for_each_move_that_has_one() -> None:
    figure = pauses([move(0), move(1, kind="direct", protocol="direct"), move(2, pause_s=None)])
    assert figure is not None
    assert [(one["name"], one["x"], one["y"]) for one in figure.data] == [
        ("assisted moves", [1.0], [0.0]),
        ("direct moves", [2.0], [1.0]),
    ]
    assert figure.layout["yaxis"]["ticktext"] == ["cpal", "direct"]
    assert figure.layout["xaxis"]["title"]["text"] == "pause [ms]"
    assert "2\u00a0ms, is that of g[1] by direct" in figure.caption
    assert pauses([move(2, pause_s=None)]) is None


def test_pauses_far_apart_are_on_a_log_scale_in_seconds() -> None:
    figure = pauses([move(0), move(1, pause_s=5.0)])
    assert figure is not None
    assert figure.layout["xaxis"]["type"] == "log"
    assert figure.data[0]["x"] == [0.001, 5.0]


def test_of_many_pauses_the_shortest_and_the_longest_are_drawn() -> None:
    figure = pauses([move(k) for k in range(3000)])
    assert figure is not None
    assert len(figure.data[0]["x"]) == 500
    assert (min(figure.data[0]["x"]), max(figure.data[0]["x"])) == (0.001, 3.0)
    assert "2,500 marks between others are left out." in figure.caption
    assert -0.5 < min(figure.data[0]["y"]) < -0.25 < 0.25 < max(figure.data[0]["y"]) < 0.5


def test_usable_checkpoints_are_counted_in_words() -> None:
    zeros = np.zeros(2, int)
    given = LoadChecks(np.array([4.0, 8.0]), np.array([3, 1]), np.array([1, 0]), np.array([1, 0]), zeros, zeros)
    figure = load_checks(given)
    assert figure is not None
    assert figure.caption.startswith(
        "4 times a key group was on an overloaded host when the manager checked; in 25\u00a0%"
    )
    assert figure.rows[0] == ("4", "3", "1", "1", "0", "0")
    assert [one["name"] for one in figure.data][2:] == ["assisted moves"]
    assert load_checks(replace(given, at_risk=zeros)) is None


def test_key_groups_that_moved_say_where_they_went_and_where_they_came_from() -> None:
    html = rendered(full())
    assert 'title="count[0] went to empty"' in html
    assert 'title="count[0] came from count"' in html
    assert "1 key group is not where it was at the start." in html
    assert 'style="width:90.0%"' in html
    assert "the busiest host was at 90\u00a0%, and is at 50\u00a0%." in html


def test_of_very_many_key_groups_only_those_that_moved_have_a_box() -> None:
    stay = tuple(PlacedGroup("o", k) for k in range(2000))
    gone = PlacedGroup("o", 2000, "b")
    came = PlacedGroup("o", 2000, "a")
    made = before_after(
        PlacementChange((PlacedHost("a", (*stay, gone), stay), PlacedHost("b", (), (came,))), ("o",), 1)
    )
    (_, before, after), (_, _, other) = made.rows
    assert ([chip.number for chip in before.chips], before.more) == (["2000"], 2000)
    assert (after.chips, after.more) == ((), 2000)
    assert other.chips[0].said == "o[2000] came from a"


def test_hosts_beyond_the_first_sixty_are_left_out_those_without_moves_first() -> None:
    hosts = [PlacedHost(f"h{k}", (PlacedGroup("o", k),), (PlacedGroup("o", k),)) for k in range(70)]
    hosts[69] = PlacedHost("h69", (PlacedGroup("o", 69, "h0"),), ())
    made = before_after(PlacementChange(tuple(hosts), ("o",), 1))
    assert [name for name, _, _ in made.rows][:2] == ["h69", "h0"]
    assert len(made.rows) == 60
    assert "10 more hosts are left out." in made.note


def decisions(count: int) -> Parts:
    about = ("moves", "hosts")
    return Parts(decisions=tuple(Decision(float(k), f"d{k}", f"why {k}", about=about[k % 2]) for k in range(count)))


def test_a_long_table_can_be_searched_and_says_what_it_leaves_out() -> None:
    read = PageReader(rendered(decisions(1500)))
    assert any("data-search" in attributes for _, attributes in read.tags)
    fields = [attributes for tag, attributes in read.tags if tag in ("input", "select", "button")]
    assert {one["aria-controls"] for one in fields} == {"table-reasons-given"}
    options = [attributes["value"] for tag, attributes in read.tags if tag == "option"]
    assert options == ["", "moves", "hosts"]
    facets = [attributes["data-facet"] for tag, attributes in read.tags if "data-facet" in attributes]
    assert facets == ["moves", "hosts"] * 500
    assert "The first 1,000 of 1,500 rows." in " ".join(read.words)


def test_a_search_needs_no_plotting_library_and_is_allowed_by_its_digest() -> None:
    html = rendered(decisions(20))
    assert "plotly" not in html
    assert PageReader(html).count("script") == 1
    read = PageReader(html)
    policy = next(attributes["content"] for _, attributes in read.tags if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(read.scripts[0][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy


def test_a_short_table_has_no_search_and_no_script() -> None:
    html = rendered(decisions(12))
    assert PageReader(html).count("script") == 0
    assert "data-search" not in html


def test_without_a_script_all_rows_are_there_and_no_tool_is() -> None:
    read = PageReader(rendered(decisions(20)))
    tools = [attributes for tag, attributes in read.tags if attributes.get("class") in ("tools", "more")]
    assert len(tools) == 2
    assert all("hidden" in attributes for attributes in tools)
    assert not any("hidden" in attributes for tag, attributes in read.tags if tag == "tr")
