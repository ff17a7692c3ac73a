"""Runs whose checkpoints barriers take, which the scan has in between: their rows are those of the event loop alone."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from test_barriers import job as by_hand
from test_barriers import with_barriers
from test_cluster_view import dies
from test_planes import differences, noticed

from models.records.tables import BOTH, EVENT_LOOP, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.units import to_ns
from scenarios.files.starter import FlinkJob
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel import choice
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.codes import DEPART
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over import at_rest, barriers, sources, to_loop, to_scan
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.barriers import TurnsBetweenBarriers
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.hand_over.sources import Kept
from sim.kernel.hand_over.spells import failures, spells
from sim.kernel.needs import needs_of
from sim.plain.plane import PlainPlane
from sim.plane_values import NotCovered

PLANES: list[TurnsBetweenBarriers] = []


class Eager(TurnsBetweenBarriers):
    """Hands the run over whenever it can, whether that is worth it or not."""

    def _is_worth_it(self, at_ns: int, until_ns: int, tuples: int) -> bool:
        return until_ns > at_ns

    def _idle_ns(self, at_ns: int) -> int:
        return at_ns + 1

    def _is_stored_soon(self, at_ns: int) -> bool:
        return False


def cut(
    patience_ns: int, turns: Iterable[tuple[int, int]] = (), kind: type[TurnsBetweenBarriers] = Eager
) -> PlaneFactory:
    """The plane in turns; the event loop has the run at these times, too."""

    def factory(plan: RunPlan, *given: Any) -> TwoKernels:
        both = sorted([*((one.begin, one.end) for one in spells(plan)), *turns])
        instants = [one.at_ns for one in failures(plan)]
        PLANES[:] = [kind(plan, *given, both, patience_ns, instants)]
        return PLANES[0]

    return factory


STATES: tuple[dict[str, Any], ...] = (
    {"model": "per-key", "bytes": "100 B"},
    {"model": "per-key", "bytes": "33.3 B"},
    {"model": "per-tuple", "bytes": "50 B"},
    {"model": "fixed", "bytes": "2 kB"},
    {"model": "fixed", "bytes": "20 kB", "change": "33.3 B"},
    {"model": "fixed", "bytes": "123456 B", "change": "150 B"},
)


def random_job(draw: Random) -> dict[str, Any]:
    """A job with barriers that the scan can do in between: several operators, states, failures, late checkpoints."""
    raw = with_barriers(draw)
    raw["duration"] = draw.choice(["3 s", "6 s", "9 s"])
    raw["hosts"]["h"].pop("network", None)
    raw["hosts"]["h"]["cpu"] = "dedicated"
    raw["hosts"]["h"]["count"] += draw.choice([0, 0, 1, 2])
    raw["network"]["latency"] = draw.choice(["1 ms", "1 ms", "5 ms", "50 ms", "400 ms"])
    source = raw["workload"]["src"]
    source["rate"] = f"{draw.choice([5, 40, 150, 300])} /s"
    if draw.random() < 0.3:
        source |= {"arrivals": "deterministic", "batch": draw.choice([1, 20])}
    for operator in raw["operators"].values():
        if "state" in operator:
            operator["state"] = draw.choice(STATES)
    tolerance = raw["fault_tolerance"]
    tolerance |= {
        "guarantee": "exactly-once",
        "interval": draw.choice(["100 ms", "300 ms", "700 ms", "1 s", "2 s"]),
        "kind": draw.choice(["full", "incremental", "incremental"]),
        "remote": draw.choice(["100 MB/s", "1 MB/s", "100 kB/s", "20 kB/s"]),
        "snapshots": draw.choice([{}, {"mode": "asynchronous", "pause": "1 ms"}, {"copy": "1 MB/s"}]),
    }
    tolerance["barriers"] |= {
        "min_pause": draw.choice(["0 s", "100 ms"]),
        "timeout": draw.choice(["10 s", "400 ms", "120 ms", "60 ms"]),
    }
    if draw.random() < 0.2:
        tolerance["barriers"]["tolerated_failures"] = draw.choice([0, 2])
    if draw.random() < 0.3 and tolerance["kind"] == "incremental":
        tolerance["compaction"] = {"files": 2, "level": "3 kB"}
    if draw.random() < 0.5:
        raw["events"] = dict([*raw["events"].items()][:1])
    return raw


def share(draw: Random, raw: dict[str, Any]) -> None:
    """Have tasks write to the store at once, or read from it, in some jobs; other draws stay as they are."""
    for what in ("uploads", "restores"):
        raw["fault_tolerance"][what] = draw.choice(["in-turn", "shared"])


def overtake(draw: Random, raw: dict[str, Any]) -> None:
    """Let barriers overtake in some jobs, at once or after a while; what an operator gets has one size then."""
    if draw.random() < 0.5:
        for operator in raw["operators"].values():
            if operator["kind"] not in ("source", "sink"):
                operator["output"] = operator.get("output", {}) | {"tuple": "64 B"}
        raw["fault_tolerance"]["barriers"] |= {
            "unaligned": True,
            "alignment_timeout": draw.choice(["0 s", "0 s", "20 ms", "200 ms"]),
        }


def random_turns(draw: Random, raw: dict[str, Any]) -> list[tuple[int, int]]:
    """Return instants at which the event loop takes over without a reason, or none."""
    end = to_ns(unchecked(raw).duration_s)
    instants = sorted({draw.randrange(1, end) for _ in range(2 * draw.choice([0, 0, 2, 10]))})
    return list(zip(instants[::2], instants[1::2], strict=False))


def in_turns(draw: Random, raw: dict[str, Any], seen: Counter[str]) -> RunRecords | None:
    """Return the records of the job with both kernels in random turns, or None where the scan cannot have it."""
    patience_ns, kind = draw.choice([1_000_000, 10_000_000, 77_777_777]), draw.choice([Eager, TurnsBetweenBarriers])
    turns = cut(patience_ns, random_turns(draw, raw), kind)
    try:
        found = simulate(unchecked(raw), plane=turns)
    except NotCovered:
        seen["not covered"] += 1
        return None
    seen["compared"] += 1
    seen["in turns"] += len(PLANES[0].hand_overs) > 2
    seen["mostly in the scan"] += PLANES[0].scan_share() > 0.3
    return found


def compared(seed: int, seen: Counter[str] | None = None, reference: PlaneFactory = CompiledPlane) -> list[str]:
    """What differs between the event loop alone and both kernels in turns, in the job of that seed."""
    draw, seen = Random(f"turns at barriers {seed}"), Counter() if seen is None else seen
    raw = random_job(draw)
    share(Random(f"shares of the store {seed}"), raw)
    overtake(Random(f"in-flight data {seed}"), raw)
    plan = RunPlan.of(unchecked(raw), RunInputs(), 0)
    ids = plan.keeps_ids or not plan.scenario.fault_tolerance.unaligned
    if not ids or not all(need.at_times for need in needs_of(plan)):
        seen["refused"] += 1
        return []
    found = in_turns(draw, raw, seen)
    if found is None:
        return []
    seen["store is shared"] += plan.scenario.fault_tolerance.shares_uploads and PLANES[0].scan_share() > 0.1
    seen["barriers overtake"] += plan.scenario.fault_tolerance.unaligned and PLANES[0].scan_share() > 0.1
    seen["data in flight"] += (
        bool(found.tables["job_checkpoints"]["in_flight_bytes"].any()) and PLANES[0].scan_share() > 0.1
    )
    seen["failed"] += found.tables["failures"]["host"].size > 0
    seen.update(f"checkpoint {one}" for one in found.tables["job_checkpoints"]["outcome"].tolist())
    return differences(simulate(unchecked(raw), plane=reference), found)


def test_rows_do_not_depend_on_turns() -> None:
    seen = Counter[str]()
    for seed in range(40):
        assert compared(seed, seen) == [], seed
    assert seen["in turns"] > 7, seen
    assert seen["mostly in the scan"] > 5, seen
    assert seen["store is shared"] > 3, seen
    assert seen["data in flight"] > 2, seen
    assert min(seen[f"checkpoint {one}"] for one in ("completed", "expired", "aborted")) > 5, seen


def test_rows_are_those_of_the_plain_plane() -> None:
    for seed in range(40, 52):
        assert compared(seed, reference=PlainPlane) == [], seed


def given_up() -> dict[str, Any]:
    """A job whose second checkpoint expires, as a burst of the slow source keeps its barrier from the sink.

    Keys were counted by then for the snapshot that nobody goes back to: the third one has them as well.
    """
    raw = by_hand({"timeout": "200 ms"}, events={"dies": dies(1, 3900)})
    raw["operators"] |= {
        "late": raw["operators"]["late"],
        "sum": raw["operators"]["sum"] | {"inputs": {"quick": "key"}, "state": {"model": "per-key", "bytes": "1 kB"}},
        "out": {"kind": "sink", "inputs": {"sum": "forward", "late": "forward"}},
    }
    burst = {
        "steps": [{"at": "0 s", "rate": "5 /s"}, {"at": "1900 ms", "rate": "100 /s"}, {"at": "2 s", "rate": "5 /s"}]
    }
    raw["workload"]["slow"] = {"arrivals": "deterministic", "rate": burst}
    raw["workload"]["fast"]["rate"] = "60 /s"
    raw["fault_tolerance"]["kind"] = "incremental"
    return raw


def differs_by_hand(raw: dict[str, Any], patience_ns: int = 5_000_000) -> list[str]:
    found = simulate(unchecked(raw), plane=cut(patience_ns))
    return differences(simulate(unchecked(raw), plane=CompiledPlane), found)


def test_what_changed_before_a_checkpoint_that_was_given_up_is_in_the_next_one() -> None:
    assert differs_by_hand(given_up()) == []
    found = simulate(unchecked(given_up()), plane=cut(5_000_000))
    assert found.tables["job_checkpoints"]["outcome"].tolist() == ["completed", "expired", "completed"]
    begun, ended = 2020, 3030  # ms; the scan has the run between the one that expires and the next
    assert sum(begun < at / 1e6 < ended for at in PLANES[0].hand_overs) >= 1
    assert PLANES[0].scan_share() > 0.5


def overtaken() -> dict[str, Any]:
    """A job whose barriers pass the growing queue of `late`; the other source sends smaller tuples."""
    raw = by_hand({"unaligned": True}, events={"dies": dies(1, 3900)})
    raw["workload"]["slow"]["rate"] = "50 /s"
    raw["workload"]["fast"]["tuple"] = "70 B"
    raw["operators"]["quick"]["output"] = {"tuple": "100 B"}
    return raw


def test_the_scan_has_the_run_between_barriers_that_overtake() -> None:
    assert differs_by_hand(overtaken()) == []
    found = simulate(unchecked(overtaken()), plane=cut(5_000_000))
    assert PLANES[0].scan_share() > 0.5
    # Of 50 records that have come to `late` 25 are done when the first barrier passes, and one is at the sum.
    assert found.tables["job_checkpoints"]["in_flight_bytes"].tolist()[0] == 26 * 100


def test_a_barrier_overtakes_tuples_of_one_size() -> None:
    raw = overtaken()
    del raw["operators"]["quick"]["output"]
    plan = RunPlan.of(unchecked(raw), RunInputs(), 0)
    why = "barriers overtake, and sum gets tuples of several sizes"
    assert [need.why for need in needs_of(plan) if not need.at_times] == [why]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign(part: int) -> None:
    for seed in range(100 + part * 500, 600 + part * 500):
        assert compared(seed) == [], seed


def test_snapshots_are_stored_while_the_scan_has_the_run() -> None:
    raw = by_hand(events={"dies": dies(1, 3900)})
    found = simulate(unchecked(raw), plane=cut(1_000_000))
    assert differences(simulate(unchecked(raw), plane=CompiledPlane), found) == []
    # It has it at first, and after every second hand-over.
    stored, places = found.tables["checkpoints"]["stored_ns"], np.array(PLANES[0].hand_overs)
    assert (np.searchsorted(places, stored[stored > 0]) % 2 == 0).sum() >= 2
    assert found.tables["samples"]["buffered"].max() == 19  # of what came at 50, 100, ... 950 ms


def test_the_event_loop_keeps_no_tuples_while_the_scan_has_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[list[int]] = []
    to_scan = TurnsBetweenBarriers._to_scan

    def noted(self: TurnsBetweenBarriers, at_ns: int) -> None:
        before = len(self.state.nodes)
        to_scan(self, at_ns)
        if self._scan is not None:
            state = self.state
            lengths.append([before, *map(len, (state.visits, state.nodes, state.log, state.log_next))])

    monkeypatch.setattr(TurnsBetweenBarriers, "_to_scan", noted)
    simulate(unchecked(by_hand(events={"dies": dies(1, 3900)})), plane=cut(1_000_000))
    assert len(lengths) >= 2
    assert all(before > 0 == sum(after) for before, *after in lengths)


# -- which runs are made in turns


def large(**changes: Any) -> dict[str, Any]:
    """Ten minutes of what `holdfast init flink` writes for 20,000 records/s and 40 GB, each record by itself."""
    raw = tomllib.loads(FlinkJob(20_000.0, 0.5, 40e9, 50e6, 6, 4, 60.0).text)
    raw |= {"duration": "10 min", "replications": 1, "resolution": 1, "recording": {"detail": "histograms"}}
    raw["events"]["kill"]["at"] = "5 min"
    return {**raw, **changes}


def chosen(raw: dict[str, Any]) -> str:
    return kernel_for(RunPlan.of(scenario_from(raw), RunInputs(), 0)).name


KILL = {"kind": "host-failure", "at": "5 min", "host": "taskmanager-0"}
ALONE: dict[str, dict[str, Any]] = {
    "a short run": {"duration": "5 min", "events": {"kill": KILL | {"at": "4 min"}}},
    "several checkpoints at a time": {"barriers": {"concurrent": 2}},
    "at least once": {"guarantee": "at-least-once"},
    "local recovery": {"local_recovery": {}},
    "one failure after the other": {"events": {f"kill-{k}": KILL | {"at": f"{k} min"} for k in range(1, 9)}},
}


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_large_job_is_made_in_turns(unaligned: bool) -> None:
    raw = large()
    raw["fault_tolerance"]["barriers"] = {"unaligned": unaligned}
    assert chosen(raw) == BOTH
    assert unaligned or chosen(large(events={})) == BOTH


@pytest.mark.parametrize("what", ALONE)
def test_the_event_loop_has_other_jobs_alone(what: str) -> None:
    raw, changes = large(), dict(ALONE[what])
    for name in ("duration", "events"):
        if name in changes:
            raw[name] = changes.pop(name)
    raw["fault_tolerance"] |= changes
    assert chosen(raw) == EVENT_LOOP


def test_a_run_in_turns_has_the_rows_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "WORTH", 0.0)
    raw = large(duration="4 min")
    raw["events"]["kill"]["at"] = "90 s"
    raw["events"]["kill"].pop("delay")
    raw["workload"]["events"]["rate"] = "200 /s"
    raw["operators"]["state"]["service"]["mean"] = "60 ms"
    raw["operators"]["state"]["state"] |= {"bytes": "10 MB"}
    raw["fault_tolerance"] |= {"interval": "10 s"}
    raw["detector"] = {"heartbeat": "1 s", "timeout": "5 s"}
    made = scenario_from(raw)
    found: RunRecords = simulate(made)
    assert found.kernel is not None
    assert found.kernel.name == BOTH
    assert re.search(r"the scan has the run in between: [5-9][0-9][.0-9]* % of the steps", found.kernel.why)
    assert differences(simulate(made, plane=CompiledPlane), found) == []


# -- rules that are broken on purpose


def only_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    """Keys that were changed before the snapshot of a checkpoint that was given up are not in the next increment."""
    patch.setattr(to_scan._Filling, "_first_epoch", lambda filling: filling.loop.partitions["epoch"])


def no_task_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TurnsBetweenBarriers, "_busy_until_ns", lambda plane, scan: 1 << 62)


def barriers_cut_nothing(patch: pytest.MonkeyPatch) -> None:
    """All that sources keep stays when the checkpoint is complete whose snapshots were on their way."""
    patch.setattr(Kept, "barrier_at", lambda kept, task: None)


def checkpoints_forget_all(patch: pytest.MonkeyPatch) -> None:
    """What came behind the barrier is forgotten, too."""
    patch.setattr(Kept, "snapshot_of", lambda kept, partitions: kept._saved.fill(0))


def what_is_not_counted_was_not_applied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sources, "_counted", lambda loop: np.ones(loop.operators.shape[0], np.bool_))


def sinks_get_nothing_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TurnsBetweenBarriers, "_hindered", lambda plane, rest: None)


def older_checkpoints_are_as_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TurnsBetweenBarriers, "_check_goes_back", lambda plane: None)


def snapshots_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(barriers, "stores", lambda events, kinds: events[:0])


def barriers_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoopAtRest, "_has_barriers", lambda rest, partitions: np.zeros(1, np.bool_))


def uploads_that_share_the_store_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(at_rest, "_KNOWN_EVENTS", (*at_rest._KNOWN_EVENTS, DEPART))


def sources_forget_no_position(patch: pytest.MonkeyPatch) -> None:
    """A source does not know how far it was when the barrier passed that overtakes."""
    number = Kept._number

    def forgotten(kept: Kept, *given: Any) -> None:
        number(kept, *given)
        kept._loop.pairs["mark"] = 0

    patch.setattr(Kept, "_number", forgotten)


def what_has_come_has_no_sender(patch: pytest.MonkeyPatch) -> None:
    """In-flight data has the size of what the first operator sends, whoever has sent it."""
    patch.setattr(to_loop._Filling, "_origins", lambda filling, partitions: np.zeros(partitions.size, np.int64))


def barriers_that_wait_for_a_service_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoopAtRest, "_have_begun_to_overtake", lambda rest, tasks: np.zeros(tasks.size, np.bool_))


BROKEN = (
    only_the_last_epoch,
    no_task_is_waited_for,
    barriers_cut_nothing,
    checkpoints_forget_all,
    what_is_not_counted_was_not_applied,
    sinks_get_nothing_again,
    older_checkpoints_are_as_good,
    snapshots_are_lost,
    barriers_are_lost,
    uploads_that_share_the_store_are_lost,
    sources_forget_no_position,
    what_has_come_has_no_sender,
    barriers_that_wait_for_a_service_are_lost,
)


@pytest.mark.parametrize("mutant", BROKEN)
def test_a_wrong_rule_has_other_rows(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    first = (36, 43, 138, 50, 55, 9, 5)  # some are hard to find
    by_hand_ = [given_up(), overtaken()]
    assert noticed(lambda k: differs_by_hand(by_hand_[k]), range(2)) or noticed(compared, (*first, *range(500)))
