"""Rules about members of a group that stop, resume and join: what the method `changelog` has, and no other."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models.errors import NO_VALUE, InputFault
from models.scenario.events import HostJoin, HostRestart
from models.scenario.rules.dataflow import whole
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import path_text

_METHOD = 'write method = "changelog" in fault_tolerance'


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of events that stop and start hosts; `broken` as in `models.scenario.rules.faults`."""
    if "fault_tolerance" in broken:
        return
    method = scenario.fault_tolerance.method
    needs = f"needs the method changelog; fault_tolerance.method is {method}"
    if scenario.detector.returns == "resumed" and method != "changelog":
        hint = f'{_METHOD}, or returns = "noticed"'
        yield InputFault("detector.returns", scenario.detector.returns, needs, hint)
    for name, event in scenario.events.items():
        if not isinstance(event, (HostRestart, HostJoin)):
            continue
        if method != "changelog":
            if scenario.engine is None:  # else its rules say so
                hint = f"{_METHOD}, or write host-failure"
                yield InputFault(path_text(("events", name, "kind")), event.kind, needs, hint)
        elif whole("hosts", broken):
            yield from _of_hosts(scenario, name, event)


def _of_hosts(scenario: Scenario, name: str, event: HostRestart | HostJoin) -> Iterator[InputFault]:
    """Yield hosts that stop although they are not in use, or twice for good, and those that join and are in use."""
    spare, known = set(layout.spare_hosts(scenario)), set(layout.hosts(scenario))
    joins = {one.host for one in scenario.events.values() if isinstance(one, HostJoin)}
    if isinstance(event, HostJoin):
        if event.host in known - spare:
            group = layout.host_group_names(scenario)[event.host]
            hint = f"{path_text(('hosts', group, 'spare'))} says how many of them are not, the last ones"
            yield InputFault(path_text(("events", name, "host")), event.host, "is in use from the start", hint)
        return
    for index, host in enumerate(event.hosts):
        where = path_text(("events", name, "hosts", index))
        if host in spare - joins:
            hint = "an event of kind host-join uses it"
            yield InputFault(where, host, "is a spare host, which nothing uses", hint)
        elif event.down_s is None and host in event.hosts[:index]:
            yield InputFault(
                where, host, "has stopped for good by then", f"write {path_text(('events', name, 'down'))}"
            )
    if event.down_s is None and event.disk == "lost":
        where = path_text(("events", name, "disk"))
        yield InputFault(where, event.disk, "has no part where hosts do not come back", "write down, or remove it")
    if event.pause_s and len(event.hosts) == 1:
        where = path_text(("events", name, "pause"))
        yield InputFault(where, NO_VALUE, "is a time between two hosts, and there is one", "remove it")
