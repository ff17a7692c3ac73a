"""Moving jobs beside what else a scenario can have: a remote store, bounded queues, shared links, shared processors."""

from __future__ import annotations

from random import Random
from typing import Any

from moving_jobs import moving_keys
from small_jobs import scenario

from models.scenario.scenario import Scenario

BESIDE = ("remote", "buffers", "links", "cores", "windows", "all")


def moving_beside(what: str, seed: int, protocol: str, most: int = 3, **storm: Any) -> Scenario:
    """A moving job with one of these, or some of all; with `joins` most of what moves is key groups of a join."""
    draw, raw = Random(seed + 7), moving_keys(seed, protocol, most, **storm)
    if what == "joins":
        return scenario(joins_that_move(Random(f"{seed} joins"), raw))
    for name, change in CHANGES.items():
        if what == name or (what == "all" and draw.random() < 0.6):
            raw = change(Random(f"{seed} {name}"), raw)
    return scenario(raw)


def _remote(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Checkpoints in a remote store, which may be slow."""
    store = {"store": "remote", "remote": draw.choice(["100 kB/s", "1 MB/s", "100 MB/s"])}
    return raw | {"fault_tolerance": raw["fault_tolerance"] | store | {"kind": draw.choice(["full", "incremental"])}}


def _buffers(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Queues with few places before operators and the sink, but enough for all tuples to pass through one task."""
    rate, latency_ms = (int(text.split()[0]) for text in (raw["workload"]["in"]["rate"], raw["network"]["latency"]))
    least = 3 * rate * latency_ms // 2000
    operators = {
        name: one | {"buffer": least + draw.choice([1, 2, 5])} if name != "in" and draw.random() < 0.8 else one
        for name, one in raw["operators"].items()
    }
    if draw.random() < 0.4:
        operators["out"] = operators["out"] | {"service": {"distribution": "exponential", "mean": "1 ms"}}
    return raw | {"operators": operators}


def _links(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Links that are shared evenly."""
    hosts = raw["hosts"]["h"] | {"network": draw.choice(["500 kB/s", "1 MB/s", "2 MB/s"])}
    return raw | {"network": raw["network"] | {"sharing": "fair"}, "hosts": {"h": hosts}}


def _cores(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Cores that tasks share evenly or by priority, and of which others take a part that changes."""
    times = sorted(draw.sample(range(1, 49), draw.randint(1, 6)))
    load = {"steps": [{"at": f"{at * 100} ms", "share": draw.choice([0.0, 0.1, 0.15, 0.2])} for at in times]}
    cpu = {"cpu": draw.choice(["shared", "processor-sharing", "processor-sharing"]), "cores": 2, "load": load}
    for name in ("one", "two"):
        raw["operators"][name]["priority"] = draw.choice([-1, 0, 1])
    return raw | {"hosts": {"h": raw["hosts"]["h"] | cpu}}


def _windows(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Windows at operators that move, and now and then a timer upstream and a join downstream."""
    operators = {name: dict(one) for name, one in raw["operators"].items()}
    for name in draw.choice([("one",), ("two",), ("one", "two"), ()]):
        operators[name]["window"] = draw.choice(WINDOWS)
    if draw.random() < 0.3:
        operators[draw.choice(["one", "two"])]["state"] = {"model": "window", "bytes": "100 B", "length": "300 ms"}
    if draw.random() < 0.4:
        service = {"distribution": "deterministic", "value": "1 ms"}
        timer = {"every": draw.choice(["20 ms", "77 ms", "100 ms"])}
        operators["mid"] = {"kind": "map", "inputs": {"in": "shuffle"}, "parallelism": 2, "service": service}
        operators["mid"]["timer"] = timer
        operators["one"]["inputs"] = {"mid": "key"}
    if draw.random() < 0.4:
        service = {"distribution": "exponential", "mean": "500 us"}
        operators["pairs"] = {"kind": "join", "inputs": {"one": "key", "two": "key"}, "parallelism": 2}
        operators["pairs"] |= {"key_groups": 4, "service": service, "window": {"length": "50 ms"}, "selectivity": 0.3}
        operators["out"]["inputs"] = {"two": "shuffle", "pairs": "shuffle"}
    if draw.random() < 0.4:  # no other group at the same task holds event time back
        operators["one"]["parallelism"] = 4
    workload = {"in": raw["workload"]["in"] | {"watermark": draw.choice(["20 ms", "50 ms", "100 ms"])}}
    return raw | {"operators": operators, "workload": workload}


def joins_that_move(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """Windows at operators that move, and a join downstream that moves, too."""
    raw = _windows(draw, raw)
    pairs: dict[str, Any] = {
        "kind": "join",
        "inputs": dict.fromkeys(draw.choice([("one", "two"), ("two", "one"), ("in", "one")]), "key"),
        "parallelism": draw.choice([1, 2, 4]),
        "key_groups": 4,
        "service": {"distribution": "exponential", "mean": "500 us"},
        "window": {"length": draw.choice(["50 ms", "200 ms"])},
        "selectivity": draw.choice([0.3, 1.0]),
    }
    if draw.random() < 0.5:
        pairs |= {"serialise": "1 MB/s", "deserialise": "1 MB/s"}
    pairs["state"] = draw.choice(
        [{"model": "per-key", "bytes": "1 kB"}, {"model": "window", "bytes": "100 B", "length": "300 ms"}]
    )
    events = {name: dict(one) for name, one in raw["events"].items()}
    for event in events.values():
        if draw.random() < 0.7:
            event["operator"] = "pairs"
    out = {"kind": "sink", "inputs": {"two": "shuffle", "pairs": "shuffle"}}
    return raw | {"operators": raw["operators"] | {"pairs": pairs, "out": out}, "events": events}


WINDOWS = (
    {"length": "100 ms"},
    {"length": "500 ms"},
    {"length": "1 s", "slide": "300 ms"},
    {"length": "100 ms", "slide": "150 ms"},
)
CHANGES = {"remote": _remote, "buffers": _buffers, "links": _links, "cores": _cores, "windows": _windows}
