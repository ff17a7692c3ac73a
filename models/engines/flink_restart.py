"""From the death of a TaskManager to the last RUNNING of the job, as Flink's default scheduler goes about it.

Instants count from the death [s]. Two things are noticed, each by a clock of its own:

- The tasks have failed. The kernel of a killed process closes its connections, and the tasks that read from it fail at
  once. A silent host closes nothing: its tasks fail when the worker is removed.
- The worker is gone. Heartbeats are an interval i apart; the first one without answer is at a phase in (0, i]. A killed
  process is removed with the N-th failed call in a row, N - 1 intervals later (`DefaultHeartbeatMonitor`, since
  1.14). Calls to a silent host do not fail: it is removed a time-out after its last answer, which was at phase - i.

After each failure the job is RESTARTING for the delay of the restart strategy, and then RUNNING. Until the worker is
removed its slots count, so a restart is given them, the deployment fails, and the next delay begins. The last RUNNING
is the first attempt at or after the removal; it says nothing about restored state.

Where the phase alone is unknown, the results are step functions of it: it moves the removal, and the attempts stay.
If the job notices the removal itself, the phase moves the attempts. So the law over all phases is exact: a few
`Piece`s, in each of which the results are constant or move with the phase.

Simplified: the cancellation of tasks is shorter than the delay; ResourceManager and JobManager remove the worker at the
same instant; requests for slots do not run into `slot.request.timeout`. Sources: Flink 2.3, `DefaultScheduler`;
documentation of `heartbeat.*`, and of the restart strategies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat

from models.engines.patience import patience_s
from models.engines.restart_strategies import ExponentialDelay, RestartState, RestartStrategy
from models.errors import InputError, InputFault, raise_if_any

MOST_ATTEMPTS = 100_000
_ROUNDING = 1e-9  # of sums of shares, and of instants


@dataclass(frozen=True, kw_only=True)
class Heartbeats:
    """How the JobManager watches its TaskManagers, with the defaults of Flink 2.3. Raises InputError.

    `interval_s`, `timeout_s`: `heartbeat.interval`, `heartbeat.timeout` [s]. `failed_calls`:
    `heartbeat.rpc-failure-threshold`, N; None where it is off (-1).
    """

    interval_s: float = 10.0
    timeout_s: float = 50.0
    failed_calls: int | None = 2

    def __post_init__(self) -> None:
        timeout_good = self.interval_s <= self.timeout_s < math.inf
        calls_good = self.failed_calls is None or self.failed_calls >= 1
        raise_if_any(
            InputFault(name, value, rule)
            for name, value, good, rule in (
                ("interval_s", self.interval_s, 0 < self.interval_s < math.inf, "must be a number above 0"),
                ("timeout_s", self.timeout_s, timeout_good, "must be a number, at least the interval"),
                ("failed_calls", self.failed_calls, calls_good, "must be at least 1"),
            )
            if not good
        )

    def wait_s(self, silent: bool) -> float:
        """Return the time from the first heartbeat without answer to the removal of the worker [s]."""
        # The last answer came an interval before.
        return patience_s(self.interval_s, self.timeout_s, self.failed_calls, silent) - self.interval_s


@dataclass(frozen=True)
class Attempt:
    """A restart: the instants at which the job goes to RESTARTING and to RUNNING [s], and the state of the strategy."""

    restarting_s: float
    running_s: float
    state: RestartState


@dataclass(frozen=True)
class Restart:
    """Hold what happens at one phase: all attempts; the last one is not in vain, unless the job `failed`.

    `removal_s`: instant at which the dead worker stops to count [s]. `slot_s`: instant from which a slot is free [s].
    """

    removal_s: float
    slot_s: float
    attempts: tuple[Attempt, ...]
    failed: bool

    @property
    def restarting_s(self) -> float:
        """Return the instant of the last RESTARTING [s]; infinite if the job failed."""
        return math.inf if self.failed else self.attempts[-1].restarting_s

    @property
    def running_s(self) -> float:
        """Return the instant of the last RUNNING [s]; infinite if the job failed."""
        return math.inf if self.failed else self.attempts[-1].running_s

    @property
    def deploying_s(self) -> float:
        """Return the instant at which the tasks have their slots [s]: RUNNING, or later if the job waits for one."""
        return max(self.running_s, self.slot_s)


@dataclass(frozen=True)
class Piece:
    """Phases with one number of attempts: their share of all, and the value at both of their ends [s].

    Between the ends the value is uniform; where they are equal it is a constant.
    """

    share: float
    from_s: float
    to_s: float


@dataclass(frozen=True)
class PhaseLaw:
    """The law of an instant over a uniform phase, exact to rounding: a mixture of uniform laws and constants."""

    pieces: tuple[Piece, ...]

    @property
    def earliest_s(self) -> float:
        """Return the infimum over all phases [s]; values that move with the phase do not reach it."""
        return min(piece.from_s for piece in self.pieces)

    @property
    def latest_s(self) -> float:
        """Return the supremum over all phases [s]; infinite if the job may fail."""
        return max(piece.to_s for piece in self.pieces)

    @property
    def mean_s(self) -> float:
        """Return the mean [s]."""
        return sum(piece.share * (piece.from_s + piece.to_s) / 2 for piece in self.pieces)

    def chance(self, instant_s: float) -> float:
        """Return P(value <= `instant_s`)."""
        return sum(
            piece.share * (1.0 if instant_s >= piece.to_s else (instant_s - piece.from_s) / (piece.to_s - piece.from_s))
            for piece in self.pieces
            if instant_s >= piece.from_s
        )

    def quantile_s(self, share: float) -> float:
        """Return the least instant [s] with at least this share of the phases at or before it; 0.5: the median."""
        ends = sorted({end for piece in self.pieces for end in (piece.from_s, piece.to_s)})
        before_s, before = ends[0], 0.0
        for end in ends:
            constants = sum(piece.share for piece in self.pieces if piece.from_s == piece.to_s == end)
            up_to = self.chance(end) - constants
            # The chance rises evenly between two ends, and jumps at constants.
            if before < share <= up_to:
                return before_s + (share - before) / (up_to - before) * (end - before_s)
            before_s, before = end, up_to + constants
            if share <= before + _ROUNDING:
                return end
        return ends[-1]


@dataclass(frozen=True, kw_only=True)
class TaskManagerDeath:
    """A TaskManager that ran tasks of a job dies: all that decides when the job runs again. Raises InputError.

    `silent`: the host is gone, or cut off, and closes no connection; else a process was killed. `noticed_s`: until the
    tasks that read from a killed process fail [s]. `overhead_s`: from RUNNING in vain to the next RESTARTING [s].

    `slot_s`: instant from which a slot is free: 0 for a spare one, else when the replacement has registered [s]. With
    `waits_for_slot` the job is RUNNING meanwhile (YARN, Kubernetes, and standalone clusters in their start-up period);
    else the request fails at once and the attempt is in vain (standalone clusters after that).

    `earlier`: state of the strategy at the death, its instants counted from the death. `jitters`: of the attempts in
    turn, from -1 to 1; 0 for those beyond.
    """

    heartbeats: Heartbeats = Heartbeats()
    strategy: RestartStrategy = field(default_factory=ExponentialDelay)
    silent: bool = False
    noticed_s: float = 0.1
    overhead_s: float = 0.0
    slot_s: float = 0.0
    waits_for_slot: bool = True
    earlier: RestartState = field(default_factory=RestartState)
    jitters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        times = (("noticed_s", self.noticed_s), ("overhead_s", self.overhead_s), ("slot_s", self.slot_s))
        raise_if_any(
            InputFault(name, value, "must be a number, at least 0")
            for name, value in times
            if not 0 <= value < math.inf
        )

    def at_phase(self, phase_s: float) -> Restart:
        """Return what happens if the first heartbeat without answer is at `phase_s` in (0, interval] [s].

        Raises InputError for another phase, and for more than MOST_ATTEMPTS attempts.
        """
        if not 0 < phase_s <= self.heartbeats.interval_s:
            raise InputError.at("phase_s", phase_s, "must be above 0, at most the heartbeat interval")
        removal_s = phase_s + self.heartbeats.wait_s(self.silent)
        attempts = []
        for attempt in self._attempts(removal_s if self.silent else min(self.noticed_s, removal_s)):
            attempts.append(attempt)
            if attempt.running_s >= max(removal_s, self._needed_s):
                break
        failed = attempt.running_s == math.inf
        return Restart(removal_s, self.slot_s, tuple(attempts[:-1] if failed else attempts), failed)

    def laws(self) -> tuple[PhaseLaw, PhaseLaw]:
        """Return the laws of the last RESTARTING and of the last RUNNING over a uniform phase.

        Raises InputError for more than MOST_ATTEMPTS attempts, and if the answer of the strategy to a removal depends
        on the phase (if, say, the reset after an earlier failure falls between two heartbeats).
        """
        both = [*self._noticed_by_removal(), *self._noticed_by_connection()]
        return PhaseLaw(tuple(first for first, _ in both)), PhaseLaw(tuple(second for _, second in both))

    @property
    def _needed_s(self) -> float:
        """Return the instant from which requests for slots are good, as far as the replacement is concerned [s]."""
        return 0.0 if self.waits_for_slot else self.slot_s

    @property
    def _moving_s(self) -> float:
        """Return the phase up to which the removal comes before the broken connection is noticed [s]."""
        interval_s = self.heartbeats.interval_s
        if self.silent:
            return interval_s
        return min(max(self.noticed_s - self.heartbeats.wait_s(self.silent), 0.0), interval_s)

    def _attempts(self, failure_s: float) -> Iterator[Attempt]:
        """Yield restarts that are all in vain, after a first failure; where the job fails, a last one at infinity."""
        state = self.earlier
        for jitter in islice(chain(self.jitters, repeat(0.0)), MOST_ATTEMPTS):
            state, delay_s = self.strategy.after_failure(state, failure_s, jitter)
            if delay_s is None:
                yield Attempt(math.inf, math.inf, state)
                return
            yield Attempt(failure_s, failure_s + delay_s, state)
            failure_s += delay_s + self.overhead_s
        rule = f"more than {MOST_ATTEMPTS} restarts before the slot of the dead worker is replaced"
        raise InputError.at("strategy", self.strategy, rule)

    def _noticed_by_connection(self) -> Iterator[tuple[Piece, Piece]]:
        """Yield the pieces where attempts do not move: each is the last one of the removals since the one before."""
        interval_s, wait_s = self.heartbeats.interval_s, self.heartbeats.wait_s(self.silent)
        low_s = self._moving_s
        attempts = self._attempts(self.noticed_s)
        while low_s < interval_s:
            attempt = next(attempts)
            high_s = min(attempt.running_s - wait_s, interval_s)
            if attempt.running_s >= self._needed_s and high_s > low_s:
                yield _pieces((high_s - low_s) / interval_s, attempt)
                low_s = high_s

    def _noticed_by_removal(self) -> Iterator[tuple[Piece, Piece]]:
        """Yield the pieces where attempts move with the phase: the later it is, the fewer come before the slot."""
        interval_s, wait_s, high_s = self.heartbeats.interval_s, self.heartbeats.wait_s(self.silent), self._moving_s
        attempts = zip(self._attempts(wait_s), self._attempts(wait_s + high_s), strict=False)
        while high_s > 0:
            at_first, at_last = next(attempts)
            if not math.isclose(at_first.running_s + self._moving_s, at_last.running_s, abs_tol=_ROUNDING):
                raise InputError.at("earlier", self.earlier, "must not make the delay depend on the phase")
            low_s = max(self._needed_s - at_first.running_s, 0.0)
            if low_s < high_s:
                yield _pieces((high_s - low_s) / interval_s, at_first, low_s, high_s)
                high_s = low_s


def _pieces(share: float, attempt: Attempt, from_s: float = 0.0, to_s: float = 0.0) -> tuple[Piece, Piece]:
    """Return the pieces of RESTARTING and RUNNING, for an attempt that moves from one phase to another [s]."""
    first, last = (
        Piece(share, instant_s + from_s, instant_s + to_s) for instant_s in (attempt.restarting_s, attempt.running_s)
    )
    return first, last
