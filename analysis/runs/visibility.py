"""When what sinks deliver is visible, where they commit it with the checkpoint of the job that covers it.

A checkpoint covers what a task of a sink had delivered when its barrier came (table `pre_commits`). A tuple is visible
when the first checkpoint that covers it is complete. If that one is given up, the next one covers it: after a restart,
sources send it again before the barrier of any checkpoint, so it is delivered again before, and dropped as a duplicate
here. What other sinks deliver is visible at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.statistics import Times
from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario


def commits(scenario: Scenario) -> bool:
    """Return whether a sink commits with checkpoints of the job."""
    return any(operator.commit == "at-checkpoint" for operator in scenario.operators.values())


def visible_ns(scenario: Scenario, one: RunRecords) -> np.ndarray:
    """Return when each delivery was visible [ns], or NEVER, (n_deliveries,)."""
    rows = one.tables["deliveries"]
    found, tasks = np.array(rows["delivered_ns"]), _tasks(one)
    for index, name in enumerate(one.operators):
        if scenario.operators[name].commit == "at-checkpoint":
            for task in np.unique(tasks[rows["operator"] == index]).tolist():
                own = np.flatnonzero(tasks == task)
                found[own] = _committed(one, index, task, own)
    return found


def _tasks(one: RunRecords) -> np.ndarray:
    """Return the task of each delivery, (n_deliveries,).

    A sink accepts a tuple when it is processed there, so its visits that ended are in the same order.
    """
    visits, operators = one.tables["visits"], np.unique(one.tables["deliveries"]["operator"])
    ended = np.isin(visits["operator"], operators) & (visits["end_ns"] != NEVER)
    if not np.array_equal(visits["end_ns"][ended], one.tables["deliveries"]["delivered_ns"]):
        raise ValueError("visits of sinks and deliveries are not the same tuples")
    return np.asarray(visits["task"][ended])


def _committed(one: RunRecords, operator: int, task: int, numbers: np.ndarray) -> np.ndarray:
    """Return when the deliveries of a task of a sink with these numbers were committed [ns], or NEVER.

    A checkpoint in which the task had no part was begun before it was started, or after it had ended.
    """
    job, pre = one.tables["job_checkpoints"], one.tables["pre_commits"]
    counts, instants = list[int](), list[int]()
    for number in np.flatnonzero(job["completed_ns"] != NEVER).tolist():
        of_sink = (pre["number"] == number) & (pre["operator"] == operator)
        own = of_sink & (pre["task"] == task)
        counts.append(int(pre["deliveries"][own if own.any() else of_sink].min()))
        instants.append(int(job["completed_ns"][number]))
    # The first that had begun to cover more than this one.
    at = np.searchsorted(np.maximum.accumulate(np.array(counts, np.int64)), numbers, side="right")
    return np.array([*instants, NEVER], np.int64)[at]


def visible_times(
    scenario: Scenario, visible: Sequence[np.ndarray], records: Sequence[RunRecords]
) -> tuple[list[Times], list[Times], int]:
    """Return the times [ns] of tuples from source and from sink until they were visible, and how many never were.

    `visible` as `visible_ns` says. Tuples are those of the latency: created in the window of each replication.
    """
    latencies, delays, hidden = list[Times](), list[Times](), 0
    for one, at in zip(records, visible, strict=True):
        rows = one.tables["deliveries"]
        counts = (rows["created_ns"] >= one.warmup_ns) & (rows["created_ns"] < one.duration_ns)
        seen = counts & (at != NEVER)
        latencies.append(np.asarray((at - rows["created_ns"])[seen], np.int64))
        delays.append(np.asarray((at - rows["delivered_ns"])[seen], np.int64))
        hidden += int((counts & (at == NEVER)).sum())
    return latencies, delays, hidden
