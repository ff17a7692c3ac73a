"""Rules of control that no guarantee depends on: who waits for whom, what is asked, where things go. On both planes.

Oracles: instants, hosts and counts worked out by hand. `test_broken_control.py` breaks each rule.
"""

from __future__ import annotations

from typing import Any

import pytest
from decided import said as decided
from small_jobs import rows_of, scenario, simulate
from test_cluster_view import DETECTED, MS, column, dies
from test_cluster_view import job as two_groups

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs

CHECKPOINT_HOSTS = {("sum", 0): "h-3", ("sum", 1): "h-3"}
CHECKPOINT_HOSTS_OF_BOTH = {("one", 0): "h-3", ("two", 0): "h-4"}
DETECTED_SOON = {"detector": {"heartbeat": "100 ms", "timeout": "1 s"}}


def job(events: dict[str, Any], hosts: int = 4, **tolerance: Any) -> dict[str, Any]:
    """The job of `test_cluster_view` on so many hosts: groups on h-1 and h-2, source and sink on h-0."""
    raw = two_groups(events, **tolerance)
    raw["hosts"]["h"]["count"] = hosts
    return raw


def with_two_sources(events: dict[str, Any]) -> dict[str, Any]:
    """The same on six hosts with a second source on h-4; h-5 is empty."""
    raw = job(events, hosts=6)
    raw["operators"]["in"]["parallelism"] = 2
    raw["placement"]["tasks"]["in-1"] = "h-4"
    return raw


def one_behind_the_other(events: dict[str, Any]) -> dict[str, Any]:
    """A group of `one` on h-1 that sends to a group of `two` on h-2; h-3 and h-4 hold their checkpoints."""
    raw = job(events, hosts=5)
    group = raw["operators"]["sum"] | {"key_groups": 1, "parallelism": 1}
    raw["operators"] = {
        "in": {"kind": "source"},
        "one": group | {"output": {"keys": {"distribution": "uniform", "count": 20}}},
        "two": group | {"inputs": {"one": "key"}},
        "out": {"kind": "sink", "inputs": {"two": "shuffle"}},
    }
    raw["placement"]["tasks"] = {"in-0": "h-0", "one-0": "h-1", "two-0": "h-2", "out-0": "h-0"}
    return raw


def moves(at: int, host: int, protocol: str = "cpa", operator: str = "sum") -> dict[str, Any]:
    to = {"operator": operator, "key_group": 0, "host": f"h-{host}", "protocol": protocol}
    return {"kind": "migrate", "at": f"{at} ms"} | to


def rows(raw: dict[str, Any], checkpoint_hosts: dict[tuple[str, int], str] = CHECKPOINT_HOSTS) -> RunRecords:
    return simulate(scenario(raw), RunInputs(checkpoint_hosts=checkpoint_hosts))


def refused(records: RunRecords) -> list[tuple[Any, ...]]:
    """(instant, what) of the moves that were refused or called off."""
    return [(at / MS, what) for at, what, _ in decided(records) if "does not move" in what]


def checkpoint_hosts_of_the_first(records: RunRecords) -> list[tuple[float, int]]:
    """(taken at, checkpoint host) of the checkpoints of the first key group."""
    found = column(records, "checkpoints", "taken_ns", "checkpoint_host", "key_group")
    return [(at, host) for at, host, group in found if group == 0]


# -- moves


def test_a_move_asks_tasks_upstream_whose_failure_nobody_has_detected() -> None:
    # The second source is dead from 2.05 s on. It cannot answer, so that the move is open when control learns of it.
    records = rows(with_two_sources({"dies": dies(4, 2050), "move": moves(2500, 3)}))
    assert column(records, "migrations", "requested_ns", "completed_ns") == [(2500, NEVER)]
    assert refused(records) == [(DETECTED, "sum[0] does not move to h-3")]


def test_a_move_waits_until_the_groups_upstream_are_restored() -> None:
    # The state of `one` takes a second to read from 3 s on; the move of `two` is asked for in the meantime.
    raw = one_behind_the_other({"dies": dies(1, 2050), "move": moves(3100, 4, operator="two")})
    raw["operators"]["one"]["deserialise"] = "20 kB/s"
    records = rows(raw, CHECKPOINT_HOSTS_OF_BOTH)
    ((restored,),) = column(records, "recoveries", "restored_ns")
    ((requested, paused, completed),) = column(records, "migrations", "requested_ns", "paused_ns", "completed_ns")
    assert requested == 3100
    assert 4000 <= restored < paused < completed


def test_the_checkpoint_that_the_target_reads_stays_the_newest() -> None:
    # Ten keys of 1 kB at 10 kB/s take a second, in which three periodic checkpoints are due.
    raw = job({"move": moves(2000, 0, "direct")})
    raw["operators"]["sum"]["deserialise"] = "10 kB/s"
    records = rows(raw)
    ((paused, completed),) = column(records, "migrations", "paused_ns", "completed_ns")
    sent = column(records, "checkpoints", "taken_ns", "stored_ns", "checkpoint_host")
    taken, stored, _ = next(row for row in sent if row[2] == 0)
    assert taken == 2000
    assert paused > stored + 900
    later = [at for at, _ in checkpoint_hosts_of_the_first(records) if at > taken]
    assert later
    assert min(later) > completed


@pytest.mark.parametrize("protocol", ["direct", "lazy_move"])
def test_checkpoints_go_where_they_went_before_a_move_that_is_called_off(protocol: str) -> None:
    # It is open from 2.5 s until the death of the second source is detected; meanwhile they go to its target.
    records = rows(with_two_sources({"dies": dies(4, 2050), "move": moves(2500, 5, protocol)}))
    assert column(records, "migrations", "completed_ns") == [(NEVER,)]
    taken = checkpoint_hosts_of_the_first(records)
    assert {host for at, host in taken if 2500 <= at < DETECTED} == {5}
    assert {host for at, host in taken if at > DETECTED} == {3}


def test_checkpoints_go_to_the_planned_checkpoint_host_after_the_second_move_of_a_group_as_well() -> None:
    records = rows(job({"one": moves(2000, 5, "direct"), "two": moves(3500, 2, "direct")}, hosts=6))
    assert (records.tables["migrations"]["completed_ns"] > 0).all()
    taken = checkpoint_hosts_of_the_first(records)
    assert [host for at, host in taken if at in (2000, 3500)] == [5, 2]  # what the targets start from
    assert {host for at, host in taken if at not in (2000, 3500)} == {3}


def test_a_new_instance_does_not_send_what_the_old_one_has_sent_to_a_group_that_moved_meanwhile() -> None:
    # The checkpoint of `one` is of 1.8 s, from before the move of `two`, and has what `two` had not saved by then.
    after = moves(2050, 3, "cpal", "one")
    records = rows(one_behind_the_other({"two": moves(2000, 4, "cpal", "two"), "one": after}), CHECKPOINT_HOSTS_OF_BOTH)
    assert column(records, "migrations", "operator") == [(2,), (1,)]
    assert (records.tables["migrations"]["completed_ns"] > 0).all()
    assert records.tables["ledger"]["lost"].tolist() == [0, 0, 0]
    assert column(records, "dropped", "operator") == []


# -- what control knows


def test_a_group_is_sent_to_its_checkpoint_host_until_the_death_of_that_is_detected() -> None:
    # h-4 is empty: it would be chosen if control knew that the checkpoint host, which has the sink as well, is dead.
    raw = job({"first": dies(1, 2050), "second": dies(3, 2900)}, hosts=5) | DETECTED_SOON
    raw["placement"]["tasks"]["out-0"] = "h-3"
    found = column(rows(raw), "recoveries", "host", "target", "detected_ns", "operator")
    assert next((host, target, at) for host, target, at, operator in found if operator == 1) == (1, 3, 3000)
    assert (3, 3800) in {(host, at) for host, _, at, _ in found}


def test_a_move_is_called_off_when_the_death_of_its_target_is_detected_and_not_before() -> None:
    # The target dies at 2.6 s, while it reads; at 3 s control hears of the empty host that died at 2.05 s.
    raw = job({"move": moves(2200, 4, "direct"), "other": dies(5, 2050), "target": dies(4, 2600)}, hosts=6)
    raw["operators"]["sum"]["deserialise"] = "10 kB/s"
    assert refused(rows(raw | DETECTED_SOON)) == [(3500, "sum[0] does not move to h-4")]


# -- recovery


def test_of_hosts_with_equally_few_groups_the_first_takes_a_group() -> None:
    # h-3, h-4 and h-5 are empty; with a remote store no host has the checkpoint.
    records = rows(job({"dies": dies(1, 2050)}, hosts=6, store="remote"))
    assert column(records, "recoveries", "target") == [(3,)]


def test_of_hosts_with_equally_few_checkpoints_the_first_takes_a_checkpoint() -> None:
    records = rows(job({"dies": dies(0, 7900)}), {})
    said = [what for _, what, _ in decided(records) if "checkpoints of" in what]
    assert said == ["checkpoints of sum[0] go to h-0", "checkpoints of sum[1] go to h-1"]


def unsent_checkpoint(heartbeat_ms: int, timeout_ms: int, expected: int) -> None:
    """The host of the only group dies at 2.28 s, with a checkpoint of 2 s that has not left its link of 100 kB/s.

    It would leave at 2.3 s and be written at 60 kB/s until 2.8 s. What is fetched is the one of 1 s, at once.
    """
    raw = job({"dies": dies(1, 2280)}, store="remote", interval="1 s", remote="60 kB/s")
    raw["operators"]["sum"] |= {"state": {"model": "fixed", "bytes": "20 kB"}, "key_groups": 1, "parallelism": 1}
    raw["hosts"]["h"]["network"] = "100 kB/s"
    raw["network"] |= {"sharing": "fifo"}
    raw["detector"] = {"heartbeat": f"{heartbeat_ms} ms", "timeout": f"{timeout_ms} ms"}
    del raw["placement"]["tasks"]["sum-1"]
    records = rows(raw, {})
    taken = column(records, "checkpoints", "taken_ns", "stored_ns", "bytes")
    (_, stored, size), (second, never, unsent) = [row for row in taken if row[0] < 2280]
    assert second == 2000
    assert 1000 < stored < 2000
    assert 2280 < 2000 + unsent / 100 < 2350
    assert never == NEVER
    ((detected, restored),) = column(records, "recoveries", "detected_ns", "restored_ns")
    assert detected == expected
    assert restored == pytest.approx(expected + size / 60 + 1, abs=1e-3)


def test_the_remote_store_does_not_write_what_never_left_its_host() -> None:
    unsent_checkpoint(50, 100, 2350)


def test_the_remote_store_does_not_serve_what_never_left_its_host() -> None:
    unsent_checkpoint(1000, 1000, DETECTED)


def test_a_loss_of_state_is_said_of_a_group_that_has_moved() -> None:
    # It moves with the checkpoint of 2 s, and at 2.5 s both die: the new owner, and the old one with its checkpoint.
    events = {"move": moves(2100, 3), "one": dies(1, 2500), "two": dies(3, 2500)}
    records = rows(job(events, hosts=5, interval="1 s"))
    ((completed,),) = column(records, "migrations", "completed_ns")
    assert 2100 < completed < 2500
    visits = records.tables["visits"]
    first = visits["end_ns"][visits["task"] == records.tasks.index("sum-0")]
    forgotten = int(((first >= 0) & (first < 2000 * MS)).sum())
    said = [(what, why) for _, what, why in decided(records) if what.endswith("is lost")]
    assert said == [("state of sum[0] is lost", f"no checkpoint has {forgotten} tuples that upstream let go")]
    assert records.tables["ledger"]["lost"].tolist()[0] == forgotten


# -- replicas


def replicated(events: dict[str, Any]) -> dict[str, Any]:
    """A tuple each 10 ms from h-0 to `sum` on h-1, with a replica on h-2 that is not made again."""
    one = {"operator": "sum", "host": "h-2", "renew": False}
    raw = job(events, replicas={"one": one})
    raw["workload"]["in"]["arrivals"] = "deterministic"
    raw["operators"]["sum"] |= {"key_groups": 1, "parallelism": 1, "service": fixed("1 ms")}
    del raw["placement"]["tasks"]["sum-1"]
    return raw


def fixed(value: str) -> dict[str, Any]:
    return {"distribution": "deterministic", "value": value}


def sent_to_the_dead(host: int) -> None:
    """What arrives from 2.06 s on is lost with one of the two, the last at 2.99 s; it arrives 1 ms later."""
    dropped = column(rows(replicated({"dies": dies(host, 2055)}), {}), "dropped", "at_ns", "reason")
    lost = [at for at, reason in dropped if reason != "duplicate"]
    assert (min(lost), max(lost), len(lost)) == (2061, 2991, 94)


def test_nothing_is_sent_to_the_owner_once_its_replica_has_taken_over() -> None:
    sent_to_the_dead(1)


def test_nothing_is_sent_to_a_replica_that_is_known_to_be_lost() -> None:
    sent_to_the_dead(2)


def test_who_is_restored_keeps_for_a_replica_that_is_younger_than_its_checkpoint() -> None:
    # `first` is saved at 10 s, when most of its 15 outputs wait at `sum`, which takes 50 ms for each. At 10.05 s the
    # replica of `sum` is made anew from a checkpoint without these. All that has them dies: the link of `first` and
    # the owner, then the replica. What `first` kept at 10 s has to be kept for the replica, too.
    deaths = {f"h-{host}": dies(host, at) for host, at in ((3, 9960), (1, 12000), (2, 13000), (4, 14000))}
    raw = replicated(deaths) | {"duration": "30 s", "detector": {"heartbeat": "50 ms", "timeout": "100 ms"}}
    burst = [("0 s", "0 /s"), ("9800 ms", "100 /s"), ("9950 ms", "0 /s")]
    raw["workload"]["in"]["rate"] = {"steps": [{"at": at, "rate": rate} for at, rate in burst]}
    first = raw["operators"].pop("sum")
    raw["operators"] |= {
        "first": first | {"output": {"keys": {"distribution": "uniform", "count": 20}}},
        "sum": first | {"inputs": {"first": "key"}, "service": fixed("50 ms")},
        "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
    }
    raw["hosts"]["h"]["count"] = 6
    raw["placement"]["tasks"] = {"in-0": "h-0", "first-0": "h-1", "sum-0": "h-2", "out-0": "h-0"}
    one = {"operator": "sum", "host": "h-3", "spares": ["h-4"]}
    raw["fault_tolerance"] |= {"interval": "10 s", "store": "remote", "replicas": {"one": one}}
    records = rows(raw, {})
    assert records.tables["replicas"]["end"].tolist() == ["lost", "took over"]
    assert records.tables["ledger"]["expected"].tolist() == [15, 15, 15]
    assert records.tables["ledger"]["lost"].tolist() == [0, 0, 0]


# -- bounded queues


def test_a_place_is_free_again_when_the_sender_dies_before_its_tuple_has_left() -> None:
    # `q` has one place. A tuple of 1 kB takes 100 ms on the link of 10 kB/s, so that one is on it when p's host dies.
    raw = {
        "duration": "6 s",
        "workload": {"src": {"rate": "100 /s", "arrivals": "deterministic", "tuple": "1 kB"}},
        "operators": {
            "src": {"kind": "source"},
            "p": {"kind": "map", "inputs": {"src": "shuffle"}, "service": fixed("1 ms"), "output": {"tuple": "1 kB"}},
            "q": {"kind": "map", "inputs": {"p": "shuffle"}, "service": fixed("1 ms"), "buffer": 1},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 4, "network": "10 kB/s"}},
        "placement": {"tasks": {"src-0": "h-1", "p-0": "h-1", "q-0": "h-2", "out-0": "h-2"}},
        "detector": {"heartbeat": "100 ms", "timeout": "200 ms"},
        "events": {"dies": dies(1, 2050)},
    }
    ends = [end for _, _, end in rows_of(simulate(scenario(raw)), "q")]
    assert max(end for end in ends if end < 2200 * MS) < 2050 * MS
    assert sum(end > 2500 * MS for end in ends) >= 30  # one each 100 ms again
