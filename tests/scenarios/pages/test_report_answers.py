"""Pages of availability and of plans of replicas: figures are those of the answer, nothing in a name is markup."""

from __future__ import annotations

import numpy as np
import pytest
from pages import HOSTILE

from analysis.report import page
from models.planning.replicas import ReplicaProblem
from models.reliability.description import availability_from
from scenarios.pages import availability, replicas
from scenarios.queries.replicas import OPTIMISED, Options, best_plan, front_of, plans, worth_of
from scenarios.queries.tables import operators_table
from scenarios.reliability.availability import Answer, answer
from scenarios.reliability.importance import importances
from scenarios.reliability.tables import worst_first

HOSTS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")


def found(name: str = "q", **more: object) -> Answer:
    given = {"hosts": HOSTS, "p": [0.01, 0.1], "operators": {name: ["a", "b"], "y": ["c"]}}
    given |= {"queries": {name: [name, "y"], "alone": [name]}, "name": name}
    method = more.pop("method", "auto")
    return answer(availability_from(given | more), method=method, runs=1000)  # type: ignore[arg-type]


def test_marks_of_queries_stand_at_their_unavailability_worst_first() -> None:
    (drawn,) = availability._drawing(found(target=0.95))
    one, ten, target = drawn.data
    assert drawn.layout["yaxis"]["ticktext"] == ["q", "alone"]
    assert one["x"] == pytest.approx([1 - 0.99 * (1 - 0.0001), 0.0001])
    assert ten["x"] == pytest.approx([1 - 0.9 * 0.99, 0.01])
    assert target["x"] == pytest.approx([0.05, 0.05])
    assert "error_x" not in one


def test_what_is_sampled_has_its_interval_and_what_was_never_seen_its_upper_end() -> None:
    made = found(method="monte-carlo", p=[0.0001])
    (drawn,) = availability._drawing(made)
    line = made.lines[0]
    order = worst_first(made)
    highs = [x + up for x, up in zip(drawn.data[0]["x"], drawn.data[0]["error_x"]["array"], strict=True)]
    assert highs == pytest.approx([line.queries[k].high for k in order], rel=1e-3)
    assert availability.chance(line.queries[1]).startswith("≤ ")
    assert "interval of a sample" in drawn.caption


def test_a_page_of_availability_has_every_setting_and_what_is_worth_what() -> None:
    made = found(target=0.95)
    text = page.render_page(
        availability.availability_page(made, importances(made.description), command="holdfast availability x.toml")
    )
    for part in ("of 2 have 95 %", "Importance (Birnbaum), p = 0.1", "p = 0.01", "holdfast availability x.toml"):
        assert part in text
    assert '<section id="importance"' in text


def test_a_page_of_availability_names_single_points_of_failure_where_there_are_some() -> None:
    text = page.render_page(availability.availability_page(found(domains={"rack": {"hosts": ["a", "b"]}})))
    assert "One failure is enough to break 2 of 2 queries, and two are needed for 0." in text
    alone = availability._alone(found(domains={"rack": {"hosts": ["a", "b"]}}))
    assert [row for table in alone.tables for row in table.cells] == [
        ("rack", "domain", "2", "q, alone"),
        ("c", "host", "1", "q"),
    ]
    safe = availability._alone(found(queries={"q": ["q"]}))
    assert safe.tables == ()
    assert "break 0 of 1 queries, and two are needed for 1." in safe.words


@pytest.mark.parametrize("name", [one for one in HOSTILE if one.isprintable()])
def test_names_are_text_on_pages_of_answers(name: str) -> None:
    texts = [page.render_page(availability.availability_page(found(name)))]
    posed = problem()
    texts.append(
        page.render_page(replicas.plans_page(plans(posed, Options()), posed, [name] * 4, [name] * 3, title=name))
    )
    for text in texts:
        assert "<img" not in text
        assert "<b>bold" not in text
        assert text.count("</script>") == text.count("<script")


def problem(**more: object) -> ReplicaProblem:
    given: dict[str, object] = {
        "load": np.array([0.5, 0.25, 0.25, 0.5]),
        "operators": ((0, 1), (0, 2), (3,)),
        "edges": np.array([[0, 1], [0, 2]]),
        "host_cpu": np.ones(4),
        "down": np.array([[0.01] * 4, [0.1] * 4]),
        "primary": np.array([0, 0, 1, 1]),
        "budget": 0.75,
    }
    return ReplicaProblem(**(given | more))  # type: ignore[arg-type]


def test_what_replicas_are_worth_is_what_breaks_without_them() -> None:
    posed = problem()
    best = best_plan(posed)
    worths = worth_of(best, posed)
    assert best.instances is not None
    assert set(worths) == {op for op, hosts in enumerate(best.instances) if len(hosts) > 1}
    for op, value in worths.items():
        without = tuple(hosts[:1] if k == op else hosts for k, hosts in enumerate(best.instances))
        assert value == pytest.approx(float(posed.broken(without)[0] @ posed.shares) - best.objective)  # type: ignore[operator]
    table = operators_table(best, posed, ["o0", "o1", "o2", "o3"])
    shown = [row[0] for row, facet in zip(table.rows, table.facets, strict=True) if facet == "has replicas"]
    assert shown == [f"o{op}" for op in sorted(worths, key=lambda op: (-worths[op], op))]


def test_the_page_of_plans_has_them_all_and_the_best_in_full() -> None:
    posed = problem()
    made = plans(posed, Options())
    made[OPTIMISED] = best_plan(posed)
    text = page.render_page(
        replicas.plans_page(made, posed, ["o0", "o1", "o2", "o3"], ["p", "q", "r"], command="holdfast plan")
    )
    for part in (*made, "no plan is below", "Which operators", "What queries have", "Where instances go"):
        assert part in text


def test_the_line_of_bounds_is_below_all_plans_of_the_front() -> None:
    posed = problem()
    points = front_of(posed, 6)
    (drawn,) = replicas._front(points, posed).figures
    plan_line, bound_line = drawn.data
    assert (plan_line["line"]["shape"], bound_line["line"]["shape"]) == ("hv", "vh")
    ends = list(zip(bound_line["x"], bound_line["y"], strict=True))
    for cost, broken in zip(plan_line["x"], plan_line["y"], strict=True):
        bound = next(y for x, y in ends if x >= cost - 1e-9)  # a step to the left of its mark
        assert bound is None or bound <= broken * (1 + 1e-5)
    assert "What replicas cost, and buy" in page.render_page(replicas.front_page(points, posed))


def test_where_primaries_find_no_host_the_page_says_so() -> None:
    posed = problem(primary=None, host_cpu=np.full(4, 0.3))
    text = page.render_page(replicas.plans_page(plans(posed, Options()), posed, ["o"] * 4, ["q"] * 3))
    assert "there is none" in text
