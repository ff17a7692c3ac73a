"""A scenario and its expected load as tables for people and as one document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from holdfast import terminal
from models import display, units
from models.scenario.engine import Engine
from models.scenario.inputs import RunInputs
from models.scenario.reading import engine_values
from models.scenario.rules import warnings
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from models.steady_state.estimate import estimate
from models.steady_state.latency import CriticalPath, critical_path
from models.steady_state.load import Load, OperatorLoad, expected_load
from models.topology.chains import chains_of
from models.topology.layout import dataflow
from models.topology.weak_points import WeakPoints, failover_regions, operators_cut, weak_points

_MOST_ROWS = 60
_MOST_NAMES = 8  # of a cell of the table of what all depends on


def document(scenario: Scenario, inputs: RunInputs | None) -> dict[str, Any]:
    """Return everything that `show` knows, in SI units."""
    load = expected_load(scenario, inputs)
    size = estimate(scenario, *((inputs.rates, inputs.shares) if inputs else ()))
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "duration_s": scenario.duration_s,
        "replications": scenario.replications,
        "resolution": scenario.resolution,
        "operators": {name: _operator(scenario, name, one) for name, one in load.operators.items()},
        "hosts": {name: asdict(host) | {"tasks": list(host.tasks)} for name, host in load.hosts.items()},
        "structure": _structure_facts(scenario, load),
        "network": asdict(link_sharing(scenario)),
        "chains": [[*chain] for chain in chains_of(scenario)],
        "estimate": asdict(size),
        "limits": scenario.limits.model_dump(),
        "warnings": [{"path": one.path, "text": one.text} for one in warnings(scenario, inputs, load)],
        "assumptions": list(load.assumptions),
    }


def _operator(scenario: Scenario, name: str, load: OperatorLoad) -> dict[str, Any]:
    operator = scenario.operators[name]
    return {
        "kind": operator.kind,
        "inputs": dict(operator.inputs),
        "parallelism": operator.parallelism,
        "key_groups": operator.groups if operator.keyed else None,
        "rate_in_per_s": asdict(load.flow.rate_in),
        "rate_out_per_s": asdict(load.flow.rate_out),
        "task_utilisation": [float(value) for value in load.utilisation],
        "peak_utilisation": load.peak_utilisation,
        "state_bytes": load.state_bytes,
    }


def _structure_facts(scenario: Scenario, load: Load) -> dict[str, Any]:
    path, points = critical_path(scenario, load), weak_points(scenario)
    return {
        "critical_path": {
            "operators": path.operators,
            "latency_s": path.latency_s,
            "service_s": path.service_s,
            "wait_s": path.wait_s,
            "link_s": path.link_s,
            "steps": [asdict(step) for step in path.steps],
        },
        "failover_regions": failover_regions(scenario),
        "on_every_path": {"operators": points.operators, "tasks": points.tasks, "hosts": points.hosts},
        "operators_cut": points.operators[:1] or operators_cut(scenario),
        "hosts_cut": points.hosts_cut,
        "hosts_at_least": points.hosts_at_least,
    }


def defaults_document(engine: Engine, scenario: Scenario) -> dict[str, Any]:
    """Return the values that the engine brings, which of them hold, and what of the engine is modelled."""
    return {
        "engine": engine.name,
        "version": engine.version,
        "defaults": [one._asdict() | {"holds": holds} for one, holds in engine_values(scenario)],
        "behaviours": [one._asdict() for one in engine.behaviours],
    }


def defaults_tables(engine: Engine, scenario: Scenario) -> Iterator[Any]:
    """Return the same as tables."""
    rows = []
    for one, holds in engine_values(scenario):
        value = _value(one.value) if holds else f"({_value(one.value)}: the file says something else)"
        # Names of keys and of options are as long as half a line: one is below the other.
        rows += [(one.path, value), (f"  {one.option}", one.source)]
    title = f"What {engine.title} brings where the file says nothing"
    yield terminal.table(title, ("key, and what the engine calls it", "value, and its source"), rows, text_columns=2)
    listed = [(one.name, one.status.value, one.text) for one in engine.behaviours]
    yield terminal.table(
        f"What of {engine.title} is there", ("behaviour", "", "how"), listed, text_columns=3, whole_columns=2
    )


def _value(value: object) -> str:
    """Return a value as a file has it."""
    if isinstance(value, dict) and value.get("distribution") == "deterministic":
        return f"{value['value']}, always"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def tables(scenario: Scenario, inputs: RunInputs | None) -> Iterator[Any]:
    """Return Title, topology, load by operator, hosts with placement, size, warnings."""
    load = expected_load(scenario, inputs)
    yield f"{scenario.name or 'scenario'}: {_run_of(scenario)}"
    yield ""
    yield _topology(scenario)
    chains = chains_of(scenario)
    if chains:
        yield f"Chained, one thread for each task: {'; '.join(' -> '.join(_some([*chain])) for chain in chains[:5])}."
    yield _operators(scenario, load)
    yield _hosts(load)
    yield _structure(scenario, load)
    if any(group.network_bytes_per_s is not None for group in scenario.hosts.values()):
        yield f"Sharing of links: {link_sharing(scenario)}."
    size = estimate(scenario, *((inputs.rates, inputs.shares) if inputs else ()))
    yield (
        f"Expected size: {display.about(size.tuples, 4)} tuples arriving, {display.about(size.steps, 4)} steps, "
        f"{display.about(size.events, 4)} events; "
        f"about {display.size(size.memory_bytes)} and {display.duration(size.time_s)} of one core."
    )
    if scenario.resolution > 1:
        yield f"Of simulated records, one of which stands for {display.count(scenario.resolution)}."
    yield from (f"warning: {one}" for one in warnings(scenario, inputs, load))
    yield from (f"assumed: {text}" for text in load.assumptions)


def _run_of(scenario: Scenario) -> str:
    times = "once" if scenario.replications == 1 else f"{scenario.replications} times"
    engine = "" if scenario.engine is None else f"{scenario.engine.title}, "
    return f"{engine}{units.show(scenario.duration_s, 's')}, {times}, seed {scenario.seed}"


def _topology(scenario: Scenario) -> Any:
    """Return a table of the operators: kind, who reads from them and how, tasks and key groups."""
    readers = dataflow(scenario)
    rows = []
    for name, operator in scenario.operators.items():
        to = ", ".join(f"{other} by {scenario.operators[other].inputs[name]}" for other in readers[name])
        groups = str(operator.groups) if operator.keyed else display.NONE
        rows.append((name, operator.kind, to or display.NONE, operator.parallelism, groups))
    return terminal.table(
        "Topology", ("operator", "kind", "read by", "tasks", "key groups"), _cut(rows, 5), text_columns=3
    )


def _operators(scenario: Scenario, load: Load) -> Any:
    columns = ("operator", "in /s", "peak /s", "out /s", "busiest task", "at peak", "state")
    rows = [
        (
            name,
            display.number(one.flow.rate_in.mean_per_s, 4),
            display.number(one.flow.rate_in.peak_per_s, 4),
            display.number(one.flow.rate_out.mean_per_s, 4),
            display.share(float(one.utilisation.max(initial=0.0)))
            if scenario.operators[name].service
            else display.NONE,
            display.share(one.peak_utilisation) if scenario.operators[name].service else display.NONE,
            display.size(one.state_bytes) if one.state_bytes else display.NONE,
        )
        for name, one in load.operators.items()
    ]
    return terminal.table("Expected load by operator", columns, _cut(rows, 7))


def _hosts(load: Load) -> Any:
    columns = ("host", "tasks", "busy", "at peak", "sends /s", "gets /s", "link")
    rows = [
        (
            name,
            ", ".join(host.tasks[:8]) + (f" and {len(host.tasks) - 8} more" if len(host.tasks) > 8 else ""),
            display.share(host.utilisation),
            display.share(host.peak_utilisation),
            display.size(host.sent_bytes_per_s),
            display.size(host.received_bytes_per_s),
            display.share(host.link_utilisation),
        )
        for name, host in load.hosts.items()
    ]
    return terminal.table("Expected load by host", columns, _cut(rows, 7), text_columns=2)


def _structure(scenario: Scenario, load: Load) -> Any:
    """Return the slowest path, the regions of a failover, and what all paths need."""
    path, points, regions = critical_path(scenario, load), weak_points(scenario), failover_regions(scenario)
    cut = points.operators[:1] or operators_cut(scenario)
    # A batch runs again as a whole; instances of Kafka Streams and workers of Storm go on without each other.
    fails_over = not scenario.fault_tolerance.batches and (scenario.engine is None or scenario.engine.name == "flink")
    rows = [
        ("slowest path", " -> ".join(_some(path.operators))),
        ("its mean latency", _latency(path)),
        *([("failover regions", f"{len(regions)}, {_sizes(regions)}")] if fails_over else []),
        ("operators on every path", ", ".join(_some(points.operators)) or f"none; {' and '.join(_some(cut))} cut all"),
        ("tasks on every path", ", ".join(_some(points.tasks)) or "none"),
        ("hosts on every path", ", ".join(_some(points.hosts)) or f"none; {_host_cut(points)}"),
    ]
    return terminal.table("What all depends on", ("what", "which"), rows, text_columns=2)


def _latency(path: CriticalPath) -> str:
    """Return the expected time from source to sink along the critical path as a line."""
    parts = f"{display.duration(path.service_s)} in service, {display.duration(path.link_s)} on links"
    if path.wait_s is None or path.latency_s is None:
        # An operator at or above full load has no mean wait: the path grows for as long as the run.
        slow = [step.operator for step in path.steps if step.wait_s is None]
        return f"grows without end at {', '.join(_some(slow))}; {parts}"
    wait, latency = display.duration(path.wait_s), display.duration(path.latency_s)
    if path.rough:
        return f"about {latency}: {parts}, about {wait} waiting for threads and shared cores"
    return f"{latency}: {parts}, {wait} waiting"


def _sizes(regions: list[tuple[str, ...]]) -> str:
    """Return the sizes of regions in words: tasks of the smallest and of the largest one."""
    fewest, most = min(map(len, regions)), max(map(len, regions))
    tasks = "1 task" if most == 1 else f"{most} tasks"
    if fewest != most:
        return f"of {fewest} to {tasks}"
    return f"of {tasks}" + (" each" if len(regions) > 1 else "")


def _host_cut(points: WeakPoints) -> str:
    hosts, least = points.hosts_cut, points.hosts_at_least
    sure = f"the loss of {len(hosts)} cuts all"
    if len(hosts) == least:
        return f"{sure} ({', '.join(_some(hosts))}), of fewer none"
    return f"{sure} ({', '.join(_some(hosts))}), of fewer than {least} none"


def _some(names: Sequence[str]) -> list[str]:
    """Return the names, of many the first and the last ones."""
    if len(names) <= _MOST_NAMES:
        return list(names)
    return [*names[: _MOST_NAMES - 2], f"{len(names) - _MOST_NAMES + 1} more", names[-1]]


def _cut(rows: list[Any], columns: int) -> list[Any]:
    if len(rows) <= _MOST_ROWS:
        return rows
    return [*rows[:_MOST_ROWS], (f"and {len(rows) - _MOST_ROWS} more", *[""] * (columns - 1))]
