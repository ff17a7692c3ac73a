"""Regions that go back to one checkpoint as a whole: no id is looked up, but of what sinks have got since then.

Oracle: the plain plane, which looks every id up, by equality of all rows; mutants of the rule must differ from it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from seeds import sample
from test_barriers import full_job, job, run, with_barriers
from test_cluster_view import MS, dies
from test_planes import differences
from test_region_restart import NOTICED

from sim import engine
from sim.engine import simulate
from sim.kernel.event_loop import pools
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

OUT = 5


def duplicates(found: Any) -> set[int]:
    """Return the operators at which tuples were dropped that came twice."""
    dropped = found.tables["dropped"]
    return set(dropped["operator"][dropped["reason"] == "duplicate"].tolist())


def looked_up(raw: dict[str, Any]) -> tuple[bool, int]:
    """Return whether the run looks ids up at its end, and how many it knows then."""
    control = engine.build(unchecked(raw), plane=CompiledPlane)
    control.run(round(control.plan.scenario.duration_s * 1e9))
    assert isinstance(control.plane, CompiledPlane)
    state = control.plane.state
    return not state.ids["clean"], int(state.tables["positions"])


def test_only_sinks_know_ids_until_the_next_checkpoint() -> None:
    failing = {"events": {"dies": dies(0, 2180)}, "detector": NOTICED}
    assert duplicates(run(job(**failing))) == {OUT}
    assert looked_up(job(**failing)) == (False, 0)
    # The sink got nine tuples after the first checkpoint, of 1010 ms, from each source: none since the restart.
    raw = job({"restarted": "random", "min_pause": "900 ms"}, **failing)
    raw["duration"] = "2900 ms"
    wrong, known = looked_up(raw)
    assert not wrong
    assert known > 0
    raw["fault_tolerance"]["guarantee"] = "at-least-once"
    assert looked_up(raw)[0]


def test_what_a_complete_checkpoint_has_and_sources_still_keep_is_dropped() -> None:
    """The checkpoint is complete at 1243 ms; sources hear that they may forget 1 ms later, or never."""
    seen = set()
    for half_ms in range(2 * 1226, 2 * 1246):
        raw = job(detector=NOTICED)
        raw["events"] = {"dies": dies(0, 1) | {"at": f"{half_ms * 500 + 250} us"}}
        found = run(raw)
        between = 1243 * MS < found.tables["failures"]["detected_ns"][0] < 1244 * MS
        assert (duplicates(found) > {OUT}) == between
        seen.add(between)
    assert seen == {False, True}


def test_a_sink_that_gets_tuples_of_a_source_drops_those_that_come_again() -> None:
    raw = job(events={"dies": dies(0, 2180), "again": dies(1, 2700)}, detector=NOTICED)
    raw["operators"]["out"]["inputs"] = {"sum": "forward", "fast": "forward"}
    found = run(raw)
    assert OUT in duplicates(found)
    assert not found.tables["ledger"]["duplicated"].any()


def test_rows_are_those_of_the_plain_plane_whatever_crashes() -> None:
    ids = 0
    for seed in range(20, 32):
        raw = with_barriers(Random(f"barriers {seed}"))
        raw["fault_tolerance"]["guarantee"] = "exactly-once"
        made = unchecked(raw)
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed
        ids += looked_up(raw)[0]
    assert ids == 0


@pytest.mark.parametrize("seed", sample(1, 6))
def test_rows_are_those_of_the_plain_plane_beside_windows_and_bounded_queues(seed: int) -> None:
    for kind in ("moving", "replicated"):
        raw = full_job(kind, 100 + seed)
        raw["fault_tolerance"]["guarantee"] = "exactly-once"
        run(raw)


def sinks_expect_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pools, "expect_again", lambda state, partition: None)


def all_methods_go_back_together(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CompiledPlane, "_goes_back", lambda self: None)


def differs(raw: dict[str, Any]) -> bool:
    made = unchecked(raw)
    return differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) != []


@pytest.mark.parametrize(
    ("mutant", "guarantee"), [(sinks_expect_nothing, "exactly-once"), (all_methods_go_back_together, "at-least-once")]
)
def test_a_wrong_rule_has_other_rows(
    mutant: Callable[[pytest.MonkeyPatch], None], guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    raws = (with_barriers(Random(f"barriers {seed}")) for seed in range(30))
    assert any(differs(raw | {"fault_tolerance": raw["fault_tolerance"] | {"guarantee": guarantee}}) for raw in raws)
