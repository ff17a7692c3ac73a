"""Files with thousands of faults: the work stays in proportion to the file, and the message short."""

from __future__ import annotations

import difflib
import pickle
import random
from collections.abc import Iterator
from itertools import pairwise, permutations, product
from typing import Any

import pytest

from models.errors import MOST_SHOWN, InputError, InputFault
from models.reliability.description import availability_from
from models.reliability.problem import settings_of
from models.scenario.reading import scenario_from
from models.scenario.rules.dataflow import unknown_name
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap
from models.topology import layout
from models.validation_messages import nearest

MANY = 2000


class Compared:
    """Counts the names that difflib compares."""

    def __init__(self) -> None:
        self.calls, self.names = 0, 0
        self._real = difflib.get_close_matches

    def __call__(self, word: str, names: list[str], *args: Any, **kwargs: Any) -> list[str]:
        self.calls, self.names = self.calls + 1, self.names + len(names)
        return self._real(word, names, *args, **kwargs)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compared]:
    counter = Compared()
    monkeypatch.setattr(difflib, "get_close_matches", counter)
    yield counter


def chain(length: int, last: str = "") -> dict[str, Any]:
    """A source, so many maps one after the other, and a sink; operator m0 also reads `last`."""
    service = {"distribution": "deterministic", "value": "1 us"}
    operators: dict[str, Any] = {"m": {"kind": "source"}}
    for index in range(length):
        before = f"m{index - 1}" if index else "m"
        operators[f"m{index}"] = {"kind": "map", "inputs": {before: "shuffle"}, "service": service}
    if last:
        operators["m0"]["inputs"] = {"m": "shuffle", last: "shuffle"}
    operators["out"] = {"kind": "sink", "inputs": {f"m{length - 1}": "shuffle"}}
    return {
        "duration": "10 s",
        "workload": {"m": {"rate": "100 /s"}},
        "operators": operators,
        "hosts": {"worker": {"count": 2, "network": "1 Gbit/s"}},
    }


def test_an_error_shows_the_first_faults_and_counts_the_others() -> None:
    error = InputError(*(InputFault(f"p[{index}]", index, "is wrong") for index in range(50)))
    assert len(error.faults) == 50
    lines = str(error).splitlines()
    assert lines[0] == "p[0] = 0: is wrong"
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1] == "and 30 more"


def test_an_error_with_few_faults_shows_all() -> None:
    error = InputError(*(InputFault(f"p[{index}]", index, "is wrong") for index in range(MOST_SHOWN)))
    assert len(str(error).splitlines()) == MOST_SHOWN
    assert "more" not in str(error)


def test_unknown_keys_are_compared_with_known_ones_only_where_they_are_shown(compared: Compared) -> None:
    raw = chain(1) | {f"duratoin{index}": 1 for index in range(MANY)}
    with pytest.raises(InputError) as refused:
        scenario_from(raw)
    assert len(refused.value.faults) == MANY
    assert "did you mean duration?" in str(refused.value)
    assert 0 < compared.calls <= MOST_SHOWN


def test_names_that_lead_nowhere_are_compared_only_where_they_are_shown(compared: Compared) -> None:
    raw = chain(1)
    raw["operators"] |= {f"z{index}": {"kind": "sink", "inputs": {f"q{index}": "shuffle"}} for index in range(MANY)}
    with pytest.raises(InputError) as refused:
        scenario_from(raw)
    assert len(refused.value.faults) == MANY
    assert 0 < compared.calls <= MOST_SHOWN


def test_hosts_that_do_not_exist_are_compared_only_where_they_are_shown(compared: Compared) -> None:
    raw = {
        "hosts": [f"host{index}" for index in range(MANY)],
        "operators": {f"o{index}": [f"hots{index}"] for index in range(MANY)},
        "queries": {"q": ["o0"]},
        "p": 0.1,
    }
    with pytest.raises(InputError) as refused:
        availability_from(raw)
    assert len(refused.value.faults) == MANY
    assert "did you mean host0?" in str(refused.value)
    assert 0 < compared.names <= 200 * MOST_SHOWN


def test_of_thousands_of_names_the_one_with_a_letter_changed_is_found() -> None:
    names = [f"operator_{index}_x" for index in range(5000)]
    assert nearest("operatr_4321_x", names) == "did you mean operator_4321_x?"


def test_a_hint_goes_to_another_process_as_text() -> None:
    error = InputError(unknown_name(("operators", "a"), "conut", "operator", {"count": 1}.keys()))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.faults[0].hint == "did you mean count?"


def test_the_order_of_a_long_chain_asks_for_the_inputs_of_each_operator_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = _never_seen(scenario_from(chain(300)))
    asked = _count_inputs(scenario, monkeypatch)
    order = layout.topological(scenario)
    assert order == ("m", *(f"m{index}" for index in range(300)), "out")
    assert 0 < asked[0] <= 5 * len(order)


def test_a_long_chain_is_validated_with_work_in_proportion_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = _never_seen(scenario_from(chain(300)))
    asked = _count_inputs(scenario, monkeypatch)
    from models.scenario.rules import faults  # noqa: PLC0415

    assert faults(scenario) == []
    assert 0 < asked[0] <= 60 * len(scenario.operators)


def _never_seen(scenario: Scenario) -> Scenario:
    """The scenario with a map of operators whose graph nobody has asked for."""
    return scenario.model_copy(update={"operators": FrozenMap(scenario.operators)})


def _count_inputs(scenario: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A counter of how often somebody reads `inputs` of an operator."""
    kind, count = type(scenario.operators["m"]), [0]
    plain = kind.__getattribute__

    def counting(self: Any, name: str) -> Any:
        count[0] += name == "inputs"
        return plain(self, name)

    monkeypatch.setattr(kind, "__getattribute__", counting)
    return count


def cycles_told(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as refused:
        scenario_from(raw)
    return [f"{fault.path}: {fault.rule}" for fault in refused.value.faults]


def test_a_cycle_is_told_operator_by_operator() -> None:
    assert cycles_told(chain(4, last="m2")) == ["operators.m0.inputs: is on a cycle: m0 -> m1 -> m2 -> m0"]


def test_every_cycle_is_told_and_operators_between_two_are_not() -> None:
    raw = chain(8, last="m1")
    raw["operators"]["m4"]["inputs"] |= {"m4": "shuffle", "m6": "shuffle"}
    assert cycles_told(raw) == [
        "operators.m0.inputs: is on a cycle: m0 -> m1 -> m0",
        "operators.m4.inputs: is on a cycle: m4 -> m4",
        "operators.m4.inputs: is on a cycle: m4 -> m5 -> m6 -> m4",
    ]


def test_of_a_long_cycle_both_ends_are_told() -> None:
    (told,) = cycles_told(chain(300, last="m299"))
    assert told.endswith(" -> m18 -> m19 -> 279 more -> m299 -> m0")


def test_of_operators_with_very_many_cycles_ten_are_told() -> None:
    raw = chain(9)
    for reader in range(9):
        raw["operators"][f"m{reader}"]["inputs"] |= {f"m{index}": "shuffle" for index in range(9) if index != reader}
    told = cycles_told(raw)
    assert told[-1] == "operators.m0.inputs: is one of 9 operators with more than 10 cycles"
    assert len(set(told)) == 11


@pytest.mark.parametrize("seed", range(12))
def test_cycles_are_those_that_trying_every_order_of_operators_finds(seed: int) -> None:
    draw = random.Random(seed)
    raw = chain(5)
    for reader, other in product(range(5), range(5)):
        if draw.random() < 0.15:
            raw["operators"][f"m{reader}"]["inputs"] |= {f"m{other}": "shuffle"}
    reads = {name: set(one.get("inputs", ())) for name, one in raw["operators"].items()}
    found = []
    for length in range(1, 6):
        for path in permutations([f"m{index}" for index in range(5)], length):
            if path[0] == min(path) and all(a in reads[b] for a, b in pairwise([*path, path[0]])):
                found.append(f"operators.{path[0]}.inputs: is on a cycle: " + " -> ".join([*path, path[0]]))
    assert len(found) <= 10
    assert (cycles_told(raw) if found else []) == sorted(found)


@pytest.mark.parametrize("entry", [0.01, "x", 2])
def test_more_values_of_p_than_a_curve_has_are_refused_with_one_fault(entry: object) -> None:
    raw = {"hosts": ["a", "b"], "operators": {"o": ["a", "b"]}, "queries": {"q": ["o"]}, "p": [entry] * 10_001}
    with pytest.raises(InputError) as refused:
        availability_from(raw)
    assert [str(fault.rule) for fault in refused.value.faults] == ["must have at most 10000 entries, not 10001"]


def test_more_values_of_p_by_option_are_refused_before_anything_is_computed() -> None:
    raw = {"hosts": ["a", "b"], "operators": {"o": ["a", "b"]}, "queries": {"q": ["o"]}, "p": 0.1}
    with pytest.raises(InputError, match="--p: must be at most 10000 values, not 10001"):
        settings_of(availability_from(raw), [0.1] * 10_001)
