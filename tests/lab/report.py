"""Report of a schedule that is at fault: its faults, the shrunk schedule, and commands that replay both."""

from __future__ import annotations

from lab.schedule import Result, Schedule
from lab.shapes import CHAIN
from lab.shrinking import shrunk

COMMAND = "PYTHONPATH=tests python -m lab"


def command(schedule: Schedule, mutant: str | None = None) -> str:
    """Return the command that replays the schedule, from the root of the project."""
    broken = f" --mutant '{mutant}'" if mutant else ""
    if schedule.choices is None:
        shapes = "" if schedule.job.shape == CHAIN else " --shapes"
        return f"{COMMAND} --protocol {schedule.protocol} --seed {schedule.seed}{shapes}{broken}"
    return f"{COMMAND} --schedule '{schedule.text()}'{broken}"


def failure(schedule: Schedule, result: Result) -> str:
    """Return the report, a few lines."""
    smaller, found = shrunk(schedule, None)
    return "\n".join(
        [
            f"schedule {schedule.seed} of {schedule.protocol}: {'; '.join(result.faults)}",
            f"  replay: {command(schedule)}",
            f"shrunk to {found.steps} of {result.steps} steps: {'; '.join(found.faults)}",
            f"  replay: {command(smaller)}",
        ]
    )
