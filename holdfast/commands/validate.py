"""`holdfast validate`: the faults of a scenario, and warnings about it, without running it."""

from __future__ import annotations

from holdfast import terminal
from holdfast.commands.options import AsJson, File, Settings
from models.scenario.rules import warnings
from scenarios.files.scenario import read_scenario, resolve
from scenarios.runs.inputs import checked


def validate(file: File, settings: Settings = None, as_json: AsJson = False) -> None:
    """Check a scenario: all errors at once, and warnings about what is legal and probably not meant.

    Files that it names are read too. Exit code 0: `run` simulates it; 2: `run` refuses it, with the same message.
    """
    loaded = read_scenario(resolve(file), settings or [])
    # The very function that `run` calls first: whatever is valid here is simulated there.
    scenario, inputs = checked(loaded.scenario, loaded.folder)
    found = warnings(scenario, inputs)
    if as_json:
        terminal.print_json(
            {
                "valid": True,
                "scenario": scenario.name,
                "warnings": [{"path": one.path, "text": one.text} for one in found],
            }
        )
        return
    lines = [f"valid: {scenario.name or file}"]
    lines += [f"warning: {one}" for one in found]
    print("\n".join(terminal.clean(line) for line in lines))
