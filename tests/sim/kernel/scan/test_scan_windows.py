"""Watermarks, windows and joins in the scan.

Oracles: `sim.plain` and the event loop, by equality of all columns; no tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreted import interpret, replace
from scan_jobs import on_a_lattice, timed_job
from test_planes import differences, noticed
from test_scan import cut_up, kernel, made

from models.records.tables import EVENT_LOOP, SCAN
from models.units import to_ns
from sim.engine import build, simulate
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.event_time import is_in_levels
from sim.kernel.scan import event_time, timed
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane

HISTOGRAMS = {"recording": {"detail": "histograms"}}


def equal_on_three_planes(seed: int) -> None:
    raw = timed_job(Random(seed))
    assert kernel(raw).name == SCAN, kernel(raw).why
    found = simulate(made(raw), plane=ScanPlane)
    assert differences(simulate(made(raw), plane=PlainPlane), found) == []
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_three_planes_give_equal_rows_with_windows(seed: int) -> None:
    equal_on_three_planes(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_three_planes_give_equal_rows_in_many_jobs_with_windows(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        equal_on_three_planes(seed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_cuts_change_no_window(seed: int) -> None:
    draw = Random(seed)
    job = made(timed_job(draw))
    assert differences(simulate(job, plane=ScanPlane), cut_up(job, draw, draw.choice([1, 10, 300]))) == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_histograms_are_equal_with_windows(seed: int) -> None:
    job = made(timed_job(Random(seed)) | HISTOGRAMS)
    assert differences(simulate(job, plane=CompiledPlane), simulate(job, plane=ScanPlane)) == []


# -- watermarks that go back


class GoingBack(ScanPlane):
    """A scan whose tasks have other numbers than the order of the dataflow would give them, as after a recovery."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        tasks = int(self.state.options["tasks"])
        self.state.options["goes_back"], self.state.options["ranks"] = 1, tasks * (tasks + 1)


def backward_job(draw: Random) -> dict[str, Any]:
    """Windows on a lattice of instants, on few hosts, whose operators are in any order."""
    raw = timed_job(draw)
    on_a_lattice(draw, raw)
    raw["workload"]["src"]["watermark"] = draw.choice(["50 ms", "25 ms"])
    raw["network"]["latency"] = draw.choice(["0 s", "5 ms", "10 ms"])
    operators = [*raw["operators"].items()]
    operators = operators[::-1] if draw.random() < 0.6 else draw.sample(operators, len(operators))
    raw["operators"] = dict(operators)
    raw["operators"]["out"]["service"] = {"distribution": "deterministic", "value": "5 ms"}
    if "h" in raw["hosts"]:
        raw["hosts"]["h"]["count"] = draw.choice([1, 2])
    return raw


def differs_backwards(seed: int, plane: type[ScanPlane] = GoingBack) -> list[str]:
    job = made(backward_job(Random(f"back {seed}")))
    if not is_in_levels(build(job, plane=CompiledPlane).plane.state):
        return []
    return differences(simulate(job, plane=CompiledPlane), simulate(job, plane=plane))


# Of some of them the order within an instant is that of their ranks.
MEETING = (35, 40, 100, 152, 184, 216, 254)


def test_what_a_watermark_causes_at_tasks_with_lower_numbers_comes_last() -> None:
    for seed in (*range(30), *MEETING):
        assert differs_backwards(seed) == [], seed


def test_the_number_of_the_sender_does_not_say_when_it_comes() -> None:
    assert noticed(lambda seed: differs_backwards(seed, ScanPlane), MEETING)


@pytest.mark.slow
def test_watermarks_go_back_in_many_jobs() -> None:
    for seed in range(30, 1500):
        assert differs_backwards(seed) == [], seed


# -- large windows, and backlogs


KEYED: dict[str, Any] = {"kind": "aggregate", "parallelism": 3, "key_groups": 10}
FAST = {"distribution": "exponential", "mean": "20 us"}
LARGE: dict[str, Any] = {
    "duration": "4 s",
    "workload": {
        "in": {"rate": "6000 /s", "keys": {"distribution": "uniform", "count": 20_000}},
        "late": {
            "rate": "50 /s",
            "watermark": "700 ms",
            "keys": {"distribution": "zipf", "count": 20_000, "exponent": 1.0},
        },
    },
    "operators": {
        "in": {"kind": "source", "parallelism": 2},
        "late": {"kind": "source"},
        "copies": {"kind": "map", "inputs": {"in": "shuffle"}, "parallelism": 2, "service": FAST, "selectivity": 1.6},
        "sums": KEYED
        | {
            "inputs": {"copies": "key", "late": "key"},
            "service": FAST,
            "window": {"length": "1 s", "slide": "250 ms"},
            "selectivity": 1.5,
        },
        "pairs": KEYED
        | {"kind": "join", "inputs": {"sums": "key", "late": "key"}, "service": FAST, "window": {"length": "500 ms"}},
        "slow": {"kind": "map", "inputs": {"pairs": "broadcast"}, "parallelism": 2, "threads": 3, "service": FAST},
        "out": {"kind": "sink", "inputs": {"slow": "shuffle", "sums": "forward"}, "parallelism": 3},
    },
    "hosts": {"h": {"count": 5}},
    "network": {"latency": "2 ms"},
    "fault_tolerance": {"method": "none"},
}


@pytest.mark.parametrize("detail", ["tuples", "histograms"])
def test_large_windows_grow_and_give_their_places_back(detail: str) -> None:
    job = made(LARGE | {"recording": {"detail": detail}})
    assert kernel(LARGE).name == SCAN
    found = simulate(job, plane=ScanPlane)
    assert differences(simulate(job, plane=CompiledPlane), found) == []
    assert differences(cut_up(job, Random(1), 7), found) == []


def test_a_long_run_needs_no_more_places_than_a_short_one() -> None:
    def places(duration_s: int) -> tuple[int, ...]:
        control = build(made(LARGE | HISTOGRAMS | {"duration": f"{duration_s} s"}), plane=ScanPlane)
        control.run(to_ns(duration_s))
        state = control.plane.state
        return tuple(getattr(state, name).shape[0] for name in ("cells", "places", "panes", "notes"))

    assert places(16) == places(4)


def test_every_place_is_free_again_once_all_windows_have_ended() -> None:
    silent = {"rate": {"steps": [{"at": "0 s", "rate": "4000 /s"}, {"at": "1 s", "rate": "0 /s"}]}}
    raw = LARGE | {"workload": {name: one | silent for name, one in LARGE["workload"].items()}}
    control = build(made(raw), plane=ScanPlane)
    control.run(to_ns(0.9))
    state = control.plane.state
    assert state.panes_of["first"].max() > NONE
    assert state.notes.shape[0] > state.note_pool["left"]
    control.run(to_ns(4))
    assert state.panes_of["first"].max() == NONE
    assert state.places.max() == 0
    assert state.panes.shape[0] == state.pane_pool["left"]
    assert state.notes.shape[0] == state.note_pool["left"]
    assert free_cells(state) == state.cell_pool["begun"]


def free_cells(state: Any) -> int:
    """Cells of the blocks that are free."""
    found = 0
    for size, first in enumerate(state.free_blocks.tolist()):
        block = first
        while block != NONE:
            found += 1 << size
            block = int(state.cells["key"][block])
    return found


@pytest.mark.parametrize("kind", ["aggregate", "join"])
def test_one_result_may_make_more_outputs_than_are_sent_at_once(kind: str) -> None:
    few = {name: {"rate": "3 /s"} for name in ("in", "late")}  # all of one key
    operators: dict[str, Any] = {name: LARGE["operators"][name] for name in ("in", "late")}
    results = {"kind": kind, "inputs": dict.fromkeys(operators, "key"), "service": FAST, "window": {"length": "500 ms"}}
    operators["results"] = results | {"selectivity": 5000.5}
    operators["out"] = {"kind": "sink", "inputs": {"results": "shuffle"}, "parallelism": 2}
    raw = LARGE | {"duration": "2 s", "workload": few, "operators": operators}
    found = simulate(made(raw), plane=ScanPlane)
    assert found.tables["deliveries"]["operator"].size > 5000
    assert differences(simulate(made(raw), plane=CompiledPlane), found) == []


def test_watermarks_that_wait_are_no_tuples() -> None:
    slow = {"distribution": "deterministic", "value": "400 ms"}
    raw = LARGE | {"operators": LARGE["operators"] | {"sums": LARGE["operators"]["sums"] | {"service": slow}}}
    job = made(raw | {"duration": "3 s"})
    found, expected = simulate(job, plane=ScanPlane), simulate(job, plane=CompiledPlane)
    assert differences(expected, found) == []
    assert found.tables["samples"]["queue"].max() > 100
    assert found.tables["waiting"]["operator"].size > 1000


# -- which runs


def why(raw: dict[str, Any]) -> str:
    found = kernel(raw)
    assert found.name == EVENT_LOOP
    return found.why


def changed(operator: str, **changes: Any) -> dict[str, Any]:
    return LARGE | {"operators": LARGE["operators"] | {operator: LARGE["operators"][operator] | changes}}


def test_the_scan_leaves_windows_to_the_event_loop_where_it_does_not_keep_their_order() -> None:
    assert why(changed("copies", threads=2)) == "watermarks pass copies, which has several threads"
    apart = {"hosts": {name: {"network": "1 GB/s"} for name in LARGE["operators"]}}
    placed = {"placement": {"operators": {name: name for name in LARGE["operators"]}}}
    assert why(LARGE | apart | placed) == "watermarks go over the link of in-0"
    saved = {"method": "checkpoint", "interval": "1 s"}
    assert why(LARGE | {"fault_tolerance": saved}) == "sums has a window, and checkpoints are taken"
    operators = dict(LARGE["operators"])
    pairs = operators.pop("pairs")
    before = {"in": operators.pop("in"), "pairs": pairs, **operators}
    assert why(LARGE | {"operators": before}) == "watermarks pass sums, which stands behind pairs"
    forward = changed("sums", inputs={"copies": "key", "late": "forward"})
    assert why(forward) == "key groups of sums hear different tasks"


# -- broken on purpose


Patch = pytest.MonkeyPatch


def overtakes_a_tuple(patch: Patch) -> None:
    """Watermarks of sources are on their way for no time."""

    def quick(post: Any) -> Any:
        def posted(state: Any, place: int, at: int, tuple_id: int, created: int, key: int, *rest: Any) -> None:
            post(state, place, created if key < 0 else at, tuple_id, created, key, *rest)

        return posted

    replace(patch, "post", quick)


def is_heard_of_one_channel(patch: Patch) -> None:
    """A watermark counts without the other channels."""

    def alone(_: Any) -> Any:
        def hears(state: Any, task: int, origin: int, event: int) -> None:
            state.listeners[task].event = max(state.listeners[task].event, event)

        return hears

    replace(patch, "_hear", alone)


def ends_twice(patch: Patch) -> None:
    """A pane emits once more when it is forgotten."""

    def again(emit: Any) -> Any:
        def emits(state: Any, *given: Any) -> None:
            emit(state, *given)
            emit(state, *given)

        return emits

    replace(patch, "_emit_results", again)


def keeps_a_place(patch: Patch) -> None:
    """One place in the table of a block is not emptied: what comes next may find a key of before."""

    def unwiped(give_back: Any) -> Any:
        def given_back(state: Any, block: int, size: int) -> None:
            kept = state.places[2 * block]
            give_back(state, block, size)
            state.places[2 * block] = kept

        return given_back

    replace(patch, "_give_back", unwiped)


def goes_on_before_its_windows(patch: Patch) -> None:
    """A watermark behind a window does not wait for the windows that are open."""
    replace(patch, "first_open", lambda _: lambda op, event: 2**30)


def takes_the_first_of_a_key(patch: Patch) -> None:
    """A result is as old as the first tuple of its key in the window."""

    def enters(enter: Any) -> Any:
        def entered(state: Any, operator: int, most: int, item: Any) -> bool:
            before = {k: state.cells[k].newest for k in range(state.cell_pool.begun)}
            done = enter(state, operator, most, item)
            for k, newest in before.items():
                if 0 < newest < state.cells[k].newest == item.created:
                    state.cells[k].newest = newest
            return bool(done)

        return entered

    replace(patch, "enter", enters)


def meets_its_own_side(patch: Patch) -> None:
    """A tuple of a join meets those of its own input."""

    def unmarked(_: Any) -> Any:
        def marks(state: Any, operator: int, first: int, n: int) -> None:
            for k in range(n):
                if state.done[k].key >= 0 and k % 2:
                    state.done[k].key |= 1 << 61

        return marks

    replace(patch, "mark_sides", unmarked)


def leaves_before_the_tuples(patch: Patch) -> None:
    """A watermark stands in front of the tuples of its instant in the boxes."""

    def first(_: Any) -> Any:
        def finished(state: Any, operator: int) -> bool:
            n = state.progress.done
            if n and event_time.room(state, operator) < n:
                state.requests.need = n
                return False
            if n:
                event_time._set_apart(state, operator, n)
            return bool(event_time._take_turns(state, operator) and event_time.complete(state, operator))

        return finished

    replace(patch, "finish", first)


def forgets_one_sender(patch: Patch) -> None:
    """Of two tasks that send to a task one is not waited for."""
    arrays = timed.arrays

    def deaf(*given: Any) -> dict[str, np.ndarray]:
        found = arrays(*given)
        for listener in found["listeners"]:
            if listener["behind"] > 1:
                listener["behind"] -= 1
                first = int(listener["first_voice"])
                own = found["voices"][first : first + int(listener["voices"])]
                own[np.flatnonzero(own == 0)[0]] = 2**62
        return found

    patch.setattr(timed, "arrays", deaf)


def emits_behind_the_watermark(patch: Patch) -> None:
    """What a timer owes at the instant of a watermark that has just arrived leaves behind it."""

    def late(emit: Any) -> Any:
        def emits(state: Any, operator: int, partition: int, until: int) -> bool:
            at_a_watermark = until < state.span.end
            return bool(emit(state, operator, partition, until - 1 if at_a_watermark else until))

        return emits

    replace(patch, "_emit_timer", late)


def emits_once_more(patch: Patch) -> None:
    """A timer emits at the instant of the end of a span, and again in the next one."""

    def twice(emit: Any) -> Any:
        def emits(state: Any, operator: int, partition: int, until: int) -> bool:
            number = state.timer_ticks[partition]
            done = emit(state, operator, partition, until)
            if state.timer_ticks[partition] > number and until == state.span.end:
                state.timer_ticks[partition] -= 1
            return bool(done)

        return emits

    replace(patch, "_emit_timer", twice)


MUTANTS: list[Callable[[Patch], None]] = [
    overtakes_a_tuple,
    is_heard_of_one_channel,
    ends_twice,
    keeps_a_place,
    goes_on_before_its_windows,
    takes_the_first_of_a_key,
    meets_its_own_side,
    leaves_before_the_tuples,
    forgets_one_sender,
    emits_once_more,
]


def interpreted(seed: int) -> list[str]:
    raw = timed_job(Random(seed)) | {"duration": "1 s"}
    return differences(simulate(made(raw), plane=PlainPlane), simulate(made(raw), plane=ScanPlane))


def test_the_scan_does_the_same_without_the_compiler(monkeypatch: Patch) -> None:
    interpret(monkeypatch)
    assert not noticed(interpreted, range(40))


@pytest.mark.parametrize("broken", MUTANTS, ids=lambda one: one.__name__)
def test_a_watermark_or_window_that_is_broken_is_noticed(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    interpret(monkeypatch)
    broken(monkeypatch)
    assert noticed(interpreted, range(40))


TWICE_A_SECOND: dict[str, Any] = {
    "duration": "2 s",
    "workload": {"in": {"rate": "8.3 /s", "arrivals": "deterministic", "watermark": "500 ms"}},
    "operators": {
        "in": {"kind": "source"},
        "beats": {
            "kind": "map",
            "inputs": {"in": "forward"},
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "timer": {"every": "500 ms"},
        },
        "counts": {
            "kind": "aggregate",
            "inputs": {"beats": "key"},
            "service": {"distribution": "deterministic", "value": "7 ms"},
            "window": {"length": "500 ms"},
        },
        "out": {"kind": "sink", "inputs": {"counts": "forward"}},
    },
    "hosts": {"h": {}},
    "fault_tolerance": {"method": "none"},
}


def test_a_timer_has_its_turn_in_front_of_a_watermark_that_has_just_arrived(monkeypatch: Patch) -> None:
    """So the window ends when what the timer has emitted is served, 7 ms later."""
    assert kernel(TWICE_A_SECOND).name == SCAN
    expected = simulate(made(TWICE_A_SECOND), plane=PlainPlane)
    assert expected.tables["deliveries"]["delivered_ns"].tolist() == [507_000_000, 1_007_000_000, 1_507_000_000]
    assert differences(expected, simulate(made(TWICE_A_SECOND), plane=CompiledPlane)) == []
    assert differences(expected, simulate(made(TWICE_A_SECOND), plane=ScanPlane)) == []
    interpret(monkeypatch)
    assert differences(expected, simulate(made(TWICE_A_SECOND), plane=ScanPlane)) == []
    emits_behind_the_watermark(monkeypatch)
    assert differences(expected, simulate(made(TWICE_A_SECOND), plane=ScanPlane)) != []
