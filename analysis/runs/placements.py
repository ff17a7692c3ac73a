"""Place the key groups of a run at its start and at its end, from the scenario and the rows of migrations."""

from __future__ import annotations

from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from models.topology import layout

Placement = dict[tuple[str, int], str]


def first_placement(scenario: Scenario) -> Placement:
    """(operator, key group) -> host at the start, of all operators with key groups, in file order."""
    hosts = layout.placement(scenario)
    return {
        (name, group): hosts[layout.task_name(name, layout.task_of_group(group, operator.parallelism))]
        for name, operator in scenario.operators.items()
        if operator.keyed
        for group in range(operator.groups)
    }


def last_placement(scenario: Scenario, one: RunRecords) -> Placement:
    """(operator, key group) -> host at the end: after all moves and recoveries that came to their new host."""
    placed = first_placement(scenario)
    events: list[tuple[int, int, int, int]] = []
    for table, instants in (("migrations", ("resumed_ns", "completed_ns")), ("recoveries", ("restored_ns",))):
        rows = one.tables[table]
        columns = (rows[name].tolist() for name in ("operator", "key_group", "target", *instants))
        for operator, group, target, *times in zip(*columns, strict=True):
            at_ns = next((at for at in times if at != NEVER), NEVER)
            if at_ns != NEVER:
                events.append((at_ns, operator, group, target))
    for _, operator, group, target in sorted(events, key=lambda event: event[0]):
        who = (one.operators[operator], group)
        if who in placed:
            placed[who] = one.hosts[target]
    return placed
