"""Conversion of user input into read-only arrays; all faults are collected, instead of raising the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from models import display
from models.errors import NO_VALUE, InputFault, raise_if_any

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_DOUBLE_BYTES = 8
LARGEST = 1e100  # so that no sum of products overflows


class CheckedArrays:
    """Checks values one after the other; `faults` holds what was wrong so far.

    Each method returns the value as an array, or None and adds a fault. `store` raises all of them, or
    sets the fields of a frozen value.

    >>> checks = CheckedArrays()
    >>> checks.floats("cost", [[1, 2], [3, 4]], (None, 2))
    array([[1., 2.],
           [3., 4.]])
    >>> checks.indices("host", [0, 7], (2,), (4,))
    >>> [str(fault) for fault in checks.faults]
    ['host[1] = 7: must be between 0 and 3']
    """

    def __init__(self) -> None:
        self.faults: list[InputFault] = []

    def add(self, path: str, value: object, rule: str, hint: str = "") -> None:
        """Remember one fault; arguments as those of `InputFault`."""
        self.faults.append(InputFault(path, value, rule, hint))

    def floats(
        self,
        path: str,
        value: Any,
        *shapes: tuple[int | None, ...],
        low: float | None = None,
        most: float = LARGEST,
        single: bool = False,
    ) -> FloatArray | None:
        """Return the value as read-only float64 array of one of `shapes` (None = any length); None with a fault.

        `path`: its name in messages. `value`: numbers, nested lists or an array. `low`: the smallest value allowed.
        `most`: the largest magnitude. `single`: float32 stays float32.
        """
        array = self._numbers(path, value)
        if array is None or not self._shaped(path, array, shapes):
            return None
        if not (single and array.dtype == np.float32):
            array = array.astype(np.float64, copy=False)
        # A mask of the size of the array is made only if there is a fault to point at.
        if not _within(array, most):
            bad = ~(np.abs(array) <= most)
            self._element(path, array, bad, f"must be a finite number of magnitude at most {display.number(most, 6)}")
            return None
        if low is not None and (array < low).any():
            self._element(path, array, array < low, f"must be at least {display.number(low, 6)}")
            return None
        return frozen(array)

    def indices(
        self, path: str, value: Any, shape: tuple[int | None, ...], limits: tuple[int | None, ...]
    ) -> IntArray | None:
        """Return the value as read-only int64 array, column k in 0 .. limits[k] - 1 (None = unchecked).

        `shape`: the shape that it must have, None for any length; of one dimension the only column is 0. Floats are
        accepted if they are whole and below 2^53. An empty value fits a shape whose first length is None or 0.
        """
        if _length(value) == 0:
            if shape[0]:
                self.add(path, NO_VALUE, f"must have shape {shown(shape)}, is empty")
                return None
            return frozen(np.zeros([size or 0 for size in shape], dtype=np.int64))
        array = self._numbers(path, value)
        if array is None or not self._shaped(path, array, (shape,)):
            return None
        # From 2^53 on floats skip whole numbers, so the value may not be what the file said.
        if not (np.abs(array.astype(np.float64)) < 2**53).all() or (array != np.floor(array)).any():
            wrong = (array != np.floor(array)) | ~(np.abs(array.astype(np.float64)) < 2**53)
            self._element(path, array, wrong, "must be a whole number, of magnitude below 2^53")
            return None
        array = array.astype(np.int64)
        columns = array.reshape(len(array), -1)
        for column, limit in enumerate(limits):
            if limit is None:
                continue
            outside = (columns[:, column] < 0) | (columns[:, column] >= limit)
            if outside.any():
                row = int(np.argmax(outside))
                entry = "" if array.ndim == 1 else f"entry {column} "
                self.add(f"{path}[{row}]", array[row].tolist(), f"{entry}must be between 0 and {limit - 1}")
                return None
        return frozen(array)

    def store(self, target: object, fields: Mapping[str, Any]) -> None:
        """Set the fields of a frozen value to what was checked; raise InputError with all faults if there are any.

        No field is set before all are right: a value that is half checked cannot exist.
        """
        raise_if_any(self.faults)
        for name, value in fields.items():
            object.__setattr__(target, name, value)

    def _numbers(self, path: str, value: Any) -> npt.NDArray[Any] | None:
        """Return the value as an array of numbers; None with a fault for text, booleans and ragged rows."""
        if isinstance(value, (list, tuple)):
            culprit = _first_non_number(value, path)
            if culprit is not None:
                self.add(culprit[0], culprit[1], "must be a number")
                return None
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            self.add(path, NO_VALUE, "must be rows of equal length")
            return None
        if array.dtype.kind not in "iuf":
            self.add(path, NO_VALUE, f"must hold numbers, not {array.dtype}")
            return None
        if array.dtype.kind == "f" and array.dtype.itemsize > _DOUBLE_BYTES:
            with np.errstate(over="ignore"):  # too large values become infinite, and are refused
                return array.astype(np.float64)
        return array

    def _shaped(self, path: str, array: npt.NDArray[Any], shapes: tuple[tuple[int | None, ...], ...]) -> bool:
        """Return True if the array has one of the shapes; otherwise add a fault."""
        for shape in shapes:
            if array.ndim == len(shape) and all(
                want is None or want == has for want, has in zip(shape, array.shape, strict=True)
            ):
                return True
        self.add(path, NO_VALUE, f"must have shape {' or '.join(map(shown, shapes))}, has {array.shape}")
        return False

    def _element(self, path: str, array: npt.NDArray[Any], bad: BoolArray, rule: str) -> None:
        """Add the fault of the first element that is marked in `bad`, and say how many more there are."""
        where = np.unravel_index(int(np.argmax(bad)), bad.shape)
        more = int(bad.sum()) - 1
        self.add(
            path + "".join(f"[{int(k)}]" for k in where),
            array[where].item(),
            rule,
            f"and {more} more" if more > 0 else "",
        )


def _within(array: npt.NDArray[Any], most: float) -> bool:
    """Return True when all magnitudes are at most `most`, no NaN; needs no second array."""
    if not array.size:
        return True
    return float(array.max()) <= most and float(array.min()) >= -most


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array itself when it is read-only and contiguous already, else a read-only copy.

    Use it for every array of a frozen value: the caller's own array stays writable, and cannot change the value.
    """
    if array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy(order="C")
        array.setflags(write=False)
    return array


def freeze_fields(target: object, dtype: npt.DTypeLike, *names: str) -> None:
    """Make fields of a frozen value read-only arrays of a type; those that are None stay."""
    for name in names:
        value = getattr(target, name)
        if value is not None:
            object.__setattr__(target, name, frozen(np.asarray(value, dtype=dtype)))


def shown(shape: tuple[int | None, ...]) -> str:
    """Return the shape as text, with n for a free length: (3, n)."""
    return (
        "(" + ", ".join("n" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
    )


def _length(value: Any) -> int:
    """Return the number of entries, -1 for a value without any."""
    if isinstance(value, np.ndarray):
        return len(value) if value.ndim else -1
    return len(value) if isinstance(value, (list, tuple)) else -1  # its rows may differ in length


def _first_non_number(value: Any, path: str) -> tuple[str, Any] | None:
    """Return path and value of the first entry, at any depth, that is no number; None if all are."""
    for index, item in enumerate(value):
        if isinstance(item, (list, tuple)):
            found = _first_non_number(item, f"{path}[{index}]")
            if found is not None:
                return found
        elif not _is_number(item):
            return f"{path}[{index}]", item
    return None


def _is_number(item: Any) -> bool:
    """Return True for a number that fits an array: no boolean, no integer of 64 bits or more."""
    if isinstance(item, bool):
        return False
    if isinstance(item, int):
        return abs(item) < 2**63
    return isinstance(item, (float, np.number, np.ndarray))
