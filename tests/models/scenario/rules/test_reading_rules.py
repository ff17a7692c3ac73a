"""Sources that read files or polls, and batches with a limit: what is wrong with either is said once."""

from __future__ import annotations

from typing import Any

import pytest
from changed_keys import changed
from flink_job import JOB

from models.errors import InputError
from models.scenario.reading import raw_of, scenario_from, scenario_with
from models.scenario.rules import not_simulated, warnings
from models.steady_state.load import expected_load

FILES = {"file": "200 ms", "cost": {"distribution": "deterministic", "value": "10 ms"}, "order": "newest-first"}
RAW: dict[str, Any] = changed(JOB, {"operators/in/reading": FILES})
KILL = {"kind": "host-failure", "at": "1 min", "host": "tm-0"}
SPARK: dict[str, Any] = {
    **{key: value for key, value in JOB.items() if key != "hosts"},
    "engine": "spark",
    "hosts": {"executor": {"count": 3, "cores": 4}},
    "fault_tolerance": {"interval": "1 s", "micro_batches": {"max_offsets": 1000}},
}


def test_the_scenarios_without_a_change_can_run() -> None:
    for raw in (RAW, SPARK, changed(RAW, {"events/kill": KILL})):
        made = scenario_from(raw)
        assert not_simulated(made) == []
        assert scenario_from(raw_of(made)) == made
    assert scenario_from(RAW).read_by_control == scenario_from(SPARK).read_by_control == {"in"}
    assert scenario_from(JOB).read_by_control == frozenset()


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"operators/in/reading": {}}, "operators.in.reading", "needs a file or a poll"),
        ({"operators/in/reading/poll": 5}, "operators.in.reading", "cannot be by file and by poll"),
        ({"operators/in/reading": {"poll": 0}}, "operators.in.reading.poll", "must be at least 1"),
        ({"operators/in/reading": {"poll": -3}}, "operators.in.reading.poll", "must be at least 1"),
        ({"operators/in/reading": {"poll": 5, "order": "shuffled"}}, "operators.in.reading.order", "order of files"),
        ({"operators/in/reading/order": "oldest"}, "operators.in.reading.order", "written, newest-first or shuffled"),
        ({"operators/in/reading/file": "0 s"}, "operators.in.reading.file", "must be longer than zero"),
        ({"operators/in/reading/file": "-1 s"}, "operators.in.reading.file", "must be longer than zero"),
        ({"operators/in/reading/file": "10 us"}, "operators.in.reading.file", "must be at least 1 ms"),
        ({"operators/in/reading/file": "10 min"}, "operators.in.reading.file", "shorter than the duration"),
        (
            {"operators/in/reading/cost": {"distribution": "uniform", "low": "2 s", "high": "1 s"}},
            "operators.in.reading.cost.low",
            "must be shorter than high",
        ),
        ({"operators/sum/reading": FILES}, "operators.sum.reading", "an aggregate reads no log"),
        ({"operators/out/reading": FILES}, "operators.out.reading", "a sink reads no log"),
        (
            {"fault_tolerance/micro_batches": {"max_offsets": 10}},
            "fault_tolerance.micro_batches",
            "needs the method micro-batch",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(changes: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in fault.rule


@pytest.mark.parametrize("offsets", [0, -1, 1.5, True])
def test_a_limit_is_a_number_from_one_on(offsets: object) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(SPARK, {"fault_tolerance/micro_batches/max_offsets": offsets}))
    (fault,) = caught.value.faults
    assert fault.path == "fault_tolerance.micro_batches.max_offsets"


@pytest.mark.parametrize(
    ("engine", "key"), [("spark", ""), ("kafka-streams", ".file"), ("storm", "")], ids=["spark", "kafka", "storm"]
)
def test_files_and_polls_are_refused_with_engines_that_have_none(engine: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(RAW | {"engine": engine})
    ((path, rule),) = ((one.path, one.rule) for one in caught.value.faults if "reading" in one.path)
    assert path == f"operators.in.reading{key}"
    assert rule.startswith("is not of ")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"events/scale": {"kind": "rescale", "at": "1 min", "operator": "sum", "parallelism": 4}}, "rescalings"),
        ({"recovery/scheduler": "adaptive", "events/kill": KILL}, "rescalings"),
        (
            {"operators/sum/window": {"length": "1 s"}, "operators/sum/state": None, "workload/in/watermark": "1 s"},
            "windows",
        ),
    ],
    ids=str,
)
def test_what_is_not_simulated_beside_them_is_said(changes: dict[str, object], hint: str) -> None:
    made = scenario_from(changed(RAW, changes))
    (fault,) = (one for one in not_simulated(made) if one.path == "operators.in.reading")
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("tolerance", "fails", "refused"),
    [
        ({"method": "none"}, False, False),
        ({"method": "none"}, True, True),
        ({"method": "checkpoint"}, False, False),
        ({"method": "checkpoint"}, True, True),
        ({"method": "region-restart"}, True, True),
        ({"method": "region-restart", "barriers": {}, "store": "remote"}, True, False),
        ({"method": "acker", "guarantee": "at-least-once"}, False, True),
        ({"method": "changelog", "store": "remote"}, False, True),
        ({"method": "micro-batch", "store": "remote"}, False, True),
        ({"method": "source-backup"}, False, True),
    ],
    ids=str,
)
def test_what_goes_back_as_a_whole_may_fail(tolerance: dict[str, Any], fails: bool, refused: bool) -> None:
    raw = {key: value for key, value in RAW.items() if key != "engine"} | {"fault_tolerance": tolerance}
    made = scenario_from(raw | {"hosts": {"tm": {"count": 3}}, "events": {"kill": KILL} if fails else {}})
    found = [fault for fault in not_simulated(made) if fault.path.startswith("operators.in.reading")]
    assert bool(found) == refused


KAFKA: dict[str, Any] = {
    **{key: value for key, value in JOB.items() if key not in ("hosts", "fault_tolerance")},
    "engine": "kafka-streams",
    "hosts": {"broker": {}, "app": {"count": 3, "cores": 4}},
    "placement": {"operators": {"in": "broker", "out": "broker"}, "hosts": ["app"]},
}
POLL = {"distribution": "deterministic", "value": "10 ms"}


def test_stream_threads_poll_as_many_records_as_the_engine_says() -> None:
    made = scenario_from(changed(KAFKA, {"operators/in/reading": {"cost": POLL}}))
    assert not_simulated(made) == []
    assert {name: one.poll for name, one in made.polling.items()} == {"sum": 1000}
    assert made.read_by_control == frozenset()  # a topic emits each record at once
    assert raw_of(made)["operators"]["in"]["reading"] == {"cost": POLL}
    assert scenario_from(raw_of(made)) == made
    fewer = scenario_with(made, {"operators.in.reading.poll": 500})
    assert fewer.polling["sum"].poll == 500
    assert raw_of(fewer)["operators"]["in"]["reading"]["poll"] == 500
    assert scenario_from(changed(KAFKA, {"operators/in/reading": {}})).polling["sum"].poll == 1000
    failing = changed(KAFKA, {"operators/in/reading": {"cost": POLL}, "events/kill": KILL | {"host": "app-0"}})
    assert not_simulated(scenario_from(failing)) == []


def test_without_a_reading_nothing_polls() -> None:
    made = scenario_from(KAFKA)
    assert made.polling == {}
    assert all(one.reading is None for one in made.operators.values())
    assert "reading" not in raw_of(made)["operators"]["in"]


def test_a_poll_that_takes_more_than_its_records_come_in_is_a_warning() -> None:
    def said(poll: int, cost: str) -> list[str]:
        law = {"distribution": "deterministic", "value": cost}
        made = scenario_from(changed(KAFKA, {"operators/in/reading": {"poll": poll, "cost": law}}))
        (own,) = expected_load(made).operators["sum"].utilisation[:1]
        assert 0 < own < 1
        return [one.text for one in warnings(made) if one.path == "operators.in.reading.cost"]

    assert said(1000, "1 s") == []
    (text,) = said(1, "1 s")
    assert text.startswith("full polls take ")


def test_steps_of_a_reconfiguration_do_not_wait_for_files() -> None:
    raw = {key: value for key, value in RAW.items() if key != "engine"} | {"hosts": {"tm": {"count": 3}}}
    move = {"kind": "reconfigure", "at": "1 min", "operator": "sum", "strategy": "fluid"}
    made = scenario_from(raw | {"fault_tolerance": {"method": "none"}, "events": {"move": move}})
    assert [fault.path for fault in not_simulated(made)] == ["operators.in.reading"]


def test_files_that_take_longer_to_read_than_to_write_deserve_a_warning() -> None:
    def said(cost: str) -> list[str]:
        law = {"distribution": "deterministic", "value": cost}
        made = scenario_from(changed(RAW, {"operators/in/reading/cost": law}))
        return [advice.path for advice in warnings(made) if advice.path.startswith("operators")]

    assert said("200 ms") == ["operators.in.reading.cost"]
    assert said("199 ms") == []


SLOW = {"distribution": "deterministic", "value": "300 ms"}


@pytest.mark.parametrize(
    ("base", "changes", "path", "words"),
    [
        (RAW, {"operators/in/reading/cost": SLOW}, "operators.in.reading.cost", "a file of 200 ms"),
        (
            RAW,
            {"operators/in/reading": {"poll": 1, "cost": SLOW}},
            "operators.in.reading.cost",
            "in which the records of a poll come",
        ),
        (SPARK, {"fault_tolerance/micro_batches/max_offsets": 1}, "max_offsets", "in an interval of 1 s"),
    ],
)
def test_a_source_that_cannot_keep_up_is_a_warning(
    base: dict[str, Any], changes: dict[str, Any], path: str, words: str
) -> None:
    found = [one for one in warnings(scenario_from(changed(base, changes))) if one.path.endswith(path)]
    assert [words in one.text for one in found] == [True]
    assert not [one for one in warnings(scenario_from(base)) if one.path.endswith(path)]
