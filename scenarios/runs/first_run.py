"""First runs on a machine: the plain engine makes a short one at once, while code for the next is compiled beside it.

Compiling takes longer than many a run. Both engines give equal rows, so nothing but the time tells which one ran.

As a program (`python -m scenarios.runs.first_run`) this simulates what comes over stdin, in silence, so that all code
which it needs is kept. One such program runs at a time.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from models.scenario.inputs import Engine, RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.estimate import estimate
from sim.engine import is_compiled, simulate
from sim.kernel.tools.directory import directory
from sim.plain.support import not_supported

WAIT = "HOLDFAST_FIRST_RUN"
"""Environment variable: with `wait` first runs wait for the compiler, and no process is started beside them."""
LONGEST_S = 10.0  # that the plain engine may take: less than the compiler
Beside = Literal["begun", "busy", "no directory", "not started"]
"""State of the compiler beside a first run."""
_beside: list[subprocess.Popen[bytes]] = []  # kept, for one that is forgotten while it runs is warned of


def stands_in(scenario: Scenario, inputs: RunInputs, engine: Engine) -> bool:
    """Return whether the plain engine makes this run, since that is sooner done than the code for it is compiled.

    `engine`: the one that is asked for; only for `auto` there is a choice.
    """
    if engine != "auto" or os.environ.get(WAIT) == "wait" or any(not_supported(scenario, inputs)):
        return False
    needed, limits = estimate(scenario, inputs.rates, inputs.shares, "plain"), scenario.limits
    if needed.memory_bytes > limits.memory_bytes or needed.time_s > min(LONGEST_S, limits.time_s):
        return False
    return not is_compiled(scenario, inputs)


def compile_beside(scenario: Scenario, inputs: RunInputs) -> Beside:
    """Start a process that compiles what the run needs, and return whether it began; it goes on after this one.

    None is started if code cannot be kept, or another one compiles: `busy` also where that compiles the same. It is of
    low priority, and has no output.
    """
    if directory() is None:
        return "no directory"
    with alone() as only:
        if not only:
            return "busy"
    with suppress(OSError), tempfile.TemporaryFile() as job:
        pickle.dump((scenario, inputs), job)
        job.seek(0)
        # -P: what lies in the current directory is not ours.
        command = [sys.executable, "-P", "-m", "scenarios.runs.first_run"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        _beside.append(subprocess.Popen(command, stdin=job, **quiet))
        return "begun"
    return "not started"


@contextmanager
def alone() -> Iterator[bool]:
    """Yield whether this is the only process inside; the lock of one that was killed is free again."""
    place = directory()
    try:
        import fcntl  # noqa: PLC0415 - where there is none, two may compile the same
    except ImportError:
        yield True
        return
    if place is None:
        yield False
        return
    with (place / "compiling").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def main() -> None:
    """Simulate the scenario on stdin."""
    scenario, inputs = pickle.load(sys.stdin.buffer)
    with alone() as only:
        if only:
            if hasattr(os, "nice"):
                os.nice(10)
            simulate(scenario, inputs, engine="compiled")


if __name__ == "__main__":
    main()
