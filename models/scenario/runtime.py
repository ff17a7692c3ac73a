"""The engine around the tasks: worker processes, a store for states, and the waves of checkpoints."""

from __future__ import annotations

from pydantic import Field

from models.distributions import TimeDistribution
from models.engines.restart_strategies import RestartStrategy
from models.schema_types import BytesPerSecond, Description, PositiveSeconds, Seconds


class Workers(Description):
    """Worker processes: each has one slot of a host and one task; a rebalance kills and starts them."""

    start: TimeDistribution | None = None
    """Time from the kill of a worker until its successor is up; without it none."""
    start_per_rank_s: Seconds = Field(default=0.0, alias="start_per_rank")
    """Time added for each worker that starts before it; the order of the workers of a rebalance is random."""
    gate_s: PositiveSeconds | None = Field(default=None, alias="gate")
    """Activation gate: a worker that has started processes nothing before all tasks that it sends to are up. It checks
    when it has started, and again each time after so long. Without it a worker does not wait, and what it sends to a
    task that is not up is lost.
    """


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
