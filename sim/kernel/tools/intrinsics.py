"""Compiled code for a state, its arrays and records, and for intrinsics, as Numba generates it.

`pointer` says how they lie in memory.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import NativeValue, intrinsic, lower_builtin, models, register_model, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import load_item, make_array, populate_array, store_item
from numba.np.numpy_support import from_dtype

from sim.kernel.tools.directory import CHECKED

_READ, _KEEP, _DATA = 0, 3, 1
_LINE = 64  # bytes that the processor fetches at a time


class PlainArray(types.Array):
    """A one-dimensional array whose indices are not negative."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype, 1, "C", name=f"plain({dtype})", aligned=True)


register_model(PlainArray)(models.ArrayModel)


def _place(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
    """Return the address of an item."""
    made = make_array(array_type)(context, builder, array)
    number = context.cast(builder, index, index_type, types.intp)
    if CHECKED:
        (length,) = cgutils.unpack_tuple(builder, made.shape, count=1)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned(">=", number, length)):
            trap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), "llvm.trap")
            builder.call(trap, [])
    return cgutils.get_item_pointer(context, builder, array_type, made, [number], wraparound=False)


@lower_builtin(operator.getitem, PlainArray, types.Integer)
def _get_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate code that reads an item."""
    (array_type, index_type), (array, index) = signature.args, arguments
    return load_item(context, builder, array_type, _place(context, builder, array_type, array, index_type, index))


@lower_builtin(operator.setitem, PlainArray, types.Integer, types.Any)
def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate code that writes an item, converted to the type of the array."""
    (array_type, index_type, value_type), (array, index, value) = signature.args, arguments
    made = context.cast(builder, value, value_type, array_type.dtype)
    store_item(context, builder, array_type, made, _place(context, builder, array_type, array, index_type, index))
    return context.get_dummy_value()


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Ask for the memory of an item before it is needed, for a long queue does not fit into the processor's caches."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, array, arguments[0], index, arguments[1])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        first = builder.bitcast(place, byte)
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        # An item that does not fill its lines begins anywhere in one, so that it may end in one more.
        last = [size - 1] if size % _LINE and _LINE % size else []
        for offset in [*range(0, size, _LINE), *last]:
            line = builder.gep(first, [context.get_constant(types.intp, offset)])
            builder.call(fetch, [line, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate


def _foreign(arity: int) -> Any:
    """Call `double f(double, ..., int)` at an address: the form of functions in scipy.special.cython_special."""

    def of_type(arguments: int) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            number, flag = ir.DoubleType(), ir.IntType(32)
            form = ir.FunctionType(number, [number] * arguments + [flag])
            function = builder.inttoptr(values[0], form.as_pointer())
            return builder.call(function, [*values[1:], ir.Constant(flag, 0)])

        return types.float64(types.int64, *[types.float64] * arguments), generate

    def one(_context: Any, address: Any, x: Any) -> Any:
        return of_type(1)

    def two(_context: Any, address: Any, x: Any, y: Any) -> Any:
        return of_type(2)

    return one if arity == 1 else two


def _upper_of(_context: Any, x: Any, y: Any) -> Any:
    """Return the upper half of a product."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(values[0], wide), builder.zext(values[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


INTRINSICS: dict[str, Any] = {
    "prefetch": intrinsic(_prefetch),
    "call_1": intrinsic(_foreign(1)),
    "call_2": intrinsic(_foreign(2)),
    "upper_half": intrinsic(_upper_of),
}
"""By the names under which kernels call them."""


class StateType(types.Type):
    """The type of a state in compiled code, with those of its arrays and records."""

    def __init__(self, layout: Any) -> None:
        super().__init__(name=layout.name)
        self.layout = layout
        self.arrays, self.records, self.constants = layout.arrays, layout.records, layout.constants
        self.place, self.offset = layout.place, layout.offset
        self.types = {name: from_dtype(dtype) for name, dtype in self.records.items()}
        self.types |= {name: PlainArray(from_dtype(dtype)) for name, dtype in self.arrays.items()}


STATES: dict[str, StateType] = {}
"""The types of states of which there was one, by name."""


@lru_cache
def state_type(layout: Any) -> StateType:
    """Return the type of states with that layout (`pointer.Layout`)."""
    return STATES.setdefault(layout.name, StateType(layout))


register_model(StateType)(models.OpaqueModel)


@unbox(StateType)
def _unbox(type_: StateType, value: Any, c: Any) -> Any:
    """Return the address of the table."""
    address = c.pyapi.object_getattr_string(value, "address")
    number = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    pointer = c.builder.inttoptr(number, c.context.get_value_type(type_))
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _StateAttributes(AttributeTemplate):
    """The types of `state.name`, for Numba's type inference."""

    key = StateType

    def generic_resolve(self, type_: StateType, name: str) -> Any:
        """Return the type of a record or an array; None for any other name."""
        return type_.types.get(name)


@lower_getattr_generic(StateType)
def _get(context: Any, builder: Any, type_: StateType, value: Any, name: str) -> Any:
    """Return the array at its place in the table, or the address of the record behind it."""
    if name in type_.records:
        byte = ir.IntType(8).as_pointer()
        place = builder.gep(builder.bitcast(value, byte), [context.get_constant(types.intp, type_.offset[name])])
        return builder.bitcast(place, context.get_value_type(type_.types[name]))
    array_type = type_.types[name]
    word = context.get_value_type(types.intp)
    table = builder.bitcast(value, word.as_pointer())
    loaded = []
    for k in range(2):
        place = builder.gep(table, [context.get_constant(types.intp, 2 * type_.place[name] + k)])
        one = builder.load(place)
        one.set_metadata("invariant.load", builder.module.add_metadata([]))  # only Python writes it, between calls
        loaded.append(one)
    made = context.make_array(array_type)(context, builder)
    itemsize = context.get_constant(types.intp, type_.arrays[name].itemsize)
    populate_array(
        made,
        data=builder.inttoptr(loaded[0], made.data.type),
        shape=[loaded[1]],
        strides=[itemsize],
        itemsize=itemsize,
        meminfo=None,
    )
    return made._getvalue()
