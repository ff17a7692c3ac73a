"""Room for what an event or a verb may need: compiled code cannot allocate, so it looks before it begins."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.actions import burst, heard
from sim.kernel.event_loop.buffers import room_in_logs
from sim.kernel.event_loop.checkpoints import room_for_checkpoints
from sim.kernel.event_loop.fair_links import fair_room
from sim.kernel.event_loop.hash_tables import pairs_left
from sim.kernel.event_loop.roots import roots_for
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# What the event at hand may need, and for how many such events there is room.
ROOM = np.dtype(
    [
        ("need", "i8"),  # sendings that it may need
        ("burst", "i8"),  # sendings of windows and watermarks beyond these
        ("passing", "i8"),  # tuples that a sink may take at once, beside these
        ("confirmations", "i8"),  # that it may need, of rounds of acks
        ("budget", "i8"),  # so many everyday events have room for what they may need
        ("rows_full", "u1"),  # only rows of tuples have no room left
    ],
    align=True,
)

_AMPLE = 16  # events for which there is room: nobody has to look for more


@kernel
def room(state: State, need: int) -> bool:
    """Return True if there is room for an event that needs so much, and count for how many such events.

    Every pool, table and row that an event can fill is in the minimum: compiled code cannot allocate, and does not
    look again. Tables with hashing are half empty, so that searches stay short. `pools.grown` makes what is asked here.
    """
    passing = state.room.passing
    left = min(state.visit_pool.left, room_in_logs(state) - passing, state.heap.shape[0] - state.queue.in_heap)
    if not state.ids.clean:
        left = min(left, state.positions.shape[0] // 2 - state.tables.positions - passing)
    if state.options.per_key:
        left = min(left, state.keys.shape[0] // 2 - state.tables.keys)
    if state.extended and state.options.closes_keys:
        left = min(left, state.open_table.shape[0] // 2 - state.open_keys.count)
    if state.options.keeps_outputs:
        left = min(left, state.node_pool.left, pairs_left(state))
    if state.extended and state.options.acks:
        left = min(left, roots_for(state))
        if state.acking.covered:
            left = min(left, state.held_ack_pool.left)
    if (
        state.extended
        and state.options.trims
        and (state.confirmation_pool.left < state.room.confirmations or state.slicing.most_open >= state.slicing.ring)
    ):
        left = 0
    # A dispatch can drop all that waits; a second that is over makes up to seven rows of messages.
    notices = state.notices.shape[0] - state.frontiers.shape[0]
    drops = min(state.dropped_rows.shape[0] - state.drops.rows, notices) - state.visits.shape[0]
    if state.extended and state.event_time.keeps_tuples:
        left = min(left, state.note_pool.left)
    if state.extended and state.options.fair and not fair_room(state, need):
        left = 0
    state.room.need = need
    messages = (state.message_rows.shape[0] - state.messages.rows) // 16
    budget = 0 if drops < 0 else min(left // need, messages, room_for_checkpoints(state, need))
    written = state.recording
    rows = min(written.visit_room - written.visit_rows, written.delivery_room - written.delivery_rows) - passing
    rows //= need
    # Rows fill up often, and only have to be handed over: Python does no more than that if nothing else is short.
    state.room.rows_full = rows <= 0 and budget >= _AMPLE
    state.room.budget = min(budget, rows)
    return state.room.budget > 0


@kernel
def ample(state: State, need: int) -> bool:
    """Return whether there is room already for a verb that needs so much, by the question of the loop.

    Windows and slices have rules of their own. The loop begins with nothing to tell, and with arrays beside that of
    the tuples that are as long: a verb may not.
    """
    options, tuples = state.options, state.visits.shape[0]
    if need == 0 or state.room.burst > 0 or state.event_time.most_windows > 0 or options.trims:
        return False
    if (options.paced and state.services.shape[0] < tuples) or (options.acks and state.anchors.shape[0] < tuples):
        return False
    if state.told.count + tuples + state.frontiers.shape[0] > state.notices.shape[0] or not room(state, need):
        return False
    state.room.budget = state.room.passing = 0
    return True


@kernel
def heard_in_room(state: State, task: int) -> bool:
    """The listener has been told of the first message in hand: go on if there is room for what follows."""
    need = burst(state, task)
    if state.options.bounded:
        need += state.cluster.tasks + state.cluster.threads
    state.room.need = need
    if not ample(state, need):
        state.room.passing = 0
        return False
    heard(state, task)
    return True
