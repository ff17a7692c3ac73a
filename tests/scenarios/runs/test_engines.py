"""The engine that a run is asked to take: equal rows and summaries, and what is refused before it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.errors import InputError
from models.records.tables import PLAIN
from scenarios.files.scenario import names, read_scenario, resolve
from scenarios.runs import execute
from scenarios.runs.run import RunResult, run
from sim.engine import simulate

ONCE = ["replications=1"]
MOVED = ["duration=60 s", "warmup=5 s", "events.move.at=10 s", *ONCE]
SHORT = {
    "backlog": ["duration=60 s", *ONCE],
    "backpressure": ["duration=50 s", *ONCE],
    "best-rebalance": MOVED,
    "bin-migration": ["duration=11 s", "workload.events.rate=300 /s", *ONCE],
    "crash-recovery": ONCE,
    "elastic-line": ["duration=30 s", "warmup=5 s", "events.crash.at=20 s", "workload.events.rate=200 /s", *ONCE],
    "elastic-sentiment": ["duration=8 s", "warmup=1 s", "workload.messages.rate=300 /s", *ONCE],
    "elastic-word-count": ["duration=30 s", "events.crash.at=20 s", "workload.sentences.rate=200 /s", *ONCE],
    "elasticity": ["duration=30 s", *ONCE],
    "flink-recovery": ["duration=80 s", "events.kill.at=30 s", "workload.clicks.rate=50 /s", *ONCE],
    "flink-rescale": ["duration=80 s", "events.more.at=30 s", "workload.clicks.rate=50 /s", *ONCE],
    "migration": ["workload.orders.rate=200 /s", *ONCE],
    "migration-shootout": ["design=stop-and-restart", "duration=30 s", "workload.events.rate=200 /s", *ONCE],
    "mm1": ["duration=20 s", *ONCE],
    **{f"rebalance-{name}": MOVED for name in ("diamond", "grid", "linear", "star", "traffic")},
    "rebalance-chain-50": [*MOVED, "duration=100 s"],
    "recovery-shootout": [
        "sweep={}",
        "duration=30 s",
        "events.scale-up.at=20 s",
        "events.crash.at=22 s",
        "workload.sentences.rate=200 /s",
        *ONCE,
    ],
    "kafka-streams-recovery": ["duration=90 s", "events.kill.at=12 s", "workload.clicks.rate=50 /s", *ONCE],
    "nexmark-q1": ["duration=10 s", "workload.bids.rate=200 /s", *ONCE],
    "nexmark-q2": ["duration=10 s", "workload.bids.rate=200 /s", *ONCE],
    "nexmark-q3": [
        "duration=40 s",
        "workload.persons.rate=20 /s",
        "workload.auctions.rate=60 /s",
        "events.kill.at=12 s",
        *ONCE,
    ],
    **{
        name: [
            "duration=30 s",
            "workload.bids.rate=184 /s",
            "workload.auctions.rate=12 /s",
            "events.there.at=9 s",
            "events.back.at=15 s",
            *ONCE,
        ]
        for name in ("nexmark-q4", "nexmark-q6")
    },
    "nexmark-q5": ["duration=40 s", "workload.bids.rate=100 /s", "events.kill.at=12 s", *ONCE],
    "nexmark-q7": ["duration=25 s", "workload.bids.rate=100 /s", *ONCE],
    "nexmark-q8": [
        "duration=40 s",
        "workload.persons.rate=20 /s",
        "workload.auctions.rate=60 /s",
        "events.kill.at=12 s",
        *ONCE,
    ],
    "kafka-streams-restart": ["duration=90 s", "events.roll.at=12 s", "workload.clicks.rate=50 /s", *ONCE],
    "spark-recovery": ["duration=40 s", "events.kill.at=12 s", "workload.clicks.rate=50 /s", *ONCE],
    "storm-recovery": ["duration=70 s", "events.kill.at=12 s", "workload.clicks.rate=50 /s", *ONCE],
    "tiny-sweep": ONCE,
    "user-rebalance": [*MOVED, "duration=30 s", "workload.views.rate=80 /s", "workload.clicks.rate=20 /s"],
    "windowed-join": ["duration=30 s", *ONCE],
    "word-count": ["duration=8 s", "warmup=1 s", "events={}", *ONCE],
}


def ran(name: str, settings: list[str], **options: Any) -> RunResult:
    loaded = read_scenario(resolve(name), settings)
    return run(loaded.scenario, folder=loaded.folder, **options)


def test_each_scenario_of_the_library_is_tried() -> None:
    assert sorted(SHORT) == sorted(names())


@pytest.mark.parametrize("name", SHORT)
def test_the_plain_engine_gives_equal_rows_and_an_equal_summary(name: str) -> None:
    plain, fast = ran(name, SHORT[name], engine="plain"), ran(name, SHORT[name])
    for one, other in zip(plain.records, fast.records, strict=True):
        assert one.tables.keys() == other.tables.keys()
        for table, columns in one.tables.items():
            for column, values in columns.items():
                assert np.array_equal(values, other.tables[table][column]), (table, column)
    kernels = [dict(result.summary)["kernel"]["name"] for result in (plain, fast)]
    assert kernels[0] == PLAIN != kernels[1]
    assert {**plain.summary, "kernel": None} == {**fast.summary, "kernel": None}


def test_workers_simulate_on_the_plain_engine_and_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "prepare", lambda *_: pytest.fail("there is nothing to compile"))
    settings = ["duration=5 s", "warmup=1 s", "replications=2"]
    alone, together = (ran("mm1", settings, engine="plain", workers=workers) for workers in (1, 2))
    assert alone.summary == together.summary
    assert [one.kernel.name for one in together.records if one.kernel] == [PLAIN, PLAIN]


@pytest.mark.parametrize("name", ["", "fast", "PLAIN", "scan"])
def test_an_engine_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(InputError) as raised:
        ran("mm1", [], engine=name)
    assert str(raised.value).startswith(f"engine = {name}: must be one of auto, compiled, plain")


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (["recording.detail=histograms"], "recording.detail = histograms: the plain engine keeps a row for each tuple"),
        (["duration=10 h"], "recording.detail = auto: the plain engine keeps a row for each tuple"),
        (["limits.time=10 s"], "limits.time = 10 s: the run needs about"),
        (["limits.memory=100 MB", "recording.detail=tuples"], "limits.memory = 100 MB: the run needs about"),
    ],
)
def test_what_the_plain_engine_cannot_do_is_refused_before_it_starts(settings: list[str], rule: str) -> None:
    started: list[Any] = []
    with pytest.raises(InputError) as raised:
        ran("mm1", settings, engine="plain", on_checked=lambda *made: started.append(made))
    assert str(raised.value).startswith(rule)
    assert started == []


def test_an_engine_that_there_is_not_is_refused_in_python() -> None:
    with pytest.raises(ValueError, match="no engine 'fast': there are auto, compiled, plain"):
        simulate(read_scenario(resolve("mm1")).scenario, engine="fast")  # type: ignore[arg-type]
