"""Operators that are adjusted as a whole, by OAP: in runs without a crash, and with one in each phase.

Each phase takes some hundred milliseconds: the latency of the network is that long.
"""

from __future__ import annotations

from typing import Any

import pytest

from models.records.tables import NEVER, RunRecords
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.control.assembly import Control
from sim.engine import build, simulate
from sim.plain.plane import PlainPlane

MS, S = 1_000_000, 1_000_000_000
COUNT = 2  # the operator that is adjusted
HOSTS = {"src-0": "h-0", "split-0": "h-1", "split-1": "h-5", "count-0": "h-2", "out-0": "h-3"}


def up(parallelism: int, at: str = "5 s", **keys: Any) -> dict[str, Any]:
    """An event: the counter gets so many tasks."""
    return {"at": at, "kind": "rescale", "operator": "count", "parallelism": parallelism, "protocol": "oap"} | keys


def dies(host: int, at_ms: int) -> dict[str, Any]:
    """An event: a host dies."""
    return {"at": f"{at_ms} ms", "kind": "host-failure", "host": f"h-{host}"}


def job(events: dict[str, Any], parallelism: int = 1, latency: str = "2 ms", **tolerance: Any) -> dict[str, Any]:
    """A source, two tasks that split, a counter with eight key groups, and a sink, on six hosts."""
    service = {"distribution": "deterministic", "value": "2 ms"}
    further = {f"count-{k}": host for k, host in zip(range(1, parallelism), ("h-4", "h-0"), strict=False)}
    keys = {"distribution": "uniform", "count": 40}
    count = {"kind": "aggregate", "inputs": {"split": "key"}, "service": service, "key_groups": 8}
    return {
        "duration": "14 s",
        "workload": {"src": {"rate": "50 /s", "arrivals": "deterministic", "keys": keys}},
        "operators": {
            "src": {"kind": "source"},
            "split": {"kind": "map", "inputs": {"src": "shuffle"}, "service": service, "parallelism": 2},
            "count": count | {"state": {"model": "per-key", "bytes": "1 B"}, "parallelism": parallelism},
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"h": {"count": 6}},
        "network": {"latency": latency},
        "placement": {"tasks": HOSTS | further},
        "detector": {"heartbeat": "200 ms", "timeout": "300 ms"},
        "fault_tolerance": {
            "method": "elastic-upstream-backup",
            "interval": "3 s",
            "store": "remote",
            "trimming": {"slice": "500 ms", "every": "1 s"},
            **tolerance,
        },
        "events": events,
    }


def scenario(raw: dict[str, Any]) -> Scenario:
    """The scenario, which has no fault and is simulated."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    assert [*faults(made), *not_simulated(made)] == []
    return made


def run(raw: dict[str, Any]) -> RunRecords:
    """The rows of the plain engine."""
    return simulate(scenario(raw), plane=PlainPlane)


def lost(records: RunRecords) -> list[int]:
    """Tuples that are lost, by operator; none is there twice."""
    assert not records.tables["ledger"]["duplicated"].any()
    found: list[int] = records.tables["ledger"]["lost"].tolist()
    return found


def completed(records: RunRecords) -> list[int]:
    """When each adjustment was complete [ns]."""
    found: list[int] = records.tables["rescales"]["completed_ns"].tolist()
    return found


def at_end(raw: dict[str, Any], until: str = "14 s") -> Control:
    """The control plane at an instant."""
    made = scenario(raw | {"duration": until})
    control = build(made, plane=PlainPlane)
    control.run(to_ns(made.duration_s))
    return control


def hosts_of(control: Control) -> list[str]:
    """The host of each key group of the counter."""
    first, cluster = control.plan.first_partition, control.cluster
    owners = [cluster.owner_of(group) for group in range(first[COUNT], first[COUNT + 1])]
    return [control.plan.host_names[cluster.host_of(owner)] for owner in owners]


EACH_CHECKPOINT = pytest.mark.parametrize("checkpoint", ["last", "new"])


@EACH_CHECKPOINT
def test_an_operator_goes_up_and_down_and_nothing_is_lost(checkpoint: str) -> None:
    events = {"up": up(3), "down": up(2, at="10 s")}
    found = run(job(events, adjustment={"checkpoint": checkpoint}))
    assert lost(found) == [0, 0, 0]
    assert found.tables["rescales"]["before"].tolist() == [1, 3]
    assert found.tables["rescales"]["after"].tolist() == [3, 2]
    assert all(0 < one - at < S for one, at in zip(completed(found), (5 * S, 10 * S), strict=True))


def test_key_group_k_goes_to_task_k_modulo_their_number() -> None:
    three = hosts_of(at_end(job({"up": up(3)})))
    assert len(set(three)) == 3
    assert [three[k] for k in range(8)] == [three[k % 3] for k in range(8)]
    assert three[0] == "h-2"  # tasks that there are stay
    one = hosts_of(at_end(job({"down": up(1)}, parallelism=3)))
    assert one == ["h-2"] * 8


def test_only_groups_whose_task_changes_are_in_the_plan() -> None:
    control = at_end(job({"up": up(3)}, parallelism=2))
    (plan,) = [one.plan for one in control.adjustments.runs]
    first = control.plan.first_partition[COUNT]
    assert [part.group - first for part in plan.parts] == [k for k in range(8) if k % 2 != k % 3]
    assert len(plan.before) == 2
    assert len(plan.after) == 3
    assert (len(plan.upstream), len(plan.downstream)) == (2, 1)


@pytest.mark.parametrize(("checkpoint", "counts"), [("last", "all since the checkpoint"), ("new", "what is under way")])
def test_as_printed_what_is_under_way_is_lost(checkpoint: str, counts: str) -> None:
    events = {"up": up(2, at="5501 ms")}
    literal = lost(run(job(events, adjustment={"checkpoint": checkpoint, "reading": "literal"})))
    safe = lost(run(job(events, adjustment={"checkpoint": checkpoint})))
    assert safe == [0, 0, 0]
    if counts == "what is under way":
        assert 0 < literal[1] < 10
    else:
        assert literal[1] > 50  # the last checkpoint is of 3 s; half of 50 tuples/s change their task


@EACH_CHECKPOINT
def test_no_task_of_the_operator_begins_a_service_until_downstream_is_ready(checkpoint: str) -> None:
    raw = job({"up": up(2)}, latency="100 ms", adjustment={"checkpoint": checkpoint})
    control = at_end(raw)
    (one,) = control.adjustments.runs
    visits = control.plane.tables()["visits"]
    begun = visits["start_ns"][visits["operator"] == COUNT]
    assert one.paused_ns is not None
    assert one.resumed_ns is not None
    assert one.resumed_ns - one.paused_ns > 300 * MS
    assert not ((begun > one.paused_ns) & (begun < one.resumed_ns)).any()
    assert ((begun > one.resumed_ns) & (begun < one.resumed_ns + 200 * MS)).any()


def test_upstream_sends_nothing_between_init_and_fin() -> None:
    found = run(job({"up": up(2)}, latency="100 ms"))
    visits = found.tables["visits"]
    begun = visits["start_ns"][visits["operator"] == 1]
    # Init leaves v_i at 5.1 s and comes at 5.2 s; the parts are fetched until 5.3 s, and FIN comes at 5.4 s.
    assert not ((begun > 5_200 * MS) & (begun < 5_400 * MS)).any()
    assert ((begun > 5_400 * MS) & (begun < 5_500 * MS)).sum() > 10  # what waited, too


def replayed(records: RunRecords, since_ns: int) -> int:
    """Bytes of what was sent again."""
    rows = records.tables["messages"]
    chosen = (rows["kind"] == "replay") & (rows["second_ns"] >= since_ns)
    return int(rows["bytes"][chosen].sum())


def test_after_a_new_checkpoint_less_is_replayed_at_once_and_after_a_failure() -> None:
    events = {"up": up(2, at="9500 ms")}
    kinds = [{"interval": "6 s", "adjustment": {"checkpoint": one}} for one in ("last", "new")]
    last, new = (run(job(events, **kind)) for kind in kinds)
    assert replayed(new, 9 * S) < replayed(last, 9 * S) / 10
    (host,) = set(hosts_of(at_end(job(events)))) - {"h-2"}
    # It dies after a round of acks, and before the next periodic checkpoint.
    events = events | {"dies": dies(int(host[-1]), 10_900)}
    last, new = (run(job(events, **kind)) for kind in kinds)
    again = [int(found.tables["recoveries"]["replayed"].sum()) for found in (last, new)]
    assert again[1] < again[0] / 2
    assert lost(last) == lost(new) == [0, 0, 0]


@EACH_CHECKPOINT
def test_a_crash_right_after_a_scale_up_restores_the_new_parallelism(checkpoint: str) -> None:
    events = {"up": up(3)}
    before = hosts_of(at_end(job(events), until="5050 ms"))
    dead = before[1]
    raw = job(events | {"dies": dies(int(dead[-1]), 5_100)}, adjustment={"checkpoint": checkpoint})
    after = hosts_of(at_end(raw))
    assert len(set(before)) == 3
    # Key groups of the other tasks stay where the scale-up has put them; those of the dead one are spread.
    assert [one for one, old in zip(after, before, strict=True) if old != dead] == [
        one for one in before if one != dead
    ]
    assert dead not in after
    assert len(set(after)) >= 3
    assert lost(run(raw)) == [0, 0, 0]


ROLES = {"upstream": 1, "other upstream": 5, "old": 2, "new": 4, "downstream": 3, "source": 0}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("parallelism", "checkpoint", "every_ms"),
    [
        pytest.param((1, 3), "last", 460, id="up-last"),
        pytest.param((3, 1), "new", 460, id="down-new"),
        *(
            pytest.param(parallelism, checkpoint, 140, marks=pytest.mark.slow)
            for parallelism in ((1, 3), (3, 1))
            for checkpoint in ("last", "new")
        ),
    ],
)
def test_a_crash_of_each_role_in_each_phase_loses_nothing(
    role: str, parallelism: tuple[int, int], checkpoint: str, every_ms: int
) -> None:
    before, after = parallelism
    ends = set[bool]()
    for late_ms in range(20, 1_500, every_ms):
        events = {"changes": up(after), "dies": dies(ROLES[role], 5_000 + late_ms)}
        found = run(job(events, before, latency="150 ms", adjustment={"checkpoint": checkpoint}))
        assert lost(found) == [0, 0, 0], late_ms
        ends.add(completed(found) != [NEVER])
    # Early ones are undone, late ones finished.
    assert ends == {True, False}


def test_what_was_undone_stays_as_it_was() -> None:
    raw = job({"up": up(3), "dies": dies(3, 5_200)}, latency="150 ms")
    control = at_end(raw)
    assert set(hosts_of(control)) == {"h-2"}
    rows = control.recorder.rows["decisions"]
    assert ("rescale", "count", "refused") in [(row[1], row[2], row[5]) for row in rows]
    assert not any(task.paused_until_ns for task in control.plane.tasks)  # type: ignore[attr-defined]


def windows(records: RunRecords) -> tuple[list[int], list[int]]:
    """Expected and lost tuples, by operator."""
    ledger = records.tables["ledger"]
    return ledger["expected"].tolist(), ledger["lost"].tolist()


@EACH_CHECKPOINT
@pytest.mark.parametrize("parallelism", [(1, 3), (3, 1)], ids=["up", "down"])
def test_windows_end_as_if_nothing_had_happened(parallelism: tuple[int, int], checkpoint: str) -> None:
    before, after = parallelism

    def made(events: dict[str, Any]) -> RunRecords:
        raw = job(events, before, latency="20 ms", adjustment={"checkpoint": checkpoint})
        raw["workload"]["src"]["watermark"] = "100 ms"
        raw["operators"]["count"] |= {"window": {"length": "1 s"}}
        del raw["operators"]["count"]["state"]
        return run(raw)

    calm, moved = made({}), made({"changes": up(after)})
    assert windows(moved) == windows(calm)
    assert moved.tables["deliveries"]["created_ns"].size == calm.tables["deliveries"]["created_ns"].size
    assert completed(moved) != [NEVER]


@EACH_CHECKPOINT
def test_bounded_queues_do_not_block_it(checkpoint: str) -> None:
    raw = job({"up": up(3), "down": up(2, at="9 s")}, latency="20 ms", adjustment={"checkpoint": checkpoint})
    raw["workload"]["src"]["rate"] = "300 /s"  # three quarters of the counter
    for name in ("split", "count", "out"):
        raw["operators"][name]["buffer"] = 2
    found = run(raw)
    assert lost(found) == [0, 0, 0]
    assert NEVER not in completed(found)


def test_two_adjustments_of_one_operator_come_one_after_the_other() -> None:
    found = run(job({"up": up(3), "again": up(2, at="5050 ms")}, latency="100 ms"))
    first, second = completed(found)
    assert 0 < first < second
    assert lost(found) == [0, 0, 0]


def refused(raw: dict[str, Any]) -> str:
    """All faults of a scenario."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    return "\n".join(map(str, [*faults(made), *not_simulated(made)]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operator": "split"}, "has no input partitioned by key"),
        ({"operator": "src"}, "has no input partitioned by key"),
        ({"parallelism": 9}, "must be at most the 8 key groups"),
        ({"parallelism": 7}, "one task on a host is, and 6 are in use at the start"),
        ({"protocol": "cpa"}, "not simulated yet"),
    ],
)
def test_what_cannot_be_adjusted_is_refused(change: dict[str, Any], said: str) -> None:
    assert said in refused(job({"up": up(2) | change}))


def test_another_method_is_refused() -> None:
    raw = job({"up": up(2)})
    raw["fault_tolerance"] = {"method": "checkpoint"}
    assert "elastic-upstream-backup" in refused(raw)
    raw["fault_tolerance"] = {"method": "checkpoint", "adjustment": {"checkpoint": "new"}}
    assert "needs the method elastic-upstream-backup" in refused(raw | {"events": {}})


def test_one_level_of_acks_is_refused() -> None:
    raw = job({"up": up(2)}, trimming={"levels": 1})
    assert "must be at least 2 where operators are adjusted by oap" in refused(raw)
    assert refused(raw | {"events": {}}) == ""


def test_a_key_group_alone_does_not_move_by_it() -> None:
    event = {"at": "5 s", "kind": "migrate", "operator": "count", "key_group": 0, "host": "h-4", "protocol": "oap"}
    assert "not simulated yet" in refused(job({"moves": event}))
