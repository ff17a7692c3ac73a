"""Files that are there whole or not at all: written under another name, which goes whatever fails."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_once(path: Path, content: bytes, beside: Path) -> bool:
    """Write a file of this content, by way of the directory `beside` on the same disk; False where one is there."""
    with removed_on_failure(temporary(beside)) as written:
        written.write_bytes(content)
        flush(written)
        return name_once(written, path)


@contextmanager
def written_whole(path: Path, folder: Path) -> Iterator[Path]:
    """A hidden name in a folder on the same disk to write a file under, which takes the place of `path` at the end."""
    with removed_on_failure(folder / f".{path.name}.{uuid.uuid4().hex}") as written:
        yield written
        written.replace(path)


@contextmanager
def removed_on_failure(written: Path) -> Iterator[Path]:
    """A file to be written in the block; where that raises (a full disk, an interrupt) none is left."""
    try:
        yield written
    except BaseException:
        written.unlink(missing_ok=True)
        raise


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
