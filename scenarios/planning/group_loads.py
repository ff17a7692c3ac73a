"""Load of every key group over time, as a controller's statistics would show it, from recorded rates.

The load of a key group is the rate of its tuples times the mean service time: the share of a core of speed 1 that
it needs. Groups fed by a profile have the profile's series; where an operator takes a stream of the profile, that
stream's own series. Groups fed by synthetic keys share their source's rate, with the sampling noise of whole tuples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.records.profile import Profile
from models.scenario.job import Operator
from models.scenario.key_groups import groups_of_keys
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate, NexmarkKeys, ProfileKeys, ProfileRate, UniformKeys
from models.topology import layout
from models.validation_messages import path_text

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroupLoads:
    """Mean load by window of every key group; rows of all arrays are in the order of `names`, that of the file.

    names: (operator, key group); hosts: the candidate hosts, those that own a key group; host (G,): index into
    hosts; load (G, windows) [cores of speed 1]; window_s: length of a window in the run; training: number of
    windows from the start that statistics may use. Where the run begins later in the span these are the windows before
    it, and the others those of the run.
    """

    names: tuple[tuple[str, int], ...]
    hosts: tuple[str, ...]
    host: np.ndarray
    load: FloatArray
    window_s: float
    training: int

    @property
    def operators(self) -> tuple[str, ...]:
        """The operator of each key group, (G,)."""
        return tuple(operator for operator, _ in self.names)


def _windows(
    scenario: Scenario, source: str, rate: ProfileRate, profile: Profile, per_window: int, training_share: float
) -> tuple[int, IntArray, int]:
    """Return the bins needed from the beginning of the span, the bins of each window, and how many are for statistics.

    The bins of windows have the shape (windows, per_window). Raises InputError where fewer than 2 windows are left for
    statistics, or fewer than 1 to judge by.
    """
    bin_s = rate.span_s / profile.bins
    # The tolerance keeps a bin whose end is the end of the run: the quotient may be just below a whole number.
    end = min(profile.bins, int((rate.begin_s + scenario.duration_s) / bin_s + 1e-9))
    before, since = int(rate.begin_s / bin_s + 1e-9), math.ceil(rate.begin_s / bin_s - 1e-9)
    history, own = before // per_window, (end - since) // per_window
    # A run that begins later has a past to learn from; else it must give up a part of itself.
    training = history if rate.begin_s else int(own * training_share)
    judged = own if rate.begin_s else own - training
    if training < 2 or judged < 1:
        rule = f"leaves {training} windows for statistics and {max(0, judged)} to judge by: at least 2 and 1"
        if rate.begin_s and history < 2:
            raise InputError.at(path_text(("workload", source, "rate", "begin")), rate.begin_s, rule, "begin later")
        raise InputError.at("elasticity.period", scenario.elasticity.period_s, rule, "shorten it")
    # Counted back from the begin of the run, so that the last window of statistics ends where the run begins.
    starts = [before - (history - k) * per_window for k in range(history)] if rate.begin_s else []
    starts += [since + k * per_window for k in range(own)]
    return end, np.asarray(starts)[:, None] + np.arange(per_window), training


@dataclass(frozen=True)
class _Flow:
    """Tuples per bin out of an operator: by profile group (K, bins), or in total (bins,) with the keys' law."""

    by_group: FloatArray | None
    total: FloatArray
    key_weights: FloatArray | None

    def times(self, factor: float) -> _Flow:
        """Return so many times as many tuples."""
        return _Flow(None if self.by_group is None else factor * self.by_group, factor * self.total, self.key_weights)


def group_loads(scenario: Scenario, profiles: Mapping[str, Profile], *, training_share: float = 15 / 48) -> GroupLoads:
    """Return the loads of all key groups of a scenario that has a profile.

    Windows are as long as `elasticity.period`. Those before the run are for statistics, whole ones counted back from
    its beginning; where it begins with the span the first `training_share` of its own (15 of 48 minutes in the paper's
    experiment). Raises InputError without a profile, or when there are too few windows.
    """
    if not profiles:
        rule = "needs load statistics, and no source has a profile"
        raise InputError.at("fault_tolerance.allocation", scenario.fault_tolerance.allocation, rule)
    # One profile is supported: `_source` refuses any other recorded source.
    source, profile = next(iter(profiles.items()))
    rate = scenario.workload[source].rate
    assert isinstance(rate, ProfileRate)
    bin_s = rate.span_s / profile.bins
    per_window = max(1, round(scenario.elasticity.period_s / bin_s))
    bins, windows, training = _windows(scenario, source, rate, profile, per_window, training_share)
    placed, names, rows = layout.placement(scenario), [], []
    hosts_of_groups = []
    inputs = _inputs_by_group(scenario, profile, source, bins, bin_s)
    for name, operator in scenario.operators.items():
        if name not in inputs or operator.service is None:
            continue
        series = inputs[name]
        means = series[:, windows].mean(axis=2)
        rows.append(means / bin_s * operator.service.mean_s)
        for group in range(operator.groups):
            names.append((name, group))
            task = layout.task_name(name, operator.task_of(group))
            hosts_of_groups.append(placed[task])
    used = set(hosts_of_groups)
    hosts = tuple(host for host in layout.hosts(scenario) if host in used)
    index = {host: k for k, host in enumerate(hosts)}
    host_of_group = np.array([index[host] for host in hosts_of_groups])
    return GroupLoads(tuple(names), hosts, host_of_group, np.vstack(rows), per_window * bin_s, training)


def _inputs_by_group(
    scenario: Scenario, profile: Profile, profiled: str, bins: int, bin_s: float
) -> dict[str, FloatArray]:
    """Return keyed operator with a service -> tuples that come in, (groups, bins)."""
    out: dict[str, _Flow] = {}
    found = {}
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            out[name] = _source(scenario, name, profile, profiled, bins, bin_s)
            continue
        flows = [_taken(out[upstream], operator.takes.get(upstream, 1.0), profile) for upstream in operator.inputs]
        if operator.keyed and operator.service is not None:
            # A stream for each operator: adding one does not change the draws of those before it.
            rng = np.random.default_rng([scenario.seed, list(scenario.operators).index(name)])
            found[name] = _sum([_to_groups(flow, operator, rng) for flow in flows])
        keys = operator.output.keys if operator.output else None
        factor = operator.selectivity
        if isinstance(factor, Mapping):
            flows = [flow.times(factor[one]) for one, flow in zip(operator.inputs, flows, strict=True)]
            factor = 1.0
        total = factor * _sum([flow.total for flow in flows])
        grouped = [flow.by_group for flow in flows if flow.by_group is not None]
        # New keys mix the groups: only the total goes on, and downstream groups follow from the law of the keys.
        if keys is not None or not grouped:
            weights = flows[0].key_weights if keys is None else _weights(keys)
            out[name] = _Flow(None, total, weights)
        else:
            out[name] = _Flow(factor * _sum(grouped), total, None)
    return found


def _sum(arrays: list[FloatArray]) -> FloatArray:
    total: FloatArray = np.sum(arrays, axis=0, dtype=np.float64)
    return total


def _source(scenario: Scenario, name: str, profile: Profile, profiled: str, bins: int, bin_s: float) -> _Flow:
    """Return the flow of a source: by key group from its profile, or a total with the law of its keys.

    Raises InputError for any other source.
    """
    workload = scenario.workload[name]
    rate = workload.rate
    if name == profiled and isinstance(rate, ProfileRate) and isinstance(workload.keys, ProfileKeys):
        counts = profile.counts[profile.streams.index(rate.stream)].astype(float)
        scale = rate.mean_per_s * bin_s / counts.sum(axis=0).mean()
        by_group = counts[:, :bins] * scale
        return _Flow(by_group, by_group.sum(axis=0), None)
    if isinstance(rate, ConstantRate) and not isinstance(workload.keys, (ProfileKeys, NexmarkKeys)):
        return _Flow(None, np.full(bins, rate.constant_per_s * bin_s), _weights(workload.keys))
    rule = "can be planned with for one source with a profile beside sources with a constant rate and law of keys only"
    raise InputError.at(f"workload.{name}.rate", type(rate).__name__, rule)


def _taken(flow: _Flow, taken: float | str, profile: Profile) -> _Flow:
    """Return the part of a flow that an operator reads: a share, or what the profile says of that stream."""
    if not isinstance(taken, str):
        by_group = None if flow.by_group is None else flow.by_group * taken
        return _Flow(by_group, flow.total * taken, flow.key_weights)
    if flow.by_group is None:
        return _taken(flow, profile.selectivity[taken], profile)
    bins = flow.by_group.shape[1]
    every = profile.counts[0][:, :bins]
    share = np.divide(
        profile.counts[profile.streams.index(taken)][:, :bins],
        every,
        out=np.zeros(every.shape),
        where=every > 0,
    )
    by_group = flow.by_group * share
    return _Flow(by_group, by_group.sum(axis=0), None)


def _to_groups(flow: _Flow, operator: Operator, rng: np.random.Generator) -> FloatArray:
    """Return tuples by key group and bin, (groups, bins).

    Flows of synthetic keys are drawn: whole tuples of each bin, by the shares of the groups.
    """
    if flow.by_group is not None:
        return flow.by_group
    assert flow.key_weights is not None
    # The same hash as in the simulation: a plan is for the groups that the run will have.
    of_key = groups_of_keys(flow.key_weights.size, operator.groups, operator.key_hash)
    share = np.bincount(of_key, weights=flow.key_weights, minlength=operator.groups)
    # Rounding the running sum, not each bin, keeps the total: fractions of tuples are carried to the next bin.
    whole = np.diff(np.floor(np.concatenate(([0.0], np.cumsum(flow.total))) + 1e-9)).astype(np.int64)
    return np.asarray(rng.multinomial(whole, share / share.sum()).T.astype(float))


def _weights(keys: object) -> FloatArray:
    """Return the probability of each key, (keys,), proportional to rank ** -exponent; uniform keys have exponent 0.

    This is the law of Zipf, normalised to the sum 1.
    """
    count, exponent = getattr(keys, "count", 1), getattr(keys, "exponent", 0.0)
    assert isinstance(keys, UniformKeys) or exponent
    weights = np.arange(1, count + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())
