"""Jobs in which everything happens at multiples of 10 ms: arrivals, ends of services, checkpoints, crashes."""

from __future__ import annotations

from random import Random
from typing import Any

from small_jobs import random_job

from models.records.tables import RunRecords

_SERVICES = ("10 ms", "10 ms", "20 ms", "30 ms")


def lattice_job(draw: Random, **fixed: Any) -> dict[str, Any]:
    """Keys of a random small job whose times are all on the lattice; links take 10 ms for 100 B."""
    raw = random_job(draw, **fixed)
    raw["duration"] = draw.choice(["1 s", "2 s", "3 s"])
    raw["workload"]["src"] |= {"rate": draw.choice(["25 /s", "50 /s", "100 /s"]), "arrivals": "deterministic"}
    for name, operator in raw["operators"].items():
        if "service" in operator:
            operator["service"] = {"distribution": "deterministic", "value": draw.choice(_SERVICES)}
        if "serialise" in operator:
            operator["serialise"] = operator["deserialise"] = draw.choice(["10 kB/s", "1 MB/s"])
        if name != "out":
            operator["output"] = {"tuple": draw.choice(["100 B", "200 B"])}
    raw["hosts"]["h"].pop("network", None)
    if draw.random() < 0.4:
        raw["hosts"]["h"]["network"] = "10 kB/s"
    raw["network"] = {"latency": draw.choice(["0 s", "0 s", "10 ms", "50 ms"]), "sharing": "fifo"}
    raw["detector"] = {"heartbeat": "100 ms", "timeout": draw.choice(["200 ms", "300 ms"])}
    if raw["fault_tolerance"]["method"] == "checkpoint":
        raw["fault_tolerance"]["interval"] = draw.choice(["100 ms", "100 ms", "300 ms", "1 s"])
    raw["events"] = {
        f"crash{index}": {
            "at": f"{draw.randint(5, 250) * 10} ms",
            "kind": "host-failure",
            "host": f"h-{draw.randrange(raw['hosts']['h']['count'])}",
            "repair": draw.choice(["10 ms", "50 ms", "200 ms", "700 ms"]),
        }
        for index in range(draw.randint(0, 4))
    }
    return raw


def coincidences(records: RunRecords) -> dict[str, int]:
    """How many ends of services are at the instant of another kind of event."""
    visits, failures = records.tables["visits"], records.tables["failures"]
    served = visits["end_ns"] > visits["start_ns"]
    ends = visits["end_ns"][served].tolist()
    others = {
        "arrival": set(visits["arrival_ns"].tolist()),
        "checkpoint": set(records.tables["checkpoints"]["taken_ns"].tolist()),
        "crash": set(failures["failed_ns"].tolist()),
    }
    return {kind: sum(end in instants for end in ends) for kind, instants in others.items()}
