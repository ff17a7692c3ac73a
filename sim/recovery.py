"""Recovery of units: restore from the checkpoint, replay from upstream, catch up.

A unit has caught up when its task has settled (`sim/settling.py`), and a failure when the last task downstream of
the recovered units has. What is replayed to a unit after that belongs to the recovery of the upstream unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from models.records import NEVER
from sim.clock import MESSAGE, channel
from sim.settling import Settling
from sim.task import Task, Work
from sim.unit import Unit
from sim.world import REMOTE

if TYPE_CHECKING:
    from sim.host import Host
    from sim.world import World

_NS = 1_000_000_000


class Loss(NamedTuple):
    """A unit that was on a host when it failed."""

    unit: Unit
    host: Host
    failed_ns: int
    failure: int  # row in the table of failures


@dataclass(eq=False)
class Entry:
    """The recovery of one unit, as far as it has come."""

    host: int
    unit: Unit
    task: Task
    failure: int  # row in the table of failures
    failed_ns: int
    detected_ns: int
    restored_ns: int = NEVER
    replayed_ns: int = NEVER
    caught_up_ns: int = NEVER
    pending: int = 0  # replayed tuples that are on their way or in the queue
    replayed: int = 0
    bytes: int = 0


class Recovery:
    """Brings the units of dead hosts back elsewhere."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: list[Entry] = []
        self._open: dict[Unit, Entry] = {}  # recoveries that are not over
        self._settling: list[Settling] = []
        self._orphans: list[Loss] = []  # while no host is alive

    def recover(self, losses: list[Loss]) -> None:
        """Assign each unit to a live host, ask live upstream units for replay, then start to restore.

        An upstream unit that is down itself replays when it is live again. All are assigned before one goes on:
        what a source has waiting must not be sent to a task that is dead.
        """
        before = [loss.unit.task for loss in losses]
        assigned = [self._assign(loss) for loss in losses]
        begun = [entry for entry in assigned if entry]
        self._hand_over(before, assigned)
        if begun:
            self._watch(begun)
        for entry in begun:
            for sender in sorted(entry.unit.senders, key=_place):
                if sender.live:
                    self._replay(sender, entry.unit)
        for entry in begun:
            self._restore(entry)

    def host_is_back(self) -> None:
        """A repaired host can take units for which no host was alive."""
        orphans, self._orphans = self._orphans, []
        self.recover(orphans)

    def _assign(self, loss: Loss) -> Entry | None:
        world, now, unit = self.world, self.world.clock.now_ns(), loss.unit
        target, why = self._target(unit)
        if target is None:
            world.recorder.decision(now, f"{unit.name} stays down", "no host is alive")
            self._orphans.append(loss)
            return None
        world.recorder.decision(now, f"{unit.name} resumes on {target.name}", why)
        unit.task = world.task_on(unit.operator, target)
        unit.incarnation += 1
        entry = Entry(loss.host.index, unit, unit.task, loss.failure, loss.failed_ns, now)
        self.entries.append(entry)
        self._open[unit] = entry
        return entry

    def _watch(self, begun: list[Entry]) -> None:
        """Note when the tasks of these recoveries settle, and when the last task downstream of them does."""

        def ready(task: Task) -> bool:
            entries = [entry for entry in self._open.values() if entry.task is task]
            return all(entry.restored_ns != NEVER and not entry.pending for entry in entries)

        def settled(task: Task) -> None:
            for entry in begun:
                if entry.unit.task is task and entry.caught_up_ns == NEVER:
                    self._caught_up(entry)

        def finished() -> None:
            self._settling.remove(settling)
            self._note_caught_up(begun)

        tasks = list(dict.fromkeys(entry.task for entry in begun))
        settling = Settling(self.world, tasks, ready, settled, finished)
        self._settling.append(settling)

    def _hand_over(self, before: list[Task | None], assigned: list[Entry | None]) -> None:
        """What earlier outages wait for at a task that died is to be done where its units are now."""
        successors: dict[Task, list[Task]] = {}
        for dead, entry in zip(before, assigned, strict=True):
            if dead is not None and entry is not None:
                successors.setdefault(dead, []).append(entry.task)
        for dead, tasks in successors.items():
            for settling in self._settling:
                settling.replace(dead, list(dict.fromkeys(tasks)))

    def _caught_up(self, entry: Entry) -> None:
        """The recovery is over; where the unit was lost again meanwhile, its last recovery says how it ended."""
        last = next(other for other in reversed(self.entries) if other.unit is entry.unit)
        entry.restored_ns = max(entry.restored_ns, last.restored_ns)
        entry.replayed_ns = max(entry.replayed_ns, last.replayed_ns)
        entry.caught_up_ns = self.world.clock.now_ns()
        if entry is last:
            self._open.pop(entry.unit, None)

    def _note_caught_up(self, begun: list[Entry]) -> None:
        """Write the end into the rows of the failures that have nothing left open or lost again."""
        rows = self.world.recorder.rows["failures"]
        for failure in sorted({entry.failure for entry in begun}):
            own = [entry for entry in self.entries if entry.failure == failure]
            waits = any(loss.failure == failure for loss in self._orphans)
            if not waits and all(entry.caught_up_ns != NEVER for entry in own):
                rows[failure] = (*rows[failure][:-1], self.world.clock.now_ns())

    def _target(self, unit: Unit) -> tuple[Host | None, str]:
        hosts, checkpoint = self.world.hosts, unit.checkpoint
        if checkpoint and checkpoint.holder != REMOTE:
            return hosts[checkpoint.holder], "it holds the checkpoint"
        units = [0] * len(hosts)
        for other in self.world.all_units():
            if other.task is not None:
                units[other.task.host.index] += 1
        live = [host for host in hosts if host.alive]
        least = min(live, key=lambda host: (units[host.index], host.index), default=None)
        return least, "it has the fewest key groups and tasks of the live hosts"

    def _restore(self, entry: Entry) -> None:
        """Fetch the checkpoint where it is not on the host already, then install it."""
        checkpoint, clock = entry.unit.checkpoint, self.world.clock
        size = checkpoint.size_bytes() if checkpoint else 0
        entry.bytes += size
        if checkpoint is None or checkpoint.holder != REMOTE:
            self._install(entry, size)
            return
        self.world.recorder.message(clock.now_ns(), "restore", 1, size)
        arrival = self.world.remote.arrival_ns(clock.now_ns(), size)
        rank = channel(MESSAGE, entry.task.index, entry.task.index)
        clock.at(arrival, rank, lambda _: self._fetched(entry, size))

    def _fetched(self, entry: Entry, size: int) -> None:
        if self._open.get(entry.unit) is entry:
            self._install(entry, size)

    def _install(self, entry: Entry, size: int) -> None:
        rate = entry.unit.operator.description.deserialise_bytes_per_s
        if rate is None or size == 0 or entry.unit.operator.service_ns is None:
            self._installed(entry)
            return
        work = Work(max(1, round(size * _NS / rate)), entry.task.host.ticket(), lambda: self._installed(entry))
        entry.task.put_in_front([work])

    def _installed(self, entry: Entry) -> None:
        """The unit is live again: it sends what it still keeps, then goes on with what was held."""
        unit, now = entry.unit, self.world.clock.now_ns()
        if not (unit.operator.is_source or unit.operator.is_sink):  # what a sink delivered is outside
            missing = unit.install(unit.checkpoint)
            if missing:
                self.world.recorder.decision(
                    now,
                    f"state of {unit.name} is lost",
                    f"no checkpoint has {missing} tuples that upstream let go",
                )
        unit.live = True
        entry.restored_ns = entry.replayed_ns = now
        for receiver in sorted(unit.kept, key=_place):
            self._replay(unit, receiver)
        held, unit.held = unit.held, []
        entry.task.put_in_front(held)
        for source in self.world.sources:
            if source.unit is unit:
                source.resume()
        self.notice_empty(entry.task)

    def _replay(self, sender: Unit, receiver: Unit) -> None:
        if receiver.task is None or not receiver.task.alive:
            return  # it will be sent again when the receiver has been assigned
        rows, size = self.world.replay(sender, receiver)
        entry = self._open.get(receiver)
        if entry and rows:
            entry.pending += rows
            entry.replayed += rows
            entry.bytes += size

    def one_replayed(self, unit: Unit, task: Task) -> None:
        """A replayed tuple was processed, recognised as a duplicate, or lost with its sender."""
        entry = self._open.get(unit)
        if entry and entry.task is task:
            entry.pending -= 1
            entry.replayed_ns = self.world.clock.now_ns()
            if not entry.pending:
                self.notice_empty(task)

    def notice_empty(self, task: Task) -> None:
        """A task may have settled."""
        for settling in list(self._settling):
            settling.look(task)

    def lost_again(self, unit: Unit) -> None:
        """The unit was lost before it had caught up: its row stays in the books as far as it came."""
        self._open.pop(unit, None)

    def write(self) -> None:
        """The rows of all recoveries."""
        self.world.recorder.rows["recoveries"] = [
            (
                entry.host,
                entry.unit.operator.index,
                entry.unit.index,
                entry.task.host.index,
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


def _place(unit: Unit) -> tuple[int, int]:
    return unit.operator.index, unit.index
