"""`holdfast validate`, `show`, `schema` and `library`: what a scenario says, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast import terminal
from holdfast.commands.options import as_options
from holdfast.file_kinds import KINDS, described
from models.errors import InputError

if TYPE_CHECKING:
    from models.scenario.inputs import RunInputs
    from scenarios.files.scenario import LoadedScenario

File = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or a name of the library")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value; may be repeated")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document")]


def validate(file: File, settings: Settings = None, as_json: AsJson = False) -> None:
    """Check a scenario: all errors at once, and warnings about what is legal and probably not meant.

    Files that it names are read too. Exit code 0: `run` simulates it; 2: `run` refuses it, with the same message.
    """
    from models.scenario.rules import warnings  # noqa: PLC0415
    from scenarios.files.library import resolve  # noqa: PLC0415
    from scenarios.files.scenario import read_scenario  # noqa: PLC0415
    from scenarios.runs.inputs import checked  # noqa: PLC0415

    loaded = read_scenario(resolve(file), settings or [])
    scenario, inputs = checked(loaded.scenario, loaded.folder)
    found = warnings(scenario, inputs)
    if as_json:
        terminal.print_json(
            {
                "valid": True,
                "scenario": scenario.name,
                "warnings": [{"path": one.path, "text": one.text} for one in found],
            }
        )
        return
    lines = [f"valid: {scenario.name or file}"]
    lines += [f"warning: {one}" for one in found]
    print("\n".join(terminal.clean(line) for line in lines))


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
    as_json: AsJson = False,
) -> None:
    """Show topology, placement, expected rates and load by operator and host, what all depends on, and the run's size.

    The graph in a file has the same rates, loads and times as attributes of its nodes and edges.
    """
    from holdfast.scenario_view import document, tables  # noqa: PLC0415
    from models.topology import job_graph  # noqa: PLC0415
    from scenarios.files.graphs import refuse_graph, write_graph  # noqa: PLC0415

    refuse_graph(graph, force=force)
    with as_options({"of": "--graph-of"}):
        job_graph.refuse_kind(graph_of)
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


def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}")] = "scenario",
) -> None:
    """Print the JSON schema of a kind of files, for editors and checkers.

    docs/reference/KIND.md has the same keys as a table. A schema says what a key may hold, not which keys fit together.
    """
    from models.schema import schema_of  # noqa: PLC0415

    print(json.dumps(schema_of(described(kind)), indent=2))


def library(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this scenario's file")] = None,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with holdfast, or print one."""
    from scenarios.files import library as scenario_library  # noqa: PLC0415

    if name is not None:
        text = scenario_library.text_of(name)
        terminal.print_json({"name": name, "text": text}) if as_json else print(text, end="")
        return
    lines = [(known, _one_line(known)) for known in scenario_library.names()]
    if as_json:
        terminal.print_json([{"name": known, "title": title} for known, title in lines])
        return
    width = max((len(known) for known, _ in lines), default=0)
    for known, title in lines:
        print(f"{known:<{width}}  {terminal.clean(title)}")


def _one_line(name: str) -> str:
    from scenarios.files import library as scenario_library  # noqa: PLC0415
    from scenarios.files.scenario import tables_of  # noqa: PLC0415

    return str(tables_of(scenario_library.path_of(name)).get("name", ""))


def _load(file: str, settings: list[str] | None) -> tuple[LoadedScenario, RunInputs | None, list[str]]:
    """The scenario, its recorded rates where all of its files are there, and what is missing."""
    from scenarios.files.library import resolve  # noqa: PLC0415
    from scenarios.files.scenario import missing_files, read_scenario  # noqa: PLC0415

    loaded = read_scenario(resolve(file), settings or [])
    missing = [str(fault) for fault in missing_files(loaded)]
    if loaded.scenario.failures is not None and not missing:
        from scenarios.reliability.failure_replay import replayed  # noqa: PLC0415

        replayed(loaded.scenario, loaded.folder)  # refuses what a run would
    if loaded.scenario.fault_tolerance.replica_plan is not None and not missing:
        from scenarios.files.scenario import LoadedScenario  # noqa: PLC0415
        from scenarios.queries.replica_plan import with_planned_replicas  # noqa: PLC0415

        loaded = LoadedScenario(with_planned_replicas(loaded.scenario, loaded.folder), loaded.folder)
    return loaded, None if missing else _input_files(loaded), missing


def _input_files(loaded: LoadedScenario) -> RunInputs | None:
    from models.scenario.workload import ProfileRate, SeriesRate  # noqa: PLC0415

    rates = (workload.rate for workload in loaded.scenario.workload.values())
    if not any(isinstance(rate, (ProfileRate, SeriesRate)) for rate in rates):
        return None
    from models.scenario.inputs import RunInputs  # noqa: PLC0415
    from scenarios.runs.input_files import check_key_groups, profiles_of, rates_of, shares_of  # noqa: PLC0415

    profiles = profiles_of(loaded.scenario, loaded.folder)
    check_key_groups(loaded.scenario, profiles)
    rates_by_source = rates_of(loaded.scenario, loaded.folder, profiles)
    return RunInputs(rates=rates_by_source, shares=shares_of(loaded.scenario, profiles))
