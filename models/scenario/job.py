"""The job: operators, partitioning of their outputs, cost of a tuple, state, and key groups.

A key finds its key group by a hash that every engine computes alike, modulo the number of key groups.
"""

from __future__ import annotations

import functools
import zlib
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from models.distributions import TimeDistribution
from models.errors import InputError
from models.scenario.workload import OutputKeys, UniformKeys, ZipfKeys
from models.schema_types import (
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    Name,
    PositiveBytes,
    PositiveSeconds,
    ReadOnlyMap,
    Share,
)

Kind = Literal["source", "map", "filter", "aggregate", "join", "sink"]
Partitioning = Literal["key", "shuffle", "forward", "broadcast"]


class PerKeyState(Description):
    """State of a fixed size for each key that was seen."""

    model: Literal["per-key"] = "per-key"
    entry_bytes: PositiveBytes = Field(alias="bytes")
    """State of one key."""


class FixedState(Description):
    """State of the same size for each key group, whatever was processed."""

    model: Literal["fixed"] = "fixed"
    group_bytes: Bytes = Field(alias="bytes")
    """State of one key group."""
    change_bytes: Bytes | None = Field(default=None, alias="change")
    """State that one tuple changes: an incremental checkpoint has that of the tuples since the one before, and the
    whole state at most. Without it all of the state has changed each time."""


class PerTupleState(Description):
    """State that grows by a fixed size with each tuple."""

    model: Literal["per-tuple"] = "per-tuple"
    entry_bytes: PositiveBytes = Field(alias="bytes")
    """State that one tuple adds."""


class WindowState(Description):
    """Tuples of the last `length` before the newest one are kept, by event time."""

    model: Literal["window"] = "window"
    entry_bytes: PositiveBytes = Field(alias="bytes")
    """State of one tuple."""
    length_s: PositiveSeconds = Field(alias="length")
    """How long a tuple is kept."""


State = Annotated[PerKeyState | FixedState | PerTupleState | WindowState, Field(discriminator="model")]


class Output(Description):
    """Tuples that leave the operator: their size, and new keys where the operator changes them."""

    tuple_bytes: PositiveBytes = Field(default=100.0, alias="tuple")
    """Size of a tuple that leaves."""
    keys: OutputKeys | None = None
    """New keys; without it a tuple keeps the key it came with."""


class Window(Description):
    """A window of event time; output at its end, when the watermark passes it.

    The event time of a tuple is its creation time. Windows begin at the multiples of `slide`, the first at 0.
    """

    length_s: PositiveSeconds = Field(alias="length")
    """Length of the window."""
    slide_s: PositiveSeconds | None = Field(default=None, alias="slide")
    """Time between the starts of two windows; without it windows do not overlap."""

    @property
    def step_s(self) -> float:
        """Return the time between the starts of two windows."""
        return self.length_s if self.slide_s is None else self.slide_s


class Timer(Description):
    """Output at regular instants, whatever comes in; its key is 0 unless `output.keys` says otherwise."""

    every_s: PositiveSeconds = Field(alias="every")
    """Time between two outputs of a task."""


class Operator(Description):
    """One operator of the dataflow; `parallelism` tasks, each of `threads` threads.

    `takes` says which share of an upstream's tuples the operator reads, where it does not read all: a number, or the
    name of a stream of the profile, whose measured selectivity is the share.
    """

    kind: Kind
    """What the operator is."""
    inputs: ReadOnlyMap[Partitioning] = Field(default_factory=dict, validate_default=True)
    """Upstream operator = how its output is partitioned: `key`, `shuffle`, `forward` or `broadcast`."""
    takes: ReadOnlyMap[Share | Name] = Field(default_factory=dict, validate_default=True)
    """Upstream operator = share of its tuples that is read: a number, or a stream of the profile."""
    parallelism: Count = 1
    """Number of tasks."""
    threads: Count = 1
    """Threads of each task; more than one only where nothing is keyed and no state is kept."""
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, strict=True)
    """A free core that tasks share takes what has the highest priority, then what arrived first."""
    key_groups: Count | None = None
    """Number of key groups; without it one for each task."""
    service: TimeDistribution | None = None
    """Time one tuple takes on a host of speed 1."""
    selectivity: float = Field(default=1.0, ge=0, le=1e6, strict=True)
    """Mean number of tuples that leave for each that comes in; with a window for each key in each window, of a join
    for each pair of tuples with equal keys in one window."""
    output: Output | None = None
    """What a tuple that leaves looks like."""
    state: State | None = None
    """State that is kept."""
    window: Window | None = None
    """Window of an aggregate, which emits for each key at its end and nothing at a tuple, or of a join."""
    timer: Timer | None = None
    """Makes each task emit at regular instants as well."""
    buffer: Count | None = None
    """Places of a task for tuples in its queue and those under way to it; without it there is no bound. Where none is
    free the senders wait, up to the source.
    """
    serialise_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="serialise")
    """Speed at which state is turned into bytes."""
    deserialise_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="deserialise")
    """Speed at which bytes are turned into state."""

    @property
    def keyed(self) -> bool:
        """Return whether an input is partitioned by key: then state and recovery are by key group."""
        return "key" in self.inputs.values()

    @property
    def movable(self) -> bool:
        """Return whether its key groups can move from host to host: of an aggregate or a join."""
        return self.keyed and self.kind in ("aggregate", "join")

    @property
    def stateful(self) -> bool:
        """Return whether a task has what outlasts a tuple: a state, a window, tuples to be joined, a timer."""
        kept = self.state is not None or self.window is not None or self.timer is not None
        return self.kind not in ("source", "sink") and (kept or self.kind in ("aggregate", "join"))

    @property
    def groups(self) -> int:
        """Return the number of partitions of state and recovery: key groups, or tasks if nothing is keyed."""
        if not self.keyed:
            return self.parallelism
        return self.key_groups or self.parallelism


PLAIN, SALTED = "crc32", "crc32-splitmix64"
HASHES = (PLAIN, SALTED)  # of one copy of a trace, of several with a salt each
_GOLDEN, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def crc32_group(key: str, groups: int) -> int:
    """Return the key group of `key`, 0 .. groups - 1: CRC-32 (as in zlib) of its UTF-8 bytes modulo `groups`.

    Raises InputError for fewer than one group.

    >>> crc32_group("N14228", 32)
    14
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    return crc32(key) % groups


def salted_groups(crc32: npt.ArrayLike, salt: int, groups: int) -> npt.NDArray[np.int64]:
    """Return the key groups (n,) of keys whose CRC-32 are given (n,), other ones for each salt, 0 .. 2^64 - 1.

    CRC-32 of key and salt would not do: it numbers the same groups in another order where their number is a power of
    two. So the bits of both are mixed first. Raises InputError for fewer than one group.

    >>> salted_groups([crc32("N14228"), crc32("N24211")], 1, 32).tolist()
    [9, 14]

    Each copy of a trace gets a salt of its own, so that it is spread over the key groups in another way.
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    hashed = np.asarray(crc32, dtype=np.uint64)
    mixed = _mixed(hashed ^ _mixed(np.full_like(hashed, salt) + _GOLDEN))
    return (mixed % np.uint64(groups)).astype(np.int64)


def crc32(key: str) -> int:
    """Return the CRC-32 (as in zlib) of the UTF-8 bytes of `key`."""
    return zlib.crc32(key.encode("utf-8"))


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return well mixed bits: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@functools.lru_cache(maxsize=8)
def groups_of_keys(count: int, groups: int) -> np.ndarray:
    """Return the groups (count,) of keys 0 .. count - 1 in decimal: `crc32_group(str(key), groups)`; read-only.

    Raises InputError for fewer than one group. Results are cached, for tasks and estimates ask for the same ones.

    >>> groups_of_keys(5, 4).tolist() == [crc32_group(str(key), 4) for key in range(5)]
    True
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    table = _crc_table()
    found = np.empty(count, np.int64)
    start, digits = 0, 1
    # All keys with the same number of digits at once: byte by byte, as CRC-32 goes, but for whole arrays.
    while start < count:
        stop = min(count, 10**digits)
        keys = np.arange(start, stop, dtype=np.int64)
        crc = np.full(keys.size, 0xFFFFFFFF, np.uint32)
        for place in range(digits - 1, -1, -1):
            byte = (keys // 10**place % 10 + ord("0")).astype(np.uint32)
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        found[start:stop] = (crc ^ 0xFFFFFFFF).astype(np.int64) % groups
        start, digits = stop, digits + 1
    found.setflags(write=False)
    return found


@functools.lru_cache(maxsize=1)
def _crc_table() -> np.ndarray:
    """Return the CRC-32 of each byte (RFC 1952, section 8), (256,) uint32."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, np.uint32(0xEDB88320) ^ (crc >> 1), crc >> 1).astype(np.uint32)
    return crc


@functools.lru_cache(maxsize=64)
def group_shares(keys: UniformKeys | ZipfKeys, groups: int) -> np.ndarray:
    """Return how likely a tuple belongs to each key group, (groups,), sum 1, read-only.

    Key k of a Zipf distribution (k = 0 is the most frequent) has weight 1 / (k + 1)^exponent.

    `keys`: the law of the keys; `groups`: number of key groups. Skew of keys and the hash both make shares uneven.
    """
    weights = np.ones(keys.count)
    if isinstance(keys, ZipfKeys):
        weights = np.arange(1, keys.count + 1, dtype=float) ** -keys.exponent
    shares = np.bincount(groups_of_keys(keys.count, groups), weights=weights, minlength=groups)
    normed = np.asarray(shares / shares.sum())
    normed.setflags(write=False)
    return normed
