"""In tests of the optimizer no clock runs: work decides when a search ends, and a test of the clock makes one up."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from work_limits import clock_that_strikes_after


@pytest.fixture(autouse=True)
def clock_that_stands_still() -> Iterator[None]:
    """Let no limit of time strike."""
    with clock_that_strikes_after(math.inf):
        yield
