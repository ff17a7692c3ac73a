"""The verbs for key groups that move without a second instance: a part of the compiled plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from sim.control.placing import (
    check_frontier,
    check_moving,
    check_placement,
    check_stay,
    check_taken,
    check_times,
    check_withholding,
    senders_to,
)
from sim.kernel.event_loop import backpressure, emitting, event_time, frontiers, outbox, placing, pools, verbs
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.codes import NEVER, NONE
from sim.kernel.event_loop.frontiers import FRONTIER
from sim.kernel.event_loop.outbox import WITHHELD
from sim.kernel.tools.pointer import State
from sim.plane_values import Parcel

if TYPE_CHECKING:
    from sim.clock import Clock
    from sim.control.cluster import Cluster, RunPlan


class Moving(ABC):
    """The verbs of `sim.data_plane.MovingPlane`; `put` is one of `Parcels`, which asks here first."""

    state: State
    _plan: RunPlan
    _cluster: Cluster
    _clock: Clock

    def __init__(self) -> None:
        """Nothing was taken yet."""
        self._taken: dict[int, tuple[int, ...]] = {}  # partitions by parcel, until they are put
        self._marked = np.zeros(0, np.bool_)  # (n_partitions,) in use within a call
        self._passed_at = (-1, -1, -1)  # instant, operator and time: nothing older was there any more

    @abstractmethod
    def _act(self) -> None:
        """An action comes."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    @abstractmethod
    def _number(self) -> int:
        """Return the number of a new parcel."""

    def place(
        self, operator: int, senders: Collection[int], owners: Sequence[int] | np.ndarray, from_ns: int = 0
    ) -> None:
        """Send what these tasks emit for key group k of the operator, if born from then on, to `owners[k]`."""
        check_moving(self._plan)
        operator, senders, tasks = check_placement(self._cluster, operator, senders, owners)
        from_ns = check_times(self._plan, operator, index(from_ns))
        state = self.state
        first = self._plan.first_partition[operator]
        met = placing.met(state, first, tasks, from_ns)
        if met == placing.TAKEN:
            raise ValueError("a key group that was taken is on its way to another task")
        if met == placing.PLACED:
            raise ValueError("a key group has another next task, or from another time on")
        self._act()
        state.options["placed"] = 1
        placing.name(state, first, tasks, from_ns)
        for sender in sorted(senders):
            if state.tasks["routing"][sender] == NONE:
                state.tasks["routing"][sender] = state.routing.size
                state.routing = np.append(state.routing, np.full(len(state.partitions), NONE, np.int32))
            placing.place(state, sender, first, tasks)

    def withhold(self, task: int, operator: int, from_ns: int) -> None:
        """Have a task withhold what it emits for an operator, if born from then on."""
        task, operator, from_ns = check_withholding(self._plan, self._cluster, task, operator, from_ns)
        state = self.state
        found = int(outbox.withheld_for(state, task, operator))
        if found != NONE and state.withheld["born_from"][found] != NEVER:
            raise ValueError("the task withholds what it emits for the operator already")
        self._act()
        state.options["withholds"] = state.options["special"] = 1
        if found == NONE:
            found = self._more_withheld(task, operator)
        state.withheld["born_from"][found] = from_ns

    def _more_withheld(self, task: int, operator: int) -> int:
        """Add a list of what a task withholds for an operator behind its others; return its number."""
        state, made, found = self.state, np.zeros(1, WITHHELD), self.state.withheld.size
        made["task"], made["operator"], made["oldest"] = task, operator, NEVER
        made["head"] = made["tail"] = made["next"] = NONE
        state.withheld = np.append(state.withheld, made)
        its = np.flatnonzero(state.withheld["task"][:found] == task)
        if its.size:
            state.withheld["next"][its[-1]] = found
        else:
            state.tasks["withheld"][task] = found
        return found

    def let_out(self, task: int, operator: int) -> None:
        """Have a task send what it has withheld for an operator."""
        task, operator, _ = check_withholding(self._plan, self._cluster, task, operator)
        found = int(outbox.withheld_for(self.state, task, operator))
        if found != NONE:
            self._act()
            self._room(int(self.state.withheld["outputs"][found] + self.state.withheld["marks"][found]) + 2)
            backpressure.let_out(self.state, found)
            self._tell()

    def take(self, partitions: Sequence[int]) -> Parcel:
        """Take the states of these partitions out of their task."""
        check_moving(self._plan)
        partitions = check_taken(self._cluster, partitions)
        state, numbers = self.state, np.array(partitions, np.int64)
        u = state.partitions[numbers]
        if not u["live"].all():
            raise ValueError("a key group is live nowhere")
        task, goal = int(u["task"][0]), int(u["goal"][0])
        if goal == NONE or np.any((u["task"] != task) | (u["goal"] != goal)):
            raise ValueError("key groups in a parcel come from one task, and have one next task")
        senders = np.array(sorted(senders_to(self._cluster, int(u["operator"][0]))), np.int64)
        if not all(placing.all_send_to(state, partition, senders, goal) for partition in partitions):
            raise ValueError("not all tasks upstream send to the next task of a key group")
        if self._marked.size < len(state.partitions):
            self._marked = np.zeros(len(state.partitions), np.bool_)
        self._marked[numbers] = True
        served = placing.is_served(state, task, self._marked)
        self._marked[numbers] = False
        if not served:
            raise ValueError("not all that was sent to the task of a key group has been served")
        operator, from_ns = int(u["operator"][0]), int(u["placed_from"].max())
        if from_ns and not self._is_passed(operator, from_ns):
            raise ValueError("not all that is older than the next task of a key group has been served")
        self._act()
        speaks = any(edge.down.timed for edge in self._plan.operators[operator].edges)
        if speaks:
            self._take_leave(task, partitions)
        placing.take(state, numbers)
        if speaks:
            event_time.speak(state, task)
        number = self._number()
        self._taken[number] = tuple(partitions)
        kept = int(u["kept_rows"].sum()) * int(state.operators["bytes"][u["operator"][0]])
        size = kept + sum(int(state_bytes(state, partition)) for partition in partitions)
        return Parcel(number, 0, size, tuple(partitions))

    def stay(self, partitions: Sequence[int]) -> None:
        """Send what is for these key groups to where they are: their next tasks are dead."""
        numbers = np.array(check_stay(self._plan, self._cluster, partitions), np.int64)
        goals = self.state.partitions["goal"][numbers]
        if np.any(self.state.tasks["alive"][goals[goals != NONE]]):
            raise ValueError("the next task of a key group lives, and something may be on its way there")
        self._act()
        self._room(len(numbers))
        placing.stay(self.state, numbers)
        for task in dict.fromkeys(self.state.partitions["task"][numbers].tolist()):
            placing.hear_again(self.state, task)

    def state_bytes(self, partition: int) -> int:
        """Return the size of the state of a partition that is live."""
        return int(state_bytes(self.state, partition))

    def _take_leave(self, task: int, partitions: Sequence[int]) -> None:
        """Send a farewell of a task that these partitions are taken out of; there is room for a watermark behind it."""
        self._room(2 * int(self.state.event_time["mark_fan"] * self.state.cluster["tasks"]))
        for partition in partitions:
            pools.with_rule(self.state)
            placing.note_left(self.state, partition)
        event_time.take_leave(self.state, task)

    def passed(self, operator: int, time_ns: int, token: int) -> None:
        """Tell the listener when nothing born before that time is at the operator, or above it, any more."""
        operator, time_ns = check_frontier(self._plan, self._clock.now_ns(), operator, time_ns)
        self._act()
        made = np.zeros(1, FRONTIER)
        made["operator"], made["time"], made["token"] = operator, time_ns, index(token)
        self.state.frontiers = np.append(self.state.frontiers, made)
        self._room(2)
        self._tell()

    def _lose_taken(self, parcel: int) -> None:
        """Lose the key groups that were taken, as far as they are still on their way."""
        numbers = np.array(self._taken.pop(parcel), np.int64)
        lost = numbers[self.state.partitions["taken"][numbers] == 1]
        self._act()
        self._room(0)
        for partition in lost.tolist():
            verbs.lose_travelling(self.state, partition)
        self._tell()

    def _is_passed(self, operator: int, time_ns: int) -> bool:
        # All tasks of a step give at one instant. What is counted for one of them need not be counted for the others.
        asked = (self._clock.now_ns(), operator, time_ns)
        if asked != self._passed_at:
            held_up = frontiers.is_held_up(self.state, operator, time_ns)
            if held_up or frontiers.before(self.state, operator, time_ns):
                return False
            self._passed_at = asked
        return True

    def _put_taken(self, parcel: int, task: int) -> None:
        """Make the key groups that were taken live at their next task."""
        parcel, task = index(parcel), index(task)
        numbers = np.array(self._taken[parcel], np.int64)
        u = self.state.partitions[numbers]
        if np.any(u["task"] != task):
            raise ValueError("key groups that were taken are put at their next task")
        self._act()
        overdue = sum(emitting.overdue(self.state, number) for number in numbers[u["post_dated"] > 0].tolist())
        overdue += int((u["ticks_due"] - u["ticks"]).sum())
        self._room((int(self.state.options["fan_out"]) + 2) * (int(u["held_n"].sum()) + overdue + 2))
        placing.put(self.state, numbers, task)
        del self._taken[parcel]
        self._tell()
