"""Simulate one record in place of several: from what a scenario describes to what is simulated.

With `resolution = w` a simulated record stands for w records of the job that come and are served one right after the
other. Rates and numbers of records are divided by w, sizes of records and what one of them changes are multiplied.
Services and gaps between arrivals are sums of w: with the mean and the variance of the sum, by the law gamma, by which
a sum of exponential times has its own distribution; a log-normal law stays one. Gaps between batches of several records
stay, as do sizes of states, links, and all times that are not of a single record.

What cannot be divided, or has outputs that do not stand for w records each, is refused (`rules.resolution`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import TypeVar

from pydantic import BaseModel

from models.distributions import (
    BatchSize,
    Deterministic,
    DeterministicGaps,
    Erlang,
    ErlangGaps,
    Gamma,
    GammaGaps,
    GapDistribution,
    LogNormal,
    LogNormalGaps,
    TimeDistribution,
)
from models.scenario.fault_tolerance import FaultTolerance
from models.scenario.inputs import RateSeries, RunInputs
from models.scenario.job import FixedState, Operator, PerKeyState, PerTupleState, State, WindowState
from models.scenario.scenario import Scenario
from models.scenario.workload import (
    ConstantRate,
    NexmarkKeys,
    ProfileRate,
    RampRate,
    Rate,
    SeriesRate,
    SourceWorkload,
    StepRate,
)
from models.schema_types import FrozenMap
from models.topology.layout import laws_of_keys

_MOST_SHAPE = 1e6  # of the law gamma: a sum that varies less has this one
M = TypeVar("M", bound=BaseModel)


def simulated(scenario: Scenario, inputs: RunInputs) -> tuple[Scenario, RunInputs]:
    """Return what is simulated: the same where each record is, else with one record in place of `resolution`.

    The scenario that is returned has the resolution 1, so that nothing is divided twice. `scenario`: a valid one.

    >>> from holdfast import read_scenario, scenario_with
    >>> coarse = scenario_with(read_scenario("examples/two-hosts.toml").scenario, {"resolution": 10})
    >>> made, _ = simulated(coarse, RunInputs())
    >>> coarse.workload["orders"].rate.constant_per_s, made.workload["orders"].rate.constant_per_s
    (200.0, 20.0)
    """
    w = scenario.resolution
    if w == 1:
        return scenario, inputs
    store = scenario.state_store
    operators = {name: _operator(scenario, name, w) for name in scenario.operators}
    made = scenario.model_copy(
        update={
            "resolution": 1,
            "workload": FrozenMap({name: _workload(one, w) for name, one in scenario.workload.items()}),
            "operators": FrozenMap(operators),
            "fault_tolerance": _tolerance(scenario.fault_tolerance, w),
            "state_store": _with(store, per_tuple_s=store.per_tuple_s * w),
        }
    )
    return made, replace(inputs, rates=_series(inputs.rates, w))


def _with(model: M, **values: object) -> M:
    """Return a description with other values, by the names of their fields."""
    return model.model_copy(update=values)


def _series(rates: Mapping[str, RateSeries], w: int) -> dict[str, RateSeries]:
    return {name: replace(one, rate_per_s=one.rate_per_s / w) for name, one in rates.items()}


# -- the workload


def _workload(workload: SourceWorkload, w: int) -> SourceWorkload:
    keys = workload.keys
    if isinstance(keys, NexmarkKeys):
        keys = keys.of_every(w)
    return _with(
        workload,
        rate=_rate(workload.rate, w),
        arrivals=workload.arrivals if _in_batches(workload) else _gaps(workload.arrivals, w),
        keys=keys,
        tuple_bytes=workload.tuple_bytes * w,
        batch=_batch(workload.batch, w),
    )


def _rate(rate: Rate, w: int) -> Rate:
    if isinstance(rate, ConstantRate):
        return _with(rate, constant_per_s=rate.constant_per_s / w)
    if isinstance(rate, StepRate):
        return _with(rate, steps=tuple(_with(step, rate_per_s=step.rate_per_s / w) for step in rate.steps))
    if isinstance(rate, RampRate):
        ramp = _with(rate.ramp, start_per_s=rate.ramp.start_per_s / w, end_per_s=rate.ramp.end_per_s / w)
        return _with(rate, ramp=ramp)
    if isinstance(rate, SeriesRate):
        return _with(rate, scale=rate.scale / w)
    assert isinstance(rate, ProfileRate)
    return _with(rate, mean_per_s=rate.mean_per_s / w)


Gaps = GapDistribution | str


def _gaps(law: Gaps, w: int) -> Gaps:
    """Return the law of the sum of w gaps, relative to its mean: which is what arrivals are."""
    if law == "deterministic" or isinstance(law, DeterministicGaps):
        return law
    if isinstance(law, LogNormalGaps):
        return LogNormalGaps(cv=law.cv / sqrt(w))
    if isinstance(law, (GammaGaps, ErlangGaps)):
        return GammaGaps(shape=_shape(law.shape * w))
    return GammaGaps(shape=_shape(w if isinstance(law, str) else w / law.scv))


def _in_batches(workload: SourceWorkload) -> bool:
    """Return whether records arrive in batches, of which there are as many as before: gaps are between them."""
    batch = workload.batch
    return (batch.mean if isinstance(batch, BatchSize) else batch) > 1


def _batch(batch: int | BatchSize, w: int) -> int | BatchSize:
    """Return the size of a batch in simulated records; single arrivals stay single."""
    if isinstance(batch, BatchSize):
        return batch if batch.mean == 1 else BatchSize(mean=batch.mean / w)
    return batch if batch == 1 else batch // w


# -- operators


def _operator(scenario: Scenario, name: str, w: int) -> Operator:
    operator = scenario.operators[name]
    reading, output = operator.reading, operator.output
    return _with(
        operator,
        service=None if operator.service is None else _sum(operator.service, w),
        state=None if operator.state is None else _state(operator.state, w, has_nexmark_keys(scenario, name)),
        output=None if output is None else _with(output, tuple_bytes=output.tuple_bytes * w),
        buffer=None if operator.buffer is None else operator.buffer // w,
        reading=reading if reading is None or reading.poll is None else _with(reading, poll=reading.poll // w),
    )


def _sum(law: TimeDistribution, w: int) -> TimeDistribution:
    """Return the law of the sum of w times: its mean and its variance are w times those of one."""
    if isinstance(law, Deterministic):
        return _with(law, value_s=law.value_s * w)
    if isinstance(law, LogNormal):
        return _with(law, mean_s=law.mean_s * w, cv=law.cv / sqrt(w))
    shape = law.shape if isinstance(law, (Gamma, Erlang)) else 1 / law.scv
    return Gamma.model_validate({"mean_s": law.mean_s * w, "shape": _shape(shape * w)}, by_name=True)


def _shape(shape: float) -> float:
    return min(float(shape), _MOST_SHAPE)


def _state(state: State, w: int, ids_stand_for_many: bool) -> State:
    """Return a state of which a record changes as much as w do; where an id stands for w, so does its entry."""
    if isinstance(state, FixedState):
        return state if state.change_bytes is None else _with(state, change_bytes=state.change_bytes * w)
    if isinstance(state, PerKeyState) and not ids_stand_for_many:
        return state
    assert isinstance(state, (PerKeyState, PerTupleState, WindowState))
    size = state.entry_bytes
    if isinstance(size, Mapping):  # by the input that a record comes from
        return _with(state, entry_bytes=FrozenMap({name: each * w for name, each in size.items()}))
    return _with(state, entry_bytes=size * w)


def has_nexmark_keys(scenario: Scenario, name: str) -> bool:
    """Return whether all keys that come to an operator are ids of NEXMark, of which one stands for w."""
    laws = [*laws_of_keys(scenario, name)]
    return bool(laws) and all(isinstance(law, NexmarkKeys) for law in laws)


# -- fault tolerance


def _tolerance(tolerance: FaultTolerance, w: int) -> FaultTolerance:
    acker, batches, changelog = tolerance.acker, tolerance.micro_batches, tolerance.changelog
    if tolerance.acking is not None:
        asked = tolerance.acking
        pending = None if asked.pending is None else asked.pending // w
        acker = _with(asked, pending=pending, ack_bytes=asked.ack_bytes * w)
    if batches is not None and batches.max_offsets is not None:
        batches = _with(batches, max_offsets=batches.max_offsets // w)
    if changelog is not None:
        # Rounded down: a whole number of changes may be missing, so that no other one counts as complete.
        changelog = _with(changelog, acceptable_lag=changelog.acceptable_lag // w)
    return _with(
        tolerance,
        acker=acker,
        micro_batches=batches,
        changelog=changelog,
        duplicate_s=tolerance.duplicate_s * w,
    )
