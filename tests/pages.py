"""A page with everything on it, names that try to become markup, and a reader of pages; for the tests of reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from html.parser import HTMLParser

import numpy as np

from analysis.report import Fact, Page, render_page
from analysis.report.checkpoint_sections import uploads_section
from analysis.report.content import (
    AllocationRow,
    Correlation,
    Decision,
    Edge,
    KeyGroupLoad,
    Latency,
    Lines,
    OperatorBox,
    Reason,
    Topology,
)
from analysis.report.figure import Section
from analysis.report.migration_sections import (
    cost_section,
    decisions_section,
    load_checks_section,
    migrations_section,
    placement_section,
)
from analysis.report.parts import (
    Change,
    Cost,
    CostRow,
    Curve,
    Design,
    LoadChecks,
    PlacedGroup,
    PlacedHost,
    PlacementChange,
)
from analysis.report.sections import (
    Flow,
    allocation_section,
    ccdf_section,
    designs_section,
    flow_section,
    guarantee_section,
    latency_section,
    load_section,
    operators_section,
    recovery_section,
    targets_section,
    topology_section,
)
from analysis.runs.checkpoint_summary import (
    Checkpoints,
    HostCheckpoints,
    HostDelay,
    MeanAndMax,
    OperatorCheckpoints,
    UploadDelay,
)
from analysis.runs.migration_kinds import ClassifiedMigration
from analysis.runs.recovery_summary import Recovery
from analysis.runs.run_summary import Durations, Guarantee, OperatorSummary, Verdict
from analysis.statistics import Mean
from models.steady_state.checkpoint_traffic import LinkSharing

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


def recovery(
    host: str,
    failed_s: float,
    *phases: float | None,
    replication: int = 0,
    suspected: bool = False,
) -> Recovery:
    """A recovery with the lengths of its phases and the total [s]."""
    detect_s, *others = phases
    return Recovery(
        replication, host, failed_s, detect_s, 0.0, 0.0, *others, "suspicion" if suspected else "crash", 1, 0, 0
    )


def migration(
    operator: str,
    key_group: int,
    hosts: tuple[str, str],
    requested_s: float,
    *lengths: float | None,
    protocol: str = "cpa",
    kind: str = "",
    cause: str = "event",
    replayed: int = 0,
) -> ClassifiedMigration:
    """A migration with its pause, completion and worst time [s]."""
    return ClassifiedMigration(
        0, protocol, operator, key_group, *hosts, requested_s, *lengths, replayed, 0, cause, kind=kind
    )


def operator_row(processed: int, utilisation: float = 0.25) -> OperatorSummary:
    waits, sojourns = (Durations(mean, None, None, None, p99, None, None) for mean, p99 in ((0.1, 0.2), (0.3, None)))
    return OperatorSummary(processed, waits, sojourns, 0.5, None, utilisation, None)


@dataclass(frozen=True)
class Parts:
    """What the tests put on a page of a run, without a run."""

    title: str = "t"
    question: str = "q"
    answer: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    headline: tuple[Fact, ...] = ()
    topology: Topology | None = None
    loads: tuple[KeyGroupLoad, ...] = ()
    correlation: Correlation | None = None
    allocation: tuple[AllocationRow, ...] = ()
    reasons: tuple[Reason, ...] = ()
    latency: Latency | None = None
    throughput: Lines | None = None
    queue: Lines | None = None
    lag: Lines | None = None
    filled: Lines | None = None
    blocked: Lines | None = None
    kept: Lines | None = None
    hosts: Lines | None = None
    uploads: Checkpoints | None = None
    delays: Lines | None = None
    sharing: str = ""
    bounded: bool = True
    recoveries: tuple[Recovery, ...] = ()
    migrations: tuple[ClassifiedMigration, ...] = ()
    load_checks: LoadChecks | None = None
    moved: PlacementChange | None = None
    designs: tuple[Design, ...] = ()
    latency_ccdfs: tuple[Curve, ...] = ()
    decisions: tuple[Decision, ...] = ()
    cost: Cost | None = None
    hosts_used: Lines | None = None
    promised: str = ""
    guarantee: Guarantee | None = None
    targets: Mapping[str, Verdict] | None = None
    operators: Mapping[str, OperatorSummary] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    command: str = ""

    @property
    def sections(self) -> list[Section]:
        """The sections in the order of the page of a study."""
        boxes = self.topology.operators if self.topology else ()
        drawn = self.throughput.names if self.throughput else ()
        order = tuple(dict.fromkeys((*(box.name for box in boxes), *drawn)))
        hosts = tuple(self.topology.placement) if self.topology else ()
        flow = Flow(self.throughput, self.queue, self.lag, self.filled, self.blocked, self.kept)
        made = (
            topology_section(self.topology) if self.topology else None,
            load_section(self.loads, self.correlation),
            allocation_section(self.allocation, self.reasons),
            designs_section(self.designs),
            latency_section(self.latency, self.recoveries, self.migrations, self.decisions) if self.latency else None,
            ccdf_section(self.latency_ccdfs),
            flow_section(flow, self.recoveries, order),
            migrations_section(self.migrations, self.hosts, self.recoveries, self.decisions, hosts),
            load_checks_section(self.load_checks),
            placement_section(self.moved, order),
            uploads_section(
                self.uploads,
                LinkSharing("fifo", self.sharing),
                bounded=self.bounded,
                over_time=self.delays,
                recoveries=self.recoveries,
                host_order=hosts,
            ),
            recovery_section(self.recoveries),
            guarantee_section(self.promised, self.guarantee) if self.guarantee else None,
            targets_section(self.targets),
            operators_section(self.operators),
            decisions_section(self.decisions),
            cost_section(self.cost, self.hosts_used, self.recoveries),
        )
        return [one for one in made if one is not None]


def rendered(parts: Parts) -> str:
    """The page of the parts as HTML."""
    heading = {one.name: getattr(parts, one.name) for one in fields(Page)}
    return render_page(Page(**heading))


def full(name: str = "count") -> Parts:
    """A page with everything on it, and the name wherever one can stand."""
    at = np.arange(60.0)
    p99 = np.where((at >= 30) & (at < 35), 4.0, 0.01)
    line = Latency(at, p99 / 2, p99, p99 * 2)
    return Parts(
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
        uploads=Checkpoints(
            interval_s=10.0,
            begun=26,
            completed=17,
            late=13,
            skipped=36,
            longest_between_s=42.0,
            upload_s=MeanAndMax(None, None),
            age_at_failure_s=MeanAndMax(30.0, 40.0),
            operators={name: OperatorCheckpoints(26, 17, 13, 36, 42.0)},
            hosts=(HostCheckpoints(name, 20, 12, 13, 30), HostCheckpoints("b", 6, 5, 0, 6)),
            delayed=UploadDelay(
                400, 200, 3.5, 5.0, (HostDelay(name, 100, 50, 2.0, 4.0), HostDelay("b", 300, 150, 4.0, 5.0))
            ),
        ),
        delays=Lines(at, (name, "b"), np.vstack([at, at / 2])),
        sharing=name,
        recoveries=(
            recovery(name, 30.0, 1.0, 0.5, 0.25, 2.25, 4.0),
            recovery(name, 50.0, 1.0, None, None, None, None),
        ),
        migrations=(
            migration(name, 0, (name, "empty"), 10.0, 0.5, 1.0, 0.7, protocol=name, cause=name, kind="assisted"),
            migration("g", 1, ("empty", name), 20.0, None, None, None, protocol="direct", kind="direct"),
        ),
        load_checks=LoadChecks(
            at[:2], *(np.array([4, 2]), np.array([1, 2]), np.array([1, 0]), np.array([0, 1]), np.zeros(2))
        ),
        moved=PlacementChange(
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
                    measure: Mean(1.0 + k, (0.9 + k, 1.1 + k))
                    for measure in ("latency_p99_s", "pause_s", "overhead_bytes_per_s", "cost_usd")
                },
                latency_ccdf=Curve(name, np.array([0.1, 1.0]), np.array([0.5, 0.01]), points=True),
                changes={"pause_s": Change(Mean(0.5, (0.4, 0.6)), "+50 ± 10\u00a0%", "higher")} if k else {},
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
        promised=name,
        guarantee=Guarantee(0, 1, 2, None),
        targets={name: Verdict(1.0, 2.0, False), "lost": Verdict(0, None, None)},
        operators={name: operator_row(5)},
        assumptions=(name,),
        versions={name: name},
        seed=7,
        command=name,
    )


class PageReader(HTMLParser):
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
