"""The claims of "Megaphone" (Hoffmann et al., VLDB 2019), each beside what comes out here.

The microbenchmark counts keys: `bin_moves` has the migration, its costs and the closed forms, and `bin_overhead` what
bins cost while none moves. Of NEXMark's queries 3, 5, 7 and 8 the states come by what they do (`query_moves`). Of query
4 the state of each bin after 800 s is taken by formula (`docs/explanation/claims.md`), and moves once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models import display
from scenarios.studies.reproduce.bin_moves import BinMove, Strategy
from scenarios.studies.reproduce.bin_overhead import RESOLUTION, BinOverhead
from scenarios.studies.reproduce.claims import Finding
from scenarios.studies.reproduce.query_moves import EVENTS_PER_S, MAP_SPEED, REAL, TICK_S, QueryMove, query_move
from scenarios.studies.reproduce.tasks import TaskRunner

_KEY_BYTES = 8 * 1.049  # dense arrays that are padded
_BINS, _KEYS = 4096, 4096e6
STEPPED: tuple[Strategy, ...] = ("fluid", "optimised")
_FEWER_KEYS, MORE_KEYS = (1024e6, _KEYS, 16384e6), (_KEYS, 8192e6, 16384e6)
LOADED_KEYS = 16384e6  # keys of the experiment on load
_RATES = (0.25e6, 1e6, 4e6, 8e6, 16e6)
_TOO_MUCH = 32e6
NUMBERS_OF_BINS = {"fluid": (64, 256, 1024, 4096), "optimised": (64, 256, 1024, 4096, 16384)}
_BINS_AND_KEYS = (128, 512, 2048)
_KEYS_EACH = 4e6  # of a bin, where both grow

NATIVE = BinOverhead(_BINS, scanned=False)
STILL = (NATIVE, *(BinOverhead(2**power) for power in (12, 14, 16, 18, 20)))
TABLE = {  # bins -> latencies of the paper's tables [s], 90 % and 99 %: counts by hash, of few keys and of many
    2**16: ((0.02097, 0.02202, 0.03041), (0.02726, 0.02621, 0.03565)),
    2**18: ((0.15938, 0.23488, 0.26844), (0.19294, 0.26844, 0.31877)),
    2**20: ((1.14085, 0.83886, 1.00663), (1.40929, 1.61061, 1.61061)),
}

QUERIES = ("q1", "q3", "q4", "q5", "q7", "q8")
_FORMED = {"q1": (0.92, 0.0), "q4": (0.98, 39.3 * EVENTS_PER_S * 800)}  # records per event, and bytes of state in all


@dataclass(frozen=True)
class Moved:
    """Figures of one migration [s, B], beside its closed forms.

    The longest latencies during and before it are those beyond `least_s`, that of an idle job. `growth`: how much
    longer the mean latency was at the end of the time before it than at its begin. `resolution`: records that a
    simulated one stood for; `queue`: records that waited during it, on average, at all workers. `moved_bytes`: of the
    states, as they left.

    By slots of time, which are those of `BinMove.slots_s`: the longest latency of what was born then, None without any,
    and the most that a machine held.
    """

    move: BinMove
    duration_s: float | None
    least_s: float
    longest_s: float
    extra_bytes: float | None
    steps: int
    before_s: float
    resolution: int
    queue: float | None
    growth: float = 1.0
    moved_bytes: float = 0.0
    latency_s: Sequence[float | None] = ()
    held_bytes: Sequence[float] = ()

    def off(self, name: str) -> float:
        """Return by which share a figure is off its closed form."""
        value = getattr(self, name)
        return float("inf") if value is None else abs(value / getattr(self.move, name) - 1)


@dataclass(frozen=True)
class Made:
    """Figures of all migrations, and latencies (90 %, 99 %) [s] of all runs without one."""

    moved: Mapping[BinMove, Moved]
    still: Mapping[BinOverhead, tuple[float, float]]
    read: set[int] = field(default_factory=set, compare=False)  # resolutions of the runs that were asked for

    def of(self, move: BinMove) -> Moved:
        """Return what came out of a migration."""
        self.read.add(self.moved[move].resolution)
        return self.moved[move]

    def quantiles_s(self, run: BinOverhead) -> tuple[float, float]:
        """Return the latencies of a run without a migration."""
        self.read.add(RESOLUTION)
        return self.still[run]

    def longest(self, moves: Sequence[BinMove]) -> np.ndarray:
        """Return the longest latency of each [s]."""
        return np.array([self.of(move).longest_s for move in moves])

    def lasting(self, moves: Sequence[BinMove]) -> np.ndarray:
        """Return how long each took [s]; infinite for one that did not end."""
        return np.array([self.of(move).duration_s or np.inf for move in moves])


def counted(strategy: Strategy, keys: float = _KEYS, bins: int = _BINS, **changes: Any) -> BinMove:
    """Return a migration of the benchmark that counts keys."""
    return BinMove(strategy, _KEY_BYTES * keys / bins, bins, **changes)


def query(name: str, strategy: Strategy) -> BinMove:
    """Return the migration of a query of NEXMark, 800 s after its begin."""
    if name in REAL:
        return query_move(name, strategy)
    share, size = _FORMED[name]
    return BinMove(strategy, size / _BINS, _BINS, share * EVENTS_PER_S, speed=MAP_SPEED, phi_s=TICK_S)


def _lagging(move: BinMove) -> BinMove:
    return replace(move, gap="none", next="lag")


def _overload() -> BinMove:
    """Return a short migration beside more records than workers can serve."""
    return counted("all-at-once", 256e6, rate_per_s=_TOO_MUCH)


RESOLUTIONS = (1, 10, 100, 1000)


def resolved(resolution: int) -> BinMove:
    """Return a smaller migration, of which each record can be simulated: with so many in one."""
    return BinMove("optimised", 2e6, 1024, resolution=resolution)


COARSE = tuple(name for name in REAL if query_move(name, "optimised").stands_for > 1)


def sooner(name: str, *, exact: bool) -> QueryMove:
    """Return the migration of a query after a tenth of the time, in which each record can be simulated, if `exact`."""
    return query_move(name, "optimised", resolution=1 if exact else 0, sooner=0.1)


def _experiments() -> Iterator[BinMove]:
    for keys in _FEWER_KEYS:
        yield counted("all-at-once", keys)
    for strategy in STEPPED:
        yield from (counted(strategy, keys) for keys in MORE_KEYS)
        yield from (counted(strategy, bins=bins) for bins in NUMBERS_OF_BINS[strategy])
        yield from (counted(strategy, bins * _KEYS_EACH, bins) for bins in _BINS_AND_KEYS)
    yield from (counted("all-at-once", bins=bins) for bins in (64, 16384))
    yield counted("all-at-once", 8192e6)
    yield from (_lagging(counted(strategy, keys)) for strategy in STEPPED for keys in MORE_KEYS)
    yield from (counted("optimised", LOADED_KEYS, rate_per_s=rate) for rate in _RATES)
    yield _overload()
    for name in QUERIES:
        yield from (query(name, strategy) for strategy in ("all-at-once", *STEPPED))
    yield from map(resolved, RESOLUTIONS)
    yield from (sooner(name, exact=exact) for name in COARSE for exact in (True, False))


def results(runner: TaskRunner, *, quick: bool) -> Made:
    """Return all runs; there is nothing that could be left out, so that `quick` changes nothing."""
    asked = [*dict.fromkeys(_experiments())]
    made = runner.make("moving bins", [*asked, *STILL], _prepare)
    moved = {move: Moved(move, **one) for move, one in zip(asked, made, strict=False)}
    still = {one: (found["p90_s"], found["p99_s"]) for one, found in zip(STILL, made[len(asked) :], strict=True)}
    return Made(moved, still)


def _prepare(on_compile: Callable[[float], None]) -> None:
    """Compile what runs need: those of the benchmark, and of queries whose windows move."""
    for one in (counted("all-at-once"), query(REAL[0], "optimised")):
        one.prepare(on_compile)


def findings_of(found: Made) -> Mapping[str, Finding]:
    """Return claim -> verdict of the runs that were made."""
    parts = (_of_size, _of_strategies, _of_bins, _of_keys, _of_load, _of_memory, _of_queries, _of_overhead)
    return {claim: one for part in parts for claim, one in _resolved(part(found), found.read)}


def _resolved(findings: Iterator[tuple[str, Finding]], read: set[int]) -> Iterator[tuple[str, Finding]]:
    """Yield the findings, each with the resolutions of the runs that it is made of."""
    read.clear()
    for claim, one in findings:
        low, high = min(read), max(read)
        said = f"resolution {low}" if low == high else f"resolutions {low} to {high}"
        yield claim, replace(one, ours=f"{one.ours}; {said}")
        read.clear()


def _of_size(found: Made) -> Iterator[tuple[str, Finding]]:
    moves = [counted("all-at-once", keys) for keys in _FEWER_KEYS]
    slope, off = _slope(_FEWER_KEYS, found.longest(moves)), max(found.of(move).off("longest_s") for move in moves)
    said = f"slope {slope:.3f}; form within {display.share(off)}"
    yield "all-at-once-linear", Finding(said, abs(slope - 1) <= 0.03 and off <= 0.03, value=slope)
    eight = found.of(counted("all-at-once")).longest_s
    yield "eight-gb", Finding(display.duration(eight), 1 <= eight <= 10, value=eight)


def _of_strategies(found: Made) -> Iterator[tuple[str, Finding]]:
    whole = found.of(counted("all-at-once"))
    many = [counted(name, bins=bins) for name in STEPPED for bins in NUMBERS_OF_BINS[name] if bins >= 1024]
    ratio = whole.longest_s / float(found.longest(many).max())
    formed = [counted("fluid"), counted("optimised"), _lagging(counted("optimised"))]
    off = max(found.of(move).off("longest_s") for move in formed)
    said = f"{ratio:.0f} x or more; form within {display.share(off)}"
    yield "orders", Finding(said, ratio >= 10 and off <= 0.05, value=ratio)
    longer = float(found.lasting([counted("optimised")])[0]) / float(found.lasting([whole.move])[0])
    yield "batched-duration", Finding(f"{longer:.2f} x, with a gap until queues are empty", longer <= 1.4, value=longer)
    drained = counted("optimised")
    step_s = drained.step_s + 2 * drained.phi_s
    lagging, gap = (found.of(move).longest_s / step_s for move in (_lagging(drained), drained))
    said = f"{lagging:.2f} -> {gap:.2f} durations of a step"
    yield "gap", Finding(said, 2.0 <= lagging <= 2.4 and 1.0 <= gap <= 1.1, value=gap)


def _of_bins(found: Made) -> Iterator[tuple[str, Finding]]:
    latency, duration = 0.0, 0.0
    for strategy in STEPPED:
        bins = NUMBERS_OF_BINS[strategy]
        moves = [counted(strategy, bins=count) for count in bins]
        latency = max(latency, _spread(found.longest(moves) * np.array(bins)))
        duration = max(duration, _spread(found.lasting(moves)))
    whole = found.longest([counted("all-at-once", bins=bins) for bins in (64, _BINS, 16384)])
    said = f"maximum x N +- {display.share(latency)}, duration +- {display.share(duration)}; "
    said += f"all at once +- {display.share(_spread(whole))}"
    yield "more-bins", Finding(said, latency <= 0.15 and duration <= 0.25 and _spread(whole) <= 0.15)
    most, grows = 0.0, True
    for strategy in STEPPED:
        moves = [counted(strategy, bins * _KEYS_EACH, bins) for bins in _BINS_AND_KEYS]
        most = max(most, _spread(found.longest(moves)))
        grows = grows and bool((np.diff(found.lasting(moves)) > 0).all())
    said = f"maximum +- {display.share(most)}, duration {'grows' if grows else 'does not grow'}"
    yield "keys-and-bins", Finding(said, most <= 0.15 and grows)


def _of_keys(found: Made) -> Iterator[tuple[str, Finding]]:
    def slopes(moves: Sequence[BinMove]) -> list[float]:
        return [_slope(MORE_KEYS, values) for values in (found.longest(moves), found.lasting(moves))]

    all_of = [[counted(strategy, keys) for keys in MORE_KEYS] for strategy in ("all-at-once", *STEPPED)]
    seen = [one for moves in all_of for one in slopes(moves)]
    without = [one for moves in all_of[1:] for one in slopes([_lagging(move) for move in moves])]
    fixed_s = 4 * all_of[0][0].phi_s  # queues are empty; the next configuration; records before it; their frontier
    cause = "between steps four messages go one after the other, which takes as long for small states, "
    cause += f"{display.duration(fixed_s)}; without a gap {min(without):.3f} to {max(without):.3f}"
    said, holds = f"slopes {min(seen):.3f} to {max(seen):.3f}", min(seen) >= 0.95 and max(seen) <= 1.02
    yield "more-keys", Finding(said, holds, "" if holds else cause)


def _of_load(found: Made) -> Iterator[tuple[str, Finding]]:
    moves = [counted("optimised", LOADED_KEYS, rate_per_s=rate) for rate in _RATES]
    off, growth = _spread(found.longest(moves)), found.of(_overload()).growth
    most, too_many = (f"{display.number(rate / 1e6)} million/s" for rate in (_RATES[-1], _TOO_MUCH))
    said = (
        f"maximum +- {display.share(off)} up to {most}; at {too_many} latency grows {growth:.1f}-fold in half a second "
    )
    said += "without a migration"
    yield "load-flat", Finding(said, off <= 0.05 and growth > 1.5)
    whole = found.of(counted("all-at-once", LOADED_KEYS)).longest_s
    stepped = found.longest([counted(strategy, LOADED_KEYS) for strategy in STEPPED])
    said = f"at most {display.duration(float(stepped.max()))}, {whole / stepped.max():.0f} to "
    said += f"{whole / stepped.min():.0f} x below"
    yield "one-second", Finding(said, bool(stepped.max() < 1 and whole / stepped.max() >= 10))


def _of_memory(found: Made) -> Iterator[tuple[str, Finding]]:
    whole = found.of(counted("all-at-once", LOADED_KEYS))
    stepped = [found.of(counted(strategy, LOADED_KEYS)) for strategy in STEPPED]
    if whole.extra_bytes is None or any(one.extra_bytes is None for one in stepped):
        return
    share = max((one.extra_bytes or 0.0) / whole.extra_bytes for one in stepped)
    off = max(one.off("extra_bytes") for one in (whole, stepped[-1]))
    said = f"{whole.extra_bytes / 2**30:.1f} GiB, form within {display.share(off)}; steps {display.share(share)} of it"
    yield "memory", Finding(said, off <= 1e-3 and share < 0.05)


def _of_queries(found: Made) -> Iterator[tuple[str, Finding]]:
    def seen(name: str) -> tuple[float, float]:
        """The longest latency of both strategies, that of an idle job included."""
        whole, stepped = (found.of(query(name, one)) for one in ("all-at-once", "optimised"))
        return whole.longest_s + whole.least_s, stepped.longest_s + stepped.least_s

    def said(whole: float, stepped: float) -> str:
        return f"{display.duration(whole)} / {display.duration(stepped)}"

    excess = max(found.of(query("q1", one)).longest_s for one in ("all-at-once", "optimised"))
    yield "stateless", Finding(f"{excess / TICK_S:.1f} frontier times above an idle job", excess <= 4 * TICK_S)
    whole, stepped = seen("q3")
    yield "q3", Finding(said(whole, stepped), 0.05 <= whole <= 0.2 and stepped <= 0.01)
    whole, stepped = seen("q4")
    yield "q4", Finding(said(whole, stepped), 1.5 <= whole <= 3 and stepped <= 0.1)
    whole, stepped = seen("q5")
    panes = [found.of(query("q5", one)) for one in ("all-at-once", "optimised")]
    pane = max(one.before_s + one.least_s for one in panes)
    text = f"{said(whole, stepped)}; all at once {whole / pane:.1f} x the end of a pane, {display.duration(pane)}"
    waits = ""
    if stepped > pane:
        waits = f"in steps it is not below: a pane that ends in a step waits for it, {display.duration(stepped - pane)}"
    yield "q5", Finding(text, 5 <= whole / pane <= 20 and stepped <= pane, waits, value=whole / pane)
    whole, stepped = seen("q7")
    yield "q7", Finding(f"{said(whole, stepped)}, ratio {whole / stepped:.2f}", whole / stepped <= 1.3)
    whole, stepped = seen("q8")
    yield "q8", Finding(f"{said(whole, stepped)}, ratio {whole / stepped:.1f}", 5 <= whole / stepped <= 20)


def _of_overhead(found: Made) -> Iterator[tuple[str, Finding]]:
    few, native = found.quantiles_s(BinOverhead(_BINS))[0], found.quantiles_s(NATIVE)[0]
    factors = [
        max(ours / paper, paper / ours)
        for bins, tables in TABLE.items()
        for quantile, table in enumerate(tables)
        for paper in table
        for ours in [found.quantiles_s(BinOverhead(bins))[quantile]]
    ]
    said = f"{display.duration(few - native)} more with {display.count(_BINS, 'bin')}, then within {max(factors):.2f} x"
    yield "overhead-bins", Finding(said, few - native <= 1e-3 and max(factors) <= 2, value=max(factors))


def _slope(sizes: Sequence[float], values: np.ndarray) -> float:
    """Return the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _spread(values: np.ndarray) -> float:
    """Return by which share values are off the middle of the least and the greatest; infinite if one of them is."""
    if not np.isfinite(values).all():
        return float("inf")
    return float((values.max() - values.min()) / (values.max() + values.min()))
