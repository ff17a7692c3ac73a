"""Lists of the two kernels as arrays: what is linked, and what stands one behind the other."""

from __future__ import annotations

import numpy as np

from sim.kernel.scan.entities import CHUNK, QUEUED
from sim.kernel.scan.state import ScanState


def runs(groups: np.ndarray) -> np.ndarray:
    """Return for each item its place among the equal ones next to it (n,): equal ones stand together."""
    new = np.ones(groups.size, np.bool_)
    new[1:] = groups[1:] != groups[:-1]
    begins = np.flatnonzero(new)
    return np.arange(groups.size) - np.repeat(begins, np.diff(np.append(begins, groups.size)))


def chained_by(links: np.ndarray, numbers: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Link the items of each group in order; return the places of heads and tails. Equal groups stand together."""
    inside = groups[1:] == groups[:-1]
    links[numbers[:-1][inside]] = numbers[1:][inside]
    if not numbers.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.flatnonzero(~inside)
    return np.concatenate([[0], ends + 1]).astype(np.int64), np.concatenate([ends, [numbers.size - 1]]).astype(np.int64)


def queued(scan: ScanState, queue: int) -> np.ndarray:
    """Return a copy of what waits in a queue of the scan, in order."""
    q = scan.queues[queue]
    pieces, piece, left = [np.zeros(0, QUEUED)], int(q["head"]), int(q["n"]) + int(q["head_place"])
    while left > 0 and q["n"] > 0:
        pieces.append(scan.chunks[piece * CHUNK : piece * CHUNK + min(CHUNK, left)])
        left -= CHUNK
        piece = int(scan.chunk_next[piece])
    return np.concatenate(pieces)[int(q["head_place"]) if q["n"] > 0 else 0 :]
