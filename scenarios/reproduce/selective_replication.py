"""The claims of "adaptive selective replication" (Grueneberger et al., 2013), each beside what comes out here.

Workloads are drawn from templates that are assumptions; each placement is evaluated exactly, and 1,000 runs, as the
paper made them, stand beside it. Variants of the assumptions show on which of them a claim hangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np

from scenarios.reproduce.claims import Finding
from scenarios.reproduce.query_workloads import (
    ALL,
    CHANCES,
    DRAWS,
    HALF,
    ONCE,
    SPARES,
    Point,
    Tried,
    Variant,
    try_workload,
)
from scenarios.reproduce.tasks import Desk

WORKLOADS = 40  # as the claims ask for, also when quick
_TOGETHER = 5  # workloads in one piece
_OTHERS = 20  # workloads of a variant
_AT = CHANCES.index(0.02)
_AT_MOST = CHANCES.index(0.03)

VARIANTS = (
    Variant("no slack for packing", slack=0.0),
    Variant("10 % slack for packing", slack=0.1),
    Variant("primaries on any host", primaries="scattered"),
    Variant("spare capacity on every host", reading="shared"),
    Variant("coloured replicas", placement="coloured"),
    Variant("selection by knapsack", selection="knapsack"),
    Variant("selection by queries", selection="queries"),
    Variant("templates equally likely", weights=(1.0,) * 6),
    Variant("no joins, no sequences", weights=(0.30, 0.23, 0.13, 0.0, 0.0, 0.0)),
    Variant("popularity uniform", popularity=0.0),
    Variant("popularity Zipf 1", popularity=1.0),
    Variant("12 streams", streams=12),
    Variant("costs not spread", spread=(1.0, 1.0)),
    Variant("largest load 0.5", largest=0.5),
    Variant("aggregations and joins at half the cost", dear_s=400e-6),
    Variant("aggregations and joins at a quarter", dear_s=200e-6),
)
_FEW = {"selection by queries": 4}  # workloads where a solver makes each dear


@dataclass(frozen=True)
class Workloads:
    """Some workloads of a variant; a piece of the study."""

    variant: Variant
    seeds: tuple[int, int]
    whole: bool

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return "queries-" + "".join(c if c.isalnum() else "-" for c in self.variant.name) + f"-{self.seeds[0]}"

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        each = 11.0 if self.variant.selection == "queries" else 0.6 if self.variant.placement == "coloured" else 0.2
        return (self.seeds[1] - self.seeds[0]) * each * (2 if self.whole else 1)

    def run(self) -> Any:
        """A document for each workload."""
        return [_document(try_workload(self.variant, seed, whole=self.whole)) for seed in range(*self.seeds)]


def _document(found: Tried) -> dict[str, Any]:
    points = [[policy, spare, asdict(point)] for (policy, spare), point in found.points.items()]
    return {
        "queries": found.queries,
        "operators": found.operators,
        "hosts": found.hosts,
        "hosts_per_query": found.hosts_per_query,
        "alike": found.alike,
        "points": points,
    }


def _tried(document: Mapping[str, Any]) -> Tried:
    points = {
        (policy, spare): Point(tuple(one["exact"]), tuple(one["runs"]), one["replicated"], one["left_out"])
        for policy, spare, one in document["points"]
    }
    sizes = {name: document[name] for name in ("queries", "operators", "hosts", "hosts_per_query", "alike")}
    return Tried(points=points, **sizes)


@dataclass(frozen=True)
class Results:
    """All workloads of the assumptions that the study is about, and those of the variants."""

    base: Sequence[Tried]
    variants: Mapping[str, Sequence[Tried]]


def results(desk: Desk, *, quick: bool) -> Results:
    """What the pieces came to; `quick` leaves out the variants and most points of the figures."""
    base = Variant()
    pieces = _pieces(base, WORKLOADS, whole=not quick)
    others = [] if quick else [piece for one in VARIANTS for piece in _pieces(one, _FEW.get(one.name, _OTHERS))]
    made = desk.make("queries with replicas", [*pieces, *others])
    by_variant: dict[str, list[Tried]] = {}
    for piece, found in zip([*pieces, *others], made, strict=True):
        by_variant.setdefault(piece.variant.name, []).extend(map(_tried, found))
    return Results(by_variant.pop(base.name), by_variant)


def _pieces(variant: Variant, workloads: int, *, whole: bool = False) -> list[Workloads]:
    return [
        Workloads(variant, (first, min(first + _TOGETHER, workloads)), whole)
        for first in range(0, workloads, _TOGETHER)
    ]


# -- claims


def findings_of(found: Results) -> dict[str, Finding]:
    """Claim -> what came out, and with which variants the verdict is another."""
    made = verdicts(found.base)
    others = {name: verdicts(tried) for name, tried in found.variants.items()}
    return {claim: _with_variants(claim, finding, others) for claim, finding in made.items()}


def _with_variants(claim: str, finding: Finding, others: Mapping[str, Mapping[str, Finding]]) -> Finding:
    apart = [name for name, made in others.items() if made[claim].holds != finding.holds]
    if not others:
        return finding
    word = "does not hold" if finding.holds else "holds"
    said = f"{word} with: {', '.join(apart)}" if apart else f"so with all {len(others)} variants of the assumptions"
    return Finding(finding.ours, finding.holds, f"{finding.cause}; {said}" if finding.cause else said)


def verdicts(tried: Sequence[Tried]) -> dict[str, Finding]:
    product, random = _mean(tried, "product", HALF), _mean(tried, "random", HALF)
    degree, low = _mean(tried, "degree", HALF), _mean(tried, "utilisation", HALF)
    lost = _mean(tried, "product", ALL, _AT_MOST) - _mean(tried, "product", HALF, _AT_MOST)
    share = fmean(one.points["product", HALF].replicated for one in tried)
    return {
        "qodlu": Finding(_said(tried, "product"), abs(product - 99.2) <= 0.2),
        "random": Finding(_said(tried, "random"), abs(random - 97.1) <= 0.6),
        "qod": Finding(_said(tried, "degree"), abs(degree - 98.8) <= 0.3),
        "lu": _low_utilisation(tried, low, product),
        "full-half": Finding(f"{lost:.2f}", abs(lost - 1.0) <= 0.3),
        "share": Finding(f"{share:.3f}", abs(share - 0.80) <= 0.06),
        "order": _order(tried),
        "monotone": _monotone(tried),
    }


def _low_utilisation(tried: Sequence[Tried], low: float, product: float) -> Finding:
    """Within its tolerance, and as far below the product as the paper says, to the same tolerance."""
    below = product - low
    holds = abs(low - 98.8) <= 0.2 and abs(below - 0.4) <= 0.2
    alike = 100 * fmean(one.alike for one in tried)
    cause = (
        f"both choose nearly the same: {alike:.1f} % of the operators that QOD*LU replicates LU replicates too, all "
        "light ones among them, and the few heavy ones that differ are in few queries"
    )
    return Finding(f"{_said(tried, 'utilisation')}; {below:.2f} below QOD*LU", holds, "" if holds else cause)


def _order(tried: Sequence[Tried]) -> Finding:
    """With random as the mean of several selections: the paper has a thousand runs of each experiment."""
    kept = sum(_is_ordered(one, "random") for one in tried)
    once = sum(_is_ordered(one, ONCE) for one in tried)
    holds = kept >= 0.95 * len(tried)
    ours = f"{kept} of {len(tried)} workloads, random as the mean of {DRAWS} selections ({once} with the first alone)"
    return Finding(ours, holds, "" if holds else "the order changes between workloads")


def _is_ordered(one: Tried, random: str) -> bool:
    order = (("product", 0), (random, HALF), ("degree", HALF), ("product", HALF), ("product", ALL))
    values = [one.points[key].exact[_AT] for key in order]
    return all(a < b for a, b in pairwise(values[:4])) and values[3] <= values[4]


def _monotone(tried: Sequence[Tried]) -> Finding:
    """Both in the mean over workloads: down with p for every curve, up with the spare capacity for every p."""
    curves = {key: [_mean(tried, *key, at) for at in range(len(CHANCES))] for key in tried[0].points}
    falls = all(a > b for values in curves.values() for a, b in pairwise(values))
    spares = sorted(spare for policy, spare in curves if policy == "product")
    rises = all(
        curves["product", a][at] < curves["product", b][at] for a, b in pairwise(spares) for at in range(len(CHANCES))
    )
    ours = (
        f"{'falls' if falls else 'does not fall'} with p, {'rises' if rises else 'does not rise'} with spare capacity"
    )
    return Finding(f"{ours} ({len(spares)} capacities)", falls and rises, "" if falls and rises else "see the curves")


def _mean(tried: Sequence[Tried], policy: str, spare: int, at: int = _AT) -> float:
    """The mean share of running queries [%] over the workloads."""
    return 100 * fmean(one.points[policy, spare].exact[at] for one in tried)


def _said(tried: Sequence[Tried], policy: str) -> str:
    exact = [100 * one.points[policy, HALF].exact[_AT] for one in tried]
    runs = fmean(100 * one.points[policy, HALF].runs[_AT] for one in tried)
    spread = stdev(exact) if len(exact) > 1 else 0.0
    return f"{fmean(exact):.2f} (sd {spread:.2f} over {len(exact)} workloads; by 1,000 runs each {runs:.2f})"


# -- curves


FIGURE_4 = (
    ("all replicated", "product", ALL),
    ("QOD*LU, 50 %", "product", HALF),
    ("low utilisation, 50 %", "utilisation", HALF),
    ("query out degree, 50 %", "degree", HALF),
    ("random, 50 %", "random", HALF),
    ("exact gain of one replica, 50 %", "gain", HALF),
    ("none", "product", 0),
)


def curves(found: Results, chosen: Sequence[tuple[str, str, int]]) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(names, exact, by runs): shares of running queries [%] over 0 and CHANCES, (n, 1 + len(CHANCES)) each."""
    known = [(name, policy, spare) for name, policy, spare in chosen if (policy, spare) in found.base[0].points]
    exact = [
        [100 * fmean(t.points[p, s].exact[k] for t in found.base) for k in range(len(CHANCES))] for _, p, s in known
    ]
    runs = [[100 * fmean(t.points[p, s].runs[k] for t in found.base) for k in range(len(CHANCES))] for _, p, s in known]
    none = np.full((len(known), 1), 100.0)  # where no host fails, everything runs
    names = tuple(name for name, _, _ in known)
    return names, np.concatenate([none, exact], axis=1), np.concatenate([none, runs], axis=1)


def figure_5() -> list[tuple[str, str, int]]:
    """The curves of figure 5: the product at every spare capacity."""
    return [(f"{spare} %", "product", spare) for spare in reversed(SPARES)]
