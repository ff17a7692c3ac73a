"""Periodic checkpoints: snapshot, transfer to the holder, and trimming of upstream buffers once stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.records import NEVER
from models.units import to_ns
from sim.clock import MESSAGE, Process, channel
from sim.task import Task, Work
from sim.unit import Checkpoint, Unit
from sim.world import REMOTE

if TYPE_CHECKING:
    from sim.host import Host
    from sim.world import World

_HOST_RECEIVER = 1 << 20  # hosts as receivers come after all tasks
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
    return channel(MESSAGE, _HOST_RECEIVER + transfer.checkpoint.holder + 1, transfer.origin.index)


class CheckpointCoordinator:
    """Takes a checkpoint of every unit each interval, all at once or spread over the interval.

    A unit whose last checkpoint is not stored yet is passed over: it would never be done if writing takes longer than
    the interval.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.description = world.scenario.fault_tolerance
        self.interval_ns = max(1, to_ns(self.description.interval_s))
        self.units = [unit for unit in world.all_units() if not unit.operator.is_source]

    def run(self) -> Process:
        """The SimPy process."""
        clock = self.world.clock
        offsets = [0] * len(self.units)
        if self.description.staggered:
            offsets = [k * self.interval_ns // len(self.units) for k in range(len(self.units))]
        begin = self.interval_ns
        while True:
            for unit, offset in zip(self.units, offsets, strict=True):
                if begin + offset > clock.now_ns():
                    yield clock.sleep(begin + offset)
                if unit.live and not unit.saving:
                    self._take(unit)
            begin += self.interval_ns

    def _take(self, unit: Unit) -> None:
        if unit.operator.is_sink:
            self._trim_later(unit, len(unit.applied))  # what is delivered is outside: the sink only acknowledges
            return
        task, now = unit.task, self.world.clock.now_ns()
        assert task is not None
        holder = self._holder(unit, task.host)
        if holder is None:
            return
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
            )
            task.put_in_front([work])

    def _holder(self, unit: Unit, owner: Host) -> int | None:
        """The planned holder; where that is the owner or dead, the other live host with fewest planned."""
        if self.description.store == "remote":
            return REMOTE
        hosts = self.world.hosts
        current = unit.checkpoint.holder if unit.checkpoint else unit.planned_holder
        for candidate in (unit.planned_holder, current):
            if candidate is not None and candidate != owner.index and hosts[candidate].alive:
                return candidate
        others = [host.index for host in hosts if host.alive and host is not owner]
        if not others:
            return None
        held = Counter(other.planned_holder for other in self.units)
        chosen = min(others, key=lambda index: (held[index], index))
        why = "none was planned" if unit.planned_holder is None else "the planned holder is dead or owns the group"
        self.world.recorder.decision(
            self.world.clock.now_ns(), f"checkpoints of {unit.name} go to {hosts[chosen].name}", why
        )
        unit.planned_holder = chosen
        return chosen

    def _ship(self, unit: Unit, checkpoint: Checkpoint, incarnation: int, size: int, row: int) -> None:
        task, clock = unit.task, self.world.clock
        assert task is not None
        self.world.recorder.message(clock.now_ns(), "checkpoint", 1, size)
        departure = task.host.link.departure_ns(clock.now_ns(), size)
        transfer = _Transfer(unit, checkpoint, incarnation, task, departure, size, row)
        arrive = self._at_remote if checkpoint.holder == REMOTE else self._stored
        clock.at(departure + self.world.latency_ns, _rank(transfer), lambda _: arrive(transfer))

    def _life(self, holder: int) -> int:
        return 0 if holder == REMOTE else self.world.hosts[holder].life

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
        if checkpoint.holder_life != self._life(checkpoint.holder):
            return  # the holder died meanwhile: if it is back, then without what this one builds on
        unit.checkpoint = checkpoint
        rows = self.world.recorder.rows["checkpoints"]
        rows[transfer.row] = (*rows[transfer.row][:5], self.world.clock.now_ns(), *rows[transfer.row][6:])
        self._trim_later(unit, checkpoint.count)

    def _trim_later(self, unit: Unit, count: int) -> None:
        """Tell every upstream task to forget what the stored checkpoint covers."""
        clock = self.world.clock
        senders = [sender for sender in unit.senders if sender.kept.get(unit)]
        if not senders:
            return
        self.world.recorder.message(clock.now_ns(), "trim", len({sender.task for sender in senders}), 0)
        task = unit.task
        assert task is not None
        incarnation = unit.incarnation
        rank = channel(MESSAGE, task.index, task.index)
        clock.at(
            clock.now_ns() + self.world.latency_ns,
            rank,
            lambda _: self._trim(unit, senders, count, incarnation),
        )

    def _trim(self, unit: Unit, senders: list[Unit], count: int, incarnation: int) -> None:
        if incarnation == unit.incarnation:
            for sender in senders:
                sender.trim(unit, count)
