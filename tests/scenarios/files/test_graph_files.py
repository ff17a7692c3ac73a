"""Graphs of a job in files: all of it comes back from GraphML, and DOT is what its grammar allows."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import pytest

from models.errors import InputError
from models.topology.job_graph import GRAPHS, graph_of
from scenarios.files.graphs import dot_lines, write_graph
from scenarios.files.scenario import path_of, read_scenario

_ID = r'"(?:[^"\\]|\\.)*"'  # a quoted name of DOT
_LIST = rf"\[(?:\w+={_ID}(?:, \w+={_ID})*)?\]"
_LINE = re.compile(rf"  (?:({_ID})|({_ID}) -> ({_ID})) {_LIST};")


@pytest.fixture(params=list(GRAPHS))
def graph(request: pytest.FixtureRequest) -> nx.DiGraph:
    return graph_of(read_scenario(path_of("word-count")).scenario, request.param)


def test_graphml_holds_the_whole_graph(graph: nx.DiGraph, tmp_path: Path) -> None:
    write_graph(graph, tmp_path / "job.graphml")
    read = nx.read_graphml(tmp_path / "job.graphml")
    assert dict(read.nodes(data=True)) == dict(graph.nodes(data=True))
    assert {edge[:2]: edge[2] for edge in read.edges(data=True)} == {e[:2]: e[2] for e in graph.edges(data=True)}
    assert read.graph["name"] == graph.graph["name"]


def test_graphml_escapes_what_xml_cannot_hold_and_keeps_names_apart(tmp_path: Path) -> None:
    graph = nx.DiGraph(name="esc \x1b and \ufffe")
    graph.add_edge("a\x01", "a\\u0001", partitioning="\x00\ud800\r")
    graph.add_node("ä\t\n\U0001f600", kind="map", parallelism=2)
    write_graph(graph, tmp_path / "job.graphml")
    read = nx.read_graphml(tmp_path / "job.graphml")
    assert read.graph["name"] == "esc \\u001b and \\ufffe"
    assert list(read.edges(data=True)) == [("a\\u0001", "a\\\\u0001", {"partitioning": "\\u0000\\ud800\\u000d"})]
    assert read.nodes["ä\t\n\U0001f600"] == {"kind": "map", "parallelism": 2}


def test_suffixes_in_capitals_are_the_same_formats(graph: nx.DiGraph, tmp_path: Path) -> None:
    for small, large in (("job.dot", "LARGE.DOT"), ("job.graphml", "LARGE.GraphML")):
        write_graph(graph, tmp_path / small)
        write_graph(graph, tmp_path / large)
        assert (tmp_path / large).read_bytes() == (tmp_path / small).read_bytes()


def test_dot_has_a_line_for_each_node_and_edge(graph: nx.DiGraph, tmp_path: Path) -> None:
    write_graph(graph, tmp_path / "job.dot")
    first, direction, *lines, last = (tmp_path / "job.dot").read_text().splitlines()
    assert re.fullmatch(rf"digraph {_ID} \{{", first) and direction == "  rankdir=LR;" and last == "}"
    matches = [_LINE.fullmatch(line) for line in lines]
    assert all(matches)
    found = [tuple(name.strip('"') for name in match.groups() if name) for match in matches if match]
    assert [one for one in found if len(one) == 1] == [(name,) for name in graph]
    assert [one for one in found if len(one) == 2] == list(graph.edges)


def test_quotes_backslashes_and_keywords_are_quoted_in_dot() -> None:
    graph = nx.DiGraph(name='a "job" \\ of\ntwo lines')
    graph.add_node("node", kind="map")
    assert list(dot_lines(graph)) == [
        'digraph "a \\"job\\" \\\\ of\\ntwo lines" {',
        "  rankdir=LR;",
        '  "node" [label="node", shape="ellipse", kind="map"];',
        "}",
    ]


def test_a_file_that_is_there_stays_and_another_suffix_is_refused(graph: nx.DiGraph, tmp_path: Path) -> None:
    there = tmp_path / "job.dot"
    there.write_text("mine")
    with pytest.raises(InputError, match="exists"):
        write_graph(graph, there)
    assert there.read_text() == "mine"
    write_graph(graph, there, force=True)
    assert there.read_text().startswith("digraph")
    with pytest.raises(InputError, match=r"must end in \.graphml or \.dot"):
        write_graph(graph, tmp_path / "job.png")
    assert [one.name for one in tmp_path.iterdir()] == ["job.dot"]
