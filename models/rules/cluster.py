"""Rules about the cluster: placement and events name what exists, and hosts have slots for what is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from models import layout
from models.errors import NO_VALUE, InputFault
from models.events import HostFailure, Migrate, Rescale
from models.rules.dataflow import MOST_TASKS
from models.rules.names import broken_in, unknown_name, whole
from models.scenario import Scenario
from models.words import path_text

MOST_HOSTS = 100_000
_NAMES_SHOWN = 1000


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Faults of hosts, placement and events."""
    total = sum(group.count for group in scenario.hosts.values())
    if not scenario.hosts and whole("hosts", broken):
        yield InputFault("hosts", NO_VALUE, "at least one host is needed")
    if total > MOST_HOSTS:
        yield InputFault("hosts", NO_VALUE, f"{total} hosts are too many: {MOST_HOSTS} at most")
    names = _Names(scenario, broken)
    placed = [] if "placement" in broken else list(_of_placement(scenario, names))
    yield from placed
    if not placed and names.complete and 0 < total <= MOST_HOSTS:
        yield from _of_slots(scenario)
    yield from _of_events(scenario, names)


class _Names:
    """Whether hosts and tasks of a name exist, told from the counts so that no long list is made."""

    def __init__(self, scenario: Scenario, broken: Collection[str]) -> None:
        self.hosts = {name: group.count for name, group in scenario.hosts.items()}
        self.tasks = {name: operator.parallelism for name, operator in scenario.operators.items()}
        self.unread_hosts = broken_in("hosts", broken)
        self.unread_operators = broken_in("operators", broken)
        self.no_hosts, self.no_operators = "hosts" in broken, "operators" in broken
        few = sum(self.tasks.values()) <= MOST_TASKS
        self.complete = few and whole("hosts", broken) and whole("operators", broken) and "placement" not in broken

    def host(self, path: tuple[str, ...], name: str) -> InputFault | None:
        """The fault of a host name that does not exist."""
        if self.no_hosts or _exists(name, self.hosts, self.unread_hosts):
            return None
        return unknown_name(path, name, "host", _some(self.hosts))

    def operator(self, path: tuple[str, ...], name: str, shown: object | None = None) -> InputFault | None:
        """The fault of an operator name that does not exist."""
        if self.no_operators or name in self.tasks or name in self.unread_operators:
            return None
        return unknown_name(path, name, "operator", self.tasks, shown)

    def task(self, path: tuple[str, ...], name: str) -> InputFault | None:
        """The fault of a task name that does not exist."""
        if self.no_operators or _exists(name, self.tasks, self.unread_operators):
            return None
        return unknown_name(path, name, "task", _some(self.tasks), shown=NO_VALUE)


def _exists(name: str, counts: dict[str, int], unread: set[str]) -> bool:
    head, _, tail = name.rpartition("-")
    if head in unread:
        return True
    return tail.isascii() and tail.isdigit() and str(int(tail[:12])) == tail and int(tail) < counts.get(head, 0)


def _some(counts: dict[str, int]) -> list[str]:
    return [f"{name}-{index}" for name, count in counts.items() for index in range(min(count, _NAMES_SHOWN))]


def _of_placement(scenario: Scenario, names: _Names) -> Iterator[InputFault]:
    for operator, group in scenario.placement.operators.items():
        fault = names.operator(("placement", "operators", operator), operator, shown=NO_VALUE)
        if fault:
            yield fault
        if group not in names.hosts and group not in names.unread_hosts and not names.no_hosts:
            yield unknown_name(("placement", "operators", operator), group, "host group", names.hosts)
    for task, host in scenario.placement.tasks.items():
        here = ("placement", "tasks", task)
        yield from (fault for fault in (names.task(here, task), names.host(here, host)) if fault)


def _of_slots(scenario: Scenario) -> Iterator[InputFault]:
    if all(group.slots is None for group in scenario.hosts.values()):
        return
    used = Counter(layout.placement(scenario).values())
    reported = set()
    for host, group in layout.hosts(scenario).items():
        name = host.rpartition("-")[0]
        if group.slots is not None and used[host] > group.slots and name not in reported:
            reported.add(name)
            yield InputFault(
                path_text(("hosts", name, "slots")), group.slots, f"{used[host]} tasks are placed on {host}"
            )


def _of_events(scenario: Scenario, names: _Names) -> Iterator[InputFault]:
    for name, event in scenario.events.items():
        here = ("events", name)
        if isinstance(event, (HostFailure, Migrate)):
            fault = names.host((*here, "host"), event.host)
            if fault:
                yield fault
        if isinstance(event, (Migrate, Rescale)):
            fault = names.operator((*here, "operator"), event.operator)
            if fault:
                yield fault
            yield from _of_groups(scenario, here, event)


def _of_groups(scenario: Scenario, here: tuple[str, ...], event: Migrate | Rescale) -> Iterator[InputFault]:
    operator = scenario.operators.get(event.operator)
    if operator is None:
        return
    if not operator.keyed:
        yield InputFault(path_text((*here, "operator")), event.operator, "has no input partitioned by key")
    elif isinstance(event, Migrate) and event.key_group >= operator.groups:
        where = path_text((*here, "key_group"))
        yield InputFault(where, event.key_group, f"must be less than the {operator.groups} key groups")
    elif isinstance(event, Rescale) and event.parallelism > operator.groups:
        where = path_text((*here, "parallelism"))
        yield InputFault(where, event.parallelism, f"must be at most the {operator.groups} key groups")
