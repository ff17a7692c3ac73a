"""The section about checkpoints: whether they kept up with their interval, and what their uploads cost the records."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report import lines, tables, text
from analysis.report.content import Lines
from analysis.report.figure import Figure, Section
from analysis.report.lines_of_records import MOST_HOSTS
from analysis.runs.checkpoint_summary import Checkpoints, UploadDelay
from analysis.runs.recovery_summary import Recovery
from analysis.runs.tables import (
    batch_checkpoints_said,
    checkpoints_of_hosts,
    checkpoints_of_operators,
    job_checkpoints_said,
    record_delays,
)
from models.steady_state.checkpoint_traffic import LinkSharing

MEANING = {
    "late": "completed after the next one was due",
    "skipped": "due while the one before was under way: a key group or task has at most one checkpoint at a time",
    "longest without": "longest time of a key group or task between two completed ones, or to either end of the run",
}


def uploads_section(
    given: Checkpoints | None,
    sharing: LinkSharing,
    *,
    bounded: bool,
    over_time: Lines | None = None,
    recoveries: Sequence[Recovery] = (),
    host_order: Sequence[str] = (),
) -> Section | None:
    """Return whether checkpoints kept up, and what they cost the records; None where no checkpoint was due.

    `bounded` says whether a link has a bandwidth, `over_time` is the mean delay [ms] by host.

    `sharing` says by which model uploads and records share a link; the last sentence of the section names it, since
    delays depend on it.
    """
    if given is None:
        return None
    listed = [checkpoints_of_operators(given.operators)] if given.operators else []
    listed += [checkpoints_of_hosts(given.hosts)] if given.hosts else []
    listed += [record_delays(given.delayed)] if given.delayed else []
    some = given.delayed is not None and len(given.delayed.hosts) > MOST_HOSTS
    drawn = _over_time(over_time, some, recoveries, host_order) if over_time else None
    return Section(
        "uploads",
        "Checkpoints and their uploads",
        "Uploads",
        " ".join(_said(given, sharing, bounded)),
        figures=(drawn,) if drawn else (),
        tables=tuple(map(tables.cut, listed)),
        definitions=MEANING,
    )


def _over_time(given: Lines, some: bool, recoveries: Sequence[Recovery], host_order: Sequence[str]) -> Figure:
    """Return the figure of delays by host, of all or of some."""
    words = " Only the hosts whose uploads delayed records most." if some else ""
    return lines.lines(
        given,
        recoveries,
        name="delays",
        title="By how much uploads delayed records, mean of those delayed",
        axis="delay on the link [ms]",
        unit="ms",
        caption=f"{lines.highest(given, 'ms')}{words}",
        steps=True,
        order=host_order,
    )


def _said(given: Checkpoints, sharing: LinkSharing, bounded: bool) -> list[str]:
    """Return the sentences above the tables."""
    begun, late, skipped = given.begun, given.late, given.skipped
    many, word = ("Commits", "commit") if given.taken == "commits" else ("Checkpoints", "checkpoint")
    sentences = [f"{many} are due every {text.seconds(given.interval_s)}."]
    if given.job is not None:
        sentences = [job_checkpoints_said(given.job, given.interval_s)]
    elif given.taken == "batches":
        sentences = [batch_checkpoints_said(given)]
    elif late or skipped:
        sentences.append(
            f"They could not keep up: {late:,} of {begun:,} were late, and {skipped:,} were skipped. The longest time "
            f"without a completed one was {text.seconds(given.longest_between_s)}."
        )
    else:
        sentences.append(f"All {begun:,} kept up: none was late, none was skipped.")
    age = given.age_at_failure_s
    if age.mean is not None:
        sentences.append(
            f"When state was recovered its {word} was {text.seconds(age.mean)} old on average, "
            f"{text.seconds(age.max)} at most; what was processed since was replayed."
        )
    sentences.append(_delayed(given.delayed, sharing, bounded))
    return sentences


def _delayed(given: UploadDelay | None, sharing: LinkSharing, bounded: bool) -> str:
    """Return what uploads cost the records on the links."""
    if given is None:
        return "Uploads delayed no records." if bounded else "No link has a bandwidth: uploads delay no records."
    mean_s = sum(one.mean_s * one.records for one in given.hosts) / given.records
    return (
        f"Uploads delayed records: of {given.carried:,} records that these hosts sent, {given.records:,} left later "
        f"than over links without checkpoints, by {text.seconds(mean_s)} on average, "
        f"{text.seconds(given.max_s)} at most. "
        f"Sharing of links: {text.plain(sharing)}."
    )
