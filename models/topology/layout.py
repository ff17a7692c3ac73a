"""Names and places that follow from a scenario: its tasks, its hosts, which task starts on which host, and replicas.

Task k of operator `count` is `count-k`; host k of group `worker` is `worker-k`. The last part says which key groups or
tasks have an active replica, and where: `fault_tolerance.replicas`, one by one, or all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import networkx as nx

from models.scenario import nexmark
from models.scenario.cluster import HostGroup
from models.scenario.description import ScenarioDescription
from models.scenario.fault_tolerance import ActiveReplica
from models.scenario.job import Operator
from models.scenario.workload import Keys, OutputKeys, SellerKeys


def task_name(operator: str, index: int) -> str:
    """Return the name of one task."""
    return f"{operator}-{index}"


def host_name(group: str, index: int) -> str:
    """Return the name of one host."""
    return f"{group}-{index}"


def hosts(scenario: ScenarioDescription) -> dict[str, HostGroup]:
    """Return every host by name with its group's description, in file order; spare hosts included."""
    return {host_name(name, index): group for name, group in scenario.hosts.items() for index in range(group.count)}


def host_group_names(scenario: ScenarioDescription) -> dict[str, str]:
    """Return the name of each host's group by the name of the host, in file order."""
    return {host_name(name, index): name for name, group in scenario.hosts.items() for index in range(group.count)}


def spare_hosts(scenario: ScenarioDescription) -> tuple[str, ...]:
    """Return the hosts that are not in use at the start, in file order: the last ones of their groups."""
    return tuple(
        host_name(name, index) for name, group in scenario.hosts.items() for index in range(group.used, group.count)
    )


def tasks(scenario: ScenarioDescription) -> Iterator[tuple[str, int]]:
    """Yield every (operator, task index), in file order."""
    for name, operator in scenario.operators.items():
        for index in range(operator.parallelism):
            yield name, index


def is_pairwise(partitioning: str) -> bool:
    """Return whether task k sends to task k alone; else each task sends to all."""
    return partitioning == "forward"


def channels(scenario: ScenarioDescription) -> Iterator[tuple[tuple[str, int], tuple[str, int], str]]:
    """Yield (task that sends, task that reads, partitioning); see `tasks`."""
    for name, operator in scenario.operators.items():
        for upstream, partitioning in operator.inputs.items():
            for reader in range(operator.parallelism):
                for sender in (
                    [reader] if is_pairwise(partitioning) else range(scenario.operators[upstream].parallelism)
                ):
                    yield (upstream, sender), (name, reader), partitioning


def placement(scenario: ScenarioDescription) -> dict[str, str]:
    """Return task name -> host name at the start of a run.

    Round robin over the hosts of the operator's host group where `placement.operators` names one, over the slots of
    the groups in `placement.hosts` where it names some (`spread`), else in file order over all hosts with one counter;
    spare hosts get none. `placement.tasks` overrules single tasks. With `placement.slot_sharing` task k of each other
    operator is in slot k.
    """
    spare = set(spare_hosts(scenario))
    all_hosts = tuple(host for host in hosts(scenario) if host not in spare)
    turn = 0
    placed = {}
    free = []
    shared = shared_slots(scenario)
    for operator, index in tasks(scenario):
        name, group = task_name(operator, index), scenario.placement.operators.get(operator)
        if name in scenario.placement.tasks:
            placed[name] = scenario.placement.tasks[name]
            turn += group is None
        elif group is not None:
            # An operator with a host group of its own starts at that group's first host: task j on host j mod n.
            placed[name] = host_name(group, index % scenario.hosts[group].used)
        elif shared:
            placed[name] = shared[index]
        elif scenario.placement.hosts:
            placed[name] = ""  # in its place in the order; below
            free.append(name)
        else:
            placed[name] = all_hosts[turn % len(all_hosts)]
            turn += 1
    return placed | dict(zip(free, spread(scenario, scenario.placement.hosts, len(free), placed.values()), strict=True))


def shared_slots(scenario: ScenarioDescription) -> tuple[str, ...]:
    """Return the host of each slot that several operators share, as many as the largest has tasks; none without."""
    if not scenario.placement.slot_sharing:
        return ()
    groups = scenario.placement.hosts or tuple(scenario.hosts)
    return spread(scenario, groups, max(operator.parallelism for operator in scenario.operators.values()))


def spread(
    scenario: ScenarioDescription, groups: Iterable[str], count: int, taken: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return hosts for `count` tasks: round robin over the hosts in use of these groups that have a free slot.

    `taken`: hosts of tasks that are there already, once for each. Where there are fewer slots than tasks, the last
    tasks go on in turn as if there were slots for them: a rule refuses such a scenario.
    """
    of, used = hosts(scenario), Counter(taken)
    chosen = [host_name(group, k) for group in groups for k in range(scenario.hosts[group].used)]
    found: list[str] = []
    while len(found) < count and chosen:
        left = [host for host in chosen if used[host] < (of[host].slots or inf)]
        turn = (left or chosen)[: count - len(found)]
        found += turn
        used.update(turn)
    return tuple(found)


def free_slots(scenario: ScenarioDescription, groups: Iterable[str], taken: Iterable[str] = ()) -> float:
    """Return how many more tasks the hosts in use of these groups take; infinite where one has no bound."""
    of, used = hosts(scenario), Counter(taken)
    chosen = [host_name(group, k) for group in groups for k in range(scenario.hosts[group].used)]
    return sum(max(0.0, (of[host].slots or inf) - used[host]) for host in chosen)


def staying(scenario: ScenarioDescription) -> frozenset[str]:
    """Return the operators whose tasks no rebalance moves: sources, and those in `placement.fixed`."""
    sources = (name for name, operator in scenario.operators.items() if operator.kind == "source")
    return frozenset((*sources, *scenario.placement.fixed))


def dataflow(scenario: ScenarioDescription) -> nx.DiGraph[str]:
    """Return the graph of the operators, which nobody can change: nodes and readers of each in file order.

    Inputs that there are not are left out.
    """
    return _dataflow(_Operators(scenario.operators))


def topological(scenario: ScenarioDescription) -> tuple[str, ...]:
    """Return the operators so that inputs come before those that read them; raises ValueError on a cycle.

    One generation after the other, by steps away from the sources, each in file order.
    """
    order = _topological(_Operators(scenario.operators))
    if order is None:
        raise ValueError("the dataflow has a cycle")
    return order


def has_order(scenario: ScenarioDescription) -> bool:
    """Return whether inputs can come before those that read them: no operator is on a cycle."""
    return _topological(_Operators(scenario.operators)) is not None


class _Operators:
    """Operators as the key of a cache: they are frozen, so the same object has the same graph."""

    def __init__(self, named: Mapping[str, Operator]) -> None:
        self.named = named

    def __hash__(self) -> int:
        return id(self.named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Operators) and other.named is self.named


@lru_cache(maxsize=4)  # flows, loads and the estimate of a scenario ask for it again and again
def _dataflow(operators: _Operators) -> nx.DiGraph[str]:
    """Return the graph of the operators, made once for each set of them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    # Names that do not exist are left out: rules ask for the graph before references are known to be right.
    graph.add_nodes_from(operators.named)
    for name, operator in operators.named.items():
        graph.add_edges_from((upstream, name) for upstream in operator.inputs if upstream in operators.named)
    nx.freeze(graph)  # it is cached, and callers share it
    return graph


@lru_cache(maxsize=4)
def _topological(operators: _Operators) -> tuple[str, ...] | None:
    """Return the operators in order; None if there is a cycle."""
    place = {name: index for index, name in enumerate(operators.named)}
    try:
        generations = list(nx.topological_generations(_dataflow(operators)))
    except nx.NetworkXUnfeasible:
        return None
    return tuple(name for generation in generations for name in sorted(generation, key=place.__getitem__))


def output_bytes(scenario: ScenarioDescription) -> dict[str, float]:
    """Return operator -> bytes of one tuple that leaves it.

    A source's tuples are as its workload says, an operator's as its `output` says; without `output` they are as
    large as the largest that comes in.
    """
    size: dict[str, float] = {}
    for name in topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            size[name] = scenario.workload[name].tuple_bytes
        elif operator.output is not None:
            size[name] = operator.output.tuple_bytes
        else:
            size[name] = max(size[upstream] for upstream in operator.inputs)
    return size


def acks_of_task(scenario: ScenarioDescription, name: str) -> int:
    """Return how many acks a task of an operator sends and gets in a round: one for each task it is connected with."""
    operator, found = scenario.operators[name], 0
    for upstream, partitioning in operator.inputs.items():
        found += _connected(operator.parallelism, scenario.operators[upstream].parallelism, partitioning)
    for reader in dataflow(scenario)[name]:
        partitioning = scenario.operators[reader].inputs[name]
        found += _connected(operator.parallelism, scenario.operators[reader].parallelism, partitioning)
    return found


def _connected(here: int, there: int, partitioning: str) -> int:
    """Return with how many of so many tasks each of the tasks `here` is connected, at the most."""
    return -(-there // here) if is_pairwise(partitioning) else there


def keys_seen(scenario: ScenarioDescription, name: str, within_s: float | None = None) -> float:
    """Return how many keys can reach an operator: those of the largest law, since all laws number keys alike.

    `within_s`: in a part of the run of this length; without it in all of it.

    An upper bound of the different keys that arrive: an operator that gives its outputs new keys hides those upstream.
    """
    operators = scenario.operators

    def own_keys(other: str) -> bool:
        output = operators[other].output
        return output is not None and output.keys is not None

    # Keys that come into an operator which gives its tuples new keys do not matter downstream of it.
    passed = nx.subgraph_view(dataflow(scenario), filter_edge=lambda _, down: down == name or not own_keys(down))
    largest = 0
    for upstream in nx.ancestors(passed, name):
        output = operators[upstream].output
        if operators[upstream].kind == "source":
            workload = scenario.workload[upstream]
            keys = workload.most_keys(scenario.duration_s) if within_s is None else workload.keys_within(within_s)
            largest = max(largest, operators[name].groups if keys is None else keys)
        elif output is None or output.keys is None:
            continue
        elif isinstance(output.keys, SellerKeys):
            auctions = keys_seen(scenario, upstream, within_s)
            sellers = nexmark.most_ids("auction.seller", auctions)
            if within_s is not None:
                sellers = min(sellers, nexmark.ids_within("auction.seller", auctions, 1))
            largest = max(largest, sellers)
        else:
            largest = max(largest, output.keys.count)
    return float(largest)


def laws_of_keys(scenario: ScenarioDescription, name: str) -> Iterator[Keys | OutputKeys]:
    """Yield the laws of the keys that come to an operator; those of sources that could not be read are left out."""
    seen, left = {name}, [*scenario.operators[name].inputs]
    while left:
        upstream = left.pop()
        operator = scenario.operators.get(upstream)
        if upstream in seen or operator is None:
            continue
        seen.add(upstream)
        workload = scenario.workload.get(upstream)
        if operator.output is not None and operator.output.keys is not None:
            yield operator.output.keys
        elif operator.kind == "source" and workload is not None:
            yield workload.keys
        else:
            left.extend(operator.inputs)


@dataclass(frozen=True)
class PlannedReplica:
    """The replica of one key group, or of one task where the operator is not keyed.

    `name`: entry of `fault_tolerance.replicas` that it is from. `group`: number of the key group or task. `host`: where
    the replica is; `primary`: host of what it replicates. `spares`: hosts for a new replica, in order. `renew`: whether
    there is a new one after a take-over or a loss.
    """

    name: str  # of the entry that it is from
    operator: str
    group: int
    host: str
    primary: str  # the host of what it replicates
    spares: tuple[str, ...]
    renew: bool


def groups_of(scenario: ScenarioDescription, replica: ActiveReplica) -> tuple[int, ...]:
    """Return the key groups, or tasks, that an entry is about, rising; those that do not exist are left out.

    An entry names key groups, or tasks and thereby all key groups of these, or neither and thereby all of the operator.
    """
    operator = scenario.operators[replica.operator]
    if replica.key_groups is not None:
        return tuple(sorted({group for group in replica.key_groups if 0 <= group < operator.groups}))
    if replica.tasks is None:
        return tuple(range(operator.groups))
    named = {k for k in range(operator.parallelism) if task_name(replica.operator, k) in replica.tasks}
    return tuple(k for k in range(operator.groups) if operator.task_of(k) in named)


def replica_entries(scenario: ScenarioDescription) -> Mapping[str, ActiveReplica]:
    """Return the entries of the replicas by name; with `active-replication` one for each task of inner operators.

    Such a replica is on the host with the fewest tasks and replicas but that of the task, of its host group where that
    has another one.
    """
    if not scenario.fault_tolerance.replicates_all:
        return scenario.fault_tolerance.replicas
    placed, group, spare = placement(scenario), host_group_names(scenario), set(spare_hosts(scenario))
    names, used = [host for host in group if host not in spare], Counter(placed.values())
    found = {}
    for operator, index in tasks(scenario):
        task = task_name(operator, index)
        own = placed[task]
        others = [host for host in names if host != own]
        beside = [host for host in others if group[host] == group[own]] or others
        if scenario.operators[operator].kind not in ("source", "sink") and beside:
            host = min(beside, key=lambda host: (used[host], names.index(host)))
            used[host] += 1
            spares = tuple(other for other in beside if other != host)
            found[task] = ActiveReplica(operator=operator, host=host, tasks=(task,), spares=spares)
    return found


def replicated_groups(scenario: ScenarioDescription) -> dict[str, int]:
    """Return operator -> how many of its key groups or tasks have a replica, for those that have any."""
    found: dict[str, set[int]] = {}
    for replica in replica_entries(scenario).values():
        found.setdefault(replica.operator, set()).update(groups_of(scenario, replica))
    return {operator: len(groups) for operator, groups in found.items() if groups}


def planned_replicas(scenario: ScenarioDescription) -> list[PlannedReplica]:
    """Return all replicas at the start of a run of a valid scenario, by operator and key group."""
    placed, made = placement(scenario), list[PlannedReplica]()
    for name, replica in replica_entries(scenario).items():
        operator = scenario.operators[replica.operator]
        for group in groups_of(scenario, replica):
            task = task_name(replica.operator, operator.task_of(group))
            where = (replica.host, placed[task], replica.spares)
            made.append(PlannedReplica(name, replica.operator, group, *where, replica.renew))
    order = {name: index for index, name in enumerate(scenario.operators)}
    return sorted(made, key=lambda one: (order[one.operator], one.group))
