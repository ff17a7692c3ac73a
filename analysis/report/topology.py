"""The dataflow as an SVG drawing: boxes in layers, edges with how they partition and their rates.

The layout is that of Sugiyama, Tagawa and Toda (*Methods for Visual Understanding of Hierarchical System Structures*,
IEEE Transactions on Systems, Man, and Cybernetics 1981): layers by longest path, then the order within a layer by
barycentres. Jobs have few operators, so two passes are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import networkx as nx
from markupsafe import Markup

from analysis.report import text
from analysis.report.content import Edge, OperatorBox, Topology
from analysis.report.text import number_of

_BOX, _NARROW = (168, 66), (122, 80)  # width and height of a box, left to right, and top to bottom
_BESIDE, _BELOW = 104, 30  # gaps between layers and within a layer, left to right
_ROW, _COLUMN = 62, 12  # the same, top to bottom
_MARGIN = 8
_NAME, _SHORT, _LABEL = 17, 12, 14  # longest texts: names in boxes and in narrow ones, partitioning


@dataclass(frozen=True)
class _Place:
    x: float
    y: float


def draw(topology: Topology, *, upright: bool) -> Markup:
    """Return the SVG element; `upright` puts layers below each other, for narrow screens.

    The element has a `viewBox` and a label for screen readers, and needs no script. Names come from files: they are
    escaped, and cut to what a box has room for. Colours are those of the same operators in all figures of a page.
    """
    layers = _layers(topology)
    places, width, height = _places(layers, upright)
    boxes = {box.name: box for box in topology.operators}
    edges = [edge for edge in topology.edges if edge.source in places and edge.target in places]
    # No stream runs over the label of another: their outlines keep what is under them away from the letters.
    parts = [_stream(edge, places, upright) for edge in edges] + [_label(edge, places, upright) for edge in edges]
    colour = {box.name: number_of(place) for place, box in enumerate(topology.operators)}  # as in all figures
    parts += [_box(boxes[name], place, colour[name], upright) for name, place in places.items()]
    way = "upright" if upright else "level"
    said = f"Dataflow of {len(boxes)} operators and {len(topology.edges)} streams"
    return Markup(
        '<svg class="topology {}" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" style="--width:{:.0f}px" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(way, width, height, width, width, said, Markup("").join(parts))


def _layers(topology: Topology) -> list[list[str]]:
    """Return names by layer: behind all it reads from, and as close as that allows to those that read it.

    What is left of a cycle stands last.
    """
    place = {box.name: k for k, box in enumerate(topology.operators)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(place)
    graph.add_edges_from((one.source, one.target) for one in topology.edges if {one.source, one.target} <= place.keys())
    layers: list[list[str]] = []
    try:
        for generation in nx.topological_generations(graph):
            layers.append(sorted(generation, key=place.__getitem__))
    # Scenarios have no cycle; a page of somebody else's values shall still be drawn.
    except nx.NetworkXUnfeasible:
        placed = {name for layer in layers for name in layer}
        layers.append([name for name in place if name not in placed])
    return _moved_to_readers(layers, graph)


def _moved_to_readers(layers: list[list[str]], graph: nx.DiGraph[str]) -> list[list[str]]:
    """Return layers with each operator just before the first that reads it: longer edges would cross boxes."""
    depth = {name: k for k, layer in enumerate(layers) for name in layer}
    for layer in reversed(layers):
        for name in layer:
            depth[name] = max(depth[name], min((depth[reader] for reader in graph[name]), default=0) - 1)
    return _untangled([[name for name in graph if depth[name] == k] for k in range(len(layers))], graph)


def _untangled(layers: list[list[str]], graph: nx.DiGraph[str]) -> list[list[str]]:
    """Return each layer in the order of its connections: once backwards by readers, once forwards by inputs."""

    def sort(layer: list[str], neighbours: Mapping[str, Collection[str]]) -> None:
        place = {name: k for other in layers for k, name in enumerate(other)}
        mean = {
            name: sum(place[other] for other in neighbours[name]) / len(neighbours[name])
            if neighbours[name]
            else float(place[name])
            for name in layer
        }
        layer.sort(key=mean.__getitem__)

    for layer in reversed(layers):
        # Barycentres: the mean place of its neighbours. Two passes suffice for the few layers of a job.
        sort(layer, graph.succ)
    for layer in layers:
        sort(layer, graph.pred)
    return layers


def _places(layers: list[list[str]], upright: bool) -> tuple[dict[str, _Place], float, float]:
    """Name -> top left corner, each layer centred; width and height of the drawing."""
    wide, high = _NARROW if upright else _BOX
    along = (high + _ROW) if upright else (wide + _BESIDE)
    across = (wide + _COLUMN) if upright else (high + _BELOW)
    gap, depth = (_COLUMN, _ROW) if upright else (_BELOW, _BESIDE)
    widest = max((len(layer) for layer in layers), default=1) * across - gap
    places = {}
    for row, layer in enumerate(layers):
        begin = (widest - (len(layer) * across - gap)) / 2 + _MARGIN
        for column, name in enumerate(layer):
            one, other = _MARGIN + row * along, begin + column * across
            places[name] = _Place(other, one) if upright else _Place(one, other)
    length = max(len(layers), 1) * along - depth
    size = (widest, length) if upright else (length, widest)
    return places, size[0] + 2 * _MARGIN, size[1] + 2 * _MARGIN


def _box(box: OperatorBox, place: _Place, colour: int, upright: bool) -> Markup:
    """Return the box of an operator: name, kind, tasks and key groups, shortened to fit."""
    tasks = f"{box.parallelism} task" + ("s" if box.parallelism != 1 else "")
    groups = f"{box.key_groups} groups" if box.key_groups else ""
    wide, high = _NARROW if upright else _BOX
    longest = _SHORT if upright else _NAME
    third, fourth = (tasks, groups) if upright else (" · ".join(part for part in (tasks, groups) if part), "")
    return Markup(
        '<g class="box c{colour}" transform="translate({x:.1f},{y:.1f})"><title>{full}</title>'
        '<rect width="{w}" height="{h}" rx="9"/>'
        '<path class="band" d="M0 9a9 9 0 0 1 9-9v{h}a9 9 0 0 1-9-9z"/>'
        '<svg x="20" width="{inner}" height="{h}"><text class="name" y="24">{name}</text>'
        '<text class="kind" y="40">{kind_said}</text><text class="tasks" y="56">{third}</text>{fourth}</svg></g>'
    ).format(
        colour=colour,
        x=place.x,
        y=place.y,
        full=text.plain(box.name),
        w=wide,
        h=high,
        inner=wide - 24,
        name=text.clip(text.plain(box.name), longest),
        kind_said=text.clip(text.plain(box.kind), longest),
        third=third,
        fourth=Markup('<text class="tasks" y="72">{}</text>').format(fourth) if fourth else "",
    )


def _ends(edge: Edge, places: dict[str, _Place], upright: bool) -> tuple[_Place, _Place]:
    """Return where an edge leaves its source and where its tip touches its target."""
    source, target = places[edge.source], places[edge.target]
    wide, high = _NARROW if upright else _BOX
    if upright:
        return _Place(source.x + wide / 2, source.y + high), _Place(target.x + wide / 2, target.y - 5)
    return _Place(source.x + wide, source.y + high / 2), _Place(target.x - 5, target.y + high / 2)


def _stream(edge: Edge, places: dict[str, _Place], upright: bool) -> Markup:
    """Return an edge as a curve that leaves and enters boxes at right angles."""
    start, end = _ends(edge, places, upright)
    x1, y1, x2, y2 = start.x, start.y, end.x, end.y
    if upright:
        bend = max(abs(y2 - y1) / 2, 14)
        curve = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    else:
        bend = max(abs(x2 - x1) / 2, 14)
        curve = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return Markup('<g class="edge"><path class="stream" d="{}"/><path class="tip" d="{}"/></g>').format(
        curve, _tip(x2, y2, upright)
    )


def _label(edge: Edge, places: dict[str, _Place], upright: bool) -> Markup:
    """Return the text of an edge at its middle: partitioning, and the expected rate."""
    start, end = _ends(edge, places, upright)
    x, y = (start.x + end.x) / 2, (start.y + end.y) / 2
    at, anchor, shift = (_Place(x + 10, y), "start", 0.0) if upright else (_Place(x, y - 6), "middle", 2.0)
    return Markup(
        '<g class="edge said"><text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{said}</text>'
        '<text class="rate" x="{x:.1f}" y="{below:.1f}" text-anchor="{anchor}">{expected}</text></g>'
    ).format(
        x=at.x,
        y=at.y,
        anchor=anchor,
        said=text.clip(text.plain(edge.partitioning), _LABEL),
        below=at.y + 16 + shift,
        expected="" if edge.rate_per_s is None else text.rate(edge.rate_per_s),
    )


def _tip(x: float, y: float, upright: bool) -> str:
    """Return the path of an arrow tip that points along the layers."""
    if upright:
        return f"M{x - 5:.1f} {y - 3:.1f}L{x:.1f} {y + 5:.1f}L{x + 5:.1f} {y - 3:.1f}z"
    return f"M{x - 3:.1f} {y - 5:.1f}L{x + 5:.1f} {y:.1f}L{x - 3:.1f} {y + 5:.1f}z"
