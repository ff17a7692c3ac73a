"""Rules about the cluster: placement and events name what exists, and hosts have slots for what is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from models import display, units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import (
    HostFailure,
    HostJoin,
    HostRestart,
    Migrate,
    Rebalance,
    Reconfigure,
    Rescale,
    WorkerFailure,
)
from models.scenario.job import Operator
from models.scenario.rules.dataflow import MOST_GROUPS, MOST_TASKS, broken_in, unknown_name, whole
from models.scenario.scenario import Scenario
from models.topology import layout
from models.validation_messages import path_text

MOST_HOSTS = 100_000
_NAMES_SHOWN = 1000


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of hosts, placement and events; `broken` as in `models.scenario.rules.faults`."""
    total = sum(group.count for group in scenario.hosts.values())
    if not scenario.hosts and whole("hosts", broken):
        yield InputFault("hosts", NO_VALUE, "at least one host is needed")
    if total > MOST_HOSTS:
        yield InputFault(
            "hosts", NO_VALUE, f"{display.count(total)} hosts are too many: {display.count(MOST_HOSTS)} at most"
        )
    # Slots are counted only if placement and spare hosts are right: a fault there would cause misleading ones here.
    names = _Names(scenario, broken)
    spare = list(_of_spare_hosts(scenario))
    placed = [] if "placement" in broken else list(_of_placement(scenario, names))
    yield from spare
    yield from placed
    if not placed and not spare and names.complete and 0 < total <= MOST_HOSTS:
        yield from _of_slots(scenario)
    yield from _of_events(scenario, names)
    if names.complete and not placed and not spare and 0 < total <= MOST_HOSTS:
        yield from _of_rebalances(scenario)
    yield from _of_elasticity(scenario, broken)


class _Names:
    """Checks whether hosts and tasks exist, from their counts: a list of 100,000 names is never made."""

    def __init__(self, scenario: Scenario, broken: Collection[str]) -> None:
        self.hosts = {name: group.count for name, group in scenario.hosts.items()}
        self.tasks = {name: operator.parallelism for name, operator in scenario.operators.items()}
        self.unread_hosts = broken_in("hosts", broken)
        self.unread_operators = broken_in("operators", broken)
        self.no_hosts, self.no_operators = "hosts" in broken, "operators" in broken
        few = sum(self.tasks.values()) <= MOST_TASKS
        self.complete = few and whole("hosts", broken) and whole("operators", broken) and "placement" not in broken

    def host(self, path: tuple[str | int, ...], name: str) -> InputFault | None:
        """Return the fault of a host name that does not exist."""
        if self.no_hosts or _exists(name, self.hosts, self.unread_hosts):
            return None
        return unknown_name(path, name, "host", _some(self.hosts))

    def group(self, path: tuple[str | int, ...], name: str) -> Iterator[InputFault]:
        """Yield the fault of the name of a host group that does not exist."""
        if name not in self.hosts and name not in self.unread_hosts and not self.no_hosts:
            yield unknown_name(path, name, "host group", self.hosts)

    def operator(self, path: tuple[str | int, ...], name: str, shown: object | None = None) -> InputFault | None:
        """Return the fault of an operator name that does not exist."""
        if self.no_operators or name in self.tasks or name in self.unread_operators:
            return None
        return unknown_name(path, name, "operator", self.tasks, shown)

    def task(self, path: tuple[str | int, ...], name: str) -> InputFault | None:
        """Return the fault of a task name that does not exist."""
        if self.no_operators or _exists(name, self.tasks, self.unread_operators):
            return None
        return unknown_name(path, name, "task", _some(self.tasks), shown=NO_VALUE)


def _exists(name: str, counts: dict[str, int], unread: set[str]) -> bool:
    """Return True if a group or operator of that name has so many; also for one that could not be read."""
    head, number = _split(name)
    return head in unread or (number is not None and number < counts.get(head, 0))


def _split(name: str) -> tuple[str, int | None]:
    """Split the name of a host or task that somebody wrote into its group or operator, and its number.

    The number is None if it is not written as in `models.topology.layout`, or has more than 12 digits.
    """
    head, _, tail = name.rpartition("-")
    plain = tail.isascii() and tail.isdigit() and str(int(tail[:12])) == tail
    return head, int(tail) if plain else None


def _some(counts: dict[str, int]) -> list[str]:
    """Return names of hosts or tasks to suggest, at most a thousand of each group or operator."""
    return [f"{name}-{index}" for name, count in counts.items() for index in range(min(count, _NAMES_SHOWN))]


def _of_placement(scenario: Scenario, names: _Names) -> Iterator[InputFault]:
    """Yield unknown operators, tasks, groups and hosts of the placement."""
    for operator, group in scenario.placement.operators.items():
        fault = names.operator(("placement", "operators", operator), operator, shown=NO_VALUE)
        if fault:
            yield fault
        yield from names.group(("placement", "operators", operator), group)
    for index, group in enumerate(scenario.placement.hosts):
        yield from names.group(("placement", "hosts", index), group)
    for index, operator in enumerate(scenario.placement.fixed):
        where = ("placement", "fixed", index)
        fault = names.operator(where, operator)
        if fault:
            yield fault
        elif operator in scenario.operators and scenario.operators[operator].kind != "sink":
            hint = "sources stay in any case; all between them and the sinks moves"
            yield InputFault(path_text(where), operator, "must be a sink", hint)
    for task, host in scenario.placement.tasks.items():
        here = ("placement", "tasks", task)
        yield from (fault for fault in (names.task(here, task), names.host(here, host)) if fault)


def _of_spare_hosts(scenario: Scenario) -> Iterator[InputFault]:
    """Yield groups with more spare hosts than hosts, and tasks that are placed on a spare host at the start."""
    for name, group in scenario.hosts.items():
        if group.spare > group.count:
            yield InputFault(path_text(("hosts", name, "spare")), group.spare, f"must be at most count = {group.count}")
    used = {name: group.used for name, group in scenario.hosts.items()}
    if used and max(used.values()) <= 0:
        yield InputFault("hosts", NO_VALUE, "at least one host that is not spare is needed")
    for operator, host_group in scenario.placement.operators.items():
        if used.get(host_group, 1) <= 0:
            yield InputFault(path_text(("placement", "operators", operator)), host_group, "has no host but spare ones")
    chosen = scenario.placement.hosts
    if chosen and max(used.get(group, 1) for group in chosen) <= 0:
        yield InputFault("placement.hosts", list(chosen), "have no host but spare ones")
    for task, host in scenario.placement.tasks.items():
        head, number = _split(host)
        if number is not None and head in used and used[head] <= number < scenario.hosts[head].count:
            yield InputFault(path_text(("placement", "tasks", task)), host, "is a spare host")


def _of_elasticity(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield faults of elasticity: unknown groups of hosts, nothing to move, and no spare host to acquire."""
    if "elasticity" in broken:
        return
    elasticity, unread = scenario.elasticity, broken_in("hosts", broken)
    for index, name in enumerate(elasticity.hosts):
        if name not in scenario.hosts and name not in unread and "hosts" not in broken:
            yield unknown_name(("elasticity", "hosts", index), name, "host group", scenario.hosts)
    if elasticity.policy == "none":
        return
    movable = any(one.movable for one in scenario.operators.values())
    if whole("operators", broken) and not movable:
        rule = "no operator has key groups that can move"
        yield InputFault(
            "elasticity.policy", elasticity.policy, rule, "an aggregate or a join with an input by key has"
        )
    for index, name in enumerate(elasticity.operators):
        here = ("elasticity", "operators", index)
        if name in scenario.operators and not scenario.operators[name].movable:
            rule = "has no key groups that can move"
            yield InputFault(path_text(here), name, rule, "an aggregate or a join with an input by key has")
        elif name not in scenario.operators and whole("operators", broken):
            yield unknown_name(here, name, "operator", scenario.operators)
    taking_part = [group for name, group in scenario.hosts.items() if not elasticity.hosts or name in elasticity.hosts]
    if elasticity.scale_out and whole("hosts", broken) and not any(group.spare for group in taking_part):
        rule, hint = "there is no spare host to acquire", "say how many of a host group are: spare = 2"
        yield InputFault("elasticity.scale_out", "true", rule, hint)


def _of_slots(scenario: Scenario) -> Iterator[InputFault]:
    """Yield one fault for each group of hosts in which more tasks are placed on a host than it has slots."""
    none = scenario.engine is not None and scenario.engine.name != "flink"  # as the rules of these engines say
    if none or all(group.slots is None for group in scenario.hosts.values()):
        return
    placed, shared = layout.placement(scenario), scenario.placement.slot_sharing
    used = Counter(
        (placed[layout.task_name(name, index)], name if shared else "") for name, index in layout.tasks(scenario)
    )
    reported = set()
    for (host, operator), count in used.items():
        name = layout.host_group_names(scenario)[host]
        group = scenario.hosts[name]
        if group.slots is not None and count > group.slots and name not in reported:
            reported.add(name)
            rule = f"{count} tasks{f' of {operator}' if shared else ''} are placed on {host}"
            slots = "the largest parallelism" if shared else "tasks where they do not share them"
            hint = f"Flink needs as many slots as {slots}: taskmanager.numberOfTaskSlots"
            where = path_text(("hosts", name, "slots"))
            named = scenario.engine is not None and scenario.engine.name == "flink"
            yield InputFault(where, group.slots, rule, hint if named else "")


def _of_events(scenario: Scenario, names: _Names) -> Iterator[InputFault]:
    """Yield unknown hosts and operators of events, and operators whose key groups cannot move."""
    for name, event in scenario.events.items():
        here = ("events", name)
        if isinstance(event, (HostFailure, WorkerFailure, HostJoin, Migrate)):
            fault = names.host((*here, "host"), event.host)
            if fault:
                yield fault
        if isinstance(event, HostRestart):
            for index, host in enumerate(event.hosts):
                fault = names.host((*here, "hosts", index), host)
                if fault:
                    yield fault
        if isinstance(event, Rebalance):
            for index, group in enumerate(event.hosts):
                yield from names.group((*here, "hosts", index), group)
        if isinstance(event, (Migrate, Rescale, Reconfigure)):
            fault = names.operator((*here, "operator"), event.operator)
            if fault:
                yield fault
            yield from _of_groups(scenario, here, event)
    yield from _of_numbers_of_bins(scenario)


def _of_numbers_of_bins(scenario: Scenario) -> Iterator[InputFault]:
    """Yield operators whose key groups are no bins of Megaphone, which finds a bin by the leading bits of a hash."""
    asks = dict[str, str]()  # operator -> the first event that moves its bins
    for name, event in scenario.events.items():
        if isinstance(event, Reconfigure) and event.protocol == "megaphone":
            asks.setdefault(event.operator, path_text(("events", name)))
    for name, asking in asks.items():
        operator = scenario.operators.get(name)
        if operator is None or not operator.keyed or operator.groups > MOST_GROUPS:
            continue
        if operator.groups & (operator.groups - 1):
            where = path_text(("operators", name, "key_groups"))
            rule = f"must be a power of two: key groups are the bins of megaphone in {asking}"
            yield InputFault(where, operator.groups, rule, f"such as {1 << operator.groups.bit_length()}")


def _of_rebalances(scenario: Scenario) -> Iterator[InputFault]:
    """Yield rebalances to host groups with too few free slots for the tasks that move."""
    placed, staying = layout.placement(scenario), layout.staying(scenario)
    operator_of = {layout.task_name(name, index): name for name, index in layout.tasks(scenario)}
    taken = [host for task, host in placed.items() if operator_of[task] in staying]
    count = sum(operator not in staying for operator in operator_of.values())
    for name, event in scenario.events.items():
        if isinstance(event, Rebalance) and scenario.placement.slot_sharing:
            rule = "needs a slot for each task: placement.slot_sharing is true"
            yield InputFault(path_text(("events", name, "kind")), event.kind, rule, "remove placement.slot_sharing")
        elif isinstance(event, Rebalance) and all(group in scenario.hosts for group in event.hosts):
            free = layout.free_slots(scenario, event.hosts, taken)
            if free < count:
                rule = f"{count} tasks need a slot, and {int(free)} are free there"
                hint = "name more host groups, or give hosts.GROUP more hosts or slots"
                yield InputFault(path_text(("events", name, "hosts")), list(event.hosts), rule, hint)


def _of_groups(
    scenario: Scenario, here: tuple[str, ...], event: Migrate | Rescale | Reconfigure
) -> Iterator[InputFault]:
    """Yield a missing partitioning by key, and key groups or tasks beyond the number of key groups."""
    operator = scenario.operators.get(event.operator)
    if operator is None:
        return
    if not operator.keyed:
        yield InputFault(path_text((*here, "operator")), event.operator, "has no input partitioned by key")
    elif isinstance(event, Migrate) and event.key_group >= operator.groups:
        where = path_text((*here, "key_group"))
        yield InputFault(where, event.key_group, f"must be less than the {display.count(operator.groups)} key groups")
    elif isinstance(event, Rescale) and event.parallelism > operator.groups:
        where = path_text((*here, "parallelism"))
        yield InputFault(where, event.parallelism, f"must be at most the {display.count(operator.groups)} key groups")
    elif isinstance(event, Reconfigure):
        yield from _of_bins(operator, here, event)


def _of_bins(operator: Operator, here: tuple[str, ...], event: Reconfigure) -> Iterator[InputFault]:
    """Yield what does not go together in a reconfiguration, and what its operator has not."""
    yield from _of_protocols(here, event)
    yield from _of_migration_file(here, event) if event.file is not None else _of_plan(operator, here, event)
    if event.next == "lag" and event.gap_s:
        rule = 'is between two steps, and with next = "lag" the time of the next one lies in the one before'
        gap = event.gap_s if event.gap_s == "drain" else units.show(event.gap_s, "s")
        yield InputFault(path_text((*here, "gap")), gap, rule, "remove one of the two")
    if operator.parallelism < 2:
        rule = "has one task, and its key groups have nowhere to go"
        yield InputFault(path_text((*here, "operator")), event.operator, rule, "give it a higher parallelism")


_OF_MEGAPHONE = ("strategy", "size", "file", "scope", "gap_s", "next", "overlap", "late_s")


def _of_protocols(here: tuple[str, ...], event: Reconfigure) -> Iterator[InputFault]:
    """Yield keys of another protocol than that of the event."""
    for key in _OF_MEGAPHONE if event.protocol != "megaphone" else ():
        field, value = Reconfigure.model_fields[key], getattr(event, key)
        if value not in (field.default, "all-at-once"):
            rule = f"is of the protocol megaphone: {event.protocol} moves all key groups in one step"
            shown = units.show(value, "s") if isinstance(value, float) else value
            yield InputFault(path_text((*here, field.alias or key)), shown, rule, "remove it")
    for key in ("sent_copies", "received_copies") if event.moves_each else ():
        if getattr(event, key) != Reconfigure.model_fields[key].default:
            rule = f"is of steps and baselines: {event.protocol} moves each key group by itself, and tells no copies"
            yield InputFault(path_text((*here, key)), getattr(event, key), rule, "remove it")
    if event.restart_s and event.protocol != "stop-and-restart":
        rule = f"is of the protocol stop-and-restart, and this one is {event.protocol}"
        yield InputFault(path_text((*here, "restart")), units.show(event.restart_s, "s"), rule, "remove it")


def _of_migration_file(here: tuple[str, ...], event: Reconfigure) -> Iterator[InputFault]:
    """Yield other keys that say what moves."""
    others = {
        "strategy": event.strategy if event.strategy != "batched" else None,
        "size": event.size,
        "plan": event.plan if event.plan != "half" else None,
        "owners": list(event.owners) or None,
        "tasks": event.tasks,
    }
    for key, value in others.items():
        if value is not None:
            rule = "says what moves in which step, and so does file"
            yield InputFault(path_text((*here, key)), value, rule, "write one of the two")


def _of_plan(operator: Operator, here: tuple[str, ...], event: Reconfigure) -> Iterator[InputFault]:
    """Yield a size that is missing or of no use, and owners that are too few, too many or not there."""
    where = path_text((*here, "size"))
    if event.protocol != "megaphone":
        pass  # all key groups move in one step
    elif event.strategy == "batched" and event.size is None:
        yield InputFault(where, NO_VALUE, "is how many key groups move in a step", 'write size, or strategy = "fluid"')
    elif event.strategy != "batched" and event.size is not None:
        rule = f"is of the strategy batched, and this one is {event.strategy}"
        yield InputFault(where, event.size, rule, "remove it")
    if event.owners and len(event.owners) != operator.groups:
        needed, there = map(display.count, (operator.groups, len(event.owners)))
        rule = f"must have a task for each of the {needed} key groups, and has {there}"
        yield InputFault(
            path_text((*here, "owners")), list(event.owners), rule, "or tasks, the number of those that get all"
        )
    elif event.owners and max(event.owners) >= operator.parallelism:
        k = next(k for k, task in enumerate(event.owners) if task >= operator.parallelism)
        rule = f"must be one of the {display.count(operator.parallelism)} tasks, which count from 0"
        yield InputFault(path_text((*here, "owners", k)), event.owners[k], rule, "rescale gives an operator more tasks")
    if event.tasks is not None and event.tasks > operator.parallelism:
        rule = f"must be at most the {display.count(operator.parallelism)} tasks that there are"
        yield InputFault(path_text((*here, "tasks")), event.tasks, rule, "rescale gives an operator more tasks")
    other = "owners" if event.owners else "tasks"
    if (event.owners or event.tasks is not None) and event.plan != "half":
        rule = f"says where key groups go, and so does {other}"
        yield InputFault(path_text((*here, "plan")), event.plan, rule, "write one of the two")
    if event.owners and event.tasks is not None:
        rule = "says where key groups go, and so does owners"
        yield InputFault(path_text((*here, "tasks")), event.tasks, rule, "write one of the two")
