"""Scenario files to begin with, from a few facts about a job of Flink, Spark, Kafka Streams or Storm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from models import units
from models.engines.flink import default_max_parallelism
from models.steady_state.scaled_down import MOST, measured_error

_MOST_PER_S = 500.0  # records that are simulated: twenty minutes of a job take a few seconds
_MINUTES = 20
_DIGITS = 6


@dataclass(frozen=True)
class _Job:
    """A job of any engine: rate [1/s], and the share of the time that those who work are busy."""

    rate_per_s: float
    busy: float

    @property
    def scale(self) -> int:
        """Return for how many records one simulated record stands: 1, 2 or 5 times a power of ten.

        It is at most that up to which the error of this was measured: more records are simulated of a higher rate.
        """
        least = min(max(1.0, self.rate_per_s / _MOST_PER_S), MOST)
        power = 10 ** math.floor(math.log10(least))
        return int(next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9)))


@dataclass(frozen=True)
class FlinkJob(_Job):
    """A job of Flink.

    Rate [1/s], share of the time that tasks are busy, state [B] and how much of it changes between two checkpoints [B],
    TaskManagers and slots of each, time between two checkpoints [s].
    """

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
    def text(self) -> str:
        """Return the text of a scenario in which a TaskManager of the job dies, with comments for whoever goes on."""
        return _flink_text(self)


@dataclass(frozen=True)
class SparkQuery(_Job):
    """A query of Spark.

    Rate [1/s], share of the time that cores are busy, state [B] and size of a record in it [B], executors and cores of
    each, state partitions, time between two triggers and until a new driver has started the query [s].
    """

    state_bytes: float
    record_bytes: float
    executors: int
    cores: int
    partitions: int
    interval_s: float
    start_s: float

    @property
    def text(self) -> str:
        """Return the text of a scenario in which the driver dies, with comments for whoever goes on."""
        return _spark_text(self)


@dataclass(frozen=True)
class KafkaStreamsJob(_Job):
    """An application of Kafka Streams.

    Rate [1/s], share of the time that threads are busy, state [B] and size of a record in it [B], instances and stream
    threads of each, partitions of the input topic, standby replicas.
    """

    state_bytes: float
    record_bytes: float
    instances: int
    threads: int
    partitions: int
    standbys: int

    @property
    def text(self) -> str:
        """Return the text of a scenario in which an instance is killed, with comments for whoever goes on."""
        return _kafka_streams_text(self)


@dataclass(frozen=True)
class StormTopology(_Job):
    """A topology of Storm.

    Rate [1/s], share of the time that executors are busy, state of its stateful bolts [B], which may be 0, supervisors
    and bolt executors on each, message time-out and time until a worker has started [s].
    """

    state_bytes: float
    supervisors: int
    executors: int
    timeout_s: float
    start_s: float

    @property
    def text(self) -> str:
        """Return the text of a scenario in which a supervisor dies, with comments for whoever goes on."""
        return _storm_text(self)


def _resolution(scale: int) -> str:
    """Return the line that says for how many records one stands; nothing if it is one."""
    said = f"# As measured: {measured_error(scale)}.\nresolution = {scale} # records that a simulated one stands for\n"
    return said if scale > 1 else ""


def _service(mean_s: float) -> str:
    """Return the law of a service."""
    return f'{{ distribution = "exponential", mean = "{_shown(mean_s, "s")}" }}'


def _flink_text(job: FlinkJob) -> str:
    groups, scale = default_max_parallelism(job.parallelism), job.scale
    service_s = job.busy * job.parallelism / job.rate_per_s
    change = job.change_bytes / (job.rate_per_s * job.interval_s)
    return f"""\
# What happens when a TaskManager of this job dies? Written by `holdfast init flink`.
# `holdfast show FILE --defaults` says what `engine = "flink"` brings, and where each value is from.
format = 1
engine = "flink"
{_resolution(scale)}duration = "{_MINUTES} min"
replications = 4 # at other phases of heartbeats and checkpoints

[workload.events]
rate = "{units.show(job.rate_per_s, "1/s")}"
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
service = {_service(service_s)}
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


def _spark_text(job: SparkQuery) -> str:
    tasks, scale = min(job.executors * job.cores, job.partitions), job.scale
    service_s = job.busy * tasks / job.rate_per_s
    start = f'{{ distribution = "deterministic", value = "{units.show(job.start_s, "s")}" }}'
    return f"""\
# What happens when the driver of this query dies? Written by `holdfast init spark`.
# `holdfast show FILE --defaults` says what `engine = "spark"` brings, and where each value is from.
format = 1
engine = "spark"
{_resolution(scale)}duration = "{_MINUTES} min"
replications = 4 # at other phases of the batches
workload.events = {{ rate = "{units.show(job.rate_per_s, "1/s")}", \
keys = {{ distribution = "uniform", count = 100000 }} }}
hosts.executor = {{ count = {job.executors}, cores = {job.cores} }} # spark.executor.cores
recovery.restart = {start} # process, session, query: measure them
fault_tolerance.interval = "{units.show(job.interval_s, "s")}" # of the trigger; micro_batches.cold: of the first batch
fault_tolerance.remote = "500 MB/s" # rate at which all executors together load and commit states
events.kill = {{ kind = "driver-failure", at = "{_MINUTES // 2} min", \
delay = {{ distribution = "uniform", low = "0 s", high = "{units.show(job.interval_s, "s")}" }} }}
# Or of an executor alone: kind = "host-failure", host = "executor-{job.executors - 1}"
operators.events = {{ kind = "source" }}
operators.sink = {{ kind = "sink", inputs = {{ state = "shuffle" }} }}

[operators.state]
kind = "aggregate"
inputs = {{ events = "key" }}
parallelism = {tasks} # tasks at a time: cores
key_groups = {job.partitions} # state partitions: spark.sql.shuffle.partitions of the first start
service = {_service(service_s)} # cores are busy for {job.busy:.0%} of the time
state = {{ model = "fixed", bytes = "{_shown(job.state_bytes / job.partitions, "B")}", \
change = "{_shown(job.record_bytes, "B")}" }} # of a partition, and by a record
"""


_POLL = 1000  # records, as the engine has it
_RECORDS_PER_S = 100_000  # that a thread restores; a value to begin with


def _kafka_streams_text(job: KafkaStreamsJob) -> str:
    threads, scale = min(job.instances * job.threads, job.partitions), job.scale
    service_s = job.busy * threads / job.rate_per_s
    return f"""\
# What happens when an instance of this application is killed? Written by `holdfast init kafka-streams`.
# `holdfast show FILE --defaults` says what `engine = "kafka-streams"` brings, and where each value is from.
format = 1
engine = "kafka-streams"
{_resolution(scale)}duration = "{_MINUTES} min"
replications = 4 # at other phases of heartbeats and commits

[workload.input]
rate = "{units.show(job.rate_per_s, "1/s")}"
keys = {{ distribution = "uniform", count = 100000 }}

[operators.input] # the topic
kind = "source"
# If a poll takes time (max.poll.records: {_POLL:,}):
# reading = {{ poll = {_POLL}, cost = {{ distribution = "deterministic", value = "5 ms" }} }}

[operators.state]
kind = "aggregate"
inputs = {{ input = "key" }}
parallelism = {threads} # stream threads
key_groups = {job.partitions} # partitions of the topic: tasks, as Kafka Streams calls them
key_hash = "kafka-string" # of Kafka's partitioner, for keys that are strings
# Threads are busy for {job.busy:.0%} of the time.
service = {_service(service_s)}
# Of one task, and what one record changes in it.
state = {{ model = "fixed", bytes = "{_shown(job.state_bytes / job.partitions, "B")}", \
change = "{_shown(job.record_bytes, "B")}" }}
# Of a thread that restores: {_RECORDS_PER_S:,} records a second. Measure yours: the metric restore-rate.
deserialise = "{_shown(job.record_bytes * _RECORDS_PER_S, "B")}/s"

[operators.output] # another topic
kind = "sink"
inputs = {{ state = "shuffle" }}

[hosts.broker] # has the topics, and does not fail

[hosts.app]
count = {job.instances}
cores = {job.threads} # num.stream.threads

[placement]
operators = {{ input = "broker", output = "broker" }}
hosts = ["app"]

[fault_tolerance]
guarantee = "at-least-once" # with "exactly-once" tasks commit every 100 ms, and not every 30 s
remote = "1 GB/s" # what brokers send to all who restore
changelog = {{ standbys = {job.standbys} }} # num.standby.replicas

[events.kill]
kind = "host-failure"
host = "app-0"
at = "{_MINUTES // 2} min"
delay = {{ distribution = "uniform", low = "0 s", high = "30 s" }}
"""


def _storm_text(job: StormTopology) -> str:
    executors, scale = job.supervisors * job.executors, job.scale
    service_s = job.busy * executors / job.rate_per_s
    state = '# state = { model = "fixed", bytes = "1 MB" } # of a task, if it is a stateful bolt\n'
    if job.state_bytes:
        size = _shown(job.state_bytes / executors, "B")
        state = (
            f'state = {{ model = "fixed", bytes = "{size}" }} # of a task; without it states are lost with the worker\n'
        )
    return f"""\
# What happens when a supervisor of this topology dies? Written by `holdfast init storm`.
# `holdfast show FILE --defaults` says what `engine = "storm"` brings, and where each value is from.
format = 1
engine = "storm"
{_resolution(scale)}duration = "{_MINUTES} min"
replications = 4 # at other phases of heartbeats, of looks of Nimbus, and of time-outs

[workload.spout]
rate = "{units.show(job.rate_per_s, "1/s")}"
keys = {{ distribution = "uniform", count = 100000 }}

[operators.spout]
kind = "source"
parallelism = {job.supervisors}

[operators.bolt]
kind = "aggregate"
inputs = {{ spout = "key" }} # fields grouping
parallelism = {executors} # executors
# Executors are busy for {job.busy:.0%} of the time.
service = {_service(service_s)}
{state}
[operators.results] # a bolt that writes them somewhere
kind = "sink"
inputs = {{ bolt = "shuffle" }}
parallelism = {job.supervisors}

[hosts.supervisor] # each has one worker of the topology at the start
count = {job.supervisors}

[recovery] # of a worker: download, JVM, connections. Measure it in the log of a supervisor
restart = {{ distribution = "deterministic", value = "{units.show(job.start_s, "s")}" }}

[fault_tolerance.acker]
timeout = "{units.show(job.timeout_s, "s")}" # topology.message.timeout.secs
# pending = 1000 # topology.max.spout.pending, of each spout executor; without it there is no limit

[events.kill] # or kind = "worker-failure": the supervisor lives, and starts its worker again
kind = "host-failure"
host = "supervisor-0"
at = "{_MINUTES // 2} min"
delay = {{ distribution = "uniform", low = "0 s", high = "{units.show(job.timeout_s, "s")}" }}
"""


def _shown(value: float, dimension: str) -> str:
    """Return a quantity with its unit, to six digits."""
    return units.show(round(value, _DIGITS - 1 - math.floor(math.log10(value))), dimension)
