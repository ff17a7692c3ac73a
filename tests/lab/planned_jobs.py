"""Jobs whose key groups move by plans: drawn plans, migration files of random lines, configurations that are late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from lab.job import Job, random_job
from lab.shapes import CHAIN, KEYED

JOBS = 120
DRAWN = [CHAIN, CHAIN, "fan_out", "diamond", "fan_in", "mixed", "unkeyed"]
PROTOCOLS = ("megaphone", "megaphone", "megaphone", "pause-and-resume", "stop-and-restart")
STRATEGIES: tuple[dict[str, Any], ...] = (
    {"strategy": "all-at-once"},
    {"strategy": "fluid"},
    {"strategy": "batched", "size": 2},
    {"strategy": "optimised"},
)
Keys = tuple[tuple[str, Any], ...]


def drawn_plan(draw: Random, operator: str, tasks: int, groups: int, protocol: str, back: bool) -> Keys:
    """Return the keys of an event."""
    keys: dict[str, Any] = {"operator": operator, "protocol": protocol}
    if protocol == "megaphone":
        keys |= draw.choice(STRATEGIES) | {"scope": draw.choice(["operator", "bin"])}
        keys |= draw.choice([{}, {"gap": "drain"}, {"gap": "drain"}, {"gap": "5 ns"}, {"next": "lag"}, {"next": "lag"}])
        keys["overlap"] = draw.choice(["none", "pipelined"])
    elif protocol == "stop-and-restart" and draw.random() < 0.5:
        keys["restart"] = "5 ns"
    if back:
        keys["plan"] = "back"
    elif draw.random() < 0.7:
        keys["owners"] = tuple(draw.randrange(tasks) for _ in range(groups))
    elif draw.random() < 0.5:
        keys["tasks"] = draw.randint(1, tasks)
    return tuple(keys.items())


@cache
def job_of(number: int) -> Job:
    """Return one of the jobs."""
    draw = Random(f"plans {number}")
    job = random_job(draw.randrange(24), draw.choice([1, 2]), draw.choice([1, 2, 3]), 1, (4, 8, 12, 20))
    tasks = draw.choice([2, 3])
    job = replace(
        job,
        shape=DRAWN[number % len(DRAWN)],
        groups={2: 2, 3: 4}[tasks] * draw.choice([1, 2]),  # a power of two
        tasks=tasks,
        hosts=draw.choice([2, 4, 6]),
        seed=number,
    )
    keyed = [name for name, node in job.dataflow.items() if node.kind == KEYED]
    protocols = [draw.choice(PROTOCOLS) for _ in range(draw.choice([1, 1, 2]))]
    plans, moved = list[Keys](), set[str]()
    for protocol in protocols:
        operator = draw.choice([keyed[0], keyed[-1], draw.choice(keyed)])
        back = operator in moved and draw.random() < 0.4
        plans.append(drawn_plan(draw, operator, tasks, job.groups, protocol, back))
        moved.add(operator)
    drains = "stop-and-restart" not in protocols  # post-dated outputs do not
    postponed = tuple(name for name in job.stateful if draw.random() < 0.4) if drains else ()
    return replace(job, plans=tuple(plans), postponed=postponed)


def drawn_file(draw: Random, tasks: int, groups: int) -> str:
    """Return a migration file: lines that move what the line before moves again, at the same time or much later."""
    lines, at_ns = [f"M 0 {' '.join(str(group % tasks) for group in range(groups))}"], 0
    moved = list(range(groups))
    for _ in range(draw.choice([1, 2, 4, 6])):
        at_ns += draw.choice([0, 0, 1, 25, 100])
        if draw.random() < 0.2:
            lines.append(f"M {at_ns} {' '.join(str(draw.randrange(tasks)) for _ in range(groups))}")
            continue
        moved = draw.sample(moved if draw.random() < 0.5 else range(groups), draw.randint(1, min(3, len(moved))))
        lines.append(f"D {at_ns} {' '.join(f'{group} {draw.randrange(tasks)}' for group in moved)}")
    return "\n".join(lines) + "\n"


@cache
def filed_job_of(number: int) -> Job:
    """Return one of the jobs whose plans come from migration files; a plan without one may follow."""
    draw = Random(f"files {number}")
    job = job_of(number)
    groups = draw.choice([4, 8])  # a power of two
    keyed = [name for name, node in job.dataflow.items() if node.kind == KEYED]
    plans, lines = list[Keys](), list[str]()
    operator = draw.choice(keyed)
    for _ in range(draw.choice([1, 1, 2])):
        keys = dict(drawn_plan(draw, operator, job.tasks, groups, "megaphone", back=False))
        keys = {key: value for key, value in keys.items() if key not in ("strategy", "size", "owners", "tasks")}
        plans.append(tuple((keys | {"file": f"plan{len(plans)}.txt", "at": "0 s"}).items()))
        lines.append(drawn_file(draw, job.tasks, groups))
        operator = draw.choice([operator, *keyed])
    if draw.random() < 0.3:
        last = dict(drawn_plan(draw, operator, job.tasks, groups, "megaphone", back=True))
        plans.append(tuple((last | {"at": "0 s"}).items()))
    postponed = tuple(name for name in job.stateful if draw.random() < 0.4)
    return replace(job, groups=groups, plans=tuple(plans), lines=tuple(lines), postponed=postponed)


def late_plans(draw: Random, plans: Iterable[Mapping[str, Any]], share: float) -> tuple[Keys, ...]:
    """Return the plans, a share of which have configurations that are late."""
    found = []
    for plan in plans:
        late = plan["protocol"] == "megaphone" and draw.random() < share
        found.append(tuple((dict(plan) | ({"late": f"{draw.choice([1, 20, 60, 150])} ns"} if late else {})).items()))
    return tuple(found)


@cache
def late_job_of(number: int) -> Job:
    """Return one of the jobs whose configurations are late, of one operator or of several at a time."""
    draw, job = Random(f"late plans {number}"), job_of(number)
    plans = [dict(one) for one in job.plans]
    if draw.random() < 0.6:
        job = replace(job, stages=3)
        keyed = [name for name, node in job.dataflow.items() if node.kind == KEYED]
        chosen = [keyed[0], keyed[-1], *draw.sample(keyed, draw.choice([0, 1]))]
        plans = [dict(drawn_plan(draw, one, job.tasks, job.groups, "megaphone", back=False)) for one in chosen]
    return replace(job, plans=late_plans(draw, plans, 0.8))
