"""Where compiled code is kept between processes.

Numba keeps machine code of a function beside its file and looks whether that file has changed, not whether the
functions that were compiled into it have. Here the code is kept by a digest of all files of this package: what one
version of them made, another never reads. The first of these directories that can be written is used: NUMBA_CACHE_DIR,
`__pycache__` of this package, the user's cache directory, and a private one among the temporary files. Without any
every process compiles for itself.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

import models.histogram
import models.records
import sim.clock
import sim.pace
from sim.compiled.arrays import CHECKED


def kept(made: Any) -> Any:
    """The same compiled function, whose code is kept if that can be done anywhere."""
    if directory() is not None:
        made._cache = _Cache(made.py_func)
    return made


@lru_cache(maxsize=1)
def directory() -> Path | None:
    """Where compiled code of this version is kept; None if nothing can be written anywhere."""
    for base in _bases():
        try:
            place = base / _digest()
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=place).close()
        except OSError:
            continue
        return place
    return None


def _bases() -> Iterator[Path]:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given) / "holdfast"
    yield Path(__file__).parent / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "holdfast" / "compiled"
    with suppress(FileNotFoundError):  # no directory for temporary files can be written
        private = Path(tempfile.gettempdir()) / f"holdfast-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
        if _is_private(private):
            yield private


def _is_private(place: Path) -> bool:
    """Whether nobody else could have put code there for us to run."""
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.stat(follow_symlinks=False)
    except OSError:
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


@lru_cache(maxsize=1)
def _digest() -> str:
    """A digest of the files of this package, and of those whose constants are compiled in."""
    found = hashlib.sha256(b"checked" if CHECKED else b"")
    here = Path(__file__).parent
    others = [Path(str(module.__file__)) for module in (models.histogram, models.records, sim.clock, sim.pace)]
    for path in [*sorted(here.glob("*.py")), *others]:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class _Locator(_CacheLocator):
    """One directory for all functions of a version."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(directory())

    def get_source_stamp(self) -> str:
        return _digest()

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], _py_file: str) -> _Locator:
        return cls(py_func)


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012 - as in the base class


class _Cache(FunctionCache):
    """Code that cannot be written, on a full disk for example, is compiled again by the next process."""

    _impl_class = _Impl

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
