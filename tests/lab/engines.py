"""What an engine adds to a job of the laboratory: its method of recovery, its checkpoints, and its restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LAW = {"distribution": "deterministic", "value": "1 ms"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "fixed delay": {"kind": "fixed-delay", "delay": "1 s", "attempts": 10_000},
    "exponential delay": {
        "kind": "exponential-delay",
        "initial": "250 ms",
        "multiplier": 2.0,
        "maximum": "3 s",
        "jitter": 0.5,
    },
}


@dataclass(frozen=True)
class Rules:
    """How the job is saved and recovered; each time is a step, however long it is."""

    method: str
    guarantee: str = "exactly-once"
    unaligned: bool = False
    aligned_first: bool = False  # barriers overtake only once they are old
    tolerated: int | None = None  # checkpoints that may expire in a row
    strategy: str = ""
    slow: bool = False  # slots and processes take time
    noticed: bool = False  # broken connections tell of a failure while the host still counts
    asynchronous: bool = False  # snapshots are written beside tasks
    local: bool = False  # hosts keep copies of snapshots
    commits: bool = False  # sinks commit at checkpoints
    standbys: int = 0
    committed: bool = False  # sinks take what is committed

    def keys(self) -> dict[str, Any]:
        """Return the keys of a scenario with these rules."""
        tolerance: dict[str, Any] = {
            "method": self.method,
            "interval": "1 s",
            "store": "remote",
            "guarantee": self.guarantee,
        }
        if self.asynchronous:
            tolerance["snapshots"] = {"mode": "asynchronous", "pause": "1 ms"}
        if self.method == "region-restart":
            tolerance["barriers"] = self._barriers()
        if self.local:
            tolerance["local_recovery"] = {"disk": "1 MB/s"}
        if self.method == "micro-batch":
            tolerance["micro_batches"] = {"plan": LAW, "commit": LAW, "cold": LAW} if self.slow else {}
        if self.method == "changelog":
            visible = "committed" if self.committed else "delivered"
            tolerance["changelog"] = {"standbys": self.standbys, "visible": visible}
        found: dict[str, Any] = {"fault_tolerance": tolerance, "recovery": self._times()}
        if self.noticed:
            found["detector"] = {"connection": "1 ns"}
        return found

    def _barriers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"unaligned": self.unaligned}
        if self.aligned_first:
            found["alignment_timeout"] = "1 s"
        if self.tolerated is not None:
            found["tolerated_failures"] = self.tolerated
        return found

    def _times(self) -> dict[str, Any]:
        found: dict[str, Any] = {"allocate": LAW, "restart": LAW} if self.slow else {}
        if self.strategy:
            found |= {"strategy": STRATEGIES[self.strategy], "attempt": "10 ms"}
        return found
