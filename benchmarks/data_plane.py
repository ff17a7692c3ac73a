"""Measure a step of the engine beside its rivals, the speed of large runs, and the cost of a first run.

A step is one tuple at one operator. Each line has its aim beside it. Run it alone on the machine:

    .venv/bin/python benchmarks/data_plane.py [SECTION ...] [--scale 1] [--repeats 5]

Rivals and engine take turns in one process; figures are medians over the turns, a ratio is the median of the turns'
ratios. What is compared is the time of a run from description to rows, without the first run of the process. Memory,
imports and compilation are measured in processes of their own.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from rivals import Job, Outcome, heap_loop, plain, simpy_by_hand

RIVAL_TUPLES, ENGINE_TUPLES = 80_000, 480_000  # of one turn, at scale 1
KEYS = 6000
MIB = 2**20


# -- scenarios


EXPONENTIAL: dict[str, Any] = {"distribution": "exponential"}
WINDOWS: dict[str, dict[str, Any] | None] = {
    "no window": None,
    "windows of 10 s": {"length": "10 s"},
    "windows of 1 s": {"length": "1 s"},
    "windows of 10 s, every 2 s": {"length": "10 s", "slide": "2 s"},
    "windows of 1 s, every 0.1 s": {"length": "1 s", "slide": "100 ms"},
}
LAWS: dict[str, dict[str, Any]] = {
    "exponential": EXPONENTIAL,
    "gamma": {"distribution": "gamma", "shape": 2.0},
    "lognormal": {"distribution": "lognormal", "cv": 0.5},
}


def scenario(
    job: Job,
    duration_s: float,
    checkpoints: bool = False,
    detail: str = "auto",
    law: dict[str, Any] = EXPONENTIAL,
    window: dict[str, Any] | None = None,
) -> Any:
    """The job on 25 hosts: one task of both operators on each of 20, sources and sinks on the other five.

    `window`: of the second operator.
    """
    from models.scenario.reading import scenario_from  # noqa: PLC0415 - imports are measured, too

    operator = {
        "kind": "aggregate",
        "parallelism": job.tasks,
        "key_groups": job.groups,
        "service": law | {"mean": f"{job.service_s!r} s"},
        "state": {"model": "per-key", "bytes": "1 kB"},
    }
    keys = {"distribution": "uniform", "count": KEYS}
    return scenario_from(
        {
            "duration": f"{duration_s!r} s",
            "workload": {"in": {"rate": f"{job.rate_per_s!r} /s", "keys": keys}},
            "operators": {
                "in": {"kind": "source", "parallelism": 5},
                "one": operator | {"inputs": {"in": "key"}, "output": {"keys": keys}},
                "two": operator | {"inputs": {"one": "key"}} | ({"window": window} if window else {}),
                "out": {"kind": "sink", "parallelism": 5, "inputs": {"two": "shuffle"}},
            },
            "hosts": {
                "worker": {"count": job.tasks, "cpu": "shared" if job.shared else "dedicated"},
                "edge": {"count": 5},
            },
            "placement": {"operators": {"in": "edge", "one": "worker", "two": "worker", "out": "edge"}},
            "network": {"latency": f"{job.latency_s!r} s"},
            "fault_tolerance": {"method": "checkpoint", "interval": "5 s", "staggered": True}
            if checkpoints
            else {"method": "none"},
            "recording": {"detail": detail},
        }
    )


def failing(job: Job, duration_s: float, every_s: float = 600.0) -> Any:
    """The same with checkpoints; a worker dies in the middle of every ten minutes, and is back after 30 s."""
    from models.scenario.events import HostFailure  # noqa: PLC0415

    times = [every_s * (k + 0.5) for k in range(max(1, round(duration_s / every_s)))]
    events = {
        f"failure{k}": HostFailure(kind="host-failure", at=at_s, host=f"worker-{k % job.tasks}", repair=30.0)
        for k, at_s in enumerate(times)
    }
    return scenario(job, duration_s, checkpoints=True).model_copy(update={"events": events})


def stream(rate_per_s: float, duration_s: float, selectivity: float) -> Any:
    """One stateful operator of 64 tasks at utilisation 0.7, each with a core of its own, behind 16 source tasks."""
    from models.scenario.reading import scenario_from  # noqa: PLC0415

    tasks = 64
    return scenario_from(
        {
            "duration": f"{duration_s!r} s",
            "workload": {"in": {"rate": f"{rate_per_s!r} /s", "keys": {"distribution": "uniform", "count": 1_000_000}}},
            "operators": {
                "in": {"kind": "source", "parallelism": 16},
                "count": {
                    "kind": "aggregate",
                    "inputs": {"in": "key"},
                    "parallelism": tasks,
                    "key_groups": 4 * tasks,
                    "service": {"distribution": "exponential", "mean": f"{0.7 * tasks / rate_per_s!r} s"},
                    "state": {"model": "fixed", "bytes": "1 MB"},
                    "selectivity": selectivity,
                },
                "out": {"kind": "sink", "parallelism": 16, "inputs": {"count": "shuffle"}},
            },
            "hosts": {"worker": {"count": tasks}, "edge": {"count": 16}},
            "placement": {"operators": {"in": "edge", "count": "worker", "out": "edge"}},
            "network": {"latency": "0.5 ms"},
        }
    )


def timed_job(groups: int, chained: bool, duration_s: float) -> Any:
    """Few tuples and a watermark each 10 ms, from 4 source tasks to a window of 16 tasks with so many key groups.

    `chained`: by way of an operator with as many tasks and key groups.
    """
    from models.scenario.reading import scenario_from  # noqa: PLC0415

    keys = {"distribution": "uniform", "count": 4096}
    keyed = {
        "kind": "aggregate",
        "parallelism": 16,
        "key_groups": groups,
        "service": {"distribution": "deterministic", "value": "10 us"},
    }
    first = {"one": keyed | {"inputs": {"in": "key"}, "output": {"keys": keys}}} if chained else {}
    return scenario_from(
        {
            "duration": f"{duration_s!r} s",
            "workload": {"in": {"rate": "20 /s", "keys": keys, "watermark": "10 ms"}},
            "operators": {
                "in": {"kind": "source", "parallelism": 4},
                **first,
                "count": keyed | {"inputs": {"one" if chained else "in": "key"}, "window": {"length": "1 s"}},
                "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
            },
            "hosts": {"h": {"count": 16}},
            "network": {"latency": "0.5 ms"},
            "recording": {"detail": "histograms"},
        }
    )


# -- measuring


def engine(job: Job, duration_s: float, seed: int, detail: str = "tuples", event_loop: bool = False) -> Outcome:
    """The engine as a rival of its rivals; the seed is the number of the replication.

    `detail`: a row for each tuple at each operator and sink, or histograms. `event_loop`: even where the scan can.
    """
    from sim.engine import simulate  # noqa: PLC0415

    plane = import_module("sim.kernel.event_loop.plane").CompiledPlane if event_loop else None
    records = simulate(scenario(job, duration_s, detail=detail), replication=seed, plane=plane)
    return Outcome(applied(records, "one", "two"), mean_latency_s(records))


def mean_latency_s(records: Any) -> float:
    """Mean time from source to sink [s] of the tuples that were delivered."""
    if records.detail == "tuples":
        delivered = records.tables["deliveries"]
        latencies = delivered["delivered_ns"] - delivered["created_ns"]
        return float(latencies.mean()) / 1e9 if latencies.size else math.nan
    times = records.tables["times"]
    rows = [row for row, what in enumerate(times["what"]) if what == "latency"]
    total = sum(int(times["sum_high"][row]) * 2**32 + int(times["sum_low"][row]) for row in rows)
    count = sum(int(times["count"][row]) for row in rows)
    return total / count / 1e9 if count else math.nan


def applied(records: Any, *operators: str) -> int:
    """Tuples whose service at one of the operators ended, by the ledger of a run in which no host dies."""
    ledger = records.tables["ledger"]
    own = [records.operators.index(name) for name in operators]
    return sum(
        int(expected)
        for operator, expected in zip(ledger["operator"], ledger["expected"], strict=True)
        if operator in own
    )


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result, with nothing of an earlier run left to collect."""
    gc.collect()
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def turns(what: dict[str, Callable[[int], Outcome]], repeats: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """ns per step of each in each turn, and the mean time from source to sink [s] that each found."""
    cost: dict[str, list[float]] = {name: [] for name in what}
    latency: dict[str, list[float]] = {name: [] for name in what}
    for turn in range(repeats):
        for name, run in what.items():
            took, outcome = timed(partial(run, turn))
            cost[name].append(took / max(1, outcome.steps) * 1e9)
            latency[name].append(outcome.latency_s)
    return cost, {name: statistics.fmean(values) for name, values in latency.items()}


def peak_bytes() -> int:
    """Peak of the resident memory of this process; `ru_maxrss` would count its parent's before it was replaced."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# -- lines of the table


def line(what: str, value: str, aim: str = "", reached: bool | None = None) -> None:
    """One line: what, how much, its aim, and whether it is reached."""
    verdict = "" if reached is None else "reached" if reached else "NOT REACHED"
    print(f"  {what:<58} {value:>14}   {aim:<10} {verdict}".rstrip(), flush=True)


def at_least(what: str, value: float, aim: float, unit: str = "x") -> None:
    """A line whose value is to be `aim` or more."""
    line(what, f"{value:,.3g} {unit}", f">= {aim:g} {unit}", value >= aim)


def at_most(what: str, value: float, aim: float, unit: str = "x") -> None:
    """A line whose value is to be `aim` or less."""
    line(what, f"{value:,.3g} {unit}", f"<= {aim:g} {unit}", value <= aim)


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median over the turns of how many times longer one takes."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


PLAIN, HAND, HEAP = "plain SimPy", "SimPy by hand", "heap loop"
ROWS, IN_HISTOGRAMS = "holdfast, a row per tuple", "holdfast, histograms"


def compared(job: Job, scale: float, repeats: int, event_loop: bool = False) -> dict[str, list[float]]:
    """ns per step of rivals and engine on a job, each printed with the mean latency that it found.

    The rivals keep a latency per tuple. The engine keeps more: a row for each service and each delivery, or
    histograms of waits, services and latencies.
    """
    few, many = (max(0.2, scale * tuples / job.rate_per_s) for tuples in (RIVAL_TUPLES, ENGINE_TUPLES))
    rows, binned = (partial(engine, job, detail=kind, event_loop=event_loop) for kind in ("tuples", "histograms"))
    for run in (rows, binned):
        run(0.2, 0)  # imports, compilation
    cost, latency = turns(
        {
            PLAIN: partial(plain, job, few),
            HAND: partial(simpy_by_hand, job, few),
            HEAP: partial(heap_loop, job, few),
            ROWS: partial(rows, many),
            IN_HISTOGRAMS: partial(binned, many),
        },
        repeats,
    )
    for name, values in cost.items():
        found = "" if math.isnan(latency[name]) else f" (mean latency {latency[name] * 1e3:.1f} ms)"
        line(f"{name}{found}", f"{statistics.median(values):,.0f} ns/step")
    return cost


def ratios(cost: dict[str, list[float]], over_plain: tuple[float, float], over_hand: float | None) -> None:
    """Return lines of what a step of each rival costs beside one of the engine, in both ways of recording.

    `over_plain` has the aims beside plain SimPy, with rows and with histograms.
    """
    for mine, aim in zip((ROWS, IN_HISTOGRAMS), over_plain, strict=True):
        at_least(f"{PLAIN} / {mine}", ratio(cost[PLAIN], cost[mine]), aim)
        by_hand = ratio(cost[HAND], cost[mine])
        if over_hand is None:
            line(f"{HAND} / {mine}", f"{by_hand:,.3g} x")
        else:
            at_least(f"{HAND} / {mine}", by_hand, over_hand)
        line(f"{HEAP} / {mine}", f"{ratio(cost[HEAP], cost[mine]):,.3g} x")


def cores(shared: bool) -> str:
    """Which kind of core, in words."""
    return "shared cores" if shared else "dedicated cores"


# -- sections


def loop(scale: float, repeats: int) -> None:
    """Two operators of 20 tasks, 8,000 tuples/s, utilisation 0.7: the event loop beside its rivals."""
    for shared in (False, True):
        print(f" {cores(shared)}")
        ratios(compared(Job(shared=shared), scale, repeats, event_loop=True), (40, 70), None)


def scan(scale: float, repeats: int) -> None:
    """Dedicated cores, 2,000 or more tuples per operator and span; spans end where samples are taken, each second."""
    for rate_per_s in (2000.0, 20_000.0):
        print(f" {rate_per_s:,.0f} tuples per operator and span of 1 s")
        ratios(compared(Job(rate_per_s=rate_per_s), scale, repeats), (100, 400), 50)


def overload(scale: float, repeats: int) -> None:
    """Utilisation 1.3 beside 0.7: a backlog that grows must not make a step dearer."""
    seconds = max(0.2, scale * ENGINE_TUPLES / Job().rate_per_s)
    for shared in (False, True):
        engine(Job(shared=shared), 0.2, 0, detail="histograms")
        cost, _ = turns(
            {
                f"{load}": partial(engine, Job(shared=shared, utilisation=load), seconds, detail="histograms")
                for load in (0.7, 1.3)
            },
            repeats,
        )
        for load, values in cost.items():
            line(f"{cores(shared)}, utilisation {load}", f"{statistics.median(values):,.0f} ns/step")
        steps = ratio(cost["1.3"], cost["0.7"])
        line(f"{cores(shared)}, 1.3 / 0.7 for a step", f"{steps:,.3g} x")
        # Both operators do what the first has room for: of 1.3 tuples that come one goes on.
        at_most(f"{cores(shared)}, 1.3 / 0.7 for a tuple of the source", steps / 1.3, 1.5)


def laws(scale: float, repeats: int) -> None:
    """A step with service times of other laws, in both kernels, by CPU time."""
    from sim.engine import simulate  # noqa: PLC0415

    seconds, loops = max(0.2, scale * ENGINE_TUPLES / Job().rate_per_s), import_module("sim.kernel.event_loop.plane")
    for kernel, plane in (("scan", None), ("event loop", loops.CompiledPlane)):
        for name, law in LAWS.items():
            simulate(scenario(Job(), 0.2, detail="histograms", law=law), plane=plane)
            made, took = scenario(Job(), seconds, detail="histograms", law=law), []
            for turn in range(repeats):
                began = time.process_time()
                records = simulate(made, replication=turn, plane=plane)
                took.append((time.process_time() - began) / applied(records, "one", "two"))
            line(f"{kernel}, {name}", f"{statistics.median(took) * 1e9:,.0f} ns/step")


def windows(scale: float, repeats: int) -> None:
    """A step where the second operator counts 6,000 keys in windows, and its results, in both kernels, by CPU time."""
    from sim.engine import simulate  # noqa: PLC0415

    seconds = max(1.0, scale * ENGINE_TUPLES / Job().rate_per_s)
    planes = {"scan": None, "event loop": import_module("sim.kernel.event_loop.plane").CompiledPlane}
    for name, window in WINDOWS.items():
        cost: dict[str, list[float]] = {kernel: [] for kernel in planes}
        made = scenario(Job(), seconds, detail="histograms", window=window)
        for turn in range(repeats + 1):
            for kernel, plane in planes.items():
                began = time.process_time()
                records = simulate(made, replication=turn, plane=plane)
                took = time.process_time() - began
                if turn > 0:  # the first may compile
                    cost[kernel].append(took / applied(records, "one", "two") * 1e9)
        for kernel, values in cost.items():
            line(f"{name}, {kernel}", f"{statistics.median(values):,.0f} ns/step")
        line(f"{name}, event loop / scan", f"{ratio(cost['event loop'], cost['scan']):,.2g} x")


def million(scale: float, repeats: int) -> None:
    """4 million records/s through one stateful operator of 64 tasks, 3 s at scale 1."""
    rate_per_s, seconds = 4e6, max(0.02, 3 * scale)
    child("stream", rate_per_s, 0.005, 1.0)  # compiles: its memory is not that of the runs
    for selectivity in (0.01, 1.0):
        runs = [child("stream", rate_per_s, seconds, selectivity) for _ in range(repeats)]
        took, steps, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        label = f"one output for {1 / selectivity:.0f} inputs"
        line(label, f"{took / max(1, steps) * 1e9:,.0f} ns/step")
        line(f"{label}, peak memory", f"{peak / MIB:,.0f} MiB")
        at_least(f"{label}, real time / run time", seconds / took, 2)


def long(scale: float, repeats: int) -> None:
    """48 minutes at 8,000 tuples/s on 25 hosts, each key group checkpointed every 5 s (staggered), samples; one run."""
    seconds = max(6.0, 2880 * scale)
    for shared, aim in ((True, 60), (False, 150)):
        child("long", shared, 6.0)  # compiles
        took, steps, peak = child("long", shared, seconds)
        line(f"{cores(shared)}, {seconds:,.0f} s simulated", f"{took / max(1, steps) * 1e9:,.0f} ns/step")
        at_least(f"{cores(shared)}, real time / run time", seconds / took, aim)
        at_most(f"{cores(shared)}, peak memory", peak / MIB, 500, "MiB")


def watermarks(scale: float, repeats: int) -> None:
    """CPU time of a watermark over a channel, by key groups and kernel, and of a barrier over 256 channels."""
    from models.steady_state.estimate import watermarks as count  # noqa: PLC0415
    from sim.engine import simulate  # noqa: PLC0415

    seconds = max(0.2, 10 * scale)
    planes = {"event loop": import_module("sim.kernel.event_loop.plane").CompiledPlane, "scan": None}
    for (kernel, plane), chained in product(planes.items(), (False, True)):
        cost: dict[int, list[float]] = {}
        for groups in (16, 256, 4096):
            short, full = (timed_job(groups, chained, length) for length in (0.1, seconds))
            simulate(short, plane=plane)
            for _ in range(repeats):
                began = time.process_time()
                simulate(short, plane=plane)
                between = time.process_time()
                simulate(full, plane=plane)
                took = time.process_time() - between - (between - began)
                cost.setdefault(groups, []).append(took / (count(full) - count(short)) * 1e6)
            what = "from an operator with as many" if chained else "from sources"
            line(f"{kernel}, {groups:,} key groups, {what}", f"{statistics.median(cost[groups]):,.2f} us")
        at_most(f"{kernel}, 4,096 / 16", ratio(cost[4096], cost[16]), 1.5)
    for each, calls in ((1, "256 calls"), (16, "16 calls")):
        line(f"a barrier over 256 channels, {calls}", f"{barrier(each) * 1e3:,.2f} ms")
    at_most("a barrier over 256 channels, one call", barrier(256) * 1e3, 1, "ms")


def barrier(each: int) -> float:
    """CPU time [s], the least of some rounds, in which 16 tasks send a barrier to 16 others, so many at a call."""
    from sim.engine import build  # noqa: PLC0415
    from sim.plane_values import Mail  # noqa: PLC0415

    control = build(timed_job(16, True, 1.0), plane=import_module("sim.kernel.event_loop.plane").CompiledPlane)
    took, tasks = [], control.cluster.task_operator
    above, below = ([task for task, operator in enumerate(tasks) if operator == number] for number in (1, 2))
    control.aligned = control.message = lambda *_: None  # type: ignore[method-assign]

    def script() -> Any:
        for round_ in range(9):  # the first makes room
            yield control.clock.sleep((round_ + 1) * 10**8)
            began = time.process_time()
            mail = [
                Mail(sender, task, round_ * 1000 + task, turn=True, channels=len(above))
                for sender in above
                for task in below
            ]
            for first in range(0, len(mail), each):
                control.plane.send_each(mail[first : first + each])
            took.append(time.process_time() - began)

    control.clock.process(script())
    control.run(10**9)
    return min(took)


def failures(scale: float, repeats: int) -> None:
    """The same with a failure every 10 min, repaired after 30 s: both kernels in turns, and the event loop alone."""
    seconds = max(600.0, 2880 * scale)
    for alone, shared in ((False, False), (True, False), (True, True)):
        took, steps, peak = child("failures", seconds, alone, shared)
        label = f"{'event loop alone' if alone else 'both kernels'}, {cores(shared)}"
        line(f"{label}, {seconds:,.0f} s simulated", f"{took / max(1, steps) * 1e9:,.0f} ns/step")
        at_least(f"{label}, real time / run time", seconds / took, 200 if shared else 800)
        at_most(f"{label}, peak memory", peak / MIB, 500, "MiB")


def start(scale: float, repeats: int) -> None:
    """Measure a process: import, and the first run with an empty and with a warm cache of compiled code."""
    with tempfile.TemporaryDirectory() as empty:
        for cache in ("empty", "warm"):
            imported, one, two = child("first", NUMBA_CACHE_DIR=empty)
            line(f"import sim.engine, {cache} cache", f"{imported:.2f} s")
            line(f"first run of 1 s simulated, {cache} cache", f"{one:.2f} s")
            line("the same again in that process", f"{two:.2f} s")


SECTIONS = {
    section.__name__: section
    for section in (loop, scan, overload, laws, windows, million, long, failures, watermarks, start)
}


# -- processes of their own


def child(task: str, *arguments: object, **environment: str) -> list[float]:
    """Return the result of the task of that name, computed in a new process."""
    command = [sys.executable, __file__, "--child", json.dumps([task, *arguments])]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    return [float(value) for value in json.loads(done.stdout.splitlines()[-1])]


def large(made: Any, *operators: str) -> list[float]:
    """Seconds, steps at the operators, and peak memory [B] of a run, after a short one has compiled everything."""
    from sim.engine import simulate  # noqa: PLC0415

    rate_per_s = made.workload["in"].rate.constant_per_s
    simulate(made.model_copy(update={"duration_s": min(made.duration_s, 20_000 / rate_per_s)}))
    took, records = timed(lambda: simulate(made))
    return [took, applied(records, *operators), peak_bytes()]


def with_failures(seconds: float, alone: bool, shared: bool) -> list[float]:
    """The same of a run in which hosts fail, in CPU time; `alone`: in the event loop; `shared`: cores."""
    from sim.engine import simulate  # noqa: PLC0415
    from sim.kernel.event_loop.plane import CompiledPlane  # noqa: PLC0415
    from sim.kernel.hand_over.barriers import in_turns  # noqa: PLC0415

    plane = CompiledPlane if alone else in_turns()
    job = Job(shared=shared)
    simulate(failing(job, 130.0, 130.0), plane=plane)  # compiles
    made, began = failing(job, seconds), time.process_time()
    records = simulate(made, plane=plane)
    return [time.process_time() - began, applied(records, "one", "two"), peak_bytes()]


def first() -> list[float]:
    """Seconds of the import of the engine, of the first run after it, and of the same again."""
    run = partial(engine, Job(), 1.0, 0)
    return [timed(task)[0] for task in (lambda: import_module("sim.engine"), run, run)]


CHILDREN: dict[str, Callable[..., list[float]]] = {
    "stream": lambda rate_per_s, seconds, selectivity: large(stream(rate_per_s, seconds, selectivity), "count"),
    "long": lambda shared, seconds: large(scenario(Job(shared=shared), seconds, checkpoints=True), "one", "two"),
    "failures": with_failures,
    "first": first,
}


def main() -> None:
    """Print the sections that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all without")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all simulated times")
    parser.add_argument("--repeats", type=int, default=5, help="turns of which the median counts")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        task, *arguments = json.loads(given.child)
        print(json.dumps(CHILDREN[task](*arguments)))
        return
    unknown = sorted(set(given.sections) - set(SECTIONS))
    if unknown or given.scale <= 0 or given.repeats < 1:
        parser.error(f"no section {', '.join(unknown)}" if unknown else "scale and repeats must be positive")
    if given.scale < 1:
        print(f"scale {given.scale:g}: the aims are about larger runs")
    for name in given.sections or SECTIONS:
        print(f"{name}: {(SECTIONS[name].__doc__ or '').splitlines()[0]}")
        SECTIONS[name](given.scale, given.repeats)


if __name__ == "__main__":
    main()
