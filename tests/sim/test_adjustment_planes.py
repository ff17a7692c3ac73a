"""Operators that are adjusted as a whole: the compiled plane against its specification, on random jobs.

Oracle: `sim.plain`, by equality of all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from test_planes import differences
from test_trimming_planes import job as trimmed_job

from models.records.tables import NEVER, RunRecords
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plain.trimming import TrimmingProtocol

Patch = pytest.MonkeyPatch


def job(seed: int) -> dict[str, Any] | None:
    """A random job of those with acks, in which operators are adjusted; None where it has none that could be."""
    draw, raw = Random(f"adjustment {seed}"), trimmed_job(seed)
    keyed = [name for name, one in raw["operators"].items() if one["kind"] in ("aggregate", "join")]
    if not keyed:
        return None
    forward = any("forward" in one.get("inputs", {}).values() for one in raw["operators"].values())
    for name in keyed:
        if not forward:  # which needs as many tasks on both sides
            raw["operators"][name]["parallelism"] = draw.choice([1, 2])
        least = raw["operators"][name].get("parallelism", 1)
        raw["operators"][name]["key_groups"] = max(least, draw.choice([2, 4, 5, 8]))
    if draw.random() < 0.7:  # else the tasks are where the job has them
        raw["placement"] = {}
    group = raw["hosts"]["h"]
    group["count"] = max(group["count"], 4) + draw.choice([0, 2])
    tolerance = raw["fault_tolerance"]
    tolerance["adjustment"] = {"checkpoint": draw.choice(["last", "new"]), "reading": draw.choice(READINGS)}
    tolerance["trimming"]["levels"] = max(2, tolerance["trimming"]["levels"])
    if draw.random() < 0.5:
        tolerance["store"] = draw.choice(["nodes", "remote", "upstream"])
    if draw.random() < 0.5:
        raw["network"] = raw.get("network", {}) | {"latency": draw.choice(["0 s", "1 ms", "20 ms", "90 ms"])}
    milliseconds = round(1000 * float(raw["duration"].split()[0]))
    for number in range(draw.choice([1, 1, 2, 3])):
        name = draw.choice(keyed)
        raw["events"][f"scale{number}"] = {
            "at": f"{draw.randint(5, 90) * milliseconds // 100} ms",
            "kind": "rescale",
            "operator": name,
            "parallelism": draw.randint(1, min(4, raw["operators"][name]["key_groups"])),
            "protocol": "oap",
        }
    return raw


READINGS = ("safe", "safe", "safe", "literal")


def scenario(raw: dict[str, Any]) -> Scenario | None:
    """The scenario; None where something in it does not go together."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    return None if not_simulated(made) else made


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job of that seed."""
    raw = job(seed)
    made = scenario(raw) if raw else None
    if made is None:
        return []
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    if seen is not None:
        note(plain, made, seen)
    return differences(plain, compiled)


def note(records: RunRecords, made: Scenario, seen: Counter[str]) -> None:
    """Count what happened in a run, so that a test sees that the jobs meet it."""
    tables, adjusting = records.tables, made.fault_tolerance.adjusting
    rescales = tables["rescales"]
    seen["jobs"] += 1
    seen["complete"] += int((rescales["completed_ns"] != NEVER).sum())
    seen["up"] += int((rescales["after"] > rescales["before"]).sum())
    seen["down"] += int((rescales["after"] < rescales["before"]).sum())
    seen["recovered"] += tables["recoveries"]["host"].size > 0
    seen["moved"] += "moved" in tables["dropped"]["reason"].tolist()
    seen["lost"] += int(tables["ledger"]["lost"].sum()) > 0
    seen["windows"] += any(one.window is not None for one in made.operators.values())
    seen["bounded"] += any(one.buffer is not None for one in made.operators.values())
    seen[adjusting.reading] += 1
    seen[adjusting.checkpoint] += 1
    seen[made.fault_tolerance.store] += 1
    refused = [reason for action, reason in zip(*_decided(tables), strict=True) if action == "rescale"]
    seen["undone"] += any("died" in reason for reason in refused)


def _decided(tables: Any) -> tuple[list[str], list[str]]:
    return tables["decisions"]["action"].tolist(), tables["decisions"]["reason"].tolist()


NEEDED = (
    ("complete", "up", "down", "recovered", "moved", "windows", "bounded", "safe", "literal", "last", "new", "undone"),
    ("nodes", "remote", "upstream"),
)


def test_both_planes_give_equal_rows() -> None:
    seen: Counter[str] = Counter()
    for seed in range(25):
        assert on_both(seed, seen) == [], seed
    assert seen["jobs"] > 11
    assert [what for what in (*NEEDED[0], *NEEDED[1]) if not seen[what]] == [], seen


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(100 + part * 400 if part else 25, 500 + part * 400):
        assert on_both(seed) == [], seed


# -- planes that are broken on purpose: the comparison has to notice each


def _slices_do_not_wait(patch: Patch) -> None:
    """Slices do not wait for the receivers that key groups have gone to."""
    patch.setattr(TrimmingProtocol, "split_slices", lambda self, sender, receiver, other, before: None)


def _begins_without_slices(patch: Patch) -> None:
    """A new instance has no first slice."""
    begin = TrimmingProtocol.begin_again
    patch.setattr(
        TrimmingProtocol,
        "begin_again",
        lambda self, partition: begin(self, partition) if partition.group is partition else None,
    )


def _all_acknowledge(patch: Patch) -> None:
    """Instances acknowledge that do not own their groups."""
    patch.setattr(
        TrimmingProtocol,
        "_at",
        lambda self, task: [
            one for one in self.plane.instances() if one.task is task and one.live and not one.operator.is_source
        ],
    )


def _sends_all_again(patch: Patch) -> None:
    """What the parts have is sent again, too."""
    replay = PlainPlane.replay
    patch.setattr(
        PlainPlane,
        "replay",
        lambda self, sender, receiver, turn=False, missing=False: replay(self, sender, receiver, turn),
    )


BROKEN = (_slices_do_not_wait, _begins_without_slices, _all_acknowledge, _sends_all_again)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__.strip("_"))
def test_a_broken_plane_is_noticed(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    assert any(on_both(seed) for seed in (8 if broken is _slices_do_not_wait else 2, *range(150)))  # what shows them
