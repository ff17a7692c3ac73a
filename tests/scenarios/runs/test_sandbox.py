"""Whatever the process in the sandbox does is an answer, and the next request is served."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from other_processes import until

from scenarios.runs.sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("sandbox_answers", [])
    yield made
    made.close()


def ask(sandbox: Sandbox, what: str, cpu_s: float = 20.0) -> dict[str, Any]:
    return sandbox.ask({"what": what}, cpu_s, lambda _: None, lambda: False)


def test_one_process_answers_one_request_after_the_other(sandbox: Sandbox) -> None:
    notes: list[Any] = []
    first = sandbox.ask({"what": "a"}, 20.0, notes.append, lambda: False)
    assert notes == [{"note": True, "heard": "a"}]
    assert ask(sandbox, "b")["process"] == first["process"] != os.getpid()


@pytest.mark.parametrize(
    ("what", "cpu_s", "ended"),
    [
        ("kill", 20.0, "crashed: the process ended by signal SIGKILL"),
        ("fault", 20.0, "crashed: the process ended by signal SIGSEGV"),
        ("leave", 20.0, "crashed: the process ended by exit code 7"),
        ("say", 20.0, "crashed: the process ended by exit code 3: what went wrong"),
        ("spin", 0.1, "timeout"),
        ("hang", 0.1, "timeout"),
    ],
)
def test_a_process_that_ends_or_never_answers_is_an_answer(
    sandbox: Sandbox, what: str, cpu_s: float, ended: str
) -> None:
    assert ask(sandbox, what, cpu_s) == {"ended": ended}
    assert ask(sandbox, "again")["what"] == "again"


def test_what_is_prepared_does_not_count_against_the_limit(sandbox: Sandbox) -> None:
    assert ask(sandbox, "prepare", 1.0)["what"] == "prepare"
    assert ask(sandbox, "prepare", 1e30)["what"] == "prepare"


def test_memory_that_is_not_there_is_an_error_of_the_run_alone(sandbox: Sandbox) -> None:
    assert ask(sandbox, "memory") == {"memory": True}


def test_what_is_printed_is_no_answer(sandbox: Sandbox) -> None:
    assert ask(sandbox, "print")["what"] == "print"


def test_a_request_can_be_given_up(sandbox: Sandbox) -> None:
    began = time.monotonic()
    stopped = sandbox.ask({"what": "hang"}, 20.0, lambda _: None, lambda: time.monotonic() - began > 0.3)
    assert stopped == {"ended": "stopped"}


def test_the_process_ends_with_whoever_asked() -> None:
    program = """
import os, signal
from scenarios.runs.sandbox import Sandbox
sandbox = Sandbox("sandbox_answers", [])
print(sandbox.ask({"what": "a"}, 20.0, print, lambda: False)["process"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    process = int(done.stdout.split()[-1])
    until(lambda: not Path(f"/proc/{process}").exists())
