"""Names that rules look up, with those of entries that could not be read."""

from __future__ import annotations

from collections.abc import Collection

from models.errors import InputFault
from models.validation_messages import Step, nearest_if_shown, path_text


def broken_in(section: str, broken: Collection[str]) -> set[str]:
    """Return the names of the entries of a section that could not be read."""
    return {path.split(".", 1)[1] for path in broken if path.startswith(section + ".")}


def whole(section: str, broken: Collection[str]) -> bool:
    """Return whether a section was read with all its entries."""
    return section not in broken and not broken_in(section, broken)


def unknown_name(
    path: tuple[Step, ...],
    name: str,
    what: str,
    known: Collection[str],
    shown: object | None = None,
    besides: str | None = None,
) -> InputFault:
    """Return the fault of a reference to something that does not exist; the hint names another than `besides`."""
    value = name if shown is None else shown
    hint = nearest_if_shown(name, known, besides)
    return InputFault(path_text(path), value, f"there is no {what} of this name", hint)
