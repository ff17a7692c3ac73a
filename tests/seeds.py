"""Seeds of random tests: a few in the test command, the others in the slow campaign."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def sample(few: int, many: int, also: Iterable[int] = ()) -> list[object]:
    """The seeds 0 to `many`, of which those below `few` and those in `also` belong to the test command."""
    quick = [*range(few), *also]
    rest = sorted(set(range(many)) - set(quick))
    return [*quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in rest)]
