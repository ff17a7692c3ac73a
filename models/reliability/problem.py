"""From a description to numbers: queries by index, and the settings that are asked about, each with its chances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.reliability.description import MOST_VALUES, Availability, Query
from models.reliability.queries import Failures, Queries, with_common_cause
from models.reliability.repair import class_law, down_law, pair_unavailability, upgrade_law
from models.reliability.times import day_average_rule, end_of_day, not_taken_over, steady

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class Setting:
    """One line of the answer: a label, and how hosts fail in it.

    `p`: the chance of a host without one of its own, None where there is none such. `failures` with `weights`
    (n_rows,): the answer is the weighted mean over its rows. `down`: P(k hosts are down) in place of failures, any k
    alike; with `classes` of hosts, P(so many of each are down). `pair`: P(nobody serves) of a primary and its standby,
    in place of both.
    """

    label: str
    p: float | None
    failures: Failures
    weights: FloatArray
    down: FloatArray | None = None
    pair: float | None = None
    classes: tuple[tuple[int, ...], ...] = ()

    @property
    def is_independent(self) -> bool:
        """Return whether hosts and domains fail independently, and instances are active."""
        return self.down is None and self.pair is None and self.failures.late is None


def queries_of(description: Availability) -> Queries:
    """Return the queries by index, in the order of the file."""
    host = {name: index for index, name in enumerate(description.host_names)}
    operator = {name: index for index, name in enumerate(description.operators)}
    return Queries(
        len(host),
        tuple(tuple(host[name] for name in placed) for placed in description.operators.values()),
        tuple(tuple(operator[name] for name in description.operators_of(query)) for query in description.queries),
        tuple(entry.weight if isinstance(entry, Query) else 1.0 for entry in description.queries.values()),
    )


def domains_of(description: Availability) -> list[tuple[int, ...]]:
    """Return the hosts of each domain by index, in the order of the file."""
    host = {name: index for index, name in enumerate(description.host_names)}
    return [tuple(host[name] for name in domain.hosts) for domain in description.domains.values()]


def graph_of(description: Availability) -> nx.DiGraph[str]:
    """Return the graph of `Queries.graph` with the names of the file in place of numbers.

    Hosts have `p`, `mttf_s` and `mttr_s` where they have their own, domains `p`.
    """
    names = {"host": description.host_names, "domain": (*description.domains,)}
    names |= {"operator": (*description.operators,), "query": (*description.queries,)}
    named = queries_of(description).graph(domains_of(description), lambda kind, index: f"{kind} {names[kind][index]}")
    for host, said in description.own.items():
        own = {"p": said.p, "mttf_s": said.mttf_s, "mttr_s": said.mttr_s}
        named.nodes[f"host {host}"].update((key, value) for key, value in own.items() if value is not None)
    for name, domain in description.domains.items():
        named.nodes[f"domain {name}"]["p"] = domain.p
    return named


def settings_of(description: Availability, p: Sequence[float] = ()) -> list[Setting]:
    """Return the settings to solve: one for each value of `p` given here, else in the file, else from its times.

    Raises InputError for values that are no probabilities, and where the file needs times that `p` does not give.
    """
    if len(p) > MOST_VALUES:
        raise InputError.at("--p", NO_VALUE, f"must be at most {MOST_VALUES} values, not {len(p)}")
    raise_if_any(
        InputFault("--p", value, "must be a probability, between 0 and 1") for value in p if not 0 <= value <= 1
    )
    if p and (description.standby or description.upgrades or (description.times and description.times.crews)):
        raise InputError.at("--p", NO_VALUE, "says nothing of times, which standby, crews and upgrades need")
    # Values on the command line replace those of the file.
    given = tuple(p) or _values(description)
    if given:
        if len(description.own) == len(description.host_names):
            raise InputError.at("--p" if p else "p", NO_VALUE, "is for hosts without a chance of their own: none is")
        return [_plain(description, f"p = {display.number(value, 6)}", value) for value in given]
    if description.times is None:
        return [_plain(description, "as given", None)]
    return _of_times(description)


def _values(description: Availability) -> tuple[float, ...]:
    """Return the values of p in the file, none if it has none."""
    if description.p is None:
        return ()
    return description.p if isinstance(description.p, tuple) else (description.p,)


def _plain(description: Availability, label: str, p: float | None) -> Setting:
    """Return the setting in which hosts without a chance of their own are down with probability p."""
    return Setting(label, p, _failures(description, np.array([[np.nan if p is None else p]])), np.ones(1))


def _of_times(description: Availability) -> list[Setting]:
    """Return the settings that follow from times: the long run, and end and mean of a day."""
    times, found = description.times, []
    assert times is not None
    if times.mttr_s is not None:
        p = steady(times.up_s, times.mttr_s)
        setting = _plain(description, "long run", p)
        if description.standby is not None and times.crews is not None:
            one = description.standby
            pair = pair_unavailability(times.up_s, times.mttr_s, times.crews, one.take_over_s, one.coverage)
            setting = replace(setting, pair=pair)
        # A standby without shared crews: hosts stay independent, and lateness is a chance of its own for each.
        elif description.standby is not None:
            late = _late(description, setting.failures.down)
            setting = replace(setting, failures=replace(setting.failures, late=late))
        if times.crews is not None and description.own:
            kinds = _kinds(description)
            sizes, ups, repairs = zip(*((len(hosts), *of) for of, hosts in kinds.items()), strict=True)
            law = class_law(sizes, ups, repairs, min(times.crews, len(description.host_names)))
            found.append(replace(setting, down=law, classes=tuple(kinds.values())))
        else:
            found.append(replace(setting, down=_shared(description)))
    if times.day_s is not None:
        found.append(_plain(description, "end of day", end_of_day(times.up_s, times.day_s)))
        chances, weights = day_average_rule(times.up_s, times.day_s)
        found.append(Setting("mean of day", None, _failures(description, chances[:, None]), weights))
    return found


def _kinds(description: Availability) -> dict[tuple[float, float], tuple[int, ...]]:
    """Return (MTTF, MTTR) -> hosts with these times, in the order of the file."""
    times = description.times
    assert times is not None
    assert times.mttr_s is not None
    found: dict[tuple[float, float], tuple[int, ...]] = {}
    for index, name in enumerate(description.host_names):
        host = description.own.get(name)
        own = host is not None and host.mttf_s is not None and host.mttr_s is not None
        key = (host.mttf_s, host.mttr_s) if own else (times.up_s, times.mttr_s)  # type: ignore[union-attr]
        found[key] = (*found.get(key, ()), index)  # type: ignore[index, arg-type]
    return found


def _shared(description: Availability) -> FloatArray | None:
    """Return P(k hosts are down) where they share crews or are upgraded; None where they are independent."""
    times, n = description.times, len(description.host_names)
    assert times is not None
    assert times.mttr_s is not None
    # More crews than hosts would idle.
    crews = min(times.crews or n, n)
    if description.upgrades is not None:
        plan = description.upgrades
        return upgrade_law(n, times.up_s, times.mttr_s, crews, plan.every_s, plan.lasts_s, only_whole=plan.only_whole)
    return None if times.crews is None else down_law(n, times.up_s, times.mttr_s, crews)


def _late(description: Availability, down: FloatArray) -> FloatArray:
    """Return P(host is down and nobody has taken over), (1, n_hosts)."""
    times, standby = description.times, description.standby
    assert times is not None
    assert standby is not None
    late = np.empty_like(down)
    for index, name in enumerate(description.host_names):
        host = description.own.get(name)
        mttf_s, mttr_s = times.up_s, times.mttr_s
        if host is not None and host.mttf_s is not None:
            mttf_s, mttr_s = host.mttf_s, host.mttr_s
        assert mttr_s is not None
        late[0, index] = not_taken_over(mttf_s, mttr_s, standby.take_over_s, standby.coverage)
        if host is not None and host.p is not None:  # as often down as it says, with repairs as long as the others'
            late[0, index] *= host.p / steady(mttf_s, mttr_s)
    # A host cannot be late more often than it is down: rounding and own chances could say so.
    return np.minimum(late, down)


def _failures(description: Availability, chances: FloatArray) -> Failures:
    """Return the chances of all elements; `chances` (n_rows, 1) for hosts that have none of their own."""
    names, own = description.host_names, description.own
    down = np.repeat(chances, len(names), axis=1)
    for index, name in enumerate(names):
        host = own.get(name)
        if host is not None and host.mttf_s is not None and host.mttr_s is not None:
            # Times of its own come before a chance of its own; a host has only one of them (`faults`).
            down[:, index] = steady(host.mttf_s, host.mttr_s)
        elif host is not None and host.p is not None:
            down[:, index] = host.p
    groups = domains_of(description)
    shocks = np.tile([domain.p for domain in description.domains.values()], (len(down), 1)).reshape(
        len(down), len(groups)
    )
    if not description.beta:
        return Failures(down, tuple(groups), shocks)
    common = with_common_cause(down, groups or [tuple(range(len(names)))], description.beta)
    assert common.shocks is not None
    return replace(common, shocks=common.shocks + (1 - common.shocks) * shocks if groups else common.shocks)
