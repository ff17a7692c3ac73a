"""The engine that a scenario speaks of, and the values that it brings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from models.engines import flink, kafka_streams, spark, storm
from models.engines.behaviours import Behaviour, EngineDefault, Milestone
from models.scenario.file_keys import entry_of, fields_of, models_in
from models.schema_types import Description
from models.validation_messages import similar

_SAYS_NOTHING = {"method": "round-robin"}  # of `placement`: there is no other
ENGINE_TABLES: Mapping[str, ModuleType] = MappingProxyType(
    {"flink": flink, "spark": spark, "kafka-streams": kafka_streams, "storm": storm}
)


def versions_of(name: str) -> tuple[str, ...]:
    """Return the versions of an engine that are known, oldest first."""
    return get_args(ENGINE_TABLES[name].Version)


def _latest(name: str | None) -> Any:
    return None if name is None else ENGINE_TABLES[name].LATEST


_METHODS = {
    "flink": ("region-restart", "none"),
    "spark": ("micro-batch",),
    "kafka-streams": ("changelog",),
    "storm": ("acker", "none"),
}
"""Methods of `fault_tolerance` that each engine has; its rules refuse others, each with a reason."""


class Engine(Description):
    """An engine and its version; its name alone means the newest version that is known."""

    name: Literal["flink", "spark", "kafka-streams", "storm"]
    """Engine."""
    version: flink.Version | spark.Version | kafka_streams.Version | storm.Version = Field(
        default_factory=lambda data: _latest(data.get("name"))
    )
    """Version whose values hold where the file says nothing; without it the newest that is known."""

    @field_validator("version", mode="before")
    @classmethod
    def _of_engine(cls, value: object, info: ValidationInfo) -> object:
        """Return the version; refuses those of another engine."""
        name = info.data.get("name")
        if name is not None and value not in versions_of(name):  # another name is refused already
            *others, last = versions_of(name)
            rule = f"must be {', '.join(others)} or {last}" if others else f"must be {last}"
            raise PydanticCustomError("range", "{rule}", {"rule": rule, "hint": ""})
        return value

    @property
    def title(self) -> str:
        """Return the name that people know."""
        return f"{ENGINE_TABLES[self.name].TITLE} {self.version}"

    @property
    def short(self) -> str:
        """Return its name in a sentence."""
        return str(ENGINE_TABLES[self.name].SHORT)

    def hint(self, method: str, otherwise: str) -> str:
        """Return what to do with a key of another method: remove it where the engine has no such method."""
        return otherwise if method in _METHODS[self.name] else f"remove it: {method} is no method of {self.short}"

    @property
    def defaults(self) -> tuple[EngineDefault, ...]:
        """Return the values that hold where the file says nothing."""
        return tuple(ENGINE_TABLES[self.name].defaults(self.version))

    @property
    def behaviours(self) -> tuple[Behaviour, ...]:
        """Return what of the engine is modelled, simplified or absent."""
        found: tuple[Behaviour, ...] = ENGINE_TABLES[self.name].BEHAVIOURS
        return found

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        """Return the engine's words for instants of a recovery, in their order."""
        found: tuple[Milestone, ...] = ENGINE_TABLES[self.name].MILESTONES
        return found

    @property
    def rescaling_milestones(self) -> tuple[Milestone, ...]:
        """Return its words for instants of a rescaling of the job, in their order; none where it has no such thing."""
        found: tuple[Milestone, ...] = getattr(ENGINE_TABLES[self.name], "RESCALING_MILESTONES", ())
        return found


def as_engine(value: object) -> object:
    """Return the name of an engine as its table; refuses those that are not known, by name."""
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, (Mapping, Engine)) or (isinstance(table, Mapping) and "name" not in table):
        hint = f'as in engine = "{next(iter(ENGINE_TABLES))}"'
        raise PydanticCustomError("range", "{rule}", {"rule": "must be a name, or a table with one", "hint": hint})
    named, names = table.get("name") if isinstance(table, Mapping) else None, [*ENGINE_TABLES]
    if isinstance(named, str) and named not in ENGINE_TABLES:
        rule = f"must be {', '.join(names[:-1])} or {names[-1]}"
        hint = similar(named.lower(), names) or (
            "leave the key out for a generic system whose behaviours are keys of their own"
        )
        raise PydanticCustomError("range", "{rule}", {"rule": rule, "hint": hint})
    if isinstance(table, Mapping) and isinstance(table.get("version"), (int, float)):
        hint = 'as in version = "1.20", which is another one than 1.2'
        raise PydanticCustomError("range", "{rule}", {"rule": "must have its version in quotes", "hint": hint})
    return table


def engine_of(raw: Mapping[str, Any]) -> Engine | None:
    """Return the engine that the tables of a scenario name; None where they name none, or one that is not known."""
    given = raw.get("engine")
    if isinstance(given, Engine):
        return given
    table = {"name": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not set(table) <= {"name", "version"}:
        return None
    try:
        return Engine.model_validate(table)
    except ValidationError:
        return None


def with_defaults(
    raw: Mapping[str, Any], model: type[Description], places: Mapping[str, str] | None = None
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the tables of a file with the values of its engine where they say nothing, and the paths of these.

    Without an engine the tables are the same. `model`: description of the whole, whose fields may be named in tables
    that code made; parts of them may be descriptions already. `places`: path in a scenario -> path in this file, of the
    values that it has; None for a scenario.
    """
    engine = engine_of(raw)
    if engine is None:
        return raw, frozenset()
    found, filled = raw, set[str]()
    for default in engine.defaults:
        if places is None and not applies(default, found):
            continue
        path = default.path if places is None else places.get(default.path)
        if path is not None:
            makes = default.where is None or f"{default.where}." not in path
            found = _completed(found, path.split("."), default.value, model, "", filled, makes)
    return found, frozenset(filled)


def applies(default: EngineDefault, tables: Mapping[str, Any]) -> bool:
    """Return whether a default holds beside what tables say, whose own defaults are filled in."""
    if default.where is not None and not _has(tables, default.where.split(".")):
        return False
    return default.when is None or all(one == default.when[1] for one in values_at(tables, default.when[0]))


def _has(table: Any, path: Sequence[str]) -> bool:
    """Return whether some entry of a table, which may be a description, has a value at a path."""
    if not path:
        return table is not None
    if isinstance(table, BaseModel):
        return _has(getattr(table, path[0], None), path[1:])
    if not isinstance(table, Mapping):
        return False
    key, *rest = path
    return any(_has(one, rest) for one in (table.values() if key == "*" else [table.get(key)]))


def _completed(
    table: Any, path: list[str], value: Any, model: Any, here: str, filled: set[str], makes: bool = True
) -> Any:
    """Return a table with a value at a path below it, if it has none; what is no table stays, and is refused later.

    `here`: path of the table. `filled`: gets the path if there was nothing. `makes`: makes tables that are not there.
    """
    if isinstance(table, BaseModel):
        table = {name: getattr(table, name) for name in table.model_fields_set}
    if not isinstance(table, Mapping):
        return table
    key, *rest = path
    if key == "*":
        return {
            name: _completed(entry, rest, value, model, f"{here}{name}.", filled, makes)
            for name, entry in table.items()
        }
    field = fields_of(model)[key]
    given = next((name for name in (key, *_names(model, key)) if table.get(name) is not None), None)
    if not rest and given is None:
        filled.add(here + key)
        return {**table, key: value}
    if not rest:
        own = table[given]
        # A part of a table that the engine brings as a whole is told apart by its kind.
        partly = isinstance(value, dict) and "kind" in value and isinstance(own, Mapping) and "kind" not in own
        return {**table, given: {**value, **own}} if partly else table
    if given is None and not makes:
        return table
    inner = entry_of(field.annotation) if rest[0] == "*" else models_in(field.annotation)[0]
    below = _completed(table[given] if given is not None else {}, rest, value, inner, f"{here}{key}.", filled, makes)
    return {**table, given or key: below}


def _names(model: Any, key: str) -> Iterator[str]:
    return (name for name, field in model.model_fields.items() if field.alias == key)


def values_at(tables: Mapping[str, Any], path: str) -> Iterator[Any]:
    """Yield the values at a dotted path of tables; `*` stands for each entry of one that has the tables of the path."""
    found: list[Any] = [tables]
    for step in path.split("."):
        there = [table for table in found if table is not None]
        found = [one for table in there for one in (table.values() if step == "*" else [table.get(step)])]
    yield from found


def without(table: dict[str, Any], path: Sequence[str], value: object, filled: Collection[str], here: str = "") -> None:
    """Take a value at a path out of the tables of a file, where it was filled in, and tables that say nothing then.

    `here`: path of the table.
    """
    key, *rest = path
    if not rest:
        if table.get(key) == value and here + key in filled:
            del table[key]
        return
    below = table.get(key, {})
    for name, entry in below.items() if rest[0] == "*" else [("", below)]:
        inner = rest[1:] if rest[0] == "*" else rest
        without(entry, inner, value, filled, f"{here}{key}.{name}." if name else f"{here}{key}.")
    if key in table and below in ({}, _SAYS_NOTHING):
        del table[key]
