"""Rates along the dataflow: into and out of each operator, mean over the run and peak.

The output rate is the input rate times the selectivity, which each input may have of its own; with a window the rate
of keys in windows that end, of a join the rate of pairs; plus the outputs of the timer. Every reader gets all of it,
and broadcast makes one copy for each task. Source: the traffic equations of a feed-forward network (Kleinrock,
Queueing Systems I, 1975, section 4.8), which hold for means of any arrival process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.scenario.description import ScenarioDescription
from models.scenario.inputs import RunInputs
from models.scenario.workload import ConstantRate, ProfileRate, RampRate, StepRate
from models.topology import layout


@dataclass(frozen=True)
class Rate:
    """Tuples in a second: mean over the run, and the largest at any instant."""

    mean_per_s: float
    peak_per_s: float

    def times(self, factor: float) -> Rate:
        """Return the rate scaled by `factor`."""
        return Rate(self.mean_per_s * factor, self.peak_per_s * factor)

    def plus(self, other: Rate) -> Rate:
        """Return the sum; the peak is an upper bound, which is met if both peaks come together."""
        return Rate(self.mean_per_s + other.mean_per_s, self.peak_per_s + other.peak_per_s)


@dataclass(frozen=True)
class Flow:
    """Rates into and out of an operator, all its tasks together."""

    rate_in: Rate
    rate_out: Rate

    @property
    def peak_factor(self) -> float:
        """Return peak over mean of the input rate."""
        return self.rate_in.peak_per_s / self.rate_in.mean_per_s if self.rate_in.mean_per_s else 1.0


def flows(scenario: ScenarioDescription, inputs: RunInputs | None = None) -> dict[str, Flow]:
    """Return operator -> rates, in an order in which inputs come first; assumes a valid scenario.

    Recorded rates in `inputs` take the place of those in the scenario; a profile that was not read counts as its mean.
    The peak of an operator is an upper bound: peaks of different sources may come at different times.
    """
    found: dict[str, Flow] = {}
    for name in layout.topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            rate = source_rate(scenario, name, inputs)
            found[name] = Flow(rate, rate)
            continue
        rate, comes = Rate(0.0, 0.0), []
        # Inputs were visited before, in topological order.
        for upstream in operator.inputs:
            comes.append(found[upstream].rate_out.times(copies(scenario, upstream, name, inputs)))
            rate = rate.plus(comes[-1])
        leaves = Rate(0.0, 0.0)
        if operator.kind == "sink":
            pass
        elif operator.kind == "join" and operator.window is not None:
            leaves = pairs(scenario, name, comes).times(operator.most_selective)
        elif operator.window is not None:
            leaves = results(scenario, name, rate).times(operator.most_selective)
        elif isinstance(operator.selectivity, Mapping):
            for upstream, comes_in in zip(operator.inputs, comes, strict=True):
                leaves = leaves.plus(comes_in.times(operator.selectivity[upstream]))
        else:
            leaves = rate.times(operator.selectivity)
        if operator.timer is not None:
            ticks = operator.parallelism / operator.timer.every_s
            leaves = leaves.plus(Rate(ticks, ticks))
        found[name] = Flow(rate, leaves)
    return found


def pairs(scenario: ScenarioDescription, name: str, comes: list[Rate]) -> Rate:
    """Return the rate of pairs with equal keys in one window, if all keys are equally likely.

    In a window of length w there are (r1 w) (r2 w) / keys pairs; with one window after the other that is a rate of
    r1 r2 w / keys."""
    window = scenario.operators[name].window
    assert window is not None
    factor = window.length_s / max(1.0, layout.keys_seen(scenario, name, window.length_s))
    mean, peak = factor, factor
    for rate in comes:
        mean, peak = mean * rate.mean_per_s, peak * rate.peak_per_s
    return Rate(mean, peak)


def results(scenario: ScenarioDescription, name: str, rate_in: Rate) -> Rate:
    """Return the keys in windows that end, in a second: at most all keys a window, or each tuple alone in its own.

    The smaller of two upper bounds. It is met if a window has many tuples of each key, or hardly ever two of one.
    """
    window = scenario.operators[name].window
    assert window is not None
    every = layout.keys_seen(scenario, name, window.length_s) / window.step_s
    alone = rate_in.times(window.length_s / window.step_s)
    return Rate(min(every, alone.mean_per_s), min(every, alone.peak_per_s))


def copies(scenario: ScenarioDescription, upstream: str, name: str, inputs: RunInputs | None = None) -> float:
    """Return the tuples an operator gets for each that leaves its upstream; a stream's share not given counts as 1.

    `upstream`, `name`: the two ends of a stream. The factor is at most 1 unless the stream is broadcast.
    """
    operator = scenario.operators[name]
    taken = operator.takes.get(upstream, 1.0)
    if isinstance(taken, str):
        taken = inputs.shares.get(taken, 1.0) if inputs else 1.0
    return taken * (operator.groups if operator.inputs[upstream] == "broadcast" else 1)


def source_rate(scenario: ScenarioDescription, source: str, inputs: RunInputs | None = None) -> Rate:
    """Return mean and peak of a source's rate in the run; a series that is not given counts as its mean."""
    rate, until = scenario.workload[source].rate, scenario.duration_s
    series = inputs.rates.get(source) if inputs else None
    if series is not None:
        return _stepwise(series.edges_s, series.rate_per_s, until)
    if isinstance(rate, ConstantRate):
        return Rate(rate.constant_per_s, rate.constant_per_s)
    if isinstance(rate, StepRate):
        edges = np.array([*(step.at_s for step in rate.steps), np.inf])
        return _stepwise(edges, np.array([step.rate_per_s for step in rate.steps]), until)
    if isinstance(rate, RampRate):
        ramp = rate.ramp
        inside = min(until, ramp.over_s)
        at_end = ramp.start_per_s + (ramp.end_per_s - ramp.start_per_s) * inside / ramp.over_s
        total = (ramp.start_per_s + at_end) / 2 * inside + ramp.end_per_s * (until - inside)
        return Rate(total / until, max(ramp.start_per_s, at_end))
    if isinstance(rate, ProfileRate):
        mean = rate.mean_per_s * min(1.0, (rate.span_s - rate.begin_s) / until)
        return Rate(mean, rate.mean_per_s)
    return Rate(0.0, 0.0)


def _stepwise(edges_s: np.ndarray, rate_per_s: np.ndarray, until: float) -> Rate:
    """Return mean and peak of a stepwise rate up to an instant; rate (n,) between edges (n + 1,)."""
    inside = edges_s[:-1] < until
    lengths = np.minimum(edges_s[1:], until)[inside] - edges_s[:-1][inside]
    mean = float(np.dot(lengths, rate_per_s[inside])) / until
    return Rate(mean, float(rate_per_s[inside].max(initial=0.0)))
