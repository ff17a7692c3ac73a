"""Checkpoints of the whole job by barriers, as Flink's coordinator takes them.

A barrier starts at each source and goes over every channel, behind all that was sent before. A task holds back what
comes behind it until barriers have come over all of its channels; then it passes the barrier on, and takes its
snapshot. The checkpoint is complete when the coordinator has heard that every snapshot is stored. Until then nothing
goes back to it. Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from models import display
from models.records.tables import NEVER
from models.units import to_ns
from sim.clock import Process
from sim.control.local_copies import LocalCopies
from sim.control.pre_commits import PreCommits
from sim.control.run_state import RunState
from sim.control.subtasks import Subtask, subtasks_of
from sim.draws import code_of, uniform
from sim.plane_values import CONTROL, REMOTE, Mail

Ended = Callable[[bool], None]  # told whether a checkpoint is complete

_WHOLE = 1 << 62  # more bytes than any state has


@dataclass(eq=False)
class JobCheckpoint:
    """One checkpoint of the job."""

    number: int
    token: int  # of its barriers
    triggered_ns: int
    slot: int  # of its snapshots in the data plane
    subtasks: Sequence[Subtask]  # when it was triggered: its barriers go on if it ends before them
    tasks: dict[int, int]  # task -> subtask
    left: set[int]  # subtasks without a snapshot
    heard: Counter[int] = field(default_factory=Counter)  # subtask -> barriers, where nothing is held back
    writing: Counter[int] = field(default_factory=Counter)  # first partitions of subtasks -> uploads not stored
    recording: set[int] = field(default_factory=set)  # subtasks whose in-flight data is not known yet
    in_flight_bytes: int = 0
    aligned_ns: int = NEVER
    completed_ns: int = NEVER
    outcome: str = "open"
    stops: Ended | None = None  # of a savepoint at whose barriers sources stop: told how it ends
    merged: int = -1  # the last checkpoint up to this one before which files of increments were merged


class BarrierCheckpoints:
    """Takes checkpoints of the job at regular instants, one at a time, or as many as may be under way.

    Several are in order at each task: barriers of a later one come behind those of an earlier one on every channel. If
    a later one is complete first, the earlier ones are subsumed: they end.
    """

    def __init__(self, state: RunState) -> None:
        self.state, self.cluster, self.clock = state, state.cluster, state.clock
        scenario = state.plan.scenario
        self.rules = scenario.fault_tolerance.job_checkpoints
        self._interval_ns = to_ns(scenario.fault_tolerance.interval_s)
        self._holds_back = scenario.fault_tolerance.guarantee == "exactly-once"
        self._code = code_of(scenario.seed, state.plan.replication, "checkpoints", "begin")
        self._of_token: dict[int, JobCheckpoint] = {}  # all of them, in order
        self._open: list[JobCheckpoint] = []  # those that are under way, in order
        self._took: list[tuple[int, int]] = []  # (checkpoint, rows of its snapshots), in the order of these rows
        self._compaction = scenario.fault_tolerance.compaction if scenario.fault_tolerance.compacts else None
        self._files = 0  # of increments that are not merged
        self._complete = -1  # number of the last complete checkpoint
        self._is_based = True  # whether the next increment has a checkpoint before it whose files it shares
        self._turns = 0  # plans for the next checkpoint so far; only the newest holds
        self._down = False  # since a failure, until all tasks run again
        self._failures = 0
        self._is_new = False  # whether what is down is another job, which a savepoint starts
        self._expired = 0  # in a row
        self.ended: Ended = lambda completed: None  # told of each checkpoint that does not end with a failure
        self.held_up: Callable[[], bool] = lambda: False  # whether key groups move in steps, or wait to move
        self.none_is_open: Callable[[], None] = lambda: None  # told when the last one that was under way has ended
        self._is_due = False  # the next one waits until no key groups move
        self.commits = PreCommits(state)
        self.copies: LocalCopies | None = None  # set by who reads them
        self.left_source: Callable[[int, int], None] = lambda token, task: None  # told of a barrier at a source
        self.completed: Callable[[int], None] = lambda token: None  # told of a complete checkpoint, by its token
        self.fail_job: Callable[[str], None] | None = None  # called with the reason; set by whom it concerns
        self._subtasks = subtasks_of(state.plan, self.cluster) if self.rules is not None else []
        self._unaligned = scenario.fault_tolerance.unaligned
        # A source has a position, of which the planes know where it counts alone.
        self._saved = [p for one in self._subtasks if one.channels or self._unaligned for p in one.partitions]

    def start(self) -> None:
        """Plan the first checkpoint, where barriers take them."""
        if self.rules is not None:
            self._plan_first()

    def _plan_first(self) -> None:
        """Plan the first checkpoint of a job."""
        assert self.rules is not None
        at_random = self.rules.first == "random"
        self._plan(self._drawn_ns() if at_random else self.clock.now_ns() + self._interval_ns)

    def stop_with_savepoint(self, ended: Ended) -> None:
        """Take a savepoint now, at whose barriers sources stop; `ended` is told whether it is complete.

        The checkpoints that are under way are aborted. Once the savepoint is complete no other one begins before the
        job is started again; one that fails lets sources go on.
        """
        self._abort()
        self._turns += 1
        self._trigger(ended)

    # -- when they begin

    def _plan(self, at_ns: int) -> None:
        self._turns += 1
        self._is_due = False
        self.clock.process(self._begins(at_ns, self._turns))

    def _begins(self, at_ns: int, turn: int) -> Process:
        yield self.clock.sleep(at_ns)
        if turn == self._turns and self.held_up():
            self._is_due = True
        elif turn == self._turns:
            self._trigger()

    @property
    def is_under_way(self) -> bool:
        """Return whether a checkpoint is under way."""
        return bool(self._open)

    def key_groups_stay(self) -> None:
        """Have barriers go where key groups are now, which do not move any more; a checkpoint that waited begins."""
        if self.rules is None or self._down:
            return
        self._subtasks = subtasks_of(self.state.plan, self.cluster)
        if self._is_due and not self.held_up():
            self._is_due = False
            self._trigger()

    def _drawn_ns(self) -> int:
        """Return an instant at random: the minimum pause up to the interval from now [ns]."""
        assert self.rules is not None
        least = to_ns(self.rules.min_pause_s)
        share = uniform(self._turns, self._code)
        return self.clock.now_ns() + max(1, least + round(share * max(0, self._interval_ns - least)))

    def _plan_next(self) -> None:
        """Plan the next checkpoint, unless as many are under way as may be.

        It begins an interval after the begin of the newest one, and a pause after now, which is the end of one.
        """
        assert self.rules is not None
        if len(self._open) < self.rules.concurrent:
            newest = next(reversed(self._of_token.values()))
            paused_ns = self.clock.now_ns() + to_ns(self.rules.min_pause_s)
            self._plan(max(newest.triggered_ns + self._interval_ns, paused_ns))

    # -- barriers

    def _trigger(self, stops: Ended | None = None) -> None:
        """Send barriers to all sources; what is down and not detected does not get its own."""
        assert self.rules is not None
        now, tasks = self.clock.now_ns(), {one.task: number for number, one in enumerate(self._subtasks)}
        token, slot = self.state.new_token(), self._free_slot()
        number, left = len(self._of_token), set(tasks.values())
        made = JobCheckpoint(number, token, now, slot, self._subtasks, tasks, left, stops=stops)
        self._count_files(made)
        self._of_token[made.token] = made
        self._open.append(made)
        self.clock.process(self._expires(made, now + to_ns(self.rules.timeout_s)))
        sources = [task for task, number in tasks.items() if not self._subtasks[number].channels]
        if self._unaligned and stops is None:  # a savepoint is aligned
            self._begin_to_overtake(made)
        self.state.plane.send_each([Mail(CONTROL, task, made.token) for task in sources])
        if stops is None:
            self._plan_next()

    def _free_slot(self) -> int:
        """Return the first slot of snapshots that no checkpoint under way has."""
        used = {one.slot for one in self._open}
        return next(slot for slot in range(len(used) + 1) if slot not in used)

    def _count_files(self, checkpoint: JobCheckpoint) -> None:
        """Note that each task writes a file for a checkpoint; those before it are merged if there are so many."""
        checkpoint.merged = next((one.merged for one in reversed(self._of_token.values())), -1)
        if checkpoint.stops is None and self._compaction is not None:
            if self._files == self._compaction.files:
                checkpoint.merged, self._files = checkpoint.number, 0
            self._files += 1

    def comes(self, token: int, task: int, aligned: bool = False) -> bool:
        """Act on a message if it is a barrier, which has come, or is `aligned`; return whether it is one."""
        checkpoint = self._of_token.get(token)
        if checkpoint is None:
            return False
        number = checkpoint.tasks[task]
        subtask = checkpoint.subtasks[number]
        checkpoint.heard[number] += 1
        if self._holds_back or checkpoint.heard[number] >= subtask.channels:
            # Downstream first: what follows pauses the task.
            self._pass_on(checkpoint, task, subtask)
            if checkpoint in self._open:
                self.commits.note(checkpoint.number, task)
                self._save(checkpoint, number, subtask)
                if not subtask.channels:
                    self.left_source(token, task)
                if self._unaligned and not aligned:
                    self._record(checkpoint, task, number, subtask)
                else:
                    self._has_snapshot(checkpoint, number)
                if checkpoint.stops is not None and not subtask.channels:
                    self.state.plane.pause(task, None)
        return True

    def aligned(self, token: int, task: int) -> bool:
        """Do the same for barriers that have come over all channels, of which the first may have overtaken."""
        checkpoint = self._of_token.get(token)
        if checkpoint is None or checkpoint.tasks[task] not in checkpoint.recording:
            return self.comes(token, task, aligned=True)
        if checkpoint in self._open:
            self._store_in_flight(checkpoint, checkpoint.tasks[task])
            self._has_snapshot(checkpoint, checkpoint.tasks[task])
        return True

    def _pass_on(self, checkpoint: JobCheckpoint, task: int, subtask: Subtask) -> None:
        receivers = [checkpoint.subtasks[one] for one in subtask.below]
        self.state.plane.send_each(
            [Mail(task, one.task, checkpoint.token, True, 0, 0, self._channels(one)) for one in receivers]
        )

    def _channels(self, subtask: Subtask) -> int:
        return subtask.channels if self._holds_back else 0

    def _save(self, checkpoint: JobCheckpoint, number: int, subtask: Subtask) -> None:
        """Have the snapshots of a subtask written; a source has its position in its log."""
        if subtask.channels and subtask.partitions:
            checkpoint.writing.update(subtask.partitions[:1])
            more_bytes = self._more_bytes(checkpoint, subtask)
            taken = self.state.plane.checkpoint_each(subtask.partitions, REMOTE, checkpoint.slot, more_bytes)
            assert taken == len(subtask.partitions)  # a barrier comes to live tasks, once
            sink = self.state.plan.operators[self.cluster.partition_operator[subtask.partitions[0]]].is_sink
            self._took.append((checkpoint.number, 0 if sink else taken))

    def _more_bytes(self, checkpoint: JobCheckpoint, subtask: Subtask) -> int:
        """Return how much more than what has changed is in each snapshot of a subtask [B].

        All of the state in a savepoint, and in what follows it. Else what was merged since the last complete one: level
        1 of the task, of which each key group has an equal part.
        """
        if checkpoint.stops is not None or not self._is_based:
            return _WHOLE
        if self._compaction is None or checkpoint.merged <= self._complete:
            return 0
        return max(1, round(self._compaction.level_bytes / len(subtask.partitions)))

    def _has_snapshot(self, checkpoint: JobCheckpoint, number: int) -> None:
        checkpoint.left.discard(number)
        if not checkpoint.left:
            checkpoint.aligned_ns = self.clock.now_ns()
            self._look(checkpoint)

    # -- barriers that overtake

    def _begin_to_overtake(self, checkpoint: JobCheckpoint) -> None:
        """Let barriers overtake from the start, or from the age on at which those that are not aligned do."""
        assert self.rules is not None
        if self.rules.alignment_timeout_s:
            at_ns = checkpoint.triggered_ns + to_ns(self.rules.alignment_timeout_s)
            self.clock.process(self._changes(checkpoint, at_ns))
        else:
            self.state.plane.overtake(checkpoint.token)

    def _changes(self, checkpoint: JobCheckpoint, at_ns: int) -> Process:
        yield self.clock.sleep(at_ns)
        if checkpoint in self._open and checkpoint.left:
            had_snapshots = set(checkpoint.tasks.values()) - checkpoint.left
            self.state.plane.overtake(checkpoint.token)
            # Barriers of these may have waited behind outputs, which they have overtaken now.
            for number in sorted(had_snapshots):
                self._store_in_flight(checkpoint, number)

    def _record(self, checkpoint: JobCheckpoint, task: int, number: int, subtask: Subtask) -> None:
        """Have in-flight data recorded where the first barrier has overtaken, or the position of a source."""
        if subtask.channels:
            checkpoint.recording.add(number)
            self.state.plane.record(task)
        else:
            self.state.plane.record(task)
            self._store_in_flight(checkpoint, number)
            self._has_snapshot(checkpoint, number)

    def _store_in_flight(self, checkpoint: JobCheckpoint, number: int) -> None:
        """Have what was recorded at a subtask sent to the store."""
        partition = checkpoint.subtasks[number].partitions[0]
        size = self.state.plane.store_in_flight(partition)
        checkpoint.in_flight_bytes += size
        checkpoint.writing.update([partition] if size else [])

    # -- their end

    def stored(self, partition: int, slot: int) -> None:
        """Note that the snapshots of a subtask are stored, by its first partition, where barriers take checkpoints."""
        for checkpoint in self._open:
            if checkpoint.slot == slot and partition in checkpoint.writing:
                checkpoint.writing -= Counter([partition])
                self._look(checkpoint)

    def _look(self, checkpoint: JobCheckpoint) -> None:
        if not checkpoint.left and not checkpoint.writing:
            self.clock.process(self._acknowledged(checkpoint))

    def _acknowledged(self, checkpoint: JobCheckpoint) -> Process:
        """Complete the checkpoint when the coordinator has heard of the last snapshot."""
        yield self.clock.sleep(self.clock.now_ns() + self.state.plan.latency_ns)
        if checkpoint in self._open:
            for earlier in self._open[: self._open.index(checkpoint)]:
                self._give_up(earlier, "subsumed")
            self._end(checkpoint, "completed")
            self.completed(checkpoint.token)
            checkpoint.completed_ns = self.clock.now_ns()
            self._complete, self._is_based = checkpoint.number, checkpoint.stops is None
            self._expired = 0
            self._keep_copies(checkpoint)
            self.state.plane.complete_checkpoints(self._saved, checkpoint.slot)
            if checkpoint.stops is None:
                self._plan_next()
                self.ended(True)
                return
            failures = self._failures
            yield self.clock.sleep(self.clock.now_ns() + self.heard_ns)
            if failures == self._failures:
                checkpoint.stops(True)
            else:
                self._go_on(checkpoint)
                checkpoint.stops(False)

    @property
    def heard_ns(self) -> int:
        """Return the time until tasks have heard that a checkpoint is complete, and forgotten what it covers [ns]."""
        return self.state.plan.latency_ns + 1

    def _keep_copies(self, checkpoint: JobCheckpoint) -> None:
        if self.copies is not None:
            host, subtasks = self.cluster.task_host, checkpoint.subtasks
            tasks = checkpoint.tasks.items()
            self.copies.completed({one: host[task] for task, k in tasks for one in subtasks[k].partitions})

    def _expires(self, checkpoint: JobCheckpoint, at_ns: int) -> Process:
        yield self.clock.sleep(at_ns)
        if checkpoint in self._open:
            self._give_up(checkpoint, "expired")
            self._expired += checkpoint.stops is None  # a savepoint does not count
            if self._tolerates():
                self._plan_next()
                self.ended(False)
            else:
                self._fail()

    def _tolerates(self) -> bool:
        """Return whether the job goes on although so many checkpoints have expired in a row."""
        assert self.rules is not None
        most = self.rules.tolerated_failures
        return most is None or self._expired <= most

    def _fail(self) -> None:
        """Fail the job, with checkpoints that count anew from then on."""
        assert self.rules is not None
        assert self.fail_job is not None
        most, number, self._expired = self.rules.tolerated_failures, self._expired, 0
        has, are = "has" if number == 1 else "have", "is" if most == 1 else "are"
        self.fail_job(f"{display.count(number, 'checkpoint')} {has} expired in a row, and {most} {are} tolerated")

    def _abort(self) -> None:
        """Give up all checkpoints that are under way, and one that waits."""
        self._is_due = False
        for one in [*self._open]:
            self._end(one, "aborted")
        self.state.plane.abort_checkpoints(self._saved)

    def _give_up(self, checkpoint: JobCheckpoint, outcome: str) -> None:
        """Give up one checkpoint; others that are under way go on."""
        self._end(checkpoint, outcome)
        self.state.plane.abort_checkpoints(self._saved, checkpoint.slot if self._open else None)

    def _end(self, ended: JobCheckpoint, outcome: str) -> None:
        self._open.remove(ended)
        ended.outcome = outcome
        if not self._open:
            self.none_is_open()
        if ended.stops is not None and outcome != "completed":
            self._go_on(ended)
            ended.stops(False)

    def _go_on(self, checkpoint: JobCheckpoint) -> None:
        """Let the sources go on that a savepoint has stopped."""
        for task, number in checkpoint.tasks.items():
            if not checkpoint.subtasks[number].channels and self.cluster.task_alive[task]:
                self.state.plane.unpause(task)

    # -- failures

    def failed(self) -> None:
        """End the checkpoints that are under way, and begin none before all tasks run again."""
        self._abort()
        self._turns += 1
        self._failures += 1
        self._down = True

    def expect_new_job(self) -> None:
        """Begin as for a new job once all tasks run again."""
        self._is_new, self._files = True, 0

    def opened(self) -> None:
        """Note that a partition runs; plan the next checkpoint once all do."""
        if not self._down or self.cluster.down_owners:
            return
        assert self.rules is not None
        self._down = False
        self._subtasks = subtasks_of(self.state.plan, self.cluster)
        is_new, self._is_new = self._is_new, False
        if is_new:
            self._plan_first()
        elif self.rules.restarted == "at-once":
            self._plan(self.clock.now_ns() + to_ns(self.rules.min_pause_s))
        else:
            self._plan(self._drawn_ns())

    # -- records

    def snapshots(self) -> np.ndarray:
        """Return of which checkpoint of the job each snapshot is (n_snapshots,), in order of their taking."""
        numbers, counts = np.array(self._took, np.int64).reshape(-1, 2).T
        return np.repeat(numbers, counts)

    def rows(self, checkpoints: Mapping[str, np.ndarray]) -> Iterator[tuple[object, ...]]:
        """Yield one row for each checkpoint of the job, with what its snapshots sent to the store."""
        sent = np.zeros(len(self._of_token), np.int64)
        np.add.at(sent, checkpoints["job"], checkpoints["bytes"])
        for one in self._of_token.values():
            yield (
                one.number,
                one.triggered_ns,
                one.aligned_ns,
                one.completed_ns,
                int(sent[one.number]) + one.in_flight_bytes,
                one.in_flight_bytes,
                one.outcome,
            )
