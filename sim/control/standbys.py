"""Standbys: hosts that keep a copy of a state, up to its last commit, and take its key group if that is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from models.records.decisions import Action
from sim.clock import HOST_RECEIVER, MESSAGE, channel
from sim.control.restores import Restore, Restores
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane

_NS = 1_000_000_000


@dataclass(eq=False)
class Standby:
    """A copy of the state of a partition on a host; `complete` once it has all of the changelog."""

    partition: int
    host: int
    complete: bool = False
    read: Restore | None = None
    warmup: bool = False  # the host is to get the partition: no standby, and only until then

    @property
    def missing(self) -> float:
        """Return the share of the changelog that it has not read."""
        if self.complete:
            return 0.0
        return self.read.left_ns / self.read.work_ns if self.read is not None else 1.0


class Standbys:
    """Keeps as many copies of each state as the scenario asks for, each on another host than the state itself.

    A copy follows the commits of its state at no cost. One that is made anew reads the whole changelog first.
    """

    def __init__(self, state: StateOn[InstancePlane], restores: Restores, hosts: list[int]) -> None:
        """Keep copies on these hosts alone."""
        rules = state.plan.scenario.fault_tolerance.changelogs
        assert rules is not None
        self.state, self.cluster, self._restores, self._hosts = state, state.cluster, restores, hosts
        self._rules = rules
        self._on_disk: dict[int, set[int]] = {}  # host that has stopped -> partitions whose state its disk has
        operators = state.plan.operators
        self._of: dict[int, list[Standby]] = {
            one: [] for one, its in enumerate(self.cluster.partition_operator) if operators[its].description.stateful
        }

    def start(self) -> None:
        """Make the copies of the start, which are complete: states are as they begin."""
        for one in self._missing():
            one.complete = True

    def renew(self) -> None:
        """Begin to make the copies that are missing, where a host can have them."""
        for one in self._missing():
            self._fetch(one)

    def of(self, partition: int) -> list[Standby]:
        """Return the copies of the state of a partition, those that miss least first."""
        return sorted(self._of.get(partition, ()), key=lambda one: (one.missing, one.host))

    def size(self, partition: int) -> int:
        """Return the size of the changelog of a partition [B]."""
        return round(self.state.plane.checkpoint_bytes(partition) * (1.0 + self._rules.uncompacted))

    def take(self, partition: int, host: int) -> float:
        """Make a copy the state itself, if there is one on that host; return the share that is to be read."""
        found = next((one for one in self.of(partition) if one.host == host), None)
        if found is None:
            return 1.0
        if found.read is not None:
            self._restores.call_off(found.read)
        self._of[partition].remove(found)
        return found.missing

    def host_lost(self, host: int) -> None:
        """Forget the copies on a host whose failure is detected."""
        self._of = {one: [copy for copy in copies if copy.host != host] for one, copies in self._of.items()}

    # -- hosts that stop on purpose, and come back

    def stops(self, host: int, partitions: Iterable[int], on_disk: bool) -> None:
        """Note what a host has on its disk as it stops: these partitions, and complete copies; nothing if it is lost.

        Until it is missed its copies count.
        """
        here = {one for one, copies in self._of.items() for copy in copies if copy.host == host and copy.complete}
        self._on_disk[host] = ({*partitions} & {*self._of} | here) if on_disk else set()

    def resumed(self, host: int) -> None:
        """Go on with the copies of a host that is back before it was missed, as far as its disk has them."""
        here = self._on_disk.pop(host, set())
        for one, copies in self._of.items():
            self._of[one] = [copy for copy in copies if copy.host != host or one in here]

    def came(self, host: int) -> None:
        """Find copies on the disk of a host that is back: where it is to get a partition they are as good as others."""
        for one in sorted(self._on_disk.pop(host, ())):
            if self.cluster.host_of(one) != host and not any(copy.host == host for copy in self._of[one]):
                self._of[one].append(Standby(one, host, complete=True, warmup=True))

    def keep(self, partition: int, host: int) -> None:
        """Have the store of a host that has given a partition away be one of its standbys, if one is missing."""
        copies = self._of.get(partition)
        if copies is None or self.cluster.host_of(partition) == host or any(one.host == host for one in copies):
            return
        if sum(not one.warmup for one in copies) < self._rules.standbys:
            copies.append(Standby(partition, host, complete=True))

    # -- warm-ups

    def lag(self, partition: int, host: int) -> float:
        """Return how many changes a host lacks of the state of a partition; 0 for one without state."""
        if partition not in self._of:
            return 0.0
        copy = next((one for one in self._of[partition] if one.host == host), None)
        if copy is not None and copy.read is not None:
            self._restores.count(copy.host)
        missing = self.size(partition) * (1.0 if copy is None else copy.missing)
        state = self.state.plan.operators[self.cluster.partition_operator[partition]].description.state
        entry = None if state is None else state.tuple_bytes
        return missing / entry if entry else inf if missing else 0.0

    def warm_up(self, wanted: Sequence[tuple[int, int]], complete: Sequence[tuple[int, int]]) -> None:
        """Make copies for these pairs of a partition and the host that is to get it, the first ones first.

        Warm-ups are forgotten that are neither wanted nor `complete`; there are as many at a time as the rules say.
        """
        used = {*wanted, *complete}
        for partition, copies in self._of.items():
            for one in [one for one in copies if one.warmup and (partition, one.host) not in used]:
                copies.remove(one)
                if one.read is not None:
                    self._restores.call_off(one.read)
        count = sum(
            one.warmup and (partition, one.host) in wanted for partition in self._of for one in self._of[partition]
        )
        for partition, host in wanted:
            if count < self._rules.warmups and not any(one.host == host for one in self._of[partition]):
                self._of[partition].append(Standby(partition, host, warmup=True))
                self._fetch(self._of[partition][-1])
                count += 1

    def _missing(self) -> list[Standby]:
        """Return the copies that are missing and have a host now, which has the fewest; they are there from now on."""
        made = []
        load = Counter(one.host for copies in self._of.values() for one in copies)
        live = [host for host in self._hosts if self.cluster.accepts_work(host)]
        for partition, copies in self._of.items():
            own = self.cluster.host_of(partition)
            # One that the partition was to go on with, on a host that was dead, is none any more.
            copies[:] = [one for one in copies if one.host != own]
            taken = {own, *(one.host for one in copies)}
            wanted = self._rules.standbys - sum(not one.warmup for one in copies)
            free = [host for host in live if host not in taken] if wanted > 0 else []
            for host in sorted(free, key=lambda one: (load[one], one))[: max(0, wanted)]:
                copies.append(Standby(partition, host))
                made.append(copies[-1])
                load[host] += 1
        return made

    def _fetch(self, one: Standby) -> None:
        """Read the changelog from the store, then turn it into state beside the tasks of the host."""
        size, now = self.size(one.partition), self.state.clock.now_ns()
        self.state.recorder.restore(now, size)
        rank = channel(MESSAGE, HOST_RECEIVER + one.host, 0)
        self.state.clock.at(self.state.plane.fetch_ns(size), rank, lambda _: self._fetched(one, size))

    def _fetched(self, one: Standby, size: int) -> None:
        if one not in self._of[one.partition] or not self.cluster.host_alive[one.host]:
            return
        operator = self.state.plan.operators[self.cluster.partition_operator[one.partition]]
        rate = operator.description.deserialise_bytes_per_s
        if rate is None or size == 0:
            self._complete(one)
        else:
            work_ns = max(1, round(size * _NS / rate))
            one.read = self._restores.begin(one.host, work_ns, lambda: self._complete(one), copy=True)

    def _complete(self, one: Standby) -> None:
        one.complete, one.read = True, None
        name, host = self.cluster.partition_name(one.partition), self.state.plan.host_names[one.host]
        what = "a warm-up" if one.warmup else "a standby"
        self.state.decide(Action.ADD_REPLICA, name, f"{what} has read its changelog", target=host)
