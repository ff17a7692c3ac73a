"""The schema of each kind of files says what the reader of these files says."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from json_schema import faults

from holdfast.file_kinds import KINDS, described
from models.errors import InputError
from models.fleet.rules import shaped_from
from models.planning.sizing.description import sizing_from
from models.queries.description import query_set_from
from models.reliability.description import availability_from
from models.scenario.file_keys import schema_of
from models.scenario.reading import scenario_from
from scenarios.files.documents import read_json, tables_of
from scenarios.planning.files import read_problem, read_problem_of

EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARY = Path(__file__).parents[2] / "scenarios" / "library"
FILES = {
    "airline-crash.toml": "scenario",
    "airline.toml": "scenario",
    "replicas-planned.toml": "scenario",
    "replicas.toml": "scenario",
    "two-hosts.toml": "scenario",
    "availability.toml": "availability",
    "fleet.toml": "fleet",
    "fleet-queries.toml": "fleet",
    "sizing.toml": "sizing",
    "queries-sizing.toml": "sizing",
    "queries.toml": "query-set",
    "checkpoints.json": "checkpoints",
    "load-history.json": "load-history",
    "selection.toml": "selection",
    "whole-queries.toml": "queries",
    "steps.toml": "steps",
    "placement.toml": "placement",
    "interval.toml": "interval",
}
NO_INPUT = {"replica-plan.json"}  # what a command writes
WRONG = (True, "no such text", 3.5, -7, [], {}, [[True]], {"no_such_key": 1})


def tables(name: str) -> dict[str, Any]:
    path = EXAMPLES / name
    return read_json(path) if path.suffix == ".json" else tables_of(path)


@pytest.fixture
def reader(tmp_path: Path) -> Callable[[str, Any], None]:
    """Reads the tables of a file as the commands do; raises InputError."""
    parsed: dict[str, Callable[[Any], object]] = {
        "scenario": scenario_from,
        "availability": availability_from,
        "fleet": shaped_from,
        "sizing": sizing_from,
        "query-set": query_set_from,
    }

    def read(kind: str, raw: Any) -> None:
        if kind in parsed:
            parsed[kind](raw)
            return
        path = tmp_path / "problem.json"
        path.write_text(json.dumps(raw), encoding="utf-8")
        if kind in ("checkpoints", "load-history"):
            read_problem(path)
        else:
            read_problem_of(kind, path)

    return read


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of everything inside a value; of a list the first two entries."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def holder(raw: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        raw = raw[step]
    return raw


def altered(raw: Any) -> Iterator[tuple[str, Any]]:
    """What was done to a copy of the tables, and the copy: a key too many or too few, a wrong value."""
    for path in [(), *places(raw)]:
        if not path or isinstance(holder(raw, path)[path[-1]], dict):
            made = copy.deepcopy(raw)
            holder(made, (*path, ""))["no_such_key"] = 1
            yield f"{path}: unknown key", made
    for path in places(raw):
        made = copy.deepcopy(raw)
        del holder(made, path)[path[-1]]
        yield f"{path}: missing", made
        for wrong in WRONG:
            made = copy.deepcopy(raw)
            holder(made, path)[path[-1]] = wrong
            yield f"{path} = {wrong}", made


@cache
def schema_for(kind: str) -> dict[str, Any]:
    """The schema of a kind of files; no test changes it."""
    return schema_of(described(kind))


def test_every_example_is_of_a_kind_and_every_kind_has_an_example() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".toml", ".json")}
    assert there == {*FILES, *NO_INPUT}
    assert set(FILES.values()) == set(KINDS)


@pytest.mark.parametrize("name", FILES)
def test_the_schema_takes_every_example(name: str) -> None:
    assert list(faults(tables(name), schema_for(FILES[name]))) == []


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.toml")), ids=lambda path: path.stem)
def test_the_schema_takes_every_scenario_of_the_library(path: Path) -> None:
    assert list(faults(tables_of(path), schema_for("scenario"))) == []


# A scenario takes long to check: one of them stands for all.
@pytest.mark.parametrize("name", [one for one in FILES if FILES[one] != "scenario" or one == "two-hosts.toml"])
def test_what_the_schema_refuses_the_reader_refuses_too(name: str, reader: Callable[[str, Any], None]) -> None:
    kind, raw = FILES[name], tables(name)
    schema = schema_for(kind)
    reader(kind, raw)
    refused = 0
    for what, made in altered(raw):
        found = next(faults(made, schema), None)
        if found is not None:
            refused += 1
            try:
                reader(kind, made)
            except InputError:
                continue
            pytest.fail(f"{what}: the schema says {found}, the reader takes it")
    assert refused > 3 * len(list(places(raw)))  # of the nine that are tried at each place


@pytest.mark.parametrize("name", FILES)
def test_the_schema_refuses_what_no_file_of_the_kind_may_say(name: str) -> None:
    raw = tables(name)
    schema = schema_for(FILES[name])
    assert list(faults(raw | {"no_such_key": 1}, schema)) == ["$.no_such_key: not known"]
    for key in schema.get("required", ()):
        rest = {other: value for other, value in raw.items() if other != key}
        assert list(faults(rest, schema)) == [f"$.{key}: missing"]
    for key in raw:
        if raw[key] not in (True, False):
            assert list(faults(raw | {key: True}, schema)) != [], key
