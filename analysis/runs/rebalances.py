"""Rebalances of whole dataflows from their rows: phases, when the output is as before, and what was lost.

The phases are those of Shukla and Simmhan (Toward Reliable and Rapid Elasticity for Streaming Dataflows on Clouds,
2017), and count from the request, unless it is said otherwise:
- `begun_s`: earlier rebalances were over, and the protocol began;
- `prepared_s`: the dataflow was drained, or captured; `drain_s`: length, from the begin until the last COMMIT was
  answered; `command_s`: length, from then (without waves: from the begin) until the tasks were killed;
- `killed_s`, `up_s`: the tasks were killed, and the last of their successors was started;
- `first_init_s`, `last_init_s`: the first and the last subtask was initialised; `unpause_s`: the last source went on;
  `over_s`: nothing was left to do;
- `restore_s`: first delivery at a sink from the first INIT on. What comes before left its task before the kill;
- `caught_up_s`: last delivery of a tuple that was born before the request;
- `recovered_s`: last delivery of a tuple after the time-out of its first attempt, so that it was emitted again; None
  without an acker, where none was, and where roots failed after that, or may have at the end. A tuple that waited so
  long at a source whose pending roots have a limit counts, too; one that was emitted again after a ROLLBACK, and was
  faster, does not;
- `stable_mean_s`: begin of the first minute from which the output stays within 20 % of the expected rate: the mean of
  this minute is, and that of each minute that begins before it ends; `stable_bins_s`: begin of the first minute of
  which each of the six bins of 10 s is. Minutes begin at whole intervals of the records (a second, where rows of tuples
  were kept), not before restore, last INIT and catch-up, and end before the next rebalance begins. One minute over the
  end of the outage and the backlog behind it may have the right mean by accident, so that it does not count alone.

The expected rate is what the sinks take in steady state (`models.steady_state.flow`), the mean over the run.

Records with histograms know deliveries by interval only. There a restore is the begin of its interval, and it is not
known which tuples are old or replayed: catch-up and recovery are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.runs.histograms import delivered_sums
from analysis.runs.run_summary import Rebalance
from analysis.runs.timelines import fitting_interval
from analysis.statistics import NS_PER_S, seconds
from models.records.histogram import Ints
from models.records.tables import NEVER, RunRecords, bucket_ns
from models.scenario.recovery_methods import Acker
from models.scenario.scenario import Scenario
from models.steady_state.flow import flows
from models.units import to_ns

_WITHIN = 0.2  # of the expected rate
_BIN_NS, _MINUTE_NS = 10 * NS_PER_S, 60 * NS_PER_S
_BY_THE_KILL = ("kill", "parcel")
_Row = Mapping[str, Any]


def rebalances(scenario: Scenario, records: Sequence[RunRecords]) -> tuple[Rebalance, ...]:
    """Return one entry for each rebalance that began, in the order of replications and beginnings."""
    return tuple(entry for one in records for entry in _of_replication(scenario, one))


def expected_per_s(scenario: Scenario) -> float:
    """Return the rate at which all sinks together take tuples in steady state, the mean over the run."""
    rates = flows(scenario)
    return sum(rates[name].rate_in.mean_per_s for name, own in scenario.operators.items() if own.kind == "sink")


def _of_replication(scenario: Scenario, one: RunRecords) -> list[Rebalance]:
    table = one.tables["rebalances"]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*(table[name].tolist() for name in table), strict=True)]
    if not rows:
        return []
    output = _Output.of(one, expected_per_s(scenario))
    begins = [*(row["begun_ns"] for row in rows[1:]), one.duration_ns]
    acker = scenario.fault_tolerance.acking
    return [_rebalance(one, row, until_ns, output, acker) for row, until_ns in zip(rows, begins, strict=True)]


def _rebalance(one: RunRecords, row: _Row, until_ns: int, output: _Output, acker: Acker | None) -> Rebalance:
    """Return the summary of one rebalance; what happens from `until_ns` on belongs to the next."""
    request = row["requested_ns"]

    def since(at_ns: int | None, begin_ns: int = request) -> float | None:
        return None if at_ns in (None, NEVER) or begin_ns == NEVER else seconds(at_ns - begin_ns)

    restored = _restored(one, row)
    caught_up = None if row["killed_ns"] == NEVER else _caught_up(one, request)
    settled = None
    if restored is not None and row["last_init_ns"] != NEVER:
        settled = max(restored, row["last_init_ns"], caught_up or 0)
    replays = None if acker is None else _replays(one, row["begun_ns"], until_ns)
    before_kill = row["begun_ns"] if row["committed_ns"] == NEVER else row["committed_ns"]
    return Rebalance(
        replication=one.replication,
        number=row["number"],
        protocol=row["protocol"],
        outcome=row["outcome"],
        requested_s=seconds(request),
        begun_s=since(row["begun_ns"]),
        prepared_s=since(row["prepared_ns"]),
        drain_s=since(row["committed_ns"], row["begun_ns"]),
        command_s=since(row["killed_ns"], before_kill),
        killed_s=since(row["killed_ns"]),
        up_s=since(row["up_ns"]),
        first_init_s=since(row["first_init_ns"]),
        restore_s=since(restored),
        last_init_s=since(row["last_init_ns"]),
        unpause_s=since(row["resumed_ns"]),
        over_s=since(row["over_ns"]),
        caught_up_s=since(caught_up),
        recovered_s=since(_recovered(one, acker, replays, until_ns)),
        stable_bins_s=since(output.stable_ns(settled, until_ns, _BIN_NS, range(0, _MINUTE_NS, _BIN_NS))),
        stable_mean_s=since(output.stable_ns(settled, until_ns, _MINUTE_NS, range(0, _MINUTE_NS, output.interval_ns))),
        subtasks=row["subtasks"],
        captured=row["captured"],
        lost=_lost(one, row["begun_ns"], until_ns),
        failed=None if replays is None else int(replays["count"][replays["cause"] == "rollback"].sum()),
        replayed=None if replays is None else int(replays["count"].sum()),
    )


def _restored(one: RunRecords, row: _Row) -> int | None:
    """Return the first delivery [ns] from the first INIT on; None where there was none."""
    first_init = row["first_init_ns"]
    if first_init == NEVER:
        return None
    if one.detail == "histograms":
        begins = one.tables["delivered"]["at_ns"]
        # Between the kill and the first INIT nothing is delivered, but an interval may have begun before the kill.
        found = begins[begins + bucket_ns(one.duration_ns) > max(first_init, row["killed_ns"])]
        return max(int(found.min()), first_init) if found.size else None
    at = one.tables["deliveries"]["delivered_ns"]
    found = at[at >= first_init]
    return int(found.min()) if found.size else None


def _caught_up(one: RunRecords, request_ns: int) -> int | None:
    """Return the last delivery [ns] of a tuple that was born before the request; None where none is known."""
    if one.detail == "histograms":
        return None
    rows = one.tables["deliveries"]
    at = rows["delivered_ns"][rows["created_ns"] < request_ns]
    return max(int(at.max()), request_ns) if at.size else None


def _replays(one: RunRecords, from_ns: int, until_ns: int) -> dict[str, np.ndarray]:
    """Return the rows of `replays` between two instants."""
    rows = one.tables["replays"]
    own = (rows["at_ns"] >= from_ns) & (rows["at_ns"] < until_ns)
    return {name: column[own] for name, column in rows.items()}


def _recovered(
    one: RunRecords, acker: Acker | None, replays: Mapping[str, np.ndarray] | None, until_ns: int
) -> int | None:
    """Return the last delivery [ns] of a tuple that was emitted again before an instant; None where it is not known."""
    if acker is None or replays is None or not replays["count"].any() or one.detail == "histograms":
        return None
    created, delivered = (one.tables["deliveries"][name] for name in ("created_ns", "delivered_ns"))
    timeout_ns, first_ns, last_ns = to_ns(acker.timeout_s), int(replays["at_ns"].min()), int(replays["at_ns"].max())
    rotating = acker.expiry == "rotating"
    if last_ns + timeout_ns * (1 + rotating) > one.duration_ns:
        return None  # what was emitted then may fail after the end of the run
    failed_ns = (created // timeout_ns + 2) * timeout_ns if rotating else created + timeout_ns
    again = delivered[(delivered > np.maximum(failed_ns, first_ns)) & (delivered < until_ns)]
    return int(again.max()) if again.size and again.max() > last_ns else None


def _lost(one: RunRecords, from_ns: int, until_ns: int) -> int:
    """Return the tuples that were dropped with killed tasks, or captured and never put back."""
    dropped = one.tables["dropped"]
    own = (dropped["at_ns"] >= from_ns) & (dropped["at_ns"] < until_ns)
    return int((own & np.isin(dropped["reason"], _BY_THE_KILL)).sum()) * one.resolution


@dataclass(frozen=True)
class _Output:
    """Deliveries before the begin of each interval (n_intervals + 1,), and the expected rate [1/s]."""

    interval_ns: int
    before: Ints
    expected_per_s: float

    @classmethod
    def of(cls, one: RunRecords, expected_per_s: float) -> _Output:
        """Return those of a replication."""
        interval_ns = fitting_interval(one, NS_PER_S)
        return cls(interval_ns, np.concatenate(([0], np.cumsum(_delivered(one, interval_ns)))), expected_per_s)

    def stable_ns(self, from_ns: int | None, until_ns: int, bin_ns: int, later_ns: range) -> int | None:
        """Return the first instant, between two, at which and so much later bins begin that have the expected rate.

        None where there is no such instant, and where intervals do not make a bin.
        """
        if from_ns is None or bin_ns % self.interval_ns:
            return None
        each = bin_ns // self.interval_ns
        wanted = self.expected_per_s * bin_ns / NS_PER_S
        fits = np.abs(self.before[each:] - self.before[:-each] - wanted) <= _WITHIN * wanted
        later = [at // self.interval_ns for at in later_ns]
        instants = min(fits.size - later[-1], until_ns // self.interval_ns - later[-1] - each + 1)
        if instants <= 0:
            return None
        stable = np.all([fits[k : k + instants] for k in later], axis=0)
        first = -(-from_ns // self.interval_ns)
        found = np.flatnonzero(stable[first:])
        return int(first + found[0]) * self.interval_ns if found.size else None


def _delivered(one: RunRecords, interval_ns: int) -> Ints:
    """Return the deliveries of each interval (n_intervals,)."""
    count = -(-one.duration_ns // interval_ns)
    if one.detail == "histograms":
        return delivered_sums(one, interval_ns, count)[0] * one.resolution
    interval = one.tables["deliveries"]["delivered_ns"] // interval_ns
    # What is accepted at the very end of the run belongs to its last interval.
    return np.bincount(np.minimum(interval, count - 1), minlength=count).astype(np.int64) * one.resolution
