"""Compile the engine before the tests begin: `python -m compile_first`, with this folder on the path.

Workers of pytest, and processes that tests start, would each compile what nobody has compiled yet, at the same time.
Each of the two kernels is compiled in a process, by runs that use it in both of its forms.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from scenarios.files.scenario import path_of, read_scenario
from scenarios.runs.run import run

SHORT, ONE, TWO_HOSTS = "duration=20 s", "replications=1", "hosts.worker.count=2"
CHECKPOINTS = 'fault_tolerance={ method = "checkpoint", interval = "1 s" }'
HISTOGRAMS = 'recording.detail="histograms"'
RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "scan": (("mm1", SHORT, ONE), ("mm1", SHORT, ONE, TWO_HOSTS, CHECKPOINTS, HISTOGRAMS)),
    "event loop": (
        ("migration", ONE),
        ("crash-recovery", ONE),
        ("elasticity", ONE),
        ("backlog", SHORT, ONE),  # the only one that needs no more than tuples and checkpoints
    ),
}


def compile_by(kernel: str) -> set[str]:
    """Make the runs of a kernel; return the kernels they had."""
    gc.set_threshold(100_000)  # the compiler makes millions of objects, and few of them are garbage in cycles
    found: list[Any] = []
    for name, *changes in RUNS[kernel]:
        result = run(read_scenario(path_of(name), changes).scenario, engine="compiled")
        found.append(result.records[0].kernel.name)
    return set(found)


if __name__ == "__main__":
    with ProcessPoolExecutor(len(RUNS), mp_context=get_context("spawn")) as pool:
        for kernel, used in zip(RUNS, pool.map(compile_by, RUNS), strict=True):
            assert used == {kernel}, (kernel, used)
