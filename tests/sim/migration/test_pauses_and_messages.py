"""Pauses, holds, messages and barriers against instants that are worked out by hand, on both planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_jobs import rows_of, scenario

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import CONTROL, Timed

MS = 1_000_000
SRC, Q, OUT = 0, 1, 2  # tasks of `line`; further sources come before
Told = list[tuple[Any, ...]]


def line(sources: int = 1, latency: str = "1 ms", **changes: Any) -> Scenario:
    """Each source emits every 10 ms over a link to one queue with a service of 4 ms, and that to a sink."""
    raw: dict[str, Any] = {
        "duration": "200 ms",
        "workload": {"src": {"rate": f"{100 * sources} /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source", "parallelism": sources},
            "q": {
                "kind": "map",
                "inputs": {"src": "shuffle"},
                "service": {"distribution": "deterministic", "value": "4 ms"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"s": {"count": sources}, "q": {"count": 1}},
        "placement": {"operators": {"src": "s", "q": "q", "out": "q"}},
        "network": {"latency": latency},
    }
    return scenario(raw | changes)


class Telling(Control):
    """Calls `answer` with what it is told."""

    answer: Callable[[Telling, str, int, int], None] | None = None

    def message(self, token: int, task: int) -> None:
        self.hear("message", token, task)

    def aligned(self, token: int, task: int) -> None:
        self.hear("aligned", token, task)

    def hear(self, what: str, token: int, task: int) -> None:
        self.told.append((self.clock.now_ns() // MS, what, token, task))
        if self.answer:
            self.answer(self, what, token, task)


def run(
    made: Scenario,
    plane: PlaneFactory,
    actions: list[tuple[int, str, tuple[Any, ...]]],
    answer: Callable[[Telling, str, int, int], None] | None = None,
) -> tuple[RunRecords, Told]:
    """The rows of a run with actions at (instant [ms], verb, arguments), and what was told at which [ms]."""
    control = Telling(RunPlan.of(made, RunInputs(), 0), plane)
    control.told, control.answer = [], answer  # type: ignore[attr-defined]
    control.start()
    for at_ms, verb, arguments in actions:
        control.clock.at(at_ms * MS, 0, lambda _, v=verb, a=arguments: getattr(control.plane, v)(*a))
    until = to_ns(made.duration_s)
    control.run(until)
    return records(control, until), control.told  # type: ignore[attr-defined]


@pytest.fixture(params=[PlainPlane, CompiledPlane], ids=["plain", "compiled"])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def in_ms(made: RunRecords, operator: str) -> list[tuple[float, float, float]]:
    return [(arrival / MS, start / MS, end / MS) for arrival, start, end in rows_of(made, operator)]


def test_a_pause_begins_at_the_next_turn_and_ends_as_a_service(plane: PlaneFactory) -> None:
    rows = in_ms(run(line(), plane, [(12, "pause", (Q, 35 * MS))])[0], "q")
    assert rows[:4] == [(11, 11, 15), (21, 35, 39), (31, 39, 43), (41, 43, 47)]


def test_a_pause_never_shortens_another(plane: PlaneFactory) -> None:
    for other in (30 * MS, 60 * MS):
        rows = in_ms(run(line(), plane, [(20, "pause", (Q, 60 * MS)), (20, "pause", (Q, other))])[0], "q")
        assert rows[1] == (21, 60, 64)
    rows = in_ms(run(line(), plane, [(20, "pause", (Q, None)), (22, "pause", (Q, 30 * MS))])[0], "q")
    assert len(rows) == 1


def test_a_pause_without_end_lasts_until_it_is_ended(plane: PlaneFactory) -> None:
    rows = in_ms(run(line(), plane, [(20, "pause", (Q, None)), (33, "unpause", (Q,))])[0], "q")
    assert rows[1:3] == [(21, 33, 37), (31, 37, 41)]


@pytest.mark.parametrize("end_ms", [45, 50])
def test_arrivals_wait_while_their_source_is_paused(plane: PlaneFactory, end_ms: int) -> None:
    arrivals = in_ms(run(line(), plane, [(15, "pause", (SRC, end_ms * MS))])[0], "src")
    waited = [(created, end_ms, end_ms) for created in range(20, end_ms + 1, 10)]
    assert arrivals == [(10, 10, 10), *waited, *((b, b, b) for b in range(waited[-1][0] + 10, 200, 10))]


def test_a_sink_without_a_service_can_be_paused(plane: PlaneFactory) -> None:
    made, _ = run(line(), plane, [(20, "pause", (OUT, 37 * MS))])
    assert in_ms(made, "out")[:4] == [(15, 15, 15), (25, 37, 37), (35, 37, 37), (45, 45, 45)]


def test_what_was_held_goes_in_front_in_order(plane: PlaneFactory) -> None:
    rows = in_ms(run(line(), plane, [(15, "hold", (Q, None, SRC)), (42, "unhold", (Q, None))])[0], "q")
    assert rows[:5] == [(11, 11, 15), (21, 42, 46), (31, 46, 50), (41, 50, 54), (51, 54, 58)]
    rows = in_ms(run(line(), plane, [(15, "hold", (Q, None, OUT))])[0], "q")
    assert rows[1] == (21, 21, 25)


def test_a_fast_message_is_heard_on_arrival_and_a_normal_one_at_its_turn(plane: PlaneFactory) -> None:
    actions = [(11, "send", (CONTROL, Q, turn, turn == 1)) for turn in (0, 1)]
    told = run(line(), plane, [*actions, (12, "send", (SRC, Q, 2, True, 0, 3 * MS))])[1]
    assert told == [(12, "message", 0, Q), (15, "message", 1, Q), (18, "message", 2, Q)]


def test_a_message_stays_behind_tuples_of_its_channel(plane: PlaneFactory) -> None:
    """Sent at 10 ms by control, so before the tuple of that instant; at 10 ms by the sink's answer, behind it."""
    for latency, turn in (("1 ms", True), ("0 s", True)):
        first, told = run(line(latency=latency), plane, [(10, "send", (SRC, Q, 7, turn))])
        arrival = in_ms(first, "q")[0][0]
        assert told == [(arrival, "message", 7, Q)]

    def answer(control: Telling, _what: str, token: int, _task: int) -> None:
        if token == 7:
            control.plane.send(Q, OUT, 8)

    # The message of 15 ms is heard as the first service ends, behind which its output has left.
    made, told = run(line(), plane, [(12, "send", (SRC, Q, 7, True))], answer)
    assert told == [(15, "message", 7, Q), (15, "message", 8, OUT)]
    assert in_ms(made, "out")[0] == (15, 15, 15)


def test_a_task_starts_nothing_before_its_message_is_heard(plane: PlaneFactory) -> None:
    def answer(control: Telling, _what: str, _token: int, _task: int) -> None:
        control.plane.hold(Q, None, None)

    actions = [(12, "pause", (Q, 35 * MS)), (13, "send", (SRC, Q, 1, True))]
    assert len(in_ms(run(line(), plane, actions, answer)[0], "q")) == 1


def test_bytes_of_a_message_hold_the_link(plane: PlaneFactory) -> None:
    fast = {"s": {"count": 1, "network": "1 MB/s"}, "q": {"count": 1}}
    made, told = run(line(hosts=fast), plane, [(5, "send", (SRC, Q, 1, False, 20_000))])
    assert told == [(26, "message", 1, Q)]
    assert in_ms(made, "q")[0][0] > 26


def test_a_barrier_holds_its_channel_back_until_it_has_come_over_all(plane: PlaneFactory) -> None:
    """Sources 0 and 1 emit at 5, 15, .. and at 10, 20, .. ms; the queue is task 2."""
    actions = [(7, "send", (0, 2, 9, True, 0, 0, 2)), (22, "send", (1, 2, 9, True, 0, 0, 2))]
    made, told = run(line(2), plane, actions)
    assert told == [(25, "aligned", 9, 2)]
    assert in_ms(made, "q")[:5] == [(6, 6, 10), (11, 11, 15), (21, 21, 25), (16, 25, 29), (26, 29, 33)]


def test_an_alignment_can_be_given_up(plane: PlaneFactory) -> None:
    made, told = run(line(2), plane, [(7, "send", (0, 2, 9, True, 0, 0, 2)), (30, "unalign", (2,))])
    assert told == []
    assert in_ms(made, "q")[3:6] == [(16, 30, 34), (26, 34, 38), (31, 38, 42)]


def test_the_next_barrier_waits_behind_the_one_before(plane: PlaneFactory) -> None:
    first = [(7, "send", (0, 2, 1, True, 0, 0, 2)), (37, "send", (1, 2, 1, True, 0, 0, 2))]
    second = [(8, "send", (0, 2, 2, True, 0, 0, 2)), (57, "send", (1, 2, 2, True, 0, 0, 2))]
    told = run(line(2), plane, [*first, *second])[1]
    assert [(what, token) for _, what, token, _ in told] == [("aligned", 1), ("aligned", 2)]


def test_timed_actions_do_what_the_verbs_do(plane: PlaneFactory) -> None:
    verbs = [(12, "pause", (Q, 35 * MS)), (40, "pause", (Q, 45 * MS)), (50, "send", (CONTROL, Q, 3, True, 0, 0, 0))]
    timed = [Timed(at * MS, verb, arguments) for at, verb, arguments in verbs]
    assert timed[1].arguments == (Q, 45 * MS)
    one, told = run(line(), plane, verbs)
    other, told_too = run(line(), plane, [(1, "start_actions", (timed,))])
    assert (in_ms(one, "q"), told) == (in_ms(other, "q"), told_too)
    assert in_ms(one, "q")[3] == (41, 45, 49)


def test_a_chore_occupies_the_task_and_nobody_is_told(plane: PlaneFactory) -> None:
    made, told = run(line(), plane, [(1, "start_actions", ([Timed(12 * MS, "chore", (Q, 10 * MS))],))])
    assert in_ms(made, "q")[1] == (21, 25, 29)
    assert told == []


@pytest.mark.parametrize(
    "action",
    [
        Timed(5 * MS, "pause", (99, None)),
        Timed(5 * MS, "send", (0, -1, 1, True, 0, 0, 0)),
        Timed(5 * MS, "speed", (0, 0.5)),
        Timed(5 * MS, "hold", (0, None, None)),
        Timed(5 * MS, "mute", (0, True)),
        Timed(0, "unpause", (0,)),
    ],
)
def test_timed_actions_on_what_does_not_exist_are_refused(action: Timed) -> None:
    with pytest.raises(ValueError, match=r"timed action|keeps no ids"):
        run(line(), CompiledPlane, [(1, "start_actions", ([action],))])
