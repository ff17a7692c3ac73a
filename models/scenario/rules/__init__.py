"""Rules over a whole scenario: references that must exist, things that must fit, what deserves a warning.

Each module has a function `faults(scenario, broken)` for one part of the file. They assume correct shapes: types,
ranges and units are checked by the descriptions. Rules only yield; nothing here raises for what a user wrote.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from models.errors import InputFault
from models.scenario.rules import (
    chains,
    cluster,
    dataflow,
    engine,
    fault_tolerance,
    group_membership,
    rescaling,
    resolution,
    times,
)
from models.scenario.rules.advice import Advice, said_of_runs, warnings
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario

__all__ = ["Advice", "faults", "not_simulated", "said_of_runs", "warnings"]


def faults(scenario: Scenario, broken: Collection[str] = ()) -> list[InputFault]:
    """Return every contradiction in the scenario, in the order of a file; empty if there is none.

    `broken` names sections ("duration") and entries ("operators.count") that could not be read and are left
    out of `scenario`: nothing is said about what refers to them.
    """
    found = chain(
        times.faults(scenario, broken),
        dataflow.faults(scenario, broken),
        cluster.faults(scenario, broken),
        chains.faults(scenario, broken),
        fault_tolerance.faults(scenario, broken),
        rescaling.faults(scenario, broken),
        group_membership.faults(scenario, broken),
        engine.faults(scenario, broken),
        resolution.faults(scenario, broken),
    )
    return list(found)
