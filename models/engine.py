"""Which engine does the steps of the tuples, by the name under which it can be asked for; rows do not depend on it."""

from __future__ import annotations

from typing import Literal, cast, get_args

from models.errors import InputError
from models.validation_messages import similar

Engine = Literal["auto", "plain"]
"""`auto`: the fastest that can do what the scenario asks for, compiled. `plain`: one event at a time, to be read."""

ENGINES: tuple[str, ...] = get_args(Engine)


def engine_of(name: str, path: str = "engine") -> Engine:
    """Return the engine of that name; raises InputError, under the path, for a name that there is not."""
    if name not in ENGINES:
        raise InputError.at(path, name, "must be one of " + ", ".join(ENGINES), similar(str(name), ENGINES))
    return cast(Engine, name)
