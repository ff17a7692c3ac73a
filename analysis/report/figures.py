"""Figures of loads, correlations, allocations and phases of recovery.

Every function takes values of `analysis.report.content` or of a summary and returns a `Figure`. Captions say what the
data show, so that a page can be read without looking at its figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.report import text
from analysis.report.content import AllocationRow, Correlation, KeyGroupLoad
from analysis.report.figure import PHASES, Figure, Spec, fit, plain_list, plain_matrix, reading
from analysis.runs.recovery_summary import Recovery, shown_phases

_MOST_BINS, _MOST_GROUPS, _MOST_BARS = 400, 200, 12


def key_group_load(load: KeyGroupLoad, position: int) -> Figure:
    """Draw a heat map of the load of each key group over time; long series are drawn as means of several bins.

    `position` is the place of the stream among those of the page: it makes the name of the figure unique. At most 200
    rows and 400 columns are drawn; with more, a cell is the mean of a block, and the caption says of how many key
    groups and bins.
    """
    counts = np.asarray(load.counts, dtype=np.float64)
    shown, groups_each, bins_each = fit(counts, _MOST_GROUPS, _MOST_BINS)
    unit, size = _time_unit(load.bin_s * counts.shape[1])
    since = f" since {text.label(load.start)}" if load.start else ""
    colour = [[k / 4, f"var:--heat{k}"] for k in range(5)]
    many = reading("z", "tuples per bin", shown)
    trace = {
        "type": "heatmap",
        "z": plain_matrix(shown),
        "x": plain_list((np.arange(shown.shape[1]) + 0.5) * load.bin_s * bins_each / size),
        "y": plain_list(np.arange(shown.shape[0]) * groups_each),
        "colorscale": colour,
        "colorbar": {"title": {"text": "tuples per bin", "side": "right"}},
        "hovertemplate": f"key group %{{y}}, {reading('x', unit)}: {many}<extra></extra>",
    }
    return Figure(
        name=f"load-{position}",
        title=f"Load of the key groups of “{text.plain(load.stream)}” over time",
        caption=_load_caption(counts, load.bin_s, bins_each, groups_each),
        data=[trace],
        layout={
            "xaxis": {"title": {"text": f"time{since} [{unit}]"}},
            "yaxis": {"title": {"text": "key group"}},
        },
        height=360,
    )


def _load_caption(counts: np.ndarray, bin_s: float, bins_each: int, groups_each: int) -> str:
    """Return what a cell is the mean of, and how uneven the load is over groups and over time."""
    totals = counts.sum(axis=1)
    said = f"One bin is {text.seconds(bin_s)}"
    said += f"; a column is the mean of {bins_each} bins" if bins_each > 1 else ""
    said += f"; a row is the mean of {groups_each} key groups" if groups_each > 1 else ""
    if totals.sum() > 0:
        most = totals.max() / totals.mean()
        said += f". The busiest key group has {text.number(float(most))} times the mean load"
        whole = counts.sum(axis=0)
        said += f", the busiest bin {text.number(float(whole.max() / whole.mean()))} times."
        return said
    return said + "."


def correlation(given: Correlation) -> Figure:
    """Draw a heat map of pairwise correlations, from -1 to 1, with the streams as blocks."""
    values = np.asarray(given.values, dtype=np.float64)
    shown, each, _ = fit(values, _MOST_GROUPS, _MOST_GROUPS)
    edges = np.cumsum([0, *(size for _, size in given.blocks)]) / each
    lines: list[Spec] = []
    for edge in edges[1:-1].tolist():
        for way in ("x", "y"):
            other = "y" if way == "x" else "x"
            line = {f"{way}0": edge - 0.5, f"{way}1": edge - 0.5, f"{other}0": 0, f"{other}1": 1}
            lines.append({"type": "line", **line, f"{other}ref": "paper", "line": {"color": "var:--ink", "width": 1}})
    ticks = {
        "tickvals": plain_list((edges[:-1] + edges[1:] - 1) / 2),
        "ticktext": [text.label(name, 16) for name, _ in given.blocks],
        "title": {"text": "key group, by stream"},
    }
    trace = {
        "type": "heatmap",
        "z": plain_matrix(shown),
        "zmin": -1,
        "zmax": 1,
        "colorscale": [[k / 4, f"var:--cold{k}"] for k in range(5)],
        "colorbar": {"title": {"text": "correlation", "side": "right"}},
        "hovertemplate": "key groups %{y} and %{x}<br>correlation %{z:.2f}<extra></extra>",
    }
    return Figure(
        name="correlation",
        title="How the loads of two key groups move together",
        caption=_correlation_caption(values, each),
        data=[trace],
        layout={"xaxis": ticks, "yaxis": {**ticks, "autorange": "reversed"}, "shapes": lines},
        height=460,
    )


def _correlation_caption(values: np.ndarray, each: int) -> str:
    """Return the share of pairs that move against each other, and the mean correlation."""
    # Each pair once, and no series with itself: the diagonal of ones would raise the mean.
    pairs = values[np.triu_indices(len(values), 1)]
    said = f"Each cell is the mean of {each} × {each} pairs. " if each > 1 else ""
    if not pairs.size:
        return said.strip()
    return said + (
        f"{text.share(float((pairs < 0).mean()))} of the {text.number(int(pairs.size))} pairs move against "
        f"each other; the mean correlation is {text.number(float(pairs.mean()), 2)}."
    )


def allocation(rows: Sequence[AllocationRow]) -> Figure | None:
    """Draw bars of the share of usable and of assisted checkpoints by method; None where no share is known.

    Usable: the share of key groups on overloaded hosts that would fit where their checkpoint is. Assisted: the share of
    moves whose target held the checkpoint. Both are in [0, 1] in the rows, and drawn in per cent.
    """
    known = [row for row in rows if row.usable is not None or row.assisted is not None]
    if not known:
        return None
    names = [text.label(row.method, 24) for row in known]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": said,
            "y": names,
            "x": [_percent(getattr(row, key)) for row in known],
            "marker": {"color": f"var:--c{position + 1}"},
            "hovertemplate": "%{y}: %{x:.1f}\u00a0%<extra>" + said + "</extra>",
            "texttemplate": "%{x:.0f} %",
            "textposition": "auto",
        }
        for position, (key, said) in enumerate((("usable", "usable checkpoints"), ("assisted", "assisted moves")))
        if any(getattr(row, key) is not None for row in known)
    ]
    return Figure(
        name="allocation",
        title="Share of checkpoints that help, by method of allocation",
        caption=_allocation_caption(known),
        data=bars,
        layout={
            "barmode": "group",
            "xaxis": {"title": {"text": "share [%]"}, "range": [0, 101], "dtick": 20},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
        height=120 + 62 * len(known),
    )


def _allocation_caption(rows: Sequence[AllocationRow]) -> str:
    """Return which methods leave the most and the fewest checkpoints usable; empty for fewer than two."""
    shares = [(row.usable, row.method) for row in rows if row.usable is not None]
    if len(shares) < 2:
        return ""
    best, worst = max(shares), min(shares)
    if best[0] == worst[0]:
        return f"All methods leave {text.share(best[0])} of the checkpoints usable."
    named = [" and ".join(text.plain(method) for share, method in shares if share == end[0]) for end in (best, worst)]
    return (
        f"{text.share(best[0])} of the checkpoints are usable with {named[0]}, {text.share(worst[0])} with {named[1]}."
    )


def phases(recoveries: Sequence[Recovery]) -> Figure | None:
    """Draw stacked bars of the phases of each recovery that began; None when none has a phase that ended.

    The phases are those of `PHASES`, without allocation and restart where they take no time. A phase that did not end
    within the run has no bar. At most 12 recoveries are drawn, in the order that is given.
    """
    known = [one for one in recoveries if one.ends()][:_MOST_BARS]
    if not known:
        return None
    names = [
        f"{text.label(one.failed, 20)}<br>{text.number(one.failed_s, 6)} s, replication {one.replication}"
        for one in known
    ]
    took = reading("x", "s", [one.total_s or 0.0 for one in known])
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": said,
            "y": names,
            "x": [getattr(one, f"{phase}_s") for one in known],
            "marker": {"color": f"var:--phase-{phase}"},
            "hovertemplate": f"%{{y}}<br>{said}: {took}<extra></extra>",
        }
        for phase, said in _said(known).items()
    ]
    return Figure(
        name="phases",
        title="Where the time of a recovery goes",
        caption=_phases_caption(known),
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": {"title": {"text": "time since the failure [s]"}},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
        height=130 + 44 * len(known),
    )


def _said(known: Sequence[Recovery]) -> dict[str, str]:
    """Return the phases that are shown, and how they are named."""
    shown = shown_phases({phase: one.length_s(phase) for phase in PHASES} for one in known)
    return {phase: PHASES[phase] for phase in shown}


def _phases_caption(known: Sequence[Recovery]) -> str:
    sums = {said: sum(one.length_s(phase) or 0.0 for one in known) for phase, said in _said(known).items()}
    total = sum(sums.values())
    if total <= 0:
        return ""
    most = max(sums, key=lambda said: sums[said])
    return f'Of the time shown {text.share(sums[most] / total)} goes into the phase "{most}".'


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100


def _time_unit(length_s: float) -> tuple[str, float]:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if length_s >= 3 * size:
            return unit, size
    return "s", 1.0
