"""Files that are written once, whole, by whoever is first."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_once(path: Path, content: bytes, beside: Path) -> bool:
    """Write a file of this content, by way of the directory `beside` on the same disk; False where one is there."""
    written = temporary(beside)
    written.write_bytes(content)
    flush(written)
    return name_once(written, path)


def name_once(written: Path, path: Path) -> bool:
    """Give a complete file its name, and take its former one; False where somebody was first.

    By a hard link, which fails where the name is there.
    """
    try:
        os.link(written, path)
    except FileExistsError:
        return False
    finally:
        written.unlink(missing_ok=True)
    flush(path.parent)
    return True


def temporary(folder: Path) -> Path:
    """A name that nobody else has."""
    return folder / uuid.uuid4().hex


def flush(path: Path) -> None:
    """Have the content of a file, or the names in a directory, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
