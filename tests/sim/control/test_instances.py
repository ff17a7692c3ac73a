"""A key group at two tasks: moves by redirection and by duplication lose nothing and count nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
from test_planes import differences

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

MS = 1_000_000
NS = 1_000_000_000
GROUP = 3  # partition of the second key group of `count`, after the two sources
DURATION = 4 * NS


def keys() -> dict[str, Any]:
    """Two sources -> a keyed count on two hosts -> a sink; no host dies before the end, but one might."""
    return {
        "duration": "4 s",
        "workload": {"src": {"rate": "200 /s", "keys": {"distribution": "uniform", "count": 20}}},
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "count": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": {"distribution": "exponential", "mean": "4 ms"},
                "state": {"model": "per-key", "bytes": "100 B"},
            },
            "out": {"kind": "sink", "inputs": {"count": "key"}},
        },
        "hosts": {"h": {"count": 3, "network": "1 MB/s"}},
        "placement": {"tasks": {"src-0": "h-0", "src-1": "h-0", "count-0": "h-0", "count-1": "h-1", "out-0": "h-1"}},
        "network": {"latency": "2 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
        "events": {"crash": {"at": "9 s", "kind": "host-failure", "host": "h-0"}},
    }


def read(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def job(**changes: Any) -> Scenario:
    return read(keys() | changes)


class Moving(Control):
    """A run in which the group moves, in steps of control."""

    def begin(self, host: int) -> int:
        """A new instance on that host with the stored state and the buffers of upstream; it is live, and muted."""
        cluster, plane = self.cluster, self.plane
        task = cluster.task_on(cluster.partition_operator[GROUP], host)
        if task is None:
            task = cluster.new_task(cluster.partition_operator[GROUP], host)
            plane.add_task(task)
        made = cluster.new_instance(GROUP, task)
        plane.add_instance(made, GROUP, task)
        plane.adopt(made, GROUP)
        cluster.set_live(made, True)
        plane.open(made)
        for sender in plane.senders(GROUP):
            plane.copy_kept(sender, GROUP, made)
            plane.replay(sender, made)
        return made

    def send_to(self, *targets: int) -> None:
        """Both sources send to these instances from now on."""
        for source in (0, 1):
            self.plane.route(self.cluster.partition_task[source], GROUP, targets)


def moved(plane: PlaneFactory, by: str, made: Scenario | None = None) -> RunRecords:
    """A run in which the group moves at 1 s, by `redirect` or by `duplicate`."""
    control = Moving(RunPlan.of(made or job(), RunInputs(), 0), plane)
    if isinstance(control.plane, CompiledPlane):
        # an instance that has tuples is over before its successor has a checkpoint
        control.plane.state.options["forgets_ids"] = 0
    control.start()
    control.run(1 * NS)
    if by == "redirect":
        new = control.begin(2)
        control.send_to(new)
        control.plane.own(new)
        control.run(3 * NS // 2)
        control.plane.retire(GROUP)
    elif by == "duplicate":
        new = control.begin(2)
        control.plane.mute(new, True)
        control.send_to(GROUP, new)
        control.run(3 * NS // 2)
        control.plane.mute(new, False)
        control.run(8 * NS // 5)
        control.send_to(new)
        control.plane.own(new)
        control.run(17 * NS // 10)
        control.plane.retire(GROUP)
    control.run(DURATION)
    return records(control, DURATION)


@pytest.mark.parametrize("by", ["redirect", "duplicate"])
@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane], ids=["plain", "compiled"])
def test_a_move_loses_nothing_and_counts_nothing_twice(by: str, plane: PlaneFactory) -> None:
    here, there = moved(plane, ""), moved(plane, by)
    for found in (here, there):
        ledger = found.tables["ledger"]
        assert ledger["expected"].min() > 500
        assert ledger["lost"].tolist() == ledger["duplicated"].tolist() == [0, 0]
    created = [sorted(made.tables["deliveries"]["created_ns"].tolist()) for made in (here, there)]
    assert created[0][:-30] == created[1][: len(created[0]) - 30]  # but for the last, which may be under way
    new = there.tables["visits"]["task"] == there.tasks.index("count-2")
    assert new.sum() > 50


@pytest.mark.parametrize("by", ["redirect", "duplicate"])
def test_both_planes_move_alike(by: str) -> None:
    assert differences(moved(PlainPlane, by), moved(CompiledPlane, by)) == []


def beside(what: str, **changes: Any) -> Scenario:
    """The job with queues that fill, evenly shared links, or evenly shared cores that others use for a time."""
    raw = keys()
    if what == "buffers":
        raw["operators"]["count"]["buffer"] = 1
        raw["operators"]["out"] |= {"buffer": 1, "service": {"distribution": "exponential", "mean": "3 ms"}}
    elif what == "links":
        raw["network"]["sharing"] = "fair"
        raw["hosts"]["h"]["network"] = "50 kB/s"
    else:
        load = {"steps": [{"at": "950 ms", "share": 0.5}, {"at": "1800 ms", "share": 0.0}]}
        raw["hosts"]["h"] |= {"cpu": "processor-sharing", "cores": 1, "load": load}
    return read(raw | changes)


@pytest.mark.parametrize("what", ["cores", "buffers", "links"])
@pytest.mark.parametrize(
    ("by", "host"),
    [
        pytest.param(by, host, marks=() if (row + column) % 2 == 0 else pytest.mark.slow)
        for row, by in enumerate(["redirect", "duplicate"])
        for column, host in enumerate(["h-0", "h-1", "h-2", None])
    ],
)
def test_a_move_loses_nothing_beside_what_slows_it_down(by: str, what: str, host: str | None) -> None:
    crash = {"at": "1550 ms", "kind": "host-failure", "host": host, "repair": "300 ms"}
    made = beside(what, events={"crash": crash}) if host else beside(what)
    plain, compiled = moved(PlainPlane, by, made), moved(CompiledPlane, by, made)
    assert differences(plain, compiled) == []
    if what == "buffers":
        unsent = compiled.tables["buffers"]
        assert unsent["blocked_ns"].max() > 0
    assert compiled.tables["ledger"]["expected"].min() > 500
    assert compiled.tables["ledger"]["duplicated"].tolist() == [0, 0]
    assert compiled.tables["ledger"]["lost"].tolist() == [0, 0]


@pytest.mark.parametrize("by", ["redirect", "duplicate"])
@pytest.mark.parametrize("host", ["h-0", "h-1", "h-2"])
def test_a_crash_after_a_move_loses_nothing(by: str, host: str) -> None:
    made = job(events={"crash": {"at": "2500 ms", "kind": "host-failure", "host": host, "repair": "300 ms"}})
    plain, compiled = moved(PlainPlane, by, made), moved(CompiledPlane, by, made)
    assert differences(plain, compiled) == []
    assert compiled.tables["ledger"]["lost"].tolist() == [0, 0]
    assert compiled.tables["ledger"]["duplicated"].tolist() == [0, 0]


@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane], ids=["plain", "compiled"])
def test_without_the_copy_of_the_buffer_tuples_are_missing(plane: PlaneFactory) -> None:
    class Careless(Moving):
        def begin(self, host: int) -> int:
            self.plane.copy_kept = lambda *_: None  # type: ignore[method-assign]
            return super().begin(host)

    control = Careless(RunPlan.of(job(), RunInputs(), 0), plane)
    control.start()
    control.run(1 * NS)
    new = control.begin(2)
    control.send_to(new)
    control.plane.own(new)
    control.run(3 * NS // 2)
    control.plane.retire(GROUP)
    control.run(DURATION)
    assert records(control, DURATION).tables["ledger"]["lost"][0] > 0
