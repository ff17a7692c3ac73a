"""What control knows between a crash and the instant at which it is detected, and what it does then.

Oracles: instants and hosts worked out by hand; the ledger; the plain plane; handlers that must not be called.
"""

from __future__ import annotations

from typing import Any

import pytest
from decided import said as decided
from moving_jobs import MS, Crash, crashes, moving_job, run
from small_jobs import scenario
from test_planes import differences, on_both

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.move import MoveContext, MoveProtocol
from sim.migration.protocol import Message
from sim.migration.protocols.cpa import CPA
from sim.plain.plane import PlainPlane
from sim.plane_values import CONTROL

DETECTED = 3000  # of a crash at 2.05 s [ms]: a time-out after the heartbeat of 2 s


def job(events: dict[str, Any], **tolerance: Any) -> dict[str, Any]:
    """Two tasks on h-1 and h-2 between a source and a sink on h-0; h-3 is spare and holds the checkpoints."""
    return {
        "duration": "8 s",
        "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 20}}},
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "key_groups": 2,
                "parallelism": 2,
                "service": {"distribution": "exponential", "mean": "2 ms"},
                "state": {"model": "per-key", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "placement": {"tasks": {"in-0": "h-0", "sum-0": "h-1", "sum-1": "h-2", "out-0": "h-0"}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"} | tolerance,
        "detector": {"heartbeat": "1 s", "timeout": "1 s"},
        "events": events,
    }


def dies(host: int, at: int, repair: int | None = None) -> dict[str, Any]:
    back = {} if repair is None else {"repair": f"{repair} ms"}
    return {"kind": "host-failure", "host": f"h-{host}", "at": f"{at} ms"} | back


def moves(at: int, host: int = 3) -> dict[str, Any]:
    to = {"operator": "sum", "key_group": 0, "host": f"h-{host}", "protocol": "cpa"}
    return {"kind": "migrate", "at": f"{at} ms"} | to


def rows(raw: dict[str, Any]) -> RunRecords:
    checkpoint_hosts = {("sum", 0): "h-3", ("sum", 1): "h-3"}
    return simulate(scenario(raw), RunInputs(checkpoint_hosts=checkpoint_hosts), plane=CompiledPlane)


def column(records: RunRecords, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a table, row by row, instants in ms."""
    values = [records.tables[table][name].tolist() for name in names]
    whole = [
        [one if one == NEVER or not name.endswith("_ns") else one / MS for one in each]
        for name, each in zip(names, values, strict=True)
    ]
    return list(zip(*whole, strict=True))


def test_checkpoints_go_to_a_dead_checkpoint_host_until_that_is_detected() -> None:
    records = rows(job({"dies": dies(3, 2050)}))
    taken = column(records, "checkpoints", "taken_ns", "checkpoint_host", "stored_ns")
    between = [row for row in taken if 2050 < row[0] < DETECTED]
    assert len(between) == 2 * 3  # at 2.1, 2.4 and 2.7 s
    assert {(checkpoint_host, stored) for _, checkpoint_host, stored in between} == {(3, NEVER)}
    assert {checkpoint_host for at, checkpoint_host, _ in taken if at >= DETECTED} <= {0, 1, 2}
    assert all(stored != NEVER for at, _, stored in taken if DETECTED <= at < 7900)


def test_partitions_are_sent_to_a_dead_host_and_recovered_when_that_is_detected() -> None:
    # With the remote store the host with the fewest partitions is chosen, which is the spare one.
    raw = job({"first": dies(1, 2050), "second": dies(3, 2900)}, store="remote")
    records = rows(raw | {"detector": {"heartbeat": "100 ms", "timeout": "1 s"}})
    found = column(records, "recoveries", "host", "target", "detected_ns", "restored_ns")
    assert found[0][:3] == (1, 3, DETECTED)
    assert found[1][:3] == (3, 2, 3800) or found[1][:3] == (3, 0, 3800)
    assert found[0][3] == found[1][3] > 3800  # its last recovery says how it ended
    assert not records.tables["ledger"]["lost"].any()
    assert (records.tables["failures"]["caught_up_ns"] > 0).all()
    assert on_both(raw) == []


def test_a_move_to_a_host_that_is_dead_waits_and_is_refused_when_that_is_detected() -> None:
    raw = job({"dies": dies(3, 2050), "move": moves(2500)})
    records = rows(raw)
    said = [(at // MS, what) for at, what, _ in decided(records) if "move" in what]
    assert said == [(DETECTED, "sum[0] does not move to h-3")]
    assert not records.tables["migrations"]["key_group"].size


def test_a_move_to_a_host_that_comes_back_begins_then() -> None:
    records = rows(job({"dies": dies(3, 2050, 300), "move": moves(2200)}))
    ((requested, paused, completed),) = column(records, "migrations", "requested_ns", "paused_ns", "completed_ns")
    assert requested == 2200
    assert 2350 < paused < completed < 2500


def test_a_move_from_a_host_that_is_dead_begins_and_is_called_off() -> None:
    records = rows(job({"dies": dies(1, 2050), "move": moves(2500)}))
    ((requested, completed),) = column(records, "migrations", "requested_ns", "completed_ns")
    assert (requested, completed) == (2500, NEVER)
    said = [at // MS for at, what, _ in decided(records) if "does not move" in what]
    assert said == [DETECTED]
    assert not records.tables["ledger"]["lost"].any()


def test_the_next_move_begins_when_the_coordinator_has_heard_of_the_end() -> None:
    raw = job({"one": moves(2000), "two": moves(2001, 2)}) | {"network": {"latency": "20 ms"}}
    first, second = column(rows(raw), "migrations", "completed_ns", "paused_ns")
    # The fact; a checkpoint for the next target, and that it is stored and loaded; then `move` to upstream.
    assert second[1] == pytest.approx(first[0] + 5 * 20)


class Trap(MoveProtocol):
    """A handler of a run that is over."""

    def start(self, ctx: MoveContext) -> None:
        raise AssertionError("a run that is over begins")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a run that is over is told {name}")


@pytest.mark.parametrize("protocol", ["cpa", "cpal", "direct"])
def test_a_run_that_was_called_off_hears_nothing(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Message] = []
    from sim.migration.transport import ProtocolRuntime  # noqa: PLC0415 - patched here alone

    deliver = ProtocolRuntime.deliver

    def watched(self: ProtocolRuntime, message: Message) -> None:
        called = self.runs[message.run]
        if called.over:
            late.append(message)
            called.protocol, called.local = Trap, {}
        deliver(self, message)

    monkeypatch.setattr(ProtocolRuntime, "deliver", watched)
    for seed in range(6):
        made = moving_job(seed, protocol)
        calm = run(made, CompiledPlane)
        late.clear()
        for crash in crashes(seed, calm.moments, 3):
            fenced = Crash(crash.host, crash.at_ns, 400 * MS, fenced=True)  # detected at once: much is under way
            assert run(made, CompiledPlane, fenced).faults == []
        if any(message.to != CONTROL for message in late):
            return
    raise AssertionError("no message was under way when its run was called off")


class Heard(CPA):
    """CPA that notes where it was heard."""

    tasks: set[int] = set()  # noqa: RUF012 - the test empties it

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        self.tasks.add(ctx.me)
        super().on_move(ctx, message)


@pytest.mark.parametrize("repair", [None, 200])
def test_a_run_that_is_started_towards_a_dead_task_does_not_reach_its_successor(repair: int | None) -> None:
    # The source is dead as the move begins; its successor starts as a task of its own.
    raw = job({"dies": dies(0, 2050, repair), "move": moves(2100)})
    made = scenario(raw | {"seed": 1})
    Heard.tasks.clear()
    outcomes = [run(made, plane, instead={"cpa": Heard}) for plane in (PlainPlane, CompiledPlane)]
    assert differences(outcomes[0].records, outcomes[1].records) == []
    assert outcomes[0].faults == []
    assert Heard.tasks == set()
    upstream = outcomes[0].control.migrations.runs[0].move.upstream
    assert upstream
    assert not any(outcomes[0].control.cluster.task_alive[task] for task in upstream)


class Patient(CPA):
    """Waits at the source task before it redirects: 200 ms, by a timer of its own."""

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.timer(200 * MS, "patience", note=message.kind)

    def on_patience(self, ctx: MoveContext, message: Message) -> None:
        assert message.note == "move"
        super().on_move(ctx, message)


def test_a_timer_of_a_task_rings_after_its_time_and_the_move_goes_on() -> None:
    plain, compiled = (
        run(moving_job(3, "cpa"), plane, instead={"cpa": Patient}) for plane in (PlainPlane, CompiledPlane)
    )
    assert differences(plain.records, compiled.records) == []
    assert compiled.faults == []
    table = compiled.records.tables["migrations"]
    paused = [
        began - asked
        for name, asked, began in zip(table["protocol"], table["requested_ns"], table["paused_ns"], strict=True)
        if name == "cpa"
    ]
    assert paused
    assert min(paused) >= 200 * MS


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=["few", "more"])
def test_a_timer_is_gone_with_its_task_and_with_its_run(seeds: range) -> None:
    for seed in seeds:
        calm = run(moving_job(seed, "cpa"), PlainPlane, instead={"cpa": Patient})
        for crash in crashes(seed, calm.moments, 4):
            outcomes = [
                run(moving_job(seed, "cpa"), plane, crash, {"cpa": Patient}) for plane in (PlainPlane, CompiledPlane)
            ]
            assert differences(outcomes[0].records, outcomes[1].records) == []
            assert outcomes[1].faults == []
