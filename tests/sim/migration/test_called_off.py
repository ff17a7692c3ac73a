"""What a move leaves behind that was refused or called off; found by the schedule laboratory (`tests/lab`)."""

from __future__ import annotations

from typing import Any

from small_jobs import scenario, simulate

from models.records.tables import NEVER
from models.scenario.scenario import Scenario

MS = 1_000_000


def job(**events: dict[str, Any]) -> Scenario:
    """One key group that is saved every 300 ms over links of 20 ms, and read in more than a time-out."""
    return scenario(
        {
            "format": 1,
            "duration": "4 s",
            "workload": {"in": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 5}}},
            "operators": {
                "in": {"kind": "source"},
                "sum": {
                    "kind": "aggregate",
                    "inputs": {"in": "key"},
                    "key_groups": 1,
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                    "state": {"model": "per-key", "bytes": "1 kB"},
                    "deserialise": "20 kB/s",
                },
                "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
            },
            "hosts": {name: {"cpu": "dedicated"} for name in "abcde"},
            "placement": {"operators": {"in": "a", "sum": "b", "out": "c"}},
            "network": {"latency": "20 ms"},
            "fault_tolerance": {"method": "checkpoint", "interval": "300 ms"},
            "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
            "events": events,
        }
    )


def move(at: str, host: str) -> dict[str, Any]:
    """The group is to be there, by `direct`."""
    return {"kind": "migrate", "at": at, "operator": "sum", "key_group": 0, "host": host, "protocol": "direct"}


def test_a_request_behind_one_that_is_refused_begins() -> None:
    made = job(one=move("1 s", "d-0"), two=move("1.001 s", "d-0"), three=move("1.002 s", "e-0"))
    tables = simulate(made).tables
    assert tables["decisions"]["reason"].tolist().count("it is there already") == 1
    assert tables["migrations"]["target"].tolist() == [3, 4]
    assert (tables["migrations"]["completed_ns"] > 0).all()


def test_a_move_that_a_crash_ends_has_the_instant_at_which_that_was_known() -> None:
    dies = {"kind": "host-failure", "at": "1.01 s", "host": "d-0"}  # the target
    moves = simulate(job(one=move("1 s", "d-0"), dies=dies, two=move("2 s", "e-0"))).tables["migrations"]
    cancelled_ns, completed_ns = moves["cancelled_ns"].tolist(), moves["completed_ns"].tolist()
    assert 1_010 * MS < cancelled_ns[0] <= 1_160 * MS  # heartbeats each 50 ms, and 100 ms without one
    assert completed_ns[0] == NEVER == cancelled_ns[1] < completed_ns[1]


def test_a_group_whose_owner_was_dead_when_the_move_froze_it_takes_checkpoints_again() -> None:
    dies = {"kind": "host-failure", "at": "1.01 s", "host": "b-0"}  # the checkpoint is under way to the target
    tables = simulate(job(one=move("1 s", "d-0"), dies=dies)).tables
    stored = tables["checkpoints"]["stored_ns"][tables["checkpoints"]["operator"] == 1]
    assert stored[stored < 1_030 * MS].max() > 1_000 * MS  # it was stored when its owner was dead
    assert (stored > 3_500 * MS).any()
