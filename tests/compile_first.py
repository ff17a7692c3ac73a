"""Compile the engine before the tests begin: `python -m compile_first`, with this folder on the path.

Workers of pytest, and processes that tests start, would each compile what nobody has compiled yet, at the same time.
Even one function more takes a worker long, which has to read again all that this one calls. So runs are made here that
use both forms of the event loop with all their verbs, and the scan; each form is compiled in a process of its own,
since they share nothing.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from models.records.tables import EVENT_LOOP, SCAN
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from scenarios.files.scenario import path_of, read_scenario
from scenarios.runs.run import run
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.plane import TwoKernels
from sim.plane_values import Mail

SHORT, ONE, TWO_HOSTS = "duration=20 s", "replications=1", "hosts.worker.count=2"
CHECKPOINTS = 'fault_tolerance={ method = "checkpoint", interval = "1 s" }'
HISTOGRAMS = 'recording.detail="histograms"'
CRASH = 'events={ crash = { kind = "host-failure", at = "8 s", host = "worker-0", repair = "2 s" } }'
SLOW, AT_MOST_ONCE = "workload.arrivals.rate=50 /s", 'fault_tolerance.guarantee="at-most-once"'
STATE = (
    'operators.server.state={ model = "per-key", bytes = "1 kB" }',
    'operators.server.serialise="1 MB/s"',
    'operators.server.deserialise="1 MB/s"',
)
EARLY = "events.move.at=40 s"
KILLED = ("duration=80 s", "events.kill.at=30 s", "workload.clicks.rate=50 /s", ONE)
RUNS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "extended": (
        EVENT_LOOP,
        (
            ("migration", ONE),
            ("crash-recovery", ONE),
            ("elasticity", ONE),
            ("best-rebalance", "duration=2 min", ONE, EARLY, 'events.move.protocol="ccr"'),
            ("elastic-line", ONE),
            ("windowed-join", SHORT, ONE, CHECKPOINTS),
            ("backpressure", "duration=50 s", ONE),
            ("windowed-join", SHORT, ONE, CHECKPOINTS, HISTOGRAMS),
            ("flink-recovery", *KILLED),
            ("flink-recovery", *KILLED, "fault_tolerance.barriers.unaligned=true"),
            ("flink-recovery", *KILLED, 'operators.clicks.reading={ file = "200 ms", order = "newest-first" }'),
            ("spark-recovery", *KILLED),
            ("spark-recovery", *KILLED, 'operators.counts.window={ length = "5 s" }'),
            ("user-rebalance", "duration=30 s", "warmup=5 s", "events.move.at=10 s", "workload.views.rate=200 /s", ONE),
        ),
    ),
    "scan": (
        SCAN,
        (
            ("mm1", SHORT, ONE),
            ("mm1", SHORT, ONE, TWO_HOSTS, CHECKPOINTS, HISTOGRAMS),
            ("windowed-join", SHORT, ONE),
        ),
    ),
    "plain": (
        EVENT_LOOP,
        (
            ("backlog", SHORT, ONE, HISTOGRAMS),  # the only one that needs no more than tuples and checkpoints
            ("mm1", SHORT, ONE, TWO_HOSTS, SLOW, CHECKPOINTS, CRASH, *STATE),
            ("mm1", SHORT, ONE, TWO_HOSTS, SLOW, CHECKPOINTS, CRASH, *STATE, AT_MOST_ONCE),
            ("mm1", SHORT, ONE, TWO_HOSTS, CHECKPOINTS, CRASH),
        ),
    ),
}


def move_alone() -> None:
    """Act by verbs that no run above needs, also those that move a key group, while the kernels take turns."""
    operator = {"kind": "aggregate", "inputs": {"src": "key"}, "parallelism": 2, "key_groups": 4}
    raw: dict[str, Any] = {
        "duration": "100 ms",
        "workload": {"src": {"rate": "1000 /s", "keys": {"distribution": "uniform", "count": 8}}},
        "operators": {
            "src": {"kind": "source"},
            "op": operator | {"service": {"distribution": "exponential", "mean": "1 ms"}},
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "fault_tolerance": {"method": "none"},
    }
    control = Control(
        RunPlan.of(scenario_from(raw), RunInputs(), 0), lambda *given: TwoKernels(*given, turns=[], patience_ns=10**6)
    )
    control.start()
    control.run(20_000_000)
    control.plane.pause(1, None)
    control.plane.unpause(1)
    control.plane.hold(1, None, None)
    control.plane.unhold(1, None)
    control.plane.resume(0)
    control.plane.trim(1, 0)
    control.plane.send(0, 1, 1, turn=True, channels=3)
    control.run(22_000_000)
    control.plane.unalign(1)
    control.plane.send_each([Mail(0, 1, 2, turn=True, channels=3)])
    control.run(25_000_000)
    control.plane.unalign(1)
    _move(control)
    windowed = raw["operators"]["op"] | {"window": {"length": "10 ms"}}  # event time, and what of it comes along
    raw["operators"] |= {"op": windowed, "top": windowed | {"inputs": {"op": "key"}}}
    raw["operators"]["out"]["inputs"] = {"top": "shuffle"}
    control = Control(RunPlan.of(scenario_from(raw), RunInputs(), 0), CompiledPlane)
    control.start()
    control.run(25_000_000)
    _move(control)


def _move(control: Control) -> None:
    """Move a key group from task 1 to task 2."""
    control.plane.place(1, [0], [2, 2, 2, 2])
    control.run(60_000_000)
    parcel = control.plane.take([1])
    control.cluster.partition_task[1] = 2
    control.plane.put(parcel.number, 2)
    control.run(100_000_000)


def lose_in_steps() -> None:
    """Have hosts die while key groups move in steps and nothing is kept: a target, then a source of what travels."""
    operator = {"kind": "aggregate", "inputs": {"src": "key"}, "parallelism": 4, "key_groups": 4}
    law = {"distribution": "deterministic", "value": "1 ms"}
    state = {"state": {"model": "fixed", "bytes": "20 kB"}, "postpone": law | {"value": "50 ms"}}
    failure = {"kind": "host-failure", "repair": "1 s"}
    raw = {
        "duration": "300 ms",
        "workload": {"src": {"rate": "1000 /s", "keys": {"distribution": "uniform", "count": 8}}},
        "operators": {
            "src": {"kind": "source"},
            "op": operator | {"service": law, "serialise": "1 MB/s"} | state,
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 6}},
        "placement": {"tasks": {"src-0": "h-0", "out-0": "h-5"} | {f"op-{k}": f"h-{k + 1}" for k in range(4)}},
        "network": {"latency": "1 ms"},
        "detector": {"connection": "0 s"},
        "fault_tolerance": {"method": "none"},
        "events": {
            "move": {"kind": "reconfigure", "at": "100 ms", "operator": "op", "strategy": "all-at-once"}
            | {"owners": [1, 1, 3, 3]},
            "target": failure | {"at": "101 ms", "host": "h-2"},
            "source": failure | {"at": "110 ms", "host": "h-3"},
        },
    }
    control = Control(RunPlan.of(scenario_from(raw), RunInputs(), 0), CompiledPlane)
    control.start()
    control.run(300_000_000)
    (one,) = control.reconfigurations.runs[0].times
    assert (one.groups, one.lost_groups) == (0, 1)


def compile_by(form: str) -> set[str]:
    """Make the runs of a form of the engine; return the kernels they had."""
    gc.set_threshold(100_000)  # the compiler makes millions of objects, and few of them are garbage in cycles
    found: list[Any] = []
    for name, *changes in RUNS[form][1]:
        result = run(read_scenario(path_of(name), changes).scenario, engine="compiled")
        found.append(result.records[0].kernel.name)
    if form == "extended":
        move_alone()
        lose_in_steps()
    return set(found)


if __name__ == "__main__":
    with ProcessPoolExecutor(len(RUNS), mp_context=get_context("spawn")) as pool:
        for form, used in zip(RUNS, pool.map(compile_by, RUNS), strict=True):
            assert used == {RUNS[form][0]}, (form, used)
