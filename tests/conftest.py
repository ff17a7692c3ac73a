"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from analysis.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests with the marker `spark`: starting one takes seconds."""
    with spark_session("tests") as session:
        yield session
