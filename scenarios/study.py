"""The main job: real flights in, a profile, checkpoint allocations by four methods, runs with a crash, a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from analysis.summary import summarise
from models.errors import InputError, raise_if_any
from models.estimate import check_limits, estimate
from models.profile import Profile
from models.rules import not_simulated
from models.scenario import Scenario
from models.workload import ProfileRate
from scenarios.execute import COMPILING, Job, execute
from scenarios.group_loads import GroupLoads
from scenarios.planning import METHODS, PlannedAllocation, compare_allocations
from scenarios.runs import RunResult, inputs_of

FLIGHTS = "flights_nyc_2017.parquet"
STREAMS = {"delayed": "arr_delay > 0", "airborne": "air_time IS NOT NULL"}
_HOUR_S = 3600.0

# (what is done, share done or None where that is not known)
Talk = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Study:
    """What the study found; `runs` has one result per method, in the order of `planned`."""

    scenario: Scenario
    profile: Profile
    loads: GroupLoads
    planned: tuple[PlannedAllocation, ...]
    runs: Mapping[str, RunResult]

    def caught_up_s(self, method: str) -> float | None:
        """The slowest recovery of that method's run, from failure to caught up; None where one did not end."""
        totals = [recovery["total_s"] for recovery in self.runs[method].summary["recoveries"]]
        return None if not totals or None in totals else float(max(totals))

    @property
    def method(self) -> str:
        """The method that the scenario asks for: its run is the one that is looked at in full."""
        asked = self.scenario.fault_tolerance.allocation
        return asked if isinstance(asked, str) else METHODS[-1]


def flights() -> Path:
    """The bundled flight records: departures from New York's airports in 2017."""
    return Path(str(resources.files("scenarios") / "data" / FLIGHTS))


def ingest_flights(key_groups: int, talk: Talk) -> tuple[Profile, Any]:
    """The profile of the bundled flights by tail number, in hours, and its quarantine; needs Java."""
    from analysis.spark.ingest import ingest  # noqa: PLC0415 - Spark only where it is used

    return ingest(
        [flights()],
        key="tailnum",
        time="sched_dep_ts",
        streams=STREAMS,
        key_groups=key_groups,
        bin_s=_HOUR_S,
        talk=lambda text: talk(f"ingest: {text}", None),
    )


def profiled_source(scenario: Scenario) -> str:
    """The one source whose rate is a profile; raises InputError where there is none or more than one."""
    found = [name for name, workload in scenario.workload.items() if isinstance(workload.rate, ProfileRate)]
    if len(found) != 1:
        rule = "must have exactly one source whose rate is a profile"
        raise InputError.at("workload", ", ".join(found) or "none", rule, 'as in rate = { profile = "DIR", ... }')
    return found[0]


def key_groups_of(scenario: Scenario) -> int:
    """Key groups of the operators that read the profile's source by key; raises InputError where they differ."""
    source = profiled_source(scenario)
    counts = {operator.groups for operator in scenario.operators.values() if operator.inputs.get(source) == "key"}
    if len(counts) != 1:
        rule = "must be the same for every operator that reads the profile's keys"
        raise InputError.at("operators.*.key_groups", ", ".join(map(str, sorted(counts))) or "none", rule)
    return counts.pop()


def study(scenario: Scenario, profile: Profile, *, workers: int = 2, talk: Talk) -> Study:
    """Plan by every method and run the scenario with each plan; replication 0 of each, with common random numbers.

    Methods that agree on every holder share one run.
    """
    profiles = {profiled_source(scenario): profile}
    raise_if_any(not_simulated(scenario))
    talk("planning checkpoints", None)
    loads, planned = compare_allocations(scenario, profiles)
    inputs = [inputs_of(scenario, Path(), profiles=profiles, holders=one.holders) for one in planned]
    check_limits(scenario, estimate(scenario, inputs[0].rates, inputs[0].shares))
    different = [k for k, one in enumerate(planned) if one.holders not in [other.holders for other in planned[:k]]]
    title = f"simulating {len(different)} different plans"
    records = execute(
        [Job(scenario, inputs[k]) for k in different],
        workers=workers,
        on_progress=lambda done: talk(title, done),
        on_compile=lambda done: talk(COMPILING, done),
    )
    results = [
        (planned[k].holders, RunResult(scenario, summarise(scenario, (record,)), (record,)))
        for k, record in zip(different, records, strict=True)
    ]
    runs = {one.method: next(run for holders, run in results if holders == one.holders) for one in planned}
    return Study(scenario, profile, loads, planned, runs)
