"""How long steps of `megaphone` take under load, and how long tuples wait for them.

Oracle: closed forms of the mechanism:

    step(n) = n b (1/sigma + m/beta + 1/iota)    n key groups of b bytes between two tasks, m senders on a host
    longest latency of all-at-once = its duration = step + 2 phi
    with overlap: max(B/sigma, m B/beta, B/iota), and the time of up to two key groups; B = n b. Of what a host sends
    1 - beta/(m sigma) is written then, and waits for its link, when all is written
    T = (s + 2 phi) / (1 - rho)                  s = step(1), rho: load of the busiest task
    longest latency of steps: s + 2 phi with a gap until queues are empty; T without; T + s with lag
    latency of the frontier of all-at-once: the longest is that of a tuple and less than an epoch more; the median is
    (1 + rho) / 2 of it, for what is born in the middle of the step waits for its rest and for half of the queue
    duration of steps: T for each, with the mean of rho; only the first of few has no queue before it

Tolerances: 3 % of all-at-once; 5 % of latencies up to rho = 0.5, and with a gap up to 0.75; 1 % of durations up to
0.75; over bins 15 % (latency) and 25 %.

Other closed forms: the length of a step, to the nanosecond, in `test_megaphone_times.py`; copies that are held,
exactly, in `test_memory.py`; rounds of tasks that scan their key groups, exactly in `tests/sim/control/test_scans.py`,
and within 5 % in `tests/scenarios/studies/reproduce/test_live_migration.py`. With overlap the table `memory` has all
copies of a step from its begin on: what is written and waits for the link is counted from messages here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest
from bin_jobs import StepTimes, bin_job
from test_megaphone import rows_of

from analysis.runs.reconfigurations import EPOCH_NS, epochs_answered_ns, latencies_of_born
from models.planning.reconfiguration import steps_of
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.run_state import RunState
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocol import Message
from sim.migration.reconfiguration import ReconfigurationContext
from sim.migration.transport import ProtocolRuntime
from sim.plane_values import Parcel

SIGMA = IOTA = 1e8  # speeds at which states are written and read [B/s]
BETA = 1.25e8  # links [B/s]
PHI = 1e-4  # latency [s]


def step_s(size: float, senders: int = 1) -> float:
    """How long it takes to write, send and read so many bytes for each pair."""
    return size * (1 / SIGMA + senders / BETA + 1 / IOTA)


def job(
    events: dict[str, Any],
    rho: float = 0.19,
    groups: int = 256,
    size: float = 5e5,
    tasks: int = 4,
    hosts: int = 4,
    end: str = "3 s",
) -> dict[str, Any]:
    """A job with rho at a task that has one and a half of its share of the key groups."""
    work_s = 20e-6
    raw = bin_job(
        events,
        src={
            "rate": f"{tasks * rho / (1.5 * work_s):.0f} /s",
            "arrivals": "deterministic",
            "keys": {"distribution": "uniform", "count": 100_000},
        },
        op={
            "parallelism": tasks,
            "key_groups": groups,
            "service": {"distribution": "deterministic", "value": "20 us"},
            "state": {"model": "fixed", "bytes": f"{size:.0f} B"},
            "serialise": f"{SIGMA:.0f} B/s",
            "deserialise": f"{IOTA:.0f} B/s",
        },
        hosts={"count": hosts, "network": f"{BETA:.0f} B/s", "cores": tasks // hosts},
        network={"latency": "0.1 ms"},
        recording={"detail": "tuples"},
        duration=end,
    )
    raw["hosts"]["front"] = {"network": "10 Gbit/s"}
    return raw


@dataclass
class Measured:
    """The last reconfiguration of a run; times in seconds."""

    steps: int
    duration_s: float
    latency_s: float
    longest_step_s: float

    @classmethod
    def of(cls, records: RunRecords) -> Measured:
        """Return what the tables say of it."""
        table, tuples = records.tables["reconfigurations"], records.tables["deliveries"]
        own = table["number"] == table["number"].max()
        from_ns, until_ns = table["from_ns"][own], table["installed_ns"][own]
        assert until_ns.min() > 0
        born = (tuples["created_ns"] >= from_ns[0]) & (tuples["created_ns"] < until_ns[-1])
        latency = (tuples["delivered_ns"] - tuples["created_ns"])[born]
        longest = (until_ns - table["passed_ns"][own]).max()
        return cls(int(own.sum()), (until_ns[-1] - from_ns[0]) / 1e9, latency.max() / 1e9, longest / 1e9)


def there(strategy: str = "all-at-once", **event: Any) -> dict[str, Any]:
    """A quarter of the state moves."""
    return {"there": {"at": "10 ms", "strategy": strategy} | event}


def back(strategy: str, **event: Any) -> dict[str, Any]:
    """It moves back, from tasks with one and a half of their share, when queues are empty again: up to rho = 0.5."""
    return there() | {"back": {"at": "1200 ms", "plan": "back", "strategy": strategy} | event}


def measured(raw: dict[str, Any]) -> Measured:
    return Measured.of(rows_of(raw, CompiledPlane))


# -- all at once


def crowded(size: float, **event: Any) -> dict[str, Any]:
    """16 tasks on 4 hosts, of which two have the 8 tasks that send: four over one link, 8 key groups each."""
    return job(there(**event), size=size, tasks=16, hosts=4, end="1 s")


def test_all_at_once_takes_as_long_as_its_states_are_written_sent_and_read() -> None:
    sizes = (2e5, 4e5, 8e5)
    found = [measured(crowded(size)) for size in sizes]
    for size, one in zip(sizes, found, strict=True):
        expected = step_s(8 * size, senders=4) + 2 * PHI
        assert one.duration_s == pytest.approx(expected, rel=0.03)
        assert one.latency_s == pytest.approx(expected, rel=0.03)
    assert log(found[2].latency_s / found[0].latency_s) / log(4) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("scope", ["operator", "bin"])
def test_the_frontier_waits_for_all_at_once_whoever_else_goes_on(scope: str) -> None:
    found = rows_of(crowded(8e5, scope=scope), CompiledPlane)
    table = found.tables["reconfigurations"]
    from_ns, until_ns = int(table["from_ns"][0]), int(table["installed_ns"][0])
    single = latencies_of_born(found, from_ns, until_ns)
    frontier = latencies_of_born(found, from_ns, until_ns, epochs_answered_ns(found))
    expected_ns = 1e9 * (step_s(8 * 8e5, senders=4) + 2 * PHI)
    assert frontier.max() == pytest.approx(expected_ns, rel=0.05)
    assert 0 <= frontier.max() - single.max() < EPOCH_NS
    if scope == "operator":
        assert np.median(frontier) == pytest.approx((1 + 0.19) / 2 * expected_ns, rel=0.02)
    else:  # only what moves is queued, and most tuples do not wait at all
        assert expected_ns / 2 < np.median(frontier) < (1 + 0.19) / 2 * expected_ns
        assert np.median(single) < expected_ns / 20


def test_with_overlap_it_takes_as_long_as_its_slowest_part() -> None:
    size = 4e5
    slowest = max(8 * size / SIGMA, 4 * 8 * size / BETA, 8 * size / IOTA)
    one = measured(crowded(size, overlap="pipelined"))
    assert slowest < one.duration_s < slowest + 2 * step_s(size, senders=4) + 2 * PHI
    assert one.latency_s == pytest.approx(one.duration_s, rel=0.02)
    assert measured(crowded(size)).duration_s > 1.4 * one.duration_s


def most_unsent(senders: int, sigma: float, monkeypatch: pytest.MonkeyPatch, **event: Any) -> list[float]:
    """The most that each host has written and not sent, as a part of all that it sends; `senders` tasks on each.

    A state is written when its message is given to the link, and sent one latency before it comes.
    """
    hosts, each = 4, 64  # key groups that leave a sender
    changes: dict[int, list[tuple[int, int]]] = {}
    send, read = ProtocolRuntime.send, ReconfigurationContext.read

    def written(self: ProtocolRuntime, message: Message, turn: bool, channels: int = 0) -> None:
        if message.kind == "state":
            note(self.state, message.sender, message.parcels[0].bytes)
        send(self, message, turn, channels)

    def come(self: ReconfigurationContext, parcel: Parcel, kind: str, to: Any) -> None:
        step, carry = to
        note(self._state, self._run.plan.steps[step][carry].source, -parcel.bytes, ago_ns=round(PHI * 1e9))
        read(self, parcel, kind, to)

    def note(state: RunState, task: int, size: int, ago_ns: int = 0) -> None:
        changes.setdefault(state.cluster.task_host[task], []).append((state.clock.now_ns() - ago_ns, size))

    monkeypatch.setattr(ProtocolRuntime, "send", written)
    monkeypatch.setattr(ReconfigurationContext, "read", come)
    tasks = senders * hosts  # the odd ones send, which are all those of two hosts
    raw = job(there(**event), groups=2 * each * tasks, size=1e5, tasks=tasks, hosts=hosts, end="2 s")
    raw["operators"]["op"]["serialise"] = f"{sigma:.0f} B/s"
    rows_of(raw, CompiledPlane)
    found = []
    for own in changes.values():
        sizes = np.array([size for _, size in sorted(own)])
        assert sizes.sum() == 0
        assert sizes[sizes > 0].sum() == pytest.approx(senders * each * 1e5, rel=1e-3)
        found.append(float(sizes.cumsum().max() / sizes[sizes > 0].sum()))
    assert len(found) == hosts // 2
    return found


@pytest.mark.parametrize(
    ("senders", "sigma", "printed"), [(2, SIGMA, 0.38), (2, 2 * SIGMA, 0.69), (4, SIGMA, 0.69), (1, SIGMA, 0.0)]
)
def test_with_overlap_a_host_has_written_what_its_link_has_not_sent(
    senders: int, sigma: float, printed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 - beta / (m sigma) of what it sends, to one key group of the 64 of each sender."""
    form = max(0.0, 1 - BETA / (senders * sigma))
    assert form == pytest.approx(printed, abs=0.01)
    for part in most_unsent(senders, sigma, monkeypatch, overlap="pipelined"):
        assert form <= part <= form + 1.01 / 64


def test_without_overlap_a_host_has_written_all_before_its_link_has_sent_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert min(most_unsent(2, SIGMA, monkeypatch)) == 1.0


# -- steps


@pytest.mark.parametrize("rho", [0.19, 0.38])
def test_the_longest_latency_of_steps_is_that_of_the_gap_between_them(rho: float) -> None:
    s = step_s(5e5)
    between = (s + 2 * PHI) / (1 - rho)
    gap, now, lag = (
        measured(job(back("optimised", **event), rho)) for event in ({"gap": "drain"}, {}, {"next": "lag"})
    )
    assert gap.latency_s == pytest.approx(s + 2 * PHI, rel=0.05)
    assert now.latency_s == pytest.approx(between, rel=0.05)
    assert lag.latency_s == pytest.approx(between + s, rel=0.05)
    if rho < 0.25:
        assert 2.0 < lag.latency_s / (s + 2 * PHI) < 2.4
        assert 1.0 < gap.latency_s / (s + 2 * PHI) < 1.1


@pytest.mark.parametrize("rho", [0.56, 0.75])
def test_with_a_gap_the_longest_latency_does_not_depend_on_the_load(rho: float) -> None:
    one = measured(job(back("optimised", gap="drain", at="2500 ms"), rho, end="5 s"))
    assert one.latency_s == pytest.approx(step_s(5e5) + 2 * PHI, rel=0.05)


@pytest.mark.parametrize("rho", [0.19, 0.38, 0.56, 0.75])
def test_steps_take_as_long_as_their_states_and_their_queues(rho: float) -> None:
    idle, mean = step_s(5e5) + 2 * PHI, rho * 1.25 / 1.5
    fluid, matched = (measured(job(back(strategy, at="3 s"), rho, end="6 s")) for strategy in ("fluid", "optimised"))
    assert (fluid.steps, matched.steps) == (64, 32)
    assert fluid.duration_s == pytest.approx(64 * idle / (1 - mean), rel=0.01)
    assert matched.duration_s == pytest.approx(idle + 31 * idle / (1 - mean), rel=0.01)  # before the first no queue is


# -- bins and keys


@pytest.mark.parametrize("strategy", ["fluid", "optimised"])
def test_more_bins_of_the_same_state_make_latency_shorter_and_leave_the_duration(strategy: str) -> None:
    state, counts = 64e6, (64, 128, 256)
    found = [measured(job(there(strategy), groups=n, size=state / n, end="2 s")) for n in counts]
    scaled = [one.latency_s * n for one, n in zip(found, counts, strict=True)]
    assert max(scaled) / min(scaled) < 1.15
    durations = [one.duration_s for one in found]
    assert max(durations) / min(durations) < 1.25
    whole = [measured(job(there(), groups=n, size=state / n, end="2 s")).latency_s for n in counts]
    assert max(whole) / min(whole) < 1.01


@pytest.mark.parametrize("strategy", ["all-at-once", "fluid", "optimised"])
def test_more_state_in_the_same_bins_takes_longer_in_proportion(strategy: str) -> None:
    sizes = (5e5, 2e6)
    less, more = (measured(job(there(strategy), groups=64, size=size, end="2 s")) for size in sizes)
    assert 0.95 < log(more.latency_s / less.latency_s) / log(4) < 1.02
    assert 0.95 < log(more.duration_s / less.duration_s) / log(4) < 1.02


@pytest.mark.parametrize("strategy", ["fluid", "optimised"])
def test_more_bins_of_the_same_size_leave_the_latency(strategy: str) -> None:
    few, many = (measured(job(there(strategy), groups=groups, size=5e5, end="2 s")) for groups in (64, 256))
    assert few.latency_s == pytest.approx(many.latency_s, rel=0.15)
    assert many.duration_s > 3 * few.duration_s


# -- a plan without symmetry


def random_owners(tasks: int, groups: int) -> list[int]:
    """A quarter of the key groups goes anywhere."""
    draw = Random(4)
    chosen = {*draw.sample(range(groups), groups // 4)}
    return [draw.randrange(tasks) if k in chosen else k % tasks for k in range(groups)]


@pytest.mark.parametrize(
    ("strategy", "size", "rho"),
    [
        ("fluid", None, 0.19),
        ("optimised", None, 0.19),
        ("optimised", None, 0.38),
        ("batched", 8, 0.19),
        ("batched", 8, 0.38),
        ("batched", 16, 0.19),
    ],
)
def test_random_moves_take_as_long_as_their_steps(strategy: str, size: int | None, rho: float) -> None:
    """What a step takes follows from its moves; the queue before it from the step before, at the busiest task then.

    The time of each step without load is exact (`test_megaphone_times.py`). With a gap no queue is left, and the
    longest latency is that of the longest step.
    """
    tasks, groups, owners = 16, 1024, random_owners(16, 1024)
    batch = {} if size is None else {"size": size}
    raw, drained = (
        job(
            there(strategy, owners=owners, **batch, **gap),
            rho,
            tasks=tasks,
            groups=groups,
            end="5 s" if size is None else "1.5 s",
        )
        for gap in ({}, {"gap": "drain"})
    )
    scenario = scenario_from(raw)
    steps = steps_of(scenario, "there", RunInputs(steps=optimised_steps(scenario, {})))
    times = StepTimes(write_ns=5_000_000, send_ns=4_000_000, read_ns=5_000_000, latency_ns=100_000)
    each_s = np.array([times.step_ns(step.moves, hosts=4) for step in steps]) / 1e9
    own, busiest = Counter(k % tasks for k in range(groups)), []
    for step in steps:
        own.subtract(move.source for move in step.moves)
        own.update(move.target for move in step.moves)
        busiest.append(rho / 1.5 * max(own.values()) / (groups / tasks))
    one, other = measured(raw), measured(drained)
    queues_s = (each_s / (1 - np.array(busiest)) - each_s)[:-1]  # none is before the first
    assert one.steps == other.steps == len(steps)
    assert one.duration_s == pytest.approx(each_s.sum() + queues_s.sum(), rel=0.01)
    assert other.latency_s - 2 * PHI == pytest.approx(each_s.max(), rel=0.01)  # it takes 2 PHI where nothing moves
    assert one.latency_s > 1.05 * other.latency_s


def test_of_random_moves_those_that_do_not_interfere_take_least() -> None:
    """Matched moves take fewer steps than batches of half as many as there are tasks, less time, and shorter waits.

    Batches of as many as there are tasks take fewer steps still and as much time, at the price of longer waits.
    """
    tasks, groups, owners = 16, 1024, random_owners(16, 1024)
    moves = [(k % tasks, owner) for k, owner in enumerate(owners) if owner != k % tasks]
    busiest = max(*Counter(a for a, _ in moves).values(), *Counter(b for _, b in moves).values())

    def run(strategy: str, **event: Any) -> Measured:
        events = there(strategy, owners=owners, **event)
        return measured(job(events, tasks=tasks, groups=groups, size=2e5, end="2 s"))

    matched, fluid = run("optimised"), run("fluid")
    small, large = run("batched", size=8), run("batched", size=16)
    assert (matched.steps, fluid.steps) == (busiest, len(moves))
    assert (small.steps, large.steps) == (-(-len(moves) // 8), -(-len(moves) // 16))
    assert matched.steps < small.steps
    assert matched.duration_s < 0.8 * small.duration_s
    assert matched.duration_s == pytest.approx(large.duration_s, rel=0.1)
    assert fluid.latency_s < 0.7 * matched.latency_s < 0.7 * small.latency_s < 0.7 * large.latency_s
    assert large.latency_s > 1.3 * matched.latency_s
    assert fluid.duration_s > 4 * small.duration_s
    # With a gap: a step of one key group, and one in which all four tasks of a host send, or more than one is sent.
    idle_s = 2 * PHI  # a tuple takes that long where nothing moves
    drained = [run(one, gap="drain").latency_s - idle_s for one in ("fluid", "optimised")]
    assert drained[0] == pytest.approx(step_s(2e5) + 2 * PHI, rel=0.05)
    assert drained[1] == pytest.approx(step_s(2e5, senders=4) + 2 * PHI, rel=0.05)
    assert run("batched", size=16, gap="drain").latency_s > 1.3 * drained[1]
