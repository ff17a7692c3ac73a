"""Jobs whose key groups move by themselves, whose hosts come and go, and whose operators are rescaled."""

from __future__ import annotations

from random import Random
from typing import Any

from moves_beside import joins_that_move
from moving_jobs import HOSTS
from small_jobs import scenario

from models.scenario.scenario import Scenario

PROTOCOLS = ("direct", "cpa", "cpal", "cpal_caught_up", "lazy_move")


def elastic_job(seed: int, **changes: Any) -> Scenario:
    """The scenario of `elastic_keys`."""
    return scenario(elastic_keys(seed, **changes))


def elastic_windows(seed: int, **changes: Any) -> Scenario:
    """The same with windows at operators that move, and a join of both that moves, too."""
    raw = joins_that_move(Random(f"{seed} windows"), elastic_keys(seed, **changes))
    used = HOSTS - raw["hosts"]["h"]["spare"]
    for operator in raw["operators"].values():
        if operator.get("parallelism", 1) > used:  # what is rescaled has each task on a host of its own
            operator["parallelism"] = used
    return scenario(raw)


def elastic_keys(seed: int, **changes: Any) -> dict[str, Any]:
    """A source whose rate jumps, two keyed operators and a sink on five hosts, some of them spare.

    `changes` replace keys of `elasticity`.
    """
    draw = Random(seed)
    protocol = draw.choice(PROTOCOLS)

    def operator(upstream: str) -> dict[str, Any]:
        slow = {"serialise": "1 MB/s", "deserialise": "1 MB/s"} if draw.random() < 0.5 else {}
        return {
            "kind": "aggregate",
            "inputs": {upstream: "key"},
            "parallelism": 2,
            "key_groups": draw.choice([4, 6]),
            "service": {"distribution": "exponential", "mean": f"{draw.choice([1, 2, 3])} ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        } | slow

    jumps = [0, *sorted(draw.sample(range(300, 3500), draw.randint(1, 3)))]
    steps = [{"at": f"{at} ms", "rate": f"{draw.choice([20, 100, 250])} /s"} for at in jumps]
    spare = draw.choice([0, 1, 2])
    rescales = {
        f"r{k}": {
            "kind": "rescale",
            "at": f"{draw.randint(500, 3000)} ms",
            "operator": draw.choice(["one", "two"]),
            "parallelism": draw.randint(1, min(4, HOSTS - spare)),
            "protocol": draw.choice(PROTOCOLS),
        }
        for k in range(draw.choice([0, 0, 1, 2]))
    }
    raw: dict[str, Any] = {
        "format": 1,
        "seed": seed,
        "duration": "6 s",
        "workload": {
            "in": {
                "rate": {"steps": steps},
                "keys": {"distribution": "zipf", "count": 40, "exponent": draw.choice([0.3, 0.9])},
            }
        },
        "operators": {
            "in": {"kind": "source", "parallelism": draw.choice([1, 2])},
            "one": operator("in") | {"output": {"keys": {"distribution": "uniform", "count": 12}}},
            "two": operator("one"),
            "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
        },
        "hosts": {
            "h": {
                "count": HOSTS,
                "spare": spare,
                "speed": draw.choice([1.0, 1.0, 1.7]),
                "cpu": draw.choice(["shared", "dedicated", "processor-sharing"]),
                "network": draw.choice(["500 kB/s", "1 MB/s", "100 MB/s"]),
            }
            | ({"load": {"steps": [{"at": "1 s", "share": 0.2}]}} if draw.random() < 0.3 else {})
        },
        "network": {"latency": f"{draw.choice([1, 5, 20])} ms", "sharing": "fifo"},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": f"{draw.choice([100, 300, 700])} ms",
            "staggered": draw.random() < 0.5,
        },
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "elasticity": {
            "policy": "threshold",
            "high": draw.choice([0.3, 0.45, 0.6]),
            "low": draw.choice([0.05, 0.2, 0.25]),
            "period": f"{draw.choice([200, 300, 500])} ms",
            "rest": f"{draw.choice([0, 400, 900])} ms",
            "moves": draw.choice([1, 2, 4]),
            "prefer": draw.choice(["sufficient", "quarter", "usable"]),
            "protocol": protocol,
            "scale_out": spare > 0 and draw.random() < 0.8,
            "scale_in": draw.random() < 0.7,
            "acquisition": f"{draw.choice([0, 150, 600])} ms",
        }
        | changes,
        "events": rescales,
    }
    return raw
