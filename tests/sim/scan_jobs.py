"""Small jobs at random that the scan may do: no failures, no shared core or link, checkpoints apart from tuples."""

from __future__ import annotations

from random import Random
from typing import Any

from small_jobs import random_job, random_joins, random_windows

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.cluster import RunPlan

LATTICE_MS = 5


def scan_job(draw: Random) -> dict[str, Any]:
    """Keys of a scenario: layers of operators, pools of threads, slow hosts, links, bursts, overload, lattices."""
    raw = random_job(draw, fault_tolerance={"method": "none"}) | {"events": {}}
    raw["hosts"]["h"].update(cpu="dedicated", speed=draw.choice([1.0, 1.0, 0.5, 0.37, 3.0]))
    if draw.random() < 0.3:
        _on_single_cores(raw)
    elif draw.random() < 0.6:
        _with_links_of_their_own(draw, raw)
    else:
        raw["hosts"]["h"].pop("network", None)
    workload = raw["workload"]["src"]
    workload["rate"] = f"{draw.choice([5, 40, 200, 500])} /s"
    if draw.random() < 0.3:
        workload["batch"] = draw.choice([20, {"distribution": "geometric", "mean": 4}])
    if draw.random() < 0.3:
        workload["rate"] = {"steps": [{"at": "0 s", "rate": "3 /s"}, {"at": "500 ms", "rate": "800 /s"}]}
    sink = raw["operators"]["out"]
    if draw.random() < 0.4:
        sink["service"] = {"distribution": "exponential", "mean": draw.choice(["1 ms", "10 ms"])}
        if "key" not in sink["inputs"].values():
            sink["threads"] = draw.choice([1, 2, 5])
    for name, operator in raw["operators"].items():
        if name not in ("src", "out"):
            operator.pop("serialise", None)
            operator.pop("deserialise", None)
    if draw.random() < 0.35:
        on_a_lattice(draw, raw)
    return raw


def checkpointed_job(draw: Random) -> dict[str, Any]:
    """The same with checkpoints and without bandwidths; often their instants meet all others."""
    raw = scan_job(draw)
    for group in raw["hosts"].values():
        group.pop("network", None)
    for name, operator in raw["operators"].items():
        if name not in ("src", "out") and not {"state", "threads"} & operator.keys() and draw.random() < 0.3:
            operator["state"] = {"model": draw.choice(["per-key", "per-tuple"]), "bytes": "33.3 B"}
        if name not in ("src", "out") and draw.random() < 0.3:
            operator["serialise"] = draw.choice(["20 kB/s", "300 kB/s", "10 MB/s"])  # 100 B on the lattice, and others
        if raw["network"]["latency"].startswith("0 ") and "threads" in operator:
            operator.pop("serialise", None)  # which of two ends at one instant comes first the scan does not know
    raw["fault_tolerance"] = {
        "method": "checkpoint",
        "interval": draw.choice(["3 ms", "5 ms", "20 ms", "100 ms", "123456789 ns", "300 ms", "1 s", "20 s"]),
        "kind": draw.choice(["full", "incremental", "incremental"]),
        "store": draw.choice(["nodes", "nodes", "remote"]),
        "staggered": draw.random() < 0.5,
        "remote": draw.choice(["100 MB/s", "200 kB/s", "20 kB/s"]),
        "guarantee": draw.choice(["exactly-once", "exactly-once", "at-least-once", "at-most-once"]),
    }
    return raw


def writing_job(draw: Random) -> dict[str, Any]:
    """Most snapshots take time, mostly without a latency: then they are stored among the services of their instant."""
    raw = checkpointed_job(draw)
    if draw.random() < 0.6:
        on_a_lattice(draw, raw)
    if draw.random() < 0.7:
        raw["network"] = {"latency": "0 s"}
    for name, operator in raw["operators"].items():
        if name not in ("src", "out") and "threads" not in operator and draw.random() < 0.8:
            operator["serialise"] = draw.choice(["20 kB/s", "20 kB/s", "300 kB/s"])
        elif raw["network"]["latency"].startswith("0 ") and "threads" in operator:
            operator.pop("serialise", None)
    raw["fault_tolerance"]["interval"] = draw.choice(["5 ms", "10 ms", "50 ms", "100 ms"])
    return raw


def timed_job(draw: Random) -> dict[str, Any]:
    """Aggregates with windows, joins and timers: watermarks, some of them at instants of all else."""
    raw = draw.choice([random_windows, random_joins])(draw, fault_tolerance={"method": "none"})
    raw["hosts"]["h"].update(cpu="dedicated", speed=draw.choice([1.0, 1.0, 0.37, 3.0]))
    raw["hosts"]["h"].pop("network", None)
    workload = raw["workload"]["src"]
    workload["rate"] = f"{draw.choice([5, 40, 200])} /s"
    if draw.random() < 0.3:
        workload["batch"] = draw.choice([20, {"distribution": "geometric", "mean": 4}])
    if draw.random() < 0.35:
        on_a_lattice(draw, raw)
        workload["watermark"] = draw.choice(["50 ms", "100 ms", "25 ms"])
    if draw.random() < 0.3:
        _with_a_second_source(draw, raw)
    _without_pools_and_links_of_watermarks(draw, raw)
    return raw


def _with_a_second_source(draw: Random, raw: dict[str, Any]) -> None:
    """One that reads into the same operators, slower or with watermarks of its own."""
    operators, workload = raw["operators"], raw["workload"]["src"]
    raw["operators"] = {"other": operators["src"] | {"parallelism": draw.randint(1, 2)}, **operators}
    raw["workload"]["other"] = workload | {"rate": "20 /s", "watermark": draw.choice(["100 ms", "1 s", "77 ms"])}
    raw["workload"]["other"].pop("batch", None)
    for operator in operators.values():
        inputs = operator.get("inputs", {})
        if "src" in inputs and operator["kind"] != "join" and inputs["src"] != "forward":
            operator["inputs"] = inputs | {"other": inputs["src"]}


def _without_pools_and_links_of_watermarks(draw: Random, raw: dict[str, Any]) -> None:
    """Operators that pass watermarks have one thread, and no link with a bandwidth."""
    links = draw.random() < 0.3
    if links:
        _with_links_of_their_own(draw, raw)
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    for operator in RunPlan.of(made, RunInputs(), 0).operators:
        if operator.timed:
            raw["operators"][operator.name].pop("threads", None)
        if links and (operator.timed or operator.timer_ns):
            raw["hosts"][f"g{operator.name}"].pop("network", None)


def _on_single_cores(raw: dict[str, Any]) -> None:
    """Hosts whose cores are shared, as many as their tasks can use."""
    raw["hosts"]["h"].update(cpu="shared", cores=60)
    raw["hosts"]["h"].pop("network", None)


def _with_links_of_their_own(draw: Random, raw: dict[str, Any]) -> None:
    """Each operator on hosts of its own, some behind a slow link."""
    speed = raw["hosts"]["h"]["speed"]
    raw["hosts"] = {}
    raw["placement"] = {"operators": {}}
    for name in raw["operators"]:
        group = {"count": draw.randint(1, 3), "speed": speed}
        if draw.random() < 0.7:
            group["network"] = draw.choice(["1 MB/s", "60 kB/s", "8 kB/s"])
        raw["hosts"][f"g{name}"] = group
        raw["placement"]["operators"][name] = f"g{name}"


def on_a_lattice(draw: Random, raw: dict[str, Any]) -> None:
    """Arrivals, services, latency and transmissions of whole multiples of a few milliseconds: all of them meet."""
    raw["network"] = {"latency": f"{draw.choice([0, 1, 2, 200]) * LATTICE_MS} ms"}
    raw["workload"]["src"].update(
        arrivals="deterministic", rate=f"{draw.choice([1, 2, 5]) * 1000 // LATTICE_MS // 5} /s", tuple="100 B"
    )
    for name, operator in raw["operators"].items():
        if name != "src" and (name != "out" or "service" in operator):
            operator["service"] = {
                "distribution": "deterministic",
                "value": f"{draw.choice([1, 1, 2, 4]) * LATTICE_MS} ms",
            }
        operator.pop("output", None)
    for group in raw["hosts"].values():
        group["speed"] = 1.0
        if "network" in group:
            group["network"] = f"{100 * 1000 // LATTICE_MS} B/s"
