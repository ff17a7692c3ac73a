"""Running instances: primaries and replicas that a file of queries or an earlier plan names, by operator.

An operator may go by the name of any query that has it. Operators of a plan that no query has any more are gone, those
that the plan has not are new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.replicas import Instances, checked_instances
from models.validation_messages import nearest_if_shown, path_text
from scenarios.planning.plan_files import plan_fields
from scenarios.queries.files import LoadedQueries


def numbers_of(found: LoadedQueries) -> dict[str, int]:
    """Return the number of each operator by all of its names."""
    number = {name: place for place, name in enumerate(found.table.names)}
    index = {node: place for place, node in enumerate(found.table.nodes)}
    for query, members in found.members.items():
        number |= {f"{query}.{name}": index[node] for name, node in members.items()}
    return number


def names_of(found: LoadedQueries) -> list[list[str]]:
    """Return all names of each operator, the first one first."""
    names = [[name] for name in found.table.names]
    for name, place in numbers_of(found).items():
        if name not in names[place]:
            names[place].append(name)
    return names


def placed_by_file(found: LoadedQueries, n_hosts: int) -> Instances:
    """Return the hosts of each operator by the file, the primary first, () for others; `n_hosts` take primaries."""
    number = numbers_of(found)
    hosts: list[tuple[int, ...]] = [()] * found.table.n_operators
    faults = []
    for name, said in found.query_set.placed.items():
        path, where = path_text(("placed", name)), said if isinstance(said, tuple) else (said,)
        if name not in number:
            faults.append(InputFault(path, name, "is no operator", nearest_if_shown(name, number)))
        elif where[0] >= n_hosts:
            rule = f"is not a host for primaries: there are {n_hosts}, counted from 0"
            faults.append(InputFault(path, where[0], rule))
        elif hosts[number[name]] not in ((), where):
            other = hosts[number[name]]
            shown = str(other[0]) if len(other) == 1 else str(list(other))
            faults.append(InputFault(path, said, f"is the same operator as one on host {shown}"))
        else:
            hosts[number[name]] = where
    raise_if_any(faults)
    return tuple(hosts)


def placed_by_plan(path: str | Path, found: LoadedQueries, n_hosts: int) -> Instances:
    """Return the hosts of each operator that a plan says, the primary first, () for new ones; raises InputError.

    What the file says of primaries has to agree; a file that has replicas itself is refused.
    """
    fields = plan_fields(path)
    given = fields.get("instances")
    if fields.get("kind") != "replicas" or given is None:
        rule = "has no plan of replicas" if fields.get("kind") != "front" else "is a front: it has many plans"
        raise InputError.at("--from", str(path), rule, "as `plan replicas --out` writes it")
    instances = checked_instances(given)
    names = _names_in(fields, len(instances))
    number = numbers_of(found)
    known = [next((number[name] for name in own if name in number), None) for own in names]
    if all(one is None for one in known):
        raise InputError.at("--from", str(path), "has no operator of these queries")
    raise_if_any(_plan_faults(names, known, instances, n_hosts))
    hosts: list[tuple[int, ...]] = [()] * found.table.n_operators
    for place, own in zip(known, instances, strict=True):
        if place is not None:
            hosts[place] = own
    raise_if_any(_disagreeing(found, hosts, placed_by_file(found, n_hosts)))
    return tuple(own or said for own, said in zip(hosts, placed_by_file(found, n_hosts), strict=True))


def _names_in(fields: Mapping[str, Any], n: int) -> list[list[str]]:
    given = fields.get("names", fields.get("operators"))
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == n:
        names = [[one] if isinstance(one, str) else one for one in given]
        if all(isinstance(own, list) and own and all(isinstance(one, str) for one in own) for own in names):
            return names
    raise InputError.at("--from: operators", NO_VALUE, f"must be the names of {n} operators")


def _plan_faults(
    names: Sequence[Sequence[str]], known: Sequence[int | None], instances: Instances, n_hosts: int
) -> Iterator[InputFault]:
    """Yield faults of a plan's operators and hosts against the file of queries."""
    seen: dict[int, str] = {}
    for own, place, hosts in zip(names, known, instances, strict=True):
        path = f"--from: {own[0]}"
        if place is None:
            continue
        if not hosts:
            yield InputFault(path, list(hosts), "has no host")
        elif not 0 <= hosts[0] < n_hosts:
            yield InputFault(path, hosts[0], f"is not a host for primaries: there are {n_hosts}, counted from 0")
        if place in seen:
            yield InputFault(path, own[0], f"is the same operator as {seen[place]}")
        seen[place] = own[0]


def _disagreeing(found: LoadedQueries, hosts: Sequence[tuple[int, ...]], said: Instances) -> Iterator[InputFault]:
    """Yield faults where file and plan both give replicas, or put a primary on different hosts."""
    for name, own, file in zip(found.table.names, hosts, said, strict=True):
        if len(file) > 1:
            rule = "has replicas, and so has --from"
            yield InputFault(f"placed: {name}", list(file), rule, "say what runs in one of them")
        elif own and file and own[0] != file[0]:
            yield InputFault(f"placed: {name}", file[0], f"runs on host {own[0]} by --from")
