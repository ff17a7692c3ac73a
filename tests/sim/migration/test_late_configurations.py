"""Configuration updates that come after their time: what senders withhold until then, equal planes, and broken rules.

Oracles: those of `test_megaphone`, which look at what is applied where; one worker that applies each tuple at its
birth; instants by hand. No tolerance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from changed_keys import changed
from crashing_steps import job as crashing_job
from losing_steps import job as losing_job
from losing_steps import ran as losing
from seeds import parts
from test_crashes_in_steps import faults as faults_of_crashes
from test_megaphone import STRATEGIES, faults, job, made, options, rows_of, watched
from test_one_worker import one_worker
from test_planes import differences
from test_windows_in_steps import wrong as wrong_windows
from timed_steps import WHERE, crashing_timed_job, timed_job

from models.errors import InputError
from models.records.tables import NEVER
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules import faults as faults_of_scenario
from models.scenario.rules import not_simulated
from sim.control.cluster import RunPlan
from sim.kernel.choice import EVENT_LOOP, kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.reconfiguration import ReconfigurationContext
from sim.plain.channels import PlaneState
from sim.plain.outbox import Outbox, Withheld
from sim.plain.partition import Output, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

MS = 1_000_000
PLANES = (PlainPlane, CompiledPlane)


def late(raw: dict[str, Any], draw: Random, share: float = 1.0) -> dict[str, Any]:
    """The job whose configurations are late, all of them or a share."""
    for event in raw["events"].values():
        if event["kind"] == "reconfigure" and event.get("protocol", "megaphone") == "megaphone":
            event["late"] = draw.choice(["1 ms", "3 ms", "20 ms", "60 ms"]) if draw.random() < share else "0 s"
    return raw


def late_job(seed: int) -> dict[str, Any]:
    """A random job of `test_megaphone` whose configurations are late, behind a map or not."""
    return late(job(seed), Random(f"late {seed}"))


SHAPES = ("behind an aggregate", "behind two", "of several kinds", "beside another")
"""Who sends to the operator `op`: `first`, an aggregate that is reconfigured, too; a map behind that; both and a map
behind the source; the source, which also sends to `first`."""


def late_of_several(seed: int) -> dict[str, Any]:
    """A random job with two operators that are reconfigured at about the same time, one or both of them late."""
    draw, raw = Random(f"late of several {seed}"), job(seed)
    shape, operators = SHAPES[seed % len(SHAPES)], raw["operators"]
    op = operators.pop("op")
    operators.pop("map", None)
    first = {**op, "inputs": {"src": "key"}, "selectivity": draw.choice([1.0, 0.5, 1.5])}
    mapped = {"kind": "map", "parallelism": 2, "service": {"distribution": "exponential", "mean": "1 ms"}}
    inputs: dict[str, Any] = {"first": "key"}
    if shape == "behind two":
        operators["map"], inputs = {**mapped, "inputs": {"first": "shuffle"}}, {"map": "key"}
    elif shape == "of several kinds":
        operators["map"] = {**mapped, "inputs": {"src": "shuffle"}}
        inputs = {"first": "key", "map": "key", "src": "key"}
    elif shape == "beside another":
        inputs = {"src": "key"}
        operators["out"]["inputs"] = {"op": "shuffle", "first": "shuffle"}
    operators |= {"first": first, "op": {**op, "inputs": inputs}}
    for name in ("first", "op"):
        if draw.random() < 0.3:
            operators[name]["postpone"] = {"distribution": "exponential", "mean": "60 ms"}
    (workload,) = raw["workload"].values()
    workload["rate"] = {"steps": [{"at": "0 s", "rate": "200 /s"}, {"at": "0.6 s", "rate": "0 /s"}]}
    raw["duration"] = "8 s"
    for k in range(draw.choice([1, 2])):
        event = {"kind": "reconfigure", "at": f"{draw.choice([100, 199, 201, 210])} ms", "operator": "first"}
        raw["events"][f"also{k}"] = event | draw.choice(STRATEGIES) | options(draw)
    return late(raw, draw, draw.choice([0.5, 1.0]))


def by_operator(raw: dict[str, Any], patch: pytest.MonkeyPatch, name: str) -> list[str]:
    """What is wrong with a run in words: at the operator of that name, or as what one worker applies shows."""
    got = defaultdict[str, Counter[tuple[int, int, int]]](Counter)
    right = Task._complete

    def complete(self: Task, visit: Visit, now: int) -> None:
        got[self.operator.name][visit.row.created_ns, visit.row.id, visit.row.key] += 1
        right(self, visit, now)

    with patch.context() as inner:
        inner.setattr(Task, "_complete", complete)
        run = watched(raw, inner, name=name)
    plane = run.control.plane
    assert isinstance(plane, PlainPlane)
    expected = {one: Counter(applied) for one, applied in one_worker(plane).items()}
    found = [f"{one} applies something else" for one in {*expected, *got} if got[one] != expected.get(one)]
    return found + faults(run)


@pytest.mark.parametrize("seeds", parts(24, 600))
def test_each_tuple_is_applied_once_at_the_configuration_of_its_time(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        assert faults(watched(late_job(seed), monkeypatch)) == [], seed


@pytest.mark.parametrize("seeds", parts(12, 400))
def test_several_operators_give_what_one_worker_gives(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds:
        raw = late_of_several(seed)
        for name in ("first", "op"):
            assert by_operator(raw, monkeypatch, name) == [], (seed, name)


@pytest.mark.parametrize("seeds", parts(5, 400))
def test_windows_and_joins_give_what_they_give_where_key_groups_stay(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        raw = late(timed_job(seed, WHERE[seed % len(WHERE)]), Random(f"late windows {seed}"))
        assert wrong_windows(raw, monkeypatch)[0] == [], seed


@pytest.mark.parametrize("seeds", parts(8, 400))
def test_hosts_may_die_while_senders_withhold_where_nothing_is_kept(seeds: range) -> None:
    for seed in seeds:
        assert losing(late(losing_job(seed, 1 + seed % 3), Random(f"late losses {seed}")))[-1] == [], seed


@pytest.mark.parametrize("seeds", parts(8, 400))
def test_hosts_may_die_while_senders_withhold_where_all_goes_back(seeds: range) -> None:
    for seed in seeds:
        assert faults_of_crashes(late(crashing_job(seed, 1 + seed % 3), Random(f"late crashes {seed}"))) == [], seed


OF_PLANES: tuple[Callable[[int], dict[str, Any]], ...] = (
    late_job,
    late_of_several,
    lambda seed: timed_job(seed, WHERE[seed % len(WHERE)]),
    lambda seed: losing_job(seed, 1 + seed % 3),
    lambda seed: crashing_job(seed, 1 + seed % 3),
    crashing_timed_job,
)


@pytest.mark.parametrize("seeds", parts(18, 1200))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    for seed in seeds:
        raw = late(OF_PLANES[seed % len(OF_PLANES)](seed // len(OF_PLANES)), Random(f"late rows {seed}"), 0.8)
        assert differences(*(rows_of(raw, plane) for plane in PLANES)) == [], seed


@pytest.mark.parametrize("draws", range(12))
def test_what_it_moves_is_accepted_and_has_the_event_loop_alone(draws: int) -> None:
    for made_job in OF_PLANES:
        scenario = scenario_from(late(made_job(draws), Random(f"late rules {draws}")))
        assert [*faults_of_scenario(scenario), *not_simulated(scenario)] == []
        assert kernel_for(RunPlan.of(scenario, RunInputs(), 0)).name == EVENT_LOOP


# -- instants by hand


def one_step(**op: Any) -> dict[str, Any]:
    """Two key groups change their tasks in a step, of which those who send hear 30 ms late."""
    raw = job(1)
    raw["operators"].pop("map", None)
    raw["operators"]["src"]["parallelism"] = 1
    raw["operators"]["op"] |= {"inputs": {"src": "key"}, "parallelism": 2, "key_groups": 2, **op}
    raw["operators"]["op"] |= {"state": {"model": "fixed", "bytes": "0 B"}}
    raw["operators"]["op"] |= {"service": {"distribution": "deterministic", "value": "0.1 ms"}}
    raw["workload"]["src"] |= {"rate": "1000 /s", "arrivals": "deterministic"}
    raw["network"]["latency"], raw["hosts"] = "5 ms", {"h": {"count": 2}}
    event = {"kind": "reconfigure", "at": "200 ms", "operator": "op", "strategy": "all-at-once", "owners": [1, 0]}
    raw["events"] = {"move": event | {"late": "30 ms"}}
    return raw


def sent(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> dict[int, int]:
    """For how long what was born at an instant has waited until it was sent to the operator [ns]."""
    found: dict[int, int] = {}
    right = PlainPlane.send_tuple

    def send_tuple(self: PlainPlane, origin: Any, sender: Any, receiver: Any, row: Any) -> None:
        if receiver.operator.name == "op":
            found[row.born_ns] = self.clock.now_ns() - row.born_ns
        right(self, origin, sender, receiver, row)

    with patch.context() as inner:
        inner.setattr(PlainPlane, "send_tuple", send_tuple)
        rows_of(raw, PlainPlane)
    return found


def test_what_is_ahead_of_the_control_frontier_waits_for_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows_of(one_step(), PlainPlane)
    (from_ns,) = found.tables["reconfigurations"]["from_ns"].tolist()
    assert from_ns == 205 * MS + 1  # one latency after the request, which is when who sends hears of it
    waits = sent(one_step(), monkeypatch)
    # The update is sent 30 ms after the time was set, and is there a latency later, at 235 ms.
    assert {at for at, wait in waits.items() if wait} == {at for at in waits if 205 * MS < at < 235 * MS}
    assert max(waits.values()) == 29 * MS
    assert not any(sent(changed(one_step(), {"events/move/late": "0 s"}), monkeypatch).values())
    # Sources go on: nothing waits in front of them.
    rows = found.tables["visits"]
    own = rows["operator"] == found.operators.index("src")
    assert (rows["arrival_ns"][own] == rows["end_ns"][own]).all()


def test_what_is_older_passes_a_task_that_withholds(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = one_step(inputs={"map": "key"})
    slow = {"distribution": "deterministic", "value": "0.5 ms"}
    raw["operators"]["map"] = {"kind": "map", "inputs": {"src": "shuffle"}, "service": slow}
    waits = sent(raw, monkeypatch)
    # What was born at 200 ms and later is served by the map after 205 ms, and leaves at once up to that birth.
    assert max(wait for at, wait in waits.items() if at <= 205 * MS) < 10 * MS
    held = [at for at in waits if 205 * MS < at <= 224 * MS]
    assert [at + waits[at] for at in held] == [235 * MS] * len(held)
    assert len(held) == 19
    found = rows_of(raw, PlainPlane)
    # The step begins when the update is known to be there: no older tuple has waited for it.
    assert found.tables["reconfigurations"]["passed_ns"].tolist() == [235 * MS + 1]


def test_a_line_of_a_file_is_late_by_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = one_step()
    raw["events"]["move"] = {"kind": "reconfigure", "at": "200 ms", "operator": "op", "file": "moves.txt"}
    raw["events"]["move"] |= {"late": "30 ms"}
    lines = (Configuration(300 * MS, ((0, 1),)),)
    found = rows_of(raw, PlainPlane, lines)
    assert found.tables["reconfigurations"]["from_ns"].tolist() == [300 * MS]
    assert found.tables["reconfigurations"]["passed_ns"].tolist() == [330 * MS]


def test_what_is_withheld_is_told_as_unsent_and_as_memory() -> None:
    control = made(one_step() | {"recording": {"memory": True}})
    control.start()
    control.run(230 * MS)
    source = next(one.index for one in control.plane.tasks if one.operator.is_source)  # type: ignore[attr-defined]
    (unsent,) = (row[2] for row in control.plane.buffers() if row[0] == source)
    (buffered,) = (row[4] for row in control.plane.samples() if row[0] == source)
    assert unsent == buffered == 24  # born from 206 ms on, at 1000 a second


def ended_at() -> int:
    """When the first result of a window comes that ends at 206 ms, just after the time of a step [ns]."""
    raw = one_step(window={"length": "206 ms"})
    raw["workload"]["src"]["watermark"] = "1 ms"
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) == []
    return int(rows_of(raw, PlainPlane).tables["deliveries"]["delivered_ns"].min())


def test_a_window_that_ends_before_what_is_withheld_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 211 * MS <= ended_at() < 220 * MS

    def in_line(self: Withheld, item: Any) -> bool:
        return waits(self, item) if isinstance(item, Output) else bool(self.items)

    waits = Withheld.has_to_wait
    monkeypatch.setattr(Withheld, "has_to_wait", in_line)
    with pytest.raises(AssertionError):
        ended_at()


def dying() -> dict[str, Any]:
    """The same job, in which the host of the source dies while that withholds 15 outputs, and nothing is kept."""
    raw = one_step() | {"hosts": {"front": {}, "h": {"count": 2}}}
    raw["placement"] = {"operators": {"src": "front", "op": "h", "out": "h"}}
    raw["events"]["dies"] = {"kind": "host-failure", "at": "220.5 ms", "host": "front-0", "repair": "100 ms"}
    return raw


def test_what_is_withheld_is_lost_with_its_task() -> None:
    _, found, wrong = losing(dying())
    assert wrong == []
    assert found.tables["dropped"]["at_ns"].tolist() == [220_500_000] * 15
    assert found.tables["dropped"]["arrival_ns"].tolist() == [NEVER] * 15
    assert differences(*(rows_of(dying(), plane) for plane in PLANES)) == []


def test_the_ledger_has_what_is_withheld_as_in_flight() -> None:
    for plane in PLANES:
        control = made(one_step(), plane)
        control.start()
        control.run(230 * MS)
        assert sum(lost + twice for _, _, lost, twice in control.plane.ledger()) == 0


# -- broken on purpose

Broken = Callable[[pytest.MonkeyPatch], None]


def unheld(patch: pytest.MonkeyPatch) -> None:
    """Who sends does not withhold anything."""
    patch.setattr(Megaphone, "on_ahead", lambda *_: None)


def early(patch: pytest.MonkeyPatch) -> None:
    """What is withheld leaves when something older leaves."""
    offer = Outbox.offer

    def offering(self: Outbox, output: Output) -> None:
        offer(self, output)
        for operator, one in self.withheld.items():
            if one.from_ns is not None and len(one.items) > 3:
                from_ns = one.from_ns
                self.let_out(operator)
                self.withhold(operator, from_ns)

    patch.setattr(Outbox, "offer", offering)


def not_updated(patch: pytest.MonkeyPatch) -> None:
    """A step begins before its update."""
    patch.setattr(Megaphone, "_may_begin", lambda self, step: bool(self.heard(f"awaited {step}")))


def not_configured(patch: pytest.MonkeyPatch) -> None:
    """What is withheld leaves before the task goes by the update."""

    def on_configure(self: Megaphone, ctx: ReconfigurationContext, message: Any) -> None:
        if self.plan.late_ns:
            ctx.let_out()
        ctx.place(message.note)

    patch.setattr(Megaphone, "on_configure", on_configure)


def reversed_order(patch: pytest.MonkeyPatch) -> None:
    """What is withheld leaves in another order than it was made in."""
    let_out = Outbox.let_out

    def letting(self: Outbox, operator: int) -> None:
        self.withheld[operator].items.reverse()
        let_out(self, operator)

    patch.setattr(Outbox, "let_out", letting)


def not_in_frontiers(patch: pytest.MonkeyPatch) -> None:
    """Frontiers do not wait for what is withheld."""
    rows_at = PlaneState._rows_at

    def without(self: PlaneState, operators: Any) -> Any:
        withheld = [task.outbox.withheld for task in self.tasks]
        for task in self.tasks:
            task.outbox.withheld = {}
        found = [*rows_at(self, operators)]
        for task, its in zip(self.tasks, withheld, strict=True):
            task.outbox.withheld = its
        return found

    patch.setattr(PlaneState, "_rows_at", without)
    patch.setattr(PlainPlane, "_check_served", lambda *_: None)


def overtaking(patch: pytest.MonkeyPatch) -> None:
    """Watermarks overtake what is withheld."""
    waits = Withheld.has_to_wait
    patch.setattr(Withheld, "has_to_wait", lambda self, item: isinstance(item, Output) and waits(self, item))


def by_creation(patch: pytest.MonkeyPatch) -> None:
    """An output is withheld by its creation time, and not by its birth."""
    waits = Withheld.has_to_wait

    def waiting(self: Withheld, item: Any) -> bool:
        if isinstance(item, Output):
            return self.from_ns is not None and item.row.created_ns >= self.from_ns
        return waits(self, item)

    patch.setattr(Withheld, "has_to_wait", waiting)


def kept_by_the_dead(patch: pytest.MonkeyPatch) -> None:
    """Forget what a task withholds that dies, and do not tell that it is lost."""
    lose = Outbox.lose

    def losing_none(self: Outbox) -> list[Output]:
        return [] if self.withheld else lose(self)

    patch.setattr(Outbox, "lose", losing_none)


def of_late(seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    return faults(watched(late_job(seed), patch))


def of_several(seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    return [one for name in ("first", "op") for one in by_operator(late_of_several(seed), patch, name)]


def of_windows(seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    raw = late(timed_job(seed, WHERE[seed % len(WHERE)]), Random(f"late windows {seed}"))
    return wrong_windows(raw, patch)[0]


def of_a_crash(seed: int, _: pytest.MonkeyPatch) -> list[str]:
    return losing(dying())[-1]


NOTICED: tuple[tuple[Broken, Callable[[int, pytest.MonkeyPatch], list[str]], int, str], ...] = (
    (unheld, of_late, 7, "configuration of its time"),
    (early, of_late, 0, "configuration of its time"),
    (not_updated, of_late, 0, "have one next task"),
    (not_configured, of_late, 22, "configuration of its time"),
    (reversed_order, of_several, 3, "another order"),
    (not_in_frontiers, of_several, 25, "after the time of a step has passed"),
    (overtaking, of_windows, 2, "behind its watermark"),
    (by_creation, of_windows, 33, "configuration of its time"),
    (kept_by_the_dead, of_a_crash, 0, "not once applied, dropped or on its way"),
)
"""What is broken, the jobs in which it is looked for, the first seed that is tried, and what is said of it."""


@pytest.mark.parametrize(("broken", "look", "first", "words"), NOTICED, ids=[one[0].__name__ for one in NOTICED])
def test_what_is_broken_is_noticed(
    broken: Broken,
    look: Callable[[int, pytest.MonkeyPatch], list[str]],
    first: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    seen: list[str] = []
    for seed in range(first, first + 8):
        try:
            seen += look(seed, monkeypatch)
        except (AssertionError, ValueError, RuntimeError) as error:
            seen.append(str(error))
        if any(words in one for one in seen):
            return
    raise AssertionError(f"nothing of it was noticed: {seen}")


def test_another_protocol_has_no_configuration_that_could_be_late() -> None:
    raw = changed(one_step(), {"events/move/protocol": "pause-and-resume"})
    with pytest.raises(InputError, match="late = 30 ms: is of the protocol megaphone"):
        scenario_from(raw)
