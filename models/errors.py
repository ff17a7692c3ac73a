"""How bad input is reported: every fault with its path, value, rule and a hint.

>>> fault = InputFault("operators.count.parallelism", 0, "must be at least 1")
>>> print(InputError(fault))
operators.count.parallelism = 0: must be at least 1
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MACHINE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a full or broken disk: not the fault of what the user gave."""
_LONGEST_VALUE = 80
_LONGEST_PATH = 400
NO_VALUE = object()  # the fault is about something that is not there


@dataclass(frozen=True)
class InputFault:
    """One thing that is wrong with what the user gave: where, what, which rule it breaks, what to do."""

    path: str
    value: object
    rule: str
    hint: str = ""

    def __str__(self) -> str:
        shown = "" if self.value is NO_VALUE else f" = {_shorten(self.value)}"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{shortened(self.path, _LONGEST_PATH)}{shown}: {self.rule}{hint}"


class InputError(ValueError):
    """The user's input cannot be used; carries all faults found, at least one. The command line exits 2."""

    def __init__(self, *faults: InputFault) -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults

    @classmethod
    def at(cls, path: str, value: object, rule: str, hint: str = "") -> InputError:
        """The error with one fault."""
        return cls(InputFault(path, value, rule, hint))


class MissingTool(RuntimeError):
    """Something outside Python is missing (Java, a browser); the message says in one sentence what to do."""


class WorkerLost(RuntimeError):
    """A process that computed for this one was ended by something else; the message says what to do."""


@contextmanager
def named(path: str) -> Iterator[None]:
    """Faults of what is read inside stand under the `path` of the key that names the file."""
    try:
        yield
    except InputError as error:
        faults = (InputFault(f"{path}: {one.path}", one.value, one.rule, one.hint) for one in error.faults)
        raise InputError(*faults) from None


def raise_if_any(faults: Iterable[InputFault]) -> None:
    """Raise one InputError with all `faults`, or do nothing when there are none."""
    found = tuple(faults)
    if found:
        raise InputError(*found)


def _shorten(value: object) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:  # Python does not write integers of many thousand digits
        text = "a number with thousands of digits"
    text = text if text.isprintable() else repr(text)
    return shortened(text, _LONGEST_VALUE)


def shortened(text: str, most: int = _LONGEST_PATH) -> str:
    """Return the text with at most so many characters: of a path both ends tell."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"
