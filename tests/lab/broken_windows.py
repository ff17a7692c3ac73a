"""Moves of key groups before, at and behind windows that are broken on purpose: each is noticed in some schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.plain.parcels import Parcels
from sim.plain.partition import Partition, Row, Watermark
from sim.plain.watermarks import Watermarks

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def broken(title: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Put a function in the list."""

    def listed(made: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[title] = made
        return made

    return listed


@broken("a task says no farewell for the key groups that leave it")
def say_no_farewell(patch: Patch) -> None:
    patch.setattr(Watermarks, "take_leave", lambda *_: None)


@broken("a farewell tells who has come since what was said before")
def let_farewells_speak(patch: Patch) -> None:
    right = Watermarks.turn

    def turn(self: Watermarks, watermark: Watermark, task: Any) -> None:
        if watermark.again and watermark.origin is not task:
            event_ns = self.sent_ns.get(watermark.origin, 0)
            watermark = Watermark(event_ns, watermark.origin, watermark.number)
        right(self, watermark, task)

    patch.setattr(Watermarks, "turn", turn)


@broken("key groups do not hear again at their new task what was said")
def recall_nothing(patch: Patch) -> None:
    patch.setattr(Watermarks, "recall", lambda *_: [])


@broken("key groups hear again before what has waited for them is served")
def recall_at_once(patch: Patch) -> None:
    right = Parcels.put

    def put(self: Parcels, parcel: int, task: int) -> None:
        right(self, parcel, task)
        here = self.tasks[task]
        for one in self.watermarks.recall(here):
            self.watermarks.turn(Watermark(0, here, 1 << 60, again=True), here)
            assert one.again

    patch.setattr(Parcels, "put", put)


@broken("a task does not repeat its watermark for key groups that it has got")
def repeat_nothing(patch: Patch) -> None:
    patch.setattr(Watermarks, "begin_to_speak", lambda *_: None)


@broken("a task does not say what those have heard that are left when one leaves")
def say_nothing_for_the_rest(patch: Patch) -> None:
    patch.setattr(Watermarks, "speak_for_the_rest", lambda *_: None)


@broken("outputs of windows are born with the newest tuple in them")
def born_with_the_newest(patch: Patch) -> None:
    patch.setattr(Row, "born_ns", property(lambda row: row.created_ns))


@broken("windows stay behind")
def leave_windows(patch: Patch) -> None:
    right = Parcels.take

    def take(self: Parcels, partitions: Any) -> Any:
        parcel = right(self, partitions)
        for number in partitions:
            self._numbered[number].time.windows = {}
        return parcel

    patch.setattr(Parcels, "take", take)


@broken("a join leaves behind what came of one of its inputs")
def leave_a_side(patch: Patch) -> None:
    right = Parcels.take

    def take(self: Parcels, partitions: Any) -> Any:
        parcel = right(self, partitions)
        for number in partitions:
            time = self._numbered[number].time
            time.sides = {at: rows for at, rows in time.sides.items() if at[2]}
        return parcel

    patch.setattr(Parcels, "take", take)


@broken("a key group that is to leave hears all that its task hears")
def hear_at_the_old_task(patch: Patch) -> None:
    right = Watermarks._hear

    def hear(self: Watermarks, partition: Partition, watermark: Watermark, begun: int) -> None:
        goal, partition.goal = partition.goal, None
        try:
            right(self, partition, watermark, begun)
        finally:
            partition.goal = goal

    patch.setattr(Watermarks, "_hear", hear)
