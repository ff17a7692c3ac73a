"""Moves of key groups: how a run begins, how it ends, and how it is cancelled after a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from models.planning.reconfiguration import moves_of
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.events import Migrate, Reconfigure
from models.topology import layout
from sim.clock import Process
from sim.control.catch_up import CatchUps
from sim.control.instances import Instances
from sim.control.replicas import REPLICATE, SWITCHOVER, Replicas
from sim.control.run_state import RunState
from sim.control.slots import Slots
from sim.migration.coordinator import RunCoordinator
from sim.migration.move import MigrationRun, Move, MoveProtocol, MoveRequest, MoveServices
from sim.migration.protocol import PlanKind
from sim.migration.protocols import PROTOCOLS, PROTOCOLS_WITHOUT_CHECKPOINTS
from sim.migration.protocols.pause_drain_resume import PauseDrainResume
from sim.migration.protocols.replicate import Replicate, ReplicateWithoutCheckpoints
from sim.plane_values import REMOTE


class Migrations(PlanKind[MoveRequest]):
    """Moves key groups, one run at a time for each group.

    A move that loses its source, its target, or somebody upstream is cancelled when the failure is detected: the group
    stays where its state is, upstream replays tuples that either instance may lack, and duplicates are dropped.
    """

    def __init__(
        self,
        state: RunState,
        instances: Instances,
        replicas: Replicas,
        catch_ups: CatchUps,
        coordinator: RunCoordinator,
        slots: Slots,
    ) -> None:
        self.state, self.cluster, self.coordinator = state, state.cluster, coordinator
        self.instances, self.replicas, self.catch_ups, self.slots = instances, replicas, catch_ups, slots
        self.services = MoveServices(state, instances, replicas, catch_ups)
        history = state.plan.history is not None
        replicate = ReplicateWithoutCheckpoints if history else Replicate
        self.protocols: dict[str, type[MoveProtocol]] = {
            **PROTOCOLS,
            **PROTOCOLS_WITHOUT_CHECKPOINTS,
            REPLICATE: replicate,
        }
        self.runs: list[MigrationRun] = []
        self.open: dict[int, MigrationRun] = {}  # group -> its run
        self._by_new: dict[int, MigrationRun] = {}  # instance -> the run that made it
        self._postponed: set[MoveRequest] = set()  # that wait for a slot
        self.on_end: Callable[[MigrationRun], None] = lambda _: None  # told of each move that is over

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.state.plan.scenario.events.items():
            if isinstance(event, Migrate):
                self.state.clock.process(self._event(name, event))
            elif isinstance(event, Reconfigure) and event.moves_each:
                self.state.clock.process(self._plan(name, event))

    def _event(self, name: str, event: Migrate) -> Process:
        yield self.state.clock.sleep(self.state.plan.instant_ns(name))
        plan = self.state.plan
        operator = [operator.name for operator in plan.operators].index(event.operator)
        group = plan.first_partition[operator] + event.key_group
        self.request(group, plan.host_names.index(event.host), plan.scenario.protocol_of(event))

    def _plan(self, name: str, event: Reconfigure) -> Process:
        """Move each key group of a plan by itself, all at once."""
        yield self.state.clock.sleep(self.state.plan.instant_ns(name))
        scenario, plan = self.state.plan.scenario, self.state.plan
        operator = [operator.name for operator in plan.operators].index(event.operator)
        placed = layout.placement(scenario)
        for move in moves_of(scenario, name, plan.inputs.configurations):
            host = plan.host_names.index(placed[layout.task_name(event.operator, move.target)])
            self.request(plan.first_partition[operator] + move.key_group, host, event.protocol)

    # -- requests

    def request(self, group: int, host: int, protocol: str, cause: str = "event") -> None:
        """Request a move of the group; it begins when earlier requests that it meets are over."""
        territory = ((self.cluster.partition_operator[group], group),)
        now = self.state.clock.now_ns()
        self.coordinator.request(self, MoveRequest(territory, protocol, now, cause, group, host))

    @property
    def waiting(self) -> list[MoveRequest]:
        """Return the requests for moves that wait."""
        return [request for _, request in self.coordinator.waiting if isinstance(request, MoveRequest)]

    def renew_replicas(self) -> None:
        """Ask for replicas of all groups that have none and could have one."""
        for group, host in self.replicas.missing(self.bound_for()):
            self.request(group, host, REPLICATE, "replica")

    def bound_for(self) -> dict[int, int]:
        """Return group -> the host to which it moves, or will move by a request that waits."""
        under_way = {group: self.cluster.task_host[run.move.target] for group, run in self.open.items()}
        return under_way | {request.group: request.host for request in self.waiting}

    def expected_at(self, host: int) -> set[int]:
        """Return the groups that move to a host now, or will by a request that waits, even if they go on from there."""
        under_way = {group for group, run in self.open.items() if self.cluster.task_host[run.move.target] == host}
        return under_way | {request.group for request in self.waiting if request.host == host}

    # -- how a run begins

    def up_to_date(self, request: MoveRequest) -> MoveRequest | None:
        """Return the request; a replica may be wanted elsewhere, or nowhere, by now."""
        if request.protocol != REPLICATE:
            return request
        host = self.replicas.wanted(request.group)
        return None if host is None else replace(request, host=host)

    def may_change(self, request: MoveRequest) -> bool:
        """Return whether a replica is asked for."""
        return request.protocol == REPLICATE

    def waits(self, request: MoveRequest) -> bool:
        """Return whether somebody who takes part is known to have no state, or is dead without control knowing."""
        if self._is_down(request.group) or not self._answers(request.host):
            return True
        return request.protocol != REPLICATE and not self._has_room(request)

    def _has_room(self, request: MoveRequest) -> bool:
        """Return whether the target has a slot for the group; write down, once, that it does not."""
        operator = self.cluster.partition_operator[request.group]
        room = self.slots.has_room(operator, request.host) or not self.state.view.host_alive(request.host)
        if not room and request not in self._postponed:
            self._postponed.add(request)
            name, host = self.cluster.partition_name(request.group), self.state.plan.host_names[request.host]
            self.state.decide(Action.POSTPONE, f"the move of {name}", f"{host} has no free slot", target=host)
        return room

    def begin(self, request: MoveRequest) -> MigrationRun | None:
        """Return the run, with a new instance at the target; None if the move is refused, or done at once."""
        reason = self._against(request)
        if reason:
            self._refuse(request.group, request.host, reason)
            return None
        state, cluster, old = self.state, self.cluster, self.cluster.owner_of(request.group)
        replica = self.replicas.beside(old)
        if replica is not None and cluster.host_of(replica) == request.host:
            self._switch_over(request, old, replica)
            return None
        operator = cluster.partition_operator[old]
        target = self.instances.task_on(operator, request.host)
        new = self.instances.add(request.group, target)
        state.plan_checkpoint_host(new, cluster.planned_checkpoint_host[new])
        upstream = self.instances.upstream(request.group)
        tasks = tuple(
            task for task, its in enumerate(cluster.task_operator) if its in upstream and state.view.task_alive(task)
        )
        name, source, host_name = request.protocol, cluster.partition_task[old], state.plan.host_names[request.host]
        if self.protocols[name].needs_checkpoint and self._checkpoint_host(old) not in (request.host, REMOTE):
            name = "direct"
            why = f"{host_name} does not hold its newest checkpoint"
            state.decide(Action.USE_DIRECT, cluster.partition_name(request.group), why, target=host_name)
        move = Move(operator, request.group, old, new, source, target, tasks)
        # The instance that leaves may itself have come by a move whose tuples are still measured.
        before = self._by_new.get(old)
        if before is not None and before.worst_ns is None:
            before.worst_ns = self.worst_ns(before)  # `measure` below begins anew
        for instance in (old, new):
            state.plane.measure(instance, state.clock.now_ns())
        run = MigrationRun(name, self.protocols[name], move, self, request.requested_ns, request.cause)
        self.runs.append(run)
        self._by_new[new] = run
        return run

    def _switch_over(self, request: MoveRequest, old: int, replica: int) -> None:
        """Have the replica at the target be the owner at once, and the owner be the replica."""
        task, operator = self.cluster.partition_task, self.cluster.partition_operator[old]
        self.replicas.switch_over(request.group)
        move = Move(operator, request.group, old, replica, task[old], task[replica], ())
        run = MigrationRun(SWITCHOVER, PauseDrainResume, move, self, request.requested_ns, request.cause)
        run.over, run.completed_ns, run.worst_ns = True, self.state.clock.now_ns(), NEVER
        self.runs.append(run)
        self.slots.note_freed()

    def started(self, run: MigrationRun) -> None:
        """Note that the group is moving, or gets a replica."""
        self.open[run.move.group] = run
        if run.name == REPLICATE:
            host = self.cluster.task_host[run.move.target]
            self.replicas.begun(run.move.group, run.move.new, host, run.requested_ns)

    def _checkpoint_host(self, partition: int) -> int | None:
        return self.state.view.checkpoint_host(partition, self.state.plane.checkpoint_host(partition))

    def _against(self, request: MoveRequest) -> str | None:
        cluster, old = self.cluster, self.cluster.owner_of(request.group)
        if not self.state.view.host_alive(request.host):
            return "that host is not in use" if request.host in cluster.spare else "that host is down"
        if cluster.task_host[cluster.partition_task[old]] == request.host:
            return "it is there already"
        return None

    def _refuse(self, group: int, host: int, why: str) -> None:
        name, target = self.cluster.partition_name(group), self.state.plan.host_names[host]
        self.state.decide(Action.MOVE, name, why, target=target, verdict=Verdict.REFUSED)

    # -- how it ends

    def completed(self, run: MigrationRun) -> None:
        """Measure the tuples of the group until one does not wait."""
        self.state.plane.measure_until_calm(run.move.new)

    def ended(self, run: MigrationRun) -> None:
        """Send to the new owner alone, or keep both where it is a replica."""
        del self.open[run.move.group]
        if run.name == REPLICATE:
            self._keep_both(run)
        else:
            self._route_to_owner(run)
            self.on_end(run)
        self.catch_ups.has_taken(run.move.target)
        self.slots.note_freed()

    def _keep_both(self, run: MigrationRun) -> None:
        """Keep the new instance as a replica; checkpoints of the old one go where they went before."""
        self._plan_as_before(run)
        self.state.plane.freeze(run.move.old, False)
        assert run.completed_ns is not None
        self.replicas.made(run.move.new, run.completed_ns, (run.replayed, run.bytes), run.move.upstream)

    def _plan_as_before(self, run: MigrationRun) -> None:
        if run.directed:
            self.state.plan_checkpoint_host(run.move.old, run.planned_before)

    def _route_to_owner(self, run: MigrationRun) -> None:
        """Have upstream send to the owner, and to the replica that the group may have beside it."""
        for task in run.move.upstream:
            if self.cluster.task_alive[task]:
                self.instances.route(task, run.move.group, self.replicas.targets(run.move.group))

    def _is_down(self, group: int) -> bool:
        """Return whether the group, or a partition that may send to it, is known to have no state now."""
        cluster = self.cluster
        if not cluster.down_owners:
            return False
        owner, upstream = cluster.owner_of(group), self.instances.upstream(group)
        return any(
            not self.state.view.partition_live(one)
            for one in cluster.down_owners
            if one == owner or cluster.partition_operator[one] in upstream
        )

    def _answers(self, host: int) -> bool:
        """Return False if control would wait for the host: it is dead, and trusted or about to return."""
        view = self.state.view
        return self.cluster.host_alive[host] or not (view.host_alive(host) or host in view.returning)

    def is_taking(self, task: int) -> bool:
        """Return whether a key group has come to the task by a move that is not over."""
        return any(run.move.target == task and self.cluster.retired(run.move.old) for run in self.open.values())

    # -- crashes

    def host_died(self, host: int) -> None:
        """Have successors resend outputs that former owners on the host may not have sent; the failure is detected."""
        cluster = self.cluster
        for run in self.runs:
            gone = cluster.task_host[run.move.source] == host and not cluster.task_alive[run.move.source]
            if gone and run.completed_ns is not None and not run.resent:
                run.resent = True
                successor = cluster.owner_of(run.move.group)
                if cluster.partition_live[successor]:
                    self.instances.resend(successor)

    def can_be_cancelled(self, run: MigrationRun) -> bool:
        """Return whether the move is not complete, or a replica is being made: that ends where it began."""
        return run.completed_ns is None or run.name == REPLICATE

    def lost(self, run: MigrationRun, operators: set[int]) -> None:
        """Note whether the new instance has to resend: an operator downstream lost outputs of the old one."""
        operator = self.state.plan.operators[run.move.operator]
        run.resend = run.resend or any(edge.down.index in operators for edge in operator.edges)

    def cancelled(self, run: MigrationRun) -> None:
        """Stay with the old instance if it lives; else go on with the new one if that has a state.

        Until the old one has handed its state down, upstream keeps all outputs for the new one.
        """
        move, cluster, plane = run.move, self.cluster, self.state.plane
        over, live = cluster.retired(move.old), cluster.partition_live
        new_only = self.state.view.partition_live(move.new) and not self.state.view.partition_live(move.old)
        stays, other = (move.new, move.old) if over or new_only else (move.old, move.new)
        if run.name == REPLICATE:
            self.replicas.called_off(move.new, (run.replayed, run.bytes), takes_over=stays == move.new)
        else:
            run.cancelled_ns = self.state.clock.now_ns()
            self._refuse(move.group, cluster.task_host[move.target], "a host that has a part in the move died")
        if not cluster.retired(move.old):
            self._plan_as_before(run)
        # First owner and routes, so that nothing new goes to the instance that ends. Then the outputs that are kept for
        # it, which senders forget once it is retired.
        self.instances.own(stays)
        self._route_to_owner(run)
        for sender in plane.senders(other):
            plane.copy_kept(sender, other, stays)
        if not cluster.retired(other):
            self.instances.retire(other)
        if run.frozen and stays == move.old:  # also if it died: the last message to a dead task may have frozen it
            plane.freeze(stays, False)
        plane.unhold(move.target, move.new)
        plane.unhold(move.source, move.old)
        if stays == move.new or run.drained:
            self._go_on(move, stays)
        # Upstream may have sent to the other instance alone. A partition that is down replays when it is restored.
        if live[stays]:
            for sender in plane.senders(stays):
                if live[sender]:
                    plane.replay(sender, stays)
        del self.open[move.group]
        if over:
            self.catch_ups.has_taken(move.target)
        self.slots.note_freed()

    def _go_on(self, move: Move, stays: int) -> None:
        """Let the instance that stays answer, and send the outputs that it kept while it was silent."""
        plane, live = self.state.plane, self.cluster.partition_live
        plane.mute(stays, False)
        if live[stays]:
            self.instances.resend(stays)
        elif stays == move.new and self.cluster.task_alive[move.target]:
            self._warm(move)

    def _warm(self, move: Move) -> None:
        """Start the new instance from the state that the old one has handed down."""
        self.state.plane.adopt(move.new, move.old)
        self.instances.open(move.new)
        if self.instances.has_event_time(move.group):
            self.instances.resend(move.new)

    # -- records

    def worst_ns(self, run: MigrationRun) -> int:
        """Return the longest time of a tuple of the group from its arrival at either instance until it was answered.

        Of those that arrive from the begin of the run on, until after its completion one does not wait.
        """
        if run.worst_ns is not None:
            return run.worst_ns
        return max(self.state.plane.longest_ns(instance) for instance in (run.move.old, run.move.new))

    def rows(self) -> list[tuple[object, ...]]:
        """Return one row for each run, and for each request that was still waiting at the end."""
        cluster = self.cluster
        waiting = [
            (
                request.protocol,
                cluster.partition_operator[request.group],
                cluster.partition_index[request.group],
                cluster.task_host[cluster.partition_task[cluster.owner_of(request.group)]],
                request.host,
                request.requested_ns,
                *[NEVER] * 3,
                0,
                0,
                NEVER,
                request.cause,
                NEVER,
            )
            for request in self.waiting
            if request.protocol != REPLICATE
        ]
        runs = [
            (
                run.name,
                cluster.partition_operator[run.move.group],
                cluster.partition_index[run.move.group],
                cluster.task_host[run.move.source],
                cluster.task_host[run.move.target],
                run.requested_ns,
                NEVER if run.paused_ns is None else run.paused_ns,
                NEVER if run.resumed_ns is None else run.resumed_ns,
                NEVER if run.completed_ns is None else run.completed_ns,
                run.replayed,
                run.bytes,
                NEVER if run.completed_ns is None else self.worst_ns(run),
                run.cause,
                run.cancelled_ns,
            )
            for run in self.runs
            if run.name != REPLICATE
        ]
        return [*runs, *waiting]
