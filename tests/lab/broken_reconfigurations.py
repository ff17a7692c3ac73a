"""Moves of key groups by plans that are broken on purpose: each has to be noticed in some schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.migration.coordinator import Territories
from sim.migration.pausing import PausingContext
from sim.migration.protocol import Context, Message
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.protocols.pause_and_resume import PauseAndResume
from sim.migration.protocols.stop_and_restart import StopAndRestart
from sim.migration.reconfiguration import Reconfiguration, ReconfigurationContext
from sim.plain.channels import Channels, PlaneState
from sim.plain.open_keys import OpenKey
from sim.plain.outbox import Outbox
from sim.plain.parcels import Parcels
from sim.plain.partition import Contents, Partition
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def broken(title: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Put a function in the list."""

    def listed(made: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[title] = made
        return made

    return listed


def _unguarded(patch: Patch) -> None:
    """Let the plane give states away whatever is on its way."""
    patch.setattr(Parcels, "_check_served", lambda *_: None)
    patch.setattr(Parcels, "is_passed", lambda *_: True)


# -- megaphone


@broken("a step begins before its time has passed")
def begin_before_the_frontier(patch: Patch) -> None:
    _unguarded(patch)
    begin_although_refused(patch)


@broken("a step begins before its time has passed, and the plane looks")
def begin_although_refused(patch: Patch) -> None:
    def when_passed(self: ReconfigurationContext, step: int, kind: str, then: str) -> None:
        run, runtime = self._run, self._runtime
        from_ns = run.times[step].passed_ns = run.times[step].from_ns
        delay_ns = max(0, from_ns - self._state.clock.now_ns())
        for task in run.plan.concerned(step):
            runtime.timer(Message(run.number, kind, self.me, task, step), delay_ns)
        runtime.timer(Message(run.number, then, self.me, self.me, step), delay_ns)

    patch.setattr(ReconfigurationContext, "when_passed", when_passed)


@broken("a frontier does not count what is still above the operator")
def look_at_the_operator_alone(patch: Patch) -> None:
    patch.setattr(Parcels, "_check_served", lambda *_: None)
    patch.setattr(Parcels, "_above", lambda _, operator: frozenset({operator}))


@broken("who sends goes by the newest configuration")
def route_by_the_newest_configuration(patch: Patch) -> None:
    right = Parcels.place
    patch.setattr(Parcels, "place", lambda self, operator, senders, owners, _: right(self, operator, senders, owners))


@broken("one of those who send does not hear of the configuration")
def forget_a_sender(patch: Patch) -> None:
    right = Megaphone.on_configure

    def on_configure(self: Megaphone, ctx: ReconfigurationContext, message: Message) -> None:
        if ctx.me != self.plan.senders[-1]:
            right(self, ctx, message)

    patch.setattr(Megaphone, "on_configure", on_configure)


@broken("a tuple is applied where it comes, also before its state")
def apply_on_arrival(patch: Patch) -> None:
    right = Task._admit

    def admit(self: Task, item: Any) -> None:
        partition = getattr(item, "partition", None)
        if partition is None or not hasattr(item, "row") or partition.live:
            right(self, item)
            return
        partition.live, goal, partition.goal = True, partition.goal, None
        try:
            right(self, item)
        finally:
            partition.live, partition.goal = False, goal

    patch.setattr(Task, "_admit", admit)


@broken("key groups go on at their new tasks before their states come")
def install_before_the_state_comes(patch: Patch) -> None:
    right = Parcels.take

    def take(self: Parcels, partitions: Any) -> Any:
        parcel = right(self, partitions)
        for number in partitions:
            self._numbered[number].live = True
        return parcel

    patch.setattr(Parcels, "take", take)


@broken("a step begins when the first state of the one before is there")
def begin_before_the_last_is_installed(patch: Patch) -> None:
    right = Megaphone.last_of

    def last_of(self: Megaphone, wave: Any, sender: int, expected: Any) -> bool:
        if wave[0] == "stepped" and not self.answered(wave):
            right(self, wave, sender, expected)
            return True
        return right(self, wave, sender, expected) and wave[0] != "stepped"

    patch.setattr(Megaphone, "last_of", last_of)


@broken("what has waited for a state is left behind")
def leave_behind_what_waits(patch: Patch) -> None:
    right = Parcels._put_taken

    def put(self: Parcels, parcel: int, contents: Contents, task: int) -> None:
        for one in contents.taken:
            one.held = []
        right(self, parcel, contents, task)

    patch.setattr(Parcels, "_put_taken", put)


@broken("what has waited for a state is served in another order")
def turn_what_waits(patch: Patch) -> None:
    right = Parcels._put_taken

    def put(self: Parcels, parcel: int, contents: Contents, task: int) -> None:
        for one in contents.taken:
            one.held.reverse()
        right(self, parcel, contents, task)

    patch.setattr(Parcels, "_put_taken", put)


@broken("what has waited for a state goes behind the queue")
def what_waits_goes_behind(patch: Patch) -> None:
    right = Task.put_in_front

    def put(self: Task, items: Any) -> None:
        if items and all(hasattr(item, "row") for item in items):
            self.arrive(*items)
        else:
            right(self, items)

    patch.setattr(Task, "put_in_front", put)


@broken("with the scope of the operator its tasks go on with other key groups")
def tasks_go_on(patch: Patch) -> None:
    patch.setattr(Context, "hold", lambda *_: None)


@broken("a task goes on when the first state of a step is there")
def tasks_go_on_too_early(patch: Patch) -> None:
    def on_installed(self: Megaphone, ctx: ReconfigurationContext, message: Message) -> None:
        ctx.release()

    patch.setattr(Megaphone, "on_installed", on_installed)


@broken("tasks hear over the links that a state is there")
def hear_behind_the_data(patch: Patch) -> None:
    def broadcast(self: ReconfigurationContext, tasks: Any, kind: str, note: object) -> None:
        self.send_each(((task, note) for task in tasks), kind)

    patch.setattr(ReconfigurationContext, "broadcast", broadcast)


@broken("the first queue that is empty lets the next step begin")
def one_queue_is_enough(patch: Patch) -> None:
    right = Megaphone.last_of

    def last_of(self: Megaphone, wave: Any, sender: int, expected: Any) -> bool:
        first = wave[0] == "drained" and not self.answered(wave)
        last = right(self, wave, sender, expected)
        return first if wave[0] == "drained" else last

    patch.setattr(Megaphone, "last_of", last_of)


@broken("a step is configured from where key groups are")
def configure_from_where_they_are(patch: Patch) -> None:
    right = ReconfigurationContext.configure

    def configure(self: ReconfigurationContext, step: int) -> int:
        run, first = self._run, self._state.plan.first_partition[self._run.plan.operator]
        run.owners = np.array(self._cluster.partition_task[first : first + run.owners.size])
        return right(self, step)

    patch.setattr(ReconfigurationContext, "configure", configure)


@broken("plans that meet go on at once")
def plans_do_not_wait(patch: Patch) -> None:
    patch.setattr(Territories, "meet", lambda self, territory: False)


# -- steps of migration files

OF_FILES = (
    "a step of a file begins when the one before is over, whatever the time of its line",
    "a step is announced although the one before moves one of its key groups",
)
"""Mutants that need a plan from a file."""


@broken(OF_FILES[0])
def forget_the_time_of_a_line(patch: Patch) -> None:
    right = ReconfigurationContext.configure

    def configure(self: ReconfigurationContext, step: int) -> int:
        soon_ns = self._state.clock.now_ns() + self._state.plan.latency_ns + 1
        self._run.times[step].from_ns = min(right(self, step), soon_ns)
        return self._run.times[step].from_ns

    patch.setattr(ReconfigurationContext, "configure", configure)


@broken(OF_FILES[1])
def announce_what_is_on_its_way(patch: Patch) -> None:
    def announced(self: Reconfiguration, step: int) -> bool:
        return self.next == "lag" and 0 < step < len(self.steps)

    patch.setattr(Reconfiguration, "announced", announced)


# -- configurations that are late

OF_LATE = (
    "who sends goes on sending what is ahead of a configuration that is late",
    "what is withheld leaves before its task goes by the configuration",
    "what is withheld leaves in another order than it was made in",
    "frontiers do not count what is withheld",
    "a step begins before those who send have its configuration",
)
"""Mutants that need a configuration that is late."""


@broken(OF_LATE[0])
def withhold_nothing(patch: Patch) -> None:
    patch.setattr(Megaphone, "on_ahead", lambda *_: None)


@broken(OF_LATE[1])
def let_out_too_early(patch: Patch) -> None:
    def on_configure(self: Megaphone, ctx: ReconfigurationContext, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.plan.late_ns:
            ctx.let_out()
        ctx.place(message.note)

    patch.setattr(Megaphone, "on_configure", on_configure)


@broken(OF_LATE[2])
def let_out_in_another_order(patch: Patch) -> None:
    right = Outbox.let_out

    def let_out(self: Outbox, operator: int) -> None:
        self.withheld[operator].items.reverse()
        right(self, operator)

    patch.setattr(Outbox, "let_out", let_out)


@broken(OF_LATE[3])
def look_past_what_is_withheld(patch: Patch) -> None:
    right = PlaneState._rows_at

    def rows_at(self: PlaneState, operators: Any) -> Any:
        withheld = {id(output.row) for task in self.tasks for output in task.outbox.unsent}
        return (row for row in right(self, operators) if id(row) not in withheld)

    patch.setattr(PlaneState, "_rows_at", rows_at)


@broken(OF_LATE[4])
def begin_before_the_update(patch: Patch) -> None:
    patch.setattr(Megaphone, "_may_begin", lambda self, step: bool(self.heard(f"awaited {step}")))


# -- post-dated outputs


@broken("post-dated outputs are left behind")
def post_dated_are_left_behind(patch: Patch) -> None:
    right = PlainPlane.take

    def take(self: PlainPlane, partitions: Any) -> Any:
        parcel = right(self, partitions)
        for number in partitions:
            self._numbered[number].post_dated.clear()
        return parcel

    def emit_overdue(self: Channels, partition: Partition) -> None:
        while partition.overdue and partition.live and not partition.task.stops(partition):
            output = partition.overdue.pop(0)
            if partition.post_dated.pop(output.tuple_id, None):
                self.emit(partition, output.tuple_id, output.born_ns, output.key)

    patch.setattr(PlainPlane, "take", take)
    patch.setattr(Channels, "emit_overdue", emit_overdue)


@broken("a post-dated output leaves while its key group is on its way")
def post_dated_leave_on_the_way(patch: Patch) -> None:
    def emit_overdue(self: Channels, partition: Partition) -> None:
        while partition.overdue and not partition.task.stops(partition):
            output = partition.overdue.pop(0)
            del partition.post_dated[output.tuple_id]
            self.emit(partition, output.tuple_id, output.born_ns, output.key)

    patch.setattr(Channels, "emit_overdue", emit_overdue)


@broken("a post-dated output leaves from the old task and from the new one")
def post_dated_leave_twice(patch: Patch) -> None:
    right = Channels._is_due

    def is_due(self: Channels, partition: Partition, output: Any) -> None:
        if not partition.live:
            self.emit(partition, output.tuple_id, output.born_ns, output.key)
        right(self, partition, output)

    patch.setattr(Channels, "_is_due", is_due)


@broken("a post-dated output leaves when it is made")
def post_dated_leave_at_once(patch: Patch) -> None:
    def postpone(self: Channels, partition: Partition, output: Any) -> None:
        self.emit(partition, output.tuple_id, output.born_ns, output.key)

    patch.setattr(Channels, "postpone", postpone)


@broken("a key that closes on its way keeps its tuples")
def keys_close_where_they_are(patch: Patch) -> None:
    right = PlainPlane.put

    def put(self: PlainPlane, parcel: int, task: int) -> None:
        taken = self.parcels[parcel].taken
        due = {one: [output.made_of for output in one.overdue] for one in taken}
        right(self, parcel, task)
        for one, keys in due.items():
            if one.operator.closes_keys:
                for key in keys:
                    one.open_keys.keys.setdefault(key, OpenKey()).tuples += 1

    patch.setattr(PlainPlane, "put", put)


@broken("a task that holds all sends what is due")
def tasks_that_hold_send(patch: Patch) -> None:
    patch.setattr(Task, "stops", lambda *_: False)


# -- pause-and-resume, stop-and-restart


@broken("one of those who send goes on sending to the old tasks")
def redirect_all_but_one(patch: Patch) -> None:
    right = PausingContext.redirect

    def redirect(self: PausingContext) -> None:
        if self.me != self._run.plan.senders[-1]:
            right(self)

    patch.setattr(PausingContext, "redirect", redirect)


@broken("a task gives its states with the first word that no more comes")
def begin_with_the_first_sender(patch: Patch) -> None:
    _unguarded(patch)
    right = PauseAndResume.last_of

    def last_of(self: PauseAndResume, wave: Any, sender: int, expected: Any) -> bool:
        first = not self.answered(wave)
        last = right(self, wave, sender, expected)
        return first if wave == "pause" else last

    patch.setattr(PauseAndResume, "last_of", last_of)


@broken("the word that no more comes does not wait its turn")
def overtake_the_queue(patch: Patch) -> None:
    right = Context.send

    def send(self: Context, to: int, kind: str, turn: bool = False, **others: Any) -> None:
        right(self, to, kind, False, **others)

    patch.setattr(Context, "send", send)


@broken("tasks go on when all states are there, also before they have paused")
def resume_who_has_not_paused(patch: Patch) -> None:
    def resume(self: PauseAndResume, ctx: PausingContext) -> None:
        if self.answered("installed") >= {*self._carries} and not self.heard("resume"):
            self.all_in("resume", 0, ())
            ctx.broadcast(self.concerned, "resume", None)

    patch.setattr(PauseAndResume, "_resume", resume)


@broken("tasks that pause never go on")
def never_release(patch: Patch) -> None:
    patch.setattr(Context, "release", lambda *_: None)


@broken("sources go on while the job stops")
def sources_go_on(patch: Patch) -> None:
    patch.setattr(Context, "pause", lambda *_: None)


@broken("sources go on before all states are loaded")
def go_on_before_the_states_come(patch: Patch) -> None:
    def on_restarted(self: StopAndRestart, ctx: PausingContext, message: Message) -> None:
        ctx.broadcast(ctx.tasks, "load", None)
        ctx.broadcast(ctx.sources, "go_on", None)

    patch.setattr(StopAndRestart, "on_restarted", on_restarted)


@broken("the job restarts when the first task has saved its states")
def restart_with_the_first(patch: Patch) -> None:
    right = StopAndRestart.last_of

    def last_of(self: StopAndRestart, wave: Any, sender: int, expected: Any) -> bool:
        first = wave == "stopped" and not self.answered(wave)
        last = right(self, wave, sender, expected)
        return first if wave == "stopped" else last

    patch.setattr(StopAndRestart, "last_of", last_of)
