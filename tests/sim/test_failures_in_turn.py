"""Failures in turn beside trimming by acks: none takes a state with its only checkpoint, or two neighbours.

Oracle: the ledger. Where hosts are left that can take what is lost, one failure at a time loses nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from seeds import parts
from small_jobs import scenario
from test_planes import differences

from models.records.tables import RunRecords
from sim.control.adjacent_tasks import AdjacentTasks
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.adjustment import AdjustmentContext
from sim.plain.plane import PlainPlane
from sim.recovery.elastic_upstream_backup import ElasticUpstreamBackup


def job(store: str, crashes: dict[str, str], pre: bool = False, scaled: bool = False, **changes: Any) -> dict[str, Any]:
    """Source and sink on `ends-0`, a counter on w-0, with `pre` a map before it on w-1; these hosts die at instants."""
    service = {"distribution": "deterministic", "value": "1 ms"}
    events: dict[str, Any] = {
        f"dies-{host}": {"kind": "host-failure", "at": at, "host": host} for host, at in crashes.items()
    }
    if scaled:
        events["up"] = {"kind": "rescale", "at": "11 s", "operator": "count", "parallelism": 3}
    raw: dict[str, Any] = {
        "duration": "30 s",
        "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 40}}},
        "operators": {
            "in": {"kind": "source"},
            "count": {
                "kind": "aggregate",
                "inputs": {"pre" if pre else "in": "key"},
                "key_groups": 12,
                "service": service,
                "state": {"model": "per-key", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"ends": {"count": 1}, "w": {"count": 3}},
        "placement": {"tasks": {"in-0": "ends-0", "count-0": "w-0", "out-0": "ends-0"}},
        "fault_tolerance": {"method": "elastic-upstream-backup", "interval": "10 s", "store": store},
        "detector": {"heartbeat": "200 ms", "timeout": "500 ms"},
        "events": events,
    }
    if pre:
        raw["operators"]["pre"] = {"kind": "map", "inputs": {"in": "shuffle"}, "service": service}
        raw["placement"]["tasks"]["pre-0"] = "w-1"
    return raw | changes


def rows(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    found = simulate(scenario(raw), plane=CompiledPlane)
    assert differences(simulate(scenario(raw), plane=PlainPlane), found) == []
    return found


def lost(raw: dict[str, Any]) -> int:
    """Tuples that the plain plane counts as lost."""
    return int(simulate(scenario(raw), plane=PlainPlane).tables["ledger"]["lost"].sum())


IN_TURN = {"w-0": "11 s", "w-1": "19 s"}


@pytest.mark.parametrize("store", ["nodes", "upstream", "remote"])
def test_the_second_of_two_failures_loses_nothing(store: str) -> None:
    assert not rows(job(store, IN_TURN)).tables["ledger"]["lost"].any()


@pytest.mark.parametrize("store", ["nodes", "upstream", "remote"])
@pytest.mark.parametrize("host", ["w-1", "w-2"])
def test_a_failure_right_after_a_scale_up_loses_nothing(store: str, host: str) -> None:
    assert not rows(job(store, {host: "12 s"}, scaled=True)).tables["ledger"]["lost"].any()


@pytest.mark.parametrize("host", ["w-0", "w-1", "w-2"])
def test_a_scale_up_puts_no_task_beside_its_neighbour(host: str) -> None:
    raw = job("remote", {host: "12 s"}, pre=True, scaled=True, hosts={"ends": {"count": 1}, "w": {"count": 4}})
    assert not rows(raw).tables["ledger"]["lost"].any()


def test_a_scale_up_says_where_it_has_to() -> None:
    raw = job("remote", {}, pre=True, scaled=True, hosts={"ends": {"count": 1, "slots": 2}, "w": {"count": 3}})
    whys = rows(raw).tables["decisions"]["reason"].tolist()
    assert [why for why in whys if "would take tasks of pre and count together" in why]


def in_turn(seed: int) -> dict[str, Any]:
    """Up to three hosts of five die, 8 s apart, and come back or not."""
    draw = Random(f"in turn {seed}")
    hosts = draw.sample(range(5), 3)
    crashes = {f"w-{host}": f"{11_000 + 8_000 * k + draw.randrange(2_000)} ms" for k, host in enumerate(hosts)}
    wide = {"ends": {"count": 1}, "w": {"count": 5}}
    raw = job(draw.choice(["nodes", "upstream"]), crashes, draw.random() < 0.5, draw.random() < 0.5, hosts=wide)
    raw["duration"] = "40 s"
    raw["seed"] = seed
    for event in raw["events"].values():
        if event["kind"] == "host-failure" and draw.random() < 0.5:
            event["repair"] = "3 s"
    raw["fault_tolerance"]["adjustment"] = {"checkpoint": draw.choice(["last", "new"])}
    return raw


@pytest.mark.parametrize("seeds", parts(3, 5))
def test_failures_in_turn_lose_nothing(seeds: range) -> None:
    assert [seed for seed in seeds if lost(in_turn(seed))] == []


# -- broken on purpose


def test_checkpoints_that_are_not_made_anew_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElasticUpstreamBackup, "checkpoints_lost", lambda self, partitions: None)
    assert any(lost(in_turn(seed)) for seed in range(12))


def test_states_beside_their_only_checkpoint_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElasticUpstreamBackup, "host_for", lambda self, one: self.hosts.for_partition(one))
    assert any(lost(in_turn(seed)) for seed in (3, *range(30)))  # the first that shows it


def test_adjustments_beside_the_only_checkpoint_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    has = lambda self, part: self._plane.checkpoint_host(part.old) is not None  # noqa: E731
    monkeypatch.setattr(AdjustmentContext, "has_enough", has)
    assert lost(job("nodes", {"w-1": "12 s"}, scaled=True)) > 0


def test_a_scale_up_beside_a_neighbour_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdjacentTasks, "too_many", lambda self, operator: {})
    assert lost(job("remote", {"w-1": "12 s"}, pre=True, scaled=True)) > 0
