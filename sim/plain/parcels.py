"""Verbs for whole dataflows: tasks that are killed, parcels of state and tuples, tuples that a source emits again.

And those with which key groups move without a second instance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import index

import numpy as np

from models.records.tables import NEVER
from sim.control.placing import (
    check_frontier,
    check_moving,
    check_placement,
    check_stay,
    check_taken,
    check_times,
    check_withholding,
    operators_above,
    senders_to,
)
from sim.plain.channels import Channels, Frontier
from sim.plain.partition import Captured, Contents, Partition, Visit
from sim.plain.task import Task
from sim.plane_values import Parcel


class Parcels(Channels):
    """The verbs of `sim.data_plane.ParcelPlane`."""

    def kill(self, task: int) -> None:
        """End one task, and lose all that it had."""
        killed = self._live_task(task)
        host = self.hosts[killed.host.index]
        host.tasks.remove(killed)
        host.killed.append(killed)
        # As in a crash: replays are uncounted first, so that no drop counts as one that is done.
        lost = [partition for partition in self._numbered if partition.task is killed]
        for partition in lost:
            partition.counts_replays = False
        self.lose_items(killed, killed.kill())
        for partition in lost:
            self.lose_memory(partition)
        self.lose_held(killed)
        killed.places.give()
        killed.cores.dispatch()
        self.tell()

    def snapshot(self, partitions: Sequence[int]) -> Parcel:
        """Put copies of the states of these partitions into a parcel."""
        self.plan.check_ids()
        known = all(0 <= partition < len(self._numbered) for partition in partitions)
        saved = [self._numbered[partition] for partition in partitions] if known else []
        if not known or any(not one.live or one.operator.is_source or one.operator.is_sink for one in saved):
            raise ValueError("only a live partition, not of a source or sink, has a state to be saved")
        if len({one.task for one in saved}) > 1:
            raise ValueError("the partitions in a parcel are at one task")
        if len(set(partitions)) < len(partitions):
            raise ValueError("a partition is in a parcel once")
        return self._new_parcel(Contents(states=tuple((one, one.independent_snapshot()) for one in saved)))

    def capture(self, task: int) -> Parcel:
        """Put the tuples that rules hold at the task into a parcel."""
        captured = self._live_task(task)
        side, captured.side = captured.side, []
        for visit in side:
            if visit.replayed:
                self.one_replayed(visit.partition, captured)
        tuples = [Captured(visit.row, visit.partition, visit.origin, captured, visit.arrival_ns) for visit in side]
        made = self._new_parcel(Contents(tuples=tuple(tuples)))
        self.notice(captured)
        self.tell()
        return made

    def _new_parcel(self, contents: Contents) -> Parcel:
        self._last_parcel += 1
        self.parcels[self._last_parcel] = contents
        size = sum(saved.size_bytes() for _, saved in contents.states) + sum(one.row.bytes for one in contents.tuples)
        partitions = tuple(partition.number for partition, _ in contents.states)
        return Parcel(self._last_parcel, len(contents.tuples), size, partitions)

    def put(self, parcel: int, task: int) -> None:
        """Install the states in the parcel, and put its tuples in front of the queue."""
        contents = self._contents(parcel)
        if contents.taken:
            self._put_taken(parcel, contents, task)
            return
        goal = self._live_task(task)
        self._check_fits(contents, goal)
        contents.was_put = True
        for partition, saved in contents.states:
            partition.restore_event_time(saved, self.plan.replays)
            partition.install(saved)
        now = self.clock.now_ns()
        visits = [Visit(one.row, one.partition, one.origin, self.next_number(), False) for one in contents.tuples]
        for visit in visits:
            visit.arrival_ns, visit.arrived, visit.ticket = now, True, goal.host.ticket()
        # A tuple counts for its root the first time only that it comes out of the parcel.
        contents.tuples = tuple(one._replace(row=one.row._replace(tree=None)) for one in contents.tuples)
        # Note them before they are served: watermarks that wait must not pass them.
        self.note_freed(visits)
        goal.put_in_front(visits)
        self.notice(goal)
        self.tell()

    def _check_fits(self, contents: Contents, task: Task) -> None:
        partitions = {partition for partition, _ in contents.states} | {one.partition for one in contents.tuples}
        if any(partition.task is not task for partition in partitions):
            raise ValueError("a parcel is put where its partitions are assigned to")
        for partition, saved in contents.states:
            if partition.live:
                raise ValueError(f"{partition.name} is live and has a state")
            stored = partition.checkpoint
            if stored and (stored.incarnation, stored.count) > (saved.incarnation, saved.count):
                raise ValueError(f"the stored checkpoint of {partition.name} is newer than the state in the parcel")

    def discard(self, parcel: int) -> None:
        """Forget the parcel; tuples that were never put are lost, and so are key groups that were taken."""
        if parcel in self.parcels and self.parcels[parcel].taken and not self.plan.keeps_ids:
            raise ValueError("key groups that were taken have no other state: they have to be put")
        self.plan.check_ids()
        contents = self.parcels.pop(parcel, None)
        if contents is not None and contents.taken:
            for one in contents.taken:
                if one.taken:
                    held, one.held = one.held, []  # at a task that lives
                    self.lose_memory(one)
                    one.held = held
            self.tell()
            return
        if contents is None or contents.was_put:
            return
        now = self.clock.now_ns()
        self.recorder.rows["dropped"] += [
            (one.task.operator.index, one.task.index, one.arrival_ns, NEVER, now, "parcel") for one in contents.tuples
        ]

    def emit_again(self, partition: int, sequences: Sequence[int]) -> None:
        """Let a source emit the tuples with these numbers again, before those that wait."""
        self.plan.check_ids()
        if self.acker:
            raise ValueError("with an acker a source emits the roots again that have failed, and no others")
        source = next((one for one in self.sources if one.partition.number == partition), None)
        if source is None or not source.partition.live:
            raise ValueError("only a live source emits tuples again")
        if any(not 0 <= number < source.emitted for number in sequences):
            raise ValueError("a tuple that was not emitted yet cannot be emitted again")
        source.again.extend(sequences)
        source.catch_up()
        self.tell()

    def _live_task(self, task: int) -> Task:
        self.plan.check_ids()
        if not 0 <= task < len(self.tasks) or not self.tasks[task].alive:
            raise ValueError(f"task {task} is dead")
        return self.tasks[task]

    # -- key groups without a second instance

    def place(
        self, operator: int, senders: Collection[int], owners: Sequence[int] | np.ndarray, from_ns: int = 0
    ) -> None:
        """Send what these tasks emit for key group k of the operator, if born from then on, to `owners[k]`."""
        check_moving(self.plan)
        operator, senders, numbers = check_placement(self.cluster, operator, senders, owners)
        from_ns = check_times(self.plan, operator, index(from_ns))
        each = zip(self.partitions[operator], (self.tasks[task] for task in numbers.tolist()), strict=True)
        # Of one that is down nobody takes the state: until that is detected all goes where it went.
        placed = [(partition, task) for partition, task in each if partition.live or partition.taken]
        for partition, task in placed:
            if partition.taken and task is not partition.task:
                raise ValueError(f"{partition.name} was taken, and is on its way to another task")
            known = (partition.goal, partition.placed_from_ns)
            if task is not partition.task and partition.goal is not None and known != (task, from_ns):
                raise ValueError(f"{partition.name} has another next task, or from another time on")
        self.moves_alone = True
        for partition, task in placed:
            if task is not partition.task:
                partition.goal, partition.placed_from_ns = task, from_ns
            for sender in senders:
                if task is partition.task:
                    partition.placed.pop(sender, None)  # the goal stays: something may be on its way there
                else:
                    partition.placed[sender] = task

    def withhold(self, task: int, operator: int, from_ns: int) -> None:
        """Have a task withhold what it emits for an operator, if born from then on."""
        task, operator, from_ns = check_withholding(self.plan, self.cluster, task, operator, from_ns)
        outbox = self.tasks[task].outbox
        if operator in outbox.withheld and outbox.withheld[operator].from_ns is not None:
            raise ValueError("the task withholds what it emits for the operator already")
        outbox.withhold(operator, from_ns)

    def let_out(self, task: int, operator: int) -> None:
        """Have a task send what it has withheld for an operator."""
        task, operator, _ = check_withholding(self.plan, self.cluster, task, operator)
        if operator in self.tasks[task].outbox.withheld:
            self.tasks[task].outbox.let_out(operator)
            self.notice(self.tasks[task])
            self.tell()

    def take(self, partitions: Sequence[int]) -> Parcel:
        """Take the states of these partitions out of their task."""
        check_moving(self.plan)
        partitions = check_taken(self.cluster, partitions)
        taken = [self._numbered[partition] for partition in partitions]
        for one in taken:
            if not one.live:
                raise ValueError(f"{one.name} is live nowhere")
        goal = taken[0].goal
        if goal is None or len({(one.task, one.goal) for one in taken}) > 1:
            raise ValueError("key groups in a parcel come from one task, and have one next task")
        for one in taken:
            senders = senders_to(self.cluster, one.operator.index)
            if any(one.placed.get(sender) is not goal for sender in senders):
                raise ValueError(f"not all tasks upstream send to the next task of {one.name}")
        self._check_served(taken)
        from_ns = max(one.placed_from_ns for one in taken)
        if from_ns and not self.is_passed(self._above(taken[0].operator.index), from_ns):
            raise ValueError("not all that is older than the next task of a key group has been served")
        self.watermarks.take_leave(taken)
        task = taken[0].task
        for one in taken:
            one.task, one.goal, one.live, one.taken, one.placed_from_ns = goal, None, False, True, 0
            one.placed.clear()  # a sender that is told nothing else sends to where it is
        self.watermarks.speak_for_the_rest(task)
        made = self._new_parcel(Contents(taken=tuple(taken)))
        size = sum(one.state_bytes() + one.kept_bytes() for one in taken)
        return made._replace(bytes=size, partitions=tuple(partitions))

    def _check_served(self, taken: Sequence[Partition]) -> None:
        """Raise ValueError if something for these partitions is on its way to their task, or is there."""
        task = self.tasks[taken[0].task.index]
        here = [*task.items(), *(visit for visit, goal in self.wire.items() if goal is task)]
        if any(isinstance(item, Visit) and item.partition in taken for item in here):
            raise ValueError("not all that was sent to the task of a key group has been served")

    def stay(self, partitions: Sequence[int]) -> None:
        """Send what is for these key groups to where they are: their next tasks are dead."""
        staying = [self._numbered[one] for one in check_stay(self.plan, self.cluster, partitions)]
        if any(one.goal is not None and one.goal.alive for one in staying):
            raise ValueError("the next task of a key group lives, and something may be on its way there")
        for one in staying:
            one.goal, one.placed_from_ns = None, 0
            one.placed.clear()
        for task in dict.fromkeys(self.tasks[one.task.index] for one in staying if one.task.alive):
            if task.operator.timed:  # until now they have heard at most the time of their step
                task.put_in_front(self.watermarks.recall(task))

    def state_bytes(self, partition: int) -> int:
        """Return the size of the state of a partition that is live."""
        return self._numbered[partition].state_bytes()

    def passed(self, operator: int, time_ns: int, token: int) -> None:
        """Tell the listener when nothing born before that time is at the operator, or above it, any more."""
        operator, time_ns = check_frontier(self.plan, self.clock.now_ns(), operator, time_ns)
        self._frontiers.append(Frontier(self._above(operator), time_ns, index(token)))
        self.tell()

    def _above(self, operator: int) -> frozenset[int]:
        """Return an operator, and all above it."""
        return frozenset(operators_above(self.plan)[operator].nonzero()[0].tolist())

    def _put_taken(self, parcel: int, contents: Contents, task: int) -> None:
        """Make the key groups live, and let what waits for them go on."""
        parcel, task = index(parcel), index(task)
        goal = contents.taken[0].task
        if goal.index != task:
            raise ValueError("key groups that were taken are put at their next task")
        del self.parcels[parcel]
        held = [visit for one in contents.taken for visit in one.held]
        for one in contents.taken:
            one.live, one.taken, one.held, one.live_at = True, False, [], self._sendings
        for one in contents.taken:  # before what waits is served: it is of an earlier time
            if one.operator.timer_ns:
                self.emit_ticks(one, one.due)
            self.emit_overdue(one)
        # Watermarks that wait for other threads must not pass what goes in front.
        self.note_freed(held)
        # It came before all that rules hold: a rule holds a tuple before it is asked where its key group is.
        holder = self.tasks[task]
        holder.side = [*(visit for visit in held if holder.holds(visit)), *holder.side]
        self.watermarks.begin_to_speak(holder)
        free = [visit for visit in held if not holder.holds(visit)]
        holder.put_in_front([*free, *self.watermarks.recall(holder)])
        self.notice(holder)
        self.tell()

    def _contents(self, parcel: int) -> Contents:
        if parcel not in self.parcels:
            raise ValueError(f"there is no parcel {parcel}")
        return self.parcels[parcel]
