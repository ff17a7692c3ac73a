"""The keys of a scenario: everything that one file asks, as one frozen value."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from models.scenario.cluster import HostGroup, Network, Placement
from models.scenario.engine import Engine, as_engine
from models.scenario.events import (
    ADJUSTMENT,
    WITHOUT_CHECKPOINTS,
    Death,
    Elasticity,
    Event,
    FailureReplay,
    HostJoin,
    HostRestart,
    Limits,
    Migrate,
    Rebalance,
    Reconfigure,
    Recording,
    Rescale,
    Targets,
)
from models.scenario.fault_tolerance import Detector, FaultTolerance
from models.scenario.job import Operator, Reading
from models.scenario.runtime import RecoveryTimes, StateStore, Waves, Workers
from models.scenario.workload import SourceWorkload
from models.schema_types import Count, Description, NamedMap, PositiveSeconds, ReadOnlyMap, Seconds, Seed, frozen

FORMAT: Final = 1


class ScenarioDescription(Description):
    """Job, workload, cluster, fault tolerance and events of one question, and how often it is answered.

    Shapes are checked when the value is made; whether names that refer to each other fit is checked by
    `models.scenario.rules.faults`, so that a file gets all its errors at once.
    """

    format: Literal[1] = FORMAT
    """Version of this description."""
    name: str = Field(default="", max_length=200)
    """One line that says what is asked."""
    engine: Annotated[Engine, BeforeValidator(as_engine, json_schema_input_type=Engine | str)] | None = None
    """The engine that the scenario speaks of, as `"flink"` or as a table: its values hold where the file says nothing,
    and its rules in any case. Without it a generic system."""
    seed: Seed = 1
    """The seed from which every random number follows: 0 to 2^63 - 1."""
    duration_s: PositiveSeconds = Field(alias="duration")
    """Simulated time."""
    warmup_s: Seconds = Field(default=0.0, alias="warmup")
    """Time at the start that no statistic counts."""
    replications: Count = 1
    """Independent runs, pooled in the summary."""
    resolution: Count = 1
    """Records of the job that one simulated record stands for: a coarser run is shorter, and less exact. Everything in
    the file, and in the summary, is about the records of the job."""
    workload: ReadOnlyMap[SourceWorkload]
    """One table for each source operator: what comes in."""
    operators: NamedMap[Operator]
    """The job: one table for each operator."""
    hosts: NamedMap[HostGroup]
    """The cluster: one table for each group of equal hosts."""
    network: Network = Network()
    """The network between hosts."""
    placement: Placement = Placement()
    """Where tasks start."""
    recovery: RecoveryTimes = RecoveryTimes()
    """Times between the detection of a failure and the restore."""
    workers: Workers = Workers()
    """Worker processes, which a rebalance kills and starts."""
    state_store: StateStore = StateStore()
    """The store for states of a rebalance."""
    waves: Waves = Waves()
    """Waves that save and restore the states of a dataflow."""
    fault_tolerance: FaultTolerance = FaultTolerance()
    """How state survives a failure."""
    detector: Detector = Detector()
    """How a failure is detected."""
    elasticity: Elasticity = Elasticity()
    """When key groups move by themselves."""
    events: ReadOnlyMap[Event] = Field(default_factory=dict, validate_default=True)
    """Events in the run: one table for each."""
    failures: FailureReplay | None = None
    """Failures of hosts as a log has them."""
    targets: Targets | None = None
    """Targets that the run must meet; a missed target makes exit code 4."""
    recording: Recording = Recording()
    """How much of what happens to single tuples is kept."""
    limits: Limits = Limits()
    """A scenario whose estimate is above one of these is refused."""
    design: str | None = None
    """Which of `designs` this is: its values take the place of others. Without it none."""
    designs: ReadOnlyMap[ReadOnlyMap[Annotated[Any, AfterValidator(frozen)]]] = Field(
        default_factory=dict, validate_default=True
    )
    """Designs that differ in several keys: for each a table of dotted path = value; a sweep of `design` tries them."""
    sweep: ReadOnlyMap[Annotated[tuple[Any, ...], AfterValidator(frozen)]] = Field(
        default_factory=dict, validate_default=True
    )
    """Values of a sweep: dotted path = list of values."""

    _by_engine: frozenset[str] = PrivateAttr(default=frozenset())
    """Paths whose values the engine brought: the file says nothing there."""

    def is_by_engine(self, path: str) -> bool:
        """Return whether the value at a path is one that the engine brought."""
        return path in self._by_engine

    @property
    def migrates(self) -> bool:
        """Return whether a key group may move in the run."""
        asked = any(
            isinstance(event, (Migrate, Rescale)) or (isinstance(event, Reconfigure) and event.moves_each)
            for event in self.events.values()
        )
        return asked or self.elasticity.policy != "none"

    def protocol_of(self, event: Migrate | Rescale | Reconfigure) -> str:
        """Return the protocol of an event: the one it names, or the one that goes with the method of recovery."""
        if event.protocol is not None:
            return event.protocol
        if self.fault_tolerance.trims_by_acks and isinstance(event, Rescale):
            return ADJUSTMENT
        return WITHOUT_CHECKPOINTS if self.fault_tolerance.kept_history else "direct"

    @property
    def rebalances(self) -> bool:
        """Return whether the tasks of the dataflow are killed and started elsewhere in the run."""
        return any(isinstance(event, Rebalance) for event in self.events.values())

    @property
    def adjusts(self) -> bool:
        """Return whether an operator may be adjusted as a whole."""
        asked = any(isinstance(one, Rescale) and self.protocol_of(one) == ADJUSTMENT for one in self.events.values())
        return asked or self.elasticity.policy == "operators"

    @property
    def rescales_job(self) -> bool:
        """Return whether all tasks may be stopped in the run to start again in other numbers, as Flink does it."""
        if self.fault_tolerance.job_checkpoints is None or self.fault_tolerance.method != "region-restart":
            return False
        asked = any(isinstance(event, Rescale) for event in self.events.values())
        return asked or (self.recovery.adapts and self.may_fail)

    @property
    def keeps_ids(self) -> bool:
        """Return whether tuples have ids: a tuple can come twice, or be lost."""
        by_method = self.fault_tolerance.acking is not None or self.fault_tolerance.batches is not None
        by_method = by_method or any(isinstance(event, HostJoin) for event in self.events.values())
        fails = self.may_fail or self.checkpoints_may_fail_it
        return fails or self.migrates or self.has_replicas or self.rebalances or by_method

    @property
    def loses_states(self) -> bool:
        """Return whether hosts may fail whose states nothing brings back, and key groups move in steps at most."""
        moves = self.migrates or self.rebalances or self.has_replicas or self.waves.interval_s is not None
        return self.may_fail and self.fault_tolerance.method == "none" and not moves

    @property
    def checkpoints_may_fail_it(self) -> bool:
        """Return whether so many checkpoints can expire in the run that the job fails, although no host does."""
        barriers = self.fault_tolerance.job_checkpoints
        if barriers is None or barriers.tolerated_failures is None:
            return False
        return (barriers.tolerated_failures + 1) * barriers.timeout_s < self.duration_s

    @property
    def limits_batches(self) -> bool:
        """Return whether a micro-batch takes so many records only, and leaves what has arrived beyond."""
        batches = self.fault_tolerance.batches
        return batches is not None and batches.max_offsets is not None

    @property
    def read_by_control(self) -> frozenset[str]:
        """Return the sources that emit nothing by themselves: files, polls or batches say what they read, and when."""
        sources = {name: one for name, one in self.operators.items() if one.kind == "source"}
        reads = self.fault_tolerance.changelogs is None
        return frozenset(
            name for name, one in sources.items() if (reads and one.reading is not None) or self.limits_batches
        )

    @property
    def polling(self) -> dict[str, Reading]:
        """Return how operators poll the sources that they read, by operator: with changelogs their tasks do it."""
        if self.fault_tolerance.changelogs is None:
            return {}
        found = {}
        for name, operator in self.operators.items():
            for upstream in operator.inputs:
                source = self.operators.get(upstream)
                if source is not None and source.reading is not None and operator.service is not None:
                    found[name] = source.reading
        return found

    @property
    def has_replicas(self) -> bool:
        """Return whether something has an active replica."""
        tolerance = self.fault_tolerance
        return bool(tolerance.replicas) or tolerance.replica_plan is not None or tolerance.replicates_all

    @property
    def keeps_statistics(self) -> bool:
        """Return whether the load of each key group is looked at each period."""
        wanted = self.recording.statistics or self.fault_tolerance.maintenance is not None
        return wanted or self.elasticity.policy != "none"

    @property
    def counts_load(self) -> bool:
        """Return whether the load of each key group is counted, to be looked at or for the size of its state."""
        # Who saves the states of a whole job has to know how large they are.
        saves = any(isinstance(one, Reconfigure) and one.protocol == "stop-and-restart" for one in self.events.values())
        return self.keeps_statistics or self.recording.memory or saves

    @property
    def may_fail(self) -> bool:
        """Return whether a host, its workers or the driver can die or stop in the run, or a host be suspected."""
        ends = (Death, HostRestart)
        named = self.failures is not None or any(isinstance(event, ends) for event in self.events.values())
        return named or self.detector.errs or any(group.failures is not None for group in self.hosts.values())
