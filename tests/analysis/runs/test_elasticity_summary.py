"""Moves by themselves, rescaling and hosts in use in the summary and on the page, from rows by hand."""

from __future__ import annotations

import pytest
from pages import Parts, migration, rendered
from small_runs import S, small_records, small_scenario
from summaries import document_of as summarise

from analysis.report.content import Decision, Lines
from analysis.runs.elasticity import changes_of_hosts, elasticity, host_utilisation, hosts_in_use, rescales
from models.scenario.scenario import Scenario

LOOKS: list[tuple[object, ...]] = [
    # at, overloaded, groups, usable, assisted, direct, drained, unplaced
    (8 * S, 1, 4, 3, 2, 1, 0, 0),
    (16 * S, 2, 6, 1, 0, 1, 2, 1),
]
USED: list[tuple[object, ...]] = [(0, 0, 10 * S), (1, 2 * S, 6 * S)]


def test_shares_are_over_all_checks_and_moves() -> None:
    found = elasticity([small_records(adaptations=LOOKS)])
    assert found is not None
    assert (found.checks, found.overloaded, found.drained, found.unplaced) == (2, 3, 2, 1)
    assert found.usable_share == pytest.approx(4 / 10)
    assert found.assisted_share == pytest.approx(2 / 4)
    both = elasticity([small_records(k, adaptations=LOOKS) for k in range(2)])
    assert both is not None
    assert (both.checks, both.usable_share) == (4, found.usable_share)


def test_without_an_overloaded_host_there_is_no_share() -> None:
    found = elasticity([small_records(adaptations=[(8 * S, 0, 0, 0, 0, 0, 0, 0)])])
    assert found is not None
    assert (found.usable_share, found.assisted_share) == (None, None)
    assert elasticity([small_records()]) is None


def test_a_rescaling_takes_until_the_last_move() -> None:
    found = rescales(
        [small_records(rescales=[(1, 3 * S, 2, 4, 5, 7 * S, 4 * S, 6 * S), (1, 8 * S, 4, 1, 6, -1, -1, -1)])]
    )
    assert [(one.operator, one.before, one.after, one.moves) for one in found] == [
        ("count", 2, 4, 5),
        ("count", 4, 1, 6),
    ]
    assert [one.completion_s for one in found] == [4.0, None]
    assert [one.pause_s for one in found] == [2.0, None]


def priced(price: str | None) -> Scenario:
    raw = small_scenario().model_dump(mode="json", by_alias=True)
    for group in raw["hosts"].values():
        group["price"] = price
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def test_hosts_in_use_cost_what_they_cost_while_they_are() -> None:
    records = [small_records(hosts_in_use=USED), small_records(1, hosts_in_use=USED[:1])]
    found = hosts_in_use(priced("0.36 USD/h"), records)
    assert found.seconds == {"worker-0": 10.0, "worker-1": 2.0}
    assert found.total_s == 12.0
    assert found.cost_usd == pytest.approx(12 * 0.0001)
    assert hosts_in_use(priced(None), records).cost_usd is None


def test_utilisation_is_work_and_outside_load_in_each_period() -> None:
    raw = small_scenario().model_dump(mode="json", by_alias=True)
    for group in raw["hosts"].values():
        group["load"] = {"steps": [{"at": "2 s", "share": 0.4}]}
    scenario = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    rows = [
        (4 * S, 1, 0, 1, 10, 1 * S, 0, 0, 0),
        (4 * S, 1, 1, 1, 10, 1 * S, 0, 0, 0),
        (8 * S, 1, 0, 1, 10, 2 * S, 0, 0, 0),
    ]
    found = host_utilisation(scenario, small_records(statistics=rows))
    cores = next(iter(scenario.hosts.values())).cores
    assert found.names == ("worker-1",)
    assert found.at_ns.tolist() == [4 * S, 8 * S]
    assert found.values[0] == pytest.approx([2 / 4 / cores + 0.2, 2 / 4 / cores + 0.4])


def test_only_hosts_that_come_and_go_are_named() -> None:
    rows = [
        (S, "acquire", "h-3", "", "", "done", "why"),
        (2 * S, "drain", "h-3", "", "", "done", "so"),
        (3 * S, "release", "h-3", "", "", "done", "empty"),
    ]
    found = changes_of_hosts([small_records(decisions=rows)])
    assert found == [("1 s", "h-3 is acquired", "why"), ("3 s", "h-3 is released", "empty")]


def test_the_summary_has_them_all() -> None:
    found = summarise(small_scenario(), [small_records(adaptations=LOOKS, hosts_in_use=USED)])
    assert found["elasticity"]["assisted"] == 2
    assert found["rescales"] == []
    assert found["hosts"]["total_s"] == 14.0


def test_the_page_shows_hosts_with_moves_and_the_decisions() -> None:
    parts = Parts(
        hosts=Lines(at_s=[0.0, 8.0], names=("h-0", "h-1"), values=[[20.0, 90.0], [10.0, 20.0]]),  # type: ignore[arg-type]
        migrations=(migration("count", 3, ("h-0", "h-1"), 16.0, 0.1, 0.2, 0.3, cause="balance"),),
        decisions=(Decision(16.0, "count[3] is to move to h-1", "h-0 is at 91.0 % of its CPU"),),
    )
    page = rendered(parts)
    assert "How busy each host is" in page
    assert "count[3] is to move to h-1" in page
    assert "h-0 is at 91.0 % of its CPU" in page
    assert '"name": "moves"' in page or '"name":"moves"' in page
