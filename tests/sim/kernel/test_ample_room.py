"""Room that is there already is not made again: what the loop says of it against what making room would do.

Oracle: `_grow`, which makes all the room that a verb may need. Where the answer is yes it must find nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compile_first import RUNS
from full_jobs import KINDS, full_job
from moving_jobs import moving_job

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.runs.inputs import inputs_of
from sim.engine import simulate
from sim.kernel.event_loop import forgetting, pools, rows
from sim.kernel.event_loop.plane import CompiledPlane

SHORTER = "duration=210 s"
WORK = ((pools, "longer"), (forgetting, "forget"), (rows, "hand_over"))


def watched(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count answers, and work that making room found to do after a yes."""
    seen: Counter[str] = Counter()
    right = CompiledPlane._is_ample

    def counting(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            seen[name] += 1
            return made(*given)

        return call

    def is_ample(self: CompiledPlane, need: int) -> bool:
        found = right(self, need)
        seen["yes" if found else "no"] += 1
        if found:
            with patch.context() as inner:
                for module, name in WORK:
                    inner.setattr(module, name, counting(f"{name} after a yes", getattr(module, name)))
                self._grow(need)
        return found

    patch.setattr(CompiledPlane, "_is_ample", is_ample)
    return seen


def inputs(one: Scenario) -> RunInputs:
    """What a run of the job needs."""
    return inputs_of(one, Path(), checkpoint_hosts={})


def jobs() -> list[Scenario]:
    """Jobs that move key groups, lose hosts, save states by waves, and send messages through queues."""
    found = [full_job(kind, seed) for kind in KINDS for seed in range(2)]
    return [*found, *(moving_job(seed, protocol) for seed, protocol in enumerate(("cpa", "direct", "cpal")))]


def test_where_there_is_room_nothing_is_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch)
    for one in jobs():
        simulate(one, inputs(one), plane=CompiledPlane)
    for name, *changes in (
        *RUNS["extended"][1],
        ("bin-migration",),
        ("rebalance-linear",),
        ("storm-recovery", SHORTER),
    ):
        one = read_scenario(resolve(name), changes).scenario.model_copy(update={"replications": 1})
        simulate(one, inputs(one), plane=CompiledPlane)
    assert seen["yes"] > 1000
    assert seen["no"] > 100
    assert not [name for name in seen if name.endswith("after a yes")], seen


def test_an_answer_that_is_always_yes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledPlane, "_is_ample", lambda self, need: True)
    seen = watched(monkeypatch)
    one = full_job(next(iter(KINDS)), 0)
    simulate(one, inputs(one), plane=CompiledPlane)  # `watched` makes the room in spite of the answer
    assert [name for name in seen if name.endswith("after a yes")]
