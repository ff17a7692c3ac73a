"""Measure a large job while a part of its key groups moves. Run it alone on the machine:

    .venv/bin/python benchmarks/moving_bins.py [--rate 4e6] [--seconds 10] [--bins 4096] [--moved 1024] [--plane both]

One stateful operator of 16 tasks gets tuples by key from 16 sources, on 16 hosts with dedicated cores and links of
10 Gbit/s. In the middle a script of verbs moves a share of the key groups of the first eight tasks to the last eight:
sources are told where they go, a barrier follows from each source to each task that loses some, the state is taken
there, sent as one message, and put. The table has the time that a second of the job takes, for the run with and
without the move, after a run that compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.scan.plane import ScanPlane
from sim.plane_values import Mail, Parcel

TASKS = 16
MIB = 2**20
PATIENCE_NS = 5_000_000


def scenario(rate_per_s: float, seconds: float, bins: int) -> Scenario:
    """The job; each group has a state of 64 KiB."""
    made: Scenario = scenario_from(
        {
            "duration": f"{seconds!r} s",
            "workload": {
                "records": {
                    "rate": f"{rate_per_s!r} /s",
                    "tuple": "100 B",
                    "keys": {"distribution": "uniform", "count": bins},
                }
            },
            "operators": {
                "records": {"kind": "source", "parallelism": TASKS},
                "count": {
                    "kind": "aggregate",
                    "inputs": {"records": "key"},
                    "parallelism": TASKS,
                    "key_groups": bins,
                    "service": {"distribution": "exponential", "mean": f"{0.6 * TASKS / rate_per_s!r} s"},
                    "selectivity": 0.0,
                    "state": {"model": "fixed", "bytes": "64 KiB"},
                },
                "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
            },
            "hosts": {"worker": {"count": TASKS, "network": "10 Gbit/s"}, "end": {}},
            "network": {"latency": "0.1 ms", "sharing": "fifo"},
            "placement": {"operators": {"records": "worker", "count": "worker", "out": "end"}},
            "fault_tolerance": {"method": "none"},
            "recording": {"detail": "histograms"},
            "limits": {"memory": "64 GiB"},
        }
    )
    return made


class Moving(Control):
    """A run in the middle of which `moved` key groups go from the first half of the tasks to the second."""

    def __init__(self, plan: RunPlan, plane: PlaneFactory, at_ns: int, moved: int) -> None:
        super().__init__(plan, plane)
        self._at_ns, self._moved = at_ns, moved
        self._leaving: dict[int, list[int]] = {}  # by token of its barriers
        self._goals: dict[int, int] = {}  # task that loses some -> task that gets them
        self._parcels: dict[int, Parcel] = {}  # by token of the message that they are
        self.done_ns = 0

    def start(self) -> None:
        """Start the run."""
        super().start()
        if self._moved:
            self.clock.process(self._script())

    def _script(self) -> Process:
        yield self.clock.sleep(self._at_ns)
        cluster, first = self.cluster, self.plan.first_partition[1]
        sources = [task for task, operator in enumerate(cluster.task_operator) if operator == 0]
        tasks = [task for task, operator in enumerate(cluster.task_operator) if operator == 1]
        owners = cluster.partition_task[first : self.plan.first_partition[2]]
        for old, new in zip(tasks[: TASKS // 2], tasks[TASKS // 2 :], strict=True):
            here = [k for k, owner in enumerate(owners) if owner == old][: self._moved // (TASKS // 2)]
            self._goals[old] = new
            self._leaving[old] = [first + k for k in here]
            for k in here:
                owners[k] = new
        self.plane.place(1, sources, owners)
        self.plane.send_each(list(self._barriers(sources)))

    def _barriers(self, sources: list[int]) -> Iterator[Mail]:
        for old in self._leaving:
            for source in sources:
                yield Mail(source, old, old, turn=True, channels=len(sources))

    def aligned(self, token: int, task: int) -> None:
        """Send what leaves the task, from which nothing is missing any more."""
        parcel = self.plane.take(self._leaving.pop(token))
        for partition in parcel.partitions:
            self.cluster.set_live(partition, False)
        self._parcels[token] = parcel
        self.plane.send(task, self._goals[token], token, size_bytes=parcel.bytes)

    def message(self, token: int, task: int) -> None:
        """Install what has come."""
        parcel = self._parcels.pop(token)
        for partition in parcel.partitions:
            self.cluster.partition_task[partition] = task
            self.cluster.set_live(partition, True)
        self.plane.put(parcel.number, task)
        self.done_ns = self.clock.now_ns()


def in_turns(*given: Any) -> TwoKernels:
    """Both kernels, of which the event loop has the run while control acts."""
    return TwoKernels(*given, turns=[], patience_ns=PATIENCE_NS)


PLANES: dict[str, PlaneFactory] = {"both": in_turns, "loop": CompiledPlane, "scan": ScanPlane}


def measured(plane: str, rate_per_s: float, seconds: float, bins: int, moved: int) -> dict[str, float]:
    """Return CPU time [s] of a run, its share of steps in the scan, memory [MiB], and how long the move took [s]."""
    made = scenario(rate_per_s, seconds, bins)
    for duration_s in (min(seconds, 2.0), seconds):  # the first compiles
        made = made.model_copy(update={"duration_s": duration_s})
        at_ns = to_ns(duration_s) // 2
        control = Moving(RunPlan.of(made, RunInputs(), 0), PLANES[plane], at_ns, moved)
        began = time.process_time()
        control.start()
        control.run(to_ns(duration_s))
        records(control, to_ns(duration_s))
        cost = time.process_time() - began
    share = control.plane.scan_share() if isinstance(control.plane, TwoKernels) else float(plane == "scan")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    return {"cost": cost, "share": share, "memory": memory, "moved_s": max(0.0, (control.done_ns - at_ns) / 1e9)}


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=4e6, help="tuples per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="simulated")
    parser.add_argument("--bins", type=int, default=4096, help="key groups")
    parser.add_argument("--moved", type=int, default=1024, help="key groups that move at once")
    parser.add_argument("--plane", choices=PLANES, action="append", help="both without")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(*json.loads(given.child))))
        return
    print(f"{'':<16} {'CPU [s]':>8} {'x real time':>12} {'in the scan':>12} {'move [s]':>9} {'MiB':>7}")
    for plane in given.plane or ["both"]:
        for moved in (0, given.moved):
            if moved and plane == "scan":
                continue
            what = json.dumps([plane, given.rate, given.seconds, given.bins, moved])
            command = [sys.executable, __file__, "--child", what]
            done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, text=True, check=True)
            one = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{plane + (', a move' if moved else ''):<16} {one['cost']:>8.2f} {given.seconds / one['cost']:>12.2f} "
                f"{100 * one['share']:>10.1f} % {one['moved_s']:>9.4f} {one['memory']:>7.0f}"
            )


if __name__ == "__main__":
    main()
