"""The benchmark of replication runs, at a tiny scale: rivals agree with what they stand beside, and are timed."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LINES = {"plans": 7, "proofs": 4, "size": 1, "availability": 3, "fleet": 4}


@pytest.mark.parametrize(
    "section", [pytest.param(one, marks=[pytest.mark.slow] * (one in ("plans", "fleet"))) for one in LINES]
)
def test_every_line_has_its_time_and_its_ratio(
    section: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = import_module("replicas")
    monkeypatch.setattr(sys, "argv", ["replicas.py", section, "--scale", "0.015", "--repeats", "1"])
    benchmark.main()
    printed = [text for text in capsys.readouterr().out.splitlines() if text.startswith("  ")]
    assert len(printed) == LINES[section]
    assert all(re.search(r" [\d,.]+(e[-+]?\d+)? x$", text) for text in printed)


def test_the_plan_of_the_milp_keeps_every_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = import_module("replicas")
    posed = benchmark.workload(5.0)
    made = benchmark.first_order(posed, posed.budget)
    assert posed.violations(made) == []
    assert any(len(hosts) > 1 for hosts in made)
    assert benchmark.first_order(posed, 0.0) == tuple((int(host),) for host in posed.primaries)
    assert np.all(posed.broken(made) <= posed.broken(benchmark.first_order(posed, 0.0)) + 1e-15)
