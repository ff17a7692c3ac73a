"""Migration files of Megaphone: what they say, what is wrong with them, and that a written one reads as it was.

Oracle: files written down by hand in the form that `tools.rs` of strymon-system/megaphone parses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed_keys import changed

from models.errors import InputError
from models.planning.reconfiguration import Step, steps_of
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.scenario import LoadedScenario, missing_files, moved, scenario_text
from scenarios.planning.migration_files import migration_file
from scenarios.runs.inputs import checked

S = 1_000_000_000
RAW: dict[str, Any] = {
    "duration": "1 min",
    "workload": {"src": {"rate": "1 /s"}},
    "operators": {
        "src": {"kind": "source"},
        "op": {
            "kind": "aggregate",
            "inputs": {"src": "key"},
            "parallelism": 4,
            "key_groups": 8,
            "service": {"distribution": "deterministic", "value": "1 ms"},
        },
        "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
    },
    "hosts": {"h": {}},
    "fault_tolerance": {"method": "none"},
    "events": {"move": {"kind": "reconfigure", "at": "1 s", "operator": "op", "file": "moves.txt"}},
}
INITIAL = "M 0 0 1 2 3 0 1 2 3 \n"


def steps(folder: Path, text: str, **changes: object) -> tuple[Step, ...]:
    """The steps of a run with this migration file; the keys of the event are changed."""
    (folder / "moves.txt").write_text(text)
    scenario, inputs = checked(
        scenario_from(changed(RAW, {f"events/move/{key}": v for key, v in changes.items()})), folder
    )
    return steps_of(scenario, "move", inputs)


def test_lines_are_steps_at_their_times_and_those_that_move_nothing_are_none(tmp_path: Path) -> None:
    text = INITIAL + f"D {2 * S} 1 2 5 0 \nD {2 * S} 0 0\nM {3 * S} 0 2 2 3 0 1 2 3\n"
    assert steps(tmp_path, text) == (
        Step(((1, 1, 2), (5, 1, 0)), 2 * S),
        Step(((5, 0, 1),), 3 * S),
    )


def test_an_event_after_one_with_a_file_begins_where_that_ends(tmp_path: Path) -> None:
    (tmp_path / "moves.txt").write_text(f"D {2 * S} 1 2\n")
    later = {"kind": "reconfigure", "at": "9 s", "operator": "op", "plan": "back", "strategy": "all-at-once"}
    scenario, inputs = checked(scenario_from(changed(RAW, {"events/later": later})), tmp_path)
    assert steps_of(scenario, "later", inputs) == (Step(((1, 2, 1),)),)


@pytest.mark.parametrize("strategy", ["all-at-once", "fluid", "batched", "optimised"])
def test_a_plan_that_is_written_reads_as_the_same_steps(tmp_path: Path, strategy: str) -> None:
    event = {"kind": "reconfigure", "at": "1 s", "operator": "op", "strategy": strategy}
    event |= {"size": 3} if strategy == "batched" else {}
    bins = {"operators/op/key_groups": 16}
    scenario, inputs = made({"events/move": event, **bins}, tmp_path)
    text, found = migration_file(scenario, "move", inputs), steps_of(scenario, "move", inputs)
    assert len(found) == {"all-at-once": 1, "fluid": 4, "batched": 2, "optimised": 2}[strategy]
    assert text.startswith(f"M 0 {' '.join('0123' * 4)}\nD 1000000000 ")
    (tmp_path / "moves.txt").write_text(text)
    again, given = made(bins, tmp_path)
    assert [one.moves for one in steps_of(again, "move", given)] == [one.moves for one in found]
    assert migration_file(again, "move", given) == text


def test_a_scenario_in_another_folder_names_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "moves.txt").write_text(f"D {2 * S} 1 2\n")
    scenario = moved(LoadedScenario(scenario_from(RAW), tmp_path), tmp_path / "sub")
    (tmp_path / "sub").mkdir()
    assert 'file = "../moves.txt"' in scenario_text(scenario)
    assert len(checked(scenario, tmp_path / "sub")[1].configurations["move"]) == 1


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    (fault,) = missing_files(LoadedScenario(scenario_from(RAW), tmp_path))
    assert fault.path == "events.move.file"
    with pytest.raises(InputError, match=r"events\.move\.file = moves\.txt: cannot be read"):
        checked(scenario_from(RAW), tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must have 1 to 1,000,000 lines, and has 0"),
        ("\n\n", "must have 1 to 1,000,000 lines, and has 0"),
        (INITIAL + f"\nD {2 * S} 1 2\n", "line 2: must begin with M"),
        (INITIAL + f"D {2 * S} 1\x0b2\n", "line 2: must have whole numbers behind D, and '1\\x0b2' is not one"),
        (
            INITIAL + f"D {2 * S}\u00a01 2\n",
            "line 2: must have whole numbers behind D, and '2000000000\\xa01' is not one",
        ),
        (INITIAL + "X 1 2 3\n", "line 2: must begin with M"),
        (INITIAL + "D\n", "line 2: must have whole numbers behind D, and it has no time"),
        (INITIAL + f"D {10**22} 1 2\n", f"line 2: must have whole numbers behind D, and '{10**22}' is too long"),
        (INITIAL + "D 1e9 1 2\n", "line 2: must have whole numbers behind D, and '1e9' is not one"),
        (INITIAL + "D 2000000000 1 -2\n", "line 2: worker -2 of bin 1 does not exist"),
        (INITIAL + "D 2000000000 -1 2\n", "line 2: bin -1 does not exist"),
        ("M 0 0 1 2 3 0 1 2 -5\n", "line 1: worker -5 of bin 7 does not exist"),
        (INITIAL + "D -2000000000 1 2\n", "line 2: its time, -2000000000 ns, must be from 0 to 2^63 - 1 ns"),
        (INITIAL + "D 2000000000 1 2-\n", "line 2: must have whole numbers behind D, and '2-' is not one"),
        (
            INITIAL + "D 9999999999999999999 1 2\n",
            "line 2: its time, 9999999999999999999 ns, must be from 0 to 2^63 - 1 ns",
        ),
        ("M 0 0 1 2 3\n", "line 1: must have a worker for each of the 8 bins, and has 4"),
        (INITIAL + "D 2000000000 1 2 3\n", "line 2: must have pairs of a bin and a worker"),
        (INITIAL + "D 2000000000 8 2\n", "line 2: bin 8 does not exist"),
        (INITIAL + "D 2000000000 1 4\n", "line 2: worker 4 of bin 1 does not exist"),
        (INITIAL + "D 2000000000 1 2 1 3\n", "line 2: bin 1 has two workers"),
        (INITIAL + "D 3000000000 1 2\nD 2000000000 1 3\n", "line 3: its time is before 3000000000 ns"),
        ("M 0 1 1 2 3 0 1 2 3\n", "line 1: bin 0 would move at 0 ns, in the past of the frontier"),
        (INITIAL + "D 999999999 1 2\n", "line 2: bin 1 would move at 999999999 ns, in the past of the frontier"),
        (INITIAL + "D 60000000000 1 2\n", "line 2: bin 1 would move at 60000000000 ns, after the end of the run"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        steps(tmp_path, text)
    (fault,) = caught.value.faults
    assert (fault.path, fault.value) == ("events.move.file", "moves.txt")
    assert fault.rule.startswith(words)


def test_all_lines_that_are_wrong_are_said_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        steps(tmp_path, "M 0 1\nD 5 9 1\nD 4 1 1\n")
    assert [fault.rule.split(":")[0] for fault in caught.value.faults] == ["line 1", "line 2"]


@pytest.mark.parametrize("text", ["\ufeff" + INITIAL + f"D {2 * S} 1 2\n", INITIAL + f"D {2 * S}\t1  2\r\n\n\n"])
def test_marks_and_blank_lines_that_editors_leave_are_passed_over(tmp_path: Path, text: str) -> None:
    assert steps(tmp_path, text) == (Step(((1, 1, 2),), 2 * S),)


@pytest.mark.parametrize("next_time", ["now", "lag"])
def test_a_bin_may_move_in_each_step(tmp_path: Path, next_time: str) -> None:
    text = INITIAL + f"D {2 * S} 1 2\nD {2 * S} 3 2\nD {2 * S} 3 0 1 3\n"
    found = steps(tmp_path, text, next=next_time)
    assert [step.moves for step in found] == [((1, 1, 2),), ((3, 3, 2),), ((3, 2, 0), (1, 2, 3))]


def test_only_a_reconfiguration_of_a_power_of_two_of_bins_is_written(tmp_path: Path) -> None:
    crash: dict[str, object] = {"kind": "reconfigure", "at": "1 s", "operator": "op", "protocol": "pause-and-resume"}
    scenario, inputs = made({"events/move": crash, "operators/op/key_groups": 12}, tmp_path)
    with pytest.raises(InputError, match=r"operators\.op\.key_groups = 12: must be a power of two"):
        migration_file(scenario, "move", inputs)
    with pytest.raises(InputError, match=r"event = other: must be an event reconfigure \(there: move\)"):
        migration_file(scenario, "other", inputs)


def test_an_event_whose_time_is_drawn_has_no_file_of_one_time(tmp_path: Path) -> None:
    drawn = {"distribution": "uniform", "low": "1 s", "high": "3 s"}
    event: dict[str, object] = {"kind": "reconfigure", "at": drawn, "operator": "op", "strategy": "fluid"}
    scenario, inputs = made({"events/move": event}, tmp_path)
    with pytest.raises(InputError, match=r"events\.move\.at = uniform: must be a time for a migration file \(--set"):
        migration_file(scenario, "move", inputs)
    scenario, inputs = made({"events/move": event | {"at": "2 s"}}, tmp_path)
    assert f"D {2 * S} " in migration_file(scenario, "move", inputs)


def made(changes: dict[str, object], folder: Path) -> tuple[Scenario, Any]:
    return checked(scenario_from(changed(RAW, changes)), folder)
