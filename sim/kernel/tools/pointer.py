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

import mmap
from collections.abc import Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim.kernel.tools.cache import KINDS, Intrinsic, state_type

prefetch = Intrinsic("prefetch")
"""Ask for the memory of an item before it is needed: `prefetch(array, index)`."""

LINE = 64  # bytes that the processor has in one piece
_LARGE = 2**22  # bytes: larger arrays have pages of their own when they get more places
_AHEAD = 4  # addresses for so many times as much as they need: those that nobody writes to take no memory


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


def _pages(size: int) -> mmap.mmap:
    """Return zeros in pages of their own, with addresses for more behind them if the system has some."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        made = mmap.mmap(-1, _AHEAD * size, flags=private)
    except OSError:
        made = mmap.mmap(-1, size, flags=private)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # as NumPy does: of large pages the processor knows more addresses
        made.madvise(mmap.MADV_HUGEPAGE)
    return made


def _mapping_of(array: np.ndarray) -> mmap.mmap | None:
    """Return the pages of an array that `_mapped` has made."""
    memory = array.base.base if isinstance(array.base, np.ndarray) else None
    found = memory.obj if isinstance(memory, memoryview) else None
    return found if isinstance(found, mmap.mmap) else None


def _mapped(pages: mmap.mmap, size: int, dtype: np.dtype) -> np.ndarray:
    """Return the array in so many bytes of these pages."""
    return np.frombuffer(pages, np.uint8)[:size].view(dtype)


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


class Layout:
    """The arrays and records of a state, in order, where they are, and constants: its type in compiled code."""

    def __init__(
        self, name: str, arrays: Mapping[str, np.dtype], records: Mapping[str, np.dtype], **constants: bool
    ) -> None:
        self.name, self.arrays, self.records = name, dict(arrays), dict(records)
        self.constants = constants
        self.place = {name: place for place, name in enumerate(arrays)}
        fields = np.dtype(list(self.records.items()), align=True)
        table = -(-2 * np.dtype("i8").itemsize * len(self.arrays) // LINE) * LINE
        self.offset = {name: table + fields.fields[name][1] for name in self.records if fields.fields}
        self.size = table + fields.itemsize

    def __repr__(self) -> str:
        """Return the name and the constants: the digest of all files holds the rest."""
        return f"{self.name}({self.constants})"

    def variant(self, name: str, **constants: bool) -> Layout:
        """Return the type of the same state where constants have other values: for it all is compiled again."""
        return Layout(name, self.arrays, self.records, **constants)


class State:
    """All arrays and records by name; assigning an array tells the kernel where it is now.

    A subclass says which arrays, records and constants it has, and how compiled code calls it. In Python a record is
    read and written by the names of its fields, `state.clock["now"]`.
    """

    layout: Layout

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(
        cls, arrays: Mapping[str, np.dtype], records: Mapping[str, np.dtype], type_name: str, **constants: bool
    ) -> None:
        cls.layout = Layout(type_name, arrays, records, **constants)
        KINDS[cls] = attrgetter("layout")

    def __init__(self, **found: np.ndarray) -> None:
        """Keep all arrays, and those records (1,) that do not begin as zeros."""
        made = self.layout
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

    def lengthen(self, name: str, count: int, used: int | None = None) -> None:
        """Give an array so many places, of which the new ones are zeros.

        What is not in use is not copied: zeros that nobody writes take no memory. A large array is copied once. From
        then on it goes on behind its end, or the system moves its pages, so that memory for it is never there twice.
        """
        dtype = self.layout.arrays[name]
        size, mapping = count * dtype.itemsize, _mapping_of(getattr(self, name))
        if mapping is not None and (size <= len(mapping) or self._has_moved(name, mapping, _AHEAD * size)):
            setattr(self, name, _mapped(mapping, size, dtype))
            return
        array = getattr(self, name)
        used = array.shape[0] if used is None else used
        made = records(count, dtype) if size < _LARGE else _mapped(_pages(size), size, dtype)
        made[:used] = array[:used]
        setattr(self, name, made)

    def _has_moved(self, name: str, mapping: mmap.mmap, size: int) -> bool:
        """Return whether the pages of an array have more addresses now: not if something else refers to it."""
        before, dtype = getattr(self, name).nbytes, self.layout.arrays[name]
        setattr(self, name, records(0, dtype))
        try:
            mapping.resize(size)
        except (BufferError, OSError, SystemError, ValueError):  # the last three: this system cannot
            setattr(self, name, _mapped(mapping, before, dtype))
            return False
        return True

    @property
    def _numba_type_(self) -> Any:
        """The type of the state in compiled code; Numba asks for it."""
        return state_type(self.layout)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an array, and its address in the table; raise TypeError for a record or another type of array."""
        arrays = self.layout.arrays
        if name in self.layout.records:
            raise TypeError(f"{name} is a record: assign its fields")
        if name in arrays:
            if not isinstance(value, np.ndarray) or value.dtype != arrays[name] or not value.flags.c_contiguous:
                raise TypeError(f"{name} is not a plain array of {arrays[name]}")
            self._table[self.layout.place[name]] = value.ctypes.data, value.shape[0]
        super().__setattr__(name, value)
