"""How long Flink waits before it restarts a job after a failure, and when it gives up.

Sources: Flink's documentation, "Task Failure Recovery"; the classes `FixedDelayRestartBackoffTimeStrategy`,
`ExponentialDelayRestartBackoffTimeStrategy` and `FailureRateRestartBackoffTimeStrategy`. The exponential delay is that
of 1.19 and later: until 1.18 failures before the planned restart counted. `RestartState` is what a strategy remembers,
as a value, and a failure makes a new one:

>>> strategy = ExponentialDelay()
>>> state, delay_s = strategy.after_failure(RestartState(), 0.0)
>>> state, later_s = strategy.after_failure(state, 1.2)  # the first restart, at 1 s, was in vain
>>> delay_s, later_s
(1.0, 1.5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from models.errors import InputError
from models.schema_types import Count, Description, PositiveSeconds, Seconds, Share

_MOST_GROWTH = 1e200  # of a delay, far beyond every maximum
UNLIMITED = 2**31 - 1  # attempts; Flink's own value
Attempts = Annotated[int, Field(strict=True, ge=0, le=UNLIMITED)]


@dataclass(frozen=True)
class RestartState:
    """Hold what a strategy remembers of earlier failures; a new job has none.

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


class FixedDelay(Description):
    """Wait for the same time before each restart, and give up after so many; defaults of Flink 2.3."""

    kind: Literal["fixed-delay"] = "fixed-delay"
    delay_s: Seconds = Field(default=1.0, alias="delay")
    """Time before each restart; `restart-strategy.fixed-delay.delay`."""
    attempts: Attempts = 1
    """Restarts over the whole life of the job; 2147483647 for no limit, 0 for none at all;
    `restart-strategy.fixed-delay.attempts`."""

    def after_failure(self, state: RestartState, failure_s: float, jitter: float = 0.0) -> Answer:
        """Return the state after a failure at `failure_s` [s], and the delay; there is no jitter."""
        state = replace(state, attempts=state.attempts + 1)
        return state, None if self.attempts < min(state.attempts, UNLIMITED) else self.delay_s


class ExponentialDelay(Description):
    """Wait longer before each restart, until the job ran for long enough; the class and the defaults of Flink 2.3."""

    kind: Literal["exponential-delay"] = "exponential-delay"
    initial_s: PositiveSeconds = Field(default=1.0, alias="initial")
    """Time before the first restart; `restart-strategy.exponential-delay.initial-backoff`."""
    multiplier: float = Field(default=1.5, gt=1, le=1e6, strict=True)
    """Factor of each further one; `...backoff-multiplier`."""
    maximum_s: PositiveSeconds = Field(default=60.0, alias="maximum")
    """Longest time before a restart; `...max-backoff`."""
    jitter: Share = 0.1
    """Share by which a time is longer or shorter, at random; `...jitter-factor`."""
    reset_s: PositiveSeconds = Field(default=3600.0, alias="reset")
    """Time without a failure after which the first time comes again; `...reset-backoff-threshold`."""
    attempts: Annotated[int, Field(strict=True, ge=1, le=UNLIMITED)] = UNLIMITED
    """Restarts before that time has passed; 2147483647 for no limit; `...attempts-before-reset-backoff`."""

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
            jittered_s = self.initial_s * grown * (1 + self.jitter * jitter)
            delay_s, attempts = max(self.initial_s, min(jittered_s, self.maximum_s)), before + 1
        state = replace(state, attempts=attempts, restart_s=failure_s + delay_s)
        return state, None if self.attempts < min(attempts, UNLIMITED) else delay_s


class FailureRate(Description):
    """Wait for the same time before each restart, and give up if failures come too often; defaults of Flink 2.3."""

    kind: Literal["failure-rate"] = "failure-rate"
    failures: Count = 1
    """The job fails with more than so many failures in the interval;
    `restart-strategy.failure-rate.max-failures-per-interval`."""
    interval_s: PositiveSeconds = Field(default=60.0, alias="interval")
    """The interval; `...failure-rate-interval`."""
    delay_s: Seconds = Field(default=1.0, alias="delay")
    """Time before each restart; `...delay`."""

    def after_failure(self, state: RestartState, failure_s: float, jitter: float = 0.0) -> Answer:
        """Return the state after a failure at `failure_s` [s], and the delay; there is no jitter."""
        last_s = (*state.failures_s, failure_s)[-self.failures - 1 :]
        too_often = len(last_s) > self.failures and failure_s - last_s[0] <= self.interval_s
        return replace(state, attempts=state.attempts + 1, failures_s=last_s), None if too_often else self.delay_s


RestartStrategy = Annotated[FixedDelay | ExponentialDelay | FailureRate, Field(discriminator="kind")]
