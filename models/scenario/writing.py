"""A scenario as the plain tables of its file: quantities as text with units, defaults left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from models import units
from models.scenario.fault_tolerance import PlanFile
from models.scenario.file_keys import dimension_of, entry_of, fields_of, tag_of_model
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate


def raw_of(scenario: Scenario) -> dict[str, Any]:
    """Return the tables whose reading by `models.scenario.reading.scenario_from` gives the same scenario.

    >>> from models.scenario.reading import scenario_from
    >>> job = {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}}
    >>> raw = {"format": 1, "duration": "10 min", "operators": job,
    ...        "workload": {"a": {"rate": "5 /s"}}, "hosts": {"worker": {}}}
    >>> raw_of(scenario_from(raw)) == raw
    True
    """
    return _table(scenario, keep=("format",))


def _table(model: BaseModel, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the keys of one description that differ from their defaults; those in `keep` in any case."""
    tag = tag_of_model(type(model))
    always = {*keep, tag[0]} if tag else set(keep)
    table = {}
    attributes = [getattr(model, name) for name in type(model).model_fields]
    for (key, field), value in zip(fields_of(type(model)).items(), attributes, strict=True):
        # Defaults are left out, so that a file says only what its author chose; the tag that names the kind stays.
        is_default = not field.is_required() and value == field.get_default(call_default_factory=True)
        if value is None or (is_default and key not in always):
            continue
        entry = entry_of(field.annotation)
        dimension = dimension_of(field.annotation, field.metadata) if entry is None else dimension_of(entry)
        table[key] = _plain(value, dimension)
    return table


def _plain(value: Any, dimension: str | None) -> Any:
    """Return a value as a file has it; `dimension` is that of its numbers."""
    if isinstance(value, ConstantRate):
        return units.show(value.constant_per_s, "1/s")
    if isinstance(value, PlanFile) and value.plan.endswith(".json"):
        return value.plan
    if isinstance(value, BaseModel):
        return _table(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry, dimension) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(entry, dimension) for entry in value]
    return value if dimension is None else units.show(float(value), dimension)
