"""Queries merge where they do the same, and what nobody needs goes; oracle: structural terms, written out in full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from models.queries.graph import QueryGraph, table_of
from models.queries.operators import Operator, Query


def chain(name: str, *predicates: str, stream: str = "tick") -> Query:
    """S-F...-D with these filters."""
    operators = {"s": Operator("source", stream, cost_s=1e-5, tuple_bytes=100)}
    last = "s"
    for index, predicate in enumerate(predicates):
        operators[f"f{index}"] = Operator("filter", predicate, (last,), None, 2e-5, 0.5, 100)
        last = f"f{index}"
    operators["d"] = Operator("destination", "out", (last,), cost_s=4e-5)
    return Query(name, operators)


def canonical(graph: QueryGraph) -> dict[str, tuple[str, ...]]:
    """Return the graph without numbers: each operator with all that feeds it, in full -> its queries, sorted.

    Two graphs are equal when these are, however they came about.
    """
    terms: dict[int, str] = {}
    for number, node in graph.nodes.items():  # inputs have come before
        inputs = [terms[one] for one in node.inputs]
        inputs = sorted(inputs) if node.kind == "join" else inputs  # a join has no order of its inputs
        user = graph.users(number)[0] if node.kind == "destination" else ""
        own = next((name for name, one in graph.members(user).items() if one == number), "") if user else ""
        rest = node.predicate, node.window_s, node.cost_s, node.selectivity, node.tuple_bytes
        terms[number] = repr((node.kind, rest, inputs, user, own))
    return {term: tuple(sorted(graph.users(number))) for number, term in terms.items()}


def two(name: str, kind: str, left: str, right: str, window_s: float | None = None) -> Query:
    """Two sources into a join or a sequence."""
    operators = {
        "a": Operator("source", left),
        "b": Operator("source", right),
        "x": Operator(kind, "on key", ("a", "b"), window_s),  # type: ignore[arg-type]
        "d": Operator("destination", "", ("x",)),
    }
    return Query(name, operators)


def test_equal_operators_are_merged_and_destinations_are_not() -> None:
    graph = QueryGraph([chain("one", "SAP"), chain("other", "SAP"), chain("third", "IBM")])
    kinds = [node.kind for node in graph.nodes.values()]
    assert kinds.count("source") == 1
    assert kinds.count("filter") == 2
    assert kinds.count("destination") == 3
    assert graph.users(graph.members("other")["f0"]) == ("one", "other")


def test_an_operator_is_another_one_after_another_input() -> None:
    graph = QueryGraph([chain("one", "SAP", "cheap"), chain("other", "IBM", "cheap")])
    assert graph.members("one")["f1"] != graph.members("other")["f1"]


def test_inputs_of_a_join_have_no_order_and_those_of_a_sequence_have() -> None:
    joins = QueryGraph([two("one", "join", "l", "r"), two("other", "join", "r", "l")])
    sequences = QueryGraph([two("one", "sequence", "l", "r"), two("other", "sequence", "r", "l")])
    assert joins.members("one")["x"] == joins.members("other")["x"]
    assert sequences.members("one")["x"] != sequences.members("other")["x"]


def test_another_window_is_another_operator() -> None:
    graph = QueryGraph([two("one", "join", "l", "r", 1.0), two("other", "join", "l", "r", 2.0)])
    assert graph.members("one")["x"] != graph.members("other")["x"]


def test_equal_operators_within_one_query_are_merged_too() -> None:
    operators = {
        "a": Operator("source", "tick"),
        "b": Operator("source", "tick"),
        "x": Operator("join", "self", ("a", "b")),
        "d": Operator("destination", "", ("x",)),
    }
    graph = QueryGraph([Query("q", operators)])
    assert len(graph.nodes) == 3
    assert graph.remove("q") == (0, 1, 2)


def test_removing_a_query_releases_what_nobody_else_needs() -> None:
    graph = QueryGraph([chain("one", "SAP"), chain("other", "SAP", "cheap")])
    own = {graph.members("other")["f1"], graph.members("other")["d"]}
    assert set(graph.remove("other")) == own
    assert canonical(graph) == canonical(QueryGraph([chain("one", "SAP")]))
    assert len(graph.remove("one")) == 3
    assert not graph.nodes


def test_the_same_operator_at_another_cost_is_refused_and_nothing_changes() -> None:
    graph = QueryGraph([chain("one", "SAP")])
    before = canonical(graph)
    other = Query(
        "other", dict(chain("x", "SAP").operators) | {"f0": Operator("filter", "SAP", ("s",), None, 9e-5, 0.5, 100)}
    )
    with pytest.raises(InputError, match=r"queries\.other\.operators\.f0\.cost = 0\.00009: must be 0\.00002"):
        graph.add(other)
    assert canonical(graph) == before
    with pytest.raises(InputError, match="is there already"):
        graph.add(chain("one"))
    with pytest.raises(InputError, match="did you mean one"):
        graph.remove("on")


def test_the_graph_for_drawing_is_a_copy_with_names_numbers_and_edges_the_way_of_tuples(tmp_path: Path) -> None:
    graph = QueryGraph([chain("gone", "SAP"), two("one", "join", "l", "r", 60.0), two("other", "sequence", "r", "n")])
    graph.remove("gone")
    made = graph.graph()
    assert list(made) == list(graph.nodes)
    assert {made.nodes[n]["name"]: [made.nodes[one]["name"] for one in made.predecessors(n)] for n in made} == {
        "one.a": [],
        "one.b": [],
        "one.x": ["one.a", "one.b"],
        "one.d": ["one.x"],
        "other.b": [],
        "other.x": ["one.b", "other.b"],
        "other.d": ["other.x"],
    }
    operator = {"kind": "join", "predicate": "on key", "cost_s": 0.0, "selectivity": 1.0, "tuple_bytes": 0.0}
    assert made.nodes[graph.members("one")["x"]] == {**operator, "name": "one.x", "queries": 1, "window_s": 60.0}
    assert made.nodes[graph.members("one")["b"]]["queries"] == 2
    nx.write_graphml(made, tmp_path / "queries.xml")
    again = nx.read_graphml(tmp_path / "queries.xml", node_type=int)
    assert dict(again.nodes(data=True)) == dict(made.nodes(data=True))
    made.clear()
    assert graph.graph().number_of_nodes() == 7


PREDICATES = st.lists(st.sampled_from("ab"), max_size=3)


@st.composite
def queries(draw: st.DrawFn) -> list[Query]:
    made = []
    for index in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            made.append(chain(f"q{index}", *draw(PREDICATES), stream=draw(st.sampled_from("st"))))
        else:
            kind = draw(st.sampled_from(["join", "sequence"]))
            made.append(two(f"q{index}", kind, *draw(st.permutations(["u", "v"]))))
    return made


def terms(made: Sequence[Query]) -> dict[object, set[str]]:
    """Each operator as a nested tuple down to its sources -> the queries that have it."""
    found: dict[object, set[str]] = {}
    for query in made:
        known: dict[str, object] = {}
        for name in query.order():
            one = query.operators[name]
            inputs = [known[each] for each in one.inputs]
            if one.kind == "join":
                inputs.sort(key=repr)
            own = (query.name, name) if one.kind == "destination" else ()
            known[name] = (one.kind, one.predicate, one.window_s, tuple(inputs), own)
            found.setdefault(known[name], set()).add(query.name)
    return found


@settings(max_examples=60, deadline=None)
@given(queries(), st.data())
def test_coming_and_going_in_any_order_equals_building_from_scratch(made: list[Query], data: st.DataObject) -> None:
    graph, running = QueryGraph(), {}
    for _ in range(data.draw(st.integers(1, 12))):
        query = data.draw(st.sampled_from(made))
        if query.name in running:
            graph.remove(query.name)
            del running[query.name]
        else:
            graph.add(query)
            running[query.name] = query
    fresh = QueryGraph(data.draw(st.permutations(list(running.values()))))
    assert canonical(graph) == canonical(fresh)
    expected = sorted(tuple(sorted(users)) for users in terms(list(running.values())).values())
    assert sorted(canonical(graph).values()) == expected
    table = table_of(graph)
    assert [sum(o in needed for needed in table.operators) for o in range(table.n_operators)] == table.degree().tolist()


# -- loads


def test_loads_are_those_of_the_papers_example() -> None:
    """S-F-A-D: r3 = sel(A) sel(F) r1, load = rate in x cost."""
    operators = {
        "s": Operator("source", "tick", cost_s=1e-5, tuple_bytes=80),
        "f": Operator("filter", "SAP", ("s",), None, 2e-5, 0.25, 80),
        "a": Operator("aggregation", "avg", ("f",), 600.0, 1e-4, 0.1, 40),
        "d": Operator("destination", "out", ("a",), cost_s=3e-5),
    }
    table = table_of(QueryGraph([Query("q", operators)]), {"tick": 100.0})
    r1 = 1000.0
    rates = table.rates({"tick": r1})
    assert table.load(rates).tolist() == pytest.approx([r1 * 1e-5, r1 * 2e-5, 250 * 1e-4, 25 * 3e-5], rel=1e-14)
    network = [r1 * 100 + r1 * 80, r1 * 80 + 250 * 80, 250 * 80 + 25 * 40, 25 * 40]
    assert table.network(rates).tolist() == pytest.approx(network, rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(queries(), st.lists(st.floats(0, 1e5), min_size=4, max_size=4))
def test_one_product_gives_what_following_the_tuples_gives(made: list[Query], given_rates: list[float]) -> None:
    graph = QueryGraph(made)
    table = table_of(graph)
    by_name = dict(zip("stuv", given_rates, strict=True))
    rates = table.rates({name: by_name[name] for name in table.streams})
    leaving: dict[int, float] = {}
    expected = []
    for number, node in graph.nodes.items():
        arriving = by_name[node.predicate] if node.kind == "source" else sum(leaving[one] for one in node.inputs)
        leaving[number] = arriving * node.selectivity
        expected.append(arriving * node.cost_s)
    np.testing.assert_allclose(table.load(rates), expected, rtol=1e-12)


def test_rates_have_to_be_known_and_finite() -> None:
    table = table_of(QueryGraph([chain("one")]))
    with pytest.raises(InputError, match=r"streams\.tick: is missing"):
        table.rates({})
    with pytest.raises(InputError, match="finite"):
        table.rates({"tick": -1.0})


# -- what is no query


def _refused(operators: dict[str, Operator], weight: float = 1.0) -> str:
    with pytest.raises(InputError) as caught:
        Query("q", operators, weight)
    return str(caught.value)


def plain_order(query: Query) -> list[str]:
    """Operators by how far they are from their sources, in rounds; of equal ones as the query has them."""
    level: dict[str, int] = {}
    while len(level) < len(query.operators):
        ready = [
            name
            for name, one in query.operators.items()
            if name not in level and all(before in level for before in one.inputs)
        ]
        for name in ready:
            level[name] = 1 + max((level[before] for before in query.operators[name].inputs), default=-1)
    return sorted(level, key=lambda name: level[name])


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_operators_come_level_by_level_and_within_a_level_as_the_query_has_them(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    operators = {"o0": Operator("source", "tick")}
    for k in range(1, n):
        before = st.sampled_from([f"o{j}" for j in range(k)])
        operators[f"o{k}"] = Operator("join", str(k), (data.draw(before), data.draw(before)))
    taken = {one for operator in operators.values() for one in operator.inputs}
    ends = {f"d{k}": Operator("destination", "", (one,)) for k, one in enumerate(sorted({*operators} - taken))}
    everything = list((operators | ends).items())
    query = Query("q", dict(data.draw(st.permutations(everything))))
    assert query.order() == plain_order(query)


def test_every_circle_is_named_operator_by_operator() -> None:
    def joined(*names: str) -> dict[str, Operator]:
        return {name: Operator("join", name, (names[k - 1], "s")) for k, name in enumerate(names)}

    circles = {"s": Operator("source", "tick"), **joined("a", "b", "c"), **joined("e"), **joined("y", "x")}
    said = _refused(circles | {"d": Operator("destination", "", ("c",)), "f": Operator("filter", "", ("a",))})
    for circle in ("a -> b -> c -> a", "e -> e", "y -> x -> y"):
        assert f"queries.q.operators = {circle}: must not feed each other in a circle" in said
    assert said.count("in a circle") == 3


def test_what_is_no_query_is_refused_with_every_fault() -> None:
    source, end = Operator("source", "tick"), Operator("destination", "", ("s",))
    assert "queries.q.operators: must have an operator" in _refused({})
    assert "queries.q.weight = -1" in _refused({"s": source, "d": end}, -1.0)
    assert "has no one to send its tuples to" in _refused({"s": source})
    lost = _refused({"s": source, "f": Operator("filter", "x", ("sx",)), "d": Operator("destination", "", ("f", "s"))})
    assert "queries.q.operators.f.inputs[0] = sx: is no operator (did you mean s?)" in lost
    assert "queries.q.operators.d.inputs = 2: of a destination must be 1" in lost
    circle = {"f": Operator("filter", "x", ("g",)), "g": Operator("filter", "y", ("f",))}
    assert "queries.q.operators = f -> g -> f: must not feed each other in a circle" in _refused(circle)
    assert "is a destination, which sends nothing on" in _refused(
        {"s": source, "d": end, "f": Operator("filter", "x", ("d",)), "e": Operator("destination", "", ("f",))}
    )
    assert "must be one of source" in _refused({"s": source, "d": Operator("sink", "", ("s",))})  # type: ignore[arg-type]
    assert "stream: is missing" in _refused({"s": Operator("source"), "d": end})
    assert "window = 5.0: is for aggregation, sequence, join" in _refused(
        {"s": source, "d": Operator("destination", "", ("s",), 5.0)}
    )
    assert "cost = -1.0: must be finite and not negative" in _refused(
        {"s": Operator("source", "tick", cost_s=-1.0), "d": end}
    )
