"""Closed forms against each other, their limits, and printed values."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import numpy as np
import pytest
import queueing_formulas
from queueing_formulas import (
    batch_mg1,
    blocking_capacity_per_s,
    blocking_tandem,
    drain,
    jackson,
    md1,
    mg1,
    mg1_priority,
    mg1_single_vacation,
    mg1_vacations,
    mm1,
    mm1_flushed,
    mm1k,
)

from models.steady_state import queueing
from models.steady_state.queueing import erlang_c, mmc, processor_sharing_s

State = tuple[int, ...]


def stationary(start: State, moves: Callable[[State], Iterable[tuple[float, State]]]) -> dict[State, float]:
    """Brute force: the share of time in each state that can be reached, from the balance equations written out."""
    number, todo = {start: 0}, [start]
    flows = []
    while todo:
        state = todo.pop()
        for rate, other in moves(state):
            if other not in number:
                number[other] = len(number)
                todo.append(other)
            flows.append((number[state], number[other], rate))
    balance = np.zeros((len(number), len(number)))
    for origin, target, rate in flows:
        balance[target, origin] += rate
        balance[origin, origin] -= rate
    balance[0] = 1.0
    shares = np.linalg.solve(balance, np.eye(len(number))[0])
    return dict(zip(number, shares.tolist(), strict=True))


def mean(shares: dict[State, float], of: Callable[[State], float]) -> float:
    return sum(share * of(state) for state, share in shares.items())


@pytest.mark.parametrize("module", [queueing, queueing_formulas], ids=lambda module: module.__name__)
def test_examples_of_the_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


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


def test_exponential_vacations_wait_as_their_markov_chain() -> None:
    arrive, serve, back = 5.0, 10.0, 3.0

    def moves(state: State) -> Iterator[tuple[float, State]]:
        there, away = state
        if there < 150:
            yield arrive, (there + 1, away)
        if away and there:
            yield back, (there, 0)
        if not away:
            yield serve, (there - 1, int(there == 1))

    queue = mean(stationary((0, 1), moves), lambda state: max(0, state[0] - (not state[1])))
    assert mg1_vacations(arrive, 1 / serve, 1.0, 1 / back, 1.0).queue == pytest.approx(queue, rel=1e-9)


def test_a_single_exponential_vacation_waits_as_its_markov_chain() -> None:
    arrive, serve, back = 5.0, 10.0, 3.0

    def moves(state: State) -> Iterator[tuple[float, State]]:
        there, away = state
        if there < 150:
            yield arrive, (there + 1, away)
        if away:
            yield back, (there, 0)
        elif there:
            yield serve, (there - 1, int(there == 1))

    queue = mean(stationary((0, 1), moves), lambda state: max(0, state[0] - (not state[1])))
    found = mg1_single_vacation(arrive, 1 / serve, 1.0, 1 / back, 1.0, back / (back + arrive))
    assert found.queue == pytest.approx(queue, rel=1e-9)


def test_short_vacations_are_none() -> None:
    assert mg1_vacations(50.0, 0.01, 0.3, 1e-12, 0.0).wait_s == pytest.approx(mg1(50.0, 0.01, 0.3).wait_s)


def test_two_priorities_wait_as_their_markov_chain() -> None:
    arrive, serve, most = (2.0, 3.0), (10.0, 12.0), 22

    def moves(state: State) -> Iterator[tuple[float, State]]:
        first, second, served = state  # waiting of each class, class in service (2 = none)
        if served == 2:
            yield from ((arrive[k], (0, 0, k)) for k in (0, 1))
            return
        if first < most:
            yield arrive[0], (first + 1, second, served)
        if second < most:
            yield arrive[1], (first, second + 1, served)
        following = (first - 1, second, 0) if first else (0, second - 1, 1) if second else (0, 0, 2)
        yield serve[served], following

    shares = stationary((0, 0, 2), moves)
    for k, state in enumerate(mg1_priority(arrive, [1 / rate for rate in serve], [1.0, 1.0])):
        assert state.queue == pytest.approx(mean(shares, lambda at, k=k: at[k]), rel=1e-6)  # type: ignore[misc]


def test_priorities_obey_the_conservation_law() -> None:
    # Kleinrock II, section 3.4: load times wait, over all classes, is what it would be first come, first served.
    rates, services, scvs = [10.0, 30.0, 5.0], [0.02, 0.01, 0.05], [0.0, 1.0, 2.5]
    states = mg1_priority(rates, services, scvs)
    total, load = sum(rates), sum(state.utilisation for state in states)
    second = sum(a * s**2 * (1 + c) for a, s, c in zip(rates, services, scvs, strict=True)) / total
    alike = mg1(total, load / total, second / (load / total) ** 2 - 1).wait_s
    assert sum(state.utilisation * state.wait_s for state in states) == pytest.approx(load * alike)
    assert states[0].wait_s < alike < states[2].wait_s


def test_one_priority_is_none() -> None:
    (state,) = mg1_priority([30.0], [0.02], [0.7])
    assert state.wait_s == pytest.approx(mg1(30.0, 0.02, 0.7).wait_s)


@pytest.mark.parametrize("cores", [1, 2])
def test_short_and_long_tuples_share_the_processor_as_their_markov_chain(cores: int) -> None:
    # Exponential services with two means are a law of their own and tell whether time is in proportion to service.
    arrive, serve, most = (2.0, 0.5), (10.0, 2.0), 30

    def moves(state: State) -> Iterator[tuple[float, State]]:
        speed = min(1.0, cores / max(1, sum(state)))
        for k in (0, 1):
            if state[k] < most:
                yield arrive[k], (state[0] + (k == 0), state[1] + (k == 1))
            if state[k]:
                yield serve[k] * state[k] * speed, (state[0] - (k == 0), state[1] - (k == 1))

    shares = stationary((0, 0), moves)
    service = sum(a / s for a, s in zip(arrive, serve, strict=True)) / sum(arrive)
    for k in (0, 1):
        time = mean(shares, lambda at, k=k: at[k]) / arrive[k]  # type: ignore[misc]
        exact = processor_sharing_s(sum(arrive), service, cores, size_s=1 / serve[k])
        assert exact == pytest.approx(time, rel=1e-5)


def test_exponential_tuples_share_a_processor_as_long_as_they_queue_for_it() -> None:
    assert processor_sharing_s(60.0, 0.01) == pytest.approx(mm1(60.0, 0.01).wait_s + 0.01)


@pytest.mark.parametrize("load", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("places", [1, 2, 9])
def test_a_bounded_queue_is_its_markov_chain(load: float, places: int) -> None:
    def moves(state: State) -> Iterator[tuple[float, State]]:
        if state[0] < places:
            yield load, (state[0] + 1,)
        if state[0]:
            yield 1.0, (state[0] - 1,)

    shares = stationary((0,), moves)
    state = mm1k(load, 1.0, places)
    assert state.lost == pytest.approx(shares[places,])
    assert state.utilisation == pytest.approx(1 - shares[0,]) == pytest.approx(load * (1 - state.lost))
    assert state.queue == pytest.approx(mean(shares, lambda at: max(0, at[0] - 1)))
    assert state.wait_s == pytest.approx(state.queue / (load * (1 - state.lost)))


def test_many_places_are_enough_for_all() -> None:
    state = mm1k(70.0, 0.01, 5000)
    assert state.wait_s == pytest.approx(mm1(70.0, 0.01).wait_s)
    assert state.lost == pytest.approx(0.0)


@pytest.mark.parametrize("load", [0.6, 1.2])
def test_a_server_that_loses_its_queue_is_its_markov_chain(load: float) -> None:
    fail, down = 0.2, 2.0

    def moves(state: State) -> Iterator[tuple[float, State]]:
        there, up = state
        if not up:
            yield 1 / down, (0, 1)
            return
        yield fail, (0, 0)
        if there < 300:
            yield load, (there + 1, 1)
        if there:
            yield 1.0, (there - 1, 1)

    shares = stationary((0, 1), moves)
    state = mm1_flushed(load, 1.0, 1 / fail, down)
    assert state.utilisation == pytest.approx(mean(shares, lambda at: at[0] > 0))
    assert state.lost == pytest.approx(1 - state.utilisation / load)
    assert state.queue == pytest.approx(mean(shares, lambda at: max(0, at[0] - 1)))
    # A tuple's first steps: the one in service goes, or all is lost.
    reach, waited, both, of_all = 1.0, 0.0, 0.0, 0.0
    for there in range(300):
        both += shares[there, 1] * waited
        of_all += shares[there, 1] * reach
        waited, reach = (waited + reach / (1 + fail)) / (1 + fail), reach / (1 + fail)
    assert state.wait_s == pytest.approx(both / of_all)


@pytest.mark.parametrize("between", [0, 1, 4])
@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (0.7, 1.2), (1.3, 0.8)])
def test_blocking_after_service_is_its_markov_chain(between: int, first: float, second: float) -> None:
    arrive = 0.6 * blocking_capacity_per_s(first, second, between)

    def moves(state: State) -> Iterator[tuple[float, State]]:
        upstream, queued, busy, blocked = state
        if upstream < 120:
            yield arrive, (upstream + 1, queued, busy, blocked)
        if upstream and not blocked:  # ends at the first station: on to a server, a place, or nowhere
            if not busy:
                yield 1 / first, (upstream - 1, 0, 1, 0)
            elif queued < between:
                yield 1 / first, (upstream - 1, queued + 1, 1, 0)
            else:
                yield 1 / first, (upstream - 1, queued, 1, 1)
        if busy:  # a place is free: the blocked tuple takes it
            if blocked:
                yield 1 / second, (upstream, queued, 1, 0)
            elif queued:
                yield 1 / second, (upstream, queued - 1, 1, 0)
            else:
                yield 1 / second, (upstream, 0, 0, 0)

    shares = stationary((0, 0, 0, 0), moves)
    state = blocking_tandem(arrive, first, second, between)
    assert state.first_wait_s + first == pytest.approx(mean(shares, lambda at: at[0]) / arrive, rel=1e-7)
    assert state.second_wait_s == pytest.approx(mean(shares, lambda at: at[1]) / arrive)
    assert state.blocked == pytest.approx(mean(shares, lambda at: at[3]))
    assert state.blocked_s == pytest.approx(state.blocked / arrive)
    parts = state.first_wait_s + first + state.blocked_s + state.second_wait_s + second
    assert state.sojourn_s == pytest.approx(parts)


def test_a_tandem_with_many_places_is_that_of_jackson() -> None:
    one, two = jackson([50.0, 0.0], [[0, 1], [0, 0]], [0.01, 0.012])
    state = blocking_tandem(50.0, 0.01, 0.012, 200)
    assert state.first_wait_s == pytest.approx(one.wait_s)
    assert state.second_wait_s == pytest.approx(two.wait_s)
    assert state.blocked == pytest.approx(0.0)


def test_a_tandem_near_its_capacity_waits_long_but_is_solved() -> None:
    capacity = blocking_capacity_per_s(0.01, 0.01, 3)
    near, nearer = (blocking_tandem(capacity * share, 0.01, 0.01, 3).first_wait_s for share in (0.999, 0.9999))
    assert nearer / near == pytest.approx(10.0, rel=0.01)


def test_two_equal_stations_without_places_between_reach_two_thirds() -> None:
    # Hunt, Sequential Arrays of Waiting Lines (Operations Research 4, 1956).
    assert blocking_capacity_per_s(1.0, 1.0, 0) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no steady state"):
        blocking_tandem(0.67, 1.0, 1.0, 0)


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
