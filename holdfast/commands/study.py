"""`holdfast study`: the main job, from real flights to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scenarios.study import Study


def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario whose rate is a profile")],
    out: Annotated[Path, typer.Option(help="Directory for profile, plans, run and report.html")] = Path("study"),
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier study in --out")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes for runs")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON document")] = False,
) -> None:
    """Ingest the bundled flights, place checkpoints by four methods, run with a crash, and report."""
    import json  # noqa: PLC0415

    from holdfast.progress import progress  # noqa: PLC0415
    from scenarios.files import read_scenario  # noqa: PLC0415
    from scenarios.study import ingest_flights, key_groups_of  # noqa: PLC0415
    from scenarios.study import study as run_study  # noqa: PLC0415
    from scenarios.study_store import check_target, findings, write_study  # noqa: PLC0415

    check_target(out, force=force)
    scenario = read_scenario(file).scenario
    with progress() as talk:
        profile, quarantine = ingest_flights(key_groups_of(scenario), talk)
        found = run_study(scenario, profile, workers=workers, talk=talk)
        talk("writing the report", None)
        write_study(out, found, quarantine, force=force, command=f"holdfast study {file}")
    if as_json:
        print(json.dumps(findings(found), allow_nan=False))
        return
    _show(found, out)


def _show(found: Study, out: Path) -> None:
    from holdfast import run_tables, terminal  # noqa: PLC0415

    summary = found.runs[found.method].summary
    terminal.show(
        *run_tables.study_tables(found),
        "useable   on the profile: of the key groups on overloaded hosts, those whose\n"
        "          checkpoint is on a host with room for them\n"
        "assisted  on the profile: of all moves, those to the host of the checkpoint\n"
        "recovery  in the plan's run: from the crash until every task downstream of the\n"
        "          recovered ones had come to rest again\n",
        run_tables.recoveries_table(summary),
        f"(the run with {found.method}) {run_tables.guarantee_line(summary)}",
        f"Report: {out / 'report.html'}",
    )
