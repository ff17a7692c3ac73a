"""Migration files of Megaphone: which bin (key group) goes to which worker (task) from which time on.

A line is a configuration. `M 0 0 1 0 1` has the worker of each bin from time 0 on, `D 5000000000 2 1 3 0` those of bins
2 and 3 from 5 s on; times are in nanoseconds from the start of the run, and do not go back. Of lines with one time each
begins when the one before is over. Source: `nexmark/src/tools.rs` and `experiments/nexmark/patterns.py` of
strymon-system/megaphone, which read and write such files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from models import display, units
from models.errors import InputError, InputFault, raise_if_any
from models.planning.reconfiguration import Files, owners_before, steps_of
from models.scenario.events import Reconfigure
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.job import Operator
from models.scenario.scenario import Scenario
from models.units import to_ns
from models.validation_messages import path_text

_NUMBER = re.compile(r"-?[0-9]{1,19}")  # all that fit into 63 bits have so many digits
_BLANKS = re.compile(r"[ \t]+")  # other characters that look like blanks are none
_MOST_LINES = 1_000_000
_FORM = 'as "M <ns> <worker of each bin>" or "D <ns> <bin> <worker> ..."'


# -- reading


def migration_files_of(scenario: Scenario, folder: Path) -> Files:
    """Return event -> the lines of its migration file; paths are relative to the scenario's folder.

    Raises InputError with all faults of the files, each with its line.
    """
    events = {
        name: event
        for name, event in scenario.events.items()
        if isinstance(event, Reconfigure) and event.file is not None
    }
    files = {name: _read(scenario.operators[event.operator], name, event, folder) for name, event in events.items()}
    raise_if_any(fault for name, event in events.items() for fault in _untimely(scenario, name, event, files))
    return files


def _read(operator: Operator, name: str, event: Reconfigure, folder: Path) -> tuple[Configuration, ...]:
    """Return the lines of a file. Raises InputError with what is wrong with them by themselves."""
    assert event.file is not None
    path, value = _path(name), event.file
    try:
        text = (folder / event.file).read_text(encoding="utf-8-sig")  # editors may put a byte order mark in front
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a text in UTF-8"
        raise InputError.at(path, value, "cannot be read", why) from None
    lines = text.rstrip("\n").split("\n") if text.strip("\n") else []
    if not lines or len(lines) > _MOST_LINES:
        raise InputError.at(
            path,
            value,
            f"must have 1 to {display.count(_MOST_LINES)} lines, and has {display.count(len(lines))}",
            _FORM,
        )
    found, faults, latest = [], [], 0
    for number, line in enumerate(lines, start=1):
        try:
            one = _line(operator, event.operator, line)
            if one.time_ns < latest:
                raise _BadLineError(f"its time is before {latest} ns, that of a line above", "times do not go back")
            found.append(one)
            latest = one.time_ns
        except _BadLineError as error:
            faults.append(InputFault(path, value, f"line {number}: {error}", error.hint))
    raise_if_any(faults)
    return tuple(found)


class _BadLineError(ValueError):
    """A line of a migration file breaks a rule; `hint` says what helps."""

    def __init__(self, rule: str, hint: str = "") -> None:
        super().__init__(rule)
        self.hint = hint


def _line(operator: Operator, name: str, line: str) -> Configuration:
    """Return the configuration in a line. Raises _BadLineError."""
    kind, *words = [word for word in _BLANKS.split(line) if word] or [""]
    if kind not in ("M", "D"):
        raise _BadLineError("must begin with M, a whole map, or D, differences", _FORM)
    wrong = next((word for word in words if not _NUMBER.fullmatch(word)), None)
    if wrong is not None or not words:
        digits = wrong is not None and re.fullmatch(r"-?[0-9]+", wrong)
        what = "it has no time" if wrong is None else f"{wrong[:40]!r} is {'too long' if digits else 'not one'}"
        raise _BadLineError(f"must have whole numbers behind {kind}, and {what}", _FORM)
    time_ns, *numbers = map(int, words)
    if not 0 <= time_ns < 2**63:
        raise _BadLineError(
            f"its time, {time_ns} ns, must be from 0 to 2^63 - 1 ns", "times count from the start of the run"
        )
    if kind == "M" and len(numbers) != operator.groups:
        needed, there = map(display.count, (operator.groups, len(numbers)))
        rule = f"must have a worker for each of the {needed} bins, and has {there}"
        raise _BadLineError(rule, f"bins are the key groups of {name}")
    if kind == "D" and len(numbers) % 2:
        raise _BadLineError("must have pairs of a bin and a worker, and the last bin has no worker", _FORM)
    pairs = list(enumerate(numbers)) if kind == "M" else list(zip(numbers[::2], numbers[1::2], strict=True))
    _check_pairs(operator, name, pairs)
    return Configuration(time_ns, tuple(pairs))


def _check_pairs(operator: Operator, name: str, pairs: Sequence[tuple[int, int]]) -> None:
    """Raise _BadLineError for bins or workers that are not there, and for bins that come twice."""
    seen = set[int]()
    for group, task in pairs:
        if not 0 <= group < operator.groups:
            raise _BadLineError(
                f"bin {group} does not exist", f"{name} has {display.count(operator.groups)} key groups, from 0 on"
            )
        if not 0 <= task < operator.parallelism:
            tasks = display.count(operator.parallelism)
            hint = f"{name} has {tasks} tasks, from 0 on; none is dead, and spare hosts have none"
            raise _BadLineError(f"worker {task} of bin {group} does not exist", hint)
        if group in seen:
            raise _BadLineError(f"bin {group} has two workers", "write it once in a line")
        seen.add(group)


def _untimely(scenario: Scenario, name: str, event: Reconfigure, files: Files) -> Iterator[InputFault]:
    """Yield lines that move something at a time that is none for it."""
    now = owners_before(scenario, name, files)
    at_ns, end_ns = to_ns(event.fixed_s), to_ns(scenario.duration_s)
    for number, line in enumerate(files[name], start=1):
        moves = {group for group, task in line.owners if now[group] != task}
        for group, task in line.owners:
            now[group] = task
        rule, hint = "", ""
        if moves and line.time_ns < at_ns:
            rule = f"bin {min(moves)} would move at {line.time_ns} ns, in the past of the frontier"
            hint = f"times count from the start of the run, and the event is at {units.show(event.fixed_s, 's')}"
        elif moves and line.time_ns >= end_ns:
            rule = f"bin {min(moves)} would move at {line.time_ns} ns, after the end of the run"
            hint = f"duration = {units.show(scenario.duration_s, 's')}, and times count from the start of the run"
        if rule:
            yield InputFault(_path(name), event.file, f"line {number}: {rule}", hint)


def _path(name: str) -> str:
    return path_text(("events", name, "file"))


# -- writing


def migration_file(scenario: Scenario, name: str, inputs: RunInputs) -> str:
    """Return the steps of an event `reconfigure` as a migration file: the map before it, then a line for each step.

    All steps have the time of the event, unless a file gives them others. Raises InputError for another event, for one
    whose time each replication draws, and for a number of key groups that is no power of two.
    """
    event = scenario.events.get(name)
    if not isinstance(event, Reconfigure):
        known = [other for other, one in scenario.events.items() if isinstance(one, Reconfigure)]
        raise InputError.at("event", name, "must be an event reconfigure", f"there: {', '.join(known) or 'none'}")
    if event.laws:
        path, law = path_text(("events", name, "at")), event.laws[0].distribution
        raise InputError.at(path, law, "must be a time for a migration file", f"--set {path}='5 s'")
    groups = scenario.operators[event.operator].groups
    if groups & (groups - 1):
        path = path_text(("operators", event.operator, "key_groups"))
        raise InputError.at(path, groups, "must be a power of two for Megaphone, which has 2^k bins")
    lines = [["M", 0, *owners_before(scenario, name, inputs.configurations)]]
    for step in steps_of(scenario, name, inputs):
        time_ns = max(step.not_before_ns, to_ns(event.fixed_s))
        lines.append(["D", time_ns, *(one for move in step.moves for one in (move.key_group, move.target))])
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)
