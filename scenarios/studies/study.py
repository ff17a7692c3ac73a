"""The main job: real flights in, a profile, allocations of checkpoints, designs beside each other, one run in full.

`study` does the work. What it has made so far is kept in a directory beside the one that is asked for:

    DIR.unfinished/profile   the load profile, once it is there
    DIR.unfinished/sweep     the runs that are done

A study that was killed goes on there with the same command; DIR appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from analysis.documents import from_document
from analysis.runs.run_summary import RunSummary
from models.errors import NO_VALUE, InputError, raise_if_any
from models.records.profile import Profile
from models.scenario.fault_tolerance import Allocation
from models.scenario.key_groups import PLAIN, SALTED
from models.scenario.reading import DesignPoint, number_of_points
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileRate
from models.schema_types import FrozenMap
from models.steady_state.estimate import check_limits, estimate
from scenarios.files.profiles import read_profile, write_profile
from scenarios.files.scenario import LoadedScenario, with_files
from scenarios.planning.checkpoints import METHODS, PlannedAllocation, compare_allocations
from scenarios.planning.group_loads import GroupLoads
from scenarios.runs.execute import COMPILING
from scenarios.runs.inputs import inputs_of
from scenarios.runs.run import RunResult, run
from scenarios.sweeps.plan import make_plan, read_plan, what_differs
from scenarios.sweeps.store import OK, PLAN
from scenarios.sweeps.sweep import SweepResult, sweep

FLIGHTS = "flights_nyc_2017.parquet"
STREAMS = {"delayed": "arr_delay > 0", "airborne": "air_time IS NOT NULL"}
KEY, TIME, BIN_S = "tailnum", "sched_dep_ts", 3600.0
PROFILE, SWEEP = "profile", "sweep"  # in the directory of a study
ALLOCATION, PROTOCOL = "fault_tolerance.allocation", "elasticity.protocol"

# (what is done, share done or None where that is not known)
ProgressCallback = Callable[[str, float | None], None]


@dataclass(frozen=True)
class DesignRun:
    """One run of a design."""

    replication: int
    summary: RunSummary


@dataclass(frozen=True)
class StudyDesign:
    """One way to do it, and the runs of it that came to their end; `settings` are those of its design point."""

    label: str
    allocation: str
    protocol: str
    runs: tuple[DesignRun, ...]
    point: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """The results of a study. `run` is the one that is shown in full: the scenario as it stands, replication 0."""

    scenario: Scenario
    profile: Profile
    loads: GroupLoads
    planned: tuple[PlannedAllocation, ...]
    sweep: SweepResult
    designs: tuple[StudyDesign, ...]
    run: RunResult

    @property
    def method(self) -> str:
        """The allocation of the run that is looked at in full."""
        return _allocation_text(self.scenario.fault_tolerance.allocation)

    def design_of(self, method: str) -> StudyDesign | None:
        """Return the design with that allocation, of several the one that has most in common with the run in full."""
        found = [one for one in self.designs if one.allocation == method and one.runs]
        alike = [one for one in found if one.protocol == self.scenario.elasticity.protocol]
        return next(iter([*alike, *found]), None)


def flights() -> Path:
    """Return the bundled flight records: departures from New York's airports in 2017."""
    return Path(str(resources.files("scenarios") / "data" / FLIGHTS))


def ingest_flights(key_groups: int, copies: int, on_progress: ProgressCallback) -> tuple[Profile, Any]:
    """Return the profile of the bundled flights by tail number, in hours, and its quarantine; needs Java."""
    from analysis.spark.ingest import ingest  # noqa: PLC0415 - Spark only where it is used

    return ingest(
        [flights()],
        key=KEY,
        time=TIME,
        streams=STREAMS,
        key_groups=key_groups,
        bin_s=BIN_S,
        copies=copies,
        on_progress=lambda text, share: on_progress(f"ingest: {text}", share),
    )


def profiled_source(scenario: Scenario) -> str:
    """Return the one source whose rate is a profile; raises InputError where there is none or more than one."""
    found = [name for name, workload in scenario.workload.items() if isinstance(workload.rate, ProfileRate)]
    if len(found) != 1:
        rule = "must have exactly one source whose rate is a profile"
        raise InputError.at("workload", ", ".join(found) or "none", rule, 'as in rate = { profile = "DIR", ... }')
    return found[0]


def key_groups_of(scenario: Scenario) -> int:
    """Return key groups of the operators that read the profile's source by key; raises InputError where they differ."""
    source = profiled_source(scenario)
    counts = {operator.groups for operator in scenario.operators.values() if operator.inputs.get(source) == "key"}
    if len(counts) != 1:
        rule = "must be the same for every operator that reads the profile's keys"
        raise InputError.at("operators.*.key_groups", ", ".join(map(str, sorted(counts))) or "none", rule)
    return counts.pop()


def in_place(loaded: LoadedScenario, place: Path) -> LoadedScenario:
    """Return the scenario as a file beside the profile of a study in `place` has to say it, and what it varies.

    Without a sweep of its own it is run once with each allocation.
    """
    scenario = loaded.scenario
    rate = scenario.workload[profiled_source(scenario)].rate
    assert isinstance(rate, ProfileRate)

    def put(name: str) -> str:
        # The profile is made by the study and lies in its directory, whatever the scenario calls it.
        if name == rate.profile:
            return PROFILE
        # The scenario is written to another folder: paths must still lead to the same files.
        return name if Path(name).is_absolute() else os.path.relpath(loaded.folder / name, place)

    def put_plan(allocation: object) -> object:
        if isinstance(allocation, Mapping) and isinstance(allocation.get("plan"), str):
            return FrozenMap({"plan": put(allocation["plan"])})
        return put(allocation) if isinstance(allocation, str) and allocation.endswith(".json") else allocation

    varied = dict(scenario.sweep or {ALLOCATION: METHODS})
    if ALLOCATION in varied:
        varied[ALLOCATION] = tuple(map(put_plan, varied[ALLOCATION]))
    return LoadedScenario(with_files(scenario, put).model_copy(update={"sweep": FrozenMap(varied)}), place)


def check(scenario: Scenario) -> None:
    """Raise InputError for a scenario that is none for a study, before the work begins."""
    raise_if_any(faults(scenario))
    raise_if_any(not_simulated(scenario))
    key_groups_of(scenario)


def study(loaded: LoadedScenario, profile: Profile, *, workers: int = 2, on_progress: ProgressCallback) -> Study:
    """Plan by every method, run each design in each replication, and once more the scenario as it stands.

    `loaded` is a scenario as `in_place` makes it, and the folder in which its profile is and its sweep is kept: what is
    there is not done again.
    """
    # The scenario as it stands is the run in full; the sweep only varies it.
    alone = loaded.scenario.model_copy(update={"sweep": FrozenMap()})
    profiles = {profiled_source(alone): profile}
    once = alone.model_copy(update={"replications": 1})
    inputs = inputs_of(once, loaded.folder, profiles=profiles, checkpoint_hosts={})
    # Before planning and the sweep, which take far longer than this check.
    check_limits(once, estimate(once, inputs.rates, inputs.shares))
    on_progress("planning checkpoints", None)
    loads, planned = compare_allocations(alone, profiles)
    title = f"simulating {number_of_points(loaded.scenario)} designs, {alone.replications} times each"
    swept = sweep(
        loaded,
        loaded.folder / SWEEP,
        workers=workers,
        retry=True,
        summaries=True,
        on_progress=lambda done: on_progress(title, done),
        on_compile=lambda done: on_progress(COMPILING, done),
    )
    full = run(
        once,
        folder=loaded.folder,
        on_progress=lambda done: on_progress("simulating one run in full", done),
        on_compile=lambda done: on_progress(COMPILING, done),
    )
    return Study(alone, profile, loads, planned, swept, designs_of(swept), full)


def designs_of(result: SweepResult) -> tuple[StudyDesign, ...]:
    """Return the designs of a sweep with the summaries of their runs."""
    return tuple(_design(result, point) for point in result.plan.points)


def _design(result: SweepResult, point: DesignPoint) -> StudyDesign:
    """Return a design point with the summaries of its runs that came to their end."""
    scenario = result.plan.scenario
    allocation = point.settings.get(ALLOCATION, scenario.fault_tolerance.allocation)
    protocol = point.settings.get(PROTOCOL, scenario.elasticity.protocol)
    rows = [row for row in result.rows if row.point == point.number and row.status == OK]
    runs = tuple(DesignRun(row.replication, from_document(RunSummary, json.loads(row.summary))) for row in rows)
    label = ", ".join(_setting_text(path, value) for path, value in point.settings.items())
    return StudyDesign(label, _allocation_text(allocation), str(protocol), runs, point.number, point.settings)


def _setting_text(path: str, value: object) -> str:
    if path in (ALLOCATION, PROTOCOL):
        return _allocation_text(value)
    return f"{path.rpartition('.')[2]} {value}"


def _allocation_text(allocation: Allocation | object) -> str:
    """Return the name of an allocation; of a plan file its name without suffix."""
    if isinstance(allocation, str):
        return allocation
    plan = allocation.get("plan") if isinstance(allocation, Mapping) else getattr(allocation, "plan", allocation)
    return Path(str(plan)).stem


_SUFFIX = ".unfinished"


def place_of(directory: Path | str) -> Path:
    """Return the place of a study that is to be in the directory; made if it is not there.

    Raises InputError where something else has its name.
    """
    target = Path(directory).resolve()
    place = target.with_name(target.name + _SUFFIX)
    try:
        place.mkdir(parents=True, exist_ok=True)
        others = {entry.name for entry in place.iterdir()} - {PROFILE, SWEEP}
        # What a process that was killed had begun to write; whoever writes next removes it.
        others = {name for name in others if not name.startswith(f".{PROFILE}.")}
    except OSError as error:
        raise InputError.at(str(place), NO_VALUE, "cannot be made", (error.strerror or str(error)).lower()) from None
    if others:
        rule = "must be what is left of a study that was not finished"
        raise InputError.at(str(place), ", ".join(sorted(others)), rule, "move it away, or choose another --out")
    return place


def profile_in(place: Path, key_groups: int, copies: int, make: Callable[[], tuple[Profile, Any]]) -> Profile:
    """Return the profile of the flights in the place; made, and kept there, where there is none of this kind."""
    try:
        kept = read_profile(place / PROFILE)
    except InputError:
        kept = None
    # A profile of other key groups or copies is the answer to another question: it is made again.
    if kept is not None and _asked(kept) == (KEY, TIME, BIN_S, STREAMS, key_groups, copies):
        return kept
    try:
        profile, quarantine = make()
    except InputError:
        if not any(place.iterdir()):
            place.rmdir()  # nothing to go on with
        raise
    write_profile(profile, place / PROFILE, quarantine, force=True)
    return profile


def _asked(profile: Profile) -> tuple[object, ...] | None:
    """Return the question that the profile of the flights answers; None for a profile of something else."""
    if profile.sources != (FLIGHTS,) or profile.where or profile.hash != (PLAIN if profile.copies == 1 else SALTED):
        return None
    filters = dict(profile.filters)
    return profile.key, profile.time, profile.bin_s, filters, profile.key_groups, profile.copies


def begin_again(loaded: LoadedScenario, *, force: bool) -> None:
    """Remove runs that are in the place and answer another question; without `force` raise InputError."""
    stored = loaded.folder / SWEEP
    if not (stored / PLAN).exists():
        return
    try:
        differs = what_differs(read_plan(stored / PLAN), make_plan(loaded))
    except InputError:
        differs = "that cannot be read"
    if differs and not force:
        hint = "use --force to begin again, or choose another --out"
        raise InputError.at(str(loaded.folder), NO_VALUE, f"holds the runs of an unfinished study {differs}", hint)
    if differs:
        # The sweep alone: the profile is kept if it answers the same question (`profile_in`).
        shutil.rmtree(stored)
