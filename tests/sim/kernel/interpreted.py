"""The scan without the compiler: its functions as Python runs them, so that a test can replace one of them.

Compiled code reads fields of records as attributes. `View` gives them to Python: slow, and equal in all else.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sim.kernel.scan as package
from sim.kernel.scan import plane, span, straight
from sim.kernel.tools.cache import Kernel

MODULES: list[ModuleType] = [
    *(import_module(f"sim.kernel.scan.{module.name}") for module in iter_modules(package.__path__)),
    *(import_module(f"sim.kernel.{name}") for name in ("tools.draws", "tools.quantiles", "tools.histograms")),
    *(import_module(f"sim.kernel.event_loop.{name}") for name in ("windows", "hash_tables")),
]


def number(value: Any) -> Any:
    """A number of Python, but for those without sign: ids overflow."""
    return value if value.dtype == np.uint64 else value.item()


class Record:
    """A record whose fields are attributes."""

    def __init__(self, own: np.void) -> None:
        object.__setattr__(self, "own", own)

    def __getattr__(self, name: str) -> Any:
        return number(self.own[name])

    def __setattr__(self, name: str, value: Any) -> None:
        self.own[name] = value


class Array:
    """An array of numbers or records."""

    def __init__(self, own: np.ndarray) -> None:
        self.own, self.shape = own, own.shape

    def __getitem__(self, place: int) -> Any:
        assert place >= 0, "compiled code does not wrap around"
        found = self.own[place]
        return Record(found) if self.own.dtype.names else number(found)

    def __setitem__(self, place: int, value: Any) -> None:
        assert place >= 0, "compiled code does not wrap around"
        self.own[place] = value.own if isinstance(value, Record) else value


class View:
    """The state of a scan as compiled code sees it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._state, name)
        if isinstance(found, np.void):
            return Record(found)
        return Array(found) if isinstance(found, np.ndarray) else found


def interpret(patch: pytest.MonkeyPatch) -> None:
    """Let Python run the spans of all scans that begin from now on."""
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if isinstance(value, Kernel) and module is not plane:
                patch.setattr(module, name, value.py_func)
    patch.setattr(straight, "remainder", lambda x, divisor, factor, shift: x % np.uint64(divisor))
    patch.setattr(plane, "entry", lambda *_: _advance)


def _advance(state: Any, until: int) -> int:
    with np.errstate(over="ignore"):  # ids are numbers modulo 2^64
        return span.advance(View(state), until)


def replace(patch: pytest.MonkeyPatch, function: str, by: Any) -> None:
    """Replace a function of the scan wherever its name stands; `by` gets the one before, and returns another."""
    found = [module for module in MODULES if function in vars(module)]
    before = vars(found[0])[function]
    assert found, function
    for module in found:
        patch.setattr(module, function, by(before))
