"""Tables of an engine: what of it is modelled, and the values that a scenario takes over."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class EngineDefault(NamedTuple):
    """A value of a key of a scenario that its file does not say.

    `path`: dotted; `*` stands for each entry of a table. `value`: as a file has it. `option`: what the engine calls it.
    `source`: where the value is from.
    """

    path: str
    value: Any
    option: str
    source: str


class Status(StrEnum):
    """How much of a behaviour there is."""

    MODELLED = "modelled"
    SIMPLIFIED = "simplified"
    ABSENT = "absent"


class Behaviour(NamedTuple):
    """A behaviour of an engine; `paths` are the keys of a scenario that belong to it."""

    name: str
    status: Status
    text: str
    paths: tuple[str, ...] = ()
