"""Machine code that is kept, loaded by LLVM alone: Numba's import takes as long as a short run.

Numba compiles a function to one object file, in which a wrapper takes arguments from Python. The file refers to the
interpreter, to the mathematical library of C, and to helpers in three extension modules of Numba, which need nothing of
the rest of it. Code that refers to anything else is not kept here (`keep`): then Numba's own files are.

Code fits one processor, interpreter, Numba and LLVM (`_machine`), which are a part of its name.
"""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import pickle
import platform
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from sim.kernel.tools.directory import digest, directory

CHECKSUM_BYTES = hashlib.sha256().digest_size
_NO_SECTION = 0

LISTENERS: list[Callable[[], None]] = []
"""Called for each function that has been compiled."""


class Code(NamedTuple):
    """The machine code of a function for one kind of arguments."""

    name: str
    wrapper: str
    """The symbol of the function that Python calls."""
    environments: tuple[tuple[str, list[Any]], ...]
    """Objects of Python that code finds at a symbol, such as types of arrays: its own, then those of inlined code."""
    needed: tuple[str, ...]
    mathematics: tuple[str, ...]
    """Of those, what Numba takes from the library to which it is bound."""
    content: bytes


def name_of(function: Callable[..., Any], kind: object) -> str:
    """Return the name of the code of a function for arguments of a kind."""
    text = f"{digest()} {_machine()} {_text(kind)}"
    return f"{function.__module__}.{function.__qualname__}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def _text(kind: Any) -> str:
    if isinstance(kind, tuple):
        return f"({' '.join(map(_text, kind))})"
    return kind.__name__ if isinstance(kind, type) else repr(kind)


def load(name: str) -> Callable[..., Any] | None:
    """Return the function whose code has that name; None if it is not kept, is damaged, or does not fit."""
    kept = read(f"{name}.native")
    if kept is None:
        return None
    code = Code(*pickle.loads(kept))
    with suppress(ImportError, AttributeError):  # another layout of Numba's package
        return _linked(code) if code.name == name else None
    return None


def keep(name: str, wrapper: str, environments: Sequence[tuple[str, list[Any]]], content: bytes) -> bool:
    """Keep machine code if it can be loaded without Numba; return whether it is kept."""
    place, needed = directory(), undefined(content)
    if place is None or needed is None or not all(map(_is_known, needed)):
        return False
    mathematics = [one for one in needed if one in _helpers("_helperlib") and one in _mathematics()]
    code = Code(name, wrapper, tuple(environments), tuple(needed), tuple(mathematics), content)
    return write(f"{name}.native", pickle.dumps(tuple(code)))


def read(name: str) -> bytes | None:
    """Return what is kept in a file; None if it is missing or damaged."""
    place = directory()
    try:
        found = b"" if place is None else (place / name).read_bytes()
    except OSError:
        return None
    content = found[CHECKSUM_BYTES:]
    return content if found[:CHECKSUM_BYTES] == checksum(content) else None


def write(name: str, content: bytes) -> bool:
    """Keep something in a file behind its checksum; return whether it is kept."""
    place, file = directory(), None
    if place is None:
        return False
    try:
        with tempfile.NamedTemporaryFile(dir=place, suffix=".tmp.native", delete=False) as file:
            file.write(checksum(content) + content)
        Path(file.name).replace(place / name)  # whole, whoever reads it meanwhile
    except OSError:
        if file is not None:
            with suppress(OSError):
                Path(file.name).unlink()
        return False
    return True


def checksum(content: bytes) -> bytes:
    """Return the digest that a file begins with."""
    return hashlib.sha256(content).digest()


def undefined(content: bytes) -> list[str] | None:
    """Return the symbols that an object file needs from elsewhere; None if it is not in the format ELF, 64 bits."""
    if content[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,), (size, count) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<HH", content, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, offset + size * k) for k in range(count)]
    found = []
    for _, kind, _, _, begin, length, link, _, _, entry in sections:
        if kind == 2:  # the table of symbols; `link` is the section of their names
            names = sections[link][4]
            for place in range(begin + entry, begin + length, entry):
                name, _, _, section = struct.unpack_from("<IBBH", content, place)
                if section == _NO_SECTION:
                    found.append(content[names + name : content.index(b"\0", names + name)].decode())
    return found


def _is_known(symbol: str) -> bool:
    """Return whether `_linked` finds a symbol."""
    return symbol in _symbols() or symbol in _mathematics() or hasattr(ctypes.CDLL(None), symbol)


def _mathematics() -> frozenset[str]:
    from numba.core.intrinsics import INTR_MATH  # noqa: PLC0415 - it is loaded by the compiler

    return frozenset(INTR_MATH)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return all that code must fit beside its sources."""
    import llvmlite  # noqa: PLC0415 - after the decision that something is loaded
    import llvmlite.binding as llvm  # noqa: PLC0415

    features = llvm.get_host_cpu_features().flatten()
    options = sorted(one for one in os.environ.items() if one[0].startswith("NUMBA_") and one[0] != "NUMBA_CACHE_DIR")
    versions = (sys.implementation.cache_tag, np.__version__, llvmlite.__version__, platform.machine())
    return repr((llvm.get_process_triple(), llvm.get_host_cpu_name(), features, options, versions))


@lru_cache(maxsize=1)
def _engine() -> Any:
    """Return LLVM's linker."""
    import llvmlite.binding as llvm  # noqa: PLC0415 - slow to load

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for symbol, address in _symbols().items():
        llvm.add_symbol(symbol, address)
    # Numba's own loads all of Numba.
    llvm.add_symbol("numba_unpickle", ctypes.cast(_unpickle, ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@lru_cache(maxsize=1)
def _symbols() -> dict[str, int]:
    """Return the addresses that Numba's code needs, as Numba itself names them."""
    found = {"_Py_NoneStruct": id(None)}
    found |= {
        f"numba_{name}": address for part in ("_helperlib", "_dynfunc") for name, address in _helpers(part).items()
    }
    for name, address in _helpers("core.runtime._nrt_python").items():
        found[name if name.startswith("_") else f"NRT_{name}"] = address
    errors = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, BaseException)]
    return found | {f"PyExc_{one.__name__}": id(one) for one in errors}


_unpickled: dict[tuple[int, int], object] = {}


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _unpickle(place: int, size: int, _digest: int) -> object:
    """Return an object, such as the class of arrays, that stands pickled in machine code."""
    if (place, size) not in _unpickled:
        _unpickled[place, size] = pickle.loads(ctypes.string_at(place, size))
    return _unpickled[place, size]


def _helpers(part: str) -> dict[str, int]:
    """Return the functions of an extension module of Numba by name."""
    found: dict[str, int] = _extension(part).c_helpers
    return found


@lru_cache
def _extension(part: str) -> ModuleType:
    """Return an extension module of Numba; it is loaded without the package around it."""
    name = f"numba.{part}"
    if name not in sys.modules:
        package = importlib.util.find_spec("numba")
        folder, _, last = part.replace(".", "/").rpartition("/")
        places = [str(Path(one) / folder) for one in (package.submodule_search_locations if package else None) or ()]
        spec = importlib.machinery.PathFinder.find_spec(last, places)
        if spec is None or spec.origin is None:
            raise ImportError(f"there is no {name}")
        loader = importlib.machinery.ExtensionFileLoader(name, spec.origin)
        spec = importlib.util.spec_from_file_location(name, spec.origin, loader=loader)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _linked(code: Code) -> Callable[..., Any] | None:
    """Return the function; None if a symbol is missing."""
    import llvmlite.binding as llvm  # noqa: PLC0415 - it is loaded by now

    engine, dynamic = _engine(), _extension("_dynfunc")
    for symbol in code.mathematics:
        llvm.add_symbol(symbol, _helpers("_helperlib")[symbol])
    if any(llvm.address_of_symbol(symbol) is None for symbol in code.needed):
        return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    empty, made = dynamic.Environment({}), []
    for symbol, consts in code.environments:
        environment = dynamic.Environment({}) if consts else empty  # no compiled code asks for global names
        environment.consts[:] = consts
        place = ctypes.c_void_p.from_address(engine.get_global_value_address(symbol))
        place.value = id(environment)
        made.append(environment)
    address = engine.get_function_address(code.wrapper)
    function: Callable[..., Any] = dynamic.make_function(
        sys.modules[__name__], code.name, code.name, address, made[0], tuple(made)
    )
    return function
