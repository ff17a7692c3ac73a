"""Files of `holdfast fleet` for tests: random static ones, and one small one that is busy."""

from __future__ import annotations

from typing import Any

import numpy as np
from plain_availability import random_queries

from models.fleet.rules import fleet_from
from models.fleet.system import System, system_of

LONG_RUN = {"mttf": "9 d", "mttr": "1 d"}


def tables(n_hosts: int = 12, n_queries: int = 8, seed: int = 3, **keys: Any) -> dict[str, Any]:
    """The tables of a static file: queries on few hosts each, most operators with a replica."""
    queries = random_queries(np.random.default_rng(seed), n_hosts, n_queries)
    return {
        "hosts": [f"h{k}" for k in range(n_hosts)],
        "operators": {f"o{k}": [f"h{host}" for host in hosts] for k, hosts in enumerate(queries.instances)},
        "queries": {f"q{k}": [f"o{op}" for op in ops] for k, ops in enumerate(queries.operators)},
        **({} if {"times", "downtimes", "log"} & set(keys) else {"times": LONG_RUN}),
        **keys,
    }


def static_system(n_hosts: int = 12, n_queries: int = 8, seed: int = 3, **keys: Any) -> System:
    """The system of these tables."""
    return system_of(fleet_from(tables(n_hosts, n_queries, seed, **keys)))


def _law(kind: str, **keys: object) -> dict[str, object]:
    return {"distribution": kind, **keys}


STATIC: dict[str, dict[str, Any]] = {
    "independent": {},
    "one crew": {"times": {**LONG_RUN, "crews": 1}},
    "three crews": {"times": {**LONG_RUN, "crews": 3}},
    "racks": {
        "domains": {
            "r": {"hosts": ["h0", "h1"], "p": 0.05},
            "s": {"hosts": ["h1", "h2", "h7"], "mttf": "30 d", "mttr": "5 h"},
        }
    },
    "beta": {"beta": 0.2, "domains": {"r": {"hosts": ["h0", "h1", "h2", "h3"]}}},
    "late take-over": {"standby": {"take_over": "6 h", "coverage": 0.9}},
    "prompt take-over, not always": {"standby": {"coverage": 0.9}},
    "day": {"times": {"mttf": "9 d", "day": "1 d"}},
    "laws": {"times": {"up": _law("gamma", mean="9 d", shape=0.5), "down": _law("deterministic", value="1 d")}},
    "unequal": {"hosts": {f"h{k}": {"mttf": f"{4 + k} d", "mttr": "1 d"} for k in range(12)}},
    "by p": {"p": 0.1, "times": {"mttr": "1 d"}},
}

AT_ONE_INSTANT: dict[str, dict[str, Any]] = {
    "all hosts together": {
        "times": {"up": _law("deterministic", value="9 d"), "down": _law("deterministic", value="1 d")}
    },
    "all together, two crews": {
        "times": {"up": _law("deterministic", value="9 d"), "down": _law("deterministic", value="1 d"), "crews": 2}
    },
    "as long as take-overs": {
        "times": {"up": _law("deterministic", value="2 d"), "down": _law("deterministic", value="1 d")},
        "standby": {"take_over": "1 d", "coverage": 0.5},
    },
    "never up": {"p": 1.0, "times": {"mttr": "1 d"}},
    "never down": {"p": 0.0, "times": {"mttr": "1 d"}},
    "recorded": {
        "downtimes": [
            {"host": "h0", "down": "1 d", "up": "2 d"},
            {"host": "h0", "down": "2 d", "up": "3 d"},
            {"host": "h1", "down": "2 d", "up": "500 d"},
        ]
    },
}


def random_script(seed: int) -> dict[str, Any]:
    """A small busy file: hosts that fail often, moves that take hours, rates and queries that change, objectives."""
    rng = np.random.default_rng(seed)
    n_hosts, n_ops, n_queries = int(rng.integers(3, 6)), int(rng.integers(3, 7)), int(rng.integers(2, 5))
    hosts = [f"h{k}" for k in range(n_hosts)]

    def operator() -> dict[str, Any]:
        placed = rng.permutation(n_hosts - 1)[: rng.integers(0, 3)]  # the last host may be spare
        costs = {name: f"{int(rng.integers(0, 400))} us" for name in ("x", "y")}
        return {"hosts": [hosts[k] for k in placed], "cost": costs, "split": bool(rng.random() < 0.8)}

    def query() -> dict[str, Any]:
        ops = rng.permutation(n_ops)[: rng.integers(1, min(4, n_ops + 1))]
        found: dict[str, Any] = {"operators": [f"o{k}" for k in ops]}
        if rng.random() < 0.7:
            found["slo"] = float(rng.choice([0.8, 0.89, 0.95, 0.975, 0.98]))
        if rng.random() < 0.4:
            found |= {"arrives": f"{int(rng.integers(0, 30))} d", "leaves": f"{int(rng.integers(40, 100))} d"}
        return found

    return {
        "duration": "60 d",
        "seed": seed,
        "capacity": 1.5,
        "times": {"mttf": "9 d", "mttr": "1 d"},
        "hosts": {name: {"spare": bool(name == hosts[-1] and rng.random() < 0.7)} for name in hosts},
        "sources": {
            "x": {"rate": "1000 /s", "varies": {"every": "7 h", "cv": 0.8}},
            "y": {"rate": "800 /s", "steps": [{"at": "20 d", "rate": "3000 /s"}, {"at": "35 d", "rate": "100 /s"}]},
        },
        "operators": {f"o{k}": operator() for k in range(n_ops)},
        "queries": {f"q{k}": query() for k in range(n_queries)},
        **({"churn": {"stay": "6 d", "away": "3 d"}} if rng.random() < 0.6 else {}),
        "manager": {
            "period": "1 h",
            "move": str(rng.choice(["5 min", "10 h", "30 h"])),
            "high": 0.8,
            "low": float(rng.choice([0.1, 0.5])),
            "budget": float(rng.choice([0.0, 1.0, 5.0])),
            "replicas": int(rng.integers(0, 3)),
            "importance": str(rng.choice(["gain", "degree", "utilisation", "product", "random", "given"])),
            "spare": str(rng.choice(["hosts", "replicas"])),
        },
    }
