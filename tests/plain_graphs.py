"""Plain code for what holdfast asks networkx, and random jobs to compare them on."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileKeys


def random_job(seed: int, *, forward: bool = False, operators: int = 9, hosts: int = 4) -> Scenario:
    """A valid job of maps in no particular order, some with keys of their own, windows and states."""
    draw = random.Random(seed)
    names = [f"o{index}" for index in range(operators)]
    draw.shuffle(names)  # file order is not the order of the dataflow
    sources, middle = names[: draw.choice([1, 1, 2])], names[2:]
    tables: dict[str, Any] = {name: {"kind": "source", "parallelism": draw.choice([1, 2])} for name in sources}
    before = list(sources)
    for name in middle:
        ups = draw.sample(before, min(len(before), draw.choice([1, 1, 2, 3])))
        keyed = draw.random() < 0.5
        table: dict[str, Any] = {"kind": "aggregate" if keyed else "map", "parallelism": draw.choice([1, 2, 3])}
        table["inputs"] = dict.fromkeys(ups, "key" if keyed else draw.choice(["shuffle", "broadcast"]))
        if forward and not keyed:
            table["parallelism"] = tables[ups[0]]["parallelism"]
            table["inputs"][ups[0]] = "forward"
        table["service"] = {"distribution": "exponential", "mean": "1 us"}
        if keyed:
            table["key_groups"] = 6
            if draw.random() < 0.4:
                table["window"] = {"length": "2 s"}
        if draw.random() < 0.3:
            table["output"] = {"keys": {"distribution": "uniform", "count": draw.randint(2, 50)}}
        tables[name] = table
        before.append(name)
    read = {up for table in tables.values() for up in table.get("inputs", {})}
    ends = [name for name in tables if name not in read]
    for index, end in enumerate(ends):
        tables[f"end{index}"] = {"kind": "sink", "inputs": {end: "shuffle"}, "parallelism": draw.choice([1, 2, 3])}
    order = sorted(tables, key=lambda name: draw.random())
    count = {
        name: {"rate": "1 /s", "keys": {"distribution": "uniform", "count": draw.randint(2, 50)}} for name in sources
    }
    return scenario_from(
        {
            "duration": "10 s",
            "workload": count,
            "operators": {name: tables[name] for name in order},
            "hosts": {"worker": {"count": hosts}},
        }
    )


def downstream(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Operator -> operators that read its output, in file order."""
    readers: dict[str, list[str]] = {name: [] for name in scenario.operators}
    for name, operator in scenario.operators.items():
        for upstream in operator.inputs:
            readers[upstream].append(name)
    return {name: tuple(found) for name, found in readers.items()}


def topological(scenario: Scenario) -> tuple[str, ...]:
    """Operators so that inputs come before those that read them, by counting inputs down."""
    operators, readers = scenario.operators, downstream(scenario)
    place = {name: index for index, name in enumerate(operators)}
    waiting = {name: len(operator.inputs) for name, operator in operators.items()}
    ready = [name for name, inputs in waiting.items() if not inputs]
    order: list[str] = []
    while ready:
        order += ready
        following = []
        for reader in (reader for name in ready for reader in readers[name]):
            waiting[reader] -= 1
            if not waiting[reader]:
                following.append(reader)
        ready = sorted(following, key=place.__getitem__)
    return tuple(order)


def keys_seen(scenario: Scenario, name: str) -> float:
    """How many keys can reach an operator, by going back from it until keys are made."""
    largest, waiting = 0, list(scenario.operators[name].inputs)
    while waiting:
        source = waiting.pop()
        upstream = scenario.operators[source]
        if upstream.kind == "source":
            keys = scenario.workload[source].keys
            assert not isinstance(keys, ProfileKeys)
            largest = max(largest, keys.count)
        elif upstream.output is not None and upstream.output.keys is not None:
            largest = max(largest, upstream.output.keys.count)
        else:
            waiting += upstream.inputs
    return float(largest)


def timed(scenario: Scenario) -> set[str]:
    """Operators with a window, or with one somewhere downstream."""
    found: set[str] = set()
    for name in reversed(topological(scenario)):
        if scenario.operators[name].window or name in found:
            found |= {name, *scenario.operators[name].inputs}
    return found


def reached(edges: Iterable[tuple[int, int]], starts: set[int]) -> set[int]:
    """What is reached from these over at least one edge."""
    found: set[int] = set()
    todo, edges = list(starts), list(edges)
    while todo:
        one = todo.pop()
        more = {end for start, end in edges if start == one} - found
        found |= more
        todo += more
    return found


def layers(names: list[str], edges: list[tuple[str, str]]) -> list[list[str]]:
    """Names by layer, each behind all it reads from; what is left of a cycle together at the end."""
    inputs = {name: {start for start, end in edges if end == name} for name in names}
    found = []
    while inputs:
        ready = [name for name, needs in inputs.items() if not needs & inputs.keys()] or list(inputs)
        found.append(ready)
        for name in ready:
            del inputs[name]
    return found


def moved_to_readers(layered: list[list[str]], names: list[str], edges: list[tuple[str, str]]) -> list[list[str]]:
    """Each name just before the first that reads it."""
    depth = {name: k for k, layer in enumerate(layered) for name in layer}
    for layer in reversed(layered):
        for name in layer:
            depth[name] = max(depth[name], min((depth[end] for start, end in edges if start == name), default=0) - 1)
    return [[name for name in names if depth[name] == k] for k in range(len(layered))]
