"""Windows, joins and timers in runs whose checkpoints barriers take: the kernels hand event time over to each other.

Oracles: the event loop alone and `sim.plain`, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from small_jobs import random_joins, random_windows
from test_barriers_in_turns import PLANES, STATES, cut, in_turns
from test_barriers_in_turns import random_job as without_windows
from test_planes import differences, noticed
from test_scan_windows import free_cells

from models.records.tables import BOTH, EVENT_LOOP
from models.scenario.inputs import RunInputs
from models.units import to_ns
from scenarios.files.scenario import path_of, read_scenario
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import build, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop import forgetting, pools
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over import event_time, to_loop, to_scan, windows
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.barriers import TurnsBetweenBarriers
from sim.kernel.needs import needs_of
from sim.plain.plane import PlainPlane
from sim.plane_values import NotCovered


def random_job(draw: Random, fails: bool) -> dict[str, Any]:
    """A job with barriers, of which some operators have windows, joins and timers, and states of the last time."""
    raw = without_windows(draw)
    timed = draw.choice([random_windows, random_joins])(draw)
    raw["operators"] = timed["operators"]
    workload = raw["workload"]["src"]
    workload["watermark"], workload["keys"] = timed["workload"]["src"]["watermark"], timed["workload"]["src"]["keys"]
    for operator in raw["operators"].values():
        operator.pop("threads", None)
        if operator["kind"] not in ("source", "sink") and draw.random() < 0.4:
            operator["state"] = draw.choice(STATES)
    if not fails:
        raw["events"] = {}
        raw["fault_tolerance"]["barriers"].pop("tolerated_failures", None)
    if draw.random() < 0.5:
        raw["recording"] = {"detail": "histograms"}
    return raw


def compared(
    seed: int, seen: Counter[str] | None = None, reference: PlaneFactory = CompiledPlane, fails: bool | None = None
) -> list[str]:
    """What differs between the event loop alone and both kernels in turns, in the job of that seed."""
    draw, seen = Random(f"windows in turns {seed}"), Counter() if seen is None else seen
    raw = random_job(draw, draw.random() < 0.6 if fails is None else fails)
    if reference is PlainPlane:
        raw.pop("recording", None)  # it has no histograms
    plan = RunPlan.of(unchecked(raw), RunInputs(), 0)
    why = next((need.why for need in needs_of(plan) if not need.at_times), None)
    if why is not None:
        seen["refused"] += 1
        return []
    found = in_turns(draw, raw, seen)
    if found is None:
        return []
    seen["failed"] += found.tables["failures"]["host"].size > 0
    return differences(simulate(unchecked(raw), plane=reference), found)


def meeting(seed: int) -> dict[str, Any]:
    """A job whose instants meet. Its failure comes where windows have ended whose results are not behind a barrier."""
    draw = Random(f"meeting {seed}")
    service = {"distribution": "deterministic", "value": "10 ms"}
    window = {
        "kind": "aggregate",
        "window": {"length": "100 ms"},
        "service": service,
        "parallelism": 2,
        "key_groups": 4,
    }
    inputs = draw.choice([{"one": "key"}, {"one": "key", "src": "key"}])
    keys = {"distribution": "uniform", "count": 5}
    source = {"rate": f"{draw.choice([40, 100])} /s", "arrivals": "deterministic", "keys": keys}
    return {
        "seed": draw.randint(0, 999),
        "duration": "6 s",
        "workload": {"src": source | {"watermark": draw.choice(["50 ms", "100 ms"])}},
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "one": window | {"inputs": {"src": "key"}},
            "two": window | {"inputs": inputs},
            "out": {"kind": "sink", "inputs": {"two": "shuffle"}, "service": service, "parallelism": 2},
        },
        "hosts": {"h": {"count": 3, "cpu": "dedicated"}},
        "network": {"latency": draw.choice(["50 ms", "10 ms"])},
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "interval": "500 ms",
            "staggered": False,
            "barriers": {"restarted": "at-once"},
            "remote": "100 MB/s",
        },
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "events": {"crash": {"at": "1300 ms", "kind": "host-failure", "host": f"h-{draw.randrange(3)}"}},
    }


def differs_where_instants_meet(seed: int) -> list[str]:
    try:
        found = simulate(unchecked(meeting(seed)), plane=cut(1_000_000))
    except NotCovered:
        return []
    return differences(simulate(unchecked(meeting(seed)), plane=CompiledPlane), found)


def test_rows_do_not_depend_on_turns() -> None:
    seen = Counter[str]()
    for seed in range(14):
        assert compared(seed, seen) == [], seed
    assert seen["in turns"] > 4, seen
    assert seen["mostly in the scan"] > 2, seen
    assert seen["failed"] > 2, seen


def test_rows_are_those_of_the_plain_plane() -> None:
    for seed in range(14, 18):
        assert compared(seed, reference=PlainPlane) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign(part: int) -> None:
    for seed in range(100 + part * 500, 600 + part * 500):
        assert compared(seed) == [], seed
        assert differs_where_instants_meet(seed) == [], seed


def test_results_that_sinks_have_got_before_a_failure_are_dropped() -> None:
    for seed in (7, 8):
        assert differs_where_instants_meet(seed) == [], seed


def rare() -> dict[str, Any]:
    """A job with windows that are long beside the time between two checkpoints, of which few tuples come."""
    return {
        "duration": "12 s",
        "workload": {"src": {"rate": "5 /s", "watermark": "100 ms"}},
        "operators": {
            "src": {"kind": "source"},
            "counts": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "service": {"distribution": "exponential", "mean": "1 ms"},
                "window": {"length": "1 s"},
            },
            "both": {
                "kind": "map",
                "inputs": {"counts": "broadcast", "src": "shuffle"},
                "service": {"distribution": "deterministic", "value": "5 ms"},
            },
            "out": {"kind": "sink", "inputs": {"both": "shuffle"}},
        },
        "hosts": {"h": {"count": 3, "cpu": "dedicated"}},
        "network": {"latency": "50 ms"},
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "interval": "300 ms",
            "staggered": False,
            "remote": "100 kB/s",
            "snapshots": {"copy": "1 MB/s"},
            "barriers": {"restarted": "random", "first": "random", "timeout": "400 ms", "min_pause": "100 ms"},
        },
        "events": {"crash": {"at": "900 ms", "kind": "host-failure", "host": "h-2", "repair": "50 ms"}},
    }


def forget_often(patch: pytest.MonkeyPatch) -> list[bool]:
    """Forget ids whenever there might be no room for more; the list will say whether there was any to forget."""
    forget, forgotten = pools.forget_ids, list[bool]()

    def whenever_it_may(state: Any, need: int, pin: Callable[[], None]) -> None:
        if state.options["forgets_ids"]:
            pin()
            forgetting.forget(state)
        forgotten.append(state.ids["oldest"] > 0)
        forget(state, need, pin)

    patch.setattr(pools, "forget_ids", whenever_it_may)
    return forgotten


def test_ids_are_not_forgotten_that_results_of_open_windows_have(monkeypatch: pytest.MonkeyPatch) -> None:
    # After the last failure no window is opened again. What it emits is as old as one of its tuples all the same.
    forgotten = forget_often(monkeypatch)
    found = simulate(unchecked(rare()), plane=cut(10_000_000, kind=TurnsBetweenBarriers))
    assert sum(forgotten) > 10
    assert len(PLANES[0].hand_overs) > 10
    assert differences(simulate(unchecked(rare()), plane=CompiledPlane), found) == []


def test_windows_that_nobody_notes_would_have_results_whose_ids_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = windows._enter_loop

    def enters(scan: Any, loop: Any, opens_again: bool) -> None:
        enter(scan, loop, opens_again)
        if not opens_again:
            loop.partitions["past_first"] = loop.partitions["past_last"] = NONE

    monkeypatch.setattr(windows, "_enter_loop", enters)
    forget_often(monkeypatch)
    with pytest.raises(RuntimeError, match="ids had been forgotten"):
        simulate(unchecked(rare()), plane=cut(10_000_000, kind=TurnsBetweenBarriers))


def test_the_scan_is_offered_a_run_less_often_the_longer_something_hinders_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # At first it is asked each millisecond of 12 s, which would be 11,000 times after the failure.
    monkeypatch.setattr(TurnsBetweenBarriers, "_hindrance", lambda plane, at_ns: "some reason")
    found = simulate(unchecked(rare()), plane=cut(1_000_000, kind=TurnsBetweenBarriers))
    assert differences(simulate(unchecked(rare()), plane=CompiledPlane), found) == []
    tries = np.array([at for at, _ in PLANES[0].hindrances])
    assert 100 < tries.size < 500
    later = tries[tries > to_ns(0.95)]
    assert (np.diff(later) < (later[:-1] - tries[0]) // 4).all()


def test_every_place_is_free_again_once_all_windows_have_ended() -> None:
    silent = {"steps": [{"at": "0 s", "rate": "300 /s"}, {"at": "1 s", "rate": "0 /s"}]}
    raw = meeting(0) | {"events": {}, "duration": "3 s"}
    raw["workload"]["src"]["rate"] = silent
    raw["operators"]["one"]["service"] = {"distribution": "deterministic", "value": "1 ms"}
    pairs = {"kind": "join", "inputs": {"one": "key", "src": "key"}, "window": {"length": "100 ms"}}
    raw["operators"]["two"] = raw["operators"]["one"] | pairs
    control = build(unchecked(raw), plane=cut(1_000_000))
    control.run(to_ns(0.99))
    assert len(PLANES[0].hand_overs) >= 2
    control.run(to_ns(3))
    assert PLANES[0]._scan is not None
    state = PLANES[0]._scan.state
    assert state.panes_of["first"].max() == NONE
    assert state.places.max(initial=0) == 0
    assert state.panes.shape[0] == state.pane_pool["left"]
    assert state.notes.shape[0] == state.note_pool["left"]
    assert free_cells(state) == state.cell_pool["begun"]
    loop = PLANES[0].state
    assert not len(loop.cells) + len(loop.panes) + len(loop.notes)


def test_a_long_job_with_windows_is_made_in_turns() -> None:
    def chosen(*settings: str) -> str:
        made = read_scenario(path_of("nexmark-q5"), [*settings]).scenario
        return kernel_for(RunPlan.of(made, RunInputs(), 0)).name

    assert chosen() == EVENT_LOOP
    assert chosen("duration=20 min") == BOTH
    assert chosen("duration=20 min", "fault_tolerance.guarantee=at-least-once") == EVENT_LOOP


# -- rules that are broken on purpose

Patch = pytest.MonkeyPatch


def watermarks_on_their_way_are_lost(patch: Patch) -> None:
    look = LoopAtRest._hears_apart

    def loses(rest: LoopAtRest) -> str | None:
        why = look(rest)
        rest.marks, rest.marks_at = rest.marks[:0], rest.marks_at[:0]
        return why

    patch.setattr(LoopAtRest, "_hears_apart", loses)


def watermarks_that_wait_are_lost(patch: Patch) -> None:
    waiting = to_loop._Filling._waiting

    def loses(filling: Any) -> np.ndarray:
        made = waiting(filling)
        return made[made["kind"] == TUPLE]

    patch.setattr(to_loop._Filling, "_waiting", loses)


def watermarks_of_sources_are_late(patch: Patch) -> None:
    events = event_time._set_events

    def late(scan: Any, loop: Any) -> list[event_time.Event]:
        ticks, timers = events(scan, loop)
        return [ticks._replace(time=ticks.time + 1_000_000), timers]

    patch.setattr(event_time, "_set_events", late)


def an_output_of_a_timer_is_forgotten(patch: Patch) -> None:
    events = event_time._set_events

    def skip(scan: Any, loop: Any) -> list[event_time.Event]:
        ticks, timers = events(scan, loop)
        u = loop.partitions
        for name in ("ticks", "ticks_due"):
            u[name][timers.ref] += 1
        return [ticks, timers._replace(time=timers.time + scan.operators["timer"][u["operator"][timers.ref]])]

    patch.setattr(event_time, "_set_events", skip)


def nobody_has_heard_anything(patch: Patch) -> None:
    patch.setattr(event_time, "_tell_scan", lambda scan, loop: None)


def windows_stay_behind(patch: Patch) -> None:
    patch.setattr(windows, "to_scan", lambda scan, loop: None)


def states_of_the_last_time_stay_behind(patch: Patch) -> None:
    enter = windows._enter_scan

    def enters(scan: Any, loop: Any) -> None:
        enter(scan, loop)
        scan.recents_of["first"] = NONE

    patch.setattr(windows, "_enter_scan", enters)


def windows_are_not_opened_again(patch: Patch) -> None:
    """What the event loop keeps of windows of the scan is dropped too early."""
    enter = windows._enter_loop
    patch.setattr(windows, "_enter_loop", lambda scan, loop, opens_again: enter(scan, loop, False))


def inputs_are_mixed_up(patch: Patch) -> None:
    patch.setattr(to_scan._Filling, "_name_inputs", lambda filling, made, tuples: None)


def results_come_once(patch: Patch) -> None:
    patch.setattr(windows, "ends_by", lambda loop, instant: False)


def timers_begin_anew_in_the_ledger(patch: Patch) -> None:
    fill = to_loop.fill

    def fills(*given: Any) -> to_loop.Made:
        made = fill(*given)
        return replace(made, ticks=np.zeros_like(made.ticks))

    patch.setattr(to_loop, "fill", fills)


# With the first seed that shows it.
BROKEN: dict[Callable[[Patch], None], int] = {
    watermarks_on_their_way_are_lost: 9,
    watermarks_that_wait_are_lost: 8,
    watermarks_of_sources_are_late: 0,
    an_output_of_a_timer_is_forgotten: 0,
    nobody_has_heard_anything: 8,
    windows_stay_behind: 0,
    states_of_the_last_time_stay_behind: 8,
    windows_are_not_opened_again: 44,
    inputs_are_mixed_up: 21,
    results_come_once: 7,
    timers_begin_anew_in_the_ledger: 26,
}


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda one: one.__name__)
def test_a_wrong_rule_has_other_rows(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    assert noticed(differs_where_instants_meet if mutant is results_come_once else compared, range(BROKEN[mutant], 200))
