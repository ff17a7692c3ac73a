"""How compiled functions see the state: one pointer to its records and to a table of its arrays.

A tuple of thirty arrays as an argument costs two hundred words and sixty counted references at every call; a pointer
costs nothing. `State` keeps the arrays alive and hands the kernel the address of a table of (address, length), in the
order of its arrays, behind which its records stand. In a compiled function `state.visits` is the array, without a
reference count: nothing compiled here may keep one beyond the call, and only Python replaces arrays, between two calls.
`state.clock` is a record: its address follows from the pointer, so that a field of it costs one load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from sim.kernel.tools.arrays import PlainArray
from sim.kernel.tools.memory_layout import LINE, records


class Room(NamedTuple):
    """A module, and the records and arrays that it owns: others read them and, but for listed exceptions, only read."""

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
        """All arrays, and those records (1,) that do not begin as zeros."""
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
        """Raises TypeError for an array of another type than was declared, and for a record."""
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
    return PlainArray(from_dtype(type_.arrays[name]))


@infer_getattr
class _StateAttributes(AttributeTemplate):
    key = _StateType

    def generic_resolve(self, type_: _StateType, name: str) -> Any:
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
