"""What is to happen to the checkpoints of a scan: a heap by time, rank and number."""

from __future__ import annotations

from sim.kernel.scan.state import ScanState
from sim.kernel.tools.compiling import kernel


@kernel
def _before(s: ScanState, one: int, other: int) -> bool:
    a, b = s.happenings[one], s.happenings[other]
    if a.time != b.time:
        return a.time < b.time
    if a.rank != b.rank:
        return a.rank < b.rank
    return a.serial < b.serial


@kernel
def _swap(s: ScanState, one: int, other: int) -> None:
    spare = s.happenings.shape[0] - 1
    s.happenings[spare] = s.happenings[one]
    s.happenings[one] = s.happenings[other]
    s.happenings[other] = s.happenings[spare]


@kernel
def put(s: ScanState, time: int, rank: int, kind: int, partition: int, count: int, size: int, row: int) -> None:
    """Something is to happen at an instant."""
    b = s.checkpointing[0]
    n = b.happenings
    b.happenings = n + 1
    b.serial += 1
    e = s.happenings[n]
    e.time = time
    e.rank = rank
    e.serial = b.serial
    e.count = count
    e.bytes = size
    e.row = row
    e.partition = partition
    e.kind = kind
    while n > 0 and _before(s, n, (n - 1) // 2):
        _swap(s, n, (n - 1) // 2)
        n = (n - 1) // 2


@kernel
def remove_first(s: ScanState) -> None:
    """The first has happened."""
    b = s.checkpointing[0]
    b.happenings -= 1
    n = b.happenings
    s.happenings[0] = s.happenings[n]
    place = 0
    while 2 * place + 1 < n:
        below = 2 * place + 1
        if below + 1 < n and _before(s, below + 1, below):
            below += 1
        if not _before(s, below, place):
            return
        _swap(s, below, place)
        place = below
