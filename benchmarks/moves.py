"""CPU time of the coordinator of moves: so many key groups of one operator that all move at one instant.

    .venv/bin/python benchmarks/moves.py [COUNT ...]

The same run without moves is subtracted. Printed is CPU time beside the number of moves, and per move.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control
from sim.engine import build, records

HOSTS = 8
AT_S, DURATION_S = 2.0, 12.0


def job(groups: int) -> Scenario:
    """A job of one keyed operator with so many key groups on all hosts."""
    raw: dict[str, Any] = {
        "duration": f"{DURATION_S} s",
        "workload": {"in": {"rate": "200 /s", "keys": {"distribution": "uniform", "count": groups}}},
        "operators": {
            "in": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "parallelism": HOSTS,
                "key_groups": groups,
                "service": {"distribution": "deterministic", "value": "0.1 ms"},
                "state": {"model": "per-key", "bytes": "100 B"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"h": {"count": HOSTS}},
        "fault_tolerance": {"method": "checkpoint", "interval": "60 s"},
        "events": {"one": {"kind": "migrate", "at": "1000 s", "operator": "count", "key_group": 0, "host": "h-1"}},
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def _all_move(control: Control, groups: int, protocol: str) -> Process:
    """Ask for a move of each key group to the next host."""
    yield control.clock.sleep(to_ns(AT_S))
    cluster, first = control.cluster, control.plan.first_partition[1]
    for group in range(first, first + groups):
        here = cluster.task_host[cluster.partition_task[group]]
        control.migrations.request(group, (here + 1) % HOSTS, protocol)


def run(groups: int, moves: bool, protocol: str = "direct") -> tuple[float, int]:
    """Return (CPU seconds, moves that were completed) of one run."""
    control = build(job(groups))
    if moves:
        control.clock.process(_all_move(control, groups, protocol))
    began = time.process_time()
    control.run(to_ns(DURATION_S))
    took = time.process_time() - began
    done = records(control, to_ns(DURATION_S)).tables["migrations"]["completed_ns"]
    return took, int((done >= 0).sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("counts", nargs="*", type=int, default=[512, 2048, 10_000])
    counts = parser.parse_args().counts
    run(64, True)  # compiles what is not kept yet
    print(f"{'moves':>7} {'completed':>9} {'CPU [s]':>8} {'per move [ms]':>13}")
    for count in counts:
        base, _ = run(count, False)
        took, done = run(count, True)
        print(f"{count:>7,} {done:>9,} {took - base:>8.2f} {(took - base) / count * 1e3:>13.3f}")


if __name__ == "__main__":
    main()
