"""Measure what bins cost while none moves, in "Megaphone" (Hoffmann et al., 2019): latency by their number.

A worker of timely dataflow goes round: it looks at all bins, then serves what has come. What it has done, others hear
in their next round. So a record waits for a scan where it is counted, and its answer for one where the output is
watched: from one round to two. Each worker has a core of its own, which counts, and watches the output.

The latency is that of the frontier (`analysis.runs.reconfigurations`): from the birth of a record until all that was
born in its millisecond, or before, is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.runs.reconfigurations import epochs_answered_ns, latencies_of_born
from analysis.statistics import quantiles
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.engine import simulate

WORKERS = 16
_RATE, _SERVICE_S, _PHI_S = 4e6, 0.5e-6, 0.5e-3
_GROUPS = 4096  # of the run at the most: where there are more bins each stands for several
RESOLUTION = 64  # so that nearly each worker has some record in an epoch
_ROUNDS, _WARM = 14, 4  # rounds of a run, and of those at its begin that do not count
_SCAN_S = ((2**12, 0.03e-6), (2**16, 0.18e-6), (2**62, 0.5e-6))  # of a bin: up to so many bins


@dataclass(frozen=True)
class BinOverhead:
    """A run in which no bin moves; without `scanned` a bin costs nothing, as in a system without them."""

    bins: int
    scanned: bool = True

    @property
    def label(self) -> str:
        """Return the beginning of the file's name."""
        return f"overhead-{self.bins}" + "-native" * (not self.scanned)

    @property
    def cost_s(self) -> float:
        """Return about how much CPU time it takes."""
        rounds = WORKERS * self.seconds / self.round_s if self.scanned else 0.0
        return 0.3 + 4e-6 * _RATE / RESOLUTION * self.seconds + 60e-6 * rounds

    @property
    def scan_s(self) -> float:
        """Return the time for which a worker looks at a bin, which grows as bins do no longer fit into caches."""
        return next(each_s for most, each_s in _SCAN_S if self.bins <= most)

    @property
    def round_s(self) -> float:
        """Return the length of a round: closed form 7."""
        return self.scan_s * self.bins / (1 - _RATE / WORKERS * _SERVICE_S)

    @property
    def seconds(self) -> float:
        """Return the length of the run."""
        return max(0.4, _ROUNDS * self.round_s)

    def formed_s(self, share: float) -> float:
        """Return a quantile of the latency beyond that of an idle job: even between one round and two.

        An epoch is short beside a round.
        """
        return (1 + share) * self.round_s

    def scenario(self) -> Scenario:
        """Return the scenario."""
        groups = min(self.bins, _GROUPS)
        scan = {"scan": f"{self.scan_s * self.bins / groups!r} s"} if self.scanned else {}
        return scenario_from(
            {
                "seed": 1,
                "duration": f"{self.seconds!r} s",
                "resolution": RESOLUTION,
                "workload": {
                    "records": {
                        "rate": f"{_RATE!r} /s",
                        "arrivals": "deterministic",
                        "keys": {"distribution": "uniform", "count": 1_000_000},
                    }
                },
                "operators": {
                    "records": {"kind": "source"},
                    "bins": {
                        "kind": "aggregate",
                        "inputs": {"records": "key"},
                        "parallelism": WORKERS,
                        "key_groups": groups,
                        "service": {"distribution": "deterministic", "value": f"{_SERVICE_S!r} s"},
                        **scan,
                    },
                    "watch": {
                        "kind": "sink",
                        "inputs": {"bins": "shuffle"},
                        "parallelism": WORKERS,
                        "service": {"distribution": "deterministic", "value": "1 ns"},
                    },
                },
                "hosts": {"load": {}, "worker": {"count": WORKERS, "cores": 1, "cpu": "shared"}},
                "network": {"latency": f"{_PHI_S!r} s", "sharing": "fifo"},
                "placement": {
                    "operators": {"records": "load"},
                    "tasks": {f"{one}-{k}": f"worker-{k}" for k in range(WORKERS) for one in ("bins", "watch")},
                },
                "fault_tolerance": {"method": "none"},
                "recording": {"detail": "tuples"},
                "limits": {"memory": "8 GB"},
            }
        )

    def run(self) -> dict[str, Any]:
        """Return quantiles of the latency of the frontier, in seconds."""
        found = simulate(self.scenario())
        begin_ns, end_ns = map(to_ns, self._counts())
        latencies = latencies_of_born(found, begin_ns, end_ns, epochs_answered_ns(found))
        p90, p99 = quantiles(latencies, [0.9, 0.99])
        return {"p90_s": p90 / 1e9, "p99_s": p99 / 1e9}

    def _counts(self) -> tuple[float, float]:
        """Return from when to when records count [s]: those that are answered by the end."""
        rest = 2.5 * self.round_s + 0.01 if self.scanned else 0.01
        return min(0.1, self.seconds / 4) if not self.scanned else _WARM * min(self.round_s, 0.025), self.seconds - rest
