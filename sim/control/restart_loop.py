"""The restarts after a failure: a strategy says when, and those in vain are followed by others.

A host whose tasks have failed counts until its heartbeats say that it is dead. What is started before that is given one
of its slots, and fails (`models.engines.flink_restart` has the same rules in closed form).
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import Any

import simpy

from models import display
from models.engines.restart_strategies import RestartState
from models.records.decisions import Action, Verdict
from models.units import to_ns
from sim.control.cluster import LostPartition
from sim.control.run_state import StateOn
from sim.data_plane import Plane
from sim.draws import code_of, source_id, uniform

_NS = 1_000_000_000


class RestartLoop:
    """Waits for the restart after a failure that is not in vain; failures of one run follow one strategy."""

    def __init__(self, state: StateOn[Plane]) -> None:
        self.state, self.scenario = state, state.plan.scenario
        self._memory = RestartState()
        self._code = code_of(self.scenario.seed, state.plan.replication, "recovery", "jitter")

    def pass_by(self, loss: LostPartition) -> Generator[simpy.Event, Any, bool]:
        """Sleep until what is lost is started for good; return False if it is given up."""
        clock, times = self.state.clock, self.scenario.recovery
        if times.strategy is None:
            yield clock.sleep(max(clock.now_ns(), loss.counts_until_ns))
            return True
        host = self.state.plan.host_names[loss.host]
        subject = "the job" if self.scenario.fault_tolerance.rolls_back else f"what was on {host}"
        for number in count(1):
            failed_ns = clock.now_ns()
            jitter = self._jitter(loss.failure, number)
            self._memory, delay_s = times.strategy.after_failure(self._memory, failed_ns / _NS, jitter)
            if delay_s is None:
                self._refuse(subject, f"the strategy gives up after {display.count(number - 1, 'restart')}")
                return False
            yield clock.sleep(failed_ns + to_ns(delay_s))
            if clock.now_ns() >= loss.counts_until_ns:
                return True
            until = display.instant(loss.counts_until_ns / _NS)
            self._refuse(subject, f"it got a slot of {host}, which counts until {until}")
            yield clock.sleep(clock.now_ns() + to_ns(times.attempt_s))
        raise AssertionError("there is always another restart")

    def _refuse(self, subject: str, why: str) -> None:
        self.state.decide(Action.RESTART, subject, why, verdict=Verdict.REFUSED)

    def _jitter(self, failure: int, number: int) -> float:
        """Return a number between -1 and 1, drawn for a restart after a failure."""
        return 2.0 * uniform(source_id(self._code, number), failure) - 1.0
