"""Show the study of elastic upstream backup on the page of claims: curves, methods side by side, words of a text.

The paper's figure 12, of a delay over time, is a claim and no curve: what it shows are two short spikes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

import numpy as np

from analysis.report.parts import Chart
from models import display
from models.table import Column, Table
from scenarios.studies.reproduce.elastic_runs import ACK, METHODS, MIB, Delayed, Paused
from scenarios.studies.reproduce.elastic_scale_up import INTERVALS_S as SCALED_INTERVALS_S
from scenarios.studies.reproduce.elastic_scale_up import PRINTED as SCALED_PRINTED
from scenarios.studies.reproduce.elastic_scale_up import T_S as SCALED_T_S
from scenarios.studies.reproduce.elastic_scale_up import by_interval as by_scaled_interval
from scenarios.studies.reproduce.elastic_upstream_backup import (
    INTERVALS_S,
    ONE,
    ORDER,
    PARALLELISMS,
    PRINTED,
    PRINTED_DELAYS_S,
    RATES,
    SKEWED,
    STATES_GB,
    TRIMS_S,
    Results,
    by_interval,
    by_tasks,
)

_KIB = 1024


def elastic_charts(found: Results) -> tuple[Chart, ...]:
    """Return the curves of the paper's figures, with the numbers that its text and tables print as marks."""
    return (*_traffic(found), *_delays(found), *_queue(found), *_recoveries(found))


def _traffic(found: Results) -> tuple[Chart, ...]:
    trims = [every_s for every_s in TRIMS_S if found.tried(by_interval(every_s))]
    counts = [count for count in PARALLELISMS if found.tried(by_tasks(count))]
    by_time = [found.traffic(by_interval(every_s))["acks"] * ACK / _KIB for every_s in trims]
    by_count = [found.traffic(by_tasks(count))["acks"] * ACK / MIB for count in counts]
    return (
        _chart(
            "figure-9a",
            "Acks by the trimming interval (the paper's figure 9a)",
            ("trimming interval", "s"),
            ("acks in five minutes", "KiB"),
            trims,
            {"one task for each operator": by_time},
            caption="The paper's curve falls. Here it is inverse to the interval: three acks in each round.",
        ),
        _chart(
            "figure-9b",
            "Acks by the tasks of each operator (figure 9b)",
            ("tasks of each operator", ""),
            ("acks in five minutes", "MiB"),
            counts,
            {"a round each 5 s": by_count},
            {"a round each 5 s": {30: 4.94}},
            "The paper's curve rises. Here it is the square: each pair of tasks has an ack in each round.",
        ),
    )


def _delays(found: Results) -> tuple[Chart, ...]:
    counts = [count for count in PARALLELISMS if found.tried(Delayed("SPATE", parallelism=count))]
    states = [size for size in STATES_GB if found.tried(Paused("synchronous", size))]
    pauses = {
        mode: [
            found.found[Paused(mode, size)]["paused_s"] / found.found[Paused(mode, size)]["checkpoints"]
            for size in states
        ]
        for mode in ("synchronous", "asynchronous")
    }
    later = "a slice is later by"
    return (
        _chart(
            "table-8",
            "How much later a slice is, by the trimming interval (table 8)",
            ("trimming interval", "s"),
            (later, "ms"),
            TRIMS_S,
            {"SPATE": [1e3 * found.delay_s("SPATE", every_s) for every_s in TRIMS_S]},
            {"SPATE": {at: 1e3 * printed for at, printed in PRINTED_DELAYS_S.items()}},
            "24 ms of acks and 5.4 ms for each second that a checkpoint has to write, fitted to table 9. The printed "
            "numbers show no trend that five points could prove.",
            digits=1,
        ),
        _chart(
            "figure-10a",
            "The same, by the tasks of each operator (figure 10)",
            ("tasks of each operator", ""),
            (later, "s"),
            counts,
            {"SPATE": [found.delay_s("SPATE", parallelism=count) for count in counts]},
            {"SPATE": {1: PRINTED["SPATE"][1]}},
            "The paper has less than a second at 30 tasks. Here an ack takes 12 ms of each of its two tasks.",
            digits=3,
        ),
        _chart(
            "figure-10b",
            "Pause of a checkpoint, by the size of the state (figure 10)",
            ("state", "GB"),
            ("pause", "s"),
            states,
            pauses,
            {"synchronous": {2.0: 0.2}, "asynchronous": {2.0: 0.05}},
            "Fitted: the paper has ten checkpoints of 2 GB cost 2 s and 0.5 s.",
            digits=3,
        ),
    )


def _queue(found: Results) -> tuple[Chart, ...]:
    trims = [every_s for every_s in TRIMS_S if found.tried(by_interval(every_s))]
    kept = [found.traffic(by_interval(every_s))["kept"] / MIB for every_s in trims]
    return (
        _chart(
            "figure-11",
            "Output queue of the source, by the trimming interval (figure 11)",
            ("trimming interval", "s"),
            ("kept at most", "MiB"),
            trims,
            {"2,000 events/s": kept},
            caption="The paper's curve rises while the traffic of figure 9a falls. Here the queue holds what came in "
            "an interval; an ack that is late by a slice, as the paper's, would add a second.",
        ),
    )


def _recoveries(found: Results) -> tuple[Chart, ...]:
    table_9 = {method: PRINTED[method][2] for method in ORDER}
    return (
        _chart(
            "figure-13a",
            "Recovery by the rate (figure 13a)",
            ("rate", "events/s"),
            ("recovery", "s"),
            RATES,
            {method: [found.variant(method, rate) for rate in RATES] for method in ORDER},
            {method: {1000: printed} for method, printed in table_9.items()},
            f"Means of {found.few} seeds, checkpoints each 5 s; half of it with SPATE. The paper's curves rise in the "
            "same order. Four constants were fitted to table 9.",
        ),
        _chart(
            "figure-13b",
            "Recovery by the checkpoint interval (figure 13b)",
            ("checkpoint interval", "s"),
            ("recovery", "s"),
            INTERVALS_S,
            {method: [found.variant(method, interval_s=at) for at in INTERVALS_S] for method in ORDER},
            {method: {5.0: printed} for method, printed in table_9.items()},
            f"Means of {found.few} seeds at 1,000 events/s. The paper's curves rise in the same order.",
        ),
        _chart(
            "figure-14",
            "Recovery after a scale-up by the checkpoint interval (figure 14)",
            ("checkpoint interval", "s"),
            ("recovery", "s"),
            SCALED_INTERVALS_S,
            by_scaled_interval(found.scaled),
            {method: {SCALED_T_S: printed} for method, (_, printed) in SCALED_PRINTED.items()},
            "Means of all seeds; the rate doubles to 2,000 events/s with the scale-up. The paper gives no "
            "interval for the numbers of table 9, which stand at 20 s here.",
        ),
    )


def _chart(
    name: str,
    title: str,
    x_axis: tuple[str, str],
    y_axis: tuple[str, str],
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    printed: Mapping[str, Mapping[float, float]] | None = None,
    caption: str = "",
    digits: int = 2,
) -> Chart:
    """Return a chart; `x_axis` and `y_axis` are (what, unit), `printed` has numbers of the paper by line and x."""
    marks = None
    if printed:
        marks = np.array([[printed.get(line, {}).get(at, np.nan) for at in x] for line in lines])
    values = np.array([*lines.values()], float)
    at = np.array(x, float)
    return Chart(
        name,
        title,
        x_axis[0],
        y_axis[0],
        y_axis[1],
        at,
        (*lines,),
        values,
        caption + (" Rings are numbers that the paper prints." if printed else ""),
        marks,
        "printed in the paper",
        x_axis[1],
        digits,
        from_zero=True,
    )


def elastic_tables(found: Results) -> tuple[Table, ...]:
    """Return the methods side by side, as the paper's table 9 has them, and words of a text beside even keys."""
    return methods_table(found), skew_table(found)


def methods_table(found: Results) -> Table:
    """Return what each method adds while nothing fails, and how long it takes after a failure."""
    columns = (
        Column("method", number=False),
        Column("fault_tolerance.method", number=False, wide=True),
        Column("adds MiB", _two),
        Column("paper", _printed),
        Column("later by ms", "{:.0f}".format),
        Column("paper", _printed),
        Column("keeps MB", "{:.2f}".format, wide=True),
        Column("recovery s", _two),
        Column("paper", _printed),
    )
    rows = tuple(
        (
            method,
            METHODS[method],
            found.added_bytes(method) / MIB,
            printed[0],
            1e3 * found.delay_s(method),
            1e3 * printed[1],
            found.kept_bytes(method) / 1e6,
            mean(found.times(method)),
            printed[2],
        )
        for method, printed in PRINTED.items()
    )
    note = (
        "Bytes of five minutes; delay of a slice with a checkpoint or acks; most outputs kept at a time before the "
        f"failure; recovery as the mean of {found.seeds} seeds. SPATE's bytes are those of acks alone. Constants are "
        "fitted to the paper's columns."
    )
    return Table("Methods side by side (the paper's table 9)", columns, rows, "methods", note)


def skew_table(found: Results) -> Table:
    """Return recoveries of one of two counters, of even keys and of words of a text."""
    columns = (
        Column("method", number=False),
        Column("even keys s", _two),
        Column("words s", _two),
        Column("longer by", "{:.1f} %".format),
    )
    rows = []
    for method in SKEWED:
        even, words = (found.skewed(method, of_words) for of_words in (False, True))
        rows.append((method, even, words, 100 * (words / even - 1)))
    note = (
        f"One of two counters dies, and two hosts divide its key groups; means of {found.few} seeds until all is "
        f"processed that was sent again. With words of a text it had {100 * found.share_of_words:.1f} % of them, and "
        "one of the two hosts gets more than the other."
    )
    return Table("Words of a text beside even keys", columns, tuple(rows), "skew", note)


def _two(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 or value == 0 else display.number(value, 1)


def _printed(value: float) -> str:
    return display.number(value, 5) if value else "~0"


def elastic_assumptions(found: Results) -> tuple[str, ...]:
    """Return the assumptions about what the paper leaves open."""
    one = found.traffic(ONE)
    return (
        "Services of the counter and the splitter, the restart with its jitter, what a rollback adds, pauses, costs of "
        "acks and written shares were fitted to the paper's tables 8 and 9.",
        "The host dies within half a second of the end of an interval, and a checkpoint can be used a second after it "
        "was taken. SPATE takes checkpoints and trims twice as often as the others.",
        f"Each of three hops has an ack in a round, {one['acks']:.0f} in five minutes; the paper's 0.007 MiB are four.",
        "Times run from the failure to the first tuple that is answered after it; detection takes 10 ms at most.",
        "Before a recovery after a scale-up the counter goes from one task to two, half an interval before a "
        "checkpoint is due. SPATE takes checkpoints with it. R+SM goes back to those before. SC goes back to one task "
        "as well and scales again: it is simulated with one task and the restart twice.",
        "The sentiment job runs at a tenth of the paper's rates, with thresholds of 70 and 20 % of the CPU. CPU and "
        "network share of figure 12 are left out.",
    )
