"""The scenarios that come with holdfast, by name."""

from __future__ import annotations

from pathlib import Path

from models.errors import InputError
from models.validation_messages import nearest

_FOLDER = Path(__file__).parents[1] / "library"


def names() -> list[str]:
    """Return the names of the scenarios that come with holdfast, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def path_of(name: str) -> Path:
    """Return the file of a scenario by name; raises InputError for a name that is not there."""
    if name not in names():
        raise InputError.at("library", name, "there is no scenario of this name", nearest(name, names()))
    return _FOLDER / f"{name}.toml"


def resolve(name_or_path: Path | str) -> Path:
    """Return the file that is meant: one that exists, else the library's scenario of that name.

    A text that is neither comes back as a path where it looks like one; otherwise InputError names the
    nearest scenario.
    """
    text = str(name_or_path)
    path = Path(text)
    try:
        # A name too long for the file system raises here, and may still be meant as text.
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if is_file:
        return path
    if text in names():
        return path_of(text)
    # It looks like a path: its reader says what is wrong with it, with the path as it was given.
    if path.suffix or path.parent != Path() or path.exists():
        return path
    hint = nearest(text, names())
    raise InputError.at("scenario", text, "is neither a file nor a scenario of the library", hint)


def text_of(name: str) -> str:
    """Return the text of a scenario of the library."""
    return path_of(name).read_text(encoding="utf-8")
