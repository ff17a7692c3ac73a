"""Post-dated outputs and open keys in checkpoints of the job, which hosts that die have it go back to.

Oracles: instants and bytes by hand; the outputs of the same job in which nothing dies; the history of each partition
(`lab.histories`); `sim.plain`, by equality of all columns. No tolerance. The laboratory breaks rules on purpose (kind
`post-dated`); those of the compiled plane are broken here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from crashing_steps import NOTICED
from crashing_steps import job as crashing_job
from lab.histories import Histories
from scripts import unchecked
from seeds import parts
from small_jobs import NS
from test_chains import with_guarantee
from test_concurrent_checkpoints import concurrent_job
from test_crashes_in_steps import dies, faults_of, phases, ran, steps, undisturbed
from test_job_scaling import with_rescales
from test_planes import differences
from test_postponing import LAWS, PLANES
from test_recovery import check_job
from test_source_reading import with_readings

from models.records.tables import EVENT_LOOP, NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults, not_simulated
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.saved_outputs import Saved, SavedOutputs
from sim.kernel.needs import needs_of
from sim.plain.open_keys import OpenKeys
from sim.plain.plane import PlainPlane

MS = 1_000_000
ENTRY = 32
CLOSES = {"model": "per-tuple", "bytes": f"{ENTRY} B", "until": "output"}
Patch = pytest.MonkeyPatch
Make = Callable[[Random], dict[str, Any]]
BOTH = (PlainPlane, CompiledPlane)


def rows(raw: dict[str, Any], plane: PlaneFactory = PlainPlane) -> RunRecords:
    """The rows of a job; hosts of a random one may die after its end."""
    made = unchecked(raw)
    return simulate(made, RunInputs(steps=optimised_steps(made, {})), plane=plane)


# -- by hand: a source, one key group, a sink, each on a host of its own; outputs of 70 bytes leave after 400 ms

LATENCY, SERVICE, POSTPONED = 1 * MS, MS // 2, 400 * MS


def job(crash_ms: float | None = 1200, **changes: Any) -> dict[str, Any]:
    """50 tuples per second; a checkpoint at each second, which is complete some ms later."""
    crash = {"kind": "host-failure", "at": f"{crash_ms} ms", "host": "h-1", "repair": "10 ms"}
    return {
        "duration": "2.5 s",
        "workload": {
            "src": {"rate": "50 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 1}}
        },
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "service": {"distribution": "deterministic", "value": f"{SERVICE} ns"},
                "state": {"model": "per-tuple", "bytes": f"{ENTRY} B"},
                "postpone": {"distribution": "deterministic", "value": f"{POSTPONED} ns"},
                "output": {"tuple": "70 B"},
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 3}},
        "placement": {"tasks": {"src-0": "h-0", "op-0": "h-1", "out-0": "h-2"}},
        "network": {"latency": f"{LATENCY} ns"},
        "detector": NOTICED,
        "recovery": {"restart": {"distribution": "deterministic", "value": "70 ms"}},
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "remote": "100 MB/s",
            "interval": "1 s",
            "kind": "full",
            "barriers": {},
        },
        "events": {} if crash_ms is None else {"dies": crash},
    } | changes


def restored_ns(found: RunRecords) -> int:
    """When the key group was live again."""
    recoveries = found.tables["recoveries"]
    (at,) = recoveries["restored_ns"][recoveries["operator"] == 1].tolist()
    return int(at)


def delivered(found: RunRecords) -> dict[int, int]:
    """When what was born at an instant came to the sink, each once."""
    deliveries = found.tables["deliveries"]
    born = deliveries["created_ns"].tolist()
    assert len({*born}) == len(born)
    return dict(zip(born, deliveries["delivered_ns"].tolist(), strict=True))


def applied_ns(raw: dict[str, Any]) -> np.ndarray:
    """When tuples were applied if nothing dies."""
    visits = rows(raw | {"events": {}}).tables["visits"]
    return visits["end_ns"][(visits["operator"] == 1) & (visits["end_ns"] != NEVER)]


def test_the_jobs_are_accepted_and_have_the_event_loop() -> None:
    made = unchecked(job())
    plan = RunPlan.of(made, RunInputs(), 0)
    assert [*faults(made), *not_simulated(made)] == []
    assert kernel_for(plan).name == EVENT_LOOP
    assert "op postpones its outputs" in [need.why for need in needs_of(plan)]


@PLANES
def test_what_was_due_meanwhile_leaves_at_the_restore_and_the_rest_at_its_time(plane: PlaneFactory) -> None:
    found = rows(job(), plane)
    snapshot, restored = int(found.tables["checkpoints"]["taken_ns"][0]), restored_ns(found)
    assert 1_000 * MS < snapshot < 1_010 * MS
    assert 1_200 * MS < restored < 1_400 * MS
    came, applied = delivered(found), applied_ns(job())
    born = applied - SERVICE - LATENCY + POSTPONED
    saved = born[(applied <= snapshot) & (born > snapshot)]
    crash = 1_200 * MS
    had_left, was_due, to_come = saved[saved < crash], saved[saved >= crash], saved[saved > restored]
    was_due = was_due[was_due <= restored]
    assert min(map(len, (had_left, was_due, to_come))) > 2
    assert [came[one] for one in had_left.tolist()] == (had_left + LATENCY).tolist()
    assert {came[one] for one in was_due.tolist()} == {restored + LATENCY}
    assert [came[one] for one in to_come.tolist()] == (to_come + LATENCY).tolist()
    # The sink is sent once more what it has got since the checkpoint, and nothing else.
    dropped = found.tables["dropped"]
    assert (dropped["reason"] == "duplicate").sum() == had_left.size
    ledger = found.tables["ledger"]
    assert ledger["lost"].sum() == ledger["duplicated"].sum() == 0


@PLANES
def test_without_a_checkpoint_all_comes_again(plane: PlaneFactory) -> None:
    found, undisturbed_ = (rows(job(at), plane) for at in (700, None))
    restored, came, right = restored_ns(found), delivered(found), delivered(undisturbed_)
    assert found.tables["checkpoints"]["taken_ns"].min() > restored
    assert came.keys() == right.keys()
    late = [one for one in came if came[one] != right[one]]
    assert min(late) > 700 * MS - LATENCY
    assert max(late) <= restored + 100 * MS  # the backlog is served by then
    assert (found.tables["dropped"]["reason"] == "duplicate").sum() > 10


@PLANES
def test_a_snapshot_has_the_outputs_that_wait(plane: PlaneFactory) -> None:
    found, applied = rows(job(None), plane), applied_ns(job())
    table = found.tables["checkpoints"]
    for taken, size in zip(table["taken_ns"].tolist(), table["bytes"].tolist(), strict=True):
        here = applied[applied <= taken]
        waiting = here[here - SERVICE - LATENCY + POSTPONED > taken]
        assert waiting.size == 20
        assert size == ENTRY * here.size + 70 * waiting.size


@PLANES
def test_an_increment_has_the_outputs_that_were_made_since(plane: PlaneFactory) -> None:
    raw = job(1_900)
    raw["fault_tolerance"] |= {"kind": "incremental", "interval": "250 ms"}
    found, applied = rows(raw, plane), applied_ns(raw)
    table = found.tables["checkpoints"]
    before = 0
    for taken, size, full in zip(*(table[one].tolist() for one in ("taken_ns", "bytes", "full")), strict=True):
        if taken > 1_900 * MS:
            break
        here = applied[(applied > before) & (applied <= taken)]
        waiting = here[here - SERVICE - LATENCY + POSTPONED > taken]
        assert full == (not before)
        assert size == ENTRY * here.size + 70 * waiting.size
        before = taken
    assert before > 1_700 * MS
    assert 0 < waiting.size < 20


def test_a_restored_state_is_saved_as_it_is() -> None:
    """The checkpoints after a restore have the outputs that have waited since before the crash, as they were made."""
    raw = job(1_200)
    raw["operators"]["op"]["postpone"] = {"distribution": "uniform", "low": "0 s", "high": "2 s"}
    raw["fault_tolerance"]["interval"] = "200 ms"
    raw["events"]["again"] = raw["events"]["dies"] | {"at": "1700 ms"}
    raw["events"]["soon"] = raw["events"]["dies"] | {"at": "1800 ms"}
    raw["duration"] = "5 s"
    plain, compiled = (rows(raw, plane) for plane in BOTH)
    assert differences(plain, compiled) == []
    assert (plain.tables["recoveries"]["operator"] == 1).sum() == 3
    right = delivered(rows(raw | {"events": {}}))
    came = delivered(plain)
    assert {one for one in came if one < 4 * NS} == {one for one in right if one < 4 * NS}


# -- keys that close


def closing(crash_ms: float | None = 1200, **changes: Any) -> dict[str, Any]:
    """Sixty keys, each tuple of which makes an output with a probability of one half."""
    raw = job(crash_ms, **changes)
    raw["duration"] = "4 s"
    raw["workload"]["src"] |= {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 60}}
    raw["operators"]["op"] |= {"state": CLOSES, "key_groups": 4, "parallelism": 2, "selectivity": 0.5}
    raw["operators"]["op"]["postpone"] = {"distribution": "exponential", "mean": "100 ms"}
    raw["placement"]["tasks"]["op-1"] = "h-0"
    raw["fault_tolerance"]["interval"] = "300 ms"
    return raw | {"recording": {"memory": True}}


def followed(raw: dict[str, Any], every_ms: int = 50) -> tuple[Histories, list[str]]:
    """The histories of a run, and what was wrong with its states, looked at so often."""
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), PlainPlane)
    assert isinstance(control.plane, PlainPlane)
    histories, found = Histories(control.plane.instances()), list[str]()
    control.start()
    for at_ms in range(every_ms, 4_001, every_ms):
        control.run(at_ms * MS)
        found += histories.faults()
    return histories, found


@pytest.mark.parametrize("crash_ms", [150, 500, 905, 1200, 1990])
def test_keys_are_open_and_closed_as_their_history_says(crash_ms: int) -> None:
    raw = closing(crash_ms)
    histories, found = followed(raw)
    assert found == []
    assert histories.restored == 4
    assert (histories.came_back > 3) == (crash_ms > 300)
    plain, compiled = (rows(raw, plane) for plane in BOTH)
    assert differences(plain, compiled) == []
    assert delivered(plain).keys() == delivered(rows(raw | {"events": {}})).keys()


def test_tuples_of_a_key_that_has_closed_since_are_all_new() -> None:
    keys = OpenKeys()
    for key in (1, 1, 2, 3):
        keys.begin_to_wait(key)
        keys.count_in(key, made=True)
    before = keys.copy()
    assert before.added(before) == 0
    for _ in range(2):
        keys.count_in(2, made=False)  # open then and now
    keys.end_to_wait(3)  # closes
    keys.count_in(3, made=False)  # counts no more
    keys.end_to_wait(1)  # one of two outputs
    assert keys.added(before) == 2
    keys.begin_to_wait(3)  # open again
    keys.count_in(3, made=True)
    assert keys.added(before) == 3
    keys.end_to_wait(1)  # closes
    keys.count_in(4, made=False)  # new
    assert keys.added(before) == 4
    assert (before.tuples, keys.tuples) == (4, 5)


# -- random jobs


def post_dated(make: Make, draw: Random, closes: bool) -> dict[str, Any]:
    """A random job, some of whose operators post-date their outputs; with `closes` their tuples leave with these."""
    raw = make(draw)
    raw["fault_tolerance"]["guarantee"] = "exactly-once"
    raw["fault_tolerance"]["barriers"] = {
        name: one
        for name, one in raw["fault_tolerance"]["barriers"].items()
        if name not in ("unaligned", "alignment_timeout")
    }
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    inner = [one for one in raw["operators"].values() if one["kind"] not in ("source", "sink")]
    for one in draw.sample(inner, draw.randint(1, len(inner))):
        one["postpone"] = draw.choice([*LAWS, {"distribution": "uniform", "low": "0 s", "high": "4 s"}])
        if closes and {*one["inputs"].values()} == {"key"}:
            one["state"] = CLOSES
    if closes:
        raw["recording"] = {"memory": True}
    return raw


def crashing(draw: Random) -> dict[str, Any]:
    return crashing_job(draw.randrange(10_000), crashes=draw.choice([1, 2]))


FAMILIES: dict[str, Make] = {
    "chains": with_guarantee,
    "concurrent": concurrent_job,
    "rescales": with_rescales,
    "readings": with_readings,
    "in steps": crashing,
}


def drawn(family: str, seed: int) -> dict[str, Any]:
    return post_dated(FAMILIES[family], Random(f"post-dated {family} {seed}"), closes=bool(seed % 2))


@pytest.mark.parametrize("seeds", parts(6, 120))
@pytest.mark.parametrize("family", FAMILIES)
def test_both_planes_give_equal_rows(family: str, seeds: range) -> None:
    failures = 0
    for seed in seeds:
        raw = drawn(family, seed)
        assert not_simulated(unchecked(raw)) == [], seed
        plain, compiled = (rows(raw, plane) for plane in BOTH)
        assert differences(plain, compiled) == [], seed
        failures += plain.tables["failures"]["host"].size
    assert failures >= len(seeds) / 2


@pytest.mark.parametrize("seeds", parts(8, 150))
def test_outputs_are_those_of_a_run_in_which_nothing_moves_and_nothing_dies(seeds: range) -> None:
    ends = Counter[str]()
    for seed in seeds:
        raw = drawn("in steps", 20 + seed)
        control, found = ran(raw)
        assert faults_of(control, found, *ran(undisturbed(raw))) == [], seed
        ends.update("done" if one.cancelled_ns == NEVER else "cancelled" for one in control.reconfigurations.runs)
    assert ends["done"] > 3
    assert ends["cancelled"] > 0


@pytest.mark.parametrize("seeds", parts(6, 120))
@pytest.mark.parametrize("family", ["concurrent", "rescales"])
def test_nothing_is_lost_and_the_audit_never_says_so(family: str, seeds: range, monkeypatch: Patch) -> None:
    # Outputs of one path are not in the order of their roots.
    monkeypatch.setattr("test_recovery.rows_that_took_one_path_are_in_order", lambda _: None)
    for seed in seeds:
        draw = Random(f"cuts {family} {seed}")
        raw = post_dated(FAMILIES[family], draw, closes=bool(seed % 2))
        assert check_job(raw, "exactly-once", tuple(draw.randint(1, 90) * NS // 10 for _ in range(3))), seed


# -- hosts that die while a key group moves


@pytest.mark.parametrize("closes", [False, True])
def test_a_host_may_die_in_each_phase_of_a_step(closes: bool) -> None:
    raw = steps()
    raw["operators"]["op"]["postpone"] = {"distribution": "uniform", "low": "0 s", "high": "300 ms"}
    if closes:
        raw["operators"]["op"]["state"] = CLOSES | {"bytes": "2 kB"}
    right = ran(undisturbed(raw))
    for k, (name, at_ns) in enumerate(phases(raw)):
        one = dies(raw, at_ns, 1 + k % 3)
        control, found = ran(one)
        assert faults_of(control, found, *right) == [], name
        assert differences(found, rows(one, CompiledPlane)) == [], name


# -- the end of a run while something is down


def ending(at_ms: int, raw: dict[str, Any]) -> RunRecords:
    control = Control(RunPlan.of(unchecked(raw), RunInputs(), 0), PlainPlane)
    control.start()
    control.run(at_ms * MS)
    return records(control, at_ms * MS)


@pytest.mark.parametrize("dead", [1, 2], ids=["with the outputs", "with the sink"])
def test_what_a_checkpoint_has_is_not_lost_while_its_host_is_down(dead: int) -> None:
    raw = job(1_200)
    raw["events"]["dies"]["host"] = f"h-{dead}"
    for at_ms in (1_201, 1_205, 1_230, 1_300):
        cut = raw | {"duration": f"{at_ms} ms", "events": {"dies": raw["events"]["dies"]}}
        plain = ending(at_ms, raw)
        assert plain.tables["ledger"]["lost"].sum() == 0
        assert differences(*(rows(cut, plane) for plane in BOTH)) == []


# -- a compiled plane that is broken on purpose


def _with(change: Callable[[Saved], Saved]) -> Callable[[Patch], None]:
    right = SavedOutputs.stored
    return lambda patch: patch.setattr(SavedOutputs, "stored", lambda self, one: change(right(self, one)))


def snapshots_count_at_once(patch: Patch) -> None:
    """What was saved last is restored, whether that checkpoint is complete or not."""
    right = SavedOutputs.take

    def take(self: SavedOutputs, partitions: Any, slot: int) -> None:
        right(self, partitions, slot)
        self._complete |= {partition: one for (partition, at), one in self._under_way.items() if at == slot}

    patch.setattr(SavedOutputs, "take", take)


def one_slot(patch: Patch) -> None:
    right = SavedOutputs.take

    def take(self: SavedOutputs, partitions: Any, slot: int) -> None:
        right(self, partitions, slot)
        its = {one: saved for (one, at), saved in self._under_way.items() if at == slot}
        self._under_way |= {(one, at): its[one] for one, at in self._under_way if one in its}

    patch.setattr(SavedOutputs, "take", take)


def one_key_of_each_group(patch: Patch) -> None:
    keys_of, stored = SavedOutputs.keys_of, SavedOutputs.stored
    patch.setattr(SavedOutputs, "keys_of", lambda self, one: keys_of(self, one)[:1])
    patch.setattr(
        SavedOutputs, "stored", lambda self, one: (found := stored(self, one))._replace(closed=found.closed[:1])
    )


def nothing_is_new(patch: Patch) -> None:
    patch.setattr(SavedOutputs, "_count_new", lambda *_: None)


def all_of_an_open_key_is_new(patch: Patch) -> None:
    right = SavedOutputs._count_new

    def count_new(self: SavedOutputs, partitions: Any, outputs: Any, open_keys: Any) -> None:
        kept, self._complete = self._complete, {}
        right(self, partitions, outputs, open_keys)
        self._complete = kept

    patch.setattr(SavedOutputs, "_count_new", count_new)


BROKEN: dict[str, Callable[[Patch], None]] = {
    "no output waits again": _with(lambda one: one._replace(outputs=one.outputs[:0])),
    "the last output does not wait again": _with(lambda one: one._replace(outputs=one.outputs[:-1])),
    "no key is open again": _with(lambda one: one._replace(open_keys=one.open_keys[:0])),
    "closed keys stay closed": _with(lambda one: one._replace(closed=np.ones_like(one.closed))),
    "no key has closed": _with(lambda one: one._replace(closed=np.zeros_like(one.closed))),
    "a checkpoint counts when it is taken": snapshots_count_at_once,
    "all checkpoints under way have one slot": one_slot,
    "one key of each group is restored": one_key_of_each_group,
    "nothing in an increment is new": nothing_is_new,
    "all tuples of open keys are in each increment": all_of_an_open_key_is_new,
}


def _hard() -> Iterator[dict[str, Any]]:
    yield closing(905)
    for seed in range(40):
        yield from (drawn(family, seed) for family in ("concurrent", "in steps"))


@pytest.mark.parametrize("title", BROKEN)
def test_a_broken_plane_is_caught(title: str, monkeypatch: Patch) -> None:
    jobs = [*_hard()]
    BROKEN[title](monkeypatch)
    assert any(map(_differs, jobs))


def _differs(raw: dict[str, Any]) -> bool:
    return differences(*(rows(raw, plane) for plane in BOTH)) != []
