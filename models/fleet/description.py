"""Schema of a file of `holdfast fleet`: hosts and how they fail, operators, queries, sources, and a manager.

Keys that an availability file also has mean the same there. Shapes are checked when the value is made;
`models.fleet.rules` checks how names refer to each other and which keys fit together.

`with_query_set` adds the queries of a query set: operators that they share, loads that follow the rates of streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from models.checked_arrays import FloatArray
from models.distributions import TimeDistribution
from models.errors import InputFault, raise_if_any
from models.queries.graph import OperatorTable
from models.reliability import description as availability
from models.reliability.description import Label, Labels
from models.schema_types import (
    Count,
    Description,
    FilePath,
    FrozenMap,
    PerSecond,
    PositiveSeconds,
    PricePerSecond,
    ReadOnlyMap,
    Seconds,
    Seed,
    Share,
)
from models.validation_messages import nearest_if_shown, path_text

Cores = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Load = Annotated[float, Field(ge=0, le=1e9, strict=True)]
Importance = Literal["gain", "degree", "utilisation", "product", "random", "given"]
YEAR_S = 365 * 86_400.0


class Host(availability.Host):
    """A host that is unlike the others."""

    capacity: Cores | None = None
    """Its cores, of speed 1."""
    spare: bool = Field(default=False, strict=True)
    """Not in use at the start: a manager takes it when the others are full."""
    price_per_s: PricePerSecond | None = Field(default=None, alias="price")
    """Price while it is in use, in place of `price` of all hosts."""


class Operator(Description):
    """An operator with a load."""

    hosts: tuple[Label, ...] = ()
    """The hosts of its instances, the primary first; none where the manager is to choose."""
    cost_s: ReadOnlyMap[Seconds] = Field(default_factory=dict, validate_default=True, alias="cost")
    """CPU time for each event of a source: its load is the sum of cost times rate, in cores."""
    load: Load = 0.0
    """Cores that it needs whatever the rates are."""
    importance: Share | None = None
    """Value of a replica of it, where `manager.importance` is `given`."""
    split: bool = Field(default=True, strict=True)
    """Whether it can be split into parts."""


class Query(availability.Query):
    """A query that counts differently, has an availability objective (SLO), or comes and goes."""

    operators: tuple[Label, ...] = ()
    """The operators that it needs; those of the query set, where there is one."""
    slo: Share | None = None
    """The availability that no reconfiguration may take it below."""
    arrives_s: Seconds = Field(default=0.0, alias="arrives")
    """When it is there first."""
    leaves_s: PositiveSeconds | None = Field(default=None, alias="leaves")
    """When it goes; without it, never."""


class Step(Description):
    """A rate from an instant on."""

    at_s: Seconds = Field(alias="at")
    """When it begins."""
    rate_per_s: PerSecond = Field(alias="rate")
    """Events per second from then on."""


class Varies(Description):
    """A rate that is drawn anew again and again."""

    every_s: PositiveSeconds = Field(alias="every")
    """How long each drawn factor lasts."""
    cv: float = Field(gt=0, le=100, strict=True)
    """Coefficient of variation of the log-normal factors, whose mean is 1."""


class Source(Description):
    """Events that arrive from outside."""

    rate_per_s: PerSecond = Field(alias="rate")
    """Events per second at the start."""
    steps: tuple[Step, ...] = ()
    """Rates that follow."""
    varies: Varies | None = None
    """Factors on all of these."""


class Times(Description):
    """How long hosts are up, and how long repairs last: means of exponential times, or laws."""

    mttf_s: PositiveSeconds | None = Field(default=None, alias="mttf")
    """Mean up time of a host until it fails."""
    mttr_s: PositiveSeconds | None = Field(default=None, alias="mttr")
    """Mean time of a repair."""
    up: TimeDistribution | None = None
    """The law of up times, in place of `mttf`."""
    down: TimeDistribution | None = None
    """The law of repairs, in place of `mttr`."""
    crews: Count | None = None
    """How many hosts can be repaired at once, first failed first; without it all can."""
    day_s: PositiveSeconds | None = Field(default=None, alias="day")
    """In place of repairs: hosts are all up at the start of a day and stay down once they failed."""

    @property
    def mean_up_s(self) -> float | None:
        """Return the mean up time."""
        return self.mttf_s if self.up is None else self.up.mean_s

    @property
    def mean_down_s(self) -> float | None:
        """Return the mean time of a repair."""
        return self.mttr_s if self.down is None else self.down.mean_s


class Domain(availability.Domain):
    """Hosts that fail together: by `p` with repairs as long as those of hosts, or by times of its own."""

    mttf_s: PositiveSeconds | None = Field(default=None, alias="mttf")
    """Mean time until it fails as a whole."""
    mttr_s: PositiveSeconds | None = Field(default=None, alias="mttr")
    """Mean time until it is up again."""


class Downtime(Description):
    """A time that a host was down, as recorded."""

    host: Label
    """The host."""
    down_s: Seconds = Field(alias="down")
    """When it went down."""
    up_s: PositiveSeconds = Field(alias="up")
    """When it was up again."""


class Standby(availability.Standby):
    """The first instance of each operator serves: its failure has to be detected before another takes over."""

    load: Share = 1.0
    """Load of a replica as a share of that of its primary: 1 for active ones, which process all there is."""


class Churn(Description):
    """Queries come and go at random: those that have neither `arrives` nor `leaves`."""

    stay_s: PositiveSeconds = Field(alias="stay")
    """Mean time that a query stays, exponential."""
    away_s: PositiveSeconds = Field(alias="away")
    """Mean time until it is back, exponential."""


class ManagerSettings(Description):
    """Who moves, splits, replicates, and takes and gives back hosts."""

    period_s: PositiveSeconds = Field(default=600.0, alias="period")
    """Time between two checks of the load."""
    high: Share = 0.9
    """A host above this share of its capacity is overloaded; none is filled above it."""
    low: Share = 0.3
    """A host below this share may be emptied and given back."""
    move_s: Seconds = Field(default=60.0, alias="move")
    """How long it takes until an instance is live at a new place; until then it counts where it was."""
    parts: Count = 4
    """Into how many parts an operator may be split."""
    replicas: Annotated[int, Field(strict=True, ge=0, le=64)] = 1
    """How many replicas an operator may have."""
    budget: Load = 0.0
    """Cores that replicas may take together."""
    importance: Importance = "gain"
    """Which operators get replicas first."""
    spare: Literal["replicas", "hosts"] = "hosts"
    """Use of spare room: give hosts back, even if replicas are dropped for it, or keep room for replicas."""


class Fleet(Description):
    """Hosts that fail and are repaired, queries on them, and who reacts."""

    format: Literal[1] = 1
    """Version of this description."""
    name: str = Field(default="", max_length=200)
    """One line that says what is asked."""
    duration_s: PositiveSeconds = Field(default=YEAR_S, alias="duration")
    """How long it is looked at."""
    warmup_s: Seconds = Field(default=0.0, alias="warmup")
    """From when on shares count; all hosts are up at the beginning."""
    replications: Count = 1
    """How often, with other draws."""
    seed: Seed = 1
    """Decides the draws: 0 to 2^63 - 1."""
    hosts: Labels | ReadOnlyMap[Host]
    """Names of the hosts, or a table for each."""
    capacity: Cores = 1.0
    """Cores of a host that says nothing else."""
    price_per_s: PricePerSecond | None = Field(default=None, alias="price")
    """Price of a host while it is in use, up or down."""
    operators: ReadOnlyMap[Labels | Operator] = Field(default_factory=dict, validate_default=True)
    """The hosts of the instances of each operator, the primary first, or a table."""
    queries: ReadOnlyMap[Labels | Query] = Field(default_factory=dict, validate_default=True)
    """The operators that each query needs, or a table."""
    query_set: FilePath | None = None
    """A file of queries: they share operators, which load as their rates say; tables here only add to these."""
    p: Share | None = None
    """Share of time that a host is down, in place of `times.mttf`."""
    times: Times = Field(default_factory=Times, validate_default=True)
    """Times to failure and repair."""
    domains: ReadOnlyMap[Domain] = Field(default_factory=dict, validate_default=True)
    """Failure domains: what can take several hosts at once."""
    beta: Share = 0.0
    """Share of a host's failures that takes its whole domain (all hosts, where there is no domain)."""
    standby: Standby | None = None
    """Without it all instances are active and none has to take over."""
    downtimes: tuple[Downtime, ...] = ()
    """Recorded downtimes, in place of draws; `times` then only serve the availability objectives."""
    log: FilePath | None = None
    """A file of downtimes, with the columns host, down, up in seconds, in place of `downtimes`."""
    sources: ReadOnlyMap[Source] = Field(default_factory=dict, validate_default=True)
    """Events that arrive from outside; loads follow their rates."""
    churn: Churn | None = None
    """Queries that come and go."""
    manager: ManagerSettings | None = None
    """Without it nothing is moved."""

    @property
    def host_names(self) -> tuple[str, ...]:
        """Return the hosts in the order of the file."""
        return tuple(self.hosts)

    def host(self, name: str) -> Host:
        """Return the entry of a host; the defaults if it has none."""
        return self.hosts[name] if isinstance(self.hosts, Mapping) else Host()

    def price_of(self, name: str) -> float | None:
        """Return the price of a host while it is in use [USD/s]; None if the file has none."""
        own = self.host(name).price_per_s
        return self.price_per_s if own is None else own

    def operator(self, name: str) -> Operator:
        """Return the entry of an operator; a plain list of hosts becomes one."""
        found = self.operators[name]
        return found if isinstance(found, Operator) else Operator(hosts=found)

    def query(self, name: str) -> Query:
        """Return the entry of a query; a plain list of operators becomes one."""
        found = self.queries[name]
        return found if isinstance(found, Query) else Query(operators=found)

    @property
    def has_downtimes(self) -> bool:
        """Return whether recorded downtimes of hosts are given."""
        return bool(self.downtimes) or self.log is not None

    @property
    def is_static(self) -> bool:
        """Return whether only hosts change: no manager, and all queries stay from the beginning to the end."""
        stays = all(self.query(name).arrives_s == 0 and self.query(name).leaves_s is None for name in self.queries)
        return self.manager is None and self.churn is None and stays


def with_query_set(fleet: Fleet, table: OperatorTable, rates: FloatArray) -> Fleet:
    """Return the description with operators, queries and streams of the table; its own entries take precedence.

    Raises InputError for tables about operators and queries that there are not, and for what the query set decides.
    """
    raise_if_any(_faults(fleet, table))
    streams = table.streams
    operators = {}
    for index, name in enumerate(table.names):
        costs = {stream: float(table.load_matrix[index, k]) for k, stream in enumerate(streams)}
        own = fleet.operator(name) if name in fleet.operators else Operator()
        operators[name] = own.model_copy(update={"cost_s": FrozenMap({s: c for s, c in costs.items() if c})})
    queries = {}
    for name, needs, weight in zip(table.queries, table.operators, table.weights, strict=True):
        found = fleet.query(name) if name in fleet.queries else Query()
        own_weight = found.weight if "weight" in found.model_fields_set else weight
        needed = tuple(table.names[op] for op in needs)
        queries[name] = found.model_copy(update={"operators": needed, "weight": own_weight})
    sources = {name: Source(rate_per_s=float(rate)) for name, rate in zip(streams, rates.tolist(), strict=True)}
    changes = {
        "operators": FrozenMap(operators),
        "queries": FrozenMap(queries),
        "sources": FrozenMap({**sources, **fleet.sources}),
    }
    return fleet.model_copy(update=changes)


def _faults(fleet: Fleet, table: OperatorTable) -> Iterator[InputFault]:
    for key, given, known in (("operators", fleet.operators, table.names), ("queries", fleet.queries, table.queries)):
        for name in given:
            if name not in known:
                rule = f"is not among the {key} of the query set"
                yield InputFault(path_text((key, name)), name, rule, nearest_if_shown(name, known))
    for name in fleet.queries:
        if fleet.query(name).operators:
            yield InputFault(path_text(("queries", name, "operators")), name, "is what the query set says")
    for name in fleet.operators:
        if fleet.operator(name).cost_s:
            yield InputFault(path_text(("operators", name, "cost")), name, "is what the query set says")
