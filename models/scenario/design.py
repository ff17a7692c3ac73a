"""The design points of a sweep: every combination of the values of `sweep`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap


@dataclass(frozen=True)
class DesignPoint:
    """One combination: `settings` maps dotted paths to values as in a file."""

    number: int
    settings: Mapping[str, object]

    def of(self, scenario: Scenario) -> Scenario:
        """Return the scenario of this point, which has no sweep.

        Raises InputError where values that are fine alone do not go together.
        """
        return scenario_with(scenario.model_copy(update={"sweep": FrozenMap()}), self.settings)


def number_of_points(scenario: Scenario) -> int:
    """Return how many combinations there are; 1 without a sweep."""
    return math.prod(len(values) for values in scenario.sweep.values())


def design_points(scenario: Scenario) -> Iterator[DesignPoint]:
    """Yield all combinations, numbered from 0; the last path of the file varies fastest."""
    paths = list(scenario.sweep)
    for number, values in enumerate(product(*scenario.sweep.values())):
        yield DesignPoint(number, dict(zip(paths, values, strict=True)))
