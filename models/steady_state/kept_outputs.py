"""Cost of kept outputs in a run: pairs of partitions, slices that are not acknowledged yet, rounds of acks.

Constants are measured, for each engine. Runs differ from them by a factor of two, mostly upwards for memory: rings of
the event loop have as many places as the next power of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import networkx as nx

from models.scenario.inputs import Engine
from models.scenario.scenario import Scenario
from models.steady_state.flow import Flow
from models.topology import layout
from models.topology.layout import dataflow

# Of two partitions of which one keeps outputs for the other, measured with up to a million pairs. Each checkpoint and
# each round of acks goes over them.
BYTES_PER_PAIR = 110.0
BYTES_PER_ACKED_PAIR = 120.0  # more: what is acknowledged, and the confirmations of a round
SECONDS_PER_SAVED_PAIR = 3e-7  # and checkpoint
SECONDS_PER_ACKED_PAIR = 1.2e-7  # and round
# A mark ends a slice of a partition. All partitions have a ring of marks of the same size, which doubles as it must.
SECONDS_PER_MARK = 2.2e-8
BYTES_PER_MARK = 8.0
LEAST_RING = 16
GROWN_RING = 1.5  # of the ring at last, while it is copied from one of half its size
SECONDS_PER_RING_BYTE = 5e-9  # to grow: pages that are touched for the first time
# Measured in the same way of the plain engine, which has an object for each mark, and in it a number for each pair.
PLAIN_BYTES_PER_PAIR = 900.0
PLAIN_SECONDS_PER_SAVED_PAIR = 5e-6
PLAIN_SECONDS_PER_ACKED_PAIR = 3e-6
PLAIN_BYTES_PER_MARK = 250.0
PLAIN_BYTES_PER_MARKED_PAIR = 30.0
PLAIN_SECONDS_PER_MARK = 5.5e-6
PLAIN_SECONDS_PER_CONFIRMED = 5e-6  # mark, by each level above L0
PLAIN_SECONDS_PER_MARKED_PAIR = 1.5e-7
PLAIN_SECONDS_PER_CONFIRMED_PAIR = 7e-7  # of a mark, by each level above L0


def kept_pairs(scenario: Scenario, rates: Mapping[str, Flow]) -> float:
    """Return how many pairs of partitions there are at the end in which one keeps outputs for the other.

    The compiled engine keeps them where a tuple can come twice or be lost, the plain one in any case
    (`possible_pairs`).
    """
    return sum(possible_pairs(scenario, rates).values()) if scenario.keeps_ids else 0.0


def possible_pairs(scenario: Scenario, rates: Mapping[str, Flow]) -> dict[str, float]:
    """Return operator -> pairs of its partitions and others downstream for which they keep outputs, at the end.

    Of n pairs that are equally likely m tuples meet n (1 - exp(-m / n)) on average. Where keys stay as they are, a key
    belongs to one pair, and both groups of it follow from its hash modulo their least common multiple.
    """
    found = dict.fromkeys(scenario.operators, 0.0)
    if not scenario.fault_tolerance.keeps_outputs:
        return found
    for name, operator in scenario.operators.items():
        for upstream, partitioning in operator.inputs.items():
            sender = scenario.operators[upstream]
            most = float(operator.groups if partitioning == "forward" else sender.groups * operator.groups)
            new_keys = sender.output is not None and sender.output.keys is not None
            if partitioning == "key" and sender.keyed and not new_keys:
                most = float(math.lcm(sender.groups, operator.groups))
                most = min(most, max(1.0, layout.keys_seen(scenario, name)))
            sent = rates[upstream].rate_out.mean_per_s * scenario.duration_s
            found[upstream] += -most * math.expm1(-sent / most)
    return found


def open_slices(scenario: Scenario) -> dict[str, float]:
    """Return operator -> slices of one of its partitions that are not acknowledged at the highest level, at the most.

    Acks rise by a level in each round, if they come too late for the same one. A task with state waits for a
    checkpoint that covers the slice, too, and so does one upstream of it where its own level needs a higher one there.
    Queues, and checkpoints that take long to store, are left out. Sources and sinks have no slices.
    """
    trimming, found = scenario.fault_tolerance.acked_slices, dict[str, float]()
    if trimming is None or trimming.levels == 1:
        return found
    graph, operators = dataflow(scenario), scenario.operators
    for name, operator in operators.items():
        if operator.kind not in ("source", "sink"):
            near = nx.single_source_shortest_path_length(graph, name, cutoff=trimming.levels - 2)
            waits = any(scenario.fault_tolerance.saves(operators[other]) for other in near)
            open_s = trimming.every_s * (trimming.levels - 1) + trimming.slice_s
            open_s += scenario.fault_tolerance.interval_s if waits else 0.0
            found[name] = min(open_s, scenario.duration_s) / trimming.slice_s
    return found


def kept_bytes(scenario: Scenario, rates: Mapping[str, Flow], engine: Engine) -> float:
    """Return the memory of pairs and of marks, in a replication [B]."""
    slices, acked = open_slices(scenario), scenario.fault_tolerance.trims_by_acks
    if engine == "plain":
        pairs = possible_pairs(scenario, rates)
        marks = sum(count * scenario.operators[name].groups for name, count in slices.items())
        marked_pairs = sum(count * pairs[name] for name, count in slices.items())
        of_marks = marks * PLAIN_BYTES_PER_MARK + marked_pairs * PLAIN_BYTES_PER_MARKED_PAIR
        return sum(pairs.values()) * PLAIN_BYTES_PER_PAIR + of_marks
    each = BYTES_PER_PAIR + (BYTES_PER_ACKED_PAIR if acked else 0.0)
    return kept_pairs(scenario, rates) * each + _ring_bytes(scenario)


def _ring_bytes(scenario: Scenario) -> float:
    """Return the memory of the marks of the event loop at its peak [B]."""
    if not scenario.fault_tolerance.trims_by_acks:
        return 0.0
    most = max(open_slices(scenario).values(), default=0.0)
    partitions = sum(operator.groups for operator in scenario.operators.values())
    if most < LEAST_RING:
        return partitions * LEAST_RING * BYTES_PER_MARK
    ring = 2.0 ** (math.floor(math.log2(most)) + 1)
    return partitions * ring * BYTES_PER_MARK * GROWN_RING


def rounds_s(scenario: Scenario, rates: Mapping[str, Flow], engine: Engine) -> float:
    """Return the time that checkpoints, rounds of acks and slices of a replication take [s]."""
    tolerance, over = scenario.fault_tolerance, scenario.duration_s
    saved = over / tolerance.interval_s if tolerance.takes_checkpoints else 0.0
    trimming, history = tolerance.acked_slices, tolerance.kept_history
    rounds = over / trimming.every_s if trimming else over / history.every_s if history else 0.0
    slices = over / trimming.slice_s if trimming else 0.0
    marked = open_slices(scenario)
    marks = slices * sum(scenario.operators[name].groups for name in marked)
    if engine != "plain":
        of_pairs = kept_pairs(scenario, rates) * (saved * SECONDS_PER_SAVED_PAIR + rounds * SECONDS_PER_ACKED_PAIR)
        return of_pairs + marks * SECONDS_PER_MARK + _ring_bytes(scenario) * SECONDS_PER_RING_BYTE
    pairs, above = possible_pairs(scenario, rates), (trimming.levels - 1 if trimming else 0)
    of_pairs = sum(pairs.values()) * (saved * PLAIN_SECONDS_PER_SAVED_PAIR + rounds * PLAIN_SECONDS_PER_ACKED_PAIR)
    of_marks = marks * (PLAIN_SECONDS_PER_MARK + above * PLAIN_SECONDS_PER_CONFIRMED)
    marked_pairs = slices * sum(pairs[name] for name in marked)
    each_pair = PLAIN_SECONDS_PER_MARKED_PAIR + above * PLAIN_SECONDS_PER_CONFIRMED_PAIR
    return of_pairs + of_marks + marked_pairs * each_pair
