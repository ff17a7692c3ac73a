"""Mean load of tasks, hosts and links, and the size of the state at the end: closed formulas.

A task's share of its operator's input follows the partitioning: by key the shares of its key groups under the
key distribution, by shuffle an equal one, by forward its upstream task's. Utilisation law: load = rate x
service / servers (Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.scenario.cluster import HostGroup
from models.scenario.description import ScenarioDescription
from models.scenario.inputs import RunInputs
from models.scenario.job import Operator
from models.scenario.key_groups import group_shares
from models.scenario.workload import NexmarkKeys, ProfileKeys, SellerKeys, SeriesRate, UniformKeys, ZipfKeys
from models.steady_state.flow import Flow, copies, flows
from models.steady_state.state_size import bytes_at_the_end
from models.topology import layout
from models.topology.chains import threads_of

KeyLaw = UniformKeys | ZipfKeys | NexmarkKeys | SellerKeys | str  # a source's name: the key groups of its profile
Mixture = tuple[tuple[float, KeyLaw], ...]  # laws with weights


@dataclass(frozen=True)
class OperatorLoad:
    """Load of an operator: rates, each task's share of the input and utilisation, state at the end [B].

    `chores` is the part of `utilisation` that does not come with tuples: pauses for snapshots, and acks. In a chain
    both are those of the thread, which all its operators have.
    """

    flow: Flow
    task_shares: np.ndarray  # (parallelism,), sum 1
    utilisation: np.ndarray  # (parallelism,) mean load of each task per thread
    chores: np.ndarray  # (parallelism,)
    state_bytes: float
    part: np.ndarray | float = 1.0  # (parallelism,) of the utilisation that is the operator's own

    @property
    def peak_utilisation(self) -> float:
        """Return the load of the busiest task while the rate is at its peak."""
        by_tuples = self.utilisation - self.chores
        return float((by_tuples * self.flow.peak_factor + self.chores).max(initial=0.0))


@dataclass(frozen=True)
class HostLoad:
    """How busy a host and its link are.

    `tasks`: their names. `utilisation` is per core, on dedicated cores of the busiest task; `peak_utilisation` the same
    at peak rates. `sent_bytes_per_s`, `received_bytes_per_s`: tuples to and from other hosts, on average, and acks that
    travel over links.
    """

    tasks: tuple[str, ...]
    utilisation: float
    peak_utilisation: float
    sent_bytes_per_s: float
    received_bytes_per_s: float
    link_utilisation: float | None  # of the busier direction; None where the link has no bound


@dataclass(frozen=True)
class Load:
    """Expected load of a scenario, by name of operator and of host.

    `assumptions` lists the inputs that had to be guessed, in words; empty if everything was given.
    """

    operators: Mapping[str, OperatorLoad]
    hosts: Mapping[str, HostLoad]
    assumptions: tuple[str, ...]


def expected_load(scenario: ScenarioDescription, inputs: RunInputs | None = None) -> Load:
    """Return the load of operators, tasks, hosts and links; assumes a valid scenario.

    `inputs`: recorded rates, and shares of streams. Utilisations above 1 mean overload; nothing here lets a queue stop
    its senders (see `models.steady_state.estimate.backlog`). Of checkpoints only the pauses of their tasks are in it,
    not what is written and sent (`checkpoint_traffic`).

    >>> from holdfast import expected_load, read_scenario
    >>> load = expected_load(read_scenario("examples/two-hosts.toml").scenario)
    >>> load.operators["count"].utilisation.round(2).tolist()  # of each task
    [0.2, 0.2]
    """
    rates = flows(scenario, inputs)
    shares = task_shares(scenario, rates, inputs)
    placed, hosts = layout.placement(scenario), layout.hosts(scenario)
    operators = {}
    for name, operator in scenario.operators.items():
        mean_s = operator.service.mean_s if operator.service else 0.0
        busy = rates[name].rate_in.mean_per_s * shares[name] * mean_s / speeds(scenario, name, placed, hosts)
        state_bytes = bytes_at_the_end(scenario, name, rates, inputs)
        chores = _chores(scenario, name, state_bytes)
        operators[name] = OperatorLoad(rates[name], shares[name], busy / operator.threads + chores, chores, state_bytes)
    operators |= dict(_of_threads(scenario, operators))
    return Load(operators, _hosts(scenario, operators, placed, inputs), _assumptions(scenario, inputs))


def _of_threads(
    scenario: ScenarioDescription, operators: Mapping[str, OperatorLoad]
) -> Iterator[tuple[str, OperatorLoad]]:
    """Yield the operators that share threads, with the load of these."""
    for names in threads_of(scenario):
        busy = sum((operators[name].utilisation for name in names), np.zeros(1))
        chores = sum((operators[name].chores for name in names), np.zeros(1))
        for name in names:
            part = operators[name].utilisation / np.where(busy > 0, busy, 1.0)
            yield name, replace(operators[name], utilisation=busy, chores=chores, part=part)


def task_shares(
    scenario: ScenarioDescription, rates: Mapping[str, Flow], inputs: RunInputs | None = None
) -> dict[str, np.ndarray]:
    """Return operator -> share of its input that each task gets, (parallelism,), sum 1.

    `rates`: those of `flows`, as weights of the inputs. An operator without input has equal shares.
    """
    mixtures = _key_mixtures(scenario, rates, inputs)
    found: dict[str, np.ndarray] = {}
    leaves: dict[str, np.ndarray] = {}  # share of the outputs of each task
    # In topological order: by forward a task inherits the share of its upstream task.
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        even = np.full(operator.parallelism, 1 / operator.parallelism)
        weighted = []
        for upstream, partitioning in operator.inputs.items():
            rate = rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
            if partitioning == "key":
                by_group = _shares_of_groups(mixtures[upstream], operator, inputs)
                tasks = layout_of_groups(operator)
                share = np.bincount(tasks, weights=by_group, minlength=operator.parallelism)
            elif partitioning == "forward":
                share = leaves[upstream]
            else:
                share = even
            weighted.append((rate, share))
        found[name] = leaves[name] = _weighted(weighted, even)
        if isinstance(operator.selectivity, Mapping):
            made = [operator.selectivity_of(upstream) for upstream in operator.inputs]
            left = [(rate * factor, share) for (rate, share), factor in zip(weighted, made, strict=True)]
            leaves[name] = _weighted(left, found[name])
    return found


def _weighted(shares: Sequence[tuple[float, np.ndarray]], otherwise: np.ndarray) -> np.ndarray:
    """Return the mean of shares (parallelism,) with these weights; `otherwise` where all weights are 0."""
    total = sum(rate for rate, _ in shares)
    return sum((rate / total * share for rate, share in shares), np.zeros_like(otherwise)) if total else otherwise


def layout_of_groups(operator: Operator) -> np.ndarray:
    """Return the task of each key group at the start, (groups,)."""
    return np.array([operator.task_of(group) for group in range(operator.groups)])


def _key_mixtures(
    scenario: ScenarioDescription, rates: Mapping[str, Flow], inputs: RunInputs | None
) -> dict[str, Mixture]:
    """Return operator -> key laws of its output, weighted by where the tuples come from."""
    mixtures: dict[str, Mixture] = {}
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            keys = scenario.workload[name].keys
            mixtures[name] = ((1.0, name if isinstance(keys, ProfileKeys) else keys),)
        elif operator.output is not None and operator.output.keys is not None:
            mixtures[name] = ((1.0, operator.output.keys),)
        else:
            weights: dict[KeyLaw, float] = defaultdict(float)
            for upstream in operator.inputs:
                rate = rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
                if isinstance(operator.selectivity, Mapping):
                    rate *= operator.selectivity[upstream]
                for weight, law in mixtures[upstream]:
                    weights[law] += weight * rate
            total = sum(weights.values()) or 1.0
            mixtures[name] = tuple((weight / total, law) for law, weight in weights.items())
    return mixtures


def _shares_of_groups(mixture: Mixture, operator: Operator, inputs: RunInputs | None) -> np.ndarray:
    """Return the share of each key group of an operator in a mixture of key laws, (groups,)."""
    shares, groups = np.zeros(operator.groups), operator.groups
    for weight, law in mixture:
        of_law = (
            _of_profile(law, groups, inputs) if isinstance(law, str) else group_shares(law, groups, operator.key_hash)
        )
        shares += weight * of_law
    return shares


def _of_profile(source: str, groups: int, inputs: RunInputs | None) -> np.ndarray:
    """Return the shares of a profile's key groups over all its bins; equal ones where it was not read."""
    series = inputs.rates.get(source) if inputs else None
    if series is None or series.key_weights is None or series.key_weights.shape[0] != groups:
        return np.full(groups, 1 / groups)
    weights = series.key_weights.sum(axis=1, dtype=float)
    return np.asarray(weights / weights.sum())


def speeds(
    scenario: ScenarioDescription, name: str, placed: Mapping[str, str], hosts: Mapping[str, HostGroup]
) -> np.ndarray:
    """Return the speed of each task's host less the mean share that others take, (parallelism,)."""
    count = scenario.operators[name].parallelism
    groups = [hosts[placed[layout.task_name(name, index)]] for index in range(count)]
    taken = [group.load.mean_share(scenario.duration_s) if group.load else 0.0 for group in groups]
    return np.array([group.speed * (1 - share) for group, share in zip(groups, taken, strict=True)])


def _chores(scenario: ScenarioDescription, name: str, state_bytes: float) -> np.ndarray:
    """Return the share of the time of each task, per thread, that pauses for snapshots and acks take, (parallelism,).

    Each key group of a task has a pause of its own, which grows with its state where that is copied.
    """
    operator, tolerance = scenario.operators[name], scenario.fault_tolerance
    busy = np.zeros(operator.parallelism)
    if operator.service is None:
        return busy  # nothing is served one after the other there
    if tolerance.saves(operator):
        groups = np.bincount(layout_of_groups(operator), minlength=operator.parallelism)
        copy = tolerance.snapshots.copy_bytes_per_s
        each_s = tolerance.snapshots.pause_s + (state_bytes / operator.groups / copy if copy else 0.0)
        busy += groups * each_s / tolerance.interval_s
    trimming = tolerance.acked_slices
    if trimming is not None:
        busy += layout.acks_of_task(scenario, name) * trimming.work_s / trimming.every_s
    return busy / operator.threads


def _hosts(
    scenario: ScenarioDescription,
    operators: Mapping[str, OperatorLoad],
    placed: Mapping[str, str],
    inputs: RunInputs | None,
) -> dict[str, HostLoad]:
    """Return host -> its load: of the busiest task on dedicated cores, else of all tasks together."""
    tasks: dict[str, list[str]] = defaultdict(list)
    means: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, list[float]] = defaultdict(list)
    groups = layout.hosts(scenario)
    for name, operator in scenario.operators.items():
        for index in range(operator.parallelism):
            task = layout.task_name(name, index)
            host = placed[task]
            on_cores = operator.threads if groups[host].cpu != "dedicated" else 1
            own = groups[host].cpu == "dedicated"
            load = float(operators[name].utilisation[index]) * on_cores
            load *= 1.0 if own else float(np.broadcast_to(operators[name].part, operator.parallelism)[index])
            tasks[host].append(task)
            means[host].append(load)
            peaks[host].append(load * operators[name].flow.peak_factor)
    sent, received = _traffic(scenario, operators, placed, inputs)
    found = {}
    for host, group in groups.items():
        own = group.cpu == "dedicated"
        link = max(sent[host], received[host])
        found[host] = HostLoad(
            tuple(tasks[host]),
            max(means[host], default=0.0) if own else sum(means[host]) / group.cores,
            max(peaks[host], default=0.0) if own else sum(peaks[host]) / group.cores,
            sent[host],
            received[host],
            # Links are full duplex: the busier direction decides.
            link / group.network_bytes_per_s if group.network_bytes_per_s else None,
        )
    return found


def _traffic(
    scenario: ScenarioDescription,
    operators: Mapping[str, OperatorLoad],
    placed: Mapping[str, str],
    inputs: RunInputs | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the bytes in a second that each host sends to and receives from other hosts: tuples and acks."""
    sent: dict[str, float] = defaultdict(float)
    received: dict[str, float] = defaultdict(float)
    sizes = layout.output_bytes(scenario)
    by_host = {name: shares_by_host(name, load.task_shares, placed) for name, load in operators.items()}
    for name, operator in scenario.operators.items():
        for upstream, partitioning in operator.inputs.items():
            rate = operators[upstream].flow.rate_out.mean_per_s * sizes[upstream]
            rate *= copies(scenario, upstream, name, inputs)
            if partitioning == "forward":
                for index, share in enumerate(operators[upstream].task_shares):
                    start = placed[layout.task_name(upstream, index)]
                    end = placed[layout.task_name(name, index)]
                    if start != end:
                        sent[start] += rate * float(share)
                        received[end] += rate * float(share)
                continue
            _spread(sent, received, rate, by_host[upstream], by_host[name])
    acker = scenario.fault_tolerance.acking
    if acker is not None and acker.transport == "links":
        for name, origin in _origins(scenario, operators, inputs).items():
            rate = operators[name].flow.rate_in.mean_per_s * acker.ack_bytes
            for source, share in origin.items():
                # A root counts as done beside its source: a source sends no ack over links.
                if name != source:
                    _spread(sent, received, rate * share, by_host[name], by_host[source])
    trimming = scenario.fault_tolerance.acked_slices
    if trimming is not None:
        for name, operator in scenario.operators.items():
            for upstream in operator.inputs:
                # Each task has an ack for each task upstream in a round, where that keeps anything for it.
                pairs = operator.parallelism * scenario.operators[upstream].parallelism
                rate = pairs * trimming.ack_bytes / trimming.every_s
                evenly = [_evenly(scenario, one, placed) for one in (name, upstream)]
                _spread(sent, received, rate, *evenly)
    return sent, received


def _evenly(scenario: ScenarioDescription, operator: str, placed: Mapping[str, str]) -> dict[str, float]:
    """Return host -> share of the tasks of an operator."""
    many = scenario.operators[operator].parallelism
    return shares_by_host(operator, np.full(many, 1 / many), placed)


def _spread(
    sent: dict[str, float],
    received: dict[str, float],
    rate: float,
    starts: Mapping[str, float],
    ends: Mapping[str, float],
) -> None:
    """Add a stream between hosts with these shares of it.

    Sender and receiver are independent here: a message stays on a host with the product of both shares.
    """
    for host, share in starts.items():
        sent[host] += rate * share * (1 - ends.get(host, 0.0))
    for host, share in ends.items():
        received[host] += rate * share * (1 - starts.get(host, 0.0))


def _origins(
    scenario: ScenarioDescription, operators: Mapping[str, OperatorLoad], inputs: RunInputs | None
) -> dict[str, dict[str, float]]:
    """Return operator -> source -> share of its tuples whose roots are of that source."""
    found: dict[str, dict[str, float]] = {}
    leaves: dict[str, dict[str, float]] = {}  # the same of what it sends
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        weights: dict[str, float] = defaultdict(float)
        sent: dict[str, float] = defaultdict(float)
        for upstream in operator.inputs:
            rate = operators[upstream].flow.rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
            for source, share in leaves[upstream].items():
                weights[source] += rate * share
                sent[source] += rate * share * operator.selectivity_of(upstream)
        found[name] = {name: 1.0} if operator.kind == "source" else _normed(weights)
        by_input = isinstance(operator.selectivity, Mapping)
        leaves[name] = _normed(sent) if by_input else found[name]
    return found


def _normed(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the shares in the sum of weights; none where that is 0."""
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()} if total else {}


def shares_by_host(name: str, shares: np.ndarray, placed: Mapping[str, str]) -> dict[str, float]:
    """Return host -> sum of the shares of the tasks of an operator that are placed there."""
    found: dict[str, float] = defaultdict(float)
    for index, share in enumerate(shares.tolist()):
        found[placed[layout.task_name(name, index)]] += share
    return found


def _assumptions(scenario: ScenarioDescription, inputs: RunInputs | None) -> tuple[str, ...]:
    """Return in words the inputs that were not given, and the values they count as."""
    found = []
    for name, workload in scenario.workload.items():
        if inputs is not None and name in inputs.rates:
            continue
        if isinstance(workload.rate, SeriesRate):
            found.append(f"the series of {name} was not read: its rate counts as zero")
        if isinstance(workload.keys, ProfileKeys):
            found.append(f"the profile of {name} was not read: its key groups count as equally loaded")
    return tuple(found)
