"""Which runs may not go on at once: the index says what a look at all pairs says."""

from __future__ import annotations

from random import Random

import networkx as nx
import pytest

from sim.migration.coordinator import Territories
from sim.migration.protocol import WHOLE, Territory


def meet(dataflow: nx.DiGraph[int], one: Territory, other: Territory) -> bool:
    """Whether two territories meet, pair by pair."""
    return any(
        (a == b and (g is WHOLE or h is WHOLE or g == h)) or dataflow.has_edge(a, b) or dataflow.has_edge(b, a)
        for a, g in one
        for b, h in other
    )


def drawn(draw: Random, operators: int) -> Territory:
    """One to three claims; key group g belongs to operator g modulo their number."""
    claims = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        operator = draw.randrange(operators)
        group = WHOLE if draw.random() < 0.2 else operator + operators * draw.randrange(3)
        claims.append((operator, group))
    return tuple(claims)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_says_what_all_pairs_say(seed: int) -> None:
    draw, operators = Random(seed), 6
    edges = [(a, b) for a in range(operators) for b in range(a + 1, operators) if draw.random() < 0.3]
    dataflow: nx.DiGraph[int] = nx.DiGraph(edges)
    dataflow.add_nodes_from(range(operators))
    index, there = Territories(dataflow), list[Territory]()
    seen = set()
    for _ in range(200):
        asked = drawn(draw, operators)
        seen.add(index.meet(asked))
        assert index.meet(asked) == any(meet(dataflow, asked, one) for one in there)
        if there and draw.random() < 0.5:
            index.remove(there.pop(draw.randrange(len(there))))
        elif len(there) < 4:
            index.add(asked)
            there.append(asked)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_may_begin_that_an_end_is_not_said_to_free(seed: int) -> None:
    draw, operators = Random(100 + seed), 5
    dataflow: nx.DiGraph[int] = nx.DiGraph([(0, 1), (1, 2), (3, 4)])
    said = set()
    for _ in range(200):
        claimed, waiting = Territories(dataflow), Territories(dataflow)
        runs = [drawn(draw, operators) for _ in range(draw.randint(1, 3))]
        blocked = [
            one for one in (drawn(draw, operators) for _ in range(4)) if any(meet(dataflow, one, r) for r in runs)
        ]
        for run in runs:
            claimed.add(run)
        for one in blocked:
            waiting.add(one)
        over = runs.pop()
        claimed.remove(over)
        said.add(claimed.frees(over, waiting))
        if not claimed.frees(over, waiting):
            assert all(any(meet(dataflow, one, run) for run in runs) for one in blocked)
    assert said == {True, False}
