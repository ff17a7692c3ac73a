"""Schema of a sizing file: targets, work, hosts, how they fail, copies and checkpoints.

Shapes are checked when the value is made; `faults` checks which keys fit together. `failures.log` names a file of
`holdfast failures`, which whoever reads the file looks into.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from models import units
from models.engines.restart_strategies import UNLIMITED, FixedDelay, RestartStrategy
from models.errors import NO_VALUE, InputFault, raise_if_any
from models.scenario.engine import Engine, as_engine, with_defaults
from models.schema_types import (
    Bytes,
    BytesPerSecond,
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
_ENGINES = ("flink", "kafka-streams", "spark")  # whose recoveries are known in closed form
_NOT_SIZED = {
    "storm": "lost tuples come again one to two message time-outs later, and no interval changes that",
}
_OF_ENGINE = {
    "hosts.*.slots": "hosts.slots",
    "detector.heartbeat": "detector.heartbeat",
    "detector.timeout": "detector.timeout",
    "detector.check": "detector.check",
    "detector.failed_calls": "detector.failed_calls",
    "detector.connection": "detector.connection",
    "recovery.strategy": "recovery.strategy",
    "recovery.attempt": "recovery.attempt",
}  # path of a scenario, to whose values an engine has defaults -> path of a sizing file
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
    parallelism: Count | None = None
    """Slots that the job needs, with Flink: with fewer it stands, and no more hosts than that have work."""


class SizedHosts(Description):
    """Hosts, all alike."""

    cores: Count = 1
    """Cores of one host, where work is given by rate and service."""
    slots: Count | None = None
    """Slots of one host, with Flink; without the key those that the engine says."""
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
    silent: bool = Field(default=False, strict=True)
    """Whether hosts fail without a sign, as in a power failure: no connection breaks, and no heartbeat is refused."""
    crews: Counts | None = None
    """How many hosts can be repaired at once; with several values each is looked at. Without it all can."""
    crew_price_per_s: PricePerSecond = Field(default=0.0, alias="crew_price")
    """Price of one crew."""


class Copies(Description):
    """Copies of every task on hosts of their own, of which one serves."""

    levels: Counts = 1
    """How many copies there are, the one that serves included; with several values each is looked at."""
    load: Share = 1.0
    """Load of a copy that does not serve, as a share of the load of the one that serves."""
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


class SizedState(Description):
    """State that a restart reads: `size` or `per_host`; and `restore`, `remote` or both, of which the slower counts."""

    bytes: Bytes | None = Field(default=None, alias="size")
    """State of the whole job: each task has the same part of it. With Kafka Streams that of the changelogs."""
    per_host_bytes: Bytes | None = Field(default=None, alias="per_host")
    """State of one host, however many there are."""
    restore_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="restore")
    """Rate at which one host reads its state."""
    remote_bytes_per_s: BytesPerSecond | None = Field(default=None, alias="remote")
    """Rate at which all hosts together read from the store; needs `size`."""
    standbys: Annotated[int, Field(strict=True, ge=0, le=100)] = 0
    """Standby replicas of each state, with Kafka Streams: with one or more nothing is read."""


class SizedDetector(Description):
    """How the engine notices a failure; it brings each value that is not given."""

    heartbeat_s: PositiveSeconds | None = Field(default=None, alias="heartbeat")
    """Time between two heartbeats."""
    timeout_s: PositiveSeconds | None = Field(default=None, alias="timeout")
    """Silence after which a host counts as dead."""
    check_s: PositiveSeconds | None = Field(default=None, alias="check")
    """Time between two looks at who is silent, with Spark; others notice a time-out at once."""
    failed_calls: Annotated[int, Field(strict=True, ge=0, le=10**9)] | None = None
    """Heartbeats in a row that are refused, after which a host counts as dead; with 0 only silence counts."""
    connection_s: Seconds | None = Field(default=None, alias="connection")
    """Time after which tasks notice broken connections."""


class SizedRecovery(Description):
    """How the engine restarts the job; it brings each value that is not given, but for `restart`."""

    strategy: RestartStrategy | None = None
    """When the job is started again after a failure. Each failure finds a strategy that has been reset."""
    attempt_s: Seconds | None = Field(default=None, alias="attempt")
    """Time after which a start has failed that got a slot of the dead host, which still counted."""
    restart_s: Seconds = Field(default=0.0, alias="restart")
    """Mean time from the start of the job until its tasks are deployed, without the restore of their state; with Kafka
    Streams from when members hear of a rebalance until they have their tasks; with Spark until the driver has started
    process, session and query, and what its first batch takes longer than others."""


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
    engine: Annotated[Engine, BeforeValidator(as_engine, json_schema_input_type=Engine | str)] | None = None
    """The engine of the job, as `"flink"` or as a table: times of recovery follow from its rules. Without it they are
    given (`checkpoints.detection`, `checkpoints.restart`)."""
    target: SizingTarget
    """Target that the system must meet."""
    work: Work
    """Work that the system has to do."""
    hosts: SizedHosts = Field(default_factory=SizedHosts, validate_default=True)
    """Hosts that the system may be made of."""
    failures: HostFailures
    """How often hosts fail."""
    copies: Copies = Field(default_factory=Copies, validate_default=True)
    """Copies of tasks."""
    checkpoints: Checkpoints
    """Checkpoints."""
    units: Units | None = None
    """Units that stay where a recovery put them."""
    state: SizedState | None = None
    """State that a restart reads, with an engine."""
    detector: SizedDetector | None = None
    """How the engine notices a failure."""
    recovery: SizedRecovery | None = None
    """How the engine restarts the job."""

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

    def fullest(self, hosts: int) -> float:
        """Return the share of all tasks that the fullest of so many hosts has: they are spread as evenly as they can.

        Without a parallelism work can be divided at will.
        """
        tasks = self.work.parallelism
        return 1 / hosts if tasks is None else math.ceil(tasks / hosts) / tasks

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
    if isinstance(raw, Mapping):
        raw, _ = with_defaults(raw, Sizing, _OF_ENGINE)
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
        yield InputFault("work.rate", units.show(work.rate_per_s or 0.0, "1/s"), "must be more than zero")
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
        yield InputFault("checkpoints.complete", units.show(points.complete_s, "s"), "must be at least the pause")
    yield from _unit_faults(description)
    yield from _without_engine(description) if description.engine is None else _engine_faults(description)
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


def _without_engine(description: Sizing) -> Iterator[InputFault]:
    """Yield a fault for each key that only an engine gives a meaning."""
    given = (
        ("work.parallelism", description.work.parallelism),
        ("hosts.slots", description.hosts.slots),
        ("failures.silent", description.failures.silent or None),
        ("state", description.state),
        ("detector", description.detector),
        ("recovery", description.recovery),
    )
    for path, value in given:
        if value is not None:
            shown = NO_VALUE if isinstance(value, Description) else value
            hint = "without it, checkpoints.detection and checkpoints.restart are the times of a recovery"
            yield InputFault(path, shown, "needs an engine", hint)


def _engine_faults(description: Sizing) -> Iterator[InputFault]:
    """Yield what does not go with the engine, and what it needs."""
    engine, points = description.engine, description.checkpoints
    assert engine is not None
    if engine.name not in _ENGINES:
        rule = f"must be one of {', '.join(_ENGINES)}: {_NOT_SIZED[engine.name]}"
        hint = f"holdfast init {engine.name} writes a scenario, which holdfast run simulates"
        yield InputFault("engine.name", engine.name, rule, hint)
        return
    if description.levels != (1,):
        rule = f"must be 1: {engine.title} has no copies of tasks"
        yield InputFault("copies.levels", description.copies.levels, rule)
    if description.units is not None:
        yield InputFault("units", NO_VALUE, f"must not be given: {engine.title} {_INSTEAD_OF_UNITS[engine.name]}")
    for path, value in (("checkpoints.detection", points.detection_s), ("checkpoints.restart", points.restart_s)):
        if value:
            hint = "recovery.restart is the time until tasks are deployed" if path.endswith("restart") else ""
            rule = "must not be given: the engine's rules say when work goes on"
            yield InputFault(path, units.show(value, "s"), rule, hint)
    if engine.name != "flink":
        yield from _of_flink(description, engine.name)
        yield from _state_faults(description)
        yield from _detector_faults(description)
        return
    most = description.hosts.most * (description.hosts.slots or 1)
    if description.work.parallelism is None:
        yield InputFault("work.parallelism", NO_VALUE, "is missing: nothing says how many slots the job needs")
    elif description.work.parallelism < (least := _least_parallelism(description.work, description.hosts.cores)):
        rule = f"must be at least {least}: a host with one task has more work than it may"
        yield InputFault("work.parallelism", description.work.parallelism, rule)
    elif description.work.parallelism > most:
        yield InputFault("work.parallelism", description.work.parallelism, f"must be at most the slots of all, {most}")
    if description.detector is not None and description.detector.check_s is not None:
        shown = units.show(description.detector.check_s, "s")
        yield InputFault("detector.check", shown, "is of Spark: heartbeat.timeout is noticed at once", "remove it")
    yield from _state_faults(description)
    yield from _restart_faults(description)


_INSTEAD_OF_UNITS = {
    "flink": "restarts all tasks together",
    "kafka-streams": "spreads tasks evenly over the instances",
    "spark": "repeats a batch as a whole",
}


def _of_flink(description: Sizing, engine: str) -> Iterator[InputFault]:
    """Yield what Flink has, and another engine has not: slots, restart strategies, other signs of a failure."""
    detector, recovery = description.detector, description.recovery
    connection = None if detector is None or detector.connection_s is None else units.show(detector.connection_s, "s")
    attempt = None if recovery is None or recovery.attempt_s is None else units.show(recovery.attempt_s, "s")
    strategy = None if recovery is None or recovery.strategy is None else recovery.strategy.kind
    calls = None if detector is None else detector.failed_calls
    check = None if detector is None or detector.check_s is None else units.show(detector.check_s, "s")
    silent = description.failures.silent or None
    if engine == "spark":
        slots, option = "is of Flink: an executor of Spark has cores", "spark.executor.cores"
        noticed = "is of Flink: Spark removes an executor whose connection closes, or after spark.network.timeout"
        starts = "is of Flink: nothing in Spark starts a query again, but who supervises its driver"
        silent = connection = check = None
    else:
        slots, option = "is of Flink: an instance of Kafka Streams has threads", "num.stream.threads"
        noticed = "is of Flink: a group removes a member after session.timeout.ms, and not before"
        starts = "is of Flink: nothing in Kafka Streams starts an instance again"
    given = (
        ("work.parallelism", description.work.parallelism, slots, "write hosts.cores, with rate and service"),
        ("hosts.slots", description.hosts.slots, slots, f"write hosts.cores ({option})"),
        ("failures.silent", silent, noticed, "remove it"),
        ("detector.failed_calls", calls, noticed, "remove it"),
        ("detector.connection", connection, noticed, "remove it"),
        ("detector.check", check, "is of Spark: a session that has ended is noticed at once", "remove it"),
        ("recovery.strategy", strategy, starts, "remove it"),
        ("recovery.attempt", attempt, starts, "remove it"),
    )
    if engine == "spark" and (recovery is None or not recovery.restart_s):
        rule = "is missing: nothing in Spark says how long process, session and query take to start"
        yield InputFault("recovery.restart", NO_VALUE, rule, 'as in restart = "8 s"')
    for path, value, rule, hint in given:
        if value is not None:
            yield InputFault(path, value, rule, hint)


def _least_parallelism(work: Work, cores: int) -> int:
    """Return the fewest tasks of which a host can execute one; 1 where the work is not known, another fault."""
    load = work.load if work.load is not None else (work.rate_per_s or 0.0) * (work.service_s or 0.0) / cores
    least = max(1, math.ceil(load / work.utilisation * (1 - 1e-12)))
    # At a load of 1 nothing could ever be caught up.
    return least + 1 if load >= least else least


def _state_faults(description: Sizing) -> Iterator[InputFault]:
    state = description.state
    if state is None:
        return
    if (state.bytes is None) == (state.per_host_bytes is None):
        yield InputFault("state", NO_VALUE, "must have size or per_host, and not both")
    if state.restore_bytes_per_s is None and state.remote_bytes_per_s is None:
        yield InputFault("state", NO_VALUE, "must have restore or remote: nothing says how fast it is read")
    if state.remote_bytes_per_s is not None and state.bytes is None:
        yield InputFault("state.size", NO_VALUE, "is missing: remote is the rate of all hosts together")
    if description.checkpoints.complete_s is None:
        rule = "is missing: a checkpoint with that state is not complete at once"
        hint = {
            "kafka-streams": "the time of a commit: commit-latency-avg of Kafka Streams",
            "spark": "the time of a batch: triggerExecution in durationMs of its progress",
        }.get("" if description.engine is None else description.engine.name, "Flink says so as its end to end duration")
        yield InputFault("checkpoints.complete", NO_VALUE, rule, hint)
    if state.standbys and description.engine is not None and description.engine.name != "kafka-streams":
        rule = f"is of Kafka Streams: {description.engine.title} has no copies of states"
        yield InputFault("state.standbys", state.standbys, rule, "remove it")


def _detector_faults(description: Sizing) -> Iterator[InputFault]:
    """Yield a time-out below the time between two heartbeats."""
    detector = description.detector
    assert detector is not None
    assert detector.heartbeat_s is not None
    assert detector.timeout_s is not None
    if detector.timeout_s < detector.heartbeat_s:
        shown, least = units.show(detector.timeout_s, "s"), units.show(detector.heartbeat_s, "s")
        yield InputFault("detector.timeout", shown, f"must be at least the heartbeat, {least}")


def _restart_faults(description: Sizing) -> Iterator[InputFault]:
    """Yield heartbeats that contradict each other, and strategies with which the job ends some day."""
    yield from _detector_faults(description)
    recovery = description.recovery
    assert recovery is not None
    strategy = recovery.strategy
    if isinstance(strategy, FixedDelay) and strategy.attempts < UNLIMITED:
        hint = f"attempts = {UNLIMITED} sets no limit"
        rule = "must be without limit: they count over the whole life of the job, which then ends"
        yield InputFault("recovery.strategy.attempts", strategy.attempts, rule, hint)
