"""The coordinator of migrations: one at a time for each key group, what became of it, and what a crash does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.records.decisions import Action, Verdict
from models.records.tables import NEVER
from models.scenario.events import Migrate
from models.units import to_ns
from sim.clock import Process
from sim.control.catch_up import CatchUps
from sim.control.cluster_view import LostPartition
from sim.control.instances import Instances
from sim.control.replicas import REPLICATE, Replicas
from sim.control.run_state import RunState
from sim.data_plane import REMOTE
from sim.migration.context import COMPLETE, Fact, MigrationRun, Move, Protocol
from sim.migration.protocols import PROTOCOLS
from sim.migration.protocols.replicate import Replicate
from sim.migration.runtime import ProtocolRuntime


@dataclass(frozen=True)
class Request:
    """Somebody wants a key group to be elsewhere."""

    group: int  # planned partition
    host: int
    protocol: str
    requested_ns: int
    cause: str = "event"


class Migrations:
    """Starts the runs of protocols, and ends those that a crash affects.

    A move that loses its source, its target, or somebody upstream is called off when the failure is detected: the group
    stays where its state is, upstream sends again what either instance may lack, and duplicates are dropped.
    """

    def __init__(self, state: RunState, instances: Instances, replicas: Replicas, catch_ups: CatchUps) -> None:
        self.state, self.cluster = state, state.cluster
        self.instances, self.replicas, self.catch_ups = instances, replicas, catch_ups
        self.protocols: dict[str, type[Protocol]] = {**PROTOCOLS, REPLICATE: Replicate}
        self.runtime = ProtocolRuntime(state, instances, replicas, catch_ups, self._done)
        self.open: dict[int, MigrationRun] = {}  # group -> its run
        self._waiting: list[Request] = []
        self.ended: Callable[[MigrationRun], None] = lambda _: None  # told of each move that is over

    def start(self) -> None:
        """Start the events of the scenario."""
        for event in self.state.plan.scenario.events.values():
            if isinstance(event, Migrate):
                self.state.clock.process(self._event(event))

    def _event(self, event: Migrate) -> Process:
        yield self.state.clock.sleep(to_ns(event.at_s))
        plan = self.state.plan
        operator = [operator.name for operator in plan.operators].index(event.operator)
        group = plan.first_partition[operator] + event.key_group
        self.request(group, plan.host_names.index(event.host), event.protocol)

    # -- requests

    def request(self, group: int, host: int, protocol: str, cause: str = "event") -> None:
        """Move the group there, after what was asked for before and has to be over.

        That is moves of the group, and of groups that send to it or that it sends to: a protocol asks all that send to
        a group for something, so nobody may become one meanwhile.
        """
        self._waiting.append(Request(group, host, protocol, self.state.clock.now_ns(), cause))
        self.begin_what_can()

    def renew_replicas(self) -> None:
        """Ask for replicas of all groups that have none and could have one."""
        for group, host in self.replicas.missing(self.bound_for()):
            self.request(group, host, REPLICATE, "replica")

    def bound_for(self) -> dict[int, int]:
        """Group -> the host that it is on its way to, or will be after all that is asked for."""
        under_way = {group: self.cluster.task_host[run.move.target] for group, run in self.open.items()}
        return under_way | {request.group: request.host for request in self._waiting}

    def _begin(self, request: Request) -> None:
        reason = self._against(request)
        if reason:
            self._refuse(request.group, request.host, reason)
            return
        state, cluster, old = self.state, self.cluster, self.cluster.owner_of(request.group)
        target = self.instances.task_on(cluster.partition_operator[old], request.host)
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
        move = Move(request.group, old, new, source, target, tasks)
        run = self.runtime.start(name, self.protocols[name], move, request.requested_ns)
        run.cause = request.cause
        self.open[request.group] = run
        if name == REPLICATE:
            self.replicas.begun(move.group, new, request.host, run.requested_ns)

    def _checkpoint_host(self, partition: int) -> int | None:
        return self.state.view.checkpoint_host(partition, self.state.plane.checkpoint_host(partition))

    def _against(self, request: Request) -> str | None:
        cluster, old = self.cluster, self.cluster.owner_of(request.group)
        if not self.state.view.host_alive(request.host):
            return "that host is not in use" if request.host in cluster.spare else "that host is down"
        if cluster.task_host[cluster.partition_task[old]] == request.host:
            return "it is there already"
        return None

    def _refuse(self, group: int, host: int, why: str) -> None:
        name, target = self.cluster.partition_name(group), self.state.plan.host_names[host]
        self.state.decide(Action.MOVE, name, why, target=target, verdict=Verdict.REFUSED)

    # -- what comes back

    def _done(self, run: MigrationRun, what: Fact) -> None:
        run.told.add(what)
        if not run.over and run.told >= COMPLETE:
            self._end(run)

    def _end(self, run: MigrationRun) -> None:
        run.over = True
        del self.open[run.move.group]
        if run.name == REPLICATE:
            self._keep_both(run)
        else:
            for task in self._senders_now(run):
                self.instances.route(task, run.move.group, ())
            self.ended(run)
        self.catch_ups.has_taken(run.move.target)
        self.begin_what_can()

    def _keep_both(self, run: MigrationRun) -> None:
        """The new instance is a replica from now on; checkpoints of the old one go where they went before."""
        self._plan_as_before(run)
        self.state.plane.freeze(run.move.old, False)
        assert run.completed_ns is not None
        self.replicas.made(run.move.new, run.completed_ns, (run.replayed, run.bytes), run.move.upstream)

    def _plan_as_before(self, run: MigrationRun) -> None:
        if run.directed:
            self.state.plan_checkpoint_host(run.move.old, run.planned_before)

    def _senders_now(self, run: MigrationRun) -> list[int]:
        return [task for task in run.move.upstream if self.cluster.task_alive[task]]

    def _is_down(self, group: int) -> bool:
        """Whether the group, or a partition that may send to it, is known to have no state now."""
        cluster, upstream = self.cluster, self.instances.upstream(group)
        partitions = [
            partition
            for partition, its in enumerate(cluster.partition_operator)
            if its in upstream and cluster.is_owner(partition)
        ]
        return not all(
            self.state.view.partition_live(partition) for partition in [cluster.owner_of(group), *partitions]
        )

    def _answers(self, host: int) -> bool:
        """Whether the host does not keep control waiting: it lives, or is known not to."""
        view = self.state.view
        return self.cluster.host_alive[host] or not (view.host_alive(host) or host in view.returning)

    def begin_what_can(self) -> None:
        """Begin what waits and need not wait any longer, in the order of the requests."""
        before = [run.move.group for run in self.open.values()]
        still: list[Request] = []
        todo, self._waiting = self._waiting, []
        for asked in todo:
            request = self._up_to_date(asked)
            if request is None:
                continue  # it is asked for again when a host is back
            waits = self._is_down(request.group) or not self._answers(request.host)
            if waits or any(self._meet(request.group, other) for other in before):
                still.append(request)
            else:
                self._begin(request)
                if request.group not in self.open:
                    continue  # it was refused: nobody has to wait for it
            before.append(request.group)
        self._waiting = still + self._waiting

    def _up_to_date(self, request: Request) -> Request | None:
        """A replica may be wanted elsewhere, or nowhere, by now."""
        if request.protocol != REPLICATE:
            return request
        host = self.replicas.wanted(request.group)
        return None if host is None else replace(request, host=host)

    def _meet(self, group: int, other: int) -> bool:
        """Whether these are one group, or one sends to the other."""
        one, two = self.cluster.partition_operator[group], self.cluster.partition_operator[other]
        return group == other or one in self.instances.upstream(other) or two in self.instances.upstream(group)

    def is_taking(self, task: int) -> bool:
        """Whether a key group has come to the task by a move that is not over."""
        return any(run.move.target == task and self.cluster.retired(run.move.old) for run in self.open.values())

    # -- crashes

    def host_died(self, host: int) -> None:
        """The failure is detected: what former owners there sent may not have left; the successors send it again."""
        cluster = self.cluster
        for run in self.runtime.runs:
            gone = cluster.task_host[run.move.source] == host and not cluster.task_alive[run.move.source]
            if gone and run.completed_ns is not None and not run.resent:
                run.resent = True
                successor = cluster.owner_of(run.move.group)
                if cluster.partition_live[successor]:
                    self.instances.resend(successor)

    def cancel_affected(self, losses: Sequence[LostPartition]) -> None:
        """These partitions are about to be recovered: moves of them, or with them upstream, are called off.

        A move waits for partitions upstream that have no state, so the task of each that is lost was asked for its
        part.
        """
        lost = {self.cluster.partition_operator[loss.partition] for loss in losses}
        for run in list(self.open.values()):
            if run.completed_ns is not None and run.name != REPLICATE:
                continue  # what says so is on its way
            operator = self.state.plan.operators[self.cluster.partition_operator[run.move.group]]
            run.resend = run.resend or any(edge.down.index in lost for edge in operator.edges)
            tasks = (run.move.source, run.move.target, *run.move.upstream)
            if not all(self.state.view.task_alive(task) for task in tasks):
                self._call_off(run)
        if self._waiting:
            self.state.clock.process(self._later())

    def _later(self) -> Process:
        """What waited for moves that were called off begins once everything is assigned."""
        yield self.state.clock.sleep(self.state.clock.now_ns())
        self.begin_what_can()

    def _call_off(self, run: MigrationRun) -> None:
        """Stay with the old instance if it lives; else go on with the new one if that has a state.

        Until the old one has handed its state down nothing that is kept for the new one is let go.
        """
        move, cluster, plane = run.move, self.cluster, self.state.plane
        over, live = cluster.retired(move.old), cluster.partition_live
        new_only = self.state.view.partition_live(move.new) and not self.state.view.partition_live(move.old)
        stays, other = (move.new, move.old) if over or new_only else (move.old, move.new)
        if run.name == REPLICATE:
            self.replicas.called_off(move.new, (run.replayed, run.bytes), takes_over=stays == move.new)
        else:
            self._refuse(move.group, cluster.task_host[move.target], "a host that has a part in the move died")
        if not cluster.retired(move.old):
            self._plan_as_before(run)
        self.instances.own(stays)
        for task in self._senders_now(run):
            self.instances.route(task, move.group, ())
        for sender in plane.senders(other):
            plane.copy_kept(sender, other, stays)
        if not cluster.retired(other):
            self.instances.retire(other)
        if run.frozen and stays == move.old:  # also where it died: what a dead task hears last may freeze it
            plane.freeze(stays, False)
        plane.unhold(move.target, move.new)
        if stays == move.new:
            self._go_on(move)
        if live[stays]:
            for sender in plane.senders(stays):
                if live[sender]:
                    plane.replay(sender, stays)
        run.over = True
        del self.open[move.group]
        if over:
            self.catch_ups.has_taken(move.target)

    def _go_on(self, move: Move) -> None:
        """The new instance answers; what it processed in silence it sends now."""
        plane, live = self.state.plane, self.cluster.partition_live
        plane.mute(move.new, False)
        if not live[move.new]:
            if self.cluster.task_alive[move.target]:
                self._warm(move)
            return
        self.instances.resend(move.new)

    def _warm(self, move: Move) -> None:
        """The new instance starts from what the old one has handed down."""
        self.state.plane.adopt(move.new, move.old)
        self.instances.open(move.new)
        if self.instances.has_event_time(move.group):
            self.instances.resend(move.new)

    # -- records

    def rows(self) -> list[tuple[object, ...]]:
        """One row for each run, and for each request that was still waiting at the end."""
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
            )
            for request in self._waiting
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
                NEVER if run.completed_ns is None else self.runtime.worst_ns(run),
                run.cause,
            )
            for run in self.runtime.runs
            if run.name != REPLICATE
        ]
        return [*runs, *waiting]
