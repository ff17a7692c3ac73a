"""The study of selective replication: what a workload is, and that each verdict can be the other one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from analysis.report import page as page_module
from analysis.report import render_page
from analysis.report.parts import ClaimRow
from scenarios.pages.claims import charts, claims_page, sensitivity
from scenarios.studies.reproduce.claims import claims
from scenarios.studies.reproduce.query_workloads import (
    ALL,
    CHANCES,
    HALF,
    ONCE,
    Point,
    Tried,
    Variant,
    asked_for,
    joined,
    try_workload,
)
from scenarios.studies.reproduce.selective_replication import (
    VARIANTS,
    Points,
    Results,
    _part,
    all_pieces,
    findings_of,
    pieces_of,
    verdicts,
)
from scenarios.studies.reproduce.tasks import makespan_s


@pytest.fixture(scope="module")
def one() -> Tried:
    return try_workload(Variant(), 3, whole=False)


def test_a_workload_is_the_same_again_also_through_its_document(one: Tried) -> None:
    again = [piece.run() for piece in pieces_of(Variant(), 3, whole=False)]
    assert joined([_part(document) for document in again]) == one
    assert try_workload(Variant(), 4, whole=False) != one


def test_a_workload_that_is_cut_into_points_is_the_same_as_the_whole() -> None:
    shared = Variant(reading="shared")
    parts = [Points(shared, 3, (point,)).run() for point in asked_for(whole=False)]
    assert joined([_part(json.loads(json.dumps(one))) for one in parts]) == try_workload(shared, 3, whole=False)


@pytest.mark.parametrize("quick", [True, False])
def test_no_piece_is_a_large_part_of_the_study_and_four_workers_end_at_nearly_the_same_time(quick: bool) -> None:
    pieces = all_pieces(quick=quick)
    assert len(set(pieces)) == len({piece.label for piece in pieces}) == len(pieces)
    costs = [piece.cost_s for piece in pieces]
    assert max(costs) <= 0.15 * sum(costs)
    assert makespan_s(sorted(costs, reverse=True), 4) <= 1.02 * sum(costs) / 4


def test_only_where_a_solver_is_asked_a_workload_is_cut() -> None:
    for one in (Variant(), *VARIANTS):
        pieces = pieces_of(one, 0, whole=True)
        asked = [point for piece in pieces for point in piece.asked]
        assert asked == asked_for(whole=one == Variant())
        assert len(pieces) == (len(asked) if one.selection == "queries" else 1)


def test_runs_of_every_point_are_near_the_exact_figure(one: Tried) -> None:
    """Within 5 standard errors of 1,000 runs, where a share's variance is at most its own unavailability."""
    for point in one.points.values():
        for exact, runs in zip(point.exact, point.runs, strict=True):
            assert abs(exact - runs) <= 5 * np.sqrt((1 - exact) / 1000) + 1e-12


def test_a_workload_has_what_the_paper_has(one: Tried) -> None:
    assert one.hosts <= 106
    assert set(asked_for(whole=False)) | {(ONCE, HALF)} == set(one.points)
    assert one.points["product", 0].replicated == 0.0
    assert one.points["product", ALL].replicated > 0.97
    assert all(point.left_out <= 10 for point in one.points.values())


def test_scattered_primaries_put_a_query_on_more_hosts(one: Tried) -> None:
    scattered = try_workload(Variant(primaries="scattered"), 3, whole=False)
    assert scattered.hosts_per_query > one.hosts_per_query + 1
    assert scattered.points["product", 0].exact[0] < one.points["product", 0].exact[0]


BASE = {
    ("product", 0): 95.0,
    ("random", HALF): 97.1,
    (ONCE, HALF): 97.1,
    ("degree", HALF): 98.8,
    ("utilisation", HALF): 98.8,
    ("product", HALF): 99.2,
    ("product", ALL): 99.9,
}


def tried(changes: Mapping[tuple[str, int], float], share: float = 0.8, beyond: float = 0.6) -> Tried:
    """A workload with these shares [%] at p = 0.02; at 0.03 less, and half of the capacity `beyond` more so."""
    points = {}
    for key, value in (BASE | dict(changes)).items():
        last = value - 0.3 - (beyond - 0.3 if key == ("product", HALF) else 0.0)
        curve = [value + 0.3, value + 0.2, value + 0.1, value, last]
        points[key] = Point(tuple(v / 100 for v in curve), tuple(v / 100 for v in curve), share, 0)
    return Tried(100, 300, 104, 2.6, 0.98, points)


def holds(changes: Mapping[tuple[str, int], float], **more: float) -> dict[str, bool]:
    return {claim: found.holds for claim, found in verdicts([tried(changes, **more)] * 40).items()}


def test_every_claim_holds_for_the_papers_own_figures() -> None:
    found = holds({})
    assert set(found) == {claim.id for claim in claims() if claim.study == "selective-replication"}
    assert all(found.values())


@pytest.mark.parametrize(
    ("claim", "changes", "more"),
    [
        ("qodlu", {("product", HALF): 98.99}, {}),
        ("qodlu", {("product", HALF): 99.41}, {}),
        ("random", {("random", HALF): 97.71}, {}),
        ("qod", {("degree", HALF): 98.49}, {}),
        ("lu", {("utilisation", HALF): 99.01}, {}),
        ("lu", {("utilisation", HALF): 98.95, ("product", HALF): 99.1}, {}),  # not as far below the product
        ("full-half", {}, {"beyond": 1.0}),
        ("share", {}, {"share": 0.87}),
        ("order", {("random", HALF): 98.81}, {}),
        ("order", {("product", ALL): 99.19}, {}),
        ("monotone", {("product", ALL): 99.2}, {}),
    ],
)
def test_each_verdict_is_the_other_one_where_the_figure_is_beyond_its_tolerance(
    claim: str, changes: Mapping[tuple[str, int], float], more: Mapping[str, float]
) -> None:
    assert holds(changes, **more)[claim] is False


def test_an_order_that_one_workload_in_twenty_breaks_still_holds() -> None:
    good, bad = tried({}), tried({("random", HALF): 98.85})
    assert verdicts([good] * 38 + [bad] * 2)["order"].holds
    assert not verdicts([good] * 37 + [bad] * 3)["order"].holds


def test_variants_whose_verdict_is_another_are_named() -> None:
    base, other = [tried({})] * 40, [tried({("product", HALF): 98.5})] * 20
    found = findings_of(Results(base, {"coloured": other, "as before": base}))
    assert found["qodlu"].holds
    assert found["qodlu"].cause == "does not hold with: coloured"
    assert found["share"].cause == "so with all 2 variants of the assumptions"
    grid = sensitivity(Results(base, {"coloured": other}))
    assert [row[:2] for row in grid.cells] == [("as described", "99.20"), ("coloured", "98.50 *")]


def test_every_variant_makes_another_workload_or_plan() -> None:
    assert len({replace(one, name="") for one in VARIANTS}) == len(VARIANTS)
    assert len({one.name for one in VARIANTS}) == len(VARIANTS)
    for one in VARIANTS:
        assert one.templates().load == 100.0


def test_the_page_has_the_claims_the_curves_and_what_they_hang_on(one: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "_plotly", lambda: "/* the figures' script */")
    results = Results([one], {"coloured": [one]})
    rows = [
        ClaimRow("selective-replication", claim, "t", "predicted", "p", found.ours, "1", found.holds, found.cause)
        for claim, found in findings_of(results).items()
    ]
    four, five = charts(results)
    assert (four.name, five.name) == ("figure-4", "figure-5")
    assert four.x.tolist() == [0.0, *(100 * p for p in CHANCES)]
    assert four.values[four.names.index("QOD*LU, 50 %"), 4] == pytest.approx(100 * one.points["product", HALF].exact[3])
    page = render_page(claims_page(rows, results, "holdfast reproduce"))
    for words in ("figure-figure-4", "figure-figure-5", "low utilisation, 50 %", "does not hold", "coloured"):
        assert words in page
