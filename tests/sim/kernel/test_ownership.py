"""Each module of the kernel writes what it owns: the tables of rooms are compared with the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sim.kernel.event_loop import state as loop_state
from sim.kernel.scan import state as scan_state
from sim.kernel.tools.pointer import Room

KERNEL = Path(loop_state.__file__).parents[1]
# Python between two calls of the kernel: it fills records and arrays, empties them, and makes arrays larger.
SET_UP = {
    "event_loop": {"setup", "pools", "plane", "acting", "moving", "parcels", "answers", "audit", "state"},
    "scan": {"setup", "saving", "timed", "recording", "plane", "state"},
}
ROOMS: dict[str, Iterable[Room]] = {"event_loop": loop_state.ROOMS, "scan": scan_state.ROOMS}
OTHERS = {"event_loop": loop_state.ALSO_WRITTEN_BY, "scan": scan_state.ALSO_WRITTEN_BY}


def parts(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(name, value) of each part of an assignment."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


class Writes:
    """What a function writes of the state: records and arrays by name."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._function = function
        names = [argument.arg for argument in function.args.args if _is_state(argument.annotation)]
        self._states = {*names, "self.state"}
        self._aliases: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for name, value in (pair for target in node.targets for pair in parts(target, node.value)):
                    if isinstance(name, ast.Name):
                        self._aliases.setdefault(name.id, set()).update(self._named(value))

    def found(self) -> set[str]:
        """All that is written."""
        return {name for node in ast.walk(self._function) for name in self._written(node)}

    def _written(self, node: ast.AST) -> set[str]:
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._states:
                return {node.attr}
            return self._named(node.value)
        return set()

    def _named(self, node: ast.expr) -> set[str]:
        """The records and arrays that an expression is, or is an item of."""
        if isinstance(node, ast.Name):
            return self._aliases.get(node.id, set())
        if isinstance(node, ast.IfExp):
            return self._named(node.body) | self._named(node.orelse)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._states:
            return {node.attr}
        if isinstance(node, ast.Subscript | ast.Attribute):
            return self._named(node.value)
        return set()


def _is_state(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id.endswith("State")


def writers(package: str) -> dict[str, set[str]]:
    """The modules that write each record and array, set-up aside."""
    found: dict[str, set[str]] = {}
    for path in sorted((KERNEL / package).glob("*.py")):
        if path.stem in SET_UP[package]:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for name in Writes(node).found():
                    found.setdefault(name, set()).add(path.stem)
    return found


@pytest.mark.parametrize("package", ROOMS)
def test_a_record_or_array_is_written_by_its_owner_and_the_listed_exceptions_only(package: str) -> None:
    found, others = writers(package), OTHERS[package]
    for room in ROOMS[package]:
        for name in (*room.records, *room.arrays):
            foreign = found.get(name, set()) - {room.module}
            assert foreign == {*others.get(name, ())}, f"{name} of {room.module}"


@pytest.mark.parametrize("package", ROOMS)
def test_a_name_has_one_owner_that_is_a_module(package: str) -> None:
    names = [name for room in ROOMS[package] for name in (*room.records, *room.arrays)]
    assert len(names) == len(set(names))
    assert {*OTHERS[package]} <= {*names}
    assert {room.module for room in ROOMS[package]} <= {path.stem for path in (KERNEL / package).glob("*.py")}


def test_writes_are_found_behind_names_items_and_tuples() -> None:
    source = """
def f(s: State, other: int) -> None:
    event, (place) = s.heap[0], 3
    ring = s.near if other else s.far
    ring[place].time = 1
    event.kind += 1
    s.clock.now = s.queue.horizon
    s.tasks[other].wake_time[0] = 2
    s.visits = other.nodes
"""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert Writes(function).found() == {"near", "far", "heap", "clock", "tasks", "visits"}
