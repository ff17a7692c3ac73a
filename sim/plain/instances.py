"""Key groups at two tasks at a time: further instances of a partition, and their routes.

The second half has the verbs that migration protocols apply to tasks: pauses, holds, messages, barriers, timed actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from models.records.tables import NEVER
from sim.clock import PAUSES, Process
from sim.plain.overtaking import Overtaking
from sim.plain.partition import Letter, Message, Partition, Visit, Work
from sim.plain.task import Task
from sim.plane_values import CONTROL, Mail, Timed


class GroupInstances(Overtaking):
    """The verbs of `sim.data_plane` for instances."""

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """Add an instance of the partition's group: not live, without a state."""
        self.plan.check_ids()
        group = self._numbered[partition].group
        made = Partition(group.operator, group.index, instance, self.tasks[task])
        made.live, made.group = False, group
        # It awaits watermarks of the same senders, and knows of none yet.
        made.time.of_sender = dict.fromkeys(group.time.of_sender, 0)
        self._numbered.append(made)

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Send outputs of this task for the group to these instances, or to its owner."""
        self.plan.check_ids()
        group = self._numbered[partition].group
        group.routes.pop(sender, None)
        if targets:
            group.routes[sender] = tuple(self._numbered[target] for target in targets)
            group.routed_at[sender] = self._sendings

    def own(self, instance: int) -> None:
        """Make the instance the owner of its group."""
        self.plan.check_ids()
        owner = self._numbered[instance]
        owner.group.owner = owner
        owner.owned_at = self._sendings

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Keep the outputs for one receiver for another one as well."""
        self.plan.check_ids()
        keeper, one, another = self._numbered[sender], self._numbered[receiver], self._numbered[other]
        before = len(keeper.kept.get(another, ()))
        for row in list(keeper.kept.get(one, ())):
            keeper.keep(another, row)
        if self.trimming:
            self.trimming.split_slices(keeper, one, another, before)

    def adopt(self, instance: int, partition: int) -> None:
        """Make the stored checkpoint of the partition that of a new instance, too, and its state."""
        self.plan.check_ids()
        new, old = self._numbered[instance], self._numbered[partition]
        source = old.checkpoint or new.checkpoint
        if source:
            # Unless the old one has handed down its state already.
            new.checkpoint = new.checkpoint or replace(source, incarnation=new.incarnation)
            new.key_since, new.applied_created_ns = dict(old.key_since), list(old.applied_created_ns)
            new.trimmed = max(new.trimmed, old.trimmed)
            new.adopted = (old, source.count)
            new.restore_event_time(source, self.plan.replays)
            new.install(source)
            if self.trimming:
                self.trimming.begin_again(new)
            if self.plan.history:
                new.checkpoint = None  # nobody would restore from it

    def hand_down(self, instance: int, successor: int) -> bool:
        """Make the state of an instance the stored checkpoint of another one, held by its host."""
        self.plan.check_ids()
        old, new = self._numbered[instance], self._numbered[successor]
        # A newer checkpoint of the successor itself must not be replaced by an older state.
        if not old.live or new.saved:
            return False
        host = old.task.host
        new.checkpoint = replace(
            old.snapshot(host.index, host.life),
            incarnation=new.incarnation,
            key_since=dict(old.key_since),
            applied_created_ns=list(old.applied_created_ns),
        )
        return True

    def freeze(self, partition: int, frozen: bool) -> None:
        """Take and store no checkpoint of the partition, as if one were always under way, or end that."""
        one = self._numbered[partition]
        # A new incarnation voids a checkpoint that is under way; `saving` keeps others from being taken.
        one.incarnation += frozen and one.saving
        one.saving = frozen

    def abort_checkpoints(self, partitions: Collection[int], slot: int | None = None) -> None:
        """Forget the checkpoints of these partitions that do not count yet, or only those in a slot."""
        for partition in partitions:
            one = self._numbered[partition]
            if slot is None:
                one.incarnation += 1
                one.saving = False
                one.unfinished.clear()
            elif one.unfinished.pop(slot, None) and not one.operator.is_sink:
                one.saving = bool(one.unfinished)
        if self.plan.scenario.fault_tolerance.unaligned:
            self.forget_overtaken()
        if not any(one.saving for one in self._numbered):
            self.remote.free_at_ns = min(self.remote.free_at_ns, self.clock.now_ns())
            if self.uploads is not None:
                self.uploads.empty()

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """Do nothing: the cluster is asked each time."""
        assert self._numbered[partition].number == partition

    def announce(self, partition: int) -> None:
        """Tell the listener when the next checkpoint of the partition is stored."""
        self._numbered[partition].announced = True

    def measure(self, partition: int, from_ns: int) -> None:
        """Time the tuples that arrive at the partition from an instant on."""
        one = self._numbered[partition]
        one.measured_from, one.until_calm, one.longest = from_ns, False, NEVER

    def measure_until_calm(self, partition: int) -> None:
        """Stop timing with the first tuple that is served as it arrives."""
        self._numbered[partition].until_calm = True

    def longest_ns(self, partition: int) -> int:
        """Return the longest of these times, or NEVER."""
        return self._numbered[partition].longest

    def retire(self, partition: int) -> None:
        """End the instance: it is not live, keeps nothing, and nothing is kept for it."""
        self.plan.check_ids()
        old = self._numbered[partition]
        old.live = old.saving = old.announced = False
        old.retired = True
        if self.plan.history:
            old.checkpoint = None  # a state that was sent here and not installed
        for visit in old.held:
            self.drop(visit, old.task, "moved")
        old.held = []
        old.incarnation += 1
        for one in self._numbered:
            # Tuples that upstream has forgotten since `one` adopted the checkpoint were forgotten for both instances.
            if one.adopted and one.adopted[0] is old:
                one.trimmed = max(one.trimmed, min(old.trimmed, one.adopted[1]))
        if not old.operator.is_source:
            old.kept.clear()
        for sender in old.senders:
            # A sender that is down keeps them: it has to send them to the successor when it is restored.
            if old in sender.kept and sender.live:
                sender.kept[old].clear()


class Actions(Overtaking):
    """The verbs of `sim.data_plane` for migrations."""

    # -- pauses

    def pause(self, task: int, until_ns: int | None) -> None:
        """Let the task start nothing before that instant, or (None) before `unpause`."""
        paused, until = self.tasks[task], NEVER if until_ns is None else until_ns
        before = paused.paused_until_ns
        if not paused.alive or before == NEVER or (until != NEVER and until <= max(before, self.clock.now_ns())):
            return  # a pause never shortens another
        paused.paused_until_ns = until
        if until != NEVER:
            self.clock.at(until, PAUSES + task, lambda _: self._pause_ends(paused))

    def _pause_ends(self, task: Task) -> None:
        if task.alive and task.paused_until_ns == self.clock.now_ns():
            self._unpause(task)
            self.tell()

    def unpause(self, task: int) -> None:
        """End the pause."""
        if self.tasks[task].alive and self.tasks[task].paused_until_ns:
            self._unpause(self.tasks[task])
            self.tell()

    def _unpause(self, task: Task) -> None:
        # Sources, timers and post-dated outputs before the queue: they were due during the pause.
        task.paused_until_ns = 0
        for source in self.sources:
            if source.partition.task is task and source.partition.live:
                source.catch_up()
        for partition in self._numbered if task.operator.timer_ns else ():
            if partition.task is task and partition.live:
                self.emit_ticks(partition, partition.due)
        self._emit_all_overdue(task)
        task.go_on()
        self.notice(task)

    def _emit_all_overdue(self, task: Task) -> None:
        """Emit the post-dated outputs whose time has come in the meantime, by key group."""
        for partition in self._numbered if task.operator.postpone_ns else ():
            if partition.task is task:
                self.emit_overdue(partition)

    # -- rules that are asked at a tuple's turn

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Put tuples for the partition from that task (None: all) on a side list, at their turn."""
        if self.tasks[task].alive:
            self.tasks[task].rules.append((partition, origin))

    def unhold(self, task: int, partition: int | None) -> None:
        """End the rules for the partition (None: all rules); tuples that no rule holds now go in front."""
        holder = self.tasks[task]
        if not holder.alive:
            return
        holder.rules = [rule for rule in holder.rules if partition is not None and rule[0] != partition]
        self._emit_all_overdue(holder)
        free = [
            visit for visit in holder.side if partition in (None, visit.partition.number) and not holder.holds(visit)
        ]
        holder.side = [visit for visit in holder.side if visit not in free]
        # Note them before they are served: watermarks that wait must not pass them.
        self.note_freed(free)
        # Watermarks that came meanwhile were not heard: behind what they are about they are.
        holder.put_in_front([*free, *(self.watermarks.recall(holder) if self.moves_alone else ())])
        self.notice(holder)
        self.tell()

    def mute(self, partition: int, muted: bool) -> None:
        """Let the partition apply tuples and emit nothing, or end that."""
        self.plan.check_ids()
        self._numbered[partition].muted = muted
        # Watermarks that left while it was silent promise nothing about its own outputs.
        if not muted:
            self._numbered[partition].live_at = self._sendings

    # -- messages

    def send(
        self,
        sender: int,
        receiver: int,
        token: int,
        turn: bool = False,
        size_bytes: int = 0,
        work_ns: int = 0,
        channels: int = 0,
    ) -> None:
        """Send a message from task to task, behind all that went before on the same channel."""
        task, origin = self.tasks[receiver], None if sender == CONTROL else self.tasks[sender]
        message = Message(token, origin, turn or channels > 0, work_ns, channels)
        if origin is None:
            self.send_message(message, task, size_bytes)
        elif not origin.alive:
            return
        elif channels and self.overtakes(token):
            self.send_ahead(Letter(message, task, size_bytes), origin, origin.outbox.unsent)
        else:
            origin.outbox.post(Letter(message, task, size_bytes))

    def send_each(self, messages: Iterable[Mail]) -> None:
        """Send these messages in order."""
        for message in messages:
            self.send(*message)

    def line_up(self, task: int, token: int, while_shorter: bool = False) -> None:
        """Tell the listener when all that has come to the task was served."""
        if self.tasks[task].alive:
            self.tasks[task].line_up(token, while_shorter)

    def unalign(self, task: int) -> None:
        """Forget the oldest barriers that wait at the task; items that they held back arrive now."""
        stuck = self.tasks[task]
        if stuck.alive:
            stuck.give_up_alignment()
            self.notice(stuck)
            self.tell()

    # -- timed actions

    def start_actions(self, actions: Iterable[Timed]) -> None:
        """Do these in order, each at its instant."""
        todo = list(actions)
        assert todo == sorted(todo, key=lambda action: action.at_ns)
        assert not todo or todo[0].at_ns > self.clock.now_ns()
        self.clock.process(self._act(todo))

    def _act(self, actions: list[Timed]) -> Process:
        for action in actions:
            if action.at_ns > self.clock.now_ns():
                yield self.clock.sleep(action.at_ns)
            self._verb(action.verb)(*action.arguments)
            self.tell()

    def _verb(self, name: str) -> Callable[..., None]:
        if name == "chore":
            return self._chore
        made: Callable[..., None] = getattr(self, name)
        return made

    def _chore(self, task: int, ns: int) -> None:
        """Occupy the task with work whose end is not reported."""
        busy = self.tasks[task]
        if busy.alive and busy.operator.service_ns is not None:
            busy.put_in_front([Work(ns, busy.host.ticket(), lambda: None)])


def side_lists(task: Task) -> list[Visit]:
    """Return the tuples that a rule or a barrier keeps out of the lanes of a task."""
    return [*(item for item in task.back if isinstance(item, Visit)), *task.side]
