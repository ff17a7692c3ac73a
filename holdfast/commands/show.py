"""`holdfast show`: topology, placement and expected load of a scenario, without running it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast import terminal
from holdfast.commands.options import AsJson, File, Settings, as_options
from holdfast.scenario_view import defaults_document, defaults_tables, document, tables
from models.errors import InputError
from models.scenario.inputs import RunInputs
from models.scenario.workload import ProfileRate, SeriesRate
from models.topology import job_graph
from scenarios.files.graphs import refuse_graph, write_graph
from scenarios.files.scenario import LoadedScenario, missing_files, read_scenario, resolve
from scenarios.planning.migration_files import migration_file
from scenarios.queries.replica_plan import with_planned_replicas
from scenarios.reliability.failure_replay import replayed
from scenarios.runs.inputs import check_key_groups, checked, profiles_of, rates_of, shares_of


def show(
    file: File,
    settings: Settings = None,
    graph: Annotated[
        Path | None, typer.Option("--graph", metavar="FILE", help="Write the graph of the job as .graphml or .dot too")
    ] = None,
    graph_of: Annotated[
        str, typer.Option("--graph-of", metavar="WHAT", help="Of what: operators, tasks, or placement")
    ] = "operators",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --graph")] = False,
    moves: Annotated[
        str | None,
        typer.Option(
            "--migration-file",
            metavar="EVENT",
            help="Show the steps of an event reconfigure alone, as Megaphone reads them",
        ),
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show what the engine of the scenario brings, and from where")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show topology, placement, expected rates and load by operator and host, what all depends on, and the run's size.

    The graph in a file has the same rates, loads and times as attributes of its nodes and edges.
    """
    if defaults:
        _show_defaults(file, settings, as_json)
        return
    if moves is not None:
        if as_json or graph is not None:
            other = "--json" if as_json else "--graph"
            raise InputError.at("--migration-file", moves, f"shows no more than the steps: leave {other} out")
        _show_migration_file(file, settings, moves)
        return
    refuse_graph(graph, force=force)
    with as_options({"of": "--graph-of"}):
        job_graph.refuse_kind(graph_of)
    # The default cannot be told from the option given with that value, which does no harm.
    if graph is None and graph_of != "operators":
        raise InputError.at("--graph-of", graph_of, "says what --graph writes, and there is none", "--graph job.dot")
    loaded, inputs, missing = _load(file, settings)
    if graph is not None:
        with as_options({"of": "--graph-of"}):
            made = job_graph.graph_of(loaded.scenario, graph_of, inputs)
        write_graph(made, graph, force=force)
    if as_json:
        terminal.print_json(document(loaded.scenario, inputs))
    else:
        terminal.show(*tables(loaded.scenario, inputs), *(f"missing: {line}" for line in missing))


def _show_defaults(file: str, settings: list[str] | None, as_json: bool) -> None:
    """Show the values of the engine that the scenario names."""
    scenario = read_scenario(resolve(file), settings or []).scenario
    if scenario.engine is None:
        raise InputError.at("--defaults", file, "names no engine, which would bring values", 'engine = "flink"')
    if as_json:
        terminal.print_json(defaults_document(scenario.engine, scenario))
    else:
        terminal.show(*defaults_tables(scenario.engine, scenario))


def _show_migration_file(file: str, settings: list[str] | None, event: str) -> None:
    """Show the steps of an event, for a scenario that `run` would take."""
    loaded = read_scenario(resolve(file), settings or [])
    scenario, inputs = checked(loaded.scenario, loaded.folder)
    with as_options({"event": "--migration-file"}):
        text = migration_file(scenario, event, inputs)
    sys.stdout.write(text)


def _load(file: str, settings: list[str] | None) -> tuple[LoadedScenario, RunInputs | None, list[str]]:
    """Return the scenario, its recorded rates where all of its files are there, and what is missing."""
    loaded = read_scenario(resolve(file), settings or [])
    missing = [str(fault) for fault in missing_files(loaded)]
    if loaded.scenario.failures is not None and not missing:
        replayed(loaded.scenario, loaded.folder)  # refuses what a run would
    if loaded.scenario.fault_tolerance.replica_plan is not None and not missing:
        # As in a run, so that load and topology show the replicas of the plan.
        loaded = LoadedScenario(with_planned_replicas(loaded.scenario, loaded.folder), loaded.folder)
    return loaded, None if missing else _input_files(loaded), missing


def _input_files(loaded: LoadedScenario) -> RunInputs | None:
    rates = (workload.rate for workload in loaded.scenario.workload.values())
    if not any(isinstance(rate, (ProfileRate, SeriesRate)) for rate in rates):
        return None
    profiles = profiles_of(loaded.scenario, loaded.folder)
    check_key_groups(loaded.scenario, profiles)
    rates_by_source = rates_of(loaded.scenario, loaded.folder, profiles)
    return RunInputs(rates=rates_by_source, shares=shares_of(loaded.scenario, profiles))
