"""Warnings: scenarios that are legal, but probably not what the author meant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import networkx as nx

from models import display, units
from models.reliability.times import mostly_down
from models.scenario.cluster import ExponentialFailures, ScheduledFailures
from models.scenario.events import Death, HostFailure, HostJoin, HostRestart, Rebalance
from models.scenario.inputs import RunInputs
from models.scenario.job import WindowState
from models.scenario.rules.moves import idle_moves
from models.scenario.rules.resolution import few_records
from models.scenario.rules.times import detected_s, failures_of_dead_hosts
from models.scenario.scenario import Scenario
from models.schema_types import Description
from models.steady_state.checkpoint_traffic import Bottleneck, bottlenecks
from models.steady_state.load import Load, expected_load
from models.topology.chains import threads_of
from models.topology.failed_slots import waits_for_slots
from models.topology.layout import (
    dataflow,
    host_group_names,
    host_name,
    placement,
    replica_entries,
    spare_hosts,
    task_name,
    tasks,
)
from models.validation_messages import path_text

_MOST_NAMES = 5
_WORTH_NAMING = 0.005
_WORTH_SAYING = 0.001  # of runs in which an event does not happen
_OF_CHECKPOINTS = ("snapshots", "store", "allocation", "interval", "kind", "copies", "staggered", "remote")
_OF_MOVES = ("rest", "moves", "prefer", "protocol", "scale_out", "acquisition", "scale_in")  # of key groups, by load
_OF_OPERATORS = ("operators", "reports", "grow", "shrink")
# Of elasticity, by policy. Plans and maintenance read `high`, `period` and `hosts` without a policy, too.
_UNUSED = {
    "none": ("low", "begin", *_OF_MOVES, *_OF_OPERATORS),
    "threshold": _OF_OPERATORS,
    "operators": tuple(key for key in _OF_MOVES if not key.startswith("scale")),  # which are refused there
}
_OTHERS = {"sends": "records", "writes": "services", "stores": "others"}


@dataclass(frozen=True)
class Advice:
    """One thing to think about: the path of the key that would change it, and a sentence about it."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def warnings(scenario: Scenario, inputs: RunInputs | None = None, load: Load | None = None) -> list[Advice]:
    """Return the warnings about a valid scenario; pass `load` if it was computed already.

    `inputs`: rates, shares and checkpoint hosts of its files, where it names any. All figures are
    expected values; no run is made.

    >>> from holdfast import read_scenario, scenario_with, warnings
    >>> scenario = read_scenario("examples/two-hosts.toml").scenario
    >>> [advice.path for advice in warnings(scenario_with(scenario, {"workload.orders.rate": "2000 /s"}))]
    ['operators.count']
    """
    known = load or expected_load(scenario, inputs)
    return list(
        chain(
            _of_load(scenario, known),
            _of_reading(scenario, known),
            _of_polls(scenario, known),
            _of_memory(scenario, known),
            _of_times(scenario),
            _of_failures(scenario),
            _of_repairs(scenario),
            _of_slots(scenario),
            _of_standbys(scenario),
            _of_checkpoints(scenario, known, inputs),
            _of_hosts(scenario, known),
            (Advice(path, text) for path, text in idle_moves(scenario, inputs)),
            _too_coarse(scenario, known),
            _of_elasticity(scenario),
        )
    )


def said_of_runs(scenario: Scenario, inputs: RunInputs | None = None) -> list[Advice]:
    """Return the warnings that explain results of a run, by expected values.

    Parts that cannot keep up make a backlog: tasks, hosts, links, and the writing of checkpoints. With too coarse a
    resolution results tell little of the job.
    """
    load = expected_load(scenario, inputs)
    return [
        *_of_load(scenario, load),
        *_of_reading(scenario, load),
        *_of_polls(scenario, load),
        *_of_checkpoints(scenario, load, inputs),
        *_too_coarse(scenario, load),
    ]


def _too_coarse(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of a resolution that leaves hardly a record, or makes states grow more slowly."""
    rates_per_s = {name: one.flow.rate_in.mean_per_s for name, one in load.operators.items()}
    yield from (Advice(path, text) for path, text in few_records(scenario, rates_per_s))


def _of_reading(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of sources that cannot read as fast as records come: by files, by polls, or by what a batch takes."""
    batches, interval_s = scenario.fault_tolerance.batches, scenario.fault_tolerance.interval_s
    for name, one in load.operators.items():
        operator, rate = scenario.operators[name], one.flow.rate_in.mean_per_s
        if operator.kind != "source":
            continue
        reading, every_s, each = operator.reading, float("inf"), ""
        if reading is not None and reading.file_s is not None:
            every_s, each = reading.file_s, f"a file of {display.duration(reading.file_s)}"
        elif reading is not None and reading.poll is not None and rate:
            every_s = reading.poll * operator.parallelism / rate
            each = f"the {display.duration(every_s)} in which the records of a poll come"
        if scenario.fault_tolerance.changelogs is not None:
            continue  # tasks poll
        if reading is not None and reading.cost is not None and reading.cost.mean_s >= every_s:
            text = f"is not shorter than {each}: the backlog grows without end"
            yield Advice(path_text(("operators", name, "reading", "cost")), text)
        most = None if batches is None else batches.max_offsets
        if most is not None and rate * interval_s > most:
            text = f"{display.number(rate * interval_s)} records of {name} come in an interval of "
            text += f"{display.duration(interval_s)}: the backlog grows without end"
            yield Advice("fault_tolerance.micro_batches.max_offsets", text)


def _of_polls(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of tasks that cannot keep up with what they poll, although they could without the cost of polls."""
    for name, reading in scenario.polling.items():
        operator, one = scenario.operators[name], load.operators[name]
        if reading.cost is None or reading.poll is None or operator.service is None:
            continue
        busy = float(one.utilisation.max(initial=0.0))
        polls = float((one.utilisation - one.chores).max(initial=0.0))
        polls *= reading.cost.mean_s / reading.poll / operator.service.mean_s
        if busy < 1 <= busy + polls:
            source = next(up for up in operator.inputs if scenario.operators[up].reading is reading)
            text = f"full polls take {display.share(polls)} of the time of a task of {name}, and its records "
            text += f"{display.share(busy)}: the backlog grows without end"
            yield Advice(path_text(("operators", source, "reading", "cost")), text)


def _of_memory(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of state beyond the memory of a host: the simulator does not stop there."""
    placed = placement(scenario)
    needed: dict[str, float] = {}
    for name, operator in scenario.operators.items():
        for index in range(operator.parallelism):
            host = placed[task_name(name, index)]
            share = float(load.operators[name].task_shares[index])
            needed[host] = needed.get(host, 0.0) + load.operators[name].state_bytes * share
    for name, group in scenario.hosts.items():
        most = max((needed.get(host_name(name, k), 0.0) for k in range(group.count)), default=0.0)
        if group.memory_bytes is not None and most > group.memory_bytes:
            text = f"a host would hold {display.size(most)} of state at the end; the run goes on as if it fitted"
            yield Advice(path_text(("hosts", name, "memory")), text)


def _of_load(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of tasks, hosts and links with a utilisation of 1 or more: one warning for a group of hosts."""
    called = {name for names in threads_of(scenario) for name in names[1:]}  # they have the load of the first
    for name, operator in load.operators.items():
        if name in called:
            continue
        mean, peak = float(operator.utilisation.max(initial=0.0)), operator.peak_utilisation
        chores = float(operator.chores[operator.utilisation.argmax()])
        yield from _over_one(path_text(("operators", name)), "its busiest task", mean, peak, chores)
    seen: set[object] = set()
    groups = host_group_names(scenario)
    for host, host_load in load.hosts.items():
        group = groups[host]
        # One warning for a group of hosts: a thousand alike would hide the others.
        if scenario.hosts[group].cpu != "dedicated" and group not in seen:
            found = list(
                _over_one(path_text(("hosts", group)), host, host_load.utilisation, host_load.peak_utilisation)
            )
            seen.update([group] if found else [])
            yield from found
    for host, host_load in load.hosts.items():
        group = groups[host]
        if (host_load.link_utilisation or 0.0) > 1 and (group, "link") not in seen:
            seen.add((group, "link"))
            text = f"the link of {host} would need {display.number(host_load.link_utilisation)} times its bandwidth"
            yield Advice(path_text(("hosts", group, "network")), text)


def _over_one(path: str, who: str, mean: float, peak: float, chores: float = 0.0) -> Iterator[Advice]:
    """Warn of a utilisation of 1 or more, on average or at the peak; `chores` of it are no work on tuples."""
    usual = display.share(mean)
    beside = f", {display.share(chores)} of it by pauses for snapshots and by acks" if chores >= _WORTH_NAMING else ""
    if mean >= 1:
        text = f"utilisation of {who} is {usual} on average{beside}: queues grow as long as the run lasts"
        yield Advice(path, text)
    elif peak >= 1:
        high = display.share(peak)
        text = f"utilisation of {who} is {high} at the peak and {usual} on average{beside}: a backlog builds up"
        yield Advice(path, text)


def _of_times(scenario: Scenario) -> Iterator[Advice]:
    """Warn of times that make a part of the scenario pointless: after the end, or too close together."""
    duration, tolerance = scenario.duration_s, scenario.fault_tolerance
    if scenario.warmup_s > duration / 2:
        yield Advice("warmup", "is more than half of the run")
    if tolerance.takes_checkpoints and tolerance.interval_s >= duration:
        text = f"is not shorter than the run of {units.show(duration, 's')}: no checkpoint will be taken"
        yield Advice("fault_tolerance.interval", text)
    often = scenario.detector.suspicions_per_s * duration
    if often >= 1:
        times = f"about {display.about(often, 3)} times"
        text = f"a healthy host is suspected {times} in the run: too many heartbeats are lost"
        yield Advice("detector.loss", text)
    if scenario.detector.timeout_s < scenario.detector.heartbeat_s and not scenario.detector.errs:
        yield Advice("detector.timeout", "is shorter than the heartbeat: healthy hosts count as dead")
    yield from _of_events(scenario)
    for name, operator in scenario.operators.items():
        if operator.window is not None and operator.window.length_s >= duration:
            text = f"is not shorter than the run of {units.show(duration, 's')}: no window ends"
            yield Advice(path_text(("operators", name, "window", "length")), text)
        if operator.round_s >= duration:
            text = f"makes rounds of {units.show_about(operator.round_s, 's')}: nothing is served before the run ends"
            yield Advice(path_text(("operators", name, "scan")), text)
    for name, group in scenario.hosts.items():
        if isinstance(group.failures, ScheduledFailures) and min(group.failures.at_s) >= duration:
            yield Advice(path_text(("hosts", name, "failures", "at")), "is after the end of the run")
    for name, workload in scenario.workload.items():
        steps = getattr(workload.rate, "steps", ())
        if steps and steps[-1].at_s >= duration:
            where = path_text(("workload", name, "rate", "steps", len(steps) - 1, "at"))
            yield Advice(where, "is after the end of the run")


def _of_events(scenario: Scenario) -> Iterator[Advice]:
    """Warn of events after the end in some runs, and of failures that nobody notices, or of a host that is down."""
    end_s = scenario.duration_s
    for name, event in scenario.events.items():
        never = event.share_after(end_s)
        if never > _WORTH_SAYING:
            key = "delay" if getattr(event, "delay", None) is not None else "at"
            text = f"can be after the end of the run: in {display.share(never)} of the runs it does not happen"
            yield Advice(path_text(("events", name, key)), text if never < 1 else "is after the end of the run")
        if isinstance(event, HostFailure) and event.mean_s < end_s <= detected_s(scenario, event):
            text = "is so late that the failure is not detected before the run ends"
            yield Advice(path_text(("events", name, "at")), text)
    for name, before in failures_of_dead_hosts(scenario):
        text = f"nothing happens: the host is down since events.{before}"
        yield Advice(path_text(("events", name, "at")), text)


def _of_failures(scenario: Scenario) -> Iterator[Advice]:
    """Warn of checkpoints without failures, and of failures without checkpoints."""
    fails = any(group.failures is not None for group in scenario.hosts.values())
    ends = (Death, HostRestart, HostJoin)
    fails = fails or scenario.detector.errs or any(isinstance(event, ends) for event in scenario.events.values())
    method = scenario.fault_tolerance.method
    batches = scenario.fault_tolerance.batches is not None  # which are no use of failures alone
    if scenario.fault_tolerance.takes_checkpoints and not batches and not fails and not scenario.migrates:
        yield Advice("fault_tolerance", "checkpoints are taken and nothing ever fails")
    if scenario.fault_tolerance.rolls_back and fails and scenario.fault_tolerance.store != "remote":
        said = "a host that dies may hold the only checkpoint of a task that lives, and is rolled back; take remote"
        yield Advice("fault_tolerance.store", said)
    yield from _of_unused(scenario)
    history = scenario.fault_tolerance.kept_history
    kept = history is not None and not scenario.fault_tolerance.replicates_all
    if history is not None and kept and history.length_s >= scenario.duration_s:
        said = f"is not shorter than the run of {units.show(scenario.duration_s, 's')}: nothing is trimmed, and memory "
        yield Advice("fault_tolerance.history.length", f"{said}grows with the run")
    if history is not None and kept and fails:
        for name, operator in scenario.operators.items():
            ends_s = operator.state.length_s if isinstance(operator.state, WindowState) else math.inf
            if operator.state is not None and min(ends_s, scenario.duration_s) > history.length_s:
                said = f"the state of {name} is older than the history that is kept: a failure loses what is older"
                yield Advice("fault_tolerance.history.length", said)
    if method == "none" and fails:
        yield Advice("fault_tolerance", "hosts fail and nothing is checkpointed: state is lost")
    if fails:
        yield from _of_adjacent_tasks(scenario)
    saved = scenario.waves.interval_s is not None  # in periodic waves
    if method == "acker" and fails and not saved and any(one.state for one in scenario.operators.values()):
        yield Advice("fault_tolerance", "hosts fail and the acker saves no state: it begins anew, empty")


def _of_unused(scenario: Scenario) -> Iterator[Advice]:
    """Warn of keys that are written and have no effect with the method, or where its checkpoints are kept."""
    tolerance = scenario.fault_tolerance
    written, here = _written(tolerance), "fault_tolerance"
    if tolerance.method != "none" and not tolerance.takes_checkpoints:
        for key in _OF_CHECKPOINTS:
            # The state store of an acker's waves has the bandwidth of the remote store, unless it says another one.
            if key in written and not (key == "remote" and tolerance.acking):
                yield Advice(f"{here}.{key}", f"has no effect: the method {tolerance.method} takes no checkpoints")
    elif tolerance.takes_checkpoints and tolerance.store != "nodes" and "allocation" in written:
        where = "in a remote store" if tolerance.store == "remote" else "on the host of an upstream task"
        yield Advice(f"{here}.allocation", f"has no effect: checkpoints are kept {where}")
    if "adjustment" in written and tolerance.trims_by_acks and not scenario.adjusts:
        yield Advice(f"{here}.adjustment", "has no effect: no operator is adjusted in the run")
    times = (f"recovery.adaptive.{key}" for key in _written(scenario.recovery.adaptive))
    if not scenario.recovery.adapts and not all(scenario.is_by_engine(path) for path in times):
        yield Advice("recovery.adaptive", "has no effect: recovery.scheduler is default")


def _written(table: Description) -> set[str]:
    """Return the keys of a table that are written, as files name them."""
    known = type(table).model_fields
    return {known[name].alias or name for name in table.model_fields_set}


def _of_adjacent_tasks(scenario: Scenario) -> Iterator[Advice]:
    """Warn of a host whose failure takes more tasks one behind the other than the levels of acks survive."""
    trimming = scenario.fault_tolerance.acked_slices
    if trimming is None:
        return
    placed, operators = placement(scenario), dataflow(scenario)
    on_host: dict[str, set[str]] = {}
    for name, index in tasks(scenario):
        if scenario.operators[name].kind not in ("source", "sink"):  # a log, and what is delivered, are not lost
            on_host.setdefault(placed[task_name(name, index)], set()).add(name)
    for host, names in on_host.items():
        together = operators.subgraph(names)
        longest = nx.dag_longest_path(together)
        if len(longest) >= trimming.levels:
            if len(longest) == 1:
                said = f"{host} has a task of {longest[0]}: its failure loses it"
            else:
                chain = " and ".join(longest)
                said = f"{host} has tasks of {chain}, one behind the other: its failure loses them together"
            survives = (
                "one level of acks survives none"
                if trimming.levels == 1
                else (f"{trimming.levels} levels of acks survive {display.count(trimming.levels - 1)}")
            )
            need = f"; {survives}"
            yield Advice("fault_tolerance.trimming.levels", said + need)
            return


def _of_repairs(scenario: Scenario) -> Iterator[Advice]:
    """Yield the hosts that are up for less time than a repair takes."""
    for name, group in scenario.hosts.items():
        if isinstance(group.failures, ExponentialFailures):
            path = path_text(("hosts", name, "failures", "mtbf"))
            for said in mostly_down(path, group.failures.mtbf_s, group.failures.repair_s):
                yield Advice(path, said.removeprefix(f"{path}: "))


def _of_slots(scenario: Scenario) -> Iterator[Advice]:
    """Warn of failures after which a job that is restarted waits for slots."""
    for one in waits_for_slots(scenario):
        failure, flink = scenario.events[one.event], scenario.engine is not None and scenario.engine.name == "flink"
        assert isinstance(failure, HostFailure)
        name = host_group_names(scenario)[failure.host]
        group, back = scenario.hosts[name], one.ends_s < scenario.duration_s
        until = f"for {units.show(one.ends_s - one.begins_s, 's')}, until a host is back" if back else "until the end"
        enough = group.count + math.ceil((one.needs - one.has) / (group.slots or 1))
        helps = [
            f"spare {'TaskManagers' if flink else 'hosts'} (hosts.{name}.count = {enough})",
            'recovery.scheduler = "adaptive"',
            *([] if back else ["a replacement (repair)"]),
        ]
        text = (
            f"leaves {display.count(one.has)} of the {display.count(one.needs)} slots that tasks need: the job stays "
            f"down {until}; give it {', or '.join(helps)}"
        )
        yield Advice(path_text(("events", one.event)), text)


def _of_standbys(scenario: Scenario) -> Iterator[Advice]:
    """Warn of more standbys than there are instances beside the one of the task."""
    changelog = scenario.fault_tolerance.changelogs
    if changelog is None:
        return
    topics, placed = (
        {name for name, one in scenario.operators.items() if one.kind in ("source", "sink")},
        placement(scenario),
    )
    at = [(name in topics, placed[task_name(name, index)]) for name, index in tasks(scenario)]
    brokers = {host for topic, host in at if topic} - {host for topic, host in at if not topic}
    others = len({*host_group_names(scenario)} - brokers) - 1
    if changelog.standbys > max(0, others):
        room = f"{display.count(others)} at the most" if others > 0 else "none"
        text = f"a task has {room}: standbys are on other instances, of which there are {display.count(max(0, others))}"
        yield Advice("fault_tolerance.changelog.standbys", text)


def _of_checkpoints(scenario: Scenario, load: Load, inputs: RunInputs | None) -> Iterator[Advice]:
    """Warn of checkpoints that take longer than their interval: one warning for the slowest host, task and store."""
    interval_s, seen = scenario.fault_tolerance.interval_s, set[str]()
    what = "commits" if scenario.fault_tolerance.changelogs else "checkpoints"
    for one in bottlenecks(scenario, load, inputs):
        if one.does not in seen and interval_s < scenario.duration_s:
            seen.add(one.does)
            yield Advice("fault_tolerance.interval", _falls_behind(one, interval_s, scenario.duration_s, what))
    barriers = scenario.fault_tolerance.job_checkpoints
    if barriers is None or interval_s >= scenario.duration_s:
        return
    for one in bottlenecks(scenario, load, inputs, within_s=barriers.timeout_s)[:1]:
        needs, limit = display.apart(one.needs_s, barriers.timeout_s)
        text = (
            f"no checkpoint is complete within {limit}: {one.where} {one.does} {display.size(one.bytes_)}, in {needs}"
        )
        yield Advice("fault_tolerance.barriers.timeout", text)


def _falls_behind(one: Bottleneck, interval_s: float, duration_s: float, what: str) -> str:
    """Return in words which checkpoints, called `what`, cannot keep up, and the shortest interval that would do."""
    size, rate, every = display.size(one.bytes_), display.byte_rate(one.bytes_per_s), units.show(interval_s, "s")
    others = (
        f" ({display.share(one.taken_share)} taken by {_OTHERS[one.does]})" if one.taken_share >= _WORTH_NAMING else ""
    )
    needs, _ = display.apart(one.needs_s, interval_s)  # what hardly exceeds the interval must not read as equal to it
    text = f"{one.where} {one.does} {size} of them every {every}; over {rate}{others} they "
    text += "never end" if math.isinf(one.needs_s) else f"take {needs}"
    # Writing goes ahead of the queue: checkpoints may be in time while the tuples are not.
    late = one.does == "writes" and one.bytes_ <= one.bytes_per_s * interval_s
    text = f"{f'tuples beside {what}' if late else what} cannot keep up: {text}"
    if one.shortest_s is None or one.shortest_s >= duration_s:
        return f"{text}, and no longer interval within the run keeps up"
    shortest, _ = display.apart(one.shortest_s, interval_s)
    return f"{text}; the shortest interval that keeps up is about {shortest}"


def _of_elasticity(scenario: Scenario) -> Iterator[Advice]:
    """Warn of spare hosts that are never acquired, of keys without effect, and of elasticity that cannot act."""
    elasticity = scenario.elasticity
    for key in _UNUSED[elasticity.policy]:
        if key in _written(elasticity):
            yield Advice(f"elasticity.{key}", f"has no effect: elasticity.policy is {elasticity.policy}")
    acquires = elasticity.policy != "none" and elasticity.scale_out
    for name, group in scenario.hosts.items():
        if group.spare and not acquires:
            yield Advice(path_text(("hosts", name, "spare")), "spare hosts are never acquired without scale-out")
        takes_part = elasticity.policy != "none" and (not elasticity.hosts or name in elasticity.hosts)
        if takes_part and group.cpu == "dedicated":
            text = "each thread has a core of its own: a host that counts as overloaded here need not be slow"
            yield Advice(path_text(("hosts", name, "cpu")), text)
    if elasticity.policy != "none" and max(elasticity.begin_s, elasticity.period_s) >= scenario.duration_s:
        yield Advice("elasticity.period", "no decision is taken before the run ends")
    yield from _of_maintenance(scenario)


def _of_maintenance(scenario: Scenario) -> Iterator[Advice]:
    """Warn of maintenance that never compares."""
    maintenance, period_s = scenario.fault_tolerance.maintenance, scenario.elasticity.period_s
    if maintenance is None:
        return
    where = f"fault_tolerance.maintenance.{'every' if maintenance.first_s is None else 'first'}"
    if maintenance.begin_s >= scenario.duration_s:
        yield Advice(where, "no allocation is compared before the run ends")
    elif maintenance.begin_s < 2 * period_s:
        yield Advice(where, f"is before the second check of the load: elasticity.period is {units.show(period_s, 's')}")


def _of_hosts(scenario: Scenario, load: Load) -> Iterator[Advice]:
    """Warn of hosts without a task."""
    spare = {*spare_hosts(scenario)}
    for replica in replica_entries(scenario).values():
        spare.update((replica.host, *replica.spares))  # idle on purpose
    goals = {group for event in scenario.events.values() if isinstance(event, Rebalance) for group in event.hosts}
    spare.update(host for host, group in host_group_names(scenario).items() if group in goals)
    idle = [host for host, found in load.hosts.items() if not found.tasks and host not in spare]
    if idle:
        shown = ", ".join(idle[:_MOST_NAMES]) + (
            f" and {len(idle) - _MOST_NAMES} more" if len(idle) > _MOST_NAMES else ""
        )
        yield Advice("placement", f"no task starts on {shown}")
