"""The audit can fail: a plane that is tampered with is found out, tuple by tuple."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from small_jobs import NS, built, drain, random_job, scenario, simulate, without_crashes

from models.scenario.inputs import RateSeries, RunInputs
from sim.plain.audit import Account, accounts, ledger
from sim.plain.plane import PlainPlane


def finished(seed: int = 3) -> PlainPlane:
    """A drained plane without crashes in which something was applied."""
    run = drain(without_crashes(random_job(Random(seed))))
    assert run.drained
    return run.plane


def test_an_untouched_world_passes_the_audit() -> None:
    plane = finished()
    assert all(lost == twice == 0 < expected for _, expected, lost, twice in ledger(plane))


@pytest.mark.parametrize("place", [0, -1])
def test_a_tuple_that_is_missing_is_lost(place: int) -> None:
    plane = finished()
    partition = next(partition for partition in plane.all_partitions() if partition.applied)
    gone = partition.applied.pop(place)
    assert accounts(plane)[partition.operator.index].lost == {(partition.index, gone)}


def test_a_tuple_that_is_there_twice_is_duplicated() -> None:
    plane = finished()
    partition = next(partition for partition in plane.all_partitions() if partition.applied)
    partition.applied.append(partition.applied[0])
    account = accounts(plane)[partition.operator.index]
    assert account == Account(account.expected, set(), 1)


def test_a_tuple_at_the_wrong_partition_is_lost_at_the_right_one() -> None:
    plane = finished()
    partitions = next(
        partitions
        for partitions in plane.partitions
        if len(partitions) > 1 and partitions[0].applied and not partitions[0].operator.is_source
    )
    partitions[1].applied.append(partitions[0].applied.pop())
    assert len(accounts(plane)[partitions[0].operator.index].lost) == 1


def test_the_verdict_does_not_depend_on_when_the_audit_is_made() -> None:
    # Without crashes nothing is ever lost, however much is under way.
    raw = without_crashes(random_job(Random(5)))
    run = drain(raw, tuple(k * NS // 7 for k in range(1, 40)))
    for _, lost, _ in run.cuts:
        assert not any(lost.values())


def test_planned_checkpoint_hosts_get_the_checkpoints_and_then_the_groups() -> None:
    made = scenario(
        {
            "duration": "5 s",
            "workload": {"src": {"rate": "20 /s", "keys": {"distribution": "uniform", "count": 9}}},
            "operators": {
                "src": {"kind": "source"},
                "count": {
                    "kind": "aggregate",
                    "inputs": {"src": "key"},
                    "key_groups": 3,
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                },
                "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
            },
            "hosts": {"h": {"count": 4}},
            "placement": {"tasks": {"src-0": "h-0", "count-0": "h-1", "out-0": "h-0"}},
            "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
            "events": {"crash": {"at": "2500 ms", "kind": "host-failure", "host": "h-1", "repair": "100 ms"}},
        }
    )
    checkpoint_hosts = {("count", 0): "h-2", ("count", 1): "h-3", ("count", 2): "h-1"}
    tables = simulate(made, RunInputs(checkpoint_hosts=checkpoint_hosts)).tables
    first = tables["checkpoints"]["checkpoint_host"][:3].tolist()
    assert first == [2, 3, 0]  # group 2 was planned for its own owner
    moved = tables["recoveries"]
    assert list(zip(moved["key_group"].tolist(), moved["target"].tolist(), strict=True)) == [(0, 2), (1, 3), (2, 0)]


def test_a_named_share_thins_an_edge() -> None:
    made = scenario(
        {
            "duration": "50 s",
            "workload": {"src": {"rate": {"profile": "p", "span": "50 s", "mean": "100 /s"}}},
            "operators": {
                "src": {"kind": "source"},
                "late": {
                    "kind": "map",
                    "inputs": {"src": "shuffle"},
                    "takes": {"src": "delayed"},
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                },
                "out": {"kind": "sink", "inputs": {"late": "shuffle", "src": "shuffle"}},
            },
            "hosts": {"h": {"count": 1}},
        }
    )
    rates = {"src": RateSeries(np.array([0.0, 50.0]), np.array([100.0]))}
    plane = built(made, RunInputs(rates=rates, shares={"delayed": 0.25}), 50 * NS)
    sent = plane.sources[0].emitted
    # 99.9 % of a binomial of 5000 draws is within 3.3 standard deviations.
    assert abs(len(plane.partitions[1][0].applied) - sent / 4) < 3.3 * (sent * 3 / 16) ** 0.5
    assert [lost for _, _, lost, _ in ledger(plane)] == [0, 0]
