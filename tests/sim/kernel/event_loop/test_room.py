"""Room for an event with many sendings: enough for any of them, and no memory for what none of them can need."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sim.kernel.event_loop import pools, rows
from sim.kernel.event_loop.buffers import CHUNK, append_log, room_in_logs
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.fair_links import fair_room
from sim.kernel.event_loop.state import ARRAYS, LoopState
from sim.recording import HistogramRecording

MANY = 50_000


def state(partitions: int) -> LoopState:
    """A state without tuples, with so many partitions."""
    arrays = {name: np.zeros(4, dtype) for name, dtype in ARRAYS.items()} | pools.empty()
    made = LoopState(**arrays | {"partitions": np.zeros(partitions, ARRAYS["partitions"])})
    made.partitions["log_first"] = made.partitions["log_last"] = NONE
    made.pending["first"] = NONE
    made.options["fan_out"] = 2
    return made


@pytest.mark.parametrize("partitions", [1, 7, 400])
def test_there_are_chunks_for_all_tuples_whatever_their_partitions(partitions: int) -> None:
    draw, made = Random(partitions), state(partitions)
    for need in (1, 5, 31, 32, 33, 1000, 3):
        pools.grown(made, need, need)
        assert room_in_logs(made) >= need
        own = draw.sample(range(partitions), draw.randint(1, partitions))  # each begins a chunk, or all are in one log
        for k in range(need):
            assert made.chunk_pool["left"] > 0 or made.partitions["applied"][own[k % len(own)]] % CHUNK > 0
            append_log(made, own[k % len(own)], k, 0)
    assert made.partitions["applied"].sum() == 1105


def test_many_sendings_take_no_memory_for_outputs_that_nobody_keeps() -> None:
    made = state(10)
    pools.grown(made, MANY, MANY)
    assert made.visit_pool["left"] >= MANY
    assert made.nodes.size == 0
    assert made.pairs.size < 1000


def test_kept_outputs_have_room_for_all() -> None:
    made = state(10)
    made.options["keeps_outputs"] = 1
    pools.grown(made, MANY, MANY)
    assert made.node_pool["left"] >= MANY
    assert 100 <= made.pairs.size < 1000  # of each two partitions there is one


def test_many_sendings_are_no_more_checkpoints_than_a_round() -> None:
    made = state(10)
    made.round_partitions = np.arange(10)
    pools.grown(made, MANY, MANY)
    assert 24 <= made.transfer_pool["left"] < 1000
    assert 24 <= made.checkpoint_rows.size < 1000


def test_many_sendings_are_one_message_to_a_store_that_shares_its_link() -> None:
    made = state(10)
    made.options["fair"] = 1
    pools.grown(made, MANY, MANY)
    assert fair_room(made, MANY)
    assert 1 <= made.parcel_pool["left"] < 1000
    made.options["fair_hosts"] = 1  # then each tuple is a message
    assert not fair_room(made, MANY)
    pools.grown(made, MANY, MANY)
    assert made.parcel_pool["left"] >= MANY


def test_each_emission_finds_a_root_and_waiting_acks_have_room_where_acks_wait() -> None:
    made = state(10)
    made.options["acks"] = 1
    pools.grown(made, MANY, MANY)
    assert made.root_pool["left"] >= MANY // 2
    assert made.held_ack_pool["left"] == 0
    made.acking["covered"] = 1
    pools.grown(made, MANY, MANY)
    assert made.held_ack_pool["left"] >= MANY


def test_what_one_event_leaves_keeps_no_memory_of_rows() -> None:
    kept = HistogramRecording(4, [3], 0, 10**9)
    made = LoopState(
        **{name: np.zeros(4, dtype) for name, dtype in ARRAYS.items()} | pools.empty() | rows.arrays(kept, 4)
    )
    rows.make_room(made, kept, 5)
    few = made.visit_rows.size
    rows.make_room(made, kept, MANY)
    many = made.visit_rows
    assert made.recording["visit_room"] >= MANY > few
    made.recording["visit_rows"] = 100_000
    made.recording["visit_room"] = made.visit_rows.size
    rows.make_room(made, kept, made.visit_rows.size)
    assert made.visit_rows is not many
    rows.make_room(made, kept, made.visit_rows.size)
    # Then few are written before they are handed over again, however many may be.
    made.recording["visit_rows"] = made.recording["visit_room"]
    rows.make_room(made, kept, 5)
    assert 5 < made.recording["visit_room"] < 10_000
    assert made.recording["visit_rows"] == 0
