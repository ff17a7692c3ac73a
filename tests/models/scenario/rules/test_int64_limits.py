"""Scenarios whose times would not fit into 64 bits are refused before they run; all that mean anything are not."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import InputError
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules.int64_limits import whole_time_faults
from models.scenario.scenario import Scenario
from models.steady_state.estimate import check_limits, estimate
from scenarios.files.scenario import names, path_of, read_scenario


def job(**changes: Any) -> Scenario:
    """A source, an operator with state and a sink on two hosts; `a__b` is the key b of the table a."""
    raw: dict[str, Any] = {
        "duration": "10 s",
        "workload": {"s": {"rate": "20 /s"}},
        "operators": {
            "s": {"kind": "source"},
            "q": {
                "kind": "aggregate",
                "inputs": {"s": "key"},
                "key_groups": 4,
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 2}},
    }
    for path, value in changes.items():
        here = raw
        *above, last = path.split("__")
        for step in above:
            here = here.setdefault(step, {})
        here[last] = value
    return scenario_from(raw)


def service(value: str, distribution: str = "deterministic", **more: Any) -> dict[str, Any]:
    """A service of that time."""
    return {"distribution": distribution, "value" if distribution == "deterministic" else "mean": value, **more}


SAVED = {"method": "checkpoint", "interval": "1 s"}
CRASH = {"e": {"kind": "host-failure", "at": "5 s", "host": "h-1", "repair": "1 s"}}
LARGE = {"model": "fixed", "bytes": "1 TiB"}

# name: (changes, paths of the faults)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "large tuples over a slow link": (
        {"workload__s__tuple": "1 TiB", "hosts__h__network": "1 B/s"},
        ["hosts.h.network"],
    ),
    "many tuples over a slow link": (
        {"workload__s__rate": "200000 /s", "workload__s__tuple": "1 kB", "hosts__h__network": "1 bit/s"},
        ["hosts.h.network"],
    ),
    "more bytes than can be counted": (
        {"workload__s__rate": "9000 /s", "workload__s__tuple": "1024 TiB", "operators__q__output": {"tuple": "1 B"}},
        ["workload.s.tuple"],
    ),
    "more bytes of outputs than can be counted": (
        {"workload__s__rate": "9000 /s", "operators__q__output": {"tuple": "1024 TiB"}},
        ["operators.q.output.tuple"],
    ),
    "long services": ({"operators__q__service": service("1000 d")}, ["operators.q.service.value"]),
    "one tuple that takes a century": (
        {"workload__s__rate": "1e-9 /s", "operators__q__service": service("36500 d")},
        ["operators.q.service.value"],
    ),
    "a slow host": (
        {"operators__q__service": service("3 h"), "hosts__h__speed": 1e-6},
        ["operators.q.service.value"],
    ),
    "a slow host that shares its cores": (
        {"operators__q__service": service("3 h"), "hosts__h__speed": 1e-6, "hosts__h__cpu": "processor-sharing"},
        ["operators.q.service.value"],
    ),
    "services of which some are far longer than most": (
        {"operators__q__service": service("1 d", "lognormal", cv=100.0)},
        ["operators.q.service.mean"],
    ),
    "uniform services": (
        {"operators__q__service": {"distribution": "uniform", "low": "0 s", "high": "2000 d"}},
        ["operators.q.service.high"],
    ),
    "one large batch": (
        {"workload__s__rate": "1e-3 /s", "workload__s__batch": 1_000_000, "operators__q__service": service("1 d")},
        ["operators.q.service.value"],
    ),
    "writing state": (
        {"fault_tolerance": SAVED, "operators__q__state": LARGE, "operators__q__serialise": "1 B/s"},
        ["operators.q.serialise"],
    ),
    "reading state": (
        {
            "fault_tolerance": SAVED,
            "events": CRASH,
            "operators__q__state": LARGE,
            "operators__q__deserialise": "1 B/s",
        },
        ["operators.q.deserialise"],
    ),
    "a slow remote store": (
        {"fault_tolerance": {**SAVED, "store": "remote", "remote": "1 B/s"}, "operators__q__state": LARGE},
        ["fault_tolerance.remote"],
    ),
    "checkpoints over a slow link": (
        {"fault_tolerance": SAVED, "operators__q__state": LARGE, "hosts__h__network": "1 B/s"},
        ["hosts.h.network"],
    ),
    "more state than can be counted": (
        {
            "fault_tolerance": SAVED,
            "workload__s__rate": "9000 /s",
            "operators__q__state": {"model": "per-tuple", "bytes": "1024 TiB"},
        },
        ["operators.q.state.bytes"],
    ),
    "dropping duplicates": (
        {"fault_tolerance": {**SAVED, "duplicate": "3650 d"}, "events": CRASH},
        ["fault_tolerance.duplicate"],
    ),
}

ACKED = {"method": "acker", "guarantee": "at-least-once"}
# 20 tuples a second for 10 s, in the source, q and out, with 10 and 10 to spare in each: 660 acks.
REFUSED |= {
    "more bytes of acks than can be counted": (
        {"fault_tolerance": ACKED | {"acker": {"ack": "1024 TiB"}}, "workload__s__rate": "90 /s"},
        ["fault_tolerance.acker.ack"],
    ),
    "large acks over a slow link": (
        # 660 MB at 0.125 B/s: 5.28e9 s, 167 years.
        {
            "fault_tolerance": ACKED | {"acker": {"ack": "1 MB", "transport": "links", "timeout": "1000 d"}},
            "workload__s__tuple": "1 B",
            "hosts__h__network": "1 bit/s",
        },
        ["fault_tolerance.acker.ack"],
    ),
    "acks of roots that fail again and again": (
        # 66 MB, 17 years, at 0.125 B/s; but an ack takes 9.3 days, so roots fail once in a second: 11 times as many.
        {
            "fault_tolerance": ACKED | {"acker": {"ack": "100 kB", "transport": "links", "timeout": "1 s"}},
            "hosts__h__count": 1,
            "hosts__slow": {"network": "1 bit/s"},
            "placement": {"operators": {"s": "h", "q": "h", "out": "h"}},
            "workload__s__tuple": "1 B",
        },
        ["fault_tolerance.acker.ack"],
    ),
}


@pytest.mark.parametrize(("changes", "paths"), REFUSED.values(), ids=REFUSED)
def test_what_takes_longer_than_can_be_counted_is_refused_by_its_name(
    changes: dict[str, Any], paths: list[str]
) -> None:
    scenario = job(**changes)
    with pytest.raises(InputError) as refused:
        check_limits(scenario, estimate(scenario))
    assert [fault.path for fault in refused.value.faults] == paths
    assert all(fault.hint.startswith("take ") for fault in refused.value.faults)


ACCEPTED: dict[str, dict[str, Any]] = {
    "as it stands": {},
    "overload": {"workload__s__rate": "9000 /s", "operators__q__service": service("10 s")},
    "large acks that occupy no link": {
        "fault_tolerance": ACKED | {"acker": {"ack": "1 MB", "timeout": "1000 d"}},
        "workload__s__tuple": "1 B",
        "hosts__h__network": "1 bit/s",
    },
    "small acks over a slow link": {
        "fault_tolerance": ACKED | {"acker": {"ack": "20 B", "transport": "links"}},
        "workload__s__tuple": "1 B",
        "hosts__h__network": "1 kbit/s",
    },
    "a slow link": {"workload__s__tuple": "1 MB", "hosts__h__network": "1 kB/s"},
    "a slow host": {"hosts__h__speed": 1e-6},
    "a slow host without tasks": {"operators__q__service": service("3 h"), "hosts__idle": {"speed": 1e-6}}
    | {"placement": {"operators": {"s": "h", "q": "h", "out": "h"}}},
    "long and rare": {
        "duration": "36500 d",
        "workload__s__rate": "1 /d",
        "operators__q__service": service("1 h", "exponential"),
    },
    "a source that is silent": {"workload__s__rate": "0 /s", "operators__q__service": service("36500 d")},
    "a slow rate without checkpoints": {"operators__q__state": LARGE, "operators__q__serialise": "1 B/s"},
    "checkpoints and crashes": {
        "fault_tolerance": SAVED,
        "events": CRASH,
        "operators__q__serialise": "1 MB/s",
        "operators__q__deserialise": "1 MB/s",
        "hosts__h__network": "1 Gbit/s",
    },
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED)
def test_what_can_be_counted_is_not_refused(changes: dict[str, Any]) -> None:
    assert whole_time_faults(job(**changes), RunInputs()) == []


@pytest.mark.parametrize("name", names())
def test_nothing_in_the_library_is_refused(name: str) -> None:
    assert whole_time_faults(read_scenario(path_of(name)).scenario, RunInputs()) == []


def test_the_error_says_how_long_it_takes_and_what_to_do() -> None:
    (fault,) = estimate(job(operators__q__service=service("365 d"), workload__s__rate="9 /s")).faults
    assert str(fault) == (
        "operators.q.service.value = 365 d: all services of q at speed 1 take up to 110 years, must be at most 30 years"
        " (take shorter services, faster hosts, fewer tuples or a shorter run)"
    )


def test_the_error_says_how_long_all_acks_take() -> None:
    (fault,) = estimate(job(**REFUSED["acks of roots that fail again and again"][0])).faults
    # 660 acks of 100 kB, 11 times, at 0.125 B/s: 5.808e9 s of 3.1536e7 s a year.
    assert str(fault) == (
        "fault_tolerance.acker.ack = 100 kB: all acks, about 726 MB, take up to 184 years, must be at most 30 years "
        "(take a smaller size, a faster network or a shorter run)"
    )
