"""Files of queries, and queries drawn from templates."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from models.errors import InputError
from models.queries.description import Templates, query_set_from
from models.queries.graph import QueryGraph, table_of
from scenarios.queries import templates
from scenarios.queries.files import loaded, read_queries
from scenarios.queries.templates import workload

EXAMPLE = Path(__file__).parents[3] / "examples" / "queries.toml"


def _refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        loaded(query_set_from(tomllib.loads(text)))
    return str(caught.value)


def test_the_example_shares_a_source_and_a_filter() -> None:
    found = read_queries(EXAMPLE)
    table = found.table
    assert table.queries == ("average", "alerts", "related")
    assert dict(zip(table.names, table.degree().tolist(), strict=True))["average.sap"] == 3
    assert table.n_operators == 8
    by_name = dict(zip(table.names, found.load.tolist(), strict=True))
    assert by_name["average.mean"] == pytest.approx(20_000 * 0.25 * 100e-6)
    assert by_name["related.both"] == pytest.approx((20_000 * 0.25 + 500) * 60e-6)


def test_faults_of_a_file_are_named_with_their_place() -> None:
    assert "queries: must have a query at least" in _refused("")
    assert "queries.q: is empty: it must have operators or a text" in _refused("[queries.q]")
    text = '[queries.q.operators]\ns = {kind="source", stream="tik"}\nd = {kind="destination", inputs=["s"]}\n'
    assert "queries.q.operators.s.stream = tik: is no stream (did you mean tick?)" in _refused(
        text + '[streams.tick]\nrate = "1 /s"'
    )
    assert "p = 1.5: must be at most 1" in _refused("p = 1.5\n" + text)
    assert _refused("p = [0.1, 2.0]\n" + text) == "p[1] = 2.0: must be at most 1"
    assert "p = []: must have at least 1 entry" in _refused("p = []\n" + text)
    assert "unknown key" in _refused("[queries.q]\noperator = 1")
    assert "budget" in _refused("[replicas]\nbudget = -1.0\n[queries.q]")
    assert "templates" in _refused("[templates]\n[queries.q]\nweight = 2.0")
    assert "must not all be zero" in _refused("[templates]\nweights = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]")
    assert "must go up" in _refused("[templates]\nspread = [2.0, 1.0]")
    assert "is no kind of operator" in _refused('[kinds.filtre]\ncost = "1 s"\n[queries.q]')


def test_a_workload_has_the_load_that_was_asked_for_and_is_the_same_again() -> None:
    made = workload(Templates(load=20.0), 7)
    again = workload(Templates(load=20.0), 7)
    assert made.load.sum() == pytest.approx(20.0, rel=1e-12)
    assert made.queries == again.queries
    assert made.load.tolist() == again.load.tolist()
    assert made.load.max() <= 1.0
    assert workload(Templates(load=20.0), 8).queries != made.queries


def test_equal_operators_of_templates_cost_the_same_in_every_query() -> None:
    made = workload(Templates(load=20.0), 3)
    graph = QueryGraph(made.queries)  # refuses equal operators of different cost
    assert table_of(graph).n_operators == made.table.n_operators < sum(len(q.operators) for q in made.queries)
    assert {len(query.operators) for query in made.queries} <= {3, 4, 5, 6, 7, 8}


def test_a_load_that_sharing_never_reaches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_MOST_QUERIES", 50)
    with pytest.raises(InputError, match=r"templates\.load = 1000"):
        workload(Templates(load=1000.0, largest=1e-5), 1)
