"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from analysis.spark.session import spark_session


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests with Spark run in one process: each session is a Java machine of its own."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests with the marker `spark`: starting one takes seconds."""
    with spark_session("tests") as session:
        yield session
