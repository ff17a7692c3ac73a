"""Closed forms of queueing theory, against which simulator and estimates are tested.

Rates in tuples per second, times in seconds. M/M/c and processor sharing are product code, since estimates use them
(`models.steady_state.queueing`); `test_queueing` holds all formulas against balance equations. Sources: Kleinrock,
Queueing Systems I (1975); Gross and Harris, Fundamentals of Queueing Theory (3rd ed., 1998); Burke, The Output of a
Queuing System (Operations Research 4, 1956); Burke, Delays in Single-Server Queues with Batch Input (Operations
Research 23, 1975); Jackson, Networks of Waiting Lines (Operations Research 5, 1957); Cobham, Priority Assignment in
Waiting Line Problems (Journal of the Operations Research Society of America 2, 1954); Levy and Yechiali, Utilization of
Idle Time in an M/G/1 Queueing System (Management Science 22, 1975); Kleinrock, Queueing Systems II (1976); Cohen, The
Multiple Phase Service Network with Generalized Processor Sharing (Acta Informatica 12, 1979); Neuts, Matrix-Geometric
Solutions in Stochastic Models (1981); Towsley and Tripathi, A Single Server Priority Queue with Server Failures and
Queue Flushing (Operations Research Letters 10, 1991).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.steady_state.queueing import SteadyState, mmc


@dataclass(frozen=True)
class LossyState(SteadyState):
    """Long-run means of a station that loses tuples; `wait_s` is the mean of those whose service began."""

    lost: float
    """Share of the arrivals that are never served to the end."""


@dataclass(frozen=True)
class TandemState:
    """Long-run means of two stations with a bounded queue between: per tuple [s], and the first one's blocked share."""

    first_wait_s: float  # creation to the begin of service at the first station, at the source or in its queue
    blocked_s: float  # served at the first station, without a place at the second
    second_wait_s: float  # in the queue between
    sojourn_s: float  # creation to the end of service at the second station
    blocked: float  # share of time


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


def mg1_vacations(
    rate_per_s: float, service_s: float, scv: float, vacation_s: float, vacation_scv: float
) -> SteadyState:
    """M/G/1 whose server leaves when it is idle, and again as long as nobody waits when it comes back.

    To the wait of M/G/1 comes what is left of a vacation, E[V^2] / (2 E[V]) on average (Levy and Yechiali 1975).

    >>> mg1_vacations(50.0, 0.01, 1.0, 0.004, 0.0).wait_s
    0.012
    """
    plain = mg1(rate_per_s, service_s, scv)
    if vacation_s <= 0:
        raise ValueError(f"no vacation: {vacation_s}")
    return _steady(plain.utilisation, rate_per_s, plain.wait_s + vacation_s * (1 + vacation_scv) / 2)


def mg1_single_vacation(
    rate_per_s: float, service_s: float, scv: float, vacation_s: float, vacation_scv: float, nobody: float
) -> SteadyState:
    """M/G/1 whose server leaves once when it is idle, and then waits for the next one.

    `nobody` is the chance that nobody comes during a vacation: exp(-rate x vacation) if all are equally long,
    1 / (1 + rate x vacation) if they are exponential. To the wait of M/G/1 comes what is left of a vacation where
    an arrival finds one, as the first after idle times does not (Levy and Yechiali 1975).

    >>> round(mg1_single_vacation(50.0, 0.01, 1.0, 0.004, 1.0, 1 / 1.2).wait_s, 6)
    0.010774
    """
    plain = mg1(rate_per_s, service_s, scv)
    if vacation_s <= 0 or not 0 <= nobody <= 1:
        raise ValueError(f"no vacation: {vacation_s}, nobody comes in {nobody}")
    second = vacation_s**2 * (1 + vacation_scv)
    left = rate_per_s * second / (2 * (nobody + rate_per_s * vacation_s))
    return _steady(plain.utilisation, rate_per_s, plain.wait_s + left)


def mg1_priority(rates_per_s: Sequence[float], services_s: Sequence[float], scvs: Sequence[float]) -> list[SteadyState]:
    """M/G/1 with classes of which the first goes first; nothing is interrupted (Cobham 1954; Kleinrock II, chapter 3).

    Class k waits R / ((1 - load of the classes before it) (1 - that load and its own)), where R is the mean rest of
    the service that an arrival finds.

    >>> [round(one.wait_s, 6) for one in mg1_priority([30.0, 20.0], [0.01, 0.01], [1.0, 1.0])]
    [0.007143, 0.014286]
    """
    classes = list(zip(rates_per_s, services_s, scvs, strict=True))
    loads = [_utilisation(rate, service) for rate, service, _ in classes]
    if sum(loads) >= 1:
        raise ValueError(f"no steady state: utilisation {sum(loads)} is not below 1")
    rest = sum(rate * service**2 * (1 + scv) / 2 for rate, service, scv in classes)
    upto = np.concatenate(([0.0], np.cumsum(loads)))
    return [
        _steady(loads[k], rate, float(rest / ((1 - upto[k]) * (1 - upto[k + 1]))))
        for k, (rate, _, _) in enumerate(classes)
    ]


def mm1k(rate_per_s: float, service_s: float, places: int) -> LossyState:
    """M/M/1/K: who finds all `places` taken, that of the service among them, is lost (Gross and Harris, section 2.4).

    A utilisation of 1 or more has a steady state, too.

    >>> state = mm1k(100.0, 0.01, 4)
    >>> round(state.lost, 6), round(state.wait_s, 6)
    (0.2, 0.015)
    """
    if rate_per_s <= 0 or service_s <= 0 or places < 1:
        raise ValueError(f"no queue: rate {rate_per_s}, service {service_s}, places {places}")
    share = _birth_and_death(rate_per_s * service_s, places)
    queue = float(share[1:] @ np.arange(places))
    lost = float(share[-1])
    return LossyState(float(1 - share[0]), queue / (rate_per_s * (1 - lost)), queue, lost)


def _birth_and_death(ratio: float, most: int) -> np.ndarray:
    """Return the shares of time with 0 .. most, (most + 1,), where each is `ratio` times the one before."""
    logs = np.arange(most + 1) * math.log(ratio)
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def mm1_flushed(rate_per_s: float, service_s: float, mtbf_s: float, down_s: float) -> LossyState:
    """M/M/1 whose server dies after exponential times, loses all that is there, and everything while it is down.

    While it is up, n tuples are there with probability (1 - r) r^n, r the smaller root of
    r^2 / s - (a + 1 / s + f) r + a = 0 with arrivals a, service s and failures f per second (Towsley and Tripathi 1991
    without priority). n tuples ahead survive to their service with probability (1 + f s)^-n. There is a steady state at
    any load. Of the law of the down times only the mean `down_s` matters. It is what happens to a task without fault
    tolerance that starts again, empty, on another host as soon as its death is detected.

    >>> round(mm1_flushed(70.0, 0.01, 1e9, 1.0).wait_s, 6) == round(mm1(70.0, 0.01).wait_s, 6)
    True
    """
    if rate_per_s <= 0 or service_s <= 0 or mtbf_s <= 0 or down_s < 0:
        raise ValueError(f"no queue: rate {rate_per_s}, service {service_s}, mtbf {mtbf_s}, down {down_s}")
    served, fail = 1 / service_s, 1 / mtbf_s
    total = rate_per_s + served + fail
    root = 2 * rate_per_s / (total + math.sqrt(total**2 - 4 * rate_per_s * served))  # without cancellation
    up = mtbf_s / (mtbf_s + down_s)
    reach = root * served / (served + fail)
    wait = reach / (1 - reach) / (served + fail)
    return LossyState(up * root, wait, up * root**2 / (1 - root), 1 - up * root * served / rate_per_s)


def blocking_capacity_per_s(first_s: float, second_s: float, between: int) -> float:
    """Tuples per second through two M/M/1 stations that never lack input, with `between` places between them.

    What has been served at the first and not left the second, `between` + 2 tuples at most, is a birth and death
    process: the first serves on until its tuple finds no place.

    >>> round(blocking_capacity_per_s(0.01, 0.01, 0), 6)
    66.666667
    """
    if first_s <= 0 or second_s <= 0 or between < 0:
        raise ValueError(f"no tandem: services {first_s} and {second_s}, {between} places")
    return float(1 - _birth_and_death(second_s / first_s, between + 2)[0]) / second_s


def blocking_tandem(rate_per_s: float, first_s: float, second_s: float, between: int) -> TandemState:
    """Two M/M/1 stations with `between` places between them and blocking after service; nothing is lost.

    A tuple that ends its service at the first station and finds no place keeps the station until there is one. What
    comes waits at the source or before the first station, without a bound. Exact, by the matrix-geometric solution
    (Neuts 1981, chapter 3): level = tuples not yet served at the first station, phase = those that have been and not
    left the second. Raises ValueError at `blocking_capacity_per_s` or more.

    >>> state = blocking_tandem(50.0, 0.01, 0.01, 0)
    >>> round(state.first_wait_s, 5), round(state.blocked_s, 5)
    (0.032, 0.004)
    """
    capacity = blocking_capacity_per_s(first_s, second_s, between)
    if not 0 < rate_per_s < capacity:
        raise ValueError(f"no steady state: rate {rate_per_s} is not between 0 and the capacity {capacity}")
    phases = between + 3
    up = rate_per_s * np.eye(phases)
    down = np.eye(phases, k=1) / first_s
    within = np.eye(phases, k=-1) / second_s
    empty = within - np.diag((up + within).sum(axis=1))
    busy = empty - np.diag(down.sum(axis=1))
    factor = _level_factor(up, busy, down)
    # Level 0 is in balance with level 1 = level 0 x factor, and all levels together are 1.
    rest = np.linalg.inv(np.eye(phases) - factor)
    balance = np.column_stack([(empty + factor @ down)[:, 1:], rest.sum(axis=1)])
    level0 = np.linalg.solve(balance.T, np.eye(phases)[-1])
    phase = level0 @ rest  # share of time in each phase
    upstream = float(level0 @ factor @ rest @ rest @ np.ones(phases))
    number = np.arange(phases)
    second_wait = float(phase @ np.clip(number - 1, 0, between)) / rate_per_s
    return TandemState(
        first_wait_s=upstream / rate_per_s - first_s,
        blocked_s=float(phase[-1]) / rate_per_s,
        second_wait_s=second_wait,
        sojourn_s=(upstream + float(phase @ number)) / rate_per_s,
        blocked=float(phase[-1]),
    )


def _level_factor(up: np.ndarray, local: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Return R, with which a level is the one below it times R: up + R local + R^2 down = 0, by logarithmic reduction.

    Latouche and Ramaswami, A Logarithmic Reduction Algorithm for Quasi-Birth-Death Processes (Journal of Applied
    Probability 30, 1993).
    """
    inverse = np.linalg.inv(-local)
    higher, lower = inverse @ up, inverse @ down
    reached, path = lower.copy(), higher.copy()  # of the level below, and what is left to be asked
    for _ in range(64):
        both = np.linalg.inv(np.eye(len(up)) - higher @ lower - lower @ higher)
        higher, lower = both @ higher @ higher, both @ lower @ lower
        reached = reached + path @ lower
        path = path @ higher
        if np.abs(path).max() < 1e-18:
            break
    return np.asarray(up @ np.linalg.inv(-local - up @ reached))


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
    """Return how a D/D/1 queue works off an outage: (tuples served without a pause, seconds until it is idle).

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
