"""The inputs of a run, and the checks that `validate` and `run` share; nothing is simulated.

First the recorded inputs that a scenario names (rate series and ingested profiles), then `checked` and `inputs_of`,
which join them with the hosts of checkpoints and the planner of the run.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models import display
from models.errors import InputError, InputFault, header_hint, named, raise_if_any
from models.records.profile import Profile
from models.scenario.inputs import Engine, RateSeries, RunInputs
from models.scenario.rules import faults, not_simulated
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileKeys, ProfileRate, SeriesRate
from models.steady_state.estimate import check_limits, estimate
from models.topology.layout import topological
from scenarios.planning.migration_files import migration_files_of
from scenarios.planning.reconfiguration import optimised_steps

if TYPE_CHECKING:
    from scenarios.planning.checkpoints import CheckpointHosts


# Limits against a wrong file: more would fill the memory, or overflow counts, before a message could be given.
_MOST_STEPS = 10_000_000
_MOST_TUPLES = 1e12  # in one step


def profiles_of(scenario: Scenario, folder: Path) -> dict[str, Profile]:
    """Return source -> the profile that gives its rate; paths are relative to the scenario's folder."""
    found = {}
    for source, workload in scenario.workload.items():
        if isinstance(workload.rate, ProfileRate):
            from scenarios.files.profiles import read_profile  # noqa: PLC0415 - loads Arrow

            with named(f"workload.{source}.rate.profile"):
                found[source] = read_profile(folder / workload.rate.profile)
    return found


def rates_of(scenario: Scenario, folder: Path, profiles: Mapping[str, Profile]) -> dict[str, RateSeries]:
    """Return source -> its rate over time, for the sources that have a recorded one."""
    rates = {}
    for source, workload in scenario.workload.items():
        if isinstance(workload.rate, SeriesRate):
            rates[source] = _series(f"workload.{source}.rate", workload.rate, folder)
        elif isinstance(workload.rate, ProfileRate):
            rates[source] = profile_rate(source, workload.rate, profiles[source])
    return rates


def shares_of(scenario: Scenario, profiles: Mapping[str, Profile]) -> dict[str, float]:
    """Return stream -> its measured selectivity, for streams that operators take; raises InputError for others."""
    shares = {name: share for profile in profiles.values() for name, share in profile.selectivity.items()}
    wanted = [
        (f"operators.{name}.takes.{upstream}", taken)
        for name, operator in scenario.operators.items()
        for upstream, taken in operator.takes.items()
        if isinstance(taken, str)
    ]
    known = ", ".join(shares) or "none: no source has a profile"
    raise_if_any(
        InputFault(path, taken, "must be a stream of the profile", f"there: {known}")
        for path, taken in wanted
        if taken not in shares
    )
    return {taken: shares[taken] for _, taken in wanted}


def profile_rate(source: str, rate: ProfileRate, profile: Profile) -> RateSeries:
    """Return the stream's bins mapped onto the span, scaled to the mean rate; keys are the profile's key groups.

    The series begins at `begin` of the span, perhaps within a bin.
    """
    path = f"workload.{source}.rate"
    if rate.stream not in profile.streams:
        rule, hint = "must be a stream of the profile", f"there: {', '.join(profile.streams)}"
        raise InputError.at(f"{path}.stream", rate.stream, rule, hint)
    counts = profile.counts[profile.streams.index(rate.stream)]
    total = counts.sum(axis=0)
    if not total.any():
        raise InputError.at(f"{path}.stream", rate.stream, "has no rows in the profile")
    # Time zero of the run is `begin` of the span: earlier edges are negative.
    edges = np.linspace(0.0, rate.span_s, profile.bins + 1) - rate.begin_s
    # `right`: a bin that begins exactly with the run is the first, and the one before it is left out.
    over = int(np.searchsorted(edges, 0.0, side="right")) - 1  # bins that end before the run begins
    edges = edges[over:]
    edges[0] = 0.0
    return RateSeries(edges, (total / total.mean() * rate.mean_per_s)[over:], counts[:, over:])


def check_key_groups(scenario: Scenario, profiles: Mapping[str, Profile]) -> None:
    """Raise InputError where keys of a profile reach an operator with another number of key groups."""
    groups: dict[str, int] = {}
    faults = []
    # Upstream first: an operator passes the key groups of its inputs on unless it sets keys of its own.
    for name in topological(scenario):
        operator = scenario.operators[name]
        if operator.kind == "source":
            if isinstance(scenario.workload[name].keys, ProfileKeys):
                groups[name] = profiles[name].key_groups
            continue
        reached = {groups[upstream] for upstream in operator.inputs if upstream in groups}
        if reached and (operator.output is None or operator.output.keys is None):
            groups[name] = max(reached)
        wrong = reached - {operator.groups}
        if wrong and "key" in operator.inputs.values():
            rule = f"must be {wrong.pop()}, the key groups of the profile that its keys come from"
            faults.append(InputFault(f"operators.{name}.key_groups", operator.groups, rule))
    raise_if_any(faults)


def _series(path: str, rate: SeriesRate, folder: Path) -> RateSeries:
    values = _column(path, rate, folder)
    return RateSeries(np.arange(values.size + 1) * rate.step_s, values * (rate.scale / rate.step_s))


def _column(path: str, rate: SeriesRate, folder: Path) -> np.ndarray:
    """Return the values of a column of a CSV file, one per step; raises InputError with the line of a bad value."""
    file = folder / rate.series
    values: list[float] = []
    if file.exists() and not file.is_file():
        raise InputError.at(f"{path}.series", rate.series, "must be a plain file")
    try:
        # newline="": the CSV reader handles line ends itself, also those inside quotes.
        with file.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            columns = reader.fieldnames or ()
            if rate.value not in columns:
                rule = f"must be a column of {rate.series}"
                raise InputError.at(f"{path}.value", rate.value, rule, header_hint(columns))
            for row in reader:
                values.append(_value(f"{path}.series", rate, row[rate.value], reader.line_num))
                if len(values) > _MOST_STEPS:
                    raise InputError.at(f"{path}.series", rate.series, f"has more than {_MOST_STEPS} steps")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a CSV file in UTF-8"
        raise InputError.at(f"{path}.series", rate.series, "cannot be read", str(why)) from None
    if not any(values):
        raise InputError.at(f"{path}.series", rate.series, "must have a value above zero")
    return np.array(values)


def _value(path: str, rate: SeriesRate, text: str | None, line: int) -> float:
    """Return one value of a series; raises InputError where it is no number in the range."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MOST_TUPLES:
        rule = f"line {line}: {rate.value} must be a number between 0 and {display.number(_MOST_TUPLES, 6)}"
        raise InputError.at(path, rate.series, rule, "it counts the tuples of one step")
    return value


def checked(scenario: Scenario, folder: Path, engine: Engine = "auto") -> tuple[Scenario, RunInputs]:
    """Return the scenario with what its files say in place, and all inputs of its run.

    Files are read relative to `folder`. Raises InputError for a scenario that cannot be run: names that do not fit,
    what is not simulated yet, files that cannot be used, what the engine cannot do, or more work than `limits` allow.
    """
    # All faults of the text before any file is read: a user gets them in one message.
    raise_if_any(faults(scenario))
    raise_if_any(not_simulated(scenario))
    # Failures of a log and replicas of a plan become entries first: limits and inputs count them.
    if scenario.failures is not None or scenario.fault_tolerance.replica_plan is not None:
        from scenarios.queries.replica_plan import filled  # noqa: PLC0415 - loads all readers of logs and plans

        scenario = filled(scenario, folder)
    inputs = inputs_of(scenario, folder)
    if engine == "plain":
        from sim.plain.support import not_supported  # noqa: PLC0415 - only where that engine is asked for

        raise_if_any(not_supported(scenario, inputs))
    check_limits(scenario, estimate(scenario, inputs.rates, inputs.shares, engine))
    return scenario, inputs


def inputs_of(
    scenario: Scenario,
    folder: Path,
    *,
    profiles: Mapping[str, Profile] | None = None,
    checkpoint_hosts: CheckpointHosts | None = None,
) -> RunInputs:
    """Return the inputs of the run besides the scenario; given profiles and checkpoint hosts are not made again."""
    # Reading a profile takes longer than all else here: sweeps and studies read it once and hand it in.
    known = profiles_of(scenario, folder) if profiles is None else profiles
    check_key_groups(scenario, known)
    rates, shares = rates_of(scenario, folder, known), shares_of(scenario, known)
    files = migration_files_of(scenario, folder)
    tolerance = scenario.fault_tolerance
    planned, planner = checkpoint_hosts or {}, None
    if tolerance.takes_checkpoints and checkpoint_hosts is None and tolerance.store != "remote":
        # Solvers are loaded only where hosts hold checkpoints: other scenarios begin sooner.
        from scenarios.planning.checkpoints import checkpoint_hosts_of  # noqa: PLC0415

        planned = checkpoint_hosts_of(scenario, folder, known)
    if tolerance.takes_checkpoints and tolerance.maintenance is not None:
        from scenarios.planning.maintenance import planner_of  # noqa: PLC0415

        planner = planner_of(scenario)
    return RunInputs(
        rates=rates,
        shares=shares,
        checkpoint_hosts=planned,
        planner=planner,
        steps=optimised_steps(scenario, files),
        configurations=files,
    )
