"""Moves in steps that are broken on purpose, in jobs in which nothing is kept and hosts die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.broken_engines import HARMLESS, MUTANTS, Patch, broken
from sim.control.crash import CrashCoordinator
from sim.migration.lost_steps import LostSteps
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.protocols.pause_and_resume import PauseAndResume
from sim.migration.reconfiguration import ReconfigurationContext, ReconfigurationRun
from sim.migration.reconfigurations import Reconfigurations
from sim.plain.parcels import Parcels
from sim.plain.partition import Contents, EventTime, Partition, Visit
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks

__all__ = ["HARMLESS", "MUTANTS"]


@broken("losing", "a state survives a task that dies")
def a_state_on_its_way_survives(patch: Patch) -> None:
    """What was going to a dead task, or comes no more from one, is the state when the key group goes on."""
    right = Partition.install

    def install(self: Partition, checkpoint: Any) -> int:
        if self.operator.is_sink or not self.applied:
            return right(self, checkpoint)
        return right(self, self.independent_snapshot())

    patch.setattr(Partition, "install", install)


@broken("losing", "a state that has come is lost with the task that it has left")
def what_has_come_counts_as_lost(patch: Patch) -> None:
    patch.setattr(ReconfigurationContext, "read", _without_a_note(ReconfigurationContext.read))


def _without_a_note(right: Callable[..., None]) -> Callable[..., None]:
    def read(self: ReconfigurationContext, parcel: Any, kind: str, note: object) -> None:
        right(self, parcel, kind, note)
        travels = self._run.travelling
        travels |= {number: one._replace(has_come=False) for number, one in travels.items()}

    return read


@broken("losing", "a state that comes no more is waited for")
def what_has_left_a_dead_task_is_waited_for(patch: Patch) -> None:
    right = LostSteps.settle

    def settle(self: LostSteps, *given: Any) -> Any:
        for run in self._open:
            run.travelling |= {number: one._replace(has_come=True) for number, one in run.travelling.items()}
        return right(self, *given)

    patch.setattr(LostSteps, "settle", settle)


@broken("losing", "who sends goes on sending to a next task that is dead")
def senders_go_on_sending_to_a_dead_task(patch: Patch) -> None:
    patch.setattr(PlainPlane, "stay", lambda *_: None)


@broken("losing", "what waits for a state that is lost is forgotten")
def what_waits_for_a_lost_state_is_forgotten(patch: Patch) -> None:
    right = Parcels.discard

    def discard(self: Parcels, parcel: int) -> None:
        contents: Contents | None = self.parcels.get(parcel)
        for one in contents.taken if contents else ():
            one.held = []
        right(self, parcel)

    patch.setattr(Parcels, "discard", discard)


@broken("losing", "a key group begins elsewhere than where its tuples wait")
def what_waits_is_served_elsewhere(patch: Patch) -> None:
    patch.setattr(LostSteps, "next_task", lambda *_: None)


@broken("losing", "nobody speaks for the dead")
def nobody_speaks_for_the_dead(patch: Patch) -> None:
    for protocol in (Megaphone, PauseAndResume):
        patch.setattr(protocol, "on_lost", lambda *_: None)


@broken("losing", "nobody speaks for senders that are dead")
def nobody_speaks_for_dead_senders(patch: Patch) -> None:
    right = PauseAndResume.on_lost

    def on_lost(self: PauseAndResume, ctx: Any, message: Any) -> None:
        tasks = tuple(task for task in message.note.tasks if task not in self.plan.senders)
        right(self, ctx, message._replace(note=message.note._replace(tasks=tasks)))

    patch.setattr(PauseAndResume, "on_lost", on_lost)


@broken("losing", "a sender that starts is not told where key groups will be")
def senders_that_start_are_told_nothing(patch: Patch) -> None:
    patch.setattr(LostSteps, "task_added", lambda *_: None)


@broken("losing", "further steps begin")
def further_steps_begin(patch: Patch) -> None:
    patch.setattr(ReconfigurationContext, "goes_further", True)
    patch.setattr(ReconfigurationRun, "at_rest", False)


@broken("losing", "a move ends while states travel")
def it_ends_while_states_travel(patch: Patch) -> None:
    patch.setattr(ReconfigurationRun, "at_rest", True)


@broken("losing", "a state that was on its way to the dead is not missed")
def states_that_come_no_more_are_not_missed(patch: Patch) -> None:
    patch.setattr(CrashCoordinator, "detected", _settled_without_losses(CrashCoordinator.detected))


def _settled_without_losses(right: Callable[..., None]) -> Callable[..., None]:
    def detected(self: CrashCoordinator, *given: Any) -> None:
        settle = self.in_steps
        self.in_steps = lambda losses, like: (settle(losses, like), [*losses])[1]
        right(self, *given)
        self.in_steps = settle

    return detected


def dead_senders_are_not_waited_for(patch: Patch) -> None:
    """A task that is dead, which nobody knows, is none of those that send."""
    right = Reconfigurations._senders

    def senders(self: Reconfigurations, operator: int) -> tuple[int, ...]:
        return tuple(task for task in right(self, operator) if self.state.cluster.task_alive[task])

    patch.setattr(Reconfigurations, "_senders", senders)


@broken("losing", "post-dated outputs of a state that is lost leave")
def outputs_of_a_lost_state_leave(patch: Patch) -> None:
    right = Partition.forget_volatile

    def forget(self: Partition) -> list[Visit]:
        post_dated, overdue = dict(self.post_dated), [*self.overdue]
        held = right(self)
        self.post_dated, self.overdue = post_dated, overdue
        return held

    patch.setattr(Partition, "forget_volatile", forget)


@broken("losing windows", "a task that dies takes no leave")
def no_last_farewell(patch: Patch) -> None:
    patch.setattr(Watermarks, "take_last_leave", lambda *_: None)


@broken("losing windows", "windows of a state that is lost go on")
def windows_survive(patch: Patch) -> None:
    right = EventTime.restored

    def restored(self: EventTime, *given: Any) -> EventTime:
        made = right(self, *given)
        made.windows, made.sides = self.windows, self.sides
        return made

    patch.setattr(EventTime, "restored", restored)


def who_begins_again_has_left_nobody(patch: Patch) -> None:
    """Do not wait for what a key group has sent from a task that lives, once its state is lost."""
    right = Partition.assign

    def assign(self: Partition, task: Any) -> None:
        self.left.clear()
        right(self, task)

    patch.setattr(Partition, "assign", assign)
