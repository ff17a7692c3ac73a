"""Spare hosts and rescaling: the two ways in which the resources of a run change.

A spare host is acquired when it is needed, and released when it is empty. A rescaled operator gets another number of
tasks, and the key groups whose task changes move.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.records.decisions import Action
from models.records.tables import NEVER
from models.scenario.events import ADJUSTMENT, Rescale
from models.units import to_ns
from sim.clock import Process
from sim.control.adjacent_tasks import AdjacentTasks
from sim.control.cluster import Cluster
from sim.control.failures import Failures
from sim.control.recoveries import Recoveries
from sim.control.run_state import StateOn
from sim.control.slots import Slots
from sim.data_plane import Plane, RecoverablePlane
from sim.migration.adjustment import AdjustmentRequest
from sim.migration.adjustments import Adjustments
from sim.migration.moves import Migrations


def in_use(cluster: Cluster) -> list[int]:
    """Return the hosts that are in use now."""
    return [host for host in range(len(cluster.host_alive)) if host not in cluster.spare]


class SpareHosts:
    """Acquires and releases hosts. A spare host counts as dead: no task, no checkpoint, and no recovery there.

    `coming`: the host that was acquired and is not usable yet; one at a time. `usable_since`: host -> when its last
    acquisition was over [ns].
    """

    def __init__(
        self, state: StateOn[RecoverablePlane], migrations: Migrations, recoveries: Recoveries, failures: Failures
    ) -> None:
        self.state, self.cluster, self.failures = state, state.cluster, failures
        self._recoveries, self._migrations = recoveries, migrations
        self.coming: int | None = None  # the host that was acquired and cannot be used yet
        self.usable_since: dict[int, int] = {}
        self._intervals = [[host, 0, NEVER] for host in in_use(self.cluster)]

    def is_spare(self, host: int) -> bool:
        """Return True if the host is not in use."""
        return host in self.cluster.spare

    def acquire(self, host: int, why: str) -> None:
        """Take the host into use; tasks can be there once the acquisition is over."""
        now = self.state.clock.now_ns()
        self.state.decide(Action.ACQUIRE, self._name(host), why)
        self.cluster.spare.remove(host)
        self.coming = host
        self._intervals.append([host, now, NEVER])
        self.state.clock.process(self._arrives(host))

    def join(self, host: int) -> None:
        """Use a spare host from now on."""
        self.cluster.spare.remove(host)
        self._intervals.append([host, self.state.clock.now_ns(), NEVER])
        self.failures.begins(host)
        self.failures.crash.recover_orphans()

    def _arrives(self, host: int) -> Process:
        """Make the host usable when its acquisition is over."""
        clock, elasticity = self.state.clock, self.state.plan.scenario.elasticity
        yield clock.sleep(clock.now_ns() + to_ns(elasticity.acquisition_s))
        self.coming = None
        self.usable_since[host] = clock.now_ns()
        # Known to control first: partitions that no host could take may be assigned to it.
        self.failures.begins(host)
        self.failures.crash.recover_orphans()

    def can_release(self, host: int) -> bool:
        """Return True if nothing is left there: no partition, checkpoint or work, and no move or recovery under way.

        A recovery anywhere counts: it may still choose this host, or read a checkpoint from it."""
        cluster, plane, migrations = self.cluster, self.state.plane, self._migrations
        if not cluster.host_alive[host] or cluster.partitions_on(host) or self._recoveries.busy:
            return False
        parts = [(run.move.source, run.move.target, *run.move.upstream) for run in migrations.open.values()]
        moving = any(cluster.task_host[task] == host for tasks in parts for task in tasks)
        held = any(
            plane.checkpoint_host(partition) == host
            for partition in range(len(cluster.partition_task))
            if cluster.is_owner(partition)
        )
        return not moving and not held and all(map(plane.empty, cluster.host_tasks[host]))

    def release(self, host: int, why: str) -> None:
        """Give the host back. New owners of its key groups send again outputs that may not have left it."""
        now = self.state.clock.now_ns()
        self.state.decide(Action.RELEASE, self._name(host), why)
        self.cluster.leaving.discard(host)
        self.cluster.spare.append(host)
        self.cluster.spare.sort()
        self.failures.ends(host)
        next(one for one in self._intervals if one[0] == host and one[2] == NEVER)[2] = now

    def _name(self, host: int) -> str:
        """Return the name of a host."""
        return self.state.plan.host_names[host]

    def rows(self, end_ns: int) -> list[tuple[int, int, int]]:
        """Return (host, since, until) [ns] of each time that a host was in use; `end_ns` where it still is."""
        return [(host, since, end_ns if until == NEVER else until) for host, since, until in self._intervals]


RESCALE = "rescale"


@dataclass(frozen=True)
class _Change:
    """One rescaling that was asked for."""

    operator: int
    at_ns: int
    before: int
    after: int
    groups: tuple[int, ...]  # that move
    request: AdjustmentRequest | None = None  # where the operator is adjusted as a whole


class Rescaling:
    """Changes the number of tasks of operators, and requests the moves that follow from it.

    `_seats` are the hosts of the tasks of each operator, by number of the task: where its key groups belong. It is a
    plan: groups may still be on their way, or be elsewhere after a recovery.
    """

    def __init__(self, state: StateOn[Plane], migrations: Migrations, adjustments: Adjustments, slots: Slots) -> None:
        self.state, self.cluster, self.plan, self.migrations = state, state.cluster, state.plan, migrations
        self.adjustments, self.slots = adjustments, slots
        self._adjacent = AdjacentTasks(state)
        self._changes: list[_Change] = []
        self._seats: list[list[int]] = [[] for _ in self.plan.operators]
        for task, operator in enumerate(self.cluster.task_operator):
            self._seats[operator].append(self.cluster.task_host[task])

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.plan.scenario.events.items():
            if isinstance(event, Rescale):
                self.state.clock.process(self._event(name, event))

    def _event(self, name: str, event: Rescale) -> Process:
        """Rescale at the instant of an event of the scenario."""
        yield self.state.clock.sleep(self.plan.instant_ns(name))
        operator = [operator.name for operator in self.plan.operators].index(event.operator)
        self.rescale(operator, event.parallelism, self.plan.scenario.protocol_of(event))

    def rescale(self, operator: int, parallelism: int, protocol: str, why: str = "it is asked for") -> None:
        """Give each key group to its task of the new ones; request moves of those that are elsewhere, at once.

        `operator`: its index. `parallelism`: number of tasks from now on. `protocol`: name of the migration protocol,
        or of that which adjusts the operator as a whole.
        Key groups whose task has the same number as before stay where they are, unless it has another host.
        """
        before = len(self._seats[operator])
        self._seats[operator] = self._new_seats(operator, parallelism)
        bound, first = self.migrations.bound_for(), self.plan.first_partition[operator]
        moves = {}
        described = self.plan.operators[operator].description
        for k in range(described.groups):
            group, goal = first + k, self._seats[operator][described.task_of(k, parallelism)]
            here = self.cluster.task_host[self.cluster.partition_task[self.cluster.owner_of(group)]]
            if bound.get(group, here) != goal:
                moves[group] = goal
        now, name = self.state.clock.now_ns(), self.plan.operators[operator].name
        why = f"{why}; {len(moves)} key groups change their task"
        self.state.decide(Action.RESCALE, name, why, origin=str(before), target=str(parallelism))
        if protocol == ADJUSTMENT:
            asked = self.adjustments.request(operator, self._seats[operator], protocol)
            self._changes.append(_Change(operator, now, before, parallelism, tuple(moves), asked))
            return
        self._changes.append(_Change(operator, now, before, parallelism, tuple(moves)))
        for group, goal in moves.items():
            self.migrations.request(group, goal, protocol, RESCALE)

    def _new_seats(self, operator: int, parallelism: int) -> list[int]:
        """Return the hosts of the tasks: tasks stay, new ones and those of lost hosts go where the operator has fewest.

        Of these, hosts come last whose failure would then take too many adjacent tasks; ties go to the host with the
        fewest tasks of all operators, then to the first.
        """
        cluster, seats, avoided = self.cluster, list[int](), self._adjacent.too_many(operator)
        for k in range(parallelism):
            old = self._seats[operator][k] if k < len(self._seats[operator]) else None
            if old is not None and cluster.accepts_work(old):
                seats.append(old)
                continue
            others = self._seats[operator][k + 1 : parallelism]  # that will stay
            choice = [host for host in range(len(cluster.host_alive)) if cluster.accepts_work(host)] or [old or 0]
            # Where no host has room, the key groups wait for a slot of the one that is chosen.
            choice = [host for host in choice if self.slots.has_room(operator, host)] or choice
            taken = [*seats, *others]
            on = self.state.view.tasks_on
            seats.append(min(choice, key=lambda host: (taken.count(host), host in avoided, len(on(host)), host)))
            if seats[-1] in avoided:
                name, host = self.plan.operators[operator].name, self.plan.host_names[seats[-1]]
                why = f"no other host has room, although {avoided[seats[-1]]}"
                self.state.decide(Action.RESCALE, name, why, target=host)
        return seats

    def rows(self) -> list[tuple[int, ...]]:
        """Return one row of the table `rescales` for each change."""
        return [
            (
                one.operator,
                one.at_ns,
                one.before,
                one.after,
                len(one.groups),
                self._completed_ns(one),
                *((NEVER, NEVER) if one.request is None else self.adjustments.pause_ns(one.request)),
            )
            for one in self._changes
        ]

    def _completed_ns(self, change: _Change) -> int:
        """Return when the last group of a rescaling had moved [ns]; NEVER if one did not."""
        if change.request is not None:
            return self.adjustments.completed_ns(change.request)
        done = {
            run.move.group: run.completed_ns
            for run in self.migrations.runs
            if run.cause == RESCALE and run.requested_ns == change.at_ns and run.completed_ns is not None
        }
        if not all(group in done for group in change.groups):
            return NEVER
        return max((done[group] for group in change.groups), default=change.at_ns)
