"""Processes that tests start: who is there, and waiting for what must come, however slow the machine is."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 600.0  # after which what should happen counts as what never will
POLL_S = 0.02
MARK = "HOLDFAST_MARK"
"""Environment variable by which processes are known, and those that they start."""


def until(fact: Callable[[], object]) -> None:
    """Wait for a fact."""
    ends = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < ends, "it never happens"
        time.sleep(POLL_S)


def marked(folder: Path) -> dict[str, str]:
    """Return the environment of this process with the mark of a folder."""
    return {**os.environ, MARK: str(folder)}


def processes(folder: Path) -> set[int]:
    """Return all processes that have the mark of a folder, sessions of their own or not."""
    mark = f"{MARK}={folder}".encode()
    found = set()
    for one in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in one.read_bytes().split(b"\0"):
                found.add(int(one.parent.name))
        except OSError:
            continue
    return found


def holds_apart(fact: Callable[[], bool]) -> bool:
    """Return whether a fact holds, or its process is killed by a fault of memory, in a copy of this process.

    What is broken on purpose may write anywhere.
    """
    apart = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(0 if fact() else 1))
    apart.start()
    apart.join()
    assert apart.exitcode is not None
    assert apart.exitcode <= 1
    return apart.exitcode <= 0
