"""The section about rebalances: the phases of each as bars, and input, output and latency around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analysis.report import lines, tables, text
from analysis.report.content import AroundRebalances
from analysis.report.figure import Figure, Section, Spec, header, plain_list, reading
from analysis.runs.run_summary import REBALANCE_PHASES, Rebalance
from analysis.runs.tables import rebalances_table

_MOST_BARS = 12
_MOST_ROWS = 240  # of numbers behind a figure
_ROOM = 1.3  # of the axis, times what has to be seen: the input after a pause would hide everything else
_COLOURS = dict(zip(REBALANCE_PHASES, ("c8", "c2", "c6", "c1", "c5", "c3"), strict=True))
_SAID = {
    "wait": "waits for an earlier one",
    "drain": "drain or capture",
    "command": "command",
    "start": "until the first INIT",
    "initialise": "first to last INIT",
    "settle": "until stable",
}
_MARKS = {  # attribute -> name, symbol, colour
    "restore_s": ("first output", "triangle-up", "var:--ink"),
    "caught_up_s": ("caught up", "diamond", "var:--c4"),
    "recovered_s": ("recovered", "square", "var:--crash"),
}
_MEANING = {
    "drain": "PREPARE and COMMIT: until the states, and what was captured, are saved",
    "restore": "until the first delivery at a sink after tasks were killed",
    "last INIT": "until the last subtask has its state again; then the sources go on",
    "caught up": "until the last delivery of a tuple that was born before the request",
    "recovered": "until the last delivery of a tuple that was emitted again",
    "stable": "until the first minute of which the mean rate of output is within 20 % of the expected one",
    "stable bins": "until the first minute in which all bins of 10 s are",
}


def rebalances_section(given: Sequence[Rebalance], around: AroundRebalances | None = None) -> Section | None:
    """Return the phases of each rebalance, and what went in and out meanwhile; None without any."""
    if not given:
        return None
    drawn = [figure for figure in (phases(given),) if figure is not None]
    if around is not None:
        own = [one for one in given if one.replication == around.flow.replication]
        made = (_flow(around, own), _latency(around, own), _replays(around, own)) if own else ()
        drawn += [figure for figure in made if figure is not None]
    listed = tables.cut(rebalances_table(given))
    words = "All tasks but those of the ends are killed and started elsewhere. Times count from the request."
    return Section(
        "rebalances",
        "Rebalances",
        "Rebalances",
        words,
        figures=tuple(drawn),
        tables=(listed,),
        definitions={head: said for head, said in _MEANING.items() if head in listed.heads},
    )


def phases(given: Sequence[Rebalance]) -> Figure | None:
    """Draw stacked bars of the phases of each rebalance, and marks of what the sinks saw; None where none has any.

    At most 12 are drawn. A phase that did not end has no bar.
    """
    known = [one for one in given if one.ends()][:_MOST_BARS]
    if not known:
        return None
    names = [_name(one, several=len({one.replication for one in known}) > 1) for one in known]
    ends = [{phase: (begin, end) for phase, begin, end in one.ends()} for one in known]
    data = [_bar(phase, names, [own.get(phase) for own in ends]) for phase in REBALANCE_PHASES]
    data = [bar for bar in data if any(bar["x"])]
    data += [_mark(names, [getattr(one, attribute) for one in known], *look) for attribute, look in _MARKS.items()]
    return Figure(
        name="rebalance-phases",
        title="Where the time of a rebalance goes",
        caption=_caption(known),
        data=[trace for trace in data if any(value is not None for value in trace["x"])],
        layout={
            "barmode": "stack",
            "xaxis": {"title": {"text": "time since the request [s]"}, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
        height=190 + 46 * len(known),
    )


def _name(one: Rebalance, *, several: bool) -> str:
    run = f", replication {one.replication}" if several else ""
    return f"{text.label(one.protocol, 20)}<br>{text.number(one.requested_s, 6)} s{run}"


def _bar(phase: str, names: list[str], spans: Sequence[tuple[float, float] | None]) -> Spec:
    lengths = [None if span is None else span[1] - span[0] for span in spans]
    took = reading("x", "s", [length or 0.0 for length in lengths])
    return {
        "type": "bar",
        "orientation": "h",
        "name": _SAID[phase],
        "y": names,
        "x": lengths,
        "width": 0.5,
        "marker": {"color": f"var:--{_COLOURS[phase]}"},
        "hovertemplate": f"%{{y}}<br>{_SAID[phase]}: {took}<extra></extra>",
    }


def _mark(names: list[str], at: Sequence[float | None], name: str, symbol: str, colour: str) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "y": names,
        "x": list(at),
        "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"color": "var:--card", "width": 1.5}},
        "hovertemplate": f"%{{y}}<br>{name}: {reading('x', 's', [when or 0.0 for when in at])}<extra></extra>",
        "cliponaxis": False,
    }


def _caption(known: Sequence[Rebalance]) -> str:
    """Return when the output came back at the latest, and when it was as before."""
    restored = [one.restore_s for one in known if one.restore_s is not None]
    stable = [one.stable_mean_s for one in known if one.stable_mean_s is not None]
    if not restored:
        return "No output came after tasks were killed."
    which = "" if len(known) == 1 else " at the latest"
    said = f"The first output came {text.seconds(max(restored))} after the request{which}"
    said += f", and was as before after {text.seconds(max(stable))}{which}." if stable else "."
    never = len(known) - len(stable)
    who = "It was" if len(known) == 1 else f"{never} of {len(known)} were"
    return said + (f" {who} not stable within the run." if never else "")


def _flow(around: AroundRebalances, given: Sequence[Rebalance]) -> Figure:
    """Draw what sources emit and sinks accept, with the phases shaded."""
    made = lines.lines(
        around.flow,
        (),
        name="rebalance-flow",
        title="Input and output around the rebalance" + "s" * (len(given) > 1),
        axis="tuples per second",
        unit="tuples/s",
        caption=_flow_caption(around),
        steps=True,
    )
    ends = [float(around.flow.at_s[0]), float(around.flow.at_s[-1])]
    expected = {
        "type": "scatter",
        "mode": "lines",
        "name": "expected output",
        "x": plain_list(np.array(ends)),
        "y": [around.expected_per_s] * 2,
        "line": {"color": "var:--soft", "width": 1.2, "dash": "dot"},
        "hoverinfo": "skip",
    }
    axis = {**made.layout["yaxis"], "range": [0, _top(around)]}
    made = replace(made, data=[*made.data, expected], layout={**made.layout, "yaxis": axis})
    return _shaded(made, given, ends)


def _line(around: AroundRebalances, name: str) -> np.ndarray:
    return np.asarray(dict(zip(around.flow.names, around.flow.values, strict=True))[name], dtype=np.float64)


def _top(around: AroundRebalances) -> float:
    """Return the end of the axis: above all of the output, and what is usual for the input."""
    return _ROOM * max(around.expected_per_s, float(_line(around, "output").max()), _usual_input(around))


def _usual_input(around: AroundRebalances) -> float:
    return float(np.median(_line(around, "input")))


def _flow_caption(around: AroundRebalances) -> str:
    output, given = float(_line(around, "output").max()), float(_line(around, "input").max())
    said = f"The output reaches {text.number(output)} tuples/s; {text.number(around.expected_per_s)} are expected."
    if given > _top(around):
        said += (
            f" What waited at the sources comes at once when they go on: {text.number(given)} tuples/s, cut off here."
        )
    return f"{said} Replication {around.flow.replication}."


def _replays(around: AroundRebalances, given: Sequence[Rebalance]) -> Figure | None:
    """Draw how many tuples were emitted again, and when; None where none was."""
    at_s, counts = around.replayed
    if not counts.any():
        return None
    most = int(counts.argmax())
    ends = [float(around.flow.at_s[0]), float(around.flow.at_s[-1])]
    bar = {
        "type": "bar",
        "name": "emitted again",
        "x": plain_list(at_s),
        "y": plain_list(counts),
        "width": (ends[1] - ends[0]) / 120,
        "marker": {"color": "var:--crash"},
        "hovertemplate": f"{reading('x', 's', at_s)}: {reading('y', 'tuples', counts)}<extra></extra>",
    }
    caption = (
        f"{text.number(int(counts.sum()))} tuples were not done in time, or had failed before, and were emitted again;"
        f" most of them {text.number(float(at_s[most]), 6)}\u00a0s after the start."
    )
    layout: Spec = {
        "xaxis": {"title": {"text": "time [s]"}},
        "yaxis": {"title": {"text": "tuples"}, "rangemode": "tozero"},
    }
    title = "Tuples that were emitted again"
    heads = ("at [s]", "tuples")
    rows = tuple(
        (text.number(at, 6), text.number(count)) for at, count in zip(at_s.tolist(), counts.tolist(), strict=True)
    )
    figure = Figure("rebalance-replays", title, caption, [bar], layout, 260, heads, rows[:_MOST_ROWS])
    return _shaded(figure, given, ends)


def _latency(around: AroundRebalances, given: Sequence[Rebalance]) -> Figure:
    """Draw latency over the same time."""
    made = lines.latency(around.latency, ())
    at = around.latency.at_s
    title = "Latency around the rebalance" + "s" * (len(given) > 1)
    ends = [float(around.flow.at_s[0]), float(around.flow.at_s[-1])] if not len(at) else [float(at[0]), float(at[-1])]
    return _shaded(replace(made, name="rebalance-latency", title=title), given, ends)


def _shaded(figure: Figure, given: Sequence[Rebalance], ends: Sequence[float]) -> Figure:
    """Return the figure with a line at each request, and a rectangle for each phase."""
    shapes: list[Spec] = []
    shown: dict[str, None] = {}
    whole = {"y0": 0, "y1": 1, "yref": "paper"}
    for one in given:
        at = one.requested_s
        line = {"color": "var:--ink", "width": 1.2, "dash": "dash"}
        shapes.append({"type": "line", "x0": at, "x1": at, **whole, "line": line})
        for phase, begin, end in one.ends():
            if end > begin and phase != "wait":  # which is that of an earlier one
                shown.setdefault(phase)
                shade = {"fillcolor": f"var:--{_COLOURS[phase]}", "opacity": 0.16, "line": {"width": 0}}
                shapes.append({"type": "rect", "x0": at + begin, "x1": at + end, **whole, "layer": "below", **shade})
    legend = tuple((_SAID[phase], _COLOURS[phase]) for phase in REBALANCE_PHASES if phase in shown)
    axis = {**figure.layout["xaxis"], "range": list(ends), "unifiedhovertitle": header("s")}
    return replace(figure, layout={**figure.layout, "xaxis": axis, "shapes": shapes}, shading=legend)
