"""Availability by its definition, every set of failed elements in turn, in fractions: oracle of the fast methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from models.reliability.queries import Failures, Queries


def runs(queries: Queries, query: int, down: set[int]) -> bool:
    """Whether every operator of the query has an instance on a host that is up."""
    return all(any(host not in down for host in queries.instances[op]) for op in queries.operators[query])


def states(failures: Failures, setting: int) -> Iterator[tuple[set[int], Fraction]]:
    """(hosts that are down, probability) for every state of hosts and shocks; take-overs always come about."""
    assert failures.late is None
    chances = [Fraction(float(q)) for q in failures.chances[setting]]
    for state in product((False, True), repeat=len(chances)):
        weight = Fraction(1)
        for down, q in zip(state, chances, strict=True):
            weight *= q if down else 1 - q
        hosts = {host for host in range(failures.n_hosts) if state[host]}
        for index, group in enumerate(failures.groups):
            if state[failures.n_hosts + index]:
                hosts.update(group)
        yield hosts, weight


def broken_by_hand(queries: Queries, failures: Failures, setting: int) -> list[Fraction]:
    """P(query is broken) of each query."""
    found = [Fraction(0)] * queries.n_queries
    for down, weight in states(failures, setting):
        for query in range(queries.n_queries):
            if not runs(queries, query, down):
                found[query] += weight
    return found


def law_by_hand(queries: Queries, failures: Failures, setting: int) -> list[Fraction]:
    """P(exactly m queries are broken) for m = 0 .. n_queries."""
    found = [Fraction(0)] * (queries.n_queries + 1)
    for down, weight in states(failures, setting):
        found[sum(not runs(queries, query, down) for query in range(queries.n_queries))] += weight
    return found


def close(found: float, expected: Fraction, digits: int = 12) -> bool:
    """Whether all digits asked for are right, of small numbers too."""
    return abs(Fraction(float(found)) - expected) <= expected * Fraction(1, 10**digits)


chance = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1e-15]), st.floats(0, 1, allow_nan=False).map(lambda x: round(x, 6))
)


@st.composite
def small_queries(draw: st.DrawFn, most_hosts: int = 7) -> Queries:
    """Queries on few hosts, which share many of them."""
    n = draw(st.integers(1, most_hosts))
    hosts = st.lists(st.integers(0, n - 1), min_size=1, max_size=min(n, 3), unique=True)
    instances = draw(st.lists(hosts, min_size=1, max_size=8))
    ops = st.lists(st.integers(0, len(instances) - 1), min_size=1, max_size=6, unique=True)
    return Queries(n, tuple(map(tuple, instances)), tuple(map(tuple, draw(st.lists(ops, min_size=1, max_size=4)))))


def random_queries(rng, n_hosts: int, n_queries: int, hosts_of_query: int = 3, unreplicated: float = 0.2) -> Queries:  # type: ignore[no-untyped-def]
    """Queries whose primaries are on few hosts, with replicas anywhere: the shape of a real placement."""
    instances: list[Sequence[int]] = []
    operators = []
    for _ in range(n_queries):
        near = rng.choice(n_hosts, hosts_of_query, replace=False)
        row = []
        for _ in range(int(rng.integers(3, 7))):
            primary, replica = int(rng.choice(near)), int(rng.integers(n_hosts))
            alone = primary == replica or rng.random() < unreplicated
            row.append(len(instances))
            instances.append((primary,) if alone else (primary, replica))
        operators.append(tuple(row))
    return Queries(n_hosts, tuple(map(tuple, instances)), tuple(operators))
