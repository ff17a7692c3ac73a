"""What is installed: the wheel's content, and commands in directories that have packages of our names."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from compiled_probe import in_a_new_process, in_this_checkout, written

from holdfast.commands import doctor

ROOT = Path(__file__).parent.parent
PACKAGES = ("holdfast", "models", "sim", "optimizer", "analysis", "scenarios")
_HOLDFAST = Path(sys.executable).parent / "holdfast"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout, built from a copy so that nothing is left in it."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."]
    done = subprocess.run(command, cwd=folder / "source", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return zipfile.ZipFile(found)


@pytest.mark.install
def test_the_wheel_holds_our_packages_their_data_and_no_tests(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)
    assert "scenarios/data/flights_nyc_2017.parquet" in names
    assert "scenarios/data/shakespeare_words.txt.gz" in names
    assert "scenarios/data/README.md" in names
    for folder, pattern in (("scenarios/library", "*.toml"), ("analysis/templates", "*")):
        for path in (ROOT / folder).glob(pattern):
            assert path.relative_to(ROOT).as_posix() in names


@pytest.mark.install
def test_every_module_of_the_checkout_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert modules <= set(wheel.namelist())


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the wheel was installed into."""
    return installed_in(tmp_path_factory.mktemp("installed"), wheel)


def installed_in(target: Path, wheel: zipfile.ZipFile) -> Path:
    """The directory, with the wheel in it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(target), str(wheel.filename)], check=True, capture_output=True)
    return target


def compiled_once(packages: Path, *options: str) -> dict[str, Any]:
    """What the second of two processes answers, for which nothing was left to compile; the first found nothing."""
    first = in_a_new_process(packages, *options, HOME="/nowhere")
    assert Path(first["directory"]).parent == packages / "sim" / "kernel" / "__pycache__"
    assert first["hits"] == 0
    assert first["misses"] > 0
    before = written(packages)
    second = in_a_new_process(packages, *options, HOME="/nowhere")
    assert written(packages) == before
    assert second["hits"] > 0
    assert second["misses"] == 0
    assert second["digest"] == first["digest"]
    return second


@pytest.mark.install
def test_an_installed_wheel_keeps_compiled_code_beside_itself(installed: Path) -> None:
    compiled_once(installed, "--small")


@pytest.mark.install
def test_an_installed_wheel_simulates_with_compiled_code_of_the_same_sources(installed: Path, tmp_path: Path) -> None:
    packages, here = shutil.copytree(installed, tmp_path / "packages"), in_this_checkout()
    kept = Path(here["directory"])
    target = packages / "sim" / "kernel" / "__pycache__" / kept.name
    shutil.copytree(kept, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.tmp.*"))
    before = written(packages)
    found = in_a_new_process(packages, HOME="/nowhere")
    assert found["directory"] == str(target)
    assert found["hits"] > 0
    assert found["misses"] == 0
    assert written(packages) == before
    assert found["digest"] == here["digest"]


@pytest.mark.install
@pytest.mark.slow
def test_an_installed_wheel_keeps_the_whole_engine_beside_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    compiled_once(installed_in(tmp_path, wheel))


def test_constraints_pin_every_library_that_is_required() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    required = {line.split()[0].lower() for text in lists for line in text.splitlines() if line.strip()}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert {name.replace("_", "-") for name in required} <= pinned


def test_a_command_works_in_a_directory_with_a_models_package_of_its_own(tmp_path: Path) -> None:
    for package in ("models", "sim", "analysis"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    command = [str(_HOLDFAST), "run", str(ROOT / "examples" / "two-hosts.toml"), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_shadowed_package_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("")
    command = [sys.executable, "-m", "holdfast", "doctor"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "models" in done.stderr
    assert "PYTHONSAFEPATH" in done.stderr


def test_doctor_looks_for_every_package_that_an_installation_requires() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = [line.split()[0] for line in setup["options"]["install_requires"].splitlines() if line.strip()]
    assert sorted(doctor.NEEDED) == sorted(required)
