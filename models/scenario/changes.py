"""Values at dotted paths of a scenario's tables, and named designs, which are sets of such values."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.scenario.file_keys import children_at, is_free_map
from models.scenario.scenario import Scenario
from models.validation_messages import nearest, path_text, similar

VERSION = "engine.version"
_OF_ALL = ("design", "designs", "sweep", "format", "replications", "seed")


def with_design(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables with the values of the design that they choose; a sweep of `design` is left out then.

    Only this design is left: another one would not find what this one has changed. Raises InputError for a design that
    is not there, and for paths of it that no scenario has.
    """
    name, designs, sweep = raw.get("design"), raw.get("designs", {}), raw.get("sweep", {})
    if not isinstance(name, str) or not isinstance(designs, Mapping) or not isinstance(sweep, Mapping):
        return raw  # what is no text, or no table, is a fault of shape
    if name not in designs:
        rule = "is no design of this scenario" if designs else "is no design: there is no table designs"
        raise InputError.at("design", name, rule, nearest(name, designs))
    values = designs[name]
    if not isinstance(values, Mapping):
        return raw
    raise_if_any(
        InputFault(path_text(("designs", name, path)), NO_VALUE, "is the same for all designs")
        for path in values
        if split_path(path)[0] in _OF_ALL
    )
    raise_if_any(
        InputFault(path_text(("designs", name, path)), NO_VALUE, "no such key", "a key has a name, as in duration")
        for path in values
        if not path
    )
    rest = {path: swept for path, swept in sweep.items() if path != "design"}
    tables, faults = changed({**raw, "designs": {name: values}, "sweep": rest}, values)
    raise_if_any(faults)
    return tables


def swept_in_designs(scenario: Scenario) -> Iterator[InputFault]:
    """Yield paths of designs that a sweep varies too: which value counts nobody could say."""
    for name, values in scenario.designs.items():
        for path in values:
            met = next((one for one in scenario.sweep if _meet(path, one)), None)
            if met is not None:
                where = path_text(("designs", name, path))
                yield InputFault(where, NO_VALUE, f"is varied by sweep, too: {met}", "leave one of them out")


def set_by_design(tables: Mapping[str, Any], changes: Mapping[str, object]) -> Iterator[InputFault]:
    """Yield changes at paths that the design of the tables sets: its values would take their place without a word."""
    name, designs = tables.get("design"), tables.get("designs")
    values = designs.get(name) if isinstance(name, str) and isinstance(designs, Mapping) else None
    for path, value in changes.items():
        met = next((one for one in values if _meet(path, one)), None) if isinstance(values, Mapping) else None
        if met is not None:
            hint = f"change {path_text(('designs', str(name), met))}"
            yield InputFault(path, value, f"is set by the design {name}, too: {met}", hint)


def overruled_by_sweep(scenario: Scenario, paths: Iterable[str]) -> Iterator[InputFault]:
    """Yield paths that the sweep of the scenario varies, or that are inside of what it varies."""
    for path in paths:
        met = next((one for one in scenario.sweep if split_path(path)[: len(split_path(one))] == split_path(one)), None)
        if met is not None:
            rule = f"is overruled by every design: the sweep varies {met}"
            yield InputFault("--set", path, rule, f"change {path_text(('sweep', met))}")


def _meet(one: str, other: str) -> bool:
    """Return whether one of two paths leads to the other."""
    return all(a == b for a, b in zip(split_path(one), split_path(other), strict=False))


def changed(raw: Mapping[str, Any], changes: Mapping[str, object]) -> tuple[dict[str, Any], list[InputFault]]:
    """Return the tables with the changes whose paths exist, and the faults of the others."""
    tables: dict[str, Any] = copy.deepcopy(thawed(raw))
    faults: list[InputFault] = []
    for path, value in changes.items():
        steps = split_path(path)
        fault = _path_fault(tables, path, steps)
        if fault is not None:
            # Several keys of one table that is not there have one fault.
            faults += [fault] if all((fault.path, fault.rule) != (one.path, one.rule) for one in faults) else []
            continue
        here = tables
        for step in steps[:-1]:
            if not isinstance(here.get(step), dict):
                here[step] = {"name": here[step]} if path == VERSION and step in here else {}
            here = here[step]
        here[steps[-1]] = value
    return tables, faults


def thawed(value: Any) -> Any:
    """Return plain dicts in place of read-only maps."""
    if isinstance(value, Mapping):
        return {key: thawed(entry) for key, entry in value.items()}
    return value


def split_path(path: str) -> list[str]:
    """Return the keys of a dotted path; keys with dots may be quoted, as in TOML.

    >>> split_path('placement.tasks."count-0"')
    ['placement', 'tasks', 'count-0']
    """
    steps, here, quote = [], "", ""
    for c in path:
        if quote:
            quote, here = ("", here) if c == quote else (quote, here + c)
        elif c in "\"'":
            quote = c
        elif c == ".":
            steps.append(here.strip())
            here = ""
        else:
            here += c
    return [*steps, here.strip()]


def _path_fault(tables: Mapping[str, Any], path: str, steps: list[str]) -> InputFault | None:
    """Return the fault of a path, or None: a key that the schema lacks, or a name that the scenario lacks."""
    here: Any = tables
    for index, step in enumerate(steps):
        known = children_at(Scenario, steps[:index])
        present = list(here) if isinstance(here, Mapping) else []
        inside_plain = not known and not is_free_map(Scenario, steps[:index])
        # Names in maps such as `placement.tasks` are free, but what lies inside of one must be there.
        unknown_name = not known and step not in present and index < len(steps) - 1
        if not step or inside_plain or (known and step not in known) or unknown_name:
            choices = known or present
            where = path_text((step,)) if index == 0 else path_text(steps[: index + 1])
            if not step:
                return InputFault(path or '""', NO_VALUE, "no such key", "a key has a name, as in duration")
            hint = similar(step, choices)
            if unknown_name and not hint:
                hint = f"{where}={{ ... }} with all of its keys would add it"
            return InputFault(where, NO_VALUE, "no such key", hint or nearest(step, choices))
        here = here.get(step) if isinstance(here, Mapping) else None
    return None
