"""Seeds of random tests: a few in the test command, the others in the slow campaign, and fresh ones each night."""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import SystemRandom

import pytest

SEED = "HOLDFAST_SEED"
"""Environment variable with the first seed of a nightly campaign: a failure names it, to be run again."""


def sample(few: int, many: int, also: Iterable[int] = ()) -> list[object]:
    """The seeds 0 to `many`, of which those below `few` and those in `also` belong to the test command."""
    quick = [*range(few), *also]
    rest = sorted(set(range(many)) - set(quick))
    return [*quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in rest)]


def parts(few: int, many: int) -> list[object]:
    """The seeds 0 to `many` in two ranges: those below `few` for the test command, the rest for the slow campaign."""
    return [
        pytest.param(range(few), id=f"below {few}"),
        pytest.param(range(few, many), id=f"below {many}", marks=pytest.mark.slow),
    ]


def fresh() -> int:
    """Return a seed that no campaign has tried yet, or the one that SEED asks for."""
    asked = os.environ.get(SEED)
    return int(asked) if asked else SystemRandom().randrange(10**9)
