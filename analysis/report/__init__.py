"""The report: one self-contained HTML page about a run or a plan; see `render_report`."""

from analysis.report.content import ReportContent
from analysis.report.page import render_report

__all__ = ["ReportContent", "render_report"]
