"""Tables of an engine: what of it is modelled, and the values that a scenario takes over."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class EngineDefault(NamedTuple):
    """A value of a key of a scenario that its file does not say.

    `path`: dotted; `*` stands for each entry of a table. `value`: as a file has it. `option`: what the engine calls it.
    `source`: where the value is from. `when`: it holds only beside this value of another key, (path, value), which has
    a default itself. `where`: it holds only where some entry of the file has a value at this path; if that is a table
    in which the key stands, in those entries alone.
    """

    path: str
    value: Any
    option: str
    source: str
    when: tuple[str, Any] | None = None
    where: str | None = None


class Milestone(NamedTuple):
    """An instant of a recovery for which the engine has a word.

    `phase`: the phase of a recovery that ends then, or `first_output`. `key`: name in documents and metrics, without
    its unit. `word`: what the engine calls it. `text`: what has happened by then.
    """

    phase: str
    key: str
    word: str
    text: str


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
