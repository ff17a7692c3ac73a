"""Tuples that wait at the end of a run that is overloaded, by mean rates: a fluid model of the dataflow.

A task of utilisation rho > 1 serves a share 1 / rho of its input, and passes no more on. On hosts whose cores are
shared each task gets the same share of its demand, so that all cores are busy. Tuples that a bounded queue does not
take wait at its senders, and if these have bounded queues too, at the sources in the end: they are not emitted yet.

All rates are means over the whole run: peaks that are caught up before the end do not count, nor do waits for links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.flow import copies
from models.steady_state.load import Load, expected_load
from models.topology import layout

_ROUNDS = 60  # of the fixed-point iteration for shared cores; steps of one half damp it, so that it does not oscillate
_BUSY = 1 - 1e-9


@dataclass(frozen=True)
class _Passed:
    """Of each operator, relative to what would come without any overload: what comes, and what is served."""

    comes: Mapping[str, float]
    served: Mapping[str, float]
    demand: Mapping[str, float]  # CPU time in a second of each host with shared cores [cores]
    limits: Mapping[str, float]  # share that can be served before bounded queues downstream are full
    cores: Mapping[str, np.ndarray]  # share of its demand that each task gets, (parallelism,)


def backlog(scenario: Scenario, inputs: RunInputs | None = None) -> dict[str, float]:
    """Return the tuples that wait at each operator at the end, at sources to be emitted; of one replication."""
    load = expected_load(scenario, inputs)
    passed = _passed(scenario, load, inputs)
    found = {}
    for name, operator in scenario.operators.items():
        own = load.operators[name]
        if operator.buffer is None:
            excess = max(0.0, passed.comes[name] - passed.served[name])
            found[name] = excess * own.flow.rate_in.mean_per_s * scenario.duration_s
        else:
            # A bounded queue holds `buffer` tuples at the most: full at busy tasks, or at all if a reader stops them.
            busy = own.utilisation * passed.comes[name] >= _BUSY * passed.cores[name]
            full = operator.parallelism if passed.limits[name] < 1 else int(busy.sum())
            found[name] = float(operator.buffer) * full
    return found


def served_shares(scenario: Scenario, inputs: RunInputs | None = None) -> dict[str, float]:
    """Return of each operator the share that it serves of what would come without any overload."""
    return dict(_passed(scenario, expected_load(scenario, inputs), inputs).served)


def queues_only(scenario: Scenario) -> bool:
    """Return whether every task is a server of its own and nothing happens but tuples: then the scan runs, as a rule.

    A rule of thumb for estimates; `sim.kernel.choice` decides which kernel runs.
    """
    operators = scenario.operators.values()
    plain = all(
        one.window is None and one.timer is None and one.buffer is None and one.kind != "join" for one in operators
    )
    own_cores = all(group.cpu == "dedicated" and group.load is None for group in scenario.hosts.values())
    calm = not (scenario.may_fail or scenario.has_replicas or scenario.events or scenario.counts_load)
    return plain and own_cores and calm and scenario.fault_tolerance.method in ("none", "checkpoint")


def _passed(scenario: Scenario, load: Load, inputs: RunInputs | None) -> _Passed:
    """Return the throughput at which the shares of shared cores settle."""
    groups = layout.hosts(scenario)
    shared = {host for host, group in groups.items() if group.cpu != "dedicated"}
    share = dict.fromkeys(shared, 1.0)
    passed = _once(scenario, load, inputs, share)
    if all(passed.demand[host] <= groups[host].cores for host in shared):
        return passed
    for _ in range(_ROUNDS):
        for host in shared:
            free = groups[host].cores / passed.demand[host] if passed.demand[host] else 1.0
            share[host] = (share[host] + min(1.0, free)) / 2
        passed = _once(scenario, load, inputs, share)
    return passed


def _once(scenario: Scenario, load: Load, inputs: RunInputs | None, share: Mapping[str, float]) -> _Passed:
    """Return the throughput if each shared host grants this share of the cores that its tasks ask for."""
    placed = layout.placement(scenario)
    hosts = {
        name: [placed[layout.task_name(name, index)] for index in range(operator.parallelism)]
        for name, operator in scenario.operators.items()
    }
    cores = {
        name: np.array([share.get(host, 1.0) if scenario.operators[name].service else 1.0 for host in on])
        for name, on in hosts.items()
    }
    limits = _limits(scenario, load, cores)
    comes: dict[str, float] = {}
    served: dict[str, float] = {}
    demand = dict.fromkeys(share, 0.0)
    for name in layout.topological(scenario):
        operator, own = scenario.operators[name], load.operators[name]
        comes[name] = 1.0 if operator.kind == "source" else _coming(scenario, load, inputs, name, served)
        busy = own.utilisation * comes[name]
        for index, host in enumerate(hosts[name]):
            if host in demand:
                demand[host] += float(busy[index]) * operator.threads
        part = np.minimum(cores[name], 1 / np.maximum(busy, 1e-300))
        served[name] = min(comes[name] * float((own.task_shares * part).sum()), limits[name])
    return _Passed(comes, served, demand, limits, cores)


def _coming(scenario: Scenario, load: Load, inputs: RunInputs | None, name: str, served: Mapping[str, float]) -> float:
    """Return the share of its input that an operator gets, when its inputs serve these shares of theirs."""
    rates = {
        upstream: load.operators[upstream].flow.rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
        for upstream in scenario.operators[name].inputs
    }
    total = sum(rates.values())
    return sum(rate * served[upstream] for upstream, rate in rates.items()) / total if total else 1.0


def _limits(scenario: Scenario, load: Load, cores: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the share of its input that each operator can serve before bounded queues behind it are full.

    A sender stops for the fullest queue, so the busiest task of an operator decides for all.
    """
    limits: dict[str, float] = {}
    readers = layout.dataflow(scenario)
    # From the sinks up: a limit downstream holds for everything above it (backpressure).
    for name in reversed(layout.topological(scenario)):
        limits[name] = 1.0
        for reader in readers[name]:
            if scenario.operators[reader].buffer is not None:
                busy = load.operators[reader].utilisation / np.maximum(cores[reader], 1e-300)
                limits[name] = min(limits[name], limits[reader], 1 / max(1.0, float(busy.max(initial=0.0))))
    return limits
