"""Reconfigurations of operators from their rows: how long each took, and the latency of what was born meanwhile.

Latency comes in two kinds. That of a single tuple ends when a sink accepts it. That of the frontier ends when the
output frontier of the whole dataflow passes the end of the tuple's epoch: all of this epoch and of earlier ones has its
answer, so one task that waits delays everybody. The harness of "Megaphone" (Hoffmann et al., VLDB 2019) measures the
second: it feeds its input by the millisecond, and counts from the time of each record. (There, epochs grow while it
waits for an answer; here all have one length.) Tuples without an output do not hold the frontier here: the rows do not
say when those that were born at some time were applied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.runs.memory import host_memory
from analysis.runs.run_summary import Reconfiguration
from analysis.runs.timelines import Series
from analysis.statistics import quantiles, seconds
from models.records.tables import NEVER, RunRecords

EPOCH_NS = 1_000_000


def reconfigurations(records: Sequence[RunRecords]) -> tuple[Reconfiguration, ...]:
    """Return the reconfigurations of all replications, in the order in which they began.

    Latencies are None where single tuples are not recorded, or none was born meanwhile.
    """
    found = []
    for one in records:
        table = one.tables["reconfigurations"]
        numbers = np.unique(table["number"]).tolist()
        if not numbers:
            continue
        held, answered_ns = host_memory(one), epochs_answered_ns(one)
        for number in numbers:
            found.append(_reconfiguration(one, number, held, answered_ns))
    return tuple(found)


def _reconfiguration(one: RunRecords, number: int, held: Series, answered_ns: np.ndarray) -> Reconfiguration:
    table = one.tables["reconfigurations"]
    own = {name: column[table["number"] == number] for name, column in table.items()}
    done = own["installed_ns"] != NEVER
    from_ns, whole = int(own["from_ns"][0]), bool(done.all())
    begun = from_ns != NEVER
    cancelled_ns = int(own["cancelled_ns"][0])
    until_ns = int(own["installed_ns"][-1]) if whole else one.duration_ns if cancelled_ns == NEVER else cancelled_ns
    born_ns = (from_ns, until_ns) if begun else (0, 0)  # nothing is born meanwhile
    latency_max_s, latency_p99_s = _max_and_p99_s(latencies_of_born(one, *born_ns))
    frontier_max_s, frontier_p99_s = _max_and_p99_s(latencies_of_born(one, *born_ns, answered_ns))
    lengths = (own["installed_ns"] - own["from_ns"])[done]
    return Reconfiguration(
        replication=one.replication,
        operator=one.operators[int(own["operator"][0])],
        strategy=str(own["strategy"][0]),
        requested_s=seconds(int(own["requested_ns"][0])),
        begun_s=seconds(from_ns) if begun else None,
        steps=int((own["groups"] > 0).sum()),
        groups=int(own["groups"].sum()),
        bytes=int(own["bytes"].sum()),
        duration_s=seconds(until_ns - from_ns) if whole else None,
        longest_step_s=seconds(int(lengths.max())) if lengths.size else None,
        latency_max_s=latency_max_s,
        latency_p99_s=latency_p99_s,
        frontier_latency_max_s=frontier_max_s,
        frontier_latency_p99_s=frontier_p99_s,
        extra_bytes=_extra_bytes(held, from_ns, until_ns) if whole else None,
        steps_over=int(done.sum()),
        lost_groups=int(own["lost_groups"].sum()),
        lost_bytes=int(own["lost_bytes"].sum()),
        cancelled_s=None if cancelled_ns == NEVER else seconds(cancelled_ns),
    )


def _extra_bytes(held: Series, from_ns: int, until_ns: int) -> int | None:
    """Return the most by which a host held more [B] than before and after; None where that is not known."""
    first, end = np.searchsorted(held.at_ns, (from_ns, until_ns), "right")
    if not first:
        return None
    values = held.values[:, first - 1 : end]
    return int((values.max(axis=1) - np.maximum(values[:, 0], values[:, -1])).max())


def _max_and_p99_s(latencies: np.ndarray) -> tuple[float | None, float | None]:
    """Return the greatest of latencies [ns] and their 99 % quantile; None where there are none."""
    if not latencies.size:
        return None, None
    return seconds(int(latencies.max())), seconds(quantiles(latencies, [0.99])[0])


def latencies_of_born(one: RunRecords, from_ns: int, until_ns: int, ended_ns: np.ndarray | None = None) -> np.ndarray:
    """Return the latencies [ns] of the tuples that were born between two instants; empty without rows of tuples.

    They end when the tuples were delivered, or at `ended_ns` (n_deliveries,), such as `epochs_answered_ns`.
    """
    if one.detail == "histograms":
        return np.zeros(0, np.int64)
    table = one.tables["deliveries"]
    born = (table["created_ns"] >= from_ns) & (table["created_ns"] < until_ns)
    ended_ns = table["delivered_ns"] if ended_ns is None else ended_ns
    found: np.ndarray = (ended_ns - table["created_ns"])[born]
    return found


def epochs_answered_ns(one: RunRecords, epoch_ns: int = EPOCH_NS) -> np.ndarray:
    """Return when the output frontier passed the end of the epoch of each delivered tuple [ns], (n_deliveries,).

    An epoch goes from a multiple of its length to the next. Its end is passed once all tuples that were born before it
    are delivered, those of earlier epochs included, and not before it is there: until then a younger one may come. What
    is not delivered by the end of the run counts for nothing. Empty without rows of tuples.
    """
    if one.detail == "histograms":
        return np.zeros(0, np.int64)
    created_ns, delivered_ns = (one.tables["deliveries"][name] for name in ("created_ns", "delivered_ns"))
    order = np.argsort(created_ns, kind="stable")
    latest_ns = np.maximum.accumulate(delivered_ns[order])
    end_ns = (created_ns // epoch_ns + 1) * epoch_ns
    # The last tuple that was born before the end: there is one, the tuple itself.
    last = np.searchsorted(created_ns[order], end_ns, "left") - 1
    answered_ns: np.ndarray = np.maximum(latest_ns[last], end_ns)
    return answered_ns
