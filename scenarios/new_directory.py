"""Directories that appear whole or not at all."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import NO_VALUE, InputError


@contextmanager
def new_directory(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """A directory beside `path` to write into, which takes the place of `path` when the block ends well.

    When the block raises, or the process dies, `path` is as it was before. An empty directory may be there.
    What else is there is replaced only with `force`, and only if `ours(path)` says that it is of the kind
    that is written: `force` on a wrong path must not empty it. Raises InputError otherwise.
    """
    target = path.resolve()
    check_place(target, force=force, ours=ours)
    _sweep_away_left_overs(target)
    written = _beside(target, "new")
    try:
        written.mkdir(parents=True)
    except OSError as error:
        raise InputError.at(str(target), NO_VALUE, "cannot be made", error.strerror or str(error)) from None
    try:
        yield written
        check_place(target, force=force, ours=ours)
        _put(written, target)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


def check_place(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> None:
    """Raise the InputError that `new_directory` would raise for what is at `path` now."""
    target = path.resolve()
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise InputError.at(str(target), "a file", "must be a directory or not there yet")
    if not force:
        raise InputError.at(str(target), "a directory with files", "is not overwritten", "use --force")
    if not ours(target):
        rule = "is not overwritten, even with force"
        raise InputError.at(str(target), "a directory with other files", rule, "choose a new one")


def _sweep_away_left_overs(target: Path) -> None:
    """Remove what a process that was killed had begun to write for this place."""
    kinds = ("new", "old") if target.exists() else ("new",)  # an old one without its successor is all there is
    for left in (found for kind in kinds for found in target.parent.glob(f".{glob.escape(target.name)}.{kind}-*")):
        owner = left.name.split("-")[-2]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of somebody else
    return True


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
    return target.with_name(f".{target.name}.{what}-{os.getpid()}-{secrets.token_hex(4)}")
