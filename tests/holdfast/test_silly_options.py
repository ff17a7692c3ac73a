"""Numbers that an option cannot mean are refused before anything is read or computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_altered_plans import CASES
from typer.testing import CliRunner

from holdfast.commands.options import bytes_of
from holdfast.commands.plan import app
from models.errors import InputError
from models.planning.placement import Placement
from scenarios.planning.plan_files import placement_from
from scenarios.queries.files import read_queries
from scenarios.queries.replicas import Options, front_of, problem_of

QUERIES = Path(__file__).parents[2] / "examples" / "queries.toml"


@pytest.mark.parametrize("memory", ["0 GB", "-2 GB", "0", "nan", "1e400 GB", "x"])
def test_memory_that_is_none_is_refused_by_its_name(memory: str) -> None:
    with pytest.raises(InputError) as raised:
        bytes_of(memory)
    assert str(raised.value).startswith(f"--memory = {memory}: must be")


@pytest.mark.parametrize("moves", [-1, 2**53])
def test_moves_of_a_placement_that_are_no_number_of_moves_are_refused_as_such(moves: int) -> None:
    problem = Placement(cpu=[1.0], host_cpu=[2.0])
    with pytest.raises(InputError, match="at least 0 and below"):
        placement_from(problem, None, moves)


@pytest.mark.parametrize("points", [-1, 0, 1, 10_001, 10**11])
def test_points_of_a_front_are_neither_few_nor_endless(points: int) -> None:
    problem = problem_of(read_queries(QUERIES), Options())
    with pytest.raises(InputError, match="must be at least 2, and at most 10000"):
        front_of(problem, points)


METHODS = ["baseline", "even", "sensitive-first", "exact", "expected-usable"]
TIMED = ["checkpoints", "selection", "queries", "steps", "placement"]
SEEDED = ["checkpoints", "queries", "steps", "placement", "replicas"]
MOVED = ["checkpoints", "placement"]
SILLY = [
    *((kind, "--time-limit", value) for kind in TIMED for value in ("0", "-1", "nan", "inf")),
    *((kind, "--seed", value) for kind in SEEDED for value in ("-1", str(2**63), str(2**64))),
    *((kind, "--method", "x") for kind in MOVED),
    *((kind, "--max-moves", value) for kind in MOVED for value in ("-1", "99999999999999999999")),
    ("checkpoints", "--max-moves", "1"),
    *((kind, "--memory", "0 GB") for kind in TIMED),
    ("checkpoints", "--workers", "0"),
    *(("interval", option, "-1") for option in ("--checkpoint-s", "--mtbf-s", "--restart-s", "--recovery-target-s")),
    *(("interval", option, "nan") for option in ("--complete-s", "--utilisation", "--rate-per-s")),
    *(("replicas", "--level", value) for value in ("-1", "11", "99999999999999999999")),
    *(("replicas", option, value) for option in ("--max-moves", "--budget-replicas") for value in ("-1", "9" * 20)),
    *(("replicas", "--time-limit", value) for value in ("-1", "0", "nan", "inf")),
    ("replicas", "--over", "x"),
    *(("replicas", "--front", value) for value in ("-1", "1", "99999999999999999999")),
    *(("replicas", option, value) for option in ("--budget", "--target", "--p") for value in ("-1", "nan", "inf")),
    *(("replicas", option, "x") for option in ("--goal", "--importance", "--selection", "--placement")),
]


@pytest.mark.parametrize(("kind", "option", "value"), SILLY)
def test_an_option_is_refused_by_the_name_that_was_written_with_a_hint(
    tmp_path: Path, kind: str, option: str, value: str
) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(CASES[kind][1]))
    given = QUERIES if kind == "replicas" else file
    error = CliRunner().invoke(app, [kind, str(given), f"{option}={value}"]).exception
    assert isinstance(error, InputError)
    (fault,) = error.faults
    assert (fault.path, str(fault.value).removesuffix(".0")) == (option, value)
    assert fault.hint or fault.rule.startswith("must be one of ")


def test_options_are_looked_at_before_a_file_is_read(tmp_path: Path) -> None:
    for kind in TIMED:
        error = CliRunner().invoke(app, [kind, str(tmp_path / "none.json"), "--time-limit=0"]).exception
        assert isinstance(error, InputError)
        assert error.faults[0].path == "--time-limit"


def test_the_methods_that_there_are_are_all_named() -> None:
    error = CliRunner().invoke(app, ["checkpoints", "none.json", "--method=x"]).exception
    assert isinstance(error, InputError)
    assert error.faults[0].rule == "must be one of " + ", ".join(METHODS)


@pytest.mark.parametrize("kind", SEEDED)
def test_the_largest_seed_is_taken(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(CASES[kind][1]))
    given = QUERIES if kind == "replicas" else file
    for seed in (2**31, 2**32, 2**63 - 1):
        assert CliRunner().invoke(app, [kind, str(given), f"--seed={seed}"]).exit_code == 0
