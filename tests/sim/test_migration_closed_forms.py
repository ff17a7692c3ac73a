"""What moves take, against the closed forms for a lightly loaded target.

Source of the formulas: Madsen and Zhou, CIKM 2015, with the values of a worker with one core: tuples of 150 B,
links of 50 MB/s, 30 MB/s to write or read a state, 1 ms of latency, 0.1 ms per tuple. R tuples have to be replayed, in
equal parts from |U| tasks upstream, over links of their own.
"""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario

from models.inputs import RunInputs
from sim.engine import simulate
from sim.protocols.cpal import CaughtUpCPAL

TUPLE, LINK, DISK, LATENCY, SERVICE = 150, 50e6, 30e6, 1e-3, 1e-4
UPSTREAM, STATE = 4, 11e6
RATE = 600.0  # of the key group that moves, which is alone on its host
CHECKPOINT_S = 20.0


def moved(protocol: str, age_s: float, service_s: float = SERVICE, **store: Any) -> dict[str, Any]:
    """The row of a move `age_s` after the last checkpoint of the group was stored, in seconds, and that one's bytes."""
    made = scenario(
        {
            "format": 1,
            "seed": 5,
            "duration": "60 s",
            "workload": {
                "in": {
                    "rate": f"{2 * RATE} /s",
                    "keys": {"distribution": "uniform", "count": 400},
                    "tuple": f"{TUPLE} B",
                }
            },
            "operators": {
                "in": {"kind": "source", "parallelism": UPSTREAM},
                "sum": {
                    "kind": "aggregate",
                    "inputs": {"in": "key"},
                    "parallelism": 2,
                    "key_groups": 2,
                    "service": {"distribution": "deterministic", "value": f"{service_s!r} s"},
                    "serialise": f"{DISK} B/s",
                    "deserialise": f"{DISK} B/s",
                    "state": {"model": "fixed", "bytes": f"{STATE} B"},
                },
                "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
            },
            "hosts": {
                "edge": {"count": UPSTREAM, "network": f"{LINK} B/s"},
                "worker": {"count": 3, "network": f"{LINK} B/s"},
                "end": {},
            },
            "placement": {
                "tasks": {f"in-{k}": f"edge-{k}" for k in range(UPSTREAM)}
                | {"sum-0": "worker-0", "sum-1": "worker-1", "out-0": "end-0"}
            },
            "network": {"latency": f"{LATENCY!r} s"},
            "fault_tolerance": {"method": "checkpoint", "interval": f"{CHECKPOINT_S} s", "staggered": False} | store,
            "events": {
                "move": {
                    "kind": "migrate",
                    "at": f"{CHECKPOINT_S + age_s} s",
                    "operator": "sum",
                    "key_group": 0,
                    "host": "worker-2",
                    "protocol": protocol,
                }
            },
        }
    )
    records = simulate(made, RunInputs(holders={("sum", 0): "worker-2", ("sum", 1): "worker-2"}))
    table = {name: column.tolist() for name, column in records.tables["migrations"].items()}
    assert table["protocol"] == [protocol]
    assert not records.tables["ledger"]["lost"].any()
    stored = records.tables["checkpoints"]
    own = (stored["operator"] == 1) & (stored["key_group"] == 0)
    found = {name: column[0] for name, column in table.items()}
    return {
        "replayed": found["replayed"],
        "checkpoint_bytes": int(stored["bytes"][own][0]),
        "pause_s": (found["resumed_ns"] - found["paused_ns"]) / 1e9,
        "worst_s": found["worst_ns"] / 1e9,
        "completion_s": (found["completed_ns"] - found["requested_ns"]) / 1e9,
    }


def replay_s(tuples: int) -> float:
    """CPA's latency: the largest part over its link, then all of it, one after the other."""
    return LATENCY + tuples * (TUPLE / (UPSTREAM * LINK) + SERVICE)


AGES = (2.0, 8.0, 16.0)


@pytest.fixture(scope="module")
def moves() -> dict[tuple[str, float], dict[str, Any]]:
    """Every protocol at every age of the checkpoint."""
    return {(name, age): moved(name, age) for name in ("cpa", "cpal", "direct") for age in AGES}


def test_the_pause_of_cpa_grows_with_what_is_replayed(moves: dict[tuple[str, float], dict[str, Any]]) -> None:
    for age in AGES:
        one = moves["cpa", age]
        assert one["replayed"] == pytest.approx(RATE * age, rel=0.25)
        assert one["pause_s"] == pytest.approx(replay_s(one["replayed"]), rel=0.005)
        assert one["completion_s"] == pytest.approx(LATENCY + one["pause_s"], rel=0.01)


def test_the_pause_of_cpal_does_not(moves: dict[tuple[str, float], dict[str, Any]]) -> None:
    for age in AGES:
        one = moves["cpal", age]
        assert one["pause_s"] < 2 * LATENCY
        # the replay, what was sent twice meanwhile, and the switch
        behind_s = replay_s(one["replayed"]) * RATE * SERVICE / (1 - RATE * SERVICE)
        expected = replay_s(one["replayed"]) + behind_s + 3 * LATENCY
        assert one["completion_s"] == pytest.approx(expected, rel=0.1, abs=2 * LATENCY)


def test_direct_takes_what_the_state_takes(moves: dict[tuple[str, float], dict[str, Any]]) -> None:
    # A checkpoint has the outputs, too, that the sink has not acknowledged since it last did.
    for age in AGES:
        one = moves["direct", age]
        size = STATE + moves["cpa", age]["replayed"] * TUPLE
        expected = size / DISK + LATENCY + size / LINK + size / DISK
        closing = LATENCY + replay_s(one["replayed"])
        assert one["replayed"] == pytest.approx(RATE * expected, rel=0.25)
        assert one["completion_s"] == pytest.approx(expected + closing, rel=0.01)


def test_a_checkpoint_helps_until_its_replay_takes_longer_than_the_state(
    moves: dict[tuple[str, float], dict[str, Any]],
) -> None:
    whole = STATE * (2 / DISK + 1 / LINK)
    even = whole / (TUPLE / (UPSTREAM * LINK) + SERVICE)
    for age in AGES:
        one, other = moves["cpa", age], moves["direct", age]
        if one["replayed"] < even / 1.1:
            assert one["completion_s"] < other["completion_s"]
        if one["replayed"] > even * 1.1:
            assert one["completion_s"] > other["completion_s"]


def slope(name: str, load: float) -> float:
    """By how much the worst time of a tuple grows with each tuple that is replayed, in services."""
    early, late = (moved(name, age, load / RATE) for age in (AGES[0], AGES[-1]))
    assert late["worst_s"] > 0.9 * late["pause_s"]
    return float((late["worst_s"] - early["worst_s"]) / (late["replayed"] - early["replayed"]) / (load / RATE))


@pytest.mark.parametrize("load", [0.05, 0.5])
def test_tuples_wait_for_what_has_piled_up_behind_the_replay(load: float) -> None:
    # One queue: while R services are replayed R x load have come in behind them, and the first tuple after the switch
    # waits for these; each round of `cpal_caught_up` leaves the same share of what the last one left.
    assert slope("cpa", load) == pytest.approx(1, rel=0.1)
    assert slope("cpal", load) == pytest.approx(load, rel=0.15)
    assert slope("cpal_caught_up", load) == pytest.approx(load ** (1 + CaughtUpCPAL.rounds), rel=0.2, abs=0.001)


def test_with_a_remote_store_the_target_fetches_the_checkpoint_first(
    moves: dict[tuple[str, float], dict[str, Any]],
) -> None:
    """It comes over the link of the store and is read; what arrives in the meantime is held behind what is replayed."""
    store = 20e6
    for age in AGES:
        one = moved("cpa", age, store="remote", remote=f"{store} B/s")
        fetch, read = one["checkpoint_bytes"] / store + LATENCY, one["checkpoint_bytes"] / DISK
        assert one["replayed"] == pytest.approx(moves["cpa", age]["replayed"], rel=0.05)
        pause = replay_s(one["replayed"]) + fetch + read + RATE * fetch * SERVICE
        assert one["pause_s"] == pytest.approx(pause, rel=0.01)
        assert one["completion_s"] == pytest.approx(LATENCY + one["pause_s"], rel=0.01)


def test_with_a_remote_store_the_pause_of_cpal_has_no_fetch_in_it() -> None:
    one = moved("cpal", AGES[0], store="remote", remote="20 MB/s")
    assert one["pause_s"] < 2 * LATENCY
    fetch = one["checkpoint_bytes"] * (1 / 20e6 + 1 / DISK) + LATENCY
    assert one["completion_s"] > fetch + replay_s(one["replayed"])
