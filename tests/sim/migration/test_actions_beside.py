"""Actions of protocols on shared cores, beside bounded queues, and over links that are shared evenly.

Oracles: instants that are worked out by hand, on both planes; audits that must pass at every cut; and the plain plane
for the compiled one, by equality of all rows under random scripts.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripts import MOVES, PACES, VERBS, Scripted, run_script, unchecked
from sharing_jobs import share_cores
from small_jobs import with_buffers, with_fair_links
from test_actions import job, movable, on_both
from test_pauses_and_messages import MS, OUT, SRC, Q, in_ms, line, run
from test_planes import METHODS, differences

from models.records.decisions import Action
from models.scenario.inputs import RunInputs
from models.units import to_ns
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.partition import Visit
from sim.plain.plane import PlainPlane
from sim.plane_values import CONTROL

BESIDE = ("cores", "buffers", "links", "all")


@pytest.fixture(params=[PlainPlane, CompiledPlane], ids=["plain", "compiled"])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


# -- shared cores


def two(service: str = "4 ms", batch: int = 1, **host: Any) -> Any:
    """A source that emits every 10 ms over a link of 1 ms to p (task 1) and q (task 2), which are on one host."""
    operator = {"kind": "map", "inputs": {"src": "shuffle"}}
    operator["service"] = {"distribution": "deterministic", "value": service}
    return line(
        workload={"src": {"rate": f"{100 * batch} /s", "arrivals": "deterministic", "batch": batch}},
        operators={
            "src": {"kind": "source"},
            "p": operator,
            "q": operator,
            "out": {"kind": "sink", "inputs": {"p": "shuffle", "q": "shuffle"}},
        },
        hosts={"s": {"count": 1}, "q": {"count": 1, "cores": 1, **host}},
        placement={"operators": {"src": "s", "p": "q", "q": "q", "out": "q"}},
    )


def test_what_a_paused_task_does_not_use_of_a_processor_others_have(plane: PlaneFactory) -> None:
    made, _ = run(two(cpu="processor-sharing"), plane, [(20, "pause", (2, 33 * MS))])
    assert in_ms(made, "p")[:3] == [(11, 11, 19), (21, 21, 25), (31, 31, 37)]
    assert in_ms(made, "q")[:2] == [(11, 11, 19), (21, 33, 39)]


def test_a_pause_ends_after_a_service_that_ends_then(plane: PlaneFactory) -> None:
    """At 15 ms p is still paused when its service ends: q has the core next, though p's tuple came first."""
    both = two(batch=2, cpu="shared")
    assert in_ms(run(both, plane, [])[0], "p")[:2] == [(11, 11, 15), (11, 15, 19)]
    made, _ = run(both, plane, [(12, "pause", (1, 15 * MS))])
    assert in_ms(made, "p")[:2] == [(11, 11, 15), (11, 19, 23)]
    assert in_ms(made, "q")[:2] == [(11, 15, 19), (11, 23, 27)]


def test_the_work_of_a_message_goes_on_at_the_pace_of_the_host(plane: PlaneFactory) -> None:
    made, told = run(line(), plane, [(5, "speed", (1, 0.5)), (12, "send", (SRC, Q, 1, True, 0, 3 * MS))])
    assert told == [(25, "message", 1, Q)]
    assert in_ms(made, "q")[:2] == [(11, 11, 19), (21, 25, 33)]


def test_the_work_of_a_message_is_a_service_in_progress_beside_others(plane: PlaneFactory) -> None:
    actions = [(19, "send", (CONTROL, 2, 1, True, 0, 2 * MS))]
    made, told = run(two(cpu="processor-sharing"), plane, actions)
    assert told == [(23, "message", 1, 2)]
    assert in_ms(made, "p")[:2] == [(11, 11, 19), (21, 21, 29)]
    assert in_ms(made, "q")[:2] == [(11, 11, 19), (21, 23, 30)]


# -- bounded queues


def bounded(places: int, sources: int = 1, **changes: Any) -> Any:
    """The line of `test_pauses_and_messages` with so many places at its queue."""
    service = {"distribution": "deterministic", "value": "4 ms"}
    operators = {
        "src": {"kind": "source", "parallelism": sources},
        "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": service, "buffer": places},
        "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
    }
    return line(sources, operators=operators, **changes)


def test_a_full_queue_of_a_paused_task_holds_its_senders_back(plane: PlaneFactory) -> None:
    made, _ = run(bounded(2), plane, [(12, "pause", (Q, None)), (62, "unpause", (Q,))])
    assert in_ms(made, "q")[:5] == [(11, 11, 15), (21, 62, 66), (31, 66, 70), (63, 70, 74), (67, 74, 78)]
    emitted = [(created, end) for created, _, end in in_ms(made, "src")]
    assert emitted[:6] == [(10, 10), (20, 20), (30, 30), (40, 40), (50, 62), (60, 66)]


def test_a_paused_source_sends_what_is_unsent_and_emits_nothing(plane: PlaneFactory) -> None:
    made, _ = run(bounded(1), plane, [(12, "pause", (Q, 45 * MS)), (42, "pause", (SRC, 58 * MS))])
    assert in_ms(made, "q")[:5] == [(11, 11, 15), (21, 45, 49), (46, 49, 53), (59, 59, 63), (60, 63, 67)]
    emitted = [(created, end) for created, _, end in in_ms(made, "src")]
    assert emitted[:6] == [(10, 10), (20, 20), (30, 30), (40, 58), (50, 58), (60, 60)]


def test_what_a_rule_holds_takes_no_place(plane: PlaneFactory) -> None:
    made, _ = run(bounded(1), plane, [(12, "hold", (Q, None, None)), (55, "unhold", (Q, None))])
    assert in_ms(made, "q")[:5] == [(11, 11, 15), (21, 55, 59), (31, 59, 63), (41, 63, 67), (51, 67, 71)]
    assert all(created == end for created, _, end in in_ms(made, "src")[:6])


def test_what_is_held_back_behind_a_barrier_takes_no_place_until_it_is_let_through(plane: PlaneFactory) -> None:
    """The barrier of source 1 could never come if the tuple of source 0 that waits for it had the only place."""
    actions = [(7, "send", (0, 2, 9, True, 0, 0, 2)), (42, "send", (1, 2, 9, True, 0, 0, 2))]
    made, told = run(bounded(1, sources=2), plane, actions)
    assert told == [(45, "aligned", 9, 2)]
    rows = in_ms(made, "q")
    assert rows[:5] == [(6, 6, 10), (11, 11, 15), (21, 21, 25), (31, 31, 35), (41, 41, 45)]
    assert rows[5:8] == [(16, 45, 49), (26, 49, 53), (36, 53, 57)]  # three in a queue with one place
    assert rows[8:10] == [(54, 57, 61), (58, 61, 65)]  # so nothing was sent before the last of them had left it


def test_a_message_waits_behind_what_its_sender_has_not_sent(plane: PlaneFactory) -> None:
    sent = [(35, "send", (SRC, Q, 7, True)), (35, "send", (SRC, OUT, 8)), (35, "send", (CONTROL, SRC, 9, True))]
    made, told = run(bounded(1), plane, [(12, "pause", (Q, None)), *sent, (52, "unpause", (Q,))])
    assert told == [(36, "message", 9, SRC), (53, "message", 8, OUT), (60, "message", 7, Q)]
    assert in_ms(made, "q")[:4] == [(11, 11, 15), (21, 52, 56), (53, 56, 60), (57, 60, 64)]


def test_a_message_that_waits_is_gone_with_its_sender(plane: PlaneFactory) -> None:
    crash = {"at": "45 ms", "kind": "host-failure", "host": "s-0"}
    made = bounded(1, events={"crash": crash}, fault_tolerance={"method": "none"})
    _, told = run(made, plane, [(12, "pause", (Q, None)), (35, "send", (SRC, Q, 7)), (52, "unpause", (Q,))])
    assert told == []


# -- links that are shared evenly


def test_a_message_keeps_its_place_on_its_channel_and_shares_the_link_with_others(plane: PlaneFactory) -> None:
    """A tuple takes 5 ms of the link. From 11 ms on the message to the sink shares it with the tuple of 10 ms."""
    fair = line(
        workload={"src": {"rate": "100 /s", "arrivals": "deterministic", "tuple": "5 kB"}},
        hosts={"s": {"count": 1, "network": "1 MB/s"}, "q": {"count": 1}},
        network={"latency": "1 ms", "sharing": "fair"},
    )
    sent = [(11, "send", (SRC, Q, 7, False, 5000)), (11, "send", (SRC, OUT, 8, False, 2000))]
    made, told = run(fair, plane, [*sent, (12, "send", (CONTROL, Q, 9, False, 10**9))])
    assert told == [(13, "message", 9, Q), (16, "message", 8, OUT), (23, "message", 7, Q)]
    assert in_ms(made, "q")[:2] == [(18, 18, 22), (28, 28, 32)]


# -- random scripts


def beside(what: str, seed: int, raw: dict[str, Any]) -> dict[str, Any]:
    """The keys of a job with one of these, or some of all."""
    draw = Random(seed)
    if what == "cores" or (what == "all" and draw.random() < 0.5):
        raw = share_cores(Random(seed + 1), raw)
    if what == "buffers" or (what == "all" and draw.random() < 0.6):
        raw = with_buffers(Random(seed + 2), raw)
    if what == "links" or (what == "all" and draw.random() < 0.6):
        raw = with_fair_links(Random(seed + 3), raw)
    return raw


def random_run(what: str, seed: int, moving: bool, method: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The keys of a job, and the verbs of a script; some move key groups."""
    raw = movable(seed, fault_tolerance=method) if moving else job(seed, seed % 3 == 0, fault_tolerance=method)
    return beside(what, seed, raw), 2 * MOVES + PACES if moving else PACES


@pytest.mark.parametrize("what", BESIDE)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), moving=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_under_random_actions(
    what: str, seed: int, moving: bool, method: dict[str, Any]
) -> None:
    raw, verbs = random_run(what, seed, moving, method)
    assert on_both(raw, seed, verbs) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", BESIDE)
def test_a_long_campaign_of_actions_beside_all(what: str) -> None:
    for seed in range(500):
        raw, verbs = random_run(what, seed, seed % 4 == 3, METHODS[seed // 4 % 4])
        assert on_both(raw, seed, verbs) == [], seed


# -- where the others make no difference


def same(plane: PlaneFactory, one: dict[str, Any], other: dict[str, Any], seed: int, verbs: tuple[str, ...]) -> bool:
    """Whether a script gives the same rows of tuples and checkpoints, and tells the same."""
    (made, told), (made_too, told_too) = (run_script(raw, plane, seed, verbs=verbs) for raw in (one, other))
    found = {name.split(".")[0] for name in differences(made, made_too)}
    return found <= {"cpu", "buffers"} and told == told_too


def test_queues_with_room_for_all_change_no_row_under_actions(plane: PlaneFactory) -> None:
    for seed in range(12):
        raw = job(seed, seed % 3 == 0, fault_tolerance=METHODS[seed % 4])
        operators = {
            name: operator | {"buffer": 10**6} if operator["kind"] != "source" else operator
            for name, operator in raw["operators"].items()
        }
        assert same(plane, raw, raw | {"operators": operators}, seed, VERBS), seed


def test_a_processor_with_a_core_for_every_thread_is_dedicated_cores_under_actions(plane: PlaneFactory) -> None:
    for seed in range(12):
        runs = []
        for cpu in ("dedicated", "processor-sharing"):
            raw = job(seed, seed % 3 == 0, fault_tolerance=METHODS[seed % 4])
            raw["hosts"]["h"] |= {"cpu": cpu, "cores": 100}
            runs.append(raw)
        assert same(plane, runs[0], runs[1], seed, PACES), seed


# -- audits at every cut


class Reckoned(Scripted):
    """A scripted run that audits at every action, and at the end."""

    sendings = checks = 0

    def act(self, verb: str, task: int | None) -> None:
        super().act(verb, task)
        self.check()

    def check(self) -> None:
        self.checks += 1
        if isinstance(self.plane, PlainPlane):
            self.check_tuples(self.plane)
            queued, taken = places_of(self.plane)
        else:
            assert isinstance(self.plane, CompiledPlane)
            queued, taken = places_of_arrays(self.plane)
        assert queued == taken

    def check_tuples(self, plane: PlainPlane) -> None:
        """What was sent is processed, dropped, or somewhere."""
        found = len(plane.wire) + len(plane.recorder.rows["dropped"]) - plane.never_sent
        for task in plane.tasks:
            lanes = (*task.front, *task.queue, *task.serving, *task.back, *task.side)
            found += sum(isinstance(item, Visit) for item in lanes)
        found += sum(len(partition.held) for partition in plane._numbered)
        visits = plane.recorder._visits[::5]
        found += sum(not plane.plan.operators[operator].is_source for operator in visits)
        assert found == self.sendings


def places_of(plane: PlainPlane) -> tuple[dict[int, int], dict[int, int]]:
    """Tuples in the queue of each task with a bound and under way to it, and the places that are taken."""
    live = [task for task in plane.tasks if task.alive and task.places.count is not None]
    queued = {task.index: sum(isinstance(item, Visit) for item in task.queue) for task in live}
    for visit, task in plane.wire.items():
        if task in live and not visit.replayed:
            queued[task.index] += 1
    return queued, {task.index: task.places.taken for task in live}


def places_of_arrays(plane: CompiledPlane) -> tuple[dict[int, int], dict[int, int]]:
    """The same from the arrays of the compiled plane; the length of each queue must be what its task says."""
    s, queued, taken = plane.state, {}, {}
    for task in range(int(s.cluster["tasks"])):
        t = s.tasks[task]
        n, v = 0, int(t["queue_head"])
        while v != NONE:
            n, v = n + int(s.visits["kind"][v] == TUPLE), int(s.visits["next"][v])
        assert n == t["queue_n"]
        if t["alive"] and t["places"]:
            mine = (s.visits["wire"] == 1) & (s.visits["replayed"] == 0) & (s.visits["task"] == task)
            queued[task], taken[task] = n + int(mine.sum()), int(t["taken"])
    return queued, taken


@pytest.mark.parametrize("what", BESIDE)
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.slow)], ids=["few", "more"])
def test_no_tuple_and_no_place_is_lost_at_any_action(what: str, plane: PlaneFactory, seeds: range) -> None:
    checks = 0
    for seed in seeds:
        raw, verbs = random_run(what, seed, seed % 2 == 0, METHODS[seed // 2 % 4])
        made = unchecked(raw)
        control = Reckoned(RunPlan.of(made, RunInputs(), 0), plane, seed, 40, verbs)
        if isinstance(control.plane, PlainPlane):
            count_sendings(control, control.plane)
        control.start()
        control.run(to_ns(made.duration_s))
        control.check()
        checks += control.checks
    assert checks > 20 * len(seeds)


def count_sendings(control: Reckoned, plane: PlainPlane) -> None:
    """Count what is sent, and sent again."""
    send, replay = plane.send_tuple, plane.replay

    def counted(*output: Any) -> None:
        control.sendings += 1
        send(*output)

    def counted_again(sender: int, receiver: int, **how: bool) -> tuple[int, int]:
        rows, size = replay(sender, receiver, **how)
        control.sendings += rows
        return rows, size

    plane.send_tuple, plane.replay = counted, counted_again  # type: ignore[method-assign]


@pytest.mark.parametrize("what", BESIDE)
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 56), marks=pytest.mark.slow)], ids=["few", "more"])
def test_what_stops_or_holds_tuples_loses_none_whatever_crashes(what: str, plane: PlaneFactory, seeds: range) -> None:
    done, without_mute = 0, tuple(verb for verb in PACES if verb != "mute")
    for seed in seeds:
        made = unchecked(beside(what, seed, job(seed, seed % 3 == 0)))
        control = Scripted(RunPlan.of(made, RunInputs(), 0), plane, seed, 40, without_mute)
        control.start()
        control.run(to_ns(made.duration_s))
        rows = records(control, to_ns(made.duration_s)).tables
        state_lost = Action.LOSE_STATE in rows["decisions"]["action"].tolist()
        if all(control.cluster.partition_live) and not state_lost:
            assert rows["ledger"]["lost"].sum() == rows["ledger"]["duplicated"].sum() == 0, seed
            done += 1
    assert done >= 3 / 8 * len(seeds)
