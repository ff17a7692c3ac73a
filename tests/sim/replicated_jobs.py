"""Jobs with active replicas, hosts that die, and what must hold: as `moving_jobs.run` judges, and of the replicas."""

from __future__ import annotations

from random import Random
from typing import Any

from moves_beside import CHANGES
from moving_jobs import HOSTS, MS, Crash, Outcome, moving_keys
from moving_jobs import run as run_moving
from small_jobs import scenario

from models.scenario.scenario import Scenario
from models.topology import layout
from sim.control.assembly import PlaneFactory


def replicated_keys(seed: int, what: str = "") -> dict[str, Any]:
    """The job of `moving_keys` without its moves, beside `what`, with replicas of some of its key groups."""
    draw, raw = Random(f"{seed} replicas"), moving_keys(seed, "direct")
    for name, change in CHANGES.items():
        if what == name or (what == "all" and draw.random() < 0.6):
            raw = change(Random(f"{seed} {name}"), raw)
    del raw["events"]
    if "mid" not in raw["operators"] and draw.random() < 0.4:
        raw = _with_a_map(draw, raw)
    raw["fault_tolerance"]["replicas"] = _replicas(draw, raw)
    return raw


def _with_a_map(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """A map without key groups in front: its tasks are what has replicas."""
    service = {"distribution": "exponential", "mean": "1 ms"}
    above = draw.choice(["shuffle", "broadcast"]) if raw["operators"]["in"]["parallelism"] == 1 else "shuffle"
    middle = {"kind": "map", "inputs": {"in": above}, "parallelism": 2, "service": service}
    operators = dict(raw["operators"])
    operators["one"] = operators["one"] | {"inputs": {"mid": "key"}}
    first = {"in": operators.pop("in"), "mid": middle | ({"threads": 2} if draw.random() < 0.3 else {})}
    return raw | {"operators": first | operators}


def _replicas(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    plain = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    placed = layout.placement(plain)
    names = [name for name, one in plain.operators.items() if one.kind not in ("source", "sink") and one.timer is None]
    made: dict[str, Any] = {}
    for name in names:
        operator = plain.operators[name]
        for group in range(operator.groups):
            if draw.random() < 0.3:
                continue
            own = placed[layout.task_name(name, operator.task_of(group))]
            others = [f"h-{k}" for k in range(HOSTS) if f"h-{k}" != own]
            entry: dict[str, Any] = {"operator": name, "key_groups": [group], "host": draw.choice(others)}
            if draw.random() < 0.5:
                entry["spares"] = draw.sample(others, 2)
            made[f"{name}-{group}"] = entry | ({"renew": False} if draw.random() < 0.2 else {})
    return made or _replicas(draw, raw)


def replicated_job(seed: int, what: str = "") -> Scenario:
    """The scenario of `replicated_keys`."""
    return scenario(replicated_keys(seed, what))


def drawn_crashes(seed: int, count: int, most: int = 3) -> list[list[Crash]]:
    """Sets of crashes at any instants; some come soon after one another."""
    draw = Random(f"{seed} crashes")
    made = []
    for _ in range(count):
        at, crashes = draw.randint(300, 3000) * MS, []
        for host in draw.sample(range(HOSTS), draw.randint(1, most)):
            crashes.append(Crash(host, at + draw.randrange(2), draw.choice([None, 30 * MS, 400 * MS, 400 * MS])))
            at += draw.choice([1, 20, 90, 150, 400, 900]) * MS + draw.randrange(MS)
        made.append(crashes)
    return made


def run(made: Scenario, plane: PlaneFactory, crashes: list[Crash] | None = None, more_ns: int = 0) -> Outcome:
    """The run with these crashes, judged."""
    outcome = run_moving(made, plane, crashes or [], more_ns=more_ns)
    control = outcome.control
    silent = {
        partition for partition in range(len(control.cluster.partition_task)) if control.replicas.silent(partition)
    }
    outcome.faults[:] = [fault for fault in outcome.faults if not fault.startswith("key group")]
    outcome.faults.extend(_of_groups(outcome, silent))
    return outcome


def _of_groups(outcome: Outcome, silent: set[int]) -> list[str]:
    """Each key group has its owner, and perhaps one more that is in step and silent."""
    control = outcome.control
    cluster, found = control.cluster, list[str]()
    for group in range(control.plan.first_partition[-1]):
        live = {partition for partition in cluster.instances_of(group) if cluster.partition_live[partition]}
        owner = cluster.owner_of(group)
        if group not in control.migrations.open and live - silent != {owner}:
            found.append(
                f"partition {group}: {sorted(live)} are live, {owner} is the owner, {sorted(silent & live)} silent"
            )
    return found
