"""Makers of small records for the tests of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from small_runs import make

__all__ = ["make", "small_script"]


@pytest.fixture
def small_script(monkeypatch):
    """The plotting library is 5 MB of constant text: a stand-in of its place keeps the tests quick."""
    from analysis.report import page  # noqa: PLC0415 - for tests of pages only

    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
