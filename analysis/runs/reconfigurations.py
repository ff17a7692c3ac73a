"""Reconfigurations of operators from their rows: how long each took, and the latency of what was born meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.runs.memory import host_memory
from analysis.runs.run_summary import Reconfiguration
from analysis.runs.timelines import Series
from analysis.statistics import quantiles, seconds
from models.records.tables import NEVER, RunRecords


def reconfigurations(records: Sequence[RunRecords]) -> tuple[Reconfiguration, ...]:
    """Return the reconfigurations of all replications, in the order in which they began.

    Latencies are None where single tuples are not recorded, or none was born meanwhile.
    """
    found = []
    for one in records:
        table = one.tables["reconfigurations"]
        held = host_memory(one)
        for number in np.unique(table["number"]).tolist():
            found.append(_reconfiguration(one, number, held))
    return tuple(found)


def _reconfiguration(one: RunRecords, number: int, held: Series) -> Reconfiguration:
    table = one.tables["reconfigurations"]
    own = {name: column[table["number"] == number] for name, column in table.items()}
    done = own["installed_ns"] != NEVER
    from_ns, whole = int(own["from_ns"][0]), bool(done.all())
    cancelled_ns = int(own["cancelled_ns"][0])
    until_ns = int(own["installed_ns"][-1]) if whole else one.duration_ns if cancelled_ns == NEVER else cancelled_ns
    latencies = latencies_of_born(one, from_ns, until_ns)
    lengths = (own["installed_ns"] - own["from_ns"])[done]
    return Reconfiguration(
        replication=one.replication,
        operator=one.operators[int(own["operator"][0])],
        strategy=str(own["strategy"][0]),
        requested_s=seconds(int(own["requested_ns"][0])),
        begun_s=seconds(from_ns),
        steps=done.size,
        groups=int(own["groups"].sum()),
        bytes=int(own["bytes"].sum()),
        duration_s=seconds(until_ns - from_ns) if whole else None,
        longest_step_s=seconds(int(lengths.max())) if lengths.size else None,
        latency_max_s=seconds(int(latencies.max())) if latencies.size else None,
        latency_p99_s=seconds(quantiles(latencies, [0.99])[0]) if latencies.size else None,
        extra_bytes=_extra_bytes(held, from_ns, until_ns) if whole else None,
        steps_over=int(done.sum()),
        cancelled_s=None if cancelled_ns == NEVER else seconds(cancelled_ns),
    )


def _extra_bytes(held: Series, from_ns: int, until_ns: int) -> int | None:
    """Return the most by which a host held more [B] than before and after; None where that is not known."""
    first, end = np.searchsorted(held.at_ns, (from_ns, until_ns), "right")
    if not first:
        return None
    values = held.values[:, first - 1 : end]
    return int((values.max(axis=1) - np.maximum(values[:, 0], values[:, -1])).max())


def latencies_of_born(one: RunRecords, from_ns: int, until_ns: int) -> np.ndarray:
    """Return the latencies [ns] of the tuples that were born between two instants; empty without rows of tuples."""
    if one.detail == "histograms":
        return np.zeros(0, np.int64)
    table = one.tables["deliveries"]
    born = (table["created_ns"] >= from_ns) & (table["created_ns"] < until_ns)
    found: np.ndarray = (table["delivered_ns"] - table["created_ns"])[born]
    return found
