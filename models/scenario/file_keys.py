"""Keys that a file may have at each path, and their types, for hints and the reference; and the JSON schemas of files.

All of it is taken from the descriptions: a key that a description gets is known here at once.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from models import units
from models.schema_types import Dimension

_RATE_KEYS = ("constant", "steps", "ramp", "series", "profile")


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return key in a file -> field, in the order of the description."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def options(annotation: Any) -> Iterator[Any]:
    """Yield the alternatives of a type without `None`: models, mappings, tuples, literals and plain types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from options(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for option in get_args(annotation):
            yield from options(option)
    elif annotation is not type(None):
        yield annotation


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the descriptions that a value of this type may be."""
    return [x for x in options(annotation) if isinstance(x, type) and issubclass(x, BaseModel)]


def entry_of(annotation: Any) -> Any:
    """Return the type of the entries of a mapping or a list; None for anything else.

    >>> entry_of(Mapping[str, int] | None), entry_of(tuple[float, ...]), entry_of(str)
    (<class 'int'>, <class 'float'>, None)
    """
    for option in options(annotation):
        origin, arguments = get_origin(option), get_args(option)
        if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
            return arguments[1]
        if origin is tuple:
            return arguments[0]
    return None


def dimension_of(annotation: Any, metadata: Sequence[Any] = ()) -> str | None:
    """Return the dimension of a quantity ("s", "B", ...); None where the value has no unit."""
    for mark in metadata:
        if isinstance(mark, Dimension):
            return mark.name
    origin = get_origin(annotation)
    if origin is Annotated:
        first, *marks = get_args(annotation)
        return dimension_of(first, marks)
    if origin in (Union, types.UnionType):
        found = (dimension_of(option) for option in get_args(annotation))
        return next((name for name in found if name), None)
    return None


def tag_of_model(model: type[BaseModel]) -> tuple[str, str] | None:
    """Return the (key, value) by which a table says that it is this description; None where there is no such key."""
    for key, field in fields_of(model).items():
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if len(values) == 1 and isinstance(values[0], str):
            return key, values[0]
    return None


def _types_at(root: type[BaseModel], path: Sequence[str | int], labels: bool = False) -> tuple[Any, FieldInfo | None]:
    """Return the type at a path, and the field where the path ends at one.

    `root`: description of the whole file. With `labels` the path is pydantic's: steps that are no key narrow a union to
    the alternative they name.
    """
    here: Any = root
    field: FieldInfo | None = None
    after_rate = False
    for step in path:
        models = models_in(here)
        entry = entry_of(here)
        # `steps` or `ramp` behind `rate` is a label of the union and a key of the table: as a label it comes first.
        if labels and after_rate and step in _RATE_KEYS:
            here = Union[tuple(m for m in models if step in fields_of(m)) or (here,)]  # noqa: UP007
            after_rate = False
            continue
        after_rate = step == "rate"
        holders = [model for model in models if step in fields_of(model)]
        tagged = [model for model in models if (tag_of_model(model) or ("", ""))[1] == step]
        if labels and tagged:
            here = Union[tuple(tagged)]  # noqa: UP007
        elif holders:
            field = fields_of(holders[0])[str(step)]
            here = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        elif not models and entry is not None:
            field, here = None, entry
    return here, field


def children_at(root: type[BaseModel], path: Sequence[str | int], *, labels: bool = False) -> list[str]:
    """Return the keys that the table at `path` may have; none for maps of free names and for plain values.

    `root`: description of the whole file, such as `Scenario`. Steps are keys, names and indices.

    >>> from models.scenario.scenario import Scenario
    >>> children_at(Scenario, ["network"]), children_at(Scenario, ["hosts"])
    (['latency', 'sharing'], [])
    """
    here, _ = _types_at(root, path, labels)
    return list(dict.fromkeys(key for model in models_in(here) for key in fields_of(model)))


def is_free_map(root: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Return whether the value at `path` is a map from names that the user chooses."""
    here, _ = _types_at(root, path)
    return not models_in(here) and entry_of(here) is not None


def example_at(root: type[BaseModel], path: Sequence[str | int]) -> str:
    """Return an example of the quantity at `path`; "" where it has no unit."""
    here, _ = _types_at(root, path)
    dimension = dimension_of(here)
    return units.example(dimension) if dimension else ""


def schema_of(root: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the tables of a file that `root` describes.

    Keys are those of a file. Defaults of quantities are text with units, as somebody would write them.
    """
    schema = root.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    for model in descriptions(root):
        table = schema if model is root else schema["$defs"][model.__name__]
        for key, field in fields_of(model).items():
            dimension = dimension_of(field.annotation, field.metadata)
            default = table["properties"][key].get("default")
            if dimension is not None and isinstance(default, (int, float)):
                table["properties"][key]["default"] = units.show(float(default), dimension)
    return schema


def descriptions(root: type[BaseModel]) -> list[type[BaseModel]]:
    """Return every description that a root, such as `Scenario`, is made of; the root first."""
    found: list[type[BaseModel]] = [root]
    for model in found:
        for field in fields_of(model).values():
            entry = entry_of(field.annotation)
            inner = models_in(field.annotation if entry is None else entry)
            found += [one for one in inner if one not in found]
    return found
