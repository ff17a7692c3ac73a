"""Where records begin in memory: the processor has it in lines."""

from __future__ import annotations

import numpy as np

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
    """So many records of zeros (count,), the first at the begin of a line."""
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
