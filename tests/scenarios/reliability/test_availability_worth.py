"""Importance and gains by command, times from a log, a pair with crews, the schemas of all kinds of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from models.errors import InputError
from models.reliability.description import availability_from
from models.reliability.repair import pair_unavailability
from scenarios.reliability.availability import answer, read_availability
from scenarios.reliability.failure_logs import read_failures, write_failures
from scenarios.reliability.importance import importances

EXAMPLE = Path(__file__).parents[3] / "examples" / "availability.toml"
PAIR: dict[str, Any] = {
    "hosts": ["a", "b"], "operators": {"x": ["a", "b"], "y": ["a", "b"]}, "queries": {"q": ["x"], "r": ["x", "y"]},
    "times": {"mttf": "10 h", "mttr": "30 min", "crews": 1}, "standby": {"take_over": "20 s", "coverage": 0.95},
}  # fmt: skip


def called(capsys, *arguments: object) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def mean_of(raw: dict[str, Any], p: float) -> float:
    value = answer(availability_from(raw), p=[p], method="exact").lines[0].mean.value
    assert value is not None
    return value


def test_the_gain_of_a_replica_is_the_difference_that_it_makes() -> None:
    raw = {
        "hosts": ["a", "b", "c"], "p": 0.1, "operators": {"x": ["a"], "y": ["a", "b"]},
        "queries": {"q": ["x", "y"], "r": {"operators": ["y"], "weight": 3.0}},
    }  # fmt: skip
    (found,) = importances(availability_from(raw))
    assert {(one.operator, one.host) for one in found.replicas} == {("x", "b"), ("x", "c"), ("y", "c")}
    assert found.left_out == 0
    for one in found.replicas:
        more = {**raw, "operators": {**raw["operators"], one.operator: [*raw["operators"][one.operator], one.host]}}
        assert one.low == one.high == pytest.approx(mean_of(raw, 0.1) - mean_of(more, 0.1))
    assert [one.high for one in found.replicas] == sorted((one.high for one in found.replicas), reverse=True)


def test_the_importance_of_a_host_is_the_difference_of_its_being_down() -> None:
    raw = {
        "hosts": {"a": {}, "b": {}},
        "p": 0.1,
        "operators": {"x": ["a", "b"], "y": ["a"]},
        "queries": {"q": ["x", "y"]},
    }
    (found,) = importances(availability_from(raw))
    for one in found.elements:
        ends = [mean_of({**raw, "hosts": {**raw["hosts"], one.name: {"p": p}}}, 0.1) for p in (1.0, 0.0)]
        assert one.low == pytest.approx(ends[0] - ends[1])


def test_the_command_shows_both_and_has_them_in_its_document(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, "availability", EXAMPLE, "--importance")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "One more replica, p = 0.02" in out
    found = json.loads(called(capsys, "availability", EXAMPLE, "--importance", "--json")[1])
    assert [one["label"] for one in found["importance"]] == ["p = 0.0025", "p = 0.01", "p = 0.02"]
    assert found["importance"][0]["elements"][0]["name"] in ("c", "rack")


def test_importance_is_refused_where_hosts_are_not_independent() -> None:
    with pytest.raises(InputError, match="for hosts that are independent"):
        importances(availability_from(PAIR))


def test_a_pair_with_one_crew_is_solved_by_its_chain() -> None:
    line = answer(availability_from(PAIR)).lines[0]
    expected = pair_unavailability(36_000.0, 1800.0, 1, 20.0, 0.95)
    assert [one.value for one in (*line.queries, line.mean, line.some)] == [expected] * 4  # type: ignore[union-attr]
    independent = answer(availability_from({**PAIR, "times": {"mttf": "10 h", "mttr": "30 min"}})).lines[0].mean.value
    assert independent is not None
    assert expected > independent


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ["a", "b", "c"]},
        {"operators": {"x": ["a", "b"], "y": ["b", "a"]}},
        {"standby": {"coverage": 0.9}},
        {"upgrades": {"every": "1 d", "lasts": "1 min"}},
    ],
)
def test_other_standbys_beside_crews_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not solved together with crews or upgrades"):
        availability_from({**PAIR, **change})


def test_times_come_from_a_failure_log(tmp_path: Path) -> None:
    rows = "".join(f"h{k % 2},{1000 * k},{1000 * k + 50}\n" for k in range(40))
    (tmp_path / "log.csv").write_text("host,down,up\n" + rows)
    kept = read_failures([tmp_path / "log.csv"], draws=0)
    write_failures(kept, tmp_path / "log.json")
    raw = {**PAIR, "times": {"log": "log.json"}}
    del raw["standby"]
    (tmp_path / "asked.json").write_text(json.dumps(raw))
    found = answer(read_availability(tmp_path / "asked.json"))
    assert kept.mttf_s is not None
    share = 50 / (kept.mttf_s + 50)
    assert found.lines[0].mean.value == pytest.approx(share**2)
    (tmp_path / "asked.json").write_text(json.dumps({**raw, "times": {"log": "log.json", "mttf": "1 h"}}))
    with pytest.raises(InputError, match="must have either mttf or log"):
        read_availability(tmp_path / "asked.json")
    (tmp_path / "asked.json").write_text(json.dumps({**raw, "times": {"log": "asked.json"}}))
    with pytest.raises(InputError, match="is no file of holdfast failures"):
        read_availability(tmp_path / "asked.json")


@pytest.mark.parametrize("kind, key", [("scenario", "workload"), ("availability", "queries"), ("sizing", "copies")])
def test_each_kind_of_files_has_a_schema(capsys, kind: str, key: str) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, "schema", kind)
    found = json.loads(out)
    assert code == 0
    assert key in found["properties"]
    assert found["$schema"].startswith("https://json-schema.org/")
    for table in [found, *found["$defs"].values()]:
        for one in table.get("properties", {}).values():
            assert not isinstance(one.get("default"), float) or "type" in one or "anyOf" in one
    if kind == "sizing":
        assert found["$defs"]["Copies"]["properties"]["rebuild"]["default"] == "1 min"


def test_an_unknown_kind_of_files_is_refused(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, "schema", "nosuch")
    assert (code, out) == (2, "")
    assert "KIND = nosuch: must be one of scenario, availability, fleet, sizing" in err


def test_gains_fall_with_the_chance_of_failures() -> None:
    found = importances(read_availability(EXAMPLE))
    greatest = np.array([one.replicas[0].high for one in found])
    assert (np.diff(greatest) > 0).all()
