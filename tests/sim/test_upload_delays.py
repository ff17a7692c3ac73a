"""What checkpoints on a link cost the tuples there, worked out by hand, on both planes."""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario, simulate

from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

MS = 10**6
PLANES: dict[str, PlaneFactory] = {"plain": PlainPlane, "compiled": CompiledPlane}


def job(**network: Any) -> dict[str, Any]:
    """Each second a tuple is created; `sum` answers it 31 ms later, over a link of 1 kB/s that takes 10 ms for it.

    The state of `sum` takes a second on that link, and is saved each second.
    """
    return {
        "duration": "3.5 s",
        "workload": {"src": {"rate": "1 /s", "arrivals": "deterministic", "tuple": "10 B"}},
        "operators": {
            "src": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "key_groups": 1,
                "service": {"distribution": "deterministic", "value": "1 ms"},
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"near": {}, "far": {"network": "1 kB/s"}},
        "network": {"latency": "30 ms", **network},
        "placement": {"operators": {"src": "near", "sum": "far", "out": "near"}},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
    }


def delays(raw: dict[str, Any], plane: PlaneFactory) -> list[tuple[int, ...]]:
    """Rows (at [ms], host, carried, delayed, total [ms], longest [ms])."""
    links = simulate(scenario(raw), plane=plane).tables["links"]
    names = ("at_ns", "host", "carried", "delayed", "delay_ns", "longest_ns")
    partitions = (MS, 1, 1, 1, MS, MS)
    return list(
        zip(
            *((links[name] // partition).tolist() for name, partition in zip(names, partitions, strict=True)),
            strict=True,
        )
    )


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_first_in_first_out_a_tuple_waits_until_the_whole_checkpoint_has_left(plane: PlaneFactory) -> None:
    # The first checkpoint is on the link from 1 s to 2 s. Of the tuples sent at 1031, 2031 and 3031 ms the first leaves
    # at 2010 instead of 1041 ms. The next checkpoint, of 1020 B, begins at 3 s: the third leaves at 4030 for 3041 ms.
    first, third = 2010 - 1041, 4030 - 3041
    rows = delays(job(sharing="fifo"), plane)
    assert rows == [
        (2000, 1, 1, 1, first, first),
        (3000, 1, 2, 1, first, first),
        (3500, 1, 3, 2, first + third, third),
    ]


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_on_a_fair_link_a_tuple_takes_twice_as_long_beside_a_checkpoint(plane: PlaneFactory) -> None:
    assert delays(job(sharing="fair"), plane) == [
        (2000, 1, 1, 1, 10, 10),
        (3000, 1, 2, 1, 10, 10),
        (3500, 1, 3, 2, 20, 10),
    ]


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_host_with_a_bandwidth_that_sends_both_shares_its_link_evenly_unless_told_otherwise(
    plane: PlaneFactory,
) -> None:
    assert delays(job(), plane) == delays(job(sharing="fair"), plane) != delays(job(sharing="fifo"), plane)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_tuples_that_only_wait_for_other_tuples_are_not_delayed(plane: PlaneFactory, sharing: str) -> None:
    # 30 tuples at once need 300 ms of the link, and the one checkpoint before them has long left it.
    raw = job(sharing=sharing) | {"duration": "5 s"}
    raw["workload"]["src"] |= {"rate": "10 /s", "batch": 30}  # each 3 s
    raw["operators"]["sum"]["state"]["bytes"] = "100 B"
    raw["fault_tolerance"]["interval"] = "2 s"
    assert delays(raw, plane) == []


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_crash_empties_the_link_that_tuples_are_compared_with(plane: PlaneFactory) -> None:
    # Each second 100 tuples are created. Those of 1 s wait for the checkpoint, and most are on the link when `far`
    # dies. After the repair they are sent again and need the link for a second from 1.66 s on. The checkpoint of 2 s
    # comes behind them, and has 2 kB with what is kept: the tuples of 2 s leave 2 s later than without it.
    raw = job(sharing="fifo") | {"duration": "2.9 s"}
    raw["workload"]["src"] |= {"rate": "100 /s", "batch": 100}
    raw["fault_tolerance"] |= {"store": "remote", "restart": "own-hosts"}
    raw["events"] = {"crash": {"kind": "host-failure", "at": "1500 ms", "host": "far-0", "repair": "100 ms"}}
    assert delays(raw, plane)[-1] == (2900, 1, 300, 200, 100 * (2010 - 1041) + 100 * 2000, 2000)
