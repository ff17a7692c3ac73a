"""The scan hands a run over at the instants at which control acts: its rows are those of the event loop alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scan_jobs import checkpointed_job, scan_job, writing_job
from scripts import MOVES_ALONE, VERBS, run_script
from seeds import parts
from test_hand_over import PLANES, cut, random_spells, single
from test_planes import differences, noticed
from test_scan import made

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over import to_loop
from sim.kernel.hand_over.at_rest import LoopAtRest

JOBS: tuple[Callable[[Random], dict[str, Any]], ...] = (
    scan_job,
    lambda draw: single(checkpointed_job(draw)),
    lambda draw: single(writing_job(draw)),
)
SCRIPTS = (("relocate",), ("relocate", "relocate", "send", "barrier", "work"), (*MOVES_ALONE, *VERBS))
PATIENCE_NS = (1_000_000, 10_000_000, 77_777_777)


def differs(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """What differs between the event loop alone and both kernels in turns, for the job and the script of that seed."""
    draw = Random(f"acting {seed}")
    raw = JOBS[seed % 3](draw)
    turns = cut(random_spells(draw, made(raw), 2), draw.choice(PATIENCE_NS))
    verbs, count = SCRIPTS[seed // 3 % 3], draw.choice([2, 6, 20])
    (alone, told), (both, told_too) = (run_script(raw, plane, seed, count, verbs) for plane in (CompiledPlane, turns))
    if seen is not None:
        seen["hand-overs"] += len(PLANES[0].hand_overs)
        seen.update(what for _, what, *_ in told if isinstance(what, str))
    return differences(alone, both) + ["told"] * (told != told_too)


@pytest.mark.parametrize("seeds", parts(6, 24))
def test_rows_do_not_depend_on_turns_while_control_acts(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert differs(seed, seen) == [], seed
    assert seen["hand-overs"] > 20
    assert seen["put"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_actions(part: int) -> None:
    for seed in range(12 + part * 400, 412 + part * 400):
        assert differs(seed) == [], seed


def test_a_turn_of_checkpoints_comes_before_control_that_acts_in_its_instant() -> None:
    # The turn at 100 ms was set at the start, the action at 50 ms: the snapshot is written first, which takes 2 ms.
    raw = {
        "duration": "1 s",
        "workload": {"src": {"rate": "200 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "map",
                "inputs": {"src": "forward"},
                "service": {"distribution": "exponential", "mean": "1 ms"},
                "state": {"model": "fixed", "bytes": "2 kB"},
                "serialise": "1 MB/s",
            },
            "out": {"kind": "sink", "inputs": {"op": "forward"}},
        },
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-0", "op-0": "h-1", "out-0": "h-2"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "100 ms", "guarantee": "exactly-once"},
    }

    def rows(plane: PlaneFactory) -> RunRecords:
        control = Control(RunPlan.of(made(raw), RunInputs(), 0), plane)

        def work() -> Process:
            yield control.clock.sleep(50_000_000)
            yield control.clock.sleep(100_000_000)
            control.state.work(1, 3_000_000, lambda: None)

        control.start()
        control.clock.process(work())
        control.run(1_000_000_000)
        return records(control, 1_000_000_000)

    alone, both = rows(CompiledPlane), rows(cut([], 10_000_000))
    assert differences(alone, both) == []
    assert len(PLANES[0].hand_overs) == 2
    first = both.tables["checkpoints"]["stored_ns"][both.tables["checkpoints"]["operator"] == 1][0]
    assert first < 105_000_000  # else the work of 3 ms comes first


# -- hand-overs that are broken on purpose


def without(*whys: str) -> Callable[..., Any]:
    """The scan gets the run although it does not know of something."""

    def breaks(hindrance: Callable[..., Any]) -> Callable[..., Any]:
        def broken(rest: Any) -> str | None:
            found: str | None = hindrance(rest)
            return None if found in whys else found

        return broken

    return breaks


def states_of_before(states: Callable[..., Any]) -> Callable[..., Any]:
    """What the scan has applied is not counted."""

    def broken(filling: Any) -> None:
        filling.scan.saved["applied"] = np.minimum(filling.scan.saved["applied"], 3)
        states(filling)

    return broken


BROKEN: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "the scan gets a run whose messages are on their way": (
        LoopAtRest,
        "_is_acted_upon",
        without("messages or actions are on their way"),
    ),
    "the scan gets a run whose senders know other tasks": (
        LoopAtRest,
        "_is_acted_upon",
        without("key groups have next tasks"),
    ),
    "states have the size of before": (to_loop._Filling, "_states", states_of_before),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_hand_over_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, breaks = BROKEN[what]
    monkeypatch.setattr(where, name, breaks(getattr(where, name)))
    assert noticed(differs, range(120))
