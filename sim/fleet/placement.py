"""The placement of a fleet: parts of operators with their instances, changes under way, and loads of hosts.

A change of the placement is a value, which names a part and hosts by their numbers. `FleetPlacement.apply` carries it
out at once; that it takes time and may be refused is the business of `sim.fleet.reconfiguration`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.checked_arrays import FloatArray
from models.fleet.records import Row
from models.fleet.system import System


@dataclass(frozen=True)
class Move:
    """Move an instance of a part from host `origin` to host `target`."""

    part: int
    origin: int
    target: int


@dataclass(frozen=True)
class Split:
    """Give half of a part a primary at the target; its replicas stay where they are, one for each half."""

    part: int
    target: int


@dataclass(frozen=True)
class Add:
    """Give a part another replica, on host `target`."""

    part: int
    target: int


@dataclass(frozen=True)
class Remove:
    """Take the replica on this host from a part; primaries cannot be removed."""

    part: int
    host: int


Change = Move | Split | Add | Remove


NOBODY = -1


@dataclass
class Part:
    """An operator, or a share of one: its live instances, the primary first, and which of their hosts serves.

    `number`: identity, never given twice. `name`: the operator's, with "/2", "/3", ... for parts that were split off.
    `share`: of the operator's load, a power of 1/2. `hosts`, `live_from` [ns]: of each instance, in the same order.
    `serving`: host that serves now, or NOBODY since `silent_since` [ns]; `served_last`: host that served before.
    """

    number: int
    name: str
    op: int
    share: float
    hosts: list[int]
    live_from: list[int]
    serving: int = NOBODY
    served_last: int = NOBODY
    silent_since: int = 0


@dataclass
class Pending:
    """A change that is under way since `begun_ns`. It reserves room at its target until it is done or aborted.

    An aborted one has `alive` False: its process finds that when it wakes up.
    """

    change: Change
    begun_ns: int
    alive: bool = True


@dataclass
class FleetPlacement:
    """The placement while it changes.

    `replica_load`: load of a replica as a share of its primary's. `parts`: part by number; `of_op`: numbers of the
    parts of each deployed operator. `users`: present queries that need an operator, by operator; `present`: since when
    each query is there [ns]. `in_use` (n_hosts): False for spare hosts. `draining`: hosts that nothing more is placed
    on. `load` (n_operators,): cores at the rates of now.

    Invariants: the instances of a part are on different hosts; the shares of an operator's parts have the sum 1; a part
    has at most one pending change.
    """

    system: System
    replica_load: float
    parts: dict[int, Part] = field(default_factory=dict)
    of_op: dict[int, list[int]] = field(default_factory=dict)
    users: dict[int, set[int]] = field(default_factory=dict)
    present: dict[int, int] = field(default_factory=dict)  # query -> since when
    pending: list[Pending] = field(default_factory=list)
    in_use: list[bool] = field(default_factory=list)
    draining: set[int] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)  # of the table `instances`
    split: dict[str, str] = field(default_factory=dict)  # part of a split operator, ended or not -> operator
    load: FloatArray = field(default_factory=lambda: np.zeros(0))  # cores by operator
    _next: int = 0
    _flat: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __post_init__(self) -> None:
        self.in_use = [not self.system.fleet.host(name).spare for name in self.system.hosts]
        self.load = np.array(self.system.base)

    # -- instances

    def place(self, op: int, hosts: Sequence[int], now: int) -> Part:
        """Begin an operator, whole, with instances on these hosts; return its part."""
        return self._new(self.system.operators[op], op, 1.0, list(hosts), now)

    def _new(self, name: str, op: int, share: float, hosts: list[int], now: int) -> Part:
        """Return a new part, live from now on."""
        part = Part(self._next, name, op, share, hosts, [now] * len(hosts), NOBODY, hosts[0], now)
        self._next += 1
        self.parts[part.number] = part
        self.of_op.setdefault(op, []).append(part.number)
        self._flat = None
        return part

    def drop(self, op: int, now: int) -> None:
        """End an operator that nobody needs and for which nothing is under way."""
        for number in self.of_op.pop(op):
            part = self.parts.pop(number)
            for slot in range(len(part.hosts)):
                self._ended(part, slot, now)
        self._flat = None

    def apply(self, change: Change, now: int) -> list[Part]:
        """Carry out the change; return the parts that it changed.

        The caller has checked that the change is possible: its part exists, and `target` has no instance of the part.
        """
        self._flat = None
        part = self.parts[change.part]
        if isinstance(change, Move):
            slot = part.hosts.index(change.origin)
            self._ended(part, slot, now)
            part.hosts[slot], part.live_from[slot] = change.target, now
            # An instance that moves goes on serving: that is no take-over.
            part.served_last = change.target if part.served_last == change.origin else part.served_last
            part.serving = change.target if part.serving == change.origin else part.serving
            return [part]
        if isinstance(change, Add):
            part.hosts.append(change.target)
            part.live_from.append(now)
            return [part]
        if isinstance(change, Split):
            return self._halved(part, change.target, now)
        slot = part.hosts.index(change.host)
        self._ended(part, slot, now)
        del part.hosts[slot], part.live_from[slot]
        return [part]

    def _halved(self, part: Part, target: int, now: int) -> list[Part]:
        """Give half of the part a primary at the target; replicas stay where they are and follow the split."""
        for slot in range(len(part.hosts)):
            self._ended(part, slot, now)
            part.live_from[slot] = now
        taken = {self.parts[number].name for number in self.of_op[part.op]}
        base = self.system.operators[part.op]
        free = next(f"{base}/{k}" for k in range(2, len(taken) + 3) if f"{base}/{k}" not in taken)
        part.share /= 2
        self.split[free] = base
        other = self._new(free, part.op, part.share, [target, *part.hosts[1:]], now)
        return [part, other]

    def _ended(self, part: Part, slot: int, now: int) -> None:
        """Write the row of an instance that ends now; none if it began at this instant."""
        if part.live_from[slot] < now:
            role = "replica" if slot else "primary"
            host = self.system.hosts[part.hosts[slot]]
            self.rows.append((part.name, host, role, part.share, part.live_from[slot], now))

    def close(self, now: int) -> None:
        """Write the rows of instances that are live at the end."""
        for part in self.parts.values():
            for slot in range(len(part.hosts)):
                self._ended(part, slot, now)

    # -- queries

    def instances(self, query: int) -> Iterator[tuple[int, ...]]:
        """Yield the hosts of each part that the query needs."""
        for op in self.system.needs[query]:
            for number in self.of_op[op]:
                yield tuple(self.parts[number].hosts)

    def changed(self, query: int, changes: Sequence[Change]) -> list[tuple[int, ...]]:
        """Return the hosts of each part that the query needs after these changes, in turn; nothing is changed."""
        found: list[tuple[int, ...]] = []
        for op in self.system.needs[query]:
            for number in self.of_op[op]:
                parts = [list(self.parts[number].hosts)]
                for change in changes:
                    if change.part == number:
                        _imagine(parts, change)
                found += map(tuple, parts)
        return found

    # -- loads

    def instance_load(self, part: Part, slot: int) -> float:
        """Return the cores that an instance needs, by its place in the part."""
        return float(self.load[part.op] * part.share * (self.replica_load if slot else 1.0))

    def pending_load(self, change: Change) -> float:
        """Return the cores that a change will need at its target."""
        part = self.parts[change.part]
        if isinstance(change, Add):
            return self.instance_load(part, 1)
        if isinstance(change, Split):
            return self.instance_load(part, 0) / 2
        return self.instance_load(part, part.hosts.index(change.origin)) if isinstance(change, Move) else 0.0

    def demand(self) -> FloatArray:
        """Return the cores that live instances need on each host, (n_hosts,)."""
        # Loads change far more often than instances: with hosts and factors as arrays, one product gives the demand.
        if self._flat is None:
            live = [(host, part.op, part.share * (self.replica_load if slot else 1.0))
                    for part in self.parts.values() for slot, host in enumerate(part.hosts)]  # fmt: skip
            hosts, ops, factors = zip(*live, strict=True) if live else ((), (), ())
            self._flat = np.array(hosts, dtype=int), np.array(ops, dtype=int), np.array(factors, dtype=float)
        host, op, factor = self._flat
        weights = factor * self.load[op]
        found: FloatArray = np.bincount(host, weights=weights, minlength=len(self.system.hosts)).astype(float)
        return found

    def expected(self) -> FloatArray:
        """Return the cores that instances need on each host once changes under way are done, (n_hosts,).

        An instance that leaves still counts where it is, so each host has room at any moment of a change.
        """
        found = self.demand()
        for one in self.pending:
            if not isinstance(one.change, Move | Add | Split):
                continue
            found[one.change.target] += self.pending_load(one.change)
        return found

    def leaving(self) -> FloatArray:
        """Return the cores that moves and splits under way will free on each host, (n_hosts,)."""
        found = np.zeros(len(self.system.hosts))
        for one in self.pending:
            if isinstance(one.change, Move):
                found[one.change.origin] += self.pending_load(one.change)
            elif isinstance(one.change, Split):
                found[self.parts[one.change.part].hosts[0]] += self.pending_load(one.change)
        return found

    def replicas_load(self) -> float:
        """Return the cores that replicas need, with those on their way."""
        live = sum(self.instance_load(part, slot) for part in self.parts.values() for slot in range(1, len(part.hosts)))
        return live + sum(self.pending_load(one.change) for one in self.pending if isinstance(one.change, Add))

    def can_split(self, part: Part) -> bool:
        """Return True if the file allows the operator one part more."""
        rules = self.system.fleet.manager
        may = self.system.fleet.operator(self.system.operators[part.op]).split
        return may and rules is not None and len(self.of_op[part.op]) < rules.parts

    def busy(self) -> set[int]:
        """Return the parts with a change under way: they get no other one until it is over."""
        return {one.change.part for one in self.pending}


def _imagine(parts: list[list[int]], change: Change) -> None:
    """Apply a change to the hosts of a part, and of a part that was split off it."""
    hosts = parts[0]
    if isinstance(change, Move):
        hosts[hosts.index(change.origin)] = change.target
    elif isinstance(change, Add):
        hosts.append(change.target)
    elif isinstance(change, Split):
        parts.append([change.target, *hosts[1:]])
    else:
        hosts.remove(change.host)
