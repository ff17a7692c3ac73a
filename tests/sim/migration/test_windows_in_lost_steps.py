"""Windows, joins, states of the last time and timers where hosts die in a step, and nothing is kept.

Oracles: what becomes of each tuple, state and window, as `lab.following` has seen it; the same job in which nobody
dies; rows of the compiled plane against those of the plain one. No tolerance. Rules that are broken are noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lab.broken_losses import no_last_farewell, who_begins_again_has_left_nobody, windows_survive
from losing_steps import ran, timed_job
from seeds import sample
from test_crashes_in_steps import dies, phases
from test_losses_in_steps import steps
from test_megaphone import MS, made, rows_of
from test_planes import differences
from test_windows_in_steps import got

from models.scenario.reading import scenario_from
from models.scenario.rules import faults as wrong
from models.scenario.rules import not_simulated
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.parcels import Parcels
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks

PLANES = (PlainPlane, CompiledPlane)
WINDOW = {"length": "200 ms"}
Break = Callable[[pytest.MonkeyPatch], None]


def test_event_time_beside_hosts_that_die_is_accepted() -> None:
    for seed in range(20):
        scenario = scenario_from(timed_job(seed))
        assert [*wrong(scenario), *not_simulated(scenario)] == []


@pytest.mark.parametrize("part", range(4))
def test_each_window_ends_once_with_what_its_state_has(part: int) -> None:
    cut_short = lost = 0
    for seed in range(part, 48, 4):
        control, found, faults = ran(timed_job(seed, crashes=1 + seed % 3))
        assert faults == [], seed
        cut_short += sum(run.is_cut_short for run in control.reconfigurations.runs)
        lost += int(found.tables["reconfigurations"]["lost_groups"].sum())
    assert cut_short > 0
    assert lost > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_jobs(part: int) -> None:
    for seed in range(100 + part, 3_000, 4):
        assert ran(timed_job(seed, crashes=1 + seed % 3))[-1] == [], seed


@pytest.mark.parametrize("seed", sample(12, 300))
def test_both_planes_have_equal_rows_whatever_dies(seed: int) -> None:
    raw = timed_job(seed, crashes=1 + seed % 3)
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) == []


# -- one job with windows at the operator whose key groups move, above it, or below


def windowed(where: str, **changes: Any) -> dict[str, Any]:
    """The job of `steps` with windows; what is above or below has a task on the host of the source, or of the sink."""
    raw = steps("bin", **changes)
    operators, tasks = raw["operators"], raw["placement"]["tasks"]
    counted = {"kind": "aggregate", "key_groups": 4, "service": operators["op"]["service"], "window": WINDOW}
    if where == "at":
        operators["op"]["window"] = WINDOW
    if where == "above":
        operators["first"] = counted | {"inputs": {"src": "key"}}
        operators["op"] |= {"inputs": {"first": "key"}, "window": WINDOW}
        tasks["first-0"] = "h-0"
    if where == "below":
        operators["top"] = counted | {"inputs": {"op": "key"}}
        operators["out"]["inputs"] = {"top": "shuffle"}
        tasks["top-0"] = "h-3"
    raw["workload"]["src"]["watermark"] = "10 ms"
    return raw | {"duration": "4 s"}


@pytest.mark.parametrize("where", ["at", "below"])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_host_may_die_in_each_phase_of_a_step(where: str, every: int) -> None:
    raw = windowed(where)
    for k, (name, at_ns) in enumerate(phases(raw)):
        for host in range(-k % every, 4, every):
            assert ran(dies(raw, at_ns, host))[-1] == [], (name, host)


@pytest.mark.parametrize("where", ["at", "below"])
def test_windows_that_begin_after_the_recovery_are_whole(where: str) -> None:
    """Nothing of them was lost; those that end before the crash are whole, too."""
    raw = windowed(where)
    at_ns = dict(phases(raw))["on the way 0"]
    right, _, _ = ran(raw)
    control, found, faults = ran(dies(raw, at_ns, 2))
    assert faults == []
    back_ns = int(found.tables["failures"]["caught_up_ns"][0])
    length_ns = 200 * MS
    first, last = at_ns // length_ns, -(-back_ns // length_ns)  # the window of the crash, and the first one after it
    assert 2 < first < last < 8
    for begin, end in ((0, first), (last, 15)):
        spans = [{(one, ns) for one, ns in got(each) if begin <= ns // length_ns < end} for each in (right, control)]
        assert spans[0] == spans[1] != set()
    assert got(control).total() < got(right).total()


# -- who speaks for the dead


def a_task_dies_behind_its_state() -> dict[str, Any]:
    """All key groups leave a task that dies as the last has left: its farewells have not come."""
    raw = windowed("below")
    raw["events"]["move"] |= {"strategy": "all-at-once"}
    del raw["events"]["move"]["size"]
    control, _, _ = ran(raw)
    (one,) = control.reconfigurations.runs[0].times
    return dies(raw, one.passed_ns + MS + MS // 2, 1)


def outputs_wait_for_a_link() -> dict[str, Any]:
    """All key groups leave a task for one that is dead: they begin elsewhere, while outputs of the old task wait."""
    raw = windowed("below", hosts={"h": {"count": 12, "network": "150 kB/s"}}, detector={"connection": "0 s"})
    raw["placement"]["tasks"]["out-0"] = "h-1"  # so that nothing begins again there
    raw["operators"]["op"]["output"] = {"tuple": "2 kB"}
    raw["events"]["move"] |= {"strategy": "all-at-once"}
    del raw["events"]["move"]["size"]
    control, _, _ = ran(raw)
    (one,) = control.reconfigurations.runs[0].times
    return dies(raw, one.passed_ns + MS + MS // 2, 2)


def test_a_dead_task_takes_its_leave() -> None:
    assert ran(a_task_dies_behind_its_state())[-1] == []


def test_watermarks_of_a_task_without_a_last_farewell_count_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = a_task_dies_behind_its_state()
    no_last_farewell(monkeypatch)
    assert "event time stands still" in ran(raw)[-1]


def test_what_is_still_on_its_way_is_waited_for() -> None:
    _, found, faults = ran(outputs_wait_for_a_link())
    assert faults == []
    assert found.tables["reconfigurations"]["lost_groups"].tolist() == [4]


def test_watermarks_that_overtake_it_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = outputs_wait_for_a_link()
    who_begins_again_has_left_nobody(monkeypatch)
    assert "a tuple comes behind its watermark" in ran(raw)[-1]


# -- key groups that stay, since their next task is dead: until then they hear of nothing that is born after their step


def the_next_task_dies() -> dict[str, Any]:
    """Two key groups are to leave their task for one that dies at 750 ms, which is known at 1,050 ms.

    Watermarks come each 200 ms to them, behind windows: one is about 1 s, and they hear of it when it is known.
    """
    raw = windowed("above", detector={"connection": "300 ms"})
    raw["operators"]["op"]["window"] = {"length": "500 ms"}
    return dies(raw, dict(phases(raw))["announced 0"], 2, repair="2 s")


def ended_ns(raw: dict[str, Any]) -> list[int]:
    """When the windows from 500 to 1,000 ms end of the key groups that stay."""
    control, found = made(raw), list[int]()
    plane = control.plane
    assert isinstance(plane, PlainPlane)
    emit, stays = plane.emit, (0, 2)

    def noting(partition: Partition, tuple_id: int, created_ns: int, *rest: Any, **more: Any) -> None:
        if partition.operator.name == "op" and partition.index in stays and created_ns // (500 * MS) == 1:
            found.append(plane.clock.now_ns())
        emit(partition, tuple_id, created_ns, *rest, **more)

    plane.emit = noting  # type: ignore[method-assign]
    control.start()
    control.run(4_000 * MS)
    (run,) = control.reconfigurations.runs
    assert {one for carry in run.plan.steps[0] for one in carry.partitions} == {
        control.plan.first_partition[run.plan.operator] + k for k in stays
    }
    assert run.times[0].lost_groups == 0
    assert found
    return found


def test_windows_of_key_groups_that_stay_end_when_it_is_known() -> None:
    raw = the_next_task_dies()
    _, found, faults = ran(raw)
    assert faults == []
    known_ns = int(found.tables["failures"]["detected_ns"][0])
    assert all(known_ns <= at < known_ns + 5 * MS for at in ended_ns(raw))


def nothing_is_heard_again(patch: pytest.MonkeyPatch) -> None:
    right = Parcels.stay

    def stay(self: Parcels, partitions: Any) -> None:
        with patch.context() as inner:
            inner.setattr(Watermarks, "recall", lambda *_: [])
            right(self, partitions)

    patch.setattr(PlainPlane, "stay", stay)


def test_windows_that_end_with_the_next_watermark_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = the_next_task_dies()
    nothing_is_heard_again(monkeypatch)
    assert min(ended_ns(raw)) > 1_200 * MS


# -- planes that are broken on purpose

HAND_MADE = (a_task_dies_behind_its_state, outputs_wait_for_a_link, the_next_task_dies)


@pytest.mark.parametrize("made_by", HAND_MADE, ids=lambda one: one.__name__)
def test_both_planes_have_equal_rows(made_by: Callable[[], dict[str, Any]]) -> None:
    assert differences(*(rows_of(made_by(), plane) for plane in PLANES)) == []


@pytest.mark.parametrize(
    ("broken", "made_by"),
    [*zip((no_last_farewell, who_begins_again_has_left_nobody, nothing_is_heard_again), HAND_MADE, strict=True)],
    ids=lambda one: one.__name__,
)
def test_rows_of_a_plane_that_is_broken_differ(
    broken: Break, made_by: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = made_by()
    broken(monkeypatch)
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) != []


# -- windows that are broken


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (windows_survive, "a window ends without what was applied, or with what is lost"),
        (windows_survive, "a tuple meets others than those that were applied"),
    ],
)
def test_what_is_broken_is_noticed(broken: Break, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert any(words in ran(timed_job(seed, crashes=1 + seed % 3))[-1] for seed in range(40))
