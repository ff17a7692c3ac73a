"""The state as compiled code sees it: arrays by address, and records behind the table of addresses."""

from __future__ import annotations

import numpy as np
import pytest

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
