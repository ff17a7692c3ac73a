"""From a description to numbers: hosts, operators and queries by index, loads as linear combinations of rates.

`ExactUnavailability` is that of a query whose instances are on given hosts. It depends on the placement, not on the
hosts that are down at the moment: P(broken) in the long run, or of the day if hosts fail by the day. Of bounds the
worse one counts, so that objectives are surely met.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.distributions import Exponential, TimeDistribution
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.fleet.description import Fleet
from models.reliability.cuts import Cuts, instance_cuts, minimal
from models.reliability.description import Availability, availability_from
from models.reliability.exact import Engine, TooManyNodes
from models.reliability.problem import Setting, settings_of
from models.reliability.repair import broken_given_down
from models.schema_types import FrozenMap
from models.units import to_ns
from models.validation_messages import path_text

Instances = tuple[int, ...]
_MOST_SETS = 20_000
_ROUNDING = 1e-12  # of an unavailability, relative


class ExactUnavailability:
    """P(query is broken) for any placement, in one setting; results are cached.

    A query is broken while one of its operators has no instance that serves. The probability is that of the steady
    state, or the mean over a day if hosts fail by the day; `models.reliability.exact` computes it from minimal cuts.
    Where that gives bounds, the upper one is returned.

    `setting`: how the hosts fail, with times or chances of one setting only. Placements are tuples of host indices, and
    the cache keeps one entry for each set of minimal cuts: placements that differ only in names cost nothing.
    """

    def __init__(self, setting: Setting) -> None:
        self.failures, self._down, self._weights = setting.failures, setting.down, setting.weights
        self._engine = Engine(setting.failures)
        self._cuts: dict[Instances, Cuts] = {}
        self._found: dict[Cuts, float] = {}

    @property
    def n_hosts(self) -> int:
        """Return the number of hosts."""
        return self.failures.n_hosts

    def broken(self, instances: Iterable[Instances]) -> float:
        """Return P(some operator has no instance that serves), from the hosts of each operator, the primary first.

        An operator without any instance is always broken.
        """
        cuts = minimal(cut for hosts in instances for cut in self._of_operator(hosts))
        if cuts not in self._found:
            self._found[cuts] = self._computed(cuts)
        return self._found[cuts]

    def _of_operator(self, hosts: Instances) -> Cuts:
        """Return the cuts of one operator, from the cache if the same hosts were asked for before."""
        # The order of hosts, the primary first, matters only if take-overs can be late.
        key = hosts if self.failures.late is not None else tuple(sorted(hosts))
        if key not in self._cuts:
            self._cuts[key] = instance_cuts(key, self.failures)
        return self._cuts[key]

    def _computed(self, cuts: Cuts) -> float:
        """Return P(all elements of one of the cuts are down), an upper bound where only bounds are known."""
        if self._down is None:
            # The upper bound: an objective is met only if that is proven.
            return float(self._weights @ self._engine.broken(cuts)[1])
        try:
            return float(self._down @ broken_given_down(cuts, self.n_hosts))
        except TooManyNodes:
            return 1.0  # too many cuts to count: the worst case, which refuses rather than accepts

    def least_broken(self, n_instances: int, hosts: Sequence[int] | None = None) -> float:
        """Return the least P(broken) that any query can have with so many instances of each operator on these hosts.

        All operators on the same hosts: a query is broken at least as often as one operator of it is, and that one as
        often as all hosts of the best set of that size are down. A lower bound where there are too many sets to try.

        `hosts`: indices of the hosts to choose from; all if None. A query whose objective allows less than this can be
        refused without trying any placement.
        """
        among = tuple(range(self.n_hosts) if hosts is None else hosts)
        size = min(n_instances, len(among))
        # Equal hosts: any set of that size is as good as another.
        if self.failures.equal is not None or self._down is not None:
            return self.broken([among[:size]])
        # Few sets: all are tried, with each host as the first where a take-over may be late.
        if len(among) * math.comb(len(among), size) <= _MOST_SETS:
            late = self.failures.late is not None
            sets = itertools.combinations(among, size)
            return min(self.broken([order]) for one in sets for order in (_firsts(one) if late else [one]))
        best = np.sort(self.failures.down[:, among], axis=1)[:, :size].prod(axis=1)
        return float(self._weights @ best)


def _firsts(hosts: Instances) -> list[Instances]:
    """Return the set with each of its hosts as the first, which serves."""
    return [(host, *(one for one in hosts if one != host)) for host in hosts]


def keeps(slo: float | None, broken: float) -> bool:
    """Return whether an unavailability meets an availability objective, but for rounding.

    Without an objective every unavailability is good enough.

    `slo`: least availability, 0 to 1. `broken`: unavailability, 0 to 1. The margin is 1e-12 of the allowed
    unavailability.

    >>> keeps(0.999, 1 - 0.999), keeps(0.999, 0.0011), keeps(None, 1.0)
    (True, False, True)
    """
    # An objective that is met exactly must not fail by the last digit.
    return slo is None or broken <= (1 - slo) * (1 + _ROUNDING) + 1e-15


Downtimes = Sequence[tuple[str, float, float]]  # host, went down [s], was up again [s]


@dataclass(frozen=True)
class Renewal:
    """An element that is up and down in turn: an alternating renewal process, up at the beginning.

    `up`: law of the times until it fails [s]; None if it never is up again, or never fails. `down`: law of its repairs
    [s]; None if it never fails, or fails by the day, which ends without a repair. Only `down`: it is always down.
    """

    up: TimeDistribution | None
    down: TimeDistribution | None


NEVER_FAILS = Renewal(None, None)


@dataclass(frozen=True, eq=False)
class System:
    """All that a run needs, by index. Names in the file give the order; a host, operator or query is its place in it.

    `capacity` (n_hosts,): cores. `placed`: hosts of the instances of each operator at the start, the primary first;
    empty where a manager is to choose. `costs` (n_operators, n_sources): CPU seconds for each event; `base`
    (n_operators,): cores whatever the rates are. So the load of the operators at rates r [1/s] is `base + costs @ r`
    [cores]. `needs`: operators of each query.

    `own`: how each host fails by itself. `groups`: hosts that fail together; `shocks`: how each group does. A host is
    down while it or one of its groups is. `downtimes`: (host, down, up) [ns] in place of all three; None without a
    record.

    `unavailability`: exact P(broken) of placements; None where no exact method covers how these hosts fail, and then
    `exact_refused` says why.
    """

    fleet: Fleet
    hosts: tuple[str, ...]
    capacity: FloatArray
    operators: tuple[str, ...]
    placed: tuple[tuple[int, ...], ...]
    costs: FloatArray
    base: FloatArray
    queries: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]
    own: tuple[Renewal, ...]
    groups: tuple[tuple[int, ...], ...]
    shocks: tuple[Renewal, ...]
    downtimes: tuple[tuple[int, int, int], ...] | None
    unavailability: ExactUnavailability | None
    exact_refused: str

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weight of each query, (n_queries,)."""
        return frozen(np.array([self.fleet.query(name).weight for name in self.queries]))

    @cached_property
    def slos(self) -> tuple[float | None, ...]:
        """Return the availability objective (SLO) of each query, 0 to 1; None where it has none."""
        return tuple(self.fleet.query(name).slo for name in self.queries)

    @property
    def end_ns(self) -> int:
        """Return when the run ends [ns]."""
        return to_ns(self.fleet.duration_s)

    def broken(self, query: int) -> float | None:
        """Return the exact P(query is broken) as placed at the start; None without an exact method or a placement."""
        placed = [self.placed[op] for op in self.needs[query]]
        return None if self.unavailability is None or not all(placed) else self.unavailability.broken(placed)


def system_of(fleet: Fleet, log: Downtimes | None = None) -> System:
    """Return the system of a description, with the downtimes of its log.

    Raises InputError if a query has an availability objective and no exact method can check it.

    `log`: rows of the file that the key `log` names, (host, went down [s], was up again [s]), already checked by
    `models.fleet.rules.log_faults`. The description must have passed `faults`: unknown names raise KeyError here.
    """
    hosts, operators = fleet.host_names, tuple(fleet.operators)
    host = {name: index for index, name in enumerate(hosts)}
    operator = {name: index for index, name in enumerate(operators)}
    described = [fleet.operator(name) for name in operators]
    sources = tuple(fleet.sources)
    setting, why_not = _setting(fleet)
    own, groups, shocks = _elements(fleet, host)
    system = System(
        fleet=fleet,
        hosts=hosts,
        capacity=frozen(np.array([fleet.host(name).capacity or fleet.capacity for name in hosts])),
        operators=operators,
        placed=tuple(tuple(host[one] for one in entry.hosts) for entry in described),
        costs=frozen(np.array([[one.cost_s.get(source, 0.0) for source in sources] for one in described])),
        base=frozen(np.array([one.load for one in described])),
        queries=tuple(fleet.queries),
        needs=tuple(tuple(operator[one] for one in fleet.query(name).operators) for name in fleet.queries),
        own=own,
        groups=groups,
        shocks=shocks,
        downtimes=_downtimes(fleet, host, log),
        unavailability=None if setting is None else ExactUnavailability(setting),
        exact_refused=why_not,
    )
    if setting is None:
        # An objective that cannot be checked would be a promise that nobody keeps.
        raise_if_any(
            InputFault(path_text(("queries", name, "slo")), slo, f"cannot be judged: {why_not}")
            for name, slo in zip(system.queries, system.slos, strict=True)
            if slo is not None
        )
    return system


def _downtimes(fleet: Fleet, host: dict[str, int], log: Downtimes | None) -> tuple[tuple[int, int, int], ...] | None:
    """Return the recorded (host, down, up) [ns], from the log or the table; None where the file has neither."""
    if not fleet.has_downtimes:
        return None
    rows = log if log is not None else [(one.host, one.down_s, one.up_s) for one in fleet.downtimes]
    return tuple((host[name], to_ns(down), to_ns(up)) for name, down, up in rows)


# -- how hosts fail


def _setting(fleet: Fleet) -> tuple[Setting | None, str]:
    """Return the setting that the exact methods can solve, or None and the reason why there is none."""
    times = fleet.times
    # Each line is a combination that no exact method covers; the reason is shown to the user.
    if times.crews is not None and (times.up is not None or times.down is not None):
        return None, "crews are solved for exponential times"
    if fleet.standby is not None and times.down is not None:
        return None, "take-overs are solved for exponential repairs"
    if times.day_s is not None and times.up is not None:
        return None, "a day is solved for exponential times"
    if fleet.standby is not None and times.mean_up_s is None and fleet.p is None:
        return None, "take-overs are solved for times.mttf and times.mttr"
    try:
        # The availability description checks itself: what it refuses the exact methods cannot solve.
        settings = settings_of(_exact(fleet))
    except InputError as error:
        return None, f"{error.faults[0].path}: {error.faults[0].rule}"
    # Of a day the last setting is the mean over it, which is also what a run measures.
    return settings[-1] if times.day_s is not None else settings[0], ""


def _exact(fleet: Fleet) -> Availability:
    """Return the same hosts as an availability file has them, with nothing on them; raises InputError if it refuses."""
    times, mttr_s = fleet.times, fleet.times.mean_down_s
    own: dict[str, dict[str, float]] = {}
    for name in fleet.host_names:
        host = fleet.host(name)
        given = {"p": host.p, "mttf_s": host.mttf_s, "mttr_s": host.mttr_s}
        own[name] = {key: value for key, value in given.items() if value is not None}
    found: dict[str, object] = {
        "hosts": own,
        "operators": {"any": fleet.host_names[:1]},
        "queries": {"any": ["any"]},
        "domains": {name: {"hosts": one.hosts, "p": _domain_chance(one)} for name, one in fleet.domains.items()},
        "beta": fleet.beta,
    }
    mean_up_s = times.mean_up_s
    # p and MTTR give MTTF, as p = MTTR / (MTTF + MTTR); the exact methods and the run then mean the same.
    if fleet.p is not None and mttr_s is not None and 0 < fleet.p < 1:
        mean_up_s = mttr_s * (1 - fleet.p) / fleet.p
    elif fleet.p is not None:
        found["p"] = fleet.p
    if mean_up_s is not None:
        given = {"mttf_s": mean_up_s, "mttr_s": mttr_s, "crews": times.crews, "day_s": times.day_s}
        found["times"] = {key: value for key, value in given.items() if value is not None}
    if fleet.standby is not None:
        found["standby"] = {"take_over_s": fleet.standby.take_over_s, "coverage": fleet.standby.coverage}
    return availability_from(found, from_file=False)


def _domain_chance(domain: object) -> float:
    """Return the share of time that a domain is down: MTTR / (MTTF + MTTR), or its `p`."""
    mttf_s, mttr_s = getattr(domain, "mttf_s", None), getattr(domain, "mttr_s", None)
    if mttf_s is None or mttr_s is None:
        return float(getattr(domain, "p", 0.0))
    return float(mttr_s / (mttf_s + mttr_s))


def _elements(
    fleet: Fleet, host: dict[str, int]
) -> tuple[tuple[Renewal, ...], tuple[tuple[int, ...], ...], tuple[Renewal, ...]]:
    """Return how each host fails by itself; the hosts of each shock, and how it comes."""
    groups = tuple(tuple(host[name] for name in domain.hosts) for domain in fleet.domains.values())
    if fleet.beta:
        return _with_common_cause(fleet, groups)
    own = tuple(_of_host(fleet, name) for name in fleet.host_names)
    shocks = []
    for domain in fleet.domains.values():
        if domain.mttf_s is not None and domain.mttr_s is not None:
            shocks.append(Renewal(Exponential(mean_s=domain.mttf_s), Exponential(mean_s=domain.mttr_s)))
        else:
            shocks.append(_of_chance(domain.p, fleet.times.down, fleet.times.mean_down_s))
    return own, groups, tuple(shocks)


def _of_host(fleet: Fleet, name: str) -> Renewal:
    """Return how a host fails by itself: its own times, else its own or the common chance, else the common times."""
    host, times = fleet.host(name), fleet.times
    if host.mttf_s is not None and host.mttr_s is not None:
        return Renewal(Exponential(mean_s=host.mttf_s), Exponential(mean_s=host.mttr_s))
    chance = host.p if host.p is not None else fleet.p
    if chance is not None:
        return _of_chance(chance, times.down, times.mean_down_s)
    if times.mean_up_s is None:
        return NEVER_FAILS  # only where downtimes are recorded
    up = times.up or Exponential(mean_s=times.mean_up_s)
    return Renewal(up, None if times.mean_down_s is None else times.down or Exponential(mean_s=times.mean_down_s))


def _of_chance(chance: float, law: TimeDistribution | None, mean_down_s: float | None) -> Renewal:
    """Return an element that is down for this share of time, with repairs of this law.

    With mean repair time MTTR and share p the mean up time is MTTR (1 - p) / p, exponential.
    """
    # Chance 0 never fails, and chance 1 is never up: neither has a mean time between failures.
    if chance == 0 or mean_down_s is None:
        return NEVER_FAILS
    if chance == 1:
        return Renewal(None, Exponential(mean_s=mean_down_s))
    return Renewal(Exponential(mean_s=mean_down_s * (1 - chance) / chance), law or Exponential(mean_s=mean_down_s))


def _with_common_cause(
    fleet: Fleet, groups: tuple[tuple[int, ...], ...]
) -> tuple[tuple[Renewal, ...], tuple[tuple[int, ...], ...], tuple[Renewal, ...]]:
    """Return the elements of the beta-factor model, each down for the share of time that it says.

    In that model (Fleming 1975; beta is the share of a host's failures that take its whole group) the chance q of a
    host splits into an own part and one of its group. `models.reliability` computes both, so the run and the exact
    figures use the same numbers. Raises InputError without a mean repair time.
    """
    # The split of probabilities into own and common ones depends on chances alone: everything else is left out.
    bare = FrozenMap({name: one.model_copy(update={"mttf_s": None, "mttr_s": None, "p": _domain_chance(one)})
                      for name, one in fleet.domains.items()})  # fmt: skip
    times = fleet.times.model_copy(update={"crews": None})
    without = fleet.model_copy(update={"standby": None, "domains": bare, "times": times})
    failures = settings_of(_exact(without))[0].failures
    mttr_s = fleet.times.mean_down_s
    if mttr_s is None:
        raise InputError.at("times.mttr", NO_VALUE, "is missing: nothing says how long repairs last")
    assert failures.shocks is not None
    own = tuple(_of_chance(float(q), fleet.times.down, mttr_s) for q in failures.down[0])
    shocks = tuple(_of_chance(float(q), fleet.times.down, mttr_s) for q in failures.shocks[0])
    return own, failures.groups, shocks
