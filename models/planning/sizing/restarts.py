"""From a failure until work goes on, where the engine of the job decides it: its restarts, deployment, and restore.

    D(n) = RUNNING + restart + restore(n),   n hosts up

RUNNING follows the law of `models.engines.flink_restart` over the phase of the heartbeats: all but its mean and its
latest value is left out. `restart` is given. All tasks read their state at once, so the host with the most tasks
decides, or the store that all read from:

    restore(n) = max(size ceil(p / n) / (p bandwidth of a host), size / bandwidth of the store),   p tasks
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from models import display
from models.engines.behaviours import Behaviour, Status
from models.engines.flink_restart import Heartbeats, PhaseLaw, TaskManagerDeath
from models.errors import InputError
from models.planning.sizing.description import Sizing

BEHAVIOURS = (
    Behaviour(
        "Detection and restarts",
        Status.MODELLED,
        "Broken connections, refused heartbeats, the heartbeat time-out and the restart strategy, with restarts in "
        "vain while the dead TaskManager counts: mean and latest RUNNING over all phases of the heartbeats.",
    ),
    Behaviour(
        "Restart strategies",
        Status.SIMPLIFIED,
        "No jitter, and each failure finds a strategy that has been reset. A job that waited for a TaskManager "
        "restarts as after a failure.",
    ),
    Behaviour(
        "Slots",
        Status.SIMPLIFIED,
        "Tasks are spread evenly over the TaskManagers that are up, also after a failure; one slot-sharing group. With "
        "fewer slots than the parallelism the job waits for a TaskManager. One without tasks counts as if it had some "
        "when it fails.",
    ),
    Behaviour(
        "Restore",
        Status.SIMPLIFIED,
        "Each task has the same part of the state, and all read at the stated bandwidths at once.",
    ),
    Behaviour(
        "Checkpoints",
        Status.SIMPLIFIED,
        "Always complete after the stated time: no alignment, minimum pause, time-out or failed checkpoint.",
    ),
    Behaviour("Rescaling", Status.ABSENT, "The parallelism is fixed: no adaptive scheduler, no autoscaler."),
)


@dataclass(frozen=True)
class UntilWork:
    """A part of the time from a failure until work goes on by the rules of the engine [s], and what decides it.

    `latest_s` is that of the latest phase of the heartbeats.
    """

    part: str
    mean_s: float
    latest_s: float
    by: str


@dataclass(frozen=True)
class EngineRestarts:
    """The parts of D by the rules of Apache Flink, for a description that names it."""

    description: Sizing
    host_word = "task manager"
    save_word = "checkpoint"
    behaviours = BEHAVIOURS

    def rolled_back(self, hosts: int) -> float:
        """Return the share of the work that goes back to the checkpoint: all tasks are restarted together."""
        return 1.0

    def check(self) -> None:
        """Raise InputError for a strategy that gives up."""
        assert self.running

    def parts(self, hosts: int) -> tuple[UntilWork, ...]:
        """Return the parts of D with so many hosts up, and the whole."""
        detector, recovery, state = self.description.detector, self.description.recovery, self.description.state
        assert detector is not None
        assert recovery is not None
        assert recovery.strategy is not None
        silent = "silent" if self.description.failures.silent else "a process is killed"
        beats = f"{silent}, heartbeat {display.duration(detector.heartbeat_s)}, {recovery.strategy.kind}"
        restore_s, fullest = self.restore_s(hosts), display.size(self.state_bytes(hosts))
        parts = [
            UntilWork("RUNNING", self.running.mean_s, self.running.latest_s, beats),
            UntilWork("tasks deployed", self.deploy_s, self.deploy_s, "recovery.restart"),
        ]
        if state is not None:
            by = f"{fullest} on the fullest {self.host_word}"
            parts.append(UntilWork("state restored", restore_s, restore_s, by))
        return (*parts, UntilWork("work goes on", self.mean_s(hosts), self.latest_s(hosts), "all of it"))

    @cached_property
    def running(self) -> PhaseLaw:
        """Return the law of RUNNING [s] after a failure.

        Raises InputError where the strategy gives up, or restarts too often, before the dead host stops to count.
        """
        detector, recovery = self.description.detector, self.description.recovery
        assert detector is not None
        assert recovery is not None
        assert detector.heartbeat_s is not None
        assert detector.timeout_s is not None
        assert recovery.strategy is not None
        watched = Heartbeats(
            interval_s=detector.heartbeat_s, timeout_s=detector.timeout_s, failed_calls=detector.failed_calls or None
        )
        death = TaskManagerDeath(
            heartbeats=watched,
            strategy=recovery.strategy,
            silent=self.description.failures.silent,
            # Without it the removal of the host is what is noticed, and that comes before the time-out.
            noticed_s=detector.timeout_s if detector.connection_s is None else detector.connection_s,
            overhead_s=recovery.attempt_s or 0.0,
        )
        try:
            _, running = death.laws()
        except InputError as error:
            raise InputError.at("recovery.strategy", recovery.strategy.kind, error.faults[0].rule) from None
        if running.latest_s == math.inf:
            rule = "gives up before the dead host stops to count: one failure ends the job"
            raise InputError.at("recovery.strategy", recovery.strategy.kind, rule)
        return running

    @property
    def deploy_s(self) -> float:
        """Return the mean time from RUNNING until tasks are deployed [s]."""
        assert self.description.recovery is not None
        return self.description.recovery.restart_s

    def state_bytes(self, hosts: int) -> float:
        """Return the state of the host with most of it, with so many hosts up [B]."""
        state = self.description.state
        if state is None:
            return 0.0
        if state.per_host_bytes is not None:
            return state.per_host_bytes
        return (state.bytes or 0.0) * self.description.fullest(hosts)

    def restore_s(self, hosts: int) -> float:
        """Return the time in which tasks on so many hosts read their state [s]."""
        state = self.description.state
        if state is None:
            return 0.0
        own_s = self.state_bytes(hosts) / (state.restore_bytes_per_s or math.inf)
        return max(own_s, (state.bytes or 0.0) / (state.remote_bytes_per_s or math.inf))

    def mean_s(self, hosts: int) -> float:
        """Return the mean of D, with so many hosts up after the failure [s]."""
        return self.running.mean_s + self.deploy_s + self.restore_s(hosts)

    def latest_s(self, hosts: int) -> float:
        """Return D for the latest phase of the heartbeats [s]."""
        return self.running.latest_s + self.deploy_s + self.restore_s(hosts)
