"""Scenario files: TOML text to a scenario and back, and the scenarios that come with holdfast, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models.errors import InputError, InputFault, raise_if_any
from models.scenario.changes import overruled_by_sweep
from models.scenario.events import Reconfigure
from models.scenario.fault_tolerance import PlanFile
from models.scenario.reading import raw_of, scenario_with_settings
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileRate, SeriesRate
from models.schema_types import FrozenMap
from models.validation_messages import nearest, path_text
from scenarios.files.documents import tables_of
from scenarios.files.write_once import write_text


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario and the folder of its file, which relative paths inside of it start from.

    >>> from holdfast import read_scenario
    >>> loaded = read_scenario("examples/two-hosts.toml")
    >>> loaded.scenario.name, loaded.folder.name
    ('two hosts, one crash', 'examples')
    """

    scenario: Scenario
    folder: Path


def read_scenario(path: Path | str, overrides: Sequence[str] = ()) -> LoadedScenario:
    """Return the scenario of a TOML file, with `overrides` such as "fault_tolerance.interval=5 s" put in first.

    Raises InputError with all faults of the file. Files that it names are not looked at (`missing_files`).

    >>> from holdfast import read_scenario
    >>> read_scenario("examples/two-hosts.toml", ["duration=30 s"]).scenario.duration_s
    30.0
    """
    file = Path(path)
    scenario = scenario_with_settings(tables_of(file), dict(_settings(overrides)))
    return LoadedScenario(scenario, file.resolve().parent)


def refuse_swept(scenario: Scenario, file: str | Path, overrides: Sequence[str]) -> None:
    """Raise InputError for overrides of what the sweep of the scenario varies: they would change no design.

    The hint tells where they are the only way to read the file: its own value has to be valid, too.
    """
    faults, left = list[InputFault](), list[str]()
    for override in overrides:
        found = list(overruled_by_sweep(scenario, (path for path, _ in _settings([override]))))
        faults += found
        left += [] if found else [override]
    if not faults:
        return
    try:
        read_scenario(file, left)
    except InputError as error:
        hint = "change the file: its own value must be valid, too, although no design has it"
        faults = [replace(fault, hint=hint) for fault in faults]
        raise InputError(*error.faults, *faults) from error
    raise InputError(*faults)


def _settings(overrides: Sequence[str]) -> Iterator[tuple[str, str]]:
    faults = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            faults.append(InputFault("--set", text, "must be PATH=VALUE", 'as in --set duration="1 min"'))
        else:
            yield path.strip(), value.strip()
    raise_if_any(faults)


def missing_files(loaded: LoadedScenario) -> Iterator[InputFault]:
    """Yield one fault for each file or directory that the scenario names and that is not there."""
    for path, name in named_files(loaded.scenario):
        try:
            there = (loaded.folder / name).exists()
        except (OSError, ValueError):
            there = False
        if not there:
            yield InputFault(path, name, "is not there", f"looked for in {loaded.folder}")


def named_files(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Return (path in the scenario, file or directory) for each that it names."""
    for name, workload in scenario.workload.items():
        if isinstance(workload.rate, SeriesRate):
            yield path_text(("workload", name, "rate", "series")), workload.rate.series
        if isinstance(workload.rate, ProfileRate):
            yield path_text(("workload", name, "rate", "profile")), workload.rate.profile
    if scenario.failures is not None:
        yield "failures.log", scenario.failures.log
    if scenario.placement.plan is not None:
        yield "placement.plan", scenario.placement.plan
    if isinstance(scenario.fault_tolerance.allocation, PlanFile):
        yield "fault_tolerance.allocation.plan", scenario.fault_tolerance.allocation.plan
    if scenario.fault_tolerance.replica_plan is not None:
        yield "fault_tolerance.replica_plan.plan", scenario.fault_tolerance.replica_plan.plan
    for name, event in scenario.events.items():
        if isinstance(event, Reconfigure) and event.file is not None:
            yield path_text(("events", name, "file")), event.file


def with_files(scenario: Scenario, place: Callable[[str], str]) -> Scenario:
    """Return the scenario with `place(path)` instead of each path that it names: series, profiles, plans."""
    workload = {}
    for name, source in scenario.workload.items():
        rate = source.rate
        if isinstance(rate, SeriesRate):
            rate = rate.model_copy(update={"series": place(rate.series)})
        elif isinstance(rate, ProfileRate):
            rate = rate.model_copy(update={"profile": place(rate.profile)})
        workload[name] = source.model_copy(update={"rate": rate})
    tolerance = scenario.fault_tolerance
    if isinstance(tolerance.allocation, PlanFile):
        plan = PlanFile(plan=place(tolerance.allocation.plan))
        tolerance = tolerance.model_copy(update={"allocation": plan})
    if tolerance.replica_plan is not None:
        chosen = tolerance.replica_plan.model_copy(update={"plan": place(tolerance.replica_plan.plan)})
        tolerance = tolerance.model_copy(update={"replica_plan": chosen})
    failures = scenario.failures
    if failures is not None:
        failures = failures.model_copy(update={"log": place(failures.log)})
    events = {
        name: event.model_copy(update={"file": place(event.file)})
        if isinstance(event, Reconfigure) and event.file is not None
        else event
        for name, event in scenario.events.items()
    }
    changed = {
        "workload": FrozenMap(workload),
        "fault_tolerance": tolerance,
        "failures": failures,
        "events": FrozenMap(events),
    }
    return scenario.model_copy(update=changed)


def moved(loaded: LoadedScenario, folder: Path) -> Scenario:
    """Return the scenario as a file in another folder has to say it: relative paths lead to the same places."""

    def place(name: str) -> str:
        return name if Path(name).is_absolute() else os.path.relpath(loaded.folder / name, folder)

    return with_files(loaded.scenario, place)


def scenario_text(scenario: Scenario) -> str:
    """Return the scenario as TOML with units; reading it gives the same scenario.

    >>> from holdfast import read_scenario, scenario_text
    >>> text = scenario_text(read_scenario("examples/two-hosts.toml").scenario)
    >>> 'duration = "1 min"' in text
    True
    """
    import tomli_w  # noqa: PLC0415 - only where a scenario is written

    return tomli_w.dumps(raw_of(scenario))


def write_scenario(scenario: Scenario, path: Path | str, *, force: bool = False) -> None:
    """Write the scenario as TOML, all or nothing; raises InputError for a file that is there already.

    >>> from holdfast import read_scenario, scenario_with, write_scenario
    >>> scenario = read_scenario("examples/two-hosts.toml").scenario
    >>> write_scenario(scenario_with(scenario, {"hosts.worker.count": 3}), "three-hosts.toml", force=True)
    >>> read_scenario("three-hosts.toml").scenario.hosts["worker"].count
    3
    """
    write_text(Path(path), scenario_text(scenario), force=force)


_FOLDER = Path(__file__).parents[1] / "library"


def names() -> list[str]:
    """Return the names of the scenarios that come with holdfast, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def path_of(name: str) -> Path:
    """Return the file of a scenario by name; raises InputError for a name that is not there."""
    if name not in names():
        raise InputError.at("library", name, "there is no scenario of this name", nearest(name, names()))
    return _FOLDER / f"{name}.toml"


def resolve(name_or_path: Path | str) -> Path:
    """Return the file that is meant: one that exists, else the library's scenario of that name.

    A text that is neither comes back as a path where it looks like one; otherwise InputError names the
    nearest scenario.
    """
    text = str(name_or_path)
    path = Path(text)
    try:
        # A name too long for the file system raises here, and may still be meant as text.
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if is_file:
        return path
    if text in names():
        return path_of(text)
    # It looks like a path: its reader says what is wrong with it, with the path as it was given.
    if path.suffix or path.parent != Path() or path.exists():
        return path
    hint = nearest(text, names())
    raise InputError.at("scenario", text, "is neither a file nor a scenario of the library", hint)


def text_of(name: str) -> str:
    """Return the text of a scenario of the library."""
    return path_of(name).read_text(encoding="utf-8")
