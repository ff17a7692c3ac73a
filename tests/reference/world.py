"""The plain data plane: hosts, tasks, partitions, and the channels between tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from models.records.tables import NEVER, table
from models.units import to_ns
from reference.actions import Actions, side_lists
from reference.checkpoint import CheckpointCoordinator
from reference.event_time import Watermarks
from reference.host import FairLink, Host, Link
from reference.ledger import ledger
from reference.moves import Moves
from reference.outbox import Output
from reference.partition import Bundle, Partition, Row, Visit
from reference.processor import Processor
from reference.recorder import Recorder
from reference.source import Source
from reference.task import Task, Work
from sim.arrivals import draw_arrivals
from sim.clock import ARRIVAL, MESSAGE, TIMERS, Clock, channel
from sim.control.cluster import Cluster, RunPlan
from sim.control.statistics import check_counts
from sim.data_plane import Key, Listener, Statistic
from sim.data_plane import Row as TableRow
from sim.pace import FULL, pace_of


class World(Actions, Moves):
    """Everything that lives in one replication, and the sending of tuples; a `sim.data_plane.DataPlane`.

    Routing is by partition: `partition.task` is where its tuples are sent. One FIFO channel joins each pair of tasks;
    tuples between hosts hold the sender's link for their bytes, tuples inside a host arrive at once. `wire`
    holds every tuple that is under way, with the task it goes to, in the order of sending.

    Each step of a tuple is an event of the clock that control uses too, so there is nothing to advance. The listener
    is told who is idle after the event, or after the verb.
    """

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> None:
        super().__init__()
        self.plan, self.cluster, self.clock, self.listener = plan, cluster, clock, listener
        self.recorder = Recorder()
        self.drops_duplicates = plan.drops_duplicates
        self.remote = Link(plan.scenario.fault_tolerance.remote_bytes_per_s, plan.latency_ns)
        self.hosts = [
            Host(clock, index, name, group, plan.latency_ns, plan.fair)
            for index, (name, group) in enumerate(zip(plan.host_names, plan.host_groups, strict=True))
        ]
        self.warmup_ns = to_ns(plan.scenario.warmup_s)
        for host in self.hosts:
            if host.group.cpu == "processor-sharing":
                host.processor = Processor(self, host, shares_evenly=True)
        self.tasks: list[Task] = []
        for task in range(len(cluster.task_host)):
            self.add_task(task)
        self.partitions: list[list[Partition]] = [[] for _ in plan.operators]
        for number, (operator, index) in enumerate(
            zip(cluster.partition_operator, cluster.partition_index, strict=True)
        ):
            made = Partition(plan.operators[operator], index, number, self.tasks[cluster.partition_task[number]])
            self.partitions[operator].append(made)
        self._numbered = list(self.all_partitions())
        self._planned = len(self._numbered)
        self.wire: dict[Visit, Task] = {}
        self._sendings = 0
        self.never_sent = 0  # outputs that were lost in the outbox of a dead task
        self._watched: frozenset[int] = frozenset()
        self.sources = [source for each in plan.operators if each.is_source for source in self._sources(each.index)]
        self.watermarks = Watermarks(self)
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

    def all_partitions(self) -> Iterator[Partition]:
        """Every partition, by operator and index."""
        for partitions in self.partitions:
            yield from partitions

    def instances(self) -> list[Partition]:
        """Every partition, with the further instances of key groups."""
        return self._numbered

    def instances_of(self, group: Partition) -> list[Partition]:
        """The instances of a key group."""
        return [group, *(partition for partition in self._numbered[self._planned :] if partition.group is group)]

    # -- time

    def advance(self, limit: Key) -> bool:
        """False: all steps of tuples are events of the clock."""
        return False

    # -- tasks and partitions

    def add_task(self, task: int) -> None:
        """A new task of an operator on a host."""
        operator, host = self.plan.operators[self.cluster.task_operator[task]], self.hosts[self.cluster.task_host[task]]
        made = Task(self, operator, task, host, host.cores_for(operator.description.threads))
        host.tasks.append(made)
        self.tasks.append(made)

    def crash(self, host: int) -> None:
        """End the host's tasks, and forget what they and the host had."""
        dead, now = self.hosts[host], self.clock.now_ns()
        tasks = dead.crash()
        lost = [partition for partition in self._numbered if partition.task in tasks]
        for partition in lost:
            partition.counts_replays = False
        for task in tasks:
            for visit in task.crash(now):
                self.drop(visit, task, "crash")
            for output in task.outbox.lose():
                self.never_sent += 1
                unsent = Visit(output.row, output.receiver, task, self.next_number(), replayed=False)
                self.drop(unsent, output.receiver.task, "crash")
        for partition in lost:
            for visit in partition.forget_volatile():
                self.drop(visit, partition.task, "crash")
        self._cut_links(dead)
        for task in tasks:
            task.places.give()  # a dead task has room
        for partition in self._numbered:
            if partition.checkpoint and partition.checkpoint.host == host:
                partition.checkpoint = None
        self.tell()

    def _cut_links(self, dead: Host) -> None:
        """What a dead host had not sent yet is gone."""
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
        """The partition is with that task from now on."""
        self._numbered[partition].assign(self.tasks[task])
        self._numbered[partition].assigned_at = self._sendings

    def install(self, partition: int) -> int:
        """The state of the stored checkpoint, or none; how many tuples are missing that upstream may have forgotten."""
        installed = self._numbered[partition]
        self.watermarks.restore(installed, installed.checkpoint)
        return installed.install(installed.checkpoint)

    def open(self, partition: int) -> None:
        """The partition is live."""
        self._numbered[partition].live, self._numbered[partition].live_at = True, self._sendings

    def release(self, partition: int) -> None:
        """What the partition held goes in front of the queue."""
        opened = self._numbered[partition]
        held, opened.held = opened.held, []
        self.note_freed(held)
        opened.task.put_in_front(held)
        self.tell()

    def note_freed(self, visits: list[Visit]) -> None:
        """These go in front, also of watermarks whose turn has come and that wait for other threads."""
        for visit in visits:
            visit.partition.freed_at = self.next_number()

    def resume(self, partition: int) -> None:
        """A source partition emits what waits, and a timer what it did not at the instants before now."""
        resumed = self._numbered[partition]
        if resumed.operator.timer_ns:
            self.emit_ticks(resumed, (self.clock.now_ns() - 1) // resumed.operator.timer_ns)
        for source in self.sources:
            if source.partition.number == partition:
                source.resume()

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task for a time, ahead of its queue."""
        busy = self.tasks[task]
        busy.put_in_front([Work(ns, busy.host.ticket(), lambda: self.listener.work_done(token))])
        self.tell()

    def speed(self, host: int, share: float) -> None:
        """Others take this share of the CPU from now on."""
        changed, pace = self.hosts[host], pace_of(share)
        if changed.processor is None and pace != FULL:
            changed.processor = Processor(self, changed, shares_evenly=False)
            changed.processor.take_over()
        if changed.processor:
            changed.processor.set_pace(pace)

    def stop_counting_replays(self, partition: int) -> tuple[int, int]:
        """`replayed` now; not counted any more."""
        self._numbered[partition].counts_replays = False
        return self.replayed(partition)

    # -- questions

    def replayed(self, partition: int) -> tuple[int, int]:
        """(pending replayed tuples, when the last was processed)."""
        asked = self._numbered[partition]
        return asked.pending, asked.processed_ns

    def checkpoint_host(self, partition: int) -> int | None:
        """Who holds the stored checkpoint."""
        checkpoint = self._numbered[partition].checkpoint
        return checkpoint.host if checkpoint else None

    def checkpoint_bytes(self, partition: int) -> int:
        """Size of all that a restore reads."""
        checkpoint = self._numbered[partition].checkpoint
        return checkpoint.size_bytes() if checkpoint else 0

    def senders(self, partition: int) -> list[int]:
        """Partitions that keep outputs for this one."""
        receiver = self._numbered[partition]
        return sorted(sender.number for sender in receiver.senders if sender.kept.get(receiver))

    def receivers(self, partition: int) -> list[int]:
        """Partitions that this one keeps outputs for."""
        return sorted(receiver.number for receiver, rows in self._numbered[partition].kept.items() if rows)

    def empty(self, task: int) -> bool:
        """Whether the task has nothing to do."""
        return self.tasks[task].empty

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """When the last of the wire from these operators arrives at the task, at least."""
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
        """How much was sent so far."""
        return self._sendings

    def next_number(self) -> int:
        """The number of what is sent now."""
        self._sendings += 1
        return self._sendings - 1

    def watch(self, tasks: Collection[int]) -> None:
        """Tell of exactly these tasks."""
        self._watched = frozenset(tasks)

    # -- the store, checkpoints

    def fetch_ns(self, size_bytes: int) -> int:
        """When so many bytes have come from the remote store."""
        return self.remote.arrival_ns(self.clock.now_ns(), size_bytes)

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Checkpoints of these partitions from the first interval on."""
        taken = [self._numbered[partition] for partition in partitions]
        self.clock.process(CheckpointCoordinator(self, taken, offsets_ns, interval_ns).run())

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """A checkpoint of the partition now, for that checkpoint host; whether it was taken."""
        saved = self._numbered[partition]
        if not saved.live or saved.saving or saved.operator.is_sink or saved.operator.is_source:
            return False
        CheckpointCoordinator(self, [], [], 1).take_for(saved, checkpoint_host)
        self.tell()
        return True

    def trim(self, partition: int, count: int) -> None:
        """Upstream forgets what is among the first `count` tuples that the partition applied."""
        CheckpointCoordinator(self, [], [], 1).trim_now(self._numbered[partition], count)

    # -- timers

    def _wait_for_timer(self, partition: Partition, number: int) -> None:
        at = number * partition.operator.timer_ns
        self.clock.at(at, TIMERS + partition.task.index, lambda _: self._timer(partition, number))

    def _timer(self, partition: Partition, number: int) -> None:
        """A task emits whatever came in, at no cost; while it is down or paused it does not."""
        partition.due = number
        if partition.live:
            self.emit_ticks(partition, number)
        self._wait_for_timer(partition, number + 1)

    def emit_ticks(self, partition: Partition, upto: int) -> None:
        """The outputs of the timer that are not made yet, each created at its instant."""
        while partition.time.ticks < upto and not partition.task.paused_until_ns:
            partition.time.ticks += 1
            made, key = partition.operator.tick(partition.index, partition.time.ticks)
            self.emit(partition, made, partition.time.ticks * partition.operator.timer_ns, key)

    # -- tuples

    def emit(self, partition: Partition, tuple_id: int, created_ns: int, key: int) -> None:
        """An output of `partition`: kept until its receivers have saved it, and sent to them."""
        size = partition.operator.output_bytes
        row = Row(tuple_id, created_ns, key, size)
        for edge in partition.operator.edges:
            receivers = self.partitions[edge.down.index]
            for index in edge.targets(tuple_id, key, partition.index):
                receiver = receivers[index]
                sent = row if edge.copy_code is None else row._replace(id=edge.id_for(tuple_id, index))
                for target in receiver.routes.get(partition.task.index, (receiver.owner,)):
                    if self.plan.replays:
                        partition.keep(target, sent)
                    if not partition.muted:
                        partition.task.outbox.offer(Output(partition, target, sent))

    def emit_waiting(self, task: Task) -> None:
        """Nothing is left to send at the task: sources there emit what waits, what arrived first comes first."""
        here = [source for source in self.sources if source.partition.task is task]
        while not task.outbox and not task.paused_until_ns:
            waiting = [source for source in here if source.waiting_since() is not None]
            if not waiting:
                return
            min(waiting, key=lambda source: (source.waiting_since(), source.partition.number)).emit_one()

    def send_tuple(self, sender: Partition, receiver: Partition, row: Row) -> None:
        """Send a tuple; it takes a place at the task where the receiver is now."""
        origin, task = sender.task, receiver.task
        self.recorder.message(self.clock.now_ns(), "local" if origin.host is task.host else "data", 1, row.bytes)
        sender.sent_bytes += row.bytes if origin.host is not task.host else 0
        visit = Visit(row, receiver, origin, self.next_number(), replayed=False)
        self.wire[visit] = task
        task.places.take()

        def comes(arrival_ns: int) -> None:
            visit.arrival_ns = arrival_ns
            self.clock.at(arrival_ns, channel(ARRIVAL, task.index, origin.index), lambda _: self._arrive(visit, task))

        self.transmit(origin, task, row.bytes, comes, tuples=1)

    def transmit(
        self, origin: Task, task: Task, size_bytes: int, comes: Callable[[int], None], tuples: int = 0
    ) -> None:
        """Send a message of so many tuples from task to task; `comes` is told when it arrives, as soon as that is
        known.
        """
        now = self.clock.now_ns()
        if origin.host is task.host:
            comes(now)
            return
        ends, latency_ns = (origin.index, task.index), self.plan.latency_ns
        leave = lambda departure_ns: comes(departure_ns + latency_ns)  # noqa: E731
        origin.host.link.send(now, size_bytes, ends, self.next_number(), leave, tuples)

    def _arrive(self, visit: Visit, task: Task) -> None:
        if self.wire.pop(visit, None) is None:
            return  # its sender died before it had left
        if not task.alive:
            self.drop(visit, task, "crash")
            return
        visit.arrived = True
        visit.partition.came += 1
        visit.partition.received_bytes += visit.row.bytes if visit.origin.host is not task.host else 0
        task.arrive(visit)
        self.tell()

    def replay(self, sender: int, receiver: int, turn: bool = False) -> tuple[int, int]:
        """Send all that `sender` keeps for `receiver` again, as one message; returns (tuples, bytes)."""
        from_partition, to_partition = self._numbered[sender], self._numbered[receiver]
        rows = tuple(from_partition.kept.get(to_partition, ()))
        if not rows:
            return 0, 0
        origin, task = from_partition.task, to_partition.task
        now, size = self.clock.now_ns(), sum(row.bytes for row in rows)
        self.recorder.message(now, "replay", 1, size)
        from_partition.sent_bytes += size if origin.host is not task.host else 0
        origin.outbox.forget(from_partition, to_partition)
        visits = [Visit(row, to_partition, origin, self.next_number(), replayed=True) for row in rows]
        self.wire.update(dict.fromkeys(visits, task))
        rank = channel(MESSAGE, task.index, origin.index)

        def comes(arrival_ns: int) -> None:
            for visit in visits:
                visit.arrival_ns = arrival_ns
            if turn:
                rank_of_tuples, bundle = channel(ARRIVAL, task.index, origin.index), Bundle(visits, origin)
                self.clock.at(arrival_ns, rank_of_tuples, lambda _: self._bundle_arrives(bundle, task))
            else:
                self.clock.at(arrival_ns, rank, lambda _: self._replay_arrives(visits, task))

        self.transmit(origin, task, size, comes, tuples=len(rows))
        if to_partition.counts_replays:
            to_partition.pending += len(rows)
        return len(rows), size

    def _replay_arrives(self, visits: list[Visit], task: Task) -> None:
        arrived = [visit for visit in visits if self.wire.pop(visit, None) is not None]
        if not task.alive:
            for visit in arrived:
                self.drop(visit, task, "crash")
            return
        for visit in arrived:
            visit.ticket, visit.arrived = task.host.ticket(), True
        task.put_in_front(arrived)
        self.tell()

    def _bundle_arrives(self, bundle: Bundle, task: Task) -> None:
        if not task.alive:
            for visit in self.lost(bundle):
                self.drop(visit, task, "crash")
        elif any(visit in self.wire for visit in bundle.visits):
            task.arrive(bundle)
            self.tell()

    def open_bundle(self, bundle: Bundle, task: Task) -> None:
        """Its turn has come."""
        arrived = self.lost(bundle)
        for visit in arrived:
            visit.ticket, visit.arrived = task.host.ticket(), True
        task.put_in_front(arrived)

    def lost(self, bundle: Bundle) -> list[Visit]:
        """The tuples of a bundle, which are on the wire no longer."""
        return [visit for visit in bundle.visits if self.wire.pop(visit, None) is not None]

    def one_replayed(self, partition: Partition, task: Task) -> None:
        """A replayed tuple was processed, recognised as a duplicate, or lost with its sender."""
        if partition.counts_replays and partition.task is task:
            partition.pending -= 1
            partition.processed_ns = self.clock.now_ns()
            if not partition.pending:
                self.notice(task)

    def drop(self, visit: Visit, task: Task, reason: str) -> None:
        """A tuple ends here, without effect."""
        now = self.clock.now_ns()
        arrival = visit.arrival_ns if visit.arrived else NEVER
        self.recorder.rows["dropped"].append((task.operator.index, task.index, arrival, visit.start_ns, now, reason))
        if visit.replayed:
            self.one_replayed(visit.partition, task)

    # -- records

    def samples(self) -> list[TableRow]:
        """(task, host, queue, busy_ns, buffered) of each live task."""
        buffered, held = dict.fromkeys(self.tasks, 0), dict.fromkeys(self.tasks, 0)
        for partition in self._numbered:
            buffered[partition.task] += partition.kept_rows()
            held[partition.task] += len(partition.held)
        return [
            (task.index, task.host.index, held[task] + task.waiting(), task.busy_ns, buffered[task])
            for task in self.tasks
            if task.alive
        ]

    def buffers(self) -> list[TableRow]:
        """(task, taken, unsent, blocked_ns) of each live task."""
        return [
            (task.index, task.places.taken_now, len(task.outbox.unsent), task.outbox.blocked_ns())
            for task in self.tasks
            if task.alive
        ]

    def links(self) -> list[TableRow]:
        """(host, carried, delayed, delay_ns, longest_ns) of each host on whose link a tuple was delayed."""
        used = [(host.index, host.use) for host in self.hosts if host.use.delayed]
        return [(index, use.carried, use.delayed, use.delay_ns, use.longest_ns) for index, use in used]

    def lag(self) -> list[tuple[int, int]]:
        """(operator, tuples that arrived before now and are not emitted) for each source partition."""
        now = self.clock.now_ns()
        return [(source.partition.operator.index, source.lag(now)) for source in self.sources]

    def statistics(self) -> list[Statistic]:
        """What each partition but those of sources has done so far."""
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
        """(begin of the second, kind) -> (messages, bytes)."""
        return self.recorder.messages

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Rows (operator, expected, lost, duplicated)."""
        return ledger(self)

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """All rows so far, with what is still in service, in a queue, or held for a partition that is not live."""
        held: dict[Task, list[Visit]] = {task: [] for task in self.tasks}
        for partition in self._numbered:
            held[partition.task] += partition.held
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
        used = [(task.index, task.host.processor.used_by(task)) for task in self.tasks if task.host.processor]
        made["cpu"] = table("cpu", [(task, one.served_ns, one.used_ns) for task, one in used])
        return made
