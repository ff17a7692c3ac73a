"""Which host takes each instance of an operator: see `models.placement` for the program."""

from __future__ import annotations

from optimizer.placement.first_fit import best_fit, first_fit

__all__ = ["best_fit", "first_fit"]
