"""Memory of hosts from the rows of `memory`: what all tasks of a host hold, over time and at the most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.runs.run_summary import HostMemory, Memory
from analysis.runs.timelines import Series
from analysis.statistics import seconds
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.topology.layout import hosts

PARTS = ("state_bytes", "queue_bytes", "kept_bytes", "sent_bytes", "received_bytes")


def memory(scenario: Scenario, records: Sequence[RunRecords]) -> Memory | None:
    """Return the most that each host held in any replication, and for how long it was above its memory.

    None where the scenario does not ask for it. Times above are the means of the replications.
    """
    if not scenario.recording.memory:
        return None
    found: dict[str, HostMemory] = {}
    lines = [(one, host_memory(one)) for one in records]
    for name, group in hosts(scenario).items():
        most, at_s, above_s = None, None, 0.0
        for one, line in lines:
            if name not in line.names or not line.at_ns.size:
                continue
            values = line.values[line.names.index(name)]
            first = int(values.argmax())
            if most is None or values[first] > most:
                most, at_s = int(values[first]), seconds(int(line.at_ns[first]))
            if group.memory_bytes is not None:
                lengths = np.diff(np.append(line.at_ns, one.duration_ns))
                above_s += seconds(int(lengths[values > group.memory_bytes].sum())) / len(lines)
        found[name] = HostMemory(most, at_s, group.memory_bytes, None if group.memory_bytes is None else above_s)
    peaks = [one.peak_bytes for one in found.values() if one.peak_bytes is not None]
    return Memory(max(peaks, default=None), found)


def host_memory(one: RunRecords) -> Series:
    """Return what the tasks of each host hold [B], from each instant of `memory` to the next.

    A task without a row at a sample is not there any more.
    """
    rows = one.tables["memory"]
    at_ns, when = np.unique(rows["at_ns"], return_inverse=True)
    sizes = np.stack([rows[part] for part in PARTS]).sum(axis=0, dtype=np.int64)
    change = np.zeros((len(one.hosts), at_ns.size), np.int64)
    # By task, in the order in which they were written, so that of two rows of one instant the later one holds.
    order = np.argsort(rows["task"], kind="stable")
    task, host, size, instant = (column[order] for column in (rows["task"], rows["host"], sizes, when))
    sampled = np.flatnonzero(np.isin(at_ns, one.tables["samples"]["at_ns"]))
    next_sample = np.append(sampled, at_ns.size)[np.searchsorted(sampled, instant, "right")]
    next_row = np.append(np.where(task[1:] == task[:-1], instant[1:], at_ns.size), at_ns.size)[: task.size]
    gone = next_row > next_sample
    followed = np.append(False, ((task[1:] == task[:-1]) & ~gone[:-1]))[: task.size]
    np.add.at(change, (host, instant), size - np.where(followed, np.roll(size, 1), 0))
    np.add.at(change, (host[gone], next_sample[gone]), -size[gone])
    return Series(one.hosts, at_ns, change.cumsum(axis=1))
