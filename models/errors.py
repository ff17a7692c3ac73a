"""How bad input is reported: every fault with its path, value, rule and a hint.

>>> fault = InputFault("operators.count.parallelism", 0, "must be at least 1")
>>> print(InputError(fault))
operators.count.parallelism = 0: must be at least 1
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from models import display

MACHINE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a full or broken disk: not the fault of what the user gave."""
_LONGEST_VALUE = 80
_LONGEST_PATH = 400
MOST_SHOWN = 20  # faults of one error
NO_VALUE = object()  # the fault is about something that is not there


@dataclass(frozen=True)
class LazyHint:
    """A hint that takes a search: it is made where the fault is shown, and of thousands only a few are."""

    make: Callable[[], str]

    def __str__(self) -> str:
        return self.make()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return the text for pickling: another process gets the text, not the names."""
        return str, (str(self),)  # another process gets the text, not the names


@dataclass(frozen=True)
class InputFault:
    """One fault of the user's input: where, the value, the rule that it breaks, and a hint.

    `path`: keys with dots, as `validation_messages.path_text` writes them, or an option such as `--seed`. `value`: what
    was given, or NO_VALUE if the fault is about something that is missing. `rule`: what would be right, in words that
    follow the value. `hint`: how to mend it; may be empty.

    >>> from holdfast import InputFault
    >>> str(InputFault("hosts.worker.cores", 0, "must be at least 1", hint="as in cores = 2"))
    'hosts.worker.cores = 0: must be at least 1 (as in cores = 2)'
    """

    path: str
    value: object
    rule: str
    hint: str | LazyHint = ""

    def __str__(self) -> str:
        shown = "" if self.value is NO_VALUE else f" = {_shorten(self.value)}"
        hint = str(self.hint)
        return f"{shortened(self.path, _LONGEST_PATH)}{shown}: {self.rule}" + (f" ({hint})" if hint else "")


class InputError(ValueError):
    """The user's input cannot be used: carries all faults found, at least one, and shows the first.

    The command line exits 2.

    >>> from holdfast import InputError, read_scenario
    >>> try:
    ...     read_scenario("examples/two-hosts.toml", ["duration=0 s"])
    ... except InputError as error:
    ...     print([(fault.path, fault.rule) for fault in error.faults])
    [('duration', 'must be longer than zero')]
    """

    def __init__(self, *faults: InputFault) -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        self.faults = faults
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return a line for each of the first faults, and one that counts the others."""
        left = len(self.faults) - MOST_SHOWN
        shown = [str(fault) for fault in self.faults[:MOST_SHOWN]]
        return [*shown, f"and {left} more"] if left > 0 else shown

    @classmethod
    def at(cls, path: str, value: object, rule: str, hint: str = "") -> InputError:
        """Return the error with one fault."""
        return cls(InputFault(path, value, rule, hint))


class MissingTool(RuntimeError):
    """Something outside Python is missing (Java, a browser); the message says in one sentence what to do.

    >>> from holdfast import MissingTool
    >>> try:
    ...     raise MissingTool("Java is missing: install a JDK 17 or 21")  # as `ingest` does without Java
    ... except MissingTool as missing:
    ...     print(missing)
    Java is missing: install a JDK 17 or 21
    """


class WorkerLost(RuntimeError):
    """A process that computed for this one was ended by something else; the message says what to do."""


@contextmanager
def named(path: str) -> Iterator[None]:
    """Prefix faults raised inside with `path`, the key that names the file.

    >>> with named("plan.json"):
    ...     raise InputError.at("cost", -1, "must be at least 0")
    Traceback (most recent call last):
    ...
    models.errors.InputError: plan.json: cost = -1: must be at least 0
    """
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


def header_hint(columns: Sequence[str]) -> str:
    """Return the hint for a missing column: how many the file has, not their names, for the file may be a foreign one.

    >>> header_hint(["host", "down"])
    'its header has 2 columns'
    """
    count = len(columns)
    return f"its header has {count} column{'' if count == 1 else 's'}" if count else "the file is empty"


def _shorten(value: object) -> str:
    """Return a value as messages show it: on one line, of at most 80 characters."""
    try:
        text = value if isinstance(value, str) else repr(value)
        if isinstance(value, bool):
            text = text.lower()  # as files write it
        if isinstance(value, float) and "e" in text:
            text = display.exact(value)  # 0.00009 and not 9e-05
    except ValueError:  # Python does not write integers of many thousand digits
        text = "a number with thousands of digits"
    text = text if text.isprintable() else repr(text)
    return shortened(text, _LONGEST_VALUE)


def shortened(text: str, most: int = _LONGEST_PATH) -> str:
    """Return the text with at most so many characters: of a path both ends tell."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"
