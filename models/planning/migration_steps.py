"""In which step, or at which instant, each move of a migration happens: the problem and its answer.

Moves e = 0 .. E-1 go from host source[e] to host target[e]. Without sizes, all moves take one step, and the answer is a
step for each move so that no host takes part in two moves of one step:

    minimise   number of steps

With sizes, a move takes size[e] / min(rate[source[e]], rate[target[e]]) [s] without a break, and the answer is the
instant at which each begins, so that no host takes part in two moves at once:

    minimise   end of the last move

`duplex` hosts may send one and receive one at the same time: then the two sides of a host count as two hosts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models import display
from models.checked_arrays import LARGEST, CheckedArrays, FloatArray, IntArray, freeze_fields, frozen
from models.planning.solution import Solution

MOST_HOSTS = 10_000_000  # numbers of hosts are below it: something is kept for each


@dataclass(frozen=True, eq=False)
class MigrationSteps:
    """Moves to be arranged, checked on construction; arrays are read-only.

    `moves` (E, 2): pairs [source host, target host]. `size_bytes` (E,) and `link_bytes_per_s` (H,) of each host: both,
    or None for both. `duplex`: whether a host may send and receive at once. Raises InputError with every fault found.
    """

    moves: IntArray
    size_bytes: FloatArray | None = None
    link_bytes_per_s: FloatArray | None = None
    duplex: bool = False

    def __post_init__(self) -> None:
        check = CheckedArrays()
        checked: dict[str, Any] = {"moves": check.indices("moves", self.moves, (None, 2), (None, None))}
        moves = checked["moves"]
        if moves is not None and len(moves) and moves.min() < 0:
            at = int(np.argmax(moves.min(axis=1) < 0))
            check.add(f"moves[{at}]", moves[at].tolist(), "must be two hosts, numbered from 0")
        elif moves is not None and len(moves) and moves.max() >= MOST_HOSTS:
            at = int(np.argmax(moves.max(axis=1) >= MOST_HOSTS))
            check.add(f"moves[{at}]", moves[at].tolist(), f"must be hosts numbered below {MOST_HOSTS}")
        elif moves is not None and (moves[:, 0] == moves[:, 1]).any():
            at = int(np.argmax(moves[:, 0] == moves[:, 1]))
            check.add(f"moves[{at}]", moves[at].tolist(), "must go to another host")
        if not isinstance(self.duplex, (bool, np.bool_)):
            check.add("duplex", self.duplex, "must be true or false")
        if (self.size_bytes is None) != (self.link_bytes_per_s is None):
            missing = "size_bytes" if self.size_bytes is None else "link_bytes_per_s"
            check.add(missing, None, "is needed: sizes and links make times only together")
        check.store(self, checked | self._checked_sizes(check, moves))

    def _checked_sizes(self, check: CheckedArrays, moves: IntArray | None) -> dict[str, Any]:
        """Return sizes and links as arrays; nothing without them."""
        if self.size_bytes is None or self.link_bytes_per_s is None:
            return {}
        sizes = check.floats("size_bytes", self.size_bytes, (None if moves is None else len(moves),), low=0.0)
        links = check.floats("link_bytes_per_s", self.link_bytes_per_s, (None,))
        if links is not None and (links <= 0).any():
            at = int(np.argmax(links <= 0))
            check.add(f"link_bytes_per_s[{at}]", float(links[at]), "must be above 0")
        if links is not None and moves is not None and len(moves) and moves.max() >= len(links):
            check.add("link_bytes_per_s", len(links), f"must have a rate for each host, up to host {int(moves.max())}")
        # Durations need sizes, links and moves that are valid.
        if sizes is not None and links is not None and moves is not None and not check.faults:
            self._check_durations(check, sizes, links, moves)
        return {"size_bytes": sizes, "link_bytes_per_s": links}

    def _check_durations(self, check: CheckedArrays, sizes: FloatArray, links: FloatArray, moves: IntArray) -> None:
        """Add a fault if a move takes so long that sums of times would overflow."""
        with np.errstate(over="ignore"):
            # The slower end decides: a transfer is no faster than either link.
            takes = sizes / links[moves].min(axis=1)
        if (takes > LARGEST).any():
            at = int(np.argmax(takes > LARGEST))
            check.add(
                f"size_bytes[{at}]",
                float(sizes[at]),
                f"takes more than {display.number(LARGEST)} s on the links of its hosts",
            )

    @property
    def n_moves(self) -> int:
        """Return E, the number of moves."""
        return len(self.moves)

    @cached_property
    def ends(self) -> IntArray:
        """Return both ends of each move, (E, 2): an end takes part in one move at a time."""
        # With duplex links a host is two ends, for sending and for receiving: the graph becomes bipartite.
        if not self.duplex or not self.n_moves:
            return self.moves
        return frozen(self.moves + np.array([0, int(self.moves.max()) + 1]))

    @cached_property
    def degrees(self) -> IntArray:
        """Return how many moves each end takes part in."""
        return frozen(np.bincount(self.ends.ravel()).astype(np.int64))

    @cached_property
    def durations_s(self) -> FloatArray | None:
        """Return how long each move takes, (E,) [s]; None without sizes."""
        if self.size_bytes is None or self.link_bytes_per_s is None:
            return None
        return frozen(self.size_bytes / self.link_bytes_per_s[self.moves].min(axis=1))

    def busy_s(self) -> FloatArray:
        """Return how long each end is busy in all, [s], correctly rounded."""
        if self.durations_s is None:
            return self.degrees.astype(np.float64)
        lists: list[list[float]] = [[] for _ in range(len(self.degrees))]
        for (a, b), seconds in zip(self.ends.tolist(), self.durations_s.tolist(), strict=True):
            lists[a].append(seconds)
            lists[b].append(seconds)
        return np.array([math.fsum(each) for each in lists])


@dataclass(frozen=True, kw_only=True, eq=False)
class StepsPlan(Solution):
    """An answer: the step of each move (E,) from 0, or with sizes the instant at which it begins, (E,) [s].

    `objective` and `bound` are a number of steps, or with sizes the end of the last move [s]. `reason` says what proves
    the bound: the host, or the hosts, whose moves cannot be arranged in less.
    """

    step: IntArray | None = None
    start_s: FloatArray | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, np.int64, "step")
        freeze_fields(self, np.float64, "start_s")
