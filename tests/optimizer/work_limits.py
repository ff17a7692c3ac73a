"""Limits of work in the place of limits of time: tests that assert how good an answer is do not depend on the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from optimizer.checkpoint_allocation import large, uncoupled

_TIMES = 1000.0


@contextmanager
def as_much_work_as_in(seconds: float) -> Iterator[float]:
    """Yield a time limit [s] that is out of reach, in which allocations do the work of these seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (uncoupled, "_PACKING_WORK"),
            (uncoupled, "_SMALL_WORK"),
            (uncoupled, "_LAST_NODES"),
            (large, "_DIVES_PER_S"),
        ):
            patch.setattr(module, name, getattr(module, name) / _TIMES)
        turns = tuple((sizes, branches / _TIMES, rounds / _TIMES) for sizes, branches, rounds in large._TURNS)
        patch.setattr(large, "_TURNS", turns)
        yield _TIMES * seconds
