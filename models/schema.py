"""The JSON schemas of files, for editors and checkers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from models import units
from models.scenario.file_keys import dimension_of, entry_of, fields_of, models_in
from models.scenario.scenario import Scenario


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


def descriptions(root: type[BaseModel] = Scenario) -> list[type[BaseModel]]:
    """Return every description that a scenario, or another root, is made of, the root first."""
    found: list[type[BaseModel]] = [root]
    for model in found:
        for field in fields_of(model).values():
            entry = entry_of(field.annotation)
            inner = models_in(field.annotation if entry is None else entry)
            found += [one for one in inner if one not in found]
    return found
