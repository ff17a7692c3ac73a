"""The plain engine as a text and as a choice: the order in which to read it, and what it refuses."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from small_jobs import scenario

import sim.plain
from models.errors import InputFault
from models.scenario.inputs import RunInputs
from models.steady_state.estimate import detail_and_steps, estimate
from sim.engine import simulate
from sim.plain.plane import PlainPlane
from sim.plain.support import not_supported

FOLDER = Path(sim.plain.__file__).parent
APART = {"__init__", "support"}  # no part of what happens to a tuple


def queue(rate: str = "100 /s", **changes: Any) -> dict[str, Any]:
    service = {"distribution": "exponential", "mean": "1 ms"}
    return {
        "duration": "10 s",
        "workload": {"src": {"rate": rate}},
        "operators": {
            "src": {"kind": "source"},
            "q": {"kind": "map", "inputs": {"src": "shuffle"}, "service": service},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {}},
    } | changes


def faults(raw: dict[str, Any]) -> list[InputFault]:
    return [*not_supported(scenario(raw), RunInputs())]


def test_the_package_says_in_which_order_to_read_and_no_module_imports_a_later_one() -> None:
    opening = re.compile(r"(`\w+`(?: and `\w+`)*):")  # of the paragraph of a module, or of two
    paragraphs = [opening.match(one) for one in (sim.plain.__doc__ or "").split("\n\n")]
    order = [name for one in paragraphs if one for name in re.findall(r"\w+", one[1]) if name != "and"]
    assert sorted(order) == sorted({path.stem for path in FOLDER.glob("*.py")} - APART)
    for place, name in enumerate(order):
        nodes = ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
        modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        inner = [module.removeprefix("sim.plain.") for module in modules if module.startswith("sim.plain.")]
        assert set(inner) <= set(order[:place]), name


def test_the_records_say_that_the_plain_engine_was_asked_for() -> None:
    made = scenario(queue())
    asked, given = simulate(made, engine="plain"), simulate(made, plane=PlainPlane)
    assert asked.kernel is not None
    assert (asked.kernel.name, asked.kernel.why) == ("plain", "it was asked for")
    assert given.kernel is None


def test_it_has_nothing_to_compile() -> None:
    seen: list[float] = []
    simulate(scenario(queue()), on_compile=seen.append, engine="plain")
    assert seen == []


def test_rows_of_tuples_are_no_fault() -> None:
    assert faults(queue()) == []
    assert faults(queue("1000000 /s", recording={"detail": "tuples"})) == []


def test_histograms_that_are_asked_for_are_refused_by_their_key() -> None:
    (fault,) = faults(queue(recording={"detail": "histograms"}))
    assert (fault.path, fault.value) == ("recording.detail", "histograms")
    assert fault.rule == "the plain engine keeps a row for each tuple"
    assert "recording.detail to tuples" in str(fault.hint)


@pytest.mark.parametrize("rate", ["1000 /s", "1000000 /s"])
def test_a_run_that_would_be_histograms_by_itself_is_refused(rate: str) -> None:
    raw = queue(rate)
    would = detail_and_steps(scenario(raw), RunInputs())[0]
    found = faults(raw)
    assert [fault.value for fault in found] == (["auto"] if would == "histograms" else [])
    assert all("30,000,000 steps" in fault.rule for fault in found)
    assert (would == "histograms") == (rate == "1000000 /s")


def test_its_estimate_is_of_rows_and_honestly_longer() -> None:
    made = scenario(queue(recording={"detail": "histograms"}))
    plain, auto = estimate(made, engine="plain"), estimate(made)
    assert (plain.detail, auto.detail) == ("tuples", "histograms")
    assert (plain.tuples, plain.steps, plain.events) == (auto.tuples, auto.steps, auto.events)
    assert plain.time_s - auto.time_s > 1e-5 * plain.steps
    assert plain.memory_bytes > 300 * plain.steps
    crashes = {"events": {"c": {"at": "5 s", "kind": "host-failure", "host": "h-0", "repair": "1 s"}}}
    failing = estimate(scenario(queue(hosts={"h": {"count": 2}}, **crashes)), engine="plain")
    assert failing.memory_bytes > 600 * failing.steps  # ids of tuples, to know them again
