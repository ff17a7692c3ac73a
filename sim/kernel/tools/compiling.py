"""Compiling, so that a first run need not wait long for it.

What is called from Python is compiled with all that it calls, once, and kept (`cache`). What is called from compiled
code only is compiled for one kind of numbers, 64-bit integers, whatever narrower ones come, and without the wrappers
for calls from Python, each of which would hold a copy of it. A type of arguments may carry constants, as
`state.extended`: a branch that such a constant rules out is gone before anything behind it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import event, ir, lowering
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import RewriteSemanticConstants

from sim.kernel.tools.cache import kept

F = TypeVar("F", bound=Callable[..., Any])
_njit: Any = njit  # with options that are not in its stubs


def kernel(function: F) -> F:
    """Compile a function of the event loop: exact, and without reference counts, so that it may not allocate."""
    return _compiled(function, _nrt=False)


def inlined(function: F) -> F:
    """The same, and no call is left where it is used: for what each tuple needs, in few places."""
    return _compiled(function, _nrt=False, forceinline=True)


def noinline(function: F) -> F:
    """The same, and a call is always left: for what is rare and large, that it take nothing from what is not."""
    return _compiled(function, _nrt=False, forceinline=False, pipeline_class=_NoinlineCompiler)


def allocating(function: F) -> F:
    """Compile a function that may allocate arrays."""
    return _compiled(function)


def nogil(function: F) -> F:
    """Compile a function that may allocate arrays and runs beside other threads: it touches nothing of Python."""
    return _compiled(function, nogil=True)


def entry(function: Callable[..., Any], *kinds: Any) -> Callable[..., Any]:
    """The same for arguments of these types only, compiled: it spends nothing on finding out what it is given."""
    return cast(Callable[..., Any], cast(Any, function).compile(kinds))


@contextmanager
def watched(tell: Callable[[], None]) -> Iterator[None]:
    """`tell` is called for each function that is compiled, and not for those that were kept."""
    with event.install_listener("numba:compile", _Watcher(tell)):
        yield


class _Watcher(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def on_start(self, event: event.Event) -> None:
        """Nothing is compiled yet."""

    def on_end(self, event: event.Event) -> None:
        self._tell()


def _compiled(function: F, **options: Any) -> F:
    options = {"error_model": "numpy", "pipeline_class": _Compiler, "forceinline": False} | options
    made = _njit(**options)(function)
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner = _njit(**options)(function)
    called = _njit(**options | {"forceinline": False})(function) if options.get("forceinline") else inner

    def chosen(args: Any) -> Any:
        """Leave a call where the state is extended: inlined, all that it can do compiles for minutes."""
        return called if args and getattr(args[0], "constants", {}).get("extended") else inner

    def call_template(args: Any, kws: Any) -> Any:
        widest = {name: _widest(one) for name, one in kws.items()}
        return chosen(args).get_call_template([_widest(one) for one in args], widest)

    def overload(signature: Any) -> Any:
        return chosen(getattr(signature, "args", signature)).get_overload(signature)

    made.get_call_template, made.get_overload = call_template, overload
    return cast(F, kept(made))


def _widest(type_: Any) -> Any:
    """Return one type for all signed integers and constants."""
    type_ = types.unliteral(type_)
    return types.int64 if isinstance(type_, types.Integer) and type_ != types.uint64 else type_


@register_pass(mutates_CFG=False, analysis_only=False)
class _PutConstants(FunctionPass):
    """An attribute that the type of an argument knows becomes a constant."""

    _name = "holdfast_constants"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        found = False
        for block in state.func_ir.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                known = guard(_known, state, assignment.value)
                if known is not None:
                    assignment.value = ir.Const(known, assignment.loc)
                    found = True
        if found:
            state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return found


def _known(state: Any, value: Any) -> bool | None:
    """Return the constant that an expression stands for, or None."""
    if not isinstance(value, ir.Expr) or value.op != "getattr":
        return None
    argument = get_definition(state.func_ir, value.value)
    if not isinstance(argument, ir.Arg):
        return None
    constants: dict[str, bool] = getattr(state.args[argument.index], "constants", {})
    return constants.get(value.attr)


class _Compiler(CompilerBase):
    """Numba's own, with constants put before it looks for branches that are never taken."""

    def define_pipelines(self) -> list[Any]:
        builder = DefaultPassBuilder.define_nopython_pipeline(self.state)
        builder.add_pass_after(_PutConstants, RewriteSemanticConstants)
        builder.finalize()
        return [builder]


class _NeverInlined(lowering.Lower):
    """Lowering to a function that LLVM leaves where it is."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        self.function.attributes.add("noinline")


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerNoinline(NativeLowering):
    _name = "holdfast_noinline"

    @property
    def lowering_class(self) -> Any:
        return _NeverInlined


class _NoinlineCompiler(_Compiler):
    """The same for a function that is not to be inlined."""

    def define_pipelines(self) -> list[Any]:
        (builder,) = super().define_pipelines()
        builder.passes = [(_LowerNoinline if made is NativeLowering else made, why) for made, why in builder.passes]
        builder.finalize()
        return [builder]
