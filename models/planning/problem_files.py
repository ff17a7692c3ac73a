"""Schemas of the files of planning problems, key by key: for the JSON schema and the reference.

The readers check arrays, which may be large and come from NPZ files too, by `models.checked_arrays`; these descriptions
say the same of the values of each key, and `tests/holdfast/test_schemas.py` holds the two together. That lengths agree
and numbers name what there is the readers alone can tell.

A value that is null is not given.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from models.checked_arrays import LARGEST
from models.planning.checkpoint_interval import MOST
from models.planning.migration_steps import MOST_HOSTS
from models.planning.placement import MOST_IDS
from models.schema_types import Description, Seed

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, strict=True)]
Amount = Annotated[float, Field(ge=0, le=LARGEST, strict=True)]
Positive = Annotated[float, Field(gt=0, le=LARGEST, strict=True)]
Index = Annotated[int, Field(ge=0, lt=2**53, strict=True)]
Id = Annotated[int, Field(ge=0, lt=MOST_IDS, strict=True)]
IdOrNone = Annotated[int, Field(ge=-1, lt=MOST_IDS, strict=True)]
HostOrNone = Annotated[int, Field(ge=-1, lt=2**53, strict=True)]
HostId = Annotated[int, Field(ge=0, lt=MOST_HOSTS, strict=True)]
Time = Annotated[float, Field(ge=0, le=MOST, strict=True)]
PositiveTime = Annotated[float, Field(gt=0, le=MOST, strict=True)]
Label = str | Annotated[int, Field(strict=True)]

Numbers = tuple[Number, ...]
Amounts = tuple[Amount, ...]
Pairs = tuple[tuple[Index, Index], ...]
AtLeastOne: Any = Field(min_length=1)


class CheckpointsFile(Description):
    """Checkpoints to be stored on nodes."""

    cost: Annotated[tuple[Annotated[Numbers, AtLeastOne], ...], AtLeastOne]
    """Cost of storing each checkpoint (a row each) on each node (a column each)."""
    load: Annotated[Amounts, AtLeastOne] | Annotated[tuple[Amounts, ...], AtLeastOne]
    """Load of each checkpoint on its node; in rows like `cost` where it depends on the node."""
    capacity: Amounts | None = None
    """The most load of each node; else there is no limit."""
    capacity_min: Amounts | None = None
    """The least load of each node; else 0."""
    forbidden: Pairs | None = None
    """Pairs [checkpoint, node] that must not be; else all may be."""
    anti_affinity: Pairs | None = None
    """Pairs of checkpoints that must not share a node; else none."""
    group: tuple[Label, ...] | None = None
    """The operator of each checkpoint, for the method `even`."""
    current: tuple[Index, ...] | None = None
    """The node where each checkpoint is now."""
    max_moves: Index | None = None
    """How many checkpoints may leave their `current` node; else all."""


class LoadHistory(Description):
    """Measured loads, which costs of checkpoints follow from."""

    load: Annotated[tuple[Amounts, ...], AtLeastOne]
    """Row by row the load of a key group, a row each, in a window, a column each [cores]."""
    host: tuple[Index, ...]
    """The node that each key group runs on."""
    speed: Annotated[Amounts, AtLeastOne]
    """Cores times speed of each node."""
    outside: Amounts | None = None
    """The share of each node that others take; else none."""
    theta: Positive = 0.85
    """The utilisation above which a node is overloaded."""
    seed: Seed = 0
    """Decides the draws: 0 to 2^63 - 1."""
    group: tuple[Label, ...] | None = None
    """The operator of each key group."""


class LoadHistoryFile(Description):
    """A problem of checkpoints with measured loads in place of costs."""

    history: LoadHistory
    """Measured loads. An NPZ file has arrays named history.KEY."""


class SelectionFile(Description):
    """Operators that may get replicas."""

    value: Annotated[Amounts, AtLeastOne] | Annotated[tuple[Annotated[Amounts, AtLeastOne], ...], AtLeastOne]
    """Value of a replica of each operator; with levels a row for each operator, the total for levels 1, 2, ..."""
    weight: Annotated[Amounts, AtLeastOne] | Annotated[tuple[Annotated[Amounts, AtLeastOne], ...], AtLeastOne]
    """Capacity that it needs, in the shape of `value`."""
    capacity: Amount
    """Capacity for all of them together."""
    max_level: tuple[Index, ...] | None = None
    """The highest level of each operator; else the last one."""


class QueriesFile(Description):
    """Queries whose operators may get replicas, all of a query or none."""

    value: Annotated[Amounts, AtLeastOne]
    """Value of each query."""
    weight: Amounts
    """Capacity that a replica of each operator needs."""
    uses: Pairs
    """Pairs [query, operator]: the operators that each query needs."""
    capacity: Amount
    """Capacity for all of them together."""
    operator_value: Amounts | None = None
    """Value of a replica of each operator on its own, for capacity that the queries leave; else 0."""


class StepsFile(Description):
    """Moves of a migration that are to be arranged."""

    moves: tuple[tuple[HostId, HostId], ...]
    """Pairs [from host, to host], hosts counted from 0."""
    size_bytes: Amounts | None = None
    """Bytes that each move sends; else each takes one step."""
    link_bytes_per_s: tuple[Positive, ...] | None = None
    """Bandwidth of the link of each host [B/s]; needed with `size_bytes`, and only then."""
    duplex: Annotated[bool, Field(strict=True)] | None = False
    """Whether a host may send one and receive one at the same time."""


class PlacementFile(Description):
    """Instances of operators that need a host."""

    cpu: Amounts
    """CPU that each instance needs."""
    host_cpu: Annotated[Amounts, AtLeastOne]
    """CPU of each host, in the same unit."""
    network: Amounts | None = None
    """Network capacity that each instance needs; else there is no limit."""
    host_network: Amounts | None = None
    """Network capacity of each host; needed with `network`, and only then."""
    operator: tuple[Id, ...] | None = None
    """The number of the operator of each instance; else each is its own."""
    colour: tuple[IdOrNone, ...] | None = None
    """The colour of each instance, such as its query, -1 for none; else the operator."""
    neighbours: tuple[tuple[Id, Id], ...] | None = None
    """Pairs of operators with a stream between them; else none."""
    failure_domain: tuple[Id, ...] | None = None
    """The failure domain of each host, such as its rack."""
    anti_affinity: Literal["host", "domain"] | None = "host"
    """Place that no two instances of an operator may share: a host, or a failure domain."""
    goal: Literal["colours", "hosts", "value"] | None = "colours"
    """Objective: few colours on a host and then few hosts, few hosts, or the most value of placed instances."""
    max_colours: Index | None = None
    """The most colours on a host; else any number."""
    value: Amounts | None = None
    """Value of placing each instance; else 1."""
    fixed: tuple[HostOrNone, ...] | None = None
    """The host that each instance stays on, -1 where it is free; else all are."""
    current: tuple[HostOrNone, ...] | None = None
    """The host where each instance runs now, -1 for a new one."""
    max_moves: Index | None = None
    """How many instances may leave their `current` host; else all."""


class IntervalFile(Description):
    """Inputs of the optimal checkpoint interval, in seconds."""

    checkpoint_s: PositiveTime
    """Pause of the work by a checkpoint [s]."""
    mtbf_s: PositiveTime
    """Mean time between failures [s]."""
    restart_s: Time | None = 0.0
    """From a failure until work goes on [s]."""
    complete_s: Time | None = None
    """From the beginning of a checkpoint until it can be used [s]; else its pause."""
    utilisation: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    """Of a stream, before the failure."""
    recovery_target_s: PositiveTime | None = None
    """The time in which the job is to catch up after a failure [s]."""
    rate_per_s: Time | None = None
    """Records of a stream per second, for what is replayed."""
