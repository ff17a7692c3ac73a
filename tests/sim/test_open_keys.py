"""Tuples that leave the state with the last post-dated output of their key: equal planes, exact sizes, broken planes.

Oracles: `sim.plain`, by equality of all columns and of all that the listener is told; sizes from the times at which
keys are open, as intervals; bytes by hand. No tolerance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from lab.broken_reconfigurations import MUTANTS
from test_megaphone import faults, rows_of, watched
from test_planes import differences, noticed
from test_postponing import (
    GROUP,
    LATENCY,
    MS,
    NEW,
    PARTITION,
    PLANES,
    SERVICE,
    begun,
    job_of_one_key,
    postponing_job,
    scripted,
)
from test_postponing import reconfigured as reconfigured_job
from test_selectivity_by_input import MOVED, auctions

from models.records.tables import EVENT_LOOP
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop import open_keys
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.needs import needs_of
from sim.plain.channels import Channels
from sim.plain.open_keys import OpenKeys
from sim.plain.partition import Partition, PostDated, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

ENTRY = 32
CLOSES = {"model": "per-tuple", "bytes": f"{ENTRY} B", "until": "output"}
Patch = pytest.MonkeyPatch


def closing_job(seed: int) -> dict[str, Any]:
    """A random job of which some operators let go of the tuples of a key with its last output."""
    raw, draw = postponing_job(seed), Random(f"closing {seed}")
    raw["recording"] = {"memory": True}
    for one in raw["operators"].values():
        if "postpone" in one and {*one["inputs"].values()} == {"key"}:
            one["state"] = CLOSES
            one["selectivity"] = draw.choice([0.5, 1.0] if one["kind"] == "filter" else [0.3, 1.0, 2.5])
    return raw


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    plain, told, found = scripted(closing_job(seed), seed)
    if seen is not None:
        seen.update(str(what) for _, what, *_ in told)
        seen["samples"] += int((plain.tables["memory"]["state_bytes"] > 0).sum())
    return found


def test_both_planes_give_equal_rows(monkeypatch: Patch) -> None:
    seen, right = Counter[str](), OpenKeys.end_to_wait

    def end_to_wait(keys: OpenKeys, key: int) -> None:
        seen["one of several"] += keys.keys[key].outputs > 1
        right(keys, key)
        seen["closed"] += key not in keys.keys
        seen["others stay"] += bool(keys.keys)
        seen["opened again"] += bool(keys.keys.keys() & keys.closed)

    monkeypatch.setattr(OpenKeys, "end_to_wait", end_to_wait)
    for seed in range(30):
        assert on_both(seed, seen) == [], seed
    assert seen["put"] > 30
    assert seen["closed"] > 200
    assert seen["one of several"] > 500
    assert seen["others stay"] > 500
    assert seen["opened again"] > 100
    assert seen["samples"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed) == [], seed


def auction_job(life: str = "0.4 s", **changes: Any) -> dict[str, Any]:
    """Auctions that close after a while, and bids that leave then."""
    law = {"distribution": "exponential", "mean": life}
    made = auctions(postpone=law, state=CLOSES, serialise="1 MB/s", deserialise="1 MB/s", **changes)
    made["operators"]["mean"]["service"]["mean"] = "0.1 ms"
    return made | {"recording": {"memory": True}}


THERE_AND_BACK = MOVED | {"back": MOVED["half"] | {"at": "3 s", "plan": "back"}}


@pytest.mark.parametrize("events", [{}, MOVED, THERE_AND_BACK], ids=["at rest", "moved", "there and back"])
def test_auctions_that_move_and_close_are_equal_in_both_planes(events: dict[str, Any]) -> None:
    made = scenario_from(auction_job() | {"events": events})
    plan = RunPlan.of(made, RunInputs(), 0)
    assert kernel_for(plan).name == EVENT_LOOP
    assert "close postpones its outputs" in [need.why for need in needs_of(plan)]
    plain, compiled = simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)
    assert differences(plain, compiled) == []
    assert int(plain.tables["ledger"]["lost"].sum()) == int(plain.tables["ledger"]["duplicated"].sum()) == 0
    if events:
        assert (plain.tables["reconfigurations"]["bytes"] > 0).any()


def reconfigured(seed: int) -> dict[str, Any]:
    raw, draw = reconfigured_job(seed), Random(f"closing {seed}")
    raw["operators"]["op"] |= {"state": CLOSES, "selectivity": draw.choice([0.3, 1.0, 2.5])}
    raw["recording"] = {"memory": True}
    return raw


def steps_on_both(seed: int) -> list[str]:
    return differences(*(rows_of(reconfigured(seed), plane) for plane in (PlainPlane, CompiledPlane)))


def test_steps_of_a_reconfiguration_carry_the_tuples_of_open_keys(monkeypatch: Patch) -> None:
    for seed in range(10):
        assert faults(watched(reconfigured(seed), monkeypatch)) == [], seed
        assert steps_on_both(seed) == [], seed


# -- sizes


def sizes_of_intervals(raw: dict[str, Any], patch: Patch) -> tuple[dict[int, int], dict[int, int]]:
    """State of `close` at each sample [B], and what it has to be, by the times at which keys are open."""
    came: list[tuple[int, int, int, int, int]] = []
    right = Task._complete

    def complete(self: Task, visit: Visit, now: int) -> None:
        if self.operator.name == "close":
            row = visit.row
            came.append((now, row.key, row.id, row.created_ns, visit.origin.operator.index))
        right(self, visit, now)

    with patch.context() as inner:
        inner.setattr(Task, "_complete", complete)
        found = simulate(scenario_from(raw), plane=PlainPlane)
    plan = RunPlan.of(scenario_from(raw), RunInputs(), 0)
    operator = next(one for one in plan.operators if one.name == "close")
    assert operator.postpone_ns is not None
    waits = defaultdict[int, list[tuple[int, int]]](list)  # by key, from when to when an output does
    for now, key, id, created_ns, upstream in came:
        for child, _ in operator.outputs(id, key, upstream):
            waits[key].append((now, max(now, created_ns + operator.postpone_ns(child))))
    open_ns = {key: merged(times) for key, times in waits.items()}
    never = [(0, 10**18)]
    stays = []  # from when to when a tuple is in the state
    for now, key, *_ in came:
        ((_, first_end), *others) = open_ns.get(key, never)  # until then all count
        spans = [(0, first_end), *others]
        stays += [(now, end) for begin, end in spans if begin <= now <= end]
    rows = found.tables["memory"]
    tasks = [task for task, of in enumerate(found.task_operator) if found.operators[of] == "close"]
    measured, right_ones = {}, {}
    for at in np.unique(rows["at_ns"]).tolist():
        here = (rows["at_ns"] == at) & np.isin(rows["task"], tasks)
        measured[at] = int(rows["state_bytes"][here].sum())
        outputs = sum(begin <= at < end for times in waits.values() for begin, end in times)
        right_ones[at] = ENTRY * sum(begin <= at < end for begin, end in stays) + operator.output_bytes * outputs
    return measured, right_ones


def merged(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that overlap or touch, as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(times):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def jobs_with_sizes() -> list[dict[str, Any]]:
    """Auctions, keys that open again and again, some with several outputs, and outputs whose time is mostly over."""
    again = auction_job("80 ms", selectivity={"auctions": 1.6, "bids": 0.1})
    for source in again["workload"].values():
        source["keys"] = {"distribution": "uniform", "count": 12}
    again["operators"]["close"]["output"] = {"tuple": "40 bytes"}
    late = auction_job("2 ms", selectivity={"auctions": 2.0, "bids": 0.0})
    late["workload"]["bids"]["keys"]["in_flight"] = 1000
    late["workload"]["bids"]["rate"], late["workload"]["auctions"]["rate"] = "300 /s", "19 /s"
    late["operators"]["close"]["service"]["mean"] = "5 ms"
    return [auction_job(), again, late]


@pytest.mark.parametrize("number", range(3), ids=["auctions", "keys that open again", "outputs that leave at once"])
def test_the_state_has_the_tuples_of_keys_that_are_open(number: int, monkeypatch: Patch) -> None:
    raw = jobs_with_sizes()[number]
    raw["duration"] = "8 s"
    measured, right = sizes_of_intervals(raw, monkeypatch)
    assert measured == right
    assert len(measured) > 5
    assert min(measured.values()) < max(measured.values())
    assert sum(size > 100 for size in measured.values()) > 3


def test_nothing_is_left_when_all_keys_have_closed() -> None:
    raw = jobs_with_sizes()[1] | {"duration": "6 s"}
    for source in raw["workload"].values():
        source["rate"] = {"steps": [{"at": "0 s", "rate": source["rate"]}, {"at": "3 s", "rate": "0 /s"}]}
    found = simulate(scenario_from(raw))
    rows = found.tables["memory"]
    own = np.isin(rows["task"], [task for task, of in enumerate(found.task_operator) if found.operators[of] == "close"])
    assert rows["state_bytes"][own & (rows["at_ns"] <= 2_000 * MS)].sum() > 1000
    assert rows["state_bytes"][own & (rows["at_ns"] >= 5_000 * MS)].sum() == 0


def test_the_table_is_as_large_as_there_are_open_keys() -> None:
    """4 s have 4,000 auctions, of which some 20 are open; a table begins with 512 places."""
    raw = auction_job("20 ms")
    for name in raw["workload"]:
        raw["workload"][name]["rate"] = {"auctions": "1000 /s", "bids": "300 /s"}[name]
    control = Control(RunPlan.of(scenario_from(raw), RunInputs(), 0), CompiledPlane)
    control.start()
    control.run(4_000 * MS)
    assert isinstance(control.plane, CompiledPlane)
    state = control.plane.state
    assert state.open_table.shape[0] == 512
    assert int((state.open_table["partition"] >= 0).sum()) == int(state.open_keys["count"]) < 100


def test_the_table_grows_with_open_keys() -> None:
    """2 s have 2,000 auctions, of which few close."""
    raw = auction_job("10 s") | {"duration": "2 s"}
    raw["workload"]["auctions"]["rate"], raw["workload"]["bids"]["rate"] = "1000 /s", "15000 /s"
    raw["workload"]["bids"]["keys"]["in_flight"] = 3000
    raw["operators"]["close"]["service"]["mean"] = "0.05 ms"
    made = scenario_from(raw)
    assert differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)) == []


def test_the_table_of_open_keys_is_a_dictionary() -> None:
    """Many keys come and go, and collide: at most 250 of them in 512 places."""
    draw = Random("open keys")
    plane = Control(RunPlan.of(scenario_from(auction_job()), RunInputs(), 0), CompiledPlane).plane
    assert isinstance(plane, CompiledPlane)
    state = plane.state
    state.closed_keys = np.zeros(512 * 40, np.uint8)
    wanted = dict[tuple[int, int], list[int]]()  # (partition, key) -> outputs, tuples
    closed = set[int]()
    for _ in range(20_000):
        key = draw.choice([draw.randrange(240), 512 * draw.randrange(80)])
        at = (6 + key % 3, key)
        if wanted.get(at, [0])[0] and (draw.random() < 0.5 or len(wanted) > 240):
            open_keys.end_to_wait(state, *at)
            wanted[at][0] -= 1
            if not wanted[at][0]:
                del wanted[at]
                closed.add(at[1])
        elif len(wanted) < 250 and draw.random() < 0.5:
            open_keys.begin_to_wait(state, *at)
            wanted.setdefault(at, [0, 0])[0] += 1
        elif len(wanted) < 250:
            made = draw.random() < 0.2
            open_keys.count_in(state, *at, made)
            if made and not wanted.get(at, [0])[0]:
                wanted.pop(at, None)
                closed.add(at[1])
            elif at in wanted or at[1] not in closed:
                wanted.setdefault(at, [0, 0])[1] += 1
    table = state.open_table[state.open_table["partition"] >= 0]
    found = {(int(one["partition"]), int(one["key"])): [int(one["outputs"]), int(one["tuples"])] for one in table}
    assert found == wanted
    assert len(wanted) == int(state.open_keys["count"]) > 50
    for partition in range(6, 9):
        own = sum(tuples for (at, _), (_, tuples) in wanted.items() if at == partition)
        assert int(state.partitions["open_tuples"][partition]) == own


# -- by hand: one key, 200 tuples per second, each with an output of 70 bytes after 40 ms


@PLANES
def test_a_parcel_has_the_tuples_of_its_open_keys(plane: PlaneFactory) -> None:
    raw = job_of_one_key()
    raw["operators"]["op"]["state"] = CLOSES
    control = begun(plane, raw)
    control.run(100 * MS)
    owners = [2 + k % 2 for k in range(6)]
    owners[GROUP] = NEW
    control.plane.place(1, [0, 1], owners)
    control.run(103 * MS)
    parcel = control.plane.take([PARTITION])
    visits = control.plane.tables()["visits"]
    ends = visits["end_ns"][(visits["operator"] == 1) & (visits["end_ns"] >= 0)]
    waiting = int((ends - SERVICE - LATENCY + 40 * MS > 103 * MS).sum())
    # The key has been open since its first tuple: an output leaves after each other one has begun to wait.
    assert parcel.bytes == ENTRY * ends.size + 70 * waiting
    assert 0 < waiting < ends.size


# -- planes that are broken on purpose


def never_freed(patch: Patch) -> None:
    def end_to_wait(keys: OpenKeys, key: int) -> None:
        keys.keys[key].outputs -= 1

    patch.setattr(OpenKeys, "end_to_wait", end_to_wait)


def freed_with_the_first_output(patch: Patch) -> None:
    def end_to_wait(keys: OpenKeys, key: int) -> None:
        keys.close(key)

    patch.setattr(OpenKeys, "end_to_wait", end_to_wait)


def freed_twice(patch: Patch) -> None:
    """The tuples of another key go as well."""
    right = OpenKeys.close

    def close(keys: OpenKeys, key: int) -> None:
        right(keys, key)
        if keys.keys:
            next(iter(keys.keys.values())).tuples = 0

    patch.setattr(OpenKeys, "close", close)


def left_behind(patch: Patch) -> None:
    right = PlainPlane.take

    def take(plane: PlainPlane, partitions: Any) -> Any:
        parcel = right(plane, partitions)
        for number in partitions:
            for key in plane._numbered[number].open_keys.keys.values():
                key.tuples = 0
        return parcel

    patch.setattr(PlainPlane, "take", take)


def closed_on_the_way(patch: Patch) -> None:
    """What a key holds is gone when its time comes, wherever it is by then."""
    right = Channels._is_due

    def is_due(plane: Channels, partition: Partition, output: PostDated) -> None:
        if output.made_of in partition.open_keys.keys:
            partition.open_keys.keys[output.made_of].tuples = 0
        right(plane, partition, output)

    patch.setattr(Channels, "_is_due", is_due)


def closed_keys_count(patch: Patch) -> None:
    """A tuple counts also if its key has closed, and goes with the next output of its key."""
    right = OpenKeys.close

    def close(keys: OpenKeys, key: int) -> None:
        right(keys, key)
        keys.closed.clear()

    patch.setattr(OpenKeys, "close", close)


def early_ones_do_not_count(patch: Patch) -> None:
    """A bid that comes before its auction is lost."""
    right = OpenKeys.count_in

    def count_in(keys: OpenKeys, key: int, made: bool) -> None:
        if made or key in keys.keys:
            right(keys, key, made)

    patch.setattr(OpenKeys, "count_in", count_in)


def not_closed_by_what_leaves_at_once(patch: Patch) -> None:
    right = OpenKeys.count_in
    patch.setattr(OpenKeys, "count_in", lambda keys, key, made: right(keys, key, made=False))


def the_first_does_not_count(patch: Patch) -> None:
    """A tuple that opens its key is no part of what it holds."""
    right = OpenKeys.count_in

    def count_in(keys: OpenKeys, key: int, made: bool) -> None:
        right(keys, key, made)
        if made and key in keys.keys:
            keys.keys[key].tuples -= 1

    patch.setattr(OpenKeys, "count_in", count_in)


def by_the_key_of_the_output(patch: Patch) -> None:
    """An auction is known by its seller, whose key its output has."""
    right = Channels.postpone

    def postpone(plane: Channels, partition: Partition, output: PostDated) -> None:
        right(plane, partition, output._replace(made_of=output.key))

    patch.setattr(Channels, "postpone", postpone)


CLOSED_LATE = "a key that closes on its way keeps its tuples"
BROKEN: dict[str, Callable[[Patch], None]] = {
    "never freed": never_freed,
    "freed with the first of several outputs": freed_with_the_first_output,
    "freed twice": freed_twice,
    "left behind": left_behind,
    "closed on the way": closed_on_the_way,
    CLOSED_LATE: MUTANTS[CLOSED_LATE],
    "closed keys count": closed_keys_count,
    "early ones do not count": early_ones_do_not_count,
    "not closed by what leaves at once": not_closed_by_what_leaves_at_once,
    "the first does not count": the_first_does_not_count,
    "by the key of the output": by_the_key_of_the_output,
}


def auctions_on_both(seed: int) -> list[str]:
    made = scenario_from(auction_job() | {"seed": seed, "duration": "4 s", "events": THERE_AND_BACK})
    return differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane))


@pytest.mark.parametrize("title", BROKEN)
def test_a_broken_plane_is_caught(title: str, monkeypatch: Patch) -> None:
    BROKEN[title](monkeypatch)
    assert noticed(auctions_on_both, range(3)) or noticed(steps_on_both, range(12)) or noticed(on_both, range(30))


@pytest.mark.parametrize("title", ["never freed", "closed keys count", "the first does not count"])
def test_sizes_by_intervals_tell_of_a_broken_plane(title: str, monkeypatch: Patch) -> None:
    BROKEN[title](monkeypatch)
    measured, right = sizes_of_intervals(auction_job(), monkeypatch)
    assert measured != right
