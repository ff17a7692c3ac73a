"""Which run needs which data plane, and what each plane can do.

Oracles: the interfaces of `sim.data_plane`, by names and parameters; the words that `holdfast` shows for a kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from small_jobs import queue

from models.records.tables import SCAN
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.data_plane import (
    AckerPlane,
    ActionPlane,
    CheckpointPlane,
    CountingPlane,
    DataPlane,
    IdlePlane,
    InstancePlane,
    Plane,
    RecoverablePlane,
    SharedCpuPlane,
)
from sim.engine import build, simulate
from sim.kernel import needs
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.needs import needs_of
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane

S = 1_000_000_000
MORE = (
    AckerPlane,
    ActionPlane,
    CheckpointPlane,
    CountingPlane,
    IdlePlane,
    InstancePlane,
    RecoverablePlane,
    SharedCpuPlane,
)
SERVICE = {"distribution": "deterministic", "value": "5 ms"}
CRASH = {"at": "1 s", "kind": "host-failure", "host": "h-0", "repair": "1 s"}


def plan_of(made: Scenario) -> RunPlan:
    return RunPlan.of(made, RunInputs(), 0)


def verbs_of(interface: type) -> dict[str, Callable[..., Any]]:
    """The verbs of an interface, with those that it inherits."""
    return {name: verb for name, verb in inspect.getmembers(interface, inspect.isfunction) if not name.startswith("_")}


# -- what each plane can do


@pytest.mark.parametrize("interface", MORE)
def test_the_scan_does_what_every_plane_does_and_no_more(interface: type) -> None:
    control = Control(plan_of(queue(SERVICE)), ScanPlane)
    assert isinstance(control.plane, Plane)
    assert not isinstance(control.plane, interface)
    assert not any(hasattr(control.plane, verb) for verb in verbs_of(interface).keys() - verbs_of(Plane))


@pytest.mark.parametrize(
    ("plane", "interface"), [(PlainPlane, DataPlane), (CompiledPlane, DataPlane), (ScanPlane, Plane)]
)
def test_verbs_have_the_parameters_of_the_interface(plane: type, interface: type) -> None:
    for name, verb in verbs_of(interface).items():
        wanted, found = (inspect.signature(one).parameters.values() for one in (verb, getattr(plane, name)))
        assert [(one.name, one.default) for one in found] == [(one.name, one.default) for one in wanted], name


@pytest.mark.parametrize("one", MORE)
def test_each_interface_adds_verbs_and_the_data_plane_has_them_all(one: type) -> None:
    inherited = {verb for base in one.__mro__[1:] for verb in verbs_of(base)}
    assert verbs_of(one).keys() - inherited
    assert verbs_of(one).keys() <= verbs_of(DataPlane).keys()


def test_a_run_on_the_scan_has_no_managers() -> None:
    control = build(queue(SERVICE), plane=ScanPlane)
    assert not control.managed
    assert not hasattr(control, "recovery")
    assert not hasattr(control.state, "plane")


def test_all_hosts_but_spare_ones_are_in_use_also_without_managers() -> None:
    hosts = {"h": {"count": 3, "spare": 1}}
    scan, loop = (simulate(queue(SERVICE, hosts=hosts), plane=plane) for plane in (ScanPlane, CompiledPlane))
    rows = scan.tables["hosts_in_use"]
    assert rows["host"].tolist() == [0, 1]
    assert {name: column.tolist() for name, column in rows.items()} == {
        name: column.tolist() for name, column in loop.tables["hosts_in_use"].items()
    }


# -- which run needs which

ASKED: dict[str, tuple[dict[str, Any], tuple[type, ...], str]] = {
    "event": ({"events": {"boom": CRASH}}, (InstancePlane, ActionPlane), "there are events: boom"),
    "acker": (
        {"fault_tolerance": {"method": "acker", "guarantee": "at-least-once"}},
        (AckerPlane,),
        "fault_tolerance.method is acker",
    ),
    "law of failures": (
        {"hosts": {"h": {"count": 1, "failures": {"model": "exponential", "mtbf": "9 s", "repair": "1 s"}}}},
        (InstancePlane, ActionPlane),
        "hosts may fail",
    ),
    "statistics": (
        {"recording": {"statistics": True}},
        (CountingPlane,),
        "the load of each key group is counted",
    ),
    "load": (
        {"hosts": {"h": {"count": 1, "load": {"steps": [{"at": "1 s", "share": 0.5}]}}}},
        (SharedCpuPlane,),
        "others take a part of the CPU of h-0",
    ),
    "timer beside checkpoints": (
        {
            "q": {"timer": {"every": "1 s"}},
            "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
            "hosts": {"h": {"count": 2}},
        },
        (Plane,),
        "q has a timer, and checkpoints are taken",
    ),
    "bounded queue": ({"q": {"buffer": 3}}, (Plane,), "the queues of q are bounded"),
    "cores": (
        {"hosts": {"h": {"count": 1, "cpu": "shared", "cores": 1}}, "q": {"threads": 2}},
        (Plane,),
        "tasks share the cores of h-0",
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_row_names_what_the_run_needs(what: str) -> None:
    changes, interfaces, why = ASKED[what]
    plan = plan_of(queue(SERVICE, **changes))
    assert (why, interfaces) in [(need.why, need.interfaces) for need in needs_of(plan)]
    assert kernel_for(plan).why == next(needs_of(plan)).why


@pytest.mark.parametrize("what", [what for what, (_, interfaces, _) in ASKED.items() if interfaces != (Plane,)])
def test_a_plane_without_the_verbs_is_refused_by_name(what: str) -> None:
    changes, interfaces, why = ASKED[what]
    names = " and ".join(interface.__name__ for interface in interfaces)
    with pytest.raises(ValueError, match=f"{why}: .* {names}, not ScanPlane"):
        build(queue(SERVICE, **changes), plane=ScanPlane)


def test_the_words_come_from_the_first_row_that_finds_any() -> None:
    changes = {"recording": {"statistics": True}, "events": {"boom": CRASH}, "q": {"timer": {"every": "1 s"}}}
    found = [need.why for need in needs_of(plan_of(queue(SERVICE, **changes)))]
    assert found == [
        "there are events: boom",
        "hosts may fail",
        "the load of each key group is counted",
        "q has a timer",
    ]


def test_a_run_that_needs_nothing_more_gets_the_scan() -> None:
    assert [*needs_of(plan_of(queue(SERVICE)))] == []
    assert kernel_for(plan_of(queue(SERVICE))).name == SCAN


def test_the_rows_name_each_interface_that_a_scenario_can_ask_for() -> None:
    tables = [
        needs.OF_RUN,
        needs.OF_OPERATOR,
        needs.OF_HOST,
        needs.OF_LINK,
        needs.OF_STATE,
        needs.OF_CHECKPOINT_LINK,
    ]
    named = {interface for rows in tables for row in rows for interface in row.interfaces}
    # Those that are not named are part of one that is.
    assert all(any(issubclass(other, one) for other in named) for one in MORE)
