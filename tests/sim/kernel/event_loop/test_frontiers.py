"""Frontiers of the compiled plane: when it looks at all tuples.

Oracle: the function that looks, counted. Python runs what calls it.
"""

from __future__ import annotations

from typing import Any

import pytest
from interpreted import View
from test_losses_in_steps import dies, steps
from test_megaphone import MS, made

from sim.kernel.event_loop import frontiers
from sim.kernel.event_loop.plane import CompiledPlane


def test_tuples_are_not_looked_at_while_a_task_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it finds, no frontier is passed; with a million open keys each look takes a millisecond."""
    looks = []

    def looked(state: Any, operator: int, time: int) -> int:
        looks.append(time)
        return 1

    control = made(dies(steps(), 819_100_000, 1), CompiledPlane)  # a state is being read, and the next step waits
    control.start()
    control.run(819_100_000 + 60 * MS)  # nobody knows yet
    (waits,) = control.plane.state.frontiers  # type: ignore[attr-defined]
    assert waits["left"] <= 0
    assert not waits["over"]
    for name in ("look", "leads_to", "is_held_up", "_has_lost"):
        monkeypatch.setattr(frontiers, name, getattr(frontiers, name).py_func)
    monkeypatch.setattr(frontiers, "before", looked)
    state = control.plane.state  # type: ignore[attr-defined]
    frontiers.look(View(state))
    assert looks == []
    state.partitions["live"] = 1
    frontiers.look(View(state))
    assert looks == [waits["time"]]
