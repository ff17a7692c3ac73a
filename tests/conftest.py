"""What tests of several folders share."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from analysis.spark.session import setup, spark_session
from scenarios.runs.first_run import WAIT

MARKERS = {"spark": "spark", "install": "wheel"}
"""Markers of tests that share a process, whatever file they are in: a Java machine takes seconds, as does a wheel."""
TOGETHER = (
    "spark",
    "test_documentation",
    "wheel",
    "test_sweep",
    "test_run_output",
    "test_study",
    "test_reproduce",
    "test_schedules",
    "test_compiled_cache",
    "test_compared_designs",
    "test_whole_packings",
    "test_reoptimise",
    "test_degenerate_instances",
    "test_sweep_command",
    "test_size_figures",
    "test_selective_replication_study",
)
"""Groups of tests that share a process: those of markers, and files that make something once or take long. The longest
come first, so that at the end both workers have something small to do."""
SLOWEST = 10
"""So many files are named at the end."""

EXAMPLES = "HOLDFAST_EXAMPLES"
"""Environment variable: with `all` tests of Hypothesis try all their examples, as they do each night; else 1 in 20."""
FEW = 5
"""So many examples are not made fewer."""

os.environ.setdefault(WAIT, "wait")  # a test that finds nothing compiled is about the compiled engine all the same

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background jobs of a shell: tests send it to processes
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is a matter of the machine.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without looking for garbage, and later look for none among modules and tests, which stay."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests share a process, and what comes first."""
    place = dict.fromkeys(items, len(TOGETHER))
    for item in items:
        group = next((MARKERS[name] for name in MARKERS if item.get_closest_marker(name)), item.path.stem)
        if group in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(group))
            place[item] = TOGETHER.index(group)
    items.sort(key=place.__getitem__)  # else as before
    if os.environ.get(EXAMPLES) != "all":
        _try_a_part_of_the_examples({item.function for item in items if isinstance(item, pytest.Function)})


def _try_a_part_of_the_examples(functions: Iterable[Any]) -> None:
    """Try one in twenty of the examples of tests of Hypothesis, but for slow ones."""
    for function in functions:
        asked = getattr(function, "_hypothesis_internal_use_settings", None)
        slow = any(mark.name == "slow" for mark in getattr(function, "pytestmark", ()))
        if asked is not None and not slow and asked.max_examples > FEW:
            fewer = max(FEW, asked.max_examples // 20)
            function._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files took longest, with setup and teardown."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.split("::")[0]] += report.duration
    if len(seconds) > SLOWEST:
        terminalreporter.section(f"slowest {SLOWEST} of {len(seconds)} files, {sum(seconds.values()):.0f} s in all")
        for name, duration in seconds.most_common(SLOWEST):
            terminalreporter.write_line(f"{duration:7.1f} s  {name}")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests with the marker `spark`, with the Java options of small files.

    Starting one takes seconds.
    """
    with spark_session("tests", java_options=setup(1, 1).java) as session:
        yield session
