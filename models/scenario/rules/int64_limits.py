"""Limits of 64-bit integers: the simulator counts whole nanoseconds and whole bytes.

A bound that is easy to see: all the work of one kind of server in a run counts as one queue, which begins at the end of
the run: all services of an operator at the slowest speed, all bytes over the slowest link, all snapshots. Behind the
longest duration and the longest latency such a queue has to end before 2^63 ns, which are 292 years.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from models import display, units
from models.distributions import BatchSize, Deterministic, TimeDistribution, Uniform
from models.errors import InputFault
from models.scenario.cluster import ExponentialFailures, HostGroup, ScheduledFailures
from models.scenario.inputs import RunInputs
from models.scenario.job import FixedState, PerKeyState
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate
from models.schema_types import FrozenMap
from models.steady_state.flow import Flow, copies, flows
from models.topology import layout
from models.validation_messages import path_text

YEAR_S = 365 * 86_400.0
MOST_YEARS = 30
MOST_BYTES = 2.0**61
SPARE = 10  # tuples, or batches of them, more than are expected
TAIL = 50.0  # means, times the squared coefficient of variation, that the longest of all services may take more


def whole_time_faults(scenario: Scenario, inputs: RunInputs) -> list[InputFault]:
    """Return a fault for each key whose times or bytes might not fit; none for any realistic run.

    `inputs`: measured rates and shares that the scenario names. The limit of 30 years leaves room for sums of such
    times below the 292 years of 2^63 ns, and 2^61 bytes for sums below 2^63.
    """
    busy = _busy(scenario, inputs)
    return [*_of_services(scenario, busy), *_of_links(scenario, busy), *_of_state(scenario, busy)]


@dataclass(frozen=True)
class _Busy:
    """Upper estimates of the work of a run: an overestimate is safe, an underestimate is not."""

    tuples_in: Mapping[str, float]  # operator -> tuples, with those that are processed again
    sent_bytes: Mapping[str, float]  # operator -> bytes of tuples that it sends
    state_bytes: Mapping[str, float]  # operator -> bytes of all its snapshots; empty without checkpoints
    failures: float
    hosts: Mapping[str, set[str]]  # operator -> host groups where its tasks may be
    ack_bytes: float  # of all acks


def _busy(scenario: Scenario, inputs: RunInputs) -> _Busy:
    """Return the upper estimates of the work of a run."""
    rates = flows(_busier(scenario, inputs), RunInputs(shares=inputs.shares))
    failures = _failures(scenario)
    sizes = layout.output_bytes(scenario)
    sent = dict.fromkeys(scenario.operators, 0.0)
    for name, operator in scenario.operators.items():
        for upstream in operator.inputs:
            tuples = rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
            sent[upstream] += _count(scenario, tuples) * sizes[upstream]
    state = {name: _snapshots(scenario, name, rates[name], sent[name]) for name in scenario.operators}
    tuples_in = {name: _count(scenario, flow.rate_in.mean_per_s) * (1 + failures) for name, flow in rates.items()}
    return _Busy(
        tuples_in,
        {name: size * (1 + failures) for name, size in sent.items()},
        state if scenario.fault_tolerance.takes_checkpoints else {},
        failures,
        _places(scenario),
        _acks(scenario, tuples_in),
    )


def _acks(scenario: Scenario, tuples_in: Mapping[str, float]) -> float:
    """Return the bytes of all acks: one for each tuple that a task processes, and one for each root.

    Of acks that trim, one for each pair of tasks in each round.
    """
    acker, trimming = scenario.fault_tolerance.acking, scenario.fault_tolerance.acked_slices
    if trimming is not None:
        pairs = sum(
            operator.parallelism * scenario.operators[upstream].parallelism
            for operator in scenario.operators.values()
            for upstream in operator.inputs
        )
        return trimming.ack_bytes * pairs * (scenario.duration_s / trimming.every_s + 1)
    if acker is None:
        return 0.0
    size = acker.ack_bytes * sum(tuples_in.values())
    slowest = _slowest_link(scenario)
    if acker.transport == "links" and slowest is not None and acker.ack_bytes / slowest > acker.timeout_s:
        # Roots surely fail where one ack takes so long: each is emitted again once in a time-out at the most.
        size *= 1 + scenario.duration_s / acker.timeout_s
    return size


def _slowest_link(scenario: Scenario) -> float | None:
    """Return the lowest bandwidth of a host [B/s], or None where no link has a bound."""
    rates = (group.network_bytes_per_s for group in scenario.hosts.values())
    return min((rate for rate in rates if rate is not None), default=None)


def _busier(scenario: Scenario, inputs: RunInputs) -> Scenario:
    """Return the scenario with some more tuples at each source that has any, at a constant rate."""
    changed = {}
    for name, flow in flows(scenario, inputs).items():
        if scenario.operators[name].kind == "source":
            workload = scenario.workload[name]
            batch = workload.batch.mean if isinstance(workload.batch, BatchSize) else workload.batch
            mean = flow.rate_out.mean_per_s
            more = SPARE * batch / scenario.duration_s if mean else 0.0
            rate = ConstantRate.model_construct(constant_per_s=mean + more)
            changed[name] = workload.model_copy(update={"rate": rate})
    return scenario.model_copy(update={"workload": FrozenMap(changed)})


def _count(scenario: Scenario, rate_per_s: float) -> float:
    """Return an upper estimate of the tuples of a run at this mean rate; 0 without any."""
    return rate_per_s * scenario.duration_s + SPARE if rate_per_s else 0.0


def _failures(scenario: Scenario) -> float:
    """Return about how many hosts fail in a run."""
    found = float(sum(event.kind == "host-failure" for event in scenario.events.values()))
    for group in scenario.hosts.values():
        law = group.failures
        if isinstance(law, ScheduledFailures):
            found += len(law.at_s) * group.count
        elif isinstance(law, ExponentialFailures):
            found += (scenario.duration_s / (law.mtbf_s + law.repair_s) + SPARE) * group.count
    return found


def _snapshots(scenario: Scenario, name: str, flow: Flow, sent_bytes: float) -> float:
    """Return the bytes of all checkpoints of an operator: each with its state and all it sent until the end."""
    operator = scenario.operators[name]
    state, tuples = operator.state, _count(scenario, flow.rate_in.mean_per_s)
    own = 0.0
    if isinstance(state, FixedState):
        own = state.group_bytes * operator.groups
    elif isinstance(state, PerKeyState):
        own = state.tuple_bytes * min(tuples, operator.groups * layout.keys_seen(scenario, name))
    elif state is not None:
        own = state.entry_bytes * tuples
    times = scenario.duration_s / scenario.fault_tolerance.interval_s + 1
    return (own + sent_bytes) * times * scenario.fault_tolerance.copies


def _places(scenario: Scenario) -> dict[str, set[str]]:
    """Return operator -> host groups where its tasks may be: any group if tasks may go elsewhere."""
    if scenario.keeps_ids:
        return {name: set(scenario.hosts) for name in scenario.operators}
    placed, groups = layout.placement(scenario), layout.host_group_names(scenario)
    found: dict[str, set[str]] = {name: set() for name in scenario.operators}
    for name, index in layout.tasks(scenario):
        found[name].add(groups[placed[layout.task_name(name, index)]])
    return found


def _of_services(scenario: Scenario, busy: _Busy) -> Iterator[InputFault]:
    """Yield faults of services, and of the time for duplicates."""
    hint = "take shorter services, faster hosts, fewer tuples or a shorter run"
    fails = scenario.may_fail or scenario.checkpoints_may_fail_it
    duplicate_s = scenario.fault_tolerance.duplicate_s if fails else 0.0
    for name, operator in scenario.operators.items():
        slowest = min((scenario.hosts[group].speed for group in busy.hosts[name]), default=1.0)
        tuples = busy.tuples_in[name]
        if operator.service is not None and tuples:
            law = operator.service
            key, shown_s = _shown(law)
            longer = 0.0 if isinstance(law, Deterministic) else TAIL * law.scv
            where = path_text(("operators", name, "service", key))
            what = f"all services of {name} at speed {display.number(slowest, 6)} take"
            yield from _too_long(where, units.show(shown_s, "s"), what, law.mean_s * (tuples + longer) / slowest, hint)
            yield from _of_polls(scenario, name, tuples, slowest)
    if duplicate_s:
        slowest = min(group.speed for group in scenario.hosts.values())
        takes_s = duplicate_s * sum(busy.tuples_in.values()) / slowest
        shown, hint = units.show(duplicate_s, "s"), "take a shorter time, fewer tuples or a shorter run"
        yield from _too_long("fault_tolerance.duplicate", shown, "dropping duplicates may take", takes_s, hint)


def _of_polls(scenario: Scenario, name: str, tuples: float, slowest: float) -> Iterator[InputFault]:
    """Yield polls of an operator that take too long if each returns a single tuple."""
    reading = scenario.polling.get(name)
    if reading is None or reading.cost is None:
        return
    law, (key, shown_s) = reading.cost, _shown(reading.cost)
    longer = 0.0 if isinstance(law, Deterministic) else TAIL * law.scv
    for upstream in scenario.operators[name].inputs:
        if scenario.operators[upstream].reading is reading:
            where, what = path_text(("operators", upstream, "reading", "cost", key)), f"all polls of {name} may take"
            takes_s = law.mean_s * (tuples + longer) / slowest
            hint = "take shorter polls, fewer tuples or a shorter run"
            yield from _too_long(where, units.show(shown_s, "s"), what, takes_s, hint)


def _shown(law: TimeDistribution) -> tuple[str, float]:
    """Return the keys of a scenario file with their times."""
    if isinstance(law, Deterministic):
        return "value", law.value_s
    return ("high", law.high_s) if isinstance(law, Uniform) else ("mean", law.mean_s)


def _of_links(scenario: Scenario, busy: _Busy) -> Iterator[InputFault]:
    """Yield faults of links, sizes of tuples, and the remote store."""
    remote = scenario.fault_tolerance.store == "remote"
    saved = 0.0 if remote else sum(busy.state_bytes.values())
    hint = "take a faster network, less to send or a shorter run"
    acker = scenario.fault_tolerance.acking
    too_many_acks = list(_of_acks(scenario, busy))
    yield from too_many_acks
    # Each host may send all acks; too many of them are told once, not at each link.
    travels = scenario.fault_tolerance.trims_by_acks or (acker is not None and acker.transport == "links")
    if travels and not too_many_acks:
        saved += busy.ack_bytes
    for name, group in scenario.hosts.items():
        sent = saved + sum(size for operator, size in busy.sent_bytes.items() if name in busy.hosts[operator])
        yield from _over(path_text(("hosts", name, "network")), group, sent, hint)
    for name, size in busy.sent_bytes.items():
        if size > MOST_BYTES:
            source = scenario.operators[name].kind == "source"
            where = ("workload", name, "tuple") if source else ("operators", name, "output", "tuple")
            shown = units.show(layout.output_bytes(scenario)[name], "B")
            yield _too_many(path_text(where), shown, f"the tuples that {name} sends have", size)
    rate = scenario.fault_tolerance.remote_bytes_per_s
    if remote and busy.state_bytes:
        # To the store, and back from it after each failure.
        takes_s = sum(busy.state_bytes.values()) * (1 + busy.failures) / rate
        hint = "take a faster store, less state or fewer checkpoints"
        shown = units.show(rate, "B/s")
        yield from _too_long("fault_tolerance.remote", shown, "all checkpoints take", takes_s, hint)


def _of_acks(scenario: Scenario, busy: _Busy) -> Iterator[InputFault]:
    """Yield a fault of the size of acks: of their bytes, or of their time on the slowest link."""
    acker, slowest = scenario.fault_tolerance.acking, _slowest_link(scenario)
    trimming = scenario.fault_tolerance.acked_slices
    if trimming is not None and busy.ack_bytes > MOST_BYTES:
        shown = units.show(trimming.ack_bytes, "B")
        yield _too_many("fault_tolerance.trimming.ack", shown, "all acks have", busy.ack_bytes)
    if acker is None:
        return
    where, shown = "fault_tolerance.acker.ack", units.show(acker.ack_bytes, "B")
    if busy.ack_bytes > MOST_BYTES:
        yield _too_many(where, shown, "all acks have", busy.ack_bytes)
    elif acker.transport == "links" and slowest is not None:
        what = f"all acks, about {display.size(busy.ack_bytes)}, take"
        hint = "take a smaller size, a faster network or a shorter run"
        yield from _too_long(where, shown, what, busy.ack_bytes / slowest, hint)


def _over(where: str, group: HostGroup, size: float, hint: str) -> Iterator[InputFault]:
    """Yield a fault if the bytes take too long on the links of the group."""
    rate = group.network_bytes_per_s
    if rate is not None:
        what = f"all that is sent, about {display.size(size)}, takes"
        yield from _too_long(where, units.show(rate, "B/s"), what, size / rate, hint)


def _of_state(scenario: Scenario, busy: _Busy) -> Iterator[InputFault]:
    """Yield faults of writing and reading snapshots, and of their bytes."""
    hint = "take a faster rate, less state, fewer checkpoints or a shorter run"
    for name, size in busy.state_bytes.items():
        operator = scenario.operators[name]
        slowest = min((scenario.hosts[group].speed for group in busy.hosts[name]), default=1.0)
        for key, rate, times in (
            ("serialise", operator.serialise_bytes_per_s, 1.0),
            ("deserialise", operator.deserialise_bytes_per_s, busy.failures),
        ):
            if rate is not None:
                where = path_text(("operators", name, key))
                what = f"all state of {name}, about {display.size(size)}, takes"
                yield from _too_long(where, units.show(rate, "B/s"), what, size * times / rate / slowest, hint)
        copy = scenario.fault_tolerance.snapshots.copy_bytes_per_s
        if copy is not None:
            times = scenario.duration_s / scenario.fault_tolerance.interval_s + 1  # each copies the whole state
            what = f"copying the state of {name} in all checkpoints, about {display.size(size * times)}, takes"
            where = "fault_tolerance.snapshots.copy"
            yield from _too_long(where, units.show(copy, "B/s"), what, size * times / copy, hint)
        if size > MOST_BYTES and operator.state is not None:
            state = operator.state
            each = state.group_bytes if isinstance(state, FixedState) else state.tuple_bytes
            where = path_text(("operators", name, "state", "bytes"))
            yield _too_many(where, units.show(each, "B"), f"all checkpoints of {name} have", size)


def _too_long(where: str, value: str, what: str, takes_s: float, hint: str) -> Iterator[InputFault]:
    """Yield a fault if a time is beyond the limit."""
    years = takes_s / YEAR_S
    if not years <= MOST_YEARS:  # not `>`, so that nan is a fault
        yield InputFault(
            where, value, f"{what} up to {display.number(years)} years, must be at most {MOST_YEARS} years", hint
        )


def _too_many(where: str, value: str, what: str, size: float) -> InputFault:
    """Return the fault of a sum of bytes beyond the limit."""
    rule = f"{what} up to {display.size(size)} together, must be at most {display.size(MOST_BYTES)}"
    return InputFault(where, value, rule, "take a smaller size, or a shorter run")
