"""An operator as the simulator sees it: samplers and tables made once, instead of read at each tuple."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from models.scenario.job import Operator, PerKeyState, PerTupleState, WindowState
from models.scenario.key_groups import groups_of_keys
from models.scenario.nexmark import most_ids
from models.scenario.scenario import Scenario
from models.scenario.workload import SellerKeys
from models.topology.chains import chains_of, threads_of
from models.topology.layout import output_bytes, topological
from models.units import to_ns
from sim.draws import (
    FAR_NS,
    POLL,
    POSTPONE,
    child_id,
    code_of,
    count_sampler,
    counts_by_input,
    key_sampler,
    mix,
    pair_id,
    time_sampler,
    uniform,
    window_id,
)
from sim.windowing import Windows

# (tuple id, key, index of the sending partition) -> partitions downstream
Targets = Callable[[int, int, int], tuple[int, ...]]


@dataclass(eq=False)
class Edge:
    """One edge of the dataflow with the function that picks the key groups (or tasks) of a tuple downstream.

    A broadcast makes a tuple of its own for each receiver: with one id for all of them, what the receivers
    make of it would have equal ids too, and a common consumer would take all but the first for duplicates.
    """

    down: OperatorPlan
    targets: Targets
    partitioning: str
    key_count: int  # number of keys upstream, where it partitions by them
    grouped: bool  # whether the keys upstream are the key groups of a profile
    shuffle_code: int
    takes_code: int
    share: float = 1.0  # of the tuples that go over the edge
    copy_code: int | None = None  # of a broadcast

    def id_for(self, tuple_id: int, receiver: int) -> int:
        """Return the id that a tuple has at the receiving partition of this index."""
        return tuple_id if self.copy_code is None else child_id(tuple_id, self.copy_code, receiver)


@dataclass(eq=False)
class OperatorPlan:
    """Everything about one operator that does not change during a run."""

    index: int
    name: str
    code: int
    description: Operator
    service_ns: Callable[[int], int] | None
    output_count: Callable[[int], int]
    output_key: Callable[[int, int], int] | None
    output_bytes: int
    counts: Mapping[int, Callable[[int], int]] | None = None  # in place of `output_count` by index of the upstream
    entries: tuple[int, ...] | None = None  # state of a key [B] by operator upstream, where each input has its own
    edges: list[Edge] = field(default_factory=list)
    windows: Windows | None = None
    window_code: int = 0
    joins: int | None = None  # index of the first of the two operators whose tuples it brings together
    chain: int | None = None  # number of its chain, whose tasks of one index are on one host
    thread: int | None = None  # the same where several that serve tuples share a thread; a source serves none
    depth: int = 0  # steps from the head of the chain
    timer_ns: int = 0  # time between two outputs of its timer, 0 without one
    timer_code: int = 0
    postpone_ns: Callable[[int], int] | None = None  # of an output, by its id: from the birth of its input to its own
    watermark_ns: int = 0  # of a source: time between two
    is_read: bool = False  # a source of which control says what is read, and when
    poll: int = 0  # most tuples that its tasks take at a time, 0 where they do not poll
    poll_ns: Callable[[int], int] | None = None  # time of a poll, by the id of the first of them
    timed: bool = False  # watermarks come to it, or from it: it or an operator downstream has a window
    reckoned: bool = True  # its inputs follow from the sources: no operator upstream has a window

    @property
    def urgency(self) -> int:
        """Return its rank where tasks share cores: the highest goes first. Chains go depth first, as calls do."""
        return self.description.priority if self.thread is None else self.depth

    @cached_property
    def is_source(self) -> bool:
        return self.description.kind == "source"

    @cached_property
    def is_sink(self) -> bool:
        return self.description.kind == "sink"

    @cached_property
    def fires(self) -> bool:
        """Return whether it makes outputs when its windows end: a join makes them with its inputs."""
        return self.windows is not None and self.joins is None

    @cached_property
    def has_event_time(self) -> bool:
        """Return whether it has a window, a timer, or a state of the last time, or watermarks come to it or from it."""
        windows = self.timed or self.windows is not None or bool(self.timer_ns)
        return windows or isinstance(self.description.state, WindowState)

    @cached_property
    def closes_keys(self) -> bool:
        """Return whether the tuples of a key leave its state with the last post-dated output of the key."""
        state = self.description.state
        return isinstance(state, PerTupleState) and state.closes

    def entry_of(self, key: int, upstream: int) -> int:
        """Return the number of a key's entry in a state per key; `upstream`: index of the operator that it came from.

        It is the key, unless each input has entries of its own.
        """
        return key if self.entries is None else key * len(self.entries) + upstream

    def bytes_of_entry(self, entry: int) -> int:
        """Return the size of an entry, where each input has its own."""
        assert self.entries is not None
        return self.entries[entry % len(self.entries)]

    def results(self, partition: int, key: int, window: int) -> list[tuple[int, int]]:
        """Return (id, key) of each output of this operator for a key in a window."""
        return self.outputs(window_id(self.window_code, partition, key, window), key)

    def pairs(self, one: int, other: int, key: int) -> list[tuple[int, int]]:
        """Return (id, key) of each output of this operator for two tuples with this key."""
        return self.outputs(pair_id(self.window_code, one, other), key)

    def tick(self, partition: int, number: int) -> tuple[int, int]:
        """Return (id, key) of the output of its timer with this number."""
        made = window_id(self.timer_code, partition, 0, number)
        return made, 0 if self.output_key is None else self.output_key(made, 0)

    def outputs(self, tuple_id: int, key: int, upstream: int | None = None) -> list[tuple[int, int]]:
        """Return (id, key) of each output of this operator for a tuple; the same whenever and wherever it is made.

        `upstream`: index of the operator that it comes from, needed where each has a selectivity of its own.
        """
        count = self.output_count
        if self.counts is not None:
            assert upstream is not None
            count = self.counts[upstream]
        made = []
        for index in range(count(tuple_id)):
            child = child_id(tuple_id, self.code, index)
            made.append((child, key if self.output_key is None else self.output_key(child, key)))
        return made


def plan_operators(scenario: Scenario, replication: int, shares: Mapping[str, float]) -> tuple[OperatorPlan, ...]:
    """Return the operators in file order, with their edges; `shares` are the selectivities of profile streams."""
    seed = scenario.seed
    sizes = output_bytes(scenario)
    plans = {}
    for index, (name, operator) in enumerate(scenario.operators.items()):
        keys = operator.output.keys if operator.output else None
        plans[name] = OperatorPlan(
            index=index,
            name=name,
            is_read=name in scenario.read_by_control,
            code=code_of("operator", name),
            description=operator,
            service_ns=time_sampler(operator.service, seed, replication, name) if operator.service else None,
            output_count=count_sampler(operator.most_selective, seed, replication, name),
            output_key=key_sampler(keys, seed, replication, name) if keys else None,
            output_bytes=round(sizes[name]),
            windows=Windows.of(operator.window) if operator.window else None,
            window_code=code_of("window", name),
            timer_ns=max(1, to_ns(operator.timer.every_s)) if operator.timer else 0,
            timer_code=code_of("timer", name),
            postpone_ns=_postponement(operator, seed, replication, name),
            watermark_ns=max(1, to_ns(scenario.workload[name].watermark_s)) if operator.kind == "source" else 0,
        )
    for plan in plans.values():
        by_input = counts_by_input(plan.description, seed, replication, plan.name)
        plan.counts = None if by_input is None else {plans[name].index: count for name, count in by_input.items()}
        plan.entries = _entries(plan.description, tuple(plans))
        if plan.description.kind == "join":
            plan.joins = plans[next(iter(plan.description.inputs))].index
    for number, chain in enumerate(chains_of(scenario)):
        for name, depth in chain.items():
            plans[name].chain, plans[name].depth = number, depth
    for number, names in enumerate(threads_of(scenario)):
        for name in names:
            plans[name].thread = number
    domains = _key_domains(scenario)
    for name, reading in scenario.polling.items():
        if reading.poll is not None and reading.cost is not None:
            plans[name].poll = reading.poll
            plans[name].poll_ns = time_sampler(reading.cost, seed, replication, name, POLL)
    for name, plan in plans.items():
        for upstream, partitioning in plan.description.inputs.items():
            shuffle_code = code_of(seed, replication, upstream, name, "shuffle")
            takes_code = code_of(seed, replication, upstream, name, "takes")
            targets = _targets(plan.description, partitioning, shuffle_code, domains[upstream])
            taken = plan.description.takes.get(upstream, 1.0)
            share = shares[taken] if isinstance(taken, str) else taken
            if share < 1:
                targets = _thinned(targets, share, takes_code)
            # See `Edge`: only a broadcast gives its receivers tuples of their own.
            copy_code = code_of("copy", upstream, name) if partitioning == "broadcast" else None
            plans[upstream].edges.append(
                Edge(plan, targets, partitioning, *domains[upstream], shuffle_code, takes_code, share, copy_code)
            )
    _mark_event_time([plans[name] for name in topological(scenario)])
    return tuple(plans.values())


def _entries(operator: Operator, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the state of a key by operator upstream, 0 for one that is no input; None unless each has its own."""
    state = operator.state
    if not isinstance(state, PerKeyState) or not isinstance(state.entry_bytes, Mapping):
        return None
    return tuple(round(state.entry_bytes.get(name, 0)) for name in names)


def _postponement(operator: Operator, seed: int, replication: int, name: str) -> Callable[[int], int] | None:
    """Return a function from the id of an output to the time from the birth of its input to its own [ns], or None."""
    if operator.postpone is None:
        return None
    drawn = time_sampler(operator.postpone, seed, replication, name, POSTPONE)
    return lambda tuple_id: min(drawn(tuple_id), FAR_NS)


def _mark_event_time(plans: list[OperatorPlan]) -> None:
    """Mark operators upstream of a window (`timed`) and downstream of one (not `reckoned`); inputs come first."""
    # Plans are in topological order: downstream is known first here, and upstream first in the loop below.
    for plan in reversed(plans):
        plan.timed = plan.windows is not None or any(edge.down.timed for edge in plan.edges)
    for plan in plans:
        for edge in plan.edges:
            edge.down.reckoned &= plan.reckoned and plan.windows is None


def _thinned(targets: Targets, share: float, stream_code: int) -> Targets:
    """Return the targets for a share of the tuples; which ones is a function of the tuple."""
    return lambda tuple_id, key, partition: (
        targets(tuple_id, key, partition) if uniform(tuple_id, stream_code) < share else ()
    )


def _key_domains(scenario: Scenario) -> dict[str, tuple[int, bool]]:
    """Return operator -> (number of keys of its output, whether these are the key groups of a profile)."""
    domains: dict[str, tuple[int, bool]] = {}
    for name in topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            keys = scenario.workload[name].most_keys(scenario.duration_s)
            domains[name] = (0, True) if keys is None else (keys, False)
            continue
        inputs = [domains[upstream] for upstream in operator.inputs]
        most = max(count for count, _ in inputs)
        if operator.output is None or operator.output.keys is None:
            domains[name] = (most, any(grouped for _, grouped in inputs))
        elif isinstance(operator.output.keys, SellerKeys):
            domains[name] = (most_ids("auction.seller", most), False)
        else:
            domains[name] = (operator.output.keys.count, False)
    return domains


def _targets(down: Operator, partitioning: str, edge_code: int, domain: tuple[int, bool]) -> Targets:
    """Return how an edge picks partitions downstream: a function of the tuple, so that replay repeats it."""
    partitions = down.groups
    if partitioning == "broadcast":
        everyone = tuple(range(partitions))
        return lambda _id, _key, _partition: everyone
    if partitioning == "forward":
        ones = [(partition,) for partition in range(partitions)]
        return lambda _id, _key, partition: ones[partition % partitions]
    if partitioning == "shuffle":
        ones = [(partition,) for partition in range(partitions)]
        return lambda tuple_id, _key, _partition: ones[mix(tuple_id ^ edge_code) % partitions]
    count, grouped = domain
    if grouped:
        ones = [(partition,) for partition in range(partitions)]
        return lambda _id, key, _partition: ones[key]
    ones = [(partition,) for partition in range(partitions)]
    groups = groups_of_keys(count, partitions, down.key_hash)
    return lambda _id, key, _partition: ones[groups[key]]
