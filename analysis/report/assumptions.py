"""State the assumptions of the engine that matter for a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario


def engine_assumptions(scenario: Scenario) -> tuple[str, ...]:
    """Return the assumptions of the engine about what this scenario has."""
    served, alone = list(scenario.operators.values()), "Tuples are served first come first served and"
    kinds = {group.cpu for group in scenario.hosts.values()}
    found = [
        (kinds == {"dedicated"}, f"{alone} without interruption."),
        (
            "shared" in kinds,
            f"{alone} without interruption; on shared cores by priority, then in the order of arrival at the host.",
        ),
        ("processor-sharing" in kinds, "With processor sharing all services of a host go on at once, at equal pace."),
        (
            scenario.fault_tolerance.method == "checkpoint",
            "A snapshot is taken at one instant; where `serialise` is given, writing it keeps the task busy for that "
            "time.",
        ),
        (
            scenario.may_fail,
            "A key group of a dead host resumes on the host that holds its checkpoint, else on the live host with the "
            "fewest key groups and tasks; nothing moves back afterwards.",
        ),
        (
            scenario.may_fail,
            "Sources read a durable log: tuples that arrive while their host is down wait, and are not lost.",
        ),
        (
            any(operator.buffer for operator in served),
            "A task waits with all its services while an output of it finds no place; what arrives then waits at the "
            "source. That a place is free is known at once, without a message.",
        ),
        (
            any(operator.window for operator in served),
            "The event time of a tuple is its creation time, and no tuple is late: sources send a watermark at regular "
            "instants. What a window emits is as old as its newest tuple of that key, from which latency counts.",
        ),
    ]
    return tuple(said for holds, said in found if holds)


def recording_assumptions(records: Sequence[RunRecords]) -> tuple[str, ...]:
    """Return which numbers are not exact."""
    if all(one.detail == "tuples" for one in records):
        return ()
    return (
        "No row was kept for single tuples: quantiles are read from histograms and off by at most 0.4 %; counts, "
        "means, greatest values, queues and utilisation are exact.",
    )
