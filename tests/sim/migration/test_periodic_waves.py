"""Periodic waves and DSM with a clock, on both planes: instants by closed forms, states that come back, replay."""

from __future__ import annotations

from typing import Any

import pytest

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocol import Restart
from sim.migration.rebalance import RebalanceRun
from sim.plain.plane import PlainPlane

MS = 1_000_000
SRC, A, B, OUT = range(4)  # partitions and tasks of the chain


@pytest.fixture(params=[PlainPlane, CompiledPlane], ids=["plain", "compiled"])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def chain(waves: dict[str, Any], rate: str = "0.01 /s", duration: str = "30 s", **acker: Any) -> Scenario:
    """A source, two tasks with state and 3 ms for each tuple, and a sink, each on a host of its own; 1 ms between."""
    stage = {
        "kind": "aggregate",
        "key_groups": 1,
        "service": {"distribution": "deterministic", "value": "3 ms"},
        "state": {"model": "per-key", "bytes": "100 B"},
    }
    raw = {
        "duration": duration,
        "workload": {
            "src": {"arrivals": "deterministic", "rate": rate, "keys": {"distribution": "uniform", "count": 5}}
        },
        "operators": {
            "src": {"kind": "source"},
            "a": stage | {"inputs": {"src": "key"}},
            "b": stage | {"inputs": {"a": "key"}},
            "out": {"kind": "sink", "inputs": {"b": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}, "n": {"count": 3}},
        "placement": {"tasks": {f"{name}-0": f"h-{k}" for k, name in enumerate(["src", "a", "b", "out"])}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "acker", "guarantee": "at-least-once", "acker": {"timeout": "2 s"} | acker},
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "waves": {"interval": "2 s", "phase": "500 ms"} | waves,
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


class Driven:
    """A run in which tasks are killed and start again, hosts die, and the dataflow is rebalanced by DSM."""

    def __init__(self, made: Scenario, plane: PlaneFactory) -> None:
        self.control = Control(RunPlan.of(made, RunInputs(), 0), plane)
        self.control.start()

    def kill(self, partition: int, at_ms: int, start_ms: int) -> None:
        """Kill the task of a partition, whose successor is up after a time."""
        at, relocation = self.control.cluster.partition_task, self.control.coordinator.runtime.relocation
        host = self.control.cluster.host_of(partition)
        self.control.clock.at(
            at_ms * MS, 0, lambda _: relocation.restart(Restart(at[partition], host, start_ms * MS, gate_ns=100 * MS))
        )

    def dies(self, host: int, at_ms: int) -> None:
        """Let a host die for good."""

        def process() -> Process:
            yield self.control.clock.sleep(at_ms * MS)
            self.control.failures.fail(host, None)

        self.control.clock.process(process())

    def rebalance(self, at_ms: int, start_ms: int, command_ms: int = 0) -> None:
        """Move a, b and the sink to hosts of their own by DSM."""
        hosts = {A: 4, B: 5, OUT: 6}
        self.control.clock.at(
            at_ms * MS,
            0,
            lambda _: self.control.rebalances.request(
                "dsm", hosts, dict.fromkeys(hosts, start_ms * MS), command_ms * MS, gate_ns=100 * MS
            ),
        )

    def run(self, until_ms: int) -> RunRecords:
        """Run, and return the rows."""
        self.control.run(until_ms * MS)
        return records(self.control, until_ms * MS)

    def sent(self) -> list[tuple[float, str, int]]:
        """Return (instant [ms], kind, number) of the waves."""
        run = self.control.checkpoint_source.run
        assert run is not None
        return [(at_ns / MS, *wave) for at_ns, wave in run.sent]


WORK = {"prepare": "5 ms", "commit": "20 ms", "init": "30 ms"}
# A message takes 1 ms to the source, and 1 ms to each of the three others; the last answer comes 1 ms after that.
PREPARED = 5 + 2 * 5
# The state store takes 1 ms each way, for each of the three.
COMMITTED = 5 + 2 * 20 + 3 * 2


def test_a_wave_begins_after_each_interval_and_commits_behind_its_prepare(plane: PlaneFactory) -> None:
    driven = Driven(chain(WORK), plane)
    driven.run(7000)
    expected = []
    for number, at in enumerate((2500, 4500, 6500), start=1):
        expected += [(at, "prepare", number), (at + PREPARED, "commit", number)]
    assert driven.sent() == expected


def test_a_step_takes_its_time(plane: PlaneFactory) -> None:
    step = {"distribution": "deterministic", "value": "300 ms"}
    driven = Driven(chain(WORK | {"step": step}), plane)
    driven.run(4000)
    assert driven.sent() == [(2500, "prepare", 1), (2500 + PREPARED + 300, "commit", 1)]


def test_a_task_without_its_state_fails_a_wave_at_once(plane: PlaneFactory) -> None:
    """PREPARE is at b, the last but one, 3 ms and the work of a after it was sent; b answers without work."""
    driven = Driven(chain(WORK), plane)
    driven.kill(B, 5000, 100)
    driven.run(10000)
    refused = 6500 + 3 + 5 + 1
    init = refused + 5
    assert driven.sent()[4:] == [
        (6500, "prepare", 3),
        (refused, "rollback", 4),
        (init, "init", 5),
        (8500, "prepare", 6),
        (8500 + PREPARED, "commit", 6),
    ]
    assert all(driven.control.cluster.partition_live)


@pytest.mark.parametrize(
    ("expiry", "noticed_ms"),
    [
        ("exact", 8500),  # one time-out after it was sent
        ("rotating", 10000),  # the first tick that is a time-out later: not the one at 8000
    ],
)
def test_a_wave_that_meets_a_task_that_is_down_is_noticed_at_its_time_out(
    expiry: str, noticed_ms: int, plane: PlaneFactory
) -> None:
    driven = Driven(chain(WORK, expiry=expiry), plane)
    driven.kill(B, 5000, 3000)
    driven.run(12000)
    init = noticed_ms + 5
    assert driven.sent()[4:7] == [(6500, "prepare", 3), (noticed_ms, "rollback", 4), (init, "init", 5)]
    # No wave has begun at 8500, or at 10500 in the second case only if that one was over.
    assert driven.sent()[7][:2] == (10500, "prepare")
    assert all(driven.control.cluster.partition_live)


def test_an_init_that_meets_a_task_that_is_down_is_sent_again_at_its_time_out(plane: PlaneFactory) -> None:
    """b is up and fails the wave at 6500; the sink is down until 9 s, so ROLLBACK is lost, and sent again at 8.5 s."""
    driven = Driven(chain({}, expiry="exact"), plane)
    driven.kill(A, 6000, 100)
    driven.kill(OUT, 6200, 3000)
    driven.run(14000)
    waves = driven.sent()[4:]
    # PREPARE takes 2 ms to a, its answer 1 ms.
    assert [wave[:2] for wave in waves[:4]] == [
        (6500, "prepare"),
        (6503, "rollback"),
        (8503, "rollback"),
        (10503, "rollback"),
    ]
    assert [wave[1] for wave in waves[4:]] == ["init", "prepare", "commit"]
    assert all(driven.control.cluster.partition_live)


def lost(found: RunRecords) -> dict[int, int]:
    """Return how many tuples each operator lacks, by number."""
    table = found.tables["ledger"]
    return dict(zip(table["operator"].tolist(), table["lost"].tolist(), strict=True))


@pytest.mark.parametrize("expiry", ["exact", "rotating"])
@pytest.mark.parametrize("acks", ["covered", "literal"])
def test_dsm_processes_every_tuple_at_least_once(acks: str, expiry: str, plane: PlaneFactory) -> None:
    """With covered acks states have them all; with literal ones they lack those since the last COMMIT, at 10.5 s."""
    made = chain({}, rate="50 /s", duration="20 s", acks=acks, expiry=expiry)
    driven = Driven(made, plane)
    driven.rebalance(11000, 300, command_ms=200)
    found = driven.run(60_000)
    (run,) = driven.control.rebalances.runs
    assert isinstance(run, RebalanceRun)
    assert list(run.marks) == ["begun", "commanded", "up", "first_init", "last_init", "over"]
    assert run.marks["commanded"] == 11200 * MS
    assert run.marks["up"] == 11500 * MS
    # It is found at 12.5 s that states are missing.
    assert 12500 * MS < run.marks["first_init"] < run.marks["last_init"] < 12600 * MS
    assert [driven.control.cluster.host_of(one) for one in (A, B, OUT)] == [4, 5, 6]
    messages, states = lost(found)[OUT], lost(found)[A] + lost(found)[B]
    assert messages == 0
    assert (states == 0) is (acks == "covered")
    replayed = found.tables["replays"]["count"].sum()
    dropped = sum(reason == "kill" for reason in found.tables["dropped"]["reason"].tolist())
    assert replayed >= dropped > 10


def test_dsm_is_called_off_by_a_crash_before_it_kills(plane: PlaneFactory) -> None:
    driven = Driven(chain({}, rate="50 /s", duration="20 s", acks="covered"), plane)
    driven.rebalance(11000, 300, command_ms=2000)
    driven.dies(1, 11200)
    found = driven.run(60_000)
    (run,) = driven.control.rebalances.runs
    assert "commanded" not in run.marks
    assert run.over
    assert not any(lost(found).values())


@pytest.mark.parametrize(
    ("host", "at_ms"),
    [
        pytest.param(host, at_ms, marks=() if (row + column) % 2 == 0 else pytest.mark.slow)
        for row, host in enumerate((0, 1, 4, 5, 6))
        for column, at_ms in enumerate((11100, 11400, 11900, 12520, 14000))
    ],
)
def test_a_crash_beside_dsm_loses_nothing_with_covered_acks(host: int, at_ms: int, plane: PlaneFactory) -> None:
    """Hosts of the source, of a before, and of all three after the rebalance: before the kill, and in each phase."""
    driven = Driven(chain({}, rate="50 /s", duration="20 s", acks="covered"), plane)
    driven.rebalance(11000, 300, command_ms=200)
    driven.dies(host, at_ms)
    found = driven.run(60_000)
    (run,) = driven.control.rebalances.runs
    assert run.over
    assert not any(lost(found).values())
    assert all(driven.control.cluster.partition_live)
