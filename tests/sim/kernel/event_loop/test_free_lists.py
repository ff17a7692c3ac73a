"""Free places of the pools, notices, and numbers that only grow."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop import pools
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.events import next_control_number, next_mark, next_serial
from sim.kernel.event_loop.free_lists import free_transfer, free_visit, new_transfer, new_visit
from sim.kernel.event_loop.notices import notify
from sim.kernel.event_loop.state import ARRAYS, LoopState


def state() -> LoopState:
    return LoopState(**{name: np.zeros(4, dtype) for name, dtype in ARRAYS.items()} | pools.empty())


def test_a_new_state_has_no_free_place() -> None:
    made = state()
    assert {int(getattr(made, f"{name}_pool")["free"]) for name in ("visit", "transfer", "node", "rule")} == {NONE}


def test_each_place_is_taken_once_and_again_when_it_was_given_back() -> None:
    made = state()
    pools.more_places(made, "visit", 3)
    room = len(made.visits)
    taken = [new_visit(made) for _ in range(room)]
    assert sorted(taken) == list(range(room))
    assert (made.visit_pool["left"], made.visit_pool["free"]) == (0, NONE)
    free_visit(made, taken[1])
    assert (made.visit_pool["left"], new_visit(made)) == (1, taken[1])


def test_a_pool_that_grows_keeps_what_is_free() -> None:
    made = state()
    pools.more_places(made, "transfer", 2)
    before = len(made.transfers)
    first = new_transfer(made)
    pools.more_places(made, "transfer", before + 1)
    assert made.transfer_pool["left"] == len(made.transfers) - 1
    taken = {new_transfer(made) for _ in range(len(made.transfers) - 1)}
    assert taken | {first} == set(range(len(made.transfers)))
    free_transfer(made, first)
    assert made.transfer_pool["left"] == 1


def test_notices_wait_in_order() -> None:
    made = state()
    notify(made, 5)
    notify(made, -2)
    assert made.notices[: made.told["count"]].tolist() == [5, -2]


def test_numbers_only_grow() -> None:
    made = state()
    assert [next_serial(made) for _ in range(3)] == [0, 1, 2]
    assert [next_control_number(made) for _ in range(2)] == [0, 1]
    assert [next_mark(made) for _ in range(2)] == [1, 2]  # no task has been met in pass 1 before it began
    assert made.clock["serial"] == 3
