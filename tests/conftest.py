"""What tests of several folders share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from analysis.spark.session import spark_session

WITHOUT_ENGINE = ("analysis", "lab", "models", "optimizer")
"""Folders whose tests compile nothing: another worker has time to, in a fresh checkout two minutes."""
WITH_ENGINE = ("test_run_output.py", "test_study.py", "test_sweep.py")
"""The first runs the scenarios of the library, and with them all of the engine is compiled; the others share runs."""

SLOWEST = 10
"""So many files are named at the end."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests share a process, and what comes first.

    All tests with Spark run in one: each session is a Java machine of its own. So do those of a wheel, and those that
    compile the engine. Groups begin, the largest first; then comes what needs no engine. Who needs it later finds it
    compiled, where two workers would each have compiled it.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("install"):
            item.add_marker(pytest.mark.xdist_group("wheel"))
        elif item.path.name in WITH_ENGINE:
            item.add_marker(pytest.mark.xdist_group("engine"))
    items.sort(key=lambda item: item.path.parent.name not in WITHOUT_ENGINE)  # else as before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files took longest, with setup and teardown."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.split("::")[0]] += report.duration
    if len(seconds) > SLOWEST:
        terminalreporter.section(f"slowest {SLOWEST} of {len(seconds)} files")
        for name, duration in seconds.most_common(SLOWEST):
            terminalreporter.write_line(f"{duration:7.1f} s  {name}")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests with the marker `spark`: starting one takes seconds."""
    with spark_session("tests") as session:
        yield session
