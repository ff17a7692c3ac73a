"""Put compiled code together: functions that callers take in, and whole ones that Python calls.

Numba links into each function all that it calls, and into its caller all of that again. Here a function that only
compiled code calls holds its own code, and knows which others it calls. What Python calls takes each of them in once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import Flags


class _FixedFlags(Flags):
    """Flags that nobody changes: they are the same only if they are one object, for Numba often compares them."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> _FixedFlags:
        """Return the same flags."""
        return self


_flags: list[_FixedFlags] = []


def fixed(flags: Flags) -> _FixedFlags:
    """Return flags with the same values; those with equal ones are one object."""
    for one in _flags:
        if one.values() == flags.values():
            return one
    _flags.append(_FixedFlags(flags))
    return _flags[-1]


class _Library(JITCodeLibrary):
    """Code of which only what is defined here is optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimise each function by itself, as Numba does; it also begins on those that are only declared."""
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


class Linked(_Library):
    """Code that callers take in.

    It is optimised as a part of what is called from Python, once, and not in each function on the way there. Nobody
    calls it by itself, so that there is no machine code of it.
    """

    content: bytes
    """Its bitcode, with what Numba's own functions it calls, and without the functions of `called`."""

    @property
    def called(self) -> list[Linked]:
        """The functions that it calls, in the order in which it does so."""
        return [one for one in dict.fromkeys(self._linking_libraries) if isinstance(one, Linked)]

    def finalize(self) -> None:
        """Leave it as it is, and what it calls to its caller."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            if not isinstance(library, Linked):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self.content = self._final_module.as_bitcode()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return it with all that it calls, for a function that Numba compiles in its own way."""
        self._ensure_finalized()
        made = llvm.parse_bitcode(self.content)
        for library in callers_first(self.called):
            if isinstance(library, Linked):  # as all are that it calls and does not hold itself
                made.link_in(llvm.parse_bitcode(library.content))
        return made

    @classmethod
    def kept(cls, codegen: Any, name: str, content: bytes, called: list[Linked]) -> Linked:
        """Return a function that has been compiled before."""
        made = cls(codegen, name)
        made.content, made._linking_libraries, made._finalized = content, list(called), True
        return made

    @property
    def codegen(self) -> Any:
        """Return what sets no environment of the function: the machine code of its callers holds that."""
        return _NoEnvironments


class _NoEnvironments:
    """In the place of the code generator of a function without machine code."""

    @staticmethod
    def set_env(name: str, environment: object) -> None:
        """Set nothing."""


class Whole(_Library):
    """Code that Python calls, with all that it calls."""

    def finalize(self) -> None:
        """Take in each function that is called from here or from another one, and make machine code."""
        self._raise_if_finalized()
        self._codegen._check_llvm_bugs()
        for library in callers_first(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            if isinstance(library, Linked):
                self._final_module.link_in(llvm.parse_bitcode(library.content))
            else:
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()


def callers_first(libraries: Sequence[CPUCodeLibrary]) -> list[CPUCodeLibrary]:
    """Return libraries and what they call, each once, after all that call it: LLVM takes in what has been asked for."""
    seen: set[CPUCodeLibrary] = set()
    found: list[CPUCodeLibrary] = []  # callees first

    def visit(library: CPUCodeLibrary) -> None:
        if library not in seen:
            seen.add(library)
            for called in reversed(library.called if isinstance(library, Linked) else []):
                visit(called)
            found.append(library)

    for library in reversed(libraries):
        visit(library)
    return found[::-1]
