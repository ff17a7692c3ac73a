"""Design points: every combination once, in the order of the file, each a scenario of its own."""

from __future__ import annotations

import pytest

from models.design import design_points, number_of_points
from models.errors import InputError
from models.reading import scenario_from

RAW = {
    "duration": "1 min",
    "workload": {"a": {"rate": "5 /s"}},
    "operators": {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}},
    "hosts": {"worker": {"count": 2}},
}


def test_every_combination_comes_once_and_the_last_path_varies_fastest() -> None:
    scenario = scenario_from(RAW | {"sweep": {"duration": ["1 min", "2 min"], "hosts.worker.count": [1, 2, 3]}})
    points = list(design_points(scenario))
    assert number_of_points(scenario) == len(points) == 6
    assert [point.number for point in points] == [0, 1, 2, 3, 4, 5]
    assert [tuple(point.settings.values()) for point in points[:4]] == [
        ("1 min", 1),
        ("1 min", 2),
        ("1 min", 3),
        ("2 min", 1),
    ]
    last = points[-1].of(scenario)
    assert (last.duration_s, last.hosts["worker"].count, dict(last.sweep)) == (120.0, 3, {})


def test_without_a_sweep_the_scenario_is_the_only_point() -> None:
    scenario = scenario_from(RAW)
    (point,) = design_points(scenario)
    assert point.settings == {}
    assert point.of(scenario) == scenario


def test_values_that_do_not_go_together_are_a_fault_of_that_point_alone() -> None:
    raw = RAW | {"warmup": "10 s", "sweep": {"duration": ["20 s", "2 min"], "warmup": ["5 s", "1 min"]}}
    with pytest.raises(InputError, match="warmup"):
        scenario_from(raw | {"sweep": {"warmup": ["2 min"]}})  # never fits
    scenario = scenario_from(raw | {"duration": "3 min"})
    points = list(design_points(scenario))
    with pytest.raises(InputError, match="must be shorter than the duration"):
        points[1].of(scenario)
    assert points[3].of(scenario).warmup_s == 60
