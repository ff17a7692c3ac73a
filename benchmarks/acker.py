"""Cost of a step with an acker, beside the same step at least once by checkpoints.

A step is one tuple at one operator. Run it alone on the machine:

    .venv/bin/python benchmarks/acker.py [--seconds 60] [--repeats 5]

The job is that of `data_plane.py long`: 8,000 tuples/s through two operators of 20 tasks each, on 25 hosts, in the
event loop. A host fails after the end, so that all kinds keep ids. They take turns in one process; the ratio is the
median of the turns' ratios. Measured is the CPU time of a run from its first instant to its last, without the ledger,
which looks at each id once more and is the same for all.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

from data_plane import at_most, line, ratio, scenario
from rivals import Job

KINDS: dict[str, dict[str, Any]] = {
    "checkpoints": {"method": "checkpoint", "guarantee": "at-least-once", "interval": "5 s", "staggered": True},
    "nothing": {"method": "none"},
    "acker": {"method": "acker", "guarantee": "at-least-once"},
    "acker, acks over the links": {
        "method": "acker",
        "guarantee": "at-least-once",
        "acker": {"transport": "links"},
    },
    "acker, at most 1,000 pending": {"method": "acker", "guarantee": "at-least-once", "acker": {"pending": 1000}},
}


def ns_per_step(tolerance: dict[str, Any], seconds: float, replication: int) -> float:
    """Time of a step of the job with this fault tolerance [ns]."""
    from models.scenario.scenario import Scenario  # noqa: PLC0415
    from sim.engine import build  # noqa: PLC0415

    raw = scenario(Job(), seconds, detail="histograms").model_dump(mode="json", by_alias=True, exclude_unset=True)
    raw["fault_tolerance"] = tolerance
    # Beyond the duration: the rule that events lie within it is about files.
    raw["events"] = {"late": {"at": f"{2 * seconds!r} s", "kind": "host-failure", "host": "worker-0"}}
    control = build(
        Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False), None, replication
    )
    gc.collect()
    began = time.process_time()
    control.run(int(seconds * 1e9))
    took = time.process_time() - began
    inner = [control.plan.operators.index(one) for one in control.plan.operators if one.name in ("one", "two")]
    state = control.plane.state  # type: ignore[attr-defined]  # of the event loop
    own = [operator in inner for operator in state.partitions["operator"].tolist()]
    return float(took * 1e9 / max(1, int(state.partitions["applied"][own].sum())))


def main() -> None:
    """Measure all kinds, and print what a step of each costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="simulated")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    for tolerance in KINDS.values():
        ns_per_step(tolerance, 0.2, 0)  # imports, compilation
    cost: dict[str, list[float]] = {name: [] for name in KINDS}
    for turn in range(given.repeats):
        for name, tolerance in KINDS.items():
            cost[name].append(ns_per_step(tolerance, given.seconds, turn))
    for name, values in cost.items():
        line(name, f"{statistics.median(values):,.0f} ns/step")
    for name in list(KINDS)[2:]:
        at_most(f"{name} / checkpoints", ratio(cost[name], cost["checkpoints"]), 1.3)
        line(f"{name} / nothing", f"{ratio(cost[name], cost['nothing']):,.3g} x")


if __name__ == "__main__":
    main()
