"""Links of hosts: how long each message occupies its link, first in first out or shared evenly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sim.clock import HOST_RECEIVER, LINK, Clock

_NS = 1_000_000_000

Channel = tuple[int, int]  # task that sends, task or host that receives


class LinkUse:
    """Delay that checkpoints on the link of a host cause to its tuples, compared with a link without checkpoints.

    That link would send everything else, first in first out, at the same instants. A tuple is delayed if it leaves
    later than it would have left there; on a link that is shared evenly only if a checkpoint was on the link with it.
    """

    def __init__(self) -> None:
        self.carried = self.delayed = self.delay_ns = self.longest_ns = 0
        self._free_at_ns = 0

    def leaves_alone_ns(self, now_ns: int, work_ns: int) -> int:
        """Return when a message would have left the link without checkpoints."""
        self._free_at_ns = max(now_ns, self._free_at_ns) + work_ns
        return self._free_at_ns

    def count(self, tuples: int, late_ns: int) -> None:
        """Count tuples that left the link, so much later than they would have left it without checkpoints."""
        self.carried += tuples
        if late_ns > 0 and tuples:
            self.delayed += tuples
            self.delay_ns += tuples * late_ns
            self.longest_ns = max(self.longest_ns, late_ns)

    def forget(self) -> None:
        """Empty the link: its host died."""
        self._free_at_ns = 0


def _is_upload(channel: Channel) -> bool:
    return channel[1] >= HOST_RECEIVER


class Link:
    """A FIFO link: one transmission after the other at a fixed rate, then the latency.

    Messages that have not left it when its host dies never arrive.
    """

    def __init__(self, bytes_per_s: float | None, latency_ns: int, use: LinkUse | None = None) -> None:
        self.bytes_per_s, self.latency_ns, self.use = bytes_per_s, latency_ns, use or LinkUse()
        self.free_at_ns = 0

    def departure_ns(self, now_ns: int, size_bytes: int) -> int:
        """Occupy the link for the bytes of a message that is sent now; return when it has left."""
        begin = max(now_ns, self.free_at_ns)
        self.free_at_ns = begin + self._work_ns(size_bytes)
        return self.free_at_ns

    def arrival_ns(self, now_ns: int, size_bytes: int) -> int:
        """Return when a message that is sent now has arrived."""
        return self.departure_ns(now_ns, size_bytes) + self.latency_ns

    def send(
        self,
        now_ns: int,
        size_bytes: int,
        channel: Channel,
        number: int,
        leave: Callable[[int], None],
        tuples: int = 0,
    ) -> None:
        """Send a message; when it will leave is known already."""
        departure_ns = self.departure_ns(now_ns, size_bytes)
        if self.bytes_per_s and not _is_upload(channel):
            self.use.count(tuples, departure_ns - self.use.leaves_alone_ns(now_ns, self._work_ns(size_bytes)))
        leave(departure_ns)

    def _work_ns(self, size_bytes: int) -> int:
        return round(size_bytes * _NS / self.bytes_per_s) if self.bytes_per_s else 0

    def close(self) -> None:
        """Do nothing: the host died, and departures that were announced are checked on arrival."""


class Parcel(NamedTuple):
    """A message on a shared link.

    `work_ns` is its time on the whole link, `leave` the call when it leaves, `alone_ns` when it would have left a link
    without checkpoints.
    """

    work_ns: int
    number: int
    leave: Callable[[int], None]
    tuples: int
    sent_ns: int
    alone_ns: int


class FairLink:
    """A link that the channels with something to send share evenly; first in first out within a channel.

    Each of n channels advances at 1/n. The rest of its first message is a whole number of ns of the whole link:
    whenever a channel begins or a message leaves, it is reduced by the time since the last such change / n, rounded
    down, so that the next one leaves after n times the least that is left; of equals the one that was sent first.
    """

    def __init__(self, clock: Clock, host: int, bytes_per_s: float, use: LinkUse | None = None) -> None:
        self.clock, self.host, self.bytes_per_s, self.use = clock, host, bytes_per_s, use or LinkUse()
        self.parcels: dict[Channel, deque[Parcel]] = {}
        self.left_ns: dict[Channel, int] = {}  # of the first of each channel, at the last change
        self._changed_ns = 0
        self._changes = 0
        self._upload_left_ns = 0  # when the last checkpoint left

    def send(
        self,
        now_ns: int,
        size_bytes: int,
        channel: Channel,
        number: int,
        leave: Callable[[int], None],
        tuples: int = 0,
    ) -> None:
        """Send a message; `leave` is called with the instant at which it has left."""
        work_ns = round(size_bytes * _NS / self.bytes_per_s)
        alone_ns = 0 if _is_upload(channel) else self.use.leaves_alone_ns(now_ns, work_ns)
        parcel = Parcel(work_ns, number, leave, tuples, now_ns, alone_ns)
        if channel in self.parcels:
            self.parcels[channel].append(parcel)
            return
        self._work_off(now_ns)
        self.parcels[channel], self.left_ns[channel] = deque([parcel]), parcel.work_ns
        self._set_departure(now_ns)

    def empty(self) -> None:
        """Send nothing of what is on the link: nobody waits for it any more."""
        self.close()
        self.parcels.clear()
        self.left_ns.clear()

    def least_ns(self, now_ns: int, channel: Channel, before: int) -> int | None:
        """Return how long the channel needs at least for tuples sent before this number; None without such."""
        parcels = [parcel for parcel in self.parcels.get(channel, ()) if parcel.number < before]
        while parcels and not parcels[-1].tuples:
            parcels.pop()
        if not parcels:
            return None
        done = self._share(now_ns) + parcels[0].work_ns - self.left_ns[channel]
        return sum(parcel.work_ns for parcel in parcels) - done

    def close(self) -> None:
        """Stop all departures: the host died."""
        self._changes += 1

    def _share(self, now_ns: int) -> int:
        return (now_ns - self._changed_ns) // max(1, len(self.left_ns))

    def _work_off(self, now_ns: int) -> None:
        """Take the share of each channel since the last change off its first message."""
        # Rounded down to whole ns, so that the compiled engine gets the same numbers with integers.
        share = self._share(now_ns)
        for channel in self.left_ns:
            self.left_ns[channel] -= share
        self._changed_ns = now_ns

    def _set_departure(self, now_ns: int) -> None:
        """Set the event of the next departure; events set before are void, since the shares have changed."""
        self._changes += 1
        if not self.left_ns:
            return
        change = self._changes
        first = min(self.left_ns, key=lambda channel: (self.left_ns[channel], self.parcels[channel][0].number))
        at_ns = now_ns + self.left_ns[first] * len(self.left_ns)
        self.clock.at(at_ns, LINK + self.host, lambda _: self._departs(first, change))

    def _departs(self, channel: Channel, change: int) -> None:
        if change != self._changes:
            return  # another channel began meanwhile, or the host died
        now = self.clock.now_ns()
        self._work_off(now)
        parcel = self.parcels[channel].popleft()
        if self.parcels[channel]:
            self.left_ns[channel] = self.parcels[channel][0].work_ns
        else:
            del self.parcels[channel], self.left_ns[channel]
        self._set_departure(now)
        self._count(channel, parcel, now)
        parcel.leave(now)

    def _count(self, channel: Channel, parcel: Parcel, now_ns: int) -> None:
        """Count the tuples of a message that leaves, and the delay by checkpoints that were there with it."""
        if _is_upload(channel):
            self._upload_left_ns = now_ns
            return
        met = self._upload_left_ns > parcel.sent_ns or any(_is_upload(other) for other in self.parcels)
        self.use.count(parcel.tuples, now_ns - parcel.alone_ns if met else 0)
