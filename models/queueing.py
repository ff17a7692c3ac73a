"""Closed forms of queueing theory, against which the simulator is tested and which answer simple questions.

Rates in tuples per second, times in seconds. Sources: Kleinrock, Queueing Systems I (1975); Gross and Harris,
Fundamentals of Queueing Theory (3rd ed., 1998); Burke, The Output of a Queuing System (Operations Research 4,
1956); Burke, Delays in Single-Server Queues with Batch Input (Operations Research 23, 1975); Jackson, Networks of
Waiting Lines (Operations Research 5, 1957).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SteadyState:
    """Long-run means of one station: busy share per server, wait before service [s], tuples that wait."""

    utilisation: float
    wait_s: float
    queue: float


def _steady(utilisation: float, rate_per_s: float, wait_s: float) -> SteadyState:
    return SteadyState(utilisation, wait_s, rate_per_s * wait_s)  # Little's law


def _utilisation(rate_per_s: float, service_s: float, servers: int = 1) -> float:
    utilisation = rate_per_s * service_s / servers
    if rate_per_s < 0 or service_s <= 0 or servers < 1:
        raise ValueError(f"no queue: rate {rate_per_s}, service {service_s}, servers {servers}")
    if utilisation >= 1:
        raise ValueError(f"no steady state: utilisation {utilisation} is not below 1")
    return utilisation


def mm1(rate_per_s: float, service_s: float) -> SteadyState:
    """M/M/1 (Kleinrock, section 3.2). Raises ValueError at a utilisation of 1 or more, as all functions here.

    >>> mm1(70.0, 0.01).wait_s
    0.02333...
    """
    return mg1(rate_per_s, service_s, 1.0)


def md1(rate_per_s: float, service_s: float) -> SteadyState:
    """M/D/1: half the wait of M/M/1.

    >>> md1(50.0, 0.01).wait_s
    0.005
    """
    return mg1(rate_per_s, service_s, 0.0)


def mg1(rate_per_s: float, service_s: float, scv: float) -> SteadyState:
    """M/G/1 with squared coefficient of variation `scv` of the service time (Pollaczek and Khinchine: Kleinrock,
    section 5.6).

    >>> mg1(50.0, 0.01, 2.0).wait_s
    0.015
    """
    utilisation = _utilisation(rate_per_s, service_s)
    return _steady(utilisation, rate_per_s, utilisation * service_s * (1 + scv) / (2 * (1 - utilisation)))


def erlang_c(load: float, servers: int) -> float:
    """Share of tuples that wait in M/M/c with `load` = rate x service time (Gross and Harris, section 2.3).

    >>> round(erlang_c(2.0, 3), 4)
    0.4444
    """
    blocked = 1.0  # Erlang B by its recursion, which does not overflow
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return servers * blocked / (servers - load * (1 - blocked))


def mmc(rate_per_s: float, service_s: float, servers: int) -> SteadyState:
    """M/M/c with one queue for all servers.

    >>> round(mmc(200.0, 0.01, 3).wait_s, 6)
    0.004444
    """
    utilisation = _utilisation(rate_per_s, service_s, servers)
    load = rate_per_s * service_s
    return _steady(utilisation, rate_per_s, erlang_c(load, servers) * service_s / (servers - load))


def batch_mg1(
    rate_per_s: float, batch_mean: float, batch_second_moment: float, service_s: float, scv: float
) -> SteadyState:
    """M^[X]/G/1: batches arrive as a Poisson process, `rate_per_s` counts tuples (Burke 1975).

    A batch as a whole is a customer of M/G/1; a tuple waits besides for those of its batch that come before it,
    E[X (X - 1)] / (2 E[X]) on average.

    >>> batch_mg1(50.0, 1.0, 1.0, 0.01, 1.0) == mm1(50.0, 0.01)
    True
    """
    utilisation = _utilisation(rate_per_s, service_s)
    variance = batch_mean * scv * service_s**2 + (batch_second_moment - batch_mean**2) * service_s**2
    mean = batch_mean * service_s
    first = mg1(rate_per_s / batch_mean, mean, variance / mean**2).wait_s
    before = (batch_second_moment - batch_mean) / (2 * batch_mean)
    return _steady(utilisation, rate_per_s, first + before * service_s)


def jackson(
    arrivals_per_s: Sequence[float],
    routing: Sequence[Sequence[float]],
    service_s: Sequence[float],
    servers: Sequence[int] | None = None,
) -> list[SteadyState]:
    """The stations of an open network of M/M/c stations (Jackson 1957; without loops and splits it is Burke's tandem).

    `routing[i][j]` is the share of what leaves station i that goes to j. Each station is as if its arrivals were a
    Poisson process with the rate of the traffic equations.

    >>> [round(station.wait_s, 4) for station in jackson([50.0, 0.0], [[0, 1], [0, 0]], [0.01, 0.016])]
    [0.01, 0.064]
    """
    count = len(arrivals_per_s)
    rates = np.linalg.solve(np.eye(count) - np.asarray(routing, float).T, np.asarray(arrivals_per_s, float))
    number = servers or [1] * count
    return [mmc(float(rates[k]), service_s[k], number[k]) for k in range(count)]


def drain(backlog: int, service_s: float, period_s: float, next_arrival_s: float) -> tuple[int, float]:
    """How a D/D/1 queue works off an outage: (tuples served without a pause, seconds until it is idle).

    When the server comes back, `backlog` tuples wait; the next one comes after `next_arrival_s`, then one every
    `period_s` > `service_s`. This is what a host's crash does to its only task: while it is down everything waits
    upstream, and what was processed after the last checkpoint waits again. A tuple that comes at the instant at
    which the server gets idle ends the drain. In the limit of small tuples the time is that of a fluid,
    backlog x service / (1 - utilisation).

    >>> drain(100, 0.5, 1.0, 1.0)
    (198, 99.0)
    """
    if service_s >= period_s:
        raise ValueError(f"the queue never drains: service {service_s}, period {period_s}")
    if backlog == 0:
        return 0, 0.0
    # Idle after j new ones once (backlog + j) service <= next + j period, when number j + 1 has not come yet.
    during = max(0, math.ceil(round((backlog * service_s - next_arrival_s) / (period_s - service_s), 9)))
    return backlog + during, (backlog + during) * service_s
