"""The page of a run, with the versions of what it was made with."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import replace

from analysis.report import run_page as pages
from analysis.report.page import Page
from models.scenario.inputs import RunInputs
from scenarios.runs.run import RunResult

_LIBRARIES = ("numpy", "simpy", "scipy", "ortools", "pyspark", "pyarrow", "pydantic")


def run_page(result: RunResult, inputs: RunInputs, *, command: str = "") -> Page:
    """Return the page of one run; `command` is the one that makes it again."""
    page = pages.run_page(result.scenario, inputs, result.typed_summary, result.records)
    return replace(page, versions=versions(), command=command)


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the libraries that it was made with.

    Libraries that are not installed, such as the optional PySpark, are left out.
    """
    found = {"python": platform.python_version(), "holdfast": importlib.metadata.version("holdfast")}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
