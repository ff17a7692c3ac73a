"""Periodic checkpoints: snapshot, transfer to the holder, and trimming of upstream buffers once stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.records.tables import NEVER
from reference.task import Task, Work
from reference.unit import Checkpoint, Unit
from sim.clock import HOST_RECEIVER, MESSAGE, Process, channel
from sim.data_plane import NO_HOST, REMOTE

if TYPE_CHECKING:
    from reference.host import Host
    from reference.world import World

_NS = 1_000_000_000


@dataclass(frozen=True)
class _Transfer:
    """A checkpoint on its way to its holder."""

    unit: Unit
    checkpoint: Checkpoint
    incarnation: int
    origin: Task
    departure_ns: int
    bytes: int
    row: int  # in the table of checkpoints


def _rank(transfer: _Transfer) -> int:
    return channel(MESSAGE, HOST_RECEIVER + transfer.checkpoint.holder + 1, transfer.origin.index)


class CheckpointCoordinator:
    """Takes a checkpoint of every unit each interval, all at once or spread over the interval.

    A unit whose last checkpoint is not stored yet is passed over: it would never be done if writing takes longer than
    the interval.
    """

    def __init__(self, world: World, units: list[Unit], offsets_ns: Sequence[int], interval_ns: int) -> None:
        self.world, self.units, self.offsets_ns, self.interval_ns = world, units, offsets_ns, interval_ns
        self.description = world.plan.scenario.fault_tolerance

    def run(self) -> Process:
        """The SimPy process."""
        clock = self.world.clock
        begin = self.interval_ns
        while True:
            for group, offset in zip(self.units, self.offsets_ns, strict=True):
                if begin + offset > clock.now_ns():
                    yield clock.sleep(begin + offset)
                unit = group.owner
                if unit.live and not unit.saving:
                    self.take(unit)
                    self.world.tell()
            begin += self.interval_ns

    def take(self, unit: Unit) -> None:
        if unit.operator.is_sink:
            self._trim_later(unit, len(unit.applied))  # what is delivered is outside: the sink only acknowledges
            return
        holder = self._holder(unit, unit.task.host)
        if holder != NO_HOST:
            self.take_for(unit, holder)

    def take_for(self, unit: Unit, holder: int) -> None:
        """A snapshot of the unit now, for that holder."""
        task, now = unit.task, self.world.clock.now_ns()
        full = self.description.kind == "full" or unit.checkpoint is None or unit.checkpoint.holder != holder
        size = unit.state_bytes() + unit.kept_bytes() if full else unit.changed_bytes() + unit.new_kept_bytes
        checkpoint, incarnation = unit.snapshot(holder, self._life(holder)), unit.incarnation
        unit.saving = True
        rows = self.world.recorder.rows["checkpoints"]
        row = len(rows)
        rows.append((unit.operator.index, unit.index, task.host.index, holder, now, NEVER, size, full))
        rate = unit.operator.description.serialise_bytes_per_s
        if rate is None:
            self._ship(unit, checkpoint, incarnation, size, row)
        else:
            work = Work(
                max(1, round(size * _NS / rate)),
                task.host.ticket(),
                lambda: self._ship(unit, checkpoint, incarnation, size, row),
                unit,
            )
            task.put_in_front([work])

    def _holder(self, unit: Unit, owner: Host) -> int:
        """The planned holder, or where that is the owner or dead the last one; else control has to choose."""
        if self.description.store == "remote":
            return REMOTE
        cluster = self.world.cluster
        planned = cluster.planned_holder[unit.number]
        current = unit.checkpoint.holder if unit.checkpoint else planned
        for candidate in (planned, current):
            if candidate is not None and candidate != owner.index and cluster.believed_alive[candidate]:
                return candidate
        return self.world.listener.holder(unit.number)

    def _ship(self, unit: Unit, checkpoint: Checkpoint, incarnation: int, size: int, row: int) -> None:
        task, clock = unit.task, self.world.clock
        self.world.recorder.message(clock.now_ns(), "checkpoint", 1, size)
        arrive = self._at_remote if checkpoint.holder == REMOTE else self._stored

        def leaves(departure_ns: int) -> None:
            transfer = _Transfer(unit, checkpoint, incarnation, task, departure_ns, size, row)
            clock.at(departure_ns + self.world.plan.latency_ns, _rank(transfer), lambda _: arrive(transfer))

        ends = (task.index, HOST_RECEIVER + checkpoint.holder + 1)
        task.host.link.send(clock.now_ns(), size, ends, self.world.next_number(), leaves)

    def _life(self, holder: int) -> int:
        return 0 if holder == REMOTE else self.world.hosts[holder].life

    def _is_lost(self, checkpoint: Checkpoint) -> bool:
        """Whether the holder is dead, or has died since the snapshot."""
        holder = checkpoint.holder
        here = holder == REMOTE or self.world.cluster.host_alive[holder]
        return not here or checkpoint.holder_life != self._life(holder)

    def _at_remote(self, transfer: _Transfer) -> None:
        """The remote store writes one checkpoint after the other, in order of arrival."""
        if transfer.origin.died_by(transfer.departure_ns):
            return
        clock = self.world.clock
        written = self.world.remote.departure_ns(clock.now_ns(), transfer.bytes)
        clock.at(written, _rank(transfer), lambda _: self._stored(transfer))

    def _stored(self, transfer: _Transfer) -> None:
        unit, checkpoint = transfer.unit, transfer.checkpoint
        if transfer.origin.died_by(transfer.departure_ns):
            return  # it never left the owner
        if transfer.incarnation != unit.incarnation:
            return  # of an incarnation that is over: it would trim what the new state does not contain
        unit.saving = False
        if self._is_lost(checkpoint):
            return  # the holder died meanwhile: if it is back, then without what this one builds on
        unit.checkpoint, unit.saved = checkpoint, True
        rows = self.world.recorder.rows["checkpoints"]
        rows[transfer.row] = (*rows[transfer.row][:5], self.world.clock.now_ns(), *rows[transfer.row][6:])
        self._trim_later(unit, checkpoint.count)
        if unit.announced:
            unit.announced = False
            self.world.note_stored(unit)
            self.world.tell()

    def _trim_later(self, unit: Unit, count: int) -> None:
        """Tell every upstream task to forget what the stored checkpoint covers."""
        clock = self.world.clock
        senders = [sender for sender in unit.senders if sender.kept.get(unit)]
        if not senders:
            return
        self.world.recorder.message(clock.now_ns(), "trim", len({sender.task for sender in senders}), 0)
        incarnation = unit.incarnation
        rank = channel(MESSAGE, unit.task.index, unit.task.index)
        clock.at(clock.now_ns() + self.world.plan.latency_ns, rank, lambda _: self._trim(unit, count, incarnation))

    def _trim(self, unit: Unit, count: int, incarnation: int) -> None:
        if incarnation == unit.incarnation:
            self.trim_now(unit, count)

    def trim_now(self, unit: Unit, count: int) -> None:
        """Upstream forgets what is among the first `count` applied tuples."""
        for sender in unit.senders:
            if sender.kept.get(unit):
                sender.trim(unit, count)
