"""Dataflows of tiny jobs: a chain, and shapes in which streams part, meet, or pass operators without keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KEYED, UNKEYED, JOIN, SOURCE, SINK = "keyed", "unkeyed", "join", "source", "sink"
WINDOW = "window"  # a keyed operator whose outputs follow from all tuples of a key in a window
MOVABLE = (KEYED, JOIN)
CHAIN = "chain"


@dataclass(frozen=True)
class Node:
    """One operator: its kind, and the operators that send to it."""

    kind: str
    inputs: tuple[str, ...] = ()
    forward: bool = False  # each task reads from one of each operator upstream


Dataflow = Mapping[str, Node]  # sources first, sinks last, each operator behind those that send to it


def chain(stages: int) -> Dataflow:
    """Return one source, so many keyed operators in a row, and a sink."""
    names = ["in", *(f"stage{k}" for k in range(stages))]
    middle = {name: Node(KEYED, (names[k],)) for k, name in enumerate(names[1:])}
    return {"in": Node(SOURCE), **middle, "out": Node(SINK, (names[-1],))}


SHAPES: dict[str, Dataflow] = {
    # Each tuple goes to two operators, and from each of them to a sink of its own.
    "fan_out": {
        "in": Node(SOURCE),
        "split": Node(KEYED, ("in",)),
        "left": Node(KEYED, ("split",)),
        "right": Node(KEYED, ("split",)),
        "out_left": Node(SINK, ("left",)),
        "out_right": Node(SINK, ("right",)),
    },
    # The two streams meet again: their key groups have two operators upstream.
    "diamond": {
        "in": Node(SOURCE),
        "split": Node(KEYED, ("in",)),
        "left": Node(KEYED, ("split",)),
        "right": Node(KEYED, ("split",)),
        "meet": Node(KEYED, ("left", "right")),
        "out": Node(SINK, ("meet",)),
    },
    # A key group that a source sends to directly, and another source through an operator.
    "fan_in": {
        "in": Node(SOURCE),
        "other": Node(SOURCE),
        "left": Node(KEYED, ("in",)),
        "meet": Node(KEYED, ("left", "other")),
        "out": Node(SINK, ("meet",)),
    },
    # A source that sends to two operators, one of which has no keys; they meet at a sink.
    "mixed": {
        "in": Node(SOURCE),
        "keyed": Node(KEYED, ("in",)),
        "free": Node(UNKEYED, ("in",)),
        "out": Node(SINK, ("keyed", "free")),
    },
    # Operators without keys on both sides of one that moves.
    "unkeyed": {
        "in": Node(SOURCE),
        "before": Node(UNKEYED, ("in",)),
        "keyed": Node(KEYED, ("before",)),
        "after": Node(UNKEYED, ("keyed",)),
        "out": Node(SINK, ("after",)),
    },
    # The smallest join.
    "join": {
        "in": Node(SOURCE),
        "other": Node(SOURCE),
        "pairs": Node(JOIN, ("in", "other")),
        "out": Node(SINK, ("pairs",)),
    },
    # A join between key groups that move as well.
    "join_between": {
        "in": Node(SOURCE),
        "other": Node(SOURCE),
        "left": Node(KEYED, ("in",)),
        "pairs": Node(JOIN, ("left", "other")),
        "after": Node(KEYED, ("pairs",)),
        "out": Node(SINK, ("after",)),
    },
}
"""All shapes but the chain, whose length a job states."""

REGIONS: dict[str, Dataflow] = {
    # As many failover regions as sources have tasks.
    "lanes": {
        "in": Node(SOURCE),
        "before": Node(UNKEYED, ("in",), forward=True),
        "after": Node(UNKEYED, ("before",), forward=True),
        "out": Node(SINK, ("after",), forward=True),
    },
    # A region that has key groups, and the lanes of another source.
    "apart": {
        "in": Node(SOURCE),
        "other": Node(SOURCE),
        "keyed": Node(KEYED, ("in",)),
        "lane": Node(UNKEYED, ("other",), forward=True),
        "out": Node(SINK, ("keyed",)),
        "out_lane": Node(SINK, ("lane",), forward=True),
    },
}
"""Shapes with parts that are not connected: a failure of one leaves the others as they are."""


WINDOWED: dict[str, Dataflow] = {
    "windows": {
        "in": Node(SOURCE),
        "counts": Node(WINDOW, ("in",)),
        "out": Node(SINK, ("counts",)),
    },
    # Watermarks pass an operator without windows, and what ends goes on to another one.
    "windows_between": {
        "in": Node(SOURCE),
        "before": Node(KEYED, ("in",)),
        "counts": Node(WINDOW, ("before",)),
        "after": Node(KEYED, ("counts",)),
        "out": Node(SINK, ("after",)),
    },
    # Windows of what follows from windows.
    "windows_twice": {
        "in": Node(SOURCE),
        "counts": Node(WINDOW, ("in",)),
        "sums": Node(WINDOW, ("counts",)),
        "out": Node(SINK, ("sums",)),
    },
    # A stream whose event time is that of two, one of which comes over an operator more.
    "windows_of_two": {
        "in": Node(SOURCE),
        "other": Node(SOURCE),
        "left": Node(UNKEYED, ("in",)),
        "counts": Node(WINDOW, ("left", "other")),
        "out": Node(SINK, ("counts",)),
    },
}
"""Shapes with windows that end."""


def smaller_shapes(shape: str) -> list[str]:
    """Return the shapes with fewer operators, the smallest first."""
    smaller = [other for other in SHAPES if len(SHAPES[other]) < len(SHAPES[shape])]
    return sorted(smaller, key=lambda other: len(SHAPES[other]))


def dataflow(shape: str, stages: int) -> Dataflow:
    """Return the operators of a shape; `stages` is the length of a chain."""
    return chain(stages) if shape == CHAIN else (SHAPES | REGIONS | WINDOWED)[shape]
