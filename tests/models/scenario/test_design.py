"""Design points: every combination once, in the order of the file, each a scenario of its own."""

from __future__ import annotations

import pytest

from models.errors import InputError
from models.scenario.reading import design_points, number_of_points, scenario_from

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
    with pytest.raises(InputError, match=r"sweep\.warmup\[0\] = 2 min: must be shorter than the duration"):
        scenario_from(raw | {"sweep": {"warmup": ["2 min"]}})  # never fits
    scenario = scenario_from(raw | {"duration": "3 min"})
    points = list(design_points(scenario))
    with pytest.raises(InputError, match="must be shorter than the duration"):
        points[1].of(scenario)
    assert points[3].of(scenario).warmup_s == 60


def test_a_value_that_is_wrong_alone_is_fine_where_another_makes_it_valid() -> None:
    raw = RAW | {"warmup": "10 s"}
    sweep = {"duration": ["20 s", "5 min"], "warmup": ["5 s", "2 min"]}  # 2 min is too long for the minute of the file
    points = list(design_points(scenario_from(raw | {"sweep": sweep})))
    assert points[3].of(scenario_from(raw)).warmup_s == 120
    with pytest.raises(InputError, match=r"sweep\.warmup\[1\] = 10 min: must be shorter than the duration"):
        scenario_from(raw | {"sweep": sweep | {"warmup": ["5 s", "10 min"]}})


def test_a_misspelt_path_or_value_is_said_whatever_else_is_varied() -> None:
    many = {"seed": list(range(40)), "hosts.worker.count": list(range(1, 41))}
    with pytest.raises(InputError, match=r'sweep\."workload\.a\.rat"\[0\] = 5 /s: .*no such key'):
        scenario_from(RAW | {"sweep": many | {"workload.a.rat": ["5 /s"]}})
    with pytest.raises(InputError, match=r"sweep\.duration\[1\] = soon"):
        scenario_from(RAW | {"sweep": {"duration": ["1 min", "soon"]} | many})


def test_a_coupled_value_is_found_among_more_combinations_than_are_tried() -> None:
    many = {"seed": list(range(60)), "hosts.worker.count": list(range(1, 61))}
    scenario = scenario_from(RAW | {"sweep": {"duration": ["1 min", "5 min"], "warmup": ["2 min"]} | many})
    assert number_of_points(scenario) == 7200


@pytest.mark.parametrize("path", ["replications", "sweep", "sweep.seed", '"sweep".seed', "format"])
def test_what_is_the_same_for_all_designs_cannot_be_varied(path: str) -> None:
    with pytest.raises(InputError, match="cannot be varied: it is the same for all designs"):
        scenario_from(RAW | {"sweep": {path: [1, 2]}})


def test_a_path_without_values_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"sweep\.seed: must have a value at least"):
        scenario_from(RAW | {"sweep": {"seed": []}})


def test_a_value_that_is_there_twice_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"sweep\.seed\[2\] = 7: is there already"):
        scenario_from(RAW | {"sweep": {"seed": [7, 8, 7]}})
