"""`operators.X.state.bytes` for each input: each thing that is wrong is said once."""

from __future__ import annotations

from typing import Any

import pytest
from changed_keys import changed

from models.errors import InputError
from models.scenario.reading import raw_of, scenario_from
from models.steady_state.load import expected_load

RAW: dict[str, Any] = {
    "duration": "10 s",
    "workload": {
        "persons": {"rate": "20 /s", "keys": {"distribution": "nexmark", "field": "person.id"}},
        "auctions": {"rate": "60 /s", "keys": {"distribution": "nexmark", "field": "auction.seller"}},
    },
    "operators": {
        "persons": {"kind": "source"},
        "auctions": {"kind": "source"},
        "match": {
            "kind": "join",
            "inputs": {"persons": "key", "auctions": "key"},
            "window": {"length": "1 h"},
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "state": {"model": "per-key", "bytes": {"persons": "154 B", "auctions": "0 B"}},
        },
        "out": {"kind": "sink", "inputs": {"match": "shuffle"}},
    },
    "hosts": {"h": {"count": 2}},
}


def test_it_is_written_as_it_was_read() -> None:
    scenario = scenario_from(RAW)
    assert raw_of(scenario)["operators"]["match"]["state"]["bytes"] == {"persons": "154 B", "auctions": "0 B"}
    assert scenario_from(raw_of(scenario)) == scenario


def test_an_input_of_zero_bytes_adds_nothing_to_the_expected_state() -> None:
    assert expected_load(scenario_from(RAW)).operators["match"].state_bytes == pytest.approx(200 * 154)


@pytest.mark.parametrize(
    ("sizes", "path", "words"),
    [
        ({"persons": "1 B"}, "operators.match.state.bytes.auctions", "each input needs one"),
        ({"persons": "1 B", "auctions": "2 B", "auction": "3 B"}, "operators.match.state.bytes.auction", "the inputs"),
        ({"persons": "1.5 B", "auctions": "2 B"}, "operators.match.state.bytes.persons", "must be whole bytes"),
        ({"persons": "-1 B", "auctions": "2 B"}, "operators.match.state.bytes.persons", ""),
        ({"persons": 1, "auctions": "2 B"}, "operators.match.state.bytes.persons", "unit"),
        ("0 B", "operators.match.state.bytes", ""),
    ],
)
def test_what_is_wrong_is_said(sizes: object, path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, {"operators/match/state/bytes": sizes}))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in f"{fault.rule} {fault.hint}"
