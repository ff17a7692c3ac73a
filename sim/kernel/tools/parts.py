"""Functions that compiled code calls, each kept by itself, and compiled by two processes at once.

What Python calls is compiled with all that it calls: hundreds of functions, and most of the time is Numba's own work on
each of them. So what comes of each is kept, as bitcode with the types that its callers need. A process that needs more
of them later, or another one that began at the same time, goes on from there.

Which functions a kernel calls is read from its source, and from its annotations with which types. So a second process
can work on the same list from the leaves up. Each takes what nobody has taken yet: with a lock of the operating system,
which is free again when its process ends. The list saves time and decides nothing: what is missing in it, or has other
types, is compiled where its caller needs it, and what is not needed is left out there.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import inspect
import io
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import NumbaPickler

from sim.kernel.tools import native
from sim.kernel.tools.directory import directory
from sim.kernel.tools.intrinsics import STATES, StateType
from sim.kernel.tools.linking import Linked
from sim.kernel.tools.native import LISTENERS

_ENOUGH = 30  # functions for which a second process is worth its start
_OF_HELPER = 0  # the place of the lock that the second process has
_result: Any = CompileResult  # whose fields are not in its stubs
_KINDS = {"int": types.int64, "np.uint64": types.uint64, "float": types.float64, "bool": types.boolean}
_WITHOUT_SIGN = ("tuple_id",)

_OF_TYPES = {types.int64: int, types.uint64: np.uint64, types.float64: float, types.boolean: bool}  # kinds in Python

_Kernel = Any
"""A `cache.Kernel`, which this module does not import: it comes to this one when there is something to compile."""

_Part = tuple[_Kernel, tuple[Any, ...]]
_States = dict[str, StateType]
"""The types of the states of a run: that of the event loop is `loop`, that of the scan `scan`."""


def is_kept(function: Callable[..., Any]) -> bool:
    """Return whether the digest of all kernels tells one version of a function from another."""
    return function.__module__.startswith("sim.kernel.")


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Look for no garbage meanwhile, nor among what is there at the end: Numba makes millions of objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


@contextmanager
def compiled_beside(dispatcher: Any, signature: tuple[Any, ...], name: str) -> Iterator[Callable[..., Any] | None]:
    """Yield the function if another process has just compiled it; else compile all that it calls, with a second one.

    The caller then compiles the function itself. The second process goes on with what this run may call next.
    """
    with _taken(name):
        found = native.load(name)
        if found is None:
            states = _states(dispatcher.py_func, signature)
            left = [one for one in _called_by(dispatcher.py_func, states) if _is_missing(one)]
            if len(left) >= _ENOUGH and _start_helper(left, states):
                _compile_each(left)
        yield found


class _Parts(NullCache):
    """Keeps what comes of a function, for each signature."""

    def __init__(self, dispatcher: Any, inlined: bool) -> None:
        self._dispatcher, self._inlined, self._compile = dispatcher, inlined, dispatcher.compile

    def name_of(self, signature: tuple[Any, ...]) -> str:
        """Return the name of the file."""
        return native.name_of(self._dispatcher.py_func, (self._inlined, tuple(map(str, signature)))) + ".part"

    def compile(self, signature: Any) -> Any:
        """Compile the function, or load it; nobody else compiles it meanwhile."""
        arguments = tuple(getattr(signature, "args", signature))
        if arguments in self._dispatcher.overloads:
            return self._compile(signature)
        with global_compiler_lock, _taken(self.name_of(arguments)):
            return self._compile(signature)

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return what is kept; None if it is not there, or cannot be read, whatever the cause."""
        with suppress(Exception):
            name = self.name_of(sig)
            found = _found(name)
            library = _library(name, target_context.codegen())
            fndesc, environment, signature, environments = _Unpickler(io.BytesIO(found[3])).load()
            if tuple(signature.args) != tuple(sig):
                return None
            made = _result(
                typing_context=target_context.typing_context,
                target_context=target_context,
                entry_point=target_context.get_executable(library, fndesc, environment),
                typing_error=None,
                type_annotation=None,
                signature=signature,
                objectmode=False,
                lifted=(),
                fndesc=fndesc,
                library=library,
                call_helper=None,
                environment=environment,
                metadata=None,
                reload_init=[],
                referenced_envs=environments,
            )
            for tell in LISTENERS:
                tell()
            return made
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what has been compiled, unless other processes could not use it, or nothing can be written."""
        library = data.library
        if library.has_dynamic_globals or data.reload_init or data.lifted:
            return
        with suppress(Exception):
            called = [_names[one] for one in library.called]
            fndesc = data.fndesc
            fndesc.typemap = fndesc.calltypes = None  # as Numba does: nobody needs them any more
            kept = io.BytesIO()
            environments = tuple(data._find_referenced_environments())
            _Pickler(kept, protocol=4).dump((fndesc, data.environment, data.signature, environments))
            name = self.name_of(sig)
            if native.write(name, pickle.dumps((library.name, called, library.content, kept.getvalue()))):
                _names[library], _libraries[name] = name, library


def keep_those_of(dispatcher: Any, inlined: bool) -> None:
    """Keep what comes of a function that compiled code calls."""
    made = _Parts(dispatcher, inlined)
    dispatcher._cache, dispatcher.compile = made, made.compile


_libraries: dict[str, Linked] = {}
_names: dict[Linked, str] = {}


def _library(name: str, codegen: Any) -> Linked:
    """Return a function that is kept, with those that it calls."""
    if name not in _libraries:
        own, called, content, _ = _found(name)
        made = Linked.kept(codegen, own, content, [_library(one, codegen) for one in called])
        _libraries[name], _names[made] = made, name
    return _libraries[name]


def _found(name: str) -> tuple[str, list[str], bytes, bytes]:
    """Return the name of a function, what it calls, its bitcode, and what callers need to know of it."""
    content = native.read(name)
    if content is None:
        raise FileNotFoundError(name)
    found: tuple[str, list[str], bytes, bytes] = pickle.loads(content)
    return found


class _Pickler(NumbaPickler):
    """Numba's own, with the names of states for their types, which are large."""

    def persistent_id(self, found: Any) -> str | None:
        """Return the name of a state."""
        return found.name if type(found) is StateType else None


class _Unpickler(pickle.Unpickler):
    """The reverse of `_Pickler`."""

    def persistent_load(self, name: str) -> StateType:
        """Return the type of a state."""
        return STATES[name]


@contextmanager
def _taken(name: str | int, wait: bool = True) -> Iterator[bool]:
    """Yield whether no other process has taken the function: if it is to wait, until that is so."""
    try:
        import fcntl  # noqa: PLC0415 - where there is none, two may compile the same

        file = _locks(directory())
        number = name if isinstance(name, int) else 1 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:5])
        fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, number)
    except (ImportError, OSError):  # another one has it, or nothing can be written
        yield wait
        return
    try:
        yield True
    finally:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, number)


@lru_cache
def _locks(place: Path | None) -> int:
    """Return the file of which each function has one byte; it stays open, for closing it would free all of them."""
    if place is None:
        raise OSError
    return os.open(place / "parts", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


_helpers: list[int] = []


def _start_helper(left: list[_Part], states: _States) -> bool:
    """Start a process that compiles the same functions; return False where there is no core for it, or it is not safe.

    It ends soon after this one.
    """
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or threading.active_count() > 1:
        return False
    while _helpers:  # what it still does is of no use yet
        with suppress(OSError):
            os.kill(_helpers[-1], signal.SIGKILL)
            os.waitpid(_helpers[-1], 0)
        _helpers.pop()
    parent, made = os.getpid(), os.fork()
    if made:
        _helpers.append(made)
        return True
    try:
        _leave(parent)
        with _taken(_OF_HELPER, wait=False) as only:
            if only:
                _compile_each(left, lambda: os.getppid() == parent)
                _compile_roots(states, lambda: os.getppid() == parent)
    finally:
        os._exit(0)


def _leave(parent: int) -> None:
    """Give back what belongs to the process that this one came from: files, so that nobody waits for them, and ears."""
    LISTENERS.clear()
    _helpers.clear()
    null = os.open(os.devnull, os.O_RDWR)
    for file in range(3):
        os.dup2(null, file)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _locks.cache_clear()


def _compile_roots(states: _States, goes_on: Callable[[], bool]) -> None:
    """Compile what Python may call with the same states, the largest first."""
    roots = []
    for kernel in _roots():
        given = _types(kernel.py_func, states)
        if given is not None and any(isinstance(one, StateType) for one in given):
            roots.append((len(_called_by(kernel.py_func, states)), kernel, given))
    for _, kernel, given in sorted(roots, key=lambda root: -root[0]):
        kinds = tuple(one.layout if isinstance(one, StateType) else _OF_TYPES[one] for one in given)
        name = native.name_of(kernel.py_func, kinds)
        with _taken(name, wait=False) as free, suppress(Exception):
            if goes_on() and free and native.read(f"{name}.native") is None:
                kernel.dispatcher._cache.names[given] = name
                kernel.dispatcher.compile(given)


def _roots() -> Iterator[_Kernel]:
    """Yield the functions whose names stand in Python code beside them."""
    found: dict[_Kernel, None] = {}
    for name in [one for one in sys.modules if one.startswith("sim.kernel.")]:
        known = vars(sys.modules[name])
        for node in _source(name):
            if not _is_kernel(known.get(getattr(node, "name", ""))):
                found |= dict.fromkeys(_in(node, known, {}))
    yield from found


def _compile_each(left: list[_Part], goes_on: Callable[[], bool] = lambda: True) -> None:
    """Compile what no other process has compiled or is about to."""
    for part in left:
        if goes_on() and _is_missing(part):
            kernel, signature = part
            made = kernel.dispatcher.called_with(signature)
            with _taken(made._cache.name_of(signature), wait=False) as free, suppress(Exception):
                if free and _is_missing(part):
                    made.compile(signature)


def _is_missing(part: _Part) -> bool:
    """Return whether a function has not been kept."""
    place, (kernel, signature) = directory(), part
    cache = kernel.dispatcher.called_with(signature)._cache
    return place is not None and isinstance(cache, _Parts) and not (place / cache.name_of(signature)).exists()


def _states(function: Callable[..., Any], signature: tuple[Any, ...]) -> _States:
    """Return the types of the states that a function is called with."""
    parameters = inspect.signature(function).parameters
    given = [(_kind_of_state(function, name), one) for name, one in zip(parameters, signature, strict=False)]
    return {kind: one for kind, one in given if isinstance(one, StateType)}


def _called_by(function: Callable[..., Any], states: _States) -> list[_Part]:
    """Return the functions that one calls, directly or not, with the types of their arguments; callees come first.

    Those whose types do not follow from annotations are left out.
    """
    constants = {name: value for one in states.values() for name, value in one.constants.items()}
    heights: dict[_Kernel, int] = {}

    def height(kernel: _Kernel) -> int:
        if kernel not in heights:
            heights[kernel] = 1 + max(map(height, _names_in(kernel.py_func, constants)), default=0)
        return heights[kernel]

    for kernel in _names_in(function, constants):
        height(kernel)
    found = [(kernel, _types(kernel.py_func, states)) for kernel in sorted(heights, key=heights.__getitem__)]
    return [(kernel, given) for kernel, given in found if given is not None]


def _kind_of_state(function: Callable[..., Any], name: str) -> str:
    """Return `loop` or `scan`: a name that says so, or the package whose state it is."""
    return name if name in ("loop", "scan") else "scan" if ".scan." in function.__module__ else "loop"


def _types(function: Callable[..., Any], states: _States) -> tuple[Any, ...] | None:
    """Return the types of a function's arguments, for one kind of states; None if they are not known."""
    found: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation == "State":
            found.append(states.get(_kind_of_state(function, name)))
        elif name in _WITHOUT_SIGN:
            found.append(types.uint64)
        else:
            found.append(_KINDS.get(parameter.annotation))
    return None if None in found else tuple(found)


def _names_in(function: Callable[..., Any], constants: dict[str, bool]) -> list[_Kernel]:
    """Return the functions whose names stand in one, but for those that a constant of the state rules out."""
    tree = _functions(function.__module__).get(function.__qualname__)
    return _in(tree, function.__globals__, constants) if tree is not None else []


def _in(tree: ast.AST, known: dict[str, Any], constants: dict[str, bool]) -> list[_Kernel]:
    """Return the same of a piece of source, with what its names stand for."""
    found: dict[_Kernel, None] = {}
    left = [tree]
    while left:
        node, one = left.pop(), None
        if isinstance(node, ast.If | ast.IfExp) and _is_never(node.test, constants):
            left += [node.test, *(node.orelse if isinstance(node.orelse, list) else [node.orelse])]
        elif isinstance(node, ast.BoolOp) and _is_never(node, constants):
            left += node.values[: next(k for k, value in enumerate(node.values) if _is_never(value, constants))]
        else:
            left += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name):
            one = known.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id)
            one = getattr(module, node.attr, None) if inspect.ismodule(module) else None
        if _is_kernel(one):
            found[one] = None
    return list(found)


def _is_kernel(one: object) -> bool:
    """Return whether it has a dispatcher of its own, without making that."""
    return hasattr(type(one), "dispatcher")


def _is_never(test: ast.AST, constants: dict[str, bool]) -> bool:
    """Return whether a condition is false by a constant of the state."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_never(one, constants) for one in test.values)
    return isinstance(test, ast.Attribute) and constants.get(test.attr) is False


@lru_cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    """Return the functions of a module by name, as they are written."""
    return {node.name: node for node in _source(module) if isinstance(node, ast.FunctionDef)}


def _source(module: str) -> list[ast.stmt]:
    """Return a module as it is written; nothing where that is not known."""
    try:
        return ast.parse(inspect.getsource(sys.modules[module])).body
    except (OSError, TypeError):
        return []
