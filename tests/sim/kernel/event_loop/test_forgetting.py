"""Ids that nobody can ask for again are forgotten, none is looked up while none can come twice, and no row tells.

Oracles: the same run in which nothing is forgotten, and after a failure everything looked up, which other tests compare
with the plain plane; a count of tuples that came although their ids had been forgotten, which ends a run; the lengths
of the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from elastic_jobs import elastic_job
from full_jobs import full_job
from moving_jobs import crashes, moving_job, run
from pydantic import ValidationError
from replicated_jobs import drawn_crashes, replicated_job
from replicated_jobs import run as run_replicas
from seeds import parts
from small_jobs import random_job, scenario, storm, with_buffers, with_fair_links
from test_event_time_recovery import timers, windows
from test_full_jobs import ran as run_full
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop import pools
from sim.kernel.event_loop.buffers import UNPINNED, keep
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.forgetting import forget, oldest_created
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.pools import settle
from sim.kernel.event_loop.state import ARRAYS, LoopState
from sim.migration.protocols import PROTOCOLS
from sim.plane_values import Key

S = 10**9
GUARANTEES = ("at-least-once", "at-most-once", "exactly-once")


class Keeping(CompiledPlane):
    """Forgets nothing, and looks ids up for ever once one may come twice."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.state.options["forgets_ids"] = 0

    def advance(self, limit: Key) -> bool:
        self.state.ids["settles"] = UNPINNED
        return super().advance(limit)


class Forgetting(CompiledPlane):
    """Forgets all that it may whenever control has done something, and looks ids up only as long as it must."""

    settled = 0  # how often ids were looked up no more

    def advance(self, limit: Key) -> bool:
        self._forget()
        before = int(self.state.ids["clean"])
        self.state.ids["settles"] = 0
        settle(self.state)
        self.settled += int(self.state.ids["clean"]) - before
        return super().advance(limit)

    def _forget(self) -> None:
        if self.state.options["forgets_ids"]:
            self._saved_outputs.pin()
            forget(self.state)


class Rash(Forgetting):
    """Forgets that a verb has had something sent again."""

    def advance(self, limit: Key) -> bool:
        self.state.ids["since"] = -1
        return super().advance(limit)


class Hasty(Forgetting):
    """Takes for over what was created a while ago."""

    def advance(self, limit: Key) -> bool:
        self.state.ids["oldest"] = max(0, self._clock.now_ns() - S // 2)
        return super().advance(limit)


def ran(made: Scenario, plane: type[CompiledPlane]) -> tuple[RunRecords, int]:
    """The rows of a run, and how many ids it had forgotten at its end."""
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    control.start()
    end = round(made.duration_s * S)
    control.run(end)
    assert isinstance(control.plane, CompiledPlane)
    return records(control, end), int(control.plane.state.partitions["base"].sum())


def compared(made: Scenario) -> tuple[list[str], int]:
    """Differences between the run that forgets and the one that does not, and how much was forgotten."""
    (kept, nothing), (rows, forgotten) = ran(made, Keeping), ran(made, Forgetting)
    assert nothing == 0
    return differences(kept, rows), forgotten


def busy(seed: int, stormy: bool, **tolerance: Any) -> Scenario:
    """A random job in which many tuples come to each partition."""
    draw = Random(seed)
    raw = (storm if stormy else random_job)(draw, fault_tolerance=tolerance)
    raw["workload"]["src"]["rate"] = "120 /s"
    if draw.random() < 0.4:
        raw = with_buffers(draw, raw)
    if draw.random() < 0.3:
        raw = with_fair_links(draw, raw)
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def _random_jobs(seeds: range) -> int:
    total = 0
    for seed in seeds:
        found, forgotten = compared(busy(seed, seed % 3 > 0))
        assert found == [], seed
        total += forgotten
    return total


def _others(kind: str, seeds: Iterable[int]) -> int:
    total = 0
    for seed in seeds:
        found, forgotten = compared(with_others(kind, seed))
        assert found == [], seed
        total += forgotten
    return total


def with_others(kind: str, seed: int) -> Scenario:
    """A job with crashes beside event time, or with another guarantee."""
    if kind == "guarantees":
        return busy(seed, seed % 3 > 0, guarantee=GUARANTEES[seed % 2])
    raw = {"windows": windows, "timers": timers}[kind](
        Random(seed), fault_tolerance={"guarantee": GUARANTEES[seed % 3]}
    )
    if seed % 2:
        raw["workload"]["src"]["rate"] = "120 /s"
    try:
        return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    except ValidationError:  # a batch or a lattice that does not go with that rate
        return with_others(kind, seed + 10_000)


def _replicas(seeds: Iterable[int]) -> int:
    total = 0
    for seed in seeds:
        made = replicated_job(seed, ("", "all")[seed % 2])
        for several in (None, *drawn_crashes(seed, 2)):
            kept, forgets = run_replicas(made, Keeping, several), run_replicas(made, Forgetting, several)
            assert differences(kept.records, forgets.records) == [], (seed, several)
            total += int(forgets.control.plane.state.partitions["base"].sum())
    return total


def _moves(protocol: str, seeds: range, count: int) -> int:
    total = 0
    for seed in seeds:
        made = moving_job(seed, protocol)
        calm = run(made, Keeping)
        for crash in (None, *crashes(seed, calm.moments, count)):
            kept = calm if crash is None else run(made, Keeping, crash)
            forgets = run(made, Forgetting, crash)
            assert differences(kept.records, forgets.records) == [], (seed, crash)
            assert isinstance(forgets.control.plane, CompiledPlane)
            total += int(forgets.control.plane.state.partitions["base"].sum())
    return total


@pytest.mark.parametrize("seeds", parts(15, 30))
def test_no_row_changes_in_random_jobs_with_crashes(seeds: range) -> None:
    assert _random_jobs(seeds) > 1000


def test_ids_are_looked_up_no_more_once_nothing_comes_twice() -> None:
    made = steady("8 s")
    control = Control(RunPlan.of(made, RunInputs(), 0), Forgetting)
    control.start()
    control.run(3 * S)
    plane = control.plane
    assert isinstance(plane, Forgetting)
    assert plane.settled == 0
    control.run(8 * S)
    assert plane.settled >= 2  # after the move, and after the failure
    assert plane.state.ids["clean"] == 1
    assert plane.state.tables["positions"] == 0


def test_duplicates_are_processed_where_ids_are_looked_up_no_more_too_early() -> None:
    made = steady("8 s")
    (kept, _), (rows, _) = ran(made, Keeping), ran(made, Rash)
    assert "ledger.duplicated" in differences(kept, rows)


@pytest.mark.parametrize(("kind", "seeds"), [("guarantees", range(4)), ("windows", (7, 9)), ("timers", range(3, 7))])
def test_no_row_changes_beside_event_time_and_in_other_guarantees(kind: str, seeds: Iterable[int]) -> None:
    assert _others(kind, seeds) > 1000


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [("moving", (3,)), *(pytest.param(kind, range(100), marks=pytest.mark.slow) for kind in ("moving", "replicated"))],
)
def test_no_row_changes_where_all_features_meet(kind: str, seeds: Iterable[int]) -> None:
    total = 0
    for seed in seeds:
        made = full_job(kind, seed)
        kept, forgets = run_full(made, Keeping), run_full(made, Forgetting)
        assert differences(kept.records, forgets.records) == [], seed
        assert isinstance(forgets.control.plane, CompiledPlane)
        total += int(forgets.control.plane.state.partitions["base"].sum())
    assert total > 0


def test_no_row_changes_where_replicas_take_over() -> None:
    assert _replicas(range(2)) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kind", ["guarantees", "windows", "timers"])
def test_no_row_changes_in_many_jobs_beside_event_time_and_in_other_guarantees(kind: str, part: int) -> None:
    assert _others(kind, range(100 * part, 100 * (part + 1))) > 0


@pytest.mark.slow
def test_no_row_changes_where_many_replicas_take_over() -> None:
    assert _replicas(range(2, 100)) > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_row_changes_where_key_groups_move_and_hosts_die(protocol: str) -> None:
    assert _moves(protocol, range(2), 3) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_row_changes_in_many_random_jobs(part: int) -> None:
    assert _random_jobs(range(200 * part, 200 * (part + 1))) > 0


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_row_changes_in_many_moves(protocol: str) -> None:
    assert _moves(protocol, range(100, 140), 6) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_no_row_changes_where_the_load_moves_key_groups(seed: int) -> None:
    assert compared(elastic_job(seed))[0] == []


def test_a_tuple_that_comes_after_its_id_was_forgotten_ends_the_run() -> None:
    made = steady(duration="6 s", service="7 ms")  # at utilisation 1.4 most wait for longer than half a second
    with pytest.raises(RuntimeError, match="tuples were sent again whose ids had been forgotten"):
        ran(made, Hasty)


@pytest.mark.parametrize("changes", [{"guarantee": "at-least-once"}, {"guarantee": "at-most-once"}, {"window": True}])
def test_ids_are_forgotten_in_every_guarantee_and_beside_windows(changes: dict[str, Any]) -> None:
    found, forgotten = compared(steady(duration="4 s", **changes))
    assert found == []
    assert forgotten > 1000


@pytest.mark.parametrize("protocol", ["cpal", "cpal_caught_up"])
def test_ids_that_the_owner_forgot_are_not_lost_where_another_instance_still_knows_them(protocol: str) -> None:
    # Key group 0 goes to h-3 and, before it has a checkpoint there, back to h-1: to what h-3 was handed by the instance
    # that is over. The log of that gets shorter, and the new instance's does not, until h-3 dies.
    move = {"kind": "migrate", "operator": "one", "key_group": 0}
    made = steady(
        duration="2420 ms",
        service="200 us",
        workload={"in": {"rate": "800 /s", "keys": {"distribution": "uniform", "count": 100}}},
        network={"latency": "40 ms"},
        events={
            "there": move | {"at": "2 s", "host": "h-3", "protocol": "direct"},
            "back": move | {"at": "2250 ms", "host": "h-1", "protocol": protocol},
            "crash": {"kind": "host-failure", "at": "2410 ms", "host": "h-3"},
        },
    )
    (kept, _), (rows, forgotten) = ran(made, Keeping), ran(made, Forgetting)
    assert differences(kept, rows) == []
    assert forgotten > 0
    assert kept.tables["migrations"]["completed_ns"][1] == NEVER  # there are two instances, and the owner is down
    assert kept.tables["ledger"]["lost"].tolist() == [0, 0]


def steady(
    duration: str, service: str = "1 ms", guarantee: str = "exactly-once", window: bool = False, **changes: Any
) -> Scenario:
    """A source, eight key groups on two hosts, a sink; one key group moves, and a host dies, in the fourth second."""
    one: dict[str, Any] = {
        "kind": "aggregate",
        "inputs": {"in": "key"},
        "parallelism": 2,
        "key_groups": 8,
        "service": {"distribution": "deterministic", "value": service},
    }
    kind = {"window": {"length": "500 ms"}} if window else {"state": {"model": "per-key", "bytes": "1 kB"}}
    raw: dict[str, Any] = {
        "duration": duration,
        "workload": {"in": {"rate": "400 /s", "keys": {"distribution": "uniform", "count": 100}}},
        "operators": {
            "in": {"kind": "source"},
            "one": one | kind,
            "out": {"kind": "sink", "inputs": {"one": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "placement": {"tasks": {"in-0": "h-0", "one-0": "h-1", "one-1": "h-2", "out-0": "h-0"}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "500 ms", "staggered": True, "guarantee": guarantee},
        "detector": {"heartbeat": "100 ms", "timeout": "300 ms"},
        "events": {
            "move": {"kind": "migrate", "at": "3100 ms", "operator": "one", "key_group": 2, "host": "h-2"},
            "crash": {"kind": "host-failure", "at": "3600 ms", "host": "h-1", "repair": "200 ms"},
        },
    }
    if guarantee == "at-most-once":
        del raw["events"]["move"]  # which needs what upstream keeps
    return scenario(raw | changes)


def test_memory_does_not_grow_with_the_time_of_the_run() -> None:
    lengths = []
    for duration in ("20 s", "120 s"):
        made = steady(duration)
        control = Control(RunPlan.of(made, RunInputs(), 0), CompiledPlane)
        control.start()
        control.run(round(made.duration_s * S))
        assert isinstance(control.plane, CompiledPlane)
        s = control.plane.state
        lengths.append([len(s.log), len(s.log_next), len(s.positions), len(s.nodes), len(s.visits), len(s.pairs)])
        assert not control.plane.ledger()[0][2]
    assert lengths[0] == lengths[1]
    assert lengths[1][0] < 2 * 400 * 120 / 4  # of the ids that there were


@pytest.mark.parametrize(("sources_keep", "reads"), [(0, 0), (1, 1)])
def test_the_oldest_output_that_is_kept_may_be_behind_others(sources_keep: int, reads: int) -> None:
    made = made_to_keep((7, 5, 9))
    made.options["sources_keep"], made.options["reads"] = sources_keep, reads
    assert oldest_created(made) == 5


def test_the_first_output_that_a_source_keeps_is_its_oldest_unless_control_says_what_it_reads() -> None:
    made = made_to_keep((5, 7, 9))
    made.options["sources_keep"] = 1
    assert oldest_created(made) == 5


def made_to_keep(created: Iterable[int]) -> LoopState:
    """A state in which the first of two partitions keeps outputs for the second."""
    made = LoopState(**{name: np.zeros(2, dtype) for name, dtype in ARRAYS.items()} | pools.empty())
    made.options["keeps_outputs"], made.sources = 1, made.sources[:0]
    for name in ("out_pair", "in_pair", "held_head", "overtaken_head", "in_flight_head"):
        made.partitions[name] = NONE
    made.partitions["group"] = made.partitions["owner"] = [0, 1]
    pools.grown(made, 100, 100)
    for place, at in enumerate(created):
        keep(made, 0, 1, 1 + place, at, 0, 1)
    return made
