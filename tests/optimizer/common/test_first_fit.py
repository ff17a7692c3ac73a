"""First fit and best fit against a plain loop, and the constraints of placement recounted."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from small_placements import keeps_rules, placements

from models.planning.placement import Placement, whole_units
from optimizer.placement import best_fit, first_fit


def plain_first_fit(problem: Placement) -> list[int]:
    """The rule of the paper, one instance and one host after the other."""
    host = problem.fixed_hosts.copy()
    for i in sorted(range(problem.n_instances), key=lambda i: -problem.values[i]):
        around = {b for a, b in problem.neighbours.tolist() if a == problem.operators[i]}
        around |= {a for a, b in problem.neighbours.tolist() if b == problem.operators[i]}
        factor = [
            sum(host[j] == h and problem.operators[j] in around for j in range(len(host)))
            for h in range(problem.n_hosts)
        ]
        if host[i] >= 0:
            continue
        for h in sorted(range(problem.n_hosts), key=lambda h: (-factor[h], h)):
            trial = host.copy()
            trial[i] = h
            if keeps_rules(problem, trial):
                host = trial
                break
    return host.tolist()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(placements())
def test_first_fit_equals_the_plain_rule(problem):
    assume(keeps_rules(problem, problem.fixed_hosts))
    assert first_fit(problem).tolist() == plain_first_fit(problem)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(placements())
def test_best_fit_keeps_every_rule_and_leaves_out_only_what_fits_nowhere(problem):
    assume(keeps_rules(problem, problem.fixed_hosts))
    host = best_fit(problem)
    assert keeps_rules(problem, host)
    for i in np.flatnonzero(host < 0):
        for h in range(problem.n_hosts):
            trial = host.copy()
            trial[i] = h
            assert not keeps_rules(problem, trial)


def test_best_fit_prefers_a_host_that_has_the_colour():
    problem = Placement([5, 4, 3], [10, 10], operator=[0, 1, 2], colour=[0, 1, 0])
    assert best_fit(problem, max_colours=1).tolist() == [0, 1, 0]


def test_fixed_instances_stay_and_keep_anti_affinity():
    problem = Placement([1, 1], [9, 9], operator=[0, 0], fixed=[0, -1])
    assert first_fit(problem).tolist() == [0, 1]


def test_decimal_loads_are_summed_as_decimal_numbers():
    loads, rooms = whole_units(np.full(10, 0.1), np.array([1.0]))
    assert loads.sum() == rooms[0]
    loads, rooms = whole_units(np.array([0.5, 0.500000001]), np.array([1.0]))
    assert loads.sum() > rooms[0]


def test_other_loads_may_exceed_a_capacity_by_rounding_alone():
    loads, rooms = whole_units(np.full(6, 1 / 6), np.array([1.0]))
    assert loads.sum() <= rooms[0]
    loads, rooms = whole_units(np.array([1 / 3, 2 / 3 + 1e-10]), np.array([1.0]))
    assert loads.sum() > rooms[0]
