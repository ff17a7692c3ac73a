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
    concurrent: int = 1  # checkpoints that may be under way
    uploads: str = "in-turn"
    restores: str = "in-turn"
    reading: str = ""  # the order of the files that sources read, or "poll" with the most tuples of one
    scheduler: str = "default"
    at_checkpoint: bool = True  # whether the adaptive scheduler waits for one
    slots: int | None = None  # of each host

    def keys(self) -> dict[str, Any]:
        """Return the keys of a scenario with these rules."""
        tolerance: dict[str, Any] = {
            "method": self.method,
            "interval": "1 s",
            "store": "remote",
            "guarantee": self.guarantee,
        }
        if self.method == "none":
            tolerance = {"method": "none"}
        if self.asynchronous:
            tolerance["snapshots"] = {"mode": "asynchronous", "pause": "1 ms"}
        if self.method == "region-restart":
            tolerance |= {"barriers": self._barriers(), "uploads": self.uploads, "restores": self.restores}
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

    def reading_keys(self) -> dict[str, Any]:
        """Return the keys of how a source reads, or none."""
        if not self.reading:
            return {}
        what, *most = self.reading.split()
        keys: dict[str, Any] = {"poll": int(most[0])} if most else {"file": "1 s", "order": what}
        return {"reading": keys | ({"cost": LAW} if self.slow else {})}

    def _barriers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"unaligned": self.unaligned}
        if self.aligned_first:
            found["alignment_timeout"] = "1 s"
        if self.tolerated is not None:
            found["tolerated_failures"] = self.tolerated
        if self.concurrent > 1:
            found["concurrent"] = self.concurrent
        return found

    def _times(self) -> dict[str, Any]:
        found: dict[str, Any] = {"allocate": LAW, "restart": LAW} if self.slow else {}
        if self.strategy:
            found |= {"strategy": STRATEGIES[self.strategy], "attempt": "10 ms"}
        if self.scheduler != "default":
            # Of the times one is compared with instants: that for which a job that is down waits for more slots.
            times = {"cooldown": "1 s", "gathering": "1 s", "delay": "1 s", "stabilisation": "9 ns", "wait": "1000 s"}
            found |= {"scheduler": self.scheduler, "adaptive": times | {"at_checkpoint": self.at_checkpoint}}
        return found
