"""Importance and gains against differences by hand, in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_availability import broken_by_hand, close, small_queries

from models.errors import InputError
from models.reliability.importance import birnbaum, replica_gain
from models.reliability.queries import Failures, Queries, equal_hosts

_tiny = st.sampled_from([1e-9, 0.5, 0.02, 0.3])


def mean_by_hand(queries: Queries, failures: Failures) -> Fraction:
    return sum(broken_by_hand(queries, failures, 0)) / queries.n_queries


@settings(max_examples=30, deadline=None)
@given(small_queries(5), st.data())
def test_importance_is_the_difference_that_an_element_makes(queries: Queries, data: st.DataObject) -> None:
    down = np.array([data.draw(st.lists(_tiny, min_size=queries.n_hosts, max_size=queries.n_hosts))])
    group = ((0, queries.n_hosts - 1),) if queries.n_hosts > 1 else ((0,),)
    found = birnbaum(queries, Failures(down, group, np.array([[0.01]])))
    assert (found.low == found.high).all()
    for element in range(queries.n_hosts + 1):
        means = []
        for value in (0.0, 1.0):
            hosts, shocks = down.copy(), np.array([[0.01]])
            if element < queries.n_hosts:
                hosts[0, element] = value
            else:
                shocks[0, 0] = value
            means.append(mean_by_hand(queries, Failures(hosts, group, shocks)))
        assert close(found.low[0, element], means[1] - means[0])


@settings(max_examples=25, deadline=None)
@given(small_queries(4), st.data())
def test_the_gain_of_a_replica_is_the_exact_difference(queries: Queries, data: st.DataObject) -> None:
    down = np.array([data.draw(st.lists(_tiny, min_size=queries.n_hosts, max_size=queries.n_hosts))])
    failures = Failures(down, ((0,),), np.array([[0.01]]))
    for operator, hosts in enumerate(queries.instances):
        for host in sorted(set(range(queries.n_hosts)) - set(hosts)):
            more = [(*row, host) if index == operator else row for index, row in enumerate(queries.instances)]
            with_replica = Queries(queries.n_hosts, tuple(more), queries.operators)
            expected = mean_by_hand(queries, failures) - mean_by_hand(with_replica, failures)
            found = replica_gain(queries, failures, operator, host)
            assert close(found.low[0], expected)
            assert (found.low == found.high).all()


def test_nothing_is_gained_until_both_operators_of_a_host_are_replicated() -> None:
    """Query out degree would call both of them worth 1; one alone gains nothing."""
    failures = equal_hosts(0.02, 2)
    alone = Queries(2, ((0,), (0,)), ((0, 1),))
    assert replica_gain(alone, failures, 0, 1).low[0] == 0
    one = Queries(2, ((0, 1), (0,)), ((0, 1),))
    assert np.isclose(replica_gain(one, failures, 1, 1).low[0], 0.02 * 0.98, rtol=1e-14)


@pytest.mark.parametrize(("operator", "host"), [(1, 0), (0, 0), (0, 2), (-1, 1)])
def test_a_replica_that_cannot_be_is_refused(operator: int, host: int) -> None:
    with pytest.raises(InputError, match=r"must be a host without|is not an operator"):
        replica_gain(Queries(2, ((0,),), ((0,),)), equal_hosts(0.1, 2), operator, host)
