"""Configuration updates that come after their time: what senders hold until then, equal planes, and broken rules.

Oracles: those of `test_megaphone`, which look at what is applied where; instants by hand. No tolerance.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from changed_keys import changed
from test_megaphone import faults, job, rows_of, watched
from test_planes import differences

from models.errors import InputError
from models.scenario.reading import scenario_from
from models.scenario.rules import not_simulated
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocol import Context
from sim.migration.protocols.megaphone import Megaphone
from sim.plain.plane import PlainPlane

MS = 1_000_000


def late_job(seed: int, late: str | None = None) -> dict[str, Any]:
    """A random job of sources that send to an operator, whose configurations are late."""
    raw, draw = job(seed), Random(f"late {seed}")
    raw["operators"].pop("map", None)
    raw["operators"]["op"]["inputs"] = {"src": "key"}
    for event in raw["events"].values():
        event["late"] = late or draw.choice(["1 ms", "3 ms", "20 ms"])
    return raw


def test_each_tuple_is_applied_once_at_the_configuration_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    for seed in range(16):
        run = watched(late_job(seed), monkeypatch)
        assert faults(run) == [], seed
        steps += sum(len(plan.steps) for plan, _ in run.plans)
    assert steps > 40


def test_both_planes_give_equal_rows() -> None:
    for seed in range(10):
        plain, compiled = (rows_of(late_job(seed), plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all()


def one_step() -> dict[str, Any]:
    raw = late_job(1, "30 ms")
    raw["operators"]["op"] |= {"parallelism": 2, "key_groups": 2, "state": {"model": "fixed", "bytes": "0 B"}}
    raw["operators"]["op"] |= {"service": {"distribution": "deterministic", "value": "0.1 ms"}}
    raw["workload"]["src"] |= {"rate": "1000 /s", "arrivals": "deterministic"}
    raw["network"]["latency"], raw["hosts"] = "5 ms", {"h": {"count": 2}}
    event = {"kind": "reconfigure", "at": "200 ms", "operator": "op", "strategy": "all-at-once", "owners": [1, 0]}
    raw["events"] = {"move": event | {"late": "30 ms"}}
    return raw


def test_what_is_ahead_of_the_control_frontier_waits_for_the_update() -> None:
    found = rows_of(one_step(), PlainPlane)
    (from_ns,) = found.tables["reconfigurations"]["from_ns"].tolist()
    assert from_ns == 205 * MS + 1  # one latency after the request, which is when who sends hears of it
    rows = found.tables["visits"]
    own = (rows["operator"] == found.operators.index("src")) & (rows["arrival_ns"] > 0)
    waits = {int(at): int(end - at) for at, end in zip(rows["arrival_ns"][own], rows["end_ns"][own], strict=True)}
    held = {at for at, wait in waits.items() if wait}
    # The update is sent 30 ms after the time was set, and is there a latency later, at 235 ms.
    assert held == {at for at in waits if 205 * MS < at < 235 * MS}
    assert max(waits.values()) == 29 * MS
    without = rows_of(changed(one_step(), {"events/move/late": "0 s"}), PlainPlane)
    rows = without.tables["visits"]
    own = rows["operator"] == without.operators.index("src")
    assert (rows["arrival_ns"][own] == rows["end_ns"][own]).all()


def test_a_sender_that_does_not_hold_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Megaphone, "on_ahead", lambda *_: None)
    found = [fault for seed in range(6) for fault in broken(seed, monkeypatch)]
    assert found


def test_a_step_that_begins_before_its_update_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "pause", lambda *_: None)
    monkeypatch.setattr(Megaphone, "heard", lambda self, kind: frozenset([0]))
    assert [fault for seed in range(6) for fault in broken(seed, monkeypatch)]


def broken(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    try:
        return faults(watched(late_job(seed, "20 ms"), monkeypatch))
    except (AssertionError, RuntimeError, ValueError) as error:
        return [str(error) or "refused"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operators/map": {"kind": "map", "inputs": {"src": "shuffle"}, "service": "X"}}, "where sources alone send"),
        ({"operators/more": "X", "events/other": "X"}, "without reconfigurations of other operators"),
    ],
)
def test_what_is_not_simulated_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    raw = one_step()
    service = raw["operators"]["op"]["service"]
    if "operators/map" in changes:
        raw["operators"]["map"] = {"kind": "map", "inputs": {"src": "shuffle"}, "service": service}
        raw["operators"]["op"]["inputs"] = {"map": "key"}
    else:
        raw["operators"]["more"] = {**raw["operators"]["op"], "inputs": {"op": "key"}}
        raw["operators"]["out"]["inputs"] = {"more": "shuffle"}
        raw["events"]["other"] = {**raw["events"]["move"], "operator": "more", "late": "0 s"}
    found = [fault for fault in not_simulated(scenario_from(raw)) if fault.path == "events.move.late"]
    assert [words in fault.hint for fault in found] == [True]


def test_another_protocol_has_no_configuration_that_could_be_late() -> None:
    raw = changed(one_step(), {"events/move/protocol": "pause-and-resume"})
    with pytest.raises(InputError, match="late = 30 ms: is of the protocol megaphone"):
        scenario_from(raw)
