"""The summary of failures as values: recoveries, replicas and outages; see `analysis.runs.run_summary`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Interval = tuple[float, float]
PHASES = ("detect", "allocate", "restart", "restore", "replay", "catch_up")
PLANNED = {"rescale": "rescaling", "stop": "restart", "rebalance": "handover"}
"""Cause -> name of what happens on purpose: the job gets other tasks, a host stops, key groups go to a new host."""
_HAPPENED = {
    "suspicion": "is fenced",
    "rescale": "is rescaled",
    "stop": "stops",
    "rebalance": "hands key groups over",
}
_MAY_BE_MISSING = ("allocate", "restart")  # phases that most scenarios do not have


@dataclass(frozen=True)
class Recovery:
    """The phases [s] of the recovery from one failure of a host or of the job, or from what has ended tasks on purpose.

    None stands for what did not end. The phases follow each other, so `total_s` is their sum: detect (failure to
    suspicion), allocate (until hosts are chosen), restart (until tasks are up), restore (until state is installed),
    replay (until the last replayed tuple is processed) and catch up (until every affected task is idle in turn).
    `key_groups` were lost with the host, and `replayed` tuples were sent again. `first_output_s` counts from the
    failure until, once the first state is restored, a sink takes a tuple that was created after the failure. It is
    known where single tuples are recorded. `first_visible_s` counts until the first of these is visible, where sinks
    commit at checkpoints. `last_replay_s` counts until the last root has failed of which something was lost, and is
    emitted again; it is known where there is an acker.

    `within_s` is when an earlier failure had ended the tasks of this host before it died: it is recovered with that
    one, and phases end with those of it. `cut_off` says that a later failure took something again before it had caught
    up: phases end when that is back.
    """

    replication: int
    host: str
    failed_s: float
    detect_s: float | None
    allocate_s: float | None
    restart_s: float | None
    restore_s: float | None
    replay_s: float | None
    catch_up_s: float | None
    total_s: float | None
    cause: str
    key_groups: int
    replayed: int
    bytes: int
    first_output_s: float | None = None
    first_visible_s: float | None = None
    last_replay_s: float | None = None
    within_s: float | None = None
    cut_off: bool = False

    @property
    def suspected(self) -> bool:
        """True if the host lived, was suspected and fenced."""
        return self.cause == "suspicion"

    @property
    def planned(self) -> bool:
        """True if tasks were ended on purpose."""
        return self.cause in PLANNED

    @property
    def kind(self) -> str:
        """Return what it is: a failure, or what was planned."""
        return PLANNED.get(self.cause, "failure")

    @property
    def happened(self) -> str:
        """Return what happened to that which failed."""
        return _HAPPENED.get(self.cause, "fails")

    @property
    def failed(self) -> str:
        """Return what failed: the host, its workers, or the driver, whose host may live."""
        return {"driver": "the driver", "worker": f"workers of {self.host}"}.get(self.cause, self.host)

    def length_s(self, phase: str) -> float | None:
        """Return the length of one of `PHASES`, or another time by its name."""
        length: float | None = getattr(self, f"{phase}_s")
        return length

    def until_s(self, phase: str) -> float | None:
        """Return the time from the failure to the end of one of `PHASES`; what is none is counted from there."""
        if phase not in PHASES:
            return self.length_s(phase)
        lengths = [self.length_s(one) for one in PHASES[: PHASES.index(phase) + 1]]
        return None if None in lengths else sum(length for length in lengths if length is not None)

    def ends(self) -> tuple[tuple[str, float, float], ...]:
        """Return (phase, begin, end) [s] of the phases that ended.

        >>> one = Recovery(0, "a", 10.0, 1.0, 0.0, 0.0, 2.0, None, None, None, "crash", 4, 0, 0)
        >>> one.ends()
        (('detect', 10.0, 11.0), ('restore', 11.0, 13.0))
        """
        begin, found = self.failed_s, []
        for phase in PHASES:
            length = self.length_s(phase)
            if length is None:
                break
            if length or phase not in _MAY_BE_MISSING:
                found.append((phase, begin, begin + length))
            begin += length
        return tuple(found)


def shown_phases(lengths: Iterable[Mapping[str, float | None]]) -> list[str]:
    """Return the `PHASES` that are worth showing: without allocation and restart where these take no time.

    `lengths` are those of each recovery by phase.
    """
    known = list(lengths)
    return [phase for phase in PHASES if phase not in _MAY_BE_MISSING or any(one[phase] for one in known)]


@dataclass(frozen=True)
class RecoveryMean:
    """The mean of a phase [s], of the `total`, or of the `first_output` over recoveries that ended.

    The interval is over replications. `recoveries` is their number. `milestone` is the engine's word for the end of the
    phase.
    """

    phase: str
    mean_s: float | None
    ci95: Interval | None
    recoveries: int
    milestone: str | None


@dataclass(frozen=True)
class Replica:
    """One active replica: when it was in step with its owner, and the pause if it took over.

    `why` says what made it: `start`, or what happened later; `end` is None for a replica that was in step at the end of
    the run.
    """

    replication: int
    operator: str
    key_group: int
    host: str
    why: str
    requested_s: float
    from_s: float | None
    until_s: float | None
    end: str | None
    pause_s: float | None
    replayed: int
    bytes: int

    @property
    def partition(self) -> str:
        """The key group with its operator, as text."""
        return f"{self.operator}[{self.key_group}]"


@dataclass(frozen=True)
class Replicas:
    """Counts and pauses of active replicas; `protected_share` is of the time of all that have one at the start."""

    groups: int
    took_over: int
    lost: int
    renewed: int
    pause_mean_s: float | None
    pause_max_s: float | None
    protected_share: float | None
    each: tuple[Replica, ...]


@dataclass(frozen=True)
class Outages:
    """Times in which some key group or task had no live owner; `share` is of the whole time."""

    times: int
    total_s: float
    longest_s: float
    share: float
