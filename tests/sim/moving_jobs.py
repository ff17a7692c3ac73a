"""Jobs whose key groups move, hosts that die at instants at which something of a move happens, and what must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from resting import run_to_rest, undone
from small_jobs import scenario
from uneven_clock import UnevenClock

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate, StepRate
from models.units import to_ns
from sim.clock import Clock
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.migration.move import MoveProtocol
from sim.migration.protocol import Message
from sim.plain.plane import PlainPlane

MS = 1_000_000
HOSTS = 5
STUCK_NS = 1_500 * MS  # nothing waits so long but what was forgotten


@dataclass(frozen=True)
class Crash:
    """A host dies, and comes back or not; or it is `fenced`, and back after a time."""

    host: int
    at_ns: int
    repair_ns: int | None
    fenced: bool = False


def moving_job(seed: int, protocol: str, most: int = 3, **storm: Any) -> Scenario:
    """The scenario of `moving_keys`."""
    return scenario(moving_keys(seed, protocol, most, **storm))


def moving_keys(seed: int, protocol: str, most: int = 3, **storm: Any) -> dict[str, Any]:
    """A source, two keyed operators and a sink on five hosts, with one to `most` moves by the protocol.

    `storm` is the law by which hosts fail, if they do, and then each tuple is processed once or more.
    """
    draw = Random(seed)

    def operator(upstream: str) -> dict[str, Any]:
        slow = {"serialise": "1 MB/s", "deserialise": "1 MB/s"} if draw.random() < 0.5 else {}
        return {
            "kind": "aggregate",
            "inputs": {upstream: "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": {"distribution": "exponential", "mean": f"{draw.choice([1, 2, 4])} ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        } | slow

    moves = {
        f"m{k}": {
            "kind": "migrate",
            "at": f"{draw.randint(800, 2800)} ms",
            "operator": draw.choice(["one", "two"]),
            "key_group": draw.randrange(4),
            "host": f"h-{draw.randrange(HOSTS)}",
            "protocol": protocol,
        }
        for k in range(draw.randint(1, most))
    }
    keys = {"distribution": "uniform", "count": draw.choice([4, 20])}
    raw: dict[str, Any] = {
        "format": 1,
        "seed": seed,
        "duration": "5 s",
        "workload": {"in": {"rate": f"{draw.choice([50, 100, 200])} /s", "keys": keys}},
        "operators": {
            "in": {"kind": "source", "parallelism": draw.choice([1, 2])},
            "one": operator("in") | {"output": {"keys": {"distribution": "uniform", "count": 8}}},
            "two": operator("one"),
            "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
        },
        "hosts": {
            "h": {
                "count": HOSTS,
                "cpu": draw.choice(["shared", "dedicated"]),
                "network": draw.choice(["500 kB/s", "1 MB/s", "100 MB/s"]),
            }
        },
        "network": {"latency": f"{draw.choice([1, 5, 20])} ms", "sharing": "fifo"},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": f"{draw.choice([100, 300, 700])} ms",
            "staggered": draw.random() < 0.5,
        },
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "events": moves,
    }
    if storm:
        raw["hosts"]["h"]["failures"] = storm
        raw["fault_tolerance"]["guarantee"] = "at-least-once"
    return raw


def _assist(control: Control, draw: Random) -> None:
    """Have most moves go to the host that holds the checkpoint."""
    request = control.migrations.request

    def assisted(group: int, host: int, protocol: str, cause: str = "event") -> None:
        checkpoint_host = control.plane.checkpoint_host(control.cluster.owner_of(group))
        assisted = checkpoint_host is not None and checkpoint_host >= 0 and draw.random() < 0.8
        request(group, checkpoint_host if assisted and checkpoint_host is not None else host, protocol, cause)

    control.migrations.request = assisted  # type: ignore[method-assign]


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    control: Control
    records: RunRecords
    moments: list[int]  # instants at which something of a move happened
    phases: dict[str, list[int]]  # the same by the kind of the message that was handled
    faults: list[str]


def run(
    made: Scenario,
    plane: PlaneFactory,
    crash: Crash | Sequence[Crash] | None = None,
    instead: dict[str, type[MoveProtocol]] | None = None,
    clock: Clock | None = None,
    assists: bool = True,
    more_ns: int = 0,
    inputs: RunInputs | None = None,
    to_rest: bool = False,
) -> Outcome:
    """The run with these crashes; `instead` replaces protocols by name; it ends `more_ns` after the last arrival.

    `assists`: most moves go to a host that can help. `to_rest`, on the plain plane: timers end with the arrivals, and
    the run goes on until all that began is over.
    """
    plan = RunPlan.of(made, inputs or RunInputs(), 0)
    if crash is not None:  # also in a job whose file says that nothing fails
        plan = replace(plan, keeps_ids=True)
    control = Control(plan, plane, clock)
    if isinstance(clock, UnevenClock):
        clock.bears = lambda task: control.plan.operators[control.cluster.task_operator[task]].is_source
    moves, phases = control.migrations, dict[str, list[int]]()
    if assists:
        _assist(control, Random(made.seed + 1))
    moves.protocols = moves.protocols | (instead or {})
    runtime = control.coordinator.runtime
    deliver, stored = runtime.deliver, runtime.stored

    def noted(message: Message) -> None:
        phases.setdefault(message.kind, []).append(control.clock.now_ns())
        deliver(message)

    def noted_stored(partition: int) -> None:
        phases.setdefault("stored", []).append(control.clock.now_ns())
        stored(partition)

    runtime.deliver, runtime.stored = noted, noted_stored  # type: ignore[method-assign]
    control.start()
    happens = [crash] if isinstance(crash, Crash) else crash or []
    for one in happens:
        control.clock.process(_dies(control, one))
    end = to_ns(made.duration_s) + more_ns
    if to_rest:
        end = run_to_rest(control, end, max([end, *(one.at_ns + (one.repair_ns or 0) + 1 for one in happens)]))
    else:
        control.run(end)
    faults = undone(control) if to_rest else []
    made_records = records(control, end)
    moments = sorted({at for instants in phases.values() for at in instants})
    return Outcome(control, made_records, moments, phases, faults + _faults(control, made_records, end))


def _dies(control: Control, crash: Crash) -> Any:
    yield control.clock.sleep(crash.at_ns)
    if crash.fenced:
        assert crash.repair_ns is not None
        control.failures.fence(crash.host, crash.at_ns + crash.repair_ns)
    else:
        control.failures.fail(crash.host, crash.repair_ns)


def _faults(control: Control, made: RunRecords, end_ns: int) -> list[str]:
    """What must not be: lost or duplicated state, tuples that nobody takes, moves without end, two owners."""
    cluster, plan, ledger = control.cluster, control.plan, made.tables["ledger"]
    found = [f"{name} {ledger[name].tolist()}" for name in ("lost", "duplicated") if ledger[name].any()]
    if isinstance(control.plane, PlainPlane) and control.plane.watermarks.late:
        found.append("tuples are late")
    waiting = made.tables["waiting"]["arrival_ns"]
    if ((waiting >= 0) & (waiting < end_ns - STUCK_NS)).any():
        found.append("tuples are stuck")
    if sum(lag for _, lag in control.plane.lag()) > made_rate(plan.scenario) * STUCK_NS / 1e9:
        found.append("sources are stuck")
    if any(run.requested_ns < end_ns - STUCK_NS for run in control.migrations.open.values()):
        found.append("a move does not end")
    moving = [operator.index for operator in plan.operators if operator.description.movable]
    for group in (
        partition
        for index in moving
        for partition in range(plan.first_partition[index], plan.first_partition[index + 1])
    ):
        live = [partition for partition in cluster.instances_of(group) if cluster.partition_live[partition]]
        if group in control.migrations.open:
            continue  # a young move, or it has been named above
        owner, replica = cluster.owner_of(group), list(control.replicas.of_group(group))
        if sorted(live) != sorted([owner, *replica]):
            found.append(f"key group {group}: {live} are live, {owner} is the owner, {replica} its replica")
        if replica and cluster.host_of(owner) == cluster.host_of(replica[0]):
            found.append(f"key group {group}: the replica is on the host of the owner")
    return found


def made_rate(made: Scenario) -> float:
    """Tuples per second of the source, at the most."""
    rate = made.workload["in"].rate
    if isinstance(rate, StepRate):
        return max(step.rate_per_s for step in rate.steps)
    assert isinstance(rate, ConstantRate)
    return rate.constant_per_s


def crashes(seed: int, moments: list[int], count: int) -> list[Crash]:
    """Crashes at such instants or just after, of any host."""
    draw = Random(seed)
    return [
        Crash(draw.randrange(HOSTS), draw.choice(moments) + draw.randrange(2), draw.choice([None, 400 * MS, 30 * MS]))
        for _ in range(count if moments else 0)
    ]
