"""Which operators of queries get replicas, how many, and where: the problem, its answer, and importance.

Operators o = 0 .. n-1 load a host with load[o] and network[o]; each has a primary, and up to `max_level` replicas on
other hosts. A query is broken when an operator of it has no instance on a host that is up. To be chosen: how many
replicas each operator gets, and a host for each of them, and for primaries that have none yet:

    minimise   expected share of broken queries, by weight          (goal "mean")
               or the largest P(query is broken)                    (goal "worst")
    subject to sum of the loads of replicas <= budget
               loads of a host <= what it has, no two instances of an operator on one host
               of the replicas that run now at most `max_moves` leave their hosts: moved, or given up

Source: Adaptive selective replication (VLDB PhD workshop 2013), sections 2 to 4. Probabilities are those of queries
that are *broken*, so that small ones keep their digits.

`importance` says how much operators matter to the queries, between 0 and 1, by heuristics and by the exact gain:

    query out degree    queries that use the operator / queries
    low utilisation     1 - load / largest load
    product             of both
    gain                how much the share of running queries rises with a replica on a host of its own

Source: Adaptive selective replication (VLDB PhD workshop 2013), sections 3.1 and 3.2.2. The gain is an exact
difference; a query out degree overstates it where the host carries other operators of the same query that have no
replica (`models.reliability.importance`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from models import display
from models.checked_arrays import BoolArray, CheckedArrays, FloatArray, IntArray, frozen
from models.errors import InputError, InputFault, raise_if_any
from models.planning.solution import Solution
from models.reliability.exact import unavailability
from models.reliability.importance import replica_gain
from models.reliability.queries import Failures, Queries
from models.validation_messages import similar

GOALS = ("mean", "worst")
KIND = "replicas"  # of plan files
Instances = tuple[tuple[int, ...], ...]  # the hosts of each operator, the primary first
ROUNDING = 2.0**-38  # of the largest capacity: what rounding a hundred loads amounts to


@dataclass(frozen=True, eq=False)
class ReplicaProblem:
    """One problem, checked on construction; arrays are read-only.

    The work, for n operators: `load` (n,), `network` (n,) or None. `operators`: those of each query; `weights` of
    queries, 1 if empty. `edges` (E, 2): streams between operators.

    The hosts: `host_cpu` (H,), `host_network` (H,) or None. `down` (n_p, H): chances that hosts are down, a row for
    each setting; plans are made for the first row. `primary_hosts`, `replica_hosts` (H,): which hosts new primaries and
    replicas may use, None for all.

    The choice: `primary` (n,): where primaries run, -1 for one that has no host yet. `budget`: what replicas may take
    together, None for what the primaries leave of the hosts. `max_level`: replicas of an operator; `max_replicas`: of
    all, None for any number. `goal`: "mean" or "worst". `running`: the hosts of the replicas of each operator that run
    now, () for no replicas at all; `max_moves`: how many of them may leave their hosts, None for all.

    Raises InputError with every fault found.
    """

    load: FloatArray
    operators: tuple[tuple[int, ...], ...]
    host_cpu: FloatArray
    down: FloatArray
    edges: IntArray
    weights: tuple[float, ...] = ()
    network: FloatArray | None = None
    host_network: FloatArray | None = None
    primary: IntArray | None = None
    primary_hosts: BoolArray | None = None
    replica_hosts: BoolArray | None = None
    budget: float | None = None
    max_level: int = 1
    goal: str = "mean"
    running: Instances = ()
    max_moves: int | None = None
    max_replicas: int | None = None

    def __post_init__(self) -> None:
        check = CheckedArrays()
        load = check.floats("load", self.load, (None,), low=0.0)
        host_cpu = check.floats("host_cpu", self.host_cpu, (None,), low=0.0)
        n = None if load is None else len(load)
        hosts = None if host_cpu is None else len(host_cpu)
        if n == 0 or hosts == 0:
            check.add("load" if n == 0 else "host_cpu", [], "must have one at least")
        checked: dict[str, Any] = {"load": load, "host_cpu": host_cpu}
        checked["down"] = check.floats("down", np.atleast_2d(np.asarray(self.down)), (None, hosts), low=0.0)
        checked["edges"] = check.indices("edges", self.edges, (None, 2), (n, n))
        checked["operators"] = tuple(tuple(map(int, needed)) for needed in self.operators)
        checked["weights"] = tuple(map(float, self.weights or [1.0] * len(self.operators)))
        if (self.network is None) != (self.host_network is None):
            missing = "network" if self.network is None else "host_network"
            check.add(missing, None, "of operators and of hosts go together")
        elif self.network is not None:
            checked["network"] = check.floats("network", self.network, (n,), low=0.0)
            checked["host_network"] = check.floats("host_network", self.host_network, (hosts,), low=0.0)
        checked |= self._checked_hosts(check, n, hosts)
        self._check_choices(check)
        check.store(self, checked)
        object.__setattr__(self, "running", tuple(tuple(map(int, hosts)) for hosts in self.running))
        # Only now: these checks ask questions that need valid arrays.
        raise_if_any(self._primary_faults())
        raise_if_any(self._running_faults())
        self.queries([(h,) if h >= 0 else (0,) for h in self.primaries.tolist()])  # checks queries and weights
        Failures(self.down)

    def _checked_hosts(self, check: CheckedArrays, n: int | None, hosts: int | None) -> dict[str, Any]:
        """Return which hosts may be used, and where primaries run, as arrays of full length."""
        found: dict[str, Any] = {}
        for name in ("primary_hosts", "replica_hosts"):
            given = getattr(self, name)
            made = np.ones(hosts or 0, np.bool_) if given is None else np.asarray(given, dtype=np.bool_)
            if hosts is not None and made.shape != (hosts,):
                check.add(name, made.shape, f"must have shape ({hosts},)")
            found[name] = frozen(made)
        if self.primary is None:
            found["primary"] = frozen(np.full(n or 0, -1, np.int64))
            return found
        primary = check.indices("primary", self.primary, (n,), (None,))
        if primary is not None and hosts is not None:
            for index in np.flatnonzero((primary < -1) | (primary >= hosts)).tolist():
                check.add(f"primary[{index}]", int(primary[index]), f"is not a host: there are {hosts}")
            found["primary"] = primary
        return found

    def _check_choices(self, check: CheckedArrays) -> None:
        """Add the faults of budget, goal and limits."""
        if self.budget is not None and not 0 <= self.budget < math.inf:
            check.add("budget", self.budget, "must be finite and not negative")
        for name in ("max_level", "max_moves", "max_replicas"):
            most = getattr(self, name)
            unlimited = most is None and name != "max_level"
            if not unlimited and (isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 0):
                check.add(name, most, "must be a whole number, at least 0")
        if self.goal not in GOALS:
            check.add("goal", self.goal, "must be one of " + ", ".join(GOALS))

    def _primary_faults(self) -> Iterator[InputFault]:
        """Yield hosts that the primaries alone overload."""
        fixed = self.primaries >= 0
        used = np.bincount(self.primaries[fixed], weights=self.load[fixed], minlength=self.n_hosts)
        for host in np.flatnonzero(used > self.host_cpu + self.slack).tolist():
            rule = f"is more than the host has: {display.number(self.host_cpu[host], 6)}"
            yield InputFault(f"host {host}", float(used[host]), rule, "primaries that run there")

    def _running_faults(self) -> Iterator[InputFault]:
        """Yield operators whose running replicas break a rule of the problem."""
        if self.running and len(self.running) != self.n_operators:
            yield InputFault("running", len(self.running), f"must have {self.n_operators} operators")
            return
        for o, (primary, hosts) in enumerate(zip(self.primaries.tolist(), self.running, strict=False)):
            rule = _running_rule(self, primary, hosts)
            if rule:
                yield InputFault(f"running[{o}]", list(hosts), rule)

    @property
    def primaries(self) -> IntArray:
        """Return where primaries run, -1 for those without a host, (n,)."""
        assert self.primary is not None
        return self.primary

    @property
    def n_operators(self) -> int:
        """Return n, the number of operators."""
        return len(self.load)

    @property
    def n_hosts(self) -> int:
        """Return H, the number of hosts."""
        return len(self.host_cpu)

    @property
    def n_queries(self) -> int:
        """Return the number of queries."""
        return len(self.operators)

    @property
    def slack(self) -> float:
        """Return how far a sum of loads may exceed a capacity: rounding."""
        return ROUNDING * float(self.host_cpu.max())

    @cached_property
    def capacity(self) -> float:
        """Return the load that all replicas may add: the budget, at most the capacity that the primaries leave."""
        # What primaries leave of all hosts together: an upper bound that ignores how loads fit on single hosts.
        left = max(0.0, math.fsum(self.host_cpu.tolist()) - math.fsum(self.load.tolist()))
        return left if self.budget is None else min(left, float(self.budget))

    @cached_property
    def failures(self) -> Failures:
        """Return the chances that hosts are down, in all settings."""
        return Failures(self.down)

    @cached_property
    def shares(self) -> FloatArray:
        """Return the weight of each query relative to all, (n_queries,)."""
        weights = np.array(self.weights)
        return frozen(weights / weights.sum())

    @cached_property
    def degree(self) -> IntArray:
        """Return how many queries need each operator, (n,)."""
        found = np.zeros(self.n_operators, dtype=np.int64)
        for needed in self.operators:
            found[list(needed)] += 1
        return frozen(found)

    def queries(self, instances: Sequence[Sequence[int]]) -> Queries:
        """Return the queries with their operators on these hosts.

        `instances`: hosts of each operator, the primary first. Raises InputError for hosts that do not exist.
        """
        return Queries(self.n_hosts, tuple(map(tuple, instances)), self.operators, self.weights)

    def broken(self, instances: Sequence[Sequence[int]]) -> FloatArray:
        """Return P(query is broken) by setting, (n_p, n_queries); an upper bound where no exact method finishes."""
        # The upper bound: a plan never promises more than is proven.
        return unavailability(self.queries(instances), self.failures).high

    def value(self, broken: FloatArray) -> FloatArray:
        """Return the objective, which is minimised: the weighted mean of P(query is broken), or the largest.

        `broken` is (..., n_queries); the result loses the last axis.
        """
        return np.asarray(broken @ self.shares if self.goal == "mean" else broken.max(axis=-1))

    def cost(self, instances: Sequence[Sequence[int]]) -> float:
        """Return the load of all replicas together, correctly rounded."""
        # Primaries cost nothing here: only the replicas are a choice.
        return math.fsum(load * (len(hosts) - 1) for load, hosts in zip(self.load.tolist(), instances, strict=True))

    def replicas(self, instances: Sequence[Sequence[int]]) -> int:
        """Return the number of replicas."""
        return sum(len(hosts) - 1 for hosts in instances)

    def moves(self, instances: Sequence[Sequence[int]]) -> int:
        """Return how many replicas that run now have no instance on their host any more."""
        # A primary on the old host is no replica any more: only `hosts[1:]` stay.
        return sum(len(set(now) - set(hosts[1:])) for now, hosts in zip(self.running, instances, strict=False))

    def violations(self, instances: Sequence[Sequence[int]]) -> list[str]:
        """Return the constraints that an answer breaks, in words; an empty list if it keeps all."""
        return list(_violations(self, instances))


def _running_rule(problem: ReplicaProblem, primary: int, hosts: Sequence[int]) -> str:
    """Return the rule that the hosts of an operator's replicas break; "" if none."""
    if any(not 0 <= host < problem.n_hosts for host in hosts):
        return f"has a host that is not there: there are {problem.n_hosts}, counted from 0"
    if len(set(hosts)) < len(hosts):
        return "has two replicas on one host"
    if primary in hosts:
        return "has a replica on the host of its primary"
    if hosts and primary < 0:
        return "has replicas, but no primary that runs"
    if any(not _open(problem.replica_hosts, host) for host in hosts):
        return "has a replica on a host that takes none"
    if len(hosts) > problem.max_level:
        return f"has more replicas than an operator may have: {problem.max_level}"
    return ""


def _violations(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield broken constraints: hosts of each operator first, then capacities, then limits of the whole plan."""
    if len(instances) != problem.n_operators:
        yield f"has {len(instances)} operators, there are {problem.n_operators}"
        return
    for operator, hosts in enumerate(instances):
        fixed = int(problem.primaries[operator])
        if not hosts:
            yield f"operator {operator} has no host"
            continue
        if any(not 0 <= host < problem.n_hosts for host in hosts):
            # Nothing else can be said of hosts that do not exist.
            yield f"operator {operator} is on a host that is not there"
            return
        if len(set(hosts)) < len(hosts):
            yield f"operator {operator} has two instances on one host"
        if fixed >= 0 and hosts[0] != fixed:
            yield f"the primary of operator {operator} runs on host {fixed}, not {hosts[0]}"
        if fixed < 0 and not _open(problem.primary_hosts, hosts[0]):
            yield f"the primary of operator {operator} is on host {hosts[0]}, which takes none"
        for host in hosts[1:]:
            if not _open(problem.replica_hosts, host):
                yield f"a replica of operator {operator} is on host {host}, which takes none"
        if len(hosts) - 1 > problem.max_level:
            yield f"operator {operator} has {len(hosts) - 1} replicas, at most {problem.max_level} are allowed"
    yield from _over(problem.load, problem.host_cpu, instances, "CPU")
    if problem.network is not None and problem.host_network is not None:
        yield from _over(problem.network, problem.host_network, instances, "network")
    yield from _over_limits(problem, instances)


def _over_limits(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield limits on budget, number and moves of replicas that the plan exceeds."""
    # The budget is a sum over all hosts, so rounding of each of them adds up.
    cost, slack = problem.cost(instances), problem.slack * max(1.0, problem.n_hosts)
    if problem.budget is not None and cost > problem.budget + slack:
        yield f"replicas take {display.number(cost, 12)}, the budget is {display.number(problem.budget, 12)}"
    count = problem.replicas(instances)
    if problem.max_replicas is not None and count > problem.max_replicas:
        yield f"there are {count} replicas, at most {problem.max_replicas} are allowed"
    moves = problem.moves(instances)
    if problem.max_moves is not None and moves > problem.max_moves:
        yield f"{moves} running replicas leave their hosts, at most {problem.max_moves} may"


def _open(hosts: BoolArray | None, host: int) -> bool:
    """Return True if a host may be used; None stands for all."""
    return hosts is None or bool(hosts[host])


def _over(load: FloatArray, room: FloatArray, instances: Sequence[Sequence[int]], what: str) -> Iterator[str]:
    """Yield hosts on which the sum of loads exceeds the room, but for rounding."""
    loads: list[list[float]] = [[] for _ in room]
    for each, hosts in zip(load.tolist(), instances, strict=True):
        for host in hosts:
            loads[host].append(each)
    for host, (each, most) in enumerate(zip(loads, room.tolist(), strict=True)):
        used = math.fsum(each)
        # Slack relative to the largest host: loads are rounded in its units.
        if used > most + ROUNDING * float(room.max()):
            yield f"host {host} has {display.number(most, 12)} {what}, its operators take {display.number(used, 12)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaPlan(Solution):
    """An answer: the hosts of the instances of each operator, the primary first; None when there is none.

    `objective` is the expected share of broken queries (or the largest chance of one) in the first setting, `bound` a
    lower bound of it; `broken` (n_p, n_queries) is P(query is broken) in all settings. `cost`: what the replicas take.
    `left_out`: replicas that were chosen and found no host. `methods` say how it was made. With a `target`, the share
    of queries that has to run, objective and bound are of the cost. `certificate`: multipliers that prove the bound, or
    a part of it (`optimizer.verify.replica_program`). `moves`: of the replicas that ran before, how many left their
    hosts.
    """

    instances: Instances | None = None
    broken: FloatArray | None = None
    cost: float | None = None
    left_out: int = 0
    colours: int | None = None
    methods: tuple[str, ...] = ()
    target: float | None = None
    certificate: FloatArray | None = None
    moves: int | None = None

    @property
    def levels(self) -> IntArray | None:
        """Return how many replicas each operator has, (n,)."""
        if self.instances is None:
            return None
        return frozen(np.array([len(hosts) - 1 for hosts in self.instances], dtype=np.int64))


def checked_instances(given: Any, path: str = "instances") -> Instances:
    """Return the hosts of instances in a file; raises InputError unless it is a list of lists of whole numbers."""
    if not isinstance(given, list) or not all(
        isinstance(one, list) and all(isinstance(h, int) and not isinstance(h, bool) for h in one) for one in given
    ):
        raise InputError.at(path, given, "must be a list of the hosts of each operator")
    return tuple(map(tuple, given))


IMPORTANCE = ("degree", "utilisation", "product", "gain", "random")


def importance(name: str, problem: ReplicaProblem, instances: Sequence[Sequence[int]], noise: FloatArray) -> FloatArray:
    """Return the importance of each operator, (n,), in [0, 1].

    `name`: one of IMPORTANCE. `instances`: hosts of each operator now. `noise` (n,): what "random" returns; the caller
    draws it. Raises InputError for a name that is none of IMPORTANCE.
    """
    if name == "degree":
        return degree(problem)
    if name == "utilisation":
        return low_utilisation(problem)
    if name == "product":
        return frozen(degree(problem) * low_utilisation(problem))
    if name == "gain":
        return gain(problem, instances)
    if name == "random":
        return frozen(np.asarray(noise, dtype=np.float64))
    raise InputError.at("importance", name, "must be one of " + ", ".join(IMPORTANCE), similar(name, IMPORTANCE))


def degree(problem: ReplicaProblem) -> FloatArray:
    """Return the share of all queries that use each operator, (n,)."""
    return frozen(problem.degree / problem.n_queries)


def low_utilisation(problem: ReplicaProblem) -> FloatArray:
    """Return 1 - load / largest load, (n,); 1 where nothing loads."""
    largest = float(problem.load.max())
    return frozen(1 - problem.load / largest if largest > 0 else np.ones(problem.n_operators))


def gain(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> FloatArray:
    """Return the gain of each operator from one more instance on a host of its own, relative to the largest, (n,).

    That host fails like the mean of those that take replicas, and independently. Zero for all where nothing gains.
    """
    found = exact_gains(problem, instances)
    largest = float(found.max())
    return frozen(found / largest if largest > 0 else found)


def exact_gains(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> FloatArray:
    """Return how much the expected share of running queries rises with a replica on a host of its own, (n,)."""
    # One host more, beside all others, so that no replica shares its fate with an instance that is there.
    queries = replace(problem.queries(instances), n_hosts=problem.n_hosts + 1)
    first = problem.down[:1]
    open_hosts = problem.replica_hosts if problem.replica_hosts is not None else np.ones(problem.n_hosts, np.bool_)
    own = first[:, open_hosts].mean(axis=1) if open_hosts.any() else first.mean(axis=1)
    failures = Failures(np.concatenate([first, own[:, None]], axis=1))
    return frozen(np.array([_gain(queries, failures, o, problem.n_hosts) for o in range(problem.n_operators)]))


def _gain(queries: Queries, failures: Failures, operator: int, host: int) -> float:
    """Return the gain of one operator in the first setting; a lower bound where it is not exact."""
    return float(replica_gain(queries, failures, operator, host).low[0])


def of_queries(problem: ReplicaProblem, of_operators: FloatArray) -> FloatArray:
    """Return the mean importance of each query's operators times the query's weight, (n_queries,)."""
    means = np.array([of_operators[list(needed)].mean() for needed in problem.operators])
    weights = np.array(problem.weights)
    return frozen(means * weights / weights.max())
