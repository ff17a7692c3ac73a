"""What one failure breaks and how few break a query; oracles: all sets of failures, minimal and minimum cuts."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_availability import random_queries

from models.reliability.cuts import elements, query_cuts
from models.reliability.description import availability_from
from models.reliability.importance import fewest_down, single_points
from models.reliability.problem import graph_of
from models.reliability.queries import Failures, Queries

Groups = list[tuple[int, ...]]


@st.composite
def placed(draw: st.DrawFn) -> tuple[Queries, Groups]:
    """Queries on up to six hosts, in up to three domains that may share hosts."""
    n_hosts = draw(st.integers(1, 6))
    some_hosts = st.lists(st.integers(0, n_hosts - 1), min_size=1, max_size=4, unique=True)
    instances = draw(st.lists(some_hosts, min_size=1, max_size=4))
    needed = st.lists(st.integers(0, len(instances) - 1), min_size=1, max_size=3, unique=True)
    queries = Queries(
        n_hosts, tuple(map(tuple, instances)), tuple(map(tuple, draw(st.lists(needed, min_size=1, max_size=3))))
    )
    return queries, [tuple(group) for group in draw(st.lists(some_hosts, max_size=3))]


def breaking_sets(queries: Queries, groups: Groups, query: int) -> list[tuple[int, ...]]:
    """All sets of hosts and groups whose failure breaks a query, the smallest first."""
    n = queries.n_hosts
    found = []
    for k in range(n + len(groups) + 1):
        for failed in itertools.combinations(range(n + len(groups)), k):
            down = {one for one in failed if one < n}.union(*(groups[one - n] for one in failed if one >= n))
            if any(down.issuperset(queries.instances[op]) for op in queries.operators[query]):
                found.append(failed)
    return found


@given(placed())
@settings(max_examples=150, deadline=None)
def test_single_points_and_the_fewest_failures_are_those_of_all_sets(given: tuple[Queries, Groups]) -> None:
    queries, groups = given
    alone, fewest = single_points(queries, groups), fewest_down(queries, groups)
    cuts = query_cuts(queries, Failures(np.zeros((1, queries.n_hosts)), tuple(groups)))
    for query in range(queries.n_queries):
        sets = breaking_sets(queries, groups, query)
        assert alone[query] == tuple(one for (one,) in (each for each in sets if len(each) == 1))
        assert fewest[query] == len(sets[0])
        assert alone[query] == tuple(next(elements(cut)) for cut in cuts[query] if cut.bit_count() == 1)
        assert fewest[query] == cuts[query][0].bit_count()


@given(placed())
@settings(max_examples=60, deadline=None)
def test_of_domains_apart_the_fewest_failures_are_a_minimum_cut_of_the_graph(given: tuple[Queries, Groups]) -> None:
    queries, _ = given
    half = queries.n_hosts // 2
    groups = [tuple(range(half))] if half else []
    graph = queries.graph(groups)
    graph.add_edges_from([("power", f"domain {k}") for k in range(len(groups))])
    graph.add_edges_from([("power", f"host {host}") for host in range(half, queries.n_hosts)])

    def least(operator: int) -> int:
        within = graph.subgraph(
            [*(n for n in graph if n.split()[0] in ("power", "domain", "host")), f"operator {operator}"]
        )
        return len(nx.minimum_node_cut(within, "power", f"operator {operator}"))

    assert fewest_down(queries, groups) == [min(map(least, needed)) for needed in queries.operators]


def test_many_ways_to_fail_are_left_open_unless_two_failures_are_enough() -> None:
    """An operator on 10 hosts, each in two of 20 racks: 1024 ways; another needs two failures, a third one."""
    groups = [(host,) for host in range(10) for _ in range(2)]
    everywhere = tuple(range(10))
    queries = Queries(10, (everywhere, (0, 1), (2,), (0, 1, 2)), ((0,), (0, 1), (0, 1, 2), (0, 3)))
    assert fewest_down(queries, groups) == [None, 2, 1, None]
    assert fewest_down(queries) == [10, 2, 1, 3]
    racks_and_feeds = [tuple(range(k, 10, 4)) for k in range(4)] + [tuple(range(5 * k, 5 * k + 5)) for k in range(2)]
    assert fewest_down(queries, racks_and_feeds) == [2, 1, 1, 1]


def test_the_graph_of_a_file_has_its_names_and_goes_into_a_file(tmp_path) -> None:
    description = availability_from(
        {
            "hosts": {"1": {"mttf": "9 d", "mttr": "1 h"}, "0": {}},
            "p": 0.01,
            "operators": {"x": ["0", "1"], "y": ["1"]},
            "queries": {"x": {"operators": ["x"], "weight": 3}, "both": ["x", "y"]},
            "domains": {"rack": {"hosts": ["1"], "p": 0.5}},
        }
    )
    graph = graph_of(description)
    assert graph.nodes["host 1"] == {"kind": "host", "index": 0, "mttf_s": 777_600.0, "mttr_s": 3600.0}
    assert graph.nodes["domain rack"]["p"] == 0.5
    assert graph.nodes["query x"]["weight"] == 3.0
    assert {(a, b): d for a, b, d in graph.edges(data="instance")} == {
        ("domain rack", "host 1"): None,
        ("host 0", "operator x"): 0,
        ("host 1", "operator x"): 1,
        ("host 1", "operator y"): 0,
        ("operator x", "query x"): None,
        ("operator x", "query both"): None,
        ("operator y", "query both"): None,
    }
    assert nx.descendants(graph, "domain rack") == {"host 1", "operator x", "operator y", "query x", "query both"}
    nx.write_graphml(graph, tmp_path / "graph.xml")
    again = nx.read_graphml(tmp_path / "graph.xml")
    assert dict(again.nodes(data=True)) == dict(graph.nodes(data=True))
    assert set(again.edges) == set(graph.edges)


def test_without_domains_the_operator_with_fewest_instances_decides() -> None:
    queries = random_queries(np.random.default_rng(1), 200, 500)
    sizes = [len(hosts) for hosts in queries.instances]
    assert fewest_down(queries) == [min(sizes[op] for op in needed) for needed in queries.operators]
