"""The cheapest system that meets its targets, with the proof that no cheaper one does."""

from optimizer.sizing.solve import solve

__all__ = ["solve"]
