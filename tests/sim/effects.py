"""What took effect in the run of a job of `full_jobs`: counts by the rows, and by the plain plane."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from sim.plain.link import FairLink
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plain.task import Task
from sim.plane_values import REMOTE


class Witness(PlainPlane):
    """The plain plane, and a count of what no row tells."""

    def __init__(self, *args: Any) -> None:
        self.effects: Counter[str] = Counter()
        super().__init__(*args)

    def emit(self, partition: Partition, *of: Any, **more: Any) -> None:
        """Note who makes outputs other than at a tuple."""
        if partition.operator.joins is not None:
            self.effects["a pair was joined"] += 1
        elif partition.operator.windows is not None:
            self.effects["a window ended"] += 1
        super().emit(partition, *of, **more)

    def emit_ticks(self, partition: Partition, upto: int) -> None:
        """Note timers that go off."""
        self.effects["a timer went off"] += max(0, upto - partition.time.ticks)
        super().emit_ticks(partition, upto)

    def transmit(self, origin: Task, task: Task, *args: Any, **keys: Any) -> None:
        """Note channels that share a link."""
        super().transmit(origin, task, *args, **keys)
        link = origin.host.link
        if isinstance(link, FairLink) and len(link.parcels) > 1:
            self.effects["channels shared a link"] += 1

    def notice(self, task: Task) -> None:
        """Note services that share a processor, and tasks that wait for a core."""
        host, processor = task.host, task.host.processor
        if processor and processor.shares_evenly and len(processor.services) > host.group.cores:
            self.effects["services shared a processor"] += 1
        if host.group.cpu == "shared" and not host.cores.free and any(one.head_ticket() for one in host.tasks):
            self.effects["a task waited for a core"] += 1
        super().notice(task)

    def speed(self, host: int, share: float) -> None:
        """Note shares that others take."""
        self.effects["others took a part of a CPU"] += share > 0
        super().speed(host, share)


def effects_of_rows(made: Scenario, records: RunRecords) -> Counter[str]:
    """Count what the rows of a run tell."""
    tables, found = records.tables, Counter[str]()
    moves = tables["migrations"]
    for protocol, cause, completed in zip(moves["protocol"], moves["cause"], moves["completed_ns"], strict=True):
        if completed == NEVER:
            found["a move was not completed"] += 1
        else:
            found[f"a key group moved by {protocol}"] += 1
            found[f"a key group moved because of {cause}"] += 1
    found["an operator was rescaled"] = len(tables["rescales"]["before"])
    found["a host was acquired"] = int((tables["hosts_in_use"]["from_ns"] > 0).sum())
    found["a checkpoint was allocated elsewhere"] = int(tables["maintenance"]["stored"].sum())
    for what in ("took over", "lost", "called off"):
        found[f"a replica {what}"] = int((tables["replicas"]["end"] == what).sum())
    found["a replica was renewed"] = int((tables["replicas"]["why"] == "renewed").sum())
    for cause in ("crash", "suspicion"):
        found[f"a host failed by {cause}"] = int((tables["failures"]["cause"] == cause).sum())
    found["a key group was restored"] = len(tables["recoveries"]["target"])
    found["a full queue held a sender"] = int((tables["buffers"]["blocked_ns"] > 0).sum())
    found["a checkpoint was stored"] = int((tables["checkpoints"]["stored_ns"] != NEVER).sum())
    found["the remote store took a checkpoint"] = int((tables["checkpoints"]["checkpoint_host"] == REMOTE).sum())
    if made.fault_tolerance.store == "remote":
        found["the remote store gave a checkpoint"] = int((tables["messages"]["kind"] == "restore").sum())
    found["a duplicate was dropped"] = int((tables["dropped"]["reason"] == "duplicate").sum())
    found["statistics were kept"] = len(tables["statistics"]["tuples"])
    return found + _of_visits(records)


def _of_visits(records: RunRecords) -> Counter[str]:
    """Count services of a pool that overlap, tuples that went to all of its tasks, and batches."""
    visits, found = records.tables["visits"], Counter[str]()
    own = visits["operator"] == records.operators.index("pool")
    rows = sorted(zip(*(visits[name][own].tolist() for name in ("task", "start_ns", "end_ns")), strict=True))
    for (task, _, end), (after, start, _) in pairwise(rows):
        found["threads of a pool worked at once"] += task == after and (end == NEVER or start < end)
    if len(set(visits["task"][own].tolist())) > 1:
        found["a tuple was broadcast"] = int(own.sum())
    at_source = visits["operator"] == records.operators.index("in")
    together = Counter(zip(visits["task"][at_source].tolist(), visits["arrival_ns"][at_source].tolist(), strict=True))
    found["a batch arrived"] = sum(count > 1 for count in together.values())
    return found
