"""What a report shows of moves: their kinds, the checkpoints that could have helped, and placement before and after."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from analysis.report.content import Migration
from analysis.report.parts import Interval, LoadChecks, Moved, MoveKind, PlacedGroup, PlacedHost
from analysis.runs.elasticity import host_utilisation
from analysis.runs.placements import first_placement, last_placement
from analysis.statistics import Mean, ratio_mean
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.topology import layout

_NS = 1e9
_MOST_LOOKS = 240
_PART = 0.1  # of all checks: the first and the last of them say how busy hosts were before and after


def move_kinds(moves: Sequence[Migration]) -> tuple[MoveKind, ...]:
    """The moves by kind, protocol and cause, the most frequent first."""
    found: dict[tuple[str, str, str], list[Migration]] = {}
    for one in moves:
        found.setdefault((one.kind, one.protocol, one.cause), []).append(one)
    rows = [_kind(who, own) for who, own in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.moves, row.kind, row.protocol, row.cause)))


def _kind(who: tuple[str, str, str], own: Sequence[Migration]) -> MoveKind:
    pauses = [one.pause_s for one in own if one.pause_s is not None]
    completions = [one.completion_s for one in own if one.completion_s is not None]
    each: dict[int, list[float]] = {}
    for one in own:
        if one.pause_s is not None:
            each.setdefault(one.replication, []).append(one.pause_s)
    return MoveKind(
        *who,
        moves=len(own),
        unfinished=sum(one.completion_s is None for one in own),
        pause=interval(ratio_mean([sum(part) for part in each.values()], [len(part) for part in each.values()])),
        pause_p50_s=median(pauses) if pauses else None,
        pause_max_s=max(pauses, default=None),
        completion_p50_s=median(completions) if completions else None,
        replayed=sum(one.replayed for one in own),
    )


def interval(given: Mean) -> Interval:
    """A mean with its interval as the report has it."""
    return Interval(given.mean, *(given.ci95 or (None, None)))


def load_checks(one: RunRecords) -> LoadChecks | None:
    """What the adaptation manager found, at most 240 points; None where it never checked."""
    table = one.tables["adaptations"]
    if not len(table["at_ns"]):
        return None
    together = -(-len(table["at_ns"]) // _MOST_LOOKS)
    begins = np.arange(0, len(table["at_ns"]), together)
    columns = ("groups", "usable", "assisted", "direct", "drained")
    risk, usable, assisted, direct, drained = (np.add.reduceat(table[name], begins) for name in columns)
    at_s = table["at_ns"][begins] / _NS
    return LoadChecks(at_s, risk, usable, assisted, direct, drained, together, one.replication)


def moved(scenario: Scenario, one: RunRecords) -> Moved | None:
    """Key groups by host before and after, and how busy hosts were; None where nothing moved."""
    before, after = first_placement(scenario), last_placement(scenario, one)
    changed = {who for who, host in before.items() if after[who] != host}
    if not changed:
        return None
    names = tuple(layout.hosts(scenario))
    rows: dict[str, tuple[list[PlacedGroup], list[PlacedGroup]]] = {name: ([], []) for name in names}
    for (operator, group), host in before.items():
        there = after[operator, group]
        rows[host][0].append(PlacedGroup(operator, group, there if there != host else ""))
        rows[there][1].append(PlacedGroup(operator, group, host if there != host else ""))
    loads, span_s = _loads(scenario, one)
    hosts = tuple(
        PlacedHost(name, tuple(left), tuple(right), *loads.get(name, (None, None)))
        for name, (left, right) in rows.items()
    )
    return Moved(hosts, tuple(dict.fromkeys(operator for operator, _ in before)), len(changed), span_s, one.replication)


def _loads(scenario: Scenario, one: RunRecords) -> tuple[dict[str, tuple[float, float]], float | None]:
    """Host -> CPU in use, means of the first and of the last checks, and what time these checks cover [s]."""
    series = host_utilisation(scenario, one)
    if not series.at_ns.size:
        return {}, None
    count = max(1, round(_PART * series.at_ns.size))
    found = dict.fromkeys(layout.hosts(scenario), (0.0, 0.0))
    for name, values in zip(series.names, series.values, strict=True):
        found[name] = (float(values[:count].mean()), float(values[-count:].mean()))
    return found, float(series.at_ns[count - 1]) / _NS
