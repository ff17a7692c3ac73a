"""Jobs that get other numbers of tasks, as Flink gives them: all tasks end, and start again from a checkpoint.

With the default scheduler a job is stopped with a savepoint and submitted again. The adaptive scheduler cancels all
tasks and goes back to the last checkpoint. It does so when there are other slots, or another wish; a job that was lost
it starts with as many tasks as there are slots. Sources: Flink 2.3, `StopWithSavepointTerminationManager`, `adaptive/
DefaultStateTransitionManager`, `adaptive/WaitingForResources`; FLIP-461.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from models import display
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER, THE_JOB
from models.scenario.events import Rescale
from models.units import to_ns
from sim.clock import Process
from sim.control.barriers import BarrierCheckpoints
from sim.control.crash import CrashCoordinator
from sim.control.failures import RESCALE, Failures
from sim.control.recoveries import Recoveries
from sim.control.restart_attempts import JOB
from sim.control.run_state import RunState
from sim.recovery.region_restart import RegionRestart


class _Change(NamedTuple):
    """An operator that gets another number of tasks."""

    operator: int
    asked_ns: int
    decided_ns: int
    before: int
    after: int


class _Phase(Enum):
    """Act for the adaptive scheduler while the job runs."""

    IDLE = "all is as it should be"
    COOLDOWN = "the job was started a short time ago"
    STABILISING = "with the slots it wants it is rescaled, with fewer not yet"
    STABILISED = "it is rescaled to whatever there is"


class JobScaling:
    """Starts a job with other numbers of tasks: at events of the scenario, and as slots come and go."""

    def __init__(
        self,
        state: RunState,
        method: RegionRestart,
        crash: CrashCoordinator,
        failures: Failures,
        barriers: BarrierCheckpoints,
        recoveries: Recoveries,
    ) -> None:
        assert crash.regions is not None
        self.state, self.cluster, self.clock, self.method = state, state.cluster, state.clock, method
        self.crash, self.regions, self.failures, self.barriers = crash, crash.regions, failures, barriers
        self.recoveries = recoveries
        self.times = state.plan.scenario.recovery
        self.wanted = [*method.parallelism]
        self._changes: list[_Change] = []
        self._savepoint = False  # whether one is under way
        self._phase, self._turn, self._failed_checkpoints = _Phase.IDLE, 0, 0
        self._since_ns = 0  # when the job got its slots
        self._changed_ns = 0  # when it was first seen that it should be rescaled
        self._waiting_ns: int | None = None  # since when a job that is down waits for slots
        self._sufficient_ns: int | None = None  # since when it has some of them
        if self.times.adapts:
            self.regions.has_slots, self.regions.started = self._has_slots, self.slots_changed
            crash.slots_freed, barriers.ended = self.slots_changed, self._checkpoint_ended

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.state.plan.scenario.events.items():
            if isinstance(event, Rescale):
                self.clock.process(self._event(name, event))

    def _event(self, name: str, event: Rescale) -> Process:
        yield self.clock.sleep(self.state.plan.instant_ns(name))
        operator = [operator.name for operator in self.state.plan.operators].index(event.operator)
        if self.times.adapts:
            self.wanted[operator] = event.parallelism
            self.slots_changed()
        else:
            self._stop_with_savepoint(operator, event)

    # -- with a savepoint

    def _stop_with_savepoint(self, operator: int, event: Rescale) -> None:
        """Stop the job and submit it again, unless it does not run, or the savepoint fails."""
        if self._savepoint:
            self._refuse(operator, "a savepoint is under way")
            return
        live = self.state.view.partition_live
        if not self.regions.runs or not all(map(live, self.cluster.down_owners)):
            self._refuse(operator, "not all tasks of the job are running, so it takes no savepoint")
            return
        self._savepoint = True
        asked_ns = self.clock.now_ns()

        def ended(completed: bool) -> None:
            self._savepoint = False
            if not completed:
                self._refuse(operator, "the savepoint has failed; the job goes on")
                return
            wanted = [*self.method.parallelism]
            wanted[operator] = event.parallelism
            took = display.duration((self.clock.now_ns() - asked_ns) / 1e9)
            why = f"the job has stopped with a savepoint, which took {took}"
            self._stop(wanted, asked_ns, why, to_ns(event.submit_s), new_job=True)

        self.barriers.stop_with_savepoint(ended)

    def _refuse(self, operator: int, why: str) -> None:
        name = self.state.plan.operators[operator].name
        self.state.decide(Action.RESCALE, name, why, verdict=Verdict.REFUSED)

    def _stop(
        self,
        parallelism: Sequence[int],
        begun_ns: int,
        why: str,
        wait_ns: int = 0,
        *,
        asked_ns: int | None = None,
        new_job: bool = False,
    ) -> None:
        """End all tasks, and start the job with so many of each operator.

        `begun_ns`: when the stop began, and the outage with it. `asked_ns`: when it was asked for, if that was before.
        """
        alive, at, now = self.cluster.task_alive, self.cluster.partition_task, self.clock.now_ns()
        if True not in alive:
            return  # all hosts are dead, which nobody has detected: that will start the job
        row = self.failures.row(THE_JOB, sum(alive[task] for task in at), RESCALE, begun_ns)
        self.state.recorder.revise("failures", row, detected_ns=now, repaired_ns=now)
        self._run_with(parallelism, why, begun_ns if asked_ns is None else asked_ns)
        self.crash.stop_job(begun_ns, row, wait_ns, new_job=new_job)
        if new_job:
            self.barriers.expect_new_job()

    def _run_with(self, parallelism: Sequence[int], why: str, asked_ns: int) -> None:
        """Have the next start of the job have so many tasks of each operator."""
        now = self.clock.now_ns()
        for operator, (before, after) in enumerate(zip(self.method.parallelism, parallelism, strict=True)):
            if before != after:
                name = self.state.plan.operators[operator].name
                self.state.decide(Action.RESCALE, name, why, origin=str(before), target=str(after))
                self._changes.append(_Change(operator, asked_ns, now, before, after))
        self.method.run_with(parallelism)

    # -- the adaptive scheduler: a job that is down

    def _slots(self) -> int:
        """Return the slots of all hosts in use, as far as control knows."""
        groups, used = self.state.plan.host_groups, self.cluster.trusted
        return sum(group.slots or 0 for group, trusted in zip(groups, used, strict=True) if trusted)

    def _possible(self) -> list[int]:
        """Return with how many tasks of each operator the job can run now."""
        slots = self._slots()
        return [min(one, slots) for one in self.wanted]

    def _has_slots(self) -> bool:
        """Return whether the job, all of which is down, starts now; it is started with as many tasks as it can.

        It waits for slots where there are fewer than it wants, and than it had, or is to be rescaled to.
        """
        now, slots = self.clock.now_ns(), self._slots()
        if slots < min(max(self.wanted), max(self.method.parallelism)):
            if self._waiting_ns is None:
                self._waiting_ns = now
                if self.times.wait_s is not None:
                    self.clock.process(self._gives_up(now + to_ns(self.times.wait_s), now))
            if not slots:
                self._sufficient_ns = None
                return False
            if self._sufficient_ns is None:
                self._sufficient_ns = now
                self.clock.process(self._looks_again(now + to_ns(self.times.stabilisation_s)))
            if now < self._sufficient_ns + to_ns(self.times.stabilisation_s):
                return False
        self._waiting_ns = self._sufficient_ns = None
        self._run_with(self._possible(), f"there are {display.count(slots, 'slot')}", now)
        self._turn += 1
        self._phase, self._since_ns = _Phase.IDLE, now
        return True

    def _looks_again(self, at_ns: int) -> Process:
        yield self.clock.sleep(at_ns)
        self.regions.go_on()

    def _gives_up(self, at_ns: int, since_ns: int) -> Process:
        yield self.clock.sleep(at_ns)
        if self._waiting_ns == since_ns and self._sufficient_ns is None:
            why = f"there was no slot for {display.duration((at_ns - since_ns) / 1e9)}"
            self.state.decide(Action.RESTART, JOB, why, verdict=Verdict.REFUSED)
            self.regions.give_up()

    # -- the adaptive scheduler: a job that runs

    def slots_changed(self) -> None:
        """Note that there are other slots, or other wishes; a job that is down looks at both as it starts."""
        if self.times.adapts and self.regions.runs and self._phase is _Phase.IDLE and self._is_off():
            self._turn += 1
            self._phase, self._failed_checkpoints, self._changed_ns = _Phase.COOLDOWN, 0, self.clock.now_ns()
            self.clock.process(self._approach(self._turn))

    def _is_off(self) -> bool:
        return self._possible() != self.method.parallelism

    def _approach(self, turn: int) -> Process:
        """Go through the phases up to the rescaling, unless something else starts the job before."""
        rules, interval_s = self.times.adaptive, self.state.plan.scenario.fault_tolerance.interval_s
        delay_s = rules.failed_checkpoints * interval_s if rules.delay_s is None else rules.delay_s
        yield self.clock.sleep(max(self.clock.now_ns(), self._since_ns + to_ns(rules.cooldown_s)))
        if turn != self._turn:
            return
        self._phase = _Phase.STABILISING
        if not rules.at_checkpoint:
            self._rescale("its slots are there")
        yield self.clock.sleep(self.clock.now_ns() + to_ns(rules.gathering_s))
        if turn != self._turn:
            return
        self._phase = _Phase.STABILISED
        if not rules.at_checkpoint:
            self._rescale("no more slots came")
            return
        yield self.clock.sleep(self.clock.now_ns() + to_ns(delay_s))
        if turn == self._turn:
            self._rescale("no checkpoint was complete for too long")

    def _checkpoint_ended(self, completed: bool) -> None:
        if not self.times.adaptive.at_checkpoint or not self._may_rescale():
            return
        self._failed_checkpoints += not completed
        if completed:
            self.clock.process(self._after_checkpoint(self._turn))
        elif self._failed_checkpoints >= self.times.adaptive.failed_checkpoints:
            self._rescale(f"{display.count(self._failed_checkpoints, 'checkpoint')} failed")

    def _may_rescale(self) -> bool:
        """Return whether the phase allows to rescale the job to what is possible."""
        stabilising = self._phase is _Phase.STABILISING and self._possible() == self.wanted
        return stabilising or self._phase is _Phase.STABILISED

    def _after_checkpoint(self, turn: int) -> Process:
        yield self.clock.sleep(self.clock.now_ns() + self.barriers.heard_ns)
        if turn == self._turn:
            self._rescale("a checkpoint is complete")

    def _rescale(self, why: str) -> None:
        """Rescale the job in place to what is possible, if the phase allows that, and the job runs."""
        if not self.regions.runs or not self._may_rescale():
            return
        self._turn += 1
        self._phase = _Phase.IDLE
        if self._is_off():
            self._stop(self._possible(), self.clock.now_ns(), why, asked_ns=self._changed_ns)

    # -- records

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Yield one row of the table `rescales` for each change."""
        for one in self._changes:
            described = self.state.plan.operators[one.operator].description
            groups = range(described.groups)
            moves = sum(described.task_of(k, one.before) != described.task_of(k, one.after) for k in groups)
            yield (one.operator, one.asked_ns, one.before, one.after, moves, self._completed_ns(one), NEVER, NEVER)

    def _completed_ns(self, change: _Change) -> int:
        """Return when all tasks had their states after the first start with the new number [ns]; NEVER if not."""
        operator = self.cluster.partition_operator
        own = [one for one in self.recoveries.all if operator[one.partition] == change.operator]
        later = [one for one in own if one.started_ns >= change.decided_ns]
        first_ns = min((one.started_ns for one in later), default=NEVER)
        restored = [one.restored_ns for one in later if one.started_ns == first_ns]
        return NEVER if NEVER in restored else max(restored, default=NEVER)
