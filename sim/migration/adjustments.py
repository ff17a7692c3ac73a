"""Adjustments of operators: how a run begins, how it ends, and how it is finished or undone after a crash."""

from __future__ import annotations

from collections.abc import Iterable

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from sim.control.slots import Slots
from sim.migration.adjustment import (
    Adjustment,
    AdjustmentProtocol,
    AdjustmentRequest,
    AdjustmentRun,
    AdjustmentServices,
    Part,
)
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import WHOLE, PlanKind
from sim.migration.protocols.oap import OAP

ADJUSTMENT_PROTOCOLS: dict[str, type[AdjustmentProtocol]] = {"oap": OAP}


class Adjustments(PlanKind[AdjustmentRequest]):
    """Gives operators other tasks, by a protocol of the whole operator.

    A run that loses a task before the new instances are owners is undone: the old ones have their states, and have got
    all tuples. Later it is finished: what a crash has taken of the new ones comes back from their checkpoints, which
    are parts of those that were split.
    """

    def __init__(self, services: AdjustmentServices, coordinator: RunCoordinator, slots: Slots) -> None:
        self.services, self.state, self.cluster = services, services.state, services.state.cluster
        self.instances, self.coordinator, self.slots = services.instances, coordinator, slots
        self.protocols: dict[str, type[AdjustmentProtocol]] = dict(ADJUSTMENT_PROTOCOLS)
        self.runs: list[AdjustmentRun] = []
        self._over_ns: dict[AdjustmentRequest, int] = {}
        self._postponed: set[AdjustmentRequest] = set()

    # -- requests

    def request(self, operator: int, hosts: Iterable[int], protocol: str, cause: str = "event") -> AdjustmentRequest:
        """Request that the operator has tasks on these hosts; returns what `completed_ns` is asked with."""
        territory, now = ((operator, WHOLE),), self.state.clock.now_ns()
        made = AdjustmentRequest(territory, protocol, now, cause, operator, tuple(hosts))
        self.coordinator.request(self, made)
        return made

    def completed_ns(self, request: AdjustmentRequest) -> int:
        """Return when the operator had the tasks that were asked for [ns]; NEVER if it never had."""
        return self._over_ns.get(request, NEVER)

    def pause_ns(self, request: AdjustmentRequest) -> tuple[int, int]:
        """Return when the first task stopped for a request, and when the last one went on; NEVER where none did."""
        asked = [run for run in self.runs if run.asked is request]
        paused = [run.paused_ns for run in asked if run.paused_ns is not None]
        resumed = [run.resumed_ns for run in asked if run.resumed_ns is not None]
        return min(paused, default=NEVER), max(resumed, default=NEVER)

    def tasks_of(self, operator: int) -> int:
        """Return how many tasks own key groups of the operator."""
        return len({self.cluster.partition_task[owner] for owner in self._owners(operator)})

    def is_adjusting(self, operator: int) -> bool:
        """Return whether an adjustment of the operator is under way or waits."""
        open_ones = (run for run in self.coordinator.open.values() if isinstance(run, AdjustmentRun))
        waiting = (one for _, one in self.coordinator.waiting if isinstance(one, AdjustmentRequest))
        return any(run.plan.operator == operator for run in open_ones) or any(
            one.operator == operator for one in waiting
        )

    def waits(self, request: AdjustmentRequest) -> bool:
        """Return whether somebody who takes part is known to be down, a host does not answer, or has no slot."""
        near, view, cluster = self._near(request.operator), self.state.view, self.cluster
        down = (one for one in cluster.down_owners if cluster.partition_operator[one] in near)
        if not all(map(view.partition_live, down)):
            return True
        if not all(cluster.host_alive[host] or not self._is_awaited(host) for host in request.hosts):
            return True
        full = [host for host in request.hosts if view.host_alive(host)]
        full = [host for host in full if not self.slots.has_room(request.operator, host)]
        if full and request not in self._postponed:
            self._postponed.add(request)
            name, host = self.state.plan.operators[request.operator].name, self.state.plan.host_names[full[0]]
            self.state.decide(Action.POSTPONE, f"the rescaling of {name}", f"{host} has no free slot", target=host)
        return bool(full)

    def _near(self, operator: int) -> set[int]:
        """Return the operator, and those next to it."""
        dataflow = self.state.plan.dataflow
        return {operator, *dataflow.predecessors(operator), *dataflow.successors(operator)}

    def _is_awaited(self, host: int) -> bool:
        view = self.state.view
        return view.host_alive(host) or host in view.returning

    # -- how a run begins

    def begin(self, request: AdjustmentRequest) -> AdjustmentRun | None:
        """Return the run, with new instances of the key groups that change their task."""
        down = [host for host in request.hosts if not self.state.view.host_alive(host)]
        if down:
            self._refuse(request.operator, f"{self.state.plan.host_names[down[0]]} is down")
            return None
        owners, goals = self._owners(request.operator), self._goals(request)
        at = [self.cluster.partition_task[owner] for owner in owners]
        parts = tuple(
            self._part(owner, goal)
            for owner, task, goal in zip(owners, at, goals, strict=True)
            if self.cluster.task_host[task] != goal
        )
        if not parts:
            self._over_ns[request] = self.state.clock.now_ns()
            return None
        target = {part.old: part.target for part in parts}
        tolerance, dataflow = self.state.plan.scenario.fault_tolerance, self.state.plan.dataflow
        plan = Adjustment(
            operator=request.operator,
            parts=parts,
            before=tuple(dict.fromkeys(at)),
            after=tuple(dict.fromkeys(target.get(owner, task) for owner, task in zip(owners, at, strict=True))),
            upstream=self._tasks_of(dataflow.predecessors(request.operator)),
            downstream=self._tasks_of(dataflow.successors(request.operator)),
            checkpoint=tolerance.adjusting.checkpoint,
            reading=tolerance.adjusting.reading,
        )
        # Everyone upstream sends to the old instances until the protocol says otherwise, whoever owns the groups then.
        for part in parts:
            for task in plan.upstream:
                self.instances.route(task, part.group, (part.old,))
        name = request.protocol
        run = AdjustmentRun(name, self.protocols[name], plan, self, request.requested_ns, request.cause, asked=request)
        self.runs.append(run)
        return run

    def _owners(self, operator: int) -> list[int]:
        first = self.state.plan.first_partition
        return [self.cluster.owner_of(group) for group in range(first[operator], first[operator + 1])]

    def _goals(self, request: AdjustmentRequest) -> list[int]:
        """Return the host of each key group."""
        described, hosts = self.state.plan.operators[request.operator].description, request.hosts
        return [hosts[described.task_of(k, len(hosts))] for k in range(described.groups)]

    def _part(self, old: int, host: int) -> Part:
        cluster = self.cluster
        group, source = cluster.group_of(old), cluster.partition_task[old]
        target = self.instances.task_on(cluster.partition_operator[old], host)
        new = self.instances.add(group, target)
        self.state.plan_checkpoint_host(new, cluster.planned_checkpoint_host[new])
        return Part(group, old, new, source, target)

    def _tasks_of(self, operators: Iterable[int]) -> tuple[int, ...]:
        """Return the tasks of operators that are alive as far as control knows."""
        wanted, alive = set(operators), self.state.view.task_alive
        return tuple(task for task, its in enumerate(self.cluster.task_operator) if its in wanted and alive(task))

    def _refuse(self, operator: int, why: str) -> None:
        name = self.state.plan.operators[operator].name
        self.state.decide(Action.RESCALE, name, why, verdict=Verdict.REFUSED)

    # -- while it goes on

    def is_taking(self, task: int) -> bool:
        """Return whether key groups have come to the task by an adjustment that is not over."""
        return any(
            isinstance(run, AdjustmentRun) and run.is_committed and task in run.plan.targets
            for run in self.coordinator.open.values()
        )

    # -- how it ends

    def ended(self, run: AdjustmentRun) -> None:
        """Send to the owners, which are the new instances."""
        self._over(run)

    def _over(self, run: AdjustmentRun) -> None:
        """Note that the operator has its new tasks."""
        run.over_ns = self.state.clock.now_ns() if run.completed_ns is None else run.completed_ns
        assert run.asked is not None
        self._over_ns[run.asked] = run.over_ns
        self._route_to_owners(run)
        for task in run.plan.targets:
            self.services.catch_ups.has_taken(task)
        self.slots.note_freed()

    def _route_to_owners(self, run: AdjustmentRun) -> None:
        for task in run.plan.upstream:
            if self.cluster.task_alive[task]:
                for part in run.plan.parts:
                    self.instances.route(task, part.group, ())

    # -- crashes

    def host_died(self, host: int) -> None:
        """Have successors send again what former owners on the host may not have sent; the failure is detected."""
        for run in self.runs:
            if run.over_ns is None or run.resent:
                continue
            gone = [part for part in run.plan.parts if self.cluster.task_host[part.source] == host]
            gone = [part for part in gone if not self.cluster.task_alive[part.source]]
            run.resent = bool(gone)
            self._resend(gone)

    def _resend(self, parts: Iterable[Part]) -> None:
        for part in parts:
            successor = self.cluster.owner_of(part.group)
            if self.cluster.partition_live[successor]:
                self.instances.resend(successor)

    def cancelled(self, run: AdjustmentRun) -> None:
        """Undo the run as long as the old instances are owners; else finish it."""
        if run.is_committed:
            self._finish(run)
        else:
            self._undo(run)
        for task in (*run.plan.members, *run.plan.upstream):
            self.state.plane.unpause(task)

    def _undo(self, run: AdjustmentRun) -> None:
        """Stay with the old instances, which own their groups and get all tuples for them."""
        self._refuse(run.plan.operator, "somebody who has a part in it died, or a checkpoint is gone")
        self._route_to_owners(run)
        for part in run.plan.parts:
            self.instances.retire(part.new)
            if run.frozen:  # else one that is under way would count as none
                self.state.plane.freeze(part.old, False)
        self.slots.note_freed()

    def _finish(self, run: AdjustmentRun) -> None:
        """Go on with the new instances, which have all that upstream keeps for them, or get it when restored."""
        self._over(run)
        for part in run.plan.parts:
            self.services.let_go(part)
        # Old instances may not have sent what the new ones began with.
        self._resend(
            part
            for part in run.plan.parts
            if not self.state.view.task_alive(part.source) or self.instances.has_event_time(part.group)
        )
