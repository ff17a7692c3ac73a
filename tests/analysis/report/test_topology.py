"""Layers of the drawing of a dataflow, beside plain code."""

from __future__ import annotations

import random

import plain_graphs
import pytest

from analysis.report.content import Edge, OperatorBox, Topology
from analysis.report.topology import _layers, draw


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_layers_are_those_of_taking_away_again_and_again_what_waits_for_nothing(seed: int, cyclic: bool) -> None:
    draw = random.Random(seed)
    names = [f"o{index}" for index in range(8)]
    edges = [(a, b) for a in names for b in names if (cyclic or a < b) and draw.random() < 0.2]
    draw.shuffle(names)
    shown = Topology(tuple(OperatorBox(name, "map", 1) for name in names), tuple(Edge(a, b, "key") for a, b in edges))
    by_hand = plain_graphs.moved_to_readers(plain_graphs.layers(names, edges), names, edges)
    assert [sorted(layer) for layer in _layers(shown)] == [sorted(layer) for layer in by_hand]


def test_an_edge_to_an_operator_without_a_box_is_left_out() -> None:
    boxes = (OperatorBox("a", "source", 1), OperatorBox("b", "sink", 1))
    assert _layers(Topology(boxes, (Edge("a", "b", "key"), Edge("a", "x", "key")))) == [["a"], ["b"]]


@pytest.mark.parametrize("upright", [False, True])
def test_every_label_is_drawn_over_all_streams(upright: bool) -> None:
    boxes = tuple(OperatorBox(name, "map", 1) for name in "abcd")
    edges = tuple(Edge(one, two, "key", 140.0) for one, two in ("ac", "bd", "ad", "bc"))
    drawn = draw(Topology(boxes, edges), upright=upright)
    assert drawn.count('<path class="stream"') == drawn.count('class="rate"') == 4
    assert drawn.rindex('<path class="tip"') < drawn.index('text-anchor="')
