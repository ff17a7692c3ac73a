"""The command `init`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from holdfast import terminal
from models import display
from models.errors import InputError, InputFault, raise_if_any
from models.scenario.engine import ENGINE_TABLES
from models.scenario.reading import scenario_from
from models.units import UnitError, parse
from scenarios.files.documents import refuse_suffix
from scenarios.files.starter import FlinkJob, scenario_text
from scenarios.files.write_once import refuse_unwritable, write_text

_MOST_TASKS = 10_000
_CHANGE, _CHANGE_BYTES = "50 MB", 50e6


def init(
    engine: Annotated[str, typer.Argument(metavar="ENGINE", help="Engine of the job: flink")],
    out: Annotated[Path, typer.Option(help="File to write")] = Path("flink-job.toml"),
    rate: Annotated[str | None, typer.Option(help="Records that come in, as in 20000 /s")] = None,
    state: Annotated[str | None, typer.Option(help="Keyed state of the job, as in 40 GB")] = None,
    change: Annotated[str | None, typer.Option(help="What of it changes between two checkpoints, as in 50 MB")] = None,
    taskmanagers: Annotated[str | None, typer.Option(help="TaskManagers x slots of each, as in 6x4")] = None,
    interval: Annotated[str | None, typer.Option(help="Time between two checkpoints, as in 60 s")] = None,
    busy: Annotated[float, typer.Option(help="Share of the time that tasks are busy; not asked")] = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file")] = False,
) -> None:
    """Write a scenario to begin with: what happens when a TaskManager of my job dies?

    Questions are asked for what no option says, on a terminal; elsewhere the answers in brackets are taken.
    """
    if engine != "flink":
        simulated = engine in ENGINE_TABLES
        hint = (
            f"holdfast library {engine}-recovery prints a scenario to begin with"
            if simulated
            else "holdfast init flink"
        )
        raise InputError.at("ENGINE", engine, "has no questions yet: flink has", hint)
    refuse_suffix(out, (".toml",))
    refuse_unwritable(out, force=force, option="--out")
    rate, state = _answer(rate, "Records that come in", "20000 /s"), _answer(state, "Keyed state of the job", "40 GB")
    job = _job(
        rate,
        busy,
        state,
        _answer(change, "What of it changes between two checkpoints", _usual_change(state)),
        _answer(taskmanagers, "TaskManagers x slots of each", "6x4"),
        _answer(interval, "Time between two checkpoints", "60 s"),
    )
    text = scenario_text(job)
    scenario_from(tomllib.loads(text))
    write_text(out, text, force=force)
    stands = f"; one simulated record stands for {display.count(job.scale)}" if job.scale > 1 else ""
    terminal.show(f"Wrote {out}{stands}. Go on with: holdfast run {out}")


def _answer(given: str | None, question: str, usual: str) -> str:
    if given is not None or not sys.stdin.isatty():
        return usual if given is None else given
    answer: str = typer.prompt(question, default=usual)
    return answer


def _usual_change(state: str) -> str:
    """Return what is taken for the change: 50 MB, or the state if that is smaller."""
    try:
        return state if 0 < parse(state, "B") < _CHANGE_BYTES else _CHANGE
    except UnitError:  # which is said later
        return _CHANGE


def _job(rate: str, busy: float, state: str, change: str, taskmanagers: str, interval: str) -> FlinkJob:
    """Return the job; raises InputError with all faults at once."""
    faults: list[InputFault] = []

    def quantity(option: str, text: str, dimension: str) -> float:
        try:
            found = parse(text, dimension)
        except UnitError as error:
            faults.append(InputFault(option, text, error.rule, error.hint))
            return 1.0
        if found <= 0:
            faults.append(InputFault(option, text, "must be more than zero"))
        return found

    if not 0 < busy < 1:
        faults.append(InputFault("--busy", busy, "must be a number between 0 and 1", "--busy 0.5"))
    hosts, slots = _counts(taskmanagers)
    if not 0 < hosts * slots <= _MOST_TASKS:
        rule = f"must be two whole numbers with an x between them, {_MOST_TASKS:,} slots at most"
        faults.append(InputFault("--taskmanagers", taskmanagers, rule, "--taskmanagers 6x4"))
    job = FlinkJob(
        rate_per_s=quantity("--rate", rate, "1/s"),
        busy=busy,
        state_bytes=quantity("--state", state, "B"),
        change_bytes=quantity("--change", change, "B"),
        taskmanagers=hosts,
        slots=slots,
        interval_s=quantity("--interval", interval, "s"),
    )
    if not faults and job.change_bytes > job.state_bytes:
        faults.append(InputFault("--change", change, f"must be no more than the state, {state}"))
    raise_if_any(faults)
    return job


def _counts(text: str) -> tuple[int, int]:
    """Return the numbers on both sides of the x; zeros for anything else."""
    parts = text.lower().replace(" ", "").split("x")
    if len(parts) == 2 and all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return int(parts[0]), int(parts[1])
    return 0, 0
