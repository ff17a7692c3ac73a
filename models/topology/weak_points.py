"""Effects of a loss on the graph of a job: failover regions, and operators, tasks and hosts that all paths need.

All is about the start of a run and the moment of a loss, before anything is recovered: a path from a source to a sink
is whole as long as one instance of each of its operators lives that its input reaches. Active replicas are instances;
spare hosts run nothing yet. That a path is whole does not mean that no key group is without its task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import networkx as nx

from models.scenario.scenario import Scenario
from models.topology import layout

_START, _END = " start", " end"  # no operator has a blank in its name
_MOST_STEPS = 500_000  # hosts looked at, operator by operator, in the search for a least set of them
_MOST_TRIED = 2_000  # sets tried in one round of it
_MOST_HOSTS = 100  # of a set that is searched for


@dataclass(frozen=True)
class WeakPoints:
    """Elements that all paths from sources to sinks need, and how many lost hosts leave no path.

    `operators`, `tasks`, `hosts`: each is a single point of failure; operators in the order in which paths meet them.
    `hosts_cut` are hosts whose loss leaves no path, and no set of less than `hosts_at_least` does: a least set where
    the two are equal.
    """

    operators: tuple[str, ...]
    tasks: tuple[str, ...]
    hosts: tuple[str, ...]
    hosts_cut: tuple[str, ...]
    hosts_at_least: int


def failover_regions(scenario: Scenario) -> list[tuple[str, ...]]:
    """Return the tasks that Flink restarts together when one of them fails, region by region, in file order.

    They are the connected components over streams that are not kept in between: a stream by forward joins pairs of
    tasks, any other all tasks of both operators. The simulator restarts them together with the method `region-restart`.

    Source: pipelined regions of Apache Flink ("Task Failure Recovery" in its documentation).
    """
    streams = [
        (upstream, name, layout.is_pairwise(partitioning))
        for name, operator in scenario.operators.items()
        for upstream, partitioning in operator.inputs.items()
    ]
    whole = {name for upstream, name, in_pairs in streams if not in_pairs for name in (upstream, name)}

    def node(name: str, index: int) -> str:
        return name if name in whole else layout.task_name(name, index)  # no operator has the name of a task

    graph: nx.Graph[str] = nx.Graph()
    for upstream, name, _ in streams:
        sliced = scenario.operators[name].parallelism if {upstream, name} - whole else 1
        graph.add_edges_from((node(upstream, index), node(name, index)) for index in range(sliced))
    region = {node: number for number, found in enumerate(nx.connected_components(graph)) for node in found}
    tasks: dict[int, list[str]] = {}
    for name, index in layout.tasks(scenario):
        tasks.setdefault(region[node(name, index)], []).append(layout.task_name(name, index))
    return [tuple(found) for found in tasks.values()]


def weak_points(scenario: Scenario) -> WeakPoints:
    """Return the single points of failure of a valid scenario, and a set of hosts that all paths need.

    Operators on every path are dominators of the end in the dataflow. The least set of hosts is searched for with a
    limit on the work: for large jobs the cut may be larger than the bound.
    """
    job = _Job(scenario)
    operators = _on_every_path(scenario)
    # Tasks of one operator can stand in for each other on a path: operators joined by forward have equally many.
    alone = [name for name in operators if scenario.operators[name].parallelism == 1 and len(job.hosts[name][0]) == 1]
    tasks = tuple(layout.task_name(name, 0) for name in alone)
    hosts = _hosts_on_every_path(job, operators)
    if hosts:
        return WeakPoints(operators, tasks, hosts, hosts[:1], 1)
    cut, least = _least_hosts(job, operators)
    return WeakPoints(operators, tasks, hosts, cut, least)


def operators_cut(scenario: Scenario) -> tuple[str, ...]:
    """Return a least set of operators, in file order, that all paths from sources to sinks go through."""
    # Menger's theorem: as large as the largest set of paths without a common operator.
    found = nx.minimum_node_cut(_with_ends(scenario), _START, _END)
    return tuple(name for name in scenario.operators if name in found)


def _with_ends(scenario: Scenario) -> nx.DiGraph[str]:
    """Return the dataflow with a node before all sources and one behind all sinks."""
    graph = layout.dataflow(scenario).copy()
    for name, operator in scenario.operators.items():
        if operator.kind == "source":
            graph.add_edge(_START, name)
        elif operator.kind == "sink":
            graph.add_edge(name, _END)
    return graph


def _on_every_path(scenario: Scenario) -> tuple[str, ...]:
    """Return the operators on all paths from sources to sinks, in the order in which paths meet them."""
    # An operator is on all paths to the end exactly if it dominates the end.
    above = nx.immediate_dominators(_with_ends(scenario), _START)
    found, here = [], above[_END]
    while here is not None and here != _START:
        found.append(here)
        here = above[here]
    return tuple(reversed(found))


class _Job:
    """Tasks that are reached from the sources without dead hosts; those of an operator are bits of a whole number."""

    def __init__(self, scenario: Scenario) -> None:
        self.operators = scenario.operators
        self.order = layout.topological(scenario)
        self.hosts = _hosts_of(scenario)
        self.steps = 0
        self._last: tuple[frozenset[str], dict[str, int]] = frozenset(), dict.fromkeys(self.order, 0)
        self._on: dict[str, dict[str, int]] = {name: {} for name in self.order}  # host -> tasks with an instance there
        self._replicated: dict[str, list[tuple[int, list[str]]]] = {name: [] for name in self.order}
        for name, tasks in self.hosts.items():
            for index, hosts in enumerate(tasks):
                for host in hosts:
                    self._on[name][host] = self._on[name].get(host, 0) | 1 << index
                if len(hosts) > 1:
                    self._replicated[name].append((1 << index, hosts))

    def path(self, dead: Collection[str]) -> list[str] | None:
        """Return the hosts of a path from a source to a sink without the dead ones, or None; as few as come by chance.

        Of several tasks the path takes one on a host that it has already.
        """
        self.steps += len(self.order)
        lost = self._lost(dead)
        reached: dict[str, int] = {}
        for name in self.order:
            operator = self.operators[name]
            # -1 has all bits: every task. By forward task k reaches task k alone, otherwise one task reaches all.
            comes = -1 if operator.kind == "source" else 0
            for upstream, partitioning in operator.inputs.items():
                comes |= reached[upstream] if layout.is_pairwise(partitioning) else -(reached[upstream] > 0)
            reached[name] = comes and comes & self._live(name, lost[name], dead)
            if operator.kind == "sink" and reached[name]:
                return self._back(name, reached, dead)
        return None

    def _lost(self, dead: Collection[str]) -> dict[str, int]:
        """Return operator -> tasks with an instance on a dead host; of more hosts than last time only these are new."""
        # Searches add hosts one by one, so most questions extend the last one.
        before, lost = self._last
        if not before <= set(dead):
            before, lost = frozenset(), dict.fromkeys(self.order, 0)
        new = set(dead) - before
        self.steps += len(self.order) * len(new)
        found = {name: reduce(or_, (on.get(host, 0) for host in new), lost[name]) for name, on in self._on.items()}
        self._last = frozenset(dead), found
        return found

    def _live(self, name: str, lost: int, dead: Collection[str]) -> int:
        """Return the tasks of an operator with an instance that lives."""
        for task, hosts in self._replicated[name]:
            if lost & task and any(host not in dead for host in hosts):
                lost ^= task
        return ((1 << len(self.hosts[name])) - 1) & ~lost

    def _back(self, name: str, reached: Mapping[str, int], dead: Collection[str]) -> list[str]:
        """Return the hosts of a path to a sink that was reached."""
        used: dict[str, None] = {}
        may = -1  # the tasks that the path may go through
        while True:
            may &= reached[name]
            known = next((one for host in used if (one := may & self._on[name].get(host, 0))), may)
            task = known & -known
            index = task.bit_length() - 1
            hosts = [host for host in self.hosts[name][index] if host not in dead]
            used[next((host for host in hosts if host in used), hosts[0])] = None
            for upstream, partitioning in self.operators[name].inputs.items():
                may = task if layout.is_pairwise(partitioning) else -1
                if reached[upstream] & may:
                    name = upstream
                    break
            else:
                return list(used)


def _hosts_of(scenario: Scenario) -> dict[str, list[list[str]]]:
    """Return operator -> for each task the hosts that run it or a replica of some of its key groups."""
    placed = layout.placement(scenario)
    found = {
        name: [[placed[layout.task_name(name, index)]] for index in range(operator.parallelism)]
        for name, operator in scenario.operators.items()
    }
    for one in layout.planned_replicas(scenario):
        hosts = found[one.operator][scenario.operators[one.operator].task_of(one.group)]
        if one.host not in hosts:
            hosts.append(one.host)
    return found


def _all_hosts(job: _Job, name: str) -> tuple[str, ...]:
    """Return the hosts with an instance of an operator, each once."""
    return tuple(dict.fromkeys(host for hosts in job.hosts[name] for host in hosts))


def _hosts_on_every_path(job: _Job, operators: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts without which no path is left: those of one path, less those that another one goes around."""
    sure = {hosts[0] for name in operators if len(hosts := _all_hosts(job, name)) == 1}
    path = job.path(())
    assert path is not None, "a valid scenario has a path"
    left = [host for host in path if host not in sure]
    found = []
    while left:
        host = left.pop(0)
        # A path around this host clears all hosts that are not on it, too.
        around = job.path([host])
        if around is None:
            found.append(host)
        else:
            left = [other for other in left if other in set(around)]
    return tuple(sorted({*sure, *found}, key=_all_in_order(job).__getitem__))


def _all_in_order(job: _Job) -> dict[str, int]:
    """Return host -> its place among all hosts with an instance, for ties that do not depend on hashing."""
    hosts = dict.fromkeys(host for name in job.operators for host in _all_hosts(job, name))
    return {host: number for number, host in enumerate(hosts)}


def _least_hosts(job: _Job, operators: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return hosts that all paths need, and how many such hosts there are at least.

    A cut has a host of every path, so a least set with a host of each of some paths is not larger than a least cut:
    paths are added until that set is a cut, or as large as the hosts of an operator on all paths.
    """
    every = [_all_hosts(job, name) for name in operators]
    best = min([*every, tuple(_all_in_order(job))], key=len)
    least, paths, chosen = 2, list[frozenset[str]](), tuple[str, ...]()  # a single host would have been found before
    while job.steps < _MOST_STEPS:
        found = list(_disjoint_paths(job, chosen))
        if not found:
            return chosen, len(chosen)
        paths += found
        least = max(least, len(found))
        if least >= len(best) or len(best) > _MOST_HOSTS:
            break
        # A cut hits every path, so a least set that hits some paths bounds a least cut from below.
        hit = _hitting(paths, _all_in_order(job))
        if hit is None:
            break
        chosen, least = hit, max(least, len(hit))
    return best, min(least, len(best))


def _disjoint_paths(job: _Job, dead: Collection[str]) -> Iterator[frozenset[str]]:
    """Yield the hosts of paths of which no two share one, without the dead ones, as long as there are steps left."""
    gone = set(dead)
    while job.steps < _MOST_STEPS and (path := job.path(gone)) is not None:
        yield frozenset(path)
        gone |= set(path)


def _hitting(sets: Sequence[frozenset[str]], order: Mapping[str, int]) -> tuple[str, ...] | None:
    """Return a least set that has a member of each of these; None where too many would have to be tried.

    Minimum hitting set, by branch and bound: sets that share no member each need one of their own.
    """
    tried, best = 0, tuple(sorted({host for one in sets for host in one}, key=order.__getitem__))

    def search(left: list[frozenset[str]], chosen: tuple[str, ...]) -> None:
        nonlocal tried, best
        tried += 1
        # Branch and bound: disjoint sets need a host each, so this many more at least.
        disjoint: list[frozenset[str]] = []
        for one in left:
            if all(one.isdisjoint(other) for other in disjoint):
                disjoint.append(one)
        if len(chosen) + len(disjoint) >= len(best) or tried > _MOST_TRIED:
            return
        if not left:
            best = chosen
            return
        # One of its hosts has to be chosen; the smallest set has the fewest branches.
        smallest = min(left, key=len)
        for host in sorted(smallest, key=lambda one: (-sum(one in other for other in left), order[one])):
            search([one for one in left if host not in one], (*chosen, host))

    search(list(sets), ())
    return None if tried > _MOST_TRIED else tuple(sorted(best, key=order.__getitem__))
