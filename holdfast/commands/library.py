"""`holdfast library` and `schema`: the scenarios that come with holdfast, and JSON schemas of files."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from holdfast import terminal
from holdfast.commands.options import AsJson
from holdfast.file_kinds import KINDS, described
from models.scenario.file_keys import schema_of
from scenarios.files import scenario as scenario_library
from scenarios.files.documents import tables_of


def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}")] = "scenario",
) -> None:
    """Print the JSON schema of a kind of files, for editors and checkers.

    docs/reference/KIND.md has the same keys as a table. A schema says what a key may hold, not which keys fit together.
    """
    print(json.dumps(schema_of(described(kind)), indent=2))


def library(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this scenario's file")] = None,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with holdfast, or print one."""
    if name is not None:
        text = scenario_library.text_of(name)
        # The text unchanged, without one more line feed: redirected to a file it is the same scenario.
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
    return str(tables_of(scenario_library.path_of(name)).get("name", ""))
