"""What a step of the plain engine costs, beside a bare SimPy model of the same queue in the same process.

A step is one tuple at one operator. Run it alone on the machine: `.venv/bin/python benchmarks/plain_engine.py`.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import time
from collections.abc import Iterator
from typing import Any

import simpy

from models.estimate import BYTES_PER_STEP, SECONDS_PER_STEP
from models.reading import scenario_from
from models.scenario import Scenario
from sim.engine import simulate

RATE_PER_S, MEAN_S, DURATION_S = 100.0, 0.008, 600.0


def queue(method: str) -> Scenario:
    """An M/M/1 queue by key between a source and a sink on hosts of their own, with or without checkpoints."""
    return scenario_from(
        {
            "duration": f"{DURATION_S} s",
            "workload": {"in": {"rate": f"{RATE_PER_S} /s", "keys": {"distribution": "uniform", "count": 1000}}},
            "operators": {
                "in": {"kind": "source"},
                "work": {
                    "kind": "aggregate",
                    "inputs": {"in": "key"},
                    "key_groups": 16,
                    "service": {"distribution": "exponential", "mean": f"{MEAN_S} s"},
                    "state": {"model": "per-key", "bytes": "100 B"},
                },
                "out": {"kind": "sink", "inputs": {"work": "shuffle"}},
            },
            "hosts": {"worker": {"count": 3}},
            "fault_tolerance": {"method": method},
        }
    )


def bare(seed: int) -> int:
    """Tuples through the same queue as a plain SimPy model: a process per source and server, a Store between."""
    rng, env, served = random.Random(seed), simpy.Environment(), 0
    store = simpy.Store(env)

    def source() -> Iterator[Any]:
        while True:
            yield env.timeout(rng.expovariate(RATE_PER_S))
            yield store.put(env.now)

    def server() -> Iterator[Any]:
        nonlocal served
        while True:
            yield store.get()
            yield env.timeout(rng.expovariate(1 / MEAN_S))
            served += 1

    env.process(source())
    env.process(server())
    env.run(until=DURATION_S)
    return served


def peak_bytes() -> int:
    """Peak resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(method: str) -> tuple[float, int, int]:
    """Seconds, steps, and growth of the peak of memory [B] of one run."""
    simulate(queue(method).model_copy(update={"duration_s": 5.0}))  # imports and caches
    before, began = peak_bytes(), time.perf_counter()
    records = simulate(queue(method))
    return time.perf_counter() - began, len(records.tables["visits"]["task"]), peak_bytes() - before


def main() -> None:
    """Print the table."""
    began = time.perf_counter()
    tuples = bare(1)
    per_bare = (time.perf_counter() - began) / tuples
    print(f"bare SimPy, one queue        {per_bare * 1e6:6.2f} us per tuple")
    for method in ("none", "checkpoint"):
        with multiprocessing.get_context("spawn").Pool(
            1
        ) as pool:  # a process of its own: its peak of memory is its own
            took, steps, memory = pool.apply(measured, (method,))
        ratio = took / steps / per_bare
        print(
            f"plain engine, {method:10}    {took / steps * 1e6:6.2f} us per step, {ratio:.2f} x bare, "
            f"{memory / steps:4.0f} B per step at the peak ({steps:,} steps of 3 operators)"
        )
    print(f"estimate.py assumes          {SECONDS_PER_STEP * 1e6:6.2f} us per step, {BYTES_PER_STEP:.0f} B per step")


if __name__ == "__main__":
    main()
