"""Rules between the keys of a file of `holdfast fleet`, and how such a file is read.

`models.fleet.description` checks each key by itself. Here are the rules about several keys: names that must exist, keys
that exclude or need each other, and numbers of events that no machine could simulate. Faults are yielded one by one,
each with the path in the file, so that one error reports all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from models import display
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.fleet.description import Fleet, Query
from models.reliability.description import named_faults
from models.reliability.times import mostly_down
from models.validation_messages import nearest_if_shown, path_text, validated

_MOST_EVENTS = 2e7


def fleet_from(raw: object, *, from_file: bool = True) -> Fleet:
    """Return the description that the tables hold.

    `raw`: the tables as a TOML reader gives them. `from_file`: keys have the names and units of a file
    (`duration = "30 d"`); otherwise also those of the code (`duration_s = 2592000.0`).

    Raises InputError with all faults of shape, or, if there are none, with all faults of references. A description with
    a `query_set` is refused: its operators are in another file, which `scenarios.fleet` reads.

    >>> hosts = {"hosts": ["a", "b"], "p": 0.01, "times": {"mttr": "1 h"}}
    >>> fleet = fleet_from({**hosts, "operators": {"count": ["a", "b"]}, "queries": {"q": ["count"]}})
    >>> fleet.operator("count").hosts, fleet.times.mean_down_s
    (('a', 'b'), 3600.0)
    """
    found = shaped_from(raw, from_file=from_file)
    # A file that names another file cannot be checked alone.
    if found.query_set is not None:
        raise InputError.at("query_set", found.query_set, "is a file: read what names it from its own file")
    raise_if_any(faults(found))
    return found


def shaped_from(raw: object, *, from_file: bool = True) -> Fleet:
    """Return the description, of which only the shapes are checked; arguments as for `fleet_from`.

    Raises InputError with all faults of shape: wrong types, unknown keys, missing units. Call `faults` on the result
    once the operators of its query set are known.
    """
    return validated(Fleet, raw, from_file=from_file)


def faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield unknown names, instances that share a host, and keys that contradict each other.

    Operators of a query set must have been added (`with_query_set`). A value appears in a fault as the file has it.
    """
    for key, table in (("hosts", fleet.host_names), ("operators", fleet.operators), ("queries", fleet.queries)):
        if not table:
            yield InputFault(key, NO_VALUE, "must have an entry at least")
    if isinstance(fleet.hosts, tuple):
        yield from named_faults("hosts", fleet.hosts, None, "is there twice")
    if fleet.host_names and all(fleet.host(name).spare for name in fleet.host_names):
        yield InputFault("hosts", NO_VALUE, "must not all be spare")
    yield from _operator_faults(fleet)
    yield from _query_faults(fleet)
    yield from _source_faults(fleet)
    for domain, group in fleet.domains.items():
        path = path_text(("domains", domain, "hosts"))
        yield from named_faults(path, group.hosts, fleet.host_names, "is there twice")
    yield from _time_faults(fleet)
    yield from _downtime_faults(fleet)
    yield from _size_faults(fleet)
    if fleet.warmup_s >= fleet.duration_s:
        yield InputFault("warmup", fleet.warmup_s, "must be shorter than duration")
    if fleet.manager is not None and fleet.manager.low >= fleet.manager.high:
        yield InputFault(
            "manager.low", fleet.manager.low, f"must be below manager.high = {display.number(fleet.manager.high, 6)}"
        )


def _operator_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield instances on unknown, equal or spare hosts, loads by unknown sources, and operators that nobody places."""
    # A dictionary keeps the order of the file and finds a name without a search.
    hosts = dict.fromkeys(fleet.host_names)
    for name, entry in fleet.operators.items():
        operator = fleet.operator(name)
        table = not isinstance(entry, tuple)
        yield from named_faults(
            path_text(("operators", name)) + (".hosts" if table else ""),
            operator.hosts,
            hosts.keys(),
            "has an instance of this operator already",
            "a replica on the host of its primary goes down with it",
        )
        for source in operator.cost_s:
            if source not in fleet.sources:
                path = path_text(("operators", name, "cost", source))
                yield InputFault(path, NO_VALUE, "is not a source", nearest_if_shown(source, fleet.sources))
        if not operator.hosts and fleet.manager is None:
            path = path_text(("operators", name))
            yield InputFault(path, NO_VALUE, "needs hosts: there is no manager to choose them", 'hosts = ["a"]')
        for index, host in enumerate(operator.hosts):
            if host in hosts and fleet.host(host).spare:
                path = path_text(("operators", name)) + (".hosts" if table else "") + f"[{index}]"
                yield InputFault(path, host, "is spare: nothing is there at the start")


def _query_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield queries without operators, with unknown ones, or whose stay is empty or begins after the end."""
    for name, entry in fleet.queries.items():
        query, table = fleet.query(name), isinstance(entry, Query)
        path = path_text(("queries", name))
        inner = path + (".operators" if table else "")
        if not query.operators:
            yield InputFault(inner, NO_VALUE, "must have an entry at least")
        yield from named_faults(inner, query.operators, fleet.operators, "is there twice")
        if query.leaves_s is not None and query.leaves_s <= query.arrives_s:
            yield InputFault(f"{path}.leaves", query.leaves_s, "must be after it arrives")
        if query.arrives_s >= fleet.duration_s:
            yield InputFault(f"{path}.arrives", query.arrives_s, "must be before the end, which duration gives")


def _source_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield sources whose steps are not in rising order."""
    for name, source in fleet.sources.items():
        instants = [step.at_s for step in source.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(instants)):
            yield InputFault(path_text(("sources", name, "steps")), NO_VALUE, "must be in the order of their instants")


def _time_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield times that exclude each other, and models (days, common causes) that the other keys do not fit."""
    times = fleet.times
    for mean, law, keys in ((times.mttf_s, times.up, ("mttf", "up")), (times.mttr_s, times.down, ("mttr", "down"))):
        if mean is not None and law is not None:
            yield InputFault(f"times.{keys[0]}", mean, f"must not be given beside times.{keys[1]}")
    if fleet.p is not None and times.mean_up_s is not None:
        yield InputFault("p", fleet.p, "must not be given beside times.mttf or times.up", "leave out one of them")
    yield from _own_time_faults(fleet)
    if times.day_s is not None:
        beside = {"times.mttr": times.mean_down_s, "times.crews": times.crews, "standby": fleet.standby, "p": fleet.p}
        for key, value in beside.items():
            if value is not None:
                yield InputFault(key, NO_VALUE, "must not be given beside times.day: nothing is repaired in a day")
        if fleet.domains or fleet.beta:
            yield InputFault("times.day", times.day_s, "is for hosts that fail by themselves: no domains, no beta")
    members = [host for domain in fleet.domains.values() for host in domain.hosts]
    if fleet.beta and len(set(members)) < len(members):
        yield InputFault("beta", fleet.beta, "needs domains that share no host: a failure has one common cause")
    if fleet.beta and (times.up is not None or any(fleet.host(name) != _bare(fleet, name) for name in fleet.hosts)):
        yield InputFault("beta", fleet.beta, "is defined for hosts that are alike, with exponential times")


def _bare(fleet: Fleet, name: str) -> Any:
    """Return the host without its keys about failures."""
    return fleet.host(name).model_copy(update={"p": None, "mttf_s": None, "mttr_s": None})


def _own_time_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield hosts and domains without times, their own or common ones; recorded downtimes need none."""
    times = fleet.times
    for name in fleet.host_names:
        host, path = fleet.host(name), path_text(("hosts", name))
        if (host.mttf_s is None) != (host.mttr_s is None):
            yield InputFault(path, NO_VALUE, "must have both mttf and mttr, or neither")
        elif host.p is not None and host.mttf_s is not None:
            yield InputFault(f"{path}.p", host.p, "must not be given beside mttf")
        elif times.day_s is not None and (host.p is not None or host.mttf_s is not None):
            yield InputFault(path, NO_VALUE, "must be like all others beside times.day")
        elif host.p is not None and times.mean_down_s is None:
            yield InputFault(f"{path}.p", host.p, "needs times.mttr: how long it is down at a time")
    own = [fleet.host(name) for name in fleet.host_names]
    bare = any(one.p is None and one.mttf_s is None for one in own)
    if bare and not fleet.has_downtimes and fleet.p is None and times.mean_up_s is None:
        yield InputFault("times.mttf", NO_VALUE, "is missing: nothing says how often hosts fail", 'mttf = "30 d"')
    needs = bare and (fleet.p is not None or times.mean_up_s is not None) and times.day_s is None
    if needs and times.mean_down_s is None:
        yield InputFault("times.mttr", NO_VALUE, "is missing: nothing says how long repairs last", 'mttr = "1 h"')
    for name, domain in fleet.domains.items():
        path = path_text(("domains", name))
        if (domain.mttf_s is None) != (domain.mttr_s is None):
            yield InputFault(path, NO_VALUE, "must have both mttf and mttr, or neither")
        elif domain.p and domain.mttf_s is not None:
            yield InputFault(f"{path}.p", domain.p, "must not be given beside mttf")
        elif domain.p and times.mean_down_s is None:
            yield InputFault(f"{path}.p", domain.p, "needs times.mttr: how long it is down at a time")


def _size_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield a fault for each process whose expected events, over all replications, exceed time or memory."""
    # Counted before a run begins: a typing error in a unit would otherwise run for hours, or fill the memory.
    all_s, times = fleet.duration_s * fleet.replications, fleet.times
    cycle_s = times.day_s or (times.mean_up_s or 0.0) + (times.mean_down_s or 0.0)
    if fleet.p is not None and times.mean_down_s is not None and fleet.p > 0:
        # The same relation that the run uses: p = MTTR / (MTTF + MTTR).
        cycle_s = times.mean_down_s / fleet.p
    own = [(fleet.host(name), path_text(("hosts", name))) for name in fleet.host_names]
    often = {path: all_s / (one.mttf_s + one.mttr_s) for one, path in own if one.mttf_s and one.mttr_s}
    often |= {path: all_s * one.p / times.mean_down_s for one, path in own if one.p and times.mean_down_s}
    if cycle_s and not fleet.has_downtimes:
        # Hosts with times of their own are counted already.
        often["times"] = all_s / cycle_s * (len(own) - len(often))
    for name, domain in fleet.domains.items():
        if domain.mttf_s is not None and domain.mttr_s is not None:
            often[path_text(("domains", name))] = all_s / (domain.mttf_s + domain.mttr_s)
    if fleet.manager is not None:
        often["manager.period"] = all_s / fleet.manager.period_s
    if fleet.churn is not None:
        often["churn"] = all_s / (fleet.churn.stay_s + fleet.churn.away_s) * len(fleet.queries)
    for name, source in fleet.sources.items():
        if source.varies is not None:
            often[path_text(("sources", name, "varies", "every"))] = all_s / source.varies.every_s
    for path, count in often.items():
        if count > _MOST_EVENTS:
            rule = f"makes about {display.about(count)} events in all replications: "
            rule += f"at most {display.number(_MOST_EVENTS)} are simulated"
            yield InputFault(path, NO_VALUE, rule, "a shorter duration, or fewer replications")


def warnings(fleet: Fleet) -> Iterator[str]:
    """Yield a sentence for each setting that is legal and probably not meant: hosts or domains that are mostly down.

    An up time far below the repair time is usually a mistaken unit, as in `mttf = "30 s"` for 30 days.
    """
    times = fleet.times
    key = "up" if times.mttf_s is None else "mttf"
    yield from mostly_down(f"times.{key}", times.mean_up_s, times.mean_down_s)
    for name in fleet.host_names:
        host = fleet.host(name)
        yield from mostly_down(path_text(("hosts", name, "mttf")), host.mttf_s, host.mttr_s)
    for name, domain in fleet.domains.items():
        yield from mostly_down(path_text(("domains", name, "mttf")), domain.mttf_s, domain.mttr_s)


def _downtime_faults(fleet: Fleet) -> Iterator[InputFault]:
    """Yield faults of the table `downtimes`, with the path of the entry, and of a log beside it."""
    if fleet.downtimes and fleet.log is not None:
        yield InputFault("log", fleet.log, "must not be given beside downtimes")
    rows = [(one.host, one.down_s, one.up_s) for one in fleet.downtimes]
    # One check for tables and for files: only the paths of the faults differ.
    for index, column, rule, before in _clashes(rows, fleet.host_names):
        path = f"downtimes[{index}]" + (f".{column}" if before is None else "")
        value = rows[index][_COLUMNS.index(column)]
        hint = nearest_if_shown(rows[index][0], fleet.host_names) if column == "host" and before is None else ""
        yield InputFault(path, value, rule if before is None else f"{rule} downtimes[{before}]", hint)


def log_faults(
    rows: Sequence[tuple[str, float, float]], lines: Sequence[int], hosts: Sequence[str], file: str
) -> Iterator[InputFault]:
    """Yield the faults of downtimes in a file, by line: they show no value, for the file may be a foreign one.

    `rows`: (host, went down [s], was up again [s]); `lines`: the line of each row in the file, from 1; `hosts`: names
    of the fleet; `file`: its path as the key `log` has it.
    """
    for index, column, rule, before in _clashes(rows, hosts):
        said = f"{column} {rule}" if before is None else f"{rule} line {lines[before]}"
        hint = "the hosts are those of [hosts]" if column == "host" and before is None else ""
        yield InputFault("log", file, f"line {lines[index]}: {said}", hint)


_COLUMNS = ("host", "down", "up")


def _clashes(
    rows: Sequence[tuple[str, float, float]], hosts: Sequence[str]
) -> Iterator[tuple[int, str, str, int | None]]:
    """Yield (row, column, rule, other row) of unknown hosts, reversed times, and overlaps on one host."""
    known, last = set(hosts), dict[str, tuple[float, int]]()
    # By the time of going down, whatever the order of the file, so that one pass finds all overlaps.
    for index, (host, down, up) in sorted(enumerate(rows), key=lambda one: (one[1][1], one[0])):
        if host not in known:
            yield index, "host", "is not a host", None
        if not 0 <= down < up:
            yield index, "up", f"must be after it went down, at {display.instant(down)}", None
        until, row = last.get(host, (0.0, 0))
        if down < until:
            yield index, "host", "was down already, by", row
        # The longest outage so far counts: a short one inside it must not hide a later overlap.
        last[host] = max((up, index), (until, row))
