"""Tests of behaviour run on both data planes: each that comes to `small_jobs.simulate`, once on either."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest
import small_jobs

from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

PLANES: dict[str, PlaneFactory] = {"plain": PlainPlane, "compiled": CompiledPlane}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each such test on both planes, unless it says itself what it runs on."""
    if "plane" not in metafunc.fixturenames and _simulates(metafunc.function, set()):
        metafunc.parametrize("each_plane", PLANES, indirect=True)


@pytest.fixture(autouse=True)  # pytest drops a fixture that neither the test nor `autouse` asks for
def each_plane(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the plane that `small_jobs.simulate` runs on in this test."""
    name: str = getattr(request, "param", "plain")
    with small_jobs.running_on(PLANES[name]):
        yield name


def _simulates(function: FunctionType, seen: set[str]) -> bool:
    """Whether the function, or one of its module that it names, names `small_jobs.simulate`."""
    for name in _names(function.__code__) - seen:
        seen.add(name)
        found: Any = function.__globals__.get(name)
        if found is small_jobs.simulate:
            return True
        of_the_module = isinstance(found, FunctionType) and found.__module__ == function.__module__
        if of_the_module and _simulates(found, seen):
            return True
    return False


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)
