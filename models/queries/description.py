"""Schema of a file of queries: streams, queries or templates to draw them from, hosts, and the budget of replicas.

Shapes are checked when the value is made; `models.queries.operators` makes queries of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import Field

from models.errors import NO_VALUE, InputFault, raise_if_any
from models.reliability.description import Label, Weight
from models.schema_types import (
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    PerSecond,
    PositiveSeconds,
    ReadOnlyMap,
    Seconds,
    Seed,
    Share,
)
from models.validation_messages import nearest_if_shown, path_text, validated

Kind = Literal["source", "projection", "filter", "aggregation", "sequence", "join", "destination"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Text = Annotated[str, Field(max_length=1000)]
Factor = Annotated[float, Field(ge=0, le=1e6, strict=True)]
Cpus = Annotated[float, Field(gt=0, le=1e9, strict=True)]
HostNumber = Annotated[int, Field(ge=0, strict=True)]
Budget = Annotated[float, Field(ge=0, le=1e9, strict=True)]
MOST_LEVELS = 10  # replicas of one operator


class Stream(Description):
    """A stream of events that sources read."""

    rate_per_s: PerSecond = Field(alias="rate")
    """Events that arrive."""
    tuple_bytes: Bytes = Field(default=100.0, alias="tuple")
    """Size of an event."""


class OperatorEntry(Description):
    """One operator of a query."""

    kind: Kind
    """Kind of the operator."""
    stream: Text = ""
    """Stream that a source reads or a destination writes."""
    predicate: Text = ""
    """Text of its predicate; operators of one kind with equal predicates and inputs are one."""
    inputs: tuple[Label, ...] = ()
    """The operators of this query that feed it; of a sequence in this order."""
    window_s: PositiveSeconds | None = Field(default=None, alias="window")
    """How far back an aggregation, sequence or join looks."""
    cost_s: Seconds | None = Field(default=None, alias="cost")
    """CPU time of a tuple; else that of its kind."""
    selectivity: Factor | None = None
    """Tuples out for each tuple in; else that of its kind."""
    tuple_bytes: Bytes | None = Field(default=None, alias="tuple")
    """Size of a tuple that it sends; else that of its kind."""


class QueryEntry(Description):
    """A query: its operators, or its text."""

    operators: ReadOnlyMap[OperatorEntry] = Field(default_factory=dict, validate_default=True)
    """Its operators by name."""
    text: Annotated[str, Field(max_length=10_000)] = ""
    """In place of operators, as in INSERT INTO out SELECT avg(tick) FROM ticks WITHIN 10 minutes WHERE name = "SAP"."""
    weight: Weight = 1.0
    """Weight of the query in means."""


class KindDefaults(Description):
    """Defaults for all operators of a kind."""

    cost_s: Seconds = Field(default=0.0, alias="cost")
    """CPU time of a tuple."""
    selectivity: Factor = 1.0
    """Tuples out for each tuple in."""
    tuple_bytes: Bytes = Field(default=100.0, alias="tuple")
    """Size of a tuple that goes out."""


Pair = tuple[float, float]
Six = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=6, max_length=6)]


class Predicates(Description):
    """How many predicates there are for each kind and input."""

    projection: Count = 3
    """Predicates of a projection on each input."""
    filter: Count = 2
    """Predicates of a filter on each input."""
    aggregation: Count = 7
    """Predicates of an aggregation on each input."""
    join: Count = 2
    """Predicates of a join on each input."""
    sequence: Count = 4
    """Predicates of a sequence on each input."""


class Costs(Description):
    """CPU time of a tuple by kind, before it is spread."""

    source: Seconds = 12e-6
    """CPU time of a tuple in a source."""
    projection: Seconds = 200e-6
    """CPU time of a tuple in a projection."""
    filter: Seconds = 3e-6
    """CPU time of a tuple in a filter."""
    aggregation: Seconds = 800e-6
    """CPU time of a tuple in an aggregation."""
    join: Seconds = 800e-6
    """CPU time of a tuple in a join."""
    sequence: Seconds = 200e-6
    """CPU time of a tuple in a sequence."""
    destination: Seconds = 3e-6
    """CPU time of a tuple in a destination."""


class Selectivities(Description):
    """From and to which selectivities are drawn, by kind."""

    source: Pair = (1.0, 1.0)
    """From and to, of a source."""
    projection: Pair = (1.0, 1.0)
    """From and to, of a projection."""
    filter: Pair = (0.1, 0.5)
    """From and to, of a filter."""
    aggregation: Pair = (0.02, 0.1)
    """From and to, of an aggregation."""
    join: Pair = (0.2, 0.6)
    """From and to, of a join."""
    sequence: Pair = (0.1, 0.4)
    """From and to, of a sequence."""
    destination: Pair = (1.0, 1.0)
    """From and to, of a destination."""


class Templates(Description):
    """Queries to be drawn from six templates: S-F-D, S-F-A-D, S-P-F-A-D, (S-F, S'-F') before J-D, Q-A-D and J-F-A-D."""

    load: Cpus = 100.0
    """CPU that all operators need together [CPUs]."""
    seed: Seed = 1
    """Decides what is drawn: 0 to 2^63 - 1."""
    weights: Six = (0.30, 0.23, 0.13, 0.25, 0.05, 0.04)
    """Weight of each template in the draw, relative to the others."""
    streams: Annotated[int, Field(ge=2, le=1000, strict=True)] = 6
    """How many streams there are."""
    popularity: Annotated[float, Field(ge=0, le=10)] = 0.2
    """Zipf exponent of streams and of predicates: 0 is uniform."""
    rate_per_s: Pair = (2_000.0, 10_000.0)
    """From and to which rates of streams are drawn [1/s]."""
    tuple_bytes: Bytes = Field(default=100.0, alias="tuple")
    """Size of a tuple."""
    predicates: Predicates = Field(default_factory=Predicates)
    """How many predicates there are for each kind and input."""
    cost_s: Costs = Field(default_factory=Costs, alias="cost")
    """CPU time of a tuple by kind."""
    spread: Pair = (0.5, 1.5)
    """By which factors costs are spread."""
    selectivity: Selectivities = Field(default_factory=Selectivities)
    """From and to which selectivities are drawn."""
    largest: Cpus | None = 1.0
    """The largest load of an operator before all are scaled: dearer ones are made cheaper."""


class Hosts(Description):
    """The hosts, all alike."""

    count: Count
    """How many there are for primaries; without `spare` for replicas too."""
    cpu: Cpus = 1.0
    """CPU of each host [CPUs]."""
    network_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="network")
    """Rate at which each host can receive and send together; without it there is no limit."""
    spare: Annotated[int, Field(ge=0, le=10**6, strict=True)] | None = None
    """Further hosts that replicas alone may use, as they alone use no other; without it they may use all."""


class Replicas(Description):
    """Budget of the replicas, and how they are chosen; options of the command override it."""

    budget: Budget | None = None
    """CPU for all replicas together [CPUs]; else all that primaries leave."""
    budget_replicas: Annotated[int, Field(ge=0, le=10**9, strict=True)] | None = None
    """How many replicas there may be, beside what they take; else any number."""
    level: Annotated[int, Field(ge=0, le=MOST_LEVELS, strict=True)] = 1
    """The most replicas of an operator."""
    moves: Annotated[int, Field(ge=0, le=10**9, strict=True)] | None = None
    """How many of the replicas that run may leave their hosts; else all."""


class QuerySet(Description):
    """Queries and what they run on."""

    format: Literal[1] = 1
    """Version of this description."""
    name: str = Field(default="", max_length=200)
    """One line that says what is asked."""
    streams: ReadOnlyMap[Stream] = Field(default_factory=dict, validate_default=True)
    """Streams that sources read."""
    kinds: ReadOnlyMap[KindDefaults] = Field(default_factory=dict, validate_default=True)
    """Defaults by kind of operator."""
    queries: ReadOnlyMap[QueryEntry] = Field(default_factory=dict, validate_default=True)
    """The queries by name, in the order in which they came."""
    templates: Templates | None = None
    """Queries to be drawn, in place of `streams` and `queries`."""
    hosts: Hosts | None = None
    """The hosts; plans need them."""
    p: Share | Annotated[tuple[Share, ...], Field(min_length=1)] = 0.01
    """Probability that a host is down; with several values each is answered, plans are made for the first."""
    placed: ReadOnlyMap[HostNumber | Annotated[tuple[HostNumber, ...], Field(min_length=1)]] = Field(
        default_factory=dict, validate_default=True
    )
    """A running system: the host, counted from 0, of the primary of each operator, as QUERY.OPERATOR; a list where
    replicas run too, the primary first."""
    replicas: Replicas = Field(default_factory=Replicas)
    """Budget of replicas."""

    @property
    def chances(self) -> tuple[float, ...]:
        """Return the values of p."""
        return self.p if isinstance(self.p, tuple) else (self.p,)


def query_set_from(raw: object) -> QuerySet:
    """Return the description that the tables of a file hold.

    Raises InputError with all faults of shape, or, if there are none, with all keys that exclude each other. Operators
    and texts of queries are checked later (`models.queries.operators`).
    """
    found = validated(QuerySet, raw)
    raise_if_any(_faults(found))
    return found


def _faults(found: QuerySet) -> Iterator[InputFault]:
    """Yield missing queries, keys beside templates, and unknown kinds."""
    if found.templates is None and not found.queries:
        yield InputFault("queries", NO_VALUE, "must have a query at least", "or [templates] to draw some")
    if found.templates is not None:
        for name in ("queries", "streams", "kinds", "placed"):
            if getattr(found, name):
                yield InputFault(name, len(getattr(found, name)), "must not be given beside templates")
        yield from _template_faults(found.templates)
    for name in found.kinds:
        if name not in KINDS:
            yield InputFault(path_text(("kinds", name)), name, "is no kind of operator", nearest_if_shown(name, KINDS))


def _template_faults(made: Templates) -> Iterator[InputFault]:
    """Yield ranges of templates that do not rise, and weights and rates that are all zero."""
    pairs = {"rate_per_s": made.rate_per_s, "spread": made.spread}
    pairs |= {f"selectivity.{kind}": getattr(made.selectivity, kind) for kind in KINDS}
    for name, (low, high) in pairs.items():
        if not 0 <= low <= high:
            yield InputFault(f"templates.{name}", [low, high], "must go up, from 0 at least")
    if not sum(made.weights) > 0:
        yield InputFault("templates.weights", list(made.weights), "must not all be zero")
    if made.rate_per_s[0] <= 0:
        yield InputFault("templates.rate_per_s", list(made.rate_per_s), "must be more than zero")
