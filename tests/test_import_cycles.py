"""No module imports itself in a circle, imports inside functions and for types included."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent
PACKAGES = ("holdfast", "models", "sim", "optimizer", "analysis", "scenarios")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def import_graph(sources: dict[str, str]) -> nx.DiGraph[str]:
    """The imports between modules, from their texts: an edge from each module to those that it imports."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(sources)
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            named: list[str] = []
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                named = [one if one in sources else node.module for one in inner]
            graph.add_edges_from((module, one) for one in named if one in sources)
    return graph


def circles(graph: nx.DiGraph[str]) -> list[list[str]]:
    """The modules of each circle, by name; a module that imports itself is one."""
    found = nx.strongly_connected_components(graph)
    return [sorted(one) for one in found if len(one) > 1 or any(graph.has_edge(name, name) for name in one)]


def test_no_module_imports_itself_in_a_circle() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert circles(import_graph({_name(path): path.read_text() for path in paths})) == []


def test_a_circle_of_types_inside_a_function_or_of_a_package_is_found() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.two import Two\n"
    inside = "def f():\n    import a.one\n"
    assert circles(import_graph({"a": "", "a.one": typed, "a.two": inside})) == [["a.one", "a.two"]]
    assert circles(import_graph({"a": "from a import one\n", "a.one": "import a\n"})) == [["a", "a.one"]]
    assert circles(import_graph({"a": "def f():\n    from a import one\n"})) == [["a"]]
