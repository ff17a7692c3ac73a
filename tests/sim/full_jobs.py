"""Jobs in which all features that may stand together do.

`moving` jobs have key groups that move by events, by elasticity and by rescaling, beside maintenance or a remote store.
`replicated` jobs have active replicas instead: no rule lets them move. Both have hosts that die, a detector that errs,
bounded queues, shared links and cores, windows, a join, a pool of threads, a broadcast, and batches. `scanned` jobs
have all that the scan can do.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from elastic_jobs import PROTOCOLS
from moves_beside import WINDOWS
from small_jobs import scenario

from models.scenario.scenario import Scenario
from models.topology import layout

HOSTS = 5  # of the group h, in use; those of the group io come after them
SPARE = 1
DURATION_MS = 4000
WARMUP_MS = 500


def full_job(kind: str, seed: int) -> Scenario:
    """Return a job of one of KINDS."""
    return scenario(KINDS[kind](Random(f"{kind} {seed}"), seed))


# -- what moving and replicated jobs share


def _service(draw: Random, *means_ms: float) -> dict[str, Any]:
    mean = f"{draw.choice(means_ms)} ms"
    return draw.choice(
        [
            {"distribution": "exponential", "mean": mean},
            {"distribution": "deterministic", "value": mean},
            {"distribution": "lognormal", "mean": mean, "cv": 1.5},
        ]
    )


def _state(draw: Random) -> dict[str, Any]:
    return draw.choice(
        [
            {"model": "per-key", "bytes": "200 B"},
            {"model": "per-tuple", "bytes": "10 B"},
            {"model": "fixed", "bytes": "2 kB"},
            {"model": "window", "bytes": "100 B", "length": "300 ms"},
        ]
    )


def _buffer(draw: Random, slack: int) -> dict[str, Any]:
    return {"buffer": slack + draw.choice([1, 2, 5, 20])} if draw.random() < 0.8 else {}


def _keyed(draw: Random, kind: str, inputs: list[str], slack: int) -> dict[str, Any]:
    """Return an operator whose key groups can move."""
    speed = draw.choice(["100 kB/s", "1 MB/s"])
    slow = {"serialise": speed, "deserialise": speed} if draw.random() < 0.5 else {}
    return {
        "kind": kind,
        "inputs": dict.fromkeys(inputs, "key"),
        "parallelism": 2,
        "key_groups": draw.choice([4, 6]),
        "service": _service(draw, 0.5, 1, 2),
        "state": _state(draw),
        "priority": draw.choice([-1, 0, 1]),
        **_buffer(draw, slack),
        **slow,
    }


def _operators(draw: Random, slack: int) -> dict[str, Any]:
    """Return a broadcast to a pool of threads, aggregates with and without a window, a join, and a sink."""
    sources = draw.choice([1, 2])
    pool = {
        "kind": "map",
        "inputs": {"in": "broadcast"},
        "takes": {"in": draw.choice([0.5, 0.8, 1.0])},
        "parallelism": 2,
        "threads": draw.choice([2, 3]),
        "service": _service(draw, 2, 5, 10),
        "selectivity": draw.choice([0.5, 1.0, 1.3]),
        "output": {"tuple": draw.choice(["50 B", "300 B"])},
        **_buffer(draw, slack),
    }
    one = _keyed(draw, "aggregate", ["pool", "side"], slack)
    one |= {"output": {"keys": {"distribution": "zipf", "count": 8, "exponent": 0.7}}}
    two = _keyed(draw, "aggregate", ["one"], slack)
    for operator in draw.choice([(one,), (two,), (one, two)]):
        operator["window"] = draw.choice(WINDOWS)
    pairs = _keyed(draw, "join", draw.choice([["one", "two"], ["two", "side"], ["side", "one"]]), slack)
    pairs |= {"window": {"length": draw.choice(["50 ms", "200 ms"])}, "selectivity": draw.choice([0.2, 1.0])}
    out = {"two": draw.choice(["shuffle", "broadcast", "key"]), "pairs": "shuffle"}
    sink = {"kind": "sink", "inputs": out | ({"pairs": "key"} if out["two"] == "key" else {}), "parallelism": 2}
    sink |= {"service": _service(draw, 0.2, 1), **_buffer(draw, slack)} if draw.random() < 0.6 else {}
    return {
        "in": {"kind": "source", "parallelism": sources},
        "side": {"kind": "source"},
        "pool": pool,
        "one": one,
        "two": two,
        "pairs": pairs,
        "out": sink,
    }


def _workload(draw: Random, rate: int) -> dict[str, Any]:
    jumps = [0, *sorted(draw.sample(range(300, DURATION_MS - 500), 2))]
    steps = [{"at": f"{at} ms", "rate": f"{draw.choice([rate // 2, rate, 2 * rate])} /s"} for at in jumps]
    keys = {"distribution": "uniform", "count": draw.choice([4, 20])}
    return {
        "in": {
            "rate": {"steps": steps},
            "keys": keys,
            "batch": draw.choice([2, 3, {"distribution": "geometric", "mean": 3}]),
            "watermark": draw.choice(["20 ms", "50 ms", "100 ms"]),
        },
        "side": {
            "rate": f"{draw.choice([10, 25])} /s",
            "arrivals": draw.choice(["deterministic", "poisson"]),
            "keys": {"distribution": "zipf", "count": 8, "exponent": 1.0},
            "watermark": draw.choice(["20 ms", "50 ms"]),
        },
    }


def _hosts(draw: Random, spare: int) -> dict[str, Any]:
    times = sorted(draw.sample(range(1, DURATION_MS // 100), 4))
    load = {"steps": [{"at": f"{at * 100} ms", "share": draw.choice([0.0, 0.1, 0.3])} for at in times]}
    storm = {"failures": {"model": "exponential", "mtbf": "15 s", "repair": "200 ms"}} if draw.random() < 0.3 else {}
    return {
        "h": {
            "count": HOSTS + spare,
            "spare": spare,
            "cpu": draw.choice(["shared", "processor-sharing"]),
            "cores": draw.choice([1, 2]),
            "speed": draw.choice([1.0, 1.7]),
            "network": draw.choice(["100 kB/s", "500 kB/s", "1 MB/s"]),
            "load": load,
            **storm,
        },
        "io": {"count": 1, "cpu": "dedicated", "network": "500 kB/s"},
    }


def _crashes(draw: Random) -> dict[str, Any]:
    return {
        f"crash-{k}": {
            "kind": "host-failure",
            "at": f"{draw.choice([draw.randint(300, DURATION_MS - 300), draw.randint(3, 37) * 100])} ms",
            "host": draw.choice([*(f"h-{k}" for k in range(HOSTS)), "io-0"]),
            "repair": draw.choice(["30 ms", "400 ms", "1 s"]),
        }
        for k in range(draw.choice([0, 1, 2]))
    }


def _detector(draw: Random) -> dict[str, Any]:
    late = {"delay": {"distribution": "exponential", "mean": draw.choice(["5 ms", "20 ms"])}}
    return {
        "heartbeat": "50 ms",
        "timeout": draw.choice(["101 ms", "120 ms", "160 ms"]),
        "loss": draw.choice([0.03, 0.1, 0.15]),
        **(late if draw.random() < 0.4 else {}),
    }


def _checkpoints(draw: Random, store: str) -> dict[str, Any]:
    return {
        "method": "checkpoint",
        "interval": f"{draw.choice([100, 300, 700])} ms",
        "kind": draw.choice(["full", "incremental"]),
        "staggered": draw.random() < 0.5,
        "duplicate": draw.choice(["0 s", "100 us"]),
        "store": store,
        **({"remote": draw.choice(["300 kB/s", "1 MB/s", "100 MB/s"])} if store == "remote" else {}),
    }


def _shared(draw: Random, seed: int, spare: int, store: str) -> dict[str, Any]:
    rate, latency_ms = draw.choice([60, 120]), draw.choice([1, 5, 20])
    return {
        "format": 1,
        "seed": seed,
        "duration": f"{DURATION_MS} ms",
        "warmup": draw.choice(["0 s", f"{WARMUP_MS} ms"]),
        "workload": _workload(draw, rate),
        "operators": _operators(draw, rate * latency_ms // 1000),
        "hosts": _hosts(draw, spare),
        "placement": {"operators": {"in": "io", "side": "io", "out": draw.choice(["io", "h"])}},
        "network": {"latency": f"{latency_ms} ms", "sharing": draw.choice(["fair", "fair", "fifo"])},
        "fault_tolerance": _checkpoints(draw, store),
        "detector": _detector(draw),
        "events": _crashes(draw),
        "elasticity": {"period": "400 ms"},  # of statistics, also where nothing moves by itself
        "recording": {"statistics": True},
    }


# -- what tells them apart


def moving_keys(draw: Random, seed: int) -> dict[str, Any]:
    """Return the keys of a job whose key groups move for every reason there is."""
    store = draw.choice(["nodes", "remote"])
    raw = _shared(draw, seed, SPARE, store)
    tolerance, groups = raw["fault_tolerance"], {name: raw["operators"][name]["key_groups"] for name in MOVABLE}
    if store == "nodes":
        method = draw.choice(["even", "sensitive-first", "exact"])
        tolerance["maintenance"] = {"every": "900 ms", "theta": draw.choice([0.0, 0.1]), "method": method}
    else:
        tolerance["restart"] = draw.choice(["anywhere", "own-hosts"])
    tolerance["guarantee"] = draw.choice(["exactly-once", "exactly-once", "at-least-once"])
    if draw.random() < 0.5:
        raw["operators"]["pool"]["timer"] = {"every": draw.choice(["77 ms", "100 ms"])}
    raw["elasticity"] = {
        "policy": "threshold",
        "high": draw.choice([0.3, 0.5]),
        "low": draw.choice([0.05, 0.2]),
        "period": draw.choice(["300 ms", "500 ms"]),
        "rest": draw.choice(["0 ms", "700 ms"]),
        "moves": draw.choice([1, 3]),
        "prefer": draw.choice(["sufficient", "quarter", "usable"]),
        "protocol": draw.choice(PROTOCOLS),
        "scale_out": draw.random() < 0.7,
        "scale_in": draw.random() < 0.7,
        "acquisition": draw.choice(["0 ms", "200 ms"]),
    }
    for k, protocol in enumerate(draw.sample(PROTOCOLS, 4)):
        name = draw.choice(MOVABLE)
        raw["events"][f"move-{k}"] = {
            "kind": "migrate",
            "at": f"{draw.randint(500, DURATION_MS - 700)} ms",
            "operator": name,
            "key_group": draw.randrange(groups[name]),
            "host": f"h-{draw.randrange(HOSTS)}",
            "protocol": protocol,
        }
    if draw.random() < 0.6:
        raw["events"]["rescale"] = {
            "kind": "rescale",
            "at": f"{draw.randint(500, DURATION_MS - 1000)} ms",
            "operator": draw.choice(MOVABLE),
            "parallelism": draw.choice([1, 3, 4]),
            "protocol": draw.choice(PROTOCOLS),
        }
    return raw


def replicated_keys(draw: Random, seed: int) -> dict[str, Any]:
    """Return the keys of a job with replicas of most of its key groups and of its pool."""
    raw = _shared(draw, seed, 0, draw.choice(["nodes", "remote"]))
    plain = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    placed = layout.placement(plain)
    replicas: dict[str, Any] = {}
    for name in ("pool", *MOVABLE):
        operator = plain.operators[name]
        for group in range(operator.groups):
            own = placed[layout.task_name(name, operator.task_of(group))]
            others = [f"h-{k}" for k in range(HOSTS) if f"h-{k}" != own]
            entry = {"operator": name, "key_groups": [group], "host": draw.choice(others)}
            spares = {"spares": draw.sample(others, 2)} if draw.random() < 0.5 else {}
            renew = {"renew": False} if draw.random() < 0.2 else {}
            if draw.random() < 0.7:
                replicas[f"{name}-{group}"] = entry | spares | renew
    raw["fault_tolerance"]["replicas"] = replicas
    return raw


def scanned_keys(draw: Random, seed: int) -> dict[str, Any]:
    """Return the keys of a job with all that the scan does: pools, broadcast, batches, filters, checkpoints."""
    plain = draw.random() < 0.5
    operators: dict[str, Any] = {
        "in": {"kind": "source", "parallelism": 2},
        "side": {"kind": "source"},
        "pool": {
            "kind": "map",
            "inputs": {"in": "broadcast"},
            "takes": {"in": 0.8},
            "parallelism": 2,
            "threads": draw.choice([2, 3]),
            "service": _service(draw, 2, 5),
            "selectivity": draw.choice([0.5, 1.3]),
        },
        "few": {
            "kind": "filter",
            "inputs": {"side": "shuffle"},
            "service": _service(draw, 1, 2),
            "selectivity": 0.7,
            "parallelism": 2,
        },
        "near": {"kind": "map", "inputs": {"few": "forward"}, "service": _service(draw, 1, 2), "parallelism": 2},
        "one": _keyed(draw, "aggregate", ["pool", "near"], 0),
        "out": {
            "kind": "sink",
            "inputs": {"one": draw.choice(["shuffle", "broadcast"])},
            "parallelism": 2,
            "service": _service(draw, 0.2, 1),
        },
    }
    operators["one"].pop("buffer", None)
    operators["one"]["state"] = draw.choice(
        [{"model": "per-key", "bytes": "200 B"}, {"model": "per-tuple", "bytes": "10 B"}]
    )
    raw = {
        "format": 1,
        "seed": seed,
        "duration": f"{DURATION_MS} ms",
        "warmup": f"{WARMUP_MS} ms",
        "workload": _workload(draw, draw.choice([60, 200])),
        "operators": operators,
        "network": {"latency": draw.choice(["0 s", "1 ms", "20 ms"])},
    }
    if plain:  # each operator on hosts of its own, behind links
        speed = {"speed": draw.choice([1.0, 0.6]), "count": 2}
        raw["hosts"] = {f"of_{name}": speed | {"network": draw.choice(["50 kB/s", "1 MB/s"])} for name in operators}
        raw["placement"] = {"operators": {name: f"of_{name}" for name in operators}}
        return raw
    if raw["network"]["latency"] == "0 s":
        operators["pool"].pop("serialise", None)
    store = draw.choice(["nodes", "remote"])
    return raw | {
        "hosts": {"h": {"count": 4, "cpu": "shared", "cores": 40, "speed": draw.choice([1.0, 0.6])}},
        "fault_tolerance": _checkpoints(draw, store)
        | {"guarantee": draw.choice(["exactly-once", "at-least-once", "at-most-once"])},
    }


MOVABLE = ("one", "two", "pairs")
KINDS: dict[str, Callable[[Random, int], dict[str, Any]]] = {
    "moving": moving_keys,
    "replicated": replicated_keys,
    "scanned": scanned_keys,
}
