"""Reconfigurations that come to nothing, which is worth a warning."""

from __future__ import annotations

from collections.abc import Iterator

from models.planning.reconfiguration import moves_of, steps_of
from models.scenario.events import Reconfigure
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from models.validation_messages import path_text


def idle_moves(scenario: Scenario, inputs: RunInputs | None) -> Iterator[tuple[str, str]]:
    """Yield (path, what it comes to) of reconfigurations that move nothing, or that no step begins of in the run."""
    found = {name: one for name, one in scenario.events.items() if isinstance(one, Reconfigure)}
    lines = {} if inputs is None else inputs.configurations
    known = all(name in lines for name, event in found.items() if event.file)  # what a file before moves counts, too
    for name, event in found.items():
        key = "file" if event.file else "owners" if event.owners else "tasks" if event.tasks else "plan"
        # Lines may move there and back; without a file the steps of `optimised` are not needed.
        steps = steps_of(scenario, name, inputs) if event.file and inputs and known else ()
        first_ns = steps[0].not_before_ns if steps else 0
        if known and not (steps if event.file else moves_of(scenario, name, lines)):
            text = "moves nothing: each key group is where it is to be"
            yield path_text(("events", name, key)), text
        elif max(to_ns(event.earliest_s), first_ns) + to_ns(event.late_s) >= to_ns(scenario.duration_s):
            text = "is so long that the first configuration update comes after the end of the run: who sends holds all"
            yield path_text(("events", name, "late")), text
