"""The level of detail about single tuples that a run keeps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from models.schema_types import Description

Detail = Literal["tuples", "histograms"]

MOST_TUPLE_STEPS = 6_000_000  # a row for each of them takes less than 1 GB with everything made from it


class Recording(Description):
    """A row for each tuple and operator, or histograms: their quantiles are off by at most 0.4 %, all else is exact."""

    detail: Literal["auto", "tuples", "histograms"] = "auto"
    """`auto`: tuples for up to 6 million steps that fit into `limits.memory`, histograms above."""
    statistics: bool = Field(default=False, strict=True)
    """Whether the load of each key group is kept, for each `elasticity.period`; where key groups move by themselves
    it is.
    """

    def chosen(self, steps: float, tuples_fit: bool) -> Detail:
        """Return the level of detail for a run of so many steps, all replications together."""
        if self.detail != "auto":
            return self.detail
        return "tuples" if tuples_fit and steps <= MOST_TUPLE_STEPS else "histograms"
