"""How compiled functions see the state: one pointer to its records and to a table of its arrays.

A tuple of thirty arrays as an argument costs two hundred words and sixty counted references at every call; a pointer
costs nothing. `State` keeps the arrays alive and hands the kernel the address of a table of (address, length), in the
order of its arrays, behind which its records stand. In a compiled function `state.visits` is the array, without a
reference count: nothing compiled here may keep one beyond the call, and only Python replaces arrays, between two calls.
`state.clock` is a record: its address follows from the pointer, so that a field of it costs one load.

Compiled code assumes that an index is never negative, and does not wrap it around. With HOLDFAST_CHECK_INDICES set,
every index is compared with the length, and one outside ends the process: for the tests.

Records begin at lines of the processor's cache (`in_lines`), so that the fields of one are fetched together.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import NativeValue, intrinsic, lower_builtin, models, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import load_item, make_array, populate_array, store_item
from numba.np.numpy_support import from_dtype

from sim.kernel.tools.directory import CHECKED

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
        for offset in range(0, context.get_abi_sizeof(context.get_data_type(array.dtype)), _LINE):
            line = builder.gep(first, [context.get_constant(types.intp, offset)])
            builder.call(fetch, [line, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


LINE = 64  # bytes that the processor has in one piece


def in_lines(fields: list[tuple[str, str]]) -> np.dtype:
    """Return a record that fills whole lines: with the first field at the begin of one, what comes first is in one."""
    plain = np.dtype(fields, align=True)
    names = list(plain.names or ())
    places = [plain.fields[name] for name in names] if plain.fields else []
    return np.dtype(
        {
            "names": names,
            "formats": [place[0] for place in places],
            "offsets": [place[1] for place in places],
            "itemsize": -(-plain.itemsize // LINE) * LINE,
        },
        align=True,
    )


def records(count: int, dtype: np.dtype) -> np.ndarray:
    """Return so many records of zeros (count,), the first at the begin of a line."""
    room = np.zeros(count * dtype.itemsize + LINE, np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + count * dtype.itemsize].view(dtype)


def extended(array: np.ndarray, count: int) -> np.ndarray:
    """Return records (count,) that begin with those of an array made by `records`, and end with zeros.

    The length says how many there are, so it cannot be doubled; the memory behind it can. Records are added one by one,
    and copied only where that memory is full.
    """
    memory = array.base  # the bytes of `records`
    if isinstance(memory, np.ndarray) and memory.dtype == np.uint8:
        first = array.ctypes.data - memory.ctypes.data
        if first + count * array.dtype.itemsize <= memory.nbytes:
            return memory[first : first + count * array.dtype.itemsize].view(array.dtype)
    made = records(2 * count, array.dtype)
    made[: array.shape[0]] = array
    return made[:count]


class Room(NamedTuple):
    """The records and arrays of one module of the kernel.

    The module owns them: others read them and, but for listed exceptions, only read.
    """

    module: str
    records: Mapping[str, np.dtype] = MappingProxyType({})
    arrays: Mapping[str, np.dtype] = MappingProxyType({})


def records_of(rooms: Iterable[Room]) -> dict[str, np.dtype]:
    """Return the records of all rooms by name."""
    return {name: dtype for room in rooms for name, dtype in room.records.items()}


def arrays_of(rooms: Iterable[Room]) -> dict[str, np.dtype]:
    """Return the arrays of all rooms by name."""
    return {name: dtype for room in rooms for name, dtype in room.arrays.items()}


class _StateType(types.Type):
    """The type of a state in compiled code: the types of its arrays and records, in order, and constants."""

    def __init__(
        self, name: str, arrays: Mapping[str, np.dtype], records: Mapping[str, np.dtype], **constants: bool
    ) -> None:
        super().__init__(name=name)
        self.arrays, self.records = dict(arrays), dict(records)
        self.constants = constants
        self.place = {name: place for place, name in enumerate(arrays)}
        fields = np.dtype(list(self.records.items()), align=True)
        table = -(-2 * np.dtype("i8").itemsize * len(self.arrays) // LINE) * LINE
        self.offset = {name: table + fields.fields[name][1] for name in self.records if fields.fields}
        self.size = table + fields.itemsize

    def variant(self, name: str, **constants: bool) -> _StateType:
        """Return the type of the same state where constants have other values: for it all is compiled again."""
        return _StateType(name, self.arrays, self.records, **constants)


class State:
    """All arrays and records by name; assigning an array tells the kernel where it is now.

    A subclass says which arrays, records and constants it has, and how compiled code calls it. In Python a record is
    read and written by the names of its fields, `state.clock["now"]`.
    """

    numba_type: _StateType

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(
        cls, arrays: Mapping[str, np.dtype], records: Mapping[str, np.dtype], type_name: str, **constants: bool
    ) -> None:
        cls.numba_type = _StateType(type_name, arrays, records, **constants)

    def __init__(self, **found: np.ndarray) -> None:
        """Keep all arrays, and those records (1,) that do not begin as zeros."""
        made = self.numba_type
        memory = records(1, np.dtype((np.void, made.size)))
        self.address = int(memory.ctypes.data)
        self._table = memory.view(np.int64)[: 2 * len(made.arrays)].reshape(-1, 2)
        for name, dtype in made.records.items():
            own = np.ndarray(1, dtype, memory, made.offset[name])
            if name in found:
                own[:] = found[name]
            super().__setattr__(name, own[0])
        for name in made.arrays:
            setattr(self, name, found[name])

    def __setattr__(self, name: str, value: object) -> None:
        """Set an array, and its address in the table; raise TypeError for a record or another type of array."""
        arrays = self.numba_type.arrays
        if name in self.numba_type.records:
            raise TypeError(f"{name} is a record: assign its fields")
        if name in arrays:
            if not isinstance(value, np.ndarray) or value.dtype != arrays[name] or not value.flags.c_contiguous:
                raise TypeError(f"{name} is not a plain array of {arrays[name]}")
            self._table[self.numba_type.place[name]] = value.ctypes.data, value.shape[0]
        super().__setattr__(name, value)


register_model(_StateType)(models.OpaqueModel)


@typeof_impl.register(State)
def _typeof(value: State, _context: object) -> _StateType:
    """Return the type by which compiled code takes a state."""
    return value.numba_type


@unbox(_StateType)
def _unbox(type_: _StateType, value: Any, c: Any) -> Any:
    """Return the address of the table."""
    address = c.pyapi.object_getattr_string(value, "address")
    number = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    pointer = c.builder.inttoptr(number, c.context.get_value_type(type_))
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _array_type(type_: _StateType, name: str) -> Any:
    """Return the type of one of the state's arrays in compiled code."""
    return PlainArray(from_dtype(type_.arrays[name]))


@infer_getattr
class _StateAttributes(AttributeTemplate):
    """The types of `state.name`, for Numba's type inference."""

    key = _StateType

    def generic_resolve(self, type_: _StateType, name: str) -> Any:
        """Return the type of a record or an array; None for any other name."""
        if name in type_.records:
            return from_dtype(type_.records[name])
        return _array_type(type_, name) if name in type_.arrays else None


@lower_getattr_generic(_StateType)
def _get(context: Any, builder: Any, type_: _StateType, value: Any, name: str) -> Any:
    """Return the array at its place in the table, or the address of the record behind it."""
    if name in type_.records:
        byte = ir.IntType(8).as_pointer()
        place = builder.gep(builder.bitcast(value, byte), [context.get_constant(types.intp, type_.offset[name])])
        return builder.bitcast(place, context.get_value_type(from_dtype(type_.records[name])))
    array_type = _array_type(type_, name)
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
