"""Tiny jobs for schedules: one or two sources, one or two keyed operators, a sink; a few tuples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.cluster import RunPlan

KEYS = 6


@dataclass(frozen=True)
class Job:
    """What there is to do, and where."""

    seed: int = 0
    sources: int = 1
    stages: int = 1
    groups: int = 1
    tuples: int = 2  # of each source
    hosts: int = 4
    writes: bool = False  # a snapshot and a restore take a service of their own

    @property
    def stage_names(self) -> list[str]:
        """The operators that have key groups."""
        return [f"stage{k}" for k in range(self.stages)]


def random_job(seed: int, sources: int, stages: int, groups: int) -> Job:
    """One of the small jobs."""
    draw = Random(seed)
    return Job(
        seed=seed,
        sources=sources,
        stages=stages,
        groups=groups,
        tuples=draw.choice([6, 10, 16]),
        hosts=draw.choice([4, 5, 6]),
        writes=draw.random() < 0.4,
    )


def scenario_of(job: Job) -> Scenario:
    """The job as a scenario; when tuples arrive is up to the scheduler."""
    slow = {"serialise": "1 MB/s", "deserialise": "1 MB/s"} if job.writes else {}
    names = ["in", *job.stage_names]
    stages = {
        name: {
            "kind": "aggregate",
            "inputs": {names[k]: "key"},
            "parallelism": min(2, job.groups),
            "key_groups": job.groups,
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
            "output": {"keys": {"distribution": "uniform", "count": KEYS}},
        }
        | slow
        for k, name in enumerate(job.stage_names)
    }
    move = {"kind": "migrate", "at": "1 s", "operator": "stage0", "key_group": 0, "host": "h-0", "protocol": "cpa"}
    raw: dict[str, Any] = {
        "format": 1,
        "seed": job.seed,
        "duration": "2 s",
        "workload": {"in": {"rate": "1 /s", "keys": {"distribution": "uniform", "count": KEYS}}},
        "operators": {
            "in": {"kind": "source", "parallelism": job.sources},
            **stages,
            "out": {"kind": "sink", "inputs": {names[-1]: "shuffle"}},
        },
        "hosts": {"h": {"count": job.hosts, "cpu": "dedicated"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
        "events": {"move": move},
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


@lru_cache(maxsize=1024)
def plan_of(job: Job) -> RunPlan:
    """Everything about the job that no schedule changes."""
    return RunPlan.of(scenario_of(job), RunInputs(), 0)


@lru_cache(maxsize=1024)
def keys_of(job: Job) -> list[list[int]]:
    """The keys of the tuples of each source task."""
    draw = Random(f"keys {job.seed}")
    return [[draw.randrange(KEYS) for _ in range(job.tuples)] for _ in range(job.sources)]
