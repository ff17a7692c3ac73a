"""Bounded queues on the plain plane: places, who gets room first, sources that are held back, and crashes.

Oracles: lattices by hand, the same job without bounds, the run without crashes, the closed forms of a tandem.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import sample
from small_jobs import NS, build, plain_plane_of, random_job, rows_of, scenario, simulate, storm, with_buffers
from test_planes import METHODS, differences
from test_recovery import GUARANTEES, check_job

from models.records.tables import NEVER
from models.scenario.scenario import Scenario
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.outbox import Outbox, Places
from sim.plain.partition import Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

PLANES: dict[str, PlaneFactory] = {"plain": PlainPlane, "compiled": CompiledPlane}
MS = 10**6


def fixed(text: str) -> dict[str, Any]:
    return {"distribution": "deterministic", "value": text}


def line(first: str, second: str, **changes: Any) -> dict[str, Any]:
    """A source with a tuple each 10 ms, and two operators on one host; the second has one place."""
    return {
        "duration": "1 s",
        "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {"kind": "map", "inputs": {"src": "shuffle"}, "service": fixed(first)},
            "q": {"kind": "map", "inputs": {"p": "shuffle"}, "service": fixed(second), "buffer": 1},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    } | changes


def made(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_task_that_finds_no_room_keeps_its_output_and_starts_nothing(plane: PlaneFactory) -> None:
    # Created at 10, 20, ..; p takes 1 ms, q 50 ms. q serves the first from 11, the second waits there from 21, and the
    # third, ready at 31, has to wait for the end of the first at 61: so p starts the fourth at 61 only.
    records = simulate(scenario(line("1 ms", "50 ms", duration="200 ms")), plane=plane)
    at_p = [(arrival // MS, start // MS, end // MS) for arrival, start, end in rows_of(records, "p")]
    at_q = [(arrival // MS, start // MS, end // MS) for arrival, start, end in rows_of(records, "q")]
    assert at_p[:6] == [(10, 10, 11), (20, 20, 21), (30, 30, 31), (40, 61, 62), (50, 111, 112), (60, 161, 162)]
    assert at_q == [(11, 11, 61), (21, 61, 111), (61, 111, 161), (111, 161, -1)]


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_source_without_room_emits_nothing_and_its_lag_grows(plane: PlaneFactory) -> None:
    raw = line("50 ms", "1 ms", duration="3 s")
    raw["operators"]["p"]["buffer"] = 2
    records = simulate(scenario(raw), plane=plane)
    # p takes 20 /s of 100 /s. At 2 s: 199 created before, 39 served, 1 in service, 2 in the queue, 1 in the outbox.
    lag = records.tables["lag"]
    assert lag["lag"][lag["at_ns"] == 2 * NS].tolist() == [199 - 39 - 1 - 2 - 1]
    emitted = rows_of(records, "src")
    assert [end - start for start, _, end in emitted[:5]] == [0, 0, 0, 0, 10 * MS]
    buffers = records.tables["buffers"]
    assert set(zip(buffers["task"].tolist(), buffers["taken"].tolist(), buffers["unsent"].tolist(), strict=True)) == {
        (0, 0, 1),
        (1, 2, 0),
        (2, 0, 0),
        (3, 0, 0),
    }
    # The fourth arrival, at 40 ms, is the first without a place.
    assert buffers["blocked_ns"][buffers["task"] == 0].tolist() == [960 * MS, 1960 * MS]


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_who_waits_for_room_gets_it_in_the_order_in_which_it_began(plane: PlaneFactory) -> None:
    raw = {
        "duration": "1 s",
        "workload": {name: {"rate": "1000 /s", "arrivals": "deterministic"} for name in ("a", "b", "c")},
        "operators": {
            **{name: {"kind": "source"} for name in ("a", "b", "c")},
            "q": {
                "kind": "map",
                "inputs": dict.fromkeys(("c", "b", "a"), "shuffle"),
                "service": fixed("10 ms"),
                "buffer": 1,
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }
    records = simulate(scenario(raw), plane=plane)
    emitted = {name: [end // MS for _, _, end in rows_of(records, name)] for name in ("a", "b", "c")}
    # At 1 ms a's tuple takes the place, b's and c's wait; a's is served at once, so b's is sent. From then on a place
    # gets free at 11, 21, .. ms for c, a, b, c, .., each of which then makes its next output, which waits.
    assert emitted["a"][:5] == [1, 2, 21, 51, 81]
    assert emitted["b"][:5] == [1, 2, 31, 61, 91]
    assert emitted["c"][:5] == [1, 11, 41, 71, 101]


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
@pytest.mark.parametrize("seed", sample(5, 10))
def test_room_for_everything_changes_nothing(seed: int, plane: PlaneFactory) -> None:
    raw = storm(Random(seed)) if seed % 2 else random_job(Random(seed))
    wide = {
        name: operator | ({} if operator["kind"] == "source" else {"buffer": 10**9})
        for name, operator in raw["operators"].items()
    }
    one, other = simulate(made(raw), plane=plane), simulate(made(raw | {"operators": wide}), plane=plane)
    assert [name for name in differences(one, other) if not name.startswith("buffers.")] == []
    assert other.tables["buffers"]["unsent"].max(initial=0) == 0
    assert one.tables["buffers"]["at_ns"].size == 0


@pytest.mark.parametrize("seed", sample(4, 20))
def test_places_are_exact_at_every_cut(seed: int) -> None:
    raw = with_buffers(Random(seed + 1), (storm if seed % 2 else random_job)(Random(seed)))
    control = build(made(raw))
    plane = plain_plane_of(control)
    cuts = sorted({Random(seed).randint(1, 10 * NS) for _ in range(200)} | {k * 50 * MS for k in range(1, 200)})
    for cut in cuts:
        control.run(cut)
        places_are_exact(plane)


def places_are_exact(plane: PlainPlane) -> None:
    """Taken = in the queue and under way <= places; no place is free for which somebody waits; who has unsent outputs
    waits, and waits once.
    """
    waiting = [outbox.task for task in plane.tasks for outbox in task.places.waiting]
    assert sorted(task.index for task in waiting) == [task.index for task in plane.tasks if task.outbox]
    for task in plane.tasks:
        if task.alive:
            under_way = sum(1 for visit, goal in plane.wire.items() if goal is task and not visit.replayed)
            assert task.places.taken == len(task.queue) + under_way
            assert task.places.count is None or task.places.taken <= task.places.count
            assert not (task.places.waiting and task.places.free)
            assert not any(isinstance(item, Visit) and item.replayed for item in task.queue)
        else:
            assert not task.outbox
            assert not task.places.waiting


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 34), marks=pytest.mark.slow)], ids=["few", "more"])
def test_guarantees_hold_with_buffers_whatever_crashes(guarantee: str, seeds: range) -> None:
    method = {"method": "none"} if guarantee == "none" else {"guarantee": guarantee}
    done = 0
    for seed in seeds:
        draw = Random(seed)
        raw = (storm if seed % 3 == 0 else random_job)(draw, fault_tolerance=method)
        cuts = tuple(draw.randint(1, 90) * NS // 10 for _ in range(2))
        done += check_job(with_buffers(Random(seed + 1), raw), guarantee, cuts)
    assert done >= 0.6 * len(seeds)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_snapshot_contains_what_waits_to_be_sent_and_a_restart_sends_it_again(plane: PlaneFactory) -> None:
    # The host of p dies while outputs of p wait for room at q; nothing may be missing in the end.
    raw = line("1 ms", "50 ms", duration="60 s")
    raw["workload"]["src"]["rate"] = {"steps": [{"at": "0 s", "rate": "100 /s"}, {"at": "2 s", "rate": "0 /s"}]}
    raw["operators"]["p"] |= {"inputs": {"src": "key"}, "selectivity": 3.0, "kind": "map"}
    raw |= {
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-0", "p-0": "h-1", "q-0": "h-2", "out-0": "h-2"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
        "events": {"crash": {"at": "1500 ms", "kind": "host-failure", "host": "h-1", "repair": "5 s"}},
        "detector": {"heartbeat": "200 ms", "timeout": "300 ms"},
    }
    records = simulate(made(raw), plane=plane)
    buffers, dropped = records.tables["buffers"], records.tables["dropped"]
    assert buffers["unsent"].max() > 1
    unsent_lost = (dropped["arrival_ns"] == NEVER) & (dropped["operator"] == 2) & (dropped["at_ns"] == 1500 * MS)
    assert np.count_nonzero(unsent_lost) >= 1
    ledger = records.tables["ledger"]
    assert ledger["lost"].tolist() == [0, 0, 0]
    assert ledger["duplicated"].tolist() == [0, 0, 0]
    assert ledger["expected"].tolist()[1] == 3 * ledger["expected"].tolist()[0]
    assert records.tables["waiting"]["operator"].size == 0
    assert buffers["unsent"][buffers["at_ns"] == buffers["at_ns"].max()].sum() == 0


MUTANTS = ("last come, first served", "no waiting behind others", "starts while blocked", "replays take places")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_seen_by_the_comparison(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant == MUTANTS[0]:

        def wait(outbox: Outbox) -> None:
            outbox._waits_at = outbox.items[0].receiver.task.places
            outbox._waits_at.waiting.appendleft(outbox)

        monkeypatch.setattr(Outbox, "_wait", wait)
    elif mutant == MUTANTS[1]:
        monkeypatch.setattr(Places, "has_room", lambda places: places.free)
    elif mutant == MUTANTS[2]:

        def head(task: Task) -> int | None:
            lane = task.front or task.queue
            return lane[0].ticket if lane and task.idle_threads else None

        monkeypatch.setattr(Task, "head_ticket", head)
    else:
        arrives = PlainPlane._replay_arrives

        def counted(plane: PlainPlane, visits: list[Visit], task: Task) -> None:
            task.places.taken += len(visits)
            arrives(plane, visits, task)

        monkeypatch.setattr(PlainPlane, "_replay_arrives", counted)
    for seed in range(400):
        make = storm if seed % 3 == 0 else random_job
        raw = with_buffers(Random(seed + 1), make(Random(seed), fault_tolerance=METHODS[seed % 4]))
        if differences(simulate(made(raw), plane=PlainPlane), simulate(made(raw), plane=CompiledPlane)):
            return
    pytest.fail("nobody noticed")
