"""The cluster: groups of equal hosts, the network between them, and where tasks are placed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.schema_types import (
    BytesPerSecond,
    Count,
    Description,
    FilePath,
    PositiveBytes,
    PositiveSeconds,
    PricePerSecond,
    ReadOnlyMap,
    Seconds,
)


class ExponentialFailures(Description):
    """Each host fails after exponential times with mean `mtbf` of up time and is back after `repair`."""

    model: Literal["exponential"] = "exponential"
    mtbf_s: PositiveSeconds = Field(alias="mtbf")
    """Mean up time of one host."""
    repair_s: PositiveSeconds = Field(alias="repair")
    """Down time."""


class ScheduledFailures(Description):
    """Each host of the group fails at these times and is back after `repair`."""

    model: Literal["schedule"] = "schedule"
    at_s: tuple[Seconds, ...] = Field(alias="at", min_length=1)
    """When each host of the group fails."""
    repair_s: PositiveSeconds = Field(alias="repair")
    """Down time."""


Failures = Annotated[ExponentialFailures | ScheduledFailures, Field(discriminator="model")]


class LoadStep(Description):
    """From `at` on others take `share` of the CPU."""

    at_s: Seconds = Field(alias="at")
    """When the share changes."""
    share: float = Field(ge=0, lt=1, strict=True)
    """Share of the CPU that others take from then on, less than 1."""


class OutsideLoad(Description):
    """CPU share that other jobs take of each host of a group over time; none before the first step."""

    steps: tuple[LoadStep, ...] = Field(min_length=1)
    """Steps in order of time."""

    def mean_share(self, duration_s: float) -> float:
        """Return the share of the CPU that others take on average from 0 to `duration_s`."""
        return self.mean_between(0.0, duration_s)

    def mean_between(self, begin_s: float, end_s: float) -> float:
        """Return the share of the CPU that others take on average between two times [s], the second of which is later.

        Before the first step nobody takes anything.
        """
        begins = [min(max(step.at_s, begin_s), end_s) for step in self.steps]
        ends = [*begins[1:], end_s]
        taken = (step.share * (end - begin) for step, begin, end in zip(self.steps, begins, ends, strict=True))
        return sum(taken) / (end_s - begin_s)


class HostGroup(Description):
    """`count` equal hosts, named GROUP-0 .. GROUP-(count - 1)."""

    count: Count = 1
    """Number of hosts, with the spare ones."""
    spare: int = Field(default=0, strict=True, ge=0)
    """The last so many hosts are not in use at the start; scale-out can acquire them."""
    cores: Count = 1
    """Cores of one host."""
    cpu: Literal["dedicated", "shared", "processor-sharing"] = "dedicated"
    """`dedicated`: each thread has a core of its own. `shared`: all tasks of a host queue for its cores,
    by priority, then first come first served. `processor-sharing`: all services of a host go on at once
    and share its cores evenly, each on one core at most.
    """
    speed: float = Field(default=1.0, ge=1e-6, strict=True)
    """Speed of the cores: a service of mean 1 ms takes 0.5 ms at speed 2."""
    load: OutsideLoad | None = None
    """CPU of each host that other programs use."""
    slots: Count | None = None
    """Tasks one host takes; without it there is no bound."""
    memory_bytes: PositiveBytes | None = Field(default=None, alias="memory")
    """Memory of one host."""
    network_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="network")
    """Bandwidth of one host, in each direction; without it there is no bound."""
    price_per_s: PricePerSecond | None = Field(default=None, alias="price")
    """Price of one host."""
    failures: Failures | None = None
    """When hosts fail by themselves."""

    @property
    def used(self) -> int:
        """Return the number of hosts in use at the start: the first ones."""
        return max(0, self.count - self.spare)


class Network(Description):
    """Latency between tasks on different hosts; tasks on one host exchange tuples at once."""

    latency_s: Seconds = Field(default=0.0002, alias="latency")
    """Time a message is on its way between two hosts."""
    sharing: Literal["fifo", "fair"] | None = None
    """How a host's bandwidth is shared by what it sends. `fifo`: one message after the other. `fair`: evenly by the
    pairs of tasks that have something to send, first in first out within each. Without it `fair` if a host with a
    bandwidth sends both records and checkpoints, else `fifo`.
    """


class Placement(Description):
    """Where tasks start: round robin over all hosts or over an operator's host group; single tasks by name."""

    method: Literal["round-robin"] = "round-robin"
    """How tasks are spread."""
    operators: ReadOnlyMap[str] = Field(default_factory=dict, validate_default=True)
    """Operator = host group that its tasks are spread over."""
    hosts: tuple[str, ...] = ()
    """Host groups that the tasks of all other operators are spread over: round robin over their hosts, as long as these
    have slots. Without it all host groups, and slots are not looked at.
    """
    slot_sharing: bool = Field(default=False, strict=True)
    """Whether a slot holds a task of each operator, as in Flink, instead of one task: task k of each operator starts in
    slot k. Slots are counted round robin over all hosts, or over those of `hosts`."""
    chaining: bool = Field(default=False, strict=True)
    """Chain the operators that can be chained, as Flink does: one that reads one other by forward is served by the
    thread of that one's task. `operators.X.chain` says so of single ones."""
    fixed: tuple[str, ...] = ()
    """Sinks whose tasks no rebalance moves; those of sources stay in any case."""
    tasks: ReadOnlyMap[str] = Field(default_factory=dict, validate_default=True)
    """Task = host, which overrules the rest."""
    plan: FilePath | None = None
    """Plan file, relative to the scenario file."""
