"""A scenario file to begin with, from a few facts about a job of Flink."""

from __future__ import annotations

import math
from dataclasses import dataclass

from models import units
from models.engines.flink import default_max_parallelism

_MOST_PER_S = 500.0  # records that are simulated: twenty minutes of a job take a few seconds
_MINUTES = 20
_DIGITS = 6


@dataclass(frozen=True)
class FlinkJob:
    """What is known of a job.

    Rate [1/s], share of the time that tasks are busy, state [B] and how much of it changes between two checkpoints [B],
    TaskManagers and slots of each, time between two checkpoints [s].
    """

    rate_per_s: float
    busy: float
    state_bytes: float
    change_bytes: float
    taskmanagers: int
    slots: int
    interval_s: float

    @property
    def parallelism(self) -> int:
        """Return the tasks of each operator: all slots."""
        return self.taskmanagers * self.slots

    @property
    def scale(self) -> int:
        """Return for how many records one simulated record stands: 1, 2 or 5 times a power of ten."""
        least = max(1.0, self.rate_per_s / _MOST_PER_S)
        power = 10 ** math.floor(math.log10(least))
        return int(next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9)))


def scenario_text(job: FlinkJob) -> str:
    """Return the text of a scenario in which a TaskManager of the job dies, with comments for whoever goes on."""
    groups, scale = default_max_parallelism(job.parallelism), job.scale
    service_s = job.busy * job.parallelism / job.rate_per_s * scale
    change = job.change_bytes / (job.rate_per_s * job.interval_s) * scale
    stands = (
        f"# One simulated record stands for {scale} of the job: rates are divided by it, service times multiplied.\n"
    )
    return f"""\
# What happens when a TaskManager of this job dies? Written by `holdfast init flink`.
# `holdfast show FILE --defaults` says what `engine = "flink"` brings, and where each value is from.
{stands if scale > 1 else ""}format = 1
engine = "flink"
duration = "{_MINUTES} min"
replications = 4 # at other phases of heartbeats and checkpoints

[workload.events]
rate = "{units.show(job.rate_per_s / scale, "1/s")}"
keys = {{ distribution = "uniform", count = 100000 }}

[operators.events]
kind = "source"
parallelism = {job.slots}

[operators.state]
kind = "aggregate"
inputs = {{ events = "key" }}
parallelism = {job.parallelism}
key_groups = {groups} # the maximum parallelism; that of Flink, if the job does not set it
# Tasks are busy for {job.busy:.0%} of the time.
service = {{ distribution = "exponential", mean = "{_shown(service_s, "s")}" }}
# Of one key group, and what one record changes in it.
state = {{ model = "fixed", bytes = "{_shown(job.state_bytes / groups, "B")}", change = "{_shown(change, "B")}" }}

[operators.sink]
kind = "sink"
inputs = {{ state = "shuffle" }}

[hosts.taskmanager]
count = {job.taskmanagers + 1} # one more than the job needs: its slots are free for what dies
slots = {job.slots}

[recovery] # measure both: RUNNING of the job, INITIALIZING and RUNNING of its tasks
restart = {{ distribution = "deterministic", value = "1 s" }} # until tasks are deployed

[fault_tolerance]
kind = "incremental" # execution.checkpointing.incremental: true
interval = "{units.show(job.interval_s, "s")}"
remote = "500 MB/s" # rate at which all tasks together write and restore state

[events.kill]
kind = "host-failure"
host = "taskmanager-0"
at = "{_MINUTES // 2} min"
delay = {{ distribution = "uniform", low = "0 s", high = "{units.show(job.interval_s, "s")}" }}
"""


def _shown(value: float, dimension: str) -> str:
    """Return a quantity with its unit, to six digits."""
    return units.show(round(value, _DIGITS - 1 - math.floor(math.log10(value))), dimension)
