"""Closed forms against each other, their limits, and printed values."""

from __future__ import annotations

import doctest
import math

import pytest

from models import queueing
from models.queueing import batch_mg1, drain, erlang_c, jackson, md1, mg1, mm1, mmc


def test_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(queueing, optionflags=doctest.ELLIPSIS).failed == 0


def test_one_server_of_many_is_one_server() -> None:
    assert mmc(70.0, 0.01, 1).wait_s == pytest.approx(mm1(70.0, 0.01).wait_s)


def test_erlang_c_is_the_sum_of_its_definition() -> None:
    load, servers = 7.3, 9
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    below = sum(load**k / math.factorial(k) for k in range(servers))
    assert erlang_c(load, servers) == pytest.approx(last / (below + last))


def test_batches_of_fixed_size_wait_as_one_customer_and_for_each_other() -> None:
    # Four tuples of 1 s each, always together: a batch is M/D/1 with service 4 s, and 1.5 tuples stand before one.
    assert batch_mg1(0.2, 4.0, 16.0, 1.0, 0.0).wait_s == pytest.approx(md1(0.05, 4.0).wait_s + 1.5)


def test_geometric_batches_of_exponential_tuples_have_the_known_mean() -> None:
    # Number in system of M^[X]/M/1 with geometric batches of mean b: rho b / (1 - rho) (Gross and Harris, 3.1).
    b, rho = 3.0, 0.6
    state = batch_mg1(rho, b, 2 * b**2 - b, 1.0, 1.0)
    assert state.queue + rho == pytest.approx(rho * b / (1 - rho))


def test_a_loop_of_jackson_raises_the_rate() -> None:
    # Half of what leaves comes back: twice the arrivals.
    (station,) = jackson([20.0], [[0.5]], [0.01])
    assert station == mm1(40.0, 0.01)


def test_the_number_waiting_is_rate_times_wait() -> None:
    state = mg1(30.0, 0.02, 0.7)
    assert state.queue == pytest.approx(30.0 * state.wait_s)


@pytest.mark.parametrize("rate", [100.0, 200.0])
def test_a_full_server_has_no_steady_state(rate: float) -> None:
    with pytest.raises(ValueError, match="no steady state"):
        mm1(rate, 0.01)


@pytest.mark.parametrize("backlog", [1, 2, 7, 100])
@pytest.mark.parametrize("next_arrival", [1, 3, 5])
def test_drain_equals_a_walk_through_the_queue(backlog: int, next_arrival: int) -> None:
    service, period = 3, 5
    free, served, coming = 0, 0, next_arrival
    waiting = backlog
    while waiting:
        free += service
        served += 1
        waiting -= 1
        while coming < free:
            waiting += 1
            coming += period
    assert drain(backlog, service, period, next_arrival) == (served, served * service)
