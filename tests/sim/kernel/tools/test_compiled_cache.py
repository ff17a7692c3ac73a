"""Where compiled code is kept: it is found again, also where little can be written, and never that of other sources."""

from __future__ import annotations

import os
import pickle
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compiled_probe
import numba
import numpy as np
import pytest
from compiled_probe import found_and_missed, in_a_new_process, in_this_checkout, written

from sim.kernel.tools import compiler, directory, native
from sim.kernel.tools.cache import KINDS, Kernel

ROOT = Path(__file__).parents[4]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """All directories that could be chosen lie below this one: package, home, tmp."""
    package = tmp_path / "package"
    shutil.copytree(ROOT / "sim" / "kernel", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(directory, "__file__", str(package / "tools" / "directory.py"))
    yield tmp_path


def chosen() -> Path | None:
    """The directory that a new process would choose."""
    directory.digest.cache_clear()
    try:
        return directory.directory.__wrapped__()
    finally:
        directory.digest.cache_clear()


def blocked(path: Path) -> None:
    """Nothing can be written there, not even by root: a file is in the place of the directory."""
    if path.is_dir():
        shutil.rmtree(path)
    path.write_text("")


def test_the_first_place_that_can_be_written_is_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(places / "given"))
    digest = directory.digest.__wrapped__()
    assert chosen() == places / "given" / "holdfast" / digest
    blocked(places / "given")
    assert chosen() == places / "package" / "__pycache__" / digest
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert chosen() == places / "package" / "__pycache__" / digest
    blocked(places / "package" / "__pycache__")
    assert chosen() == places / "home" / ".cache" / "holdfast" / "compiled" / digest
    blocked(places / "home")
    private = chosen()
    assert private is not None
    assert private.parent.parent == places / "tmp"
    assert private.parent.stat().st_mode & 0o077 == 0
    blocked(places / "tmp")
    assert chosen() is None


def test_a_private_directory_of_somebody_else_is_not_used(places: Path) -> None:
    blocked(places / "package" / "__pycache__")
    blocked(places / "home")
    private = chosen()
    assert private is not None
    private.parent.chmod(0o777)  # others could put code there for us to run
    assert chosen() is None


def test_a_user_without_a_home_still_has_a_place(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a container that runs under a number without a name.
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    blocked(places / "package" / "__pycache__")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    private = chosen()
    assert private is not None
    assert private.parent.parent == places / "tmp"


def test_without_any_directory_for_temporary_files_nothing_is_kept(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    blocked(places / "package" / "__pycache__")
    blocked(places / "home")
    monkeypatch.setattr(tempfile, "gettempdir", missing)
    assert chosen() is None


def test_an_edit_of_any_file_of_the_package_changes_the_directory(places: Path) -> None:
    names = sorted(str(path.relative_to(places / "package")) for path in (places / "package").rglob("*.py"))
    assert {"tools/cache.py", "event_loop/loop.py", "scan/state.py"} <= set(names)
    seen = {chosen()}
    for name in names:
        with (places / "package" / name).open("a") as file:
            file.write("# another version\n")
        seen.add(chosen())
    (places / "package" / "new.py").write_text("")
    seen.add(chosen())
    assert len(seen) == len(names) + 2


def doubled(number: int) -> int:
    """A kernel so small that compiling it takes no time."""
    return 2 * number


def damaged_by(content: bytes, damage: str) -> bytes:
    """The content cut off, gone, or with one bit that is another one."""
    if damage == "emptied":
        return b""
    if damage == "truncated":
        return content[: len(content) // 2]
    where = {"first": 0, "in the middle": len(content) // 2, "last": len(content) - 1}[damage]
    return content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]


def counts(monkeypatch: pytest.MonkeyPatch, place: Path, *arguments: Any) -> tuple[int, int]:
    """How often code was found, and how often it was not, when a new process would call the kernel."""
    for module in (compiler, native):
        monkeypatch.setattr(module, "directory", lambda: place)
    kernel = Kernel(doubled, {})
    for argument in arguments or (21,):
        assert kernel(argument) == 2 * argument
    found = found_and_missed(kernel)
    return found["hits"], found["misses"]


@pytest.fixture(params=["natively", "by Numba"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How code is kept: by Numba where machine code needs what is not known."""
    if request.param == "by Numba":
        monkeypatch.setattr(native, "_is_known", lambda _: False)
    return str(request.param)


@pytest.mark.parametrize("ending", ["nbi", "nbc", "native"])
@pytest.mark.parametrize("damage", ["emptied", "truncated", "first", "in the middle", "last"])
def test_a_damaged_file_is_compiled_again_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, damage: str
) -> None:
    if ending != "native":
        monkeypatch.setattr(native, "_is_known", lambda _: False)
    assert counts(monkeypatch, tmp_path) == (0, 1)
    (path,) = tmp_path.glob(f"*.{ending}")
    path.write_bytes(damaged_by(path.read_bytes(), damage))
    assert counts(monkeypatch, tmp_path) == (0, 1)
    assert counts(monkeypatch, tmp_path) == (1, 0)


@pytest.mark.usefixtures("kept")
def test_a_directory_in_the_place_of_a_file_is_compiled_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts(monkeypatch, tmp_path) == (0, 1)
    for path in list(tmp_path.iterdir()):
        path.unlink()
        path.mkdir()
    assert counts(monkeypatch, tmp_path) == (0, 1)


def test_code_that_cannot_be_loaded_though_it_was_read_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("LLVM bitcode parsing error")

    assert counts(monkeypatch, tmp_path) == (0, 1)
    with monkeypatch.context() as patch:
        if kept == "natively":
            patch.setattr(native, "_linked", lambda _: None)
        else:
            patch.setattr(compiler._Impl, "rebuild", broken)
        assert counts(patch, tmp_path) == (0, 1)
    assert counts(monkeypatch, tmp_path) == (1, 0)


def test_code_of_another_signature_under_the_same_name_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two processes that compile at once and know nothing of each other's code may choose the same name.
    monkeypatch.setattr(native, "_is_known", lambda _: False)
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (0, 2)
    whole, real = sorted(tmp_path.glob("*.nbc"))
    whole.write_bytes(real.read_bytes())
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (1, 1)
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (2, 0)


def test_code_under_the_name_of_another_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (0, 2)
    whole, real = sorted(tmp_path.glob("*.native"))
    whole.write_bytes(real.read_bytes())
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (1, 1)
    assert counts(monkeypatch, tmp_path, 21, 1.5) == (2, 0)


def test_code_of_another_processor_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts(monkeypatch, tmp_path) == (0, 1)
    monkeypatch.setattr(native, "_machine", lambda: "another one")
    assert counts(monkeypatch, tmp_path) == (0, 1)
    assert len(list(tmp_path.glob("*.native"))) == 2


def test_code_that_needs_a_symbol_that_is_missing_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counts(monkeypatch, tmp_path) == (0, 1)
    (path,) = tmp_path.glob("*.native")
    code = native.Code(*pickle.loads(path.read_bytes()[native.CHECKSUM_BYTES :]))
    assert "PyLong_FromLongLong" in code.needed
    made = pickle.dumps(tuple(code._replace(needed=("no_such_function",))))
    path.write_bytes(native.checksum(made) + made)
    assert counts(monkeypatch, tmp_path) == (0, 1)


def test_kinds_of_arguments_are_told_apart_as_numba_does() -> None:
    table = np.zeros((4, 6))
    frozen = np.zeros(3)
    frozen.setflags(write=False)
    arguments = [
        1, 2**63, True, 1.0, None, (1, 2.0), (1, 2), np.int32(1), np.uint64(1), np.bool_(True), np.zeros(3), frozen,
        np.zeros(3, np.int32), np.zeros(6)[::2], table, table.T, table[:, ::2], np.zeros(2, [("a", "i8"), ("b", "u1")]),
        np.zeros(9, np.uint8)[1:].view(np.int64),
    ]  # fmt: skip
    kinds = [KINDS[type(one)](one) for one in arguments]
    for a, kind in zip(arguments, kinds, strict=True):
        for b, other in zip(arguments, kinds, strict=True):
            assert kind != other or numba.typeof(a) == numba.typeof(b)
    assert [KINDS[int](-5), KINDS[np.ndarray](np.ones(7))] == [kinds[0], kinds[10]]


@pytest.fixture(scope="module")
def compiled_here() -> Path:
    """The directory with the compiled code of this checkout for the job of the probe: where the other tests have it."""
    return Path(in_this_checkout()["directory"])


@pytest.mark.parametrize("given", [True, False], ids=["with NUMBA_CACHE_DIR", "without"])
def test_compiled_code_is_found_where_neither_the_package_nor_the_home_can_be_written(
    tmp_path: Path, compiled_here: Path, given: bool
) -> None:
    packages = tmp_path / "packages"
    for name in ("models", "sim"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    blocked(packages / "sim" / "kernel" / "__pycache__")
    blocked(tmp_path / "home")
    (tmp_path / "tmp").mkdir()
    environment = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    if given:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "given")
        target = tmp_path / "given" / "holdfast" / compiled_here.name
    else:
        (tmp_path / "tmp" / f"holdfast-{os.getuid()}").mkdir(mode=0o700)
        target = tmp_path / "tmp" / f"holdfast-{os.getuid()}" / compiled_here.name
    # Compiling it again would take half a minute; another process may be writing there now.
    shutil.copytree(compiled_here, target, ignore=shutil.ignore_patterns("*.tmp.*"))
    before = written(target)
    found = in_a_new_process(packages, **environment)
    assert found["directory"] == str(target)
    assert found["hits"] > 0
    assert found["misses"] == 0
    assert found["compiled"] == []
    assert written(target) == before
    assert found["digest"] == compiled_probe.answer(compiled_probe.JOB)["digest"]
    assert found["visits"] > 300


@pytest.mark.install
@pytest.mark.slow
def test_a_process_that_can_write_nowhere_compiles_for_itself() -> None:
    found = in_a_new_process(ROOT, "--uncached")
    assert found["directory"] is None
    assert found["hits"] == 0
    assert found["digest"] == compiled_probe.answer(compiled_probe.JOB)["digest"]
    shares = found["compiled"]
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1.0
    assert shares.count(1.0) < 0.1 * len(shares)


@pytest.mark.spark
def test_workers_of_spark_give_the_same_rows(spark: Any) -> None:
    from pyspark import cloudpickle  # noqa: PLC0415 - only where Spark is installed

    cloudpickle.register_pickle_by_value(compiled_probe)  # type: ignore[no-untyped-call]
    try:
        tasks = spark.sparkContext.parallelize([compiled_probe.JOB] * 2, 2)
        found = tasks.map(compiled_probe.answer).collect()
    finally:
        cloudpickle.unregister_pickle_by_value(compiled_probe)  # type: ignore[no-untyped-call]
    here = compiled_probe.answer(compiled_probe.JOB)
    assert [each["digest"] for each in found] == [here["digest"]] * 2
    assert [each["directory"] for each in found] == [here["directory"]] * 2
    assert here["process"] not in {each["process"] for each in found}
