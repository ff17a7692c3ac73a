"""Random jobs in which hosts die while key groups move in steps and nothing is kept, and what is wrong with runs."""

from __future__ import annotations

from random import Random
from typing import Any

from crashing_steps import job as with_checkpoints
from lab.following import Followed
from test_megaphone import made
from timed_steps import WINDOWS

from models.records.tables import RunRecords
from models.units import to_ns
from sim.control.assembly import Control
from sim.engine import records


def job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job whose operator `op` is reconfigured once or more, with hosts that die, most of them in a step."""
    raw = with_checkpoints(seed, crashes)
    draw = Random(f"losses in steps {seed}")
    raw["fault_tolerance"] = {"method": "none"}
    raw["duration"] = "4 s"
    if draw.random() < 0.3:
        raw["operators"]["op"]["postpone"] = {"distribution": "exponential", "mean": draw.choice(["20 ms", "200 ms"])}
    if draw.random() < 0.3:
        raw["detector"] = {"heartbeat": "40 ms", "timeout": "120 ms", "connection": "0 s"}
    if draw.random() < 0.2:
        raw["detector"] = {"heartbeat": "10 ms", "timeout": "50 ms", "loss": 0.2}
    for event in raw["events"].values():
        if event["kind"] == "reconfigure" and event.get("protocol") is None and "map" not in raw["operators"]:
            event["late"] = draw.choice(["0 s", "0 s", "15 ms"])
        if event["kind"] == "host-failure" and draw.random() < 0.2 and raw["hosts"]["h"]["count"] > 2:
            del event["repair"]
        if event.get("repair") == "1 s":  # what has waited in sources is processed before the end
            event["repair"] = "300 ms"
    return raw


def ran(raw: dict[str, Any]) -> tuple[Control, RunRecords, list[str]]:
    """The run of a job on the plain plane, its rows, and what is wrong with it."""
    control = made(raw)
    followed, until_ns = Followed(control), to_ns(control.plan.scenario.duration_s)
    control.start()
    control.run(until_ns)
    return control, records(control, until_ns), followed.faults()


def timed_job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job of the same kind with windows, a join, a state of the last time or timers.

    Its sources end some time before its end, and none of its hosts is down then: all of its windows can end.
    """
    raw, draw = job(seed, crashes), Random(f"windows in lost steps {seed}")
    operators, (workload,) = raw["operators"], raw["workload"].values()
    op = operators["op"]
    op.pop("postpone", None)
    workload["watermark"] = draw.choice(["5 ms", "20 ms", "50 ms"])
    workload["rate"] = {"steps": [{"at": "0 s", "rate": workload["rate"]}, {"at": "1.8 s", "rate": "0 /s"}]}
    where = draw.choice(["at", "below", "both", "above", "join", "timer", "state"])
    if where in ("at", "both"):
        op["window"] = draw.choice(WINDOWS)
    if where in ("below", "both") or (where in ("join", "timer", "above") and draw.random() < 0.5):
        operators["next"]["window"] = draw.choice(WINDOWS)
    if where == "above":
        first = {"kind": "aggregate", "inputs": op["inputs"], "parallelism": 2, "key_groups": 4}
        operators["first"] = first | {"service": op["service"], "window": draw.choice(WINDOWS)}
        op["inputs"] = {"first": "key"}
    if where == "join":
        operators["other"] = {"kind": "source", "parallelism": draw.choice([1, 2])}
        raw["workload"]["other"] = workload | {"watermark": draw.choice(["5 ms", "30 ms"])}
        windows = draw.choice([*WINDOWS[:2], {"length": "1 h"}])
        op |= {"kind": "join", "inputs": {**op["inputs"], "other": "key"}, "window": windows, "selectivity": 0.5}
    if where == "timer":
        mean = {"distribution": "deterministic", "value": "1 ms"}
        operators.setdefault("map", {"kind": "map", "inputs": {"src": "shuffle"}, "service": mean})
        operators["map"]["timer"] = {"every": draw.choice(["30 ms", "70 ms"])}
        op["inputs"] = {"map": "key"}
    if where == "state" or draw.random() < 0.2:
        op["state"] = {"model": "window", "bytes": "100 B", "length": draw.choice(["50 ms", "200 ms"])}
    for event in raw["events"].values():
        if "late" not in event and event["kind"] == "reconfigure" and "protocol" not in event:
            event["late"] = draw.choice(["0 s", "15 ms"])
    raw["detector"].pop("loss", None)  # it may suspect a host at the end
    return raw | {"duration": "5 s"}


def closing_job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job whose keys let go of their tuples with their last post-dated output."""
    raw, draw = job(seed, crashes), Random(f"closing in lost steps {seed}")
    op = raw["operators"]["op"]
    op["postpone"] = {"distribution": "exponential", "mean": draw.choice(["20 ms", "200 ms", "1 s"])}
    raw["workload"]["src"]["keys"]["count"] = draw.choice([40, 400])
    op |= {"state": {"model": "per-tuple", "bytes": "32 B", "until": "output"}}
    op["selectivity"] = draw.choice([0.2, 1.0, 2.5])
    return raw | {"recording": {"memory": True}}


def scanning_job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job whose tasks look at all their key groups in each round."""
    raw, draw = job(seed, crashes), Random(f"scans in lost steps {seed}")
    for key in ("cores", "cpu"):  # all tasks may come to one host, where scans would take all that there is
        raw["hosts"]["h"].pop(key, None)
    for name in draw.choice([["op"], ["op", "next"]]):
        operator = raw["operators"][name]
        operator["scan"] = f"{draw.choice([500, 2_000]) / operator.get('key_groups', 4)} us"
    return raw


def worker_job(seed: int, crashes: int = 1) -> dict[str, Any]:
    """A random job in which the tasks of a host are one process, with windows or without."""
    raw, draw = (timed_job if seed % 2 else job)(seed, crashes), Random(f"workers in lost steps {seed}")
    return raw | {"workers": {"together": True} | draw.choice([{}, {"check": "50 ms"}])}
