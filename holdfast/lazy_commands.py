"""Groups of commands that import the module of a command only when the command is invoked or asked for its help.

Commands import numpy, solvers or the simulator: the help page and `holdfast --version` must not wait for these.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(NamedTuple):
    """The place of a command: a module of `holdfast.commands`, a name in it, and its text on the help page.

    The name is that of a function, or of the typer application of a group.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> Any:
        """Import the module, and return the function or the application."""
        name = f"holdfast.commands.{self.module}"
        if name not in sys.modules and gc.isenabled():
            # Nothing that an import makes is garbage: looking for it, then and later, takes a tenth of the time.
            gc.disable()
            try:
                importlib.import_module(name)
            finally:
                gc.freeze()
                gc.enable()
        return getattr(importlib.import_module(name), self.attribute)


class LazyGroup(TyperGroup):
    """A group whose commands are those of a table.

    `commands` has a stand-in for each: enough for the help page and for suggestions, which therefore import nothing.
    """

    table: ClassVar[Mapping[str, LazyCommand]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # typer looks for near names among these when a command is misspelt.
        self.commands = {name: TyperCommand(name, help=one.summary) for name, one in self.table.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        # The group finds the stand-in, and with it all errors of unknown names; only then is the real one imported.
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in and _click_command(self.table[args[0]].load(), args[0]), rest


@cache
def _click_command(found: Any, name: str) -> Any:
    """Return the click command of a function, or of an application; made once, for processes that give many."""
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name)(found)
    return typer.main.get_command(app)


def functions_of(name: str, command: LazyCommand) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the function of a command under its full name; of a group that of each command in it. Imports them all."""
    found = command.load()
    if not isinstance(found, typer.Typer):
        yield name, found
        return
    for inner, one in found.info.cls.table.items():  # type: ignore[union-attr]
        yield from functions_of(f"{name} {inner}", one)
