"""Mean latency of a tuple from source to sink by mean rates, and the path with the largest one.

At an operator: its service on the hosts of its tasks, and the wait of an M/G/c queue in steady state
(`models.steady_state.queueing`), both weighted by the input of each task. A task is a station with a server for each of
its threads. If the tasks of a host share fewer cores than they have threads, the wait is at least that of one station
with all their tuples and a server for each core, without priorities. Between two operators: the latency of the network
and the bytes over the bandwidth of the sender, weighted by how often the two tasks are on different hosts.

Not in it: time in windows and for the other side of a join, the time until post-dated outputs leave (at a sink their
latency counts from then), waits for links and for places in bounded queues, checkpoints, failures, and peaks of a rate.

The formulas assume Poisson arrivals at every station: streams that are merged and split are close to that (Kleinrock's
independence approximation).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import networkx as nx
import numpy as np

from models.scenario.description import ScenarioDescription
from models.steady_state import queueing
from models.steady_state.load import Load, shares_by_host, speeds
from models.topology import layout
from models.topology.chains import threads_of


@dataclass(frozen=True)
class Step:
    """An operator on a path: the mean time of a tuple on the way to it, waiting at it and being served [s].

    `wait_s` is None where a task or its shared cores are overloaded: then the wait grows for as long as the rate stays.
    It is `rough` where tasks wait for threads of their own and for shared cores: the longer of the two waits.
    """

    operator: str
    link_s: float
    wait_s: float | None
    service_s: float
    rough: bool = False


@dataclass(frozen=True)
class CriticalPath:
    """The path from a source to a sink that takes longest on average."""

    steps: tuple[Step, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operators from the source to the sink."""
        return tuple(step.operator for step in self.steps)

    @property
    def link_s(self) -> float:
        """Return the time on links."""
        return sum(step.link_s for step in self.steps)

    @property
    def service_s(self) -> float:
        """Return the time in service."""
        return sum(step.service_s for step in self.steps)

    @property
    def wait_s(self) -> float | None:
        """Return the time in queues; None where one grows without end."""
        waits = [step.wait_s for step in self.steps if step.wait_s is not None]
        return sum(waits) if len(waits) == len(self.steps) else None

    @property
    def latency_s(self) -> float | None:
        """Return the sum of all; None where a queue grows without end."""
        return None if self.wait_s is None else self.link_s + self.wait_s + self.service_s

    @property
    def rough(self) -> bool:
        """Return whether a wait on the path is rough."""
        return any(step.rough for step in self.steps)


def critical_path(scenario: ScenarioDescription, load: Load) -> CriticalPath:
    """Return the path that takes longest in a valid scenario with this load.

    The wait at an overloaded operator has no mean; for the choice of the path it counts as the whole run.

    It is the longest path of a graph without cycles, weighted by mean times. Where a wait is rough, the latency is a
    lower bound.
    """
    times = MeanTimes(scenario, load)
    waits, links, service, rough = times.waits_s(), times.links_s(), times.services_s(), times.rough()
    graph: nx.DiGraph[str] = nx.DiGraph()
    for (upstream, name), link_s in links.items():
        wait_s = waits[name]
        at_s = (scenario.duration_s if wait_s is None else wait_s) + service[name]
        graph.add_edge(upstream, name, time_s=link_s + at_s)
    path = nx.dag_longest_path(graph, weight="time_s")
    # networkx ends the path where the rest takes no time; it has to reach a sink.
    while graph[path[-1]]:
        path.append(next(iter(graph[path[-1]])))
    came = [0.0, *(links[pair] for pair in pairwise(path))]
    steps = (
        Step(name, link_s, waits[name], service[name], name in rough) for name, link_s in zip(path, came, strict=True)
    )
    return CriticalPath(tuple(steps))


class MeanTimes:
    """Mean times of a tuple by operator and by stream, in a valid scenario with this load.

    A station is a task with its threads. Where tasks share too few cores, all tasks of the host together are a station
    with a server for each core, too, and the longer of the two waits counts.
    """

    def __init__(self, scenario: ScenarioDescription, load: Load) -> None:
        self.scenario, self.load = scenario, load
        self.placed, self.hosts = layout.placement(scenario), layout.hosts(scenario)
        self._service_s = {  # by task, on the host where it is placed
            name: operator.service.mean_s / speeds(scenario, name, self.placed, self.hosts)
            for name, operator in scenario.operators.items()
            if operator.service is not None
        }
        self._stations = list(self._tasks())
        self._contended = self._short_of_cores()

    def services_s(self) -> dict[str, float]:
        """Return operator -> mean service of a tuple on the hosts of its tasks [s]; 0 without a service."""
        shares = {name: own.task_shares for name, own in self.load.operators.items()}
        found = {name: float(np.dot(shares[name], service_s)) for name, service_s in self._service_s.items()}
        return {name: found.get(name, 0.0) for name in self.scenario.operators}

    def waits_s(self) -> dict[str, float | None]:
        """Return operator -> mean wait of a tuple for its service [s]; None where a queue grows without end."""
        at_hosts = {host: _of_all(found) for host, found in self._contended.items()}
        found: dict[str, float | None] = dict.fromkeys(self.scenario.operators, 0.0)
        for name, station in self._stations:
            wait_s = _wait_s(station.rate_per_s, station.service_s, station.scv, station.threads)
            if station.host in at_hosts:
                for_core_s = self._for_core_s(station, at_hosts[station.host])
                # Two waits that overlap: for a thread of the task and for a core. The longer one is a lower bound.
                wait_s = None if wait_s is None or for_core_s is None else max(wait_s, for_core_s)
            scan_s = self.scenario.operators[name].round_s
            if wait_s is not None and scan_s:  # M/G/1 with gated service, which leaves for a scan (Takagi 1991)
                busy = station.rate_per_s * station.service_s
                wait_s += scan_s * (1 + busy) / (2 * (1 - busy))
            before = found[name]
            found[name] = None if wait_s is None or before is None else before + station.share * wait_s
        return found

    def rough(self) -> set[str]:
        """Return the operators of which tasks wait for threads of their own and for shared cores."""
        both = {
            host
            for host, stations in self._contended.items()
            if any(one.threads < self.hosts[host].cores for one in stations)
        }
        return {name for name, station in self._stations if station.host in both}

    def _short_of_cores(self) -> dict[str, list[_Station]]:
        """Return host -> its tasks, of the hosts where tasks share fewer cores than they have threads."""
        by_host: dict[str, list[_Station]] = defaultdict(list)
        for _, station in self._stations:
            if self.hosts[station.host].cpu != "dedicated":
                by_host[station.host].append(station)
        threads = {host: sum(one.threads for one in found) for host, found in by_host.items()}
        return {host: found for host, found in by_host.items() if threads[host] > self.hosts[host].cores}

    def _for_core_s(self, station: _Station, all_s: _Station) -> float | None:
        """Return the mean wait of a task's tuples as if all tasks of its host had as many threads as it has cores."""
        group = self.hosts[station.host]
        wait_s = _wait_s(all_s.rate_per_s, all_s.service_s, all_s.scv, group.cores)
        if wait_s is None or group.cpu == "shared":
            return wait_s
        size = all_s.rate_per_s, all_s.service_s, group.cores, station.service_s
        return queueing.processor_sharing_s(*size) - station.service_s

    def _tasks(self) -> Iterator[tuple[str, _Station]]:
        """Yield the operator and what comes to it, for each task that serves tuples."""
        chained = {name: names for names in threads_of(self.scenario) for name in names}
        for name, service_s in self._service_s.items():
            if name not in chained:
                yield from ((name, station) for _, station in self._of(name, service_s))
        for names in dict.fromkeys(chained.values()):
            yield from self._thread(names)

    def _of(self, name: str, service_s: np.ndarray) -> Iterator[tuple[int, _Station]]:
        """Yield (index, what comes to it) of the tasks of an operator that have something to do."""
        operator, own = self.scenario.operators[name], self.load.operators[name]
        scv = operator.service.scv if operator.service else 0.0
        shares, times = own.task_shares.tolist(), service_s.tolist()
        for index, (share, time_s) in enumerate(zip(shares, times, strict=True)):
            rate_per_s = own.flow.rate_in.mean_per_s * share
            if rate_per_s:
                host = self.placed[layout.task_name(name, index)]
                yield index, _Station(host, operator.threads, share, rate_per_s, time_s, scv)

    def _thread(self, names: tuple[str, ...]) -> Iterator[tuple[str, _Station]]:
        """Yield the heads of a chain, with all that a tuple takes its thread; nothing waits within it.

        The number of tuples at an operator of the chain for one at its head is taken to be one of two whole numbers.
        """
        operators, load = self.scenario.operators, self.load.operators
        heads = [name for name in names if not {*operators[name].inputs} & {*names}]
        tasks = [dict(self._of(name, self._service_s[name])) for name in names if name in self._service_s]
        for index in range(operators[names[0]].parallelism):
            rate_per_s = sum(
                load[name].flow.rate_in.mean_per_s * float(load[name].task_shares[index]) for name in heads
            )
            mean_s = variance = 0.0
            for own in (found[index] for found in tasks if index in found and rate_per_s):
                each = own.rate_per_s / rate_per_s
                mean_s += each * own.service_s
                variance += (each * own.scv + each % 1 * (1 - each % 1)) * own.service_s**2
            if mean_s:
                host = self.placed[layout.task_name(names[0], index)]
                for name in heads:
                    share = float(load[name].task_shares[index])
                    yield name, _Station(host, 1, share, rate_per_s, mean_s, variance / mean_s**2)

    def links_s(self) -> dict[tuple[str, str], float]:
        """Return (upstream, reader) -> mean time of a tuple between their tasks [s]."""
        scenario, placed = self.scenario, self.placed
        sizes, groups = layout.output_bytes(scenario), self.hosts

        def leaves_s(host: str, upstream: str) -> float:
            bandwidth = groups[host].network_bytes_per_s
            return scenario.network.latency_s + (sizes[upstream] / bandwidth if bandwidth else 0.0)

        shares = {name: own.task_shares for name, own in self.load.operators.items()}
        here = {name: shares_by_host(name, own, placed) for name, own in shares.items()}
        evenly = {name: shares_by_host(name, np.full(len(own), 1 / len(own)), placed) for name, own in shares.items()}
        found = {}
        for name, operator in scenario.operators.items():
            for upstream, partitioning in operator.inputs.items():
                if partitioning == "forward":
                    sent = shares[upstream].tolist()
                    ends = ((placed[layout.task_name(one, k)] for one in (upstream, name)) for k in range(len(sent)))
                    pairs = zip(sent, ends, strict=True)
                    moves = ((share, start) for share, (start, end) in pairs if start != end)
                else:
                    got = (here if partitioning == "key" else evenly)[name]
                    moves = ((share * (1 - got.get(host, 0.0)), host) for host, share in here[upstream].items())
                found[upstream, name] = sum(max(0.0, share) * leaves_s(host, upstream) for share, host in moves)
        return found


class _Station(NamedTuple):
    """A queue, as M/G/c sees it.

    `threads`: servers. `share`: of the operator's input. `rate_per_s`: arrivals. `service_s`, `scv`: mean and squared
    coefficient of variation of a service.
    """

    host: str
    threads: int
    share: float
    rate_per_s: float
    service_s: float
    scv: float


def _of_all(stations: list[_Station]) -> _Station:
    """Return the tasks of a host as one station: the moments of a service are those of the mixture."""
    rate_per_s = sum(one.rate_per_s for one in stations)
    mean_s = sum(one.rate_per_s * one.service_s for one in stations) / rate_per_s
    # Moments of a mixture are the weighted sums of the moments; E[S^2] = mean^2 (1 + scv).
    second = sum(one.rate_per_s * one.service_s**2 * (1 + one.scv) for one in stations) / rate_per_s
    threads = sum(one.threads for one in stations)
    return _Station(stations[0].host, threads, 1.0, rate_per_s, mean_s, second / mean_s**2 - 1)


@lru_cache(maxsize=1024)  # tasks of an operator are alike as a rule
def _wait_s(rate_per_s: float, service_s: float, scv: float, servers: int) -> float | None:
    """Return the mean wait [s] in M/G/c; None without a steady state."""
    if rate_per_s * service_s >= servers:
        return None  # no steady state: the queue grows as long as the run lasts
    return queueing.mgc(rate_per_s, service_s, scv, servers).wait_s
