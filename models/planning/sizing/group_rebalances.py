"""From a failure until work goes on, where the group of a Kafka Streams application decides it.

    D(n) = session + rebalance + restore(n),   n instances up

The session of a dead instance ends a time-out after its last heartbeat: `timeout` - `heartbeat` .. `timeout` after its
death, all instants alike. The members hear of the rebalance with their next heartbeat, and join in `restart`. Only what
the instance had is restored, by the others together, or at the rate of all brokers; nothing where there are standbys:

    restore(n) = max(lost / (n bandwidth of an instance), lost / bandwidth of the brokers),   lost = size / (n + 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from models import display
from models.engines.behaviours import Behaviour, Status
from models.planning.sizing.description import Sizing
from models.planning.sizing.restarts import UntilWork

BEHAVIOURS = (
    Behaviour("Detection", Status.MODELLED, "The session time-out alone, over all phases of the heartbeats."),
    Behaviour(
        "Rebalance",
        Status.SIMPLIFIED,
        "The slowest member hears of it up to a heartbeat interval later, half of that on average, and joins in "
        "`recovery.restart`.",
    ),
    Behaviour(
        "Lost tasks",
        Status.SIMPLIFIED,
        "Each instance has the same share of work and state. Only that of the lost one stands and is repeated, spread "
        "evenly over the others. Results are late as long as any task stands.",
    ),
    Behaviour("Restore", Status.SIMPLIFIED, "All of the changelog at the stated bandwidths; nothing with a standby."),
    Behaviour("Commits", Status.SIMPLIFIED, "Always complete after the stated time."),
    Behaviour(
        "Returns",
        Status.ABSENT,
        "An instance that is repaired has its share again at once: no warm-ups, and no static members.",
    ),
)


@dataclass(frozen=True)
class GroupRebalances:
    """The parts of D by the rules of Kafka Streams, for a description that names it."""

    description: Sizing
    host_word = "instance"
    save_word = "commit"
    behaviours = BEHAVIOURS

    def rolled_back(self, hosts: int) -> float:
        """Return the share of the work that stands: that of one instance, with so many of the others up."""
        return 1 / (hosts + 1)

    def check(self) -> None:
        """Do nothing: the description says all that is needed."""

    @property
    def _times_s(self) -> tuple[float, float, float]:
        """Return heartbeat interval, session time-out, and the time to join [s]."""
        detector, recovery = self.description.detector, self.description.recovery
        assert detector is not None
        assert detector.heartbeat_s is not None
        assert detector.timeout_s is not None
        return detector.heartbeat_s, detector.timeout_s, 0.0 if recovery is None else recovery.restart_s

    def state_bytes(self, hosts: int) -> float:
        """Return the state of an instance that leaves so many others [B]."""
        state = self.description.state
        if state is None:
            return 0.0
        return state.per_host_bytes if state.per_host_bytes is not None else (state.bytes or 0.0) / (hosts + 1)

    def restore_s(self, hosts: int) -> float:
        """Return the time in which so many instances read what one had [s]."""
        state, lost = self.description.state, self.state_bytes(hosts)
        if state is None or state.standbys:
            return 0.0
        own_s = lost / (hosts * (state.restore_bytes_per_s or math.inf)) if hosts else math.inf
        return max(own_s, lost / (state.remote_bytes_per_s or math.inf))

    def mean_s(self, hosts: int) -> float:
        """Return the mean of D, with so many instances up after the failure [s]."""
        heartbeat_s, timeout_s, join_s = self._times_s
        return timeout_s - heartbeat_s / 2 + heartbeat_s / 2 + join_s + self.restore_s(hosts)

    def latest_s(self, hosts: int) -> float:
        """Return D for the latest phases of the heartbeats [s]."""
        heartbeat_s, timeout_s, join_s = self._times_s
        return timeout_s + heartbeat_s + join_s + self.restore_s(hosts)

    def parts(self, hosts: int) -> tuple[UntilWork, ...]:
        """Return the parts of D with so many instances up, and the whole."""
        heartbeat_s, timeout_s, join_s = self._times_s
        beats = f"session time-out {display.duration(timeout_s)}, heartbeat {display.duration(heartbeat_s)}"
        state, restore_s = self.description.state, self.restore_s(hosts)
        heard = "heartbeat" + (", recovery.restart" if join_s else "")
        parts = [
            UntilWork("session over", timeout_s - heartbeat_s / 2, timeout_s, beats),
            UntilWork("group stable", heartbeat_s / 2 + join_s, heartbeat_s + join_s, heard),
        ]
        if state is not None:
            by = (
                "a standby has it"
                if state.standbys
                else f"{display.size(self.state_bytes(hosts))} of the lost instance"
            )
            parts.append(UntilWork("state restored", restore_s, restore_s, by))
        return (*parts, UntilWork("work goes on", self.mean_s(hosts), self.latest_s(hosts), "all of it"))
