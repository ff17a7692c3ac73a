"""Barriers that overtake, and the in-flight data that belongs to a checkpoint because they did."""

from __future__ import annotations

from collections.abc import Sequence

from sim.plain.channels import Channels
from sim.plain.checkpoint import CheckpointCoordinator
from sim.plain.partition import InFlight, Letter, Output, Partition, TaskView, Visit


class Overtaking(Channels):
    """The verbs of `sim.data_plane.UnalignedPlane`, and what others do about in-flight data."""

    saver: CheckpointCoordinator

    def overtake(self, token: int) -> None:
        """Let the barriers of this checkpoint overtake from now on, wherever they are."""
        self.overtaking, self.passing = token, True
        for task in self.tasks:
            if task.alive:
                for letter, outputs in task.outbox.take_letters(token):
                    self.send_ahead(letter, task, outputs)
                task.let_overtake(token)
        self.tell()

    def send_ahead(self, letter: Letter, origin: TaskView, outputs: Sequence[Output]) -> None:
        """Send a barrier ahead of these outputs; those for the same task are in-flight data of their sender."""
        for output in outputs:
            if output.receiver.task is letter.receiver:
                output.receiver.overtaken.append(InFlight(output.row, origin, unsent=True))
                origin.overtaken_bytes += output.row.bytes
        self.send_message(*letter)

    def record(self, task: int) -> None:
        """Record in-flight data at a task, and the positions of its sources."""
        recorded = self.tasks[task]
        for source in self.sources:
            if source.partition.task is recorded:
                source.partition.mark()
        recorded.begin_recording()
        self.tell()

    def store_in_flight(self, partition: int) -> int:
        """Send what was recorded at the partition's task to the store."""
        return self.saver.store_in_flight(self._numbered[partition])

    def forget_overtaken(self) -> None:
        """Forget all barriers that overtake, and what they have overtaken: their checkpoint has ended."""
        self.passing = False
        for task in self.tasks:
            task.forget_passage()
        for partition in self._numbered:
            partition.overtaken = []

    def complete_in_flight(self, partition: Partition) -> None:
        """Let the in-flight data for a partition count, or the position of a source: the checkpoint is complete."""
        partition.forget_marked()
        # On each channel what waited at the receiver was sent before what the sender had not sent.
        partition.in_flight = sorted(partition.overtaken, key=lambda one: one.unsent)
        partition.overtaken = []

    def in_flight_again(self, partition: Partition) -> list[Visit]:
        """Return the in-flight data of the checkpoint to which the partition has gone back, as tuples that arrive."""
        now, host = self.clock.now_ns(), partition.task.host
        visits = [Visit(one.row, partition, one.origin, self.next_number(), True) for one in partition.in_flight]
        for visit in visits:
            visit.arrival_ns, visit.arrived, visit.ticket = now, True, host.ticket()
        partition.pending += len(visits) if partition.counts_replays else 0
        return visits
