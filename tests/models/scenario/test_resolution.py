"""One record in place of several: what becomes of each key.

Oracles: means and variances of sums; keys of NEXMark with each event; a scenario whose numbers are divided by hand.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

import numpy as np
import pytest

from models.distributions import GammaGaps
from models.scenario.file_keys import descriptions, fields_of
from models.scenario.inputs import RateSeries, RunInputs
from models.scenario.reading import scenario_from
from models.scenario.resolution import simulated
from models.scenario.scenario import Scenario
from models.scenario.workload import NexmarkKeys
from sim.arrivals import draw_arrivals
from sim.nexmark_keys import nexmark_keys

W = 10
RAW: dict[str, Any] = {
    "duration": "1 min",
    "workload": {"in": {"rate": "100 /s", "tuple": "100 B", "keys": {"distribution": "uniform", "count": 50}}},
    "operators": {
        "in": {"kind": "source"},
        "count": {
            "kind": "aggregate",
            "inputs": {"in": "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": {"distribution": "exponential", "mean": "1 ms"},
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 2}},
}


def made(changes: dict[str, Any], resolution: int = W) -> Scenario:
    """Return what is simulated of the job with other values at paths with dots."""
    raw = {**RAW, "resolution": resolution}
    for path, value in changes.items():
        here: dict[str, Any] = raw
        *steps, last = path.split(".")
        for step in steps:
            here[step] = dict(here.get(step, {}))
            here = here[step]
        here[last] = value
    return simulated(scenario_from(raw), RunInputs())[0]


def at(scenario: Scenario, path: str) -> Any:
    here: Any = scenario
    for step in path.split("."):
        here = here[step] if isinstance(here, dict) else getattr(here, step)
    return here


CHANGED: tuple[tuple[dict[str, Any], str, object], ...] = (
    ({}, "workload.in.rate.constant_per_s", 10.0),
    (
        {"workload.in.rate": {"steps": [{"at": "0 s", "rate": "100 /s"}, {"at": "9 s", "rate": "50 /s"}]}},
        "workload.in.rate.steps",
        [(0.0, 10.0), (9.0, 5.0)],
    ),
    (
        {"workload.in.rate": {"ramp": {"start": "100 /s", "end": "200 /s", "over": "9 s"}}},
        "workload.in.rate.ramp.end_per_s",
        20.0,
    ),
    ({"workload.in.rate": {"series": "r.csv", "step": "1 s"}}, "workload.in.rate.scale", 0.1),
    ({}, "workload.in.tuple_bytes", 1000.0),
    ({}, "workload.in.keys.count", 50),
    ({"workload.in.batch": 1}, "workload.in.batch", 1),
    ({"workload.in.batch": 30}, "workload.in.batch", 3),
    ({"workload.in.batch": {"distribution": "geometric", "mean": 25.0}}, "workload.in.batch.mean", 2.5),
    ({"workload.in.arrivals": "deterministic"}, "workload.in.arrivals", "deterministic"),
    ({"operators.count.output": {"tuple": "8 B"}}, "operators.count.output.tuple_bytes", 80.0),
    ({"operators.count.buffer": 70}, "operators.count.buffer", 7),
    ({"operators.count.selectivity": 0.5}, "operators.count.selectivity", 0.5),
    ({"operators.in.reading": {"poll": 500}}, "operators.in.reading.poll", 50),
    ({"operators.in.reading": {"file": "1 s"}}, "operators.in.reading.file_s", 1.0),
    ({"operators.count.state": {"model": "fixed", "bytes": "9 kB"}}, "operators.count.state.change_bytes", None),
    (
        {"operators.count.state": {"model": "fixed", "bytes": "9 kB", "change": "7 B"}},
        "operators.count.state.change_bytes",
        70.0,
    ),
    ({"operators.count.state": {"model": "fixed", "bytes": "9 kB"}}, "operators.count.state.group_bytes", 9000.0),
    ({"operators.count.state": {"model": "per-tuple", "bytes": "9 B"}}, "operators.count.state.entry_bytes", 90.0),
    ({"operators.count.state": {"model": "per-key", "bytes": "9 B"}}, "operators.count.state.entry_bytes", 9.0),
    (
        {"operators.count.state": {"model": "window", "bytes": "9 B", "length": "1 s"}},
        "operators.count.state.entry_bytes",
        90.0,
    ),
    (
        {"operators.count.state": {"model": "per-key", "bytes": "9 B"}}
        | {"workload.in.keys": {"distribution": "nexmark", "field": "auction.id"}},
        "operators.count.state.entry_bytes",
        90.0,
    ),
    (
        {"fault_tolerance": {"method": "acker", "guarantee": "at-least-once", "acker": {"pending": 40}}},
        "fault_tolerance.acker.pending",
        4,
    ),
    ({"fault_tolerance": {"method": "acker", "guarantee": "at-least-once"}}, "fault_tolerance.acker.ack_bytes", 200.0),
    (
        {"fault_tolerance": {"method": "checkpoint", "duplicate": "1 us"}},
        "fault_tolerance.duplicate_s",
        pytest.approx(1e-5),
    ),
    ({"state_store": {"per_tuple": "1 us"}}, "state_store.per_tuple_s", pytest.approx(1e-5)),
)


@pytest.mark.parametrize("number", range(len(CHANGED)))
def test_numbers_of_records_are_divided_and_what_is_of_one_is_multiplied(number: int) -> None:
    changes, path, expected = CHANGED[number]
    found = at(made(changes), path)
    if isinstance(expected, list):
        found = [(step.at_s, step.rate_per_s) for step in found]
    assert found == expected


def test_a_state_by_id_of_nexmark_whose_size_depends_on_the_input_is_multiplied() -> None:
    state = {"model": "per-key", "bytes": {"in": "9 B"}}
    keys = {"distribution": "nexmark", "field": "auction.id"}
    changes = {"operators.count.state": state, "workload.in.keys": keys}
    assert at(made(changes), "operators.count.state.entry_bytes") == {"in": 90.0}


def test_what_batches_and_changelogs_count_is_divided() -> None:
    spark = {**RAW, "resolution": W, "engine": "spark", "hosts": {"worker": {"count": 2}}}
    spark["fault_tolerance"] = {"interval": "1 s", "micro_batches": {"max_offsets": 90}}
    batches = simulated(scenario_from(spark), RunInputs())[0].fault_tolerance.batches
    assert batches is not None
    assert batches.max_offsets == 9
    streams = {**RAW, "resolution": W, "fault_tolerance": {"method": "changelog", "store": "remote", "changelog": {}}}
    streams["fault_tolerance"]["changelog"] = {"acceptable_lag": 19}
    changelog = simulated(scenario_from(streams), RunInputs())[0].fault_tolerance.changelog
    assert changelog is not None
    assert changelog.acceptable_lag == 1


LAWS = (
    {"distribution": "deterministic", "value": "3 ms"},
    {"distribution": "exponential", "mean": "3 ms"},
    {"distribution": "gamma", "mean": "3 ms", "shape": 0.7},
    {"distribution": "erlang", "mean": "3 ms", "shape": 4},
    {"distribution": "lognormal", "mean": "3 ms", "cv": 1.5},
    {"distribution": "uniform", "low": "1 ms", "high": "5 ms"},
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law["distribution"])
def test_a_service_is_a_sum_with_its_mean_and_its_variance(law: dict[str, Any]) -> None:
    one, many = (made({"operators.count.service": law}, w).operators["count"].service for w in (1, W))
    assert one is not None
    assert many is not None
    assert many.mean_s == pytest.approx(W * one.mean_s)
    assert many.scv * many.mean_s**2 == pytest.approx(W * one.scv * one.mean_s**2)


GAPS = ("poisson", {"distribution": "exponential"}, {"distribution": "erlang", "shape": 3})
GAPS += ({"distribution": "gamma", "shape": 0.5}, {"distribution": "lognormal", "cv": 2.0})
GAPS += ({"distribution": "uniform", "spread": 0.8}, {"distribution": "deterministic"})


@pytest.mark.parametrize("law", GAPS, ids=str)
def test_a_gap_between_arrivals_is_a_sum_too(law: Any) -> None:
    one, many = (made({"workload.in.arrivals": law}, w).workload["in"].arrivals for w in (1, W))
    scv = 1.0 if isinstance(one, str) else one.scv
    assert not isinstance(many, str)
    assert many.scv == pytest.approx(scv / W)


BATCHES = (30, {"distribution": "geometric", "mean": 25.0})


@pytest.mark.parametrize("batch", BATCHES, ids=["fixed", "geometric"])
def test_a_gap_between_batches_stays_as_they_are_as_many(batch: Any) -> None:
    for law in GAPS:
        one, many = (made({"workload.in.arrivals": law, "workload.in.batch": batch}, w).workload["in"] for w in (1, W))
        assert many.arrivals == one.arrivals
    single = {"distribution": "geometric", "mean": 1.0}
    assert made({"workload.in.batch": single}).workload["in"].arrivals == GammaGaps(shape=W)


def test_batches_come_when_they_do_with_each_record() -> None:
    # 30 records at a time: with one in place of ten the same instants, and a tenth of the records.
    raw = {**RAW, "workload": {"in": {**RAW["workload"]["in"], "batch": 30}}}
    whole, coarse = (simulated(scenario_from({**raw, "resolution": w}), RunInputs())[0] for w in (1, W))
    (times, _), (fewer, _) = (draw_arrivals(one, "in", 0, 0, None) for one in (whole, coarse))
    assert times.size > 3000
    assert fewer.tolist() == times[::W].tolist()


def test_a_sum_of_very_many_has_the_largest_shape_that_there_is() -> None:
    gaps = made({"workload.in.arrivals": {"distribution": "gamma", "shape": 1e5}}, 100).workload["in"].arrivals
    assert gaps == GammaGaps(shape=1e6)


def test_recorded_rates_are_divided_and_nothing_is_divided_twice() -> None:
    series = RateSeries(np.array([0.0, 1.0]), np.array([30.0]))
    scenario = scenario_from({**RAW, "resolution": W, "workload": {"in": {"rate": {"series": "r.csv", "step": "1 s"}}}})
    once = simulated(scenario, RunInputs(rates={"in": series}))
    assert once[1].rates["in"].rate_per_s.tolist() == [3.0]
    twice = simulated(*once)
    assert twice[0] is once[0]
    assert twice[1] is once[1]


@pytest.mark.parametrize("field", ["person.id", "auction.id", "auction.seller", "bid.auction", "bid.bidder"])
def test_events_of_nexmark_refer_to_what_one_of_those_they_stand_for_does(field: Any) -> None:
    draws = np.random.default_rng(7).random(5000)
    events = np.arange(5000)
    keys = NexmarkKeys(field=field, **({"in_flight": 300} if field == "bid.auction" else {}))
    coarse = nexmark_keys(keys.of_every(W), events, draws)
    assert coarse.tolist() == (nexmark_keys(keys, events * W, draws) // W).tolist()
    workload = made({"workload.in.keys": {"distribution": "nexmark", "field": field}}).workload["in"]
    most = workload.most_keys(500.0)
    assert most is not None
    assert coarse.max() < most


OF_RECORDS = {
    ("SourceWorkload", "batch"),
    ("Operator", "buffer"),
    ("Reading", "poll"),
    ("Acker", "pending"),
    ("MicroBatches", "max_offsets"),
    ("Changelog", "acceptable_lag"),
    ("SourceWorkload", "tuple"),
    ("Output", "tuple"),
    ("FixedState", "change"),
    ("PerTupleState", "bytes"),
    ("WindowState", "bytes"),
    ("PerKeyState", "bytes"),  # where ids of NEXMark stand for many
    ("Acker", "ack"),
}
OF_OTHER_THINGS = {
    ("Scenario", "seed"),
    ("Scenario", "replications"),
    ("Scenario", "resolution"),
    ("Operator", "parallelism"),
    ("Operator", "threads"),
    ("Operator", "priority"),
    ("Operator", "key_groups"),
    ("HostGroup", "count"),
    ("HostGroup", "spare"),
    ("HostGroup", "cores"),
    ("HostGroup", "slots"),
    ("HostGroup", "memory"),
    ("Workers", "slots"),
    ("StateStore", "concurrency"),
    ("FaultTolerance", "copies"),
    ("Detector", "failed_calls"),
    ("Elasticity", "reports"),
    ("Elasticity", "moves"),
    ("Migrate", "key_group"),
    ("Rescale", "parallelism"),
    ("Reconfigure", "size"),
    ("Reconfigure", "owners"),
    ("Reconfigure", "tasks"),
    ("Targets", "lost"),  # of the job, as the summary
    ("Limits", "steps"),  # that are simulated
    ("Limits", "memory"),
    ("ErlangGaps", "shape"),
    ("Erlang", "shape"),
    ("UniformKeys", "count"),
    ("ZipfKeys", "count"),
    ("NexmarkKeys", "in_flight"),  # of the job: ids are divided
    ("FixedState", "bytes"),
    ("FixedDelay", "attempts"),
    ("ExponentialDelay", "attempts"),
    ("FailureRate", "failures"),
    ("AdaptiveScheduling", "failed_checkpoints"),
    ("Changelog", "standbys"),
    ("Changelog", "warmups"),
    ("Trimming", "levels"),
    ("Trimming", "ack"),  # of a slice
    ("Barriers", "concurrent"),
    ("Barriers", "tolerated_failures"),
    ("Compaction", "files"),
    ("Compaction", "level"),
    ("ActiveReplica", "key_groups"),
}


def test_of_each_key_that_is_a_number_or_a_size_it_is_known_whether_it_is_about_records() -> None:
    """A key that is new has to be divided or multiplied, or to be among the others here."""
    found = set()
    for model in descriptions(Scenario):
        for key, field in fields_of(model).items():
            marks = [*field.metadata, *_marks(field.annotation)]
            if _has_int(field.annotation) or any(getattr(mark, "name", "") == "B" for mark in marks):
                found.add((model.__name__, key))
    assert found == OF_RECORDS | OF_OTHER_THINGS
    assert not OF_RECORDS & OF_OTHER_THINGS


def _has_int(annotation: Any) -> bool:
    return annotation is int or any(map(_has_int, get_args(annotation) if get_origin(annotation) is not None else ()))


def _marks(annotation: Any) -> list[Any]:
    own = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    return own + [mark for one in get_args(annotation) for mark in _marks(one)]
