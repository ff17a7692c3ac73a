"""Rules of `resolution`: what it divides, what has no records that stand for several, and when too few are left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from models import display, units
from models.distributions import BatchSize
from models.errors import InputFault
from models.scenario.job import PerKeyState, PerTupleState
from models.scenario.resolution import has_nexmark_keys
from models.scenario.scenario import Scenario
from models.scenario.workload import Keys, OutputKeys, SellerKeys, UniformKeys, ZipfKeys
from models.steady_state.scaled_down import MOST
from models.topology.layout import laws_of_keys
from models.validation_messages import path_text

_FEW = 100  # simulated records of a source, of which no run tells much
_MOST_OF_THEM = 0.9  # of keys: with fewer a state per key is said to differ


def few_records(scenario: Scenario, rates_per_s: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) where one record stands for more than was measured, or too few are left.

    `rates_per_s`: mean rate that comes to each operator.
    """
    w = scenario.resolution
    if w == 1:
        return
    if w > MOST:
        text = f"is above {display.count(MOST)}, up to which errors were measured: compare results with a lower one"
        yield "resolution", text
    for name in scenario.workload:
        left = rates_per_s[name] * scenario.duration_s / w
        if 0 < left < _FEW:
            some = f"{display.about(left, 2)} simulated records" if left >= 1 else "less than one simulated record"
            yield "resolution", f"leaves {some} of {name} in the run, too few to tell much"
    tolerance = scenario.fault_tolerance
    changes = tolerance.takes_checkpoints and tolerance.kind == "incremental"
    time_s = min(scenario.duration_s, tolerance.interval_s) if changes else scenario.duration_s
    when = f"the {units.show(time_s, 's')} between two checkpoints" if changes else "the run"
    for name, operator in scenario.operators.items():
        records = rates_per_s[name] * time_s
        if not isinstance(operator.state, PerKeyState) or not records:
            continue
        shares = [_touched(records / w, law) / _touched(records, law) for law in laws_of_keys(scenario, name)]
        if min(shares, default=1.0) < _MOST_OF_THEM:
            text = f"in {when} simulated records have about {display.share(min(shares), 2)} of the keys of those that "
            yield path_text(("operators", name, "state")), f"{text}they stand for: less state comes, or changes"


def _touched(records: float, law: Keys | OutputKeys) -> float:
    """Return how many different keys so many records have on average; 1 where one id stands for many, or is unknown."""
    if not isinstance(law, (UniformKeys, ZipfKeys)):
        return 1.0
    weights = np.arange(1, law.count + 1) ** -(law.exponent if isinstance(law, ZipfKeys) else 0.0)
    return float(-np.expm1(-records * weights / weights.sum()).sum())


def faults(scenario: Scenario, broken: Collection[str] = ()) -> Iterator[InputFault]:
    """Yield what cannot be simulated with one record in place of several; nothing with the resolution 1."""
    w = scenario.resolution
    if w == 1:
        return
    each = display.count(w)
    why = f"with resolution = {w}: one simulated record stands for {each}"
    for path, count in _numbers(scenario):
        if count % w:
            hint = f"{_nearest(count, w)}, or a resolution that divides {display.count(count)}"
            yield InputFault(path, count, f"must be divisible by the resolution, {each}", hint)
    for name, workload in scenario.workload.items():
        batch = workload.batch
        if isinstance(batch, BatchSize) and 1 < batch.mean < w:
            path = path_text(("workload", name, "batch", "mean"))
            yield InputFault(
                path, batch.mean, f"must be 1, or at least the resolution, {each}", "or a lower resolution"
            )
    for name, operator in scenario.operators.items():
        if operator.timer is not None:
            path = path_text(("operators", name, "timer"))
            every = units.show(operator.timer.every_s, "s")
            yield InputFault(path, every, f"makes single records, {why}", "leave one of them out")
        if operator.output is not None and isinstance(operator.output.keys, SellerKeys):
            path = path_text(("operators", name, "output", "keys", "field"))
            yield InputFault(path, operator.output.keys.field, f"is of single auctions, {why}", "leave one of them out")
        if (operator.window is not None or operator.kind == "join") and not has_nexmark_keys(scenario, name):
            # Outputs are as many as keys, or as pairs of records with one key: neither is as many as records.
            path = path_text(("operators", name, "window" if operator.window is not None else "kind"))
            value = units.show(operator.window.length_s, "s") if operator.window is not None else operator.kind
            rule = f"makes outputs by key, of keys that are no ids of NEXMark, {why}"
            yield InputFault(path, value, rule, "leave one of them out")
        if isinstance(operator.state, PerTupleState) and operator.state.closes and not has_nexmark_keys(scenario, name):
            # A key is open as long as an output of w records waits, in place of one of w outputs.
            path = path_text(("operators", name, "state", "until"))
            rule = f"is asked of single keys, which are no ids of NEXMark, {why}"
            yield InputFault(path, operator.state.until, rule, "leave one of them out")


def _numbers(scenario: Scenario) -> Iterator[tuple[str, int]]:
    """Yield the path and the value of each number of records; a batch of one is none."""
    for name, workload in scenario.workload.items():
        if isinstance(workload.batch, int) and workload.batch > 1:
            yield path_text(("workload", name, "batch")), workload.batch
    for name, operator in scenario.operators.items():
        if operator.buffer is not None:
            yield path_text(("operators", name, "buffer")), operator.buffer
        if operator.reading is not None and operator.reading.poll is not None:
            yield path_text(("operators", name, "reading", "poll")), operator.reading.poll
    tolerance = scenario.fault_tolerance
    if tolerance.acking is not None and tolerance.acking.pending is not None:
        yield "fault_tolerance.acker.pending", tolerance.acking.pending
    if tolerance.batches is not None and tolerance.batches.max_offsets is not None:
        yield "fault_tolerance.micro_batches.max_offsets", tolerance.batches.max_offsets


def _nearest(count: int, w: int) -> str:
    """Return the multiples of the resolution around a number of records."""
    low = count // w * w
    return f"{low} or {low + w}" if low else str(w)
