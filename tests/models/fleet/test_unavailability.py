"""Exact unavailability of placements, as the availability engine has it, and the best that any placement could give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fleet_systems import STATIC, static_system

from models.fleet.system import keeps
from models.reliability.exact import unavailability
from models.reliability.queries import Queries, equal_hosts


def test_a_placement_has_the_figures_of_the_engine() -> None:
    system = static_system()
    queries = Queries(len(system.hosts), system.placed, system.needs)
    exact = unavailability(queries, equal_hosts(0.1, len(system.hosts))).low[0]
    assert np.allclose([system.broken(query) for query in range(8)], exact, rtol=1e-13, atol=0)


def test_what_has_no_instance_is_broken() -> None:
    unavailability = static_system().unavailability
    assert unavailability is not None
    assert unavailability.broken([(0, 1), ()]) == 1.0
    assert unavailability.broken([]) == 0.0


@pytest.mark.parametrize("name", ["independent", "one crew", "racks", "late take-over", "unequal"])
@pytest.mark.parametrize("n_instances", [1, 2])
def test_no_placement_of_two_operators_is_better_than_the_least(name: str, n_instances: int) -> None:
    system = static_system(**STATIC[name])
    unavailability = system.unavailability
    assert unavailability is not None
    sets = list(itertools.permutations(range(8), n_instances))
    some = [sets[k] for k in np.random.default_rng(1).permutation(len(sets))[:40]]
    least = unavailability.least_broken(n_instances, range(8))
    assert all(unavailability.broken(pair) >= least * (1 - 1e-12) for pair in itertools.product(some, some))
    assert min(unavailability.broken([one]) for one in sets) == pytest.approx(least, rel=1e-12)  # and it is reached


def test_an_slo_is_met_but_for_rounding() -> None:
    assert keeps(None, 1.0)
    assert keeps(0.9, 1 - 0.9)
    assert keeps(0.99, 0.01)
    assert not keeps(0.99, 0.010001)
    assert keeps(1.0, 0.0)
    assert not keeps(1.0, 1e-9)
