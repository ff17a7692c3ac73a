"""Features that the plain engine lacks, by the key that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from models import display
from models.errors import InputFault
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.estimate import detail_and_steps

_INSTEAD = "set recording.detail to tuples, or take the compiled engine"


def not_supported(scenario: Scenario, inputs: RunInputs) -> Iterator[InputFault]:
    """Yield a fault for each key that the plain engine does not support: it keeps rows of tuples, no histograms."""
    detail, steps = detail_and_steps(scenario, inputs)
    if detail == "histograms":
        asked, rule, hint = scenario.recording.detail, "the plain engine keeps a row for each tuple", _INSTEAD
        if asked == "auto":
            rule += f", and a run of {display.about(steps, 3)} steps within these limits is recorded as histograms"
            hint = f"make the run shorter, {hint}"
        yield InputFault("recording.detail", asked, rule, hint)
