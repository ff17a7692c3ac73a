"""A section of the page: words, then figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup

from analysis.report.figure import Figure
from analysis.report.placement import BeforeAfter
from models.table import Table


@dataclass(frozen=True)
class Section:
    """One section of the page; its parts are drawings, figures and tables in this order."""

    name: str
    title: str
    short: str
    words: str = ""
    drawings: tuple[Markup, ...] = ()
    hosts: tuple[tuple[str, list[str]], ...] = ()
    left_out: int = 0
    placed: BeforeAfter | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    definitions: dict[str, str] = field(default_factory=dict)
