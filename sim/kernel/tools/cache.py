"""Where compiled code is kept between processes.

Numba keeps machine code of a function beside its file and looks whether that file has changed, not whether the
functions that were compiled into it have. Here the code is kept by a digest of all files of this package: what one
version of them made, another never reads. The first of these directories that can be written is used: NUMBA_CACHE_DIR,
`__pycache__` of this package, the user's cache directory, and a private one among the temporary files. Without any
every process compiles for itself. So it does where a file was damaged: each begins with a checksum of the rest.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

import models.records.histogram
import models.records.tables
import sim.clock
import sim.pace
from sim.kernel.tools.arrays import CHECKED

CHECKSUM_BYTES = hashlib.sha256().digest_size


def kept(made: Any) -> Any:
    """Return the same compiled function, whose code is kept if that can be done anywhere."""
    if directory() is not None:
        made._cache = _Cache(made.py_func)
    return made


@lru_cache(maxsize=1)
def directory() -> Path | None:
    """Return where compiled code of this version is kept; None if nothing can be written anywhere."""
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
    yield _kernel() / "__pycache__"
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


def _kernel() -> Path:
    """Return the folder of all that is compiled."""
    return Path(__file__).parents[1]


@lru_cache(maxsize=1)
def _digest() -> str:
    """Return a digest of the files of the kernel, of those whose constants are compiled in, and of the compiler."""
    found = hashlib.sha256((b"checked" if CHECKED else b"") + numba.__version__.encode())
    others = [
        Path(str(module.__file__)) for module in (models.records.histogram, models.records.tables, sim.clock, sim.pace)
    ]
    for path in [*sorted(_kernel().rglob("*.py")), *others]:
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


class _Files(IndexDataCacheFile):
    """An index and the code it names; what does not fit its checksum, or is not of that signature, is not there."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        # Two processes that compile at the same time may have given their code the same name.
        return found[1] if found is not None and found[0] == key else None

    def _dump(self, obj: Any) -> bytes:
        made: bytes = super()._dump(obj)
        return _checksum(made) + made

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        return found[1] if found is not None and found[0] == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        with self._open_for_write(self._index_path) as file:
            file.write(self._dump((self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _read(self, path: str) -> Any:
        try:
            found = Path(path).read_bytes()
        except OSError:
            return None
        kept = found[CHECKSUM_BYTES:]
        return pickle.loads(kept) if found[:CHECKSUM_BYTES] == _checksum(kept) else None


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class _Cache(FunctionCache):
    """Code that cannot be read is compiled again; what cannot be written, by the next process, too."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self.cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
