"""The directory of compiled code of this version, and which of it is whole: without Numba, which takes long to load.

Code is kept by a digest of all files of the kernels: code that one version of them made is never read by another. The
first of these directories that can be written is used: NUMBA_CACHE_DIR, `__pycache__` of the package, the user's cache
directory, and a private one among the temporary files.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import models.records.histogram
import models.records.tables
import sim.clock
import sim.pace

CHECKED = bool(os.environ.get("HOLDFAST_CHECK_INDICES"))


@lru_cache(maxsize=1)
def directory() -> Path | None:
    """Return where compiled code of this version is kept; None if nothing can be written anywhere."""
    for base in _bases():
        try:
            place = base / digest()
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=place).close()
        except OSError:
            continue
        return place
    return None


def _bases() -> Iterator[Path]:
    """Yield the directories to try, best first; the last one only if nobody else can write to it."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given) / "holdfast"
    yield kernels() / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "holdfast" / "compiled"
    with suppress(FileNotFoundError):  # no directory for temporary files can be written
        private = Path(tempfile.gettempdir()) / f"holdfast-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
        if _is_private(private):
            yield private


def _is_private(place: Path) -> bool:
    """Return whether nobody else could have put code there for us to run."""
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.stat(follow_symlinks=False)
    except OSError:
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def kernels() -> Path:
    """Return the folder of all that is compiled."""
    return Path(__file__).parents[1]


@lru_cache(maxsize=1)
def digest() -> str:
    """Return a digest of the files of the kernels, of those whose constants are compiled in, and of the compiler."""
    found = hashlib.sha256((b"checked" if CHECKED else b"") + version("numba").encode())
    others = [
        Path(str(module.__file__)) for module in (models.records.histogram, models.records.tables, sim.clock, sim.pace)
    ]
    for path in [*sorted(kernels().rglob("*.py")), *others]:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def is_whole(code: str) -> bool:
    """Return whether a run has come to its end with code of that name, all of which was kept."""
    place = directory()
    return place is not None and _mark(place, code).exists()


def note_whole(code: str) -> None:
    """Note that a run has come to its end with code of that name; nothing where no code can be kept."""
    place = directory()
    if place is not None and not _mark(place, code).exists():
        with suppress(OSError):
            _mark(place, code).touch()


def _mark(place: Path, code: str) -> Path:
    return place / f"{code.replace(' ', '-')}.whole"
