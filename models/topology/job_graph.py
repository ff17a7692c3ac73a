"""A scenario as networkx graphs, to analyse and to draw: its operators, its tasks, and its placement at the start.

Attributes are numbers in SI units with the unit in the name, texts or truths, so that every graph format takes them;
what is not known is left out. Rates, loads and times are those of `models.steady_state.load` and
`models.steady_state.latency`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import networkx as nx

from models.errors import InputError
from models.scenario.description import ScenarioDescription
from models.scenario.inputs import RunInputs
from models.scenario.job import Operator
from models.steady_state.flow import Flow, copies
from models.steady_state.latency import MeanTimes
from models.steady_state.load import expected_load
from models.topology import layout
from models.validation_messages import nearest

Graph: TypeAlias = "nx.DiGraph[str]"

MOST_EDGES = 1_000_000  # of a graph


def graph_of(scenario: ScenarioDescription, of: str = "operators", inputs: RunInputs | None = None) -> Graph:
    """Return a graph of a valid scenario: of its "operators", its "tasks" or its "placement".

    Raises InputError for another name, and for a graph of more than a million edges.

    `inputs`: recorded rates and measured shares. The graph is the caller's own, and its name is that of the scenario.
    """
    refuse_kind(of)
    graph = GRAPHS[of](scenario, inputs)
    graph.graph["name"] = scenario.name
    return graph


def refuse_kind(of: str) -> None:
    """Raise InputError where there is no graph of this name."""
    if of not in GRAPHS:
        raise InputError.at("of", of, "is no graph of a job", nearest(of, GRAPHS))


def operator_graph(scenario: ScenarioDescription, inputs: RunInputs | None = None) -> Graph:
    """Return the operators, and an edge from each to those that read it, in file order."""
    graph: Graph = nx.DiGraph()
    load = expected_load(scenario, inputs)
    times, sizes, generation = MeanTimes(scenario, load), layout.output_bytes(scenario), _generations(scenario)
    waits, links, services = times.waits_s(), times.links_s(), times.services_s()
    for name, operator in scenario.operators.items():
        own, sends = load.operators[name], operator.kind != "sink"
        described = {
            "kind": operator.kind,
            "parallelism": operator.parallelism,
            "threads": operator.threads,
            "key_groups": operator.groups if operator.keyed else None,
            "selectivity": _selectivity(operator, own.flow) if sends else None,
            "generation": generation[name],
            "service_s": services[name],
            "wait_s": waits[name],
            "window_s": operator.window.length_s if operator.window else None,
            "buffer": operator.buffer,
            "rate_in_per_s": own.flow.rate_in.mean_per_s,
            "rate_out_per_s": own.flow.rate_out.mean_per_s if sends else None,
            "utilisation": float(own.utilisation.max(initial=0.0)),
            "peak_utilisation": own.peak_utilisation,
            "state_bytes": float(own.state_bytes),
        }
        graph.add_node(name, **_known(described))
    for name, operator in scenario.operators.items():
        for upstream, partitioning in operator.inputs.items():
            rate_per_s = load.operators[upstream].flow.rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
            taken = operator.takes.get(upstream, 1.0)
            stream: dict[str, Any] = {
                "partitioning": partitioning,
                "stream": taken if isinstance(taken, str) else None,
                "share": _share(taken, inputs),
                "rate_per_s": rate_per_s,
                "tuple_bytes": float(sizes[upstream]),
                "bytes_per_s": rate_per_s * sizes[upstream],
                "link_s": links[upstream, name],
            }
            if isinstance(operator.selectivity, Mapping):
                stream["selectivity"] = operator.selectivity[upstream]
            graph.add_edge(upstream, name, **_known(stream))
    return graph


def task_graph(scenario: ScenarioDescription, inputs: RunInputs | None = None) -> Graph:
    """Return the tasks, and an edge from each to all that it may send to: one of a reader by forward, else all."""
    _refuse_edges(scenario)
    graph: Graph = nx.DiGraph()
    load, placed = expected_load(scenario, inputs), layout.placement(scenario)
    for name, index in layout.tasks(scenario):
        own, task = load.operators[name], layout.task_name(name, index)
        graph.add_node(
            task,
            operator=name,
            kind=scenario.operators[name].kind,
            task_index=index,
            host=placed[task],
            rate_in_per_s=own.flow.rate_in.mean_per_s * float(own.task_shares[index]),
            utilisation=float(own.utilisation[index]),
        )
    for sender, reader, partitioning in layout.channels(scenario):
        graph.add_edge(layout.task_name(*sender), layout.task_name(*reader), partitioning=partitioning)
    return graph


def placement_graph(scenario: ScenarioDescription, inputs: RunInputs | None = None) -> Graph:
    """Return tasks, hosts and groups of hosts: a task points to its host, a host to its group.

    Nodes are "task:count-0", "host:worker-0", "group:worker", since a task and a host may have the same name. A task
    with active replicas points to their hosts as well: `replica` says so of the edge, `key_groups` of how many.
    """
    graph: Graph = nx.DiGraph()
    load, placed = expected_load(scenario, inputs), layout.placement(scenario)
    for name, group in scenario.hosts.items():
        described = {
            "cores": group.cores,
            "cpu": group.cpu,
            "speed": group.speed,
            "slots": group.slots,
            "memory_bytes": group.memory_bytes,
            "network_bytes_per_s": group.network_bytes_per_s,
            "price_per_s": group.price_per_s,
        }
        graph.add_node(f"group:{name}", role="group", name=name, **_known(described))
    spare = set(layout.spare_hosts(scenario))
    for host, name in layout.host_group_names(scenario).items():
        own = load.hosts.get(host)
        described = {"utilisation": float(own.utilisation) if own else None}
        graph.add_node(f"host:{host}", role="host", name=host, spare=host in spare, **_known(described))
        graph.add_edge(f"host:{host}", f"group:{name}")
    for name, index in layout.tasks(scenario):
        task = layout.task_name(name, index)
        graph.add_node(f"task:{task}", role="task", name=task, operator=name, kind=scenario.operators[name].kind)
        graph.add_edge(f"task:{task}", f"host:{placed[task]}", replica=False)
    for one in layout.planned_replicas(scenario):
        index = scenario.operators[one.operator].task_of(one.group)
        ends = f"task:{layout.task_name(one.operator, index)}", f"host:{one.host}"
        groups = graph.edges[ends]["key_groups"] if graph.has_edge(*ends) else 0
        graph.add_edge(*ends, replica=True, key_groups=groups + 1)
    return graph


GRAPHS: Mapping[str, Callable[[ScenarioDescription, RunInputs | None], Graph]] = {
    "operators": operator_graph,
    "tasks": task_graph,
    "placement": placement_graph,
}


def _known(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are known."""
    return {key: value for key, value in described.items() if value is not None}


def _share(taken: float | str, inputs: RunInputs | None) -> float | None:
    """Return the share of the tuples that is read; None for one that was not measured."""
    if isinstance(taken, str):
        return inputs.shares.get(taken) if inputs else None
    return taken


def _selectivity(operator: Operator, flow: Flow) -> float:
    """Return the selectivity; where each input has its own, that of all of them by their rates."""
    if not isinstance(operator.selectivity, Mapping):
        return operator.selectivity
    rate_in = flow.rate_in.mean_per_s
    return flow.rate_out.mean_per_s / rate_in if rate_in else operator.most_selective


def _generations(scenario: ScenarioDescription) -> dict[str, int]:
    """Return operator -> steps from the sources, on the longest way."""
    found = enumerate(nx.topological_generations(layout.dataflow(scenario)))
    return {name: number for number, generation in found for name in generation}


def _refuse_edges(scenario: ScenarioDescription) -> None:
    """Raise InputError for a graph of tasks with more than a million edges."""
    edges = sum(
        operator.parallelism * (1 if layout.is_pairwise(partitioning) else scenario.operators[upstream].parallelism)
        for operator in scenario.operators.values()
        for upstream, partitioning in operator.inputs.items()
    )
    if edges > MOST_EDGES:
        rule = f"would have {edges} edges: {MOST_EDGES} at most"
        raise InputError.at("of", "tasks", rule, "the graph of operators has one for each stream")
