"""Schema of a sizing file: targets, work, hosts, how they fail, copies and checkpoints.

Shapes are checked when the value is made; `faults` checks which keys fit together. `failures.log` names a file of
`holdfast failures`, which whoever reads the file looks into.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from models.errors import NO_VALUE, InputFault, raise_if_any
from models.schema_types import (
    Count,
    Description,
    FilePath,
    PerSecond,
    PositiveSeconds,
    PricePerSecond,
    Seconds,
    Share,
)
from models.validation_messages import validated

YEAR_S = 365.25 * 86_400
DAY_S = 86_400.0
MOST_HOSTS = 1000
MOST_UNITS = 4096
OpenShare = Annotated[float, Field(gt=0, lt=1, strict=True)]
Rate = Annotated[float, Field(gt=0, le=1e6, strict=True)]
UnitShare = Annotated[float, Field(ge=0, le=1e12, strict=True)]
Counts = Count | Annotated[tuple[Count, ...], Field(min_length=1)]


class SizingTarget(Description):
    """Targets of the system."""

    availability: OpenShare
    """Share of the time in which results are on time."""
    recovery_s: PositiveSeconds | None = Field(default=None, alias="recovery")
    """Longest time until a system that was whole has caught up with the loss of all copies of a task."""
    recovery_share: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    """Share of these losses for which that must hold."""
    budget_per_s: PricePerSecond | None = Field(default=None, alias="budget")
    """Most that hosts and crews may cost."""


class Work(Description):
    """Work of the system: `load`, or rate and service."""

    load: Annotated[float, Field(gt=0, le=1e6, strict=True)] | None = None
    """How many hosts one copy of all work keeps busy all the time."""
    rate_per_s: PerSecond | None = Field(default=None, alias="rate")
    """Tuples that come."""
    service_s: PositiveSeconds | None = Field(default=None, alias="service")
    """Time of a core for each tuple, over all operators."""
    utilisation: Annotated[float, Field(ge=1e-6, le=1, strict=True)] = 1.0
    """Most of the time of hosts that may be taken: with fewer hosts than that needs the job stands."""


class SizedHosts(Description):
    """Hosts, all alike."""

    cores: Count = 1
    """Cores of one host, where work is given by rate and service."""
    least: Count = 1
    """Fewest hosts to look at."""
    most: Annotated[int, Field(strict=True, ge=1, le=MOST_HOSTS)] = 50
    """Most hosts to look at."""
    price_per_s: PricePerSecond | None = Field(default=None, alias="price")
    """Price of one host; without it hosts are what is counted."""


class HostFailures(Description):
    """How often hosts fail, said in one of several ways, and for how long they are down."""

    mttf_s: PositiveSeconds | None = Field(default=None, alias="mttf")
    """Mean up time of a host until it fails."""
    mtbf_s: PositiveSeconds | None = Field(default=None, alias="mtbf")
    """The same by the name that scenarios have for it."""
    per_day: Rate | None = None
    """Failures of one host in a day of being up."""
    per_year: Rate | None = None
    """Failures of one host in a year of being up."""
    afr: OpenShare | None = None
    """Share of hosts that fail at least once in a year."""
    log: FilePath | None = None
    """A file of `holdfast failures --out`, relative to this one: its MTTF, and its MTTR where none is given."""
    mttr_s: PositiveSeconds | None = Field(default=None, alias="mttr")
    """Mean time until a host is up again."""
    crews: Counts | None = None
    """How many hosts can be repaired at once; with several values each is looked at. Without it all can."""
    crew_price_per_s: PricePerSecond = Field(default=0.0, alias="crew_price")
    """Price of one crew."""


class Copies(Description):
    """Copies of every task on hosts of their own, of which one serves."""

    levels: Counts = 1
    """How many copies there are, the one that serves included; with several values each is looked at."""
    load: Share = 1.0
    """What a copy that does not serve takes of what the one that serves takes."""
    take_over_s: Seconds = Field(default=0.0, alias="take_over")
    """Mean time until another copy serves."""
    coverage: Share = 1.0
    """Probability that it does; else the work is recovered from its checkpoint."""
    rebuild_s: PositiveSeconds = Field(default=60.0, alias="rebuild")
    """Mean time until copies that were lost are made again on other hosts."""


class Checkpoints(Description):
    """Checkpoints and recovery from them."""

    pause_s: PositiveSeconds = Field(alias="pause")
    """Time that a checkpoint takes from the work."""
    complete_s: Seconds | None = Field(default=None, alias="complete")
    """From the beginning of a checkpoint until it can be used; at least the pause, which is the default."""
    detection_s: Seconds = Field(default=0.0, alias="detection")
    """Time until a failure is detected."""
    restart_s: Seconds = Field(default=0.0, alias="restart")
    """From then until work goes on."""


class Units(Description):
    """Key groups, or tasks without keys: recovered one by one where the fewest are, and moved by nothing else.

    Without this table work is spread evenly over the hosts that are up, at all times.
    """

    count: Annotated[int, Field(strict=True, ge=1, le=MOST_UNITS)] | None = None
    """How many there are, of equal load; or `shares`."""
    shares: Annotated[tuple[UnitShare, ...], Field(min_length=1, max_length=MOST_UNITS)] | None = None
    """Weight of each unit in the load, in any unit."""
    steps: Count = 1
    """Operators with units that a tuple passes one after the other."""

    @property
    def number(self) -> int:
        """Return how many units there are."""
        return len(self.values)

    @property
    def values(self) -> tuple[float, ...]:
        """Return the weight of each unit in the load, in any unit."""
        return self.shares if self.shares is not None else (1.0,) * (self.count or 1)


class Sizing(Description):
    """A question for the cheapest system."""

    format: Literal[1] = 1
    """Version of this description."""
    name: str = Field(default="", max_length=200)
    """One line that says what is asked."""
    target: SizingTarget
    """What it must meet."""
    work: Work
    """What there is to do."""
    hosts: SizedHosts = Field(default_factory=SizedHosts, validate_default=True)
    """What it may be made of."""
    failures: HostFailures
    """How often hosts fail."""
    copies: Copies = Field(default_factory=Copies, validate_default=True)
    """Copies of tasks."""
    checkpoints: Checkpoints
    """Checkpoints."""
    units: Units | None = None
    """What stays where a recovery put it."""

    @property
    def levels(self) -> tuple[int, ...]:
        """Return the numbers of copies to look at, rising."""
        return _values(self.copies.levels)

    @property
    def crews(self) -> tuple[int | None, ...]:
        """Return the numbers of crews to look at, rising; None stands for a crew for each host."""
        return (None,) if self.failures.crews is None else _values(self.failures.crews)

    @property
    def load(self) -> float:
        """Return the hosts that one copy of all work keeps busy."""
        if self.work.load is not None:
            return self.work.load
        assert self.work.rate_per_s is not None
        assert self.work.service_s is not None
        return self.work.rate_per_s * self.work.service_s / self.hosts.cores

    @property
    def mttf_s(self) -> float | None:
        """Return the mean up time as the file itself says it; None where a log does."""
        said = self.failures
        if said.per_day is not None:
            return DAY_S / said.per_day
        if said.per_year is not None:
            return YEAR_S / said.per_year
        if said.afr is not None:
            return YEAR_S / -math.log1p(-said.afr)
        return said.mttf_s if said.mttf_s is not None else said.mtbf_s


def _values(given: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return one or several values as a rising tuple without repetitions."""
    return tuple(sorted(set(given))) if isinstance(given, tuple) else (given,)


def sizing_from(raw: object, *, from_file: bool = True) -> Sizing:
    """Return the description that the tables hold.

    `raw`: the tables as a TOML reader gives them. `from_file`: quantities need units, and keys are those of a file.
    Raises InputError with all faults of shape, or, if there are none, with all contradictions between keys.
    """
    found = validated(Sizing, raw, from_file=from_file, refined=list)
    raise_if_any(faults(found))
    return found


def faults(description: Sizing) -> Iterator[InputFault]:
    """Yield the keys that do not fit each other.

    Each fault has the path of the key to change; a log or file that a key names is not opened.
    """
    work, said, hosts, points = description.work, description.failures, description.hosts, description.checkpoints
    flow = (work.rate_per_s, work.service_s)
    if work.load is None and None in flow:
        yield InputFault("work", NO_VALUE, "must have load, or rate and service")
    elif work.load is not None and any(one is not None for one in flow):
        yield InputFault("work.load", work.load, "must not be given beside rate and service")
    elif work.load is None and not work.rate_per_s:
        yield InputFault("work.rate", work.rate_per_s, "must be more than zero")
    ways = ("mttf_s", "mtbf_s", "per_day", "per_year", "afr", "log")
    given = [name.removesuffix("_s") for name in ways if getattr(said, name) is not None]
    if len(given) != 1:
        rule = "must have one of mttf, mtbf, per_day, per_year, afr and log"
        yield InputFault("failures", NO_VALUE, rule, f"there: {', '.join(given) or 'none'}")
    if said.mttr_s is None and said.log is None:
        yield InputFault("failures.mttr", NO_VALUE, "is missing: nothing says how long hosts are down")
    if said.crew_price_per_s and said.crews is None:
        yield InputFault("failures.crews", NO_VALUE, "is missing: a crew has a price")
    if hosts.least > hosts.most:
        yield InputFault("hosts.least", hosts.least, f"must be at most hosts.most, {hosts.most}")
    if max(description.levels) > hosts.most:
        yield InputFault("copies.levels", max(description.levels), f"must be at most hosts.most, {hosts.most}")
    if points.complete_s is not None and points.complete_s < points.pause_s:
        yield InputFault("checkpoints.complete", points.complete_s, "must be at least the pause")
    yield from _unit_faults(description)
    budget = description.target.budget_per_s
    if budget is not None and hosts.price_per_s is None:
        yield InputFault("target.budget", NO_VALUE, "needs hosts.price")


def _unit_faults(description: Sizing) -> Iterator[InputFault]:
    """Yield a fault for each key that contradicts `units`."""
    units = description.units
    if units is None:
        return
    if (units.count is None) == (units.shares is None):
        yield InputFault("units", NO_VALUE, "must have count or shares, and not both")
    elif not any(units.values):
        yield InputFault("units.shares", units.shares, "must not all be zero")
    elif units.number < description.hosts.least:
        yield InputFault("hosts.least", description.hosts.least, f"must be at most the number of units, {units.number}")
    if description.levels != (1,):
        yield InputFault("copies.levels", description.copies.levels, "must be 1 beside units")
