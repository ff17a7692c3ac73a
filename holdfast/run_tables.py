"""Tables of a run's summary and of a study for the terminal; they fit 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from scenarios.study import Study


def seconds(value: float | None) -> str:
    """A time with three digits and a fitting unit."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}" if value < 1000 * factor else f"{value / factor:,.0f} {unit}"
    return f"{value * 1e9:.3g} ns" if value else "0"


def percent(value: float | None) -> str:
    """A share in percent."""
    return "-" if value is None else f"{100 * value:.1f} %"


def operators_table(summary: Mapping[str, Any]) -> Table:
    """One row per operator: tuples, wait, time in the operator, queue, utilisation."""
    table = _table("Operators", ("operator", "tuples", "wait mean", "wait p99", "sojourn p99", "queue", "busy"))
    for name, one in summary["operators"].items():
        table.add_row(
            _plain(name),
            f"{one['processed']:,}",
            seconds(one["wait_s"]["mean"]),
            seconds(one["wait_s"]["p99"]),
            seconds(one["sojourn_s"]["p99"]),
            "-" if one["queue_mean"] is None else f"{one['queue_mean']:.3g}",
            percent(one["utilisation"]),
        )
    return table


def latency_table(summary: Mapping[str, Any]) -> Table:
    """Latency from birth to sink."""
    latency = summary["latency_s"]
    columns = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
    table = _table(f"Latency, birth to sink ({latency['count']:,} tuples)", columns, first_left=False)
    table.add_row(*(seconds(latency[column]) for column in columns))
    return table


def recoveries_table(summary: Mapping[str, Any]) -> Table:
    """Phases of each recovery."""
    columns = ("host", "failed at", "detect", "restore", "replay", "catch up", "total")
    table = _table("Recoveries", columns)
    keys = ("detect_s", "restore_s", "replay_s", "catch_up_s", "total_s")
    for one in summary["recoveries"]:
        table.add_row(_plain(one["host"]), f"{one['failed_s']:.4g} s", *(seconds(one[key]) for key in keys))
    return table


def guarantee_line(summary: Mapping[str, Any]) -> str:
    """What was lost or duplicated, in one sentence."""
    counts = summary["guarantee"]
    if counts["lost"] is None:
        return "Nothing was delivered that could be checked."
    return (
        f"Tuples at the sinks: {counts['lost']:,} lost, {counts['duplicated']:,} duplicated; "
        f"in state: {counts['state_lost']:,} lost, {counts['state_duplicated']:,} duplicated."
    )


def study_table(study: Study) -> Table:
    """One row per allocation method: proof, what it is worth on the profile, and what its run showed."""
    columns = ("method", "status", "objective", "gap", "useable", "assisted", "caught up", "p99")
    table = _table("Who holds the checkpoints", columns)
    for one in study.planned:
        summary = study.runs[one.method].summary
        totals = [recovery["total_s"] for recovery in summary["recoveries"]]
        table.add_row(
            one.method,
            str(one.plan.status),
            f"{one.plan.objective:.4g}",
            "-" if one.plan.gap is None else f"{100 * one.plan.gap:.2g} %",
            percent(one.useable.useable_share),
            percent(one.useable.assisted_share),
            seconds(None if None in totals or not totals else max(totals)),
            seconds(summary["latency_s"]["p99"]),
        )
    return table


def _table(title: str, columns: tuple[str, ...], *, first_left: bool = True) -> Table:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=Text(title), title_justify="left", title_style="bold", pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if first_left and k == 0 else "right", overflow="fold")
    return table


def _plain(name: str) -> Any:
    from rich.text import Text  # noqa: PLC0415

    return Text("".join(c for c in name if c.isprintable()))
