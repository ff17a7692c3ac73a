"""Trimming by acks: what is kept when, who sends acks, and what survives which failures. Instants worked out by hand.

All jobs are chains of single tasks, each on a host of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_jobs import scenario, simulate
from test_planes import differences

from models.records.decisions import decisions
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from models.scenario.rules.advice import warnings
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario
from models.steady_state.load import expected_load
from scenarios.planning.checkpoints import checkpoint_hosts_of
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

MS, S = 10**6, 10**9
SERVICE = {"distribution": "deterministic", "value": "1 ms"}
STATE = {"model": "per-tuple", "bytes": "1 B"}
TRIMMING = {"slice": "1 s", "every": "1 s"}


def chain(states: str, duration: str = "8 s", **tolerance: Any) -> dict[str, Any]:
    """Keys of src -> a -> b -> ... -> out: a letter for each inner operator, in upper case with a state."""
    raw: dict[str, Any] = {
        "duration": duration,
        "workload": {"src": {"rate": "10 /s", "arrivals": "deterministic"}},
        "operators": {"src": {"kind": "source"}},
        "hosts": {"h": {"count": len(states) + 3}},
        "network": {"latency": "0 s"},
        "placement": {"tasks": {"src-0": "h-0"}},
        "detector": {"heartbeat": "200 ms", "timeout": "300 ms"},
        "fault_tolerance": {
            "method": "elastic-upstream-backup",
            "interval": "2 s",
            "store": "remote",
            "trimming": TRIMMING,
            **tolerance,
        },
    }
    above = "src"
    for place, letter in enumerate(states):
        name = letter.lower()
        raw["operators"][name] = {"kind": "map", "inputs": {above: "shuffle"}, "service": SERVICE}
        if letter.isupper():
            raw["operators"][name]["state"] = STATE
        raw["placement"]["tasks"][f"{name}-0"] = f"h-{place + 1}"
        above = name
    raw["operators"]["out"] = {"kind": "sink", "inputs": {above: "shuffle"}}
    raw["placement"]["tasks"]["out-0"] = f"h-{len(states) + 1}"
    return raw


def dies(at: str, *hosts: int) -> dict[str, Any]:
    """Events: these hosts die at an instant."""
    return {f"dies{host}": {"at": at, "kind": "host-failure", "host": f"h-{host}"} for host in hosts}


def arrivals(records: RunRecords) -> list[int]:
    """When the source emitted [ns]."""
    visits = records.tables["visits"]
    return [int(at) for at in visits["arrival_ns"][visits["operator"] == 0]]


def kept(records: RunRecords, task: int) -> dict[int, int]:
    """Outputs that a task keeps, by second of the sample."""
    rows = records.tables["samples"]
    own = rows["task"] == task
    return dict(zip((rows["at_ns"][own] // S).tolist(), rows["buffered"][own].tolist(), strict=True))


def lost(records: RunRecords) -> list[int]:
    """Tuples that are lost, by operator from the first behind the source."""
    found: list[int] = records.tables["ledger"]["lost"].tolist()
    return found


def test_upstream_trims_what_the_receivers_of_the_receiver_have_processed() -> None:
    found = simulate(scenario(chain("aB")))
    emitted = arrivals(found)
    # A slice that ends at k s is confirmed by b in the round at k s, and by a one step later.
    for second, count in kept(found, 0).items():
        confirmed = sum(at + 1 * MS < (second - 1) * S for at in emitted)
        assert count == sum(at < second * S for at in emitted) - confirmed, second


def test_a_task_with_a_state_waits_for_the_checkpoint() -> None:
    found = simulate(scenario(chain("aB")))
    emitted = arrivals(found)
    for second, count in kept(found, 1).items():
        # The round before had the checkpoint of the last even second; b has a tuple 2 ms after its arrival.
        saved = (second - 1) // 2 * 2
        confirmed = sum(at + 2 * MS < saved * S for at in emitted)
        assert count == sum(at + 1 * MS < second * S for at in emitted) - confirmed, second


def test_each_pair_of_tasks_has_one_ack_in_a_round() -> None:
    rows = simulate(scenario(chain("aBc"))).tables["messages"]
    acks = rows["kind"] == "ack"
    assert rows["second_ns"][acks].tolist() == [second * S for second in range(1, 8)]
    assert rows["count"][acks].tolist() == [4] * 7
    assert rows["bytes"][acks].tolist() == [4 * 32] * 7


def test_only_tasks_with_a_state_take_checkpoints() -> None:
    rows = simulate(scenario(chain("aBc"))).tables["checkpoints"]
    assert rows["operator"].tolist() == [2, 2, 2]
    assert rows["taken_ns"].tolist() == [2 * S, 4 * S, 6 * S]


@pytest.mark.parametrize(("levels", "until_ms"), [(1, 5300), (2, 5000), (3, 5000)])
def test_acks_of_all_levels_go_up_the_dataflow_in_one_round(levels: int, until_ms: int) -> None:
    found = simulate(scenario(chain("abc", trimming=TRIMMING | {"levels": levels})))
    emitted = arrivals(found)
    # In the round at 5 s a acknowledges after three steps: with one level what it has processed, else the slice.
    confirmed = sum(at + 1 * MS < until_ms * MS for at in emitted)
    assert kept(found, 0)[6] == sum(at < 6 * S for at in emitted) - confirmed


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_acks_that_come_too_late_for_a_step_count_in_the_next_round(levels: int) -> None:
    raw = chain("abcd", trimming=TRIMMING | {"levels": levels, "step": "1 ms"}) | {"network": {"latency": "5 ms"}}
    found = simulate(scenario(raw))
    emitted = arrivals(found)
    # Each level takes one round more: a hears in the round at k s what b said in the one before, and so on.
    confirmed = sum(at + 1 * MS + 5 * MS < (7 - levels) * S for at in emitted)
    assert kept(found, 0)[7] == sum(at < 7 * S for at in emitted) - confirmed


def test_a_task_without_a_state_begins_again_with_what_is_not_trimmed() -> None:
    found = simulate(scenario(chain("aB") | {"events": dies("3050 ms", 1)}))
    (detected,) = found.tables["recoveries"]["detected_ns"].tolist()
    # The round at 3 s has confirmed the slice that ended at 2 s.
    again = sum(at + 1 * MS >= 2 * S and at < detected for at in arrivals(found))
    assert found.tables["recoveries"]["replayed"].tolist() == [again]
    assert found.tables["recoveries"]["bytes"].tolist() == [100 * again]
    assert lost(found) == [0, 0, 0]


def slow_link(raw: dict[str, Any], host: int) -> dict[str, Any]:
    """The same keys; outputs wait on the link of one host, which they share evenly with all else."""
    count = raw["hosts"]["h"]["count"]
    raw["hosts"] = {"h": {"count": count}, "slow": {"count": 1, "network": "400 B/s"}}
    for task, place in raw["placement"]["tasks"].items():
        if place == f"h-{host}":
            raw["placement"]["tasks"][task] = "slow-0"
    raw["network"]["sharing"] = "fair"
    raw["events"] = {
        name: event | ({"host": "slow-0"} if event["host"] == f"h-{host}" else {})
        for name, event in raw["events"].items()
    }
    return raw


@pytest.mark.parametrize(("reading", "loses"), [("safe", False), ("literal", True)])
def test_outputs_that_a_literal_checkpoint_leaves_out_are_lost(reading: str, loses: bool) -> None:
    # Most outputs of b wait on its link when it dies, and the checkpoint of the state has gone by them.
    raw = chain("aB", "12 s", trimming=TRIMMING | {"reading": reading})
    found = simulate(scenario(slow_link(raw | {"events": dies("5900 ms", 2)}, 2)))
    stored = found.tables["checkpoints"]["stored_ns"]
    assert (stored > 0).any()
    assert (lost(found)[-1] > 0) == loses
    assert lost(found)[:-1] == [0, 0]


@pytest.mark.parametrize(("levels", "loses"), [(2, True), (3, False)])
def test_so_many_adjacent_failures_less_one_are_survived(levels: int, loses: bool) -> None:
    # Outputs of b wait on its link; a and b die together. With two levels the source has trimmed what b had processed.
    raw = chain("abC", "12 s", trimming=TRIMMING | {"levels": levels}) | {"events": dies("5900 ms", 1, 2)}
    found = simulate(scenario(slow_link(raw, 2)))
    assert (lost(found)[-1] > 0) == loses


def test_one_failure_after_the_other_is_survived() -> None:
    events = dies("3050 ms", 1) | dies("9050 ms", 2) | dies("15050 ms", 3)
    found = simulate(scenario(chain("abC", "20 s") | {"events": events}))
    assert lost(found) == [0, 0, 0, 0]
    assert found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0, 0]
    assert found.tables["recoveries"]["host"].size == 3


def test_a_receiver_that_was_restored_has_to_acknowledge_anew() -> None:
    # c dies, and a right behind it: what a kept of the time since the last checkpoint of c must not be trimmed by acks
    # that c gave before.
    found = simulate(scenario(chain("aBC", "20 s") | {"events": dies("7050 ms", 3) | dies("8050 ms", 2)}))
    assert lost(found) == [0, 0, 0, 0]


def test_snapshots_may_be_written_beside_their_task() -> None:
    raw = chain("A", interval="2 s", snapshots={"mode": "asynchronous", "pause": "5 ms", "copy": "1 kB/s"})
    raw["operators"]["a"] |= {"serialise": "1 kB/s"}
    found = simulate(scenario(raw))
    first = found.tables["checkpoints"]["stored_ns"][0]
    size, full = found.tables["checkpoints"]["bytes"][0], found.tables["checkpoints"]["full"][0]
    state = sum(at + 1 * MS < 2 * S for at in arrivals(found))  # bytes
    assert full
    # The task copies its state in the pause; then all is written beside it, and comes to the store at 100 MB/s.
    assert first == 2 * S + 5 * MS + state * MS + size * MS + 10 * size
    assert busy_at(found, 3)[1] == sum(at + 1 * MS < 3 * S for at in arrivals(found)) * MS + 5 * MS + state * MS


def busy_at(records: RunRecords, second: int) -> dict[int, int]:
    """Work of each task up to a second [ns]."""
    rows = records.tables["samples"]
    own = rows["at_ns"] == second * S
    return dict(zip(rows["task"][own].tolist(), rows["busy_ns"][own].tolist(), strict=True))


def served(records: RunRecords, operator: int) -> list[tuple[int, int]]:
    """Begin and end of each service of an operator that has ended."""
    rows = records.tables["visits"]
    own = (rows["operator"] == operator) & (rows["end_ns"] >= 0)
    return list(zip(rows["start_ns"][own].tolist(), rows["end_ns"][own].tolist(), strict=True))


def test_a_synchronous_snapshot_keeps_the_task_from_its_tuples() -> None:
    raw = chain("A", "4 s", snapshots={"pause": "50 ms"})
    plain = chain("A", "4 s")
    late, early = (served(simulate(scenario(one)), 1) for one in (raw, plain))
    delays = [one[0] - other[0] for one, other in zip(late, early, strict=True)]
    assert {at for at in delays if at} == {delay for delay in delays if delay > 0}
    assert max(delays) <= 50 * MS
    assert sum(delay > 0 for delay in delays) == 1


def test_each_end_of_an_ack_may_take_its_task_time() -> None:
    found = simulate(scenario(chain("ab", "3500 ms", trimming=TRIMMING | {"work": "7 ms"})))
    busy = busy_at(found, 3)
    # Up to 3 s, each in the rounds at 1 and 2 s: a task in the middle sends one ack and gets one. Source and sink have
    # no service.
    emitted = arrivals(found)
    assert busy[1] == sum(at + 1 * MS < 3 * S for at in emitted) * MS + 4 * 7 * MS
    assert busy[0] == busy[3] == 0


@pytest.mark.parametrize("store", ["upstream", "nodes"])
def test_checkpoints_upstream_are_on_the_host_of_the_task_that_sends(store: str) -> None:
    made = scenario(chain("aB", store=store))
    planned = checkpoint_hosts_of(made, Path(), {})
    if store == "upstream":
        assert planned == {("a", 0): "h-0", ("b", 0): "h-1"}
    else:
        assert ("b", 0) not in planned  # not keyed: control chooses
    found = simulate(made, RunInputs(checkpoint_hosts=planned))
    hosts = found.tables["checkpoints"]["checkpoint_host"].tolist()
    assert (set(hosts) == {1}) == (store == "upstream")


def backed_up(states: str, **keys: Any) -> dict[str, Any]:
    """The same keys; upstream keeps the outputs of the last two seconds, and nothing else survives."""
    raw = chain(states) | keys
    raw["fault_tolerance"] = {"method": "upstream-backup", "history": {"length": "2 s", "every": "500 ms"}}
    return raw


def test_upstream_keeps_the_outputs_of_the_history() -> None:
    found = simulate(scenario(backed_up("aB")))
    emitted = arrivals(found)
    for second, count in kept(found, 0).items():
        # The sample comes before the look at this instant, and behind the one half a second earlier.
        assert count == sum(second * S - 2500 * MS <= at < second * S for at in emitted), second
    assert not found.tables["checkpoints"]["operator"].size
    assert "ack" not in found.tables["messages"]["kind"].tolist()


def test_a_task_is_made_anew_from_the_history() -> None:
    found = simulate(scenario(backed_up("aB", events=dies("5050 ms", 2))))
    (detected,) = found.tables["recoveries"]["detected_ns"].tolist()
    assert detected == 5_300 * MS
    # The round at 5 s has trimmed what was created before 3 s.
    again = sum(at >= 3 * S and at + 1 * MS < detected for at in arrivals(found))
    assert found.tables["recoveries"]["replayed"].tolist() == [again]
    # All that is older is gone from the state, and the sink has it.
    assert lost(found) == [0, sum(at < 3 * S for at in arrivals(found)), 0]
    assert found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0]


def from_source(states: str, **keys: Any) -> dict[str, Any]:
    """The same keys; sources keep the tuples of the last two seconds, and nothing else survives."""
    raw = backed_up(states, **keys)
    raw["fault_tolerance"]["method"] = "source-backup"
    return raw


def test_sources_keep_the_history_and_others_what_is_on_its_way() -> None:
    found = simulate(scenario(from_source("aB")))
    assert kept(found, 0) == kept(simulate(scenario(backed_up("aB"))), 0)
    # Between a look and the sample half a second later.
    emitted = arrivals(found)
    for second, count in kept(found, 1).items():
        assert count == sum(second * S - 500 * MS <= at + 1 * MS < second * S for at in emitted), second


def test_a_source_replays_through_tasks_that_start_anew() -> None:
    found = simulate(scenario(from_source("aBc", events=dies("5050 ms", 2))))
    recoveries = found.tables["recoveries"]
    # The task that died, and the one above it; the one below lives, and drops what it has.
    assert recoveries["operator"].tolist() == [1, 2]
    assert recoveries["target"].tolist()[0] == 1  # where it was
    (detected,) = set(recoveries["detected_ns"].tolist())
    again = sum(at >= 3 * S and at < detected for at in arrivals(found))
    assert recoveries["replayed"].tolist()[0] == again
    ledger = found.tables["ledger"]
    assert ledger["duplicated"].tolist() == [0, 0, 0, 0]
    # What is older than the history is gone from both, and the task below has it.
    old = sum(at < 3 * S for at in arrivals(found))
    assert lost(found) == [old, old, 0, 0]


def test_with_a_history_of_the_whole_run_a_source_loses_nothing() -> None:
    for hosts in ((1,), (2,), (3,), (4,), (0,), (1, 2), (2, 3)):
        raw = from_source("aBc", events=dies("5050 ms", *hosts))
        raw["fault_tolerance"]["history"]["length"] = "8 s"
        found = simulate(scenario(raw))
        assert lost(found) == [0, 0, 0, 0], hosts
        assert found.tables["ledger"]["duplicated"].tolist() == [0, 0, 0, 0]
        assert found.tables["deliveries"]["created_ns"].size >= len(arrivals(found)) - 1


def test_both_planes_agree_on_these_jobs() -> None:
    history = [make("aBc") | {"events": dies("3050 ms", 1, 2)} for make in (backed_up, from_source)]
    for raw in (chain("aB"), chain("aBc") | {"events": dies("3050 ms", 1, 2)}, chain("abcD", store="nodes"), *history):
        made = scenario(raw)
        assert differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)) == []


def refused(raw: dict[str, Any]) -> str:
    """The first fault of a scenario, in one line."""
    try:
        made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    except ValueError as error:
        return str(error)
    return str([*faults(made), *not_simulated(made)][0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"levels": 0}, "greater than or equal to 1"),
        ({"levels": 4}, "above the depth of the job: its longest path has 3 hops"),
        ({"every": "0 s"}, "must be longer than zero"),
        ({"every": "8 s"}, "is not shorter than the run of 8 s"),
        ({"every": "1 us"}, "must be at least 1 ms"),
        ({"slice": "1 ns"}, "must be at least 1 ms"),
        ({"step": "2 s"}, "must be no longer than the time between two rounds, 1 s"),
        ({"work": "1 h"}, "must be no longer than the time between two rounds, 1 s"),
        ({"work": "600 ms"}, "must be no longer than 1 s for all 2 acks of a task of a together"),
        ({"slice": "8.5 s"}, "is not shorter than the run of 8 s"),
        ({"reading": "loose"}, "safe"),
        ({"acks": 3}, "acks"),
    ],
)
def test_what_cannot_be_trimmed_is_refused(change: dict[str, Any], said: str) -> None:
    assert said in refused(chain("aB", trimming=TRIMMING | change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "checkpoint"}, "needs the method elastic-upstream-backup"),
        ({"guarantee": "at-least-once"}, "not simulated yet"),
        ({"maintenance": {"every": "2 s"}}, "maintenance"),
        ({"history": {}}, "needs the method upstream-backup or source-backup"),
        ({"snapshots": {"pause": "3 s"}}, "must be no longer than the time between two checkpoints, 2 s"),
        ({"method": "upstream-backup", "trimming": None, "history": {"every": "1 us"}}, "must be at least 1 ms"),
        ({"method": "upstream-backup", "trimming": None, "history": {"every": "9 s"}}, "is not shorter than the run"),
        ({"method": "source-backup", "trimming": None, "history": {"every": "1 us"}}, "must be at least 1 ms"),
        ({"method": "source-backup", "trimming": None, "acker": {}}, "needs the method acker"),
        ({"method": "source-backup", "trimming": None, "guarantee": "at-least-once"}, "not simulated yet"),
    ],
)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], said: str) -> None:
    assert said in refused(chain("aB", **change))


def keyed(**tolerance: Any) -> dict[str, Any]:
    """The chain with six key groups of an operator, at two tasks."""
    raw = chain("aB", **tolerance)
    raw["workload"]["src"]["keys"] = {"distribution": "uniform", "count": 40}
    raw["operators"]["b"] |= {"inputs": {"a": "key"}, "key_groups": 6, "parallelism": 2}
    raw["placement"]["tasks"] |= {"b-0": "h-2", "b-1": "h-4"}
    return raw


def test_pauses_of_all_key_groups_of_a_task_count() -> None:
    assert "for all 3 key groups of a task of b together" in refused(keyed(snapshots={"pause": "700 ms"}))
    load = expected_load(scenario(keyed(snapshots={"pause": "500 ms"})))
    assert load.operators["b"].chores.tolist() == [3 * 0.5 / 2] * 2
    assert load.operators["b"].utilisation.tolist() == pytest.approx([0.75 + 5 * 0.001] * 2, rel=1e-3)
    acks = expected_load(scenario(chain("aB", trimming=TRIMMING | {"work": "50 ms"})))
    assert acks.operators["a"].chores.tolist() == [2 * 0.05]


def test_a_task_that_only_pauses_is_warned_of() -> None:
    copied = {"model": "fixed", "bytes": "1 GB"}
    raw = keyed(snapshots={"pause": "100 ms", "copy": "1 GB/s"})
    raw["operators"]["b"]["state"] = copied
    said = [str(one) for one in warnings(scenario(raw))]
    assert any("busiest task is 165.6" in one and "of it by pauses for snapshots" in one for one in said)


@pytest.mark.parametrize(("mode", "late"), [("synchronous", True), ("asynchronous", False)])
def test_what_is_written_beside_the_task_leaves_it_to_tuples(mode: str, late: bool) -> None:
    raw = keyed(snapshots={"mode": mode})
    raw["operators"]["b"] |= {"serialise": "1.5 MB/s", "state": {"model": "fixed", "bytes": "1 MB"}}
    said = [str(one) for one in warnings(scenario(raw)) if "writes" in str(one)]
    assert bool(said) is late
    raw["operators"]["b"]["serialise"] = "400 kB/s"  # a group takes 2.5 s, at an interval of 2 s
    assert any("checkpoints cannot keep up: b-1 writes" in str(one) for one in warnings(scenario(raw)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "upstream-backup", "snapshots": {"pause": "1 s"}}, "snapshots: has no effect"),
        ({"method": "upstream-backup", "store": "upstream"}, "store: has no effect"),
        ({"store": "upstream", "allocation": "exact"}, "allocation: has no effect: checkpoints are kept on the host"),
        ({"allocation": "exact"}, "allocation: has no effect: checkpoints are kept in a remote store"),
        ({"method": "upstream-backup", "interval": "3 s"}, "interval: has no effect: the method upstream-backup takes"),
        ({"method": "source-backup", "kind": "full"}, "kind: has no effect: the method source-backup takes"),
        ({"method": "active-replication", "copies": 2}, "copies: has no effect: the method active-replication takes"),
        ({"method": "upstream-backup", "staggered": True}, "staggered: has no effect"),
        ({"method": "upstream-backup", "remote": "1 MB/s"}, "remote: has no effect"),
        ({"adjustment": {"checkpoint": "new"}}, "adjustment: has no effect: no operator is adjusted in the run"),
        (
            {"method": "upstream-backup", "history": {"length": "1 h"}},
            "history.length: is not shorter than the run of 8 s: nothing is trimmed, and memory grows with the run",
        ),
    ],
)
def test_keys_without_effect_are_warned_of(change: dict[str, Any], said: str) -> None:
    raw = chain("aB", **change)
    if change.get("method"):
        del raw["fault_tolerance"]["trimming"]
    assert any(said in str(one) for one in warnings(scenario(raw)))


@pytest.mark.parametrize("interval", ["8 s", "1 h"])
def test_an_interval_that_is_no_shorter_than_the_run_is_refused(interval: str) -> None:
    raw = chain("aB")
    with pytest.raises(AssertionError, match=r"interval.*is not shorter than the run of 8 s.*no checkpoint would be"):
        scenario(raw | {"fault_tolerance": raw["fault_tolerance"] | {"interval": interval}})
    by_checkpoints = {"method": "checkpoint", "store": "remote", "interval": interval}
    said = [str(one) for one in warnings(scenario(raw | {"fault_tolerance": by_checkpoints}))]
    assert any("fault_tolerance.interval: is not shorter than the run" in one for one in said)


def test_a_history_as_long_as_the_run_loses_nothing() -> None:
    raw = chain("aB", "20 s", method="upstream-backup") | {"events": dies("5 s", 2)}
    del raw["fault_tolerance"]["trimming"]
    said = "older than the history"
    assert not any(said in str(one) for one in warnings(scenario(raw)))
    assert any(said in str(one) for one in warnings(scenario(raw | {"duration": "40 s"})))
    assert lost(simulate(scenario(raw))) == [0, 0, 0]


# -- where what is lost goes on


def together(hosts: int, **places: str) -> dict[str, Any]:
    """src -> a -> b -> out, with the host of b dying."""
    raw = chain("ab") | {
        "hosts": {"h": {"count": hosts}},
        "placement": {"tasks": {f"{k}-0": v for k, v in places.items()}},
    }
    return raw | {"events": {"dies": {"at": "3 s", "kind": "host-failure", "host": places["b"]}}}


def resumed(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """(host, reason) of each recovery of b."""
    rows = simulate(scenario(raw)).tables["decisions"]
    return [(one.target, one.reason) for _, one in decisions(rows) if one.action == "restore" and one.subject == "b[0]"]


def test_a_lost_task_goes_on_apart_from_its_neighbours() -> None:
    # The least used host is that of a; with both on it, one failure would take more than two levels survive.
    ((host, why),) = resumed(together(3, src="h-0", a="h-1", b="h-2", out="h-0"))
    assert (host, why.endswith("that are not avoided")) == ("h-0", True)
    ((host, why),) = resumed(together(2, src="h-0", a="h-0", b="h-1", out="h-0"))
    assert (host, why.endswith("although its next failure would take tasks of a and b together")) == ("h-0", True)
    raw = together(3, src="h-0", a="h-1", b="h-2", out="h-0")
    raw["fault_tolerance"]["trimming"] = TRIMMING | {"levels": 3}
    assert [host for host, _ in resumed(raw)] == ["h-1"]


def test_a_window_that_is_shorter_than_a_slice_is_refused() -> None:
    raw = chain("aB")
    raw["workload"]["src"]["keys"] = {"distribution": "uniform", "count": 4}
    raw["operators"]["b"] = {"kind": "aggregate", "inputs": {"a": "key"}, "service": SERVICE}
    raw["operators"]["b"]["window"] = {"length": "500 ms"}
    assert "is shorter than a slice of 1 s" in refused(raw)
