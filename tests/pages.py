"""A page with everything on it, names that try to become markup, and a reader of pages; for the tests of reports."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np

from analysis.report import ReportContent
from analysis.report.content import (
    AllocationRow,
    CheckpointCounts,
    Correlation,
    Decision,
    Edge,
    Fact,
    Guarantee,
    KeyGroupLoad,
    Latency,
    Lines,
    Migration,
    OperatorBox,
    OperatorRow,
    Reason,
    RecordDelay,
    Recovery,
    TargetRow,
    Topology,
    Uploads,
)
from analysis.report.parts import (
    Change,
    Cost,
    CostRow,
    Curve,
    Design,
    Interval,
    LoadChecks,
    Moved,
    MoveKind,
    PlacedGroup,
    PlacedHost,
)

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


def full(name: str = "count") -> ReportContent:
    """A page with everything on it, and the name wherever one can stand."""
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
        uploads=Uploads(
            interval_s=10.0,
            longest_between_s=42.0,
            age_mean_s=30.0,
            age_max_s=40.0,
            operators=(CheckpointCounts(name, 26, 17, 13, 36, 42.0),),
            hosts=(CheckpointCounts(name, 20, 12, 13, 30), CheckpointCounts("b", 6, 5, 0, 6)),
            delayed=(RecordDelay(name, 100, 50, 2.0, 4.0), RecordDelay("b", 300, 150, 4.0, 5.0)),
            over_time=Lines(at, (name, "b"), np.vstack([at, at / 2])),
            sharing=f"fifo ({name})",
            bounded=True,
        ),
        recoveries=(
            Recovery(name, 30.0, 1.0, 0.5, 0.25, 2.25, 4.0),
            Recovery(name, 50.0, 1.0, None, None, None, None),
        ),
        migrations=(
            Migration(name, name, name, "empty", 10.0, 0.5, 1.0, 0.7, 3, cause=name, kind="assisted"),
            Migration("g", "direct", "empty", name, 20.0, None, None, None, 0, kind="direct"),
        ),
        move_kinds=(MoveKind("assisted", name, name, 1, 0, Interval(0.5, 0.4, 0.6), 0.5, 0.5, 1.0, 3),),
        load_checks=LoadChecks(
            at[:2], *(np.array([4, 2]), np.array([1, 2]), np.array([1, 0]), np.array([0, 1]), np.zeros(2))
        ),
        moved=Moved(
            (
                PlacedHost(
                    name, (PlacedGroup(name, 0, "empty"), PlacedGroup(name, 1)), (PlacedGroup(name, 1),), 0.9, 0.4
                ),
                PlacedHost("empty", (), (PlacedGroup(name, 0, name),), 0.0, 0.5),
            ),
            (name,),
            1,
            4.0,
        ),
        designs=tuple(
            Design(
                f"{name} {k}",
                "even",
                name,
                3,
                {
                    measure: Interval(1.0 + k, 0.9 + k, 1.1 + k)
                    for measure in ("latency_p99_s", "pause_s", "overhead_bytes_per_s", "cost_usd")
                },
                latency_ccdf=Curve(name, np.array([0.1, 1.0]), np.array([0.5, 0.01]), points=True),
                changes={"pause_s": Change(Interval(0.5, 0.4, 0.6), "+50 ± 10\u00a0%", "higher")} if k else {},
            )
            for k in range(2)
        ),
        latency_ccdfs=(Curve(name, np.array([0.1, 1.0]), np.array([1.0, 0.001])),),
        decisions=(
            Decision(10.0, f"{name} is to move", name, about=name),
            Decision(20.0, "h is acquired", "full", action="acquire"),
        )
        * 8,
        cost=Cost((CostRow(name, 2, 60.0, 0.5, 0.01),), 0.01, 0.6, 0.2),
        hosts_used=Lines(np.array([0.0, 30.0, 30.0, 60.0]), ("hosts",), np.array([[2.0, 2.0, 3.0, 3.0]])),
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


class StatedFigures(HTMLParser):
    """Tables of a page, by the id around them, and its headline, as texts: what a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.headline: dict[str, str] = {}
        self._name, self._label, self._in_headline = "", "", False
        self._cell: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        if str(own.get("id", "")).startswith(("table-", "figure-")):
            self._name = str(own["id"])
        if tag == "dl":
            self._in_headline = own.get("class") == "headline"
        if tag == "tr":
            self.tables.setdefault(self._name, []).append([])
        if tag in ("th", "td", "dt", "dd"):
            self._cell = ""
        elif self._cell is not None:
            self._cell += " "

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag: str) -> None:
        if self._cell is None or tag not in ("th", "td", "dt", "dd"):
            return
        text = " ".join(self._cell.split())
        if tag in ("th", "td"):
            self.tables[self._name][-1].append(text)
        elif tag == "dt":
            self._label = text
        elif self._in_headline:
            self.headline[self._label] = text
        self._cell = None
