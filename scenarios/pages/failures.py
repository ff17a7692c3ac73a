"""The page of a failure log: how long hosts stay up and are repaired, beside the laws fitted to it.

The curves of up and repair times are Kaplan-Meier estimates (Kaplan and Meier, *Nonparametric Estimation from
Incomplete Observations*, Journal of the American Statistical Association 1958), which count lengths that were cut by
the window as longer than what was seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.failure_logs.lifetimes import LAWS, Fit, seen_survival, survival_of, verdict
from analysis.report.figure import SHARE, Figure, Section, Spec, header, long_time_ticks, plain_list
from analysis.report.page import Fact, Page
from analysis.report.tables import cut
from analysis.report.text import plain, styles
from models import display
from models.reliability.failure_log import CensoredDurations
from scenarios.pages.run import versions
from scenarios.reliability.failure_logs import FailureAnswer, document
from scenarios.reliability.failure_tables import hosts_table, laws_table

_POINTS = 300
_TINY = 1e-12  # chances below are not told apart
DOUBTFUL = 0.01  # p below which hosts are said to differ
_FIFTHS = {"tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1], "ticktext": [display.share(k / 5) for k in range(6)]}
_DASHES = ("dash", "dot", "dashdot", "longdash")
_ASSUMPTIONS = (
    "Hosts are watched in the window that the log or `--begin` and `--end` give; without these it begins with the "
    "first record and ends with the last.",
    "A host is as new when it begins to be watched, and after each repair.",
    "`p` is from a parametric bootstrap that draws the same hosts and windows, and fits again; all hosts have one law.",
    "The interval of the MTTF takes failures for a Poisson process.",
)


def failures_page(found: FailureAnswer, *, command: str = "") -> Page:
    """Return the page of a failure log.

    Laws stand by rising AIC, the best one marked. `p` is that of the bootstrap of `analysis.failure_logs.lifetimes`.
    Sections without a fitted law have no figure.
    """
    said = document(found, hosts=False)
    records, bad = said["records"], sum(said["records"]["bad"].values())
    up, repair = found.log.up_times(), found.log.repair_times()
    sections = [
        _laws("up", "Up times", "From being up until the failure.", up, found.up),
        _laws("repair", "Repair times", "From the failure until the host is up again.", repair, found.repair),
        Section("hosts", "Hosts", "Hosts", words=hosts_differ(found), tables=(cut(hosts_table(found.log)),)),
    ]
    low, high = found.mttf_interval_s
    return Page(
        title=f"Failures in {', '.join(found.files)}",
        question="How often do hosts fail, how long are they down, and by which laws?",
        facts=(
            Fact("watched", f"{said['window']['begin'][:10]} to {said['window']['end'][:10]}"),
            Fact("records used", f"{records['used']:,} of {records['read']:,}"),
            *((Fact("bad records", f"{bad:,}"),) if bad else ()),
            Fact("never failed", f"{said['hosts_without_failure']:,} of {said['hosts']:,} hosts"),
            *((Fact("causes", _causes(said["causes"])),) if set(said["causes"]) - {"not given"} else ()),
        ),
        headline=(
            Fact(
                "mean up time (MTTF)",
                display.duration(found.mttf_s),
                note=f"95 %: {display.between(low, high)}",
            ),
            Fact("mean repair (MTTR)", display.duration(found.mttr_s), note=_interval(said["mttr_interval_s"])),
            Fact("unavailability", display.share(found.unavailability), note=f"{_year(found.unavailability)} a year"),
            Fact(
                "failures",
                f"{found.log.failures:,}",
                note=f"{display.number(said['failures_per_host_year'])} a year and host",
            ),
        ),
        assumptions=_ASSUMPTIONS,
        versions=versions(),
        command=command,
        sections=[section for section in sections if section.figures or section.tables],
    )


def hosts_differ(found: FailureAnswer) -> str:
    """Return the sentence for hosts that do not fail alike; empty where nothing says so.

    The test is Pearson's chi-square of failures against up times. Below p = 1 % the page says that one MTTF for all
    hosts is a mean of unequal ones.
    """
    spread = found.spread
    if spread.p is None or spread.p >= DOUBTFUL:
        return ""
    chance = f"= {display.number(spread.p, 1)}" if spread.p >= _TINY else f"< {display.number(_TINY)}"
    return (
        f"Hosts differ: failures by host spread {display.number(spread.ratio)} times as much as they would with equal "
        f"hosts (p {chance}), so one MTTF for all is a mean, and its interval too narrow."
    )


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"95 %: {display.between(ends[0], ends[1])}"


def _year(share: float) -> str:
    return display.duration(share * 365.25 * 86_400)


def _causes(count: Mapping[str, int]) -> str:
    shown = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{plain(name)} {n:,}" for name, n in shown[:8])


def _laws(name: str, title: str, words: str, durations: CensoredDurations, laws: Sequence[Fit]) -> Section:
    if not laws:
        return Section(name, title, title, words=words)
    table = laws_table(f"{name}-laws", f"Laws of {title.lower()}", laws)
    return Section(name, title, title, words=words, figures=(_figure(name, title, durations, laws),), tables=(table,))


def _figure(name: str, title: str, durations: CensoredDurations, laws: Sequence[Fit]) -> Figure:
    """Return the share of times longer than each time: observed, and by every law."""
    at, seen = seen_survival(durations)
    chosen = np.unique(np.linspace(0, at.size - 1, min(at.size, _POINTS)).astype(int))
    at, seen = at[chosen], seen[chosen]
    curves = [(fit.law, survival_of(fit, at)) for fit in laws]
    data: list[Spec] = [_line("seen", at, seen, "var:--ink", "solid", "hv")]
    drawn = styles(LAWS)  # in their order, not by which fits best: on both figures a law has the same colour
    data += [_line(law, at, share, drawn[law].colour, _DASHES[LAWS.index(law)], "linear") for law, share in curves]
    layout: Spec = {
        "xaxis": {
            "title": {"text": "time (log scale)"},
            "type": "log",
            **long_time_ticks(),
            "unifiedhovertitle": header("s"),
        },
        "yaxis": {"title": {"text": "share that is longer"}, "range": [0, 1.02], **_FIFTHS},
        "hovermode": "x unified",
    }
    few = np.unique(np.linspace(0, at.size - 1, min(at.size, 24)).astype(int)).tolist()
    rows = tuple(
        (display.duration(float(at[k])), display.share(seen[k]), *(display.share(share[k]) for _, share in curves))
        for k in few
    )
    heads = ("longer than", "seen", *(law for law, _ in curves))
    return Figure(
        f"{name}-curve", f"{title}: which share is longer", verdict(title, laws), data, layout, 400, heads, rows
    )


def _line(name: str, at: np.ndarray, share: np.ndarray, colour: str, dash: str, shape: str) -> Spec:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": plain_list(at), "y": plain_list(share),
        "line": {"color": colour, "width": 2, "dash": dash, "shape": shape}, "hovertemplate": SHARE,
    }  # fmt: skip
