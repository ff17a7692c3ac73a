"""Micro-batches: sources emit what has arrived at a trigger, and all of it is stored before the next batch.

Sources are paused. At a trigger they emit what waits, and are paused again: that is the range of the batch. After the
time of planning the stages follow each other, each when all tasks of the one before are idle and their outputs have
arrived. Then each partition stores its state, and sinks deliver: what they got before has waited. With the commit all
of this counts, and the batch is over. A trigger is a multiple of the interval; a batch that takes longer is followed at
once, and without data there is none.

An executor that dies takes its tasks: they are restored elsewhere, upstream sends their part of the batch again, and
the batch goes on from its first stage, where those that have not lost anything have nothing to do. If the driver dies
all tasks end. Once the query is started again what sources keep is exactly the range of the batch that was not
committed, which runs again without more. The batch after that has all that has arrived meanwhile.

Event time is known to the driver alone. The watermark of a batch is the instant at which the one before took what had
arrived: all that was created earlier has been processed then. A task with windows learns of it once it is done with the
batch, and emits what ends. Without data there is one more batch for what the last watermark ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import networkx as nx
import simpy

from models.records.decisions import Action, Verdict
from models.units import to_ns
from sim.clock import Process
from sim.control.catch_up import CatchUp
from sim.control.cluster import LostPartition, RunPlan
from sim.control.instances import Instances
from sim.control.recoveries import Recoveries
from sim.control.restart_attempts import RestartAttempts
from sim.control.run_state import RunState
from sim.draws import code_of, delay_ns
from sim.plane_values import REMOTE
from sim.recovery.micro_batch import MicroBatch

_Answer = Generator[simpy.Event, Any, bool]

_NEVER_STORED = -1


class MicroBatches:
    """Runs a query batch by batch, and starts it again with its driver."""

    def __init__(
        self,
        state: RunState,
        method: MicroBatch,
        recoveries: Recoveries,
        instances: Instances,
        attempts: RestartAttempts,
        start: Callable[[Sequence[LostPartition]], None],
    ) -> None:
        tolerance = state.plan.scenario.fault_tolerance
        assert tolerance.batches is not None
        self.state, self.cluster, self.plane, self.clock = state, state.cluster, state.plane, state.clock
        self.method, self.recoveries, self.catch_ups = method, recoveries, recoveries.catch_ups
        self._times, self._interval_ns = tolerance.batches, max(1, to_ns(tolerance.interval_s))
        self._attempts, self._start = attempts, start
        self._stages = _stages(state.plan)
        self._last = max(self._stages)  # of the sinks
        self._states = self._partitions(lambda operator: tolerance.saves(operator.description))
        self._delivered = self._partitions(lambda operator: operator.is_sink)
        self._sources = self._partitions(lambda operator: operator.is_source)
        self._open = -1  # tasks of later stages are paused
        self._life = 0  # of the driver
        self._runs = 0  # batches that have begun
        self._batch: CatchUp | None = None  # the tasks that have something to do for it
        self._unstored: int | None = None  # first partition of what is being stored
        self._disturbed = False  # an executor was lost in the batch
        self._missing: set[int] = set()  # dead hosts, not detected, whose outputs may not have arrived
        self._wake: simpy.Event | None = None
        self._lost: list[LostPartition] = []  # what comes back with the driver
        self._restarting = self._waits = False
        self._behind, self._usual_ns = False, self._interval_ns
        self._read = dict.fromkeys(self._sources, 0)  # arrivals that batches have taken, where they have a limit
        self._leaves = False  # the limit has left something for the next batch
        self._windowed = {operator.index for operator in state.plan.operators if operator.windows is not None}
        self._watermark_ns = 0  # of the batch: all that was created before was in committed ones
        self._taken_ns = 0  # when the last batch took what had arrived
        self._passed_ns = 0  # the watermark of the last committed batch
        self.registers: Callable[[], None] = lambda: None
        """Notice all dead hosts: called when a driver starts, with which no executor registers there."""
        instances.task_added.append(self._gate)
        recoveries.is_taking.append(lambda _: self._behind)

    def start(self) -> None:
        """Start the query; its first batch has what comes before the first trigger."""
        for task in range(len(self.cluster.task_operator)):
            self._gate(task)
        self.clock.process(self._run())

    @property
    def driver(self) -> int | None:
        """Return the host of the driver: that of the first task; None while it is down."""
        return None if self.method.driver_is_down else self.cluster.task_host[self.cluster.partition_task[0]]

    # -- batches

    def _run(self, restarted: bool = False) -> Process:
        """Run batch after batch, until the driver dies; the first one of a driver that was `restarted` begins at once.

        It runs again what was begun and not committed, or else has all that has arrived.
        """
        life, clock, again = self._life, self.clock, restarted and self._keeps_a_range()
        if again:
            why = "sources keep the range of a batch that was not committed"
            self.state.decide(Action.RESTART, "the last batch", why)
        while True:
            begun_ns = clock.now_ns()
            if restarted or self._has_data() or self._has_results():
                self._close()
                if not restarted:
                    self._emit()
                yield clock.sleep(begun_ns + self._planning_ns(cold=restarted))
                if life != self._life:
                    return
                if restarted:
                    self._bring_back()
                    if not again:
                        self._emit()
                while not (yield from self._is_committed(life)):  # once more for each executor that is lost meanwhile
                    if life != self._life:
                        return
                self._note_end(begun_ns)
            restarted = again = False
            due_ns = begun_ns - begun_ns % self._interval_ns + self._interval_ns
            if due_ns > clock.now_ns():
                yield clock.sleep(due_ns)
                if life != self._life:
                    return

    def _is_committed(self, life: int) -> _Answer:
        """Run all stages, store all states before the last one; return False if the driver or an executor was lost."""
        self._disturbed = False
        self._follow()
        for stage in range(self._last + 1):
            if stage == self._last and not (yield from self._is_stored(self._states, life)):
                return False
            self._open_stage(stage)
            if not (yield from self._comes_true(lambda: self._is_done(stage), life)):  # noqa: B023 - asked in this turn
                return False
        if not (yield from self._is_stored(self._delivered, life)):
            return False
        yield self.clock.sleep(self.clock.now_ns() + self._draw_ns("commit"))
        if life != self._life or self._disturbed:
            return False
        self.plane.complete_checkpoints([*self._states, *self._delivered])
        self._passed_ns, self._watermark_ns = self._watermark_ns, self._taken_ns
        return True

    def _is_stored(self, partitions: Sequence[int], life: int) -> _Answer:
        """Store a version of each of these partitions; return False if the driver or an executor was lost."""
        self._unstored = next(iter(partitions), None)
        if self.plane.checkpoint_each(partitions, REMOTE) < len(partitions):
            self._unstored = _NEVER_STORED  # one is at an executor that is dead, which will be detected
        return (yield from self._comes_true(lambda: self._unstored is None, life))

    def stored(self, partition: int) -> None:
        """Note that all versions are stored of a batch of which the partition has the first."""
        if partition == self._unstored:
            self._unstored = None
            self._look()

    def _comes_true(self, met: Callable[[], bool], life: int) -> _Answer:
        """Wait for something; return False if the driver or an executor was lost meanwhile."""
        while life == self._life and not self._disturbed:
            if not self._missing and met():
                return True
            self._wake = self.clock.event()
            yield self._wake
        return False

    def _look(self) -> None:
        """Have the batch look again for what it waits for."""
        if self._wake is not None and not self._wake.triggered:
            self._wake.succeed()

    def _follow(self) -> None:
        """Follow what sources have sent through all tasks."""
        self._forget()
        tasks = [self.cluster.partition_task[one] for one in self._sources]
        self._batch = self.catch_ups.follow([*dict.fromkeys(tasks)], self._is_ready, lambda _: self._look(), self._look)

    def _forget(self) -> None:
        """Follow nothing any more."""
        if self._batch is not None:
            self.catch_ups.abandon(self._batch)
        self._batch = None

    def _is_ready(self, task: int) -> bool:
        """Return whether nothing has to come back to the task; what the watermark ends then leaves it.

        So results are under way before tasks downstream are asked, and those of restored windows are among them.
        """
        live, replayed = self.cluster.partition_live, self.plane.replayed
        if not all(live[one] and not replayed(one)[0] for one in self.cluster.partitions_at(task)):
            return False
        if self.cluster.task_operator[task] in self._windowed:
            self.state.plane.raise_event_time(task, self._watermark_ns)
        return True

    def _is_done(self, stage: int) -> bool:
        """Return whether no task of a stage, or of one before it, has anything to do."""
        left = () if self._batch is None else self._batch.tasks()
        return all(self._stages[self.cluster.task_operator[task]] > stage for task in left)

    def _note_end(self, begun_ns: int) -> None:
        """Note how long a batch took: an outage is caught up with when one is no longer than they usually are."""
        took_ns = self.clock.now_ns() - begun_ns
        if not self._behind:
            self._usual_ns = max(self._usual_ns, took_ns)
        elif took_ns <= self._usual_ns and self.method.driver_is_down is False and not self._leaves:
            self._behind = False
            for task, alive in enumerate(self.cluster.task_alive):
                if alive:
                    self.catch_ups.has_taken(task)

    # -- ranges and stages

    def _has_data(self) -> bool:
        return any(waiting for _, waiting in self.plane.lag())

    def _has_results(self) -> bool:
        """Return whether a batch without data may end windows: the watermark has risen with the last one."""
        return bool(self._windowed) and self._watermark_ns > self._passed_ns

    def _keeps_a_range(self) -> bool:
        """Return whether sources keep what no checkpoint has."""
        return any(self.plane.receivers(one) for one in self._sources)

    def _emit(self) -> None:
        """Let sources emit what has arrived, up to the limit of a batch, and no more."""
        if self._has_data():
            self._taken_ns = self.clock.now_ns()
        if self._times.max_offsets is not None:
            self._take(self._times.max_offsets)
            return
        for partition in self._sources:
            task = self.cluster.partition_task[partition]
            self.plane.unpause(task)
            self.plane.pause(task, None)

    def _take(self, limit: int) -> None:
        """Let the tasks of each source emit so many in all."""
        plane, now, operators = self.state.plane, self.clock.now_ns(), self.cluster.partition_operator
        live = [one for one in self._sources if self.cluster.partition_live[one]]
        self._leaves = False
        for operator in dict.fromkeys(operators[one] for one in live):
            own = [one for one in live if operators[one] == operator]
            waiting = [plane.arrived(one, now) - self._read[one] for one in own]
            for partition, taken in zip(own, shared(limit, waiting), strict=True):
                first = self._read[partition]
                self._read[partition] = first + taken
                if taken:
                    plane.read(partition, first, first + taken)
            self._leaves |= sum(waiting) > limit

    def _gate(self, task: int) -> None:
        """Pause a task whose stage has not begun; sources are paused unless a batch begins."""
        operator = self.cluster.task_operator[task]
        if self.state.plan.operators[operator].is_source or self._stages[operator] > self._open:
            self.plane.pause(task, None)

    def _close(self) -> None:
        """Pause all tasks: no stage of the next batch has begun."""
        self._open = -1
        for task, alive in enumerate(self.cluster.task_alive):
            if alive:
                self._gate(task)

    def _open_stage(self, stage: int) -> None:
        self._open = max(self._open, stage)
        operators = self.state.plan.operators
        for task, operator in enumerate(self.cluster.task_operator):
            if self.cluster.task_alive[task] and self._stages[operator] == stage and not operators[operator].is_source:
                self.plane.unpause(task)

    def _partitions(self, of: Callable[[Any], bool]) -> list[int]:
        operators = self.state.plan.operators
        return [one for one, operator in enumerate(self.cluster.partition_operator) if of(operators[operator])]

    def _planning_ns(self, cold: bool) -> int:
        self._runs += 1
        return self._draw_ns("plan") + (self._draw_ns("cold") if cold else 0)

    def _draw_ns(self, what: str) -> int:
        """Return a time [ns] that is drawn for the batch; 0 without a law."""
        law, plan = getattr(self._times, what), self.state.plan
        if law is None:
            return 0
        return delay_ns(law, self._runs, code_of(plan.scenario.seed, plan.replication, "micro-batch", what))

    # -- failures

    def dies(self) -> None:
        """Stop the query: its driver is dead, which nobody has detected."""
        self._life += 1
        self._open = -1
        self._missing.clear()
        self._forget()
        self.undo()
        self.method.driver_is_down = self._behind = True

    def lost_on_the_way(self, host: int) -> None:
        """Note that a host is dead, which nobody has detected, and that what it had sent may not arrive.

        Who waits for that does not end: it cannot be read, and the batch is not done without it.
        """
        if not self.method.driver_is_down:
            self._missing.add(host)

    def undo(self) -> None:
        """Forget the versions of the batch, which is not committed: what is lost goes back to those before."""
        self.plane.abort_checkpoints([*self._states, *self._delivered])

    def recover(self, losses: Sequence[LostPartition]) -> None:
        """Bring back what was lost, which has just been detected: inside the batch, or with the driver."""
        if not losses:
            return
        self._behind = True
        self._missing -= {loss.host for loss in losses}
        if not self.method.driver_is_down:
            self._start(losses)
            self._disturbed = True
            self._look()
            return
        detected = [loss.noticed(self.clock.now_ns()) for loss in losses]
        self._lost += detected
        self.recoveries.starting += detected
        if not self._restarting:
            self._restarting = True
            self.clock.process(self._restart(losses[0]))

    def go_on(self) -> bool:
        """Start the driver if it waited for a host; return whether it is down."""
        if self._waits:
            self._waits = False
            self.clock.process(self._restart(self._lost[0]))
        return self.method.driver_is_down

    def _restart(self, first: LostPartition) -> Process:
        """Start the driver again on a host, with executors and session, and then the query."""
        if not any(self.cluster.host_alive):
            self._waits = True
            self.state.decide(Action.RESTART, "the driver", "no host is alive", verdict=Verdict.REFUSED)
            return
        yield from self._attempts.allocate(first.failure)
        self._allocated()
        yield from self._attempts.restart(first)
        self.registers()  # while the driver is down: what is found out now comes back with the rest
        self._allocated()
        self._restarting = False
        self.method.driver_starts()
        yield from self._run(restarted=True)

    def _allocated(self) -> None:
        """Note for all that comes back with the driver that there is a container, if that is not noted yet."""
        now = self.clock.now_ns()
        for k, loss in enumerate(self._lost):
            if loss.allocated_ns is None:
                self.recoveries.starting.remove(loss)
                self._lost[k] = loss._replace(allocated_ns=now)
                self.recoveries.starting.append(self._lost[k])

    def _bring_back(self) -> None:
        """Start all that was lost with the driver, and restore it."""
        losses, self._lost = self._lost, []
        for loss in losses:
            self.recoveries.starting.remove(loss)
        live = self.cluster.partition_live
        self._start([loss for loss in losses if not live[loss.partition]])


def shared(limit: int, waiting: Sequence[int]) -> list[int]:
    """Return how many tuples each task of a source emits in a batch with a limit, of those that wait at it.

    Each in proportion to what waits there, rounded down, and one at least where one waits. Source: Spark,
    `KafkaMicroBatchStream.rateLimit`.

    >>> shared(9, [30, 10])
    [6, 2]
    """
    total = sum(waiting)
    return [min(one, max(1, limit * one // total)) if total > limit else one for one in waiting]


def _stages(plan: RunPlan) -> list[int]:
    """Return the number of the stage of each operator (n_operators,): tuples are shuffled before each; sinks are last.

    What is connected by `forward` runs side by side.
    """
    found = [0] * len(plan.operators)
    for one in nx.topological_sort(plan.dataflow):
        for edge in plan.operators[one].edges:
            down = edge.down.index
            found[down] = max(found[down], found[one] + (edge.partitioning != "forward"))
    last = 1 + max(stage for stage, operator in zip(found, plan.operators, strict=True) if not operator.is_sink)
    return [last if operator.is_sink else stage for stage, operator in zip(found, plan.operators, strict=True)]
