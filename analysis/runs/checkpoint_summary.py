"""The summary of checkpoints as values; see `analysis.runs.run_summary`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MeanAndMax:
    """Mean and greatest of some times [s] or sizes [B]."""

    mean: float | None
    max: float | None


@dataclass(frozen=True)
class OperatorCheckpoints:
    """Checkpoints of an operator, late ones among the completed; the longest time without one of a partition.

    A checkpoint is *late* if it completed after the next one was due, and *skipped* if it was due while the one before
    was under way.
    """

    begun: int
    completed: int
    late: int
    skipped: int
    longest_between_s: float | None


@dataclass(frozen=True)
class HostCheckpoints:
    """Checkpoints that a host sent."""

    host: str
    begun: int
    completed: int
    late: int
    skipped: int


@dataclass(frozen=True)
class JobCheckpoints:
    """Checkpoints of the whole job, where barriers take them.

    `duration_s` is the time from the begin of a completed one to its end, `barriers_s` that until barriers had come
    over all channels. `in_flight_bytes` is the part of `bytes` that barriers have overtaken. A failure aborts those
    that are under way; one that is not complete in time has expired. More of them in a row than are tolerated have
    `failed_job` so many times. One is `subsumed` if a later one was complete first.
    """

    begun: int
    completed: int
    aborted: int
    expired: int
    duration_s: MeanAndMax
    barriers_s: MeanAndMax
    bytes: MeanAndMax
    in_flight_bytes: MeanAndMax
    longest_between_s: float
    failed_job: int = 0
    subsumed: int = 0


@dataclass(frozen=True)
class HostDelay:
    """Records that left the link of a host (`carried`), those among them that uploads delayed, and by how much."""

    host: str
    carried: int
    records: int
    mean_s: float
    max_s: float


@dataclass(frozen=True)
class UploadDelay:
    """The same for all links on which uploads delayed anything."""

    carried: int
    records: int
    mean_s: float
    max_s: float
    hosts: tuple[HostDelay, ...]


@dataclass(frozen=True)
class Checkpoints:
    """Counts, the longest time without a completed checkpoint, ages at failures and delays of records.

    `taken` says when checkpoints are: by `interval`, by `barriers`, with `batches`, or as `commits` to changelogs. Of
    `barriers` and `batches` none is late.
    """

    interval_s: float
    begun: int
    completed: int
    late: int
    skipped: int
    longest_between_s: float | None
    upload_s: MeanAndMax
    age_at_failure_s: MeanAndMax
    operators: Mapping[str, OperatorCheckpoints]
    hosts: tuple[HostCheckpoints, ...]
    delayed: UploadDelay | None
    job: JobCheckpoints | None = None
    taken: str = "interval"
