"""Verbs of protocols, those of key groups at two tasks, and notices to the listener: parts of the compiled plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim.clock import Clock, Process
from sim.data_plane import Listener
from sim.kernel.event_loop import (
    actions,
    checkpoints,
    event_time,
    frontiers,
    in_flight,
    instances,
    pools,
    room,
    setup,
    timed_actions,
    windows,
)
from sim.kernel.event_loop.codes import ACT, CALM, NONE
from sim.kernel.event_loop.notices import TOLD_PASSED, TOLD_STORED
from sim.kernel.event_loop.rules import LINES_UP, SHORTENS
from sim.kernel.event_loop.saved_outputs import SavedOutputs
from sim.kernel.event_loop.timed_actions import TIMED
from sim.kernel.tools.pointer import State
from sim.plane_values import CONTROL, Mail, Timed

if TYPE_CHECKING:
    from sim.control.cluster import RunPlan


_PAUSE, _MUTE = timed_actions.VERBS.index("pause"), timed_actions.VERBS.index("mute")


class Actions(ABC):
    """The verbs of `sim.data_plane` for protocols."""

    state: State
    _plan: RunPlan
    _clock: Clock
    _listener: Listener
    _telling = False

    @abstractmethod
    def _now(self) -> None:
        """Verbs act at the instant of the clock."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    def _act(self) -> None:
        """An action comes: the run needs all of the compiled code."""
        self.state.extend()

    # -- telling

    def _tell(self) -> None:
        """Tell what came up, one after the other; what comes up meanwhile is told after that."""
        self._look()
        if self._telling or not self.state.told["count"]:
            return
        self._telling, k = True, 0
        while k < int(self.state.told["count"]):
            what = int(self.state.notices[k])
            k += 1
            if what >= TOLD_PASSED:
                self._listener.passed(int(self.state.frontiers["token"][what - TOLD_PASSED]))
            elif what >= TOLD_STORED:
                self._listener.stored(what % TOLD_STORED, what // TOLD_STORED - 1)
            elif what >= 0:
                self._listener.idle(what)
            else:
                self._tell_message(-1 - what)
        self.state.told["count"] = 0
        if self.state.frontiers.size:
            self.state.frontiers = self.state.frontiers[self.state.frontiers["over"] == 0]
        self._telling = False

    def _look(self) -> None:
        """Note frontiers that a verb, or what went on after a message, has made passed."""
        if self.state.frontiers.size:
            frontiers.look(self.state)

    def _tell_message(self, task: int) -> None:
        """The first message that the task has in hand; none if the task died meanwhile."""
        first = int(self.state.tasks["hand_head"][task])
        if first == NONE:
            return
        message = self.state.visits[first]
        token, waits = int(message["id"]), int(message["partition"])
        if waits >= LINES_UP and actions.has_waited(self.state, first):  # something may have come behind it
            self._line_up(task, token, waits, self._clock.now_ns() - int(message["arrival"]))
        elif message["node"]:
            self._listener.aligned(token, task)
        else:
            self._listener.message(token, task)
        if self.state.tasks["alive"][task]:
            self._now()
            if not room.heard_in_room(self.state, task):
                self._room(int(actions.burst(self.state, task)))
                actions.heard(self.state, task)
            self._look()

    # -- event time

    def raise_event_time(self, task: int, event_ns: int) -> None:
        """Event time at the task is no earlier; windows that it passes end."""
        self._act()
        ended = int(windows.due(self.state, task, event_ns))
        self._room((int(self.state.options["fan_out"]) + 2) * (ended + 1))
        event_time.raise_event_time(self.state, task, event_ns)
        self._tell()

    # -- pauses

    def pause(self, task: int, until_ns: int | None) -> None:
        """The task starts nothing before that instant, or before `unpause`."""
        self._act()
        self._room(2)
        actions.pause(self.state, task, NONE if until_ns is None else until_ns)

    def unpause(self, task: int) -> None:
        """The pause is over now."""
        self._act()
        self._room(int(actions.burst(self.state, task)))
        actions.unpause(self.state, task)
        self._tell()

    # -- rules

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Tuples for the partition from that task (None: all) go to a side list."""
        self._act()
        if self.state.tasks["alive"][task]:
            pools.with_rule(self.state)
            actions.hold(self.state, task, NONE if partition is None else partition, NONE if origin is None else origin)

    def unhold(self, task: int, partition: int | None) -> None:
        """End rules; what none holds any more goes in front."""
        self._act()
        if self.state.tasks["alive"][task]:
            self._room(int(actions.burst(self.state, task)) + 1)
            actions.unhold(self.state, task, NONE if partition is None else partition)
            self._tell()

    def mute(self, partition: int, muted: bool) -> None:
        """Whether the partition emits nothing."""
        self._plan.check_ids()
        self._act()
        self.state.options["special"] = 1
        actions.mute(self.state, partition, int(muted))

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
        """A message from task to task, or from CONTROL."""
        self._act()
        self._room(2)
        actions.send_message(self.state, sender, receiver, token, int(turn), size_bytes, work_ns, channels)

    def send_each(self, messages: Sequence[Mail]) -> None:
        """Messages in order, in one call."""
        if messages:
            self._act()
            # Barriers may overtake what their sender has not sent.
            overtaken = int(self.state.tasks["unsent_n"][messages[0].sender]) if self.state.options["unaligned"] else 0
            self._room_for_copies(overtaken, 2 * len(messages))
            actions.send_messages(self.state, np.array(messages, np.int64))

    def line_up(self, task: int, token: int, while_shorter: bool = False) -> None:
        """Tell the listener when all that has come to the task was served."""
        self._act()
        self._line_up(task, token, SHORTENS if while_shorter else LINES_UP, NONE)

    def _line_up(self, task: int, token: int, waits: int, before_ns: int) -> None:
        self._room(2)
        actions.line_up(self.state, task, token, waits, before_ns)

    def unalign(self, task: int) -> None:
        """Forget the oldest barriers that wait at the task."""
        self._act()
        self._room(int(actions.burst(self.state, task)))
        actions.unalign(self.state, task)
        self._tell()

    # -- barriers that overtake

    def _room_for_copies(self, count: int, need: int) -> None:
        """Make room for copies of so many tuples, beside so many sendings."""
        pools.more_places(self.state, "visit", count + need)
        self._room(need)

    def overtake(self, token: int) -> None:
        """The barriers with this token overtake from now on."""
        self._act()
        tasks = self.state.tasks[: int(self.state.cluster["tasks"])]
        freed = np.flatnonzero(tasks["back_n"])
        need = 4 * tasks.size + sum(int(actions.burst(self.state, task)) for task in freed.tolist())
        self._room_for_copies(int(tasks["unsent_n"].sum()), need)
        in_flight.overtake(self.state, token)
        self._tell()

    def record(self, task: int) -> None:
        """In-flight data at a task is recorded, and positions of sources are noted."""
        self._act()
        t = self.state.tasks[task]
        self._room_for_copies(int(t["queue_n"] + t["front_n"]), 4)
        in_flight.record_task(self.state, task)
        self._tell()

    def store_in_flight(self, partition: int) -> int:
        """What was recorded at the partition's task goes to the store."""
        self._act()
        self._room(4)
        return int(checkpoints.store_in_flight(self.state, partition))

    # -- timed actions

    def start_actions(self, actions: Sequence[Timed]) -> None:
        """Do these at their instants."""
        self._act()
        if not actions:
            return
        times = [action.at_ns for action in actions]
        if sorted(times) != times or times[0] <= self._clock.now_ns():
            raise ValueError("timed actions must be in order of time, and after now")
        made = np.zeros(len(actions), TIMED)
        for record, action in zip(made, actions, strict=True):
            self._check(action)
            _fill(record, action)
        made["last"][-1] = 1
        self.state.options["special"] |= np.any(made["verb"] == _MUTE)
        first = pools.with_actions(self.state, made)
        self._clock.process(self._start(times[0], ACT, first))

    def _check(self, action: Timed) -> None:
        """Raises ValueError if it is about something that does not exist: compiled code would not notice."""
        state, given = self.state, action.arguments
        if action.verb == "mute":
            self._plan.check_ids()
        room = len(state.partitions) if action.verb == "mute" else int(state.cluster["tasks"])
        named = given[:2] if action.verb == "send" else given[:1]
        least = CONTROL if action.verb == "send" else 0
        if not all(least <= number < room for number in named) or (action.verb == "send" and given[1] < 0):
            raise ValueError(f"a timed action names what does not exist: {action}")

    def _start(self, at_ns: int, kind: int, ref: int) -> Process:
        """Set an action of control where a process would: after the timers of processes that were started before."""
        self._room(2)
        number = self._clock.next_number()
        pools.push(self.state, at_ns, 1, number, kind, ref)
        self._clock.take_numbers(number + 1)
        return
        yield


def _fill(record: np.void, action: Timed) -> None:
    """Raises ValueError for a verb that the plane does not do by itself."""
    if action.verb not in timed_actions.VERBS:
        raise ValueError(f"not a timed action: {action.verb}")
    verb, given = timed_actions.VERBS.index(action.verb), list(action.arguments)
    if verb == _PAUSE and given[1] is None:
        given[1] = NONE
    record["time"], record["verb"] = action.at_ns, verb
    record["of"][: len(given)] = given


_TARGETS = 2  # at most, of one table entry


class Moves(ABC):
    """The verbs of `sim.data_plane` for instances of partitions."""

    state: State
    _plan: RunPlan
    _saved_outputs: SavedOutputs
    _may_double = False

    @abstractmethod
    def _act(self) -> None:
        """An action comes."""

    @abstractmethod
    def _may_come_twice(self) -> None:
        """From now on tuples are found by their ids."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """One more instance of the partition's group."""
        self._plan.check_ids()
        self._act()
        if self.state.partitions["is_source"][partition]:
            raise ValueError("a source has one instance")
        if not self._may_double:
            self._may_double = True
            self.state.options["fan_out"] *= _TARGETS
            self.state.options["special"] = 1
        self._room(0)
        self._may_come_twice()
        pools.with_partition(self.state, instance)
        setup.with_channels(self.state, instance, int(self.state.partitions["group"][partition]))
        instances.add_instance(self.state, instance, partition, task)

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Where outputs of a task for the partition's group go."""
        self._plan.check_ids()
        self._act()
        if len(targets) > _TARGETS:
            raise ValueError(f"an output goes to at most {_TARGETS} instances of a group")
        self._may_come_twice()
        group = int(self.state.partitions["group"][partition])
        instances.clear_routes(self.state, group, sender)
        for target in targets:
            pools.with_rule(self.state)
            instances.add_route(self.state, group, sender, target)

    def own(self, instance: int) -> None:
        """The instance is the owner of its group."""
        self._plan.check_ids()
        self._act()
        self._may_come_twice()
        instances.own(self.state, instance)

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Keep for another receiver, too, all that is kept for one."""
        self._plan.check_ids()
        self._act()
        self._room(int(self.state.partitions["kept_rows"][sender]) + 2)
        self._may_come_twice()
        instances.copy_kept(self.state, sender, receiver, other)

    def adopt(self, instance: int, partition: int) -> None:
        """The stored checkpoint of the partition is that of a new instance, too, and its state."""
        self._plan.check_ids()
        self._act()
        if self.state.partitions["applied"][instance] or self.state.partitions["live"][instance]:
            raise ValueError("only a new instance can take the state of another")
        self._may_come_twice()
        lender = int(instances.to_adopt(self.state, instance, partition))
        if lender != NONE:
            self._room_to_copy(lender)
        instances.adopt(self.state, instance, partition)

    def _room_to_copy(self, partition: int) -> None:
        """Make room for one more copy of the stored checkpoint of the partition."""
        kept = int(instances.noted(self.state, partition))
        if kept:
            setup.grown(self.state, kept)
        self._room(int(instances.adoption(self.state, partition)) + 2 * kept + 2)

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """Take a checkpoint of the partition now, for that checkpoint host; return whether it was taken."""
        self._act()
        if not checkpoints.can_be_saved(self.state, partition, 0):
            return False
        self._room(int(self.state.options["fan_out"]) + 2)
        if self.state.partitions["is_sink"][partition]:
            checkpoints.note_delivered(self.state, partition, NONE, 0)
        else:
            checkpoints.take(self.state, partition, checkpoint_host, NONE, 0, 0)
        self._tell()
        return True

    def checkpoint_each(
        self, partitions: Sequence[int], checkpoint_host: int, slot: int = 0, more_bytes: int = 0
    ) -> int:
        """Take a batch of checkpoints now, for that checkpoint host; return how many were taken."""
        self._act()
        if not self.state.options["barriers"]:
            raise ValueError("batches of checkpoints are for runs with barriers or batches")
        self._room((int(self.state.options["fan_out"]) + 2) * (len(partitions) + 1))
        pools.with_checkpoints(self.state, len(partitions) + 2)  # the batch, and a member of its own
        numbers = np.array(partitions, np.int64)
        self._saved_outputs.take(partitions, slot)
        taken = int(checkpoints.take_each(self.state, numbers, checkpoint_host, slot, more_bytes))
        self._tell()
        return taken

    def complete_checkpoints(self, partitions: Collection[int], slot: int = 0) -> None:
        """The checkpoints of these partitions that have come to the store count."""
        self._act()
        self._room(2 * len(partitions) + 2)
        numbers = np.array(sorted(partitions), np.int64)
        self._saved_outputs.complete(numbers, slot)
        checkpoints.complete(self.state, numbers, slot)
        if self.state.options["unaligned"]:
            in_flight.complete_in_flight(self.state, numbers)

    def deliveries(self) -> int:
        """Return how many rows of deliveries there are by now."""
        return int(self.state.recording["delivery_rows"]) if self.state.recording["by_column"] else 0

    def trim(self, partition: int, count: int) -> None:
        """Upstream forgets what is among the first `count` tuples that the partition applied."""
        self._act()
        checkpoints.trim_for(self.state, partition, count)

    def hand_down(self, instance: int, successor: int) -> bool:
        """Make the state of an instance the stored checkpoint of another one, held by its host."""
        self._plan.check_ids()
        self._act()
        self._may_come_twice()
        return bool(instances.hand_down(self.state, instance, successor))

    def freeze(self, partition: int, frozen: bool) -> None:
        """No checkpoint of the partition is taken or stored, as if one were always under way."""
        self._act()
        u = self.state.partitions[partition]
        u["incarnation"] += frozen and u["saving"]
        u["saving"] = frozen

    def abort_checkpoints(self, partitions: Collection[int], slot: int | None = None) -> None:
        """Checkpoints of these partitions that are under way are forgotten."""
        self._act()
        self._room(0)
        checkpoints.abort(self.state, np.array(sorted(partitions), np.int64), NONE if slot is None else slot)
        if self.state.options["unaligned"]:
            in_flight.forget_overtaken(self.state)

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """The host is the planned checkpoint host."""
        self.state.partitions["planned"][partition] = host

    def announce(self, partition: int) -> None:
        """The listener is told when the next checkpoint of the partition is stored."""
        self._act()
        self.state.partitions["announced"][partition] = 1

    def measure(self, partition: int, from_ns: int) -> None:
        """Time the tuples that arrive at the partition from an instant on."""
        self._act()
        u = self.state.partitions[partition]
        u["measured"], u["measured_from"], u["longest"] = 1, from_ns, NONE

    def measure_until_calm(self, partition: int) -> None:
        """Up to the first that is served as it arrives."""
        self._act()
        u = self.state.partitions[partition]
        u["measured"] = CALM if u["measured"] else 0

    def longest_ns(self, partition: int) -> int:
        """Return the longest of these times, or NEVER."""
        return int(self.state.partitions["longest"][partition])

    def retire(self, partition: int) -> None:
        """The instance is not live, keeps nothing, and nothing is kept for it."""
        self._plan.check_ids()
        self._act()
        self._room(0)
        self._may_come_twice()
        instances.retire(self.state, partition)
