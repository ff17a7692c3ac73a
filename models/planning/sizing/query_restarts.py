"""From a failure until work goes on, where the driver of a Spark query decides it.

    D(n) = noticed + (1 restart + load(all) + n load(lost)) / (n + 1),   n executors up

Each of the n + 1 hosts may have the driver. With it the whole query is started again, in `restart`, and the first batch
loads all states; else the tasks of the lost executor run again, and load what it had. The others wait for them: a batch
is as long as its slowest task.

    load(s) = max(s / (n bandwidth of an executor), s / bandwidth of the store),   lost = size / (n + 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from models import display
from models.engines.behaviours import Behaviour, Status
from models.planning.sizing.description import Sizing
from models.planning.sizing.restarts import UntilWork

BEHAVIOURS = (
    Behaviour(
        "Detection",
        Status.SIMPLIFIED,
        "A connection that breaks at once, or spark.network.timeout at the next of the looks of each minute. Who "
        "supervises the driver notices its end as early.",
    ),
    Behaviour(
        "Driver",
        Status.SIMPLIFIED,
        "On one of the hosts, each as likely: means are those over all hosts, and the recovery target is asked of the "
        "loss of the driver. Process, session, query and cold code take `recovery.restart`.",
    ),
    Behaviour(
        "Interrupted batch",
        Status.SIMPLIFIED,
        "All of it runs again, also where an executor is lost and only its tasks do. The backlog is worked off as "
        "fast as executors can, whatever the limit of a batch.",
    ),
    Behaviour(
        "State stores",
        Status.SIMPLIFIED,
        "Loaded by all executors at once at the stated bandwidths, in equal parts: no snapshots and deltas.",
    ),
    Behaviour(
        "Triggers", Status.SIMPLIFIED, "A batch takes its fixed time and its work, and is over after the stated time."
    ),
    Behaviour("Rescaling", Status.ABSENT, "As many executors as there are hosts: no dynamic allocation."),
)


@dataclass(frozen=True)
class QueryRestarts:
    """The parts of D by the rules of Spark Structured Streaming, for a description that names it."""

    description: Sizing
    host_word = "executor"
    save_word = "trigger"
    behaviours = BEHAVIOURS

    def rolled_back(self, hosts: int) -> float:
        """Return the share of the work that stands and is repeated: the batch as a whole."""
        return 1.0

    def check(self) -> None:
        """Do nothing: the description says all that is needed."""

    @property
    def _noticed_s(self) -> tuple[float, float]:
        """Return the time until a failure is noticed, its mean and its latest [s]."""
        detector = self.description.detector
        assert detector is not None
        assert detector.heartbeat_s is not None
        assert detector.timeout_s is not None
        if not self.description.failures.silent and detector.connection_s is not None:
            return detector.connection_s, detector.connection_s
        check_s = detector.check_s or 0.0
        return detector.timeout_s - detector.heartbeat_s / 2 + check_s / 2, detector.timeout_s + check_s

    @property
    def _restart_s(self) -> float:
        assert self.description.recovery is not None
        return self.description.recovery.restart_s

    def _load_s(self, hosts: int, *, all_of_it: bool) -> float:
        """Return the time in which so many executors load all states, or those of one that is lost [s]."""
        state = self.description.state
        if state is None:
            return 0.0
        whole = (state.per_host_bytes or 0.0) * (hosts + 1) if state.bytes is None else state.bytes
        size = whole if all_of_it else whole / (hosts + 1)
        own_s = size / (hosts * (state.restore_bytes_per_s or math.inf)) if hosts else math.inf
        return max(own_s, size / (state.remote_bytes_per_s or math.inf))

    def mean_s(self, hosts: int) -> float:
        """Return the mean of D, with so many executors up after the failure [s]."""
        return sum(one.mean_s for one in self._parts(hosts))

    def latest_s(self, hosts: int) -> float:
        """Return D where the driver is lost, at the latest phase of the heartbeats [s]."""
        return sum(one.latest_s for one in self._parts(hosts))

    def parts(self, hosts: int) -> tuple[UntilWork, ...]:
        """Return the parts of D with so many executors up, and the whole."""
        return (*self._parts(hosts), UntilWork("work goes on", self.mean_s(hosts), self.latest_s(hosts), "all of it"))

    def _parts(self, hosts: int) -> list[UntilWork]:
        detector, state = self.description.detector, self.description.state
        assert detector is not None
        silent = self.description.failures.silent or detector.connection_s is None
        by = "its silence, spark.network.timeout" if silent else "its connection breaks"
        driver = f"recovery.restart, if the driver was there: one of {display.count(hosts + 1)}"
        parts = [
            UntilWork("noticed", *self._noticed_s, by),
            UntilWork("query started", self._restart_s / (hosts + 1), self._restart_s, driver),
        ]
        if state is not None:
            whole_s, lost_s = (self._load_s(hosts, all_of_it=one) for one in (True, False))
            mean_s = (whole_s + hosts * lost_s) / (hosts + 1) if hosts else whole_s
            parts.append(UntilWork("states loaded", mean_s, whole_s, "those of the executor, or all with the driver"))
        return parts
