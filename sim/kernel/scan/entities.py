"""Tuples and where they are on their way, which several modules of the scan write, and why the scan stops."""

from __future__ import annotations

import numpy as np

CHUNK = 64  # tuples in one piece of a queue
LOG_CHUNK = 64  # arrivals in one piece of a log
# Tuples that are done together: one short loop after the other overlaps what waits for memory and logarithms.
BATCH = 1024
DONE, GROW, REFILL, FLUSH, CHECKPOINTS_FULL = range(5)  # why the scan stops

# A tuple for a partition; `at` is when it arrives, or when it was handed to the link. `origin` is the task that sent
# it, or where checkpoints are taken the partition.
_PARCEL = [("at", "i8"), ("id", "u8"), ("created", "i8"), ("key", "i8"), ("partition", "i4"), ("origin", "i4")]
PARCEL = np.dtype(_PARCEL, align=True)
QUEUED = np.dtype([*_PARCEL, ("ns", "i8")], align=True)  # that waits for a task, and how long its service takes

# A tuple in service, or done with it.
SLOT = np.dtype([*_PARCEL, ("start", "i8"), ("end", "i8")], align=True)

# What is on its way to an operator; that behind the last operator is in front of the links.
BOX = np.dtype([("first", "i8"), ("room", "i8"), ("n", "i8"), ("sent", "i8"), ("sum", "u8")], align=True)

STAGE = np.dtype(
    [
        ("first_task", "i4"),
        ("tasks", "i4"),
        ("first_source", "i4"),
        ("sources", "i4"),
        ("first_edge", "i4"),
        ("edges", "i4"),
        ("limited", "u1"),  # a task sends over a link with a bandwidth
        ("scaled", "u1"),  # a task is on a host of another speed than 1
    ],
    align=True,
)
