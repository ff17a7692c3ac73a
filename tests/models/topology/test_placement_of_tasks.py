"""Where tasks start: one counter over all hosts, each operator with a host group from that group's first host."""

from __future__ import annotations

from collections import Counter
from typing import Any

from models.scenario.reading import scenario_from
from models.topology import layout

SERVICE = {"distribution": "exponential", "mean": "1 ms"}


def placed(placement: dict[str, Any] | None = None, hosts: dict[str, Any] | None = None) -> dict[str, str]:
    raw = {
        "duration": "1 min",
        "workload": {"a": {"rate": "1 /s"}},
        "operators": {
            "a": {"kind": "source"},
            "b": {"kind": "map", "inputs": {"a": "shuffle"}, "parallelism": 3, "service": SERVICE},
            "c": {"kind": "sink", "inputs": {"b": "shuffle"}, "parallelism": 2},
        },
        "hosts": hosts or {"left": {"count": 2}, "right": {"count": 2}},
        "placement": placement or {},
    }
    return layout.placement(scenario_from(raw))


def test_tasks_go_round_all_hosts_in_file_order() -> None:
    assert placed() == {
        "a-0": "left-0", "b-0": "left-1", "b-1": "right-0", "b-2": "right-1", "c-0": "left-0", "c-1": "left-1",
    }  # fmt: skip


def test_an_operator_with_a_group_starts_at_its_first_host_and_counts_for_nobody_else() -> None:
    assert placed({"operators": {"b": "right"}}) == {
        "a-0": "left-0", "b-0": "right-0", "b-1": "right-1", "b-2": "right-0", "c-0": "left-1", "c-1": "right-0",
    }  # fmt: skip


def test_a_single_task_is_overruled_and_the_others_stay() -> None:
    assert placed({"tasks": {"b-1": "left-0"}}) == placed() | {"b-1": "left-0"}


def test_slots_of_named_groups_are_filled_in_turn() -> None:
    # Three slots on the left, two of them on left-0 by round; right-0 takes what is left.
    hosts = {"left": {"count": 2, "slots": 2}, "right": {"count": 1, "slots": 3}, "other": {"count": 4}}
    found = placed(hosts=hosts, placement={"hosts": ["left", "right"], "tasks": {"b-0": "left-1"}})
    assert found == {
        "a-0": "left-0", "b-0": "left-1", "b-1": "left-1", "b-2": "right-0", "c-0": "left-0", "c-1": "right-0",
    }  # fmt: skip


def test_an_operator_with_a_group_of_its_own_takes_slots_there() -> None:
    hosts = {"left": {"count": 2, "slots": 3}}
    found = placed(hosts=hosts, placement={"hosts": ["left"], "operators": {"b": "left"}})
    assert Counter(found.values()) == {"left-0": 3, "left-1": 3}
    assert [found[task] for task in ("a-0", "c-0", "c-1")] == ["left-0", "left-1", "left-1"]
