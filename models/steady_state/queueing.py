"""Queueing formulas for the estimate of waiting times: M/M/c, M/G/c and processor sharing.

Rates in tuples per second, times in seconds. Sources: Gross and Harris, Fundamentals of Queueing Theory (3rd ed., 1998)
for M/M/c; Lee and Longton (Operational Research Quarterly 10, 1959) for M/G/c; Kleinrock, Queueing Systems II (1976),
and Cohen, The Multiple Phase Service Network with Generalized Processor Sharing (Acta Informatica 12, 1979), for
processor sharing. Stations raise ValueError where there is no steady state: at a utilisation of 1 or more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SteadyState:
    """Long-run means of one station: busy share per server, wait before service [s], tuples that wait."""

    utilisation: float
    wait_s: float
    queue: float


def _steady(utilisation: float, rate_per_s: float, wait_s: float) -> SteadyState:
    """Return the steady state with this wait; the queue follows by Little's law (Operations Research 1961)."""
    return SteadyState(utilisation, wait_s, rate_per_s * wait_s)  # Little's law


def _utilisation(rate_per_s: float, service_s: float, servers: int = 1) -> float:
    """Return rate x service / servers; raises ValueError for no queue, and for one without a steady state."""
    utilisation = rate_per_s * service_s / servers
    if rate_per_s < 0 or service_s <= 0 or servers < 1:
        raise ValueError(f"no queue: rate {rate_per_s}, service {service_s}, servers {servers}")
    if utilisation >= 1:
        raise ValueError(f"no steady state: utilisation {utilisation} is not below 1")
    return utilisation


def erlang_c(load: float, servers: int) -> float:
    """Return the share of tuples that wait in M/M/c with `load` = rate x service time (Gross and Harris, section 2.3).

    >>> round(erlang_c(2.0, 3), 4)
    0.4444
    """
    blocked = 1.0  # Erlang B by its recursion, which does not overflow
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return servers * blocked / (servers - load * (1 - blocked))


def mmc(rate_per_s: float, service_s: float, servers: int) -> SteadyState:
    """Return the steady state of M/M/c, with one queue for all servers.

    >>> round(mmc(200.0, 0.01, 3).wait_s, 6)
    0.004444
    """
    utilisation = _utilisation(rate_per_s, service_s, servers)
    load = rate_per_s * service_s
    return _steady(utilisation, rate_per_s, erlang_c(load, servers) * service_s / (servers - load))


def mgc(rate_per_s: float, service_s: float, scv: float, servers: int) -> SteadyState:
    """Return the steady state of M/G/c: the wait of M/M/c times (1 + scv) / 2.

    Exact for one server, by Pollaczek and Khinchine, and for scv = 1; an approximation otherwise. `scv` is the squared
    coefficient of variation of the service time.

    Source: Lee and Longton, Queueing Processes Associated with Airline Passenger Check-in (Operational Research
    Quarterly 10, 1959).

    >>> round(mgc(50.0, 0.01, 2.0, 1).wait_s, 6), round(mgc(200.0, 0.01, 0.0, 3).wait_s, 6)
    (0.015, 0.002222)
    """
    plain = mmc(rate_per_s, service_s, servers)
    return _steady(plain.utilisation, rate_per_s, plain.wait_s * (1 + scv) / 2)


def processor_sharing_s(rate_per_s: float, service_s: float, cores: int = 1, size_s: float | None = None) -> float:
    """Return the mean time [s] from arrival to departure in M/G/c with processor sharing.

    With `size_s` that of a tuple with this service time. All tuples present are served at once, each by a core or an
    equal share of the cores. The law of the service does not matter, so the mean is that of M/M/c, and a tuple's share
    of it is in proportion to its service (Kleinrock II, chapter 4 for one core; Cohen 1979).

    >>> round(processor_sharing_s(60.0, 0.01), 6), round(processor_sharing_s(60.0, 0.01, size_s=0.002), 6)
    (0.025, 0.005)
    """
    mean = mmc(rate_per_s, service_s, cores).wait_s + service_s
    return mean if size_s is None else mean * size_s / service_s
