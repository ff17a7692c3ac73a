"""Trimming by acks: the compiled plane against its specification, on random jobs with all that may stand beside it.

Oracle: `sim.plain`, by equality of all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from lattices import lattice_job
from small_jobs import random_job, random_joins, random_windows, storm, with_buffers, with_fair_links, with_timers
from test_planes import differences

import sim.plain.trimming
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plain.trimming import Mark, TrimmingProtocol

Patch = pytest.MonkeyPatch
MAKES: tuple[Callable[..., dict[str, Any]], ...] = (random_job, lattice_job, random_windows, random_joins, storm)


def job(seed: int) -> dict[str, Any]:
    """A random job of any kind whose outputs are trimmed by acks."""
    draw = Random(f"trimming {seed}")
    trimming = {
        "slice": draw.choice(["50 ms", "100 ms", "130 ms", "500 ms"]),
        "every": draw.choice(["100 ms", "300 ms", "1 s"]),
        "step": draw.choice(["1 ms", "10 ms", "100 ms", "430 ms"]),
        "levels": draw.choice([1, 2, 2, 2, 3, 4]),
        "ack": draw.choice(["32 B", "7 B", "500 B"]),
        "reading": draw.choice(["safe", "safe", "literal"]),
        "work": draw.choice(["0 s", "0 s", "100 us", "5 ms"]),
    }
    tolerance: dict[str, Any] = {"method": "elastic-upstream-backup", "trimming": trimming}
    if draw.random() < 0.5:
        tolerance["snapshots"] = {
            "mode": draw.choice(["synchronous", "asynchronous"]),
            "pause": draw.choice(["0 s", "1 ms", "20 ms"]),
            **({"copy": draw.choice(["100 kB/s", "1 MB/s"])} if draw.random() < 0.5 else {}),
        }
    raw = MAKES[seed % len(MAKES)](draw, fault_tolerance=tolerance)
    for change in (with_fair_links, with_timers, with_buffers):
        if draw.random() < 0.35 and (change is not with_timers or seed % len(MAKES) in (0, 1, 4)):
            raw = change(draw, raw)
    cores = {"cpu": draw.choice(["dedicated", "shared", "shared", "processor-sharing"]), "cores": draw.choice([1, 2])}
    raw["hosts"]["h"] = raw["hosts"]["h"] | (cores if draw.random() < 0.7 else {})
    if not raw["events"] and seed % len(MAKES) in (2, 3):  # windows, and hosts that die
        hosts = raw["hosts"]["h"]["count"]
        raw["events"] = {
            f"crash{k}": {
                "at": f"{draw.randint(0, 40) * 100} ms",
                "kind": "host-failure",
                "host": f"h-{draw.randrange(hosts)}",
                "repair": "300 ms",
            }
            for k in range(draw.choice([0, 1, 2, 4]))
        }
    return raw


def history_job(seed: int) -> dict[str, Any]:
    """The same job, whose outputs are trimmed by age."""
    draw, raw = Random(f"history {seed}"), job(seed)
    history = {"length": draw.choice(["100 ms", "1 s", "3 s"]), "every": draw.choice(["100 ms", "300 ms", "1 s"])}
    guarantee = draw.choice(["exactly-once", "exactly-once", "at-least-once"])
    method = draw.choice(["upstream-backup", "source-backup", "active-replication"])
    if method == "active-replication":
        for operator in raw["operators"].values():
            operator.pop("timer", None)
        return raw | {"fault_tolerance": {"method": method}}
    return raw | {"fault_tolerance": {"method": method, "history": history, "guarantee": guarantee}}


def on_both(seed: int, seen: Counter[str] | None = None, make: Callable[[int], dict[str, Any]] = job) -> list[str]:
    """Differences between the planes for the job of that seed."""
    made = Scenario.model_validate(make(seed), context={"units": True}, by_alias=True, by_name=False)
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    if seen is not None:
        note(plain, made, seen)
    return differences(plain, compiled)


def note(records: RunRecords, made: Scenario, seen: Counter[str]) -> None:
    """Count what happened in a run, so that a test sees that the jobs meet it."""
    tables, trimming = records.tables, made.fault_tolerance.acked_slices
    assert trimming is not None
    seen["acks"] += "ack" in tables["messages"]["kind"].tolist()
    seen["recovered"] += tables["recoveries"]["host"].size > 0
    seen["lost"] += int(tables["ledger"]["lost"].sum()) > 0
    seen[trimming.reading] += 1
    seen["slices"] += int(tables["buffers"]["slices"].max(initial=0)) > 1
    seen["more than 16 slices"] += int(tables["buffers"]["slices"].max(initial=0)) > 16


def test_both_planes_give_equal_rows() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10):
        assert on_both(seed, seen) == [], seed
    assert min(seen[what] for what in ("acks", "recovered", "safe", "literal", "slices")) > 0, seen


def test_both_planes_give_equal_rows_where_outputs_are_trimmed_by_age() -> None:
    assert [seed for seed in range(8) if on_both(seed, make=history_job)] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed, seen) == [], seed
        assert on_both(seed, make=history_job) == [], seed
    assert min(seen[what] for what in ("lost", "more than 16 slices")) > 0, seen


# -- planes that are broken on purpose: the comparison has to notice each


def _without_the_checkpoint(patch: Patch) -> None:
    """An L1-ACK comes before the checkpoint that covers its slice."""
    confirms = TrimmingProtocol._is_confirmed

    def broken(self: TrimmingProtocol, partition: Partition, mark: Mark, level: int) -> bool:
        saved = partition.checkpoint
        partition.checkpoint = SimpleNamespace(count=mark.applied)  # type: ignore[assignment]
        try:
            return confirms(self, partition, mark, level)
        finally:
            partition.checkpoint = saved

    patch.setattr(TrimmingProtocol, "_is_confirmed", broken)


def _before_downstream(patch: Patch) -> None:
    """An L1-ACK does not wait for acks from downstream."""
    patch.setattr(
        TrimmingProtocol,
        "_is_confirmed",
        lambda self, partition, mark, level: (
            not partition.operator.description.stateful
            or mark.applied <= (partition.checkpoint.count if partition.checkpoint else 0)
        ),
    )


def _acks_outlive_their_receiver(patch: Patch) -> None:
    """What an incarnation that is over has acknowledged still counts."""
    patch.setattr(TrimmingProtocol, "forget_acks_of", lambda self, receiver: None)


def _stateless_tasks_begin_empty(patch: Patch) -> None:
    """A task without a state processes again what was trimmed, if another task has it."""
    patch.setattr(TrimmingProtocol, "state_to_restore", lambda self, partition: partition.checkpoint)


def _in_another_order(patch: Patch) -> None:
    """A task sends its acks to the last task upstream first."""
    patch.setattr(sim.plain.trimming, "sorted", lambda goals: sorted(goals, reverse=True), raising=False)


def _all_in_one(patch: Patch) -> None:
    """Slices go on after a restore as if nothing had happened."""
    patch.setattr(TrimmingProtocol, "begin_again", lambda self, partition: None)


def _outputs_in_literal_checkpoints(patch: Patch) -> None:
    """Literal checkpoints have the outputs, too."""
    snapshot = Partition.snapshot
    patch.setattr(Partition, "snapshot", lambda self, host, life, outputs=True: snapshot(self, host, life))


BROKEN = (
    _without_the_checkpoint,
    _before_downstream,
    _acks_outlive_their_receiver,
    _stateless_tasks_begin_empty,
    _in_another_order,
    _all_in_one,
    _outputs_in_literal_checkpoints,
)
SHOWN_BY = {_acks_outlive_their_receiver: 109, _in_another_order: 8}
"""The first seeds that show these faults: an ack of an old incarnation seldom makes a difference."""


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__.strip("_"))
def test_a_broken_plane_is_noticed(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    assert any(on_both(seed) for seed in (SHOWN_BY.get(broken, 0), *range(60)))
