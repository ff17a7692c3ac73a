"""A job in which one key group moves, and closed forms of what its moves take, to the nanosecond.

Tuples come one by one at equal gaps, so that replayed tuples, kept outputs and new tuples are counts, not means. The
forms are those of `docs/explanation/protocols.md`, with whole tuples. They hold as long as the target has nothing else
to do and no task upstream sends a tuple at the very instant of its switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from small_jobs import NS, scenario

from models.scenario.inputs import RunInputs
from sim.engine import simulate
from sim.migration.protocols.cpal import CaughtUpCPAL

TUPLE, STATE = 150, 11_000_000  # B
LINK, DISK, STORE = 50_000_000, 30_000_000, 20_000_000  # B/s
LATENCY, UPSTREAM = 1_000_000, 4
INTERVAL = 40 * NS  # of checkpoints, and the instant of the first
ON_LINK = TUPLE * NS // LINK
REMOTE = {"store": "remote", "remote": f"{STORE} B/s"}


@dataclass(frozen=True)
class Job:
    """One key group, for which a tuple is created at each whole multiple of the gap, and its move. All times in ns.

    `age` is the time from the checkpoint that worker-1 holds to the request of the move.
    """

    age: int
    gap: int = 1_600_000
    service: int = 100_000

    @property
    def asked(self) -> int:
        """When the move is asked for."""
        return INTERVAL + self.age

    @property
    def load(self) -> float:
        """The share of the time in which the owner is busy."""
        return self.service / self.gap

    @property
    def to_state(self) -> int:
        """The time from the creation of a tuple until the state has it, where nothing delays it."""
        return ON_LINK + LATENCY + self.service

    def count_arrivals(self, after: int, until: int) -> int:
        """Count the arrivals after an instant, up to and with another one."""
        return until // self.gap - after // self.gap

    def meanwhile(self, after: int, until: int) -> int:
        """Count arrivals between two instants that are given since the request."""
        return self.count_arrivals(self.asked + after, self.asked + until)

    def checkpoint_bytes(self, at: int) -> int:
        """Return the size of a checkpoint: the state, and the outputs since the sink acknowledged all at INTERVAL."""
        delivered = 0 if at == INTERVAL else INTERVAL - self.to_state - ON_LINK - LATENCY
        return STATE + self.count_arrivals(delivered, at - self.to_state) * TUPLE


class Moved(NamedTuple):
    """How a move went, in ns since it was requested."""

    replayed: int
    paused: int
    resumed: int
    completed: int


class Outcome(NamedTuple):
    """A simulated move, and the longest time of a tuple of the group."""

    moved: Moved
    worst: int


def simulated(job: Job, protocol: str, target: str, arrivals: str = "deterministic", **store: Any) -> Outcome:
    """Simulate the move to a host; the checkpoint at INTERVAL is with worker-1, or in a remote store."""
    wait = INTERVAL - job.age if protocol == "lazy_move" else 0
    duration = wait + 3 * NS + round(2 * job.age * job.load)
    made = scenario(_keys(job, duration, arrivals, store) | {"events": {"move": _move(job, protocol, target)}})
    records = simulate(made, RunInputs(checkpoint_hosts={("sum", 0): "worker-1"}))
    (row,) = _rows(records.tables["migrations"])
    assert row["protocol"] == protocol
    assert not records.tables["ledger"]["lost"].any()
    paused, resumed, completed = (row[f"{what}_ns"] - job.asked for what in ("paused", "resumed", "completed"))
    return Outcome(Moved(row["replayed"], paused, resumed, completed), row["worst_ns"])


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


def _keys(job: Job, duration: int, arrivals: str, store: dict[str, Any]) -> dict[str, Any]:
    keys = {"distribution": "uniform", "count": 400}
    rate = f"{NS / job.gap!r} /s"
    aggregate = {
        "kind": "aggregate",
        "inputs": {"in": "key"},
        "service": {"distribution": "deterministic", "value": f"{job.service} ns"},
        "serialise": f"{DISK} B/s",
        "deserialise": f"{DISK} B/s",
        "state": {"model": "fixed", "bytes": f"{STATE} B"},
    }
    checkpoints = {"method": "checkpoint", "interval": f"{INTERVAL} ns", "staggered": False, "kind": "full"}
    return {
        "format": 1,
        "seed": 5,
        "duration": f"{job.asked + duration} ns",
        "workload": {"in": {"rate": rate, "arrivals": arrivals, "keys": keys, "tuple": f"{TUPLE} B"}},
        "operators": {
            "in": {"kind": "source", "parallelism": UPSTREAM},
            "sum": aggregate,
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {
            "edge": {"count": UPSTREAM, "network": f"{LINK} B/s"},
            "worker": {"count": 3, "network": f"{LINK} B/s"},
            "end": {},
        },
        "placement": {
            "tasks": {f"in-{k}": f"edge-{k}" for k in range(UPSTREAM)} | {"sum-0": "worker-0", "out-0": "end-0"}
        },
        "network": {"latency": f"{LATENCY} ns", "sharing": "fifo"},
        "fault_tolerance": checkpoints | store,
    }


def _move(job: Job, protocol: str, target: str) -> dict[str, Any]:
    at = f"{job.asked} ns"
    return {"kind": "migrate", "at": at, "operator": "sum", "key_group": 0, "host": target, "protocol": protocol}


def transfer(size: int, per_s: int) -> int:
    """Return how long so many bytes take [ns]."""
    return round(size * NS / per_s)


def replaying(job: Job, begun: int, since: int) -> Moved:
    """Return a move by CPA that begins so long after its request; tuples since the instant `since` are replayed.

    The parts from upstream differ by one tuple at most. The smallest comes first; the target serves all without a gap.
    """
    redirected = begun + LATENCY
    replayed = job.count_arrivals(since - job.to_state, job.asked + redirected)
    done = redirected + replayed // UPSTREAM * ON_LINK + LATENCY + replayed * job.service
    return Moved(replayed, redirected, done, done)


def cpa(job: Job) -> Moved:
    """Upstream replays what it has kept since the checkpoint."""
    return replaying(job, 0, INTERVAL)


def direct(job: Job) -> Moved:
    """A checkpoint is written, sent and read; the coordinator hears that it has come, and that it has been read."""
    size = job.checkpoint_bytes(job.asked)
    loaded = 2 * transfer(size, DISK) + transfer(size, LINK) + 3 * LATENCY
    return replaying(job, loaded, job.asked)


def lazy_move(job: Job) -> Moved:
    """The next periodic checkpoint is written and sent, and the coordinator hears of it."""
    size = job.checkpoint_bytes(2 * INTERVAL)
    stored = INTERVAL - job.age + transfer(size, DISK) + transfer(size, LINK) + LATENCY
    return replaying(job, stored + LATENCY, 2 * INTERVAL)


def cpal(job: Job) -> Moved:
    """As CPA; then the target serves what upstream has sent to both until it heard of the end of the replay."""
    replayed, redirected, done, _ = cpa(job)
    return _switched(job, replayed, done, 0, redirected)


def cpal_caught_up(job: Job) -> Moved:
    """As CPAL, but in each round the target first serves what came until the end of the round before."""
    replayed, redirected, done, _ = cpa(job)
    served = 0
    for _ in range(CaughtUpCPAL.rounds):
        come = job.meanwhile(redirected, done - LATENCY - ON_LINK)
        done += (come - served) * job.service
        served = come
    return _switched(job, replayed, done, served, redirected)


def _switched(job: Job, replayed: int, asked: int, served: int, redirected: int) -> Moved:
    """Return the move whose target asks for the switch at an instant, and has served so many of the new tuples."""
    twice = job.meanwhile(redirected, asked + LATENCY)
    ready = asked + max(2 * LATENCY, (twice - served) * job.service)
    return Moved(replayed, ready, ready, ready)


def remote_cpa(job: Job) -> Moved:
    """The target fetches and reads the checkpoint; what comes while it is fetched is served right behind the replay."""
    replayed, redirected, _, _ = cpa(job)
    fetched = _fetched(job)
    held = job.meanwhile(redirected, fetched - LATENCY - ON_LINK)
    done = fetched + transfer(job.checkpoint_bytes(INTERVAL), DISK) + (replayed + held) * job.service
    return Moved(replayed, redirected, done, done)


def _fetched(job: Job) -> int:
    """Return when the checkpoint has come from the store: the first `to_state` asks for it."""
    replayed, _, done, _ = cpa(job)
    return done - replayed * job.service + transfer(job.checkpoint_bytes(INTERVAL), STORE) + LATENCY


def remote_cpal(job: Job) -> Moved:
    """The same while the old owner goes on; each tuple goes over the link to it first."""
    replayed, redirected, done, _ = remote_cpa(job)
    served = job.meanwhile(redirected, _fetched(job) - LATENCY - 2 * ON_LINK)
    return _switched(job, replayed, done, served, redirected)


def remote_direct(job: Job) -> Moved:
    """A checkpoint is written, sent to the store, stored, fetched and read."""
    size = job.checkpoint_bytes(job.asked)
    loaded = 2 * transfer(size, DISK) + transfer(size, LINK) + 2 * transfer(size, STORE) + 4 * LATENCY
    return replaying(job, loaded, job.asked)
