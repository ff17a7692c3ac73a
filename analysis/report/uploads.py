"""The section about checkpoints: whether they kept up with their interval, and what their uploads cost the records."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import lines, tables, text
from analysis.report.content import CheckpointCounts, Lines, RecordDelay, ReportContent, Uploads
from analysis.report.figure import Figure
from analysis.report.section import Section

MEANING = {
    "late": "completed after the next one was due",
    "skipped": "due while the one before was under way: a key group or task has at most one checkpoint at a time",
    "longest without": "longest time of a key group or task between two completed ones, or to either end of the run",
}


def uploads(content: ReportContent) -> Section | None:
    """Return the section, or None where no checkpoint was due."""
    given = content.uploads
    if given is None:
        return None
    tables_of = (_counts("operator", given.operators), _counts("host", given.hosts), _delays(given.delayed))
    drawn = _over_time(given.over_time, given.left_out, content) if given.over_time else None
    return Section(
        "uploads",
        "Checkpoints and their uploads",
        "Uploads",
        " ".join(_said(given)),
        figures=(drawn,) if drawn else (),
        tables=tuple(one for one in tables_of if one is not None),
        definitions=MEANING,
    )


def _over_time(given: Lines, left_out: int, content: ReportContent) -> Figure:
    """Return the figure of delays by host."""
    some = " Only the hosts whose uploads delayed records most." if left_out else ""
    return lines.lines(
        given,
        content.recoveries,
        name="delays",
        title="By how much uploads delayed records, mean of those delayed",
        axis="delay on the link [ms]",
        unit="ms",
        caption=f"{lines.highest(given, 'ms')}{some}",
        steps=True,
        order=content.host_order,
    )


def _said(given: Uploads) -> list[str]:
    """Return the sentences above the tables."""
    begun, late, skipped = (sum(getattr(one, name) for one in given.operators) for name in ("begun", "late", "skipped"))
    sentences = [f"Checkpoints are due every {text.seconds(given.interval_s)}."]
    if late or skipped:
        sentences.append(
            f"They could not keep up: {late:,} of {begun:,} were late, and {skipped:,} were skipped. The longest time "
            f"without a completed one was {text.seconds(given.longest_between_s)}."
        )
    else:
        sentences.append(f"All {begun:,} kept up: none was late, none was skipped.")
    if given.age_mean_s is not None:
        sentences.append(
            f"When state was recovered its checkpoint was {text.seconds(given.age_mean_s)} old on average, "
            f"{text.seconds(given.age_max_s)} at most; what was processed since was replayed."
        )
    sentences.append(_delayed(given))
    return sentences


def _delayed(given: Uploads) -> str:
    """Return what uploads cost the records on the links."""
    if not given.delayed:
        return "Uploads delayed no records." if given.bounded else "No link has a bandwidth: uploads delay no records."
    records, carried = (sum(getattr(one, name) for one in given.delayed) for name in ("records", "carried"))
    mean = sum(one.mean_s * one.records for one in given.delayed) / records
    most = max(one.max_s for one in given.delayed)
    return (
        f"Uploads delayed records: of {carried:,} records that these hosts sent, {records:,} left later than over "
        f"links without checkpoints, by {text.seconds(mean)} on average, {text.seconds(most)} at most. "
        f"Sharing of links: {text.plain(given.sharing)}."
    )


def _counts(kind: str, rows: Sequence[CheckpointCounts]) -> tables.Table | None:
    if not rows:
        return None
    longest = any(row.longest_s is not None for row in rows)
    cells = [
        (
            text.plain(row.name),
            *(f"{count:,}" for count in (row.begun, row.completed, row.late, row.skipped)),
            *((text.seconds(row.longest_s),) if longest else ()),
        )
        for row in rows
    ]
    heads = (kind, "begun", "completed", "late", "skipped", *(("longest without",) if longest else ()))
    return tables.cut_table(f"checkpoints-{kind}", f"Checkpoints by {kind}", heads, cells, words=1)


def _delays(rows: Sequence[RecordDelay]) -> tables.Table | None:
    if not rows:
        return None
    cells = [
        (
            text.plain(row.host),
            f"{row.carried:,}",
            f"{row.records:,}",
            text.seconds(row.mean_s),
            text.seconds(row.max_s),
        )
        for row in rows
    ]
    heads = ("host", "records sent", "delayed", "delay, mean", "delay, longest")
    return tables.cut_table("record-delays", "Records that uploads delayed", heads, cells, words=1)
