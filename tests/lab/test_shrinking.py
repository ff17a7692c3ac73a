"""A schedule that is at fault becomes a smaller one, and one command replays it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.campaigns import drawn
from lab.mutants import MUTANTS
from lab.report import command, failure
from lab.schedule import Result, Schedule, run
from lab.shrinking import shrunk, size

ROOT = Path(__file__).parents[2]
BROKEN = {mutant.name: mutant for mutant in MUTANTS}


def first_fault(title: str) -> tuple[Schedule, Result]:
    """The first schedule under which the mutant is noticed."""
    mutant = BROKEN[title]
    results = ((schedule, run(schedule, mutant.tamper)) for schedule in (drawn(mutant.protocol, k) for k in range(999)))
    return next((schedule, result) for schedule, result in results if result.faults)


@pytest.mark.parametrize("title", ["to_state without the buffer", "not muted"])
def test_what_is_shrunk_is_smaller_and_at_fault(title: str) -> None:
    schedule, result = first_fault(title)
    smaller, found = shrunk(schedule, BROKEN[title].tamper)
    assert found.faults
    assert found.steps < result.steps
    assert size(smaller) < size(schedule)
    assert run(smaller, BROKEN[title].tamper).faults == found.faults
    assert run(smaller).faults == []


def test_what_is_printed_is_a_command_that_replays_it() -> None:
    title = "start from empty state"
    schedule, _ = first_fault(title)
    smaller, found = shrunk(schedule, BROKEN[title].tamper)
    for one in (schedule, smaller):
        line = command(one, title)
        assert line.startswith("PYTHONPATH=tests python -m lab ")
        assert main(shlex.split(line)[4:]) == 1
    done = replay(line)
    assert done.returncode == 1, done.stderr
    assert "; ".join(found.faults) in done.stdout
    assert main(shlex.split(command(schedule))[4:]) == 0


def replay(line: str) -> subprocess.CompletedProcess[str]:
    """The command, from the root of the project, with this Python."""
    _, _, *rest = shlex.split(line)
    environment = os.environ | {"PYTHONPATH": "tests"}
    return subprocess.run(
        [sys.executable, *rest], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_failure_is_told_with_both_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, result = first_fault("downstream keeps duplicates")
    smaller = replace(schedule, choices=(2, 1))
    monkeypatch.setattr("lab.report.shrunk", lambda *_: (smaller, result))
    text = failure(schedule, result)
    assert f"--protocol cpa --seed {schedule.seed}\n" in text
    assert f"--schedule '{smaller.text()}'" in text.splitlines()[-1]
