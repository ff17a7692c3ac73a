"""How kernels are compiled by Numba, with what compiled code knows of a state and of intrinsics.

Numba keeps machine code of a function beside its file and looks whether that file has changed, not whether the
functions that were compiled into it have. Here all code is kept by a digest of all files: where possible as `native`
loads it, else as Numba does.

A function that is called from compiled code only is compiled for one kind of numbers, 64-bit integers, whatever
narrower ones come, and without the wrappers for calls from Python, each of which would hold a copy of it. Nor is it
optimised or made into machine code by itself, which would take as long again as all the rest (`linking`). What comes of
it is kept by itself, and two processes share the work (`parts`). A type of arguments may carry constants, as
`state.extended`: a branch that such a constant rules out is gone before anything behind it is compiled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core import event, ir, lowering
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import RewriteSemanticConstants

from sim.kernel.tools import native, parts
from sim.kernel.tools.directory import digest, directory
from sim.kernel.tools.intrinsics import INTRINSICS, state_type
from sim.kernel.tools.linking import Linked, Whole, fixed
from sim.kernel.tools.native import CHECKSUM_BYTES, LISTENERS, checksum
from sim.kernel.tools.parts import is_kept

__all__ = ["dispatcher_of", "made_for", "state_type", "type_of", "type_of_intrinsic"]

_njit: Any = njit  # with options that are not in its stubs


def made_for(dispatcher: Any, name: str, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the compiled function for arguments of these types, whose code is kept under that name."""
    signature = tuple(dispatcher.typeof_pyval(one) for one in arguments)
    if directory() is not None:
        dispatcher._cache.names[signature] = name
    with parts.without_garbage_collection(), parts.compiled_beside(dispatcher, signature, name) as found:
        made: Callable[..., Any] = found or dispatcher.compile(signature)
    return made


def dispatcher_of(function: Callable[..., Any], chosen_options: Mapping[str, Any]) -> Any:
    """Return Numba's dispatcher of a function, which calls from compiled code reach without wrappers."""
    options = {"error_model": "numpy", "forceinline": False} | dict(chosen_options)
    options["pipeline_class"] = _NoinlineCompiler if options.pop("leaves_calls", False) else _Compiler
    made = _njit(**options)(function)
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner = _called(function, options)
    called = _called(function, options | {"forceinline": False}) if options["forceinline"] else inner

    def chosen(args: Any) -> Any:
        """Leave a call where the state is extended: inlined, all that it can do compiles for minutes."""
        return called if args and getattr(args[0], "constants", {}).get("extended") else inner

    def call_template(args: Any, kws: Any) -> Any:
        widest = {name: _widest(one) for name, one in kws.items()}
        return chosen(args).get_call_template([_widest(one) for one in args], widest)

    def overload(signature: Any) -> Any:
        return chosen(getattr(signature, "args", signature)).get_overload(signature)

    made.get_call_template, made.get_overload, made.called_with = call_template, overload, chosen
    if directory() is not None:
        made._cache = _Cache(function)
    return made


def _called(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return Numba's dispatcher of a function for calls from compiled code, of which each result is kept."""
    made = _njit(**options)(function)
    if directory() is not None and is_kept(function):
        parts.keep_those_of(made, options["forceinline"])
    return made


def type_of(dispatcher: Any) -> Any:
    """Return the type by which compiled code calls a function."""
    return types.Dispatcher(dispatcher)


def type_of_intrinsic(name: str) -> Any:
    """Return the type by which compiled code calls an intrinsic."""
    return cpu_target.typing_context.resolve_value_type(INTRINSICS[name])


class _Locator(_CacheLocator):
    """One directory for all functions of a version."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(directory())

    def get_source_stamp(self) -> str:
        return digest()

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], _py_file: str) -> _Locator:
        return cls(py_func)


class _Impl(CompileResultCacheImpl):
    """Numba's cache of results with the one locator."""

    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012 - as in the base class


class _Files(IndexDataCacheFile):
    """An index and the code it names; what does not fit its checksum, or is not of that signature, is not there."""

    def save(self, key: Any, data: Any) -> None:
        """Keep the code with its signature."""
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """Return the code of a signature; None if there is none."""
        found = super().load(key)
        # Two processes that compile at the same time may have given their code the same name.
        return found[1] if found is not None and found[0] == key else None

    def _dump(self, obj: Any) -> bytes:
        """Return the bytes of an object behind their checksum."""
        made: bytes = super()._dump(obj)
        return checksum(made) + made

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        return found[1] if found is not None and found[0] == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        with self._open_for_write(self._index_path) as file:
            file.write(self._dump((self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _read(self, path: str) -> Any:
        """Return the object in a file; None if the file is missing or damaged."""
        try:
            found = Path(path).read_bytes()
        except OSError:
            return None
        kept = found[CHECKSUM_BYTES:]
        return pickle.loads(kept) if found[:CHECKSUM_BYTES] == checksum(kept) else None


class _Cache(FunctionCache):
    """Code that cannot be read is compiled again; what cannot be written, by the next process, too."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self.cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())
        self.names: dict[Any, str] = {}  # of signatures, by which `native` keeps their code

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature; None if it cannot be read, whatever the cause."""
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code of a signature, if that can be done."""
        if sig in self.names and _kept_natively(self.names[sig], data):
            return
        with suppress(OSError):
            super().save_overload(sig, data)


def _kept_natively(name: str, made: Any) -> bool:
    """Keep the machine code of a function so that it is loaded without Numba, if it can be; return whether it is."""
    own = made.environment
    others = [one for one in made._find_referenced_environments() if one is not own]
    environments = [(one.env_name, list(one.consts)) for one in [own, *others]]
    if b"numba" in pickle.dumps([consts for _, consts in environments]):
        return False  # its objects are of no use without it
    return native.keep(name, made.fndesc.llvm_cpython_wrapper_name, environments, made.library._get_compiled_object())


class _Watcher(event.Listener):
    """Listens to Numba's compiler."""

    def on_start(self, event: event.Event) -> None:
        """Nothing is compiled yet."""

    def on_end(self, event: event.Event) -> None:
        """Tell that a function has been compiled."""
        for tell in LISTENERS:
            tell()


event.register("numba:compile", _Watcher())


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
        """Put in the constants of a function; return True if there was one."""
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


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lower(NativeLowering):
    """Numba's lowering, in which functions that only compiled code calls are left to their callers."""

    _name = "holdfast_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower a function."""
        codegen = state.targetctx.codegen()
        linked = state.flags.no_cpython_wrapper and state.flags.no_cfunc_wrapper
        made = (Linked if linked else Whole)(codegen, state.func_id.func_qualname)
        made.enable_object_caching()
        state.library = made
        super().run_pass(state)
        if not linked:  # its own environment, and those of functions that it has taken in
            for variable in state.library._final_module.global_variables:
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)
        return True


class _Compiler(CompilerBase):
    """Numba's own, with constants put before it looks for branches that are never taken."""

    native_lowering: type[NativeLowering] = _Lower

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.flags = fixed(self.state.flags)

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes with the constants put in, and our lowering."""
        if is_kept(self.state.func_id.func) and self.state.flags.no_cpython_wrapper:
            # Numba counts functions; code that another process has made calls this one by the same name.
            self.state.func_id.unique_id, self.state.func_id.unique_name = 0, self.state.func_id.func_qualname
        builder = DefaultPassBuilder.define_nopython_pipeline(self.state)
        builder.add_pass_after(_PutConstants, RewriteSemanticConstants)
        own = self.native_lowering
        builder.passes = [(own if made is NativeLowering else made, why) for made, why in builder.passes]
        builder.finalize()
        return [builder]


class _NeverInlined(lowering.Lower):
    """Lowering to a function that LLVM leaves where it is."""

    def setup_function(self, fndesc: Any) -> None:
        """Mark the function: LLVM inlines small ones unless they say not to."""
        super().setup_function(fndesc)
        self.function.attributes.add("noinline")


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerNoinline(_Lower):
    """The same with `_NeverInlined`."""

    _name = "holdfast_noinline"

    @property
    def lowering_class(self) -> Any:
        return _NeverInlined


class _NoinlineCompiler(_Compiler):
    """The compiler of functions that are not to be inlined."""

    native_lowering = _LowerNoinline
