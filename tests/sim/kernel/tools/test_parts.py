"""Functions that compiled code calls are kept one by one, and compiled by two processes at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba import types
from numba.core import event
from numba.core.registry import cpu_target

from sim.kernel.event_loop import loop
from sim.kernel.event_loop.state import LoopState
from sim.kernel.tools import compiler, intrinsics, native, parts
from sim.kernel.tools.cache import Kernel, state_type
from sim.kernel.tools.linking import Linked, callers_first

SOURCE = """
from __future__ import annotations
from sim.kernel.tools.cache import kernel

@kernel
def twice(number: int) -> int:
    return 2 * number

@kernel
def more(number: int) -> int:
    return twice(number) + 1

@kernel
def root(number: int) -> int:
    return more(number) + twice(number)
"""


class Compiled(event.Listener):
    """The functions that Numba compiles, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: event.Event) -> None:
        """Nothing is compiled yet."""

    def on_end(self, event: event.Event) -> None:
        """Note the function."""
        self.names.append(event.data["dispatcher"].py_func.__name__)


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The functions that have been compiled."""
    listener = Compiled()
    with event.install_listener("numba:compile", listener):
        yield listener.names


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of compiled code of a process in which nothing is compiled."""
    for module in (compiler, native, parts):
        monkeypatch.setattr(module, "directory", lambda: tmp_path)
    return tmp_path


def new_process(place: Path, monkeypatch: pytest.MonkeyPatch, name: str = "sim.kernel.probe") -> Any:
    """A module of kernels that nobody has called in this process."""
    made = ModuleType(name)
    made.__file__ = str(place / "probe.py")
    Path(made.__file__).write_text(SOURCE)
    exec(compile(SOURCE, made.__file__, "exec"), vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setattr(parts, "_libraries", {})
    monkeypatch.setattr(parts, "_names", {})
    parts._functions.cache_clear()
    return made


def kept(place: Path, function: str) -> Path:
    """The file with a function."""
    (found,) = place.glob(f"sim.kernel.probe.{function}-*.part")
    return found


def forget_roots(place: Path) -> None:
    """Remove what Python calls, so that it is put together again."""
    for file in place.glob("*.native"):
        file.unlink()


def test_a_function_that_is_kept_is_not_compiled_again(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new_process(place, monkeypatch).root(5) == 21
    assert compiled == ["twice", "more", "root"]
    forget_roots(place)
    compiled.clear()
    assert new_process(place, monkeypatch).root(6) == 25
    assert compiled == ["root"]


def test_another_function_goes_on_from_what_is_kept(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new_process(place, monkeypatch).more(5) == 11
    compiled.clear()
    assert new_process(place, monkeypatch).root(5) == 21
    assert compiled == ["more", "root"]  # so far Python had called it, and nothing else


@pytest.mark.parametrize("damage", ["missing", "emptied", "changed"])
def test_what_cannot_be_read_is_compiled_again(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    assert new_process(place, monkeypatch).root(5) == 21
    forget_roots(place)
    file = kept(place, "twice")
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "emptied" else content[:-1] + bytes([content[-1] ^ 1]))
    compiled.clear()
    assert new_process(place, monkeypatch).root(6) == 25
    assert "twice" in compiled
    assert kept(place, "twice").read_bytes()[:32] == native.checksum(kept(place, "twice").read_bytes()[32:])


def test_a_function_of_other_code_is_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert new_process(place, monkeypatch, "elsewhere").root(5) == 21
    assert list(place.glob("*.part")) == []


def test_a_function_that_another_process_has_taken_is_free_once_that_is_killed(place: Path) -> None:
    with parts._taken("one") as free:
        assert free
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            parts._locks.cache_clear()
            with parts._taken("one") as free:
                os.write(tell, b"1" if free else b"0")
                time.sleep(600)
        finally:
            os._exit(0)
    try:
        assert os.read(told, 1) == b"1"
        with parts._taken("one", wait=False) as free, parts._taken("another", wait=False) as other:
            assert (free, other) == (False, True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    with parts._taken("one") as free:
        assert free


def extended() -> Any:
    """The type of the state of the event loop that may hold everything."""
    return state_type(LoopState.layout.variant("holdfast.ExtendedLoopState", extended=True))


def listed(state: Any) -> dict[str, tuple[Any, ...]]:
    """Return what the event loop calls, with types, in order."""
    found = parts._called_by(loop.advance.py_func, {"loop": state})  # type: ignore[attr-defined]
    return {f"{kernel.__module__.split('.')[-1]}.{kernel.__name__}": given for kernel, given in found}


def test_what_a_kernel_calls_is_listed_with_its_types_and_callees_come_first() -> None:
    state = extended()
    found = listed(state)
    assert found["loop.handle_rare_event"] == (state, *[types.int64] * 4)
    assert found["tasks.dispatch"] == (state, types.int64)
    names = list(found)
    for name in names:
        module, function = name.split(".")
        kernel: Kernel = getattr(sys.modules[f"sim.kernel.event_loop.{module}"], function)
        for called in parts._names_in(kernel.py_func, {"extended": True}):
            callee = f"{called.__module__.split('.')[-1]}.{called.__name__}"
            assert callee not in found or names.index(callee) < names.index(name)


def test_what_a_constant_rules_out_is_not_listed() -> None:
    few, all_of_them = listed(state_type(LoopState.layout)), listed(extended())
    assert "loop.handle_rare_event" not in few
    assert "tasks.dispatch" in few
    assert set(few) < set(all_of_them)


def test_types_of_states_are_kept_by_name() -> None:
    assert intrinsics.STATES["holdfast.ExtendedLoopState"] == extended()


HELPED = f"""
import sys, time
from pathlib import Path
from types import ModuleType
made = ModuleType("sim.kernel.probe")
sys.modules[made.__name__] = made
source = '''{SOURCE}'''
made.__file__ = str(Path(sys.argv[1]) / "probe.py")
Path(made.__file__).write_text(source)
exec(compile(source, made.__file__, "exec"), vars(made))

from numba import types
from numba.core import event
from numba.core.registry import cpu_target
from sim.kernel.tools import native, parts

names = []
class Compiled(event.Listener):
    def on_start(self, event): pass
    def on_end(self, event): names.append(event.data["dispatcher"].py_func.__name__)

left = parts._called_by(made.root.py_func, {{}})
assert [kernel.__name__ for kernel, _ in left] == ["twice", "more"], left
assert parts._start_helper(left, {{}})
while any(map(parts._is_missing, left)):
    time.sleep(0.01)
event.register("numba:compile", Compiled())
print(made.root(5), names)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_another_process_compiles_what_is_listed(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is one core")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HELPED, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr) == ("21 ['root']\n", "")


def test_what_is_linked_comes_after_all_that_call_it() -> None:
    codegen = cpu_target.target_context.codegen()

    def library(name: str, *called: Linked) -> Linked:
        return Linked.kept(codegen, name, b"", list(called))

    # LLVM leaves a function out that nobody has asked for yet: `leaf` before `late`, which calls it.
    leaf = library("leaf")
    early, late = library("early", leaf), library("late", library("between", leaf))
    order = [one.name for one in callers_first([early, late])]
    assert order.index("leaf") == len(order) - 1
    assert order.index("between") > order.index("late")
