"""What a report says of checkpoints and their uploads, from the summary and the records of a run."""

from __future__ import annotations

from analysis.report.content import CheckpointCounts, Lines, RecordDelay, Uploads
from analysis.runs.checkpoints import delay_series
from analysis.runs.run_summary import HostCheckpoints, OperatorCheckpoints, RunSummary
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import link_sharing
from scenarios.pages.lines import interval_ns

_MOST_HOSTS = 8  # with a line


def uploads(scenario: Scenario, summary: RunSummary, first: RunRecords) -> Uploads | None:
    """Return what became of checkpoints in all replications, and delays over time in the first; None without any."""
    given = summary.checkpoints
    if given is None:
        return None
    delayed = given.delayed.hosts if given.delayed else ()
    return Uploads(
        interval_s=given.interval_s,
        longest_between_s=given.longest_between_s,
        age_mean_s=given.age_at_failure_s.mean,
        age_max_s=given.age_at_failure_s.max,
        operators=tuple(_counts(name, one) for name, one in given.operators.items()),
        hosts=tuple(_counts(one.host, one) for one in given.hosts),
        delayed=tuple(RecordDelay(one.host, one.carried, one.records, one.mean_s, one.max_s) for one in delayed),
        over_time=_over_time(first),
        sharing=str(link_sharing(scenario)),
        left_out=max(0, len(delayed) - _MOST_HOSTS),
        bounded=any(group.network_bytes_per_s is not None for group in scenario.hosts.values()),
    )


def _counts(name: str, one: OperatorCheckpoints | HostCheckpoints) -> CheckpointCounts:
    counts = {key: getattr(one, key) for key in ("begun", "completed", "late", "skipped")}
    return CheckpointCounts(name, **counts, longest_s=getattr(one, "longest_between_s", None))


def _over_time(first: RunRecords) -> Lines | None:
    """Return the mean delay [ms] of the records that were delayed in each interval, of the hosts with most delay."""
    series = delay_series(first, interval_ns(first), _MOST_HOSTS)
    if not series.names:
        return None
    return Lines(series.at_ns / 1e9, series.names, series.values * 1e3, first.replication)
