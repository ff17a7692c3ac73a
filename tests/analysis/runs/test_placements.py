"""Where key groups are at the start and at the end, from rows by hand."""

from __future__ import annotations

from small_runs import S, small_records, small_scenario

from analysis.runs.elasticity import first_placement, last_placement

FIRST = {("count", 0): "worker-1", ("count", 1): "worker-0", ("count", 2): "worker-1", ("count", 3): "worker-0"}


def moved(group: int, target: int, resumed: int, completed: int = -1) -> tuple[object, ...]:
    return ("cpa", 1, group, 1 - target, target, 3 * S, 3 * S, resumed, completed, 0, 0, -1, "event", -1)


def test_groups_begin_where_their_tasks_do() -> None:
    assert first_placement(small_scenario()) == FIRST
    assert last_placement(small_scenario(), small_records()) == FIRST


def test_the_last_move_that_came_to_its_host_counts() -> None:
    rows = [moved(0, 1, 8 * S), moved(0, 0, 5 * S, 6 * S), moved(1, 1, -1), moved(2, 0, -1, 7 * S)]
    found = last_placement(small_scenario(), small_records(migrations=rows))
    assert found == {**FIRST, ("count", 0): "worker-1", ("count", 2): "worker-0"}


def test_recoveries_move_key_groups_too_and_tasks_without_any_are_left_out() -> None:
    rows = [
        (0, 1, 1, 1, 4 * S, 5 * S, 5 * S, 5 * S, 6 * S, 7 * S, 8 * S, 0, 0),
        (0, 2, 0, 1, 4 * S, 5 * S, 5 * S, 5 * S, 6 * S, 7 * S, 8 * S, 0, 0),
    ]
    found = last_placement(small_scenario(), small_records(recoveries=rows, migrations=[moved(1, 0, 9 * S)]))
    assert found == FIRST
    found = last_placement(small_scenario(), small_records(recoveries=rows))
    assert found == {**FIRST, ("count", 1): "worker-1"}
