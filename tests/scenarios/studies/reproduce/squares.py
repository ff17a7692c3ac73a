"""Pieces for the tests of tasks, apart from those: every worker imports this module, and nothing else of the tests."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from other_processes import until


@dataclass(frozen=True)
class Square:
    """A piece that says in a file that it was made."""

    number: int
    log: str
    gate: str = ""
    cost_s: float = 1.0

    @property
    def label(self) -> str:
        return f"square-{self.number}"

    def run(self) -> Any:
        until(lambda: not self.gate or Path(self.gate).exists())
        with Path(self.log).open("a", encoding="utf-8") as file:
            file.write(f"{self.number}\n")
        return {"square": self.number**2, "pair": (self.number, 0.5)}


@dataclass(frozen=True)
class Killed(Square):
    def run(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def squares(folder: Path, count: int = 6, gate: str = "", free: int = 0) -> list[Square]:
    """Pieces of which all but the first `free` wait for a file, the gate."""
    return [Square(number, str(folder / "log"), gate if number >= free else "") for number in range(count)]


def results(count: int = 6) -> list[Any]:
    return [{"square": number**2, "pair": [number, 0.5]} for number in range(count)]


def made(folder: Path) -> list[int]:
    return sorted(int(line) for line in (folder / "log").read_text().split())
