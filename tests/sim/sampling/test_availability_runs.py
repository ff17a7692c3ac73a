"""Plain runs of hosts that fail: against a loop over runs, and against the exact figures."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.reliability.exact import unavailability
from models.reliability.queries import Queries, equal_hosts
from sim.draws import code_of
from sim.sampling.plain import shares_running

QUERIES = Queries(5, ((0,), (1, 2), (0, 3), (4,)), ((0, 1), (2, 3), (1,)), (1.0, 2.0, 5.0))


def test_each_run_is_what_a_loop_over_hosts_operators_and_queries_says() -> None:
    p, runs = np.array([0.1, 0.4]), 37
    found = shares_running(QUERIES, p, runs, seed=3)
    drawn = np.random.default_rng(code_of("plain runs", 3)).random((5, runs))
    for row, chance in enumerate(p.tolist()):
        for run in range(runs):
            down = {host for host in range(5) if drawn[host, run] < chance}
            works = [not set(hosts) <= down for hosts in QUERIES.instances]
            weight = sum(
                w for w, ops in zip(QUERIES.weights, QUERIES.operators, strict=True) if all(works[o] for o in ops)
            )
            assert found[row, run] == pytest.approx(weight / 8)


def test_what_fails_at_one_p_fails_at_every_larger_one() -> None:
    found = shares_running(QUERIES, np.array([0.0, 0.05, 0.2, 1.0]), 200, seed=1)
    assert (np.diff(found, axis=0) <= 0).all()
    assert found[0].tolist() == [1.0] * 200
    assert found[-1].tolist() == pytest.approx([0.0] * 200, abs=1e-15)


def test_means_of_runs_are_within_four_standard_errors_of_the_exact_figures() -> None:
    p = np.array([0.01, 0.1])
    found = shares_running(QUERIES, p, 4000, seed=5)
    exact = 1 - unavailability(QUERIES, equal_hosts(p, 5)).low @ QUERIES.shares
    assert (np.abs(found.mean(axis=1) - exact) < 4 * found.std(axis=1) / np.sqrt(4000)).all()


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs = 0"):
        shares_running(QUERIES, np.array([0.1]), 0, seed=1)
