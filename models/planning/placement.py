"""On which host each instance of an operator runs: the problem and its answer.

Instances i = 0 .. n-1 (primaries and replicas) have an operator, a colour, and take cpu[i] and network[i] of a host
h = 0 .. H-1, which has host_cpu[h] and host_network[h]:

    each instance on one host;  sums of cpu and of network of a host at most what it has
    no two instances of an operator on one host (anti_affinity = "host") or in one
        failure domain (anti_affinity = "domain")
    at most `max_colours` different colours on a host

    goal "colours":  minimise (most colours of any host, hosts used), lexicographically
    goal "hosts":    minimise hosts used:  plain bin packing with one resource, and vector packing with two
    goal "value":    maximise the value of what is placed, the rest is left out:  multiple knapsack

Source: Grüneberger, Heinze and Felber, VLDB PhD workshop 2013 (the step of placement); coloured bin packing.

Sums are of whole numbers: see `whole_units`. A fixed instance stays on its host; no colour (-1) counts for none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.checked_arrays import CheckedArrays, FloatArray, IntArray, freeze_fields, frozen
from models.planning.solution import Solution

GOALS = ("colours", "hosts", "value")
ANTI_AFFINITY = ("host", "domain")
MOST_IDS = 10_000_000  # ids of operators, colours and failure domains are below it
_BITS = 44  # a capacity has at most 2^44 units, so that sums of 2^18 loads have less than 2^63
_PLACES = 9  # decimal places up to which loads are summed as decimal numbers
_SLACK = 64  # units of 2^-44 that other numbers may exceed a capacity by: what rounding a hundred loads amounts to


def whole_units(load: FloatArray, capacity: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the loads (n,) and capacities (H,) as whole numbers, in which sums are exact.

    Decimal numbers of up to 9 places are counted in their last place, so ten loads of 0.1 fill a capacity of 1.0 and
    nothing else fits. Others are rounded to 2^-44 of the largest capacity, and may exceed a capacity by 2^-38 of that.

    >>> loads, rooms = whole_units(np.array([0.1, 0.3]), np.array([1.0, 0.25]))
    >>> loads.tolist(), rooms.tolist()
    ([1, 3], [10, 2])
    """
    top = max(float(capacity.max(initial=0.0)), np.finfo(np.float64).tiny)
    load = np.minimum(load, 2 * top)  # too large for any host: the exact size does not matter, and must not overflow
    for places in range(_PLACES + 1):
        scale = 10.0**places
        # Beyond 44 bits sums of many loads could leave int64: then decimals are given up.
        if 2 * top * scale >= 2.0**_BITS:
            break
        # Exact as decimals of so many places: then sums are those that the user sees, without a tolerance.
        if all((np.rint(each * scale) / scale == each).all() for each in (load, capacity)):
            loads, rooms = np.rint(load * scale).astype(np.int64), np.rint(capacity * scale).astype(np.int64)
            # A common divisor makes dynamic programs and bounds smaller, and changes no comparison.
            common = max(int(np.gcd.reduce(loads)), 1) if len(loads) else 1
            return frozen(loads // common), frozen(rooms // common)
    shift = _BITS - math.frexp(top)[1]
    # Loads to nearest, capacities down plus a slack: rounding of a hundred loads must not refuse what fits.
    loads = np.rint(np.ldexp(load, shift)).astype(np.int64)
    return frozen(loads), frozen(np.floor(np.ldexp(capacity, shift)).astype(np.int64) + _SLACK)


@dataclass(frozen=True, eq=False)
class Placement:
    """One problem of placement, checked on construction; arrays are read-only.

    With n instances and H hosts: `cpu`, `network` (n,) of each instance and `host_cpu`, `host_network` (H,) of each
    host, in the same units; without network both are None. `operator` (n,): None makes each instance its own operator.
    `colour` (n,): None takes the operator, -1 is none. `neighbours` (E, 2): pairs of operators with a stream between
    them. `failure_domain` (H,). `value` (n,): what it is worth to place an instance, 1 when None; first fit goes by it.
    `fixed` (n,): the host that an instance stays on, or -1. `current` (n,): where it runs now, or -1 for a new one; at
    most `max_moves` leave it.

    Raises InputError with every fault found.
    """

    cpu: FloatArray
    host_cpu: FloatArray
    network: FloatArray | None = None
    host_network: FloatArray | None = None
    operator: IntArray | None = None
    colour: IntArray | None = None
    neighbours: IntArray | None = None
    failure_domain: IntArray | None = None
    anti_affinity: str = "host"
    goal: str = "colours"
    max_colours: int | None = None
    value: FloatArray | None = None
    fixed: IntArray | None = None
    current: IntArray | None = None
    max_moves: int | None = None

    def __post_init__(self) -> None:
        check = CheckedArrays()
        cpu = check.floats("cpu", self.cpu, (None,), low=0.0)
        host_cpu = check.floats("host_cpu", self.host_cpu, (None,), low=0.0)
        n = None if cpu is None else len(cpu)
        hosts = None if host_cpu is None else len(host_cpu)
        if hosts == 0:
            check.add("host_cpu", [], "must have at least one host")
        if n is not None and n >= 2**18:
            check.add("cpu", n, f"must have less than {2**18} instances")
        checked: dict[str, Any] = {"cpu": cpu, "host_cpu": host_cpu}
        checked |= self._checked_network(check, n, hosts)
        checked |= self._checked_ids(check, n, hosts)
        if self.value is not None:
            checked["value"] = check.floats("value", self.value, (n,), low=0.0)
        self._check_choices(check)
        check.store(self, checked)

    def _checked_network(self, check: CheckedArrays, n: int | None, hosts: int | None) -> dict[str, Any]:
        """Return demands and capacities of the network as arrays; both or neither."""
        if (self.network is None) != (self.host_network is None):
            missing = "network" if self.network is None else "host_network"
            check.add(missing, None, "is needed: network of instances and of hosts go together")
            return {}
        if self.network is None:
            return {}
        return {
            "network": check.floats("network", self.network, (n,), low=0.0),
            "host_network": check.floats("host_network", self.host_network, (hosts,), low=0.0),
        }

    def _checked_ids(self, check: CheckedArrays, n: int | None, hosts: int | None) -> dict[str, Any]:
        """Return the arrays of operators, colours, domains and hosts that were given, by name."""
        found: dict[str, Any] = {}
        for name, size, low, limit in (
            ("operator", n, 0, MOST_IDS),
            ("colour", n, -1, MOST_IDS),
            ("failure_domain", hosts, 0, MOST_IDS),
            ("fixed", n, -1, hosts),
            ("current", n, -1, hosts),
        ):
            given = getattr(self, name)
            array = None if given is None else check.indices(name, given, (size,), (None,))
            if array is not None:
                wrong = np.flatnonzero((array < low) | (array >= (MOST_IDS if limit is None else limit)))
                if len(wrong):
                    at, rule = int(wrong[0]), f"must be between {low} and {limit - 1 if limit else 'the last host'}"
                    check.add(f"{name}[{at}]", int(array[at]), rule)
                found[name] = array
        if self.neighbours is not None:
            found["neighbours"] = check.indices("neighbours", self.neighbours, (None, 2), (MOST_IDS, MOST_IDS))
        return found

    def _check_choices(self, check: CheckedArrays) -> None:
        """Add the faults of goal, anti-affinity and limits."""
        for name, value, choices in (("goal", self.goal, GOALS), ("anti_affinity", self.anti_affinity, ANTI_AFFINITY)):
            if value not in choices:
                check.add(name, value, "must be one of " + ", ".join(choices))
        if self.anti_affinity == "domain" and self.failure_domain is None:
            check.add("failure_domain", None, "is needed to keep instances of an operator in different domains")
        for name, number in (("max_colours", self.max_colours), ("max_moves", self.max_moves)):
            if number is not None and not _is_whole(number):
                check.add(name, number, "must be a whole number, at least 0 and below 2^53")
            elif number is not None:
                object.__setattr__(self, name, int(number))
        if self.max_moves is not None and self.current is None:
            check.add("current", None, "is needed to count moves", "where each instance runs now, -1 for a new one")

    @property
    def n_instances(self) -> int:
        """Return n, the number of instances."""
        return len(self.cpu)

    @property
    def n_hosts(self) -> int:
        """Return H, the number of hosts."""
        return len(self.host_cpu)

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the names of the limited resources: cpu, and network if it is given."""
        return ("cpu",) if self.network is None else ("cpu", "network")

    @cached_property
    def _whole(self) -> tuple[IntArray, IntArray]:
        """Return demands (n, R) and capacities (H, R) in whole units, one column for each resource."""
        pairs = [whole_units(self.cpu, self.host_cpu)]
        if self.network is not None and self.host_network is not None:
            pairs.append(whole_units(self.network, self.host_network))
        loads, rooms = zip(*pairs, strict=True)
        return frozen(np.stack(loads, axis=1)), frozen(np.stack(rooms, axis=1))

    def part(self, instances: IntArray, hosts: IntArray, goal: str) -> Placement:
        """Return the problem of some instances on some hosts (numbers, also repeated), in the same whole units.

        Nothing is fixed in it or runs anywhere, hosts are no failure domains, and colours have no limit.
        """
        made = Placement(
            self.cpu[instances],
            self.host_cpu[hosts],
            network=None if self.network is None else self.network[instances],
            host_network=None if self.host_network is None else self.host_network[hosts],
            operator=self.operators[instances],
            colour=self.colours[instances],
            value=self.values[instances],
            goal=goal,
        )
        # The units of the whole problem: made anew from fewer loads they might differ, and so might what fits.
        made.__dict__["_whole"] = (frozen(self.loads[instances]), frozen(self.rooms[hosts]))
        return made

    @property
    def loads(self) -> IntArray:
        """Return the demand of each instance for each resource, in whole units, (n, R)."""
        return self._whole[0]

    @property
    def rooms(self) -> IntArray:
        """Return the capacity of each host for each resource, in whole units, (H, R)."""
        return self._whole[1]

    @cached_property
    def operators(self) -> IntArray:
        """Return the operator of each instance, (n,)."""
        return frozen(np.arange(self.n_instances)) if self.operator is None else self.operator

    @cached_property
    def colours(self) -> IntArray:
        """Return the colour of each instance, -1 for none, (n,)."""
        return self.operators if self.colour is None else self.colour

    @cached_property
    def zones(self) -> IntArray:
        """Return the zone of each host, (H,): itself or its failure domain. An operator has one instance in a zone."""
        if self.anti_affinity == "host" or self.failure_domain is None:
            return frozen(np.arange(self.n_hosts))
        return frozen(np.unique(self.failure_domain, return_inverse=True)[1].astype(np.int64))

    @cached_property
    def fixed_hosts(self) -> IntArray:
        """Return the host that an instance stays on, -1 where it is free, (n,)."""
        return frozen(np.full(self.n_instances, -1)) if self.fixed is None else self.fixed

    @cached_property
    def values(self) -> FloatArray:
        """Return the value of placing each instance, (n,); 1 unless given."""
        return frozen(np.ones(self.n_instances)) if self.value is None else self.value

    def used(self, host: IntArray) -> IntArray:
        """Return the use of each resource on each host, in whole units, (H, R).

        `host` (n,) is the host of each instance, -1 if it is not placed.
        """
        placed = host >= 0
        total = np.zeros((self.n_hosts, self.loads.shape[1]), dtype=np.int64)
        np.add.at(total, host[placed], self.loads[placed])
        return total

    def colours_of_hosts(self, host: IntArray) -> IntArray:
        """Return how many different colours each host has, (H,)."""
        counted = (host >= 0) & (self.colours >= 0)
        pairs = np.unique(np.stack([host[counted], self.colours[counted]], axis=1), axis=0)
        return np.bincount(pairs[:, 0], minlength=self.n_hosts).astype(np.int64)

    def most_colours(self, host: IntArray) -> int:
        """Return the most colours of any host."""
        return int(self.colours_of_hosts(host).max(initial=0))

    def hosts_used(self, host: IntArray) -> int:
        """Return how many hosts have an instance."""
        return len(np.unique(host[host >= 0]))

    def moves(self, host: IntArray) -> int:
        """Return how many instances leave the host where they run now, also those that are no longer placed."""
        if self.current is None:
            return 0
        # New instances (-1) cannot leave; those no longer placed do.
        return int(((self.current >= 0) & (host != self.current)).sum())

    def objective(self, host: IntArray) -> float:
        """Return the objective of hosts (n,): most colours, hosts used, or the value placed, correctly rounded."""
        if self.goal == "value":
            return math.fsum(self.values[host >= 0].tolist())
        return float(self.most_colours(host) if self.goal == "colours" else self.hosts_used(host))


def _is_whole(value: Any) -> bool:
    """Return True for a whole number from 0 to 2^53 - 1, which JSON keeps exactly."""
    return not isinstance(value, bool) and isinstance(value, (int, np.integer)) and 0 <= int(value) < 2**53


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacementPlan(Solution):
    """An answer: the host of each instance (n,), -1 for one that is left out; None when there is no answer.

    `objective` and `bound` are of the goal: colours, hosts, or value. `hosts` are those in use; `hosts_bound` is a
    lower bound for placements of as many colours (None where hosts do not count): with goal "colours" a plan is optimal
    when both are proven. `moves` leave the running placement; `unplaced` instances are without a host. `reason` says
    what proves the bound, or why there is no placement; `infeasible_set` are the instances that it is about.
    """

    host: IntArray | None = None
    colours: int | None = None
    hosts: int | None = None
    hosts_bound: int | None = None
    moves: int | None = None
    unplaced: int | None = None
    reason: str = ""
    infeasible_set: IntArray | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, np.int64, "host", "infeasible_set")
