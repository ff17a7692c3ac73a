"""Ids are forgotten beside post-dated outputs, up to what waits or is in a snapshot, and no row tells.

Oracles: the same run in which nothing is forgotten, which other tests compare with the plain plane; the audit of each
id beside that of sums; a count of tuples that came although their ids had been forgotten, which ends a run; the lengths
of the arrays. Planes that forget too early are caught.
"""

from __future__ import annotations

from typing import Any

import pytest
from scripts import unchecked
from seeds import parts
from test_audit import Both, seen
from test_forgetting import Forgetting, Keeping, ran
from test_planes import differences
from test_post_dated_checkpoints import FAMILIES, closing, drawn
from test_post_dated_checkpoints import job as post_dated_job

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop import audit
from sim.kernel.event_loop.buffers import UNPINNED
from sim.kernel.event_loop.codes import GONE, POST_DATED
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plane_values import Key

S = 10**9
__all__ = ["seen"]  # a fixture


def busy(crash_ms: float | None = 1200, duration: str = "4 s", **changes: Any) -> dict[str, Any]:
    """A source with 400 tuples per second, an operator whose outputs leave after 400 ms, and a sink."""
    raw = post_dated_job(crash_ms, **changes)
    raw["duration"] = duration
    raw["workload"]["src"]["rate"] = "400 /s"
    return raw


def slow(crash_ms: float | None = 2900) -> dict[str, Any]:
    """Four tuples per second with thirty outputs each, which are born between two of them; as many checkpoints."""
    raw = post_dated_job(crash_ms)
    raw["duration"] = "6 s"
    raw["workload"]["src"]["rate"] = "4 /s"
    raw["operators"]["op"] |= {"postpone": {"distribution": "uniform", "low": "0 s", "high": "1 s"}, "selectivity": 30}
    raw["fault_tolerance"]["interval"] = "300 ms"
    return raw


def ran_with_steps(raw: dict[str, Any], plane: type[CompiledPlane]) -> tuple[RunRecords, int]:
    """The rows of a run, and how many ids it had forgotten at its end. The plane may forget every 20 ms, too."""
    made = unchecked(raw)
    control = Control(RunPlan.of(made, RunInputs(steps=optimised_steps(made, {})), 0), plane)
    control.start()
    end = round(made.duration_s * S)
    for at in (*range(0, end, S // 50), end):
        control.run(at)
    assert isinstance(control.plane, CompiledPlane)
    return records(control, end), int(control.plane.state.partitions["base"].sum())


def forgets_like(raw: dict[str, Any]) -> int:
    """Check that no row tells whether ids are forgotten; return how many were."""
    (kept, nothing), (rows, forgotten) = (ran_with_steps(raw, one) for one in (Keeping, Forgetting))
    assert nothing == 0
    assert differences(kept, rows) == []
    return forgotten


@pytest.mark.parametrize("crash_ms", [700, 1200, 1990, 3800])
def test_no_row_changes_where_a_host_dies(crash_ms: int) -> None:
    assert forgets_like(busy(crash_ms)) > 500
    raw = closing(crash_ms)
    raw["workload"]["src"]["rate"] = "400 /s"
    assert forgets_like(raw) > 200


@pytest.mark.parametrize("crash_ms", [None, 650, 2900, 3250])
def test_no_row_changes_where_outputs_are_born_while_sources_wait(crash_ms: int | None) -> None:
    raw = slow(crash_ms)
    forgets_like(raw)
    assert differences(*(ran_with_steps(raw, one)[0] for one in (CompiledPlane, Forgetting))) == []


@pytest.mark.parametrize("seeds", parts(4, 100))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_row_changes_in_random_jobs(family: str, seeds: range) -> None:
    for seed in seeds:
        forgets_like(drawn(family, 300 + seed))


@pytest.mark.parametrize("crash_ms", [1200, 3990])
def test_sums_agree_with_ids_beside_forgotten_ones(crash_ms: int, seen: dict[str, int]) -> None:
    for raw in (busy(crash_ms), closing(crash_ms), by_input(crash_ms)):
        ran(unchecked(raw), Both)
    assert seen["told"] == (3 if crash_ms == 1200 else 0)  # in the second run a host is down at its end


def by_input(crash_ms: float) -> dict[str, Any]:
    """Tuples of one source make an output, those of another none."""
    raw = busy(crash_ms)
    raw["operators"]["more"] = {"kind": "source"}
    raw["workload"]["more"] = raw["workload"]["src"] | {"rate": "70 /s"}
    raw["operators"]["op"] |= {"inputs": {"src": "key", "more": "key"}, "selectivity": {"src": 1.5, "more": 0.0}}
    raw["placement"]["tasks"]["more-0"] = "h-0"
    return raw


def test_senders_tell_what_follows_from_what_is_under_way() -> None:
    """In an audit by sums of an operator with a selectivity for each input."""
    raw = by_input(1200)
    raw["operators"]["op"]["service"] = {"distribution": "deterministic", "value": "3 ms"}  # a queue is left
    plane = at_the_end(raw)
    assert plane.state.partitions["base"].sum() > 500
    assert audit.by_sum_of_states(plane.state) is not None
    plane.state.tasks["operator"][:] = plane.state.tasks["operator"][::-1].copy()
    assert audit.by_sum_of_states(plane.state) is None


def at_the_end(raw: dict[str, Any]) -> Forgetting:
    made = unchecked(raw)
    control = Control(RunPlan.of(made, RunInputs(), 0), Forgetting)
    control.start()
    control.run(round(made.duration_s * S))
    assert isinstance(control.plane, Forgetting)
    return control.plane


def test_the_audit_knows_when_an_output_is_born() -> None:
    """Its tuple is older, and nothing of that is anywhere: the output may still wait."""
    raw = busy()
    raw["operators"]["op"]["postpone"] = {"distribution": "uniform", "low": "0 s", "high": "2 s"}
    raw["fault_tolerance"]["interval"] = "200 ms"
    plane = at_the_end(raw)

    def by_id() -> list[list[int]]:
        streams, stored = plane._arrival_streams(), plane._saved_outputs.all_stored()
        found = audit._by_id(plane.state, streams, [], [], None, None, None, stored)
        return [one.tolist() for one in found]

    right = by_id()
    assert [sum(one) for one in right[1:]] == [0, 0]
    plane.state.postponements["a"] = plane.state.postponements["b"] = 0
    assert by_id() != right


# -- memory


@pytest.mark.parametrize("raw", [busy(), by_input(1200)], ids=["one input", "two inputs"])
def test_memory_does_not_grow_with_the_time_of_the_run(raw: dict[str, Any]) -> None:
    lengths = []
    for seconds in (10, 40, 160):
        made = unchecked(raw | {"duration": f"{seconds} s"})
        control = Control(RunPlan.of(made, RunInputs(), 0), CompiledPlane)
        control.start()
        control.run(seconds * S)
        assert isinstance(control.plane, CompiledPlane)
        s = control.plane.state
        names = ("log", "log_next", "positions", "nodes", "visits", "pairs", "open_table")
        lengths.append([len(getattr(s, name)) for name in names])
        assert not any(lost or twice for _, _, lost, twice in control.plane.ledger())
    assert lengths[0] == lengths[1] == lengths[2]


# -- planes that forget too early


class ForgetsSnapshots(Forgetting):
    """Forgets what only the outputs in snapshots keep from being over."""

    def advance(self, limit: Key) -> bool:
        self._saved_outputs.pin = lambda: None  # type: ignore[method-assign]
        assert self.state.ids["saved"] == UNPINNED
        return super().advance(limit)


class ForgetsWhatWaits(Forgetting):
    """Takes outputs that wait for gone while it looks what is there."""

    def advance(self, limit: Key) -> bool:
        kinds = self.state.visits["kind"]
        waiting = kinds == POST_DATED
        kinds[waiting] = GONE
        self._forget()
        kinds[waiting] = POST_DATED
        self.state.options["forgets_ids"] = 0
        told = super().advance(limit)
        self.state.options["forgets_ids"] = 1
        return told


@pytest.mark.parametrize(
    ("broken", "tolerance"),
    [
        (ForgetsSnapshots, {}),
        (ForgetsWhatWaits, {"fault_tolerance": {"method": "none"}}),  # with checkpoints snapshots have what waits
    ],
)
def test_a_plane_that_forgets_too_early_is_caught(broken: type[Forgetting], tolerance: dict[str, Any]) -> None:
    raw = slow() | tolerance
    forgets_like(raw)
    with pytest.raises(RuntimeError, match="tuples were sent again whose ids had been forgotten"):
        ran_with_steps(raw, broken)
