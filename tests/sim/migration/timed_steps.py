"""Random jobs with windows, joins and timers whose key groups move in steps."""

from __future__ import annotations

from random import Random
from typing import Any

from crashing_steps import job as crashing_job
from test_megaphone import job

WINDOWS: list[dict[str, Any]] = [{"length": "100 ms"}, {"length": "250 ms"}, {"length": "200 ms", "slide": "50 ms"}]
WHERE = ("at", "join", "below", "above", "timer")
"""Where event time matters: a window or a join at the reconfigured operator, windows below it or above, timers."""


def timed_job(seed: int, where: str | None = None) -> dict[str, Any]:
    """A random job that is over with all its windows long before its end, but for timers."""
    draw, raw = Random(f"timed steps {seed}"), job(seed)
    operators = raw["operators"]
    op = operators["op"]
    where = where or draw.choice(WHERE)
    raw["duration"] = "4 s"
    (workload,) = raw["workload"].values()
    workload["rate"] = {"steps": [{"at": "0 s", "rate": "300 /s"}, {"at": "0.6 s", "rate": "0 /s"}]}
    workload["keys"] = {"distribution": "uniform", "count": draw.choice([5, 20])}
    workload["watermark"] = draw.choice(["5 ms", "20 ms", "50 ms"])
    op["selectivity"] = draw.choice([1.0, 0.5, 1.5])
    if draw.random() < 0.3:
        op["state"] = {"model": "window", "bytes": "100 B", "length": draw.choice(["50 ms", "200 ms"])}
    service = {"distribution": "deterministic", "value": draw.choice(["0.1 ms", "1 ms"])}
    windowed = {
        "kind": "aggregate",
        "parallelism": 2,
        "key_groups": draw.choice([2, 8]),
        "service": service,
        "window": draw.choice(WINDOWS),
    }
    if where in ("at", "above") or (where == "timer" and draw.random() < 0.4):
        op["window"] = draw.choice(WINDOWS)
    if where == "timer":
        ticking = {"kind": "map", "inputs": {"src": "shuffle"}, "service": service}
        operators.setdefault("map", ticking)["timer"] = {"every": draw.choice(["30 ms", "70 ms"])}
        op["inputs"] = {"map": "key"}
    if where == "join":
        operators["other"] = {"kind": "source", "parallelism": draw.choice([1, 2])}
        raw["workload"]["other"] = dict(workload, watermark=draw.choice(["5 ms", "30 ms"]))
        workload["keys"] = raw["workload"]["other"]["keys"] = {"distribution": "uniform", "count": 40}
        windows = draw.choice([*WINDOWS[:2], {"length": "1 h"}])
        op |= {"kind": "join", "inputs": {**op["inputs"], "other": "key"}, "window": windows, "selectivity": 0.5}
    if where == "above":
        operators["first"] = dict(windowed, inputs=op["inputs"])
        op["inputs"] = {"first": "key"}
    if where == "below" or draw.random() < 0.4:
        operators["top"] = dict(windowed, inputs={"op": "key"}, window=draw.choice(WINDOWS))
        operators["out"]["inputs"] = {"top": "shuffle"}
    for event in raw["events"].values():
        event["at"] = f"{draw.choice([100, 200, 201, 350])} ms"
        if draw.random() < 0.3:
            _by_baseline(draw, raw, event)
    protocols = {event.get("protocol", "megaphone") for event in raw["events"].values()}
    if protocols == {"megaphone"} and "map" not in operators and where != "above" and draw.random() < 0.3:
        for event in raw["events"].values():
            event["late"] = "15 ms"
            event.pop("next", None)
    raw["state_store"] = {"request": "0.2 ms", "bandwidth": "20 MB/s", "concurrency": 2}
    return raw


def _by_baseline(draw: Random, raw: dict[str, Any], event: dict[str, Any]) -> None:
    for key in ("strategy", "size", "scope", "gap", "next", "overlap"):
        event.pop(key, None)
    ticks = any("timer" in operator for operator in raw["operators"].values())
    stops = not ticks and draw.random() < 0.4
    event |= {"protocol": "stop-and-restart", "restart": "20 ms"} if stops else {"protocol": "pause-and-resume"}


def light_job(where: str, seed: int) -> dict[str, Any]:
    """A job with little to do, windows that do not overlap, and a move of key groups, mostly when one ends."""
    draw = Random(f"light steps {where} {seed}")
    service = {"distribution": "deterministic", "value": "0.1 ms"}
    window = {"length": "200 ms"}
    counted = {"kind": "aggregate", "parallelism": 2, "key_groups": 4, "service": service}
    operators: dict[str, Any] = {
        "src": {"kind": "source", "parallelism": 2},
        "op": {**counted, "inputs": {"src": "key"}},
    }
    workload = {"rate": "200 /s", "keys": {"distribution": "uniform", "count": 8}, "watermark": "20 ms"}
    raw: dict[str, Any] = {"duration": "2 s", "seed": seed, "workload": {"src": workload}, "operators": operators}
    if where == "join":
        operators["other"] = {"kind": "source"}
        raw["workload"]["other"] = workload
        operators["op"] |= {"kind": "join", "inputs": {"src": "key", "other": "key"}, "window": {"length": "100 ms"}}
    if where in ("at", "above", "both"):
        operators["op"]["window"] = window
    if where == "above":
        operators["first"] = {**counted, "inputs": {"src": "key"}, "window": window}
        operators["op"]["inputs"] = {"first": "key"}
    if where in ("below", "both", "join"):
        operators["top"] = {**counted, "inputs": {"op": "key"}, "window": window}
    operators["op"]["state"] = {"model": "fixed", "bytes": "1 kB"}
    operators["out"] = {"kind": "sink", "inputs": {"top" if "top" in operators else "op": "shuffle"}}
    event = {"kind": "reconfigure", "at": f"{draw.choice([380, 396, 400, 405, 700])} ms", "operator": "op"}
    event |= draw.choice(
        [
            {"strategy": "all-at-once", "scope": draw.choice(["bin", "operator"])},
            {"strategy": "fluid", "scope": draw.choice(["bin", "operator"])},
            {"protocol": "pause-and-resume"},
        ]
    )
    raw["events"] = {"move": event | {"owners": [1, 0, 1, 0]}}
    return raw | {
        "hosts": {"h": {"count": 4}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "none"},
    }


def crashing_timed_job(seed: int) -> dict[str, Any]:
    """A random job of `crashing_steps` with windows, which is over long before its end."""
    draw = Random(f"timed crashes {seed}")
    raw = crashing_job(seed, draw.choice([1, 1, 2]))
    operators, (workload,) = raw["operators"], raw["workload"].values()
    for name in draw.choice([["op"], ["next"], ["op", "next"]]):
        operators[name]["window"] = draw.choice(WINDOWS)
    workload["watermark"] = draw.choice(["5 ms", "20 ms", "50 ms"])
    workload["rate"] = {"steps": [{"at": "0 s", "rate": workload["rate"]}, {"at": "1.5 s", "rate": "0 /s"}]}
    return raw | {"duration": "5 s"}
