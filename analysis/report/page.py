"""A page and its HTML, one text that needs nothing else to be seen.

Scripts are allowed by their digests only, so that no text that came in from outside could run even if it
were to stand on the page unescaped; the page's policy forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis.report import text
from analysis.report.figure import PHASES, Section

_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@dataclass(frozen=True)
class Fact:
    """A label and its value as the reader shall see it; `good` marks it (None: neither good nor bad).

    `note` stands below, beside the mark if there is one, as in "target met".
    """

    label: str
    value: str
    good: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A page: what was asked, what came out, and its sections; those that are None are left out.

    `question` is one sentence, and `answer` sentences that answer it; `facts` say what was asked, `headline` what came
    out.
    """

    title: str
    question: str
    sections: Sequence[Section | None] = ()
    answer: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    headline: tuple[Fact, ...] = ()
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    command: str = ""


def render_page(page: Page) -> str:
    """Return the page as HTML: all inside, no request at view time, the same text each time.

    Text of `page` is escaped; only the SVG of a topology is markup of our own. A page with a figure carries the drawing
    library, about 1.4 MB, so that it can be read without a network and in ten years.
    """
    # Sections say themselves whether they have anything to show.
    sections = [section for section in page.sections if section is not None]
    # Without a figure the page is small; a table that can be searched has a script of its own.
    drawn = any(section.figures for section in sections)
    searched = any(table.searched for section in sections for table in section.tables)
    scripts = [_plotly(), _asset("report.js")] if drawn else []
    scripts += [_asset("search.js")] if searched else []
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            content=page,
            sections=sections,
            phases=PHASES,
            style=Markup(_asset("report.css")),
            scripts=[Markup(script) for script in scripts],
            policy=_policy(scripts),
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": text.plain, "marked": text.marked, "cell": text.cell}
    return environment


def _policy(scripts: list[str]) -> str:
    """Return the content security policy: no request at all, and only these scripts."""
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


def _plotly() -> str:
    """Return the script of plotly with the traces that figures use; its licence is beside it."""
    return _asset("plotly-cartesian.min.js")


def _script_text(script: str) -> str:
    """Return the text as it may stand in a script element: browsers digest it with line feeds, and `</script` ends
    it.
    """
    normal = script.replace("\r\n", "\n").replace("\r", "\n")
    return normal.replace("</script", "<\\/script").replace("<!--", "<\\!--")
