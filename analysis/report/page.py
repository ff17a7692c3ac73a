"""The page: content in, one HTML text out that needs nothing else to be seen.

Scripts are allowed by their digests only, so that no text that came in from outside could run even if it
were to stand on the page unescaped; the page's policy forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis.report import figures, lines, tables, text
from analysis.report.content import ReportContent
from analysis.report.figure import PHASES, Figure
from analysis.report.tables import Table
from analysis.report.topology import draw
from models.errors import MissingTool

_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
_SHORT = 0.15  # a recovery below this share of the run gets a figure of its own
_MOST_HOSTS = 60
_UNITS = {"places taken [%]": "% of the places", "share of time [%]": "% of the time", "born, not emitted": "tuples"}
_LAG = "A source is behind while its host is down, and while bounded queues have no room for what it emits."
_FILLED = "Of each operator the task whose queue has the fewest places left; under way to it counts as taken."
_FREE = f"{_FILLED} No task ever had to wait for a place."
_BLOCKED = "The mean over the tasks of each operator: outputs wait for room at their receivers, and nothing is started."


@dataclass(frozen=True)
class Section:
    """One section of the page; its parts are figures and tables in this order."""

    name: str
    title: str
    short: str
    words: str = ""
    drawings: tuple[Markup, ...] = ()
    hosts: tuple[tuple[str, list[str]], ...] = ()
    left_out: int = 0
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    definitions: dict[str, str] = field(default_factory=dict)
    items: tuple[str, ...] = ()


def render_report(content: ReportContent) -> str:
    """The page as HTML: figures, styles and scripts inside, no request at view time, the same text each time.

    Raises MissingTool when the plotly package has no script to put in.
    """
    sections = _sections(content)
    # Without a figure the page is small and needs no script.
    drawn = any(section.figures for section in sections)
    scripts = [_plotly(), _asset("report.js")] if drawn else []
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": text.plain, "marked": text.marked}
    return environment.get_template("report.html.j2").render(
        content=content,
        sections=sections,
        phases=PHASES,
        style=Markup(_asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
    )


def _sections(content: ReportContent) -> list[Section]:
    made = (
        _topology(content),
        _load(content),
        _allocation(content),
        _latency(content),
        _flow(content),
        _migrations(content),
        _recovery(content),
        _guarantee(content),
        _targets(content),
        _operators(content),
    )
    return [section for section in made if section is not None]


def _topology(content: ReportContent) -> Section | None:
    if content.topology is None:
        return None
    hosts = tables.placement(list(content.topology.placement.items()))
    return Section(
        "topology",
        "What runs where",
        "Topology",
        drawings=(draw(content.topology, upright=False), draw(content.topology, upright=True)),
        hosts=tuple(hosts[:_MOST_HOSTS]),
        left_out=max(0, len(hosts) - _MOST_HOSTS),
    )


def _load(content: ReportContent) -> Section | None:
    drawn = [figures.key_group_load(load, k) for k, load in enumerate(content.loads) if load.counts.size]
    if content.correlation is not None and content.correlation.values.size:
        drawn.append(figures.correlation(content.correlation))
    return Section("load", "Load of the key groups", "Load", figures=tuple(drawn)) if drawn else None


def _allocation(content: ReportContent) -> Section | None:
    if not content.allocation and not content.reasons:
        return None
    drawn = figures.allocation(content.allocation)
    listed = [tables.allocation(content.allocation)] if content.allocation else []
    listed += [tables.reasons(content.reasons)] if content.reasons else []
    words = ""
    if content.allocation:
        words = (
            "The gap is the distance between the objective and a proven bound, relative to the bound: "
            "at 0 % no better allocation exists. A dash means that nothing is known."
        )
    return Section(
        "allocation",
        "Where checkpoints go",
        "Checkpoints",
        words,
        figures=(drawn,) if drawn else (),
        tables=tuple(listed),
    )


def _latency(content: ReportContent) -> Section | None:
    line = content.latency
    if line is None or not len(line.at_s):
        return None
    drawn = [lines.latency(line, content.recoveries)]
    known = [one for one in lines.same_replication(content.recoveries, line.replication) if one.ends()]
    if known:
        longest = max(known, key=lambda one: one.ends()[-1][2] - one.failed_s)
        length = longest.ends()[-1][2] - longest.failed_s
        if length < _SHORT * (float(line.at_s[-1]) - float(line.at_s[0])):
            drawn.append(lines.latency(line, content.recoveries, around=longest))
    return Section("latency", "Latency from birth to sink", "Latency", figures=tuple(drawn))


def _flow(content: ReportContent) -> Section | None:
    bounded, blocked = content.filled is not None, content.blocked
    never = bounded and (blocked is None or not blocked.names)
    given = (
        (content.throughput, "throughput", "Tuples processed by each operator", "tuples per second", ""),
        (content.queue, "queue", "Tuples that wait at each operator", "waiting tuples", ""),
        (content.lag, "lag", "Tuples that wait at the sources", "born, not emitted", _LAG),
        (content.filled, "filled", "The fullest bounded queue", "places taken [%]", _FREE if never else _FILLED),
        (blocked, "blocked", "Time in which operators were held back", "share of time [%]", _BLOCKED),
    )
    drawn = [
        lines.lines(
            line,
            content.recoveries,
            name=name,
            title=title,
            axis=axis,
            caption=f"{lines.highest(line, _UNITS.get(axis, axis))} {words}".strip(),
            steps=name in ("throughput", "blocked"),
            order=content.throughput.names if content.throughput else (),
        )
        for line, name, title, axis, words in given
        if line is not None and len(line.at_s) and line.names
    ]
    return Section("flow", "Throughput and queues", "Flow", figures=tuple(drawn)) if drawn else None


def _migrations(content: ReportContent) -> Section | None:
    if not content.migrations and content.hosts is None:
        return None
    listed = [tables.migrations(content.migrations)] if content.migrations else []
    listed += [tables.decisions(content.decisions)] if content.decisions else []
    return Section(
        "migrations",
        "Migrations",
        "Migrations",
        figures=_hosts(content),
        tables=tuple(listed),
        definitions=tables.MOVING,
    )


def _hosts(content: ReportContent) -> tuple[Figure, ...]:
    """How busy hosts were, with the moves."""
    given = content.hosts
    if given is None or not len(given.at_s) or not given.names:
        return ()
    drawn = lines.lines(
        given,
        content.recoveries,
        name="hosts",
        title="How busy each host is",
        axis="CPU in use [%]",
        caption=f"{lines.highest(given, '%')} Each mark on the axis is a move that was asked for.".strip(),
        steps=True,
    )
    return (lines.with_moves(drawn, content.migrations, given.replication),)


def _recovery(content: ReportContent) -> Section | None:
    if not content.recoveries:
        return None
    drawn = figures.phases(content.recoveries)
    return Section(
        "recovery",
        "Recovery",
        "Recovery",
        figures=(drawn,) if drawn else (),
        tables=(tables.recoveries(content.recoveries),),
        definitions=tables.MEANING,
    )


def _guarantee(content: ReportContent) -> Section | None:
    given = content.guarantee
    if given is None:
        return None
    words = f"Promised: {text.plain(given.promise)}. " if given.promise else ""
    counts = (given.lost, given.duplicated, given.state_lost, given.state_duplicated)
    if None not in counts:
        words += (
            "Nothing was lost and nothing was duplicated."
            if not any(counts)
            else "Counted against what follows from the tuples that the sources gave."
        )
    elif given.lost is None:
        words += "Nothing is said of the sinks: there is none, or each is behind a window or a timer."
    return Section("guarantee", "Lost and duplicated", "Guarantee", words, tables=(tables.guarantee(given),))


def _targets(content: ReportContent) -> Section | None:
    if not content.targets:
        return None
    return Section("targets", "Targets", "Targets", tables=(tables.targets(content.targets),))


def _operators(content: ReportContent) -> Section | None:
    if not content.operators:
        return None
    words = (
        "After the warm-up. Waiting excludes service; the queue is the time average of waiting tuples "
        "without those in service; utilisation is per server."
    )
    return Section("operators", "Operators", "Operators", words, tables=(tables.operators(content.operators),))


def _policy(scripts: list[str]) -> str:
    """The content security policy: no request at all, and only these scripts."""
    digests = [
        "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'" for script in scripts
    ]
    allowed = " ".join(digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return _script_text((_TEMPLATES / name).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _plotly() -> str:
    # Found, not imported: the package itself is slow to load and only its script is needed.
    spec = importlib.util.find_spec("plotly")
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise MissingTool("the figures of a report need the plotly package: pip install plotly")
    return _script_text(path.read_text(encoding="utf-8"))


def _script_text(script: str) -> str:
    """The text as it may stand in a script element: browsers digest it with line feeds, and `</script` ends
    it.
    """
    normal = script.replace("\r\n", "\n").replace("\r", "\n")
    return normal.replace("</script", "<\\/script").replace("<!--", "<\\!--")
