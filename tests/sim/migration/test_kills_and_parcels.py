"""Killed tasks, parcels, and tuples that are emitted again, against instants that are worked out by hand."""

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
from sim.data_plane import ParcelPlane
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import CONTROL

MS = 1_000_000
SRC, Q, OUT = 0, 1, 2  # tasks of `line`, and its partitions
SPARE = 2  # a host without tasks
Do = Callable[["Driven"], Any]

PLANES = [PlainPlane, CompiledPlane]


def line(service: str = "4 ms", **changes: Any) -> Scenario:
    """A source emits every 10 ms over a link of 1 ms to a queue, and that to a sink on its host; ids are kept."""
    raw: dict[str, Any] = {
        "duration": "200 ms",
        "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic"}},
        "operators": {
            "src": {"kind": "source"},
            "q": {
                "kind": "map",
                "inputs": {"src": "shuffle"},
                "service": {"distribution": "deterministic", "value": service},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"s": {"count": 1}, "q": {"count": 1}},
        "placement": {"operators": {"src": "s", "q": "q", "out": "q"}},
        "network": {"latency": "1 ms"},
        "events": {"late": {"at": "199 ms", "kind": "host-failure", "host": "other-0"}},  # so that ids are kept
        "fault_tolerance": {"method": "none"},
    }
    raw |= changes
    raw["hosts"] = raw["hosts"] | {"spare": {"count": 1}, "other": {"count": 1}}
    return scenario(raw)


class Driven(Control):
    """A run with actions at given instants; tests read the parcels that they make, by name."""

    plane: ParcelPlane

    def __init__(self, made: Scenario, plane: PlaneFactory) -> None:
        super().__init__(RunPlan.of(made, RunInputs(), 0), plane)
        self.told: list[tuple[float, int]] = []
        self.new = -1  # the task that was started last
        self.parcels: list[int] = []
        self.sizes: list[tuple[int, int]] = []

    def message(self, token: int, task: int) -> None:
        self.told.append((self.clock.now_ns() / MS, token))

    def kill(self, task: int) -> None:
        self.plane.kill(task)
        self.cluster.lose_task(task)

    def begin(self, task: int, host: int = SPARE) -> None:
        """Start a task for the partitions of one that was killed; they are not live yet."""
        self.new = self.cluster.new_task(self.cluster.task_operator[task], host)
        self.plane.add_task(self.new)
        for partition, at in enumerate(self.cluster.partition_task):
            if at == task:
                self.cluster.partition_task[partition] = self.new
                self.plane.assign(partition, self.new)

    def go_live(self, partition: int) -> None:
        self.cluster.set_live(partition, True)
        self.plane.open(partition)

    def save(self, task: int) -> None:
        """Take the state of the task's partition, and what its rules hold."""
        here = [partition for partition, at in enumerate(self.cluster.partition_task) if at == task]
        for parcel in (self.plane.snapshot(here), self.plane.capture(task)):
            self.parcels.append(parcel.number)
            self.sizes.append((parcel.tuples, parcel.bytes))


def run(made: Scenario, plane: PlaneFactory, *actions: tuple[float, Do]) -> tuple[RunRecords, Driven]:
    """The rows of a run with actions at instants [ms]."""
    control = Driven(made, plane)
    control.start()
    for at_ms, do in actions:
        control.clock.at(round(at_ms * MS), 0, lambda _, do=do: do(control))  # type: ignore[misc]
    until = to_ns(made.duration_s)
    control.run(until)
    return records(control, until), control


@pytest.fixture(params=PLANES, ids=[one.__name__ for one in PLANES])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def in_ms(made: RunRecords, operator: str) -> list[tuple[float, float, float]]:
    return [(arrival / MS, start / MS, end / MS) for arrival, start, end in rows_of(made, operator)]


def dropped(made: RunRecords) -> list[tuple[int, float, float, float, str]]:
    """Rows (task, arrival, start, at, reason) [ms]; -1 as it stands."""
    table = made.tables["dropped"]
    columns = (table[name].tolist() for name in ("task", "arrival_ns", "start_ns", "at_ns", "reason"))
    return [
        (task, *(value if value < 0 else value / MS for value in times), reason)
        for task, *times, reason in zip(*columns, strict=True)
    ]


def account(made: RunRecords, operator: int) -> tuple[int, int, int]:
    """(expected, lost, duplicated) of an operator."""
    table = made.tables["ledger"]
    row = table["operator"].tolist().index(operator)
    return tuple(int(table[name][row]) for name in ("expected", "lost", "duplicated"))  # type: ignore[return-value]


# -- kill


def test_a_killed_task_loses_its_service_and_what_arrives_later(plane: PlaneFactory) -> None:
    made, _ = run(line(), plane, (43, lambda c: c.kill(Q)))
    assert in_ms(made, "q") == [(11, 11, 15), (21, 21, 25), (31, 31, 35)]
    assert dropped(made)[:3] == [(Q, 41, 41, 43, "kill"), (Q, -1, -1, 51, "kill"), (Q, -1, -1, 61, "kill")]
    assert len(in_ms(made, "out")) == 3


def test_a_kill_takes_the_queue_in_order(plane: PlaneFactory) -> None:
    made, _ = run(line("25 ms"), plane, (43, lambda c: c.kill(Q)))
    assert dropped(made)[:3] == [(Q, 21, 36, 43, "kill"), (Q, 31, -1, 43, "kill"), (Q, 41, -1, 43, "kill")]


def test_what_a_killed_task_has_sent_still_arrives(plane: PlaneFactory) -> None:
    """The output of 15 ms needs 10 ms on the link: its task is killed meanwhile, and its host lives or dies."""
    slow = line(
        hosts={"s": {"count": 1}, "q": {"count": 1, "network": "10 kB/s"}, "o": {"count": 1}},
        placement={"operators": {"src": "s", "q": "q", "out": "o"}},
    )
    made, _ = run(slow, plane, (18, lambda c: c.kill(Q)))
    assert in_ms(made, "out") == [(26, 26, 26)]
    made, _ = run(slow, plane, (18, lambda c: c.kill(Q)), (22, lambda c: c.crash.lose(1)))
    assert in_ms(made, "out") == []
    assert (OUT, -1, -1, 22, "crash") in dropped(made)
    assert {reason for task, *_, reason in dropped(made) if task == Q} == {"kill"}


def two_queues(service: str, cpu: str, rate: str) -> Scenario:
    """A source sends each tuple to the queues q and r, which are on one host with one core."""
    queue = {
        "kind": "map",
        "inputs": {"src": "shuffle"},
        "service": {"distribution": "deterministic", "value": service},
    }
    return line(
        workload={"src": {"rate": rate, "arrivals": "deterministic"}},
        operators={
            "src": {"kind": "source"},
            "q": queue,
            "r": queue,
            "out": {"kind": "sink", "inputs": {"q": "shuffle", "r": "shuffle"}},
        },
        hosts={"s": {"count": 1}, "q": {"count": 1, "cores": 1, "cpu": cpu}},
        placement={"operators": {"src": "s", "q": "q", "r": "q", "out": "q"}},
    )


def test_a_killed_task_frees_its_core(plane: PlaneFactory) -> None:
    """Two queues share one core: the second begins when the first is killed in the middle of a service."""
    made = two_queues("40 ms", "shared", "100 /s")
    assert in_ms(run(made, plane)[0], "r")[0] == (11, 51, 91)
    assert in_ms(run(made, plane, (23, lambda c: c.kill(Q)))[0], "r")[0] == (11, 23, 63)


def test_a_killed_task_leaves_the_processor_to_others(plane: PlaneFactory) -> None:
    """Two services of 10 ms share a core at half the pace from 101 ms on; after 4 ms the other one has it alone."""
    made = two_queues("10 ms", "processor-sharing", "10 /s")
    assert in_ms(run(made, plane)[0], "r")[0] == (101, 101, 121)
    assert in_ms(run(made, plane, (105, lambda c: c.kill(Q)))[0], "r")[0] == (101, 101, 113)


def test_a_successor_gets_what_is_sent_from_then_on_and_holds_it(plane: PlaneFactory) -> None:
    def ready(control: Driven) -> None:
        control.plane.install(Q)
        control.go_live(Q)
        control.plane.release(Q)

    made, control = run(line(), plane, (43, lambda c: c.kill(Q)), (45, lambda c: c.begin(Q)), (75, ready))
    assert in_ms(made, "q")[3:6] == [(51, 75, 79), (61, 79, 83), (71, 83, 87)]
    assert [row[0] for row in dropped(made)] == [Q]
    # The state is gone, too: the three that were applied are lost with it, and so is the one in service.
    assert account(made, Q)[1] == 4
    assert control.cluster.task_alive == [True, False, True, True]


def test_messages_for_a_killed_task_are_lost_and_those_from_it_arrive(plane: PlaneFactory) -> None:
    def both(control: Driven) -> None:
        control.plane.send(Q, OUT, 1)
        control.plane.send(CONTROL, Q, 2)
        control.kill(Q)

    assert run(line(), plane, (20, both))[1].told == [(20.0, 1)]


# -- parcels


def test_a_state_comes_back_from_a_parcel(plane: PlaneFactory) -> None:
    """Killed between two tuples: all that it applied is in the parcel."""

    def ready(control: Driven) -> None:
        control.plane.put(control.parcels[0], control.new)
        control.go_live(Q)
        control.plane.release(Q)

    steps = [(48, lambda c: c.save(Q)), (48, lambda c: c.kill(Q)), (48, lambda c: c.begin(Q)), (75, ready)]
    made, control = run(line(), plane, *steps)
    assert account(made, Q) == (19, 0, 0)
    assert account(made, OUT) == (19, 0, 0)
    assert in_ms(made, "q")[4:6] == [(51, 75, 79), (61, 79, 83)]
    assert control.sizes == [(0, 0), (0, 0)]


def test_captured_tuples_go_before_those_that_the_successor_holds(plane: PlaneFactory) -> None:
    """The tuples of 21 and 31 ms are captured, that of 41 ms is held by the successor."""

    def ready(control: Driven) -> None:
        states, captured = control.parcels
        control.plane.put(states, control.new)
        control.go_live(Q)
        control.plane.put(captured, control.new)
        control.plane.release(Q)

    steps = [
        (15.5, lambda c: c.plane.hold(Q, None, None)),
        (33, lambda c: c.save(Q)),
        (33, lambda c: c.kill(Q)),
        (33, lambda c: c.begin(Q)),
        (60, ready),
    ]
    made, control = run(line(), plane, *steps)
    assert in_ms(made, "q")[:5] == [(11, 11, 15), (60, 60, 64), (60, 64, 68), (41, 68, 72), (51, 72, 76)]
    assert control.sizes[1][0] == 2
    assert account(made, Q) == (19, 0, 0)
    assert dropped(made) == []


def test_a_parcel_that_is_never_put_is_lost_when_it_is_discarded(plane: PlaneFactory) -> None:
    steps = [(15.5, lambda c: c.plane.hold(Q, None, None)), (33, lambda c: c.save(Q))]
    kept, _ = run(line(), plane, *steps)
    assert (dropped(kept), account(kept, Q)[1]) == ([], 0)
    made, _ = run(line(), plane, *steps, (50, lambda c: c.plane.discard(c.parcels[1])))
    assert dropped(made) == [(Q, 21, -1, 50, "parcel"), (Q, 31, -1, 50, "parcel")]
    assert account(made, Q)[1] == 2


def test_a_parcel_can_be_put_again_and_then_its_tuples_come_twice(plane: PlaneFactory) -> None:
    def put(control: Driven) -> None:
        control.plane.unhold(Q, None)
        control.plane.put(control.parcels[1], Q)

    steps = [(15.5, lambda c: c.plane.hold(Q, None, None)), (33, lambda c: c.save(Q)), (35, put), (45, put)]
    made, _ = run(line(), plane, *steps, (100, lambda c: c.plane.discard(c.parcels[1])))
    assert account(made, Q) == (19, 0, 2)
    assert dropped(made) == []


def test_a_snapshot_does_not_change_the_next_checkpoint(plane: PlaneFactory) -> None:
    def sizes(*actions: tuple[float, Do]) -> list[int]:
        tolerance = {
            "method": "checkpoint",
            "store": "remote",
            "kind": "incremental",
            "interval": "50 ms",
        }
        operators = {
            "src": {"kind": "source"},
            "q": {
                "kind": "map",
                "inputs": {"src": "shuffle"},
                "service": {"distribution": "deterministic", "value": "4 ms"},
                "state": {"model": "per-tuple", "bytes": "10 B"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        }
        made, control = run(line(fault_tolerance=tolerance, operators=operators), plane, *actions)
        assert all(size > 0 for _, size in control.sizes[:1])
        found: list[int] = made.tables["checkpoints"]["bytes"].tolist()
        return found

    assert sizes() == sizes((73, lambda c: c.save(Q)))


def test_parcels_that_do_not_fit_are_refused(plane: PlaneFactory) -> None:
    def refused(do: Do, match: str) -> Do:
        def attempt(control: Driven) -> None:
            with pytest.raises(ValueError, match=match):
                do(control)

        return attempt

    run(
        line(),
        plane,
        (20, lambda c: c.save(Q)),
        (20, refused(lambda c: c.plane.put(0, Q), "is live and has a state")),
        (20, refused(lambda c: c.plane.put(0, OUT), "where its partitions are assigned")),
        (20, refused(lambda c: c.plane.put(7, Q), "no parcel 7")),
        (20, refused(lambda c: c.plane.snapshot([SRC]), "only a live partition")),
        (20, refused(lambda c: c.plane.snapshot([99]), "only a live partition")),
        (20, refused(lambda c: c.plane.snapshot([-2]), "only a live partition")),
        (20, refused(lambda c: c.plane.snapshot([Q, Q]), "once")),
        (20, refused(lambda c: c.plane.kill(99), "dead")),
        (20, refused(lambda c: c.plane.kill(-1), "dead")),
        (20, refused(lambda c: c.plane.snapshot([OUT]), "only a live partition")),
        (21, lambda c: c.kill(Q)),
        (21, refused(lambda c: c.plane.kill(Q), "dead")),
        (21, refused(lambda c: c.plane.capture(Q), "dead")),
        (21, refused(lambda c: c.plane.put(1, Q), "dead")),
        (21, refused(lambda c: c.plane.snapshot([Q]), "only a live partition")),
        (25, refused(lambda c: c.plane.emit_again(SRC, [2]), "not emitted yet")),
        (25, refused(lambda c: c.plane.emit_again(Q, [0]), "only a live source")),
    )


def test_a_state_older_than_the_stored_checkpoint_is_refused(plane: PlaneFactory) -> None:
    def refused(control: Driven) -> None:
        with pytest.raises(ValueError, match="newer than the state in the parcel"):
            control.plane.put(control.parcels[0], control.new)

    tolerance = {"method": "checkpoint", "store": "remote", "interval": "50 ms"}
    steps = [(20, lambda c: c.save(Q)), (80, lambda c: c.kill(Q)), (80, lambda c: c.begin(Q)), (80, refused)]
    run(line(fault_tolerance=tolerance), plane, *steps)


def test_without_ids_nothing_can_be_killed(plane: PlaneFactory) -> None:
    def refused(control: Driven) -> None:
        with pytest.raises(ValueError, match="keeps no ids"):
            control.plane.kill(Q)

    run(line(events={}), plane, (20, refused))


# -- tuples that are emitted again


def test_a_source_emits_a_tuple_again_under_its_id(plane: PlaneFactory) -> None:
    made, _ = run(line(), plane, (35, lambda c: c.plane.emit_again(SRC, [2, 0])))
    assert in_ms(made, "q")[3:6] == [(36, 36, 40), (36, 40, 44), (41, 44, 48)]
    assert len(in_ms(made, "src")) == 19
    assert account(made, Q) == (19, 0, 2)
    created = made.tables["deliveries"]["created_ns"].tolist()
    assert [instant // MS for instant in created[3:6]] == [30, 10, 40]


def test_tuples_to_be_emitted_again_wait_for_the_source_and_go_first(plane: PlaneFactory) -> None:
    steps = [
        (35, lambda c: c.plane.pause(SRC, None)),
        (37, lambda c: c.plane.emit_again(SRC, [1])),
        (55, lambda c: c.plane.unpause(SRC)),
    ]
    made, _ = run(line(), plane, *steps)
    created = made.tables["deliveries"]["created_ns"].tolist()
    assert [instant // MS for instant in created[3:6]] == [20, 40, 50]
    assert in_ms(made, "q")[3] == (56, 56, 60)


def test_tuples_to_be_emitted_again_are_gone_with_the_task(plane: PlaneFactory) -> None:
    def ready(control: Driven) -> None:
        control.go_live(SRC)
        control.plane.release(SRC)
        control.plane.resume(SRC)

    steps = [
        (35, lambda c: c.plane.pause(SRC, None)),
        (37, lambda c: c.plane.emit_again(SRC, [1])),
        (38, lambda c: c.kill(SRC)),
        (38, lambda c: c.begin(SRC)),
        (55, ready),
    ]
    made, _ = run(line(), plane, *steps)
    created = made.tables["deliveries"]["created_ns"].tolist()
    assert [instant // MS for instant in created[3:6]] == [40, 50, 60]
    assert account(made, Q) == (19, 0, 0)
