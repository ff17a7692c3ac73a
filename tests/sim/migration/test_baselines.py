"""The baselines of `megaphone`: what must hold in each run, equal planes, and rules that are broken.

Oracles: what is applied where, as the plain plane does it; rows of the compiled plane against those of the plain one;
times against closed forms. No tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lab.broken_reconfigurations import MUTANTS
from test_megaphone import MS, Watched, _disorder, job, rows_of, watched
from test_megaphone_times import idle_job
from test_planes import differences

from analysis.runs.reconfigurations import reconfigurations
from models.planning.reconfiguration import moves_of
from models.scenario.key_groups import groups_of_keys
from models.scenario.reading import scenario_from
from models.scenario.rules.support import not_simulated
from models.units import to_ns
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

BASELINES = ("pause-and-resume", "stop-and-restart")


def by(protocol: str, seed: int) -> dict[str, Any]:
    """The random job of `megaphone`, with another protocol for its moves."""
    raw = job(seed)
    for event in raw["events"].values():
        for key in ("strategy", "size", "scope", "gap", "next", "overlap"):
            event.pop(key, None)
        event["protocol"] = protocol
        if protocol == "stop-and-restart":
            event["restart"] = "20 ms"
    raw["state_store"] = {"request": "0.2 ms", "bandwidth": "20 MB/s", "concurrency": 1 + seed % 3}
    return raw


def faults(run: Watched) -> list[str]:
    """All that a baseline must not do, in words; empty if it is right."""
    found = _disorder(run)
    ids = [one.row.id for one in run.applied]
    if len({*ids}) < len(ids):
        found.append("a tuple is applied twice")
    ledger = records(run.control, to_ns(2.5)).tables["ledger"]
    if ledger["lost"].sum() or ledger["duplicated"].sum():
        found.append("a tuple is lost, or counts twice")
    if any(one.completed_ns is None for one in run.control.reconfigurations.runs):
        found.append("it never ends")
    elif any(task.side for task in run.control.plane.tasks):  # type: ignore[attr-defined]
        found.append("a task holds tuples after the last move")
    for plan, (times,) in run.plans:
        whole = bool(plan.stops)
        paused = {task for one in plan.steps[0] for task in (one.source, one.target)} if not whole else plan.members
        inside = [one for one in run.applied if times.passed_ns < one.start_ns < times.installed_ns]
        if any(one.task in paused for one in inside):
            found.append("a service begins at a task that pauses")
        if not whole and any(one.start_ns > times.passed_ns for one in _left_behind(run, plan)):
            found.append("a tuple is applied at the old task when that has given the state")
    return [*found, *_elsewhere(run)]


def _left_behind(run: Watched, plan: Any) -> list[Any]:
    if len(run.control.reconfigurations.runs) > 1:  # another may have brought the group back
        return []
    source = {partition: carry.source for carry in plan.steps[0] for partition in carry.partitions}
    return [one for one in run.applied if source.get(one.partition) == one.task]


def _elsewhere(run: Watched) -> Iterator[str]:
    """Key groups that are not where the plan has them in the end."""
    scenario, cluster = run.control.plan.scenario, run.control.cluster
    operator = scenario.operators["op"]
    tasks = [task for task, its in enumerate(cluster.task_operator) if its == run.operator]
    owners = [operator.task_of(k) for k in range(operator.groups)]
    for name in sorted(scenario.events, key=lambda one: scenario.events[one].at_s):  # type: ignore[union-attr]
        for move in moves_of(scenario, name, {}):
            owners[move.key_group] = move.target
    first = run.control.plan.first_partition[run.operator]
    if [*cluster.partition_task[first : first + operator.groups]] != [tasks[owner] for owner in owners]:
        yield "a key group is not where it is to be"


@pytest.mark.parametrize("protocol", BASELINES)
def test_each_tuple_is_applied_once_and_nothing_while_tasks_pause(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 0
    for seed in range(24):
        run = watched(by(protocol, seed), monkeypatch)
        assert faults(run) == [], seed
        runs += len(run.control.reconfigurations.runs)
    assert runs > 24


@pytest.mark.parametrize("protocol", BASELINES)
def test_both_planes_give_equal_rows(protocol: str) -> None:
    steps = 0
    for seed in range(16):
        plain, compiled = (rows_of(by(protocol, seed), plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all()
        steps += plain.tables["reconfigurations"]["installed_ns"].size
    assert steps > 10


# -- times: `idle_job` moves 4 of the 8 key groups of 100 kB of task 1 to task 2, and of task 3 to task 0


def test_a_pause_takes_as_long_as_the_states_are_written_sent_and_read() -> None:
    table = rows_of(idle_job({"protocol": "pause-and-resume"}), PlainPlane).tables["reconfigurations"]
    (moved, phi) = (400_000, MS)
    s = moved * (1_000_000_000 // 50_000_000 + 1_000_000_000 // 10_000_000 + 1_000_000_000 // 20_000_000)
    # Who sends hears after a latency, the tasks that pause one later; the states need one.
    assert table["passed_ns"].tolist() == [1_000_000_000 + 2 * phi]
    assert table["installed_ns"].tolist() == [1_000_000_000 + 2 * phi + s + phi]
    assert table["strategy"].tolist() == ["pause-and-resume"]
    assert (table["groups"].tolist(), table["bytes"].tolist()) == ([8], [800_000])


def test_a_restart_takes_as_long_as_all_states_are_saved_and_loaded() -> None:
    raw = idle_job({"protocol": "stop-and-restart", "restart": "3 s"})
    raw["state_store"] = {"bandwidth": "100 MB/s", "concurrency": 8}
    table = rows_of(raw, PlainPlane).tables["reconfigurations"]
    phi = MS
    # A task that gives nothing writes its 800 kB in 16 ms, and the store needs 8 ms for it.
    saved = 2 * phi + 16 * MS + phi + 8 * MS + phi
    # A task that gets something fetches 400 kB in 4 ms, reads it in 20 ms, and then the 800 kB that stay in 40 ms.
    loaded = phi + 4 * MS + phi + 20 * MS + 40 * MS
    assert table["passed_ns"].tolist() == [1_000_000_000 + 3 * phi]  # the sink is the last that is drained
    assert table["installed_ns"].tolist() == [1_000_000_000 + saved + phi + 3_000_000_000 + phi + loaded]
    assert (table["groups"].tolist(), table["bytes"].tolist()) == ([8], [3_200_000])


@pytest.mark.parametrize("protocol", BASELINES)
def test_one_without_latency_and_states_is_over_as_it_begins(protocol: str) -> None:
    raw = idle_job({"protocol": protocol}) | {"network": {"latency": "0 s"}, "recording": {"memory": True}}
    raw["operators"]["op"]["state"] = {"model": "fixed", "bytes": "0 B"}
    found = rows_of(raw, PlainPlane)
    table = found.tables["reconfigurations"]
    assert table["installed_ns"].tolist() == table["from_ns"].tolist() == [1_000_000_000]
    (one,) = reconfigurations([found])
    assert (one.duration_s, one.extra_bytes) == (0.0, 0)


def test_a_narrow_store_serves_one_state_after_the_other() -> None:
    raw = idle_job({"protocol": "stop-and-restart"})
    ends = []
    for concurrency in (1, 8):
        raw["state_store"] = {"bandwidth": "1 MB/s", "concurrency": concurrency}
        ends.append(int(rows_of(raw, PlainPlane).tables["reconfigurations"]["installed_ns"][0]))
    # 3.2 MB are written and read one after the other, or the largest of the parts, 800 kB, beside the others.
    assert ends[0] - ends[1] > 2 * (3_200 - 800 - 100) * MS


def with_a_busy_target() -> dict[str, Any]:
    """A job of one key, whose task is behind when an idle task gives it one of its key groups; messages take 100 ms.

    From 0.7 s on the task serves what it has for 350 ms more. Up to then the state has come, and others could go on.
    """
    (busy,) = groups_of_keys(1, 4, "crc32").tolist()
    service = {"distribution": "deterministic", "value": "30 ms"}
    state = {"model": "fixed", "bytes": "100 B"}
    owners = [k % 2 for k in range(4)]
    owners[(busy + 1) % 4] = busy % 2
    return {
        "duration": "4 s",
        "workload": {
            "src": {"rate": "50 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 1}}
        },
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": service,
                "state": state,
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "network": {"latency": "100 ms"},
        "fault_tolerance": {"method": "none"},
        "events": {
            "move": {
                "kind": "reconfigure",
                "at": "500 ms",
                "operator": "op",
                "protocol": "pause-and-resume",
                "owners": owners,
            }
        },
    }


def test_a_task_that_pauses_last_goes_on_as_well() -> None:
    plain, compiled = (rows_of(with_a_busy_target(), plane) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []
    visits, table = plain.tables["visits"], plain.tables["reconfigurations"]
    (paused,) = table["passed_ns"].tolist()
    assert paused == pytest.approx(1050 * MS, abs=40 * MS)  # behind the queue
    assert (table["installed_ns"] < paused).all()
    ends = visits["end_ns"][visits["operator"] == 1]
    # It hears a latency later that all have paused, and one more later that it goes on.
    assert not ((ends > paused) & (ends < paused + 200 * MS)).any()
    assert (ends > paused + 200 * MS).sum() > 60


# -- key groups that move each by themselves


@pytest.mark.parametrize("protocol", ["direct", "cpa", "cpal", "cpal_caught_up", "lazy_move", "replication"])
def test_a_plan_by_a_protocol_of_key_groups_is_a_migration_of_each(protocol: str) -> None:
    raw = idle_job({"protocol": protocol, "at": "5 s"})  # by then there are checkpoints
    raw["operators"]["src"] |= {"parallelism": 2}
    raw["workload"]["src"] |= {"rate": "100 /s"}
    raw |= {"duration": "10 s", "fault_tolerance": {"method": "checkpoint", "interval": "2 s", "store": "remote"}}
    del raw["events"]["move"]["scope"]
    scenario = scenario_from(raw)
    each = {
        f"move{move.key_group}": {
            "kind": "migrate",
            "at": "5 s",
            "operator": "op",
            "key_group": move.key_group,
            "host": f"h-{move.target}",
            "protocol": protocol,
        }
        for move in moves_of(scenario, "move", {})
    }
    assert len(each) == 8
    whole, apart = rows_of(raw, PlainPlane), rows_of(raw | {"events": each}, PlainPlane)
    assert differences(whole, apart) == []
    assert set(whole.tables["migrations"]["protocol"]) == {protocol}
    assert differences(whole, rows_of(raw, CompiledPlane)) == []


# -- what is refused


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"protocol": "pause-and-resume", "strategy": "fluid"}, "events.move.strategy = fluid: is of the protocol"),
        ({"protocol": "stop-and-restart", "gap": "1 s"}, "events.move.gap"),
        ({"protocol": "pause-and-resume", "restart": "1 s"}, "events.move.restart = 1 s: is of the protocol"),
    ],
)
def test_a_key_of_another_protocol_is_refused(event: dict[str, Any], words: str) -> None:
    raw = idle_job(event)
    del raw["events"]["move"]["scope"]
    with pytest.raises(ValueError, match=words.partition(" ")[0].rstrip(":").replace(".", r"\.")) as caught:
        scenario_from(raw)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "threads", "paths"),
    [
        ("pause-and-resume", 2, []),  # what a service in progress makes goes to the new task
        ("stop-and-restart", 2, ["operators.map.threads"]),
    ],
)
def test_what_is_not_simulated_is_named(protocol: str, threads: int, paths: list[str]) -> None:
    raw = idle_job({"protocol": protocol})
    service = {"distribution": "deterministic", "value": "1 us"}
    raw["operators"]["map"] = {"kind": "map", "inputs": {"src": "shuffle"}, "service": service, "threads": threads}
    raw["operators"]["op"]["inputs"] = {"map": "key"}
    assert [fault.path for fault in not_simulated(scenario_from(raw))] == paths


def test_what_upstream_still_serves_goes_to_the_new_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of threads sends behind the word that no more comes for the old ones."""
    pools = 0
    for seed in range(24):
        raw = by("pause-and-resume", seed)
        if "map" in raw["operators"]:
            raw["operators"]["map"]["threads"] = 3
            # Tuples of a pool come in any order.
            assert [one for one in faults(watched(raw, monkeypatch)) if "order" not in one] == [], seed
            pools += 1
    assert pools > 6


# -- rules that are broken in the laboratory, on the clock

CAUGHT = {
    "one of those who send goes on sending to the old tasks": ("pause-and-resume", "refused: not all tasks upstream"),
    "a task gives its states with the first word that no more comes": (
        "pause-and-resume",
        "refused: not all tasks upstream",
    ),
    "the word that no more comes does not wait its turn": ("pause-and-resume", "refused: not all that was sent"),
    "with the scope of the operator its tasks go on with other key groups": (
        "pause-and-resume",
        "at a task that pauses",
    ),
    "tasks that pause never go on": ("pause-and-resume", "holds tuples"),
    "sources go on while the job stops": ("stop-and-restart", "at a task that pauses"),
    "sources go on before all states are loaded": ("stop-and-restart", "not where it is to be"),
}
"""Mutant -> protocol, and what is said of it."""


@pytest.mark.parametrize("title", CAUGHT)
def test_what_is_broken_is_noticed(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[title](monkeypatch)
    protocol, words = CAUGHT[title]
    seen: list[str] = []
    for seed in range(24):
        try:
            seen += faults(watched(by(protocol, seed), monkeypatch))
        except (ValueError, AssertionError) as error:
            seen.append(f"refused: {error}")
        if any(words in one for one in seen):
            return
    raise AssertionError(f"nothing of it was noticed: {seen}")
