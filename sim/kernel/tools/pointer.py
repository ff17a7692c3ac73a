"""How compiled functions see the state: one pointer to a table of arrays.

A tuple of thirty arrays as an argument costs two hundred words and sixty counted references at every call; a pointer
costs nothing. `State` keeps the arrays alive and hands the kernel the address of a table of (address, length), in the
order of `ARRAYS`. In a compiled function `s.visits` is the array, without a reference count: nothing compiled here may
keep one beyond the call, and only Python replaces arrays, between two calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from sim.kernel.event_loop.state import ARRAYS
from sim.kernel.tools.arrays import PlainArray


class _StateType(types.Type):
    """What compiled code is told of a state: the types of its arrays, in order, and constants."""

    def __init__(self, name: str, arrays: Mapping[str, np.dtype], **constants: bool) -> None:
        super().__init__(name=name)
        self.arrays = dict(arrays)
        self.constants = constants
        self.place = {name: place for place, name in enumerate(arrays)}


class State:
    """All arrays of the plane by name; assigning one tells the kernel where it is now.

    In compiled code `s.extended` is a constant: whether there may be more than tuples, first come first served, and
    checkpoints, that is, actions of protocols, event time, bounded queues, and links and cores that are shared evenly.
    A subclass says which arrays and constants it has instead, and how compiled code calls it.
    """

    extended = False
    numba_type = _StateType("holdfast.State", ARRAYS, extended=False)
    _extended_type = _StateType("holdfast.ExtendedState", ARRAYS, extended=True)

    run: np.ndarray
    heap: np.ndarray
    own: np.ndarray
    tournament: np.ndarray
    near: np.ndarray
    far: np.ndarray
    ahead_ids: np.ndarray
    ahead_mean: np.ndarray
    ahead_ns: np.ndarray
    visits: np.ndarray
    tasks: np.ndarray
    cores: np.ndarray
    hosts: np.ndarray
    partitions: np.ndarray
    operators: np.ndarray
    draws: np.ndarray
    edges: np.ndarray
    key_tables: np.ndarray
    cumulative: np.ndarray
    pairs: np.ndarray
    pair_index: np.ndarray
    nodes: np.ndarray
    positions: np.ndarray
    keys: np.ndarray
    log: np.ndarray
    log_next: np.ndarray
    log_newest: np.ndarray
    transfers: np.ndarray
    sources: np.ndarray
    arrivals: np.ndarray
    round_partitions: np.ndarray
    round_offsets: np.ndarray
    visit_rows: np.ndarray
    delivery_rows: np.ndarray
    passed: np.ndarray
    visit_operator: np.ndarray
    visit_task: np.ndarray
    visit_arrival: np.ndarray
    visit_start: np.ndarray
    visit_end: np.ndarray
    delivery_operator: np.ndarray
    delivery_created: np.ndarray
    delivery_at: np.ndarray
    dropped_rows: np.ndarray
    checkpoint_rows: np.ndarray
    message_rows: np.ndarray
    notices: np.ndarray
    services: np.ndarray
    parcels: np.ndarray
    lanes: np.ndarray
    lane_index: np.ndarray
    notes: np.ndarray
    channels: np.ndarray
    cells: np.ndarray
    cell_index: np.ndarray
    panes: np.ndarray
    rules: np.ndarray
    timed: np.ndarray

    def __init_subclass__(cls, arrays: Mapping[str, np.dtype], type_name: str, **constants: bool) -> None:
        cls.numba_type = _StateType(type_name, arrays, **constants)

    def __init__(self, **arrays: np.ndarray) -> None:
        self._table = np.zeros((len(self.numba_type.arrays), 2), np.int64)
        self.address = int(self._table.ctypes.data)
        for name in self.numba_type.arrays:
            setattr(self, name, arrays[name])

    def extend(self) -> None:
        """From now on there may be all that the kernel can do."""
        self.extended = True
        self.numba_type = self._extended_type

    def __setattr__(self, name: str, value: object) -> None:
        """Raises TypeError for an array of another type than ARRAYS says."""
        arrays = self.numba_type.arrays
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
    """The address of the table."""
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
        return _array_type(type_, name) if name in type_.arrays else None


@lower_getattr_generic(_StateType)
def _get(context: Any, builder: Any, type_: _StateType, value: Any, name: str) -> Any:
    """The array at its place in the table."""
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
