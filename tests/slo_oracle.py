"""What a run of `sim.fleet` has to keep, checked on its rows alone, by sums over all sets of failed hosts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

from models.fleet.records import FleetRecords, Row
from models.fleet.system import System

Placement = dict[str, list[tuple[str, str, float]]]  # part -> (host, role, share)


@cache
def broken_by_hand(parts: frozenset[frozenset[int]], down: tuple[float, ...]) -> Fraction:
    """P(all hosts of some part are down), hosts independent."""
    found = Fraction(0)
    for state in product((False, True), repeat=len(down)):
        if any(all(state[host] for host in part) for part in parts):
            found += math.prod(
                (Fraction(q) if is_down else 1 - Fraction(q)) for q, is_down in zip(down, state, strict=True)
            )
    return found


def violations(system: System, records: FleetRecords) -> list[str]:
    """What of the rules does not hold at some instant; empty where all do."""
    return list(_violations(system, records))


def _violations(system: System, records: FleetRecords) -> Iterator[str]:
    assert system.unavailability is not None
    down = tuple(system.unavailability.failures.down[0].tolist())
    in_use = _spans_in_use(system, records)
    live, there, standing = (
        _Sweep(records.rows[name], first) for name, first in (("instances", 4), ("presence", 1), ("standing", 1))
    )
    for at in _instants(records):
        placement: Placement = {}
        for part, host, role, share, _, _ in live.at(at):
            placement.setdefault(part, []).append((host, role, share))
        present = [row[0] for row in there.at(at)]
        stands = [(row[0], row[3]) for row in standing.at(at)]
        yield from _shape(system, present, placement, at)
        for part, instances in placement.items():
            for host, _, _ in instances:
                if not any(a <= at < b for a, b in in_use[host]):
                    yield f"{at}: {part} is on {host}, which is not in use"
        for query in present:
            hosts = _of_query(system, query, placement)
            broken = broken_by_hand(frozenset(frozenset(system.hosts.index(h) for h in one) for one in hosts), down)
            slo = system.fleet.query(query).slo
            if slo is not None and float(broken) > (1 - slo) * (1 + 1e-9):
                yield f"{at}: {query} would be broken with {float(broken):.4g}, the objective is {slo}"
            told = [broken for name, broken in stands if name == query]
            if len(told) != 1 or not math.isclose(told[0], float(broken), rel_tol=1e-9):
                yield f"{at}: {query} stands at {told}, and is {float(broken):.6g}"


def _instants(records: FleetRecords) -> list[int]:
    found = {row[k] for row in records.rows["instances"] for k in (4, 5)}
    found |= {row[k] for row in records.rows["presence"] for k in (1, 2)}
    return sorted(at for at in found if at < records.end_ns)


class _Sweep:
    """The rows that hold at instants that rise; a row holds from one column on, before the next."""

    def __init__(self, rows: Sequence[Row], first: int) -> None:
        self._waiting = sorted(rows, key=lambda row: row[first], reverse=True)
        self._first, self._holding = first, list[Row]()

    def at(self, at: int) -> list[Row]:
        while self._waiting and self._waiting[-1][self._first] <= at:
            self._holding.append(self._waiting.pop())
        self._holding = [row for row in self._holding if at < row[self._first + 1]]
        return self._holding


def _shape(system: System, present: Sequence[str], placement: Placement, at: int) -> Iterator[str]:
    needed = {op for query in present for op in system.fleet.query(query).operators}
    if {part.split("/")[0] for part in placement} != needed:
        yield f"{at}: there are {sorted(placement)}, needed are {sorted(needed)}"
    for part, instances in placement.items():
        hosts = [host for host, _, _ in instances]
        if len(set(hosts)) < len(hosts):
            yield f"{at}: {part} is twice on one of {hosts}"
        if [role for _, role, _ in instances].count("primary") != 1:
            yield f"{at}: {part} has not one primary"
    for op in needed:
        whole = sum(placement[part][0][2] for part in placement if part.split("/")[0] == op)
        if whole != 1.0:
            yield f"{at}: the parts of {op} are {whole} of it"


def _of_query(system: System, query: str, placement: Placement) -> list[list[str]]:
    needs = system.fleet.query(query).operators
    return [[host for host, _, _ in one] for part, one in placement.items() if part.split("/")[0] in needs]


def _spans_in_use(system: System, records: FleetRecords) -> dict[str, list[tuple[int, int]]]:
    """When each host was in use, by the decisions."""
    since: dict[str, int] = {name: 0 for name in system.hosts if not system.fleet.host(name).spare}
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in system.hosts}
    for at, action, host, _, _, verdict, _ in records.rows["decisions"]:
        if action == "acquire":
            since[host] = at
        elif action == "release" and verdict == "done":
            found[host].append((since.pop(host), at))
    for host, begin in since.items():
        found[host].append((begin, records.end_ns))
    return found


def counts(records: Sequence[FleetRecords]) -> dict[tuple[str, str], int]:
    """How many decisions there were of each (action, verdict)."""
    found: dict[tuple[str, str], int] = {}
    for one in records:
        for row in one.rows["decisions"]:
            found[row[1], row[5]] = found.get((row[1], row[5]), 0) + 1
    return found
