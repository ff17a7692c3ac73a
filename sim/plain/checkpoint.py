"""Periodic checkpoints: snapshot, transfer to the checkpoint host, and trimming of upstream buffers once stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import HOST_RECEIVER, MESSAGE, Process, channel
from sim.plain.channels import PlaneState
from sim.plain.partition import Checkpoint, HostView, Partition, TaskView, Unfinished, Work
from sim.plane_values import NO_HOST, REMOTE

_NS = 1_000_000_000


@dataclass
class Batch:
    """Checkpoints of which the listener hears at once, when the last one is stored."""

    first: Partition
    left: int  # not stored yet


@dataclass
class _Transfer:
    """A checkpoint on its way to its host, or (None) in-flight data on its way to the remote store."""

    partition: Partition
    checkpoint: Checkpoint | None
    incarnation: int
    origin: TaskView
    bytes: int
    row: int  # in the table of checkpoints
    batch: Batch | None
    slot: int = 0
    unfinished: Unfinished | None = None  # with barriers and batches
    departure_ns: int = NEVER

    @property
    def host(self) -> int:
        """Return the host to which it goes, or REMOTE."""
        return self.checkpoint.host if self.checkpoint else REMOTE

    @property
    def void(self) -> bool:
        """Return whether it is of an earlier incarnation, or of a checkpoint of the job that was given up."""
        partition = self.partition
        given_up = self.unfinished is not None and partition.unfinished.get(self.slot) is not self.unfinished
        return self.incarnation != partition.incarnation or given_up


def _rank(transfer: _Transfer) -> int:
    return channel(MESSAGE, HOST_RECEIVER + transfer.host + 1, transfer.origin.index)


class CheckpointCoordinator:
    """Takes a checkpoint of every partition each interval, all at once or spread over the interval.

    A partition whose last checkpoint is not stored yet is skipped: otherwise no checkpoint would ever be complete if
    writing takes longer than the interval.
    """

    def __init__(
        self, plane: PlaneState, partitions: list[Partition], offsets_ns: Sequence[int], interval_ns: int
    ) -> None:
        self.plane, self.partitions, self.offsets_ns, self.interval_ns = plane, partitions, offsets_ns, interval_ns
        self.description = plane.plan.scenario.fault_tolerance

    def run(self) -> Process:
        """Take the checkpoints: a SimPy process."""
        clock = self.plane.clock
        begin = self.interval_ns
        while True:
            for group, offset in zip(self.partitions, self.offsets_ns, strict=True):
                if begin + offset > clock.now_ns():
                    yield clock.sleep(begin + offset)
                partition = group.owner
                if partition.live and not partition.saving:
                    self.take(partition)
                    self.plane.tell()
            begin += self.interval_ns

    def take(self, partition: Partition) -> None:
        """Take a checkpoint of the partition, where a host can hold it; a sink only acknowledges."""
        if partition.operator.is_sink:
            # Delivered tuples are outside the system: nothing has to be stored before upstream may forget them.
            self._trim_later(partition, len(partition.applied))
            return
        checkpoint_host = self._checkpoint_host(partition, partition.task.host)
        if checkpoint_host != NO_HOST:
            self.take_for(partition, checkpoint_host)

    def take_for(
        self, partition: Partition, checkpoint_host: int, batch: Batch | None = None, slot: int = 0, more_bytes: int = 0
    ) -> None:
        """Take a snapshot of the partition now, for that checkpoint host.

        An increment has so many bytes of the state more than what changed, if it has so many.
        """
        task, now = partition.task, self.plane.clock.now_ns()
        whole = partition.state_bytes()
        # A difference needs its predecessor at the same host.
        full = (
            self.description.kind == "full"
            or partition.checkpoint is None
            or partition.checkpoint.host != checkpoint_host
            or 0 < whole <= more_bytes
        )
        # With barriers and batches all that was sent before the snapshot is in those of the receivers.
        safe = self.plane.trimming is None or self.plane.trimming.safe
        together = self.description.completes_checkpoints
        outputs = safe and not together
        changed = partition.changed_bytes()
        if more_bytes:
            changed = min(whole, changed + more_bytes)
        size = (
            whole + (partition.kept_bytes() if outputs else 0)
            if full
            else changed + (partition.new_kept_bytes if outputs else 0)
        )
        # The content is fixed now, whatever the partition applies while the snapshot is written and on its way. The
        # incarnation tells later whether this is still the life of the partition that was saved.
        life, incarnation, unfinished = self._life(checkpoint_host), partition.incarnation, None
        if together:  # later changes count for the next one only once this one is complete
            checkpoint = partition.content(checkpoint_host, life, outputs)
            if self.description.compacts and partition.checkpoint and not full and not more_bytes:
                checkpoint = replace(checkpoint, unmerged_bytes=partition.checkpoint.unmerged_bytes + size)
            unfinished = partition.unfinished[slot] = Unfinished(checkpoint)
        else:
            checkpoint = partition.snapshot(checkpoint_host, life, outputs)
        partition.saving = True
        rows = self.plane.recorder.rows["checkpoints"]
        row = len(rows)
        rows.append(
            (partition.operator.index, partition.index, task.host.index, checkpoint_host, now, NEVER, size, full, -1)
        )
        rate = partition.operator.description.serialise_bytes_per_s
        writing_ns = 0 if rate is None else max(1, round(size * _NS / rate))
        transfer = _Transfer(partition, checkpoint, incarnation, task, size, row, batch, slot, unfinished)
        self._write(partition, writing_ns, lambda: self._ship(transfer))

    def _write(self, partition: Partition, writing_ns: int, ship: Callable[[], None]) -> None:
        """Pause the task, have the snapshot written, by the task or beside it, and ship it."""
        costs, task, clock = self.description.snapshots, partition.task, self.plane.clock
        copy = costs.copy_bytes_per_s
        pause_ns = to_ns(costs.pause_s) + (0 if copy is None else round(partition.state_bytes() * _NS / copy))
        beside_ns = writing_ns if costs.mode == "asynchronous" else 0

        def paused() -> None:
            if not beside_ns:
                ship()
                return
            rank = channel(MESSAGE, task.index, task.index)
            clock.at(clock.now_ns() + beside_ns, rank, lambda _: ship() if task.alive else None)

        occupied_ns = pause_ns + writing_ns - beside_ns
        if not occupied_ns:
            paused()
        else:
            # It occupies the task ahead of its queue: one of the delays that checkpoints cause.
            task.put_in_front([Work(occupied_ns, task.host.ticket(), paused, partition)])

    def _checkpoint_host(self, partition: Partition, owner: HostView) -> int:
        """Return the planned checkpoint host; where it is the owner or dead the last one, or control chooses."""
        if self.description.store == "remote":
            return REMOTE
        cluster = self.plane.cluster
        planned = cluster.planned_checkpoint_host[partition.number]
        current = partition.checkpoint.host if partition.checkpoint else planned
        for candidate in (planned, current):
            if candidate is not None and candidate != owner.index and cluster.trusted[candidate]:
                return candidate
        return self.plane.listener.checkpoint_host(partition.number)

    def _ship(self, transfer: _Transfer) -> None:
        clock, task = self.plane.clock, transfer.origin
        self.plane.recorder.message(clock.now_ns(), "checkpoint", 1, transfer.bytes)
        arrive = self._at_remote if transfer.host == REMOTE else self._stored

        def leaves(departure_ns: int) -> None:
            transfer.departure_ns = departure_ns
            clock.at(departure_ns + self.plane.plan.latency_ns, _rank(transfer), lambda _: arrive(transfer))

        ends = (task.index, HOST_RECEIVER + transfer.host + 1)
        task.host.link.send(clock.now_ns(), transfer.bytes, ends, self.plane.next_number(), leaves)

    def _life(self, checkpoint_host: int) -> int:
        return 0 if checkpoint_host == REMOTE else self.plane.hosts[checkpoint_host].life

    def _is_lost(self, checkpoint: Checkpoint) -> bool:
        """Return whether the checkpoint host is dead, or has died since the snapshot."""
        checkpoint_host = checkpoint.host
        here = checkpoint_host == REMOTE or self.plane.cluster.host_alive[checkpoint_host]
        return not here or checkpoint.host_life != self._life(checkpoint_host)

    def _at_remote(self, transfer: _Transfer) -> None:
        """Have the remote store write one checkpoint after the other, or those of all tasks with equal shares."""
        aborted = self.description.aborts_checkpoints and transfer.void
        if aborted or transfer.origin.died_by(transfer.departure_ns):
            return
        clock, uploads = self.plane.clock, self.plane.uploads

        def writes(until_ns: int) -> None:
            clock.at(until_ns, _rank(transfer), lambda _: self._stored(transfer))

        if uploads is None:
            writes(self.plane.remote.departure_ns(clock.now_ns(), transfer.bytes))
        else:
            ends = (transfer.origin.index, HOST_RECEIVER)
            uploads.send(clock.now_ns(), transfer.bytes, ends, self.plane.next_number(), writes)

    def _stored(self, transfer: _Transfer) -> None:
        partition, checkpoint = transfer.partition, transfer.checkpoint
        if transfer.origin.died_by(transfer.departure_ns):
            return  # it never left the owner
        if transfer.void:
            return  # of an earlier incarnation it would trim tuples that the new state does not contain
        if self.description.completes_checkpoints:
            if transfer.unfinished:
                transfer.unfinished.stored = True
                self._note_row(transfer.row)
            self.note_stored(partition, transfer.batch, transfer.slot)
            self.plane.tell()
            return
        assert checkpoint is not None  # only barriers overtake
        partition.saving = False
        if self._is_lost(checkpoint):
            return  # the checkpoint host has died since; if it is back it lacks the checkpoint that this one builds on
        # Replace the old checkpoint first, trim after that: upstream may forget only tuples that are stored.
        self._counts(partition, checkpoint)
        self._note_row(transfer.row)
        if not self.plane.trimming:  # else the next round of acks says what is saved
            self._trim_later(partition, checkpoint.count)
        if partition.announced:
            partition.announced = False
            self.plane.note_stored(partition)
            self.plane.tell()

    def note_stored(self, partition: Partition, batch: Batch | None, slot: int = 0) -> None:
        """Note for the listener that a checkpoint is stored, or with the last one of its batch that all are."""
        if batch is None:
            self.plane.note_stored(partition, slot)
            return
        batch.left -= 1
        if not batch.left:
            self.plane.note_stored(batch.first, slot)

    def _counts(self, partition: Partition, checkpoint: Checkpoint) -> None:
        partition.checkpoint, partition.saved = checkpoint, True
        partition.ticks_let_go = checkpoint.time.ticks

    def store_in_flight(self, partition: Partition) -> int:
        """Send the in-flight data that was recorded at the partition's task to the store; return its size."""
        task = partition.task
        size, task.overtaken_bytes = task.overtaken_bytes, 0
        if size:
            self._ship(_Transfer(partition, None, partition.incarnation, task, size, NEVER, None))
        return size

    def _note_row(self, row: int) -> None:
        rows = self.plane.recorder.rows["checkpoints"]
        rows[row] = (*rows[row][:5], self.plane.clock.now_ns(), *rows[row][6:])

    def complete(self, partition: Partition, slot: int = 0) -> None:
        """Let the checkpoint of the partition count that has come to the store, if there is one."""
        unfinished = partition.unfinished.get(slot)
        if unfinished is None or not unfinished.stored:
            return
        del partition.unfinished[slot]
        checkpoint = unfinished.checkpoint
        partition.rebase(checkpoint.count, unfinished.touched)
        if not partition.operator.is_sink:
            partition.saving = bool(partition.unfinished)
            self._counts(partition, checkpoint)
        if not self.description.unaligned:  # else sources know their positions
            self._trim_later(partition, checkpoint.count)

    def _trim_later(self, partition: Partition, count: int) -> None:
        """Tell every upstream task to forget the tuples that the stored checkpoint covers; it hears a latency later."""
        clock = self.plane.clock
        senders = [sender for sender in partition.senders if sender.kept.get(partition)]
        if not senders:
            return
        self.plane.recorder.message(clock.now_ns(), "trim", len({sender.task for sender in senders}), 0)
        incarnation = partition.incarnation
        rank = channel(MESSAGE, partition.task.index, partition.task.index)
        clock.at(clock.now_ns() + self.plane.plan.latency_ns, rank, lambda _: self._trim(partition, count, incarnation))

    def _trim(self, partition: Partition, count: int, incarnation: int) -> None:
        # After a recovery the count refers to a list of applied tuples that is gone.
        if incarnation == partition.incarnation:
            self.trim_now(partition, count)

    def trim_now(self, partition: Partition, count: int) -> None:
        """Let upstream forget the outputs that are among the first `count` applied tuples."""
        for sender in partition.senders:
            if sender.kept.get(partition):
                sender.trim(partition, count)
