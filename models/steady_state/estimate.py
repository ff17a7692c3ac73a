"""How large a run will be: tuples, steps, events, memory and time, against the scenario's limits.

`estimate` is the whole; before it stand its parts: `watermarks`, which go over the channels between tasks, and
`backlog`, the tuples that wait at the end of an overloaded run, by a fluid model of the dataflow at mean rates. A task
of utilisation rho > 1 serves a share 1 / rho of its input, and passes no more on. On hosts whose cores are shared each
task gets the same share of its demand, so that all cores are busy. Tuples that a bounded queue does not take wait at
its senders, and if these have bounded queues too, at the sources in the end: they are not emitted yet.

All rates are means over the whole run: peaks that are caught up before the end do not count, nor do waits for links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np

from models import display, units
from models.errors import InputFault, raise_if_any
from models.records.tables import bucket_ns
from models.scenario.cluster import ExponentialFailures
from models.scenario.events import Detail
from models.scenario.inputs import Engine, RateSeries, RunInputs
from models.scenario.job import FixedState
from models.scenario.resolution import simulated
from models.scenario.rules import resolution
from models.scenario.rules.int64_limits import whole_time_faults
from models.scenario.scenario import Scenario
from models.steady_state import scaled_down
from models.steady_state.flow import Flow, copies, flows
from models.steady_state.kept_outputs import kept_bytes, rounds_s
from models.steady_state.load import Load, expected_load
from models.topology import layout
from models.topology.chains import threads_of
from models.topology.failed_slots import waits_for_slots
from models.topology.layout import dataflow, topological
from models.units import to_ns


def watermarks(scenario: Scenario) -> float:
    """Return the watermarks over all channels of one replication, about; 0 without a window.

    A source task sends one over each of its channels at each multiple of `watermark`, whether or not there are tuples,
    and a task sends on what it hears each time the least of it rises: as often as the slowest of its inputs speaks.

    `scenario`: valid; rates of tuples do not matter.
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


_ROUNDS = 60  # of the fixed-point iteration for shared cores; steps of one half damp it, so that it does not oscillate
_BUSY = 1 - 1e-9


@dataclass(frozen=True)
class _Passed:
    """Shares by operator, relative to what would come without any overload.

    `comes`: share of its input that reaches an operator. `served`: share that it serves.
    """

    comes: Mapping[str, float]
    served: Mapping[str, float]
    demand: Mapping[str, float]  # CPU time in a second of each host with shared cores [cores]
    limits: Mapping[str, float]  # share that can be served before bounded queues downstream are full
    cores: Mapping[str, np.ndarray]  # share of its demand that each task gets, (parallelism,)


def backlog(scenario: Scenario, inputs: RunInputs | None = None) -> dict[str, float]:
    """Return the tuples that wait at each operator at the end, at sources to be emitted; of one replication.

    `inputs`: recorded rates and measured shares, if there are any. Expected values, with every rate at its mean.
    """
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
    """Return operator -> share that it serves of the tuples that would come without any overload, 0 to 1."""
    return dict(_passed(scenario, expected_load(scenario, inputs), inputs).served)


def queues_only(scenario: Scenario) -> bool:
    """Return whether every task is a server of its own and nothing happens but tuples: then the scan runs, as a rule.

    A rule of thumb for estimates; `sim.kernel.choice` decides which kernel runs.
    """
    operators = scenario.operators.values()
    plain = all(
        one.window is None
        and one.timer is None
        and one.postpone is None
        and one.buffer is None
        and one.kind != "join"
        and one.scan_s is None
        and not isinstance(one.selectivity, Mapping)
        for one in operators
    )
    if threads_of(scenario):
        return False
    own_cores = all(group.cpu == "dedicated" and group.load is None for group in scenario.hosts.values())
    fails = scenario.may_fail or scenario.checkpoints_may_fail_it
    calm = not (fails or scenario.has_replicas or scenario.events or scenario.counts_load)
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
            # A step of one half: full steps would oscillate between two shares.
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
        busy, part_of = (own.utilisation - own.chores) * comes[name], np.broadcast_to(own.part, operator.parallelism)
        for index, host in enumerate(hosts[name]):
            if host in demand:
                demand[host] += float(busy[index] + own.chores[index]) * operator.threads * float(part_of[index])
        # Chores go ahead of tuples, which share what they leave.
        part = np.minimum(cores[name], np.maximum(0.0, 1 - own.chores) / np.maximum(busy, 1e-300))
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


# Measured on the scenarios of the library, their durations times 1 and 10, and on the airline study. A step is one
# tuple that an operator serves, an event one checkpoint of a key group or one task in a sample. Runs within a kernel
# differ by a factor of two.
SECONDS_PER_STEP: dict[Detail, float] = {"tuples": 3.3e-7, "histograms": 3e-7}  # in the event loop
SECONDS_PER_SCANNED: dict[Detail, float] = {"tuples": 8e-8, "histograms": 2.5e-8}  # step, in the scan
SECONDS_PER_RUN = 0.02
SECONDS_PER_EVENT = 5e-6
SECONDS_PER_SCAN = 30e-6
SECONDS_PER_HEARTBEAT = 2e-6  # that is drawn
SECONDS_PER_WATERMARK = 2e-7  # over a channel
SECONDS_PER_PLANNED = 1e-4  # checkpoint, each time the allocation is compared with a fresh one
BYTES_PER_STEP = 150.0
# If a host may fail: ids of tuples, to recognise duplicates. Where one does, 130 to 320 bytes for tables in which they
# are looked for; a tenth of that until one does. They are kept
BYTES_PER_LOGGED_STEP = 200.0
_BEFORE_ANY = 0.1
LOGGED_INTERVALS = 8  # for so many checkpoint intervals, with some that are not needed any more,
LOGGED_S = 10.0  # or for this long where nothing is kept for replay
# Where all tasks go back to one checkpoint no id is looked up, and a failure costs what sources keep: measured in jobs
# of 2,000 to 20,000 records/s, 120 to 230 bytes.
BYTES_PER_SENT_AGAIN = 200.0
# With barriers that overtake, what is sent again is known by its id at each operator between sources and sinks, in the
# same jobs with one and four of these and 10 to 240 s between checkpoints: 120 to 460 bytes.
BYTES_PER_KNOWN_AGAIN = 300.0
BYTES_PER_EVENT = 300.0
MOST_SAMPLES = 1000
# Recorded as histograms, at the most: waits and sojourns of an operator; latencies of a sink that fill some 14
# powers of two in each interval, with the tables made of them.
BYTES_PER_OPERATOR = 150e3
BYTES_PER_SINK_AND_INTERVAL = 40e3
# Of a tuple that waits, measured with a million of them: in the queues of the scan, and in those of the event loop,
# whose room is twice as large each time it grows.
BYTES_PER_WAITING_IN_SCAN = 70.0
BYTES_PER_WAITING = 200.0
BYTES_PER_UNEMITTED = 55.0  # for a tuple that a source could not emit yet
# Measured in the same way of the plain engine, where runs differ by a factor of two, too.
PLAIN_SECONDS_PER_STEP = 2e-5
PLAIN_SECONDS_PER_KEPT_STEP = 2e-5  # more, where outputs are kept until downstream has made sure of them
PLAIN_SECONDS_PER_WATERMARK = 1e-4
PLAIN_BYTES_PER_STEP = 350.0
PLAIN_BYTES_PER_LOGGED_STEP = 300.0  # more; no id is forgotten


@dataclass(frozen=True)
class Estimate:
    """Size of all replications together; expected values, not bounds.

    `check_limits` compares `steps`, `memory_bytes` and `time_s`, which is that of one process, with the limits of the
    scenario.
    """

    tuples: float  # arriving at sources
    steps: float  # tuples times the operators they reach, twice where these have a replica
    events: float  # checkpoints of key groups, tasks in samples
    memory_bytes: float
    time_s: float
    detail: Detail  # how much is recorded
    faults: tuple[InputFault, ...] = ()  # times or bytes that the simulator could not count


def estimate(
    scenario: Scenario,
    rate_series: Mapping[str, RateSeries] | None = None,
    shares: Mapping[str, float] | None = None,
    engine: Engine = "auto",
) -> Estimate:
    """Return the estimated size of a run of a valid scenario, with recorded rates by source and shares by stream.

    It is that of what is simulated: where one record stands for several, all figures are smaller.

    `engine`: the plain one takes far more time and memory for a tuple. The constants of the model are measured; runs
    within a kernel differ by a factor of two.

    >>> from holdfast import estimate, read_scenario
    >>> size = estimate(read_scenario("examples/two-hosts.toml").scenario)
    >>> size.tuples, size.steps
    (12000.0, 36000.0)
    """
    scenario, inputs = simulated(scenario, RunInputs(rates=rate_series or {}, shares=shares or {}))
    rates = flows(scenario, inputs)
    over = scenario.duration_s * scenario.replications
    tuples = sum(rates[name].rate_out.mean_per_s for name in scenario.workload)
    doubled = _doubled(scenario, rates)
    # Memory is that of all tuples that come, time that of the tuples that are served: overloaded operators do less.
    steps = _steps(scenario, rates) + doubled
    events = _control_rows(scenario) * scenario.replications
    control_bytes = _control_bytes(scenario, rates, steps, events)
    # The detail follows from memory alone: time never changes what is recorded.
    detail = _detail(scenario, steps, control_bytes)
    served = doubled + _steps(scenario, rates, served_shares(scenario, inputs))
    if engine == "plain":
        # The plain engine has no histograms, and forgets no ids.
        detail = "tuples"
        logged = PLAIN_BYTES_PER_LOGGED_STEP if _logs(scenario) else 0.0
        memory_bytes = events * BYTES_PER_EVENT + steps * (PLAIN_BYTES_PER_STEP + logged)
        memory_bytes += kept_bytes(scenario, rates, engine)
        step_s, watermark_s = PLAIN_SECONDS_PER_STEP, PLAIN_SECONDS_PER_WATERMARK
        step_s += PLAIN_SECONDS_PER_KEPT_STEP if scenario.fault_tolerance.keeps_outputs else 0.0
    else:
        memory_bytes = control_bytes + (
            steps * BYTES_PER_STEP
            if detail == "tuples"
            else _histogram_bytes(scenario) + _waiting_bytes(scenario, inputs)
        )
        step_s = (SECONDS_PER_SCANNED if queues_only(scenario) else SECONDS_PER_STEP)[detail]
        watermark_s = SECONDS_PER_WATERMARK
    return Estimate(
        tuples * over,
        steps,
        events,
        memory_bytes,
        served * step_s
        + events * SECONDS_PER_EVENT
        + scenario.replications * SECONDS_PER_RUN
        + _heartbeats(scenario) * SECONDS_PER_HEARTBEAT
        + watermarks(scenario) * scenario.replications * watermark_s
        + _planned(scenario) * SECONDS_PER_PLANNED
        + _scans(scenario) * SECONDS_PER_SCAN
        + rounds_s(scenario, rates, engine) * scenario.replications,
        detail,
        tuple(whole_time_faults(scenario, inputs)),
    )


def detail_and_steps(scenario: Scenario, inputs: RunInputs) -> tuple[Detail, float]:
    """Return `detail` and `steps` of the estimate, and nothing that takes longer."""
    scenario, inputs = simulated(scenario, inputs)
    rates = flows(scenario, inputs)
    steps = _steps(scenario, rates) + _doubled(scenario, rates)
    events = _control_rows(scenario) * scenario.replications
    return _detail(scenario, steps, _control_bytes(scenario, rates, steps, events)), steps


def _steps(scenario: Scenario, rates: Mapping[str, Flow], shares: Mapping[str, float] | None = None) -> float:
    """Return the tuples at all operators, each weighted by its share in `shares` if given."""
    over = scenario.duration_s * scenario.replications
    parts = {name: 1.0 if shares is None else shares[name] for name in topological(scenario)}
    return sum(rates[name].rate_in.mean_per_s * part for name, part in parts.items()) * over


def _doubled(scenario: Scenario, rates: Mapping[str, Flow]) -> float:
    """Return the steps of active replicas, assuming that the key groups of an operator are equally loaded."""
    over = scenario.duration_s * scenario.replications
    replicated = layout.replicated_groups(scenario).items()
    shares = {name: count / scenario.operators[name].groups for name, count in replicated}
    return sum(rates[name].rate_in.mean_per_s * share for name, share in shares.items()) * over


def _logs(scenario: Scenario) -> bool:
    """Return whether the ids of tuples are kept, to know them again."""
    return scenario.keeps_ids


def _control_bytes(scenario: Scenario, rates: Mapping[str, Flow], steps: float, events: float) -> float:
    """Return the memory of all but the tuples."""
    kept = kept_bytes(scenario, rates, "compiled")
    if not _logs(scenario):
        return events * BYTES_PER_EVENT + kept
    if scenario.fault_tolerance.rolls_back_together:  # no id is looked up
        sent = sum(rates[name].rate_out.mean_per_s for name in scenario.workload)
        return events * BYTES_PER_EVENT + sent * _sent_again_s(scenario) * BYTES_PER_SENT_AGAIN + kept
    if scenario.fault_tolerance.unaligned:
        between = (rates[name] for name, one in scenario.operators.items() if one.kind not in ("source", "sink"))
        known = sum(one.rate_in.mean_per_s for one in between) * _sent_again_s(scenario)
        return events * BYTES_PER_EVENT + known * BYTES_PER_KNOWN_AGAIN + kept
    return events * BYTES_PER_EVENT + steps * _remembered(scenario) * BYTES_PER_LOGGED_STEP + kept


def _sent_again_s(scenario: Scenario) -> float:
    """Return in how much time came what sources send again at the most: since a checkpoint, and in an outage [s].

    An outage lasts as long as a dead host counts, half as long again until the next restart, and until all have their
    states; longer where tasks wait for slots.
    """
    tolerance, restart = scenario.fault_tolerance, scenario.recovery.restart
    states = ((one.state, one.groups) for one in scenario.operators.values())
    size = sum(state.group_bytes * groups for state, groups in states if isinstance(state, FixedState))
    outage_s = 1.5 * scenario.detector.patience_s(silent=False) + (restart.mean_s if restart else 0.0)
    outage_s += size / tolerance.remote_bytes_per_s
    outage_s += max((one.ends_s - one.begins_s for one in waits_for_slots(scenario)), default=0.0)
    return min(scenario.duration_s, tolerance.interval_s + outage_s)


def _detail(scenario: Scenario, steps: float, control_bytes: float) -> Detail:
    """Return the detail that the scenario asks for, or that rows of tuples fit into memory for."""
    fit = steps * BYTES_PER_STEP + control_bytes <= scenario.limits.memory_bytes
    return scenario.recording.chosen(steps, fit)


def _remembered(scenario: Scenario) -> float:
    """Return the share of the ids of a replication that is in memory at a time, where no queue grows."""
    tolerance = scenario.fault_tolerance
    if tolerance.acking:  # those of roots that are not done, which fail and come again after two time-outs at most
        return min(1.0, 2 * tolerance.acking.timeout_s / scenario.duration_s)
    # Ids are forgotten behind checkpoints, or the history, and behind windows that may have to be made again.
    timers = any(operator.timer for operator in scenario.operators.values())
    windows_s = max((one.window.length_s for one in scenario.operators.values() if one.window), default=0.0)
    history, trimming = tolerance.kept_history, tolerance.acked_slices
    if history is not None:
        needed_s = scenario.duration_s if timers else history.length_s + history.every_s
    elif tolerance.takes_checkpoints:
        needed_s = LOGGED_INTERVALS * tolerance.interval_s
        needed_s += trimming.every_s + trimming.slice_s if trimming else 0.0
    else:
        needed_s = LOGGED_S
    return min(needed_s + windows_s, _looked_for_s(scenario)) / scenario.duration_s


def _looked_for_s(scenario: Scenario) -> float:
    """Return how long ids are looked for [s], with a tenth of the time before that; all of the run if at any time."""
    always = scenario.failures is not None or scenario.detector.errs or scenario.has_replicas
    always = always or scenario.fault_tolerance.batches is not None or scenario.elasticity.policy != "none"
    always = always or any(group.failures is not None for group in scenario.hosts.values())
    first_s = 0.0 if always else min((one.earliest_s for one in scenario.events.values()), default=0.0)
    return scenario.duration_s - (1 - _BEFORE_ANY) * min(first_s, scenario.duration_s)


def _histogram_bytes(scenario: Scenario) -> float:
    """Return the memory of the histograms of all replications, however many tuples they count."""
    duration_ns = max(1, to_ns(scenario.duration_s))
    intervals = -(-duration_ns // bucket_ns(duration_ns))
    sinks = sum(operator.kind == "sink" for operator in scenario.operators.values())
    once = len(scenario.operators) * BYTES_PER_OPERATOR + sinks * intervals * BYTES_PER_SINK_AND_INTERVAL
    return once * scenario.replications


def _waiting_bytes(scenario: Scenario, inputs: RunInputs) -> float:
    """Return the memory of what waits at the end of a replication, where rows of tuples do not take more."""
    each = BYTES_PER_WAITING_IN_SCAN if queues_only(scenario) else BYTES_PER_WAITING
    waiting = backlog(scenario, inputs)
    return sum(n * (BYTES_PER_UNEMITTED if name in scenario.workload else each) for name, n in waiting.items())


def _control_rows(scenario: Scenario) -> float:
    """Return the number of rows of control: checkpoints, samples of tasks, and partitions checked in failures."""
    tasks = sum(operator.parallelism for operator in scenario.operators.values())
    second = sum(layout.replicated_groups(scenario).values())
    rows = tasks * min(scenario.duration_s, MOST_SAMPLES)
    if scenario.fault_tolerance.takes_checkpoints:
        groups = sum(operator.groups for operator in scenario.operators.values()) + second
        rows += groups * scenario.duration_s / scenario.fault_tolerance.interval_s
    rows += tasks * min(scenario.duration_s, MOST_SAMPLES) * scenario.recording.memory
    if scenario.keeps_statistics:
        partitions = sum(operator.groups for operator in scenario.operators.values())
        rows += partitions * scenario.duration_s / scenario.elasticity.period_s
    rows += _comparisons(scenario)
    checked = second + sum(operator.groups for operator in scenario.operators.values())
    for group in scenario.hosts.values():
        if isinstance(group.failures, ExponentialFailures):
            cycles = scenario.duration_s / (group.failures.mtbf_s + group.failures.repair_s)
            rows += group.count * cycles * (tasks + checked)
    hosts = sum(group.count for group in scenario.hosts.values())
    return rows + hosts * scenario.detector.suspicions_per_s * scenario.duration_s * (tasks + checked)


def _comparisons(scenario: Scenario) -> float:
    """Return how often a replication compares the allocation of checkpoints with a fresh one."""
    rules = scenario.fault_tolerance.maintenance
    if rules is None or rules.begin_s > scenario.duration_s:
        return 0.0
    return 1 + (scenario.duration_s - rules.begin_s) / rules.every_s


def _planned(scenario: Scenario) -> float:
    """Return how many checkpoints all comparisons of all replications plan anew."""
    groups = sum(operator.groups for operator in scenario.operators.values() if operator.keyed)
    return _comparisons(scenario) * scenario.replications * groups


def _scans(scenario: Scenario) -> float:
    """Return how often all tasks of all replications look at all key groups of their operators."""
    over = scenario.duration_s * scenario.replications
    rounds = [(one.parallelism, one.round_s) for one in scenario.operators.values() if one.round_s]
    return sum(tasks * over / round_s for tasks, round_s in rounds)


def _heartbeats(scenario: Scenario) -> float:
    """Return how many heartbeats all replications draw: none unless some are lost or late."""
    hosts = sum(group.count for group in scenario.hosts.values())
    over = scenario.duration_s * scenario.replications
    return hosts * over / scenario.detector.heartbeat_s if scenario.detector.errs else 0.0


def _one_for_many(scenario: Scenario, estimated: Estimate) -> str:
    """Return the advice to let one record stand for k: with the least power of ten that gets below all limits.

    Steps, memory and time are about proportional to the rates. There is none where the job does not allow it.
    """
    limits = scenario.limits
    over = max(
        estimated.steps / limits.steps,
        estimated.memory_bytes / limits.memory_bytes,
        estimated.time_s / limits.time_s,
    )
    if not 1 < over < math.inf:
        return ""
    k = scenario.resolution * 10 ** max(1, math.ceil(math.log10(over)))
    if k > scaled_down.MOST or any(resolution.faults(scenario.model_copy(update={"resolution": k}))):
        return ""
    return f"let one record stand for {k} (resolution = {k}: {scaled_down.measured_error(k)}), "


def check_limits(scenario: Scenario, estimated: Estimate) -> None:
    """Raise InputError with each limit that the estimate exceeds, and each figure that cannot be counted."""
    limits = scenario.limits
    # All three figures are of all replications together.
    fewer = "give it fewer replications, " if scenario.replications > 1 else ""
    hint = f"make the run shorter, {fewer}{_one_for_many(scenario, estimated)}or raise the limit"
    faults = list(estimated.faults)
    if estimated.steps > limits.steps:
        faults.append(
            InputFault(
                "limits.steps", limits.steps, f"the run needs about {display.about(estimated.steps, 3)} steps", hint
            )
        )
    if estimated.memory_bytes > limits.memory_bytes:
        needed, most = display.apart(estimated.memory_bytes, limits.memory_bytes, form=display.size)
        rule = f"the run needs about {needed}, {most} is allowed"
        faults.append(InputFault("limits.memory", units.show(limits.memory_bytes, "B"), rule, hint))
    if estimated.time_s > limits.time_s:
        needed, most = display.apart(estimated.time_s, limits.time_s)
        rule = f"the run needs about {needed}, {most} is allowed"
        faults.append(InputFault("limits.time", units.show(limits.time_s, "s"), rule, hint))
    raise_if_any(faults)
