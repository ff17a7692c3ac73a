"""For a process of its own: a short simulation, where its compiled code is kept, how often it was found there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

JOB: dict[str, Any] = {
    "duration": "3 s",
    "workload": {"src": {"rate": "50 /s", "keys": {"distribution": "zipf", "count": 20, "exponent": 1.0}}},
    "operators": {
        "src": {"kind": "source"},
        "q": {
            "kind": "aggregate",
            "inputs": {"src": "key"},
            "parallelism": 2,
            "service": {"distribution": "exponential", "mean": "10 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        },
        "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
    },
    "hosts": {"h": {"count": 3}},
    "fault_tolerance": {"method": "checkpoint", "interval": "500 ms"},
    "detector": {"heartbeat": "100 ms", "timeout": "300 ms"},
    "events": {"crash": {"at": "1300 ms", "kind": "host-failure", "host": "h-1"}},
}


_PLACES = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR", "PYTHONPATH")


def answer(job: dict[str, Any], cached: bool = True) -> dict[str, Any]:
    """A digest of all rows of the job, with what is known of compiled code; without `cached` it is kept nowhere."""
    from sim.kernel.tools import directory  # noqa: PLC0415 - what is imported, and how, is the question

    if not cached:
        directory._bases = lambda: iter(())

    from models.scenario.scenario import Scenario  # noqa: PLC0415
    from sim.engine import simulate  # noqa: PLC0415
    from sim.kernel.tools.cache import Kernel  # noqa: PLC0415

    shares: list[float] = []
    begun: list[int] = []
    records = simulate(
        Scenario.model_validate(job, context={"units": True}, by_alias=True, by_name=False),
        on_progress=lambda _: begun.append(len(shares)),
        on_compile=shares.append,
    )
    found = hashlib.sha256()
    for table, columns in sorted(records.tables.items()):
        for column, values in sorted(columns.items()):
            found.update(f"{table}.{column}:{values.tolist()}".encode())
    modules = [module for name, module in sys.modules.items() if name.startswith("sim.kernel.")]
    functions = {one for module in modules for one in vars(module).values() if isinstance(one, Kernel)}
    return {
        "package": str(directory.kernels()),
        "directory": None if directory.directory() is None else str(directory.directory()),
        **found_and_missed(*functions),
        "process": os.getpid(),
        "visits": int(records.tables["visits"]["task"].size),
        "digest": found.hexdigest(),
        "compiled": shares[: begun[0]],  # what was told of it until the run had begun
    }


def found_and_missed(*kernels: Any) -> dict[str, int]:
    """How often code of these functions was found where it is kept, with Numba or without, and how often it was not."""
    stats = [one.dispatcher.stats for one in kernels if "dispatcher" in vars(one)]
    hits = sum(one.loaded for one in kernels) + sum(sum(one.cache_hits.values()) for one in stats)
    return {"hits": hits, "misses": sum(sum(one.cache_misses.values()) for one in stats)}


def small_answer() -> dict[str, Any]:
    """The same of one small function: compiling it takes a second, and not half a minute."""
    import numpy as np  # noqa: PLC0415 - after the packages that are asked about could be shadowed

    from models.scenario.job import Operator  # noqa: PLC0415
    from sim.kernel.tools import directory, draws  # noqa: PLC0415

    law = {"distribution": "gamma", "mean": 1.0, "shape": 2.5}
    record = draws.pack_draws(Operator(kind="map", service=law), 1, 0, "x")[0]
    drawn_ns = int(draws.service_ns(record[()], np.uint64(12345)))
    return {
        "package": str(directory.kernels()),
        "directory": str(directory.directory()),
        **found_and_missed(draws.service_ns),
        "digest": hashlib.sha256(str(drawn_ns).encode()).hexdigest(),
    }


def in_a_new_process(packages: Path, *options: str, **environment: str) -> dict[str, Any]:
    """The answer of a process that finds the packages in this directory, with these places to write to."""
    rest = {name: value for name, value in os.environ.items() if name not in _PLACES}
    done = subprocess.run(
        [sys.executable, __file__, *options],
        env=rest | {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["package"] == str(packages / "sim" / "kernel")
    return found


def in_this_checkout() -> dict[str, Any]:
    """The answer of a new process that has compiled code where the other tests have it."""
    given = {name: os.environ[name] for name in ("NUMBA_CACHE_DIR",) if name in os.environ}
    return in_a_new_process(Path(__file__).parents[1], **given)


def written(directory: Path) -> dict[str, int]:
    """The files below a directory, and when they were written."""
    return {str(path): path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


if __name__ == "__main__":
    if "--small" in sys.argv:
        print(json.dumps(small_answer()))
    else:
        print(json.dumps(answer(JOB, cached="--uncached" not in sys.argv)))
