"""Pages: a run, a sweep or a plan as one self-contained HTML text."""

from analysis.report.page import Fact, Page, render_page

__all__ = ["Fact", "Page", "render_page"]
