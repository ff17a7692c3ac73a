"""Apache Storm as a scenario has it: acked trees of tuples, workers that supervisors and Nimbus start again, waves.

Sources are named by class, or by option where the value is that of `conf/defaults.yaml`. Nothing of it was compared
with recordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from models.engines.behaviours import Behaviour, EngineDefault, Milestone, Status

Version = Literal["2.8"]
LATEST: Version = "2.8"
TITLE = "Apache Storm"
SHORT = "Storm"

ACKED = ("fault_tolerance.method", "acker")
STATEFUL = "operators.*.state"


def defaults(version: str) -> Iterator[EngineDefault]:
    """Yield what a scenario says of a version where its file says nothing; the table of behaviours has each path."""
    yaml = f"Storm {version}, defaults.yaml"
    yield EngineDefault("workers.together", True, "a worker holds executors of all components", "DefaultScheduler")
    yield EngineDefault("workers.slots", 4, "supervisor.slots.ports: 6700 to 6703", yaml)
    yield EngineDefault("workers.check", "3 s", "supervisor.monitor.frequency.secs", yaml)
    reported = "worker.heartbeat.frequency.secs: supervisors report so often that their workers live"
    yield EngineDefault("detector.heartbeat", "1 s", reported, yaml)
    yield EngineDefault("detector.timeout", "30 s", "nimbus.task.timeout.secs", yaml)
    yield EngineDefault("detector.check", "10 s", "nimbus.monitor.freq.secs", yaml)
    yield EngineDefault("fault_tolerance.method", "acker", "topology.acker.executors: null, one for each worker", yaml)
    yield EngineDefault(
        "fault_tolerance.guarantee", "at-least-once", "tuples are anchored and acked", "State-checkpointing", when=ACKED
    )
    acker = "fault_tolerance.acker"
    yield EngineDefault(f"{acker}.timeout", "30 s", "topology.message.timeout.secs", yaml, when=ACKED)
    buckets = "two buckets of roots, which a tick of that time rotates"
    yield EngineDefault(f"{acker}.expiry", "rotating", buckets, "SpoutExecutor, RotatingMap", when=ACKED)
    yield EngineDefault(f"{acker}.transport", "links", "acks are tuples", "Acker", when=ACKED)
    commit = "a stateful bolt acks when its state is committed"
    yield EngineDefault(f"{acker}.acks", "covered", commit, "StatefulBoltExecutor", when=ACKED, where=STATEFUL)
    yield EngineDefault(
        "waves.interval", "1 s", "topology.state.checkpoint.interval.ms", yaml, when=ACKED, where=STATEFUL
    )


BEHAVIOURS = (
    Behaviour(
        "Supervisors and workers",
        Status.SIMPLIFIED,
        "A host is a supervisor. The executors that start on it are one worker of the topology, so topology.workers is "
        "the number of hosts with tasks. The topology is alone in its cluster.",
        ("workers.together", "workers.slots"),
    ),
    Behaviour(
        "Executors and tasks",
        Status.SIMPLIFIED,
        "A task of ours is an executor, and has a core of its own unless `hosts.X.cpu` says otherwise; what Storm "
        "calls a task is a key group. Executors are dealt to hosts in turn, as the even scheduler does. Fields "
        "grouping is by another hash than Storm's, as even as that.",
    ),
    Behaviour(
        "Death of a worker",
        Status.MODELLED,
        "The event `worker-failure`: the supervisor looks every 3 s, and starts the worker again on the same host. "
        "All workers of the topology on the host die together.",
        ("workers.check",),
    ),
    Behaviour(
        "Death of a host",
        Status.SIMPLIFIED,
        "Nimbus looks every 10 s, and reassigns executors that were silent for 30 s: 29 to 40 s after the death. All "
        "supervisors have the same phase, and looks are at multiples of 10 s. A supervisor that is back before that "
        "starts its worker as it was. Partitions of the network are absent.",
        ("detector.heartbeat", "detector.timeout", "detector.check"),
    ),
    Behaviour(
        "Reassignment",
        Status.SIMPLIFIED,
        "A lost worker goes as it is to the supervisor with the fewest workers that has a port; where none has one it "
        "waits until a host is back. Storm would deal all executors anew to fewer workers then. Nothing moves back by "
        "itself.",
    ),
    Behaviour(
        "Start of a worker",
        Status.SIMPLIFIED,
        "One time for download, JVM and connections, `recovery.restart`, which a file has to say: no manual does. All "
        "executors of a worker are up together, and connections of others at once (Storm tries every 0.1 to 1 s). A "
        "worker that does not start in time (supervisor.worker.start.timeout.secs) is absent. With `warm_up` hosts are "
        "slower for a time after tasks have started there.",
        ("recovery.restart", "recovery.allocate", "recovery.warm_up"),
    ),
    Behaviour(
        "Lost messages",
        Status.MODELLED,
        "What is sent to a worker that is dead, or not up yet, is lost; all others go on meanwhile.",
    ),
    Behaviour(
        "Acker and time-outs",
        Status.SIMPLIFIED,
        "A root that is not done fails one to two time-outs after it was emitted, and its spout emits it again. Ticks "
        "are at multiples of the time-out for all spouts. The acker stands beside the spout, and its acks travel over "
        "links; it takes no time of a CPU, and what it knows survives a crash, as does what a spout has pending: a "
        "spout of Storm that dies reads again from its last committed offset instead.",
        (
            "fault_tolerance.method",
            "fault_tolerance.acker.timeout",
            "fault_tolerance.acker.expiry",
            "fault_tolerance.acker.transport",
            "fault_tolerance.acker.ack",
        ),
    ),
    Behaviour(
        "Unacked topologies",
        Status.MODELLED,
        'With `method = "none"`, which is topology.acker.executors: 0, nothing comes again.',
    ),
    Behaviour(
        "Pending limit",
        Status.MODELLED,
        "`fault_tolerance.acker.pending` is topology.max.spout.pending; without it there is no limit, as in Storm.",
        ("fault_tolerance.acker.pending",),
    ),
    Behaviour(
        "Guarantee",
        Status.MODELLED,
        "At least once: what comes again may be processed, and delivered, twice.",
        ("fault_tolerance.guarantee",),
    ),
    Behaviour(
        "Bolts without managed state",
        Status.MODELLED,
        "A bolt whose operator has no `state` begins empty when its worker starts.",
    ),
    Behaviour(
        "Stateful bolts",
        Status.SIMPLIFIED,
        "Where an operator has a `state`, the checkpoint spout sends PREPARE and COMMIT over the whole topology. What "
        "was lost is fetched at the INIT after a wave that failed: at once where a started bolt meets a PREPARE, at "
        "its time-out where a wave was lost. Bolts without state wait for the INIT, too, where those of Storm do not. "
        "An acked tuple waits for the COMMIT. Begin and INIT of the topology itself are absent.",
        ("waves.interval", "fault_tolerance.acker.acks"),
    ),
    Behaviour(
        "State providers",
        Status.SIMPLIFIED,
        "States are in a store that never fails, such as Redis, with the times of `state_store`. The in-memory "
        "provider, which is the default and loses states with their worker, is a bolt without `state`.",
    ),
    Behaviour(
        "Rebalance",
        Status.SIMPLIFIED,
        "The event `rebalance` by `dsm`: spouts are deactivated for `wait` (-w; topology.message.timeout.secs where "
        "the command does not say it), then all bolts are killed and start elsewhere, each after `workers.start`. "
        "Spouts stay where they are, and the checkpoint spout goes on meanwhile. Other numbers of executors or workers "
        "(-e, -n) are absent.",
        ("workers.start", "workers.start_per_rank", "workers.gate"),
    ),
    Behaviour(
        "Queues and backpressure",
        Status.SIMPLIFIED,
        "Queues have no bound unless `operators.X.buffer` says so, which is topology.executor.receive.buffer.size, "
        "32,768 in Storm: upstream waits where one is full, up to the spouts. That is for topologies without an acker; "
        "beside one `fault_tolerance.acker.pending` alone bounds what waits.",
        ("operators.*.buffer",),
    ),
    Behaviour(
        "Hung workers",
        Status.ABSENT,
        "A worker lives or is dead: there is no silence of one that lives (supervisor.worker.timeout.secs), no grace "
        "after an assignment (nimbus.task.launch.secs), and a supervisor is its host (nimbus.supervisor.timeout.secs).",
    ),
    Behaviour("Batching", Status.ABSENT, "Each tuple is sent alone (topology.transfer.batch.size)."),
    Behaviour("Windowed bolts", Status.SIMPLIFIED, "Outputs of windows and joins have no root: none comes again."),
    Behaviour("Trident", Status.ABSENT, "No micro-batches, and no exactly once."),
    Behaviour("Other schedulers", Status.ABSENT, "No resource-aware, isolation or multitenant scheduler."),
    Behaviour("Death of Nimbus", Status.ABSENT, "Nimbus, ZooKeeper and the process of a supervisor do not fail."),
)

# As the logs of Nimbus, supervisor and worker have them.
MILESTONES = (
    Milestone("detect", "not_alive", "not alive", "the supervisor has seen the exit, or Nimbus has timed it out"),
    Milestone("restart", "started", "worker started", "all executors run, and take what is sent to them"),
    Milestone("restore", "initialised", "initState", "stateful bolts have what was committed; others need nothing"),
    Milestone("catch_up", "caught_up", "caught up", "what waited is worked off; lost tuples may still have to fail"),
    Milestone("last_replay", "replayed", "failed and replayed", "the last root has failed that the dead worker lost"),
)
