"""The plain data plane as control sees it: the state at the start, and the verbs and questions of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from models.records.tables import NEVER, table
from sim.arrivals import draw_arrivals
from sim.clock import TIMERS, Clock
from sim.control.cluster import Cluster, RunPlan
from sim.control.statistics import check_counts
from sim.data_plane import Listener
from sim.pace import FULL, pace_of
from sim.plain.acker import Acker, Acks
from sim.plain.audit import ledger
from sim.plain.channels import Source
from sim.plain.checkpoint import Batch, CheckpointCoordinator
from sim.plain.host import Processor
from sim.plain.instances import Actions, GroupInstances, side_lists
from sim.plain.link import FairLink
from sim.plain.parcels import Parcels
from sim.plain.partition import HostView, Partition, TaskView, Unfinished, Visit, Work
from sim.plain.task import Task
from sim.plain.trimming import HistoryProtocol, TrimmingProtocol, Trims
from sim.plain.watermarks import Watermarks
from sim.plane_values import REMOTE, Key, Statistic
from sim.plane_values import Row as TableRow


class PlainPlane(Acks, Trims, Parcels, Actions, GroupInstances):
    """A `sim.data_plane.DataPlane` in which each step of a tuple is an event of the clock that control uses, too.

    So there is nothing to advance. Verbs that may make a task idle end with `tell`: the listener hears of it after the
    event or the verb, never in the middle of one.
    """

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> None:
        super().__init__(plan, cluster, clock, listener)
        self.acker = Acker(self, plan.acker) if plan.acker else None
        if plan.trimming:
            self.trimming = TrimmingProtocol(self, plan.trimming)
        elif plan.history:
            self.trimming = HistoryProtocol(self, plan.history, plan.sources_replay)
        for host in self.hosts:
            if host.group.cpu == "processor-sharing":
                host.processor = Processor(self, host, shares_evenly=True)
        for task in range(len(cluster.task_host)):
            self.add_task(task)
        for number, (operator, index) in enumerate(
            zip(cluster.partition_operator, cluster.partition_index, strict=True)
        ):
            made = Partition(plan.operators[operator], index, number, self.tasks[cluster.partition_task[number]])
            self.partitions[operator].append(made)
        # Sources, watermarks and timers come last: they set their first events, for which all partitions must exist.
        self._numbered = list(self.all_partitions())
        self._planned = len(self._numbered)
        self.sources = [source for each in plan.operators if each.is_source for source in self._sources(each.index)]
        self.watermarks = Watermarks(self)
        self.saver = CheckpointCoordinator(self, [], [], 1)  # takes the checkpoints that control asks for
        for partition in self._numbered:
            if partition.operator.timer_ns:
                self._wait_for_timer(partition, 1)

    def _sources(self, operator: int) -> Iterator[Source]:
        plan, name = self.plan, self.plan.operators[operator].name
        for partition in self.partitions[operator]:
            times, keys = draw_arrivals(
                plan.scenario, name, partition.index, plan.replication, plan.inputs.rates.get(name)
            )
            yield Source(self, partition, times.tolist(), keys.tolist())

    # -- time

    def advance(self, limit: Key) -> bool:
        """Return False: all steps of tuples are events of the clock."""
        return False

    # -- tasks and partitions

    def add_task(self, task: int) -> None:
        """Start a new task of an operator on a host."""
        operator, host = self.plan.operators[self.cluster.task_operator[task]], self.hosts[self.cluster.task_host[task]]
        first = self.cluster.task_thread[task]
        own = host.cores_for(operator) if first == task else self.tasks[first].cores
        made = Task(self, operator, task, host, own)
        made.since = self._sendings
        host.tasks.append(made)
        self.tasks.append(made)

    def crash(self, host: int) -> None:
        """End the host's tasks, and lose all that they and the host had."""
        # The order is a part of the specification: `dropped` lists the tuples of the tasks, then those that partitions
        # held, then those on the link. Replays are uncounted first, so that no drop counts as one that is done.
        dead, now = self.hosts[host], self.clock.now_ns()
        tasks = dead.crash()
        for task in dead.killed:  # what they had sent and has not left is lost as well
            task.died_ns = now
        dead.killed = []
        lost = [partition for partition in self._numbered if partition.task in tasks]
        for partition in lost:
            partition.counts_replays = False
        for task in tasks:
            self.lose_items(task, task.crash(now))
        for partition in lost:
            self.lose_memory(partition)
        for task in tasks:
            self.lose_held(task)
        self._cut_links(dead)
        if not self.plan.replays:
            for task in tasks:
                self.watermarks.take_last_leave(task)
        # Senders that wait for a place go on: a dead task has room, and drops what arrives.
        for task in tasks:
            task.places.give()
        # Checkpoints that the host held for others are gone as well.
        for partition in self._numbered:
            if partition.checkpoint and partition.checkpoint.host == host:
                partition.checkpoint = None
        self.tell()

    def _cut_links(self, dead: HostView) -> None:
        """Drop tuples that a dead host had not sent yet."""
        # Without a known arrival a message is still on a shared link. With one it is cut if its last byte would have
        # left after the crash.
        cut = [
            (visit, task)
            for visit, task in self.wire.items()
            if visit.origin.host is dead
            and (visit.arrival_ns == NEVER or visit.origin.died_by(visit.arrival_ns - self.plan.latency_ns))
        ]
        for visit, _ in cut:
            del self.wire[visit]
        for visit, task in cut:
            if not visit.replayed:
                task.places.leave()
            self.drop(visit, task, "crash")

    def assign(self, partition: int, task: int) -> None:
        """Put the partition at that task from now on."""
        self.plan.check_ids()
        self._numbered[partition].assign(self.tasks[task])
        self._numbered[partition].assigned_at = self._sendings
        if self.plan.replays:  # else what it had sent from a task that lives is still on its way
            self._numbered[partition].left.clear()
        if self.trimming:
            self.trimming.forget_acks_of(self._numbered[partition])

    def install(self, partition: int) -> int:
        """Install the stored checkpoint, or none.

        Returns how many tuples are missing that upstream may have forgotten.
        """
        self.plan.check_ids()
        installed = self._numbered[partition]
        installed.restore_event_time(installed.checkpoint, self.plan.replays)
        if not self.trimming:
            missing = installed.install(installed.checkpoint)
            if self.plan.replays:  # else what was lost is lost, and keys that have closed do not open again
                self.post_date_again(installed)
            return missing
        missing = installed.install(self.trimming.state_to_restore(installed))
        self.trimming.begin_again(installed)
        return missing

    def open(self, partition: int) -> None:
        """Make the partition live."""
        self.plan.check_ids()
        self._numbered[partition].live, self._numbered[partition].live_at = True, self._sendings

    def release(self, partition: int) -> None:
        """Put the tuples that the partition held in front of the queue."""
        self.plan.check_ids()
        opened = self._numbered[partition]
        held, opened.held = opened.held, []
        if self.plan.scenario.fault_tolerance.unaligned:
            again = [*self.in_flight_again(opened), *held]
            for visit in held:
                if not visit.replayed:
                    opened.task.places.leave()
            self.note_freed(again)
            opened.task.put_before(again, opened)
        else:
            self.note_freed(held)
            opened.task.put_in_front(held)
        self.tell()

    def resume(self, partition: int) -> None:
        """Emit what waits: arrivals at a source, what a timer has missed, or post-dated outputs that are due."""
        resumed = self._numbered[partition]
        if resumed.operator.postpone_ns is not None:
            self.emit_overdue(resumed)
            self.tell()
        if resumed.operator.timer_ns:
            self.emit_ticks(resumed, (self.clock.now_ns() - 1) // resumed.operator.timer_ns)
        for source in self.sources:
            if source.partition.number == partition:
                source.resume()

    # -- what control has sources read

    def _source(self, partition: int) -> Source:
        return next(source for source in self.sources if source.partition.number == partition)

    def arrived(self, partition: int, before_ns: int) -> int:
        """Return how many tuples arrive at a source before an instant."""
        return self._source(partition).arrived_before(before_ns)

    def arrival_ns(self, partition: int, number: int) -> int | None:
        """Return when a tuple arrives at a source; None if there are not so many."""
        arrivals_ns = self._source(partition).arrivals_ns
        return arrivals_ns[number] if number < len(arrivals_ns) else None

    def read(self, partition: int, first: int, end: int) -> None:
        """Have a source emit these arrivals now."""
        self._source(partition).read(first, end)
        self.tell()

    def read_again(self, partition: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget what a source keeps, and that it has emitted these arrivals."""
        self._source(partition).read_again(ranges)

    # --

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task for a time, ahead of its queue."""
        busy = self.tasks[task]
        busy.put_in_front([Work(ns, busy.host.ticket(), lambda: self.listener.work_done(token))])
        self.tell()

    def speed(self, host: int, share: float) -> None:
        """Give others this share of the CPU from now on."""
        changed, pace = self.hosts[host], pace_of(share)
        if changed.processor is None and pace != FULL:
            changed.processor = Processor(self, changed, shares_evenly=False)
            changed.processor.take_over()
        if changed.processor:
            changed.processor.set_pace(pace)

    def stop_counting_replays(self, partition: int) -> tuple[int, int]:
        """Return `replayed` now, and count no more."""
        self._numbered[partition].counts_replays = False
        return self.replayed(partition)

    def watch_outputs(self, born_ns: int) -> None:
        """Do nothing: each delivery is recorded."""

    # -- questions

    def replayed(self, partition: int) -> tuple[int, int]:
        """Return (pending replayed tuples, when the last was processed)."""
        asked = self._numbered[partition]
        return asked.pending, asked.processed_ns

    def checkpoint_host(self, partition: int) -> int | None:
        """Return who holds the stored checkpoint."""
        asked = self._numbered[partition]
        if asked.checkpoint:
            return asked.checkpoint.host
        return REMOTE if asked.in_flight else None

    def checkpoint_bytes(self, partition: int) -> int:
        """Return the size of all that a restore reads."""
        asked = self._numbered[partition]
        return asked.in_flight_bytes() + (asked.checkpoint.size_bytes() if asked.checkpoint else 0)

    def senders(self, partition: int) -> list[int]:
        """Return the partitions that keep outputs for this one."""
        receiver = self._numbered[partition]
        return sorted(sender.number for sender in receiver.senders if sender.kept.get(receiver))

    def receivers(self, partition: int) -> list[int]:
        """Return the partitions that this one keeps outputs for."""
        return sorted(receiver.number for receiver, rows in self._numbered[partition].kept.items() if rows)

    def raise_event_time(self, task: int, event_ns: int) -> None:
        """Have the live partitions of a task know that event time is no earlier, and end the windows that it passes."""
        self.watermarks.raise_event_time(self.tasks[task], event_ns)
        self.tell()

    def empty(self, task: int) -> bool:
        """Return whether the task has nothing to do."""
        return self.tasks[task].empty

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """Return a lower bound of when the last tuple under way from these operators arrives at the task."""
        goal, now, limit = self.tasks[task], self.clock.now_ns(), self._sendings if before is None else before
        found = []
        for visit, receiver in self.wire.items():
            if receiver is goal and visit.origin.operator.index in operators and visit.number < limit:
                link = visit.origin.host.link
                if visit.arrival_ns == NEVER and isinstance(link, FairLink):
                    least = link.least_ns(now, (visit.origin.index, task), limit) or 0
                    found.append(now + least + self.plan.latency_ns)
                else:
                    found.append(visit.arrival_ns)
        return max(found, default=None)

    def sendings(self) -> int:
        """Return how much was sent so far."""
        return self._sendings

    def watch(self, tasks: Collection[int]) -> None:
        """Tell of exactly these tasks when they are idle."""
        self._watched = frozenset(tasks)

    # -- the store, checkpoints

    def fetch_ns(self, size_bytes: int) -> int:
        """Return when so many bytes have come from the remote store."""
        return self.remote.arrival_ns(self.clock.now_ns(), size_bytes)

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Take checkpoints of these partitions from the first interval on."""
        if not partitions:
            return
        taken = [self._numbered[partition] for partition in partitions]
        self.clock.process(CheckpointCoordinator(self, taken, offsets_ns, interval_ns).run())

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """Take a checkpoint of the partition now, for that checkpoint host; return whether it was taken."""
        taken = self._take_together([partition], checkpoint_host)
        self.tell()
        return taken == 1

    def checkpoint_each(
        self, partitions: Sequence[int], checkpoint_host: int, slot: int = 0, more_bytes: int = 0
    ) -> int:
        """Take a batch of checkpoints now, for that checkpoint host; return how many were taken."""
        if not self.plan.scenario.fault_tolerance.completes_checkpoints:
            raise ValueError("batches of checkpoints are for runs with barriers or batches")
        taken = self._take_together(partitions, checkpoint_host, slot, more_bytes)
        self.tell()
        return taken

    def _take_together(
        self, partitions: Sequence[int], checkpoint_host: int, slot: int = 0, more_bytes: int = 0
    ) -> int:
        """Take checkpoints of those that can be saved, of which the listener hears at once."""
        numbered = [self._numbered[partition] for partition in partitions]
        taken = [partition for partition in numbered if self._can_be_saved(partition, slot)]
        batch = Batch(taken[0], len(taken)) if taken else None
        for partition in taken:
            if partition.operator.is_sink:
                partition.unfinished[slot] = Unfinished(partition.content(REMOTE, 0, outputs=False), stored=True)
                self.saver.note_stored(partition, batch, slot)
            else:
                self.saver.take_for(partition, checkpoint_host, batch, slot, more_bytes)
        return len(taken)

    def _can_be_saved(self, partition: Partition, slot: int) -> bool:
        together = self.plan.scenario.fault_tolerance.completes_checkpoints
        waits = slot in partition.unfinished or (partition.saving and not partition.unfinished)
        operator = partition.operator
        return partition.live and not waits and not operator.is_source and (together or not operator.is_sink)

    def complete_checkpoints(self, partitions: Collection[int], slot: int = 0) -> None:
        """Let the checkpoints of these partitions count that have come to the store."""
        for partition in sorted(partitions):
            self.saver.complete(self._numbered[partition], slot)
            if self.plan.scenario.fault_tolerance.unaligned:
                self.complete_in_flight(self._numbered[partition])

    def deliveries(self) -> int:
        """Return how many tuples sinks have accepted so far."""
        return self.recorder.delivered

    def trim(self, partition: int, count: int) -> None:
        """Let upstream forget the outputs for the first `count` tuples that the partition applied."""
        self.saver.trim_now(self._numbered[partition], count)

    # -- timers

    def _wait_for_timer(self, partition: Partition, number: int) -> None:
        at = number * partition.operator.timer_ns
        self.clock.at(at, TIMERS + partition.task.index, lambda _: self._timer(partition, number))

    def _timer(self, partition: Partition, number: int) -> None:
        """Let a task emit the outputs of its timer, at no cost, unless it is down or paused."""
        partition.due = number
        if partition.live:
            self.emit_ticks(partition, number)
        self._wait_for_timer(partition, number + 1)

    # -- records

    def samples(self) -> list[TableRow]:
        """Return (task, host, queue, busy_ns, buffered) of each live task."""
        buffered: dict[TaskView, int] = dict.fromkeys(self.tasks, 0)
        held: dict[TaskView, int] = dict.fromkeys(self.tasks, 0)
        for task in self.tasks:
            buffered[task] += sum(len(each.outputs) for each in task.outbox.withheld.values())
        for partition in self._numbered:
            buffered[partition.task] += partition.kept_rows()
            held[partition.goal or partition.task] += len(partition.held)
        return [
            (task.index, task.host.index, held[task] + task.waiting(), task.busy_ns, buffered[task])
            for task in self.tasks
            if task.alive
        ]

    def buffers(self) -> list[TableRow]:
        """Return (task, taken, unsent, blocked_ns, kept_bytes, unconfirmed, slices) of each live task."""
        tables: dict[TaskView, np.ndarray] = {task: np.zeros(3, np.int64) for task in self.tasks}
        for partition in self._numbered:
            own = self.trimming.tables_of(partition) if self.trimming else (partition.kept_bytes(), 0, 0)
            tables[partition.task] += np.array(own)
        rows = [(task.places.taken_now, len(task.outbox.unsent), task.outbox.blocked_ns()) for task in self.tasks]
        return [
            (task.index, *row, *tables[task].tolist()) for task, row in zip(self.tasks, rows, strict=True) if task.alive
        ]

    def links(self) -> list[TableRow]:
        """Return (host, carried, delayed, delay_ns, longest_ns) of each host on whose link a tuple was delayed."""
        used = [(host.index, host.use) for host in self.hosts if host.use.delayed]
        return [(index, use.carried, use.delayed, use.delay_ns, use.longest_ns) for index, use in used]

    def lag(self) -> list[tuple[int, int]]:
        """Return (operator, tuples that arrived before now and are not emitted) for each source partition."""
        now = self.clock.now_ns()
        return [(source.partition.operator.index, source.lag(now)) for source in self.sources]

    def statistics(self) -> list[Statistic]:
        """Return the counts of all partitions but those of sources."""
        check_counts(self.plan)
        return [
            Statistic(
                partition.number,
                partition.came,
                partition.served,
                partition.cpu_ns,
                partition.received_bytes,
                partition.sent_bytes,
                partition.state_bytes() if partition.live else 0,
            )
            for partition in self._numbered
            if not partition.operator.is_source
        ]

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes)."""
        return self.recorder.messages

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return rows (operator, expected, lost, duplicated)."""
        return ledger(self)

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return all rows so far, with tuples in service, in a queue, or held for a partition that is not live."""
        held: dict[TaskView, list[Visit]] = {task: [] for task in self.tasks}
        for partition in self._numbered:
            held[partition.goal or partition.task] += partition.held
        serving, waiting = [], []
        for task in self.tasks:
            here = task.operator.index, task.index
            serving += [(*here, item.arrival_ns, item.start_ns) for item in task.serving if isinstance(item, Visit)]
            waiting += [
                (*here, item.arrival_ns)
                for item in (*held[task], *task.front, *task.queue, *side_lists(task))
                if isinstance(item, Visit)
            ]
        made = dict(self.recorder.tables(serving, waiting))
        processors = [(task, self.hosts[task.host.index].processor) for task in self.tasks]
        used = [(task.index, processor.used_by(task)) for task, processor in processors if processor]
        made["cpu"] = table("cpu", [(task, one.served_ns, one.used_ns) for task, one in used])
        return made
