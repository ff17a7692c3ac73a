"""Random jobs in which hosts die while key groups move in steps, and the job goes back to its last checkpoint."""

from __future__ import annotations

from random import Random
from typing import Any

from test_megaphone import STRATEGIES, options, vary

NOTICED = {"heartbeat": "40 ms", "timeout": "120 ms", "failed_calls": 2, "connection": "10 ms"}


def job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job whose operator `op` is reconfigured once or more, with hosts that die, most of them in a step."""
    draw = Random(f"crashes in steps {seed}")
    tasks = draw.choice([2, 3, 4])
    groups = (4 if tasks > 2 else 2) * draw.choice([1, 2, 4])  # a power of two, as bins are
    hosts = draw.choice([2, 3, 4])
    latency = draw.choice(["0 s", "1 ms", "5 ms"])
    raw: dict[str, Any] = {
        "duration": "3 s",
        "seed": seed,
        "workload": {
            "src": {
                "rate": f"{draw.choice([60, 200])} /s",
                "arrivals": draw.choice(["poisson", "deterministic"]),
                "keys": {"distribution": "uniform", "count": 40},
                "tuple": "200 B",
            }
        },
        "operators": {
            "src": {"kind": "source", "parallelism": draw.choice([1, 2])},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": tasks,
                "key_groups": groups,
                "service": {"distribution": "exponential", "mean": draw.choice(["1 ms", "3 ms"])},
                "state": draw.choice([{"model": "fixed", "bytes": "20 kB"}, {"model": "per-key", "bytes": "5 kB"}]),
            },
            "next": {
                "kind": "aggregate",
                "inputs": {"op": "key"},
                "parallelism": tasks,
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "per-tuple", "bytes": "100 B"},
            },
            "out": {"kind": "sink", "inputs": {"next": "shuffle"}},
        },
        "hosts": {"h": {"count": hosts}},
        "network": {"latency": latency},
        "detector": NOTICED,
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "remote": draw.choice(["1 MB/s", "10 MB/s"]),
            "interval": draw.choice(["100 ms", "300 ms"]),
            "barriers": {"restarted": draw.choice(["at-once", "random"]), "timeout": draw.choice(["10 s", "200 ms"])},
        },
        "events": {},
    }
    vary(draw, raw, behind_map=0.4)
    if draw.random() < 0.3:
        raw["recovery"] = {"restart": {"distribution": "deterministic", "value": "40 ms"}}
    begin = draw.choice([500, 600, 601])
    raw["events"] = _moves(draw, seed, begin, tasks, groups) | _crashes(draw, begin, hosts, crashes)
    if draw.random() < 0.3:
        raw["recording"] = {"memory": True}
    return raw


def _moves(draw: Random, seed: int, begin: int, tasks: int, groups: int) -> dict[str, Any]:
    events = {}
    for k in range(draw.choice([1, 1, 2, 3])):
        event = {"kind": "reconfigure", "at": f"{begin + draw.choice([0, 200, 700])} ms", "operator": "op"}
        if draw.random() < 0.25:
            event["protocol"] = "pause-and-resume"
        else:
            event |= draw.choice(STRATEGIES) | {"scope": draw.choice(["operator", "bin"])}
            event["gap"] = draw.choice(["0 s", "0 s", "7 ms"])
            event |= options(Random(f"options {seed} {k}"))
        if draw.random() < 0.5:
            event["owners"] = [draw.randrange(tasks) for _ in range(groups)]
        elif draw.random() < 0.3:
            event["tasks"] = draw.randint(1, tasks)
        elif k:
            event["plan"] = "back"
        events[f"move{k}"] = event
    return events


def _crashes(draw: Random, begin: int, hosts: int, count: int) -> dict[str, Any]:
    events = {}
    for k in range(count):
        at_us = draw.randrange((begin - 20) * 1000, (begin + draw.choice([60, 200, 900])) * 1000)
        events[f"dies{k}"] = {
            "kind": "host-failure",
            "at": f"{at_us} us",
            "host": f"h-{draw.randrange(hosts)}",
            "repair": draw.choice(["30 ms", "200 ms", "1 s"]),
        }
    return events


def stopping_job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job of the same kind most of whose moves stop the whole job."""
    raw, draw = job(seed, crashes), Random(f"crashes in stops {seed}")
    for event in raw["events"].values():
        if event["kind"] == "reconfigure" and draw.random() < 0.7:
            for key in ("strategy", "size", "scope", "gap", "next", "overlap", "late"):
                event.pop(key, None)
            event |= {"protocol": "stop-and-restart", "restart": draw.choice(["0 s", "20 ms", "200 ms"])}
    raw["state_store"] = {"request": "0.2 ms", "bandwidth": "20 MB/s", "concurrency": 2}
    return raw
