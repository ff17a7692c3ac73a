"""Tables of sweeps and comparisons: units kept, as many digits on both sides, names in one piece."""

from __future__ import annotations

import io
import math
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from analysis.comparison import Difference, compare
from analysis.runs.recovery_summary import Recovery
from analysis.runs.tables import recoveries_table
from analysis.statistics import Mean
from holdfast.sweep_tables import comparison_table, sweep_line, with_interval
from holdfast.terminal import printed
from scenarios.sweeps.designs import Comparison, Design


@pytest.mark.parametrize(
    ("metric", "mean", "half", "shown"),
    [
        ("latency_s.mean", 1.0, 0.202, "1 ± 0.2 s"),
        ("latency_s.mean", 1.0, 0.0, "1 ± 0 s"),
        ("latency_s.mean", 0.0, 0.0, "0 ± 0 s"),
        ("latency_s.mean", 0.0, 0.002, "0 ± 2 ms"),
        ("latency_s.mean", -0.0125, 0.0005, "-12.5 ± 0.5 ms"),
        ("latency_s.mean", 250.0, 1.5, "4.167 ± 0.025 min"),
        ("latency_s.count", 1000.0, 0.0, "1,000 ± 0"),
        ("guarantee.lost", 2.5, 0.25, "2.5 ± 0.25"),
    ],
)
def test_an_interval_has_the_unit_of_its_mean(metric: str, mean: float, half: float, shown: str) -> None:
    assert with_interval(metric, Mean(mean, (mean - half, mean + half))) == shown


def test_a_mean_without_an_interval_stands_alone() -> None:
    assert with_interval("latency_s.mean", Mean(0.5, None)) == "500 ms"
    assert with_interval("latency_s.mean", Mean(None, None)) == "–"


def test_names_of_metrics_are_in_one_piece() -> None:
    name = "operators.count_words.sojourn_s.p99"
    one, other = ({k: {name: value + k / 7} for k in range(3)} for value in (1.2345, 1.3456))
    out = io.StringIO()
    found = compare(one, other, same_numbers=True, metrics=[name])
    Console(file=out, width=80).print(printed(comparison_table(found)))
    assert name in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80


@pytest.mark.parametrize(
    ("narrower", "ends"),
    [
        (None, "(2 pairs)."),
        (1.0, "(2 pairs)."),
        (1.04, "(2 pairs)."),
        (math.inf, "(2 pairs)."),
        (3.21, "(2 pairs): the interval of the first metric that varies is 3.2 times as narrow for it."),
    ],
)
def test_only_what_is_clearly_narrower_is_said_to_be(narrower: float | None, ends: str) -> None:
    design = Design("a", 1, {0: {"x": 1.0}, 1: {"x": 2.0}})
    mean = Mean(1.0, (0.5, 1.5))
    found = Comparison((design, design), (Difference("x", mean, mean, mean, True, (2, 2), narrower),))
    assert found.sentence().endswith(ends)


@pytest.mark.parametrize(
    ("count", "shown"), [(1, "1 design, 1 run in out;"), (1200, "1,200 designs, 1,200 runs in out;")]
)
def test_one_is_not_many(count: int, shown: str) -> None:
    many = [SimpleNamespace(settings={})] * count
    plan = SimpleNamespace(points=many, scenario=SimpleNamespace(designs={}, resolution=1))
    result: Any = SimpleNamespace(plan=plan, rows=many, directory="out", digest="0" * 64)
    assert sweep_line(result).startswith(shown)
    assert "stands for" not in sweep_line(result)


def test_a_sweep_says_the_resolution_of_its_designs() -> None:
    designs = {"coarse": {"resolution": 100}, "fine": {}}
    points = [SimpleNamespace(settings=one) for one in ({"design": "coarse"}, {"design": "fine"}, {"resolution": 5})]
    plan = SimpleNamespace(points=points, scenario=SimpleNamespace(designs=designs, resolution=10))
    result: Any = SimpleNamespace(plan=plan, rows=points, directory="out", digest="0" * 64)
    assert sweep_line(result).endswith(
        "One simulated record stands for 5 to 100; all counts are of records of the job."
    )


def test_the_phases_of_a_recovery_fit_a_terminal_with_allocation_and_restart() -> None:
    recovery = Recovery(12, "worker-12", 1234.5, 12.5, 12.5, 12.5, 12.5, 12.5, 12.5, 75.0, "crash", 4, 0, 0)
    out = io.StringIO()
    Console(file=out, width=80).print(printed(recoveries_table([recovery]).brief))
    (row,) = [line for line in out.getvalue().splitlines() if "worker-12" in line]
    assert row.split() == ["worker-12", "12", *["12.5", "s"] * 5, "75", "s"]
    assert max(map(len, out.getvalue().splitlines())) <= 80
