"""How functions are compiled: once for all whole numbers, and without what a constant rules out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import TypingError

from sim.kernel.event_loop.state import ARRAYS, LoopState
from sim.kernel.tools.cache import allocating, kernel


@kernel
def double(number: int) -> int:
    return 2 * number


@kernel
def doubled(s: LoopState) -> int:
    return double(3) + double(s.visit_pool.free) + double(s.clock.now) + double(s.options.drops_duplicates)


@kernel
def same(tuple_id: int) -> int:
    return tuple_id


@kernel
def id_of(s: LoopState) -> int:
    return same(s.visits[0].id)


@kernel
def nonsense(s: Any) -> int:
    return s.no_such_array[0]


@kernel
def guarded(s: LoopState) -> int:
    if s.extended and s.clock.now >= 0:
        return nonsense(s)
    return 1


@allocating
def at_most_three(number: int) -> int:
    if number > 3:
        raise ValueError("too many", number)
    return number


@allocating
def next_of(number: int) -> int:
    return at_most_three(number) + 1


def state() -> LoopState:
    return LoopState(**{name: np.zeros(1, dtype) for name, dtype in ARRAYS.items()})


def test_what_is_called_from_compiled_code_is_compiled_once_for_all_whole_numbers() -> None:
    s = state()
    s.visit_pool["free"], s.clock["now"], s.options["drops_duplicates"] = -4, 2**40, 1
    assert doubled(s) == 6 - 8 + 2**41 + 2
    template, *_ = double.get_call_template([], {"number": _type_of(np.int32(1))})  # type: ignore[attr-defined]
    assert len(template.cases) == 1


def test_a_number_without_sign_stays_one() -> None:
    s = state()
    s.visits["id"] = 2**63 + 1
    assert id_of(s) == 2**63 + 1


def test_a_branch_that_a_constant_rules_out_is_not_compiled() -> None:
    assert guarded(state()) == 1


def test_the_same_function_sees_the_other_constant_once_the_state_is_extended() -> None:
    s = state()
    s.extend()
    with pytest.raises(TypingError, match="no_such_array"):
        guarded(s)


def _type_of(value: Any) -> Any:
    from numba import typeof  # noqa: PLC0415

    return typeof(value)


def test_only_what_is_called_from_python_becomes_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    finalize = JITCodeLibrary._finalize_specific

    def noted(library: JITCodeLibrary) -> None:
        made.append(library.name)
        finalize(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", noted)
    for module in ("native", "compiler"):  # another test, or run, may have kept it
        monkeypatch.setattr(f"sim.kernel.tools.{module}.directory", lambda: None)
    compiled: Any = allocating(next_of.py_func)  # type: ignore[attr-defined]
    compiled._cache = NullCache()
    assert compiled(1) == 2
    assert [name for name in made if name in ("next_of", "at_most_three")] == ["next_of"]


def test_an_error_of_what_compiled_code_calls_arrives_with_its_values() -> None:
    assert next_of(3) == 4
    with pytest.raises(ValueError, match=re.escape("('too many', 5)")):
        next_of(5)
