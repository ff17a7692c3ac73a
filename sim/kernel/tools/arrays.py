"""Arrays as compiled code sees them: an index is never negative, and nothing is paid for that it could be.

With HOLDFAST_CHECK_INDICES set every index is compared with the length when code is compiled, and one outside ends the
process: for the tests.
"""

from __future__ import annotations

import operator
import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import load_item, make_array, store_item

CHECKED = bool(os.environ.get("HOLDFAST_CHECK_INDICES"))

_LINE = 64  # bytes that the processor fetches at a time
_READ, _KEEP, _DATA = 0, 3, 1


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
def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    (array_type, index_type), (array, index) = signature.args, arguments
    return load_item(context, builder, array_type, _place(context, builder, array_type, array, index_type, index))


@lower_builtin(operator.setitem, PlainArray, types.Integer, types.Any)
def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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
        for offset in range(0, context.get_abi_sizeof(context.get_data_type(array.dtype)), _LINE):
            line = builder.gep(first, [context.get_constant(types.intp, offset)])
            builder.call(fetch, [line, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
