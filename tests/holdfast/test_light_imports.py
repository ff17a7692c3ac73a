"""`import holdfast` and the light commands load none of the heavy libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from profiled import small_profile

import holdfast
from scenarios.files.profiles import write_profile

ROOT = Path(__file__).parents[2]
HEAVY = ("ortools", "scipy", "numba", "pyspark", "plotly", "pandas", "pint", "simpy", "pyarrow", "networkx")


def loaded_by(code: str, tmp_path: Path) -> set[str]:
    """Top-level modules that are loaded after the code ran."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"""
import contextlib, io
from holdfast.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({list(arguments)!r})
"""


def test_importing_the_front_door_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_by("import holdfast", tmp_path).isdisjoint({*HEAVY, "numpy", "pydantic", "typer", "rich"})


def test_the_help_page_loads_no_command_and_no_description(tmp_path: Path) -> None:
    assert loaded_by(command("--help"), tmp_path).isdisjoint({*HEAVY, "numpy", "pydantic"})


@pytest.mark.parametrize("arguments", [("schema",), ("library",)], ids=" ".join)
def test_light_commands_load_no_engine_solver_graph_or_plot(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert loaded_by(command(*arguments), tmp_path).isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [("validate", "mm1"), ("show", "mm1")], ids=" ".join)
def test_commands_about_one_job_load_its_graph_and_no_engine_solver_or_plot(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    loaded = loaded_by(command(*arguments), tmp_path)
    assert "networkx" in loaded
    assert loaded.isdisjoint(set(HEAVY) - {"networkx"})


def test_a_list_of_commands_loads_none_of_them(tmp_path: Path) -> None:
    assert loaded_by(command("plan", "--help"), tmp_path).isdisjoint({*HEAVY, "numpy"})


def test_an_exact_availability_loads_no_engine(tmp_path: Path) -> None:
    asked = command("availability", str(ROOT / "examples" / "availability.toml"))
    assert loaded_by(asked, tmp_path).isdisjoint(HEAVY)


def test_a_run_whose_code_is_kept_loads_neither_numba_nor_pandas(tmp_path: Path) -> None:
    asked = command("run", "crash-recovery", "--engine", "compiled", "--out", str(tmp_path / "run"), "--force")
    loaded_by(asked, tmp_path)  # compiles what is not kept
    program = f"{asked}\nimport sys; assert not {{'numba', 'numba.core', 'pandas', 'scipy.linalg'}} & set(sys.modules)"
    loaded = loaded_by(program, tmp_path)
    assert "llvmlite" in loaded


def test_a_profile_is_read_without_pandas(tmp_path: Path) -> None:
    folder = write_profile(small_profile(), tmp_path / "profile")
    loaded = loaded_by(f"from holdfast import read_profile\nread_profile({str(folder)!r})", tmp_path)
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = holdfast.nosuch
