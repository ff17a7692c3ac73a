"""Events `reconfigure`: each thing that is wrong with one is said once, with path, value, rule and hint."""

from __future__ import annotations

from typing import Any

import pytest
from changed_keys import changed

from models.errors import InputError, InputFault
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.reading import raw_of, scenario_from
from models.scenario.rules import faults, not_simulated, warnings

MOVE = {"kind": "reconfigure", "at": "10 s", "operator": "count", "strategy": "fluid"}
SERVICE = {"distribution": "exponential", "mean": "1 ms"}
RAW: dict[str, Any] = {
    "duration": "1 min",
    "workload": {"words": {"rate": "100 /s"}},
    "operators": {
        "words": {"kind": "source"},
        "clean": {"kind": "map", "inputs": {"words": "shuffle"}, "parallelism": 2, "service": SERVICE},
        "count": {
            "kind": "aggregate",
            "inputs": {"clean": "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": SERVICE,
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 3}},
    "fault_tolerance": {"method": "none"},
    "events": {"move": MOVE},
}


BY_FILE = {"events/move/strategy": "batched", "events/move/file": "moves.txt"}


EACH = {"kind": "reconfigure", "at": "10 s", "operator": "count", "protocol": "cpal"}


@pytest.mark.parametrize(("groups", "hint"), [(6, 8), (127, 128), (2**20 - 1, 2**20)])
def test_a_number_of_bins_that_an_operator_may_have_is_proposed_once(groups: int, hint: int) -> None:
    two = {"events/again": {**MOVE, "at": "20 s"}, "operators/count/key_groups": groups}
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, two))
    (found,) = caught.value.faults
    assert (found.path, found.value, found.hint) == ("operators.count.key_groups", groups, f"such as {hint}")
    assert found.rule == "must be a power of two: key groups are the bins of megaphone in events.move"


def test_too_many_bins_are_only_too_many() -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, {"operators/count/key_groups": 2**20 + 1}))
    assert caught.value.lines() == ["operators.count.key_groups = 1048577: must be at most 1,048,576"]


def test_other_protocols_move_any_number_of_key_groups() -> None:
    changes = {"events/move": {**EACH, "protocol": "pause-and-resume"}, "operators/count/key_groups": 6}
    assert scenario_from(changed(RAW, changes)).operators["count"].groups == 6


@pytest.mark.parametrize("key", ["owners", "file"])
def test_a_list_of_owners_is_shown_as_it_was_written(key: str) -> None:
    """The value of a fault is what the file says, and not how long it is."""
    changes = {"events/move/owners": [0, 1]} | (BY_FILE if key == "file" else {})
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    assert str(caught.value).startswith("events.move.owners = [0, 1]: ")


def test_the_scenario_without_a_change_can_run() -> None:
    scenario = scenario_from(RAW)
    assert faults(scenario) == []
    assert not_simulated(scenario) == []


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"events/move/operator": "sum"}, "events.move.operator", "count"),
        ({"events/move/operator": "clean"}, "events.move.operator", "no input partitioned by key"),
        ({"events/move/strategy": "batched"}, "events.move.size", "how many key groups move in a step"),
        ({"events/move/size": 3}, "events.move.size", "is of the strategy batched"),
        ({"events/move/owners": [0, 1, 0]}, "events.move.owners", "each of the 4 key groups, and has 3"),
        ({"events/move/owners": [0, 1, 0, 2]}, "events.move.owners[3]", "one of the 2 tasks"),
        ({"events/move/owners": [0, 1, 1, 1], "events/move/plan": "back"}, "events.move.plan", "so does owners"),
        ({"operators/count/parallelism": 1}, "events.move.operator", "have nowhere to go"),
        (
            {"events/move/file": "m", "events/move/strategy": "batched", "events/move/size": 3},
            "events.move.size",
            "file",
        ),
        ({"events/move/file": "m"}, "events.move.strategy", "so does file"),
        ({"events/move/tasks": 3}, "events.move.tasks", "at most the 2 tasks"),
        ({"events/move/tasks": 1, "events/move/plan": "back"}, "events.move.plan", "so does tasks"),
        ({"events/move/tasks": 1, "events/move/owners": [0, 1, 1, 1]}, "events.move.tasks", "so does owners"),
        ({**BY_FILE, "events/move/tasks": 1}, "events.move.tasks", "so does file"),
        ({**BY_FILE, "events/move/plan": "back"}, "events.move.plan", "so does file"),
        ({**BY_FILE, "events/move/owners": [0, 0, 1, 1]}, "events.move.owners", "so does file"),
        ({**BY_FILE, "operators/count/key_groups": 6}, "operators.count.key_groups", "such as 8"),
        ({"operators/count/key_groups": 6}, "operators.count.key_groups", "are the bins of megaphone in events.move"),
        ({"events/move/next": "lag", "events/move/gap": "1 s"}, "events.move.gap", "in the one before"),
        ({"events/move/next": "lag", "events/move/gap": "drain"}, "events.move.gap", "in the one before"),
        (
            {"events/move": {**EACH, "sent_copies": 9.0}},
            "events.move.sent_copies",
            "cpal moves each key group by itself",
        ),
        ({"events/move": {**EACH, "received_copies": 1.0}}, "events.move.received_copies", "tells no copies"),
        ({"events/move/at": "1 min"}, "events.move.at", "before the end of the run"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in f"{fault.rule} {fault.hint}"


def test_an_operator_has_as_many_bins_as_megaphone_was_measured_with() -> None:
    assert scenario_from(changed(RAW, {"operators/count/key_groups": 2**20})).operators["count"].groups == 2**20


@pytest.mark.parametrize("gap", ["drain", "15 ms"])
def test_a_gap_is_written_as_it_was_read(gap: str) -> None:
    scenario = scenario_from(changed(RAW, {"events/move/gap": gap}))
    assert raw_of(scenario)["events"]["move"]["gap"] == gap
    assert scenario_from(raw_of(scenario)) == scenario


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"events/move/strategy": "some"}, "events.move.strategy", "all-at-once"),
        ({"events/move/size": 0, "events/move/strategy": "batched"}, "events.move.size", "1"),
        ({"events/move/owners": [0, 1, 0, -1]}, "events.move.owners[3]", "0"),
        ({"events/move/gap": "-1 s"}, "events.move.gap", "negative"),
        ({"events/move/gap": "empty"}, "events.move.gap", "one unit, or drain"),
        ({"events/move/gap": 5}, "events.move.gap", "not a bare number, or drain"),
        ({"events/move/owners": []}, "events.move.owners", "at least 1 entry"),
        ({"events/move/next": "soon"}, "events.move.next", "lag"),
        ({"events/move/file": ""}, "events.move.file", "empty"),
    ],
)
def test_values_have_ranges(changes: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    assert caught.value.faults[0].path == path
    assert words in caught.value.faults[0].rule


CRASH = {"kind": "host-failure", "at": "5 s", "host": "worker-1"}
WORKERS_FAIL = CRASH | {"kind": "worker-failure"}
ANOTHER_JOB = {
    "workload/others": {"rate": "10 /s", "keys": {"distribution": "uniform", "count": 8}},
    "operators/others": {"kind": "source"},
    "operators/end": {"kind": "sink", "inputs": {"others": "shuffle"}},
}
STOP = {"kind": "reconfigure", "at": "10 s", "operator": "count", "protocol": "stop-and-restart"}
RESTARTS = {"method": "region-restart", "store": "remote", "interval": "1 s", "barriers": {}}


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (
            {"events/crash": CRASH, "events/move": STOP},
            "events.move.kind",
            'where no host may fail, or with fault_tolerance.method = "region-restart" and aligned barriers',
        ),
        (
            {"events/crash": WORKERS_FAIL, "workers/together": True},
            "events.move.kind",
            "without worker failures it is",
        ),
        (
            {"events/crash": CRASH, "fault_tolerance": {"method": "checkpoint"}},
            "events.move.kind",
            'with fault_tolerance.method = "none", or with fault_tolerance.method = "region-restart"',
        ),
        ({"fault_tolerance": RESTARTS | {"barriers": {"unaligned": True}}}, "events.move.kind", "aligned barriers"),
        ({"fault_tolerance": RESTARTS | {"guarantee": "at-least-once"}}, "events.move.kind", "exactly once"),
        (
            {"fault_tolerance": RESTARTS, "events/move": STOP, "events/crash": CRASH} | ANOTHER_JOB,
            "events.move.protocol",
            "where all operators are connected it is",
        ),
        ({"fault_tolerance": RESTARTS, "operators/out/buffer": 10}, "events.move.kind", "without bounded queues"),
        ({"fault_tolerance": {"method": "checkpoint"}}, "events.move.kind", 'method = "none"'),
        ({"fault_tolerance": {"method": "upstream-backup"}}, "events.move.kind", 'method = "none"'),
        ({"operators/out/buffer": 10}, "events.move.kind", "without bounded queues"),
        (
            {"operators/clean/timer": {"every": "1 s"}, "events/move": STOP},
            "operators.clean.timer",
            "megaphone and pause-and-resume are",
        ),
    ],
)
def test_what_is_not_simulated_beside_it_is_refused_by_name(changes: dict[str, object], path: str, words: str) -> None:
    found: list[InputFault] = not_simulated(scenario_from(changed(RAW, changes)))
    assert [fault.path for fault in found] == [path]
    assert words in found[0].hint


@pytest.mark.parametrize("how", [{"strategy": "fluid"}, {"protocol": "pause-and-resume"}])
def test_hosts_may_fail_where_nothing_is_kept(how: dict[str, str]) -> None:
    move = {"kind": "reconfigure", "at": "10 s", "operator": "count"} | how
    scenario = scenario_from(changed(RAW, {"events/crash": CRASH, "events/move": move}))
    assert not_simulated(scenario) == []
    assert scenario.loses_states


WINDOW = {"length": "1 s"}
JOIN = {"kind": "join", "inputs": {"clean": "key", "words": "key"}, "window": WINDOW}


@pytest.mark.parametrize(
    "changes",
    [
        {"operators/count/window": WINDOW},
        {"operators/count": RAW["operators"]["count"] | JOIN},
        {"operators/count/state": {"model": "window", "bytes": "8 B", "length": "1 s"}},
        {"operators/clean/timer": {"every": "1 s"}},
        {"operators/count/window": WINDOW, "fault_tolerance": RESTARTS},
        {"operators/count/window": WINDOW, "events/crash": CRASH},
        {"operators/count": RAW["operators"]["count"] | JOIN, "events/crash": CRASH},
        {"operators/count/state": {"model": "window", "bytes": "8 B", "length": "1 s"}, "events/crash": CRASH},
        {"operators/clean/timer": {"every": "1 s"}, "events/crash": CRASH},
    ],
)
def test_windows_joins_and_timers_are_simulated_beside_it(changes: dict[str, object]) -> None:
    assert not_simulated(scenario_from(changed(RAW, changes))) == []


def test_scans_are_simulated_where_hosts_fail_and_nothing_is_kept() -> None:
    changes = {"operators/count/scan": "1 s", "events/crash": CRASH}
    assert not_simulated(scenario_from(changed(RAW, changes))) == []
    assert not_simulated(scenario_from(changed(RAW, changes | {"fault_tolerance": RESTARTS}))) != []


def test_a_job_that_stops_as_a_whole_may_fail_where_it_goes_back_to_a_checkpoint() -> None:
    changes = {"events/move": STOP, "fault_tolerance": RESTARTS}
    assert not_simulated(scenario_from(changed(RAW, changes))) == []
    assert not_simulated(scenario_from(changed(RAW, changes | {"events/crash": CRASH}))) == []
    assert not_simulated(scenario_from(changed(RAW, changes | ANOTHER_JOB))) == []


def test_hosts_whose_tasks_start_together_may_fail() -> None:
    changes = {"events/crash": CRASH, "workers/together": True}
    assert not_simulated(scenario_from(changed(RAW, changes))) == []


def test_events_that_move_key_groups_otherwise_are_refused_beside_it() -> None:
    other = {"kind": "rescale", "at": "20 s", "operator": "count", "parallelism": 3}
    found = not_simulated(scenario_from(changed(RAW, {"events/more": other})))
    assert any("without other events" in fault.hint for fault in found if fault.path == "events.move.kind")


NOTHING = "moves nothing: each key group is where it is to be"
LATE = "is so long that the first configuration update comes after the end of the run"
BACK = {**MOVE, "at": "20 s", "plan": "back"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"events/move/plan": "back"}, [f"events.move.plan: {NOTHING}"]),
        ({"events/move/tasks": 2}, [f"events.move.tasks: {NOTHING}"]),
        ({"events/move/owners": [0, 1, 0, 1]}, [f"events.move.owners: {NOTHING}"]),
        ({"events/back": BACK}, []),
        ({"events/back": BACK, "events/again": {**BACK, "at": "30 s"}}, [f"events.again.plan: {NOTHING}"]),
        ({"events/move/late": "49 s"}, []),
        ({"events/move/late": "50 s"}, [f"events.move.late: {LATE}: who sends holds all"]),
        ({"operators/count/scan": "14.9 s"}, []),
        (
            {"operators/count/scan": "15 s"},
            ["operators.count.scan: makes rounds of 1 min: nothing is served before the run ends"],
        ),
    ],
)
def test_what_does_nothing_makes_a_warning(changes: dict[str, object], said: list[str]) -> None:
    assert [str(one) for one in warnings(scenario_from(changed(RAW, changes)), RunInputs())] == said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([[0, 1, 0, 1]], [f"events.move.file: {NOTHING}"]),
        ([[1, 1, 0, 1]], []),
        ([[1, 1, 0, 1], [0, 1, 0, 1]], []),  # there and back again
    ],
)
def test_a_file_that_moves_nothing_makes_a_warning(lines: list[list[int]], said: list[str]) -> None:
    scenario = scenario_from(changed(RAW, BY_FILE))
    known = tuple(Configuration(k * 10**10, tuple(enumerate(owners))) for k, owners in enumerate(lines, start=1))
    assert [str(one) for one in warnings(scenario, RunInputs(configurations={"move": known}))] == said
    assert warnings(scenario) == []  # without its lines nobody knows


def test_the_update_for_a_line_of_a_file_comes_after_the_time_of_the_line() -> None:
    scenario = scenario_from(changed(RAW, {**BY_FILE, "events/move/late": "30 s"}))  # at 10 s, of 60
    for time_s, said in ((29, []), (30, [f"events.move.late: {LATE}: who sends holds all"])):
        known = (Configuration(time_s * 10**9, ((0, 1),)),)
        assert [str(one) for one in warnings(scenario, RunInputs(configurations={"move": known}))] == said
    assert warnings(scenario) == []  # without its lines nobody knows
