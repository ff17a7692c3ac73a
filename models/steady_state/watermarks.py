"""Watermarks of a run: how many go over the channels between tasks."""

from __future__ import annotations

import networkx as nx

from models.scenario.scenario import Scenario
from models.topology.layout import dataflow, topological


def watermarks(scenario: Scenario) -> float:
    """Return the watermarks over all channels of one replication, about; 0 without a window.

    A source task sends one over each of its channels at each multiple of `watermark`, whether or not there are tuples,
    and a task sends on what it hears each time the least of it rises: as often as the slowest of its inputs speaks.
    """
    timed = _timed(scenario)
    spoken: dict[str, float] = {}  # by a task of the operator, per second
    total = 0.0
    for name in topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            spoken[name] = 1 / scenario.workload[name].watermark_s
            continue
        spoken[name] = min(spoken[upstream] for upstream in operator.inputs)
        for upstream in operator.inputs if name in timed else ():
            channels = scenario.operators[upstream].parallelism * operator.parallelism
            total += spoken[upstream] * channels * scenario.duration_s
    return total


def _timed(scenario: Scenario) -> set[str]:
    """Return the operators that watermarks come to: they, or some downstream of them, have a window."""
    windows = [name for name, operator in scenario.operators.items() if operator.window]
    back = dataflow(scenario).reverse(copy=False)
    return {name for layer in nx.bfs_layers(back, windows) for name in layer}
