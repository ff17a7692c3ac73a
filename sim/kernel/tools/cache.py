"""Functions that are compiled when they are first called, or loaded where their code is kept.

Code is kept by a digest of all files (`directory`). Without any directory every process compiles for itself. So it does
where a file was damaged: each begins with a checksum of the rest.

A function that is called from Python is compiled with all that it calls, once for each kind of arguments, and kept.
Numba's import takes as long as a short run, so that code which is kept is loaded without it (`native`), and the
decorators here only note how to compile (`compiler`). Kinds of arguments are told apart as Numba does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np

from sim.kernel.tools import native
from sim.kernel.tools.native import LISTENERS

F = TypeVar("F", bound=Callable[..., Any])

_LAYOUT = 0x1 | 0x2 | 0x100 | 0x400  # of NumPy's flags: contiguous in C or Fortran, aligned, writeable
_SCALARS = (*np.sctypeDict.values(), float, bool, NoneType)


def _kind_of_int(value: int) -> type:
    """Return whether a number fits into 64 bits with a sign."""
    return int if -(2**63) <= value < 2**63 else np.uint64


KINDS: dict[type, Callable[[Any], Any]] = {
    **{one: functools.partial(lambda one, _: one, one) for one in _SCALARS if not issubclass(one, np.flexible)},
    int: _kind_of_int,
    tuple: lambda values: tuple([KINDS[type(one)](one) for one in values]),
    np.ndarray: lambda array: (array.dtype, array.ndim, array.flags.num & _LAYOUT),
}
"""Type of an argument -> a function that returns its kind; arguments of one kind have the same code."""

_ALONE = {int, *(one for one in _SCALARS if not issubclass(one, np.flexible))}
"""Types that are a kind, but for an integer that is too large: the wrapper of compiled code refuses it."""


class Kernel:
    """A function and its compiled forms, by the kinds of its arguments.

    In compiled code it stands for Numba's dispatcher, which is made when the first caller is compiled.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options = function, options
        self.loaded = 0
        self._made: dict[Any, Callable[..., Any]] = {}
        # By types, with the layout of a state that comes first: looking at each argument takes several times as long.
        self._quick: dict[tuple[type, ...], tuple[Any, Callable[..., Any]]] = {}

    def __call__(self, *args: Any) -> Any:
        """Call the function, compiled."""
        quick = self._quick.get(tuple(map(type, args)))
        if quick is not None and (quick[0] is None or args[0].layout is quick[0]):
            try:
                return quick[1](*args)
            except OverflowError:  # a number without sign, which comes as int
                pass
        try:
            made = self._made[tuple([KINDS[type(one)](one) for one in args])]
        except KeyError:
            made = self.made_for(*args)
        return made(*args)

    def made_for(self, *args: Any) -> Callable[..., Any]:
        """Return the compiled function for arguments of these kinds; it does not look whether it gets others."""
        try:
            kind = tuple([KINDS[type(one)](one) for one in args])
        except KeyError:
            return cast(Callable[..., Any], self.dispatcher)
        if kind not in self._made:
            name = native.name_of(self.py_func, kind)
            found = native.load(name)
            self.loaded += found is not None
            self._made[kind] = found or _compiler().made_for(self.dispatcher, name, args)
        types = tuple(map(type, args))
        if _ALONE.issuperset(types) and np.uint64 not in kind:
            self._quick[types] = None, self._made[kind]
        elif (
            types[0] not in _ALONE
            and _ALONE.issuperset(types[1:])
            and hasattr(args[0], "layout")
            and np.uint64 not in kind
        ):
            self._quick[types] = args[0].layout, self._made[kind]
        return self._made[kind]

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the function."""
        return _compiler().dispatcher_of(self.py_func, self.options)

    @property
    def _numba_type_(self) -> Any:
        """The type by which compiled code calls the function; Numba asks for it."""
        return _compiler().type_of(self.dispatcher)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the dispatcher, for Numba."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


class Intrinsic:
    """A function for compiled code only, whose code `compiler` generates."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Refuse a call from Python."""
        raise NotImplementedError(f"{self.name} is for compiled code")

    @property
    def _numba_type_(self) -> Any:
        """The type by which compiled code calls it; Numba asks for it."""
        return _compiler().type_of_intrinsic(self.name)


def state_type(layout: Any) -> Any:
    """Return the type of a state in compiled code (`pointer.Layout`)."""
    return _compiler().state_type(layout)


def kernel(function: F) -> F:
    """Compile a function of the event loop: exact, and without reference counts, so that it may not allocate.

    All decorators here use NumPy's error model: a division by zero gives infinity and no exception.
    """
    return _kernel(function, _nrt=False)


def inlined(function: F) -> F:
    """Compile as `kernel` does, and leave no call where the function is used: for the work of each tuple."""
    return _kernel(function, _nrt=False, forceinline=True)


def noinline(function: F) -> F:
    """Compile as `kernel` does, and always leave a call: rare and large work stays out of the common path."""
    return _kernel(function, _nrt=False, leaves_calls=True)


def allocating(function: F) -> F:
    """Compile a function that may allocate arrays."""
    return _kernel(function)


def nogil(function: F) -> F:
    """Compile a function that may allocate arrays and runs beside other threads: it must not touch Python objects."""
    return _kernel(function, nogil=True)


def entry(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """Return the compiled function for arguments like these only: it spends no time on telling kinds."""
    return cast(Kernel, function).made_for(*args)


@contextmanager
def watched(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` for each function that is compiled meanwhile, and not for those that were kept."""
    LISTENERS.append(tell)
    try:
        yield
    finally:
        LISTENERS.remove(tell)


def _kernel(function: F, **options: Any) -> F:
    return cast(F, Kernel(function, options))


def _compiler() -> Any:
    """Return the module that compiles."""
    from sim.kernel.tools import compiler  # noqa: PLC0415 - loads Numba

    return compiler
