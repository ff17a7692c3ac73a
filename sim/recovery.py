"""Recovery of units: restore from the checkpoint, replay from upstream, catch up.

A recovery is over when its task has nothing left to do, no replayed tuple is under way, and no upstream unit
is down any more. What is replayed to the unit later belongs to the recovery of the upstream unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from models.records import NEVER
from sim.clock import MESSAGE, channel
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


@dataclass(eq=False)
class Entry:
    """The recovery of one unit, as far as it has come."""

    host: int
    unit: Unit
    task: Task
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
        self._waiting: dict[Task, list[Entry]] = {}  # the same by task
        self._orphans: list[Loss] = []  # while no host is alive

    def recover(self, losses: list[Loss]) -> None:
        """Assign each unit to a live host, ask live upstream units for replay, then start to restore.

        An upstream unit that is down itself replays when it is live again. All are assigned before one goes on:
        what a source has waiting must not be sent to a task that is dead.
        """
        begun = [entry for loss in losses if (entry := self._assign(loss))]
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
        entry = Entry(loss.host.index, unit, unit.task, loss.failed_ns, now)
        self.entries.append(entry)
        self._open[unit] = entry
        self._waiting.setdefault(unit.task, []).append(entry)
        return entry

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
        for task in list(self._waiting):  # this unit may have been the last that one of them waited for
            self.notice_empty(task)

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
        """Close the recoveries at a task that has nothing left to do."""
        if task not in self._waiting or not task.empty:
            return
        for entry in [entry for entry in self._waiting[task] if self._is_over(entry)]:
            entry.caught_up_ns = self.world.clock.now_ns()
            self.close(entry.unit)

    def _is_over(self, entry: Entry) -> bool:
        return entry.unit.live and not entry.pending and all(sender.live for sender in entry.unit.senders)

    def close(self, unit: Unit) -> None:
        """The recovery is over, or the unit was lost again: its rows stay in the books as far as it came."""
        entry = self._open.pop(unit, None)
        if entry:
            self._waiting[entry.task].remove(entry)
            if not self._waiting[entry.task]:
                del self._waiting[entry.task]

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
                NEVER if entry.pending else entry.replayed_ns,
                entry.caught_up_ns,
                entry.replayed,
                entry.bytes,
            )
            for entry in self.entries
        ]


def _place(unit: Unit) -> tuple[int, int]:
    return unit.operator.index, unit.index
