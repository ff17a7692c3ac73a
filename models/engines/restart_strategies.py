"""How long Flink waits before it restarts a job after a failure, and when it gives up.

Sources: Flink's documentation, "Task Failure Recovery"; the classes `FixedDelayRestartBackoffTimeStrategy`,
`ExponentialDelayRestartBackoffTimeStrategy` and `FailureRateRestartBackoffTimeStrategy`; release notes of Flink 1.19
for the defaults. What a strategy remembers is a value, `RestartState`, and a failure makes a new one:

>>> strategy = ExponentialDelay()
>>> state, delay_s = strategy.after_failure(RestartState(), 0.0)
>>> state, later_s = strategy.after_failure(state, 1.2)  # the first restart, at 1 s, was in vain
>>> delay_s, later_s
(1.0, 1.5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from models.errors import InputError, InputFault, raise_if_any

_MOST_GROWTH = 1e200  # of a delay, far beyond every maximum
_NOT_NEGATIVE = "must be a number, at least 0"


@dataclass(frozen=True)
class RestartState:
    """What a strategy remembers of earlier failures; a new job has none.

    `attempts`: failures that were counted. `restart_s`: instant of the last restart that was planned [s]. `failures_s`:
    instants of the last failures, oldest first [s].
    """

    attempts: int = 0
    restart_s: float = -math.inf
    failures_s: tuple[float, ...] = ()

    def counted_from(self, origin_s: float) -> RestartState:
        """Return the same state on a clock that shows 0 at `origin_s` [s]."""
        failures_s = tuple(instant_s - origin_s for instant_s in self.failures_s)
        return replace(self, restart_s=self.restart_s - origin_s, failures_s=failures_s)


Answer = tuple[RestartState, float | None]
"""The state after a failure, and the delay before the restart [s]; None if the job fails."""


@dataclass(frozen=True, kw_only=True)
class FixedDelay:
    """Wait for the same time before each restart, and give up after so many; defaults of Flink 2.3.

    `delay_s`: `restart-strategy.fixed-delay.delay` [s]. `attempts`: `restart-strategy.fixed-delay.attempts`, over the
    whole life of the job; math.inf for no limit, 0 for no restart at all. Raises InputError.
    """

    delay_s: float = 1.0
    attempts: float = 1

    def __post_init__(self) -> None:
        raise_if_any(
            InputFault(name, value, rule)
            for name, value, good, rule in (
                ("delay_s", self.delay_s, 0 <= self.delay_s < math.inf, _NOT_NEGATIVE),
                ("attempts", self.attempts, self.attempts >= 0, _NOT_NEGATIVE),
            )
            if not good
        )

    def after_failure(self, state: RestartState, failure_s: float, jitter: float = 0.0) -> Answer:
        """Return the state after a failure at `failure_s` [s], and the delay; there is no jitter."""
        state = replace(state, attempts=state.attempts + 1)
        return state, self.delay_s if state.attempts <= self.attempts else None


@dataclass(frozen=True, kw_only=True)
class ExponentialDelay:
    """Wait longer before each restart, until the job ran for long enough; the class and the defaults of Flink 2.3.

    Keys `restart-strategy.exponential-delay.*`: `initial_s` is `initial-backoff` [s], `multiplier` is
    `backoff-multiplier`, `maximum_s` is `max-backoff` [s], `jitter_share` is `jitter-factor`, `reset_s` is
    `reset-backoff-threshold` [s]. `attempts` is `attempts-before-reset-backoff`, math.inf for no limit. Raises
    InputError.
    """

    initial_s: float = 1.0
    multiplier: float = 1.5
    maximum_s: float = 60.0
    jitter_share: float = 0.1
    reset_s: float = 3600.0
    attempts: float = math.inf

    def __post_init__(self) -> None:
        below_maximum = f"must be above 0, at most the maximum of {self.maximum_s} s"
        raise_if_any(
            InputFault(name, value, rule)
            for name, value, good, rule in (
                ("initial_s", self.initial_s, 0 < self.initial_s <= self.maximum_s, below_maximum),
                ("multiplier", self.multiplier, 1 < self.multiplier < math.inf, "must be a number above 1"),
                ("maximum_s", self.maximum_s, 0 < self.maximum_s < math.inf, "must be a number above 0"),
                ("jitter_share", self.jitter_share, 0 <= self.jitter_share <= 1, "must be between 0 and 1"),
                ("reset_s", self.reset_s, self.reset_s > 0, "must be above 0"),
                ("attempts", self.attempts, self.attempts >= 1, "must be at least 1"),
            )
            if not good
        )

    def after_failure(self, state: RestartState, failure_s: float, jitter: float = 0.0) -> Answer:
        """Return the state after a failure at `failure_s` [s], and the delay: initial x multiplier ^ attempts.

        `jitter`: from -1 to 1, times the share of jitter. The delay is at least the initial one and at most the
        maximum. A failure before the planned restart waits for that restart and counts for nothing. `reset_s` counts
        from the last restart. Raises InputError for another jitter.
        """
        if not -1 <= jitter <= 1:
            raise InputError.at("jitter", jitter, "must be between -1 and 1")
        # Flink also merges a failure in the same millisecond as the restart; here it is the restart that failed.
        if failure_s < state.restart_s:
            delay_s, attempts = state.restart_s - failure_s, state.attempts
        else:
            before = 0 if failure_s - state.restart_s >= self.reset_s else state.attempts
            grown = self.multiplier ** min(before, math.log(_MOST_GROWTH, self.multiplier))
            jittered_s = self.initial_s * grown * (1 + self.jitter_share * jitter)
            delay_s, attempts = max(self.initial_s, min(jittered_s, self.maximum_s)), before + 1
        state = replace(state, attempts=attempts, restart_s=failure_s + delay_s)
        return state, delay_s if attempts <= self.attempts else None


@dataclass(frozen=True, kw_only=True)
class FailureRate:
    """Wait for the same time before each restart, and give up if failures come too often; defaults of Flink 2.3.

    Keys `restart-strategy.failure-rate.*`: the job fails with more than `failures` (`max-failures-per-interval`) in
    `interval_s` (`failure-rate-interval`) [s]; else it waits for `delay_s` (`delay`) [s]. Raises InputError.
    """

    failures: int = 1
    interval_s: float = 60.0
    delay_s: float = 1.0

    def __post_init__(self) -> None:
        raise_if_any(
            InputFault(name, value, rule)
            for name, value, good, rule in (
                ("failures", self.failures, self.failures >= 1, "must be at least 1"),
                ("interval_s", self.interval_s, 0 < self.interval_s < math.inf, "must be a number above 0"),
                ("delay_s", self.delay_s, 0 <= self.delay_s < math.inf, _NOT_NEGATIVE),
            )
            if not good
        )

    def after_failure(self, state: RestartState, failure_s: float, jitter: float = 0.0) -> Answer:
        """Return the state after a failure at `failure_s` [s], and the delay; there is no jitter."""
        last_s = (*state.failures_s, failure_s)[-self.failures - 1 :]
        too_often = len(last_s) > self.failures and failure_s - last_s[0] <= self.interval_s
        return replace(state, attempts=state.attempts + 1, failures_s=last_s), None if too_often else self.delay_s


RestartStrategy = FixedDelay | ExponentialDelay | FailureRate

NO_RESTART = FixedDelay(delay_s=0.0, attempts=0)


def default_exponential_delay(version: tuple[int, int]) -> ExponentialDelay:
    """Return the exponential delay with the defaults of a version of Flink, such as (1, 18); FLINK-33736.

    Until 1.18 its class was another one, too: failures before the planned restart counted. That is not modelled.
    """
    return ExponentialDelay() if version >= (1, 19) else ExponentialDelay(multiplier=2.0, maximum_s=300.0)


def default_strategy(version: tuple[int, int], *, checkpointing: bool = True) -> RestartStrategy:
    """Return the strategy of a job that sets none, by the version of Flink; release notes of Flink 1.19.

    Without checkpoints the job is not restarted. With checkpoints it restarts without limit: after an exponential delay
    from 1.19 on, before that after 1 s.
    """
    if not checkpointing:
        return NO_RESTART
    return default_exponential_delay(version) if version >= (1, 19) else FixedDelay(attempts=math.inf)
