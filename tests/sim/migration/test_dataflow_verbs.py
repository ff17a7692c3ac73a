"""Whole dataflows that are drained or captured, killed, and brought back: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any

import pytest
from lab.rebalances import Capture, Drain, Rebalances
from small_jobs import random_job

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocol import Context, Message
from sim.plain.plane import PlainPlane

MS = 1_000_000
PLANES = [PlainPlane, CompiledPlane]
METHODS = (
    {"method": "none"},
    {"guarantee": "exactly-once"},
    {"guarantee": "at-least-once"},
    {"guarantee": "at-most-once"},
)


def calm(draw: Random, method: dict[str, Any]) -> Scenario:
    """A random job in which no host that has a task fails; tasks have one thread."""
    raw = random_job(draw, fault_tolerance=dict(method))
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    raw["hosts"]["other"] = {"count": 1}
    raw["events"] = {"late": {"at": "1000 s", "kind": "host-failure", "host": "other-0"}}
    raw["placement"] = {"operators": dict.fromkeys(raw["operators"], "h")}
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def rebalanced(
    made: Scenario, plane: PlaneFactory, protocol: str, at_ms: list[int], start_ms: int
) -> tuple[RunRecords, Rebalances]:
    """The rows of a run with rebalances, and what became of these; it goes on until all is drained."""
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    kind, hosts = Rebalances(control.state, control.coordinator), made.hosts["h"].count
    control.start()
    for at in at_ms:
        control.clock.at(at * MS, 0, lambda _: kind.request(protocol, hosts, start_ns=start_ms * MS))
    end = to_ns(made.duration_s) + 60_000 * MS
    control.run(end)
    return records(control, end), kind


@pytest.fixture(params=PLANES, ids=[one.__name__ for one in PLANES])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def faults(seed: int, protocol: str, plane: PlaneFactory) -> tuple[list[str], int]:
    """What is wrong with one random job, and how many tuples its operators expected."""
    draw = Random(f"{seed} {protocol}")
    made = calm(draw, METHODS[seed % len(METHODS)])
    at_ms = sorted(draw.choice([draw.randint(1, 2500), draw.randint(1, 25) * 100]) for _ in range(draw.choice([1, 2])))
    try:
        found, kind = rebalanced(made, plane, protocol, at_ms, draw.choice([0, 0, 1, 300]))
    except ValueError as error:
        return [f"refused: {error}"], 0
    wrong = []
    if [run.over for run in kind.runs] != [True] * len(at_ms):
        wrong.append("a run does not end")
    ledger = found.tables["ledger"]
    wrong += [name for name in ("lost", "duplicated") if ledger[name].sum()]
    wrong += {f"dropped: {reason}" for reason in found.tables["dropped"]["reason"].tolist()} - {"dropped: duplicate"}
    return wrong, int(ledger["expected"].sum())


def check(seed: int, protocol: str, plane: PlaneFactory) -> int:
    """Check one random job; return how many tuples its operators expected."""
    wrong, expected = faults(seed, protocol, plane)
    assert wrong == [], seed
    return expected


@pytest.mark.parametrize("protocol", ["drain", "capture"])
def test_a_dataflow_that_is_killed_comes_back_whole(protocol: str, plane: PlaneFactory) -> None:
    assert sum(check(seed, protocol, plane) for seed in range(24)) > 1000


class NotPaused(Drain):
    """Sources emit behind the wave."""

    def on_pause(self, ctx: Context, message: Message) -> None:
        ctx.tell("paused", note=ctx.me)


class FirstInput(Drain):
    """The wave goes on at the first input of a task."""

    def pass_on(self, ctx: Context, kind: str) -> None:
        for task in self.plan.below[ctx.me]:
            ctx.send(task, kind, turn=True)

    def on_save(self, ctx: Context, message: Message) -> None:
        if self.first("save"):
            self.all_in("save", message.sender, ())
            super().on_save(ctx, message)


class StateOnly(Capture):
    """Captured tuples are not saved."""

    def on_save(self, ctx: Context, message: Message) -> None:
        ctx.capture()
        ctx.persist(ctx.me, [ctx.snapshot()], "saved")


class TuplesOnly(Capture):
    """States are not saved."""

    def on_save(self, ctx: Context, message: Message) -> None:
        ctx.persist(ctx.me, [ctx.capture()], "saved")


class Twice(Capture):
    """Captured tuples are processed twice."""

    def on_fetched(self, ctx: Context, message: Message) -> None:
        again = [parcel for parcel in message.parcels if not parcel.partitions]
        ctx.put([*message.parcels, *again], "initialised", note=message.note)


class FirstAnswer(Capture):
    """Tasks are killed at the first answer of the store."""

    def last_of(self, wave: Hashable, sender: int, expected: Iterable[int]) -> bool:
        return super().last_of(wave, sender, [sender] if wave == "saved" else expected) and (
            wave != "saved" or len(self.answered("saved")) == 1
        )


@pytest.mark.parametrize("mutant", [NotPaused, FirstInput, StateOnly, TuplesOnly, Twice, FirstAnswer])
def test_protocols_that_are_wrong_are_told(
    mutant: type[Drain], plane: PlaneFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Rebalances.__init__

    def broken(self: Rebalances, *arguments: Any) -> None:
        before(self, *arguments)
        self.protocols = {"capture": mutant, "drain": mutant}

    monkeypatch.setattr(Rebalances, "__init__", broken)
    protocol = "capture" if issubclass(mutant, Capture) else "drain"
    assert any(faults(seed, protocol, plane)[0] for seed in range(40))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["drain", "capture"])
def test_many_dataflows_that_are_killed_come_back_whole(protocol: str, plane: PlaneFactory) -> None:
    for seed in range(24, 1000):
        check(seed, protocol, plane)
