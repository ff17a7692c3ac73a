"""Problems of replicas so small that every plan can be tried, and all of these plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from models.planning.replicas import Instances, ReplicaProblem


@st.composite
def problems(draw: st.DrawFn, *, running: bool | None = None) -> ReplicaProblem:
    """Small enough for every plan to be tried."""
    n, hosts = draw(st.integers(1, 3)), draw(st.integers(3, 4))
    sets = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    spare = draw(st.booleans())
    mask = np.arange(hosts) >= 2
    chance = st.sampled_from([0.0, 0.02, 0.1, 0.3])
    one = draw(chance)
    down = draw(st.one_of(st.just([one] * hosts), st.lists(chance, min_size=hosts, max_size=hosts)))
    fixed = draw(st.booleans()) if running is None else running
    primary = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) if fixed else None
    load = np.array(draw(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=n, max_size=n)))
    cpu = draw(st.sampled_from([0.6, 1.0]))
    if primary is not None and np.bincount(primary, weights=load).max() > cpu:
        cpu = 1.0  # what runs has room
    return ReplicaProblem(
        load=load,
        operators=tuple(map(tuple, draw(st.lists(sets, min_size=1, max_size=3)))),
        weights=(),
        edges=np.array([(k, k + 1) for k in range(n - 1)], dtype=np.int64).reshape(-1, 2),
        host_cpu=np.full(hosts, cpu),
        down=np.array([down]),
        primary=None if primary is None else np.array(primary),
        primary_hosts=~mask if spare else None,
        replica_hosts=mask if spare else None,
        budget=draw(st.sampled_from([None, 0.0, 0.2, 0.35, 0.5])),
        max_level=draw(st.integers(0, 2)),
        max_replicas=draw(st.sampled_from([None, None, 0, 1, 2])),
        goal=draw(st.sampled_from(["mean", "worst"])),
    )


def every_plan(problem: ReplicaProblem) -> Iterator[Instances]:
    """All primaries times all sets of replicas."""
    choices = []
    for o in range(problem.n_operators):
        own = []
        for first in range(problem.n_hosts):
            others = [h for h in range(problem.n_hosts) if h != first]
            for level in range(problem.max_level + 1):
                own += [(first, *rest) for rest in itertools.combinations(others, level)]
        choices.append([one for one in own if problem.primaries[o] in (-1, one[0])])
    for made in itertools.product(*choices):
        if not problem.violations(made):
            yield made


def value(problem: ReplicaProblem, instances: Instances) -> float:
    return float(problem.value(problem.broken(instances))[0])


def drawn(seed: int, *, n: int, hosts: int) -> ReplicaProblem:
    """A deployment of some queries on equal hosts, with no primary placed yet."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, min(n, 4) + 1, size=int(draw.integers(2, 5))).tolist()
    return ReplicaProblem(
        load=np.round(draw.uniform(0.1, 0.5, n), 2),
        operators=tuple(tuple(sorted(draw.choice(n, size, replace=False).tolist())) for size in sizes),
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.full(hosts, 1.0),
        down=np.full((1, hosts), float(draw.choice([0.01, 0.02, 0.05]))),
        budget=round(float(draw.uniform(0.2, 1.2)), 2),
    )
