"""The state as compiled code sees it: arrays by address, and records behind the table of addresses."""

from __future__ import annotations

import mmap
import sys

import numpy as np
import pytest

from sim.kernel.tools import pointer
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import LINE, Room, State, arrays_of, records_of

ITEM = np.dtype([("weight", "i8"), ("next", "i4")], align=True)
COUNTS = np.dtype([("open", "u1"), ("sum", "i8"), ("by_kind", "i8", (2, 2))], align=True)
POOL = np.dtype([("free", "i4")])
ROOMS = (Room("one", {"counts": COUNTS}, {"items": ITEM}), Room("other", {"pool": POOL}, {"ids": np.dtype("u8")}))


class Shelf(State, arrays=arrays_of(ROOMS), records=records_of(ROOMS), type_name="tests.Shelf", locked=False):
    """A small state."""


@kernel
def add_up(state: State) -> int:
    for k in range(state.items.shape[0]):
        state.counts.sum += state.items[k].weight
        state.counts.by_kind[1, 0] += 1
    state.pool.free = state.items[0].next
    return state.counts.sum


def shelf(*weights: int) -> Shelf:
    items = np.zeros(len(weights), ITEM)
    items["weight"], items["next"] = weights, -7
    return Shelf(items=items, ids=np.zeros(1, np.uint64))


def test_compiled_code_and_python_read_and_write_the_same_records() -> None:
    state = shelf(1, 2, 3)
    state.counts["sum"] = 10
    assert add_up(state) == state.counts["sum"] == 16
    assert state.counts["by_kind"].tolist() == [[0, 0], [3, 0]]
    assert (state.pool["free"], state.counts["open"]) == (-7, 0)


def test_an_array_that_was_replaced_is_seen_where_it_is_now() -> None:
    state = shelf(1, 2, 3)
    state.items = shelf(5, 5).items
    assert add_up(state) == 10


def test_records_begin_as_they_are_given_and_else_as_zeros() -> None:
    counts = np.zeros(1, COUNTS)
    counts["sum"] = 4
    state = Shelf(items=np.zeros(1, ITEM), ids=np.zeros(1, np.uint64), counts=counts)
    assert (add_up(state), counts["sum"][0], state.pool["free"]) == (4, 4, 0)  # a copy


def test_two_states_share_nothing() -> None:
    one, other = shelf(1), shelf(2)
    assert (add_up(one), add_up(other), one.counts["sum"]) == (1, 2, 1)


def test_records_stand_behind_the_table_at_the_begin_of_a_line() -> None:
    made = Shelf.layout
    assert min(made.offset.values()) % LINE == 0
    assert min(made.offset.values()) >= 16 * len(made.arrays)
    assert shelf(1).address % LINE == 0


@pytest.mark.parametrize("value", [np.zeros(2, "i8"), np.zeros(4, ITEM)[::2], [1, 2]])
def test_an_array_of_another_type_is_refused(value: object) -> None:
    state = shelf(1)
    with pytest.raises(TypeError, match="items is not a plain array"):
        state.items = value


def test_a_record_is_not_replaced() -> None:
    state = shelf(1)
    with pytest.raises(TypeError, match="counts is a record"):
        state.counts = np.zeros(1, COUNTS)


# -- arrays that get more places

PLACES = 4096  # of items of 16 bytes: more than is large here


class Immovable(mmap.mmap):
    """Pages that the system does not move."""

    def resize(self, size: int) -> None:
        raise SystemError("mmap: resizing not available--no mremap()")


def long_shelf(patch: pytest.MonkeyPatch, ahead: int = 4) -> Shelf:
    """A state with an array that is large, in pages of its own."""
    patch.setattr(pointer, "_LARGE", 8 * PLACES)
    patch.setattr(pointer, "_AHEAD", ahead)
    state = shelf(*range(PLACES // 2))
    state.lengthen("items", PLACES)
    return state


def is_longer(state: Shelf, weights: int, places: int) -> bool:
    """Return whether the first weights are there, and zeros behind them, also for compiled code."""
    state.counts["sum"] = 0
    found = state.items["weight"].tolist() == [*range(weights), *[0] * (places - weights)]
    return found and add_up(state) == weights * (weights - 1) // 2


@pytest.mark.parametrize("large", [2**30, 1])
def test_an_array_gets_more_places_which_are_zeros(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "_LARGE", large)
    state = shelf(*range(5))
    for places in (7, 30, 31, PLACES, 40 * PLACES):
        state.lengthen("items", places)
        assert is_longer(state, 5, places)


def test_places_that_are_not_in_use_are_not_copied() -> None:
    state = shelf(*range(5))
    state.lengthen("items", 8, used=3)
    assert state.items["weight"].tolist() == [0, 1, 2, 0, 0, 0, 0, 0]


def test_a_large_array_goes_on_at_the_same_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    state = long_shelf(monkeypatch)
    first = state.items.ctypes.data
    for places in (PLACES + 1, 2 * PLACES, 4 * PLACES):
        state.lengthen("items", places)
        assert (state.items.ctypes.data, is_longer(state, PLACES // 2, places)) == (first, True)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems copy")
def test_the_pages_of_a_large_array_are_moved_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    state = long_shelf(monkeypatch, ahead=1)
    copied: list[int] = []
    monkeypatch.setattr(pointer, "_pages", copied.append)
    for places in (2 * PLACES, 40 * PLACES):
        state.lengthen("items", places)
        assert is_longer(state, PLACES // 2, places)
    assert not copied


def test_an_array_to_which_something_else_refers_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    state = long_shelf(monkeypatch, ahead=1)
    held = state.items
    state.lengthen("items", 40 * PLACES)
    assert is_longer(state, PLACES // 2, 40 * PLACES)
    assert held["weight"].tolist() == [*range(PLACES // 2), *[0] * (PLACES // 2)]
    assert held.ctypes.data != state.items.ctypes.data


def test_pages_that_cannot_be_moved_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer.mmap, "mmap", Immovable)
    state = long_shelf(monkeypatch, ahead=1)
    state.lengthen("items", 40 * PLACES)
    assert is_longer(state, PLACES // 2, 40 * PLACES)


def test_where_there_are_no_addresses_ahead_pages_have_those_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = long_shelf(monkeypatch, ahead=2**50 // PLACES)  # more than a process has
    assert is_longer(state, PLACES // 2, PLACES)
