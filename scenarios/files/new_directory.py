"""Directories that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import NO_VALUE, InputError
from scenarios.files.unfinished import new_name, remove_stale
from scenarios.files.write_once import disk_errors, why_unwritable

_LONGEST_MARK = 200  # bytes of a name


@contextmanager
def new_directory(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """Yield a directory beside `path` to write into, which takes the place of `path` when the block ends well.

    When the block raises, or the process dies, `path` is as it was before. An empty directory may be there.
    What else is there is replaced only with `force`, and only if `ours(path)` says that it is of the kind
    that is written: `force` on a wrong path must not empty it. Raises InputError otherwise.
    """
    check_place(path, force=force, ours=ours)
    target = _resolved(path)
    _remove_stale_beside(target)
    written = _beside(target, "new")
    with disk_errors(target, "cannot be made"):
        written.mkdir(parents=True)
    try:
        with disk_errors(target):
            yield written
            check_place(target, force=force, ours=ours)
            _put(written, target)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


def check_place(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> None:
    """Raise the InputError that `new_directory` would raise for what is at `path` now."""
    target = _resolved(path)
    why = why_unwritable(target)
    if why:
        raise InputError.at(str(target), NO_VALUE, "cannot be made", why)
    if not force and path.is_symlink() and not path.exists():
        raise InputError.at(str(path), "a link", "leads nowhere", "use --force to make what it names")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise InputError.at(str(target), "a file", "must be a directory or not there yet")
    if not force:
        raise InputError.at(str(target), "a directory with files", "is not overwritten", "use --force")
    if not ours(target):
        rule = "is not overwritten, even with force"
        raise InputError.at(str(target), "a directory with other files", rule, "choose a new one")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        why = getattr(error, "strerror", None) or "a link leads to itself"
        raise InputError.at(str(path), NO_VALUE, "cannot be made", why.lower()) from None


def _remove_stale_beside(target: Path) -> None:
    """Remove what a process that has died began to write for this place."""
    kinds = ("new", "old") if target.exists() else ("new",)  # an old one without its successor is all there is
    for kind in kinds:
        remove_stale(target.parent, _prefix(target, kind))


def _put(written: Path, target: Path) -> None:
    if not target.exists():
        written.rename(target)
        return
    old = _beside(target, "old")
    target.rename(old)
    try:
        written.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _beside(target: Path, what: str) -> Path:
    return target.with_name(new_name(_prefix(target, what)))


def _prefix(target: Path, what: str) -> str:
    """Return the beginning of names beside the target: its own name, or a digest where that leaves no room for more."""
    name = os.fsencode(target.name)
    mark = target.name if len(name) <= _LONGEST_MARK else hashlib.sha256(name).hexdigest()
    return f".{mark}.{what}-"
