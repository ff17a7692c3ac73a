"""The agenda of a scan's checkpoints: a heap by time, rank and number."""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

AGENDA = np.dtype([("count", "i8"), ("serial", "i8")])  # of happenings: how many wait, and how many there ever were


HAPPENING = np.dtype(
    [
        ("time", "i8"),
        ("rank", "i8"),
        ("serial", "i8"),
        ("count", "i8"),  # applied tuples that the checkpoint covers; of a pool its instant
        ("bytes", "i8"),  # to restore; of a note the first arrival that upstream had not been told to forget
        ("row", "i8"),  # of a note the first task of which it does not count what it sent at that very instant
        ("partition", "i4"),
        ("kind", "i4"),
        ("counted", "u1"),  # of a note: its messages have been counted
    ],
    align=True,
)


@kernel
def _before(state: State, one: int, other: int) -> bool:
    a, b = state.happenings[one], state.happenings[other]
    if a.time != b.time:
        return a.time < b.time
    if a.rank != b.rank:
        return a.rank < b.rank
    return a.serial < b.serial


@kernel
def _swap(state: State, one: int, other: int) -> None:
    spare = state.happenings.shape[0] - 1
    state.happenings[spare] = state.happenings[one]
    state.happenings[one] = state.happenings[other]
    state.happenings[other] = state.happenings[spare]


@kernel
def put(state: State, time: int, rank: int, kind: int, partition: int, count: int, size: int, row: int) -> None:
    """Something is to happen at an instant."""
    n = state.agenda.count
    state.agenda.count = n + 1
    state.agenda.serial += 1
    e = state.happenings[n]
    e.time = time
    e.rank = rank
    e.serial = state.agenda.serial
    e.count = count
    e.bytes = size
    e.row = row
    e.partition = partition
    e.kind = kind
    e.counted = 0
    while n > 0 and _before(state, n, (n - 1) // 2):
        _swap(state, n, (n - 1) // 2)
        n = (n - 1) // 2


@kernel
def remove_first(state: State) -> None:
    """The first has happened."""
    state.agenda.count -= 1
    n = state.agenda.count
    state.happenings[0] = state.happenings[n]
    place = 0
    while 2 * place + 1 < n:
        below = 2 * place + 1
        if below + 1 < n and _before(state, below + 1, below):
            below += 1
        if not _before(state, below, place):
            return
        _swap(state, below, place)
        place = below
