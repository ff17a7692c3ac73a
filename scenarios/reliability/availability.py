"""Answers how often queries are broken: reads the file, lets exact methods or sampling find it, writes the document.

Exact methods come first and may leave bounds; `auto` samples only figures whose bounds are wide. Before many runs begin
a small batch is timed (`SamplingTime`), so that nobody waits for days without knowing it. Read `answer` first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models import display
from models.checked_arrays import FloatArray
from models.errors import InputError, named, raise_if_any
from models.reliability.cuts import Cuts, joint_cuts, query_cuts
from models.reliability.description import Availability, availability_from, faults
from models.reliability.exact import BOUNDS, TooManyNodes, some_broken, unavailability
from models.reliability.importance import fewest_down, single_points
from models.reliability.law import broken_law
from models.reliability.problem import Setting, domains_of, queries_of, settings_of
from models.reliability.queries import Failures, Queries
from models.reliability.repair import broken_given_classes, broken_given_down
from models.reliability.times import downtime_s, wilson
from models.schema_types import seed_faults
from scenarios.files.documents import read_document
from scenarios.reliability.failure_logs import read_kept
from sim.draws import code_of

if TYPE_CHECKING:
    from sim.sampling.plain import Estimate, Sampled


MEASURED = 100_000_000  # runs of all settings, from which on a batch is timed: fewer take seconds
BATCH = 1_000_000
_WARMING = 4096  # runs in which compiled code is loaded
_LONGEST_S = 86_400.0

ProgressCallback = Callable[[str], None]


class SamplingTime:
    """The expected time of sampling `runs` for each of so many settings; `clock` counts seconds."""

    def __init__(
        self, runs: int, settings: int, on_progress: ProgressCallback, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._runs, self._settings, self._on_progress, self._clock = runs, settings, on_progress, clock
        # Timing compiles and samples as well: for few runs it would cost more than they do.
        self._known = runs * settings <= MEASURED

    def check(self, sample: Callable[[int], object]) -> None:
        """Time a batch of `sample` and tell what all will take; raise InputError where that is more than a day.

        Do so once, and only where there are many runs.
        """
        if self._known:
            return
        self._known = True
        batch = min(BATCH, self._runs)
        # The first call loads compiled code: without it the estimate would be too long.
        sample(min(_WARMING, batch))
        begun = self._clock()
        sample(batch)
        each_s = (self._clock() - begun) / batch * self._settings
        expected_s = each_s * self._runs
        several = f" for each of {self._settings} settings" if self._settings > 1 else ""
        said = f"sampling {display.count(self._runs, 'run')}{several} takes about {display.duration(expected_s)}"
        if expected_s > _LONGEST_S:
            fitting = display.about(_LONGEST_S / each_s, 1)
            hint = f"about {fitting} runs take a day; stratified and importance-sampling need fewer for what is rare"
            raise InputError.at("--runs", self._runs, f"{said}: at most a day", hint)
        self._on_progress(said)


METHODS = ("auto", "exact", "monte-carlo", "stratified", "importance-sampling")
SHARES = (0.99, 0.95, 0.9)  # of queries that run: how likely it is that fewer do
LEVELS = (0.9, 0.99, 0.999)  # how many queries run with this probability
_WIDE = 1.01  # bounds further apart than that are worth sampling
_TINY = 1e-9  # and as bounds they will do below that
_LUMPED = "chain"


@dataclass(frozen=True)
class Figure:
    """A probability between `low` and `high`, equal where it is exact; of a sampled one the estimate and interval.

    `method` names how it was found: an exact method, `bounds`, or a way of sampling.
    """

    low: float
    high: float
    method: str
    estimate: float | None = None

    @property
    def value(self) -> float | None:
        """The figure itself; None where there are only bounds."""
        if self.estimate is not None:
            return self.estimate
        return self.low if self.low == self.high else None

    def document(self) -> dict[str, Any]:
        """Return the figure as JSON has it, with seconds in a month."""
        value = self.value
        return {
            "unavailability": value,
            "low": self.low,
            "high": self.high,
            "down_s_per_month": None if value is None else downtime_s(value),
            "method": self.method,
        }


@dataclass(frozen=True)
class Line:
    """The figures of one setting. `short`: P(fewer than the share of queries run); `running`: share by level.

    `p` is None for settings that failure times or a day describe. Keys of `short` are shares such as 0.95, those of
    `running` probabilities.
    """

    label: str
    p: float | None
    queries: tuple[Figure, ...]
    mean: Figure
    some: Figure | None
    short: dict[float, Figure]
    running: dict[float, tuple[float, float]]


@dataclass(frozen=True)
class Answer:
    """All lines, with the description that they are about."""

    description: Availability
    lines: tuple[Line, ...]
    target: float | None

    @property
    def missed(self) -> tuple[str, ...]:
        """The queries of which some setting does not show that they have the target.

        A query whose bounds leave the target open counts as missed.
        """
        if self.target is None:
            return ()
        # 1 - 0.999 is not exactly 0.001: a system that just meets its target must not miss it by rounding.
        allowed = (1 - self.target) * (1 + 1e-12)
        # The upper bound: a target counts as met only where that is shown.
        worst = np.max([[figure.high for figure in line.queries] for line in self.lines], axis=0)
        return tuple(
            name for name, high in zip(self.description.queries, worst.tolist(), strict=True) if high > allowed
        )


def read_availability(path: str | Path) -> Availability:
    """Return the description in a .toml or .json file; raises InputError with all its faults.

    >>> from holdfast import read_availability
    >>> read_availability("examples/availability.toml").queries["revenue"]
    ('clicks', 'orders', 'join')
    """
    return read_with_doubts(path)[0]


def read_with_doubts(path: str | Path) -> tuple[Availability, tuple[str, ...]]:
    """Return the same, and where a failure log that it names does not fit what is computed."""
    path = Path(path)
    return with_log(availability_from(read_document(path, (".toml", ".json"), "query set")), path.parent)


def with_log(description: Availability, folder: Path) -> tuple[Availability, tuple[str, ...]]:
    """Return the description with the times of the log that it names, and doubts; raises InputError for no times."""
    times = description.times
    if times is None or times.log is None:
        return description, ()
    with named("times.log"):
        kept = read_kept(folder / times.log)
    mttr_s = times.mttr_s if times.mttr_s is not None or times.day_s is not None else kept.mttr_s
    if kept.mttf_s is None or (mttr_s is None and times.day_s is None):
        raise InputError.at("times.log", times.log, "has no failure, or no repair that ended")
    known = times.model_copy(update={"mttf_s": kept.mttf_s, "mttr_s": mttr_s, "log": None})
    found = description.model_copy(update={"times": known})
    # Times from a log may break rules that the description alone kept.
    raise_if_any(faults(found))
    return found, tuple(
        kept.doubts(times.crews is not None or times.day_s is not None or description.standby is not None)
    )


def answer(
    description: Availability,
    *,
    p: Sequence[float] = (),
    method: str = "auto",
    runs: int = 1_000_000,
    seed: int = 1,
    workers: int = 1,
    target: float | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Return how often each query is broken in each setting.

    `auto` is exact and samples what is left with wide bounds; `exact` leaves those; `monte-carlo`, `stratified`
    and `importance-sampling` only sample. `on_progress` hears how long many runs will take. Raises InputError.

    >>> from holdfast import availability, read_availability
    >>> (line,) = availability(read_availability("examples/availability.toml"), p=[0.01]).lines
    >>> round(line.queries[0].low, 7), line.queries[0].method  # P(the query revenue is broken)
    (0.0003, 'factoring')
    """
    if method not in METHODS:
        raise InputError.at("--method", method, "must be " + ", ".join(METHODS[:-1]) + " or " + METHODS[-1])
    target = description.target if target is None else target
    if target is not None and not 0 <= target <= 1:
        raise InputError.at("--target", target, "must be between 0 and 1")
    if not 1 <= runs <= 10**12:
        raise InputError.at("--runs", runs, "must be between 1 and 1e12")
    raise_if_any(seed_faults("--seed", seed))
    if workers < 1:
        raise InputError.at("--workers", workers, "must be at least 1")
    queries, settings = queries_of(description), settings_of(description, p)

    expected = SamplingTime(runs, len(settings), on_progress)

    def sample(setting: Setting, by: str) -> Line:
        expected.check(lambda few: _sampled(queries, setting, by, few, seed, workers))
        return _sampled(queries, setting, by, runs, seed, workers)

    if method in ("auto", "exact"):
        lines = _exact(queries, settings)
        if method == "auto":
            lines = [_narrowed(one, setting, sample) for one, setting in zip(lines, settings, strict=True)]
    else:
        lines = [sample(setting, method) for setting in settings]
    return Answer(description, tuple(lines), target)


def _exact(queries: Queries, settings: Sequence[Setting]) -> list[Line]:
    """Return one line for each setting; those that are alike in kind are found together, a whole curve at once."""
    # The sets of hosts that break a query do not depend on probabilities: one search serves a whole curve.
    alike = [index for index, one in enumerate(settings) if one.is_independent]
    found: dict[int, Line] = {}
    for indices in [alike, *[[index] for index in range(len(settings)) if index not in alike]]:
        if not indices:
            continue
        chosen = [settings[index] for index in indices]
        if chosen[0].pair is not None:
            found[indices[0]] = _paired(queries, chosen[0])
        elif chosen[0].down is not None:
            found[indices[0]] = _lumped(queries, chosen[0])
        else:
            found.update(zip(indices, _of_rows(queries, chosen), strict=True))
    return [found[index] for index in range(len(settings))]


def _of_rows(queries: Queries, settings: Sequence[Setting]) -> list[Line]:
    """Return one line for each setting of independent hosts; all rows of all settings are computed at once."""
    failures = _stacked([one.failures for one in settings])
    each, some = unavailability(queries, failures), some_broken(queries, failures)
    law = broken_law(queries, failures)
    method = "all failure sets" if law.sets is None else f"failure sets of up to {law.sets}"
    short = {share: law.short_of(share) for share in SHARES}
    lines, first = [], 0
    for setting in settings:
        # A setting is a mixture of rows with weights: its figures are the weighted means of theirs.
        rows = slice(first, first + len(setting.weights))
        first = rows.stop
        w = setting.weights
        figures = _figures(w @ each.low[rows], w @ each.high[rows], each.methods)
        joint = _some(w @ some.low[rows], w @ some.high[rows], some.methods[0], w @ law.open[rows], w @ law.mass[rows])
        low, high = (float(w @ bound[rows] @ queries.shares) for bound in (each.low, each.high))
        mean = Figure(low, high, _worst(each.methods))
        fewer = {
            share: Figure(float(w @ a[rows]), min(1.0, float(w @ b[rows])), method) for share, (a, b) in short.items()
        }
        own = replace(law, mass=(w @ law.mass[rows])[None, :], open=(w @ law.open[rows])[None])
        running = {level: tuple(float(x[0]) for x in own.running_with(level)) for level in LEVELS}
        lines.append(Line(setting.label, setting.p, figures, mean, joint, fewer, running))  # type: ignore[arg-type]
    return lines


def _some(low: FloatArray, high: FloatArray, method: str, left: FloatArray, mass: FloatArray) -> Figure:
    """Return P(some query is broken); where there are only bounds, those of small failure sets may be narrower."""
    least, most = float(low[0]), float(high[0])
    if method == BOUNDS:
        # `mass[0]` is the probability that no query is broken; `left` is that of the failure sets not looked at.
        seen = float(mass[1:].sum())
        least, most = max(least, seen), min(most, seen + float(left))
    return Figure(least, most, method)


def _stacked(parts: Sequence[Failures]) -> Failures:
    """Return the rows of all; what they have in common is that of the first."""
    shocks = [one.shocks for one in parts if one.shocks is not None]
    return replace(parts[0], down=np.concatenate([one.down for one in parts]), shocks=np.concatenate(shocks))


def _figures(low: FloatArray, high: FloatArray, methods: Sequence[str]) -> tuple[Figure, ...]:
    return tuple(Figure(a, b, method) for a, b, method in zip(low.tolist(), high.tolist(), methods, strict=True))


def _worst(methods: Sequence[str]) -> str:
    return BOUNDS if BOUNDS in methods else "exact"


def _paired(queries: Queries, setting: Setting) -> Line:
    """Return the line of two hosts of which one serves all: what breaks one query breaks each."""
    assert setting.pair is not None
    one = Figure(setting.pair, setting.pair, _LUMPED)
    return Line(setting.label, setting.p, (one,) * queries.n_queries, one, one, {}, {})


def _lumped(queries: Queries, setting: Setting) -> Line:
    """Return the settings of hosts that share crews or are upgraded: by the law of how many are down."""
    assert setting.down is not None
    down, of_queries = setting.down, query_cuts(queries, setting.failures)
    try:
        broken = [_given_law(setting, down, cuts, queries.n_hosts) for cuts in of_queries]
    except TooManyNodes:
        raise InputError.at("queries", queries.n_queries, "are too entangled for crews and upgrades") from None
    try:
        joint = _given_law(setting, down, joint_cuts(of_queries), queries.n_hosts)
    except TooManyNodes:
        # Queries together may be too entangled where each alone is not: the joint figure is left out then.
        joint = math.nan
    figures = tuple(Figure(value, value, _LUMPED) for value in broken)
    mean = float(queries.shares @ broken)
    some = None if math.isnan(joint) else Figure(joint, joint, _LUMPED)
    return Line(setting.label, setting.p, figures, Figure(mean, mean, _LUMPED), some, {}, {})


def _given_law(setting: Setting, down: FloatArray, cuts: Cuts, n_hosts: int) -> float:
    """Return P(broken) by the law of how many hosts, or how many of each class, are down."""
    if setting.classes:
        return float((down * broken_given_classes(cuts, setting.classes)).sum())
    return float(down @ broken_given_down(cuts, n_hosts))


def _narrowed(line: Line, setting: Setting, sample: Callable[[Setting, str], Line]) -> Line:
    """Return the line with sampled figures where these say more than bounds do."""
    some = [] if line.some is None else [line.some]
    # Sampling once gives all these figures, so it is done once for all.
    if any(map(_is_wide, (*line.queries, line.mean, *some))):
        found = sample(setting, "stratified")
        each = tuple(_narrower(a, b) for a, b in zip(line.queries, found.queries, strict=True))
        joint = None if line.some is None or found.some is None else _narrower(line.some, found.some)
        line = replace(line, queries=each, mean=_narrower(line.mean, found.mean), some=joint)
    if any(map(_is_wide, line.short.values())):
        short = sample(setting, "monte-carlo").short  # only runs of equal weight say how many are broken at once
        line = replace(line, short={share: _narrower(one, short.get(share, one)) for share, one in line.short.items()})
    return line


def _is_wide(figure: Figure) -> bool:
    return figure.high > _WIDE * figure.low and figure.high > _TINY


def _narrower(bounds: Figure, sampled: Figure) -> Figure:
    # Bounds hold for certain and an interval with 95 %: a wider interval is never better.
    return sampled if sampled.high - sampled.low < bounds.high - bounds.low else bounds


def _sampled(queries: Queries, setting: Setting, method: str, runs: int, seed: int, workers: int) -> Line:
    """Return the line of a setting by sampling; each row of a mixture gets its share of the runs and a seed of its own.

    Raises InputError for hosts that depend on each other.
    """
    from sim.sampling.importance_sampling import stratified, weighted  # noqa: PLC0415
    from sim.sampling.plain import sampled  # noqa: PLC0415 - compiles, and numba is slow to load

    # Samplers draw hosts independently of each other: crews and upgrades couple them.
    if setting.down is not None or setting.pair is not None:
        raise InputError.at("--method", method, "is for independent hosts: crews and upgrades are solved exactly")
    by = {"monte-carlo": sampled, "stratified": stratified, "importance-sampling": weighted}[method]
    shares = (
        [max(1, math.ceil(runs * weight)) for weight in setting.weights.tolist()]
        if len(setting.weights) > 1
        else [runs]
    )
    found = [
        by(queries, setting.failures, setting=row, runs=n, seed=code_of(seed, row) if row else seed, workers=workers)
        for row, n in enumerate(shares)
    ]
    figures = [_pooled([one.queries[query] for one in found], setting, method) for query in range(queries.n_queries)]
    mean, some = (_pooled([getattr(one, name) for one in found], setting, method) for name in ("mean", "some"))
    short = _short_of(found[0], method) if len(found) == 1 else {}
    return Line(setting.label, setting.p, tuple(figures), mean, some, short, {})


def _pooled(estimates: Sequence[Estimate], setting: Setting, method: str) -> Figure:
    """Return the weighted mean over rows; distances to the ends of intervals are put together as for strata.

    Squared weighted distances add, as for independent strata.
    """
    w = setting.weights.tolist()
    value = math.fsum(a * one.value for a, one in zip(w, estimates, strict=True))
    below = math.hypot(*(a * (one.value - one.interval[0]) for a, one in zip(w, estimates, strict=True)))
    above = math.hypot(*(a * (one.interval[1] - one.value) for a, one in zip(w, estimates, strict=True)))
    return Figure(max(0.0, value - below), min(1.0, value + above), method, value)


def _short_of(found: Sampled, method: str) -> dict[float, Figure]:
    if found.law is None:
        return {}
    n = len(found.law) - 1
    events = {share: int(found.law[math.floor(n * (1 - share) + 1e-9) + 1 :].sum()) for share in SHARES}
    return {share: Figure(*wilson(k, found.runs), method, k / found.runs) for share, k in events.items()}


@dataclass(frozen=True)
class SinglePoint:
    """A host or a domain ("kind") whose failure alone breaks these queries."""

    kind: str
    name: str
    queries: tuple[str, ...]


def weakest(description: Availability) -> tuple[tuple[SinglePoint, ...], dict[str, int | None]]:
    """Return what breaks queries alone, what breaks most first, and how many failures each query takes at least.

    By structure alone: a query whose number is 2 survives any single failure, however likely that is. A domain counts
    as one failure.
    """
    queries, domains = queries_of(description), domains_of(description)
    elements = [
        *(("host", name) for name in description.host_names),
        *(("domain", name) for name in description.domains),
    ]
    broken: dict[int, list[str]] = {}
    for query, alone in zip(description.queries, single_points(queries, domains), strict=True):
        for element in alone:
            broken.setdefault(element, []).append(query)
    order = sorted(broken, key=lambda element: (-len(broken[element]), element))
    fewest = dict(zip(description.queries, fewest_down(queries, domains), strict=True))
    return tuple(SinglePoint(*elements[element], tuple(broken[element])) for element in order), fewest


def document(found: Answer) -> dict[str, Any]:
    """Return the answer as one JSON document."""
    alone, fewest = weakest(found.description)
    return {
        "name": found.description.name,
        "hosts": len(found.description.host_names),
        "operators": len(found.description.operators),
        "settings": [_line_document(line, found.description) for line in found.lines],
        "single_points": [asdict(one) for one in alone],
        "fewest_down": fewest,
        "target": found.target,
        "allowed_s_per_month": None if found.target is None else downtime_s(1 - found.target),
        "missed": list(found.missed),
    }


def _line_document(line: Line, description: Availability) -> dict[str, Any]:
    return {
        "label": line.label,
        "p": line.p,
        "mean": line.mean.document(),
        "some_broken": None if line.some is None else line.some.document(),
        "fewer_than": {f"{share:g}": figure.document() for share, figure in line.short.items()},
        "share_running": {f"{level:g}": {"low": low, "high": high} for level, (low, high) in line.running.items()},
        "queries": {name: one.document() for name, one in zip(description.queries, line.queries, strict=True)},
    }
