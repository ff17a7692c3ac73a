"""Graphs of a job as files: GraphML for networkx, Gephi or yEd, DOT for Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError
from scenarios.files.write_once import refuse_unwritable, write_file

if TYPE_CHECKING:
    import networkx as nx

SUFFIXES = (".graphml", ".dot")
_NOT_IN_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2; \r is read as \n
_SHAPES = {"host": "box3d", "group": "folder", "source": "invhouse", "sink": "house"}  # what is not an ellipse


def refuse_graph(path: Path | None, *, force: bool) -> None:
    """Raise InputError when the file of --graph could not be written, before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES and path != Path("-"):
        raise InputError.at("--graph", str(path), "must end in " + " or ".join(SUFFIXES))
    refuse_unwritable(path, force=force, option="--graph")


def write_graph(graph: nx.DiGraph[str], path: Path, *, force: bool = False) -> None:
    """Write a graph in the format that the suffix says; raises InputError for another suffix, and for a file there."""
    refuse_graph(path, force=force)
    if path.suffix.lower() == ".dot":
        content = "\n".join(dot_lines(graph)) + "\n"
        write_file(path, lambda file: file.write(content.encode(errors="backslashreplace")), force=force)
        return
    from networkx import write_graphml_xml  # noqa: PLC0415 - the writer that needs no lxml

    fit = _for_xml(graph)
    write_file(path, lambda file: write_graphml_xml(fit, file, prettyprint=True), force=force)


def _for_xml(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """Return a graph with characters that XML cannot hold as \\u0001; nodes with different names keep them different.

    For that a backslash is doubled, in graphs with such characters only.
    """
    import networkx as nx  # noqa: PLC0415

    parts = [graph.graph, *(own for _, own in graph.nodes(data=True)), *(own for _, _, own in graph.edges(data=True))]
    texts = (value for own in parts for value in own.values() if isinstance(value, str))
    if not any(_NOT_IN_XML.search(text) for text in (*graph, *texts)):
        return graph

    def fit(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return _NOT_IN_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", value.replace("\\", "\\\\"))

    def fits(described: Mapping[str, Any]) -> dict[str, Any]:
        return {key: fit(value) for key, value in described.items()}

    made: nx.DiGraph[str] = nx.DiGraph(**fits(graph.graph))
    made.add_nodes_from((fit(name), fits(own)) for name, own in graph.nodes(data=True))
    made.add_edges_from((fit(start), fit(end), fits(own)) for start, end, own in graph.edges(data=True))
    return made


def dot_lines(graph: nx.DiGraph[str]) -> Iterator[str]:
    """Yield the lines of a graph in DOT, with all attributes.

    The writers of networkx need pydot or pygraphviz, packages for the sake of a few lines of text.
    """
    yield f"digraph {_quoted(graph.graph.get('name') or 'job')} {{"
    yield "  rankdir=LR;"
    for name, described in graph.nodes(data=True):
        # Hosts and groups have a role, operators a kind.
        shape = _SHAPES.get(str(described.get("role", described.get("kind"))), "ellipse")
        shown = {"label": described.get("name", name), "shape": shape}
        yield f"  {_quoted(name)} [{_attributes({**shown, **described})}];"
    for start, end, described in graph.edges(data=True):
        shown = {"label": described["partitioning"]} if "partitioning" in described else {}
        if described.get("replica"):
            shown["style"] = "dashed"
        yield f"  {_quoted(start)} -> {_quoted(end)} [{_attributes({**shown, **described})}];"
    yield "}"


def _attributes(described: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_quoted(value)}" for key, value in described.items())


def _quoted(value: object) -> str:
    """Return a text of DOT: in double quotes always, so that no name is taken for a keyword such as `node`."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
