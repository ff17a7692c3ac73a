"""The reconfigurations of a run: which begins when, what a crash does to them, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models import display
from models.planning.reconfiguration import Step, steps_of
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.events import Reconfigure
from models.units import to_ns
from sim.clock import Process
from sim.control.barriers import BarrierCheckpoints
from sim.control.instances import Outages
from sim.control.memory import Memory
from sim.control.placing import senders_to
from sim.control.run_state import RunState
from sim.migration.coordinator import RunCoordinator
from sim.migration.lost_steps import LostSteps
from sim.migration.protocol import WHOLE, PlanKind, Request
from sim.migration.reconfiguration import (
    Carry,
    Reconfiguration,
    ReconfigurationProtocol,
    ReconfigurationRun,
    StepTimes,
)


@dataclass(frozen=True)
class ReconfigurationRequest(Request):
    """An event of the scenario wants key groups to change their tasks."""

    event: str
    operator: int


class Reconfigurations(PlanKind[ReconfigurationRequest]):
    """Begins the reconfigurations of a scenario, one after the other where they meet.

    Checkpoints of the job and reconfigurations exclude each other: a state that travels is in no snapshot. If a task
    that takes part is lost, all of the job that is connected goes back to the last checkpoint, with the configuration
    of the last step that is over: the run is cancelled, and the rest of it is not done. Without checkpoints it is cut
    short (`lost_steps`).
    """

    def __init__(
        self,
        state: RunState,
        coordinator: RunCoordinator,
        protocols: Mapping[str, type[ReconfigurationProtocol]],
        memory: Memory,
        outages: Outages,
        leaves: Callable[[int], None],
        barriers: BarrierCheckpoints,
        start_task: Callable[[int, int], int | None],
    ) -> None:
        self.state, self.coordinator, self.protocols, self.memory = state, coordinator, protocols, memory
        self.outages, self.leaves, self.barriers = outages, leaves, barriers
        barriers.held_up, barriers.none_is_open = self._are_wanted, self._look_again
        self.start_task = start_task  # of an operator, in place of a dead one; None where no host has room
        self.runs: list[ReconfigurationRun] = []
        self.lost_steps = LostSteps(state, self.runs, coordinator.runtime)
        self.loses = not state.plan.scenario.fault_tolerance.goes_back_once

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.state.plan.scenario.events.items():
            if isinstance(event, Reconfigure) and not event.moves_each:
                self.state.clock.process(self._event(name, event))

    def _event(self, name: str, event: Reconfigure) -> Process:
        yield self.state.clock.sleep(self.state.plan.instant_ns(name))
        operator = next(one.index for one in self.state.plan.operators if one.name == event.operator)
        territory = tuple((one, WHOLE) for one in dict.fromkeys((operator, *self._stops(event))))
        now = self.state.clock.now_ns()
        request = ReconfigurationRequest(territory, event.protocol, now, "event", name, operator)
        self.coordinator.request(self, request)
        if any(waiting is request for _, waiting in self.coordinator.waiting):
            subject = f"the reconfiguration of {event.operator} ({name})"
            self.state.decide(Action.POSTPONE, subject, self._why_it_waits())

    def _stops(self, event: Reconfigure) -> tuple[int, ...]:
        """Return the operators that stop for an event besides its own."""
        return tuple(range(len(self.state.plan.operators))) if event.protocol == "stop-and-restart" else ()

    def _why_it_waits(self) -> str:
        if self._is_down():
            return "not all of the job is known to run"
        return "a checkpoint is under way" if self.barriers.is_under_way else "one that meets it is not over"

    def _is_down(self) -> bool:
        """Return whether something of the job is known to be down."""
        return not all(map(self.state.view.partition_live, self.state.cluster.down_owners))

    def _are_wanted(self) -> bool:
        """Return whether key groups move in steps, or wait for a checkpoint before they do."""
        runs = any(not run.over for run in self.runs)
        return runs or (any(kind is self for kind, _ in self.coordinator.waiting) and not self._is_down())

    def _look_again(self) -> None:
        """Begin what has waited for a checkpoint, once all is done that ended it."""
        if any(kind is self for kind, _ in self.coordinator.waiting):
            self.state.clock.process(self._begin())

    def _begin(self) -> Process:
        yield self.state.clock.sleep(self.state.clock.now_ns())
        self.coordinator.begin_what_can()

    def _let_go(self) -> Process:
        """Let a checkpoint begin that has waited for what turned out to be nothing, if nothing else waits."""
        yield self.state.clock.sleep(self.state.clock.now_ns())
        self.barriers.key_groups_stay()

    def waits(self, request: ReconfigurationRequest) -> bool:
        """Return whether something is down, or a checkpoint is under way, for which it has to wait."""
        return self.barriers.is_under_way or self._is_down()

    def begin(self, request: ReconfigurationRequest) -> ReconfigurationRun | None:
        """Return the run, with its steps."""
        plan = self.state.plan
        event, name = plan.scenario.events[request.event], plan.operators[request.operator].name
        assert isinstance(event, Reconfigure)
        members = self._members(request.operator)
        if members is None:
            return None
        steps = steps_of(plan.scenario, request.event, plan.inputs, self._owners(request.operator, members))
        if not steps:
            self._refuse(request.operator, "each key group is at the task where it is to be")
            return None
        made = self._plan(request.operator, members, event, steps)
        count = sum(len(step.moves) for step in steps)
        moved, taken = display.count(count, "key group"), display.count(len(steps), "step")
        reason = f"{moved} to other tasks, {event.name_of_strategy}, in {taken}"
        self.state.decide(Action.RECONFIGURE, name, reason)
        run = ReconfigurationRun(
            request.protocol,
            self.protocols[request.protocol],
            made,
            self,
            request.requested_ns,
            memory=self.memory,
            outages=self.outages,
            leaves=self.leaves,
            strategy=event.name_of_strategy,
            owners=np.zeros(plan.operators[request.operator].description.groups, np.int64),
            times=[StepTimes() for _ in steps],
        )
        self.runs.append(run)
        return run

    def _refuse(self, operator: int, why: str) -> None:
        self.state.decide(Action.RECONFIGURE, self.state.plan.operators[operator].name, why, verdict=Verdict.REFUSED)
        self.state.clock.process(self._let_go())

    def _members(self, operator: int) -> tuple[int, ...] | None:
        """Return the tasks of an operator, as far as control knows, by their place in its parallelism.

        One that is dead has a successor: the first that a recovery has started, or a new one. Behind them come further
        tasks that have key groups. None, which a decision says, where no host has room.
        """
        cluster, alive = self.state.cluster, self.state.view.task_alive
        its = [task for task, one in enumerate(cluster.task_operator) if one == operator and alive(task)]
        own = {cluster.task_place[task]: task for task in its if cluster.task_place[task] is not None}
        first, end = self.state.plan.first_partition[operator : operator + 2]
        used, places = {*cluster.partition_task[first:end]}, self.state.plan.operators[operator].description.parallelism
        others = [task for task in its if cluster.task_place[task] is None and task in used]
        for place in range(places):
            if place not in own:
                task = others.pop(0) if others else self.start_task(operator, place)
                if task is None:
                    self._refuse(operator, f"no host has room for its task {place}, which is dead")
                    return None
                cluster.task_place[task] = place
                own[place] = task
        return (*(own[place] for place in range(places)), *others)

    def _owners(self, operator: int, members: Sequence[int]) -> list[int]:
        """Return the place of the task of each key group."""
        first, end = self.state.plan.first_partition[operator : operator + 2]
        return [*map(members.index, self.state.cluster.partition_task[first:end])]

    def _senders(self, operator: int) -> tuple[int, ...]:
        """Return the tasks that send to an operator; where states may be lost, also dead ones that control trusts.

        Others wait for what these have to say, and have to hear that it never comes.
        """
        cluster, above = self.state.cluster, self.state.plan.dataflow.predecessors(operator)
        if not self.loses:
            return tuple(sorted(senders_to(cluster, operator)))
        own = {*above}
        return tuple(t for t, its in enumerate(cluster.task_operator) if its in own and self.state.view.task_alive(t))

    def _plan(
        self, operator: int, members: tuple[int, ...], event: Reconfigure, steps: Sequence[Step]
    ) -> Reconfiguration:
        """Return the plan of these steps, with tasks and partitions by their numbers."""
        cluster, first = self.state.cluster, self.state.plan.first_partition[operator]
        owners = {one.key_group: one.source for step in reversed(steps) for one in step.moves}
        assert all(cluster.partition_task[first + group] == members[task] for group, task in owners.items())
        moves = [
            [(first + one.key_group, members[one.source], members[one.target]) for one in step.moves] for step in steps
        ]
        return Reconfiguration(
            operator=operator,
            steps=tuple(_carries(one, together=event.overlap == "none") for one in moves),
            members=members,
            senders=self._senders(operator),
            scope=event.scope,
            not_before_ns=tuple(step.not_before_ns for step in steps),
            copies=(event.sent_copies, event.received_copies),
            gap_ns=0 if event.gap_s == "drain" else to_ns(event.gap_s),
            drain=event.gap_s == "drain",
            next=event.next,
            late_ns=to_ns(event.late_s),
            restart_ns=to_ns(event.restart_s),
            stops=self._stops(event),
        )

    def ended(self, run: ReconfigurationRun) -> None:
        """Let checkpoints go on."""
        self.barriers.key_groups_stay()

    def can_be_cancelled(self, run: ReconfigurationRun) -> bool:
        """Return whether a run is not complete; where states would be lost, it ends first what is under way."""
        return super().can_be_cancelled(run) and (not self.loses or (run.is_cut_short and run.at_rest))

    def cancelled(self, run: ReconfigurationRun) -> None:
        """End a run of which nothing is under way, or of which all that takes part is down.

        Then that comes back from the last checkpoint. States that travel are discarded with the run. What senders know
        of the configuration has gone with them.
        """
        if self.loses:
            struck = (run.plan.steps[step][number] for step, number in run.struck)
            held = {task for carry in struck for task in (carry.source, carry.target)} - run.gone
            run.memory.forgotten(sorted(held))
            return
        run.cancelled_ns = self.state.clock.now_ns()
        run.parcels |= run.travelling.keys()  # which the transport discards
        name = self.state.plan.operators[run.plan.operator].name
        over = f"{run.steps_installed} of {display.count(len(run.times), 'step')} were over"
        why = f"a task that takes part was lost when {over}; the others are not done"
        self.state.decide(Action.RECONFIGURE, name, why, verdict=Verdict.REFUSED)
        self.memory.lost(run.plan.members)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the table `reconfigurations`: of each step, and one of each event that waits to the end."""
        for number, run in enumerate(self.runs):
            for step, (carries, one) in enumerate(zip(run.plan.steps, run.times, strict=True)):
                groups = sum(len(carry.partitions) for carry in carries)
                # The last state of a step that has not ended may be still to come; where the job stops, one that stays.
                whole = run.completed_ns is not None or (one.groups == groups and not run.plan.stops)
                installed = one.installed_ns if whole else NEVER
                yield (
                    number,
                    run.plan.operator,
                    run.strategy,
                    run.requested_ns,
                    step,
                    one.from_ns,
                    one.passed_ns,
                    installed,
                    groups,
                    one.bytes,
                    run.cancelled_ns,
                    one.lost_groups,
                    one.lost_bytes,
                )
        number = len(self.runs)
        for _, request in self.coordinator.waiting:
            if isinstance(request, ReconfigurationRequest):
                yield self._row_of_waiting(number, request)
                number += 1

    def _row_of_waiting(self, number: int, request: ReconfigurationRequest) -> tuple[object, ...]:
        """Return the row of an event that has not begun: it has no step yet."""
        event = self.state.plan.scenario.events[request.event]
        assert isinstance(event, Reconfigure)
        asked = (number, request.operator, event.name_of_strategy, request.requested_ns)
        return *asked, 0, NEVER, NEVER, NEVER, 0, 0, NEVER, 0, 0


def _carries(moves: Sequence[tuple[int, int, int]], together: bool) -> tuple[Carry, ...]:
    """Return the moves (partition, source, target) of a step by pair of tasks, in order of their first partition.

    Unless they go `together` each is one of its own, so that states travel while others are written and read.
    """
    if not together:
        return tuple(Carry((partition,), source, target) for partition, source, target in moves)
    pairs: dict[tuple[int, int], list[int]] = {}
    for partition, source, target in moves:
        pairs.setdefault((source, target), []).append(partition)
    return tuple(Carry(tuple(partitions), *pair) for pair, partitions in pairs.items())
