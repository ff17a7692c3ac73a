"""Decide what becomes of key groups that move in steps if a host dies and nothing is kept that could restore them.

When the failure is detected the reconfiguration is cut short. What is under way between tasks that live ends as it
would have ended; no further step is configured. States at the dead task, and those on their way to it, are lost. Of
those on their way from it only those have come that its new task has begun to read. A key group that has lost its state
begins with an empty one, at its next task if that lives: there wait tuples for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from models import display
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.events import Reconfigure
from sim.control.cluster import LostPartition
from sim.control.run_state import RunState
from sim.migration.protocol import Carrier, Message
from sim.migration.reconfiguration import Carry, ReconfigurationRun, StepTimes, TakenOut
from sim.plane_values import CONTROL


class LostSteps:
    """Cuts reconfigurations short that have lost a task, and says which key groups have lost their states."""

    def __init__(self, state: RunState, runs: Sequence[ReconfigurationRun], runtime: Carrier) -> None:
        self.state, self.cluster, self.runs, self.runtime = state, state.cluster, runs, runtime
        events = state.plan.scenario.events.values()
        self._operators = {one.operator for one in events if isinstance(one, Reconfigure) and not one.moves_each}
        self._bytes: dict[int, int] = {}  # key group -> its state when its host died
        self._leaving: dict[int, set[int]] = {}  # dead host -> key groups that had left it, and were on their way
        self._next: dict[int, int] = {}  # key group that is down -> the task that it was to come to

    @property
    def _open(self) -> list[ReconfigurationRun]:
        return [run for run in self.runs if not run.over and run.completed_ns is None]

    def host_dies(self, host: int) -> None:
        """Note how large the states are that die with a host, and which have left it."""
        here = self.cluster.partitions_on(host)
        self._leaving[host] = {partition for partition in here if partition in self.cluster.on_the_way}
        for partition in here:
            operator = self.state.plan.operators[self.cluster.partition_operator[partition]].name
            if operator in self._operators and self.cluster.partition_live[partition]:
                self._bytes[partition] = self.state.plane.state_bytes(partition)

    def next_task(self, partition: int) -> int | None:
        """Return the task that a key group, which is down, was to come to; None without one that lives."""
        task = self._next.get(partition)
        return task if task is not None and self.state.view.task_alive(task) else None

    def begins_again(self, partition: int) -> None:
        """Forget where a key group was to come to: it has got a task."""
        self._next.pop(partition, None)

    def task_added(self, task: int) -> None:
        """Tell a task that starts where the key groups are that it sends to, and where they will be."""
        for run in self._open:
            sends = run.plan.operator in self.state.plan.dataflow.successors(self.cluster.task_operator[task])
            if sends and run.configured:
                from_ns = run.times[run.configured - 1].from_ns if run.by_time else 0
                self.state.plane.place(run.plan.operator, (task,), self._owners(run), from_ns)

    def _owners(self, run: ReconfigurationRun) -> np.ndarray:
        first = self.state.plan.first_partition[run.plan.operator]
        return run.owners_to_be(self.cluster.partition_task, first)

    # -- a failure is detected

    def settle(self, losses: Sequence[LostPartition], like: LostPartition) -> list[LostPartition]:
        """Return what is lost with a host, given what was there: key groups on their way may be lost, or may not.

        Control knows of the failure. What joins the losses is `like` one of them.
        """
        found = [*losses]
        for run in self._open:
            if self._has_lost_a_task(run, losses):
                found = self._cut_short(run, found, like)
        self._note(like, losses, found)
        return found

    def _has_lost_a_task(self, run: ReconfigurationRun, losses: Sequence[LostPartition]) -> bool:
        """Return whether a task is lost that takes part, or one that would have heard of later steps."""
        concerned = {run.plan.operator, *self.state.plan.dataflow.predecessors(run.plan.operator)}
        lost = {self.cluster.partition_operator[loss.partition] for loss in losses}
        return bool(concerned & lost) or not all(map(self.state.view.task_alive, run.plan.tasks))

    def _note(self, like: LostPartition, losses: Sequence[LostPartition], found: Sequence[LostPartition]) -> None:
        """Write down what was lost with a host after all: not what had left it, but what was on its way there."""
        arrived = self._leaving.pop(like.host, set()) - {loss.partition for loss in losses}
        change = len(found) - len(losses) - len(arrived)
        if change:
            before = self.state.recorder.value("failures", like.failure, "lost_partitions")
            self.state.recorder.revise("failures", like.failure, lost_partitions=before + change)
        if bool(found) != bool(losses):
            caught_up_ns = NEVER if found else self.state.clock.now_ns()
            self.state.recorder.revise("failures", like.failure, caught_up_ns=caught_up_ns)

    def _cut_short(
        self, run: ReconfigurationRun, losses: Sequence[LostPartition], like: LostPartition
    ) -> list[LostPartition]:
        """End what cannot go on; return the losses without the states that come, and with those that do not."""
        ends, travel = _Ends(), {(one.step, one.number): one for one in run.travelling.values()}
        for step, number, carry in [*run.under_way()]:
            source_lives, target_lives = map(self.state.view.task_alive, (carry.source, carry.target))
            parcel = travel.get((step, number))
            if source_lives and target_lives:
                continue
            if parcel is not None and parcel.has_come and target_lives:
                ends.coming.update(carry.partitions)
                continue
            ends.carries.append((step, number))
            if parcel is None and source_lives:
                self.state.plane.stay(carry.partitions)
                continue
            ends.lose(run.times[step], carry, self._bytes_of(carry) if parcel is None else parcel.parcel.bytes)
            if parcel is not None:
                ends.stranded += carry.partitions
                self._strand(run, carry, parcel.parcel.number)
            if target_lives:
                self._next |= dict.fromkeys(carry.partitions, carry.target)
        self._tell(run, ends)
        for partition in ends.coming:
            self.state.view.has_left(partition, self.cluster.host_of(partition))
        known = {loss.partition for loss in losses}
        return [
            *(loss for loss in losses if loss.partition not in ends.coming),
            *(like._replace(partition=partition) for partition in ends.stranded if partition not in known),
        ]

    def _bytes_of(self, carry: Carry) -> int:
        return sum(self._bytes.get(partition, 0) for partition in carry.partitions)

    def _strand(self, run: ReconfigurationRun, carry: Carry, parcel: int) -> None:
        """Lose a parcel; its key groups are down at their next task."""
        del run.travelling[parcel]
        run.outages.lost(carry.partitions)
        for partition in carry.partitions:
            # The failure of the task that it has left may still be to be detected.
            self.state.view.has_left(partition, self.cluster.host_of(partition))
            self.cluster.partition_task[partition] = carry.target
            self.cluster.set_live(partition, False)
        self.state.plane.discard(parcel)

    def _tell(self, run: ReconfigurationRun, ends: _Ends) -> None:
        """Tell the coordinator of the reconfiguration, and write it down."""
        dead = [task for task in dict.fromkeys(run.plan.tasks) if not self.state.view.task_alive(task)]
        new = tuple(task for task in dead if task not in run.gone)
        run.gone |= {*new}
        run.is_cut_short = True
        run.struck |= {*ends.carries}
        run.memory.lost(new)
        if run.configured and not run.by_time:  # states may leave before a sender starts, which is told then
            self.state.plane.place(run.plan.operator, (), self._owners(run))
        if ends.carries or run.configured < len(run.times):  # else all that is left of it is under way between others
            if run.cancelled_ns == NEVER:
                run.cancelled_ns = self.state.clock.now_ns()
            self._decide(run, ends)
        self.runtime.deliver(Message(run.number, "lost", CONTROL, CONTROL, TakenOut(new, tuple(ends.carries))))

    def _decide(self, run: ReconfigurationRun, ends: _Ends) -> None:
        over = f"{run.steps_installed} of {display.count(len(run.times), 'step')} were over"
        why = f"a task that takes part was lost when {over}; what is under way ends, the others are not done"
        if ends.groups:
            lost = f"{display.count(ends.groups, 'key group')} with {display.size(ends.bytes)} of state"
            why += f"; {lost} begin{'s' * (ends.groups == 1)} empty"
        name = self.state.plan.operators[run.plan.operator].name
        self.state.decide(Action.RECONFIGURE, name, why, verdict=Verdict.REFUSED)


@dataclass
class _Ends:
    """Hold what a crash ends of a reconfiguration."""

    carries: list[tuple[int, int]] = field(default_factory=list)  # by step and number
    stranded: list[int] = field(default_factory=list)  # key groups on their way that do not come
    coming: set[int] = field(default_factory=set)  # and those that come
    groups: int = 0  # that have lost their states
    bytes: int = 0

    def lose(self, step: StepTimes, carry: Carry, size: int) -> None:
        """Count the key groups of a carry, with states of so many bytes, as lost."""
        self.groups, self.bytes = self.groups + len(carry.partitions), self.bytes + size
        step.lost_groups, step.lost_bytes = step.lost_groups + len(carry.partitions), step.lost_bytes + size
