"""Roots, their attempts, and the tuples anchored to them: records of an acker, and the anchor of a tuple that is sent.

A *root* is a source tuple that is not done. Its place in the pool is used again once it is; attempts are numbered over
the whole run, so that what still belongs to an earlier attempt, or to an earlier root in the same place, is known by
the number. It tells the source, too: the remainder by how many there are. Anchors stand beside `visits` and not in
them: without an acker nobody pays for them.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

ROOT = np.dtype(
    [
        ("id", "u8"),
        ("sequence", "i8"),
        ("created", "i8"),
        ("key", "i8"),
        ("attempt", "i8"),  # the last one, or NONE while the root waits to be emitted again
        ("emitted", "i8"),  # when that began
        ("left", "i8"),  # tuples of it that are not acknowledged
        ("done", "i8"),  # when the last ack arrives, NONE while that is not known
        ("stale", "i8"),  # events of acks that came too late are still to come
        ("source", "i4"),
        ("previous", "i4"),  # of the same source in the order of emission
        ("next", "i4"),
    ],
    align=True,
)

# The root of the tuple in the same place of `visits`, or NONE.
ANCHOR = np.dtype([("attempt", "i8"), ("root", "i4")], align=True)

# By source: its roots that are not done and do not wait to be emitted again.
PENDING = np.dtype([("first", "i4"), ("last", "i4"), ("count", "i8")], align=True)

# An ack that waits at its task until the state of that is saved.
HELD_ACK = np.dtype([("attempt", "i8"), ("root", "i4"), ("next", "i4")], align=True)

# By task: its acks that wait; the first so many are prepared.
HELD_ACKS = np.dtype([("first", "i4"), ("last", "i4"), ("count", "i8"), ("prepared", "i8")], align=True)

ACKING = np.dtype(
    [
        ("root", "i4"),  # of what is emitted just now, or NONE
        ("attempt", "i8"),
        ("attempts", "i8"),  # so far
        ("most", "i8"),  # roots of a source that may be pending, 0: no limit
        ("bytes", "i8"),  # of an ack
        ("covered", "u1"),  # acks of tasks with a state wait until that is saved
        ("over_links", "u1"),  # acks are sent to the host of the source, and roots done when the last one comes
    ]
)


@kernel
def anchor(state: State, visit: int) -> None:
    """Anchor a new tuple to the root of what is emitted just now, if there is one."""
    a, root = state.anchors[visit], state.acking.root
    a.root = root
    a.attempt = state.acking.attempt
    if root != NONE and state.roots[root].attempt == a.attempt:
        state.roots[root].left += 1


@kernel
def emits_for(state: State, visit: int) -> None:
    """Let what is emitted from now on follow from this tuple."""
    state.acking.root = state.anchors[visit].root
    state.acking.attempt = state.anchors[visit].attempt


@kernel
def emits_for_none(state: State) -> None:
    """Let what is emitted from now on have no root."""
    state.acking.root = NONE
