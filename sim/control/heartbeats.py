"""The heartbeats of one host as they arrive, where some are lost or late, and the silences between them.

No event for each heartbeat: they are drawn a block at a time, and searched for the next time-out.
"""

from __future__ import annotations

import numpy as np

from models.scenario.fault_tolerance import Detector
from models.units import to_ns
from sim.draws import code_of, delays_ns, numbered, uniforms

_BLOCK = 1024
_FAR_NS = 1 << 62  # after the end of every run


class Heartbeats:
    """Heartbeat n of a host is sent at n times the interval; whether and when it arrives is a function of n."""

    def __init__(self, detector: Detector, seed: int, replication: int, host: str) -> None:
        self.interval_ns, self.timeout_ns = max(1, to_ns(detector.heartbeat_s)), to_ns(detector.timeout_s)
        self.block = max(1, min(_BLOCK, (_FAR_NS >> 2) // self.interval_ns))  # of heartbeats that are drawn at a time
        self._loss, self._delay = detector.loss, detector.delay
        self._code = code_of(seed, replication, host, "heartbeat")
        self._lost, self._late = (code_of(seed, replication, host, what) for what in ("loss", "delay"))

    def arrivals(self, begin: int, end: int) -> np.ndarray:
        """Return when the heartbeats `begin` .. `end` - 1 arrive, without lost ones [ns], in no order."""
        numbers = np.arange(begin, end, dtype=np.int64)
        ids = numbered(self._code, numbers)
        if self._loss:
            kept = uniforms(ids, self._lost) >= self._loss
            numbers, ids = numbers[kept], ids[kept]
        sent = numbers * self.interval_ns
        return sent if self._delay is None else sent + delays_ns(self._delay, uniforms(ids, self._late))

    def first_after(self, instant_ns: int) -> int:
        """Return the first arrival of the heartbeats that are sent after an instant."""
        begin, first = instant_ns // self.interval_ns + 1, _FAR_NS
        while begin * self.interval_ns < first:
            found = self.arrivals(begin, begin + self.block)
            begin += self.block
            first = min(first, int(found.min(initial=_FAR_NS)))
        return first


class Silence:
    """Finds the first silence of a host that is longer than the time-out, a block of heartbeats at a time.

    Heard of are the heartbeats that were sent after `sent_after_ns`; the silence begins at `heard_ns`.
    """

    def __init__(self, beats: Heartbeats, sent_after_ns: int, heard_ns: int) -> None:
        self._beats = beats
        self._begin = self._next = sent_after_ns // beats.interval_ns + 1
        self._heard = self._heard_before = heard_ns
        self._late = self._late_before = np.zeros(0, np.int64)  # arrive after the block that they were sent in

    @property
    def known_ns(self) -> int:
        """Return up to when it has checked."""
        return self._next * self._beats.interval_ns

    def check(self) -> int | None:
        """Return when the time-out strikes during the next block; None, and a later `known_ns`, if it does not."""
        self._begin, self._heard_before, self._late_before = self._next, self._heard, self._late
        self._next += self._beats.block
        arrived = np.sort(np.concatenate((self._late, self._beats.arrivals(self._begin, self._next))))
        known = arrived[arrived < self.known_ns]
        self._late = arrived[known.size :]
        heard = np.concatenate(([self._heard], known))
        strike = self._strike(np.append(heard, self.known_ns))
        self._heard = int(heard[-1])
        return strike

    def detected_ns(self, failed_ns: int) -> int:
        """Return when the time-out strikes if the host is silent from `failed_ns` on, which is in the last block."""
        end = max(self._begin, (failed_ns - 1) // self._beats.interval_ns + 1)
        arrived = np.sort(np.concatenate((self._late_before, self._beats.arrivals(self._begin, end))))
        heard = np.concatenate(([self._heard_before], arrived))
        strike = self._strike(heard)
        return max(failed_ns, int(heard[-1]) + self._beats.timeout_ns if strike is None else strike)

    def _strike(self, heard: np.ndarray) -> int | None:
        silent = np.flatnonzero(np.diff(heard) > self._beats.timeout_ns)
        return int(heard[silent[0]]) + self._beats.timeout_ns if silent.size else None
