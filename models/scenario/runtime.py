"""The engine around the tasks: worker processes, a store for states, and the waves of checkpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from models.distributions import TimeDistribution
from models.engines.restart_strategies import RestartStrategy
from models.schema_types import BytesPerSecond, Count, Description, PositiveSeconds, Seconds


class Workers(Description):
    """Worker processes: for a rebalance, which kills and starts them, each has one slot of a host and one task."""

    start: TimeDistribution | None = None
    """Time from the kill of a worker until its successor is up; without it none."""
    start_per_rank_s: Seconds = Field(default=0.0, alias="start_per_rank")
    """Time added for each worker that starts before it; the order of the workers of a rebalance is random."""
    gate_s: PositiveSeconds | None = Field(default=None, alias="gate")
    """Activation gate: a worker that has started processes nothing before all tasks that it sends to are up. It checks
    when it has started, and again each time after so long. Without it a worker does not wait, and what it sends to a
    task that is not up is lost.
    """
    together: bool = Field(default=False, strict=True)
    """Whether the tasks of a host are one worker process, which is started again as a whole after a failure, as in
    Storm: where it was, if the host lives, else on the host with the fewest workers. `recovery` has its times. No task
    joins another one. Without it each lost key group or task goes where the fewest are. For the methods `acker` and
    `none`."""
    slots: Count | None = None
    """Worker processes that a host takes, with `together`; without it there is no bound."""
    check_s: PositiveSeconds | None = Field(default=None, alias="check")
    """Time between two looks of a host at its workers, with `together`: one that has died is noticed at the next;
    without it at once."""


class AdaptiveScheduling(Description):
    """How long the adaptive scheduler waits for slots before it runs with fewer, and for others before it rescales."""

    wait_s: PositiveSeconds | None = Field(default=None, alias="wait")
    """Time for which a job that is down waits for a slot; then it has failed. Without it 5 min, and no limit in
    reactive mode; `submission.resource-wait-timeout`."""
    stabilisation_s: Seconds | None = Field(default=None, alias="stabilisation")
    """Time from the first free slot until it starts with as many as there are, if these are fewer than it wants.
    Without it 10 s, and none in reactive mode; `submission.resource-stabilization-timeout`."""
    cooldown_s: Seconds = Field(default=30.0, alias="cooldown")
    """Time from a start of the job until it may be rescaled; `executing.cooldown-after-rescaling`."""
    gathering_s: Seconds = Field(default=60.0, alias="gathering")
    """Time from then, or from a change of slots or wishes, until it is rescaled to fewer tasks than it wants;
    `executing.resource-stabilization-timeout`."""
    at_checkpoint: bool = Field(default=True, strict=True)
    """Whether a rescaling follows the end of a checkpoint, as since Flink 2.0, so that little comes again."""
    failed_checkpoints: Count = 2
    """Checkpoints that have to fail before it does not wait for one; `rescale-trigger.max-checkpoint-failures`."""
    delay_s: Seconds | None = Field(default=None, alias="delay")
    """Time after `gathering` for which it waits for a checkpoint. Without it that of `failed_checkpoints` intervals;
    `rescale-trigger.max-delay`."""


class WarmUp(Description):
    """How much slower a host is at first on which tasks have started again: code that is not compiled yet, caches that
    are empty, and what the start itself takes of the CPU."""

    duration_s: PositiveSeconds = Field(alias="duration")
    """Time for which it is slower, from each instant at which a task has its state back there."""
    slowdown: float = Field(gt=1, le=1000, strict=True)
    """How many times as long a service takes meanwhile, as all work on the host."""


class RecoveryTimes(Description):
    """Times between the detection of a failure and the restore: lost tasks get slots, and their processes start."""

    allocate: TimeDistribution | None = None
    """Time until slots are allocated to what a host has lost; without it none."""
    strategy: RestartStrategy | None = None
    """When what is lost is started again after a failure, and when it is given up; without it as soon as the host
    counts as dead. Slots are allocated after that."""
    attempt_s: Seconds = Field(default=0.0, alias="attempt")
    """Time after which a start has failed that got a slot of the dead host, which still counted."""
    slot_timeout_s: PositiveSeconds | None = Field(default=None, alias="slot_timeout")
    """Time after which a restart has failed that does not find a slot for each task, with the method `region-restart`
    and a `strategy`; without it tasks wait for slots as long as it takes."""
    restart: TimeDistribution | None = None
    """Time from then until its tasks are up; without it none."""
    warm_up: WarmUp | None = None
    """Hosts on which tasks have started again are slower at first; without it they are not."""
    scheduler: Literal["default", "adaptive", "reactive"] = "default"
    """Who starts a job with `region-restart`. `default`: as many tasks as before, once all have a slot. `adaptive`: the
    whole job, with as many tasks as there are slots, and with more once there are more; an event `rescale` changes what
    it wants. `reactive`: the same, without waiting for slots."""
    adaptive: AdaptiveScheduling = AdaptiveScheduling()
    """Times of the adaptive scheduler."""

    @property
    def adapts(self) -> bool:
        """Return whether the job runs with as many tasks as there are slots."""
        return self.scheduler != "default"

    @property
    def wait_s(self) -> float | None:
        """Return the time for which a job waits for a slot [s]; None without a limit."""
        return self.adaptive.wait_s or (300.0 if self.scheduler == "adaptive" else None)

    @property
    def stabilisation_s(self) -> float:
        """Return the time for which a job that has some slots waits for all of them [s]."""
        given_s = self.adaptive.stabilisation_s
        return given_s if given_s is not None else (10.0 if self.scheduler == "adaptive" else 0.0)


class StateStore(Description):
    """A store for states outside of all hosts, such as Redis: tasks write their states to it in a wave."""

    latency_s: Seconds | None = Field(default=None, alias="latency")
    """Time that a request, and its answer, is on its way; without it `network.latency`."""
    request_s: Seconds = Field(default=0.0, alias="request")
    """Time that the store needs for each request."""
    per_tuple_s: Seconds = Field(default=0.0, alias="per_tuple")
    """Time that it needs for each captured tuple, in addition."""
    bytes_per_s: BytesPerSecond | None = Field(default=None, alias="bandwidth")
    """Bandwidth of each request; without it `fault_tolerance.remote`."""
    concurrency: int = Field(default=1, strict=True, ge=1, le=10_000)
    """Requests that it serves at once; others wait, first come first served."""


class Waves(Description):
    """Waves of control messages (PREPARE, COMMIT, ROLLBACK, INIT) that save and restore the states of a dataflow."""

    prepare_s: Seconds = Field(default=0.0, alias="prepare")
    """Work of a task for a PREPARE."""
    commit_s: Seconds = Field(default=0.0, alias="commit")
    """Work of a task for a COMMIT."""
    init_s: Seconds = Field(default=0.0, alias="init")
    """Work of a task for an INIT."""
    resend_s: PositiveSeconds = Field(default=1.0, alias="resend")
    """Time after which an INIT is sent again to those that have not answered."""
    timeout_s: PositiveSeconds = Field(default=60.0, alias="timeout")
    """Time after which a rebalance that has not killed anything is called off, and the store is asked again."""
    interval_s: PositiveSeconds | None = Field(default=None, alias="interval")
    """Time between two periodic waves of checkpoints; without it there are none."""
    phase_s: Seconds = Field(default=0.0, alias="phase")
    """When the first periodic wave begins, after one interval; later ones keep the phase."""
    step: TimeDistribution | None = None
    """Time between the end of one step of a periodic wave and the begin of the next; without it none."""
