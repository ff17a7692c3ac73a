"""The head of every optimiser's answer: a status, a value, a proven bound and the gap between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

OPTIMAL_GAP = 1e-9  # "optimal" is said only when |objective - bound| <= OPTIMAL_GAP * |bound|
_SMALLEST_DENOMINATOR = 1e-9


class Status(StrEnum):
    """Status of an answer.

    `optimal`: feasible, and the proven bound equals the objective up to `OPTIMAL_GAP`. `feasible`: keeps
    every constraint. `infeasible`: proven that nothing keeps every constraint. `unknown`: neither; there
    may still be an answer that breaks a constraint and names it.

    >>> from holdfast import Status
    >>> [str(status) for status in Status]
    ['optimal', 'feasible', 'infeasible', 'unknown']
    >>> Status.OPTIMAL == "optimal"
    True
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """The answer to one problem; each problem adds its own value (an assignment, a selection).

    `objective` is recomputed in float64 from the answer; `bound` is proven for every feasible answer (a lower
    bound when the problem is a minimisation). `wall_s`: time that the solver took [s]. `note` says how the answer came
    about and what went wrong.
    """

    status: Status
    objective: float | None = None
    bound: float | None = None
    wall_s: float = 0.0
    note: str = ""

    @property
    def gap(self) -> float | None:
        """Return |objective - bound| / max(|bound|, 1e-9); None without an objective or a bound."""
        return relative_gap(self.objective, self.bound)


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """Return |objective - bound| / max(|bound|, 1e-9); None when one of them is missing.

    >>> relative_gap(103.0, 100.0), relative_gap(None, 100.0)
    (0.03, None)
    """
    if objective is None or bound is None:
        return None
    # The floor keeps the gap finite where the bound is 0; `is_proven` has none, so a tiny objective is no optimum.
    return abs(objective - bound) / max(abs(bound), _SMALLEST_DENOMINATOR)


def is_proven(objective: float, bound: float) -> bool:
    """Return True when objective and bound agree to `OPTIMAL_GAP`, relative to the bound without any floor.

    A bound that is infinite proves nothing, however large a share of it may be.
    """
    return math.isfinite(bound) and abs(objective - bound) <= OPTIMAL_GAP * abs(bound)
