"""Tables of a run: the terminal and the page show the same rows."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from pages import migration, operator_row, recovery
from rich.console import Console
from small_runs import small_scenario

from analysis.runs.migration_kinds import grouped
from analysis.runs.recoveries import recovery_means
from analysis.runs.run_summary import Verdict
from analysis.runs.tables import groups_table, migrations_table, operators_table, recoveries_table, targets_table
from holdfast.terminal import printed


def test_the_terminal_shows_some_columns_of_the_page() -> None:
    table = operators_table({"count": operator_row(5)})
    page = dict(zip(table.heads, table.cells[0], strict=True))
    assert page["operator"] == "count"
    assert (page["wait mean"], page["sojourn mean"], page["utilisation"]) == ("100 ms", "300 ms", "25 %")
    assert table.brief.heads == (
        "operator",
        "processed",
        "wait mean",
        "wait p99",
        "sojourn p99",
        "queue mean",
        "utilisation",
    )
    assert set(table.brief.cells[0]) <= set(table.cells[0])


def test_a_host_that_lived_is_marked_and_the_terminal_says_what_the_mark_means() -> None:
    rows = (recovery("a", 1.0, 1.0, 1.0, 1.0, 1.0, 4.0), recovery("b", 2.0, 1.0, 1.0, 1.0, 1.0, 4.0, suspected=True))
    assert [row[0] for row in recoveries_table(rows).cells] == ["a", "b (suspected)"]
    brief = recoveries_table(rows, "*").brief
    assert [row[0] for row in brief.cells] == ["a", "b*"]
    assert brief.title == "Recoveries (* lived, was silent for too long and was fenced)"
    assert recoveries_table(rows[:1], "*").brief.title == "Recoveries"


def test_what_failed_is_the_driver_and_not_its_host() -> None:
    host = recovery("a", 1.0, 1.0, 1.0, 1.0, 1.0, 4.0)
    driver = replace(host, cause="driver")
    assert recoveries_table([host]).heads[0] == "host"
    assert recoveries_table([host, driver]).heads[0] == "what"
    assert [row[0] for row in recoveries_table([host, driver]).cells] == ["a", "the driver"]


def test_all_columns_of_recoveries_fit_a_terminal() -> None:
    row = replace(recovery("executor-12", 183.167, 0.0202, 0.0202, 0.11, 0.0383, 0.168), allocate_s=0.0, restart_s=0.0)
    console = Console(width=80, file=StringIO())
    console.print(printed(recoveries_table([row]).brief))
    assert "168 ms" in console.file.getvalue()


def test_a_failure_that_took_nothing_with_it_is_in_no_mean() -> None:
    rows = [
        recovery("a", 1.0, 1.0, 1.0, 1.0, 1.0, 4.0),
        replace(recovery("b", 2.0, 9.0, 0.0, 0.0, 0.0, 9.0), key_groups=0),
    ]
    means = {one.phase: one for one in recovery_means(small_scenario(), rows, [0])}
    assert (means["total"].mean_s, means["total"].recoveries) == (4.0, 1)
    assert recovery_means(small_scenario(), rows[1:], [0]) == ()
    table = recoveries_table(rows)
    assert [row[0] for row in table.cells] == ["a", "b (empty)"]
    assert table.brief.title == "Recoveries (empty: no task was there)"
    assert recoveries_table(rows[:1]).brief.title == "Recoveries"


def test_the_cause_takes_the_place_of_replayed_tuples_where_migrations_came_by_themselves() -> None:
    asked = migration("g", 3, ("a", "b"), 1.0, 0.1, 0.2, 0.3, replayed=7)
    alone = migration("g", 4, ("a", "b"), 2.0, 0.1, None, None, cause="balance", kind="assisted")
    assert migrations_table([asked]).brief.heads[-1] == "replayed"
    both = migrations_table([asked, alone])
    assert "cause" in both.brief.heads and "replayed" not in both.brief.heads
    assert both.facets == ("cpa", "cpa")
    groups = groups_table(grouped([asked, alone, alone]))
    assert [row[:5] for row in groups.cells] == [
        ("assisted", "cpa", "balance", "2", "2"),
        ("–", "cpa", "event", "1", "0"),
    ]


def test_moves_that_were_cancelled_have_a_column_of_their_own() -> None:
    done = migration("g", 3, ("a", "b"), 1.0, 0.1, 0.2, 0.3)
    cancelled = replace(migration("g", 4, ("a", "b"), 2.0, None, None, None), cancelled_s=2.5)
    assert "cancelled" not in migrations_table([done]).heads
    assert "cancelled" not in groups_table(grouped([done])).heads
    moves, groups = migrations_table([done, cancelled]), groups_table(grouped([done, cancelled]))
    assert [row[moves.heads.index("cancelled")] for row in moves.cells] == ["–", "2.5 s"]
    counts = ("moves", "not ended", "cancelled")
    assert [groups.cells[0][groups.heads.index(head)] for head in counts] == ["2", "0", "1"]


def test_targets_have_the_unit_of_what_they_limit() -> None:
    targets = {
        "latency_p99_s": Verdict(0.5, 1.0, False),
        "lost": Verdict(0, 0, True),
        "utilisation": Verdict(1, None, None),
    }
    assert targets_table(targets).brief.cells == (
        ("latency p99", "500 ms", "1 s", "missed"),
        ("lost", "0", "0", "met"),
        ("utilisation", "100 %", "–", "nothing seen"),
    )
