"""The time of an event: a time or a distribution of it; each thing that is wrong with one is said once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from changed_keys import changed
from pydantic import TypeAdapter
from scipy import stats

from models.distributions import TimeDistribution, longest_s, shortest_s, survival
from models.errors import InputError
from models.scenario.events import HostFailure, Reconfigure, Timed
from models.scenario.file_keys import schema_of
from models.scenario.reading import raw_of, scenario_from
from models.scenario.rules import faults, warnings
from models.scenario.scenario import Scenario
from models.topology.failed_slots import waits_for_slots

SERVICE = {"distribution": "exponential", "mean": "1 ms"}
RAW: dict[str, Any] = {
    "duration": "60 s",
    "workload": {"in": {"rate": "100 /s"}},
    "operators": {
        "in": {"kind": "source"},
        "count": {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 2, "key_groups": 4, "service": SERVICE},
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 3}},
    "fault_tolerance": {"method": "none"},
    "events": {"move": {"kind": "reconfigure", "at": "10 s", "operator": "count", "strategy": "fluid"}},
}
AT = "events/move/at"
LATER = {"kind": "reconfigure", "at": "20 s", "operator": "count", "strategy": "fluid", "plan": "back"}


def between(low: str, high: str) -> dict[str, str]:
    return {"distribution": "uniform", "low": low, "high": high}


def exponential(mean: object) -> dict[str, object]:
    return {"distribution": "exponential", "mean": mean}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({AT: 5}, "events.move.at = 5: must be a quantity with a unit, not a bare number"),
        ({AT: "soon"}, "events.move.at = soon: must be one number followed by one unit"),
        ({AT: "-1 s"}, "events.move.at = -1 s: must not be negative"),
        ({AT: "60 s"}, "events.move.at = 1 min: must be before the end of the run at 1 min"),
        ({AT: {"low": "1 s"}}, "events.move.at.distribution: is missing"),
        (
            {AT: between("1 s", "2 s") | {"distribution": "unifrm"}},
            "events.move.at.distribution = unifrm: must be deter",
        ),
        ({AT: {"distribution": "uniform", "low": "1 s"}}, "events.move.at.high: is missing"),
        ({AT: exponential(9)}, "events.move.at.mean = 9: must be a quantity with a unit, not a bare number"),
        ({AT: between("3 s", "2 s")}, "events.move.at.low = 3 s: must be shorter than high"),
        ({AT: between("1 s", "61 s")}, "events.move.at.high = 61 s: must be at most the duration of 1 min"),
        ({AT: exponential("60 s")}, "events.move.at.mean = 1 min: must be before the end of the run at 1 min"),
        (
            {AT: {"distribution": "deterministic", "value": "60 s"}},
            "events.move.at.value = 1 min: must be before the end of the run at 1 min",
        ),
        (
            {AT: between("10 s", "20 s"), "events/move/file": "m", "events/move/strategy": "batched"},
            "events.move.at = uniform: must be a time beside file, whose lines have times of their own (give it",
        ),
        (
            {AT: between("10 s", "20 s"), "events/later": LATER},
            "events.later.at = 20 s: can come before events.move, which happens until 20 s, and what moves depends",
        ),
        (
            {AT: exponential("10 s"), "events/later": LATER | {"at": between("20 s", "30 s")}},
            "events.later.at = from 20 s on: can come before events.move, which happens at any time, and what moves",
        ),
        (
            {"events": {"die": {"kind": "host-failure", "host": "worker-1", "at": between("1 s", "2 s")}}}
            | {"events/die/delay": exponential("1 s")},
            "events.die.delay: at is a distribution already (give the distribution to one of them",
        ),
    ],
)
def test_what_is_wrong_is_said_once(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    assert [str(fault).startswith(message) for fault in caught.value.faults] == [True], caught.value


@pytest.mark.parametrize(
    "changes",
    [
        {AT: between("0 s", "60 s")},
        {AT: between("10 s", "19 s"), "events/later": LATER},
        {"events/later": LATER | {"at": between("10.1 s", "50 s")}},
        {AT: exponential("59 s")},
    ],
)
def test_a_distribution_within_the_run_is_fine_and_written_as_it_was_read(changes: dict[str, object]) -> None:
    made = scenario_from(changed(RAW, changes))
    assert faults(made) == []
    assert scenario_from(raw_of(made)) == made


def test_every_kind_of_event_takes_a_distribution() -> None:
    tables = schema_of(Scenario)["$defs"]
    kinds = {one.model_fields["kind"].default: one.__name__ for one in Timed.__subclasses__()}
    assert len(kinds) == 9
    for kind, name in kinds.items():
        either = {one.get("type", "table") for one in tables[name]["properties"]["at"]["anyOf"]}
        assert either == {"string", "table"}, kind


def test_what_is_known_of_the_time_of_an_event() -> None:
    def failure(**more: Any) -> HostFailure:
        return HostFailure.model_validate({"kind": "host-failure", "host": "a"} | more)

    law = {"distribution": "uniform", "low_s": 2.0, "high_s": 6.0}
    never = {"distribution": "exponential", "mean_s": 3.0}
    cases = [
        (failure(at_s=7.0), (7.0, 7.0, 7.0)),
        (failure(at_s=law), (2.0, 4.0, 6.0)),
        (failure(at_s=7, delay=law), (9.0, 11.0, 13.0)),
        (failure(at_s=never), (0.0, 3.0, float("inf"))),
        (failure(at_s={"distribution": "deterministic", "value_s": 5.0}), (5.0, 5.0, 5.0)),
    ]
    assert [(one.earliest_s, one.mean_s, one.latest_s) for one, _ in cases] == [expected for _, expected in cases]
    assert [(one.at(1.0).at_s, one.at(1.0).delay) for one, _ in cases] == [(1.0, None)] * 5
    moved = Reconfigure.model_validate({"kind": "reconfigure", "at_s": law, "operator": "count"})
    assert moved.at(1.0) == Reconfigure.model_validate({"kind": "reconfigure", "at_s": 1.0, "operator": "count"})
    assert [shortest_s(one) for one in failure(at_s=7, delay=law).laws] == [2.0]
    assert [longest_s(one) for one in failure(at_s=law).laws] == [6.0]


def test_warnings_go_by_the_mean() -> None:
    raw = changed(RAW, {"events": {"die": {"kind": "host-failure", "host": "worker-1", "at": "59 s"}}})
    late = "events.die.at is so late that the failure is not detected before the run ends"
    for at, told in (("59 s", True), (between("0 s", "60 s"), False), (exponential("59.9 s"), True)):
        found = [f"{one.path} {one.text}" for one in warnings(scenario_from(changed(raw, {"events/die/at": at})))]
        assert (late in found) is told, (at, found)


@pytest.mark.parametrize("time_s", [0.0, 0.01, 1.0, 2.5, 3.0, 4.2, 6.0, 60.0])
def test_the_survival_of_each_law_is_that_of_scipy(time_s: float) -> None:
    sigma = math.sqrt(math.log1p(1.5**2))
    laws: list[tuple[dict[str, object], Any]] = [
        ({"distribution": "exponential", "mean_s": 3.0}, stats.expon(scale=3)),
        ({"distribution": "gamma", "mean_s": 3.0, "shape": 0.7}, stats.gamma(0.7, scale=3 / 0.7)),
        ({"distribution": "erlang", "mean_s": 3.0, "shape": 4}, stats.erlang(4, scale=3 / 4)),
        (
            {"distribution": "lognormal", "mean_s": 3.0, "cv": 1.5},
            stats.lognorm(sigma, scale=3 / math.exp(sigma**2 / 2)),
        ),
        ({"distribution": "uniform", "low_s": 2.0, "high_s": 6.0}, stats.uniform(2, 4)),
    ]
    read: TypeAdapter[TimeDistribution] = TypeAdapter(TimeDistribution)
    for raw, oracle in laws:
        assert survival(read.validate_python(raw), time_s) == pytest.approx(oracle.sf(time_s), rel=1e-12), raw
    assert survival(read.validate_python({"distribution": "deterministic", "value_s": 3.0}), time_s) == (time_s <= 3)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"at": exponential("8 s")}, None),  # exp(-7.5) is 0.00055
        ({"at": exponential("9 s")}, "at can be after the end of the run: in 0.127 % of the runs it does not happen"),
        ({"at": {"distribution": "lognormal", "mean": "55 s", "cv": 1.5}}, "at can be after the end of the run: in 26"),
        ({"at": "30 s", "delay": between("0 s", "30 s")}, None),
        (
            {"at": "30 s", "delay": between("0 s", "40 s")},
            "delay can be after the end of the run: in 25 % of the runs it does not happen",
        ),
        (
            {"at": "30 s", "delay": {"distribution": "deterministic", "value": "30 s"}},
            "delay is after the end of the run",
        ),
    ],
)
def test_an_event_that_does_not_happen_in_some_runs_is_told(event: dict[str, object], told: str | None) -> None:
    raw = changed(RAW, {"detector": {"heartbeat": "10 ms", "timeout": "20 ms"}})
    raw["events"] = {"die": {"kind": "host-failure", "host": "worker-1"} | event}
    found = [f"{one.path} {one.text}" for one in warnings(scenario_from(raw)) if one.path.startswith("events")]
    assert len(found) == (told is not None), found
    assert told is None or found[0].startswith(f"events.die.{told}"), found


def test_slots_are_counted_at_the_mean() -> None:
    raw = changed(
        RAW,
        {
            "engine": "flink",
            "fault_tolerance": {"interval": "10 s"},
            "hosts": {"worker": {"count": 3, "slots": 1}},
            "operators/count/parallelism": 3,
            "events": {"die": {"kind": "host-failure", "host": "worker-1", "at": between("10 s", "20 s")}},
        },
    )
    (found,) = waits_for_slots(scenario_from(raw))
    assert (found.event, found.begins_s, found.needs, found.has) == ("die", 15.0, 3, 2)
