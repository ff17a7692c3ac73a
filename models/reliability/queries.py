"""Queries, their operators, the hosts of their instances, and the chances that hosts are down.

A query runs when every operator of it has an instance on a host that is up. *Elements* fail: hosts,
shocks that take several hosts at once, and take-overs that did not come about. Elements fail independently of each
other; hosts that share a shock do not. Source of the model: Adaptive selective replication (VLDB PhD workshop 2013).

>>> queries = Queries(3, instances=((0, 1), (2,)), operators=((0, 1), (0,)))
>>> queries.n_queries, queries.weights
(2, (1.0, 1.0))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from models.checked_arrays import FloatArray, frozen
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class Queries:
    """Which operators each query needs, and on which hosts each operator has an instance, the primary first.

    `instances`: host indices of each operator. `operators`: operator indices of each query. `weights`: of each query in
    means, 1 if empty.

    Raises InputError: unknown hosts and operators, two instances of an operator on one host, queries without
    an operator, weights that are not positive.
    """

    n_hosts: int
    instances: tuple[tuple[int, ...], ...]
    operators: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        # Whatever sequences were given: tuples of plain numbers can be shared and hashed.
        for name in ("instances", "operators"):
            object.__setattr__(self, name, tuple(tuple(map(int, entry)) for entry in getattr(self, name)))
        object.__setattr__(self, "weights", tuple(map(float, self.weights or [1.0] * len(self.operators))))
        raise_if_any(self._faults())

    def _faults(self) -> Iterator[InputFault]:
        """Yield the faults of all fields."""
        if not self.operators:
            yield InputFault("operators", NO_VALUE, "must have a query at least")
        yield from _index_faults("instances", self.instances, self.n_hosts, "a host")
        yield from _index_faults("operators", self.operators, len(self.instances), "an operator")
        if len(self.weights) != len(self.operators):
            yield InputFault("weights", len(self.weights), f"must be one for each query: {len(self.operators)}")
        for index, weight in enumerate(self.weights):
            if not (0 < weight < math.inf):
                yield InputFault(f"weights[{index}]", weight, "must be positive and finite")

    @property
    def n_queries(self) -> int:
        """Return the number of queries."""
        return len(self.operators)

    @cached_property
    def shares(self) -> FloatArray:
        """Return the weight of each query relative to all, (n_queries,)."""
        weights = np.array(self.weights)
        return frozen(weights / weights.sum())

    def graph(
        self, groups: Sequence[Sequence[int]] = (), label: Callable[[str, int], str] = "{} {}".format
    ) -> nx.DiGraph[str]:
        """Return a graph for drawing and analysis, with edges from each element to those that it takes down.

        Nodes are "host 0", "operator 0", "query 0", and "domain 0" for each of the groups of hosts, with `kind` and
        `index`, or what `label` makes of these two; queries have a `weight`. The edge of a host to an operator says
        which `instance` it has, 0 the primary.
        """
        import networkx as nx  # noqa: PLC0415 - the figures do without it

        graph: nx.DiGraph[str] = nx.DiGraph()
        kinds = {"domain": len(groups), "host": self.n_hosts, "operator": len(self.instances), "query": self.n_queries}
        for kind, count in kinds.items():
            graph.add_nodes_from((label(kind, index), {"kind": kind, "index": index}) for index in range(count))
        for query, weight in enumerate(self.weights):
            graph.nodes[label("query", query)]["weight"] = weight
        for domain, hosts in enumerate(groups):
            graph.add_edges_from((label("domain", domain), label("host", host)) for host in hosts)
        for operator, hosts in enumerate(self.instances):
            for instance, host in enumerate(hosts):
                graph.add_edge(label("host", host), label("operator", operator), instance=instance)
        for query, operators in enumerate(self.operators):
            graph.add_edges_from((label("operator", operator), label("query", query)) for operator in operators)
        return graph


def _index_faults(name: str, rows: Sequence[Sequence[int]], size: int, noun: str) -> Iterator[InputFault]:
    """Yield rows that are empty, or have an index that is out of range or repeated."""
    for index, row in enumerate(rows):
        if not row:
            yield InputFault(f"{name}[{index}]", NO_VALUE, f"must hold {noun} at least")
        for place, entry in enumerate(row):
            if not 0 <= entry < size:
                yield InputFault(f"{name}[{index}][{place}]", entry, f"is not {noun}: there are {size}")
            elif entry in row[:place]:
                yield InputFault(f"{name}[{index}][{place}]", entry, "stands there twice")


@dataclass(frozen=True, eq=False)
class Failures:
    """How likely each element is down, for several settings at once (rows).

    `down` (n_p, n_hosts): P(host is down by itself). `groups`: the hosts that each shock takes down; `shocks`
    (n_p, n_groups): its probability. `late` (n_p, n_hosts) or None: P(host is down by itself and nobody took
    over), part of `down`. Raises InputError for what is not between 0 and 1, unknown hosts, wrong shapes.
    """

    down: FloatArray
    groups: tuple[tuple[int, ...], ...] = ()
    shocks: FloatArray | None = None
    late: FloatArray | None = None

    def __post_init__(self) -> None:
        down = np.atleast_2d(np.asarray(self.down, dtype=np.float64))
        shape = (len(down), len(self.groups))
        shocks = np.zeros(shape) if self.shocks is None else np.asarray(self.shocks, dtype=np.float64)
        object.__setattr__(self, "down", frozen(down))
        object.__setattr__(self, "groups", tuple(tuple(map(int, group)) for group in self.groups))
        faults = list(_index_faults("groups", self.groups, down.shape[1], "a host"))
        if shocks.shape not in (shape, shape[1:]):
            faults.append(InputFault("shocks", shocks.shape, f"must have shape {shape}"))
            shocks = np.zeros(shape)
        object.__setattr__(self, "shocks", frozen(np.broadcast_to(shocks, shape)))
        faults += [*_chance_faults("down", down), *_chance_faults("shocks", shocks)]
        if self.late is not None:
            faults += list(self._with_late(np.asarray(self.late, dtype=np.float64)))
        raise_if_any(faults)

    def _with_late(self, late: FloatArray) -> Iterator[InputFault]:
        """Set `late` to an array of the full shape, and yield its faults."""
        if late.shape not in (self.down.shape, self.down.shape[1:]):
            yield InputFault("late", late.shape, f"must have shape {self.down.shape}")
            return
        late = np.broadcast_to(late, self.down.shape)
        object.__setattr__(self, "late", frozen(late))
        yield from _chance_faults("late", late)
        # Late is a part of down: else the split into two independent elements would need a negative chance.
        if (late > self.down).any():
            yield InputFault("late", float(late.max()), "must not exceed the probability that the host is down")

    @property
    def n_settings(self) -> int:
        """Return the number of rows: each is a setting of probabilities of its own."""
        return len(self.down)

    @property
    def n_hosts(self) -> int:
        """Return the number of hosts."""
        return int(self.down.shape[1])

    @cached_property
    def chances(self) -> FloatArray:
        """Return P(element is down), (n_p, n_elements): hosts, shocks, and with `late` what it splits off each host.

        A host with a late part u of its probability q is down when either of two independent elements is: one of
        probability u, and one of (q - u) / (1 - u).
        """
        assert self.shocks is not None
        if self.late is None:
            return frozen(np.concatenate([self.down, self.shocks], axis=1))
        # With u = 1 the rest does not matter: the host is down by its late part already.
        rest = np.divide(self.down - self.late, 1 - self.late, out=np.ones_like(self.down), where=self.late < 1)
        return frozen(np.concatenate([rest, self.shocks, self.late], axis=1))

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Return the elements of each host: when one of them is down, the host is."""
        of_host: list[list[int]] = [[host] for host in range(self.n_hosts)]
        for index, group in enumerate(self.groups):
            for host in group:
                of_host[host].append(self.n_hosts + index)
        if self.late is not None:
            for host, parts in enumerate(of_host):
                parts.append(self.late_element(host))
        return tuple(map(tuple, of_host))

    def late_element(self, host: int) -> int:
        """Return the element that stands for "host is down and nobody took over"."""
        return self.n_hosts + len(self.groups) + host

    @cached_property
    def equal(self) -> FloatArray | None:
        """Return the one probability of all hosts by setting, (n_p,); None if elements differ or there are shocks."""
        if self.groups or self.late is not None or not self.n_hosts:
            return None
        # Equal in every setting: only then one polynomial in p serves all hosts.
        first = self.down[:, :1]
        return frozen(first[:, 0]) if (self.down == first).all() else None


def equal_hosts(p: npt.ArrayLike, n_hosts: int) -> Failures:
    """Return failures that are alike and independent for all hosts: one setting for each value of p.

    p is one probability or several, (n_p,). Raises InputError for a value outside of 0 to 1.
    """
    values = np.atleast_1d(np.asarray(p, dtype=np.float64))
    raise_if_any(_chance_faults("p", values))
    return Failures(np.repeat(values[:, None], n_hosts, axis=1))


def with_common_cause(down: FloatArray, groups: Sequence[Sequence[int]], beta: float) -> Failures:
    """Return the beta-factor model (Fleming 1975): the share beta of a host's failures takes its whole group.

    `down` (n_p, n_hosts) stays the probability that a host is down: the own part is q (1 - beta) / (1 - beta q). The
    hosts of a group have to be equal, and no host is in two. Raises InputError otherwise.

    >>> found = with_common_cause([[0.1, 0.1]], groups=[(0, 1)], beta=0.2)
    >>> found.shocks.round(6).tolist(), found.down.round(6).tolist()
    ([[0.02]], [[0.081633, 0.081633]])
    """
    down = np.atleast_2d(np.asarray(down, dtype=np.float64))
    faults = [InputFault("beta", beta, "must be between 0 and 1")] if not 0 <= beta <= 1 else []
    faults += [*_index_faults("groups", groups, down.shape[1], "a host"), *_chance_faults("down", down)]
    members = [host for group in groups for host in group]
    if len(set(members)) < len(members):
        faults.append(InputFault("groups", NO_VALUE, "must not share hosts: a failure has one common cause"))
    raise_if_any(faults)
    own, shocks = down.copy(), np.zeros((len(down), len(groups)))
    for index, group in enumerate(groups):
        q = down[:, list(group)]
        if (q != q[:, :1]).any():
            raise InputError.at(f"groups[{index}]", NO_VALUE, "must be of hosts that fail with equal probability")
        shocks[:, index] = beta * q[:, 0]
        own[:, list(group)] = np.divide(q * (1 - beta), 1 - beta * q, out=np.ones_like(q), where=beta * q < 1)
    return Failures(own, tuple(map(tuple, groups)), shocks)


def _chance_faults(name: str, values: npt.NDArray[Any]) -> Iterator[InputFault]:
    """Yield the first value of an array that is no probability."""
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        where = np.argwhere(bad)[0]
        path = name + "".join(f"[{int(k)}]" for k in where)
        yield InputFault(path, float(values[tuple(where)]), "must be a probability, between 0 and 1")
