"""The benchmark of selections runs, at a tiny scale: every case prints its status, gap and rivals."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("section", "cases"), [("operators", 14), ("levels", 3), ("queries", 12), ("steps", 6)])
def test_every_case_of_a_section_is_printed_with_its_gap(section, cases, monkeypatch, capsys):
    path = Path(__file__).parents[2] / "benchmarks" / "selection.py"
    spec = importlib.util.spec_from_file_location("selection_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["selection.py", section, "--scale", "0.002", "--limit", "0.05"])
    module.main()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == cases
    assert all(re.search(r"(optimal|feasible) +gap +\d\.\de[-+]\d\d", text) for text in printed)
    assert all(("generic" in text) == (section in ("operators", "queries")) for text in printed[2:])
