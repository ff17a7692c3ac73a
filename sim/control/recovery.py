"""Recovery of units: restore from the checkpoint, replay from upstream, catch up.

A unit has caught up when its task has settled (`sim/control/catch_up.py`), and a failure when the last task downstream
of the recovered units has. What is replayed to a unit after that belongs to the recovery of the upstream unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from models.records.tables import NEVER
from sim.clock import MESSAGE, channel
from sim.control.catch_up import Settling
from sim.control.cluster import NOWHERE
from sim.data_plane import REMOTE

if TYPE_CHECKING:
    from sim.control.assembly import Control

_NS = 1_000_000_000


class Loss(NamedTuple):
    """A unit that was on a host when it failed."""

    unit: int
    host: int
    failed_ns: int
    failure: int  # row in the table of failures


@dataclass(eq=False)
class Entry:
    """The recovery of one unit, as far as it has come.

    `pending` and `processed_ns` of replayed tuples are with the plane as long as the recovery is not over.
    """

    host: int
    unit: int
    task: int
    failure: int  # row in the table of failures
    failed_ns: int
    detected_ns: int
    restored_ns: int = NEVER
    replayed_ns: int = NEVER
    caught_up_ns: int = NEVER
    pending: int = 0  # replayed tuples that are on their way or in the queue
    replayed: int = 0
    bytes: int = 0

    def note(self, pending: int, processed_ns: int) -> None:
        """What the plane says about the replayed tuples; those of before the restore ended with their sender."""
        self.pending, self.replayed_ns = pending, max(self.restored_ns, processed_ns)


class Recovery:
    """Brings the units of dead hosts back elsewhere."""

    def __init__(self, control: Control) -> None:
        self.control, self.cluster = control, control.cluster
        self.clock, self.recorder, self.plan = control.clock, control.recorder, control.plan
        self.entries: list[Entry] = []
        self._open: dict[int, Entry] = {}  # unit -> recovery that is not over
        self._settling: list[Settling] = []
        self._orphans: list[Loss] = []  # while no host is alive

    def recover(self, losses: list[Loss]) -> None:
        """Assign each unit to a live host, ask live upstream units for replay, then start to restore.

        An upstream unit that is down itself replays when it is live again. All are assigned before one goes on:
        what a source has waiting must not be sent to a task that is dead.
        """
        down = [loss for loss in losses if self._is_lost(loss)]
        before = {loss.unit: self.cluster.unit_task[loss.unit] for loss in down}
        self.control.migrations.touched(losses)
        instead = [(loss, self._heir(loss)) for loss in down if not self.cluster.counts(loss.unit)]
        self.control.replicas.unfinished(instead)
        instead += self.control.replicas.touched(losses)
        taken = [self._taken_over(*one) for one in instead]
        losses = [loss for loss in losses if self._is_lost(loss)]
        begun = [entry for entry in map(self._assign, losses) if entry]
        for host in sorted({self.cluster.task_host[entry.task] for entry in begun}):
            if not self.cluster.host_alive[host]:  # nobody has noticed: the units are lost once more
                self.control.beliefs.died(host, {})
                self.control.failures.lose_again(host)
        successors = [(before[entry.unit], entry.task) for entry in begun]
        successors += [(before[loss.unit], entry.task) for (loss, _), entry in zip(instead, taken, strict=True)]
        self._hand_over(successors)
        if begun or taken:
            self._watch([*begun, *taken])
        for entry in begun:
            for sender in self.control.plane.senders(entry.unit):
                if self.cluster.unit_live[sender] and not self.control.replicas.silent(sender):
                    self._replay(sender, entry.unit)
        for entry in begun:
            if self._open.get(entry.unit) is entry:
                self._restore(entry)
        self.control.replicas.renew()

    def _is_lost(self, loss: Loss) -> bool:
        """Whether the unit is the owner of its group, and gone."""
        return self.cluster.counts(loss.unit) and not self.cluster.unit_live[loss.unit]

    def _heir(self, loss: Loss) -> int:
        """Who goes on in place of the unit: a replica or move that was under way and had a state already."""
        return self.cluster.owner_of(self.cluster.group_of(loss.unit))

    def _taken_over(self, loss: Loss, replica: int) -> Entry:
        """Another instance of a unit goes on in its place: there is nothing to restore, unless it is dead itself."""
        now = self.clock.now_ns()
        entry = Entry(loss.host, replica, self.cluster.unit_task[replica], loss.failure, loss.failed_ns, now)
        entry.restored_ns = now if self.cluster.unit_live[replica] else NEVER
        self.entries.append(entry)
        self._open[replica] = entry
        return entry

    @property
    def busy(self) -> bool:
        """Whether a recovery is not over."""
        return bool(self._open or self._settling or self._orphans)

    def host_is_back(self) -> None:
        """A repaired host can take units for which no host was alive."""
        can = [loss for loss in self._orphans if self._target(loss.unit)[0] is not None]
        self._orphans = [loss for loss in self._orphans if loss not in can]
        self.recover(can)

    def _assign(self, loss: Loss) -> Entry | None:
        now, unit = self.clock.now_ns(), loss.unit
        target, why = self._target(unit)
        if target is None:
            self.recorder.decision(now, f"{self.cluster.unit_name(unit)} stays down", why)
            self._orphans.append(loss)
            return None
        self.recorder.decision(now, f"{self.cluster.unit_name(unit)} resumes on {self.plan.host_names[target]}", why)
        task = self._task_on(self.cluster.unit_operator[unit], target)
        self.cluster.unit_task[unit] = task
        self.control.plane.assign(unit, task)
        entry = Entry(loss.host, unit, task, loss.failure, loss.failed_ns, now)
        self.entries.append(entry)
        self._open[unit] = entry
        return entry

    def _task_on(self, operator: int, host: int) -> int:
        """The operator's task on that host; a new one where there is none."""
        task = self.cluster.task_on(operator, host)
        if task is None:
            task = self.cluster.new_task(operator, host)
            self.control.plane.add_task(task)
            self.control.replicas.task_added(task)
        return task

    def _watch(self, begun: list[Entry]) -> None:
        """Note when the tasks of these recoveries settle, and when the last task downstream of them does."""

        def ready(task: int) -> bool:
            if self.control.migrations.is_taking(task):
                return False
            entries = [entry for entry in self._open.values() if entry.task == task]
            return all(
                entry.restored_ns != NEVER and not self.control.plane.replayed(entry.unit)[0] for entry in entries
            )

        def settled(task: int) -> None:
            for entry in begun:
                if self.cluster.unit_task[self.cluster.heir_of(entry.unit)] == task and entry.caught_up_ns == NEVER:
                    self._caught_up(entry)

        def finished() -> None:
            self._settling.remove(settling)
            self._note_caught_up(begun)

        tasks = list(dict.fromkeys(entry.task for entry in begun))
        settling = Settling(self.control, tasks, ready, settled, finished, self._watch_tasks)
        self._settling.append(settling)
        self._watch_tasks()

    def _watch_tasks(self) -> None:
        """Ask the plane for the tasks that any outage waits for."""
        self.control.plane.watch(dict.fromkeys(task for settling in self._settling for task in settling.awaited()))

    def _hand_over(self, taken_over: list[tuple[int, int]]) -> None:
        """What earlier outages wait for at a task that died is to be done where its units are now.

        `taken_over` are pairs of such a task and one that took a unit over. At a task without units that died there is
        nothing to wait for; where they stay down there is.
        """
        if not self._settling:
            return
        successors: dict[int, list[int]] = {}
        for dead, task in taken_over:
            successors.setdefault(dead, []).append(task)
        homes = {task for unit, task in enumerate(self.cluster.unit_task) if self.cluster.counts(unit)}
        for settling in list(self._settling):
            for dead, tasks in successors.items():
                settling.replace(dead, list(dict.fromkeys(tasks)))
            for task in settling.tasks():
                if task not in homes and not self.control.beliefs.task(task):
                    settling.replace(task, [])
        self._watch_tasks()

    def moved(self, source: int, target: int) -> None:
        """A key group has moved from one task to another, with what is left to do for it."""
        for settling in self._settling:
            settling.join(source, target)
        if self._settling:
            self._watch_tasks()

    def has_taken(self, task: int) -> None:
        """A move to the task is over, for which the outages that wait for the task may have waited."""
        for settling in self._settling:
            settling.look_later(task)

    def _caught_up(self, entry: Entry) -> None:
        """The recovery is over; where the group was lost again meanwhile, its last recovery says how it ended."""
        group = self.cluster.group_of(entry.unit)
        last = next(other for other in reversed(self.entries) if self.cluster.group_of(other.unit) == group)
        if self._open.get(last.unit) is last:
            last.note(*self.control.plane.replayed(last.unit))
        entry.restored_ns = max(entry.restored_ns, last.restored_ns)
        entry.replayed_ns = max(entry.replayed_ns, last.replayed_ns)
        entry.caught_up_ns = self.clock.now_ns()
        if self._open.get(entry.unit) is entry:
            self._close(entry.unit)

    def _close(self, unit: int) -> None:
        """What the plane still says of the recovery of the unit, if it has one that is not over."""
        entry = self._open.pop(unit, None)
        if entry:
            entry.note(*self.control.plane.close_books(unit))

    def _note_caught_up(self, begun: list[Entry]) -> None:
        """Write the end into the rows of the failures that have nothing left open or lost again."""
        for failure in sorted({entry.failure for entry in begun}):
            own = [entry for entry in self.entries if entry.failure == failure]
            waits = any(loss.failure == failure for loss in self._orphans)
            if not waits and all(entry.caught_up_ns != NEVER for entry in own):
                self.recorder.revise("failures", failure, caught_up_ns=self.clock.now_ns())

    def held_by(self, host: int) -> dict[int, int]:
        """The units whose newest checkpoint the host holds."""
        units = range(len(self.cluster.unit_task))
        return {unit: host for unit in units if self.control.plane.holder(unit) == host}

    def _target(self, unit: int) -> tuple[int | None, str]:
        holder = self.control.beliefs.holder(unit, self.control.plane.holder(unit))
        if holder is not None and holder != REMOTE:
            return holder, "it holds the checkpoint"
        if self.plan.scenario.fault_tolerance.restart == "own-hosts":
            homes = [host for host in self.control.replicas.homes(unit) if self.control.beliefs.host(host)]
            return (homes[0], "it is one of its own hosts") if homes else (None, "none of its own hosts is alive")
        units = [0] * len(self.cluster.believed_alive)
        for task in self.cluster.unit_task:
            if task != NOWHERE:
                units[self.cluster.task_host[task]] += 1
        live = [host for host, alive in enumerate(self.cluster.believed_alive) if alive]
        live = [host for host in live if self.cluster.takes(host)] or live
        least = min(live, key=lambda host: (units[host], host), default=None)
        return least, "it has the fewest key groups and tasks of the live hosts" if live else "no host is alive"

    def _restore(self, entry: Entry) -> None:
        """Fetch the checkpoint where it is not on the host already, then install it."""
        plane, now = self.control.plane, self.clock.now_ns()
        size = plane.checkpoint_bytes(entry.unit)
        entry.bytes += size
        if plane.holder(entry.unit) != REMOTE:
            self._install(entry, size)
            return
        self.recorder.restore(now, size)
        rank = channel(MESSAGE, entry.task, entry.task)
        self.clock.at(plane.fetch_ns(size), rank, lambda _: self._fetched(entry, size))

    def _fetched(self, entry: Entry, size: int) -> None:
        if self._open.get(entry.unit) is entry:
            self._install(entry, size)

    def _install(self, entry: Entry, size: int) -> None:
        operator = self.plan.operators[self.cluster.unit_operator[entry.unit]]
        rate = operator.description.deserialise_bytes_per_s
        if rate is None or size == 0 or operator.service_ns is None:
            self._installed(entry)
            return
        self.control.work(entry.task, max(1, round(size * _NS / rate)), lambda: self._installed(entry))

    def _installed(self, entry: Entry) -> None:
        """The unit is live again: it sends what it still keeps, then goes on with what was held."""
        unit, now, plane = entry.unit, self.clock.now_ns(), self.control.plane
        operator = self.plan.operators[self.cluster.unit_operator[unit]]
        if not (operator.is_source or operator.is_sink):  # what a sink delivered is outside
            missing = plane.install(unit)
            if missing:
                self.recorder.decision(
                    now,
                    f"state of {self.cluster.unit_name(unit)} is lost",
                    f"no checkpoint has {missing} tuples that upstream let go",
                )
        self.cluster.unit_live[unit] = True
        self.control.outages.look()
        plane.open(unit)
        entry.restored_ns = now
        for receiver in plane.receivers(unit):
            heir = self.cluster.heir_of(receiver)
            if heir != receiver:  # a key group that has moved since the checkpoint
                plane.copy_kept(unit, receiver, heir)
                plane.retire(receiver)
        self._keep_for_replicas(unit)
        for receiver in plane.receivers(unit):
            self._replay(unit, receiver)
        plane.release(unit)
        if operator.is_source or operator.timer_ns:
            plane.resume(unit)
        self.notice_empty(entry.task)
        self.control.migrations.begin_what_can()

    def _keep_for_replicas(self, unit: int) -> None:
        """What a checkpoint keeps for an owner whose replica came later is kept for the replica, too."""
        plane = self.control.plane
        receivers = plane.receivers(unit)
        for receiver in receivers:
            replica = self.control.replicas.beside(receiver)
            if replica is not None and replica not in receivers:
                plane.copy_kept(unit, receiver, replica)

    def _replay(self, sender: int, receiver: int) -> None:
        if not self.control.beliefs.task(self.cluster.unit_task[receiver]):
            return  # it will be sent again when the receiver has been assigned
        rows, size = self.control.plane.replay(sender, receiver)
        entry = self._open.get(receiver)
        if entry:
            entry.replayed += rows
            entry.bytes += size

    def notice_empty(self, task: int) -> None:
        """A task may have settled."""
        for settling in list(self._settling):
            settling.look(task)

    def lost_again(self, unit: int) -> None:
        """The unit was lost before it had caught up: its row stays in the books as far as it came."""
        self._close(unit)

    def rows(self) -> list[tuple[int, ...]]:
        """The rows of all recoveries, as far as they have come."""
        for unit, entry in self._open.items():
            entry.note(*self.control.plane.replayed(unit))
        return [
            (
                entry.host,
                self.cluster.unit_operator[entry.unit],
                self.cluster.unit_index[entry.unit],
                self.cluster.task_host[entry.task],
                entry.failed_ns,
                entry.detected_ns,
                entry.restored_ns,
                NEVER if entry.pending and entry.caught_up_ns == NEVER else entry.replayed_ns,
                entry.caught_up_ns,
                entry.replayed,
                entry.bytes,
            )
            for entry in self.entries
        ]
