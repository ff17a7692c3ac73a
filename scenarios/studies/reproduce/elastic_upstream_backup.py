"""The claims of "elastic upstream backup" (SPATE, 2019), each beside what comes out here.

Counted messages give the paper's identities of acks and data. Recoveries are those of `elastic-word-count` of the
library, whose constants were fitted to the paper's table 9, as were pauses, costs of acks and written shares
(`elastic_runs`). So the first column of that table is a fit of few constants to many numbers, and no prediction. Beside
it the same job counts words of a text, whose key groups are skewed. Recoveries after a scale-up, and the delays of one,
are those of `elastic_scale_up`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev
from typing import Any

from models import display
from models.scenario.inputs import RunInputs
from scenarios.studies.reproduce.claims import Finding, said_of_few
from scenarios.studies.reproduce.elastic_runs import (
    ACK,
    EVENT,
    MIB,
    PERIOD_S,
    T_S,
    Delayed,
    Method,
    Paused,
    Piece,
    Recovered,
    Shipped,
    Skewed,
    Traffic,
)
from scenarios.studies.reproduce.elastic_scale_up import INTERVALS_S as SCALED_INTERVALS_S
from scenarios.studies.reproduce.elastic_scale_up import (
    RESCALED,
    Scaled,
    are_ordered,
    findings_after_scale_up,
    scaled_pieces,
    spikes,
)
from scenarios.studies.reproduce.elastic_scale_up import by_interval as by_interval_scaled
from scenarios.studies.reproduce.tasks import TaskRunner
from sim.engine import prepare

PRINTED: Mapping[Method, tuple[float, float, float]] = {  # table 9: traffic [MiB], added latency [s], recovery [s]
    "AR": (147.6, 0.0, 0.0),
    "UB": (0.0, 0.024, 12.35),
    "SB": (0.0, 0.028, 15.015),
    "SC": (22.14, 0.157, 3.312),
    "R+SM": (18.45, 0.136, 3.127),
    "SPATE": (0.007, 0.051, 2.054),
}
PRINTED_DELAYS_S = {1: 0.028, 2: 0.024, 3: 0.059, 4: 0.046, 5: 0.051}  # table 8, by the trimming interval
ORDER: tuple[Method, ...] = ("SC", "R+SM", "SPATE")  # from the slowest on
_ALL_ORDERED: tuple[Method, ...] = ("SB", "UB", *ORDER)
RATES = (500, 1000, 2000)
INTERVALS_S = (5.0, 10.0, 15.0, 20.0)
TRIMS_S = (1, 2, 3, 4, 5)
PARALLELISMS = (1, 10, 20, 30)
SKEWED: tuple[Method, ...] = ("R+SM", "SPATE")
STATES_GB = (0.5, 1.0, 2.0)
_SEEDS, _FEW = 24, 8  # of a cell, and of a variant
_QUICK_SEEDS, _QUICK_FEW = 4, 2


@dataclass(frozen=True)
class Results:
    """All runs, by what was asked for."""

    found: Mapping[Piece, Mapping[str, float]]
    seeds: int
    few: int  # those of variants
    scaled: Mapping[Scaled, float]  # recovery times after a scale-up [s]
    rescaled: Sequence[Mapping[str, Any]]  # of `RESCALED`

    def times(self, method: Method, rate: int = 1000, interval_s: float = T_S) -> list[float]:
        """Return the recovery times of a method over all seeds [s]."""
        return [self.recovery(method, seed, rate, interval_s) for seed in range(self.seeds)]

    def recovery(self, method: Method, seed: int, rate: int = 1000, interval_s: float = T_S) -> float:
        """Return the recovery time of one run [s]."""
        return self.found[Recovered(method, seed, rate, interval_s)]["recovery_s"]

    def kept_bytes(self, method: Method) -> float:
        """Return the most outputs that are kept at a time before the failure, mean over all seeds [B]."""
        return EVENT * mean(self.found[Recovered(method, seed)]["kept"] for seed in range(self.seeds))

    def variant(self, method: Method, rate: int = 1000, interval_s: float = T_S) -> float:
        """Return the mean recovery time of a method in a variant [s]."""
        return mean(self.recovery(method, seed, rate, interval_s) for seed in range(self.few))

    def traffic(self, run: Traffic) -> Mapping[str, float]:
        """Return what was counted in a run."""
        return self.found[run]

    def added_bytes(self, method: Method) -> float:
        """Return what a method adds to the bytes of five minutes; of SPATE the acks alone, as the paper counts it."""
        if method == "SPATE":
            return self.found[ONE]["acks"] * ACK
        return self.found[Shipped(method)]["bytes"]

    def delay_s(self, method: Method, every_s: int = 5, parallelism: int = 1) -> float:
        """Return by how much a slice with a checkpoint or acks is later [s]."""
        return self.found[Delayed(method, every_s, parallelism)]["later_s"]

    def skewed(self, method: Method, words: bool) -> float:
        """Return the mean recovery time of one of two counters [s]."""
        return mean(self.found[Skewed(method, words, seed)]["recovery_s"] for seed in range(self.few))

    @property
    def share_of_words(self) -> float:
        """Return the share of the words that the counter had that was lost."""
        return self.found[Skewed(SKEWED[0], True, 0)]["share"]

    def tried(self, *runs: Piece) -> list[Piece]:
        """Return those of the runs that were made."""
        return [run for run in runs if run in self.found]


def by_interval(every_s: int) -> Traffic:
    """Return a run of single tasks at the rate of the paper's figure 11."""
    return Traffic(1, RATES[-1], every_s)


def by_tasks(parallelism: int) -> Traffic:
    """Return a run with so many records that each pair of tasks has some in a round."""
    return Traffic(parallelism, 10 + 3 * parallelism**2)


_MANY = by_tasks(30)
_HOP = Traffic(30, 30_000, hops=1)
ONE = Traffic(1, 1000)


def findings(runner: TaskRunner, *, quick: bool) -> Mapping[str, Finding]:
    """Return claim -> verdict."""
    return findings_of(results(runner, quick=quick))


def results(runner: TaskRunner, *, quick: bool) -> Results:
    """Return all runs."""
    seeds, few = (_QUICK_SEEDS, _QUICK_FEW) if quick else (_SEEDS, _FEW)
    pieces: list[Piece] = [*_counted(quick), *_timed(quick), *_recovered(seeds, few)]
    scaled, rescaled = scaled_pieces(few if quick else seeds, few), RESCALED[: 1 if quick else 2]
    everything = list(dict.fromkeys([*pieces, *scaled, *rescaled]))
    made = dict(zip(everything, runner.make("trimming and recovering", everything, _compile), strict=True))
    return Results(
        {run: made[run] for run in dict.fromkeys(pieces)},
        seeds,
        few,
        {run: made[run]["recovery_s"] for run in scaled},
        [made[run] for run in rescaled],
    )


def _counted(quick: bool) -> list[Piece]:
    """Return the runs of which messages and outputs are counted."""
    made: list[Piece] = [_MANY, ONE, *([] if quick else [_HOP])]
    made += [by_interval(every_s) for every_s in (TRIMS_S[::2] if quick else TRIMS_S)]
    made += [by_tasks(parallelism) for parallelism in (PARALLELISMS[::3] if quick else PARALLELISMS)]
    return [*made, *(Shipped(method) for method in PRINTED if method != "SPATE")]


def _timed(quick: bool) -> list[Piece]:
    """Return the runs that tell by how much tuples are later while nothing fails."""
    made: list[Piece] = [Delayed(method) for method in PRINTED]
    made += [Delayed("SPATE", every_s) for every_s in TRIMS_S]
    made += [Delayed("SPATE", parallelism=count) for count in (PARALLELISMS[::3] if quick else PARALLELISMS)]
    states = STATES_GB[-1:] if quick else STATES_GB
    return [*made, *(Paused(mode, size) for size in states for mode in ("synchronous", "asynchronous"))]


def _recovered(seeds: int, few: int) -> list[Piece]:
    """Return the runs in which a host dies."""
    made: list[Piece] = [Recovered(method, seed) for method in PRINTED for seed in range(seeds)]
    made += [Recovered("SPATE", seed, rate) for rate in RATES for seed in range(seeds)]
    for method in ORDER:
        made += [Recovered(method, seed, rate) for rate in RATES for seed in range(few)]
        made += [Recovered(method, seed, 1000, at) for at in INTERVALS_S for seed in range(few)]
    made += [Skewed(method, words, seed) for method in SKEWED for words in (False, True) for seed in range(few)]
    return made


def _compile(on_compile: Callable[[float], None]) -> None:
    prepare(ONE.scenario(), RunInputs(), on_compile)


def findings_of(found: Results) -> dict[str, Finding]:
    """Return claim -> verdict, from the runs."""
    verdicts = {**_identities(found), **_trends(found), **_delays(found), **_recoveries(found)}
    verdicts |= findings_after_scale_up(found.scaled)
    verdicts["g2-spikes"] = spikes(*found.rescaled)
    return said_of_few(verdicts, found.seeds, _SEEDS)


# -- counted messages


def _identities(found: Results) -> dict[str, Finding]:
    many, one = found.traffic(_MANY), found.traffic(ONE)
    acks, alone = many["acks"] * ACK / MIB, one["acks"] * ACK / MIB
    data = one["records"] * EVENT / MIB
    each = one["acks"] * 5 / PERIOD_S
    made = {
        "ack-traffic-30": Finding(f"{acks:.3f} ({many['acks']:,} acks)", abs(acks - 4.94) <= 0.005, value=acks),
        "data-traffic": Finding(f"{data:.2f} ({one['records']:,} records)", abs(data - 147.63) <= 0.05, value=data),
        "ack-traffic-1": Finding(
            f"{alone:.4f}, {each:.0f} acks per cycle, one for each hop; with a fourth link {alone * 4 / 3:.4f}",
            0.005 <= alone <= 0.0075,
            value=alone,
        ),
        "traffic-order": _ordered_traffic(found, data),
    }
    if found.tried(_HOP):
        hop = found.traffic(_HOP)["records"] * EVENT
        share = many["acks"] * ACK / hop
        made["ack-ratio"] = Finding(
            f"{share:.6f}, {many['acks']:,} acks beside {hop / MIB:,.1f} MiB of one hop",
            abs(share - 0.00335) <= 0.00001,
            value=share,
        )
    return made


def _ordered_traffic(found: Results, data: float) -> Finding:
    """Return the claim on what methods add; the paper leaves SPATE's checkpoints out."""
    order: tuple[Method, ...] = ("AR", *ORDER)
    sizes = [found.added_bytes(method) / MIB for method in order]
    none = max(found.added_bytes(method) for method in ("UB", "SB")) / MIB
    told = ", ".join(f"{method} {display.number(size, 4)}" for method, size in zip(order, sizes, strict=True))
    saved = found.added_bytes("R+SM") / MIB + sizes[-1]
    return Finding(
        f"{told}, UB and SB {display.number(none, 1)} MiB; SPATE without its checkpoints, as in the paper, and "
        f"{saved:.2f} if they write what R+SM's do; the order of SC and R+SM follows from fitted shares of the input",
        _rises(sizes[::-1]) and none < 0.001 * data,
    )


def _trends(found: Results) -> dict[str, Finding]:
    trims = [every_s for every_s in TRIMS_S if found.tried(by_interval(every_s))]
    by_time = [found.traffic(by_interval(every_s))["acks"] * every_s for every_s in trims]
    counts = [count for count in PARALLELISMS if found.tried(by_tasks(count))]
    each = [found.traffic(by_tasks(count))["acks"] / count**2 for count in counts]
    falls, rises = (max(own) / min(own) - 1 <= 0.01 for own in (by_time, each))
    kept = [found.traffic(by_interval(every_s))["kept"] / MIB for every_s in trims]
    slice_mib = RATES[-1] * EVENT / MIB
    lags = [size / slice_mib - every_s for size, every_s in zip(kept, trims, strict=True)]
    within = all(0 <= lag <= 1 for lag in lags)
    return {
        "traffic-tau": Finding(
            f"acks x interval {min(by_time):,} to {max(by_time):,} at 1 to 5 s; acks / tasks^2 {min(each):.1f} to "
            f"{max(each):.1f} at 1 to 30 tasks",
            falls and rises,
        ),
        "queue-interval": Finding(
            f"{', '.join(f'{size:.2f}' for size in kept)} MiB at 1 to 5 s: the interval and {min(lags):.1f} to "
            f"{max(lags):.1f} slices",
            within and falls,
        ),
    }


# -- while nothing fails


def _delays(found: Results) -> dict[str, Finding]:
    later = {method: found.delay_s(method) * 1e3 for method in PRINTED}
    ordered = _rises([later[method] for method in reversed(ORDER)]) and later["SC"] >= 2 * later["SPATE"]
    by_trim = [found.delay_s("SPATE", every_s) * 1e3 for every_s in TRIMS_S]
    near = all(abs(own - PRINTED_DELAYS_S[at] * 1e3) <= 20 for own, at in zip(by_trim, TRIMS_S, strict=True))
    slow, fast = (found.found[Paused(mode)] for mode in ("synchronous", "asynchronous"))
    ratio = slow["paused_s"] / fast["paused_s"]
    return {
        "latency-order": Finding(
            ", ".join(f"{method} {later[method]:.0f}" for method in ("UB", "SB", *ORDER))
            + " ms by the slice that is checkpointed; to keep outputs costs nothing here; the order follows from "
            "fitted pauses",
            ordered and max(later["UB"], later["SB"]) < 60,
        ),
        "table-8": Finding(
            f"{', '.join(f'{own:.0f}' for own in by_trim)} ms, mean {mean(by_trim):.0f}",
            near and abs(mean(by_trim) - 42) <= 10,
            value=mean(by_trim),
        ),
        "state-2gb": Finding(
            f"+{slow['paused_s']:.2f} s and +{fast['paused_s']:.2f} s, {slow['checkpoints']:.0f} checkpoints each; "
            "the ratio follows from fitted pauses, which are the input",
            abs(ratio - 4) <= 1,
            value=ratio,
        ),
    }


# -- recoveries


def _recoveries(found: Results) -> dict[str, Finding]:
    claims: dict[str, Method] = {
        "recovery-ub": "UB",
        "recovery-sb": "SB",
        "recovery-sc": "SC",
        "recovery-rsm": "R+SM",
        "recovery-spate": "SPATE",
    }
    made = {}
    for claim, method in claims.items():
        own, printed = found.times(method), PRINTED[method][2]
        near = abs(mean(own) / printed - 1) <= 0.1
        cause = "" if near else _ROLLED_BACK if method == "SC" else "the fit does not carry it"
        made[claim] = Finding(f"{mean(own):.3f} s ({100 * (mean(own) / printed - 1):+.1f} %)", near, cause, mean(own))
    means = [mean(found.times(method)) for method in _ALL_ORDERED]
    made["recovery-order"] = Finding(
        " > ".join(f"{method} {own:.2f}" for method, own in zip(_ALL_ORDERED, means, strict=True)) + " s",
        _rises(means[::-1]),
    )
    replayed = sum(found.found[Recovered("AR", seed)]["replayed"] for seed in range(found.seeds))
    made["ar-recovery"] = Finding(
        f"{replayed:.0f} replayed in {found.seeds} failures; a tuple is answered again after "
        f"{1e3 * mean(found.times('AR')):.0f} ms, which is the detection",
        replayed == 0,
    )
    spread = [stdev(found.times("SPATE", rate)) * 1e3 for rate in RATES]
    near = all(abs(own / printed - 1) <= 0.5 for own, printed in zip(spread, (98, 117, 285), strict=True))
    made["recovery-sd"] = Finding(
        f"{', '.join(f'{own:.0f}' for own in spread)} ms", near and spread == sorted(spread), "" if near else "chance"
    )
    made["recovery-rate"] = _rates(found)
    return made


_ROLLED_BACK = (
    "the whole job is rolled back here, so that the splitter, which is slower than the counter, processes the interval "
    "once more"
)


def _rates(found: Results) -> Finding:
    """Return the claim on figures 13 and 14."""
    by_rate = {method: [found.variant(method, rate) for rate in RATES] for method in ORDER}
    by_time = {method: [found.variant(method, interval_s=at) for at in INTERVALS_S] for method in ORDER}
    rising = all(_rises(line) for lines in (by_rate, by_time) for line in lines.values())
    ordered = all(
        _rises(list(reversed(column)))
        for lines in (by_rate, by_time)
        for column in zip(*(lines[method] for method in ORDER), strict=True)
    )
    after = by_interval_scaled(found.scaled)
    told = "; ".join(f"{method} {', '.join(f'{at:.2f}' for at in by_time[method])}" for method in ORDER)
    later = "; ".join(f"{method} {', '.join(f'{at:.2f}' for at in line)}" for method, line in after.items())
    holds = rising and ordered and are_ordered(after)
    scaled_at = ", ".join(f"{at:.0f}" for at in SCALED_INTERVALS_S)
    return Finding(
        f"at 5, 10, 15, 20 s: {told} s; after a scale-up at {scaled_at} s: {later} s; R+SM and SPATE differ by "
        "SPATE's checkpoints at half the interval, fitted, and after a scale-up by the checkpoint taken with it",
        holds,
        "" if holds else "not in this order",
    )


def _rises(values: Sequence[float]) -> bool:
    return all(one < other for one, other in pairwise(values))
