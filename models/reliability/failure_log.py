"""A failure log: which host was down from when to when, in which window each host was watched.

Raw records of one host overlap, touch, and lack ends. `FailureLog` holds disjoint intervals of down time made of them.
From these follow up times (repair to next failure) and repair times. Some are not seen to their end: if the window ends
before, they are longer than observed (censored from the right); if both ends are in the same tick of the log's clock,
they are shorter than that tick (censored from the left).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any

STILL_DOWN = -1  # in place of an end: down when the window ended
US = 1_000_000
_LONGEST_TICK_US = 3600 * US

SEEN, LONGER, SHORTER = 0, 1, 2


@dataclass(frozen=True, eq=False)
class CensoredDurations:
    """Lengths [s] with what is known of each: `SEEN` whole, `LONGER` than it (censored right), or `SHORTER` (left).

    `length_s`, `kind` (n,). `exposure_s` (n_hosts,) is how long each host was watched for them, in which one length
    follows the other. `tick_s`: resolution of the log's clock; lengths are multiples of it.
    """

    length_s: FloatArray
    kind: IntArray
    exposure_s: FloatArray
    tick_s: float

    @property
    def ended(self) -> int:
        """Return how many times were observed to their end."""
        return int(np.count_nonzero(self.kind != LONGER))


@dataclass(frozen=True, eq=False)
class FailureLog:
    """Hosts with the window in which each was watched, and their outages by host and time [us since 1970, UTC].

    `begin_us`, `end_us` (n_hosts,): the windows. `host` (n_outages,): index of the host; `down_us`, `up_us`
    (n_outages,): up is STILL_DOWN where the window ended before. `notes`: how many records were dropped or mended, by
    reason.

    Raises InputError where outages of a host touch each other, lie outside of its window, or end before they begin.
    """

    hosts: tuple[str, ...]
    begin_us: IntArray
    end_us: IntArray
    host: IntArray
    down_us: IntArray
    up_us: IntArray
    notes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        raise_if_any(self._faults())
        for array in (self.begin_us, self.end_us, self.host, self.down_us, self.up_us):
            array.setflags(write=False)

    def _faults(self) -> Iterator[InputFault]:
        """Yield the first outage that breaks each rule, for a log may have millions."""
        if not self.hosts:
            yield InputFault("hosts", NO_VALUE, "must name a host at least")
            return
        for index in np.flatnonzero(self.end_us < self.begin_us)[:1].tolist():
            yield InputFault(f"hosts.{self.hosts[index]}", NO_VALUE, "is watched until before it begins to be")
        if self.host.size and not (self.host.min() >= 0 and self.host.max() < len(self.hosts)):
            yield InputFault("outages", NO_VALUE, "are of hosts that the log does not have")
            return
        until = self.until_us
        outside = (self.down_us < self.begin_us[self.host]) | (until > self.end_us[self.host])
        same = np.zeros(self.host.size, dtype=bool)
        # Touching counts as overlap: two outages without an up time between them are one.
        same[1:] = (self.host[1:] == self.host[:-1]) & (self.down_us[1:] <= until[:-1])
        for wrong, rule in (
            (outside, "is outside of the window of its host"),
            (until < self.down_us, "ends before it begins"),
            (same, "begins before the one before it ended"),
        ):
            for index in np.flatnonzero(wrong)[:1].tolist():
                yield InputFault(f"outages[{index}]", self.hosts[int(self.host[index])], rule)

    @property
    def until_us(self) -> IntArray:
        """Return the end of each outage, or of the window where that came before."""
        return np.where(self.up_us == STILL_DOWN, self.end_us[self.host], self.up_us)

    @property
    def begun_down(self) -> np.ndarray:
        """Return (n_outages,) whether the host was down when it began to be watched: no up time came before."""
        found: np.ndarray = self.down_us <= self.begin_us[self.host]
        return found

    @property
    def failures(self) -> int:
        """Return how many up times ended in a failure."""
        return int(np.count_nonzero(~self.begun_down))

    @cached_property
    def failures_of(self) -> IntArray:
        """Return (n_hosts,) failures by host."""
        return np.bincount(self.host[~self.begun_down], minlength=len(self.hosts))

    @cached_property
    def down_s_of(self) -> FloatArray:
        """Return (n_hosts,) time down in the window [s]."""
        found = np.zeros(len(self.hosts))
        np.add.at(found, self.host, (self.until_us - self.down_us) / US)
        return found

    @cached_property
    def up_s_of(self) -> FloatArray:
        """Return (n_hosts,) time up in the window [s]."""
        found: FloatArray = (self.end_us - self.begin_us) / US - self.down_s_of
        return found

    @cached_property
    def tick_s(self) -> float:
        """Return the log's clock [s]: the greatest time that all of its instants are multiples of, at most an hour."""
        # The end of the window is no event of the clock and would make the tick finer than it is.
        instants = np.concatenate([self.down_us, self.up_us[self.up_us != STILL_DOWN]])
        if not instants.size:
            return 0.0
        return min(int(np.gcd.reduce(instants)) or _LONGEST_TICK_US, _LONGEST_TICK_US) / US

    def up_times(self) -> CensoredDurations:
        """Return the times from being up to the failure; the last one of a host goes on beyond its window."""
        lengths: list[float] = []
        kinds: list[int] = []
        until = self.until_us
        first = np.searchsorted(self.host, np.arange(len(self.hosts) + 1))
        for index in range(len(self.hosts)):
            here = slice(int(first[index]), int(first[index + 1]))
            # The first up time begins with the window, and the last one ends with it: only the last is cut off.
            starts = np.concatenate([self.begin_us[index : index + 1], until[here]])
            ends = np.concatenate([self.down_us[here], self.end_us[index : index + 1]])
            gaps = (ends - starts) / US
            kind = np.full(gaps.size, SEEN)
            kind[-1] = LONGER
            # A gap of 0 is no up time: the host was down at the edge of its window.
            kept = gaps > 0
            lengths += gaps[kept].tolist()
            kinds += kind[kept].tolist()
        return CensoredDurations(np.array(lengths), np.array(kinds, dtype=np.int64), self.up_s_of, self.tick_s)

    def repair_times(self) -> CensoredDurations:
        """Return the times from a failure to being up again, of outages that began in the window."""
        begun = ~self.begun_down
        lengths = (self.until_us - self.down_us)[begun] / US
        # Both ends in one tick: the repair took less than the tick, but not nothing.
        kind = np.where(self.up_us[begun] == STILL_DOWN, LONGER, np.where(lengths == 0, SHORTER, SEEN))
        lengths = np.where(kind == SHORTER, self.tick_s, lengths)
        kept = lengths > 0
        return CensoredDurations(lengths[kept], kind[kept].astype(np.int64), np.zeros(0), self.tick_s)

    def without(self, hosts: Sequence[int]) -> FailureLog:
        """Return the log of the other hosts.

        `hosts`: their indices; those of the other hosts change.
        """
        kept = np.setdiff1d(np.arange(len(self.hosts)), hosts)
        # Hosts are numbered anew; -1 marks outages of hosts that have left.
        number = np.full(len(self.hosts), -1)
        number[kept] = np.arange(kept.size)
        of_kept = number[self.host] >= 0
        return replace(
            self,
            hosts=tuple(self.hosts[index] for index in kept.tolist()),
            begin_us=self.begin_us[kept], end_us=self.end_us[kept], host=number[self.host][of_kept],
            down_us=self.down_us[of_kept], up_us=self.up_us[of_kept],
        )  # fmt: skip


def within(log: FailureLog, begin_us: int | None, end_us: int | None) -> FailureLog:
    """Return the log between two instants: outages are cut there, and hosts that were not watched then are left out.

    Raises InputError for a window that is empty, or has no host.
    """
    begin = log.begin_us if begin_us is None else np.maximum(log.begin_us, begin_us)
    end = log.end_us if end_us is None else np.minimum(log.end_us, end_us)
    if begin_us is not None and end_us is not None and end_us <= begin_us:
        raise InputError.at("window", NO_VALUE, "must end after it begins")
    unwatched = np.flatnonzero(end <= begin)
    if unwatched.size == len(log.hosts):
        raise InputError.at("window", NO_VALUE, "has no host that was watched in it")
    until = log.until_us
    begins, ends = begin[log.host], end[log.host]
    # An outage that ended exactly when the window begins still counts: the host began it down.
    kept = (log.down_us < ends) & (until >= begins) & (ends > begins)
    still = (log.up_us == STILL_DOWN) | (until > ends)
    cut = replace(
        log, begin_us=np.minimum(begin, end), end_us=end, host=log.host[kept],
        down_us=np.maximum(log.down_us, begins)[kept],
        up_us=np.where(still, STILL_DOWN, log.up_us)[kept],
        notes={**log.notes, "outside_window": int(np.count_nonzero(~kept))},
    )  # fmt: skip
    return cut.without(unwatched.tolist())


def merged(host: IntArray, down_us: IntArray, up_us: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the outages by host and time, overlapping or touching ones joined; a reference for the log.

    All three arrays are (n_outages,); up is STILL_DOWN for an outage without an end, which swallows all that begin
    later.

    >>> host, down, up = merged(np.array([0, 0, 1]), np.array([1, 3, 2]), np.array([4, 9, STILL_DOWN]))
    >>> host.tolist(), down.tolist(), up.tolist()
    ([0, 1], [1, 2], [9, -1])
    """
    # Open ends sort last, and swallow whatever begins after them.
    far = np.iinfo(np.int64).max
    ends = np.where(up_us == STILL_DOWN, far, up_us)
    order = np.lexsort((ends, down_us, host))
    kept: list[list[int]] = []
    for one, down, up in zip(host[order].tolist(), down_us[order].tolist(), ends[order].tolist(), strict=True):
        if kept and kept[-1][0] == one and down <= kept[-1][2]:
            kept[-1][2] = max(kept[-1][2], up)
        else:
            kept.append([one, down, up])
    found = np.array(kept, dtype=np.int64).reshape(-1, 3)
    return found[:, 0], found[:, 1], np.where(found[:, 2] == far, STILL_DOWN, found[:, 2])
