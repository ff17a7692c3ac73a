"""The restarts after a failure: a strategy says when, and those in vain are followed by others.

A host whose tasks have failed counts until its heartbeats say that it is dead. What is started before that is given one
of its slots, and fails (`models.engines.flink_restart` has the same rules in closed form).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import Any

import simpy

from models import display
from models.distributions import TimeDistribution
from models.engines.restart_strategies import RestartState
from models.records.decisions import Action, Verdict
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import LostPartition
from sim.control.run_state import StateOn
from sim.data_plane import Plane
from sim.draws import code_of, delay_ns, source_id, uniform

_NS = 1_000_000_000
JOB = "the job"


class RestartAttempts:
    """Waits for the restart after a failure that is not in vain; failures of one run follow one strategy."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self.state, self.scenario = state, state.plan.scenario
        self._memory = RestartState()
        self._code = code_of(self.scenario.seed, state.plan.replication, "recovery", "jitter")

    def pass_by(
        self, subject: str, failure: int, longest: Callable[[], LostPartition]
    ) -> Generator[simpy.Event, Any, bool]:
        """Sleep until what is lost is started for good; return False if it is given up.

        `failure`: its row. `longest`: returns what was lost with the host that counts longest.
        """
        clock, times = self.state.clock, self.scenario.recovery
        if times.strategy is None:
            while clock.now_ns() < longest().counts_until_ns:
                yield clock.sleep(longest().counts_until_ns)
            return True
        for number in count(1):
            failed_ns = clock.now_ns()
            delay_s = self._delay_s(failed_ns / _NS, self._jitter(failure, number))
            if delay_s is None:
                self._refuse(subject, f"the strategy gives up after {display.count(number - 1, 'restart')}")
                return False
            yield clock.sleep(failed_ns + to_ns(delay_s))
            last = longest()
            if clock.now_ns() >= last.counts_until_ns:
                return True
            host, until = self.state.plan.host_names[last.host], display.instant(last.counts_until_ns / _NS)
            self._refuse(subject, f"it got a slot of {host}, which counts until {until}")
            yield from self.fail()
        raise AssertionError("there is always another restart")

    @property
    def is_steady(self) -> bool:
        """Return whether no strategy says when to restart: as soon as can be."""
        return self.scenario.recovery.strategy is None

    def forget(self) -> None:
        """Forget earlier failures: a new job is started."""
        self._memory = RestartState()

    def fail(self) -> Process:
        """Sleep until a restart in vain has failed."""
        yield self.state.clock.sleep(self.state.clock.now_ns() + to_ns(self.scenario.recovery.attempt_s))

    def _delay_s(self, failed_s: float, jitter: float) -> float | None:
        """Return the time until the next restart; None if there is none."""
        strategy = self.scenario.recovery.strategy
        assert strategy is not None
        # Instants are whole nanoseconds: a failure within one of the planned restart is at that restart, not before it.
        if abs(failed_s - self._memory.restart_s) * _NS < 2:
            failed_s = self._memory.restart_s
        self._memory, delay_s = strategy.after_failure(self._memory, failed_s, jitter)
        return delay_s

    def allocate(self, failure: int, *, at_once: bool = False) -> Process:
        """Sleep while slots are allocated; where they are there `at_once`, only until this instant is over."""
        yield self.state.clock.sleep(self.state.clock.now_ns() + (0 if at_once else self._draw_ns("allocate", failure)))

    def restart(self, loss: LostPartition, times: int = 1) -> Process:
        """Sleep while tasks are started, so many times."""
        yield self.state.clock.sleep(self.state.clock.now_ns() + times * self._draw_ns("restart", loss.failure))

    def _draw_ns(self, what: str, failure: int) -> int:
        """Return a time [ns] that is drawn for the failure."""
        law: TimeDistribution | None = getattr(self.scenario.recovery, what)
        if law is None:
            return 0
        return delay_ns(law, failure, code_of(self.scenario.seed, self.state.plan.replication, "recovery", what))

    def _refuse(self, subject: str, why: str) -> None:
        self.state.decide(Action.RESTART, subject, why, verdict=Verdict.REFUSED)

    def _jitter(self, failure: int, number: int) -> float:
        """Return a number between -1 and 1, drawn for a restart after a failure."""
        return 2.0 * uniform(source_id(self._code, number), failure) - 1.0
