"""Schema of an availability file: queries, operators, the hosts of their instances, and how hosts fail.

Shapes are checked when the value is made; `faults` checks how names refer to each other and which keys fit together.

Only shapes and names are known here; `models.reliability.problem` turns a description into numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from models.errors import NO_VALUE, InputFault, raise_if_any
from models.reliability.times import mostly_down
from models.schema_types import Count, Description, FilePath, PositiveSeconds, ReadOnlyMap, Seconds, Share
from models.validation_messages import nearest_if_shown, path_text, validated

Label = Annotated[str, Field(min_length=1, max_length=64)]
Labels = Annotated[tuple[Label, ...], Field(min_length=1)]
Weight = Annotated[float, Field(gt=0, le=1e9, strict=True)]


MOST_VALUES = 10_000  # of p; a curve needs no more


def _not_too_many(given: object) -> object:
    """Refuse a list that is too long before each of its values is checked."""
    if isinstance(given, (list, tuple)) and len(given) > MOST_VALUES:
        rule = f"must have at most {MOST_VALUES} entries, not {len(given)}"
        raise PydanticCustomError("range", "{rule}", {"rule": rule, "hint": "take values further apart"})
    return given


class Host(Description):
    """A host that fails unlike the others."""

    p: Share | None = None
    """Probability that it is down."""
    mttf_s: PositiveSeconds | None = Field(default=None, alias="mttf")
    """Mean up time until it fails."""
    mttr_s: PositiveSeconds | None = Field(default=None, alias="mttr")
    """Mean time until it is up again."""


class Query(Description):
    """A query that counts more or less than others."""

    operators: Labels
    """The operators that it needs."""
    weight: Weight = 1.0
    """Weight of the query in the mean."""


class Domain(Description):
    """Hosts that fail together: a rack, a zone."""

    hosts: Labels
    """Its hosts."""
    p: Share = 0.0
    """Probability that it is down as a whole, independently of what its hosts do by themselves."""


class Times(Description):
    """Times to failure and repair, in place of `p`."""

    mttf_s: PositiveSeconds | None = Field(default=None, alias="mttf")
    """Mean up time of a host until it fails."""
    log: FilePath | None = None
    """A file of `holdfast failures --out`, relative to this one: its MTTF, and its MTTR where neither that nor a day is
    given.
    """
    mttr_s: PositiveSeconds | None = Field(default=None, alias="mttr")
    """Mean time until it is up again; asks for the share of time in the long run."""
    crews: Count | None = None
    """How many hosts can be repaired at once; without it all can."""
    day_s: PositiveSeconds | None = Field(default=None, alias="day")
    """Hosts are all up at the start of a day and stay down once they failed: asks for its end and its average."""

    @property
    def up_s(self) -> float:
        """Return the mean up time; a log has been looked into."""
        assert self.mttf_s is not None
        return self.mttf_s


class Standby(Description):
    """The first instance of each operator serves and the others stand by: its failure has to be detected."""

    take_over_s: Seconds = Field(default=0.0, alias="take_over")
    """How long nobody serves after the first host failed."""
    coverage: Share = 1.0
    """Probability that the failure is detected and another instance takes over at all."""


class Upgrades(Description):
    """Hosts are taken down one at a time."""

    every_s: PositiveSeconds = Field(alias="every")
    """Mean time from the end of one to the start of the next."""
    lasts_s: PositiveSeconds = Field(alias="lasts")
    """Mean time that a host is down for it."""
    only_whole: bool = Field(default=False, strict=True)
    """Whether one starts only while no host has failed."""


class Availability(Description):
    """Queries and what they run on."""

    format: Literal[1] = 1
    """Version of this description."""
    name: str = Field(default="", max_length=200)
    """One line that says what is asked."""
    hosts: Labels | ReadOnlyMap[Host]
    """Names of the hosts, or a table for each."""
    operators: ReadOnlyMap[Labels]
    """The hosts of the instances of each operator, the primary first."""
    queries: ReadOnlyMap[Labels | Query]
    """The operators that each query needs, or a table."""
    p: Annotated[Share | Annotated[tuple[Share, ...], Field(min_length=1)] | None, BeforeValidator(_not_too_many)] = (
        None
    )
    """Probability that a host is down; with several values each is answered."""
    times: Times | None = None
    """Times to failure and repair, in place of `p`."""
    domains: ReadOnlyMap[Domain] = Field(default_factory=dict, validate_default=True)
    """Failure domains: what can take several hosts at once."""
    beta: Share = 0.0
    """Share of a host's failures that takes its whole domain (all hosts, where there is no domain)."""
    standby: Standby | None = None
    """Without it all instances are active and none has to take over."""
    upgrades: Upgrades | None = None
    """Rolling upgrades."""
    target: Share | None = None
    """The availability that every query must have; a missed one makes exit code 4."""

    @property
    def host_names(self) -> tuple[str, ...]:
        """Return the hosts in the order of the file."""
        return tuple(self.hosts)

    @property
    def own(self) -> Mapping[str, Host]:
        """Return the tables of the hosts that are not empty."""
        hosts = self.hosts if isinstance(self.hosts, Mapping) else {}
        return {name: host for name, host in hosts.items() if host != Host()}

    @property
    def is_pair(self) -> bool:
        """Return whether one host serves and the other stands by for all that there is, and nothing is upgraded."""
        placed = set(self.operators.values())
        take_over = self.standby is not None and self.standby.take_over_s > 0
        return (
            len(self.host_names) == 2 and len(placed) == 1 and len(min(placed)) == 2 and take_over and not self.upgrades
        )

    def operators_of(self, query: str) -> tuple[str, ...]:
        """Return the operators that a query needs."""
        found = self.queries[query]
        return found.operators if isinstance(found, Query) else found


def availability_from(raw: object, *, from_file: bool = True) -> Availability:
    """Return the description that the tables hold.

    `raw`: the tables as a TOML reader gives them. `from_file`: keys have the names and units of a file; otherwise also
    those of the code. Raises InputError with all faults of shape, or, if there are none, with all faults of references.

    >>> tables = {"hosts": ["a", "b"], "operators": {"o": ["a", "b"]}, "queries": {"q": ["o"]}, "p": 0.1}
    >>> found = availability_from(tables)
    >>> found.host_names, found.operators_of("q")
    (('a', 'b'), ('o',))
    """
    found = validated(Availability, raw, from_file=from_file)
    raise_if_any(faults(found))
    return found


def warnings(description: Availability) -> Iterator[str]:
    """Yield what is legal and probably not meant: hosts that are down for most of the time."""
    if description.times is not None:
        yield from mostly_down("times.mttf", description.times.mttf_s, description.times.mttr_s)
    for name, host in description.own.items():
        yield from mostly_down(path_text(("hosts", name, "mttf")), host.mttf_s, host.mttr_s)


def faults(description: Availability) -> Iterator[InputFault]:
    """Yield unknown names, instances that share a host, and keys that contradict each other."""
    for key, table in (
        ("hosts", description.host_names),
        ("operators", description.operators),
        ("queries", description.queries),
    ):
        if not table:
            yield InputFault(key, NO_VALUE, "must have an entry at least")
    hosts = dict.fromkeys(description.host_names).keys()
    if isinstance(description.hosts, tuple):
        yield from named_faults("hosts", description.hosts, None, "is there twice")
    for operator, placed in description.operators.items():
        yield from named_faults(
            path_text(("operators", operator)),
            placed,
            hosts,
            "has an instance of this operator already",
            "a replica on the host of its primary goes down with it",
        )
    for query, entry in description.queries.items():
        path = path_text(("queries", query)) + (".operators" if isinstance(entry, Query) else "")
        yield from named_faults(path, description.operators_of(query), description.operators, "is there twice")
    for domain, group in description.domains.items():
        yield from named_faults(path_text(("domains", domain, "hosts")), group.hosts, hosts, "is there twice")
    yield from _chance_faults(description)
    yield from _model_faults(description)


def named_faults(
    path: str, given: Sequence[str], known: Collection[str] | None, twice: str, hint: str = ""
) -> Iterator[InputFault]:
    """Return faults of names that are not known hosts, or operators where `known` is a table, or that are there twice.

    `known` should find a name without a search: it is asked for each.
    """
    seen: set[str] = set()
    for index, name in enumerate(given):
        if known is not None and name not in known:
            noun = "an operator" if isinstance(known, Mapping) else "a host"
            yield InputFault(f"{path}[{index}]", name, f"is not {noun}", nearest_if_shown(name, known))
        elif name in seen:
            yield InputFault(f"{path}[{index}]", name, twice, hint)
        seen.add(name)


def _chance_faults(description: Availability) -> Iterator[InputFault]:
    """Yield hosts whose chance is given twice or not at all."""
    if description.p is not None and description.times is not None:
        yield InputFault("p", description.p, "must not be given beside times", "leave out one of them")
    own = description.own
    for name, host in own.items():
        path = path_text(("hosts", name))
        if (host.mttf_s is None) != (host.mttr_s is None):
            yield InputFault(path, NO_VALUE, "must have both mttf and mttr, or neither")
        elif host.p is not None and host.mttf_s is not None:
            yield InputFault(f"{path}.p", host.p, "must not be given beside mttf")
    bare = [name for name in description.host_names if name not in own]
    if description.p is None and description.times is None and bare:
        yield InputFault("p", NO_VALUE, f"is missing: nothing says how often {bare[0]} is down", "p = 0.01, or times")


def _model_faults(description: Availability) -> Iterator[InputFault]:
    """Yield combinations of times, crews, upgrades, standbys and domains that no exact method covers."""
    times = description.times
    if times is not None and (times.mttf_s is None) == (times.log is None):
        yield InputFault("times", NO_VALUE, "must have either mttf or log")
    # The log is read later: nothing is said about times that it may bring.
    read = times is not None and times.log is not None  # its mttr is not known yet
    if times is not None and times.mttr_s is None and times.day_s is None and not read:
        yield InputFault("times", NO_VALUE, "must have mttr or day", "mttr for the long run, day for a day")
    steady = times is not None and (times.mttr_s is not None or (read and times.day_s is None))
    alike = not description.own and not description.domains and not description.beta
    shared = (times is not None and times.crews is not None) or description.upgrades is not None
    if description.standby is not None and not steady:
        yield InputFault("standby", NO_VALUE, "needs times.mttr: it is about the moments after a failure")
    if shared and not steady:
        path = "upgrades" if description.upgrades is not None else "times.crews"
        yield InputFault(path, NO_VALUE, "needs times.mttr: repairs last")
    timed = (
        all(host.p is None for host in description.own.values())
        and description.upgrades is None
        and description.standby is None
    )
    if shared and not alike and (not timed or description.domains or description.beta):
        path = "upgrades" if description.upgrades is not None else "times.crews"
        rule = "is solved for equal hosts: no p of a host, no domains, no beta"
        yield InputFault(path, NO_VALUE, rule)
    if shared and description.standby is not None and not description.is_pair:
        hint = "of two hosts with all operators they are"
        yield InputFault("standby", NO_VALUE, "is not solved together with crews or upgrades", hint)
    if times is not None and times.day_s is not None and (shared or description.standby is not None or description.own):
        yield InputFault("times.day", times.day_s, "is solved for equal hosts that nobody repairs or upgrades")
    if description.beta and description.own:
        yield InputFault("beta", description.beta, "is defined for hosts that are alike")
    members = [host for domain in description.domains.values() for host in domain.hosts]
    if description.beta and len(set(members)) < len(members):
        yield InputFault("beta", description.beta, "needs domains that share no host: a failure has one common cause")
