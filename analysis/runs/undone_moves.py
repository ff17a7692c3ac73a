"""Count runs whose moves were not done. Pages and terminals need this without the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.runs.metrics import Metrics


@dataclass(frozen=True)
class UndoneMoves:
    """Count the runs in which a move that events ask for was not done as a whole: their times are those of a part.

    In `cancelled` runs one was cancelled, as after a crash. In `unfinished` others one did not end within the run.
    """

    unfinished: int = 0
    cancelled: int = 0

    def __bool__(self) -> bool:
        return self.unfinished > 0 or self.cancelled > 0

    @property
    def words(self) -> str:
        """Return what became of these moves."""
        ends = ["did not end"] * (self.unfinished > 0) + ["were cancelled"] * (self.cancelled > 0)
        return " or ".join(ends)


def undone_moves(runs: Iterable[Metrics]) -> UndoneMoves:
    """Return in how many runs moves that events ask for were not done.

    A policy asks for moves all the time, so that the end of a run says nothing about it.
    """
    unfinished = cancelled = 0
    for metrics in runs:
        by_policy = any(name.startswith("elasticity.") for name in metrics)
        # Sweeps store no metric without a value: what always has one tells that there was a move.
        if "moves.bytes" not in metrics or metrics.get("moves.completion_s") is not None or by_policy:
            continue
        if metrics.get("moves.cancelled"):
            cancelled += 1
        else:
            unfinished += 1
    return UndoneMoves(unfinished, cancelled)
