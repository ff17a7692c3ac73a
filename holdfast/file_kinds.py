"""The kinds of files that users write, and the model of each: for `holdfast schema` and the reference pages.

Every kind has the page docs/reference/KIND.md. CSV files have columns in place of keys; the options and keys that name
them say which.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from models.errors import InputError
from models.validation_messages import similar

if TYPE_CHECKING:
    from pydantic import BaseModel


class FileKind(NamedTuple):
    """The model of files of a kind, the commands that read them, and their suffixes."""

    module: str
    model: str
    commands: tuple[str, ...]
    suffixes: tuple[str, ...]


_TABLES = (".toml", ".json")
_ARRAYS = (".json", ".toml", ".npz")
# Modules as text: `holdfast --help` and `schema` of one kind must not import the models of all others.
KINDS = {
    "scenario": FileKind(
        "models.scenario.scenario", "Scenario", ("run", "sweep", "study", "show", "validate"), (".toml",)
    ),
    "availability": FileKind("models.reliability.description", "Availability", ("availability",), _TABLES),
    "fleet": FileKind("models.fleet.description", "Fleet", ("fleet",), _TABLES),
    "sizing": FileKind("models.planning.sizing.description", "Sizing", ("size",), _TABLES),
    "query-set": FileKind("models.queries.description", "QuerySet", ("plan replicas", "fleet"), (".toml",)),
    "checkpoints": FileKind(
        "models.planning.problem_files", "CheckpointsFile", ("plan checkpoints",), (".json", ".npz")
    ),
    "load-history": FileKind(
        "models.planning.problem_files", "LoadHistoryFile", ("plan checkpoints",), (".json", ".npz")
    ),
    "selection": FileKind("models.planning.problem_files", "SelectionFile", ("plan selection",), _ARRAYS),
    "queries": FileKind("models.planning.problem_files", "QueriesFile", ("plan queries",), _ARRAYS),
    "steps": FileKind("models.planning.problem_files", "StepsFile", ("plan steps",), _ARRAYS),
    "placement": FileKind("models.planning.problem_files", "PlacementFile", ("plan placement",), _ARRAYS),
    "interval": FileKind("models.planning.problem_files", "IntervalFile", ("plan interval",), _ARRAYS),
}


def described(kind: str) -> type[BaseModel]:
    """Return the model of files of a kind; raises InputError for an unknown one."""
    if kind not in KINDS:
        raise InputError.at("KIND", kind, "must be one of " + ", ".join(KINDS), similar(kind, KINDS))
    found: type[BaseModel] = getattr(importlib.import_module(KINDS[kind].module), KINDS[kind].model)
    return found
